//! CUBIC's module parameters, and what surrounds it.

use paceline_units::{Duration, parameters};

use crate::options::choice;

choice! {
    /// By what HyStart leaves slow start (`hystart_detect`).
    Detect {
        /// By either.
        Both = "both" default,
        /// By the length of a train of ACKs.
        Train = "train",
        /// By a rise of the delay.
        Delay = "delay",
    }
}

parameters! {
    /// What a scenario may set.
    pub struct Parameters {
        /// HyStart, the classic one, in slow start (hystart)
        hystart: Flag = true;
        /// By what it leaves slow start: a train of ACKs, a rise of the delay, either (hystart_detect)
        hystart_detect: Choice(Detect) = Detect::Both;
        /// Packets in the window below which it does not (hystart_low_window)
        hystart_low_window: Count(0, 1_000_000) = 16;
        /// Most time between two ACKs of a train (hystart_ack_delta_us)
        hystart_ack_delta: Micros(0, 1_000_000) = Duration::from_millis(2);
        /// Give way further when the last loss came below last_max_cwnd (fast_convergence)
        fast_convergence: Flag = true;
        // From 512 the Reno-friendly window grows at most once a packet acknowledged; with much
        // less the kernel's loop does not end.
        /// The fraction of the window kept after a congestion event, in 1024ths (beta)
        beta: Count(512, 1023) = 717;
        /// C, in 1024ths of 10 packets per cubic second (bic_scale)
        bic_scale: Count(1, 4096) = 41;
        /// Grow at least as Reno with the same share of the window would (tcp_friendliness)
        tcp_friendliness: Flag = true;
        /// Slow-start threshold at the start in packets, without HyStart only; 0 is none (initial_ssthresh)
        initial_ssthresh: Count(0, 1_000_000) = 0;
        /// Ticks per second of the kernel's clock; 250 is its own default (CONFIG_HZ)
        hz: Count(24, 1200) = 250;
        /// Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (the fq qdisc)
        pacing: Flag = false;
        /// Send ECT(0) and reduce once a round on an echoed mark (tcp_ecn)
        ecn: Flag = false;
    }
}
