//! The text as a tree in which every value knows its origin, and overrides of it.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Diagnostic, Kind};
use crate::limits;
use crate::vocabulary::Vocabulary;

/// Where a key or a value was written.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// Bytes of the file.
    File(Range<usize>),
    /// The override of this number.
    Override(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// Saturates far beyond any allowed value.
    Integer(i128),
    Float(f64),
    Flag(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Entries),
}

pub(crate) type Entries = BTreeMap<String, Entry>;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Origin,
    pub(crate) node: Node,
}

/// The maximum length of a source line quoted in a diagnostic, in characters.
const LONGEST_EXCERPT: usize = 400;

/// A scenario's text, its overrides and the tree of both.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) file: String,
    text: String,
    overrides: Vec<String>,
    pub(crate) vocabulary: &'static Vocabulary,
    pub(crate) root: Node,
}

/// An empty vocabulary.
pub(crate) static NOTHING: Vocabulary = Vocabulary {
    queues: &[],
    early_signals: &[],
};

impl Default for Document {
    fn default() -> Self {
        Self {
            file: String::new(),
            text: String::new(),
            overrides: Vec::new(),
            vocabulary: &NOTHING,
            root: Node {
                value: Value::Table(BTreeMap::new()),
                origin: Origin::File(0..0),
            },
        }
    }
}

/// Positions in the file do not count when scenarios are compared.
impl PartialEq for Document {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Document {
    pub(crate) fn parse(
        text: &str,
        file: &str,
        overrides: &[(String, String)],
        vocabulary: &'static Vocabulary,
    ) -> Result<Self, Vec<Diagnostic>> {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut document = Self {
            file: file.to_owned(),
            text: text.to_owned(),
            vocabulary,
            ..Self::default()
        };
        if !errors.is_empty() {
            return Err(errors
                .iter()
                .take(limits::MAX_PROBLEMS)
                .map(|error| {
                    let origin = Origin::File(error.span().unwrap_or(0..0));
                    let message = format!("not valid TOML: {}", error.message().trim());
                    document.at(Kind::Syntax, &origin, "", message, None)
                })
                .collect());
        }
        document.root.value = Value::Table(entries(table.into_inner(), None));

        let mut problems = Vec::new();
        for (number, (key, value)) in overrides.iter().enumerate() {
            document.overrides.push(format!("--set {key}={value}"));
            let origin = Origin::Override(number);
            let node = Node {
                value: override_value(value, &origin),
                origin: origin.clone(),
            };
            let placed = split(key)
                .ok_or_else(|| {
                    (
                        format!("\"{key}\" is not a key"),
                        "--set takes KEY=VALUE with a dotted key, \
                         as in --set run.duration=\"5 s\" or --set flows[0].cc=cubic"
                            .to_owned(),
                    )
                })
                .and_then(|segments| place(&mut document.root, &segments, node, &origin));
            if let Err((message, hint)) = placed {
                problems.push(document.at(Kind::Override, &origin, key, message, Some(hint)));
            }
        }
        match problems.is_empty() {
            true => Ok(document),
            false => Err(problems),
        }
    }

    /// The document with the given values set at the given keys, each with its own origin, and
    /// without its sweep: one experiment of the sweep.
    pub(crate) fn with<'v>(
        &self,
        values: impl Iterator<Item = (&'v str, &'v Node, &'v Origin)>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut document = self.clone();
        if let Value::Table(entries) = &mut document.root.value {
            entries.remove("sweep");
        }
        for (key, node, origin) in values {
            let segments = split(key).unwrap_or_default();
            place(&mut document.root, &segments, node.clone(), origin).map_err(
                |(message, hint)| vec![self.at(Kind::BadValue, origin, key, message, Some(hint))],
            )?;
        }
        Ok(document)
    }

    /// A diagnostic about the text at `origin`.
    pub(crate) fn at(
        &self,
        kind: Kind,
        origin: &Origin,
        key: &str,
        message: String,
        hint: Option<String>,
    ) -> Diagnostic {
        let mut diagnostic = Diagnostic {
            kind,
            message,
            file: self.file.clone(),
            line: None,
            column: None,
            key: key.to_owned(),
            hint,
            excerpt: None,
        };
        match origin {
            Origin::Override(number) => {
                diagnostic.file = self.overrides.get(*number).cloned().unwrap_or_default();
            }
            Origin::File(span) => {
                let before = self.text.get(..span.start).unwrap_or(&self.text);
                let start = before.rfind('\n').map_or(0, |newline| newline + 1);
                let column = before.get(start..).unwrap_or("").chars().count();
                let rest = self.text.get(start..).unwrap_or("");
                let line = rest.lines().next().unwrap_or("");
                let marked = self.text.get(span.clone()).unwrap_or("");
                let marked = marked.lines().next().unwrap_or("").chars().count();
                diagnostic.line = Some(before.matches('\n').count() + 1);
                diagnostic.column = Some(column + 1);
                if line.chars().count() <= LONGEST_EXCERPT {
                    diagnostic.excerpt = Some((line.to_owned(), marked));
                }
            }
        }
        diagnostic
    }

    /// The location of `key`, or of the nearest existing table above it.
    pub(crate) fn locate(&self, key: &str) -> &Origin {
        let mut node = &self.root;
        // The start of the file is more useful than all of it.
        let mut origin = &self.root.origin;
        for segment in split(key).unwrap_or_default() {
            match &node.value {
                Value::Table(entries) => match entries.get(&segment) {
                    Some(entry) => {
                        node = &entry.node;
                        origin = match node.value {
                            Value::Table(_) | Value::Array(_) => &entry.key,
                            _ => &node.origin,
                        };
                    }
                    None => break,
                },
                Value::Array(items) => match segment.parse().ok().and_then(|i: usize| items.get(i))
                {
                    Some(item) => {
                        node = item;
                        origin = &item.origin;
                    }
                    None => break,
                },
                _ => break,
            }
        }
        origin
    }
}

/// The plain form of a table, whose parts have the stated origins, or all the same one, `at`.
fn entries(table: DeTable<'_>, at: Option<&Origin>) -> Entries {
    table
        .into_iter()
        .map(|(key, value)| {
            let entry = Entry {
                key: at.cloned().unwrap_or(Origin::File(key.span())),
                node: node(value, at),
            };
            (key.into_inner().into_owned(), entry)
        })
        .collect()
}

fn node(value: Spanned<DeValue<'_>>, at: Option<&Origin>) -> Node {
    let origin = at.cloned().unwrap_or(Origin::File(value.span()));
    Node {
        value: plain(value.into_inner(), at),
        origin,
    }
}

fn plain(value: DeValue<'_>, at: Option<&Origin>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => Value::Integer(
            i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX),
        ),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(datetime) => Value::Datetime(datetime.to_string()),
        DeValue::Array(items) => {
            Value::Array(items.into_iter().map(|item| node(item, at)).collect())
        }
        DeValue::Table(table) => Value::Table(entries(table, at)),
    }
}

/// TOML if it parses as TOML, otherwise text: `--set run.seed=7` needs no quotes, nor does `5 s`.
fn override_value(text: &str, origin: &Origin) -> Value {
    match DeValue::parse(text.trim()) {
        Ok(value) if !value.get_ref().is_datetime() => plain(value.into_inner(), Some(origin)),
        _ => Value::Text(text.to_owned()),
    }
}

/// The text of an override from which this value would be read.
pub(crate) fn override_text(value: &Value) -> String {
    match value {
        Value::Text(text) if DeValue::parse(text.trim()).is_ok() => quoted(text),
        Value::Text(text) => text.clone(),
        value => toml_text(value),
    }
}

fn toml_text(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        // `{:?}` keeps the decimal point of a whole number.
        Value::Float(number) => format!("{number:?}"),
        Value::Flag(flag) => flag.to_string(),
        Value::Datetime(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| toml_text(&item.value)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, entry)| format!("{} = {}", join("", key), toml_text(&entry.node.value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// `flows[1].cc` and `flows.1.cc` as `flows`, `1`, `cc`; `None` if it is neither.
pub(crate) fn split(key: &str) -> Option<Vec<String>> {
    let mut segments = Vec::new();
    for part in key.split('.') {
        let (name, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        if name.trim().is_empty() {
            return None;
        }
        segments.push(name.trim().to_owned());
        let mut rest = indices;
        while !rest.is_empty() {
            let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
            index.parse::<usize>().ok()?;
            segments.push(index.to_owned());
            rest = after;
        }
    }
    Some(segments)
}

/// Sets `new` at the path `segments`, which have the given `origin`, creating tables on the way. An
/// error is a message and a hint.
fn place(
    root: &mut Node,
    segments: &[String],
    new: Node,
    origin: &Origin,
) -> Result<(), (String, String)> {
    let mut node = root;
    for (depth, segment) in segments.iter().enumerate() {
        if !matches!(node.value, Value::Table(_) | Value::Array(_)) {
            *node = open(node, segments.get(depth.wrapping_sub(1)), origin);
        }
        node = match &mut node.value {
            Value::Table(entries) => {
                &mut entries
                    .entry(segment.clone())
                    .or_insert_with(|| Entry {
                        key: origin.clone(),
                        node: Node {
                            value: Value::Table(BTreeMap::new()),
                            origin: origin.clone(),
                        },
                    })
                    .node
            }
            Value::Array(items) => {
                let above = segments.get(..depth).unwrap_or_default().join(".");
                let count = items.len();
                segment
                    .parse()
                    .ok()
                    .and_then(|index: usize| items.get_mut(index))
                    .ok_or_else(|| {
                        (
                            format!("\"{segment}\" is not one of the {count} `{above}`"),
                            match count {
                                0 => format!("`{above}` is empty"),
                                1 => format!("the only one is {above}[0]"),
                                _ => format!("they are {above}[0] to {above}[{}]", count - 1),
                            },
                        )
                    })?
            }
            _ => return Ok(()),
        };
    }
    *node = new;
    Ok(())
}

/// The key of `name` in the table `above`, quoted if TOML requires it.
pub(crate) fn join(above: &str, name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    };
    match above {
        "" => name,
        above => format!("{above}.{name}"),
    }
}

/// The table that a plain value becomes when something is set inside it. A controller keeps its
/// name, so that `flows[0].cc.OPTION` can be set where the file has `cc = "bbr3"`.
fn open(node: &Node, key: Option<&String>, origin: &Origin) -> Node {
    let mut entries = BTreeMap::new();
    if key.is_some_and(|key| key == "cc") && matches!(node.value, Value::Text(_)) {
        let entry = Entry {
            key: node.origin.clone(),
            node: node.clone(),
        };
        entries.insert("name".to_owned(), entry);
    }
    Node {
        value: Value::Table(entries),
        origin: origin.clone(),
    }
}
