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
