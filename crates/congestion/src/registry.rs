//! Every controller by name, with its source and its options.

use paceline_units::{Bytes, Instant, Rate};

use crate::options::{OptionInfo, OptionValue, Parameters};
use crate::{Ack, Config, Controller, Ecn, Loss, RecoveryWindow, Sent, Value};

/// A controller that a scenario can name.
pub struct ControllerSpec {
    /// Its name in scenarios.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// The document it implements.
    pub source: &'static str,
    /// The states that its state machine can be in, by the names that [`Controller::phase`] gives.
    pub phases: &'static [&'static str],
    /// Its `index`-th option.
    pub option: fn(usize) -> Option<OptionInfo>,
    recipe: MakeRecipe,
}

/// Checks options; the error is the index of the first that is refused.
type MakeRecipe = fn(&[(&str, OptionValue)]) -> Result<Recipe, usize>;

impl ControllerSpec {
    /// Its options, in order.
    pub fn options(&self) -> impl Iterator<Item = OptionInfo> + '_ {
        (0..).map_while(self.option)
    }
}

/// Why a controller could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// No controller has this name.
    UnknownController,
    /// The option at this index is unknown to the controller or out of its bounds.
    Option(usize),
}

/// The controller `name` with `options` over its defaults, checked and ready to be made.
pub fn recipe(name: &str, options: &[(&str, OptionValue)]) -> Result<Recipe, BuildError> {
    let spec = controllers()
        .iter()
        .find(|spec| spec.name == name)
        .ok_or(BuildError::UnknownController)?;
    (spec.recipe)(options).map_err(BuildError::Option)
}

/// Makes the controller `name` with `options` applied over its defaults.
pub fn build(
    name: &str,
    config: &Config,
    options: &[(&str, OptionValue)],
) -> Result<AnyController, BuildError> {
    recipe(name, options).map(|recipe| recipe.build(config))
}

/// Declares the closed set of controllers: one line each makes it known to
/// scenarios, to listings and to [`AnyController`].
macro_rules! registry {
    ($($variant:ident = $name:literal, $summary:literal, $source:literal, $phases:expr;
       $controller:ty, $parameters:ty, $size:expr;)*) => {
        /// Any of the controllers, dispatched statically.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is its controller")]
        pub enum AnyController { $($variant($controller)),* }

        /// A controller's checked parameters, from which any number of instances are made.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is its controller")]
        pub enum Recipe { $($variant($parameters)),* }

        impl Recipe {
            /// The name of the controller.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name),* }
            }

            /// A new instance.
            pub fn build(&self, config: &Config) -> AnyController {
                match self {
                    $(Self::$variant(parameters) => {
                        AnyController::$variant(<$controller>::new(config, parameters.clone()))
                    })*
                }
            }
        }

        static CONTROLLERS: &[ControllerSpec] = &[$(ControllerSpec {
            name: $name,
            summary: $summary,
            source: $source,
            phases: $phases,
            option: <$parameters as Parameters>::info,
            recipe: |options| <$parameters>::with(options).map(Recipe::$variant),
        }),*];

        // A controller is at most this many bytes.
        $(const _: () = assert!(core::mem::size_of::<$controller>() <= $size);)*

        impl Controller for AnyController {
            fn name(&self) -> &'static str { match self { $(Self::$variant(c) => c.name()),* } }
            fn on_send(&mut self, sent: &Sent) { match self { $(Self::$variant(c) => c.on_send(sent)),* } }
            fn on_loss(&mut self, loss: &Loss) { match self { $(Self::$variant(c) => c.on_loss(loss)),* } }
            fn on_ack(&mut self, ack: &Ack) { match self { $(Self::$variant(c) => c.on_ack(ack)),* } }
            fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes) {
                match self { $(Self::$variant(c) => c.on_recovery_enter(now, in_flight)),* }
            }
            fn on_recovery_exit(&mut self, now: Instant) { match self { $(Self::$variant(c) => c.on_recovery_exit(now)),* } }
            fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
                match self { $(Self::$variant(c) => c.on_timeout(now, in_flight)),* }
            }
            fn on_spurious(&mut self, now: Instant) { match self { $(Self::$variant(c) => c.on_spurious(now)),* } }
            fn on_mss(&mut self, mss: u32) { match self { $(Self::$variant(c) => c.on_mss(mss)),* } }
            fn cwnd(&self) -> Bytes { match self { $(Self::$variant(c) => c.cwnd()),* } }
            fn pacing_rate(&self) -> Option<Rate> { match self { $(Self::$variant(c) => c.pacing_rate()),* } }
            fn send_quantum(&self) -> Bytes { match self { $(Self::$variant(c) => c.send_quantum()),* } }
            fn ssthresh(&self) -> Option<Bytes> { match self { $(Self::$variant(c) => c.ssthresh()),* } }
            fn recovery_window(&self) -> RecoveryWindow { match self { $(Self::$variant(c) => c.recovery_window()),* } }
            fn marks_app_limited(&self) -> bool { match self { $(Self::$variant(c) => c.marks_app_limited()),* } }
            fn pacer_below(&self) -> bool { match self { $(Self::$variant(c) => c.pacer_below()),* } }
            fn ecn(&self) -> Ecn { match self { $(Self::$variant(c) => c.ecn()),* } }
            fn phase(&self) -> &'static str { match self { $(Self::$variant(c) => c.phase()),* } }
            fn round_count(&self) -> u64 { match self { $(Self::$variant(c) => c.round_count()),* } }
            fn visit_state(&self, visit: &mut dyn FnMut(&'static str, Value)) {
                match self { $(Self::$variant(c) => c.visit_state(visit)),* }
            }
        }
    };
}

const PHASES_V1: &[&str] = &["STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT"];
const PHASES_FAIR: &[&str] = &[
    "STARTUP",
    "DRAIN",
    "PROBE_BW",
    "PROBE_RTT",
    "RECOVERY_HOLD",
    "RECOVERY_FAST",
];
const PHASES_V2: &[&str] = &[
    "STARTUP",
    "DRAIN",
    "PROBE_BW_UP",
    "PROBE_BW_DOWN",
    "PROBE_BW_CRUISE",
    "PROBE_BW_REFILL",
    "PROBE_RTT",
];
const PHASES_DRAFT: &[&str] = &[
    "Startup",
    "Drain",
    "ProbeBW_DOWN",
    "ProbeBW_CRUISE",
    "ProbeBW_REFILL",
    "ProbeBW_UP",
    "ProbeRTT",
];
const PHASES_WINDOW: &[&str] = &[
    "SlowStart",
    "CSS",
    "CongestionAvoidance",
    "Recovery",
    "Loss",
];
const PHASES_CUBIC_LINUX: &[&str] = &["SlowStart", "CongestionAvoidance", "Recovery", "Loss"];
const PHASES_SWIFT: &[&str] = &["Window", "Paced"];
const PHASES_LEDBAT: &[&str] = &["CongestionAvoidance", "Recovery", "Loss"];
const PHASES_LEDBAT_PLUS_PLUS: &[&str] = &[
    "InitialSlowStart",
    "SlowStart",
    "CongestionAvoidance",
    "Slowdown",
    "Ramp",
    "Recovery",
];

registry! {
    BbrSwift = "bbr-swift", "BBRv3 that keeps the network's round trip to a target (a reconstruction)",
        "BBR.Swift, IETF 109", PHASES_DRAFT;
        crate::bbr3::swift::BbrSwift, crate::bbr3::swift::Parameters, 640;
    Bbr1 = "bbr1", "BBRv1 as in mainline Linux", "Linux net/ipv4/tcp_bbr.c", PHASES_V1;
        crate::linux::bbr1::Bbr1, crate::linux::bbr1::Parameters, 512;
    Bbr1Fair = "bbr1-fair", "BBRv1 with strict packet conservation in recovery and a reseeded bandwidth filter",
        "Pacing at the fair-share of the bottleneck bandwidth (trueux.net, 2021)", PHASES_FAIR;
        crate::linux::bbr1::fair::Bbr1Fair, crate::linux::bbr1::fair::Parameters, 512;
    Bbr2 = "bbr2", "BBRv2 alpha as in Linux", "google/bbr v2alpha net/ipv4/tcp_bbr2.c", PHASES_V2;
        crate::linux::bbr2::Bbr2, crate::linux::bbr2::Parameters, 512;
    Bbr3 = "bbr3", "BBRv3 as the IETF draft says", "draft-ietf-ccwg-bbr-06", PHASES_DRAFT;
        crate::bbr3::Bbr3, crate::bbr3::Parameters, 512;
    Bbr3Linux = "bbr3-linux", "BBRv3 as in Linux", "google/bbr v3 net/ipv4/tcp_bbr.c", PHASES_V2;
        crate::linux::bbr3::Bbr3, crate::linux::bbr3::Parameters, 512;
    Cubic = "cubic", "CUBIC with HyStart++", "RFC 9438, RFC 9406", PHASES_WINDOW;
        crate::cubic::Cubic, crate::cubic::Parameters, 512;
    CubicLinux = "cubic-linux", "CUBIC with HyStart, as in mainline Linux", "Linux net/ipv4/tcp_cubic.c", PHASES_CUBIC_LINUX;
        crate::linux::cubic::Cubic, crate::linux::cubic::Parameters, 512;
    Dctcp = "dctcp", "Reno's window, reduced in proportion to the part of the data that is marked", "RFC 8257", PHASES_WINDOW;
        crate::dctcp::Dctcp, crate::dctcp::Parameters, 512;
    Ledbat = "ledbat", "Low extra delay background transport", "RFC 6817", PHASES_LEDBAT;
        crate::ledbat::Ledbat, crate::ledbat::Parameters, 512;
    LedbatPlusPlus = "ledbat++", "LEDBAT with slowdowns and multiplicative decrease", "draft-irtf-iccrg-ledbat-plus-plus", PHASES_LEDBAT_PLUS_PLUS;
        crate::ledbat::LedbatPlusPlus, crate::ledbat::PlusPlusParameters, 576;
    Prague = "prague", "The scalable sender of L4S, independent of its RTT",
        "draft-briscoe-iccrg-prague-congestion-control, RFC 9331", PHASES_WINDOW;
        crate::prague::Prague, crate::prague::Parameters, 512;
    Reno = "reno", "NewReno's window with appropriate byte counting", "RFC 5681, RFC 3465", PHASES_WINDOW;
        crate::reno::Reno, crate::reno::Parameters, 512;
    Swift = "swift", "Delays of fabric and hosts against their targets, with windows below a packet",
        "Swift, SIGCOMM 2020", PHASES_SWIFT;
        crate::swift::Swift, crate::swift::Parameters, 512;
}

/// Every controller, sorted by name.
pub fn controllers() -> &'static [ControllerSpec] {
    CONTROLLERS
}
