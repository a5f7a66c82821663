//! A controller and a transport in C, built by the system's compiler, loaded and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use paceline_congestion::{Ack, CaState, Config, Controller, RateSample, Signals};
use paceline_experiment::{Guests, Watch};
use paceline_plugin::{End, EndConfig, Foreign, Library, Transport};
use paceline_simulator::{Stack, Stacks, run_with};
use paceline_units::{Bytes, Duration, Instant};

/// Compiles an example with the system's compiler into a library.
fn build(source: &str, library: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(library);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let strict = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror"];
    let status = Command::new(compiler)
        .args(strict)
        .args(["-O2", "-fPIC", "-shared", "-I"])
        .arg(root.join("crates/capi/include"))
        .arg(root.join("examples").join(source))
        .arg("-o")
        .arg(&library)
        .status()
        .expect("a C compiler");
    assert!(status.success());
    library
}

#[test]
#[cfg_attr(miri, ignore = "Miri loads no libraries")]
fn a_controller_in_c_runs_like_ours() {
    // SAFETY: it keeps the contract of the header.
    let library = unsafe { Library::open(&build("controller-c/aimd.c", "libaimd.so")) }
        .expect("it was just built");
    let aimd = library.find("aimd").expect("its only one");
    assert_eq!(aimd.source, "RFC 5681");
    assert_eq!(aimd.phases, ["Aimd"]);
    let config = Config {
        mss: 1000,
        initial_window: Bytes::new(10_000),
        seed: 1,
        now: Instant::ZERO,
        srtt: None,
        has_selective_acks: true,
    };
    let error = Foreign::build(aimd, &config, Signals::ALL, &[("beta_percent", "100")])
        .expect_err("beyond its bounds");
    assert_eq!(
        error.to_string(),
        "`aimd` refused: `beta_percent` is a whole number from 1 to 99, not `100`"
    );
    let mut controller = Foreign::build(aimd, &config, Signals::ALL, &[("beta_percent", "70")])
        .expect("within its bounds");
    assert_eq!(
        (controller.cwnd(), controller.phase()),
        (Bytes::new(10_000), "Aimd")
    );
    assert_eq!(controller.ssthresh(), None);

    let ack = |acked: u64| Ack {
        now: Instant::ZERO,
        sample: RateSample::default(),
        newly_acked: Bytes::new(acked),
        newly_lost: Bytes::ZERO,
        newly_marked: None,
        prior_in_flight: Bytes::new(10_000),
        in_flight: Bytes::ZERO,
        delivered: Bytes::new(acked),
        lost: Bytes::ZERO,
        sent: Bytes::new(acked),
        rtt: Some(Duration::from_millis(40)),
        srtt: Duration::from_millis(40),
        min_rtt: Duration::from_millis(40),
        cwnd_limited: true,
        ca_state: CaState::Open,
        una_advanced: true,
        delayed: false,
        one_way_delay: None,
        network_rtt: None,
        receiver_delay: None,
        ece: false,
    };
    controller.on_ack(&ack(10_000));
    assert_eq!(controller.cwnd(), Bytes::new(20_000));
    controller.on_recovery_enter(Instant::ZERO, Bytes::new(20_000));
    assert_eq!(controller.cwnd(), Bytes::new(14_000));
    controller.on_ack(&ack(13_999));
    assert_eq!(controller.cwnd(), Bytes::new(14_000));
    controller.on_ack(&ack(1));
    assert_eq!(controller.cwnd(), Bytes::new(15_000));
    controller.on_timeout(Instant::ZERO, Bytes::ZERO);
    assert_eq!(controller.cwnd(), Bytes::new(10_500));
}

/// The throughput over `path`, in bits per second, of a window of `window` datagrams of the
/// transport in C, and its losses.
fn carried(transport: &Arc<Transport>, path: &str, window: &'static str) -> (f64, f64) {
    let text = format!(
        "schema = 1\nrun.duration = \"10 s\"\n[path]\nrate = \"10 Mbit/s\"\nrtt = \"40 ms\"\n{path}\n[[flows]]\ncc = \"reno\"\n"
    );
    let scenario = paceline_experiment::parse(&text, "test.toml", &[]).expect("a scenario");
    let transport = Arc::clone(transport);
    let stack = Stack::new(move |setup| {
        let end = |sends| {
            let config = EndConfig {
                sends,
                max_datagram: setup.max_datagram,
                seed: setup.seed,
                now: setup.now,
                controller: "reno",
            };
            End::build(&transport, &config, &[("window", window)]).expect("an option of its own")
        };
        (end(true), end(false))
    });
    let stacks = Stacks::none().with(0, stack);
    let done = run_with(&scenario, 1, &Guests::none(), &stacks, &mut Watch::none());
    let (run, _) = done.unwrap_or_else(|error| panic!("{error}"));
    let metric = |name| run.metric(name).expect("one flow");
    (metric("goodput_bps"), metric("loss_ratio"))
}

/// A window of ten datagrams carries ten per round trip, which is 40 ms and the transmission time
/// of a packet; one of two bandwidth-delay products fills the link; lost datagrams are
/// retransmitted.
#[test]
#[cfg_attr(miri, ignore = "Miri loads no libraries")]
fn a_transport_in_c_runs_in_the_simulator() {
    // SAFETY: it keeps the contract of the header.
    let transports = unsafe { Transport::open(&build("transport-c/fixed.c", "libfixed.so")) };
    let transports = transports.expect("it was just built");
    let [fixed] = transports.as_slice() else {
        panic!("its only one");
    };
    assert_eq!((fixed.name, fixed.version), ("fixed", "1"));
    let queue = "queue.size = \"4 bdp\"";
    let (small, lost) = carried(fixed, queue, "10");
    let expected = 10.0 * 1448.0 * 8.0 / (0.040 + 1500.0 * 8.0 / 10e6);
    assert!(
        (small / expected - 1.0).abs() < 0.005 && lost == 0.0,
        "{small} of {expected}"
    );
    let (large, lost) = carried(fixed, queue, "66");
    let full = 10e6 * 1448.0 / 1500.0 * (10.0 - 0.02) / 10.0;
    assert!(
        (0.998..=1.0).contains(&(large / full)) && lost == 0.0,
        "{large} of {full}"
    );
    let (repaired, lost) = carried(fixed, &format!("{queue}\nloss = \"2 %\""), "66");
    assert!(
        repaired > 0.1 * full && lost > 0.01,
        "{repaired}, {lost} lost"
    );
    let config = EndConfig {
        sends: true,
        max_datagram: 1448,
        seed: 1,
        now: Instant::ZERO,
        controller: "reno",
    };
    let error = End::build(fixed, &config, &[("window", "0")]).expect_err("no window");
    assert_eq!(
        error.to_string(),
        "`fixed` refused: the only option is `window`, from 1 to 4096 datagrams"
    );
}
