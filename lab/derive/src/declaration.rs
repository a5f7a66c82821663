//! The parts of a declaration: documentation, fields, and what `#[key(...)]` says.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, Field, GenericArgument, Meta, PathArguments, Result,
    Token, Type,
};

/// What `#[key(...)]` may have with a value, and without one.
const VALUES: [&str; 7] = ["default", "needs", "bound", "on", "from", "event", "change"];
const FLAGS: [&str; 2] = ["quiet", "once"];

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
        Data::Struct(data) => Ok(data
            .fields
            .iter()
            .filter_map(|field| Some((field.ident.as_ref()?, field)))),
        _ => Err(Error::new(
            input.ident.span(),
            "only a struct is a declaration",
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
    says: Punctuated<Meta, Token![,]>,
}

impl<'d> Key<'d> {
    /// The key of each field.
    pub(crate) fn all(input: &'d DeriveInput) -> Result<Vec<Self>> {
        fields(input)?
            .map(|(name, field)| Self::read(name, field))
            .collect()
    }

    fn read(field: &'d Ident, declared: &'d Field) -> Result<Self> {
        let says = attribute(&declared.attrs, "key")
            .map(|key| key.parse_args_with(Punctuated::parse_terminated));
        let key = Self {
            field,
            name: field.unraw().to_string(),
            docs: docs(&declared.attrs, field)?,
            kind: &declared.ty,
            says: says.transpose()?.unwrap_or_default(),
        };
        for one in &key.says {
            let known: &[&str] = match one {
                Meta::NameValue(_) => &VALUES,
                Meta::Path(_) | Meta::List(_) => &FLAGS,
            };
            if !known.iter().any(|word| one.path().is_ident(word)) {
                let (values, flags) = (VALUES.join(", "), FLAGS.join(", "));
                let message = format!("a key has values for {values}, and flags {flags}");
                return Err(Error::new_spanned(one, message));
            }
        }
        let is_optional = key.held().is_some() || key.is("once") || key.says("default").is_some();
        if is_optional == key.says("needs").is_some() {
            let message = "a key has either a `default`, or `needs`, or is an `Option`";
            return Err(Error::new(field.span(), message));
        }
        Ok(key)
    }

    /// The value of a word of `#[key(...)]`.
    pub(crate) fn says(&self, word: &str) -> Option<&Expr> {
        self.says.iter().find_map(|one| match one {
            Meta::NameValue(one) if one.path.is_ident(word) => Some(&one.value),
            _ => None,
        })
    }

    /// Whether `#[key(...)]` has a word without a value.
    pub(crate) fn is(&self, word: &str) -> bool {
        let mut says = self.says.iter();
        says.any(|one| matches!(one, Meta::Path(path) if path.is_ident(word)))
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
    use syn::parse_str;

    use super::*;

    /// The line and the message of the error in a declaration.
    fn error(declaration: &str) -> (usize, String) {
        let input: DeriveInput = parse_str(declaration).expect("a struct");
        let section = crate::section::expand(&input).expect_err("a wrong declaration");
        (section.span().start().line, section.to_string())
    }

    #[test]
    fn an_error_points_at_its_line() {
        let about = "/// A link.\n";
        let section = "#[section(takes = \"a table\")]\n";
        let rate = "/// Its rate.\n#[key(default = 1)]\nrate: u32,\n";
        let wrong = [
            (
                "#[key(defalt = 1)]\nmtu: u32",
                8,
                "a key has values for default, needs, bound, on, from, event, change, and flags quiet, once",
            ),
            (
                "mtu: u32",
                8,
                "a key has either a `default`, or `needs`, or is an `Option`",
            ),
            (
                "#[key(needs = \"\", default = 1)]\nmtu: u32",
                9,
                "a key has either a `default`, or `needs`, or is an `Option`",
            ),
        ];
        for (key, line, message) in wrong {
            let text = format!("{about}{section}struct Link {{\n{rate}/// The MTU.\n{key},\n}}");
            assert_eq!(error(&text), (line, message.to_owned()), "{key}");
        }
        let bare = format!("{section}struct Link {{\n{rate}}}");
        assert_eq!(error(&bare), (2, "`Link` has no documentation".to_owned()));
        let bare = format!("{about}{section}struct Link {{\nmtu: Option<u32>,\n}}");
        assert_eq!(error(&bare), (4, "`mtu` has no documentation".to_owned()));
        let (line, message) = error(&format!("{about}struct Link {{\n{rate}}}"));
        assert_eq!(line, 2);
        assert!(message.starts_with("a section has"), "{message}");
    }
}
