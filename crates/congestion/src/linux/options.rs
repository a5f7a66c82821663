//! Linux's parameters as options of a scenario.

use paceline_units::{Duration, Gain};

/// A number in 256ths (`BBR_UNIT`).
pub type FixedPoint = u32;

/// 256ths as a gain.
pub fn to_gain(value: FixedPoint) -> Gain {
    let millionths = (u64::from(value) * u64::from(Gain::SCALE) + 128) / 256;
    Gain::from_millionths(u32::try_from(millionths).unwrap_or(u32::MAX))
}

/// A gain as 256ths, to the nearest.
pub fn from_gain(gain: Gain) -> FixedPoint {
    let scale = u64::from(Gain::SCALE);
    ((u64::from(gain.millionths()) * 256 + scale / 2) / scale) as u32
}

/// A gain of `value` 256ths, rounded down, so that a bound written with it is in reach.
pub const fn gain(value: u64) -> Gain {
    Gain::from_millionths((value * Gain::SCALE as u64 / 256) as u32)
}

/// A span as whole microseconds.
pub fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

/// A span as whole milliseconds.
pub fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_micros() / 1_000).unwrap_or(u32::MAX)
}

/// A table of options, each a field of the parameters by the same name.
macro_rules! linux_options {
    ($($field:ident: $kind:ident $(($low:expr, $high:expr))?, $doc:literal;)*) => {
        &[$($crate::options::OptionSpec {
            name: stringify!($field),
            kind: linux_options!(@kind $kind $($low, $high)?),
            doc: $doc,
            get: |p| linux_options!(@get $kind p.$field),
            set: |p, value| linux_options!(@set $kind p.$field, value),
        }),*]
    };
    (@kind gain $low:expr, $high:expr) => {
        $crate::options::OptionKind::Gain($crate::linux::options::gain($low), $crate::linux::options::gain($high))
    };
    (@kind count $low:expr, $high:expr) => { $crate::options::OptionKind::Count($low, $high) };
    (@kind millis $low:expr, $high:expr) => {
        $crate::options::OptionKind::Duration(
            paceline_units::Duration::from_millis($low), paceline_units::Duration::from_millis($high))
    };
    (@kind micros $low:expr, $high:expr) => {
        $crate::options::OptionKind::Duration(
            paceline_units::Duration::from_micros($low), paceline_units::Duration::from_micros($high))
    };
    (@kind flag) => { $crate::options::OptionKind::Flag };
    (@get gain $p:expr) => { $crate::options::OptionValue::Gain($crate::linux::options::to_gain($p)) };
    (@get count $p:expr) => { $crate::options::OptionValue::Count(u64::from($p)) };
    (@get millis $p:expr) => {
        $crate::options::OptionValue::Duration(paceline_units::Duration::from_millis(u64::from($p)))
    };
    (@get micros $p:expr) => {
        $crate::options::OptionValue::Duration(paceline_units::Duration::from_micros(u64::from($p)))
    };
    (@get flag $p:expr) => { $crate::options::OptionValue::Flag($p) };
    (@set gain $p:expr, $value:ident) => {
        if let $crate::options::OptionValue::Gain(v) = $value { $p = $crate::linux::options::from_gain(v) }
    };
    (@set count $p:expr, $value:ident) => {
        if let $crate::options::OptionValue::Count(v) = $value { $p = u32::try_from(v).unwrap_or(u32::MAX) }
    };
    (@set millis $p:expr, $value:ident) => {
        if let $crate::options::OptionValue::Duration(v) = $value { $p = $crate::linux::options::millis(v) }
    };
    (@set micros $p:expr, $value:ident) => {
        if let $crate::options::OptionValue::Duration(v) = $value { $p = $crate::linux::options::micros(v) }
    };
    (@set flag $p:expr, $value:ident) => {
        if let $crate::options::OptionValue::Flag(v) = $value { $p = v }
    };
}
pub(crate) use linux_options;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{OptionKind, Parameters};

    #[test]
    fn every_256th_survives_as_a_gain() {
        for value in 0..=4096 {
            assert_eq!(from_gain(to_gain(value)), value);
        }
    }

    /// Writing an option's own default back changes nothing, and defaults are within their bounds.
    fn defaults_are_their_own<P: Parameters + core::fmt::Debug>() {
        for option in P::OPTIONS {
            let default = (option.get)(&P::default());
            assert!(option.kind.accepts(&default), "{}", option.name);
            let set = P::with(&[(option.name, default)]).map_err(|_| option.name);
            assert_eq!(
                std::format!("{:?}", set),
                std::format!("{:?}", Ok::<_, &str>(P::default())),
                "{}",
                option.name
            );
            if let OptionKind::Gain(low, high) = option.kind {
                assert!(low < high);
            }
        }
    }

    #[test]
    fn defaults_survive_the_options() {
        defaults_are_their_own::<crate::linux::bbr1::Parameters>();
        defaults_are_their_own::<crate::linux::bbr1::fair::Parameters>();
        defaults_are_their_own::<crate::linux::bbr2::Parameters>();
        defaults_are_their_own::<crate::linux::bbr3::Parameters>();
        defaults_are_their_own::<crate::linux::cubic::Parameters>();
    }
}
