//! Derives from documented structs: [`Section`] for the tables of a scenario, [`macro@link_keys`] for the keys that
//! every link has, [`Row`] for the tables of a record.
//!
//! The generated code uses items of the crate that it is in: `crate::section` of `paceline-scenario` for the first two,
//! `crate::table` and `crate::column` of `paceline-record` for the last. An error in a declaration points at the part
//! that is wrong.

mod declaration;
mod link_keys;
mod row;
mod section;

use proc_macro::TokenStream;
use syn::DeriveInput;

/// Derives a section: a struct whose fields are the keys of a table. From them follow its reader with its errors, its
/// JSON Schema, its place in the resolved scenario, its bounds check, and its refusal by engines that do not support a
/// key; and a `Default`, if no key has to be written.
///
/// The struct has `#[section(takes = "a table")]`, the value that an error asks for; or `#[section(flat)]` if its keys
/// are mixed with those of the enclosing table. A key's field has its documentation and, in `#[key(...)]`:
/// - `default = value`, and `quiet` if the resolved scenario and the schema leave that value out;
/// - or `needs = "hint"` if it has to be written. With neither its type is an `Option`;
/// - `bound = ...`: its allowed values (`crate::bounds`);
/// - `on = ...`: the engines that support it (`crate::engines`). Without it only the simulator does, and others refuse
///   a scenario that sets it;
/// - `from = Type`: the type that it is read and described as, and made from.
#[proc_macro_derive(Section, attributes(section, key))]
pub fn section(input: TokenStream) -> TokenStream {
    expand(input, section::expand)
}

/// Declares the keys of every link as a flat [`Section`], and with them `LinkKey`, one key with its new value, and
/// `LinkKeyChanges`, the keys that an event changes.
///
/// `#[key(...)]` has, in addition to a section's `default` and `bound`:
/// - `event = "..."`: the documentation in events, if it differs;
/// - `change = Type`: the type in events, made from the key's own at the start;
/// - `once`: the key is for events only, and has no default.
///
/// If the type is an `Option`, what it holds defines how an event ends it (`crate::link::Ended`).
#[proc_macro_attribute]
pub fn link_keys(_: TokenStream, input: TokenStream) -> TokenStream {
    expand(input, link_keys::expand)
}

/// Derives a row of the table `NAME`, given as `#[row("NAME")]`, and its growing columns.
///
/// A column is a field: its name, which ends in its unit, and the type of its cells (`crate::column::Cell`). An
/// `Option` makes the column nullable. `#[since(N)]` gives the version of the schema that introduced it.
#[proc_macro_derive(Row, attributes(row, since))]
pub fn row(input: TokenStream) -> TokenStream {
    expand(input, row::expand)
}

fn expand(
    input: TokenStream,
    by: fn(&DeriveInput) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    let expanded = syn::parse(input).and_then(|input| by(&input));
    expanded
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
