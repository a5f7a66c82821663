//! Quantities with their units, drawn from the pattern that the schema has for them.

use paceline_units::Rng;

/// The numbers that a pattern accepts: whether they may have a sign or a fraction, and their units.
#[derive(Debug, PartialEq, Eq)]
pub struct Pattern {
    signed: bool,
    fraction: bool,
    units: Vec<String>,
}

impl Pattern {
    /// Parses `^\s*\+?[0-9]+(\.[0-9]+)?\s*(ms|s)\s*$` and similar patterns; `None` for another
    /// regular expression.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix(r"^\s*")?.strip_suffix(r"\s*$")?;
        let (sign, text) = text.split_once("[0-9]+")?;
        let (number, units) = text.split_once(r"\s*")?;
        let units = units.trim_start_matches('(').trim_end_matches(')');
        Some(Self {
            signed: sign == "[-+]",
            fraction: !number.is_empty(),
            units: units
                .split('|')
                .map(|unit| unit.trim_end_matches('?').to_owned())
                .collect(),
        })
    }

    /// Whether it is a time.
    pub fn is_time(&self) -> bool {
        self.units.iter().any(|unit| unit == "ms")
    }

    /// A quantity: a typical one, or if `wild`, any.
    pub fn draw(&self, rng: &mut Rng, wild: bool) -> String {
        let unit = pick(rng, &self.units);
        let number = match (wild, self.ordinary()) {
            (false, Some((least, most, unit))) => {
                let number = log_uniform(rng, least, most);
                return format!("{}{} {unit}", self.sign(rng), self.shown(number));
            }
            _ => self.wild(rng),
        };
        format!("{}{number} {unit}", self.sign(rng))
    }

    fn sign(&self, rng: &mut Rng) -> &'static str {
        match (self.signed, rng.below(2)) {
            (true, 0) => "-",
            (true, _) => "+",
            (false, _) => "",
        }
    }

    fn shown(&self, number: f64) -> String {
        match self.fraction && number < 100.0 {
            true => format!("{number:.3}"),
            false => format!("{number:.0}"),
        }
    }

    /// Zero, one, and numbers of any size, with many digits or few.
    fn wild(&self, rng: &mut Rng) -> String {
        match rng.below(8) {
            0 => "0".to_owned(),
            1 => "1".to_owned(),
            2 if self.fraction => "0.000001".to_owned(),
            3 if self.fraction => format!("{}.{}", rng.below(100), rng.below(1_000_000)),
            4 => "999999".to_owned(),
            _ => format!("{:.0}", log_uniform(rng, 1.0, 1e12)),
        }
    }

    /// The typical range in experiments: from, to, unit.
    fn ordinary(&self) -> Option<(f64, f64, &'static str)> {
        const USUAL: [(f64, f64, &str); 7] = [
            (50.0, 500_000.0, "kbit/s"),
            (0.01, 300.0, "ms"),
            (0.1, 2_000.0, "kB"),
            (0.01, 100.0, "%"),
            (0.01, 10.0, "bdp"),
            (1.0, 500.0, "packets"),
            (0.01, 100.0, "Hz"),
        ];
        let has = |unit: &str| self.units.iter().any(|known| known == unit);
        USUAL.into_iter().find(|(_, _, unit)| has(unit))
    }
}

/// One of several.
pub fn pick<'a, T>(rng: &mut Rng, among: &'a [T]) -> &'a T {
    &among[rng.below(among.len() as u64) as usize]
}

/// True in this many of a hundred cases.
pub fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

/// From `least` to `most`, each order of magnitude as often as the others.
pub fn log_uniform(rng: &mut Rng, least: f64, most: f64) -> f64 {
    let share = rng.below(1 << 32) as f64 / f64::from(u32::MAX);
    least * (most / least).powf(share)
}

/// The quantities that a text names: "from 68 B to 9 kB" names two.
pub fn named(text: &str) -> Vec<String> {
    let words: Vec<&str> = text
        .split([' ', '"', '`', ',', ';', '(', ')'])
        .filter(|word| !word.is_empty())
        .collect();
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    let mut parts = Vec::new();
    for (place, word) in words.iter().enumerate() {
        if !is_number(word) {
            continue;
        }
        parts.push((*word).to_owned());
        if let Some(unit) = words.get(place + 1).filter(|next| !is_number(next)) {
            parts.push(format!("{word} {unit}"));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_of_the_schema_are_read() {
        let time = Pattern::read(r"^\s*\+?[0-9]+(\.[0-9]+)?\s*(ns|us|ms|s|min)\s*$").unwrap();
        assert!(time.fraction && !time.signed);
        assert_eq!(time.units, ["ns", "us", "ms", "s", "min"]);
        let packets = Pattern::read(r"^\s*[0-9]+\s*packets?\s*$").unwrap();
        assert!(!packets.fraction);
        assert_eq!(packets.units, ["packets"]);
        assert!(
            Pattern::read(r"^\s*[-+][0-9]+(\.[0-9]+)?\s*%\s*$")
                .unwrap()
                .signed
        );
        assert_eq!(Pattern::read("^[a-z]+$"), None);
    }

    #[test]
    fn a_hint_names_its_bounds() {
        assert_eq!(named("from 68 B to 9 kB"), ["68", "68 B", "9", "9 kB"]);
        assert_eq!(
            named("more than 0 s, at most \"100 s\""),
            ["0", "0 s", "100", "100 s"]
        );
    }
}
