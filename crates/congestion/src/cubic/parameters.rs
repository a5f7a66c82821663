//! CUBIC's options.

use paceline_units::{Bytes, Gain};

use crate::options::{OptionKind, OptionSpec, OptionValue};
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
        OptionSpec {
            name: "beta",
            kind: OptionKind::Gain(
                Gain::from_millionths(100_000),
                Gain::from_millionths(990_000),
            ),
            doc: "What is left of the window after a congestion event (RFC 9438 4.6)",
            get: |p| OptionValue::Gain(p.settings.beta),
            set: |p, value| {
                if let OptionValue::Gain(v) = value {
                    p.settings.beta = v;
                }
            },
        },
        OptionSpec {
            name: "c",
            kind: OptionKind::Gain(
                Gain::from_millionths(1_000),
                Gain::from_millionths(100_000_000),
            ),
            doc: "C: how steep the cubic function is, in segments per cubic second (RFC 9438 5.1)",
            get: |p| OptionValue::Gain(p.c),
            set: |p, value| {
                if let OptionValue::Gain(v) = value {
                    p.c = v;
                }
            },
        },
        OptionSpec {
            name: "fast_convergence",
            kind: OptionKind::Flag,
            doc: "Give way further when the last loss came below W_max (RFC 9438 4.7)",
            get: |p| OptionValue::Flag(p.fast_convergence),
            set: |p, value| {
                if let OptionValue::Flag(v) = value {
                    p.fast_convergence = v;
                }
            },
        },
        OptionSpec {
            name: "abc_limit",
            kind: OptionKind::Count(1, 1_000_000),
            doc: "L: segments that one ACK may add in slow start without HyStart++ (RFC 3465 2.2)",
            get: |p| OptionValue::Count(p.settings.abc_limit),
            set: |p, value| {
                if let OptionValue::Count(v) = value {
                    p.settings.abc_limit = v;
                }
            },
        },
        OptionSpec {
            name: "initial_ssthresh",
            kind: OptionKind::Bytes(Bytes::ZERO, Bytes::INFINITE),
            doc: "Slow-start threshold at the start (RFC 9438 4.1.2: arbitrarily high)",
            get: |p| OptionValue::Bytes(p.settings.initial_ssthresh),
            set: |p, value| {
                if let OptionValue::Bytes(v) = value {
                    p.settings.initial_ssthresh = v;
                }
            },
        },
        OptionSpec {
            name: "hystart",
            kind: OptionKind::Flag,
            doc: "HyStart++ in the initial slow start (RFC 9406)",
            get: |p| OptionValue::Flag(p.settings.hystart),
            set: |p, value| {
                if let OptionValue::Flag(v) = value {
                    p.settings.hystart = v;
                }
            },
        },
        OptionSpec {
            name: "pacing",
            kind: OptionKind::Flag,
            doc: "Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (Linux)",
            get: |p| OptionValue::Flag(p.settings.pacing),
            set: |p, value| {
                if let OptionValue::Flag(v) = value {
                    p.settings.pacing = v;
                }
            },
        },
        OptionSpec {
            name: "ecn",
            kind: OptionKind::Flag,
            doc: "Send ECT(0) and reduce once a round on an echoed mark (RFC 3168 6.1.2)",
            get: |p| OptionValue::Flag(p.settings.ecn),
            set: |p, value| {
                if let OptionValue::Flag(v) = value {
                    p.settings.ecn = v;
                }
            },
        },
    ];
}
