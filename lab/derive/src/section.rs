//! Sections of a scenario.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{DeriveInput, Error, LitStr, Result};

use crate::declaration::{Key, attribute, docs};

/// The words of `#[key(...)]` with a value, and those without.
const VALUES: [&str; 5] = ["default", "needs", "bound", "on", "from"];
const FLAGS: [&str; 1] = ["quiet"];

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let about = docs(&input.attrs, name)?;
    let takes = takes(input)?;
    let takes = takes.map_or(quote!(None), |takes| quote!(Some(#takes)));
    let keys = Key::all(input, &VALUES, &FLAGS, "needs")?;
    let spec: Vec<_> = (0..keys.len()).map(|n| format_ident!("KEY_{n}")).collect();
    let specs = keys.iter().map(spec_of);
    let from = keys.iter().map(|key| match key.value("from") {
        None => key.kind.to_token_stream(),
        Some(from) => from.to_token_stream(),
    });
    let (field, kind): (Vec<_>, Vec<_>) = keys.iter().map(|key| (key.field, key.kind)).unzip();
    let has_default = keys.iter().all(|key| key.value("needs").is_none());
    let by_default = has_default.then(|| {
        let defaults = keys.iter().map(default);
        quote! {
            impl Default for #name {
                fn default() -> Self {
                    Self { #(#field: #defaults),* }
                }
            }
        }
    });
    Ok(quote! {
        impl #name {
            #(const #spec: crate::section::Spec<Self, #kind, #from> = #specs;)*
        }

        impl crate::section::Section for #name {
            const TAKES: Option<&'static str> = #takes;
            const ABOUT: &'static [&'static str] = &[#(#about),*];

            fn take_keys(table: &mut crate::reader::Table<'_, '_, '_>) -> Option<Self> {
                #(let #field = Self::#spec.take(table);)*
                Some(Self { #(#field: #field?),* })
            }

            fn write_keys<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                #(Self::#spec.write(self, map)?;)*
                Ok(())
            }

            fn describe_keys(
                properties: &mut crate::section::Properties,
                generator: &mut schemars::SchemaGenerator,
            ) {
                #(Self::#spec.describe(properties, generator);)*
            }

            fn check_keys(&self, at: &str, problems: &mut crate::bounds::Problems) {
                #(Self::#spec.check(self, at, problems);)*
            }

            fn judge_keys(
                &self,
                at: &str,
                engine: crate::engines::Engine,
                unsupported: &mut Vec<crate::engines::Unsupported>,
            ) {
                #(Self::#spec.judge(self, at, engine, unsupported);)*
            }
        }

        impl serde::Serialize for #name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                crate::section::serialize(self, serializer)
            }
        }

        impl schemars::JsonSchema for #name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!(#name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::section::schema::<Self>(generator)
            }
        }

        #by_default
    })
}

/// The value that an error asks for; none if the section is flat.
fn takes(input: &DeriveInput) -> Result<Option<LitStr>> {
    let message = "a section has `#[section(takes = \"a table\")]` or `#[section(flat)]`";
    let attribute = attribute(&input.attrs, "section");
    let attribute = attribute.ok_or_else(|| Error::new(input.ident.span(), message))?;
    let mut takes = None;
    attribute.parse_nested_meta(|part| {
        if part.path.is_ident("takes") {
            takes = Some(part.value()?.parse()?);
        } else if !part.path.is_ident("flat") {
            return Err(part.error(message));
        }
        Ok(())
    })?;
    Ok(takes)
}

/// The default of a key that need not be written.
fn default(key: &Key<'_>) -> TokenStream {
    let default = key.value("default");
    default.map_or(quote!(None), ToTokens::to_token_stream)
}

/// The `Spec` of a key.
fn spec_of(key: &Key<'_>) -> TokenStream {
    let (field, name, docs) = (key.field, &key.name, &key.docs);
    let is_quiet = key.is("quiet");
    let is_shown = key.value("default").is_some() && !is_quiet;
    let by_default = default(key);
    let default = match key.value("needs") {
        Some(hint) => quote!(Err(#hint)),
        None => quote!(Ok(|| #by_default)),
    };
    let bound = match key.value("bound") {
        None => quote!(|_, _, _| {}),
        Some(bound) => quote! {
            |problems, key, value| if let Some(value) = Option::from(*value) {
                (#bound)(problems, key, value);
            }
        },
    };
    let on = key.value("on");
    let on = on.map_or(quote!(None), |on| quote!(Some(#on)));
    quote! {
        crate::section::Spec {
            name: #name,
            doc: &[#(#docs),*],
            get: |section| &section.#field,
            made: From::from,
            default: #default,
            is_shown: #is_shown,
            is_quiet: #is_quiet,
            bound: #bound,
            on: #on,
        }
    }
}
