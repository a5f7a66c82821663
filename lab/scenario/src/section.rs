//! Sections of a scenario, each declared once.
//!
//! [`Section`](paceline_derive::Section) derives them from structs: from a field follow its reader with
//! its errors, its place in the JSON Schema and in the resolved scenario, its bounds check, and the
//! refusal by engines that do not support it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};

use paceline_units::schema::{described, description};

use crate::bounds::Problems;
use crate::document::{Node, join};
use crate::engines::{Engine, Honoured, Unsupported, judge};
use crate::reader::{Read, Reader, Table};

/// The value of a key.
pub(crate) trait Key: Read + Serialize + JsonSchema + PartialEq {
    /// Takes it from a table: `None` if nothing is written, `Some(None)` if it is invalid.
    fn take(table: &mut Table<'_, '_, '_>, name: &'static str) -> Option<Option<Self>> {
        table.get(name)
    }

    /// Adds it to a table's schema.
    fn describe(
        name: &'static str,
        doc: &[&str],
        default: Option<Json>,
        properties: &mut Properties,
        generator: &mut SchemaGenerator,
    ) {
        properties.add(name, doc, default, generator.subschema_for::<Self>());
    }

    /// Adds it to a resolved scenario.
    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(name, self)
    }

    /// Whether it contributes several keys to the enclosing table.
    const FLAT: bool = false;

    /// Finds values beyond the bounds of the type.
    fn check(&self, _key: &str, _problems: &mut Problems) {}

    /// Finds keys inside of it that `engine` does not support.
    fn find_unsupported(&self, _key: &str, _engine: Engine, _unsupported: &mut Vec<Unsupported>) {}
}

/// The key with which the problems of a value of type `T` begin.
fn key_of<T: Key>(at: &str, name: &str) -> String {
    match T::FLAT {
        true => at.to_owned(),
        false => join(at, name),
    }
}

/// Only as the value of a key: a written key has a value.
impl<T: Read> Read for Option<T> {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, key, reader).map(Some)
    }
}

impl<T: Key> Key for Option<T> {
    fn take(table: &mut Table<'_, '_, '_>, name: &'static str) -> Option<Option<Self>> {
        T::take(table, name).map(|value| value.map(Some))
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        self.as_ref().map_or(Ok(()), |value| value.write(name, map))
    }

    fn check(&self, key: &str, problems: &mut Problems) {
        if let Some(value) = self {
            value.check(key, problems);
        }
    }

    fn find_unsupported(&self, key: &str, engine: Engine, unsupported: &mut Vec<Unsupported>) {
        if let Some(value) = self {
            value.find_unsupported(key, engine, unsupported);
        }
    }
}

/// The keys of a table, for its schema.
#[derive(Default)]
pub(crate) struct Properties {
    properties: Map<String, Json>,
    required: Vec<&'static str>,
}

impl Properties {
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        doc: &[&str],
        default: Option<Json>,
        schema: Schema,
    ) {
        let schema = described(schema, description(doc), default);
        self.properties.insert(name.to_owned(), schema);
    }

    fn table(self, doc: &[&str]) -> Schema {
        let mut schema = json_schema!({
            "description": description(doc),
            "type": "object",
            "properties": self.properties,
            "additionalProperties": false,
        });
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        schema
    }
}

/// A struct whose fields are the keys of a table.
pub(crate) trait Section: Sized {
    /// The value that an error asks for; none if the keys are mixed with those of the enclosing
    /// table, whose key then says which engines support them.
    const TAKES: Option<&'static str>;
    /// Its documentation.
    const ABOUT: &'static [&'static str];

    /// Takes the keys from a table; none if a required one is missing or invalid.
    fn take_keys(table: &mut Table<'_, '_, '_>) -> Option<Self>;

    /// Adds the keys to a resolved scenario.
    fn write_keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;

    /// Adds the keys to a table's schema.
    fn describe_keys(properties: &mut Properties, generator: &mut SchemaGenerator);

    /// Finds values beyond their bounds.
    fn check_keys(&self, at: &str, problems: &mut Problems);

    /// Finds keys that `engine` does not support.
    fn judge_keys(&self, at: &str, engine: Engine, unsupported: &mut Vec<Unsupported>);
}

/// A key of the section `S`: a value of type `T`, read and described as `F`.
pub(crate) struct Spec<S, T, F> {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static [&'static str],
    pub(crate) get: fn(&S) -> &T,
    pub(crate) made: fn(F) -> T,
    /// The default, or what to write if it has none.
    pub(crate) default: Result<fn() -> T, &'static str>,
    /// Whether the schema has the default.
    pub(crate) is_shown: bool,
    /// Whether the resolved scenario leaves the default out.
    pub(crate) is_quiet: bool,
    pub(crate) bound: fn(&mut Problems, &str, &T),
    pub(crate) on: Option<Honoured>,
}

impl<S, T: Key, F: Key> Spec<S, T, F> {
    fn has_default(&self, section: &S) -> bool {
        self.default
            .is_ok_and(|default| *(self.get)(section) == default())
    }

    /// Its value in a table, or its default.
    pub(crate) fn take(&self, table: &mut Table<'_, '_, '_>) -> Option<T> {
        match self.default {
            Err(hint) => table.required(self.name, hint).map(self.made),
            Ok(default) => {
                let value = F::take(table, self.name).flatten();
                Some(value.map_or_else(default, self.made))
            }
        }
    }

    /// Adds it to a resolved scenario.
    pub(crate) fn write<M: SerializeMap>(&self, section: &S, map: &mut M) -> Result<(), M::Error> {
        match self.is_quiet && self.has_default(section) {
            true => Ok(()),
            false => (self.get)(section).write(self.name, map),
        }
    }

    /// Adds it to a table's schema.
    pub(crate) fn describe(&self, properties: &mut Properties, generator: &mut SchemaGenerator) {
        let default = self.default.ok().filter(|_| self.is_shown);
        let default = default.and_then(|default| serde_json::to_value(default()).ok());
        F::describe(self.name, self.doc, default, properties, generator);
        if self.default.is_err() {
            properties.required.push(self.name);
        }
    }

    /// Finds values beyond the bounds of the key and of its type.
    pub(crate) fn check(&self, section: &S, at: &str, problems: &mut Problems) {
        let key = key_of::<T>(at, self.name);
        let value = (self.get)(section);
        value.check(&key, problems);
        (self.bound)(problems, &key, value);
    }

    /// Refuses it if it is not at its default and `engine` does not support it.
    pub(crate) fn judge(
        &self,
        section: &S,
        at: &str,
        engine: Engine,
        unsupported: &mut Vec<Unsupported>,
    ) {
        let key = key_of::<T>(at, self.name);
        let is_free = self.default.is_err() || self.has_default(section);
        judge(self.on, engine, is_free, &key, unsupported);
        (self.get)(section).find_unsupported(&key, engine, unsupported);
    }
}

impl<T: Section> Read for T {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, T::TAKES.unwrap_or("a table"))?;
        let section = T::take_keys(&mut table);
        table.finish();
        section
    }
}

impl<T: Section + Serialize + JsonSchema + PartialEq> Key for T {
    const FLAT: bool = T::TAKES.is_none();

    fn take(table: &mut Table<'_, '_, '_>, name: &'static str) -> Option<Option<Self>> {
        match Self::FLAT {
            true => Some(T::take_keys(table)),
            false => table.get(name),
        }
    }

    fn describe(
        name: &'static str,
        doc: &[&str],
        default: Option<Json>,
        properties: &mut Properties,
        generator: &mut SchemaGenerator,
    ) {
        match Self::FLAT {
            true => T::describe_keys(properties, generator),
            false => properties.add(name, doc, default, generator.subschema_for::<T>()),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        match Self::FLAT {
            true => self.write_keys(map),
            false => map.serialize_entry(name, self),
        }
    }

    fn check(&self, key: &str, problems: &mut Problems) {
        self.check_keys(key, problems);
    }

    fn find_unsupported(&self, key: &str, engine: Engine, unsupported: &mut Vec<Unsupported>) {
        if !Self::FLAT {
            self.judge_keys(key, engine, unsupported);
        }
    }
}

/// Writes a section of a resolved scenario.
pub(crate) fn serialize<T: Section, S: Serializer>(
    section: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    section.write_keys(&mut map)?;
    map.end()
}

/// The schema of a section.
pub(crate) fn schema<T: Section>(generator: &mut SchemaGenerator) -> Schema {
    let mut properties = Properties::default();
    T::describe_keys(&mut properties, generator);
    properties.table(T::ABOUT)
}
