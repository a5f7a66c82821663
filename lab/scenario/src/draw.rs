//! Populations: experiments in each of which the drawn keys have random values.
//!
//! Each key has its own stream, from the seed of the draws and its name: the values drawn for one
//! key do not depend on which others are drawn, so two populations can be compared draw by draw.
//! Rows of a file are kept together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use paceline_units::Rng;

use crate::axis::{Axis, End, Point, computed, exact};
use crate::diagnostic::Kind;
use crate::document::{Node, Origin, Value, override_text};
use crate::limits;
use crate::reader::{Read, Reader};

/// Keys that are drawn together, and the source of their values.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) keys: Vec<String>,
    pub(crate) origin: Origin,
    place: String,
    law: Law,
    bounds: (Option<f64>, Option<f64>),
    unit: String,
}

#[derive(Clone, Debug)]
enum Law {
    Lognormal { median: f64, sigma: f64 },
    Normal { mean: f64, deviation: f64 },
    Uniform { from: f64, to: f64 },
    LogUniform { from: f64, to: f64 },
    Choice { of: Vec<Node>, weights: Vec<f64> },
    Column { file: PathBuf, column: String },
}

const LAWS: &[&str] = &[
    "lognormal",
    "normal",
    "uniform",
    "loguniform",
    "choice",
    "column",
];
const WANTED: &str =
    "\"lognormal\", \"normal\", \"uniform\", \"loguniform\", \"choice\" or \"column\"";

/// How many names of columns an error lists.
const NAMED: usize = 30;

/// How often a value beyond `min` or `max` is drawn again.
const TRIES: usize = 10_000;

struct Word(&'static str);

impl Read for Word {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, key, WANTED, LAWS).map(Self)
    }
}

/// Values in their text form.
struct Values(Vec<Node>);

impl Read for Values {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Array(items) if !items.is_empty() => Some(Self(items.clone())),
            _ => reader.wrong_type(node, key, "a list of values"),
        }
    }
}

impl Drawn {
    /// The content of `{ draw = ... }` for some keys.
    pub(crate) fn read(
        keys: Vec<String>,
        origin: &Origin,
        node: &Node,
        place: &str,
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        let mut table = reader.table(node, place, "a table")?;
        let law = table.required::<Word>("draw", WANTED)?.0;
        let mut ends: Vec<End> = Vec::new();
        let mut number = |end: Option<End>| -> Option<f64> {
            let end = end?;
            let number = end.number;
            ends.push(end);
            Some(number)
        };
        let law = match law {
            "lognormal" => {
                let median = number(table.required("median", "the middle value"));
                let sigma = table.required::<End>("sigma", "the deviation of the logarithm");
                Law::Lognormal {
                    median: median?,
                    sigma: sigma?.number,
                }
            }
            "normal" => {
                let mean = number(table.required("mean", "the mean"));
                let deviation = number(table.required("deviation", "the standard deviation"));
                Law::Normal {
                    mean: mean?,
                    deviation: deviation?,
                }
            }
            "choice" => {
                let of = table.required::<Values>("of", "the values to choose from");
                let weights = table.optional::<Values>("weights");
                Law::Choice {
                    of: of?.0,
                    weights: weights.map_or_else(Vec::new, |list| {
                        let number = |node: &Node| match node.value {
                            Value::Integer(number) => number as f64,
                            Value::Float(number) => number,
                            _ => f64::NAN,
                        };
                        list.0.iter().map(number).collect()
                    }),
                }
            }
            "column" => {
                let file = table.required::<PathBuf>("file", "a file of comma-separated values");
                let column = table.required::<String>("column", "the name of the column");
                Law::Column {
                    file: file?,
                    column: column?,
                }
            }
            word => {
                let from = number(table.required("from", "the least value"));
                let to = number(table.required("to", "the greatest value"));
                let (from, to) = (from?, to?);
                match word {
                    "uniform" => Law::Uniform { from, to },
                    _ => Law::LogUniform { from, to },
                }
            }
        };
        let (least, most) = match law {
            Law::Lognormal { .. } | Law::Normal { .. } => {
                (number(table.optional("min")), number(table.optional("max")))
            }
            _ => (None, None),
        };
        let unit = match law {
            Law::Column { .. } => table.or("unit", String::new()),
            _ => ends
                .first()
                .map_or_else(String::new, |end| end.unit.clone()),
        };
        table.finish();
        let mut wrong = |message: String, hint: &str| {
            let hint = Some(hint.to_owned());
            reader.report(Kind::BadValue, &node.origin, place, message, hint);
        };
        if ends.iter().any(|end| end.unit != unit) {
            let message = format!("`{place}` is drawn in several units");
            wrong(message, "write all of it in one unit");
            return None;
        }
        if let Some((message, hint)) = law.wrong(place) {
            wrong(message, hint);
            return None;
        }
        Some(Self {
            keys,
            origin: origin.clone(),
            place: place.to_owned(),
            law,
            bounds: (least, most),
            unit,
        })
    }

    /// The file with its values.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.law {
            Law::Column { file, .. } => Some(file),
            _ => None,
        }
    }

    /// A value, or why there is none.
    fn value(&self, rng: &mut Rng, row: Option<&str>) -> Result<Value, String> {
        if let Law::Choice { of, weights } = &self.law {
            let node = of.get(chosen(rng, of.len(), weights));
            return Ok(node.map_or(Value::Integer(0), |node| node.value.clone()));
        }
        if let Some(cell) = row {
            let text = match self.unit.is_empty() {
                true => cell.to_owned(),
                false => format!("{cell} {}", self.unit),
            };
            let whole = cell.parse::<i128>().ok().filter(|_| self.unit.is_empty());
            return Ok(whole.map_or_else(|| Value::Text(exact(&text)), Value::Integer));
        }
        for _ in 0..TRIES {
            let number = self.law.number(rng);
            let (least, most) = self.bounds;
            if least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most) {
                return Ok(computed(number, &self.unit, false));
            }
        }
        Err(format!(
            "`{}` has no value from `min` to `max` in {TRIES} draws",
            self.place
        ))
    }
}

impl Law {
    /// The error in its parameters, with the allowed values.
    fn wrong(&self, place: &str) -> Option<(String, &'static str)> {
        let wrong = match self {
            Self::Lognormal { median, sigma } => (*median <= 0.0 || *sigma < 0.0)
                .then_some("a median above zero and a sigma from zero on"),
            Self::Normal { deviation, .. } => {
                (*deviation < 0.0).then_some("a deviation from zero on")
            }
            Self::Uniform { from, to } => (from > to).then_some("`from` is not above `to`"),
            Self::LogUniform { from, to } => {
                (*from <= 0.0 || from > to).then_some("`from` is above zero and not above `to`")
            }
            Self::Choice { of, weights } => {
                let bad = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
                let sum: f64 = weights.iter().sum();
                let uneven = weights.len() != of.len() || weights.iter().any(bad) || sum <= 0.0;
                (!weights.is_empty() && uneven)
                    .then_some("a weight for each value, none below zero and not all zero")
            }
            Self::Column { .. } => None,
        };
        wrong.map(|hint| (format!("`{place}` cannot be drawn"), hint))
    }

    fn number(&self, rng: &mut Rng) -> f64 {
        match self {
            Self::Lognormal { median, sigma } => median * libm::exp(sigma * rng.normal()),
            Self::Normal { mean, deviation } => mean + deviation * rng.normal(),
            Self::Uniform { from, to } => from + rng.unit() * (to - from),
            Self::LogUniform { from, to } => from * libm::exp(rng.unit() * libm::log(to / from)),
            Self::Choice { .. } | Self::Column { .. } => 0.0,
        }
    }
}

/// An index chosen among values by their weights; uniform without weights.
fn chosen(rng: &mut Rng, count: usize, weights: &[f64]) -> usize {
    if weights.is_empty() {
        return rng.below(count as u64) as usize;
    }
    let mut left = rng.unit() * weights.iter().sum::<f64>();
    for (number, weight) in weights.iter().enumerate() {
        left -= weight;
        if left <= 0.0 && *weight > 0.0 {
            return number;
        }
    }
    weights.len() - 1
}

/// A stream for a name: FNV-1a (Fowler, Noll and Vo 1991) of the name, and the seed.
fn stream(seed: u64, name: &str) -> Rng {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Rng::new(Rng::new(seed).next_u64() ^ hash)
}

/// A file of rows: the cells of each column that is drawn from.
struct Rows {
    /// The names of all columns.
    names: Vec<String>,
    count: usize,
    cells: BTreeMap<String, Vec<String>>,
}

impl Rows {
    /// The content of a file of comma-separated values; the first line names the columns.
    fn read(text: &str, wanted: &BTreeSet<&str>) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().filter_map(|(number, line)| {
            let line = line.trim_start_matches('\u{feff}').trim();
            (!line.is_empty() && !line.starts_with('#')).then_some((number + 1, line))
        });
        let (number, head) = lines.next().ok_or("it is empty")?;
        let names = cells(number, head)?;
        let mut rows = Self {
            count: 0,
            cells: BTreeMap::new(),
            names,
        };
        let mut places = Vec::new();
        for name in wanted {
            let mut matches = rows.names.iter().enumerate().filter(|(_, one)| one == name);
            if let Some((place, _)) = matches.next() {
                if matches.next().is_some() {
                    return Err(format!("two columns have the name {name:?}"));
                }
                rows.cells.insert((*name).to_owned(), Vec::new());
                places.push((place, *name));
            }
        }
        for (number, line) in lines {
            let mut cells = cells(number, line)?;
            if cells.len() != rows.names.len() {
                let (wanted, given) = (rows.names.len(), cells.len());
                return Err(format!(
                    "line {number} has {given} values, and there are {wanted} columns"
                ));
            }
            if rows.count == limits::MAX_FILE_ROWS {
                let most = limits::MAX_FILE_ROWS;
                return Err(format!("it has more than {most} rows"));
            }
            rows.count += 1;
            for (place, name) in &places {
                let cell = cells.get_mut(*place).map(std::mem::take);
                let cell = cell.unwrap_or_default();
                if cell.is_empty() {
                    return Err(format!("line {number} has no value in the column {name:?}"));
                }
                if let Some(column) = rows.cells.get_mut(*name) {
                    column.push(cell);
                }
            }
        }
        Ok(rows)
    }

    /// A cell of a column.
    fn cell(&self, column: &str, row: usize) -> Option<&str> {
        Some(self.cells.get(column)?.get(row)?.as_str())
    }
}

/// The cells of a line; a quoted cell may contain commas.
fn cells(number: usize, line: &str) -> Result<Vec<String>, String> {
    let most = limits::MAX_FILE_COLUMNS;
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted && cells.len() == most => {
                return Err(format!("line {number} has more than {most} values"));
            }
            ',' if !quoted => cells.push(String::new()),
            other => {
                if let Some(cell) = cells.last_mut() {
                    cell.push(other);
                }
            }
        }
    }
    if quoted {
        return Err(format!(
            "line {number} has a quotation mark without its pair"
        ));
    }
    Ok(cells.iter().map(|cell| cell.trim().to_owned()).collect())
}

/// The axis of a population; `read` returns the text of a file. An error has its location, what is
/// wrong and what would be correct.
pub(crate) fn population(
    drawn: &[Drawn],
    draws: Option<u32>,
    seed: u64,
    read: impl Fn(&Path) -> Result<String, String>,
) -> Result<Option<Axis>, (Kind, Origin, String, String, String)> {
    let Some(first) = drawn.first() else {
        return Ok(None);
    };
    let problem = |one: &Drawn, message: String, hint: &str| {
        let place = (one.origin.clone(), one.place.clone());
        (Kind::BadValue, place.0, place.1, message, hint.to_owned())
    };
    let mut files: BTreeMap<&Path, Rows> = BTreeMap::new();
    for one in drawn {
        if let (Some(file), Law::Column { column, .. }) = (one.file(), &one.law) {
            if !files.contains_key(file) {
                let wanted: BTreeSet<&str> = drawn
                    .iter()
                    .filter_map(|other| match &other.law {
                        Law::Column { file: its, column } if its == file => Some(column.as_str()),
                        _ => None,
                    })
                    .collect();
                let content = read(file).and_then(|text| Rows::read(&text, &wanted));
                let content = content.map_err(|why| {
                    let message = format!("cannot read {}: {why}", file.display());
                    let hint =
                        "a file of comma-separated values, its columns named in the first line";
                    problem(one, message, hint)
                })?;
                files.insert(file, content);
            }
            let there = files.get(file);
            if !there.is_some_and(|rows| rows.count > 0 && rows.cells.contains_key(column)) {
                let names = there.map_or(&[][..], |rows| &rows.names);
                let known: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
                let message = format!("{} has no column {column:?}, or no row", file.display());
                let hint = format!("its columns: {}", known.join(", "));
                return Err(problem(one, message, &hint));
            }
        }
    }
    let count = match (draws, files.values().map(|rows| rows.count).max()) {
        (Some(draws), _) => draws as usize,
        (None, Some(rows)) if drawn.iter().all(|one| one.file().is_some()) => rows,
        _ => {
            let message = format!("`{}` is drawn, and nothing says how often", first.place);
            let hint = "for example draws = 100 in [sweep]";
            return Err(problem(first, message, hint));
        }
    };
    if !(1..=limits::MAX_SWEEP_POINTS).contains(&count) {
        let message = format!("{count} draws");
        let hint = format!("from 1 to {}", limits::MAX_SWEEP_POINTS);
        return Err(problem(first, message, &hint));
    }
    let streams = drawn.iter().map(|one| stream(seed, &one.keys.join(",")));
    let mut streams: Vec<Rng> = streams.collect();
    let picks = files.keys();
    let picks = picks.map(|file| (*file, stream(seed, &file.to_string_lossy())));
    let mut picks: BTreeMap<&Path, Rng> = picks.collect();
    let mut points = Vec::with_capacity(count);
    for number in 0..count {
        // One row of each file, for all keys that are drawn from it.
        let picked: BTreeMap<&Path, (&Rows, usize)> = files
            .iter()
            .filter_map(|(file, rows)| {
                let row = match draws {
                    Some(_) => picks.get_mut(file)?.below(rows.count as u64) as usize,
                    None => number % rows.count.max(1),
                };
                Some((*file, (rows, row)))
            })
            .collect();
        let mut values = Vec::new();
        let mut nodes = Vec::new();
        let mut texts = Vec::new();
        for (one, rng) in drawn.iter().zip(&mut streams) {
            let cell = match &one.law {
                Law::Column { file, column } => {
                    let of_file = picked.get(file.as_path());
                    of_file.and_then(|(rows, row)| rows.cell(column, *row))
                }
                _ => None,
            };
            let value = one
                .value(rng, cell)
                .map_err(|message| problem(one, message, "bounds that leave more of it"))?;
            let text = override_text(&value);
            texts.push(text.clone());
            for _ in &one.keys {
                values.push(text.clone());
                nodes.push(Node {
                    value: value.clone(),
                    origin: one.origin.clone(),
                });
            }
        }
        points.push(Point {
            name: format!("{}: {}", number + 1, texts.join(", ")),
            values,
            nodes,
        });
    }
    Ok(Some(Axis {
        keys: drawn.iter().flat_map(|one| one.keys.clone()).collect(),
        points,
        drawn: true,
        origin: first.origin.clone(),
    }))
}
