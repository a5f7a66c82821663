//! Draws scenarios and judges them: `paceline-soak --count 10000`. `make soak` runs it.

mod bend;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use paceline_soak::{Budget, Draft, Judged, Schema, Watch, draw, judge, shrink};

/// The command line.
const USAGE: &str =
    "paceline-soak [--seed N] [--count N] [--threads N] [--work N] [--out DIR] [--keep | --emulated]
paceline-soak --file FILE               judges one scenario
paceline-soak --bend READER [--seed N] [--count N] [--threads N] [--out DIR]";

/// A run that takes longer than this, whatever its budget, is considered endless: on a busy machine
/// a run may wait for minutes.
const HANG: Duration = Duration::from_secs(600);

struct Arguments {
    seed: u64,
    count: u64,
    threads: usize,
    budget: Budget,
    out: PathBuf,
    emulated: bool,
    /// Whether each judged scenario is written, as `SEED.toml`.
    keep: bool,
    file: Option<PathBuf>,
    bend: Option<String>,
}

fn arguments() -> Option<Arguments> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut arguments = Arguments {
        seed: now.as_secs() * 1_000_000,
        count: 100,
        threads: thread::available_parallelism().map_or(1, usize::from),
        budget: Budget {
            work: 300_000,
            wanted: 50_000,
            rows: 100_000,
        },
        out: "target/soak".into(),
        emulated: false,
        keep: false,
        file: None,
        bend: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        if name == "--emulated" {
            arguments.emulated = true;
            continue;
        }
        if name == "--keep" {
            arguments.keep = true;
            continue;
        }
        let value = given.next()?;
        match name.as_str() {
            "--seed" => arguments.seed = value.parse().ok()?,
            "--count" => arguments.count = value.parse().ok()?,
            "--threads" => arguments.threads = value.parse().ok().filter(|count| *count > 0)?,
            "--work" => arguments.budget.work = value.parse().ok()?,
            "--out" => arguments.out = value.into(),
            "--bend" => arguments.bend = Some(value),
            "--file" => arguments.file = Some(value.into()),
            _ => return None,
        }
    }
    Some(arguments)
}

/// The problem with a draft; a panic counts as one.
fn wrong_with(
    schema: &Schema,
    draft: &mut Draft,
    folder: &Path,
    budget: Budget,
) -> Result<Option<Judged>, String> {
    catch_unwind(AssertUnwindSafe(|| judge(schema, draft, folder, budget))).unwrap_or_else(
        |panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            Err(format!("panic: {}", text.unwrap_or("without a message")))
        },
    )
}

/// State shared by all threads.
struct Shared {
    next: AtomicU64,
    /// Events and packets of each judged scenario.
    judged: Mutex<Vec<u64>>,
    unaffordable: AtomicU64,
    digest: AtomicU64,
    failed: AtomicUsize,
    watch: Watch,
}

fn work(number: usize, schema: &Schema, arguments: &Arguments, shared: &Shared) {
    let folder = arguments.out.join(format!("thread-{number}"));
    let watched = shared.watch.thread(number);
    loop {
        let nth = shared.next.fetch_add(1, Ordering::Relaxed);
        if nth >= arguments.count {
            return;
        }
        let seed = arguments.seed.wrapping_add(nth);
        watched.begin(seed);
        let drawn = catch_unwind(|| draw(schema, seed, paceline_simulator::check));
        let Ok(Some(mut draft)) = drawn else {
            shared.unaffordable.fetch_add(1, Ordering::Relaxed);
            if drawn.is_err() {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                println!("seed {seed}: the reader panics; --seed {seed} --count 1 repeats it");
            }
            continue;
        };
        match wrong_with(schema, &mut draft, &folder, arguments.budget) {
            Ok(Some(judged)) => {
                let file = arguments.out.join(format!("{seed}.toml"));
                if arguments.keep
                    && let Err(error) = fs::write(&file, draft.text())
                {
                    shared.failed.fetch_add(1, Ordering::Relaxed);
                    println!("cannot write {}: {error}", file.display());
                }
                shared
                    .judged
                    .lock()
                    .expect("no thread panics")
                    .push(judged.work);
                shared
                    .digest
                    .fetch_xor(judged.digest.rotate_left(nth as u32), Ordering::Relaxed);
            }
            Ok(None) => {
                shared.unaffordable.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                report(schema, &draft, seed, &error, &folder, arguments);
            }
        }
    }
}

/// Writes a failing scenario, and a smaller one that fails in the same way.
fn report(
    schema: &Schema,
    draft: &Draft,
    seed: u64,
    error: &str,
    folder: &Path,
    arguments: &Arguments,
) {
    let alike = |text: &str| {
        text.chars()
            .filter(|c| !c.is_ascii_digit())
            .take(40)
            .collect::<String>()
    };
    let smaller = shrink(draft, 200, |tried| {
        let again = wrong_with(schema, &mut tried.clone(), folder, arguments.budget);
        again.is_err_and(|again| alike(&again) == alike(error))
    });
    let file = arguments.out.join(format!("{seed}.toml"));
    let head: String = error.lines().map(|line| format!("# {line}\n")).collect();
    if let Err(error) = fs::write(&file, head + &smaller.text()) {
        println!("cannot write {}: {error}", file.display());
    }
    println!(
        "seed {seed}: {error}\n  {} is smaller and fails alike; --seed {seed} --count 1 repeats it, --file judges the file",
        file.display()
    );
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    if let Err(error) = fs::create_dir_all(&arguments.out) {
        eprintln!("error: {}: {error}", arguments.out.display());
        return ExitCode::from(2);
    }
    if let Some(reader) = &arguments.bend {
        return bent(reader, &arguments);
    }
    let schema = Schema::new();
    if let Some(file) = &arguments.file {
        return one(&schema, file, &arguments);
    }
    println!(
        "scenarios from seed {} on, {} of them, {} threads",
        arguments.seed, arguments.count, arguments.threads
    );
    if arguments.emulated {
        return emulated(&schema, &arguments);
    }
    let shared = Shared {
        next: AtomicU64::new(0),
        judged: Mutex::new(Vec::new()),
        unaffordable: AtomicU64::new(0),
        digest: AtomicU64::new(0),
        failed: AtomicUsize::new(0),
        watch: Watch::new(arguments.threads),
    };
    std::panic::set_hook(Box::new(|_| {}));
    thread::scope(|scope| {
        for number in 0..arguments.threads {
            let (schema, arguments, shared) = (&schema, &arguments, &shared);
            scope.spawn(move || work(number, schema, arguments, shared));
        }
        shared.watch.guard(HANG);
    });
    let failed = shared.failed.into_inner();
    let mut works = shared.judged.into_inner().expect("no thread panics");
    works.sort_unstable();
    println!(
        "{} judged, {} beyond the budget; {} events and packets, {} and more in half of them; {failed} failed; digest {:016x}",
        works.len(),
        shared.unaffordable.into_inner(),
        works.iter().sum::<u64>(),
        works.get(works.len() / 2).unwrap_or(&0),
        shared.digest.into_inner(),
    );
    ExitCode::from(u8::from(failed > 0))
}

/// Gives a reader corrupted inputs.
fn bent(reader: &str, arguments: &Arguments) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let Arguments {
        seed,
        count,
        threads,
        out,
        ..
    } = arguments;
    match bend::bend(reader, *seed, *count, *threads, out) {
        Ok(panics) => {
            println!("{count} inputs from seed {seed} on, {panics} made it panic");
            ExitCode::from(u8::from(panics > 0))
        }
        Err(error) => {
            eprintln!(
                "error: {error}; the readers are {}",
                bend::names().join(", ")
            );
            ExitCode::from(2)
        }
    }
}

/// Judges one scenario.
fn one(schema: &Schema, file: &Path, arguments: &Arguments) -> ExitCode {
    let draft = fs::read_to_string(file).map_err(|error| error.to_string());
    let draft = draft.and_then(|text| Draft::of(&text));
    let judged = draft.and_then(|mut draft| {
        judge(
            schema,
            &mut draft,
            &arguments.out.join("one"),
            arguments.budget,
        )
    });
    match judged {
        Ok(Some(judged)) => println!("{judged:?}"),
        Ok(None) => println!("beyond the budget"),
        Err(error) => {
            println!("{error}");
            return ExitCode::from(1);
        }
    }
    ExitCode::SUCCESS
}

/// Runs scenarios of one second in real time, one after the other.
#[cfg(target_os = "linux")]
fn emulated(schema: &Schema, arguments: &Arguments) -> ExitCode {
    use paceline_emulator::{Emulator, controllers};
    use paceline_experiment::{Backend, Guests, RunError, Watch};
    use paceline_scenario::Scenario;
    use paceline_soak::{draw_emulated, sane_emulated};
    let known = controllers();
    let (mut judged, mut failed) = (0, 0);
    for nth in 0..arguments.count {
        let seed = arguments.seed.wrapping_add(nth);
        let wrong = |scenario: &Scenario| {
            let groups = scenario.flows.iter().enumerate();
            let lacking = groups.filter(|(_, group)| !known.contains(&group.cc.name));
            let messages = lacking.map(|(nth, _)| {
                scenario.diagnostic(
                    &format!("flows[{nth}].cc"),
                    "the kernel has no such thing",
                    None,
                )
            });
            Emulator
                .check(scenario, &Guests::none())
                .into_iter()
                .chain(messages)
                .collect()
        };
        let Some(draft) = draw_emulated(schema, seed, &known, wrong) else {
            continue;
        };
        let scenario = draft.read("drawn.toml").expect("it has been read");
        let error = match Emulator.run(&scenario, &Guests::none(), seed, &mut Watch::none()) {
            Ok((run, _)) => sane_emulated(&run).err(),
            Err(RunError::Unavailable(lacks)) => {
                println!("{lacks}");
                return ExitCode::from(127);
            }
            Err(error) => Some(error.to_string()),
        };
        judged += 1;
        if let Some(error) = error {
            failed += 1;
            let file = arguments.out.join(format!("emulated-{seed}.toml"));
            let _ = fs::write(&file, draft.text());
            println!(
                "seed {seed}: {error}\n  {} is what fails; --emulated --seed {seed} --count 1 repeats it",
                file.display()
            );
        }
    }
    println!("{judged} emulated, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

#[cfg(not(target_os = "linux"))]
fn emulated(_: &Schema, _: &Arguments) -> ExitCode {
    println!("the emulator needs Linux");
    ExitCode::from(127)
}
