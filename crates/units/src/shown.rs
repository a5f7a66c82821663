//! Numbers for people: four digits in the unit that reads best, as in "48.12 Mbit/s" for 48123456 bit/s.
//!
//! The end of a name (`_ns`, `_bps`, `_bytes`, `_ratio`) says what a number measures, as everywhere
//! in a record.

use alloc::format;
use alloc::string::{String, ToString};

use crate::Quantity;
use crate::parse::{RATE, TIME, Unit, VOLUME};

/// Shown where there is no number.
pub const NONE: &str = "\u{2013}";

/// Ratios shown in percent; the others, such as Jain's index, remain plain numbers.
const PERCENT: [&str; 7] = [
    "loss",
    "retransmit",
    "utilisation",
    "share",
    "spurious",
    "mark",
    "idle",
];

/// A unit to show numbers in, and how many base units it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Its symbol; `ratio` and `count` have none.
    pub unit: &'static str,
    /// In base units.
    pub size: f64,
}

impl Scale {
    /// The unit that suits a quantity of this name when its values are near `about`.
    pub fn of(name: &str, about: f64) -> Self {
        let units = match Quantity::of_name(name) {
            Some(Quantity::Duration) => TIME.units,
            Some(Quantity::Rate) => RATE.units,
            Some(Quantity::Bytes) => VOLUME.units,
            Some(Quantity::Gain) if PERCENT.iter().any(|word| name.contains(word)) => {
                return Self {
                    unit: "%",
                    size: 0.01,
                };
            }
            Some(Quantity::Gain) => return Self::plain("ratio"),
            _ => return Self::plain("count"),
        };
        let of = |unit: &Unit| Self {
            unit: unit.symbol,
            size: unit.scale as f64,
        };
        let shown = || units.iter().filter(|unit| unit.shown).map(of);
        let fits = shown().rfind(|scale| about.abs() >= scale.size);
        fits.or_else(|| shown().next()).unwrap_or(Self::plain(""))
    }

    const fn plain(unit: &'static str) -> Self {
        Self { unit, size: 1.0 }
    }

    /// A number of base units, in this unit: four significant digits, or all digits of a whole
    /// number of base units.
    pub fn number(self, value: Option<f64>) -> String {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return NONE.to_string();
        };
        let scaled = value / self.size;
        let places = if scaled == 0.0 || self.size == 1.0 && scaled % 1.0 == 0.0 {
            0
        } else {
            // A number that would round up to the next power of ten gets one digit fewer.
            let digits = format!("{scaled:.3e}");
            let (_, exponent) = digits.split_once('e').unwrap_or(("", "0"));
            (3 - exponent.parse::<i32>().unwrap_or(0)).clamp(0, 6) as usize
        };
        grouped(&format!("{scaled:.places$}"))
    }
}

/// Groups the digits before the point by thousands.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = String::new();
    for (place, digit) in (0..whole.len()).rev().zip(whole.chars()) {
        text.push(digit);
        if place > 0 && place % 3 == 0 && digit != '-' {
            text.push(',');
        }
    }
    text + fraction
}

/// A number with its unit: 40000000 of `rtt_p50_ns` is "40.00 ms".
pub fn quantity(name: &str, value: Option<f64>) -> String {
    let scale = Scale::of(name, value.unwrap_or(0.0));
    let number = scale.number(value);
    match scale.unit {
        "ratio" | "count" => number,
        _ if number == NONE => number,
        unit => format!("{number} {unit}"),
    }
}

/// A name without its unit, in words: `rtt_p50_ns` is "rtt p50".
pub fn plain(name: &str) -> String {
    // Packets are not shown as a unit: the name says what is counted.
    let end = match Quantity::of_name(name) {
        Some(Quantity::Count) => "_count",
        Some(Quantity::Packets) | None => "",
        Some(quantity) => quantity.suffix(),
    };
    name.strip_suffix(end).unwrap_or(name).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_the_unit_that_reads_best() {
        for (name, value, text) in [
            ("rtt_p50_ns", 40e6, "40.00 ms"),
            ("rtt_p50_ns", 40e3, "40.00 \u{b5}s"),
            ("convergence_ns", 12.5e9, "12.50 s"),
            ("goodput_bps", 48_123_456.0, "48.12 Mbit/s"),
            ("goodput_bps", 2e12, "2.000 Tbit/s"),
            ("goodput_bps", 0.0, "0 bit/s"),
            ("queue_max_bytes", 250e3, "250.0 kB"),
            ("queue_max_bytes", 52.0, "52 B"),
            ("loss_ratio", 0.0123, "1.230 %"),
            ("jain_ratio", 0.98765, "0.9877"),
            ("jain_ratio", 0.99996, "1.000"),
            ("jain_ratio", 1e-9, "0.000000"),
            ("rto_count", 12_345.0, "12,345"),
            ("rto_count", -1_234_567.0, "-1,234,567"),
            ("rto_count", -123.0, "-123"),
            ("cwnd_packets", 1_234.7, "1,235"),
            ("rtt_p50_ns", f64::NAN, NONE),
        ] {
            assert_eq!(quantity(name, Some(value)), text, "{name} {value}");
        }
        assert_eq!(quantity("rtt_ns", None), NONE);
    }

    #[test]
    fn a_name_in_words_is_without_its_unit() {
        for (name, words) in [
            ("rtt_p50_ns", "rtt p50"),
            ("rto_count", "rto"),
            ("inflight_packets", "inflight packets"),
            ("state", "state"),
        ] {
            assert_eq!(plain(name), words);
        }
    }
}
