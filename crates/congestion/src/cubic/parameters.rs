//! CUBIC's options.

use paceline_units::{Bytes, Gain};

use crate::options::{OptionSpec, option};
use crate::window::Settings;

/// What a scenario may set; see [`OPTIONS`](crate::options::Parameters::OPTIONS).
#[derive(Clone, Debug)]
pub struct Parameters {
    pub(super) settings: Settings,
    /// `C` (section 5.1), in segments per cubic second.
    pub(super) c: Gain,
    /// Section 4.7.
    pub(super) fast_convergence: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            settings: Settings {
                beta: Gain::from_millionths(700_000),
                abc_limit: 2,
                initial_ssthresh: Bytes::INFINITE,
                hystart: true,
                pacing: false,
                ecn: false,
            },
            c: Gain::from_millionths(400_000),
            fast_convergence: true,
        }
    }
}

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [OptionSpec<Self>] = &[
        option!(
            beta,
            p.settings.beta,
            Gain(100, 990),
            "What is left of the window after a congestion event (RFC 9438 4.6)"
        ),
        option!(
            c,
            p.c,
            Gain(1, 100_000),
            "C: how steep the cubic function is, in segments per cubic second (RFC 9438 5.1)"
        ),
        option!(
            fast_convergence,
            p.fast_convergence,
            Flag,
            "Give way further when the last loss came below W_max (RFC 9438 4.7)"
        ),
        option!(
            abc_limit,
            p.settings.abc_limit,
            Count(1, 1_000_000),
            "L: segments that one ACK may add in slow start without HyStart++ (RFC 3465 2.2)"
        ),
        option!(
            initial_ssthresh,
            p.settings.initial_ssthresh,
            AnyBytes,
            "Slow-start threshold at the start (RFC 9438 4.1.2: arbitrarily high)"
        ),
        option!(
            hystart,
            p.settings.hystart,
            Flag,
            "HyStart++ in the initial slow start (RFC 9406)"
        ),
        option!(
            pacing,
            p.settings.pacing,
            Flag,
            "Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (Linux)"
        ),
        option!(
            ecn,
            p.settings.ecn,
            Flag,
            "Send ECT(0) and reduce once a round on an echoed mark (RFC 3168 6.1.2)"
        ),
    ];
}
