//! [quiche](https://docs.rs/quiche) behind `paceline_endpoint.h`; the stack is in the program beside it.

/// quiche, in the program `guest-quiche` beside this library.
pub struct Quiche;

impl process::Guest for Quiche {
    const NAME: &'static str = "quiche";
    const SUMMARY: &'static str = "quiche, of Cloudflare, with TLS";
    const VERSION: &'static str = "0.30.0";
    const CONTROLLERS: &'static str = "bbr2,cubic,reno";
    const PHASES: &'static [&'static str] = &[
        "Startup",
        "Drain",
        "ProbeBW_DOWN",
        "ProbeBW_CRUISE",
        "ProbeBW_REFILL",
        "ProbeBW_UP",
        "ProbeRTT",
        "SlowStart",
        "ConservativeSlowStart",
        "CongestionAvoidance",
        "Recovery",
    ];
    const OPTIONS: Option<&'static [(&'static str, &'static str)]> = Some(&[
        (
            "initial_window_packets",
            "initial congestion window in packets",
        ),
        ("initial_rtt_ms", "RTT before the first sample, in ms"),
        (
            "send_capacity_factor",
            "the part of the window that an application may fill",
        ),
        ("hystart", "whether HyStart++ ends slow start"),
        ("pacing", "whether packets have a time at which to leave"),
        ("discover_pmtu", "whether it probes for larger packets"),
    ]);
    const EXECUTABLE: &'static str = "guest-quiche";
}

paceline_capi::export_stack!(process::Remote<Quiche>);
