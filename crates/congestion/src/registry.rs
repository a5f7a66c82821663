//! The closed set of controllers: each describes itself, and one line of [`registry`] adds it to
//! scenarios, listings and `AnyController`.

use paceline_units::Field;

use crate::options::{OptionInfo, OptionValue, Parameters};
use crate::{Controller, Described};

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
pub(crate) fn visit_options<P: Parameters>(
    parameters: &P,
    visit: &mut dyn FnMut(&'static str, OptionValue),
) {
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
        pub enum AnyController<G = $crate::NoGuest> { $($variant($controller),)* Guest(G) }

        /// A controller's checked parameters, from which any number of instances are made.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is its controller")]
        pub enum Recipe { $($variant(<$controller as $crate::Described>::Parameters)),* }

        impl Recipe {
            /// The name of the controller.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => <$controller as $crate::Described>::NAME),* }
            }

            /// Names the fields of the controller's state.
            pub fn visit_fields(&self, visit: &mut dyn FnMut($crate::Field)) {
                use $crate::Controller;
                match self { $(Self::$variant(_) => <$controller>::visit_fields(visit)),* }
            }

            /// Shows the value of each option, without those of nested parameters.
            pub fn visit_options(
                &self,
                visit: &mut dyn FnMut(&'static str, $crate::options::OptionValue),
            ) {
                match self {
                    $(Self::$variant(own) => $crate::registry::visit_options(own, visit),)*
                }
            }

            /// The signals that the controller needs from a transport, with these parameters.
            pub fn needs(&self) -> $crate::Signals {
                match self {
                    $(Self::$variant(parameters) => {
                        <$controller as $crate::Described>::needs(parameters)
                    })*
                }
            }

            /// Whether the controller can work with a transport's signals.
            ///
            /// # Errors
            /// The missing signals.
            pub fn check(&self, signals: $crate::Signals) -> Result<(), $crate::Unmet> {
                signals.check(self.name(), self.needs())
            }

            /// A new instance.
            pub fn build(&self, config: &$crate::Config) -> AnyController {
                self.build_beside(config)
            }

            /// The same for a transport that also has guests.
            pub fn build_beside<G>(&self, config: &$crate::Config) -> AnyController<G> {
                match self {
                    $(Self::$variant(parameters) => {
                        AnyController::$variant(<$controller>::new(config, parameters.clone()))
                    })*
                }
            }
        }

        /// Every controller, sorted by name.
        pub fn controllers() -> &'static [$crate::ControllerSpec] {
            static CONTROLLERS: &[$crate::ControllerSpec] =
                &[$($crate::ControllerSpec::of::<$controller>()),*];
            CONTROLLERS
        }

        /// The controller `name` with `options` over its defaults, checked and ready to be made.
        pub fn recipe(
            name: &str,
            options: &[(&str, $crate::options::OptionValue)],
        ) -> Result<Recipe, $crate::BuildError> {
            use $crate::options::Parameters;
            match name {
                $(<$controller as $crate::Described>::NAME => {
                    <$controller as $crate::Described>::Parameters::with(options).map(Recipe::$variant)
                })*
                _ => return Err($crate::BuildError::UnknownController),
            }
            .map_err($crate::BuildError::Option)
        }

        /// Makes the controller `name` with `options` applied over its defaults.
        pub fn build(
            name: &str,
            config: &$crate::Config,
            options: &[(&str, $crate::options::OptionValue)],
        ) -> Result<AnyController, $crate::BuildError> {
            recipe(name, options).map(|recipe| recipe.build(config))
        }

        $crate::registry::dispatch! { $($variant)* }
    };
}
pub(crate) use registry;

/// No guest: this type has no values.
#[derive(Clone, Copy, Debug)]
pub enum NoGuest {}

impl core::ops::Deref for NoGuest {
    type Target = dyn Controller;

    fn deref(&self) -> &Self::Target {
        match *self {}
    }
}

impl core::ops::DerefMut for NoGuest {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match *self {}
    }
}

/// Implements [`Controller`](crate::Controller) for `AnyController` by that of its variant.
macro_rules! dispatch {
    ($($variant:ident)*) => {
        impl<G: core::ops::DerefMut<Target: $crate::Controller>> $crate::Controller for AnyController<G> {
            fn on_send(&mut self, sent: &$crate::Sent) { match self { $(Self::$variant(c) => c.on_send(sent),)* Self::Guest(c) => c.on_send(sent) } }
            fn hears_each_send(&self) -> bool { match self { $(Self::$variant(c) => c.hears_each_send(),)* Self::Guest(c) => c.hears_each_send() } }
            fn on_idle_restart(&mut self, now: paceline_units::Instant) {
                match self { $(Self::$variant(c) => c.on_idle_restart(now),)* Self::Guest(c) => c.on_idle_restart(now) }
            }
            fn on_loss(&mut self, loss: &$crate::Lost) { match self { $(Self::$variant(c) => c.on_loss(loss),)* Self::Guest(c) => c.on_loss(loss) } }
            fn on_ack(&mut self, ack: &$crate::Ack) { match self { $(Self::$variant(c) => c.on_ack(ack),)* Self::Guest(c) => c.on_ack(ack) } }
            fn on_recovery_again(&mut self, now: paceline_units::Instant, in_flight: paceline_units::Bytes, outstanding: paceline_units::Bytes) {
                match self { $(Self::$variant(c) => c.on_recovery_again(now, in_flight, outstanding),)* Self::Guest(c) => c.on_recovery_again(now, in_flight, outstanding) }
            }
            fn on_recovery_enter(&mut self, now: paceline_units::Instant, in_flight: paceline_units::Bytes) {
                match self { $(Self::$variant(c) => c.on_recovery_enter(now, in_flight),)* Self::Guest(c) => c.on_recovery_enter(now, in_flight) }
            }
            fn on_recovery_exit(&mut self, now: paceline_units::Instant) {
                match self { $(Self::$variant(c) => c.on_recovery_exit(now),)* Self::Guest(c) => c.on_recovery_exit(now) }
            }
            fn on_timeout(&mut self, now: paceline_units::Instant, in_flight: paceline_units::Bytes) {
                match self { $(Self::$variant(c) => c.on_timeout(now, in_flight),)* Self::Guest(c) => c.on_timeout(now, in_flight) }
            }
            fn on_spurious(&mut self, now: paceline_units::Instant, delivered: paceline_units::Bytes) {
                match self { $(Self::$variant(c) => c.on_spurious(now, delivered),)* Self::Guest(c) => c.on_spurious(now, delivered) }
            }
            fn on_mss(&mut self, mss: u32) { match self { $(Self::$variant(c) => c.on_mss(mss),)* Self::Guest(c) => c.on_mss(mss) } }
            fn cwnd(&self) -> paceline_units::Bytes { match self { $(Self::$variant(c) => c.cwnd(),)* Self::Guest(c) => c.cwnd() } }
            fn pacing_rate(&self) -> Option<paceline_units::Rate> { match self { $(Self::$variant(c) => c.pacing_rate(),)* Self::Guest(c) => c.pacing_rate() } }
            fn send_quantum(&self) -> paceline_units::Bytes { match self { $(Self::$variant(c) => c.send_quantum(),)* Self::Guest(c) => c.send_quantum() } }
            fn ssthresh(&self) -> Option<paceline_units::Bytes> { match self { $(Self::$variant(c) => c.ssthresh(),)* Self::Guest(c) => c.ssthresh() } }
            fn recovery_window(&self) -> $crate::RecoveryWindow { match self { $(Self::$variant(c) => c.recovery_window(),)* Self::Guest(c) => c.recovery_window() } }
            fn marks_app_limited(&self) -> bool { match self { $(Self::$variant(c) => c.marks_app_limited(),)* Self::Guest(c) => c.marks_app_limited() } }
            fn pacer_below(&self) -> bool { match self { $(Self::$variant(c) => c.pacer_below(),)* Self::Guest(c) => c.pacer_below() } }
            fn ecn(&self) -> $crate::Ecn { match self { $(Self::$variant(c) => c.ecn(),)* Self::Guest(c) => c.ecn() } }
            fn outputs(&self) -> $crate::Outputs { match self { $(Self::$variant(c) => c.outputs(),)* Self::Guest(c) => c.outputs() } }
            fn phase(&self) -> &'static str { match self { $(Self::$variant(c) => c.phase(),)* Self::Guest(c) => c.phase() } }
            fn round_count(&self) -> u64 { match self { $(Self::$variant(c) => c.round_count(),)* Self::Guest(c) => c.round_count() } }
            fn visit_state(&self, visit: &mut $crate::Visitor<'_>) {
                match self { $(Self::$variant(c) => c.visit_state(visit),)* Self::Guest(c) => c.visit_state(visit) }
            }
        }
    };
}
pub(crate) use dispatch;

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
