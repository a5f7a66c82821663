//! The signals that a transport gives a controller, and those that a controller requires.

use core::fmt;

/// Declares the signals: documentation and name of each.
macro_rules! signals {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The information and services that a transport gives its controller. Each transport
        /// states its own as a constant (ours by `SenderConfig::signals` of `paceline-recovery`); a
        /// controller states its requirements in the same form
        /// ([`Described::needs`](crate::Described::needs)), and [`Signals::check`] compares the
        /// two.
        ///
        /// Every transport reports sizes, times, data in flight, RTT samples, and whether the window limited sending.
        /// Anything listed here that a transport does not report is `None`, zero or false in the events.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Signals {
            $($(#[doc = $doc])+ pub $name: bool,)*
        }

        impl Signals {
            /// None of them.
            pub const NONE: Self = Self { $($name: false,)* };
            /// All of them.
            pub const ALL: Self = Self { $($name: true,)* };

            /// The signals in `needs` that are missing here.
            pub const fn missing(self, needs: Self) -> Self {
                Self { $($name: needs.$name && !self.$name,)* }
            }

            /// Visits each signal: its name, its documentation, and whether it is present.
            pub fn visit(self, visit: &mut dyn FnMut(&'static str, &'static str, bool)) {
                $(visit(stringify!($name), concat!($($doc),+).trim_ascii(), self.$name);)*
            }

            /// Their sum, in which the first signal is bit 0 and every other the bit above the one before it.
            pub fn bits(self) -> u64 {
                let given = [$(self.$name),*].into_iter().rev();
                given.fold(0, |sum, given| sum << 1 | u64::from(given))
            }

            /// The signals of such a sum. Higher bits mean nothing.
            pub fn from_bits(mut bits: u64) -> Self {
                let mut next = || {
                    let given = bits & 1 != 0;
                    bits >>= 1;
                    given
                };
                Self { $($name: next(),)* }
            }
        }
    };
}

signals! {
    /// Losses and marks that an ACK reveals are reported before its sample (Linux, s2n-quic,
    /// picoquic); without it, after the sample, so that they count in the next one (quinn, noq).
    losses_first,
    /// Each lost packet is reported with its own token; without it, a batch of losses is one report with the token of
    /// its newest packet and the total size.
    loss_per_packet,
    /// CE marks are reported, by `Ack::ece` or by `Ack::newly_marked`.
    marks,
    /// The amount of CE-marked data is reported: `Ack::newly_marked`. Implies `marks`.
    mark_counts,
    /// Packets carry ECT(1) if the controller asks for it.
    ect1,
    /// Spurious loss episodes are reported: `Controller::on_spurious`.
    spurious_loss,
    /// Packets leave at `Controller::pacing_rate`, in bursts of `Controller::send_quantum` or less.
    pacing,
    /// The delay from sender to receiver is reported: `Ack::one_way_delay`.
    one_way_delay,
    /// The receiver's host delay is reported, and excluded from `Ack::network_rtt`.
    receiver_delay,
    /// A token says whether the flow was application-limited when its packet was sent, not when it was acknowledged.
    app_limited_at_send,
}

impl Signals {
    /// Whether `controller` can work with these signals, given what it `needs`.
    ///
    /// # Errors
    /// The missing signals.
    pub fn check(self, controller: &'static str, needs: Self) -> Result<(), Unmet> {
        let missing = self.missing(needs);
        if missing == Self::NONE {
            Ok(())
        } else {
            Err(Unmet {
                controller,
                missing,
            })
        }
    }
}

/// A controller cannot work with a transport that lacks signals it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// The controller.
    pub controller: &'static str,
    /// The missing signals.
    pub missing: Signals,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` cannot run on this transport, which lacks",
            self.controller
        )?;
        let (mut result, mut first) = (Ok(()), true);
        self.missing.visit(&mut |name, _, missing| {
            if missing && result.is_ok() {
                let separator = if first { " " } else { ", " };
                first = false;
                result = write!(f, "{separator}`{name}`");
            }
        });
        result
    }
}

impl core::error::Error for Unmet {}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;
    use crate::options::OptionValue;
    use crate::{controllers, recipe};

    /// As quinn 0.11 without a pacer: losses late and by batch, marks without a count.
    const LEAST: Signals = Signals {
        marks: true,
        ..Signals::NONE
    };

    #[test]
    fn a_controller_that_lacks_a_signal_is_refused_by_name() {
        let dctcp = recipe("dctcp", &[]).expect("its defaults");
        let error = dctcp.check(LEAST).expect_err("no counts");
        assert_eq!(
            error.to_string(),
            "`dctcp` cannot run on this transport, which lacks `mark_counts`"
        );
        let prague = recipe("prague", &[]).expect("its defaults");
        assert_eq!(
            prague.check(LEAST).expect_err("neither").to_string(),
            "`prague` cannot run on this transport, which lacks `mark_counts`, `ect1`, `pacing`"
        );
        assert_eq!(prague.check(Signals::ALL), Ok(()));
    }

    #[test]
    fn what_is_needed_depends_on_the_options() {
        let lacks = |name, options: &[(&str, OptionValue)], signals: Signals| {
            recipe(name, options)
                .expect("options within bounds")
                .check(signals)
                .is_err()
        };
        assert!(!lacks("cubic", &[], Signals::NONE));
        let ecn = [("ecn", OptionValue::Flag(true))];
        assert!(lacks("cubic", &ecn, Signals::NONE));
        assert!(!lacks("cubic", &ecn, LEAST));
        assert!(lacks("ledbat", &[], LEAST));
        assert!(!lacks(
            "ledbat",
            &[("delay", OptionValue::Choice("rtt"))],
            LEAST
        ));
    }

    /// Every transport can run some of them, and one with all signals runs all of them.
    #[test]
    fn all_signals_are_enough_and_none_is_enough_for_some() {
        let recipes = || {
            controllers()
                .iter()
                .filter_map(|spec| recipe(spec.name, &[]).ok())
        };
        assert!(recipes().all(|recipe| recipe.check(Signals::ALL).is_ok()));
        let bare: Vec<&str> = recipes()
            .filter(|recipe| recipe.check(Signals::NONE).is_ok())
            .map(|recipe| recipe.name())
            .collect();
        assert_eq!(
            bare,
            ["cubic", "cubic-linux", "ledbat++", "reno", "reno-linux"]
        );
    }
}
