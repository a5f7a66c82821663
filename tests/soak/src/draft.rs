//! A scenario as text, before the reader parses it.

use paceline_scenario::{Diagnostic, Scenario};
use serde_json::Value as Json;

/// A scenario as text, before the reader parses it.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft(pub(crate) Json);

impl Draft {
    /// A file's text as a draft.
    ///
    /// # Errors
    /// It is not TOML.
    pub fn of(text: &str) -> Result<Self, String> {
        toml::from_str(text)
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// As the text of a file.
    pub fn text(&self) -> String {
        toml::to_string(&self.0).expect("tables, texts, numbers and flags")
    }

    /// Reads it as the scenario of a file.
    ///
    /// # Errors
    /// The error.
    pub fn read(&self, file: &str) -> Result<Scenario, Vec<Diagnostic>> {
        paceline_experiment::parse(&self.text(), file, &[])
    }

    /// Its keys, as [`crate::keys`] names them.
    pub fn keys(&self, visit: &mut impl FnMut(String)) {
        keys_of(&self.0, "", visit);
    }
}

fn keys_of(value: &Json, key: &str, visit: &mut impl FnMut(String)) {
    match value {
        Json::Object(entries) => {
            let kind = match key.ends_with("queue") {
                true => entries
                    .get("kind")
                    .and_then(Json::as_str)
                    .or(Some("droptail")),
                false => None,
            };
            let at = kind.map_or(key.to_owned(), |kind| format!("{key}={kind}"));
            if let (true, Some(name)) = (
                key.ends_with(".cc"),
                entries.get("name").and_then(Json::as_str),
            ) {
                for option in entries.keys() {
                    visit(format!("cc={name}.{option}"));
                }
            }
            for (name, inner) in entries {
                let key = if at.is_empty() {
                    name.clone()
                } else {
                    format!("{at}.{name}")
                };
                visit(key.clone());
                keys_of(inner, &key, visit);
            }
        }
        Json::Array(entries) => {
            for inner in entries {
                keys_of(inner, &format!("{key}[]"), visit);
            }
        }
        Json::String(text) => {
            if key.ends_with(".cc") || key.ends_with(".cc.name") {
                visit(format!("cc={text}"));
            }
            visit(format!("{key}={text}"));
        }
        _ => {}
    }
}
