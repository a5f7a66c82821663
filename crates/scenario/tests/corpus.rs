//! What fuzzing starts from, and what it has found: `fuzz/seeds/scenario`, replayed.

use std::fs;
use std::path::PathBuf;

use paceline_scenario::Scenario;

/// Every file, by name.
fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/scenario");
    let entries = fs::read_dir(folder).expect("the corpus");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() > 5);
    let read = |path: PathBuf| {
        let octets = fs::read(&path).expect("a file");
        (path, octets)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn what_is_read_is_written_and_read_again() {
    let mut read = 0;
    for (path, octets) in corpus() {
        let text = String::from_utf8_lossy(&octets);
        match Scenario::parse(&text, "corpus.toml", &[]) {
            Ok(scenario) => {
                read += 1;
                let again = Scenario::parse(&scenario.to_toml(), "corpus.toml", &[]);
                assert_eq!(again.as_ref(), Ok(&scenario), "{}", path.display());
            }
            Err(problems) => assert!(!problems.is_empty(), "{}", path.display()),
        }
    }
    assert!(read >= 6, "{read}");
}
