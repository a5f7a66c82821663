//! The closed set of controllers: each describes itself, and one line of `registry!` adds it to
//! scenarios, listings and `AnyController`.

use core::ops::{Deref, DerefMut};

use paceline_units::{Bytes, Ecn, Field, Instant, Rate, Visitor};

use crate::options::{OptionInfo, OptionValue, Parameters};
use crate::{
    Ack, Config, Controller, Cue, Described, Lost, Outputs, RecoveryWindow, Sent, Signals, Unmet,
};

/// A controller that a scenario can name.
pub struct ControllerSpec {
    /// Its name in scenarios.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// The document it implements.
    pub source: &'static str,
    /// The states of its state machine, by the names that
    /// [`Controller::phase`](crate::Controller::phase) returns.
    pub phases: &'static [&'static str],
    /// Its `index`-th option.
    pub option: fn(usize) -> Option<OptionInfo>,
    /// Names the fields of its state, in the order in which [`Controller::visit_state`] shows them.
    pub visit_fields: fn(&mut dyn FnMut(Field)),
}

impl ControllerSpec {
    /// The description of `C`.
    pub const fn of<C: Described + Controller>() -> Self {
        assert!(size_of::<C>() <= C::MAX_SIZE, "a controller has grown");
        Self {
            name: C::NAME,
            summary: C::SUMMARY,
            source: C::SOURCE,
            phases: C::PHASES,
            option: C::Parameters::info,
            visit_fields: C::visit_fields,
        }
    }

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

/// Shows the value of each option of the parameters.
fn visit_options<P: Parameters>(parameters: &P, visit: &mut dyn FnMut(&'static str, OptionValue)) {
    for option in P::OPTIONS {
        visit(option.name, (option.get)(parameters));
    }
}

/// Declares the controllers, sorted by name.
macro_rules! registry {
    ($($variant:ident = $controller:ty,)*) => {
        /// Any of the controllers, dispatched statically, or a guest: a pointer to a controller
        /// from outside this crate. For a transport without guests `AnyController` has no extra
        /// cost.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is its controller")]
        pub enum AnyController<G = NoGuest> { $($variant($controller),)* Guest(G) }

        /// A controller's checked parameters, from which any number of instances are made.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is its controller")]
        pub enum Recipe { $($variant(<$controller as Described>::Parameters)),* }

        impl Recipe {
            /// The name of the controller.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$controller as Described>::NAME),* }
            }

            /// Names the fields of the controller's state.
            pub fn visit_fields(&self, visit: &mut dyn FnMut(Field)) {
                match self { $(Self::$variant(_) => <$controller>::visit_fields(visit)),* }
            }

            /// Shows the value of each option, without those of nested parameters.
            pub fn visit_options(
                &self,
                visit: &mut dyn FnMut(&'static str, OptionValue),
            ) {
                match self {
                    $(Self::$variant(own) => visit_options(own, visit),)*
                }
            }

            /// The signals that the controller needs from a transport, with these parameters.
            pub fn needs(&self) -> Signals {
                match self {
                    $(Self::$variant(parameters) => {
                        <$controller as Described>::needs(parameters)
                    })*
                }
            }

            /// Whether the controller can work with a transport's signals.
            ///
            /// # Errors
            /// The missing signals.
            pub fn check(&self, signals: Signals) -> Result<(), Unmet> {
                signals.check(self.name(), self.needs())
            }

            /// A new instance.
            pub fn build(&self, config: &Config) -> AnyController {
                self.build_beside(config)
            }

            /// The same for a transport that also has guests.
            pub fn build_beside<G>(&self, config: &Config) -> AnyController<G> {
                match self {
                    $(Self::$variant(parameters) => {
                        AnyController::$variant(<$controller>::new(config, parameters.clone()))
                    })*
                }
            }
        }

        /// Every controller, sorted by name.
        pub fn controllers() -> &'static [ControllerSpec] {
            static CONTROLLERS: &[ControllerSpec] =
                &[$(ControllerSpec::of::<$controller>()),*];
            CONTROLLERS
        }

        /// The controller `name` with `options` over its defaults, checked and ready to be made.
        pub fn recipe(
            name: &str,
            options: &[(&str, OptionValue)],
        ) -> Result<Recipe, BuildError> {
            match name {
                $(<$controller as Described>::NAME => {
                    <$controller as Described>::Parameters::with(options).map(Recipe::$variant)
                })*
                _ => return Err(BuildError::UnknownController),
            }
            .map_err(BuildError::Option)
        }

        /// Makes the controller `name` with `options` applied over its defaults.
        pub fn build(
            name: &str,
            config: &Config,
            options: &[(&str, OptionValue)],
        ) -> Result<AnyController, BuildError> {
            recipe(name, options).map(|recipe| recipe.build(config))
        }

        /// Evaluates the same of whichever controller an [`AnyController`] is.
        macro_rules! either {
            ($any:ident, $c:ident => $value:expr) => {
                match $any { $(Self::$variant($c) => $value,)* Self::Guest($c) => $value }
            };
        }
    };
}

registry! {
    BbrSwift = crate::bbr3::swift::BbrSwift,
    Bbr1 = crate::linux::bbr1::Bbr1,
    Bbr1Fair = crate::linux::bbr1::fair::Bbr1Fair,
    Bbr2 = crate::linux::bbr2::Bbr2,
    Bbr3 = crate::bbr3::Bbr3,
    Bbr3Linux = crate::linux::bbr3::Bbr3,
    Cubic = crate::cubic::Cubic,
    CubicLinux = crate::linux::cubic::Cubic,
    Dctcp = crate::dctcp::Dctcp,
    Ledbat = crate::ledbat::Ledbat,
    LedbatPlusPlus = crate::ledbat::LedbatPlusPlus,
    Prague = crate::prague::Prague,
    Reno = crate::reno::Reno,
    RenoLinux = crate::linux::reno::Reno,
    Swift = crate::swift::Swift,
}

/// No guest: this type has no values.
#[derive(Clone, Copy, Debug)]
pub enum NoGuest {}

impl Deref for NoGuest {
    type Target = dyn Controller;

    fn deref(&self) -> &Self::Target {
        match *self {}
    }
}

impl DerefMut for NoGuest {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match *self {}
    }
}

/// Forwards each method of a controller to the controller that it is.
macro_rules! forward {
    (
        events { $($event:ident($($given:ident: $kind:ty),*);)* }
        answers { $($answer:ident($($asked:ident: $asked_kind:ty)?) -> $output:ty;)* }
    ) => {
        $(fn $event(&mut self $(, $given: $kind)*) {
            either!(self, c => c.$event($($given),*))
        })*

        $(fn $answer(&self $(, $asked: $asked_kind)?) -> $output {
            either!(self, c => c.$answer($($asked)?))
        })*
    };
}

// What is not forwarded would be the trait's default, whatever the controller says.
#[deny(clippy::missing_trait_methods)]
impl<G: DerefMut<Target: Controller>> Controller for AnyController<G> {
    forward! {
        events {
            on_send(sent: &Sent);
            on_idle_restart(now: Instant);
            on_loss(loss: &Lost);
            on_ack(ack: &Ack);
            on_recovery_enter(now: Instant, in_flight: Bytes);
            on_recovery_again(now: Instant, in_flight: Bytes, outstanding: Bytes);
            on_recovery_exit(now: Instant);
            on_timeout(now: Instant, in_flight: Bytes);
            on_spurious(now: Instant, delivered: Bytes);
            on_mss(mss: u32);
            follow(cue: Cue);
        }
        answers {
            hears_each_send() -> bool;
            cwnd() -> Bytes;
            pacing_rate() -> Option<Rate>;
            send_quantum() -> Bytes;
            ssthresh() -> Option<Bytes>;
            recovery_window() -> RecoveryWindow;
            marks_app_limited() -> bool;
            pacer_below() -> bool;
            ecn() -> Ecn;
            outputs() -> Outputs;
            phase() -> &'static str;
            round_count() -> u64;
            visit_state(visit: &mut Visitor<'_>) -> ();
        }
    }

    fn decide(&mut self, ack: &Ack) -> Outputs {
        either!(self, c => c.decide(ack))
    }

    /// None: they are known from the [`Recipe`].
    fn visit_fields(_: &mut dyn FnMut(Field)) {}
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use paceline_units::{Bytes, Duration, Instant};

    use crate::{Config, Controller, Visitor, controllers, recipe};

    #[test]
    fn every_default_is_within_its_bounds_and_writing_it_changes_nothing() {
        for spec in controllers() {
            for option in spec.options() {
                assert!(
                    option.kind.accepts(&option.default),
                    "{} {}",
                    spec.name,
                    option.name
                );
                let set = recipe(spec.name, &[(option.name, option.default)]);
                let unset = std::format!("{:?}", recipe(spec.name, &[]));
                assert!(unset.starts_with("Ok"), "{unset}");
                assert_eq!(
                    std::format!("{set:?}"),
                    unset,
                    "{} {}",
                    spec.name,
                    option.name
                );
            }
        }
        assert!(controllers().is_sorted_by_key(|spec| spec.name));
    }

    #[test]
    fn what_is_shown_is_declared() {
        let config = Config {
            mss: 1448,
            initial_window: Bytes::new(14_480),
            seed: 1,
            now: Instant::ZERO,
            srtt: Some(Duration::from_millis(40)),
            has_selective_acks: true,
        };
        for spec in controllers() {
            let recipe = recipe(spec.name, &[]).expect("its defaults");
            let (mut declared, mut shown) = (Vec::new(), Vec::new());
            (spec.visit_fields)(&mut |field| declared.push((field.name, field.quantity)));
            let controller = recipe.build(&config);
            controller.visit_state(&mut Visitor::each(&mut |name, value| {
                shown.push((name, value.quantity()));
            }));
            assert_eq!(declared, shown, "{}", spec.name);
            assert!(!declared.is_empty(), "{}", spec.name);
        }
    }
}
