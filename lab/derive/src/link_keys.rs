//! The keys of links, and their changes.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{DeriveInput, Result};

use crate::declaration::{Key, docs};

/// The words of `#[key(...)]` with a value, and those without.
const VALUES: [&str; 4] = ["default", "bound", "event", "change"];
const FLAGS: [&str; 1] = ["once"];

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let (name, about) = (&input.ident, docs(&input.attrs, &input.ident)?);
    let keys = Key::all(input, &VALUES, &FLAGS, "once")?;
    let names = keys.iter().map(|key| &key.name);
    let field: Vec<_> = keys.iter().map(|key| key.field).collect();
    let docs = keys.iter().map(|key| &key.docs);
    let kinds = keys.iter().map(change);
    let variant: Vec<_> = keys.iter().map(variant).collect();
    let fields = keys.iter().filter(|key| !key.is("once")).map(property);
    let changed = keys.iter().map(changed);
    let at_start = keys.iter().filter(|key| !key.is("once")).map(at_start);
    let back = keys.iter().map(back);
    Ok(quote! {
        #(#[doc = #about])*
        #[derive(Clone, Debug, PartialEq, paceline_derive::Section)]
        #[section(flat)]
        pub struct #name {
            #(#fields)*
        }

        impl #name {
            /// The changes that give a link its initial properties.
            pub fn at_start(&self) -> Vec<LinkKey> {
                let plain = Self::default();
                let mut keys = Vec::new();
                #(#at_start)*
                keys
            }
        }

        /// The changes of a link.
        #[derive(Clone, Debug, PartialEq, paceline_derive::Section)]
        #[section(flat)]
        pub struct LinkKeyChanges {
            #(#changed)*
        }

        /// One key of a link with its new value.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum LinkKey {
            #(#(#[doc = #docs])* #variant(#kinds),)*
        }

        impl LinkKey {
            /// The key as a scenario writes it.
            pub fn name(&self) -> &'static str {
                match self { #(Self::#variant(_) => #names,)* }
            }

            /// Each part of its value by name, or the complete value without a name.
            pub fn settings(&self) -> Vec<(&'static str, paceline_units::Setting)> {
                match self { #(Self::#variant(value) => crate::Settings::settings(value),)* }
            }
        }

        impl LinkKeyChanges {
            /// The changes, in the order in which they are made.
            pub fn keys(&self) -> impl Iterator<Item = LinkKey> + use<> {
                [#(self.#field.map(LinkKey::#variant)),*].into_iter().flatten()
            }

            /// Adds the changes of `later`.
            pub(crate) fn update(&mut self, later: &Self) {
                #(self.#field = later.#field.or(self.#field);)*
            }

            /// The changes that restore a link that had `keys` and was since changed by `so_far`.
            /// One-time changes cannot be undone, and are not included.
            pub(crate) fn back(&self, keys: &#name, so_far: &Self) -> Self {
                Self { #(#field: #back,)* }
            }
        }
    })
}

/// The variant of a key: that of `ack_filter` is `AckFilter`.
fn variant(key: &Key<'_>) -> Ident {
    let words = key.name.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    Ident::new(&words.collect::<String>(), key.field.span())
}

/// The type of a key in events.
fn change(key: &Key<'_>) -> TokenStream {
    let of_itself = || key.held().unwrap_or(key.kind).to_token_stream();
    key.value("change")
        .map_or_else(of_itself, ToTokens::to_token_stream)
}

/// A key in a link's own section.
fn property(key: &Key<'_>) -> TokenStream {
    let (field, kind, docs) = (key.field, key.kind, &key.docs);
    let (default, bound) = (
        key.value("default").into_iter(),
        key.value("bound").into_iter(),
    );
    quote! {
        #(#[doc = #docs])*
        #[key(#(default = #default,)* #(bound = #bound,)*)]
        pub #field: #kind,
    }
}

/// A key in the section of changes.
fn changed(key: &Key<'_>) -> TokenStream {
    let (field, kind, bound) = (key.field, change(key), key.value("bound").into_iter());
    let docs = key
        .value("event")
        .map_or(key.docs.clone(), |event| vec![event]);
    quote! {
        #(#[doc = #docs])*
        #[key(#(bound = #bound,)*)]
        pub #field: Option<#kind>,
    }
}

/// The change that gives a link its initial property.
fn at_start(key: &Key<'_>) -> TokenStream {
    let (field, variant) = (key.field, variant(key));
    let value = match key.held() {
        Some(_) => quote!(self.#field),
        None => quote!(Some(self.#field)),
    };
    quote! {
        if self.#field != plain.#field {
            keys.extend(#value.map(|value| LinkKey::#variant(value.into())));
        }
    }
}

/// The change that restores what was before one.
fn back(key: &Key<'_>) -> TokenStream {
    let field = key.field;
    match (key.is("once"), key.held()) {
        (true, _) => quote!(None),
        (false, None) => quote!(self.#field.and(so_far.#field.or(Some(keys.#field)))),
        (false, Some(_)) => quote! {
            self.#field.and_then(|change| {
                let ended = || crate::link::Ended::ended(change);
                let before = || Some(keys.#field.map_or_else(ended, Into::into));
                so_far.#field.or_else(before)
            })
        },
    }
}
