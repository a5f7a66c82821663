//! Reno as in Linux: [`reno`](crate::reno) without a limit of growth for one ACK in slow start, and
//! a window that halves for each timeout of a pause. It is no port of `tcp_cong.c`; traces of an
//! unmodified kernel agree with it.

use paceline_units::{Bytes, Gain, parameters};

use crate::slowdown::SharedSlowdown;
use crate::window::{AfterIdle, NO_LIMIT, Phase, Settings};
use crate::{Described, Signals};

parameters! {
    /// The options that a scenario may set.
    pub struct Parameters {
        /// Slow-start threshold at the start
        initial_ssthresh: AnyBytes = Bytes::INFINITE;
        /// Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (the fq qdisc)
        pacing: Flag = false;
        /// Send ECT(0) and reduce once a round on an echoed mark (tcp_ecn)
        ecn: Flag = false;
    }
}

impl From<Parameters> for Settings {
    fn from(p: Parameters) -> Self {
        Self {
            beta: Gain::from_millionths(500_000),
            abc_limit: NO_LIMIT,
            initial_ssthresh: p.initial_ssthresh,
            hystart: false,
            pacing: p.pacing,
            ecn: p.ecn,
            after_idle: AfterIdle::Halve,
            slowdown: SharedSlowdown::Never,
        }
    }
}

/// The controller `reno-linux`.
pub type Reno = crate::reno::Reno<Parameters>;

impl Described for Reno {
    type Parameters = Parameters;
    const NAME: &'static str = "reno-linux";
    const SUMMARY: &'static str = "Reno, as in mainline Linux";
    const SOURCE: &'static str = "Linux net/ipv4/tcp_cong.c";
    const PHASES: &'static [&'static str] = Phase::WITHOUT_CSS;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: parameters.ecn,
            pacing: parameters.pacing,
            ..Signals::NONE
        }
    }
}
