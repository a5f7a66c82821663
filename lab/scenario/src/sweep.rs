//! `[sweep]`: the grid of experiments around the written one.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::axis::{Axis, End, Point, computed, written};
use crate::diagnostic::{Diagnostic, Kind};
use crate::document::{
    Document, Entries, Entry, NOTHING, Node, Origin, Value, join, override_text, split,
};
use crate::draw::Drawn;
use crate::limits;
use crate::reader::{Read, Reader};

/// The varied keys, the seeds, and the metrics.
#[derive(Clone, Debug, Default)]
pub struct SweepSection {
    /// Which seeds each point is run with.
    pub seeds: Seeds,
    /// The metrics to plot and compare: metrics of a run by name, those of a flow as
    /// `flows[0].goodput_bps`. None: the reader's choice.
    pub metrics: Vec<String>,
    /// The axes of the grid, in the order of the file; the last varies fastest. The axis of a
    /// population follows them, once it is drawn: [`crate::Scenario::populate`].
    pub axes: Vec<Axis>,
    /// How many times the keys that are drawn are drawn. Unset: once for each row of their file.
    pub draws: Option<u32>,
    /// The seed of the draws, which is not that of the runs.
    pub draw_seed: u64,
    pub(crate) drawn: Vec<Drawn>,
}

/// The seeds of each point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seeds {
    /// As many as `run.repeats`, from `run.seed` on.
    #[default]
    Repeats,
    /// This many, from `run.seed` on.
    Count(u32),
    /// These.
    List(Vec<u64>),
}

/// Positions in the file do not count when grids are compared.
impl PartialEq for SweepSection {
    fn eq(&self, other: &Self) -> bool {
        let points = |sweep: &Self| -> Vec<(Vec<String>, Vec<Vec<String>>)> {
            let points = |axis: &Axis| axis.points.iter().map(|p| p.values.clone()).collect();
            let axes = sweep.axes.iter();
            axes.map(|axis| (axis.keys.clone(), points(axis))).collect()
        };
        self.seeds == other.seeds && self.metrics == other.metrics && points(self) == points(other)
    }
}

impl SweepSection {
    /// The seeds of each point of a scenario with this `run.seed` and `run.repeats`.
    pub fn seeds(&self, seed: u64, repeats: u32) -> Vec<u64> {
        let count = match &self.seeds {
            Seeds::List(list) => return list.clone(),
            Seeds::Count(count) => *count,
            Seeds::Repeats => repeats,
        };
        (0..u64::from(count))
            .map(|n| seed.saturating_add(n))
            .collect()
    }
}

impl Read for SweepSection {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let seeds = table.or("seeds", Seeds::default());
        let metrics = table.or("metrics", Vec::new());
        let draws = table.optional::<u32>("draws");
        let draw_seed = table.or("draw_seed", 1);
        let over = table.required::<Over>(
            "over",
            "say what is varied: [sweep.over] with path.rate = [\"10 Mbit/s\", \"100 Mbit/s\"]",
        );
        table.finish();
        let Over(axes, drawn) = over?;
        Some(Self {
            seeds,
            metrics,
            axes,
            draws,
            draw_seed,
            drawn,
        })
    }
}

impl Read for Seeds {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Integer(_) => {
                let count = u32::read(node, key, reader)?;
                if (1..=limits::MAX_REPEATS).contains(&count) {
                    return Some(Self::Count(count));
                }
                let hint = format!("from 1 to {}", limits::MAX_REPEATS);
                reader.bad_value(node, key, "how many seeds, or a list of them", hint)
            }
            Value::Array(_) => {
                let list = Vec::<u64>::read(node, key, reader)?;
                let twice = list.iter().collect::<BTreeSet<_>>().len() < list.len();
                if list.is_empty() || twice || list.len() > limits::MAX_REPEATS as usize {
                    let hint = "at least one, and none of them twice".to_owned();
                    return reader.bad_value(node, key, "a list of seeds", hint);
                }
                Some(Self::List(list))
            }
            _ => reader.wrong_type(node, key, "how many seeds, or a list of them"),
        }
    }
}

/// `[sweep.over]`.
struct Over(Vec<Axis>, Vec<Drawn>);

impl Read for Over {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::Table(entries) = &node.value else {
            return reader.wrong_type(node, key, "a table of keys and their values");
        };
        let mut varied = Vec::new();
        collect("", entries, &mut varied);
        varied.sort_by_key(|(_, entry)| match &entry.key {
            Origin::File(span) => (0, span.start),
            Origin::Override(number) => (1, *number),
        });
        if varied.is_empty() {
            let hint = "for example path.rate = [\"10 Mbit/s\", \"100 Mbit/s\"]".to_owned();
            let (kind, message) = (Kind::MissingKey, format!("`{key}` varies nothing"));
            reader.report(kind, &node.origin, key, message, Some(hint));
            return None;
        }
        let (drawn, listed): (Vec<_>, Vec<_>) = varied
            .into_iter()
            .partition(|(_, entry)| is_drawn(&entry.node));
        let axes: Vec<Option<Axis>> = listed
            .into_iter()
            .map(|(name, entry)| axis(&name, entry, false, reader))
            .collect();
        let drawn: Vec<Option<Drawn>> = drawn
            .into_iter()
            .map(|(name, entry)| {
                let place = join("sweep.over", &name);
                let keys = keys_of(&name, entry, &place, reader)?;
                Drawn::read(keys, &entry.key, &entry.node, &place, reader)
            })
            .collect();
        let axes: Vec<Axis> = axes.into_iter().collect::<Option<_>>()?;
        let drawn: Vec<Drawn> = drawn.into_iter().collect::<Option<_>>()?;
        let every = axes.iter().map(|axis| (&axis.keys, &axis.origin));
        let every = every.chain(drawn.iter().map(|one| (&one.keys, &one.origin)));
        let mut names = BTreeSet::new();
        for (keys, origin) in every {
            for name in keys {
                if !names.insert(name.clone()) {
                    let message = format!("`{name}` is varied twice");
                    let hint = "a key belongs to one axis".to_owned();
                    reader.report(Kind::BadValue, origin, name, message, Some(hint));
                    return None;
                }
            }
        }
        Some(Self(axes, drawn))
    }
}

/// The axes of a text that contains nothing else: lists, ranges, keys that are set together, as in
/// `[sweep.over]`. With `twice` a value may occur again.
///
/// # Errors
/// All errors in them; `file` is shown in errors.
pub fn axes(text: &str, file: &str, twice: bool) -> Result<Vec<Axis>, Vec<Diagnostic>> {
    let document = Document::parse(text, file, &[], &NOTHING)?;
    let mut reader = Reader::new(&document);
    let mut varied = Vec::new();
    if let Value::Table(entries) = &document.root.value {
        collect("", entries, &mut varied);
    }
    varied.sort_by_key(|(_, entry)| match &entry.key {
        Origin::File(span) => span.start,
        Origin::Override(number) => *number,
    });
    let axes: Vec<Option<Axis>> = varied
        .into_iter()
        .map(|(name, entry)| {
            if is_drawn(&entry.node) {
                let hint = "a population belongs into [sweep.over] of a scenario".to_owned();
                return reader.bad_value(&entry.node, &name, "a list or a range", hint);
            }
            axis(&name, entry, twice, &mut reader)
        })
        .collect();
    match axes.into_iter().collect() {
        Some(axes) if reader.problems.is_empty() => Ok(axes),
        _ => Err(reader.problems),
    }
}

/// The keys that distinguish an axis's table from a table of keys.
const MARKS: &[&str] = &["from", "to", "draw"];

fn is_drawn(node: &Node) -> bool {
    matches!(&node.value, Value::Table(inner) if inner.contains_key("draw"))
}

/// The axes of a table; `path.rate = [..]` is a table in a table.
fn collect<'n>(above: &str, entries: &'n Entries, varied: &mut Vec<(String, &'n Entry)>) {
    for (name, entry) in entries {
        let name = match above {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        match &entry.node.value {
            Value::Table(inner) if !MARKS.iter().any(|mark| inner.contains_key(*mark)) => {
                collect(&name, inner, varied);
            }
            _ => varied.push((name, entry)),
        }
    }
}

/// Keys that a point cannot set, and what to write instead.
const FIXED: &[(&str, &str)] = &[
    ("run.seed", "sweep.seeds says which seeds are run"),
    ("run.repeats", "sweep.seeds says how many seeds are run"),
    ("run.compare", "vary flows.0.cc instead"),
    ("schema", "the format is one for the whole file"),
    (
        "name",
        "the sweep has one name; points are told by their values",
    ),
    ("sweep", "a sweep does not hold another"),
];

/// The keys in a name, separated by commas.
fn keys_of(name: &str, entry: &Entry, place: &str, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let mut keys = Vec::new();
    for part in name.split(',') {
        let Some(segments) = split(part) else {
            let message = format!("{name:?} is not a key, nor keys with commas between them");
            let hint = "for example path.rate, flows.0.cc or \"path.rate, path.rtt\"".to_owned();
            reader.report(Kind::BadValue, &entry.key, place, message, Some(hint));
            return None;
        };
        let key = segments.join(".");
        let fixed = FIXED
            .iter()
            .find(|(no, _)| key == *no || key.starts_with(&format!("{no}.")));
        if let Some((_, hint)) = fixed {
            let message = format!("`{key}` cannot be varied");
            let hint = Some((*hint).to_owned());
            reader.report(Kind::BadValue, &entry.key, place, message, hint);
            return None;
        }
        keys.push(key);
    }
    Some(keys)
}

fn axis(name: &str, entry: &Entry, twice: bool, reader: &mut Reader<'_>) -> Option<Axis> {
    let place = join("sweep.over", name);
    let keys = keys_of(name, entry, &place, reader)?;
    let values = values(&entry.node, &place, reader)?;
    let mut points = Vec::with_capacity(values.len());
    for value in values {
        points.push(point(&keys, value, &place, reader)?);
    }
    if points.is_empty() {
        let hint = "at least one value".to_owned();
        return reader.bad_value(&entry.node, &place, WANTED, hint);
    }
    let mut names = BTreeSet::new();
    if let (false, Some(twice)) = (
        twice,
        points.iter().find(|point| !names.insert(&point.name)),
    ) {
        let origin = twice.nodes.first().map_or(&entry.key, |node| &node.origin);
        let message = format!("`{name}` has {} twice", twice.name);
        let hint = "a point is run once for each seed; sweep.seeds says how many".to_owned();
        reader.report(Kind::BadValue, origin, &place, message, Some(hint));
        return None;
    }
    Some(Axis {
        keys,
        points,
        drawn: false,
        origin: entry.key.clone(),
    })
}

const WANTED: &str =
    "a list of values, a range { from, to, step } or { from, to, count }, or { draw = ... }";

fn values(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Vec<Node>> {
    match &node.value {
        Value::Array(items) if items.len() > limits::MAX_SWEEP_POINTS => {
            let hint = format!("at most {} values", limits::MAX_SWEEP_POINTS);
            reader.bad_value(node, key, WANTED, hint)
        }
        Value::Array(items) => Some(items.clone()),
        Value::Table(_) => range(node, key, reader),
        _ => reader.wrong_type(node, key, WANTED),
    }
}

/// The point at which `value` is set: for several keys a value each, or one for all of them.
fn point(keys: &[String], value: Node, key: &str, reader: &mut Reader<'_>) -> Option<Point> {
    let nodes = match &value.value {
        Value::Array(items) if keys.len() > 1 => {
            if items.len() != keys.len() {
                let (wanted, given) = (keys.len(), items.len());
                let message = format!("`{key}` sets {wanted} keys, and here are {given} values");
                let hint = "a list of values, one for each key, or one value for all".to_owned();
                reader.report(Kind::BadValue, &value.origin, key, message, Some(hint));
                return None;
            }
            items.clone()
        }
        _ => vec![value.clone(); keys.len()],
    };
    let values = nodes.iter().map(|node| override_text(&node.value));
    let values: Vec<String> = values.collect();
    let name = match &value.value {
        Value::Array(_) if keys.len() > 1 => values.join(", "),
        _ => values.first().cloned().unwrap_or_default(),
    };
    Some(Point {
        name,
        values,
        nodes,
    })
}

/// The distance from one point of a range to the next.
#[derive(Clone, Copy)]
enum Scale {
    Linear,
    Log,
}

/// A range: from, to, and either the step or the number of points.
fn range(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Vec<Node>> {
    let mut table = reader.table(node, key, WANTED)?;
    let from = table.required::<End>("from", "the first value");
    let to = table.required::<End>("to", "the last value");
    let step = table.optional::<End>("step");
    let count = table.optional::<u32>("count");
    let scale = table.or("scale", Scale::Linear);
    table.finish();
    let (from, to) = (from?, to?);
    let mut wrong = |message: String, hint: &str| {
        let (kind, hint) = (Kind::BadValue, Some(hint.into()));
        reader.report(kind, &node.origin, key, message, hint);
    };
    for other in [Some(&to), step.as_ref()].into_iter().flatten() {
        if other.unit != from.unit {
            let (here, there) = (from.unit.as_str(), other.unit.as_str());
            let message = format!("`{key}` goes from {here:?} to {there:?}");
            wrong(message, "write the whole range in one unit");
            return None;
        }
    }
    let most = limits::MAX_SWEEP_POINTS;
    let numbers: Vec<f64> = match (step, count, scale) {
        (Some(step), None, Scale::Linear) => {
            let span = to.number - from.number;
            let steps = span / step.number;
            if !(step.number != 0.0 && steps >= 0.0 && steps < most as f64) {
                let message = format!("`{key}` does not lead from its first value to its last");
                wrong(
                    message,
                    &format!("a step towards the end, at most {most} points"),
                );
                return None;
            }
            // Rounding in the last digit of a step does not lose the last point.
            (0..=(steps + 1e-9) as u64)
                .map(|n| from.number + n as f64 * step.number)
                .collect()
        }
        (None, Some(count), scale) if count >= 2 && count as usize <= most => {
            let share = |n: u32| f64::from(n) / f64::from(count - 1);
            match scale {
                Scale::Linear => (0..count)
                    .map(|n| from.number + share(n) * (to.number - from.number))
                    .collect(),
                Scale::Log if from.number > 0.0 && to.number > 0.0 => (0..count)
                    .map(|n| match n {
                        0 => from.number,
                        n if n == count - 1 => to.number,
                        n => from.number * (to.number / from.number).powf(share(n)),
                    })
                    .collect(),
                Scale::Log => {
                    let message = format!("`{key}` is a log range that reaches zero");
                    wrong(message, "both ends lie above zero");
                    return None;
                }
            }
        }
        (None, Some(_), _) => {
            let message = format!("`{key}` has a count that makes no range");
            wrong(message, &format!("from 2 to {most}"));
            return None;
        }
        _ => {
            let message = format!("`{key}` says neither or both of `step` and `count`");
            let hint = "step = \"10 ms\", or count = 5, which takes scale = \"log\"";
            wrong(message, hint);
            return None;
        }
    };
    let whole = from.whole && to.whole;
    let nodes = numbers
        .into_iter()
        .map(|number| Node {
            // The ends are as they are written: one that is too fine is an error.
            value: match number == from.number || number == to.number {
                true => written(number, &from.unit, whole),
                false => computed(number, &from.unit, whole),
            },
            origin: node.origin.clone(),
        })
        .collect();
    Some(nodes)
}

impl Read for Scale {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let word = reader.word(node, key, "\"linear\" or \"log\"", &["linear", "log"])?;
        Some(match word {
            "log" => Self::Log,
            _ => Self::Linear,
        })
    }
}

impl JsonSchema for SweepSection {
    fn schema_name() -> Cow<'static, str> {
        "SweepSection".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let end = json_schema!({ "type": ["number", "string"] });
        json_schema!({
            "type": "object",
            "description": "What is varied, over which seeds, and what is looked at.",
            "properties": {
                "seeds": {
                    "description": "How many seeds from run.seed on, or a list of them. Unset: run.repeats.",
                    "oneOf": [
                        { "type": "integer", "minimum": 1 },
                        { "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 1 },
                    ],
                },
                "metrics": {
                    "description": "What is drawn and compared: metrics of a run, or of a flow as \"flows[0].goodput_bps\"; the unit may be left out.",
                    "type": "array",
                    "items": { "type": "string" },
                },
                "draws": {
                    "description": "How often the keys with `draw` are drawn. Unset: once for each row of their file.",
                    "type": "integer",
                    "minimum": 1,
                    "maximum": limits::MAX_SWEEP_POINTS,
                },
                "draw_seed": {
                    "description": "The seed of the draws: the same population for any seeds of the runs.",
                    "type": "integer",
                    "minimum": 0,
                    "default": 1,
                },
                "over": {
                    "description": "Keys of the scenario and the values that they take in turn; \"a, b\" are set together.",
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {
                        "oneOf": [
                            { "type": "array", "minItems": 1 },
                            {
                                "type": "object",
                                "properties": {
                                    "from": end,
                                    "to": end,
                                    "step": end,
                                    "count": { "type": "integer", "minimum": 2 },
                                    "scale": { "enum": ["linear", "log"], "default": "linear" },
                                },
                            },
                            {
                                "type": "object",
                                "properties": {
                                    "draw": { "enum": ["lognormal", "normal", "uniform", "loguniform", "choice", "column"] },
                                    "median": end,
                                    "sigma": { "type": "number" },
                                    "mean": end,
                                    "deviation": end,
                                    "from": end,
                                    "to": end,
                                    "min": end,
                                    "max": end,
                                    "of": { "type": "array", "minItems": 1 },
                                    "weights": { "type": "array", "items": { "type": "number" } },
                                    "file": { "type": "string" },
                                    "column": { "type": "string" },
                                    "unit": { "type": "string" },
                                },
                                "required": ["draw"],
                            },
                        ],
                    },
                },
            },
            "required": ["over"],
            "additionalProperties": false,
        })
    }
}

/// Names of metrics in a sweep: of a run, or of a flow by its number.
pub fn metric_of_flow(name: &str) -> Option<(usize, &str)> {
    let (flow, metric) = name.rsplit_once('.')?;
    let number = flow
        .strip_prefix("flows[")
        .and_then(|rest| rest.strip_suffix(']'))
        .or_else(|| flow.strip_prefix("flows."))?;
    Some((number.parse().ok()?, metric))
}
