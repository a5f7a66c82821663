//! Swift's constants. The paper gives few; where it is silent these are what
//! public implementations agree on, and `docs/concepts/data-centre.md` says so.

use paceline_units::{Duration, Gain};

use super::ONE;
use crate::options::{OptionSpec, option};

/// What a scenario may set.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented in OPTIONS below")]
pub struct Parameters {
    pub ai: Gain,
    pub beta: Gain,
    pub max_mdf: Gain,
    pub base_target: Duration,
    pub hop_delay: Duration,
    pub hops: u32,
    pub fs_range: Duration,
    pub fs_min_cwnd: Gain,
    pub fs_max_cwnd: Gain,
    pub min_cwnd: Gain,
    pub max_cwnd: u32,
    pub endpoint_target: Duration,
    pub endpoint_ewma: Gain,
    pub retx_reset: u32,
}

impl Parameters {
    /// A window between the least and the most.
    pub(super) fn clamp(&self, cwnd: u64) -> u64 {
        let most = u64::from(self.max_cwnd) * ONE;
        cwnd.min(most).max(self.min_cwnd.scale(ONE)).max(1)
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            ai: Gain::ONE,
            beta: Gain::from_millionths(800_000),
            max_mdf: Gain::from_millionths(500_000),
            base_target: Duration::from_micros(25),
            hop_delay: Duration::from_micros(1),
            hops: 1,
            fs_range: Duration::from_micros(100),
            fs_min_cwnd: Gain::from_millionths(100_000),
            fs_max_cwnd: Gain::from_millionths(100_000_000),
            min_cwnd: Gain::from_millionths(1_000),
            max_cwnd: 1000,
            endpoint_target: Duration::from_micros(100),
            endpoint_ewma: Gain::from_millionths(125_000),
            retx_reset: 5,
        }
    }
}

const SECOND_US: u64 = 1_000_000;

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            ai,
            p.ai,
            Gain(1, 100_000),
            "Packets that a round trip below the target adds (algorithm 1)"
        ),
        option!(
            beta,
            p.beta,
            Gain(1, 4000),
            "Weight of the excess delay in a decrease (algorithm 1)"
        ),
        option!(
            max_mdf,
            p.max_mdf,
            Gain(1, 999),
            "The most that one decrease takes (algorithm 1)"
        ),
        option!(
            base_target,
            p.base_target,
            Micros(1, SECOND_US),
            "Target of the fabric's delay without hops and flow scaling; it holds propagation too (3.5)"
        ),
        option!(
            hop_delay,
            p.hop_delay,
            Micros(0, SECOND_US),
            "What a hop adds to the target (3.5)"
        ),
        option!(
            hops,
            p.hops,
            Count(0, 255),
            "Hops of the path: known here, where the protocol echoes its TTL (3.5)"
        ),
        option!(
            fs_range,
            p.fs_range,
            Micros(0, SECOND_US),
            "The most that flow scaling adds to the target (3.5)"
        ),
        option!(
            fs_min_cwnd,
            p.fs_min_cwnd,
            Gain(1, 1_000_000),
            "Window in packets at and below which it adds all of that (3.5)"
        ),
        option!(
            fs_max_cwnd,
            p.fs_max_cwnd,
            Gain(1, 4_000_000),
            "Window in packets from which on it adds nothing (3.5)"
        ),
        option!(
            min_cwnd,
            p.min_cwnd,
            Gain(1, 100_000),
            "The least window in packets; 1 leaves the windows below a packet out (3.4)"
        ),
        option!(
            max_cwnd,
            p.max_cwnd,
            Count(1, 10_000_000),
            "The greatest window in packets"
        ),
        option!(
            endpoint_target,
            p.endpoint_target,
            Micros(1, SECOND_US),
            "Target of the hosts' delay (3.3)"
        ),
        option!(
            endpoint_ewma,
            p.endpoint_ewma,
            Gain(1, 1000),
            "Weight of the newest sample in the hosts' delay (3.3)"
        ),
        option!(
            retx_reset,
            p.retx_reset,
            Count(1, 1000),
            "Timeouts in a row after which the window is the least (RETX_RESET_THRESHOLD)"
        ),
    ];
}
