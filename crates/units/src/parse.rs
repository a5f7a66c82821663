//! Reading "50 Mbit/s", "40 ms", "250 kB" and "2 %", in integers throughout.

use core::fmt;
use core::str::FromStr;

use crate::{Bytes, Duration, Frequency, Gain, Rate, Size};

/// A unit: how it is written, and how many base units it holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) symbol: &'static str,
    pub(crate) scale: u64,
    /// Whether values are printed in it, as in a scenario.
    pub(crate) printed: bool,
    /// Whether it is used for numbers shown to people.
    pub(crate) shown: bool,
}

const fn usual(symbol: &'static str, scale: u64) -> Unit {
    Unit {
        symbol,
        scale,
        printed: true,
        shown: true,
    }
}

const fn printed(symbol: &'static str, scale: u64) -> Unit {
    Unit {
        shown: false,
        ..usual(symbol, scale)
    }
}

const fn shown(symbol: &'static str, scale: u64) -> Unit {
    Unit {
        printed: false,
        ..usual(symbol, scale)
    }
}

const fn read_only(symbol: &'static str, scale: u64) -> Unit {
    Unit {
        printed: false,
        ..printed(symbol, scale)
    }
}

/// A kind of quantity: its name, its units from small to large, an example.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) example: &'static str,
    pub(crate) units: &'static [Unit],
}

pub(crate) static RATE: Quantity = Quantity {
    name: "rate",
    example: "50 Mbit/s",
    units: &[
        usual("bit/s", 1),
        usual("kbit/s", 1_000),
        usual("Mbit/s", 1_000_000),
        usual("Gbit/s", 1_000_000_000),
        usual("Tbit/s", 1_000_000_000_000),
    ],
};

pub(crate) static TIME: Quantity = Quantity {
    name: "time",
    example: "40 ms",
    units: &[
        usual("ns", 1),
        printed("us", 1_000),
        // MICRO SIGN and GREEK SMALL LETTER MU look the same and are both typed.
        shown("\u{b5}s", 1_000),
        read_only("\u{3bc}s", 1_000),
        usual("ms", 1_000_000),
        usual("s", 1_000_000_000),
        read_only("min", 60_000_000_000),
    ],
};

pub(crate) static VOLUME: Quantity = Quantity {
    name: "volume",
    example: "250 kB",
    units: &[
        usual("B", 1),
        usual("kB", 1_000),
        printed("KiB", 1 << 10),
        usual("MB", 1_000_000),
        printed("MiB", 1 << 20),
        usual("GB", 1_000_000_000),
        printed("GiB", 1 << 30),
        shown("TB", 1_000_000_000_000),
        read_only("TiB", 1 << 40),
    ],
};

pub(crate) static SHARE: Quantity = Quantity {
    name: "share",
    example: "2 %",
    units: &[printed("%", Gain::SCALE as u64 / 100)],
};

pub(crate) static WEIGHT: Quantity = Quantity {
    name: "weight per second",
    example: "0.125 Hz",
    units: &[printed("Hz", Gain::SCALE as u64)],
};

pub(crate) static MULTIPLE: Quantity = Quantity {
    name: "multiple of the BDP",
    example: "1 bdp",
    units: &[printed("bdp", Gain::SCALE as u64)],
};

/// What is wrong with a quantity's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The text is empty.
    Empty,
    /// The text before the unit is not a decimal number.
    NotANumber,
    /// A number without a unit.
    NoUnit,
    /// A unit that this quantity does not have.
    UnknownUnit,
    /// A number below zero.
    Negative,
    /// Too large to store.
    TooLarge,
    /// Finer than the smallest step, so that it would not be exact.
    TooFine,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    kind: ParseErrorKind,
    quantity: &'static Quantity,
    offset: usize,
    nearest: Option<&'static str>,
}

impl ParseError {
    /// What is wrong.
    pub const fn kind(&self) -> ParseErrorKind {
        self.kind
    }

    /// Byte offset in the text: the start of the number or of the unit.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The kind of quantity expected: "rate", "time", "volume", "share".
    pub const fn quantity(&self) -> &'static str {
        self.quantity.name
    }

    /// An example of valid text.
    pub const fn example(&self) -> &'static str {
        self.quantity.example
    }

    /// The allowed units, from small to large.
    pub fn units(&self) -> impl Iterator<Item = &'static str> {
        let units: &'static [Unit] = self.quantity.units;
        units
            .iter()
            .map(|unit| unit.symbol)
            .filter(|symbol| symbol.is_ascii())
    }

    /// The allowed unit nearest to the unknown one.
    pub const fn nearest(&self) -> Option<&'static str> {
        self.nearest
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quantity { name, example, .. } = self.quantity;
        match self.kind {
            ParseErrorKind::Empty => write!(f, "a {name} is empty")?,
            ParseErrorKind::NotANumber => write!(f, "a {name} starts with a decimal number")?,
            ParseErrorKind::NoUnit => write!(f, "a {name} needs its unit")?,
            ParseErrorKind::UnknownUnit => write!(f, "not a unit of {name}")?,
            ParseErrorKind::Negative => write!(f, "a {name} is not negative")?,
            ParseErrorKind::TooLarge => write!(f, "a {name} too large to hold")?,
            ParseErrorKind::TooFine => write!(f, "a {name} too fine to hold exactly")?,
        }
        write!(f, "; write it as \"{example}\", in ")?;
        for (position, unit) in self.units().enumerate() {
            write!(f, "{}{unit}", if position == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for ParseError {}

/// Reads `number unit` as a count of base units; exact or an error.
fn parse(text: &str, quantity: &'static Quantity) -> Result<u64, ParseError> {
    let start = text.len() - text.trim_start().len();
    let fail = |kind, offset| ParseError {
        kind,
        quantity,
        offset,
        nearest: None,
    };
    let body = text.trim();
    if body.is_empty() {
        return Err(fail(ParseErrorKind::Empty, 0));
    }
    let (negative, unsigned) = match body.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, body.strip_prefix('+').unwrap_or(body)),
    };
    let length = unsigned
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(unsigned.len());
    let (number, rest) = unsigned.split_at(length);
    let symbol = rest.trim_start();
    let unit_at = start + body.len() - symbol.len();

    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || number.ends_with('.') || !digits(fraction) {
        return Err(fail(ParseErrorKind::NotANumber, start));
    }
    if negative {
        return Err(fail(ParseErrorKind::Negative, start));
    }
    if symbol.is_empty() {
        return Err(fail(ParseErrorKind::NoUnit, start + body.len()));
    }
    let Some(unit) = quantity.units.iter().find(|unit| unit.symbol == symbol) else {
        return Err(ParseError {
            nearest: nearest(symbol, quantity),
            ..fail(ParseErrorKind::UnknownUnit, unit_at)
        });
    };

    // The value is whole + fraction / 10^places, with the fraction's trailing zeros dropped.
    let too_large = fail(ParseErrorKind::TooLarge, start);
    let whole: u64 = decimal(whole).ok_or(too_large)?;
    let whole = whole.checked_mul(unit.scale).ok_or(too_large)?;
    let fraction = fraction.trim_end_matches('0');
    // No unit holds 10^19 base units, nor 2^30 * 10^9 as a decimal fraction of 30 places.
    let too_fine = fail(ParseErrorKind::TooFine, start);
    let places = u32::try_from(fraction.len()).map_err(|_| too_fine)?;
    let step = 10_u128.checked_pow(places).ok_or(too_fine)?;
    let mut numerator = 0_u128;
    for byte in fraction.bytes() {
        numerator = numerator * 10 + u128::from(byte - b'0');
    }
    let scaled = numerator
        .checked_mul(u128::from(unit.scale))
        .ok_or(too_fine)?;
    if scaled % step != 0 {
        return Err(too_fine);
    }
    u64::try_from(scaled / step)
        .ok()
        .and_then(|part| whole.checked_add(part))
        .ok_or(too_large)
}

/// The number of the smallest steps that a unit holds: 1,000,000 for "ms", because times are kept in
/// nanoseconds. A number without a unit is kept in millionths. `None` for an unknown unit.
pub fn steps(symbol: &str) -> Option<u64> {
    if symbol.is_empty() {
        return Some(u64::from(Gain::SCALE));
    }
    let quantities = [&RATE, &TIME, &VOLUME, &SHARE, &WEIGHT, &MULTIPLE];
    let mut units = quantities.iter().flat_map(|quantity| quantity.units);
    let packets = || ["packet", "packets"].contains(&symbol).then_some(1);
    let unit = units.find(|unit| unit.symbol == symbol);
    unit.map(|unit| unit.scale).or_else(packets)
}

/// Decimal digits as a number; `None` when it does not fit.
fn decimal(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0_u64, |value, byte| {
        value
            .checked_mul(10)?
            .checked_add(u64::from(byte.wrapping_sub(b'0')))
    })
}

/// The unit that takes the fewest edits to reach, ignoring case; `None` when none is near.
fn nearest(symbol: &str, quantity: &Quantity) -> Option<&'static str> {
    // The ways in which people write bits per second are many edits away from the symbol.
    let rate_aliases = [
        ("bps", "bit/s"),
        ("kbps", "kbit/s"),
        ("mbps", "Mbit/s"),
        ("gbps", "Gbit/s"),
        ("tbps", "Tbit/s"),
    ];
    if quantity.name == RATE.name
        && let Some((_, unit)) = rate_aliases
            .iter()
            .find(|(alias, _)| symbol.eq_ignore_ascii_case(alias))
    {
        return Some(unit);
    }
    quantity
        .units
        .iter()
        .filter(|unit| unit.symbol.is_ascii())
        .map(|unit| {
            (
                edits(symbol.as_bytes(), unit.symbol.as_bytes()),
                unit.symbol,
            )
        })
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, near)| *edits <= near.len().max(2))
        .map(|(_, near)| near)
}

/// Levenshtein distance without regard to case; `usize::MAX` for text much longer than any unit.
fn edits(text: &[u8], unit: &[u8]) -> usize {
    const LONGEST: usize = 16;
    if unit.len() >= LONGEST || text.len() >= LONGEST {
        return usize::MAX;
    }
    let mut row: [usize; LONGEST] = core::array::from_fn(|column| column);
    for (line, a) in text.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in unit.iter().enumerate() {
            let substituted = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[unit.len()]
}

impl Rate {
    /// Reads a rate such as "50 Mbit/s".
    ///
    /// # Errors
    /// When the text is not a non-negative decimal number with a unit of rate, or not exactly held.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse(text, &RATE).map(Self::from_bps)
    }
}

impl Duration {
    /// Reads a time such as "40 ms".
    ///
    /// # Errors
    /// When the text is not a non-negative decimal number with a unit of time, or not exactly held.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse(text, &TIME).map(Self::from_nanos)
    }
}

impl Bytes {
    /// Reads a volume such as "250 kB" or "64 KiB".
    ///
    /// # Errors
    /// When the text is not a non-negative decimal number with a unit of volume, or not exactly held.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse(text, &VOLUME).map(Self::new)
    }
}

impl Gain {
    /// Reads a share such as "2 %", in steps of 0.0001 %.
    ///
    /// # Errors
    /// When the text is not a non-negative decimal number with "%", or not exactly held.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let millionths = parse(text, &SHARE)?;
        u32::try_from(millionths)
            .map(Self::from_millionths)
            .map_err(|_| ParseError {
                kind: ParseErrorKind::TooLarge,
                quantity: &SHARE,
                offset: 0,
                nearest: None,
            })
    }
}

impl Frequency {
    /// Reads a weight per second such as "0.125 Hz".
    ///
    /// # Errors
    /// When the text is not a non-negative decimal number with "Hz", or not exactly held.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let millionths = parse(text, &WEIGHT)?;
        u32::try_from(millionths)
            .map(Self::from_millionths)
            .map_err(|_| ParseError {
                kind: ParseErrorKind::TooLarge,
                quantity: &WEIGHT,
                offset: 0,
                nearest: None,
            })
    }
}

impl Size {
    /// Reads a multiple of the bandwidth-delay product, such as "0.1 bdp".
    ///
    /// # Errors
    /// When the text is not a non-negative decimal number with "bdp", or not exactly held.
    pub fn parse_bdp(text: &str) -> Result<Self, ParseError> {
        parse(text, &MULTIPLE).map(|millionths| Self::Bdp { millionths })
    }
}

macro_rules! from_str {
    ($($unit:ty),*) => {$(
        impl FromStr for $unit {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, ParseError> {
                Self::parse(text)
            }
        }
    )*};
}
from_str!(Rate, Duration, Bytes, Gain);

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;
    use std::string::{String, ToString};

    use super::*;

    #[test]
    fn reads_every_unit_exactly() {
        for (text, bps) in [
            ("50 Mbit/s", 50_000_000),
            ("1.5 Gbit/s", 1_500_000_000),
            ("0 bit/s", 0),
            ("0.001 kbit/s", 1),
            ("2Tbit/s", 2_000_000_000_000),
            (" 007.50 kbit/s ", 7_500),
            ("18446744073709551615 bit/s", u64::MAX),
        ] {
            assert_eq!(Rate::parse(text), Ok(Rate::from_bps(bps)), "{text}");
        }
        for (text, nanos) in [
            ("1 ns", 1),
            ("1.5 us", 1_500),
            ("1.5 \u{b5}s", 1_500),
            ("1.5 \u{3bc}s", 1_500),
            ("40 ms", 40_000_000),
            ("0.1 s", 100_000_000),
            ("1.5 min", 90_000_000_000),
        ] {
            assert_eq!(
                Duration::parse(text),
                Ok(Duration::from_nanos(nanos)),
                "{text}"
            );
        }
        for (text, bytes) in [
            ("1500 B", 1500),
            ("250 kB", 250_000),
            ("1.5 KiB", 1536),
            ("1 MB", 1_000_000),
            ("1 MiB", 1 << 20),
            ("2.5 GB", 2_500_000_000),
            ("0.5 GiB", 1 << 29),
        ] {
            assert_eq!(Bytes::parse(text), Ok(Bytes::new(bytes)), "{text}");
        }
        assert_eq!(Gain::parse("2 %"), Ok(Gain::from_millionths(20_000)));
        assert_eq!(Gain::parse("0.0001%"), Ok(Gain::from_millionths(1)));
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        use ParseErrorKind as Kind;
        for (text, kind, offset) in [
            ("", Kind::Empty, 0),
            ("   ", Kind::Empty, 0),
            ("50", Kind::NoUnit, 2),
            ("Mbit/s", Kind::NotANumber, 0),
            (".5 Mbit/s", Kind::NotANumber, 0),
            ("5. Mbit/s", Kind::NotANumber, 0),
            ("1.2.3 Mbit/s", Kind::NotANumber, 0),
            ("-5 Mbit/s", Kind::Negative, 0),
            ("- 5 Mbit/s", Kind::NotANumber, 0),
            ("5 Mb/s", Kind::UnknownUnit, 2),
            ("  5 parsec", Kind::UnknownUnit, 4),
            ("1e3 bit/s", Kind::UnknownUnit, 1),
            ("18446744073709551616 bit/s", Kind::TooLarge, 0),
            ("99999999999999999999999999 bit/s", Kind::TooLarge, 0),
            ("18446745 Tbit/s", Kind::TooLarge, 0),
            ("0.5 bit/s", Kind::TooFine, 0),
            (
                "0.00000000000000000000000000000000000000000000001 Tbit/s",
                Kind::TooFine,
                0,
            ),
        ] {
            let error = Rate::parse(text).expect_err(text);
            assert_eq!((error.kind(), error.offset()), (kind, offset), "{text}");
        }
        assert_eq!(
            Gain::parse("429496.7296 %").expect_err("").kind(),
            Kind::TooLarge
        );
        assert_eq!(
            Duration::parse("5 sec").expect_err("").to_string(),
            "not a unit of time; write it as \"40 ms\", in ns, us, ms, s, min"
        );
    }

    #[test]
    fn names_the_nearest_unit() {
        let rate = |text| Rate::parse(text).expect_err(text).nearest();
        assert_eq!(rate("5 Mbps"), Some("Mbit/s"));
        assert_eq!(rate("5 mbit"), Some("Mbit/s"));
        assert_eq!(rate("5 MBIT/S"), Some("Mbit/s"));
        assert_eq!(rate("5 furlongs per fortnight"), None);
        assert_eq!(Duration::parse("5 sec").expect_err("").nearest(), Some("s"));
        assert_eq!(Bytes::parse("5 KB").expect_err("").nearest(), Some("kB"));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(value: u64, shift in 0_u32..64, percent: u32) {
            // Shifted, so that small and round values occur as well as large ones.
            for value in [value >> shift, (value >> shift) / 1_000_000 * 1_000_000] {
                let rate = Rate::from_bps(value);
                prop_assert_eq!(Rate::parse(&rate.to_string()), Ok(rate));
                let time = Duration::from_nanos(value);
                prop_assert_eq!(Duration::parse(&time.to_string()), Ok(time));
                let volume = Bytes::new(value);
                prop_assert_eq!(Bytes::parse(&volume.to_string()), Ok(volume));
            }
            let share = Gain::from_millionths(percent);
            prop_assert_eq!(Gain::parse(&share.to_string()), Ok(share));
        }

        #[test]
        fn no_text_makes_it_panic(text: String, near in "[-+ 0-9.]{0,40} ?[a-zA-Z/%µ]{0,20}") {
            for text in [text, near] {
                let _ = (Rate::parse(&text), Duration::parse(&text));
                let _ = (Bytes::parse(&text), Gain::parse(&text));
            }
        }
    }
}
