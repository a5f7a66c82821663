//! Printing quantities in the shortest exact form: "50 Mbit/s", never "50000000 bit/s".

use core::fmt::{self, Write};

use crate::parse::{MULTIPLE, Quantity, RATE, SHARE, TIME, Unit, VOLUME, WEIGHT};
use crate::{Bytes, Duration, Frequency, Gain, Rate, Size};

/// A decimal number: `whole.fraction`, the fraction in `places` digits.
#[derive(Clone, Copy)]
struct Decimal {
    whole: u64,
    fraction: u64,
    places: u32,
}

impl Decimal {
    /// `value` in multiples of `scale`, if that is finite and short.
    fn of(value: u64, scale: u64) -> Option<Self> {
        let whole = value.checked_div(scale)?;
        let mut fraction = value % scale;
        let mut places = scale.ilog10();
        if 10_u64.pow(places) != scale {
            // A power of two has long decimal fractions: whole multiples only.
            return (fraction == 0).then_some(Self {
                whole,
                fraction: 0,
                places: 0,
            });
        }
        while places > 0 && fraction.is_multiple_of(10) {
            fraction /= 10;
            places -= 1;
        }
        Some(Self {
            whole,
            fraction,
            places,
        })
    }

    fn len(self) -> u32 {
        let whole = self.whole.checked_ilog10().unwrap_or(0) + 1;
        whole + if self.places == 0 { 0 } else { self.places + 1 }
    }
}

/// The longest text is 20 digits, a point, a space and a unit.
struct Text {
    bytes: [u8; 40],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn print(value: u64, quantity: &Quantity, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // A value below one unit is not printed in that unit, unless there is no smaller one.
    let fits = |unit: &&Unit| {
        unit.printed && (value >= unit.scale || value == 0 || quantity.units.len() == 1)
    };
    let (decimal, unit) = quantity
        .units
        .iter()
        .filter(fits)
        .filter_map(|unit| Some((Decimal::of(value, unit.scale)?, unit.symbol)))
        // Among equally short forms prefer a whole number, and then the larger unit.
        .rev()
        .min_by_key(|(decimal, symbol)| (decimal.len() + symbol.len() as u32, decimal.places))
        .unwrap_or_else(|| {
            let whole = Decimal {
                whole: value,
                fraction: 0,
                places: 0,
            };
            (whole, quantity.units.first().map_or("", |unit| unit.symbol))
        });
    let mut text = Text {
        bytes: [0; 40],
        len: 0,
    };
    write!(text, "{}", decimal.whole)?;
    if decimal.places > 0 {
        let places = decimal.places as usize;
        write!(text, ".{:0places$}", decimal.fraction)?;
    }
    write!(text, " {unit}")?;
    let written = text.bytes.get(..text.len).unwrap_or_default();
    f.pad(core::str::from_utf8(written).map_err(|_| fmt::Error)?)
}

/// The shortest exact form, as in "50 Mbit/s".
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.bps(), &RATE, f)
    }
}

/// The shortest exact form, as in "0.125 Hz".
impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(u64::from(self.per_second().millionths()), &WEIGHT, f)
    }
}

/// The shortest exact form, as in "1 bdp", "165 packets", "250 kB" or "40 ms".
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bdp { millionths } => print(*millionths, &MULTIPLE, f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// The shortest exact form, as in "40 ms".
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.as_nanos(), &TIME, f)
    }
}

/// The shortest exact form, as in "250 kB" or "1 GiB".
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.get(), &VOLUME, f)
    }
}

/// In percent, as in "2 %".
impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(u64::from(self.millionths()), &SHARE, f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::ToString;

    use super::*;

    #[test]
    fn prints_the_shortest_exact_form() {
        for (bps, text) in [
            (0, "0 bit/s"),
            (1, "1 bit/s"),
            (50_000_000, "50 Mbit/s"),
            (1_500_000_000, "1.5 Gbit/s"),
            (1_050, "1050 bit/s"),
            (10_500, "10500 bit/s"),
            (1_234_567, "1234567 bit/s"),
            (400_000_000_000, "400 Gbit/s"),
        ] {
            assert_eq!(Rate::from_bps(bps).to_string(), text);
        }
        for (nanos, text) in [
            (0, "0 s"),
            (999, "999 ns"),
            (40_000_000, "40 ms"),
            (1_500_000_000, "1.5 s"),
            (60_000_000_000, "60 s"),
            (u64::MAX, "18446744073709551615 ns"),
        ] {
            assert_eq!(Duration::from_nanos(nanos).to_string(), text);
        }
        for (bytes, text) in [
            (1500, "1500 B"),
            (52, "52 B"),
            (250_000, "250 kB"),
            (1 << 30, "1 GiB"),
            (1536, "1536 B"),
        ] {
            assert_eq!(Bytes::new(bytes).to_string(), text);
        }
        for (millionths, text) in [
            (0, "0 %"),
            (20_000, "2 %"),
            (1, "0.0001 %"),
            (15_000, "1.5 %"),
            (u32::MAX, "429496.7295 %"),
        ] {
            assert_eq!(Gain::from_millionths(millionths).to_string(), text);
        }
        assert_eq!(format!("{:>10}|", Duration::from_millis(40)), "     40 ms|");
    }
}
