use super::*;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// A folder with these files, each containing its folder's name.
fn folder(parent: &Path, name: &str, files: &[&str]) -> PathBuf {
    let path = parent.join(name);
    fs::create_dir(&path).unwrap();
    for file in files {
        fs::write(path.join(file), name).unwrap();
    }
    path
}

#[test]
fn only_a_name_that_is_ours_is_beside() {
    assert_eq!(place_of(".run-7.partial-12-0"), Some("run-7"));
    assert_eq!(place_of(".run.partial-12-0.old"), Some("run"));
    assert_eq!(
        place_of(".a.partial-1-1.partial-2-2"),
        Some("a.partial-1-1")
    );
    for other in [
        "run.partial-1-0",
        ".run.partial-1",
        ".run.partial-1-",
        ".run.partial--1",
        ".run.partial-1-0.new",
        ".run.partial-a-0",
        ".run",
    ] {
        assert_eq!(place_of(other), None, "{other}");
    }
}

/// Files of live processes stay, remains of dead ones are removed, whatever their final name.
#[cfg(unix)]
#[test]
fn only_what_the_dead_have_left_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path();
    let alive = Beside::new(parent, OsStr::new("run")).unwrap();
    folder(parent, ".run.partial-0-0", &["run.json", "samples.parquet"]);
    folder(parent, ".other.partial-0-0", &[]);
    folder(parent, "thesis", &["run.json"]);
    std::os::unix::fs::symlink(parent.join("thesis"), parent.join(".run.partial-0-1")).unwrap();
    tidy(parent);
    let left = alive.path().file_name().unwrap().to_str().unwrap();
    let mut kept = [left, ".run.partial-0-1", "thesis"];
    kept.sort_unstable();
    assert_eq!(names(parent), kept);
    assert_eq!(names(&parent.join("thesis")), ["run.json"]);
    drop(alive);
    tidy(parent);
    assert_eq!(names(parent), [".run.partial-0-1", "thesis"]);
}

/// Killed between the exchange and the end: the old run is under the temporary name, with what
/// someone put into it.
#[cfg(unix)]
#[test]
fn what_someone_put_into_an_old_run_is_never_lost() {
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path();
    let run = folder(parent, "run", &["run.json", "both.txt"]);
    let files = ["run.json", "both.txt", "notes.txt"];
    let old = folder(parent, ".run.partial-0-0", &files);
    let no_place = folder(parent, ".gone.partial-0-0", &files);
    tidy(parent);
    assert_eq!(names(&run), ["both.txt", "notes.txt", "run.json"]);
    let text = |path: PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(text(run.join("both.txt")), "run");
    assert_eq!(text(run.join("run.json")), "run");
    assert_eq!(names(&old), ["both.txt"]);
    assert_eq!(names(&no_place), ["both.txt", "notes.txt"]);
}

#[test]
fn a_new_run_takes_the_place_of_an_old_one() {
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path();
    let place = folder(parent, "run", &["run.json", "notes.txt"]);
    for seed in ["1", "2"] {
        let beside = Beside::new(parent, OsStr::new("run")).unwrap();
        fs::write(beside.path().join("run.json"), seed).unwrap();
        beside.put(&place).unwrap();
        assert_eq!(fs::read_to_string(place.join("run.json")).unwrap(), seed);
        assert_eq!(fs::read_to_string(place.join("notes.txt")).unwrap(), "run");
        assert_eq!(names(parent), ["run"]);
    }
}

/// Where folders cannot be exchanged.
#[test]
fn in_steps_the_old_run_is_aside_and_comes_back_if_the_process_is_killed() {
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path();
    let place = folder(parent, "run", &["run.json"]);
    let new = folder(parent, ".run.partial-0-0", &["run.json"]);
    let aside = exchange_in_steps(&new, &place).unwrap();
    let text = |dir: &Path| fs::read_to_string(dir.join("run.json")).unwrap();
    assert_eq!(
        (text(&place), text(&aside)),
        (".run.partial-0-0".into(), "run".into())
    );
    if cfg!(unix) {
        // Killed after the first step.
        fs::rename(&place, parent.join(".run.partial-0-0")).unwrap();
        tidy(parent);
        assert_eq!(names(parent), ["run"]);
        assert_eq!(text(&place), "run");
    }
}
