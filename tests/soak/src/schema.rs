//! The JSON Schema of scenarios, and the keys that it has.

use std::collections::BTreeSet;

use paceline_congestion::controllers;
use paceline_record::metrics::METRICS;
use serde_json::Value as Json;

/// The schema of scenarios.
pub struct Schema(Json);

impl Schema {
    /// The schema of this build.
    #[expect(
        clippy::new_without_default,
        reason = "there is one, and it is not empty"
    )]
    pub fn new() -> Self {
        let text = paceline_experiment::schema_json();
        Self(serde_json::from_str(&text).expect("the schema is JSON"))
    }

    /// The whole schema.
    pub fn root(&self) -> &Json {
        &self.0
    }

    /// The schema, or the schema it refers to, with that schema's name.
    pub fn resolve<'s>(&'s self, schema: &'s Json) -> (&'s Json, Option<&'s str>) {
        let alone = schema["allOf"].as_array().and_then(|all| all.first());
        let schema = alone.unwrap_or(schema);
        match schema["$ref"].as_str() {
            None => (schema, None),
            Some(reference) => {
                let name = reference.rsplit('/').next().unwrap_or_default();
                (&self.0["$defs"][name], Some(name))
            }
        }
    }

    /// The forms that a value may have: those of `anyOf` and `oneOf`, or the schema itself; without `null`.
    pub fn forms<'s>(&self, schema: &'s Json) -> Vec<&'s Json> {
        let forms = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        match forms {
            None => vec![schema],
            Some(forms) => forms.iter().filter(|form| form["type"] != "null").collect(),
        }
    }
}

/// Every key that a scenario may have, with `[]` for a list index and `*` for a name: everything
/// that a generator has to draw. Controllers have their options outside the schema, and metrics
/// their names.
pub fn keys(schema: &Schema) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    walk(schema, schema.root(), "", &mut places);
    for spec in controllers() {
        places.insert(format!("cc={}", spec.name));
        places.extend(
            spec.options()
                .map(|option| format!("cc={}.{}", spec.name, option.name)),
        );
    }
    places.extend(
        METRICS
            .iter()
            .map(|metric| format!("expect.{}", metric.name)),
    );
    places
}

fn walk(schema: &Schema, node: &Json, key: &str, places: &mut BTreeSet<String>) {
    let (node, _) = schema.resolve(node);
    for form in schema.forms(node) {
        let (form, _) = schema.resolve(form);
        if !std::ptr::eq(form, node) && (form.get("anyOf").is_some() || form.get("oneOf").is_some())
        {
            walk(schema, form, key, places);
        }
        if let Some(word) = form["const"].as_str() {
            places.insert(format!("{key}={word}"));
        }
        for word in form["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
        {
            places.insert(format!("{key}={word}"));
        }
        // A queue's options depend on its kind.
        let kind = form["properties"]["kind"]["const"].as_str();
        let at = kind.map_or(key.to_owned(), |kind| format!("{key}={kind}"));
        for (name, inner) in form["properties"].as_object().into_iter().flatten() {
            let key = if at.is_empty() {
                name.clone()
            } else {
                format!("{at}.{name}")
            };
            places.insert(key.clone());
            walk(schema, inner, &key, places);
        }
        if form["items"].is_object() {
            walk(schema, &form["items"], &format!("{key}[]"), places);
        }
    }
}
