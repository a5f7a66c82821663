//! A line of a trace: a letter and `key=value` pairs.

use std::str::FromStr;

use paceline_congestion::CaState;

/// A line's letter and its `key=value` pairs.
pub(crate) struct Pairs<'a> {
    pub(crate) letter: &'a str,
    pub(crate) pairs: Vec<(&'a str, &'a str)>,
    /// Where the search for the next key starts: they come in order.
    next: usize,
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(text: &'a str) -> Result<Self, String> {
        let mut words = text.split_ascii_whitespace();
        let letter = words.next().unwrap_or("");
        let pairs = words.filter(|word| *word != "|").map(|word| {
            word.split_once('=')
                .ok_or(format!("{word:?} is not key=value"))
        });
        Ok(Self {
            letter,
            pairs: pairs.collect::<Result<_, _>>()?,
            next: 0,
        })
    }

    pub(crate) fn get<T: FromStr>(&mut self, key: &str) -> Result<T, String> {
        let holds = |at: &usize| self.pairs.get(*at).is_some_and(|(k, _)| *k == key);
        let at = Some(self.next)
            .filter(holds)
            .or_else(|| (0..self.pairs.len()).find(holds))
            .ok_or_else(|| format!("{} has no {key}", self.letter))?;
        self.next = at + 1;
        let value = self.pairs.get(at).map_or("", |(_, value)| value);
        number(key, value)
    }

    /// A value that need not be there.
    pub(crate) fn find<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, String> {
        match self.pairs.iter().any(|(k, _)| *k == key) {
            true => self.get(key).map(Some),
            false => Ok(None),
        }
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.get::<u8>(key)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(format!("{key}={value} is neither 0 nor 1")),
        }
    }

    pub(crate) fn ca_state(&mut self) -> Result<CaState, String> {
        Ok(match self.get::<u8>("ca")? {
            0 => CaState::Open,
            1 => CaState::Disorder,
            2 => CaState::Cwr,
            3 => CaState::Recovery,
            4 => CaState::Loss,
            value => return Err(format!("ca={value} is no recovery state")),
        })
    }
}

pub(crate) fn number<T: FromStr>(key: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{key}={value} is not a number of its range"))
}
