//! Bounds of single values, and reports of values beyond them.

use std::fmt::Display;

use paceline_units::{Bytes, Duration, Gain, Rate};

use crate::diagnostic::Kind;
use crate::limits;

/// An error in a value that could be read.
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Collects them.
#[derive(Default)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl Problems {
    pub(crate) fn bad(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Kind::BadValue, key, message.into(), hint.into());
    }

    pub(crate) fn too_much(
        &mut self,
        key: &str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.report(Kind::Limit, key, message.into(), hint.into());
    }

    fn report(&mut self, kind: Kind, key: &str, message: String, hint: String) {
        if self.0.len() < limits::MAX_PROBLEMS {
            let key = key.to_owned();
            self.0.push(Problem {
                kind,
                key,
                message,
                hint,
            });
        }
    }

    /// Reports a value outside `least..=most`.
    pub(crate) fn within<T: PartialOrd + Display>(
        &mut self,
        key: &str,
        value: T,
        least: T,
        most: T,
    ) {
        if value < least || value > most {
            let message = format!("`{key}` is {value}");
            self.too_much(key, message, format!("from {least} to {most}"));
        }
    }

    /// Reports a value beyond `most`.
    pub(crate) fn below<T: PartialOrd + Display>(&mut self, key: &str, value: T, most: T) {
        if value > most {
            let message = format!("`{key}` is {value}");
            self.too_much(key, message, format!("at most {most}"));
        }
    }

    /// Reports a time of zero, or longer than `most`.
    pub(crate) fn time(&mut self, key: &str, value: Duration, most: Duration) {
        if value == Duration::ZERO {
            let hint = format!("more than 0 s, at most {most}");
            self.bad(key, format!("`{key}` is zero"), hint);
        } else {
            self.below(key, value, most);
        }
    }

    pub(crate) fn rate(&mut self, key: &str, rate: Rate) {
        if rate == Rate::ZERO {
            let hint = "more than 0 bit/s; an outage is an event: path.rate = \"0 bit/s\"";
            self.bad(key, format!("`{key}` is zero"), hint);
        } else {
            self.below(key, rate, limits::MAX_RATE);
        }
    }

    pub(crate) fn share(&mut self, key: &str, share: Gain) {
        self.within(key, share, Gain::from_millionths(0), Gain::ONE);
    }
}

// The bounds of a key: `#[key(bound = ...)]`.

/// From `least` to `most`.
pub(crate) fn within<T: PartialOrd + Display>(
    least: T,
    most: T,
) -> impl FnOnce(&mut Problems, &str, T) {
    |problems, key, value| problems.within(key, value, least, most)
}

/// At most `most`.
pub(crate) fn below<T: PartialOrd + Display>(most: T) -> impl FnOnce(&mut Problems, &str, T) {
    |problems, key, value| problems.below(key, value, most)
}

/// A time of more than zero, at most `most`.
pub(crate) fn time(most: Duration) -> impl FnOnce(&mut Problems, &str, Duration) {
    move |problems, key, value| problems.time(key, value, most)
}

/// A rate of more than zero that a link may have.
pub(crate) fn rate() -> impl FnOnce(&mut Problems, &str, Rate) {
    |problems, key, value| problems.rate(key, value)
}

/// From 0 to 100 %.
pub(crate) fn share() -> impl FnOnce(&mut Problems, &str, Gain) {
    |problems, key, value| problems.share(key, value)
}

/// A number of packets of at least one, at most `most`.
pub(crate) fn packets(most: u64) -> impl FnOnce(&mut Problems, &str, crate::packets::Packets) {
    move |problems, key, value| problems.within(key, u64::from(value.0), 1, most)
}

/// A volume that a queue may hold.
pub(crate) fn mtu() -> impl FnOnce(&mut Problems, &str, Bytes) {
    within(limits::MIN_MTU, limits::MAX_MTU)
}
