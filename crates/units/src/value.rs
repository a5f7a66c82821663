use core::iter::Zip;
use core::slice::{Iter, IterMut};

use crate::{Bytes, Duration, Gain, Rate};

/// Declares [`Value`] and [`Quantity`]: one line for each kind of value.
macro_rules! values {
    ($($(#[doc = $doc:literal])+ $kind:ident($type:ty), $suffix:literal, $unit:literal;)*) => {
        /// A value with its unit, for state that is shown rather than computed with.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum Value { $($(#[doc = $doc])+ $kind($type)),* }

        /// What a [`Value`] measures.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Quantity { $($(#[doc = $doc])+ $kind),* }

        impl Quantity {
            /// The suffix of a column that holds it.
            pub const fn suffix(self) -> &'static str {
                match self { $(Self::$kind => $suffix),* }
            }

            /// The quantity that a suffix stands for.
            pub fn of_name(name: &str) -> Option<Self> {
                let ends = |kind: &Self| !kind.suffix().is_empty() && name.ends_with(kind.suffix());
                let counted = name.ends_with("_count").then_some(Self::Count);
                [$(Self::$kind),*].into_iter().find(ends).or(counted)
            }

            /// Its unit, as the record writes it.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$kind => $unit),* }
            }
        }

        impl Value {
            /// What it measures.
            pub const fn quantity(self) -> Quantity {
                match self { $(Self::$kind(_) => Quantity::$kind),* }
            }
        }
    };
}

values! {
    /// A volume; an infinite one is shown as absent.
    Bytes(Bytes), "_bytes", "byte";
    /// A rate; an infinite one is shown as absent.
    Rate(Rate), "_bps", "bit/s";
    /// A span of time; [`Duration::MAX`] is shown as absent.
    Duration(Duration), "_ns", "ns";
    /// A dimensionless factor.
    Gain(Gain), "_ratio", "1";
    /// A count of packets; [`u64::MAX`] is shown as absent.
    Packets(u64), "_packets", "packet";
    /// A count; [`u64::MAX`] is shown as absent.
    Count(u64), "", "1";
    /// A yes or no.
    Flag(bool), "", "1";
    /// A number of any other kind; one that is not finite is shown as absent.
    Number(f64), "", "1";
}

impl Value {
    /// The number in its unit; none if it is infinite.
    pub fn number(self) -> Option<f64> {
        let finite = |value: u64| (value != u64::MAX).then_some(value as f64);
        match self {
            Self::Bytes(value) => finite(value.get()),
            Self::Rate(value) => finite(value.bps()),
            Self::Duration(value) => finite(value.as_nanos()),
            Self::Gain(value) => Some(f64::from(value.millionths()) / f64::from(Gain::SCALE)),
            Self::Packets(value) | Self::Count(value) => finite(value),
            Self::Flag(value) => Some(f64::from(u8::from(value))),
            Self::Number(value) => value.is_finite().then_some(value),
        }
    }
}

impl Value {
    /// The number in its unit, in 64 bits: of a factor its millionths, of a flag 0 or 1, of a
    /// floating-point number its bits. [`u64::MAX`] means infinite, or not a number.
    #[inline]
    pub fn bits(self) -> u64 {
        match self {
            Self::Bytes(value) => value.get(),
            Self::Rate(value) => value.bps(),
            Self::Duration(value) => value.as_nanos(),
            Self::Gain(value) => value.millionths().into(),
            Self::Packets(value) | Self::Count(value) => value,
            Self::Flag(value) => value.into(),
            Self::Number(value) => value.to_bits(),
        }
    }
}

/// A field of displayed state: its name, without prefix or unit, and what its values measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name (`max_bw`, `inflight_longterm`).
    pub name: &'static str,
    /// What it measures.
    pub quantity: Quantity,
}

/// Receives the fields of a state as they are shown, in the order of their declaration.
pub struct Visitor<'v>(Target<'v>);

enum Target<'v> {
    Row(Zip<IterMut<'v, u64>, Iter<'v, Field>>),
    Each(&'v mut dyn FnMut(&'static str, Value)),
}

impl<'v> Visitor<'v> {
    /// Calls `visit` with each field.
    pub fn each(visit: &'v mut dyn FnMut(&'static str, Value)) -> Self {
        Self(Target::Each(visit))
    }

    /// Writes the [bits](Value::bits) of each value into a row that has a cell for each of
    /// `fields`. The cell of a value that is left out at the end, or that measures something other
    /// than declared, keeps its content.
    pub fn row(fields: &'v [Field], cells: &'v mut [u64]) -> Self {
        Self(Target::Row(cells.iter_mut().zip(fields)))
    }

    /// The next field.
    #[inline(always)]
    pub fn show(&mut self, name: &'static str, value: Value) {
        match &mut self.0 {
            Target::Row(row) => {
                if let Some((cell, field)) = row.next() {
                    debug_assert_eq!(field.name, name, "fields come as they are declared");
                    if value.quantity() == field.quantity {
                        *cell = value.bits();
                    }
                }
            }
            Target::Each(visit) => visit(name, value),
        }
    }
}

/// The value of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// A value with its unit.
    Value(Value),
    /// A word (`pause`, `off`).
    Word(&'static str),
}
