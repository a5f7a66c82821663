//! From the tree to typed values; collects every error on the way.

use std::path::Path;

use paceline_units::{ParseError, ParseErrorKind};

use crate::diagnostic::{Diagnostic, Kind};
use crate::document::{Document, Entries, Node, Origin, Value, join};
use crate::limits;
use crate::vocabulary::Vocabulary;

/// Collects the errors in a document.
pub(crate) struct Reader<'d> {
    document: &'d Document,
    pub(crate) problems: Vec<Diagnostic>,
}

/// A value that can be read from a node. `None` means that an error was reported.
pub(crate) trait Read: Sized {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self>;
}

impl<'d> Reader<'d> {
    pub(crate) fn new(document: &'d Document) -> Self {
        Self {
            document,
            problems: Vec::new(),
        }
    }

    /// The known names.
    pub(crate) fn vocabulary(&self) -> &'static Vocabulary {
        self.document.vocabulary
    }

    /// The file's name without folder and extension.
    pub(crate) fn file_stem(&self) -> String {
        Path::new(&self.document.file).file_stem().map_or_else(
            || "scenario".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    }

    pub(crate) fn report(
        &mut self,
        kind: Kind,
        origin: &Origin,
        key: &str,
        message: String,
        hint: Option<String>,
    ) {
        if self.problems.len() < limits::MAX_PROBLEMS {
            let problem = self.document.at(kind, origin, key, message, hint);
            self.problems.push(problem);
        }
    }

    /// Reports a value of the wrong type.
    pub(crate) fn wrong_type<T>(&mut self, node: &Node, key: &str, wanted: &str) -> Option<T> {
        let found = describe(node);
        let message = format!("`{key}` takes {wanted}, found {found}");
        self.report(Kind::WrongType, &node.origin, key, message, None);
        None
    }

    /// Reports a value of the right type that is not allowed.
    pub(crate) fn bad_value<T>(
        &mut self,
        node: &Node,
        key: &str,
        wanted: &str,
        hint: String,
    ) -> Option<T> {
        let found = describe(node);
        let message = format!("`{key}` takes {wanted}, found {found}");
        self.report(Kind::BadValue, &node.origin, key, message, Some(hint));
        None
    }

    pub(crate) fn text<'n>(&mut self, node: &'n Node, key: &str, wanted: &str) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) => Some(text),
            _ => self.wrong_type(node, key, wanted),
        }
    }

    pub(crate) fn table<'n, 'r>(
        &'r mut self,
        node: &'n Node,
        key: &'n str,
        wanted: &str,
    ) -> Option<Table<'n, 'r, 'd>> {
        match &node.value {
            Value::Table(entries) => Some(Table {
                reader: self,
                origin: &node.origin,
                entries,
                key,
                known: Vec::new(),
            }),
            _ => self.wrong_type(node, key, wanted),
        }
    }

    /// One of a few words.
    pub(crate) fn word(
        &mut self,
        node: &Node,
        key: &str,
        wanted: &str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let text = self.text(node, key, wanted)?;
        if let Some(word) = words.iter().find(|word| **word == text) {
            return Some(word);
        }
        self.bad_value(node, key, wanted, choices(text, words, "\""))
    }

    pub(crate) fn quantity<T>(
        &mut self,
        node: &Node,
        key: &str,
        (name, example): (&str, &str),
        parse: fn(&str) -> Result<T, ParseError>,
    ) -> Option<T> {
        let wanted = format!("a {name} such as \"{example}\"");
        match &node.value {
            Value::Text(text) => match parse(text) {
                Ok(value) => Some(value),
                Err(error) => self.bad_value(node, key, &wanted, unit_hint(text, &error)),
            },
            Value::Integer(_) | Value::Float(_) => {
                let hint = "a number needs its unit and is written as text".to_owned();
                let found = describe(node);
                let message = format!("`{key}` takes {wanted}, found {found}");
                self.report(Kind::WrongType, &node.origin, key, message, Some(hint));
                None
            }
            _ => self.wrong_type(node, key, &wanted),
        }
    }
}

/// What would be correct in place of the quantity `text`.
pub(crate) fn unit_hint(text: &str, error: &ParseError) -> String {
    let units: Vec<&str> = error.units().collect();
    let allowed = format!("units: {}", units.join(", "));
    match error.kind() {
        ParseErrorKind::Empty => format!("nothing is written; {allowed}"),
        ParseErrorKind::NotANumber => format!("it starts with a decimal number; {allowed}"),
        ParseErrorKind::NoUnit => format!("the unit is missing; {allowed}"),
        ParseErrorKind::UnknownUnit => {
            let number = text.get(..error.offset()).unwrap_or("").trim();
            match error.nearest() {
                Some(unit) => format!("did you mean \"{number} {unit}\"? {allowed}"),
                None => format!("no such unit; {allowed}"),
            }
        }
        ParseErrorKind::Negative => format!("a {} is not negative", error.quantity()),
        ParseErrorKind::TooFine => "finer than the smallest step that is kept".to_owned(),
        _ => "too large to hold".to_owned(),
    }
}

/// A table whose keys are requested one by one; keys that nobody requests are unknown.
pub(crate) struct Table<'n, 'r, 'd> {
    pub(crate) reader: &'r mut Reader<'d>,
    pub(crate) origin: &'n Origin,
    entries: &'n Entries,
    pub(crate) key: &'n str,
    known: Vec<&'static str>,
}

impl<'n> Table<'n, '_, '_> {
    /// The node at `name`, if it is there.
    pub(crate) fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        self.entries.get(name).map(|entry| &entry.node)
    }

    /// The value at `name`: `None` if there is nothing, `Some(None)` if it is invalid.
    pub(crate) fn get<T: Read>(&mut self, name: &'static str) -> Option<Option<T>> {
        let node = self.node(name)?;
        Some(T::read(node, &join(self.key, name), self.reader))
    }

    /// A required key.
    pub(crate) fn required<T: Read>(&mut self, name: &'static str, why: &str) -> Option<T> {
        self.get(name).unwrap_or_else(|| self.missing(name, why))
    }

    /// Reports a missing required key.
    pub(crate) fn missing<T>(&mut self, name: &str, why: &str) -> Option<T> {
        let key = join(self.key, name);
        let message = format!("`{key}` is missing");
        let hint = Some(why.to_owned());
        self.reader
            .report(Kind::MissingKey, self.origin, &key, message, hint);
        None
    }

    /// A key with a default, which also replaces an invalid value after it is reported.
    pub(crate) fn or<T: Read>(&mut self, name: &'static str, default: T) -> T {
        self.get(name).flatten().unwrap_or(default)
    }

    /// An optional key.
    pub(crate) fn optional<T: Read>(&mut self, name: &'static str) -> Option<T> {
        self.get(name).flatten()
    }

    /// The keys that were not requested, for tables with free keys.
    pub(crate) fn others(&self) -> Vec<(&'n String, &'n Node)> {
        let known = |name: &String| self.known.contains(&name.as_str());
        let unknown = self.entries.iter().filter(|(name, _)| !known(name));
        unknown.map(|(name, entry)| (name, &entry.node)).collect()
    }

    /// Reports the keys that nobody requested.
    pub(crate) fn finish(self) {
        for (name, entry) in self.entries {
            if self.known.contains(&name.as_str()) {
                continue;
            }
            let key = join(self.key, name);
            let place = match self.key {
                "" => "at the top of a scenario".to_owned(),
                key => format!("in `{key}`"),
            };
            let message = format!("unknown key `{name}` {place}");
            let mut hint = choices(name, &self.known, "`");
            if matches!(entry.key, Origin::Override(_)) {
                hint.push_str("; --set KEY=VALUE names a key of the scenario file");
            }
            self.reader
                .report(Kind::UnknownKey, &entry.key, &key, message, Some(hint));
        }
    }
}

/// "did you mean `duration`? allowed: `duration`, `seed`".
pub(crate) fn choices(given: &str, allowed: &[&str], quote: &str) -> String {
    let list = allowed.iter().map(|name| format!("{quote}{name}{quote}"));
    let list: Vec<String> = list.collect();
    let list = format!("allowed: {}", list.join(", "));
    match nearest(given, allowed) {
        Some(name) => format!("did you mean {quote}{name}{quote}? {list}"),
        None => list,
    }
}

/// Names from other tools, and the name used here.
const MEANT: &[(&str, &str)] = &[
    ("at", "when"),
    ("time", "when"),
    ("bandwidth", "rate"),
    ("bw", "rate"),
    ("delay", "rtt"),
    ("latency", "rtt"),
    ("buffer", "queue"),
    ("controller", "cc"),
    ("congestion_control", "cc"),
    // The slots of ACKs are the return direction's `aggregation`.
    ("ack_aggregation", "return"),
];

/// The name that is meant, or the most similar one, if any is similar.
pub fn nearest<'a>(given: &str, allowed: &[&'a str]) -> Option<&'a str> {
    // A text longer than any name resembles none of them, and is slow to compare.
    if given.len() > 64 {
        return None;
    }
    let means = |name: &&&str| MEANT.contains(&(given, **name));
    if let Some(name) = allowed.iter().find(means) {
        return Some(name);
    }
    allowed
        .iter()
        .map(|name| {
            let (given, near) = (given.to_lowercase(), name.to_lowercase());
            // The first measure prefers a common prefix, the second transposed letters.
            let begins = strsim::jaro_winkler(&given, &near);
            let swaps = strsim::normalized_damerau_levenshtein(&given, &near);
            // One letter is a large part of a short name.
            let slip = given.len() > 1 && strsim::damerau_levenshtein(&given, &near) == 1;
            (begins.max(swaps + if slip { 0.3 } else { 0.2 }), *name)
        })
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// A value as shown in messages.
pub(crate) fn describe(node: &Node) -> String {
    match &node.value {
        Value::Text(text) if text.chars().count() > 60 => {
            format!("{:?}...", text.chars().take(60).collect::<String>())
        }
        Value::Text(text) => format!("{text:?}"),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Datetime(text) => text.clone(),
        Value::Array(_) => "an array".to_owned(),
        Value::Table(_) => "a table".to_owned(),
    }
}
