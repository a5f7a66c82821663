//! Draws a draft key by key.

use std::collections::BTreeMap;

use paceline_congestion::controllers;
use paceline_congestion::options::{OptionInfo, OptionKind};
use paceline_record::metrics::METRICS;
use paceline_units::{Gain, Quantity, Rng};
use serde_json::{Map, Value as Json, json};

use crate::names::{TEXTS, TRACE};
use crate::quantity::{Pattern, chance, log_uniform, pick};
use crate::schema::Schema;

/// The generator.
pub(crate) struct Drawer<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) rng: Rng,
    /// The percentage of optional keys that are written.
    pub(crate) dense: u64,
    /// The percentage of values that no experiment would use.
    pub(crate) wild: u64,
    /// The length of the run, in milliseconds.
    pub(crate) millis: f64,
    /// The values that each key takes, by the key without its indices.
    pub(crate) shapes: BTreeMap<String, &'s Json>,
}

impl<'s> Drawer<'s> {
    fn wild(&mut self) -> bool {
        chance(&mut self.rng, self.wild)
    }

    /// A value that a schema allows.
    pub(crate) fn value(&mut self, schema: &'s Json, key: &str) -> Json {
        let (node, name) = self.schema.resolve(schema);
        self.shapes.insert(key.to_owned(), schema);
        if name == Some("Controller") {
            return self.controller();
        }
        let forms = self.schema.forms(node);
        let form = *pick(&mut self.rng, &forms);
        if !std::ptr::eq(form, node) {
            return self.value(form, key);
        }
        if let Some(value) = form.get("const") {
            return value.clone();
        }
        if let Some(words) = form["enum"].as_array() {
            return pick(&mut self.rng, words).clone();
        }
        let kinds = form["type"].as_array();
        let kind = form["type"]
            .as_str()
            .or(kinds.and_then(|kinds| kinds.first()?.as_str()));
        match kind {
            Some("object") => self.table(form, key),
            Some("array") => self.list(form, key),
            Some("boolean") => json!(self.rng.below(2) == 0),
            Some("integer") => self.integer(form),
            Some("number") => json!(self.rng.below(4_000_000) as f64 / 1e6),
            Some("string") => self.text(form, key),
            other => panic!("`{key}` is of type {other:?}, which this generator does not draw"),
        }
    }

    fn table(&mut self, form: &'s Json, key: &str) -> Json {
        if key == "expect" {
            return self.bounds();
        }
        let required: Vec<&str> = form["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        let mut table = Map::new();
        for (name, inner) in form["properties"].as_object().into_iter().flatten() {
            if required.contains(&name.as_str()) || chance(&mut self.rng, self.dense) {
                let key = if key.is_empty() {
                    name.clone()
                } else {
                    format!("{key}.{name}")
                };
                table.insert(name.clone(), self.value(inner, &key));
            }
        }
        Json::Object(table)
    }

    fn list(&mut self, form: &'s Json, key: &str) -> Json {
        let most = if self.wild() { 12 } else { 4 };
        let count = form["minItems"]
            .as_u64()
            .unwrap_or(0)
            .max(self.rng.below(most));
        let item = format!("{key}[]");
        (0..count)
            .map(|_| self.value(&form["items"], &item))
            .collect()
    }

    fn integer(&mut self, form: &Json) -> Json {
        let least = form["minimum"].as_u64().unwrap_or(0);
        let number = match self.wild() {
            true => *pick(
                &mut self.rng,
                &[0, 1, 1 << 16, u64::from(u32::MAX), 1 << 53, i64::MAX as u64],
            ),
            false => log_uniform(&mut self.rng, 1.0, 20.0) as u64,
        };
        json!(number.max(least))
    }

    fn text(&mut self, form: &Json, key: &str) -> Json {
        if let Some(pattern) = form["pattern"].as_str() {
            let pattern = Pattern::read(pattern).unwrap_or_else(|| {
                panic!("`{key}` has the pattern {pattern}, which this generator does not draw")
            });
            let wild = self.wild();
            if pattern.is_time() && !wild && chance(&mut self.rng, 30) {
                let share = self.rng.below(1000) as f64 / 1000.0;
                return json!(format!("{:.3} ms", share * self.millis));
            }
            return json!(pattern.draw(&mut self.rng, wild));
        }
        json!(match key {
            "path.rate.trace" => TRACE.0,
            "run.compare[]" => pick(&mut self.rng, controllers()).name,
            "sweep.metrics[]" => pick(&mut self.rng, METRICS).name,
            _ => pick(&mut self.rng, &TEXTS),
        })
    }

    fn controller(&mut self) -> Json {
        let spec = pick(&mut self.rng, controllers());
        let mut table = Map::new();
        table.insert("name".into(), spec.name.into());
        for option in spec.options() {
            if chance(&mut self.rng, self.dense) {
                table.insert(option.name.into(), self.option(&option));
            }
        }
        match table.len() {
            1 if chance(&mut self.rng, 70) => spec.name.into(),
            _ => table.into(),
        }
    }

    /// A value that an option of a controller allows, often one of its bounds.
    fn option(&mut self, option: &OptionInfo) -> Json {
        let at = self.rng.below(5);
        let mut between = |least: u64, most: u64| match at {
            0 => least,
            1 => most,
            2 => least + self.rng.below((most - least).saturating_add(1)),
            _ => (log_uniform(&mut self.rng, least.max(1) as f64, most.max(1) as f64) as u64)
                .clamp(least, most),
        };
        match option.kind {
            OptionKind::Gain(least, most) => {
                let millionths = between(least.millionths().into(), most.millionths().into());
                json!(millionths as f64 / f64::from(Gain::SCALE))
            }
            OptionKind::Count(least, most) => json!(between(least, most)),
            OptionKind::Duration(least, most) => {
                json!(format!("{} ns", between(least.as_nanos(), most.as_nanos())))
            }
            OptionKind::Bytes(least, most) => json!(format!(
                "{} B",
                between(least.get(), most.get().min(1 << 40))
            )),
            OptionKind::Flag => json!(between(0, 1) == 1),
            OptionKind::Choice(words) => json!(*pick(&mut self.rng, words)),
            // No controller has one yet; the option's reader defines its format.
            OptionKind::Share
            | OptionKind::ShareAboveZero
            | OptionKind::Rate
            | OptionKind::Frequency
            | OptionKind::Size => {
                json!(option.default.to_string())
            }
        }
    }

    /// Bounds on some metrics.
    fn bounds(&mut self) -> Json {
        let mut bounds = Map::new();
        for _ in 0..1 + self.rng.below(4) {
            let metric = pick(&mut self.rng, METRICS);
            let value = match metric.quantity() {
                Quantity::Duration => "10 ms",
                Quantity::Bytes => "100 kB",
                Quantity::Rate => "1 Mbit/s",
                Quantity::Count => "3",
                _ => *pick(&mut self.rng, &["0.5", "95 %"]),
            };
            let comparison = pick(&mut self.rng, &[">=", "<=", ">", "<", "=="]);
            bounds.insert(metric.name.into(), json!(format!("{comparison} {value}")));
        }
        bounds.into()
    }

    /// Lets a sweep vary values that the draft has.
    pub(crate) fn vary(&mut self, draft: &mut Json) {
        if draft.get("sweep").is_none() {
            return;
        }
        let mut leaves = Vec::new();
        for part in ["run", "path", "flows"] {
            leaves_of(&draft[part], part, &mut leaves);
        }
        let mut over = Map::new();
        for _ in 0..1 + self.rng.below(2) {
            let (key, value) = pick(&mut self.rng, &leaves).clone();
            let again = self.again(&key).unwrap_or_else(|| value.clone());
            let range = json!({ "from": value, "to": again, "count": 3, "scale": pick(&mut self.rng, &["linear", "log"]) });
            over.insert(
                key,
                if chance(&mut self.rng, 30) {
                    range
                } else {
                    json!([value, again])
                },
            );
        }
        draft["sweep"]["over"] = over.into();
    }

    /// Another value of a key that has been drawn.
    pub(crate) fn again(&mut self, key: &str) -> Option<Json> {
        let numberless: Vec<String> = key
            .split(['.', '['])
            .filter(|part| !part.is_empty())
            .map(|part| part.trim_end_matches(']'))
            .map(|part| {
                if part.parse::<usize>().is_ok() {
                    "[]".to_owned()
                } else {
                    part.to_owned()
                }
            })
            .collect();
        let shape = *self
            .shapes
            .get(&numberless.join(".").replace(".[]", "[]"))?;
        Some(self.value(shape, &numberless.join(".").replace(".[]", "[]")))
    }
}

/// The leaf values below a key, as `--set` writes their keys.
fn leaves_of(value: &Json, key: &str, leaves: &mut Vec<(String, Json)>) {
    match value {
        Json::Object(entries) => {
            for (name, inner) in entries {
                leaves_of(inner, &format!("{key}.{name}"), leaves);
            }
        }
        Json::Array(entries) => {
            for (place, inner) in entries.iter().enumerate() {
                leaves_of(inner, &format!("{key}.{place}"), leaves);
            }
        }
        value => leaves.push((key.to_owned(), value.clone())),
    }
}
