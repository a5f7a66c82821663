//! Swift's constants. The paper gives few; the others are those on which public implementations
//! agree, as `docs/concepts/data-centre.md` says.

use paceline_units::{Duration, Gain, parameters};

use super::ONE;

parameters! {
    /// The options that a scenario may set.
    pub struct Parameters {
        /// Growth per round trip below the target, in packets (algorithm 1)
        ai: Gain(1, 100_000) = Gain::ONE;
        /// Weight of the excess delay in a decrease (algorithm 1)
        beta: Gain(1, 4000) = Gain::from_millionths(800_000);
        /// The maximum reduction of one decrease (algorithm 1)
        max_mdf: Gain(1, 999) = Gain::from_millionths(500_000);
        /// Target of the fabric's delay without hops and flow scaling; it includes propagation
        /// (3.5)
        base_target: Micros(1, SECOND_US) = Duration::from_micros(25);
        /// Delay added to the target per hop (3.5)
        hop_delay: Micros(0, SECOND_US) = Duration::from_micros(1);
        /// Number of hops: configured here, measured by TTL echo in the protocol (3.5)
        hops: Count(0, 255) = 1;
        /// The maximum addition to the target by flow scaling (3.5)
        fs_range: Micros(0, SECOND_US) = Duration::from_micros(100);
        /// Window in packets up to which flow scaling adds its maximum (3.5)
        fs_min_cwnd: Gain(1, 1_000_000) = Gain::from_millionths(100_000);
        /// Window in packets from which on it adds nothing (3.5)
        fs_max_cwnd: Gain(1, 4_000_000) = Gain::from_millionths(100_000_000);
        /// The minimum window in packets; 1 excludes windows below one packet (3.4)
        min_cwnd: Gain(1, 100_000) = Gain::from_millionths(1_000);
        /// The maximum window in packets
        max_cwnd: Count(1, 10_000_000) = 1000;
        /// Target of the hosts' delay (3.3)
        endpoint_target: Micros(1, SECOND_US) = Duration::from_micros(100);
        /// Weight of the newest sample in the hosts' delay (3.3)
        endpoint_ewma: Gain(1, 1000) = Gain::from_millionths(125_000);
        /// Consecutive timeouts after which the window falls to its minimum (RETX_RESET_THRESHOLD)
        retx_reset: Count(1, 1000) = 5;
    }
}

impl Parameters {
    /// A window between the minimum and the maximum.
    pub(super) fn clamp(&self, cwnd: u64) -> u64 {
        let most = u64::from(self.max_cwnd) * ONE;
        cwnd.min(most).max(self.min_cwnd.scale(ONE)).max(1)
    }
}

const SECOND_US: u64 = 1_000_000;
