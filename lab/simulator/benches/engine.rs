//! Speed of the engine: packets per CPU second and peak memory on the workloads
//! of `docs/performance.md`. Prints a table; asserts nothing.
//!
//! `cargo bench -p paceline-simulator` runs all workloads, `-- W2` those whose name contains W2,
//! `-- --seeds` also 200 seeds of W2 on all cores.
//!
//! `-- --once 'W1 reno' 5` runs one for 5 s of virtual time and prints its packets:
//! `benches/instructions` counts its cost. `-- --write DIR` writes a set of runs, with every
//! controller; a change that only makes the engine faster leaves every byte of them unchanged
//! (`sha256sum DIR/*/*`). `-- --write DIR SCENARIOS` writes those of the files in a folder instead.
//!
//! `-- --sizes` prints the cost of a packet and the memory of the process for different numbers of
//! flows, rates, RTTs and durations, each point in its own process.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use paceline_congestion::controllers;
use paceline_experiment::Progress;
use paceline_record::Run;
use paceline_scenario::Scenario;

/// Number of repetitions of a measurement; the median is shown.
const REPEATS: u64 = 5;

fn parse(text: &str) -> Scenario {
    paceline_experiment::parse(text, "bench.toml", &[]).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

/// Flows over one link of 40 ms and a BDP; `more` is the rest of the path.
fn bottleneck(cc: &str, flows: &str, rate: &str, more: &str, run: &str) -> Scenario {
    parse(&format!(
        "schema = 1\n[run]\n{run}\n[path]\nrate = \"{rate}\"\nrtt = \"40 ms\"\n\
         queue.size = \"1 bdp\"\n{more}\n{}",
        flows.replace("CC", cc)
    ))
}

/// Two hosts of this many flows each, one switch port of 50 Gbit/s, 84 us, step marking.
fn lab(cc: &str, count: u32, run: &str) -> Scenario {
    let nic = |host: u32| {
        format!(
            "[[links]]\nname = \"nic{host}\"\nrate = \"100 Gbit/s\"\nqueue.size = \"100 MB\"\n\
             [[flows]]\ncc = \"{cc}\"\ncount = {count}\nstart_jitter = \"1 ms\"\n\
             route = [\"nic{host}\", \"switch\"]\nrecovery.min_rto = \"10 ms\"\n"
        )
    };
    parse(&format!(
        "schema = 1\n[run]\n{run}\n[path]\nname = \"switch\"\n\
         rate = \"50 Gbit/s\"\nrtt = \"84 us\"\n\
         queue = {{ size = \"10000 packets\", mark = {{ threshold = \"200 packets\" }} }}\n{}{}",
        nic(1),
        nic(2)
    ))
}

const ONE: &str = "[[flows]]\ncc = \"CC\"\n";
const FOUR: &str =
    "[[flows]]\ncc = \"CC\"\ncount = 2\n[[flows]]\ncc = \"CC\"\ncount = 2\nstart = \"1 s\"\n";

/// The workload of a kind for a controller. `run` is the `[run]` section of its scenario.
fn workload(kind: &str, cc: &str, run: &str) -> Option<Scenario> {
    let flows = if matches!(kind, "W1" | "lossy" | "late" | "back") {
        ONE
    } else {
        FOUR
    };
    let (rate, more) = match kind {
        "W1" => ("100 Mbit/s", ""),
        "W2" => ("50 Mbit/s", ""),
        "W3" => return Some(lab(cc, 1000, run)),
        "lossy" => ("100 Mbit/s", "loss = \"0.5 %\""),
        "late" => (
            "100 Mbit/s",
            "reorder = { probability = \"1 %\", delay = \"5 ms\" }",
        ),
        "back" => (
            "100 Mbit/s",
            "return = { rate = \"10 Mbit/s\", queue = { size = \"1 bdp\" } }",
        ),
        "marks" => ("50 Mbit/s", "queue.mark.threshold = \"50 packets\""),
        _ => return None,
    };
    Some(bottleneck(cc, flows, rate, more, run))
}

fn simulate(scenario: &Scenario, seed: u64) -> (Run, Progress) {
    paceline_simulator::run(scenario, seed, &mut |_| ControlFlow::Continue(()))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Runs one workload once, for this many seconds of virtual time.
fn once(name: &str, seconds: &str) {
    let (kind, cc) = name.split_once(' ').unwrap_or((name, "reno"));
    let run = format!("duration = \"{seconds} s\"");
    let scenario = workload(kind, cc, &run).expect("a workload");
    println!("{}", simulate(&scenario, 1).1.packets);
}

/// Flows through one link: workload W3 if no rate is given.
struct Point {
    cc: &'static str,
    flows: u32,
    /// Rate of the link, and the round-trip time without a queue.
    path: Option<(&'static str, &'static str)>,
    duration: &'static str,
    sample: &'static str,
}

impl Point {
    /// Varies each quantity while the others are as in W2 or W3.
    fn all() -> Vec<Self> {
        let many = [
            (2, "1 s"),
            (20, "1 s"),
            (200, "200 ms"),
            (2_000, "200 ms"),
            (20_000, "200 ms"),
            (100_000, "200 ms"),
        ];
        let rates = [
            ("1 Mbit/s", "600 s"),
            ("10 Mbit/s", "300 s"),
            ("100 Mbit/s", "30 s"),
            ("1 Gbit/s", "10 s"),
            ("10 Gbit/s", "2 s"),
            ("100 Gbit/s", "1 s"),
            ("400 Gbit/s", "500 ms"),
        ];
        let durations = ["10 ms", "100 ms", "1 s", "10 s", "60 s", "300 s", "600 s"];
        let rtts = ["10 us", "1 ms", "10 ms", "100 ms", "600 ms"];
        let mut points = Vec::new();
        for cc in ["reno", "bbr3"] {
            let four = |rate, rtt, duration, sample| Self {
                cc,
                flows: 4,
                path: Some((rate, rtt)),
                duration,
                sample,
            };
            points.extend(many.map(|(flows, duration)| Self {
                cc,
                flows,
                path: None,
                duration,
                sample: "100 ms",
            }));
            points.extend(rates.map(|(rate, time)| four(rate, "40 ms", time, "10 ms")));
            points.extend(rtts.map(|rtt| four("100 Mbit/s", rtt, "30 s", "10 ms")));
            points.extend(durations.map(|time| four("50 Mbit/s", "40 ms", time, "10 ms")));
        }
        points
    }

    fn run(&self) {
        let run = format!(
            "duration = \"{}\"\nsample_interval = \"{}\"",
            self.duration, self.sample
        );
        let scenario = match self.path {
            None => lab(self.cc, self.flows / 2, &run),
            Some((rate, rtt)) => parse(&format!(
                "schema = 1\n[run]\n{run}\n[path]\nrate = \"{rate}\"\nrtt = \"{rtt}\"\n\
                 queue.size = \"1 bdp\"\n[[flows]]\ncc = \"{}\"\ncount = {}\n",
                self.cc, self.flows
            )),
        };
        let before = cpu_seconds();
        let (run, progress) = simulate(&scenario, 1);
        let cpu = cpu_seconds() - before;
        drop(run);
        let (rate, rtt) = self.path.unwrap_or(("50 Gbit/s", "84 us"));
        // Time is counted in ticks of 10 ms.
        let each = match cpu < 0.1 {
            true => "-".to_owned(),
            false => format!("{:.0}", cpu * 1e9 / progress.packets as f64),
        };
        println!(
            "{:<5} {:>6} flows {rate:>10} {rtt:>7} {:>7} {:>9} packets {each:>6} ns CPU/packet {:>5} MiB peak",
            self.cc,
            self.flows,
            self.duration,
            progress.packets,
            peak_mib(),
        );
    }
}

/// Runs each point in its own process, so that memory is measured per point.
fn sizes() {
    let this = std::env::current_exe().expect("a path");
    for number in 0..Point::all().len() {
        let point = ["--point".to_owned(), number.to_string()];
        let status = std::process::Command::new(&this).args(point).status();
        assert!(status.is_ok_and(|status| status.success()), "{number}");
    }
}

/// Writes the runs that a faster engine must leave unchanged, each into its own folder.
fn write(folder: &Path) {
    const DETAIL: &str = "duration = \"2 s\"\nsample_interval = \"1 ms\"\n\
        record = { packets = true, rounds = true }";
    let write = |name: String, scenario: &Scenario| {
        let (run, _) = simulate(scenario, 1);
        run.write(&folder.join(name)).expect("a folder");
    };
    for cc in controllers().iter().map(|spec| spec.name) {
        for kind in ["W1", "W2", "lossy", "late", "marks"] {
            let scenario = workload(kind, cc, "duration = \"8 s\"").expect("a workload");
            write(format!("{kind}-{cc}"), &scenario);
        }
        let packets = bottleneck(cc, FOUR, "20 Mbit/s", "loss = \"0.5 %\"", DETAIL);
        write(format!("packets-{cc}"), &packets);
    }
    for cc in ["reno", "bbr3", "dctcp", "swift"] {
        write(format!("W3-{cc}"), &lab(cc, 100, "duration = \"30 ms\""));
    }
    for kind in ["newreno", "newreno-prr", "sack", "rack", "rack-prr"] {
        for (name, more) in [("plain", ""), ("ets", "ets = true")] {
            let flows = format!("{ONE}recovery.kind = \"{kind}\"\n{more}");
            let scenario = bottleneck(
                "cubic",
                &flows,
                "50 Mbit/s",
                "loss = \"1 %\"",
                "duration = \"8 s\"",
            );
            write(format!("{kind}-{name}"), &scenario);
        }
    }
}

/// Writes the runs of a folder's scenarios.
fn write_scenarios(folder: &Path, scenarios: &Path) {
    for entry in std::fs::read_dir(scenarios).expect("a folder") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|ending| ending == "toml") {
            let text = std::fs::read_to_string(&file).expect("a text");
            let scenario = paceline_experiment::parse(&text, &file.to_string_lossy(), &[]);
            let scenario = scenario.unwrap_or_else(|wrong| panic!("{wrong:?}"));
            let (run, _) = simulate(&scenario, scenario.run.seed);
            let name = file.file_stem().expect("a name");
            run.write(&folder.join(name)).expect("a folder");
        }
    }
}

/// User and system time of this process in seconds (Linux; zero elsewhere).
fn cpu_seconds() -> f64 {
    // Fields 14 and 15 of /proc/self/stat, in ticks of 10 ms.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

/// The peak memory of this process, in MiB (Linux; zero elsewhere).
fn peak_mib() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib / 1024)
}

fn measure(name: &str, scenario: &Scenario) {
    let mut walls = Vec::new();
    let mut packets = 0;
    let mut events = 0;
    let before = cpu_seconds();
    for _ in 0..REPEATS {
        let start = Instant::now();
        let (run, progress) = simulate(scenario, 1);
        walls.push(start.elapsed().as_secs_f64());
        packets = progress.packets;
        events = progress.events;
        drop(run);
    }
    let cpu = (cpu_seconds() - before) / REPEATS as f64;
    walls.sort_by(f64::total_cmp);
    println!(
        "{name:<10} {:>8.3} s wall {cpu:>7.3} s CPU {packets:>9} packets {:>6.2} M packets/s {:>5.2} events/packet {:>5} MiB peak",
        walls[walls.len() / 2],
        packets as f64 / walls[walls.len() / 2] / 1e6,
        events as f64 / packets as f64,
        peak_mib(),
    );
}

fn ensemble(scenario: &Scenario, seeds: u64) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(1);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > seeds {
                        break;
                    }
                    simulate(scenario, seed);
                }
            });
        }
    });
    println!(
        "W2 x {seeds} seeds on {threads} threads: {:.2} s wall, {} MiB peak",
        start.elapsed().as_secs_f64(),
        peak_mib()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--once", name, seconds, ..] => return once(name, seconds),
        ["--sizes", ..] => return sizes(),
        ["--point", number, ..] => {
            let number: usize = number.parse().expect("a number");
            return Point::all()[number].run();
        }
        ["--write", folder, scenarios] => {
            return write_scenarios(Path::new(folder), Path::new(scenarios));
        }
        ["--write", folder, ..] => return write(Path::new(folder)),
        _ => {}
    }
    let filter: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |name: &str| filter.is_empty() || filter.iter().any(|part| name.contains(part));
    for (kind, run, controllers) in [
        ("W1", "duration = \"60 s\"", ["reno", "cubic", "bbr3"]),
        ("W2", "duration = \"60 s\"", ["reno", "cubic", "bbr3"]),
        (
            "W3",
            "duration = \"1 s\"\nsample_interval = \"100 ms\"",
            ["reno", "bbr3", "bbr2"],
        ),
    ] {
        for cc in controllers {
            let name = format!("{kind} {cc}");
            if let Some(scenario) = workload(kind, cc, run).filter(|_| wanted(&name)) {
                measure(&name, &scenario);
            }
        }
    }
    if arguments.iter().any(|argument| argument == "--seeds") {
        let run = "duration = \"60 s\"";
        ensemble(&bottleneck("bbr3", FOUR, "50 Mbit/s", "", run), 200);
    }
}
