//! A controller in C, built by the system's compiler, loaded and run.

use std::path::{Path, PathBuf};
use std::process::Command;

use paceline_congestion::{Ack, CaState, Config, Controller, RateSample, Signals};
use paceline_plugin::{Foreign, Library};
use paceline_units::{Bytes, Duration, Instant};

fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libaimd.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args([
            "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-shared",
        ])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("examples/controller-c/aimd.c"))
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
    let library = unsafe { Library::open(&build()) }.expect("it was just built");
    let aimd = library.find("aimd").expect("its only one");
    assert_eq!(aimd.source, "RFC 5681 section 3.1, without its refinements");
    assert_eq!(aimd.phases, ["SlowStart", "CongestionAvoidance"]);
    let config = Config {
        mss: 1000,
        initial_window: Bytes::new(10_000),
        seed: 1,
        now: Instant::ZERO,
        srtt: None,
        has_selective_acks: true,
    };
    let refused = Foreign::build(aimd, &config, Signals::ALL, &[("beta", "100 %")])
        .expect_err("beyond its bounds");
    assert_eq!(
        refused.to_string(),
        "`aimd` refused: `beta` is a share from \"1 %\" to \"99 %\", not `100 %`"
    );
    let mut controller = Foreign::build(aimd, &config, Signals::ALL, &[("beta", "70 %")])
        .expect("within its bounds");
    assert_eq!(
        (controller.cwnd(), controller.phase()),
        (Bytes::new(10_000), "SlowStart")
    );
    assert_eq!(controller.ssthresh(), Some(Bytes::INFINITE));

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
    assert_eq!(
        (controller.cwnd(), controller.phase()),
        (Bytes::new(14_000), "CongestionAvoidance")
    );
    controller.on_ack(&ack(13_999));
    let mut shown = Vec::new();
    controller.visit_state(&mut |name, value| shown.push(format!("{name} {:?}", value.number())));
    assert_eq!(shown, ["acked Some(13999.0)"]);
    controller.on_ack(&ack(1));
    assert_eq!(controller.cwnd(), Bytes::new(15_000));
    controller.on_timeout(Instant::ZERO, Bytes::ZERO);
    assert_eq!(controller.cwnd(), Bytes::new(1_000));
}
