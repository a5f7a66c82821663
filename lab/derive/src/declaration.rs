//! The parts of a declaration: documentation, fields, and the words of `#[key(...)]`.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DataStruct, DeriveInput, Error, Expr, Field, Fields, GenericArgument, Meta,
    PathArguments, Result, Token, Type,
};

/// The lines of a documentation.
pub(crate) fn docs<'d>(attributes: &'d [Attribute], of: &Ident) -> Result<Vec<&'d Expr>> {
    let lines = attributes.iter().filter_map(|one| match &one.meta {
        Meta::NameValue(line) if line.path.is_ident("doc") => Some(&line.value),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    match lines.is_empty() {
        true => Err(Error::new(
            of.span(),
            format!("`{of}` has no documentation"),
        )),
        false => Ok(lines),
    }
}

/// The attribute of this name.
pub(crate) fn attribute<'d>(attributes: &'d [Attribute], name: &str) -> Option<&'d Attribute> {
    attributes.iter().find(|one| one.path().is_ident(name))
}

/// The fields of a struct, each with its name.
pub(crate) fn fields(input: &DeriveInput) -> Result<impl Iterator<Item = (&Ident, &Field)>> {
    match &input.data {
        Data::Struct(DataStruct {
            fields: Fields::Named(named),
            ..
        }) => Ok(named
            .named
            .iter()
            .filter_map(|field| Some((field.ident.as_ref()?, field)))),
        _ => Err(Error::new(
            input.ident.span(),
            "only a struct with named fields is a declaration",
        )),
    }
}

/// A key of a table.
pub(crate) struct Key<'d> {
    pub(crate) field: &'d Ident,
    /// As a scenario writes it: that of `r#for` is `for`.
    pub(crate) name: String,
    pub(crate) docs: Vec<&'d Expr>,
    pub(crate) kind: &'d Type,
    /// The words of `#[key(...)]`, with their values.
    words: Vec<Meta>,
}

impl<'d> Key<'d> {
    /// The key of each field. `values` are the words of `#[key(...)]` with a value, `flags` those without. A key that
    /// has no `default` and is no `Option` has the word `instead`.
    pub(crate) fn all(
        input: &'d DeriveInput,
        values: &[&str],
        flags: &[&str],
        instead: &str,
    ) -> Result<Vec<Self>> {
        let keys = fields(input)?.map(|(name, field)| {
            let key = Self::read(name, field)?;
            key.check_words(values, flags)?;
            key.check_default(instead)?;
            Ok(key)
        });
        keys.collect()
    }

    fn read(field: &'d Ident, declared: &'d Field) -> Result<Self> {
        let mut words = Vec::new();
        let attributes = declared.attrs.iter();
        for key in attributes.filter(|one| one.path().is_ident("key")) {
            words.extend(key.parse_args_with(Punctuated::<_, Token![,]>::parse_terminated)?);
        }
        Ok(Self {
            field,
            name: field.unraw().to_string(),
            docs: docs(&declared.attrs, field)?,
            kind: &declared.ty,
            words,
        })
    }

    /// Refuses words that are unknown, or given twice.
    fn check_words(&self, values: &[&str], flags: &[&str]) -> Result<()> {
        for (number, one) in self.words.iter().enumerate() {
            let known = match one {
                Meta::NameValue(_) => values,
                Meta::Path(_) => flags,
                Meta::List(_) => &[],
            };
            let Some(word) = known.iter().find(|word| one.path().is_ident(word)) else {
                let (values, flags) = (values.join(", "), flags.join(", "));
                let message = format!("a key has values for {values}, and these flags: {flags}");
                return Err(Error::new_spanned(one, message));
            };
            let mut earlier = self.words.iter().take(number);
            if earlier.any(|other| other.path().is_ident(word)) {
                return Err(Error::new_spanned(one, format!("`{word}` is given twice")));
            }
        }
        Ok(())
    }

    /// Refuses a key that has both a default and the word `instead`, or neither.
    fn check_default(&self, instead: &str) -> Result<()> {
        let has_default = self.held().is_some() || self.value("default").is_some();
        if has_default == (self.is(instead) || self.value(instead).is_some()) {
            let message =
                format!("a key has either a `default`, or `{instead}`, or is an `Option`");
            return Err(Error::new(self.field.span(), message));
        }
        Ok(())
    }

    /// The value of a word of `#[key(...)]`.
    pub(crate) fn value(&self, word: &str) -> Option<&Expr> {
        self.words.iter().find_map(|one| match one {
            Meta::NameValue(one) if one.path.is_ident(word) => Some(&one.value),
            _ => None,
        })
    }

    /// Whether `#[key(...)]` has a word without a value.
    pub(crate) fn is(&self, word: &str) -> bool {
        let mut words = self.words.iter();
        words.any(|one| matches!(one, Meta::Path(path) if path.is_ident(word)))
    }

    /// The type that an `Option` holds, if it is one.
    pub(crate) fn held(&self) -> Option<&'d Type> {
        let Type::Path(path) = self.kind else {
            return None;
        };
        let last = path.path.segments.last()?;
        match &last.arguments {
            PathArguments::AngleBracketed(of) if last.ident == "Option" => match of.args.first()? {
                GenericArgument::Type(held) => Some(held),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::TokenStream;
    use syn::parse_str;

    use super::*;
    use crate::{link_keys, row, section};

    const SECTION: &str =
        "a key has values for default, needs, bound, on, from, and these flags: quiet";
    const LINKS: &str = "a key has values for default, bound, event, change, and these flags: once";
    const NEEDS: &str = "a key has either a `default`, or `needs`, or is an `Option`";
    const ONCE: &str = "a key has either a `default`, or `once`, or is an `Option`";
    const FIELDS: &str = "only a struct with named fields is a declaration";

    /// The line and the message of the error in a declaration.
    fn error(
        expand: fn(&DeriveInput) -> Result<TokenStream>,
        declaration: &str,
    ) -> (usize, String) {
        let input: DeriveInput = parse_str(declaration).expect("a declaration");
        let error = expand(&input).expect_err("a wrong declaration");
        (error.span().start().line, error.to_string())
    }

    #[test]
    fn an_error_points_at_its_line() {
        let error = |declaration: &str| error(section::expand, declaration);
        let about = "/// A link.\n";
        let section = "#[section(takes = \"a table\")]\n";
        let rate = "/// Its rate.\n#[key(default = 1)]\nrate: u32,\n";
        let wrong = [
            ("#[key(defalt = 1)]\nmtu: u32", 8, SECTION),
            ("#[key(default = 1,\nevent = \"\")]\nmtu: u32", 9, SECTION),
            ("#[key(default = 1,\nchange = u64)]\nmtu: u32", 9, SECTION),
            ("#[key(once)]\nmtu: u32", 8, SECTION),
            ("#[key(default = 1,\nquiet(true))]\nmtu: u32", 9, SECTION),
            ("#[key(default = 1,\nquiet = true)]\nmtu: u32", 9, SECTION),
            ("#[key(default)]\nmtu: u32", 8, SECTION),
            (
                "#[key(default = 1,\ndefault = 2)]\nmtu: u32",
                9,
                "`default` is given twice",
            ),
            (
                "#[key(default = 1, quiet)]\n#[key(quiet)]\nmtu: u32",
                9,
                "`quiet` is given twice",
            ),
            ("mtu: u32", 8, NEEDS),
            ("#[key(needs = \"\", default = 1)]\nmtu: u32", 9, NEEDS),
        ];
        for (key, line, message) in wrong {
            let text = format!("{about}{section}struct Link {{\n{rate}/// The MTU.\n{key},\n}}");
            assert_eq!(error(&text), (line, message.to_owned()), "{key}");
        }
        for other in ["struct Link(u32);", "struct Link;", "enum Link { Fast }"] {
            let text = format!("{about}{section}{other}");
            assert_eq!(error(&text), (3, FIELDS.to_owned()), "{other}");
        }
        let bare = format!("{section}struct Link {{\n{rate}}}");
        assert_eq!(error(&bare), (2, "`Link` has no documentation".to_owned()));
        let bare = format!("{about}{section}struct Link {{\nmtu: Option<u32>,\n}}");
        assert_eq!(error(&bare), (4, "`mtu` has no documentation".to_owned()));
        let (line, message) = error(&format!("{about}struct Link {{\n{rate}}}"));
        assert_eq!(line, 2);
        assert!(message.starts_with("a section has"), "{message}");
    }

    #[test]
    fn an_error_in_the_keys_of_links_points_at_its_line() {
        let error = |declaration: &str| error(link_keys::expand, declaration);
        let wrong = [
            ("#[key(needs = \"\")]\nmtu: u32", 4, LINKS),
            ("#[key(default = 1,\non = ALL)]\nmtu: u32", 5, LINKS),
            ("#[key(default = 1,\nfrom = u64)]\nmtu: u32", 5, LINKS),
            ("#[key(default = 1,\nquiet)]\nmtu: u32", 5, LINKS),
            ("mtu: u32", 4, ONCE),
            ("#[key(once, default = 1)]\nmtu: u32", 5, ONCE),
            ("#[key(once)]\nmtu: Option<u32>", 5, ONCE),
        ];
        for (key, line, message) in wrong {
            let text = format!("/// The keys.\nstruct Keys {{\n/// The MTU.\n{key},\n}}");
            assert_eq!(error(&text), (line, message.to_owned()), "{key}");
        }
        let bare = "struct Keys {}";
        assert_eq!(error(bare), (1, "`Keys` has no documentation".to_owned()));
        let bare = "/// The keys.\nstruct Keys {\nmtu: Option<u32>,\n}";
        assert_eq!(error(bare), (3, "`mtu` has no documentation".to_owned()));
    }

    #[test]
    fn an_error_in_a_row_points_at_its_line() {
        let error = |declaration: &str| error(row::expand, declaration);
        let name = "#[row(\"queue\")]\n";
        let time = "/// The time.\ntime_us: u64,\n";
        let bare = format!("{name}struct Queue {{\n{time}}}");
        assert_eq!(error(&bare), (2, "`Queue` has no documentation".to_owned()));
        let bare = format!("/// A queue.\n{name}struct Queue {{\n{time}packets: u64,\n}}");
        assert_eq!(
            error(&bare),
            (6, "`packets` has no documentation".to_owned())
        );
        let tuple = format!("/// A queue.\n{name}struct Queue(u64);");
        assert_eq!(error(&tuple), (3, FIELDS.to_owned()));
        let (line, message) = error(&format!("/// A queue.\nstruct Queue {{\n{time}}}"));
        assert_eq!(line, 2);
        assert!(
            message.starts_with("a row has the name of its table"),
            "{message}"
        );
    }
}
