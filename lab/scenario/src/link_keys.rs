//! The keys of links, declared once for `[path]`, `[[links]]` and `[[events]]`.

/// A change of something that a link need not have.
pub(crate) trait Ended {
    /// The value that ends it if there was none before.
    fn ended(self) -> Self;
}

/// Declares the properties of every link, and those that may change.
///
/// An entry is its documentation, the name of its variant in [`LinkKey`](crate::LinkKey), its key, and then one of:
/// - `always T = default`: every link has it, and an event may change it;
/// - `maybe T`: a link may have it. `as C`: the type in events, made from a `T` at the start. It
///   defines how an event ends it ([`Ended`]).
///
/// Optionally followed by `, in bound`, and `, "documentation in events"` if that differs. The
/// entries in `once { ... }` are for events only.
macro_rules! link_keys {
    (
        $($(#[doc = $doc1:literal])+ $variant1:ident $name1:ident: $mode1:ident $type1:ty
            $(as $change1:ty)? $(= $default1:expr)? $(, in $bound1:expr)? $(, $event1:literal)?;)*
        once {
            $($(#[doc = $doc2:literal])+ $variant2:ident $name2:ident: $type2:ty;)*
        }
        $($(#[doc = $doc3:literal])+ $variant3:ident $name3:ident: $mode3:ident $type3:ty
            $(as $change3:ty)? $(= $default3:expr)? $(, in $bound3:expr)? $(, $event3:literal)?;)*
    ) => {
        link_keys! { @section
            $({ $(#[doc = $doc1])+ } $variant1 $name1 $mode1 [$type1] [$($default1)?] [$($bound1)?];)*
            $({ $(#[doc = $doc3])+ } $variant3 $name3 $mode3 [$type3] [$($default3)?] [$($bound3)?];)*
        }
        link_keys! { @event
            $({ $(#[doc = $doc1])+ } { $($event1)? } $variant1 $name1 $mode1 [$type1] [$($change1)?] [$($bound1)?];)*
            $({ $(#[doc = $doc2])+ } {} $variant2 $name2 once [$type2] [] [];)*
            $({ $(#[doc = $doc3])+ } { $($event3)? } $variant3 $name3 $mode3 [$type3] [$($change3)?] [$($bound3)?];)*
        }
    };

    (@section $({ $(#[doc = $doc:literal])+ } $variant:ident $name:ident $mode:ident [$type:ty] [$($default:expr)?]
        [$($bound:expr)?];)*) => {
        /// The properties of every link besides its rate, its delay and its queue.
        #[derive(Clone, Debug, PartialEq)]
        pub struct LinkKeys {
            $($(#[doc = $doc])+ pub $name: link_keys!(@type $mode $type),)*
        }

        impl Default for LinkKeys {
            fn default() -> Self {
                Self { $($name: link_keys!(@default $($default)?)),* }
            }
        }

        impl LinkKeys {
            /// The changes that give a link its initial properties.
            pub fn at_start(&self) -> Vec<LinkKey> {
                let plain = Self::default();
                let mut keys = Vec::new();
                $(if self.$name != plain.$name {
                    keys.extend(link_keys!(@start $mode self.$name).map(|value| LinkKey::$variant(value.into())));
                })*
                keys
            }
        }

        link_keys! { @flat LinkKeys "What every link has" }

        impl Key for LinkKeys {
            const FLAT: bool = true;

            fn take(table: &mut Table<'_, '_, '_>, _: &'static str) -> Option<Option<Self>> {
                let plain = Self::default();
                Some(Some(Self {
                    $($name: Key::take(table, stringify!($name)).flatten().unwrap_or(plain.$name)),*
                }))
            }

            fn describe(
                _: &'static str,
                _: &[&str],
                _: Option<serde_json::Value>,
                properties: &mut Properties,
                generator: &mut SchemaGenerator,
            ) {
                $(
                    let default = None$(.or(serde_json::to_value::<$type>($default).ok()))?;
                    <link_keys!(@type $mode $type)>::describe(
                        stringify!($name), &[$($doc),+], default, properties, generator);
                )*
            }

            fn write<M: SerializeMap>(&self, _: &'static str, map: &mut M) -> Result<(), M::Error> {
                $(Key::write(&self.$name, stringify!($name), map)?;)*
                Ok(())
            }

            fn check(&self, at: &str, problems: &mut Problems) {
                $(
                    let key = join(at, stringify!($name));
                    Key::check(&self.$name, &key, problems);
                    $(($bound)(problems, &key, self.$name);)?
                )*
            }
        }
    };

    (@event $({ $(#[doc = $doc:literal])+ } { $($event:literal)? } $variant:ident $name:ident $mode:ident [$type:ty]
        [$($change:ty)?] [$($bound:expr)?];)*) => {
        /// The changes of a link.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct LinkKeyChanges {
            $($(#[doc = $doc])+ pub $name: Option<link_keys!(@change $type, $($change)?)>,)*
        }

        /// One key of a link with its new value.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum LinkKey {
            $($(#[doc = $doc])+ $variant(link_keys!(@change $type, $($change)?)),)*
        }

        impl LinkKey {
            /// The key as a scenario writes it.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => stringify!($name),)* }
            }

            /// Each part of its value by name, or the whole without one.
            pub fn settings(&self) -> Vec<(&'static str, paceline_units::Setting)> {
                match self { $(Self::$variant(value) => $crate::Settings::settings(value),)* }
            }
        }

        impl LinkKeyChanges {
            /// The changes, in the order in which they are made.
            pub fn keys(&self) -> impl Iterator<Item = LinkKey> + use<> {
                [$(self.$name.map(LinkKey::$variant)),*].into_iter().flatten()
            }

            /// Adds the changes of `later`.
            pub(crate) fn update(&mut self, later: &Self) {
                $(self.$name = later.$name.or(self.$name);)*
            }

            /// The changes that restore a link that had `keys` and was since changed by `so_far`.
            /// One-time changes cannot be undone, and are not included.
            pub(crate) fn back(&self, keys: &LinkKeys, so_far: &Self) -> Self {
                let _ = keys;
                Self {
                    $($name: self.$name.and_then(|change| {
                        let _ = change;
                        link_keys!(@back $mode change, so_far.$name, keys.$name)
                    }),)*
                }
            }
        }

        link_keys! { @flat LinkKeyChanges "What changes on a link" }

        impl Key for LinkKeyChanges {
            const FLAT: bool = true;

            fn take(table: &mut Table<'_, '_, '_>, _: &'static str) -> Option<Option<Self>> {
                Some(Some(Self {
                    $($name: Key::take(table, stringify!($name)).flatten()),*
                }))
            }

            fn describe(
                _: &'static str,
                _: &[&str],
                _: Option<serde_json::Value>,
                properties: &mut Properties,
                generator: &mut SchemaGenerator,
            ) {
                $(
                    let doc: &[&str] = &[$($doc),+];
                    $(let _ = doc; let doc: &[&str] = &[$event];)?
                    <Option<link_keys!(@change $type, $($change)?)>>::describe(
                        stringify!($name), doc, None, properties, generator);
                )*
            }

            fn write<M: SerializeMap>(&self, _: &'static str, map: &mut M) -> Result<(), M::Error> {
                $(Key::write(&self.$name, stringify!($name), map)?;)*
                Ok(())
            }

            fn check(&self, at: &str, problems: &mut Problems) {
                $(if let Some(value) = &self.$name {
                    let key = join(at, stringify!($name));
                    Key::check(value, &key, problems);
                    $(($bound)(problems, &key, *value);)?
                })*
            }
        }
    };

    // A table whose keys may be mixed with those of another.
    (@flat $name:ident $about:literal) => {
        impl $crate::reader::Read for $name {
            fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
                let mut table = reader.table(node, key, "a table")?;
                let keys = Self::take(&mut table, "").flatten();
                table.finish();
                keys
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                Key::write(self, "", &mut map)?;
                map.end()
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut properties = Properties::new();
                Self::describe("", &[], None, &mut properties, generator);
                properties.table(&[$about])
            }
        }
    };

    (@type always $type:ty) => { $type };
    (@type maybe $type:ty) => { Option<$type> };
    (@default $default:expr) => { $default };
    (@default) => { None };
    (@start always $value:expr) => { Some($value) };
    (@start maybe $value:expr) => { $value };
    (@back always $change:ident, $so_far:expr, $base:expr) => { $so_far.or(Some($base)) };
    (@back maybe $change:ident, $so_far:expr, $base:expr) => {
        $so_far.or_else(|| Some($base.map_or_else(|| $crate::link_keys::Ended::ended($change), Into::into)))
    };
    (@back once $change:ident, $so_far:expr, $base:expr) => { None };
    (@change $type:ty, $change:ty) => { $change };
    (@change $type:ty,) => { $type };
}
pub(crate) use link_keys;
