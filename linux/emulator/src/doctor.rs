//! The capabilities of this machine, and the command that fixes each problem.

use std::fs;

use paceline_experiment::{Backend, Guests, Watch};
use paceline_units::{Duration, Rate};
use serde_json::{Value, json};

use crate::histogram::Histogram;
use crate::kernel::controllers;
use crate::process::trial;
use crate::run::Emulator;
use crate::tun::{DEVICE, Tun};
use crate::{namespace, sys};

/// The controllers that scenarios are most likely to request from a kernel.
const WANTED: [&str; 3] = ["reno", "cubic", "bbr"];
/// Queueing disciplines, and a kernel function by which each is recognised.
const QDISCS: [(&str, &str); 9] = [
    ("netem", "netem_enqueue"),
    ("fq", "fq_enqueue"),
    ("fq_codel", "fq_codel_enqueue"),
    ("codel", "codel_qdisc_enqueue"),
    ("pie", "pie_qdisc_enqueue"),
    ("dualpi2", "dualpi2_qdisc_enqueue"),
    ("red", "red_enqueue"),
    ("tbf", "tbf_enqueue"),
    ("htb", "htb_enqueue"),
];
/// The rates to try, in Mbit/s.
const RATES: [u64; 6] = [20, 50, 100, 200, 500, 1000];
/// How often each rate is tried.
const TRIES: u32 = 3;
/// The minimum share of a rate that a test flow must carry.
const CARRIED: f64 = 0.5;

/// The state of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// Runs are less exact, or some cannot run.
    Lacking,
    /// Nothing can be emulated.
    Missing,
}

impl State {
    fn good_if(good: bool) -> Self {
        match good {
            true => Self::Good,
            false => Self::Lacking,
        }
    }
}

struct Findings(Vec<Value>);

impl Findings {
    fn add(&mut self, name: &str, state: State, result: impl Into<Value>, fix: &str) {
        let word = match state {
            State::Good => "good",
            State::Lacking => "lacking",
            State::Missing => "missing",
        };
        let fix = (state != State::Good).then_some(fix);
        self.0.push(json!({
            "name": name, "state": word, "found": result.into(), "fix": fix,
        }));
    }

    /// The finding of a trial, which is `bad` if it failed.
    fn tried(&mut self, name: &str, outcome: Result<String, String>, bad: State, fix: &str) {
        let state = outcome.as_ref().map_or(bad, |_| State::Good);
        self.add(name, state, outcome.unwrap_or_else(|why| why), fix);
    }
}

/// Examines this machine: `checks` [{`name`, `state`, `found`, `fix`}], and, unless it is a quick
/// check, the `rates`, each tried for two seconds up to the first that failed. `step` receives the
/// name of each trial.
pub fn doctor(quick: bool, step: &mut dyn FnMut(&str)) -> Value {
    let mut findings = Findings(Vec::new());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    findings.add("kernel", State::Good, kernel.trim(), "");
    step("controllers and queueing disciplines");
    look_at_controllers(&mut findings);
    look_at_qdiscs(&mut findings);
    look_at_limits(&mut findings);
    step("namespaces and devices");
    look_at_namespaces(&mut findings);
    step("timers");
    look_at_timers(&mut findings);
    let able = !findings.0.iter().any(|check| check["state"] == "missing");
    let mut report = json!({
        "kernel": kernel.trim(),
        "controllers": controllers(),
        "able": able,
        "checks": findings.0,
    });
    if !quick && able {
        let rates = try_rates(step);
        let mut sustained = rates.iter().filter(|tried| tried["held"] == true);
        report["highest_rate_bps"] = sustained
            .next_back()
            .map_or(Value::Null, |r| r["rate_bps"].clone());
        report["rates"] = rates.into();
    }
    report
}

fn look_at_controllers(findings: &mut Findings) {
    let has = controllers();
    let lacks = |name: &&str| !has.iter().any(|h| h == name);
    let missing: Vec<&str> = WANTED.iter().copied().filter(lacks).collect();
    let state = State::good_if(missing.is_empty());
    let fix: Vec<String> = missing.iter().map(|name| format!("tcp_{name}")).collect();
    let fix = format!("sudo modprobe -a {}", fix.join(" "));
    findings.add("congestion controllers", state, has.join(" "), &fix);
}

fn look_at_qdiscs(findings: &mut Findings) {
    // Reading is enough: a request could load a module.
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let has = QDISCS
        .iter()
        .filter(|(_, function)| names.contains(function));
    let has: Vec<&str> = has.map(|(name, _)| *name).collect();
    // Nothing here needs them.
    findings.add(
        "queueing disciplines (not needed)",
        State::Good,
        has.join(" "),
        "",
    );
}

fn look_at_limits(findings: &mut Findings) {
    let read = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().to_owned()
    };
    let receive = read("/proc/sys/net/core/rmem_max");
    let send = read("/proc/sys/net/core/wmem_max");
    let result = format!("rmem_max {receive}, wmem_max {send}: not in the way of TCP's own tuning");
    findings.add("socket limits", State::Good, result, "");
    // Pages; the third value is the maximum for all of TCP.
    let limits = read("/proc/sys/net/ipv4/tcp_mem");
    let most = limits.split_whitespace().nth(2);
    let pages: u64 = most.and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let state = State::good_if(pages * 4096 >= 64 << 20);
    let result = format!("{} MB for all of TCP", pages * 4096 / 1_000_000);
    let fix = "sudo sysctl net.ipv4.tcp_mem=\"65536 131072 262144\"";
    findings.add("TCP memory", state, result, fix);
    let limits = read("/proc/self/limits");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let files: u64 = line
        .and_then(|line| line.split_whitespace().nth(3))
        .and_then(|number| number.parse().ok())
        .unwrap_or(u64::MAX);
    let state = State::good_if(files >= 256);
    let fix = "ulimit -n 4096";
    let result = format!("{files}, 3 for each flow");
    findings.add("open files", state, result, fix);
}

fn look_at_namespaces(findings: &mut Findings) {
    let words = |error: namespace::HostError| format!("cannot {}: {}", error.what, error.source);
    let outcome = trial(|| {
        Ok(match namespace::isolate().map_err(words)? {
            true => "user and network namespaces".to_owned(),
            false => "network namespaces, as root".to_owned(),
        })
    });
    let fix =
        "sudo sysctl user.max_user_namespaces=10000 kernel.apparmor_restrict_unprivileged_userns=0";
    findings.tried("namespaces", outcome, State::Missing, fix);
    let outcome = trial(|| {
        namespace::isolate().map_err(words)?;
        Tun::open("trial").map_err(|error| error.to_string())?;
        Ok(format!("{DEVICE} opens"))
    });
    let fix =
        "sudo modprobe tun && sudo chmod 666 /dev/net/tun (in a container: --device /dev/net/tun)";
    findings.tried("TUN devices", outcome, State::Missing, fix);
    let outcome = trial(|| match sys::real_time(1) {
        Ok(()) => Ok("SCHED_FIFO".to_owned()),
        Err(error) => Err(format!("no SCHED_FIFO: {error}")),
    });
    let fix = "echo \"$USER - rtprio 50\" | sudo tee /etc/security/limits.d/paceline.conf, and log in again";
    findings.tried("real-time scheduling", outcome, State::Lacking, fix);
    let outcome = trial(|| match sys::lock_memory() {
        Ok(()) => Ok("mlockall".to_owned()),
        Err(error) => Err(format!("memory is not locked: {error}")),
    });
    let fix = "echo \"$USER - memlock unlimited\" | sudo tee -a /etc/security/limits.d/paceline.conf, and log in again";
    findings.tried("locked memory", outcome, State::Lacking, fix);
}

/// The wake-up delay of a thread that sleeps for 200 us, scheduled as in a run.
fn look_at_timers(findings: &mut Findings) {
    const SLEEPS: usize = 2_000;
    const SLEEP: Duration = Duration::from_micros(200);
    const GOOD: u64 = 1_000_000;
    let outcome = trial(|| {
        sys::no_timer_slack();
        // If real-time priority is refused, the result shows that.
        let _ = sys::real_time(1);
        let mut late = Histogram::default();
        for _ in 0..SLEEPS {
            let due = sys::now() + SLEEP;
            sys::sleep_until(due);
            late.add(sys::now().since(due));
        }
        let late = late.times();
        let nanos = |time: Option<u64>| time.unwrap_or_default();
        Ok(format!(
            "{} {} {}",
            nanos(late.p50),
            nanos(late.p99),
            late.max
        ))
    });
    let outcome = outcome.unwrap_or_default();
    let numbers: Vec<u64> = outcome.split(' ').flat_map(str::parse).collect();
    let [p50, p99, max] = numbers[..] else {
        let fix = "try again";
        findings.add("timers", State::Lacking, "could not be measured", fix);
        return;
    };
    let state = State::good_if(p99 <= GOOD);
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let result = format!(
        "late by {:.0} us in the median, p99 {:.0} us, at most {:.0} us",
        micros(p50),
        micros(p99),
        micros(max)
    );
    let fix = "stop what else the machine does, or allow real-time scheduling";
    findings.add("timers", state, result, fix);
}

/// Rates in rising order, up to the first that fails in all of [`TRIES`]: a hypervisor's pause of
/// some milliseconds says nothing about a rate.
fn try_rates(step: &mut dyn FnMut(&str)) -> Vec<Value> {
    let mut tried = Vec::new();
    for mega in RATES {
        step(&format!("{mega} Mbit/s"));
        let rate = Rate::from_bps(mega * 1_000_000);
        let mut tries = 1;
        let mut outcome = try_rate(rate);
        while outcome["held"] != true && tries < TRIES {
            tries += 1;
            outcome = try_rate(rate);
        }
        let sustained = outcome["held"] == true;
        outcome["tries"] = tries.into();
        tried.push(outcome);
        if !sustained {
            break;
        }
    }
    tried
}

fn try_rate(rate: Rate) -> Value {
    let text = format!(
        "schema = 1\nname = \"doctor\"\n[run]\nduration = \"2 s\"\n[path]\nrate = \"{rate}\"\n\
         rtt = \"20 ms\"\nqueue = {{ size = \"1 bdp\" }}\n[[flows]]\ncc = \"cubic\"\n"
    );
    let failed = |why: String| json!({ "rate_bps": rate.bps(), "held": false, "why": [why] });
    let scenario = match paceline_experiment::parse(&text, "doctor.toml", &[]) {
        Ok(scenario) => scenario,
        Err(problems) => return failed(problems.iter().map(ToString::to_string).collect()),
    };
    let run = match Emulator.run(&scenario, &Guests::none(), 1, &mut Watch::none()) {
        Ok((run, _)) => run,
        Err(error) => return failed(error.to_string()),
    };
    let emulation = run.emulation().cloned().unwrap_or_default();
    let carried = run.metric("utilisation_ratio").unwrap_or(0.0);
    let mut why: Vec<Value> = emulation["beyond"]
        .as_array()
        .map(|beyond| {
            beyond
                .iter()
                .map(|bound| bound["message"].clone())
                .collect()
        })
        .unwrap_or_default();
    if carried < CARRIED {
        why.push(format!("one flow carried {:.0} % of it", carried * 100.0).into());
    }
    json!({
        "rate_bps": rate.bps(),
        "held": why.is_empty(),
        "why": why,
        "utilisation_ratio": carried,
        "lateness_p99_ns": emulation["lateness"]["p99_ns"],
        "added_delay_ns": emulation["added_delay_ns"],
        "rate_error_ratio": emulation["rate_error_ratio"],
        "emulator_cpu_ratio": emulation["emulator_cpu_ratio"],
    })
}
