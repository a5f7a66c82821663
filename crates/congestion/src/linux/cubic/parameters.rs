//! CUBIC's module parameters, and what surrounds it.

use paceline_units::Duration;

use crate::options::{OptionSpec, choice, option};

choice! {
    /// By what HyStart leaves slow start (`hystart_detect`).
    Detect {
        /// By either.
        Both = "both",
        /// By the length of a train of ACKs.
        Train = "train",
        /// By a rise of the delay.
        Delay = "delay",
    }
}

/// What a scenario may set; see [`OPTIONS`](crate::options::Parameters::OPTIONS).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each is an option, which says what it does")]
pub struct Parameters {
    pub hystart: bool,
    pub hystart_detect: Detect,
    pub hystart_low_window: u32,
    pub hystart_ack_delta: Duration,
    pub fast_convergence: bool,
    pub beta: u32,
    pub bic_scale: u32,
    pub tcp_friendliness: bool,
    pub initial_ssthresh: u32,
    pub hz: u32,
    pub pacing: bool,
    pub ecn: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            hystart: true,
            hystart_detect: Detect::Both,
            hystart_low_window: 16,
            hystart_ack_delta: Duration::from_millis(2),
            fast_convergence: true,
            beta: 717,
            bic_scale: 41,
            tcp_friendliness: true,
            initial_ssthresh: 0,
            hz: 250,
            pacing: false,
            ecn: false,
        }
    }
}

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            hystart,
            p.hystart,
            Flag,
            "HyStart, the classic one, in slow start (hystart)"
        ),
        option!(
            hystart_detect,
            p.hystart_detect,
            Choice(Detect),
            "By what it leaves slow start: a train of ACKs, a rise of the delay, either (hystart_detect)"
        ),
        option!(
            hystart_low_window,
            p.hystart_low_window,
            Count(0, 1_000_000),
            "Packets in the window below which it does not (hystart_low_window)"
        ),
        option!(
            hystart_ack_delta,
            p.hystart_ack_delta,
            Micros(0, 1_000_000),
            "Most time between two ACKs of a train (hystart_ack_delta_us)"
        ),
        option!(
            fast_convergence,
            p.fast_convergence,
            Flag,
            "Give way further when the last loss came below last_max_cwnd (fast_convergence)"
        ),
        // From 512 the Reno-friendly window grows at most once a packet acknowledged; with much
        // less the kernel's loop does not end.
        option!(
            beta,
            p.beta,
            Count(512, 1023),
            "What is left of the window after a congestion event, in 1024ths (beta)"
        ),
        option!(
            bic_scale,
            p.bic_scale,
            Count(1, 4096),
            "C, in 1024ths of 10 packets per cubic second (bic_scale)"
        ),
        option!(
            tcp_friendliness,
            p.tcp_friendliness,
            Flag,
            "Grow at least as Reno with the same share of the window would (tcp_friendliness)"
        ),
        option!(
            initial_ssthresh,
            p.initial_ssthresh,
            Count(0, 1_000_000),
            "Slow-start threshold at the start in packets, without HyStart only; 0 is none (initial_ssthresh)"
        ),
        option!(
            hz,
            p.hz,
            Count(24, 1200),
            "Ticks per second of the kernel's clock; 250 is its own default (CONFIG_HZ)"
        ),
        option!(
            pacing,
            p.pacing,
            Flag,
            "Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (the fq qdisc)"
        ),
        option!(
            ecn,
            p.ecn,
            Flag,
            "Send ECT(0) and reduce once a round on an echoed mark (tcp_ecn)"
        ),
    ];
}
