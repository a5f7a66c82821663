//! Runs the transports of a library over a bottleneck, each of their controllers twice: `guest LIBRARY [CONTROLLER...]`.
//!
//! It prints goodput, the median RTT if the transport reports its samples, the delay of the queue, loss, the time that a run
//! takes, the digest of its record, and the states that the controller reports. It fails if two runs differ, one carries
//! nothing, or a BBR that reports its state stays in the first one.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use paceline_experiment::{Guests, Watch};
use paceline_plugin::{End, EndConfig, Transport};
use paceline_record::Run;
use paceline_simulator::{Stack, Stacks, run_with};

const SCENARIO: &str = "schema = 1\nrun.duration = \"20 s\"\n[path]\nrate = \"100 Mbit/s\"\nrtt = \"40 ms\"\n\
                        queue.size = \"1 bdp\"\n[[flows]]\ncc = \"reno\"\n";

fn run(transport: &Arc<Transport>, controller: &str) -> Result<Run, String> {
    let scenario = paceline_experiment::parse(SCENARIO, "guest.toml", &[])
        .map_err(|wrong| format!("{wrong:?}"))?;
    let config = |sends| EndConfig {
        sends,
        max_datagram: 1448,
        seed: 1,
        now: paceline_units::Instant::ZERO,
        controller,
    };
    // Refusals happen here, where a caller can receive the error.
    End::build(transport, &config(true), &[]).map_err(|error| error.to_string())?;
    let (transport, controller) = (Arc::clone(transport), controller.to_owned());
    let stack = Stack::new(move |setup| {
        let end = |sends| {
            let config = EndConfig {
                sends,
                max_datagram: setup.max_datagram,
                seed: setup.seed,
                now: setup.now,
                controller: &controller,
            };
            let end = End::build(&transport, &config, &[]);
            end.unwrap_or_else(|error| panic!("it was made before: {error}"))
        };
        (end(true), end(false))
    });
    let stacks = Stacks::none().with(0, stack);
    let done = run_with(&scenario, 1, &Guests::none(), &stacks, &mut Watch::none());
    done.map(|(run, _)| run).map_err(|error| error.to_string())
}

/// A row for a controller; whether all is well.
fn judge(transport: &Arc<Transport>, controller: &str) -> Result<(), String> {
    let began = Instant::now();
    let first = run(transport, controller)?;
    let took = began.elapsed().as_secs_f64();
    let second = run(transport, controller)?;
    let metric = |name| first.metric(name).unwrap_or(f64::NAN);
    let goodput = metric("goodput_bps");
    println!(
        "{:14} {:6.2} Mbit/s  RTT {:6.2} ms  queue {:6.2} ms, p95 {:6.2} ms  lost {:6.3} %  {took:5.1} s  {:.16}",
        format!("{}:{controller}", transport.name),
        goodput / 1e6,
        metric("rtt_p50_ns") / 1e6,
        metric("queue_p50_ns") / 1e6,
        metric("queue_p95_ns") / 1e6,
        metric("loss_ratio") * 100.0,
        first.digest(),
    );
    let states = first.flows().first().map_or(&[][..], |flow| &flow.states);
    let names: Vec<&str> = states.iter().map(|(name, _)| name.as_str()).collect();
    println!(
        "  {}",
        if names.is_empty() {
            "no states".to_owned()
        } else {
            names.join(" ")
        }
    );
    // Twenty seconds have Startup, Drain, and a state after these.
    if controller.contains("bbr") && (1..3).contains(&names.len()) {
        return Err("a BBR leaves Startup and Drain within 20 s".to_owned());
    }
    if first.digest() != second.digest() {
        return Err(format!("two runs differ: {}", second.digest()));
    }
    if !(1e6..=100e6).contains(&goodput) {
        return Err(format!("a goodput of {goodput} bit/s over 100 Mbit/s"));
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(library) = arguments.next() else {
        eprintln!("usage: guest LIBRARY [CONTROLLER...]");
        return ExitCode::from(2);
    };
    let named: Vec<String> = arguments.collect();
    // SAFETY: whoever names the library is responsible for what it does.
    let transports = match unsafe { Transport::open(Path::new(&library)) } {
        Ok(transports) => transports,
        Err(error) => {
            eprintln!("error: {library}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = false;
    for transport in &transports {
        let own: Vec<&str> = match named.is_empty() {
            true => transport.controllers.clone(),
            false => named.iter().map(String::as_str).collect(),
        };
        for controller in own {
            if let Err(why) = judge(transport, controller) {
                eprintln!("error: {}:{controller}: {why}", transport.name);
                failed = true;
            }
        }
    }
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
