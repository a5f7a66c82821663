//! Sections of a scenario, each declared once.
//!
//! [`section!`] takes a section's keys. From a key's line it derives the field of the struct, its
//! reader with its errors, its place in the JSON Schema and in the resolved scenario, its bounds
//! check, and the refusal by engines that do not support it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value as Json};

use paceline_units::schema::{described, description};

use crate::bounds::Problems;
use crate::document::{Node, join};
use crate::engines::{Engine, Unsupported};
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
pub(crate) fn key_of<T: Key>(at: &str, name: &str) -> String {
    match T::FLAT {
        true => at.to_owned(),
        false => join(at, name),
    }
}

/// The key of a field, which may be a Rust keyword: that of `r#for` is `for`.
pub(crate) fn key_name(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
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
pub(crate) struct Properties {
    properties: Map<String, Json>,
    required: Vec<&'static str>,
}

impl Properties {
    pub(crate) fn new() -> Self {
        Self {
            properties: Map::new(),
            required: Vec::new(),
        }
    }

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

    pub(crate) fn require(&mut self, name: &'static str) {
        self.required.push(name);
    }

    pub(crate) fn table(self, doc: &[&str]) -> Schema {
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

/// Declares a section: a struct whose fields are the keys of a table.
///
/// A key's entry is its documentation, its name and type, and then, in this order:
/// - `= value`, its default; or `=> value`, one that the resolved scenario and the schema leave out; or
///   `needs "hint"`, if it has to be written. With none of them its type is an `Option`;
/// - `, in bound`: its allowed values ([`crate::bounds`]);
/// - `, on engines`: which engines support it ([`crate::engines`]). Without it only the simulator
///   does, and others refuse a scenario that sets it.
///
/// A type `T as S` is read and described as `S`, from which it is made. A section whose keys are
/// all optional is declared `= default`.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub struct $name:ident $(= $default_impl:ident)?, $takes:literal {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty $(as $shape:ty)? $(= $default:expr)? $(=> $quiet:expr)?
                    $(, needs $needs:expr)? $(, in $bound:expr)? $(, on $engines:expr)?;
            )*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl $crate::reader::Read for $name {
            fn read(
                node: &$crate::document::Node,
                key: &str,
                reader: &mut $crate::reader::Reader<'_>,
            ) -> Option<Self> {
                let mut table = reader.table(node, key, $takes)?;
                $(let $field = section!(@read table, $field: $type $(as $shape)?, [$($default)? $($quiet)?] [$($needs)?]);)*
                table.finish();
                Some(Self { $($field: section!(@unwrap $field [$($needs)?])),* })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $(
                    let left_out = false $(|| { let quiet: $type = $quiet; self.$field == quiet })?;
                    if !left_out {
                        $crate::section::Key::write(&self.$field, $crate::section::key_name(stringify!($field)), &mut map)?;
                    }
                )*
                map.end()
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut properties = $crate::section::Properties::new();
                $(
                    section!(@describe properties, generator, $field: $type $(as $shape)?,
                        &[$($doc),+], None::<serde_json::Value>$(.or(serde_json::to_value::<$type>($default).ok()))?);
                    $(let _ = $needs; properties.require($crate::section::key_name(stringify!($field)));)?
                )*
                properties.table(&[$($about),+])
            }
        }

        impl $crate::section::Key for $name {
            fn check(&self, at: &str, problems: &mut $crate::bounds::Problems) {
                $(
                    let key = $crate::section::key_of::<$type>(at, $crate::section::key_name(stringify!($field)));
                    $crate::section::Key::check(&self.$field, &key, problems);
                    $(if let Some(value) = Option::from(self.$field) {
                        ($bound)(problems, &key, value);
                    })?
                )*
            }

            fn find_unsupported(
                &self,
                at: &str,
                engine: $crate::engines::Engine,
                unsupported: &mut Vec<$crate::engines::Unsupported>,
            ) {
                $(
                    let key = $crate::section::key_of::<$type>(at, $crate::section::key_name(stringify!($field)));
                    let is_default = section!(@is_default self, $field: $type, [$($default)? $($quiet)?] [$($needs)?]);
                    let honoured = None$(.or(Some($engines)))?;
                    $crate::engines::judge(honoured, engine, is_default, &key, unsupported);
                    $crate::section::Key::find_unsupported(&self.$field, &key, engine, unsupported);
                )*
            }
        }

        section! { @impl [$($default_impl)?] $name { $($field: [$($default)? $($quiet)?]),* } }
    };

    (@read $table:ident, $field:ident: $type:ty, [] [$needs:expr]) => {
        $table.required::<$type>($crate::section::key_name(stringify!($field)), $needs)
    };
    (@read $table:ident, $field:ident: $type:ty, [] []) => {
        <$type as $crate::section::Key>::take(&mut $table, $crate::section::key_name(stringify!($field))).flatten().unwrap_or_default()
    };
    (@read $table:ident, $field:ident: $type:ty, [$default:expr] []) => {{
        let value = <$type as $crate::section::Key>::take(&mut $table, $crate::section::key_name(stringify!($field)));
        value.flatten().unwrap_or_else(|| $default)
    }};
    (@read $table:ident, $field:ident: $type:ty as $shape:ty, [$default:expr] []) => {{
        let value = <$shape as $crate::section::Key>::take(&mut $table, $crate::section::key_name(stringify!($field)));
        value.flatten().map_or_else(|| $default, <$type>::from)
    }};
    (@unwrap $field:ident [$needs:expr]) => { $field? };
    (@unwrap $field:ident []) => { $field };
    (@describe $properties:ident, $generator:ident, $field:ident: $type:ty as $shape:ty, $doc:expr, $default:expr) => {
        <$shape as $crate::section::Key>::describe(
            $crate::section::key_name(stringify!($field)), $doc, $default, &mut $properties, $generator)
    };
    (@describe $properties:ident, $generator:ident, $field:ident: $type:ty, $doc:expr, $default:expr) => {
        <$type as $crate::section::Key>::describe(
            $crate::section::key_name(stringify!($field)), $doc, $default, &mut $properties, $generator)
    };
    (@is_default $self:ident, $field:ident: $type:ty, [] [$needs:expr]) => { true };
    (@is_default $self:ident, $field:ident: $type:ty, [] []) => { $self.$field.is_none() };
    (@is_default $self:ident, $field:ident: $type:ty, [$default:expr] []) => {{
        let default: $type = $default;
        $self.$field == default
    }};
    (@impl [] $($rest:tt)*) => {};
    (@impl [default] $name:ident { $($field:ident: [$($default:expr)?]),* }) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: section!(@value $($default)?)),* }
            }
        }
    };
    (@value $default:expr) => { $default };
    (@value) => { None };
}
pub(crate) use section;
