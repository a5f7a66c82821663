//! Options of controllers: what a scenario may set, checked and documented in one table each.

use paceline_units::{Bytes, Duration, Gain};

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionValue {
    /// A dimensionless factor, written as a number.
    Gain(Gain),
    /// A count, written as an integer.
    Count(u64),
    /// A span of time, written with its unit.
    Duration(Duration),
    /// A volume, written with its unit.
    Bytes(Bytes),
    /// `true` or `false`.
    Flag(bool),
    /// One of a few words.
    Choice(&'static str),
}

/// What an option accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// A factor between two bounds, both allowed.
    Gain(Gain, Gain),
    /// A count between two bounds, both allowed.
    Count(u64, u64),
    /// A span between two bounds, both allowed.
    Duration(Duration, Duration),
    /// A volume between two bounds, both allowed.
    Bytes(Bytes, Bytes),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl OptionKind {
    /// Whether `value` is of this kind and within its bounds.
    pub fn accepts(&self, value: &OptionValue) -> bool {
        match (self, value) {
            (Self::Gain(low, high), OptionValue::Gain(v)) => low <= v && v <= high,
            (Self::Count(low, high), OptionValue::Count(v)) => low <= v && v <= high,
            (Self::Duration(low, high), OptionValue::Duration(v)) => low <= v && v <= high,
            (Self::Bytes(low, high), OptionValue::Bytes(v)) => low <= v && v <= high,
            (Self::Flag, OptionValue::Flag(_)) => true,
            (Self::Choice(words), OptionValue::Choice(v)) => words.contains(v),
            _ => false,
        }
    }
}

/// An option of a controller whose parameters are `P`: one row of its table.
pub struct OptionSpec<P> {
    /// The key in the scenario.
    pub name: &'static str,
    /// What it accepts.
    pub kind: OptionKind,
    /// What it does, in a line, with the source's section.
    pub doc: &'static str,
    /// Reads it (from the defaults, for documentation).
    pub get: fn(&P) -> OptionValue,
    /// Sets it; the value has passed `kind.accepts`.
    pub set: fn(&mut P, OptionValue),
}

/// An option without its parameters' type, for listing.
#[derive(Clone, Copy, Debug)]
pub struct OptionInfo {
    /// The key in the scenario.
    pub name: &'static str,
    /// What it accepts.
    pub kind: OptionKind,
    /// What it does.
    pub doc: &'static str,
    /// The default.
    pub default: OptionValue,
}

/// Parameters that a scenario may set.
pub trait Parameters: Clone + Default + 'static {
    /// The table of options.
    const OPTIONS: &'static [OptionSpec<Self>];

    /// The `index`-th option, if there is one.
    fn info(index: usize) -> Option<OptionInfo> {
        Self::OPTIONS.get(index).map(|option| OptionInfo {
            name: option.name,
            kind: option.kind,
            doc: option.doc,
            default: (option.get)(&Self::default()),
        })
    }

    /// The defaults with `options` applied. The error holds the index of the first that is refused.
    fn with(options: &[(&str, OptionValue)]) -> Result<Self, usize> {
        let mut parameters = Self::default();
        for (index, (name, value)) in options.iter().enumerate() {
            let option = Self::OPTIONS
                .iter()
                .find(|option| option.name == *name && option.kind.accepts(value))
                .ok_or(index)?;
            (option.set)(&mut parameters, *value);
        }
        Ok(parameters)
    }
}

/// One row of a table of options: the name, the field that holds it, what it
/// accepts, what it does. Gains are bounded in thousandths, spans in
/// milliseconds; a count is a `u32` field.
macro_rules! option {
    ($name:ident, $p:ident . $($field:tt).+, Gain($low:expr, $high:expr), $doc:literal) => {
        $crate::options::option!(@row $name, Gain, $p.$($field).+, $doc,
            $crate::options::OptionKind::Gain(
                $crate::options::thousandths($low), $crate::options::thousandths($high)),
            |v| v, |v| v)
    };
    ($name:ident, $p:ident . $($field:tt).+, Millis($low:expr, $high:expr), $doc:literal) => {
        $crate::options::option!(@row $name, Duration, $p.$($field).+, $doc,
            $crate::options::OptionKind::Duration(
                paceline_units::Duration::from_millis($low),
                paceline_units::Duration::from_millis($high)),
            |v| v, |v| v)
    };
    ($name:ident, $p:ident . $($field:tt).+, Micros($low:expr, $high:expr), $doc:literal) => {
        $crate::options::option!(@row $name, Duration, $p.$($field).+, $doc,
            $crate::options::OptionKind::Duration(
                paceline_units::Duration::from_micros($low),
                paceline_units::Duration::from_micros($high)),
            |v| v, |v| v)
    };
    ($name:ident, $p:ident . $($field:tt).+, Count($low:expr, $high:expr), $doc:literal) => {
        $crate::options::option!(@row $name, Count, $p.$($field).+, $doc,
            $crate::options::OptionKind::Count($low, $high),
            u64::from, |v| u32::try_from(v).unwrap_or(u32::MAX))
    };
    ($name:ident, $p:ident . $($field:tt).+, AnyBytes, $doc:literal) => {
        $crate::options::option!(@row $name, Bytes, $p.$($field).+, $doc,
            $crate::options::OptionKind::Bytes(
                paceline_units::Bytes::ZERO, paceline_units::Bytes::INFINITE),
            |v| v, |v| v)
    };
    ($name:ident, $p:ident . $($field:tt).+, Flag, $doc:literal) => {
        $crate::options::option!(@row $name, Flag, $p.$($field).+, $doc,
            $crate::options::OptionKind::Flag, |v| v, |v| v)
    };
    ($name:ident, $p:ident . $($field:tt).+, Choice($choice:ty), $doc:literal) => {
        $crate::options::option!(@row $name, Choice, $p.$($field).+, $doc,
            $crate::options::OptionKind::Choice(<$choice>::WORDS),
            <$choice>::word, <$choice>::of)
    };
    (@row $name:ident, $variant:ident, $p:ident . $($field:tt).+, $doc:literal, $kind:expr,
     $shown:expr, $stored:expr) => {
        $crate::options::OptionSpec {
            name: stringify!($name),
            kind: $kind,
            doc: $doc,
            get: |$p| $crate::options::OptionValue::$variant(($shown)($p.$($field).+)),
            set: |$p, value| {
                if let $crate::options::OptionValue::$variant(value) = value {
                    $p.$($field).+ = ($stored)(value);
                }
            },
        }
    };
}
pub(crate) use option;

/// An enumeration whose variants a scenario names by words.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = $first_word:literal,
      $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $(#[$first_doc])* $first, $($(#[$variant_doc])* $variant,)* }

        impl $name {
            const WORDS: &'static [&'static str] = &[$first_word, $($word),*];

            fn word(self) -> &'static str {
                match self { Self::$first => $first_word, $(Self::$variant => $word,)* }
            }

            /// The variant of a word, which has been checked to be one of them.
            fn of(word: &str) -> Self {
                match word { $($word => Self::$variant,)* _ => Self::$first }
            }
        }
    };
}
pub(crate) use choice;

/// `n` thousandths as a gain.
pub(crate) const fn thousandths(n: u32) -> Gain {
    Gain::from_millionths(n * 1000)
}

#[cfg(test)]
mod tests {
    use crate::{controllers, recipe};

    #[test]
    fn every_default_is_within_its_bounds_and_can_be_written() {
        for spec in controllers() {
            for option in spec.options() {
                assert!(
                    option.kind.accepts(&option.default),
                    "{} {}",
                    spec.name,
                    option.name
                );
                let set = recipe(spec.name, &[(option.name, option.default)]);
                assert!(set.is_ok(), "{} {}", spec.name, option.name);
            }
        }
        assert!(controllers().is_sorted_by_key(|spec| spec.name));
    }
}
