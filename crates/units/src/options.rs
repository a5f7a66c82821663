//! Options: the settings of a controller or a queue in a scenario, described once.
//!
//! [`parameters!`](crate::parameters) declares a struct of options: each is one entry with its
//! type, bounds, default and documentation. [`choice!`](crate::choice) declares an option's words.
//! The code that reads, checks, lists and documents options uses [`Parameters::OPTIONS`].

use core::fmt;

use crate::limits::MAX_RATE;
use crate::{Bytes, Duration, Frequency, Gain, Rate, Site, Size, Value};

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionValue {
    /// A dimensionless factor, written as a number.
    Gain(Gain),
    /// A share, written as a percentage.
    Share(Gain),
    /// A count, written as an integer.
    Count(u64),
    /// A span of time, written with its unit.
    Duration(Duration),
    /// A volume, written with its unit.
    Bytes(Bytes),
    /// A rate, written with its unit.
    Rate(Rate),
    /// A weight per second, written with its unit.
    Frequency(Frequency),
    /// How much a queue holds, written with its unit.
    Size(Size),
    /// `true` or `false`.
    Flag(bool),
    /// One of a few words.
    Choice(&'static str),
}

impl OptionValue {
    /// The same as a value with its unit; none if it is not a number.
    pub fn value(self) -> Option<Value> {
        match self {
            Self::Gain(gain) | Self::Share(gain) => Some(Value::Gain(gain)),
            Self::Count(count) => Some(Value::Count(count)),
            Self::Duration(time) => Some(Value::Duration(time)),
            Self::Bytes(bytes) => Some(Value::Bytes(bytes)),
            Self::Rate(rate) => Some(Value::Rate(rate)),
            Self::Frequency(weight) => Some(Value::Gain(weight.per_second())),
            Self::Flag(flag) => Some(Value::Flag(flag)),
            Self::Size(_) | Self::Choice(_) => None,
        }
    }
}

/// The values that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// A factor between two bounds, both allowed.
    Gain(Gain, Gain),
    /// A share of 0 to 100 %.
    Share,
    /// A share above zero, of at most 100 %.
    ShareAboveZero,
    /// A count between two bounds, both allowed.
    Count(u64, u64),
    /// A span between two bounds, both allowed.
    Duration(Duration, Duration),
    /// A volume between two bounds, both allowed.
    Bytes(Bytes, Bytes),
    /// A rate above zero, no higher than any link's.
    Rate,
    /// Any weight per second.
    Frequency,
    /// Any amount that a queue can hold.
    Size,
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
            (Self::Share, OptionValue::Share(v)) => *v <= Gain::ONE,
            (Self::ShareAboveZero, OptionValue::Share(v)) => v.millionths() > 0 && *v <= Gain::ONE,
            (Self::Count(low, high), OptionValue::Count(v)) => low <= v && v <= high,
            (Self::Duration(low, high), OptionValue::Duration(v)) => low <= v && v <= high,
            (Self::Bytes(low, high), OptionValue::Bytes(v)) => low <= v && v <= high,
            (Self::Rate, OptionValue::Rate(v)) => *v > Rate::ZERO && *v <= MAX_RATE,
            (Self::Frequency, OptionValue::Frequency(_)) => true,
            (Self::Size, OptionValue::Size(_)) => true,
            (Self::Flag, OptionValue::Flag(_)) => true,
            (Self::Choice(words), OptionValue::Choice(v)) => words.contains(v),
            _ => false,
        }
    }
}

/// In words: "a time from "1 ms" to "1 min"".
impl fmt::Display for OptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gain(low, high) => {
                write!(f, "a number from {} to {}", number(*low), number(*high))
            }
            Self::Share => f.write_str("a share from \"0 %\" to \"100 %\""),
            Self::ShareAboveZero => f.write_str("a share above \"0 %\", at most \"100 %\""),
            Self::Count(low, high) => write!(f, "a whole number from {low} to {high}"),
            Self::Duration(low, high) => write!(f, "a time from \"{low}\" to \"{high}\""),
            Self::Bytes(low, high) if high.is_infinite() => {
                write!(f, "a volume from \"{low}\" on")
            }
            Self::Bytes(low, high) => write!(f, "a volume from \"{low}\" to \"{high}\""),
            Self::Rate => write!(f, "a rate above \"0 bit/s\", at most \"{MAX_RATE}\""),
            Self::Frequency => f.write_str("a weight per second such as \"0.125 Hz\""),
            Self::Size => {
                f.write_str("a size such as \"1 bdp\", \"165 packets\", \"250 kB\" or \"40 ms\"")
            }
            Self::Flag => f.write_str("true or false"),
            Self::Choice(words) => {
                f.write_str("one of ")?;
                for (place, word) in words.iter().enumerate() {
                    write!(f, "{}`{word}`", if place == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

/// As in a scenario, without quotes.
impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gain(gain) => number(*gain).fmt(f),
            Self::Share(share) => share.fmt(f),
            Self::Count(count) => count.fmt(f),
            Self::Duration(time) => time.fmt(f),
            Self::Bytes(bytes) if bytes.is_infinite() => f.write_str("infinite"),
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Rate(rate) => rate.fmt(f),
            Self::Frequency(weight) => weight.fmt(f),
            Self::Size(size) => size.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Choice(word) => f.write_str(word),
        }
    }
}

fn number(gain: Gain) -> f64 {
    f64::from(gain.millionths()) / f64::from(Gain::SCALE)
}

/// An option of something whose parameters are `P`: one row of its table.
pub struct OptionSpec<P> {
    /// The key in the scenario.
    pub name: &'static str,
    /// What it accepts.
    pub kind: OptionKind,
    /// One-line summary, with the source's section.
    pub doc: &'static str,
    /// What to write, for the error when it is missing; empty if it has a default.
    pub needs: &'static str,
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
    /// What to write, for the error when it is missing; empty if it has a default.
    pub needs: &'static str,
    /// The default; meaningless for a required option.
    pub default: OptionValue,
}

impl<P: Parameters> OptionSpec<P> {
    /// The row for a listing.
    pub fn info(&self) -> OptionInfo {
        OptionInfo {
            name: self.name,
            kind: self.kind,
            doc: self.doc.trim_start(),
            needs: self.needs,
            default: (self.get)(&P::default()),
        }
    }
}

/// Parameters nested in others, `P`, whose options a scenario sets as if they were of `P`.
pub struct Within<P> {
    /// Their `index`-th option.
    pub info: fn(usize) -> Option<OptionInfo>,
    /// Sets one of their options: [`Parameters::set`].
    pub set: fn(&mut P, &str, OptionValue) -> bool,
}

/// Options and their values.
pub type Values<'v> = &'v [(&'static str, OptionValue)];

/// An error in options that are valid one by one but not together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The option to report.
    pub option: &'static str,
    /// The error, in words that follow its name.
    pub message: &'static str,
    /// What to write instead.
    pub hint: &'static str,
}

/// A row of a registry: something that a scenario chooses by name and sets options of.
pub struct Named {
    /// Its name in scenarios.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// Name of its options' type.
    pub title: &'static str,
    /// What it does: the documentation of its options' type, line by line.
    pub about: &'static [&'static str],
    /// Its `index`-th option.
    pub option: fn(usize) -> Option<OptionInfo>,
    /// The error in values that are each within their bounds, if any.
    pub check: fn(Values<'_>, &Site) -> Option<Refusal>,
}

impl Named {
    /// Its options, in order.
    pub fn options(&self) -> impl Iterator<Item = OptionInfo> + '_ {
        (0..).map_while(self.option)
    }
}

/// Parameters that a scenario may set.
pub trait Parameters: Clone + core::fmt::Debug + Default + 'static {
    /// A description of one or two lines.
    const ABOUT: &'static [&'static str] = &[];

    /// The table of options.
    const OPTIONS: &'static [OptionSpec<Self>];

    /// Nested parameters, whose options follow.
    const WITHIN: Option<Within<Self>> = None;

    /// The error in values that are each within their bounds, if any.
    fn check(&self, _: &Site) -> Option<Refusal> {
        None
    }

    /// The `index`-th option, if there is one.
    fn info(index: usize) -> Option<OptionInfo> {
        match Self::OPTIONS.get(index) {
            Some(option) => Some(option.info()),
            None => (Self::WITHIN?.info)(index - Self::OPTIONS.len()),
        }
    }

    /// Sets an option, if there is one of this name that accepts the value.
    fn set(&mut self, name: &str, value: OptionValue) -> bool {
        let mut own = Self::OPTIONS.iter();
        match own.find(|option| option.name == name && option.kind.accepts(&value)) {
            Some(option) => {
                (option.set)(self, value);
                true
            }
            None => Self::WITHIN.is_some_and(|within| (within.set)(self, name, value)),
        }
    }

    /// The defaults, replaced by `values` where given, whether or not they are within their bounds.
    fn holding(values: Values<'_>) -> Self {
        let mut parameters = Self::default();
        for (name, value) in values {
            if let Some(option) = Self::OPTIONS.iter().find(|option| option.name == *name) {
                (option.set)(&mut parameters, *value);
            }
        }
        parameters
    }

    /// The defaults with `options` applied. The error holds the index of the first that is refused.
    fn with(options: &[(&str, OptionValue)]) -> Result<Self, usize> {
        let mut parameters = Self::default();
        for (index, (name, value)) in options.iter().enumerate() {
            if !parameters.set(name, *value) {
                return Err(index);
            }
        }
        Ok(parameters)
    }
}

/// A value that a scenario names by a word.
pub trait Choice: Copy + 'static {
    /// What the option chooses.
    const ABOUT: &'static str;
    /// All values, in order.
    const ALL: &'static [Self];
    /// Their words.
    const WORDS: &'static [&'static str];
    /// Their words, each with the description of its value.
    const MEANINGS: &'static [(&'static str, &'static str)];

    /// Its position among all values.
    fn number(self) -> usize;

    /// Its word.
    fn word(self) -> &'static str;

    /// The value of a word, if it has one.
    fn of(word: &str) -> Option<Self> {
        let number = Self::WORDS.iter().position(|one| *one == word)?;
        Self::ALL.get(number).copied()
    }
}

/// Declares a struct of options. An entry is its documentation (with the section of its source),
/// its name, its kind with its bounds, and its default. `needs` marks a required option: its
/// default is only a placeholder. After the struct, `and` may name a field with nested parameters,
/// whose options follow, and `check` a function that checks the values against each other. A const
/// parameter lets defaults differ by version.
///
/// Gains are bounded in thousandths, or in 256ths if the field stores those (`In256ths`). Time
/// spans are bounded in the unit that names them; `InMicros` and `InMillis` are stored in that
/// unit, as a `u32`.
///
/// ```
/// paceline_units::parameters! {
///     /// Controlled delay.
///     pub struct Parameters {
///         /// How long packets may wait (`TARGET`).
///         target: Millis(1, 100_000) = paceline_units::Duration::from_millis(5);
///         /// Whether ECN-capable packets are marked instead of dropped.
///         ecn: Flag = true;
///     }
/// }
/// let parameters = Parameters::default();
/// assert!(parameters.ecn && parameters.target.as_nanos() == 5_000_000);
/// ```
#[macro_export]
macro_rules! parameters {
    (
        $(#[doc = $about:literal])+
        $visible:vis struct $name:ident $(<const $version:ident : $number:ty>)? {
            $(
                $(#[doc = $doc:literal])+
                $field:ident : $kind:ident $(($($bound:tt)*))? = $default:expr $(, needs $needs:literal)? ;
            )*
        }
        $(and $within:ident : $inner:ty ;)?
        $(check $check:path)?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(rustdoc::broken_intra_doc_links, reason = "an option's text is shown as it is written")]
        $visible struct $name $(<const $version: $number>)? {
            $($(#[doc = $doc])+ pub $field: $crate::option!(type $kind $(($($bound)*))?),)*
            $(
                /// Nested parameters.
                pub $within: $inner,
            )?
        }

        impl $(<const $version: $number>)? Default for $name $(<$version>)? {
            fn default() -> Self {
                Self { $($field: $default,)* $($within: <$inner>::default())? }
            }
        }

        impl $(<const $version: $number>)? $crate::options::Parameters for $name $(<$version>)? {
            const ABOUT: &'static [&'static str] = &[$($about),+];

            const OPTIONS: &'static [$crate::options::OptionSpec<Self>] = &[$(
                $crate::option!(
                    ($field, concat!($($doc),+), concat!($($needs)?)) $kind $(($($bound)*))?)
            ),*];

            $(const WITHIN: Option<$crate::options::Within<Self>> = Some($crate::options::Within {
                info: <$inner as $crate::options::Parameters>::info,
                set: |p, name, value| $crate::options::Parameters::set(&mut p.$within, name, value),
            });)?

            $(fn check(&self, site: &$crate::Site) -> Option<$crate::options::Refusal> {
                $check(self, site)
            })?
        }
    };
}

/// An option of [`parameters!`](crate::parameters): `type` and a kind give the type of its field;
/// `(name, documentation, needs)` and a kind give its row of the table. One arm for each kind: the
/// type, the value's variant, the values accepted, and, if the field stores the value in another
/// form, how to read and how to store it.
#[doc(hidden)]
#[macro_export]
macro_rules! option {
    (@type $type:ty, $($row:tt)*) => { $type };
    (@$row:tt $type:ty, $value:ident, $kind:ident $(($($bound:tt)*))?) => {
        $crate::option!(@$row $type, $value, $kind $(($($bound)*))?, |v| v, |v| v)
    };
    (@($name:ident, $doc:expr, $needs:expr) $type:ty, $value:ident, $kind:ident $(($($bound:tt)*))?,
     $shown:expr, $stored:expr) => {
        $crate::options::OptionSpec {
            name: stringify!($name),
            kind: $crate::options::OptionKind::$kind $(($($bound)*))?,
            doc: $doc,
            needs: $needs,
            get: |p| $crate::options::OptionValue::$value(($shown)(p.$name)),
            set: |p, value| {
                if let $crate::options::OptionValue::$value(value) = value {
                    p.$name = ($stored)(value);
                }
            },
        }
    };
    ($to:tt Gain($low:expr, $high:expr)) => {
        $crate::option!(@$to $crate::Gain, Gain,
            Gain($crate::options::thousandths($low), $crate::options::thousandths($high)))
    };
    ($to:tt In256ths($low:expr, $high:expr)) => {
        $crate::option!(@$to u32, Gain,
            Gain($crate::Gain::floor_256ths($low), $crate::Gain::floor_256ths($high)),
            $crate::Gain::from_256ths, $crate::Gain::in_256ths)
    };
    ($to:tt Share) => { $crate::option!(@$to $crate::Gain, Share, Share) };
    ($to:tt ShareAboveZero) => { $crate::option!(@$to $crate::Gain, Share, ShareAboveZero) };
    ($to:tt Nanos($low:expr, $high:expr)) => {
        $crate::option!(@$to $crate::Duration, Duration,
            Duration($crate::Duration::from_nanos($low), $crate::Duration::from_nanos($high)))
    };
    ($to:tt Micros($low:expr, $high:expr)) => {
        $crate::option!(@$to $crate::Duration, Duration,
            Duration($crate::Duration::from_micros($low), $crate::Duration::from_micros($high)))
    };
    ($to:tt Millis($low:expr, $high:expr)) => {
        $crate::option!(@$to $crate::Duration, Duration,
            Duration($crate::Duration::from_millis($low), $crate::Duration::from_millis($high)))
    };
    ($to:tt InMicros($low:expr, $high:expr)) => {
        $crate::option!(@$to u32, Duration,
            Duration($crate::Duration::from_micros($low), $crate::Duration::from_micros($high)),
            |v| $crate::Duration::from_micros(u64::from(v)),
            |v: $crate::Duration| u32::try_from(v.as_micros()).unwrap_or(u32::MAX))
    };
    ($to:tt InMillis($low:expr, $high:expr)) => {
        $crate::option!(@$to u32, Duration,
            Duration($crate::Duration::from_millis($low), $crate::Duration::from_millis($high)),
            |v| $crate::Duration::from_millis(u64::from(v)),
            |v: $crate::Duration| u32::try_from(v.as_micros() / 1_000).unwrap_or(u32::MAX))
    };
    ($to:tt Count($low:expr, $high:expr)) => {
        $crate::option!(@$to u32, Count, Count($low, $high),
            u64::from, |v| u32::try_from(v).unwrap_or(u32::MAX))
    };
    ($to:tt Bytes($low:expr, $high:expr)) => {
        $crate::option!(@$to $crate::Bytes, Bytes,
            Bytes($crate::Bytes::new($low), $crate::Bytes::new($high)))
    };
    ($to:tt AnyBytes) => {
        $crate::option!(@$to $crate::Bytes, Bytes, Bytes($crate::Bytes::ZERO, $crate::Bytes::INFINITE))
    };
    ($to:tt Rate) => { $crate::option!(@$to $crate::Rate, Rate, Rate) };
    ($to:tt Frequency) => { $crate::option!(@$to $crate::Frequency, Frequency, Frequency) };
    ($to:tt Size) => { $crate::option!(@$to $crate::Size, Size, Size) };
    ($to:tt Flag) => { $crate::option!(@$to bool, Flag, Flag) };
    ($to:tt Choice($choice:ty)) => {
        $crate::option!(@$to $choice, Choice, Choice(<$choice as $crate::options::Choice>::WORDS),
            $crate::options::Choice::word,
            |word| <$choice as $crate::options::Choice>::of(word).unwrap_or_default())
    };
}

/// Declares an enumeration whose variants have words: choices of an option, states of a controller,
/// kinds of events and packets. One of them may be marked as the default.
#[macro_export]
macro_rules! choice {
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derive:ident),+)])?
        $visible:vis enum $name:ident {
            $($(#[doc = $doc:literal])* $variant:ident = $word:literal $($default:ident)?,)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $(#[derive($($derive),+)])?
        $visible enum $name { $($(#[doc = $doc])* $variant,)* }

        impl $name {
            /// Its word.
            $visible const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }

        impl $crate::options::Choice for $name {
            const ABOUT: &'static str = concat!($($about),+);
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            const WORDS: &'static [&'static str] = &[$($word),*];
            const MEANINGS: &'static [(&'static str, &'static str)] =
                &[$(($word, concat!($($doc),*))),*];

            fn number(self) -> usize {
                self as usize
            }

            fn word(self) -> &'static str {
                self.word()
            }
        }

        $($($crate::choice! { @$default $name $variant })?)*
    };
    (@default $name:ident $variant:ident) => {
        impl Default for $name {
            fn default() -> Self {
                Self::$variant
            }
        }
    };
}
pub use crate::choice;

/// `n` thousandths as a gain.
pub const fn thousandths(n: u32) -> Gain {
    Gain::from_millionths(n * 1000)
}
