//! Speed of the engine: packets per CPU second and peak memory on the workloads
//! of `docs/performance.md`. Prints a table; asserts nothing.
//!
//! `cargo bench -p paceline-simulator` runs all, `-- W2` those whose name
//! contains W2, `-- --seeds` also 200 seeds of W2 on all cores.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use paceline_scenario::Scenario;

/// Runs a measurement is repeated: the median is shown.
const REPEATS: u64 = 5;

fn scenario(cc: &str, flows: &str, rate: &str) -> Scenario {
    let text = format!(
        "schema = 1\n[run]\nduration = \"60 s\"\n[path]\nrate = \"{rate}\"\nrtt = \"40 ms\"\n\
         queue = {{ kind = \"droptail\", size = \"1 bdp\" }}\n{}",
        flows.replace("CC", cc)
    );
    paceline_experiment::parse(&text, "bench.toml", &[]).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

/// Two hosts of a thousand flows each, one switch port of 50 Gbit/s, 84 us, step marking.
fn lab(cc: &str) -> Scenario {
    let nic = |host: u32| {
        format!(
            "[[links]]\nname = \"nic{host}\"\nrate = \"100 Gbit/s\"\nqueue.size = \"100 MB\"\n\
             [[flows]]\ncc = \"{cc}\"\ncount = 1000\nstart_jitter = \"1 ms\"\n\
             route = [\"nic{host}\", \"switch\"]\nrecovery.min_rto = \"10 ms\"\n"
        )
    };
    let text = format!(
        "schema = 1\n[run]\nduration = \"1 s\"\nsample_interval = \"100 ms\"\n[path]\nname = \"switch\"\n\
         rate = \"50 Gbit/s\"\nrtt = \"84 us\"\n\
         queue = {{ size = \"10000 packets\", mark = {{ threshold = \"200 packets\" }} }}\n{}{}",
        nic(1),
        nic(2)
    );
    paceline_experiment::parse(&text, "bench.toml", &[]).unwrap_or_else(|wrong| panic!("{wrong:?}"))
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

/// The most memory this process has held, in MiB (Linux; zero elsewhere).
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
        let (run, progress) =
            paceline_simulator::run(scenario, 1, &mut |_| ControlFlow::Continue(()))
                .unwrap_or_else(|error| panic!("{error}"));
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
                    let _ =
                        paceline_simulator::run(scenario, seed, &mut |_| ControlFlow::Continue(()));
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
    let filter: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |name: &str| filter.is_empty() || filter.iter().any(|part| name.contains(part));
    const ONE: &str = "[[flows]]\ncc = \"CC\"\n";
    const FOUR: &str =
        "[[flows]]\ncc = \"CC\"\ncount = 2\n[[flows]]\ncc = \"CC\"\ncount = 2\nstart = \"1 s\"\n";
    for (workload, flows, rate) in [("W1", ONE, "100 Mbit/s"), ("W2", FOUR, "50 Mbit/s")] {
        for cc in ["reno", "cubic", "bbr3"] {
            let name = format!("{workload} {cc}");
            if wanted(&name) {
                measure(&name, &scenario(cc, flows, rate));
            }
        }
    }
    for cc in ["reno", "bbr3", "bbr2"] {
        let name = format!("W3 {cc}");
        if wanted(&name) {
            measure(&name, &lab(cc));
        }
    }
    if arguments.iter().any(|argument| argument == "--seeds") {
        ensemble(&scenario("bbr3", FOUR, "50 Mbit/s"), 200);
    }
}
