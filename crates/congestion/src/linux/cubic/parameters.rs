//! CUBIC's module parameters, and the settings of the surrounding stack.

use paceline_units::{Duration, parameters};

use crate::options::choice;

choice! {
    /// The criterion by which HyStart leaves slow start (`hystart_detect`).
    pub enum Detect {
        /// Either.
        Both = "both" default,
        /// The length of a train of ACKs.
        Train = "train",
        /// An increase of the delay.
        Delay = "delay",
    }
}

parameters! {
    /// The options that a scenario may set.
    pub struct Parameters {
        /// Classic HyStart in slow start (hystart)
        hystart: Flag = true;
        /// The criterion to leave slow start: a train of ACKs, an increase of the delay, either
        /// (hystart_detect)
        hystart_detect: Choice(Detect) = Detect::Both;
        /// Window in packets below which HyStart is inactive (hystart_low_window)
        hystart_low_window: Count(0, 1_000_000) = 16;
        /// Maximum time between two ACKs of a train (hystart_ack_delta_us)
        hystart_ack_delta: Micros(0, 1_000_000) = Duration::from_millis(2);
        /// Reduce further if the last loss came below last_max_cwnd (fast_convergence)
        fast_convergence: Flag = true;
        // From 512 on the Reno-friendly window grows at most once per packet acknowledged; with
        // much less the kernel's loop does not end.
        /// The fraction of the window kept after a congestion event, in 1024ths (beta)
        beta: Count(512, 1023) = 717;
        /// C, in 1024ths of 10 packets per cubic second (bic_scale)
        bic_scale: Count(1, 4096) = 41;
        /// Grow at least as fast as Reno with the same share of the window (tcp_friendliness)
        tcp_friendliness: Flag = true;
        /// Slow-start threshold at the start in packets, without HyStart only; 0 means none
        /// (initial_ssthresh)
        initial_ssthresh: Count(0, 1_000_000) = 0;
        /// Ticks per second of the kernel's clock; 250 is its own default (CONFIG_HZ)
        hz: Count(24, 1200) = 250;
        /// Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (the fq qdisc)
        pacing: Flag = false;
        /// Send ECT(0) and reduce once a round on an echoed mark (tcp_ecn)
        ecn: Flag = false;
    }
}
