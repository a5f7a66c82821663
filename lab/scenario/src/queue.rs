//! The queue in front of a link: its discipline, its options, and its size.

use std::cell::Cell;

use paceline_units::options::Named;
use paceline_units::schema::{described, description, options as option_schemas, table};
use paceline_units::{Bytes, Site, Size};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json, json};

use crate::bounds::Problems;
use crate::document::{Node, join};
use crate::options::{self, Options};
use crate::reader::{Read, Reader};
use crate::section::Key;
use crate::vocabulary::Vocabulary;

/// Something chosen by name, with all of its options.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueChoice {
    /// Its name.
    pub name: &'static str,
    /// Its options, in the order of their description.
    pub options: Options,
}

/// The queue in front of a link. The existing disciplines are not known here.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The discipline.
    pub kind: QueueChoice,
    /// How much it holds.
    pub size: Size,
    /// How it signals congestion before it is full; at most one.
    pub early_signals: Vec<QueueChoice>,
}

pub(crate) const NEEDS_SIZE: &str = "a queue needs a size, because results depend on it: \
    queue = { kind = \"droptail\", size = \"1 bdp\" }; \
    other sizes: \"165 packets\", \"250 kB\", \"40 ms\"";

impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind.name)?;
        for (name, value) in &self.kind.options {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("size", &self.size)?;
        for signal in &self.early_signals {
            map.serialize_entry(signal.name, &Written(&signal.options))?;
        }
        map.end()
    }
}

struct Written<'o>(&'o Options);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Read for Queue {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let Vocabulary {
            queues,
            early_signals,
        } = *reader.vocabulary();
        let wanted = "a table such as { kind = \"droptail\", size = \"1 bdp\" }";
        let mut table = reader.table(node, key, wanted)?;
        // The other keys depend on it.
        let plain = queues.first()?;
        let named = match table.node("kind") {
            None => plain,
            Some(node) => {
                let names: Vec<&'static str> = queues.iter().map(|named| named.name).collect();
                let key = join(key, "kind");
                let name = table
                    .reader
                    .word(node, &key, "a queueing discipline", &names)?;
                queues.iter().find(|named| named.name == name)?
            }
        };
        let size = table.required("size", NEEDS_SIZE);
        let options = options::read(&mut table, named.options());
        let mut signals = Vec::new();
        if named.name == plain.name {
            for signal in early_signals {
                let Some(node) = table.node(signal.name) else {
                    continue;
                };
                let takes = example(signal);
                let key = join(key, signal.name);
                let mut inner = table.reader.table(node, &key, &takes)?;
                let options = options::read(&mut inner, signal.options());
                inner.finish();
                signals.push(options.map(|options| QueueChoice {
                    name: signal.name,
                    options,
                }));
            }
        }
        table.finish();
        Some(Self {
            kind: QueueChoice {
                name: named.name,
                options: options?,
            },
            size: size?,
            // Unreadable values are reported.
            early_signals: signals.into_iter().flatten().collect(),
        })
    }
}

/// "a table such as { min = \"30 kB\", max = \"90 kB\" }", from the hints of the required options.
fn example(named: &Named) -> String {
    let parts: Vec<&str> = named
        .options()
        .filter_map(|option| {
            let (_, written) = option.needs.rsplit_once(": ")?;
            Some(written.split(", \"").next().unwrap_or(written))
        })
        .collect();
    format!("a table such as {{ {} }}", parts.join(", "))
}

impl Key for Queue {}

impl Queue {
    /// The queue of a link that transmits at once.
    pub(crate) fn unlimited() -> Self {
        Self {
            kind: QueueChoice {
                name: "droptail",
                options: Options::default(),
            },
            size: Size::Bytes(Bytes::INFINITE),
            early_signals: Vec::new(),
        }
    }

    /// Finds options beyond their bounds; `key` is that of the queue.
    pub(crate) fn check_options(
        &self,
        key: &str,
        vocabulary: &Vocabulary,
        site: &Site,
        problems: &mut Problems,
    ) {
        let mut check = |choice: &QueueChoice, at: &str, among: &[Named]| {
            let Some(named) = among.iter().find(|named| named.name == choice.name) else {
                return;
            };
            options::check(at, named.options(), &choice.options, problems);
            if let Some(refusal) = (named.check)(&choice.options, site) {
                let key = join(at, refusal.option);
                problems.bad(&key, format!("`{key}` {}", refusal.message), refusal.hint);
            }
        };
        check(&self.kind, key, vocabulary.queues);
        for signal in &self.early_signals {
            check(signal, &join(key, signal.name), vocabulary.early_signals);
        }
        if let [first, second, ..] = &self.early_signals[..] {
            let message = format!("`{key}` has both `{}` and `{}`", first.name, second.name);
            problems.bad(&join(key, first.name), message, "choose one of them");
        }
    }
}

thread_local! {
    /// The vocabulary for the current schema: schemars asks types, which have no context.
    static DESCRIBED: Cell<Option<&'static Vocabulary>> = const { Cell::new(None) };
}

/// Calls `schema` while queues are described with `vocabulary`.
pub(crate) fn with_vocabulary<T>(vocabulary: &'static Vocabulary, schema: impl FnOnce() -> T) -> T {
    DESCRIBED.set(Some(vocabulary));
    let made = schema();
    DESCRIBED.set(None);
    made
}

impl JsonSchema for Queue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Queue".into()
    }

    /// One form for each kind.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let Some(vocabulary) = DESCRIBED.get() else {
            return json_schema!({ "type": "object" });
        };
        let size = generator.subschema_for::<Size>();
        let size = json!({ "description": "How much it holds", "allOf": [size] });
        let signals = vocabulary.early_signals.iter();
        let signals = signals.map(|signal| (signal.name, early_schema(signal, generator)));
        let signals: Vec<(&str, Json)> = signals.collect();
        let mut forms = Vec::new();
        for (number, named) in vocabulary.queues.iter().enumerate() {
            let is_default = number == 0;
            let mut kind = json!({ "description": "The discipline", "const": named.name });
            let mut required = vec!["kind", "size"];
            let mut properties = Map::new();
            if let (true, Some(kind)) = (is_default, kind.as_object_mut()) {
                kind.insert("default".into(), named.name.into());
                required = vec!["size"];
            }
            properties.insert("kind".into(), kind);
            properties.insert("size".into(), size.clone());
            let (options, needed) = option_schemas(named.options(), generator);
            properties.extend(options);
            required.extend(needed);
            if is_default {
                let signals = signals.iter().cloned();
                properties.extend(signals.map(|(name, schema)| (name.to_owned(), schema)));
            }
            forms.push(json!({
                "description": description(named.about),
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }));
        }
        json_schema!({ "description": "The queue in front of a link", "anyOf": forms })
    }
}

/// A signal's key: its table has its own definition.
fn early_schema(signal: &Named, generator: &mut SchemaGenerator) -> Json {
    let schema = table(signal.about, signal.options(), generator);
    generator
        .definitions_mut()
        .insert(signal.title.to_owned(), schema.into());
    let reference = json!({ "$ref": format!("#/$defs/{}", signal.title) });
    let schema = json_schema!({ "allOf": [reference] });
    described(schema, signal.summary.to_owned(), None)
}
