//! The events of a file, in any version and container.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use serde_json::Value;

use crate::cut::up_to_last;
use crate::error::CaptureError;
use crate::source::Source;

/// The maximum size of one JSON text: an event, or a whole file that is one.
const MOST: u64 = 512 << 20;
/// Memory of the values of a JSON text, as a multiple of its length.
const TAKES: u64 = 8;

/// A trace's header before its events.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub number: usize,
    pub title: String,
    pub vantage: String,
    /// Nanoseconds per unit of its times, including those in its metrics.
    pub unit: f64,
    /// Offset of its times, in nanoseconds.
    reference: i128,
    delta: bool,
    group: String,
    /// The fields of events that are arrays.
    fields: Vec<String>,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    pub nanos: i128,
    pub group: String,
    /// Its name in lower case, without the part before a colon.
    pub name: String,
    pub data: Value,
}

/// A file's information other than its events.
#[derive(Debug, Default)]
pub struct Info {
    pub version: String,
    pub events: u64,
    /// Events without time or name.
    pub odd: u64,
    /// Why it ended early.
    pub cut: Option<String>,
}

/// Passes each event to the caller, with the header of its trace.
pub fn read(
    source: &Source<'_>,
    mut each: impl FnMut(&Head, &Event) -> bool,
) -> Result<Info, CaptureError> {
    let limit = MOST.min(source.memory / TAKES).max(1 << 20);
    let left = Rc::new(Cell::new(limit));
    let text = Text {
        inner: source.open()?,
        left: Rc::clone(&left),
    };
    let text = BufReader::with_capacity(1 << 16, text);
    let mut texts = serde_json::Deserializer::from_reader(text).into_iter::<Value>();
    let failed = |error: serde_json::Error, first: bool| match source.check() {
        Err(stopped) => stopped,
        Ok(()) if error.is_io() => CaptureError::damaged(error.to_string()),
        Ok(()) if first && error.is_eof() => {
            CaptureError::damaged("it ends within its JSON: nothing of it can be read")
        }
        Ok(()) => CaptureError::damaged(format!("it is no JSON: {error}")),
    };
    let mut ends_early = None;
    let first = match texts.next() {
        Some(Ok(first)) => first,
        Some(Err(error)) => {
            let whole = begun(source, limit).filter(|_| !error.is_io() || is_cut(&error));
            ends_early = Some(match error.is_eof() || is_cut(&error) {
                true => "the file ends within an event".to_owned(),
                false => format!("the file is damaged: {error}"),
            });
            whole.ok_or_else(|| failed(error, true))?
        }
        None => return Err(CaptureError::empty("it is empty")),
    };
    left.set(limit);
    let mut info = Info {
        version: ["qlog_version", "file_schema"]
            .iter()
            .find_map(|key| first.get(key)?.as_str())
            .unwrap_or("unknown")
            .chars()
            .filter(|c| !c.is_control())
            .take(80)
            .collect(),
        cut: ends_early,
        ..Info::default()
    };
    let mut whole = first;
    if let Some(Value::Array(traces)) = whole.get_mut("traces").map(Value::take) {
        let mut heads = Vec::new();
        let mut events = Vec::new();
        for (number, mut trace) in traces.into_iter().enumerate() {
            let mut raw = trace.get_mut("events").map(Value::take);
            let head = Head::new(number, &trace, &whole);
            let mut last = head.reference;
            for raw in raw.iter_mut().flat_map(Value::as_array_mut).flatten() {
                source.check()?;
                let event = event(&head, last, raw.take());
                info.odd += u64::from(event.is_none());
                if let Some(event) = event {
                    last = event.nanos;
                    events.push((number, event));
                }
            }
            heads.push(head);
        }
        // Each trace starts from zero; the record holds them in parallel.
        events.sort_by_key(|(_, event)| event.nanos);
        for (number, event) in &events {
            info.events += 1;
            if !heads.get(*number).is_some_and(|head| each(head, event)) {
                break;
            }
        }
        return Ok(info);
    }
    let head = Head::new(0, whole.get("trace").unwrap_or(&whole), &whole);
    let mut last = head.reference;
    let mut cut = None;
    for raw in texts {
        source.check()?;
        left.set(limit);
        match raw {
            Ok(raw) => match event(&head, last, raw) {
                Some(event) => {
                    info.events += 1;
                    last = event.nanos;
                    if !each(&head, &event) {
                        break;
                    }
                }
                None => info.odd += 1,
            },
            Err(error) => {
                source.check()?;
                cut = Some(match error.is_eof() {
                    true => "the file ends within an event".to_owned(),
                    false => format!("the file is damaged: {error}"),
                });
                break;
            }
        }
    }
    info.cut = cut;
    Ok(info)
}

/// The events of a file with one JSON text that ends early.
fn begun(source: &Source<'_>, limit: u64) -> Option<Value> {
    let mut text = Vec::new();
    // A compressed file that ends early fails here, after what it has.
    let _ = source.open().ok()?.take(limit).read_to_end(&mut text);
    up_to_last(&text, "events")
}

/// Whether a compressed file ends early.
fn is_cut(error: &serde_json::Error) -> bool {
    error.io_error_kind() == Some(io::ErrorKind::UnexpectedEof)
}

impl Head {
    fn new(number: usize, trace: &Value, file: &Value) -> Self {
        let common = trace.get("common_fields").unwrap_or(&Value::Null);
        let configuration = trace.get("configuration").unwrap_or(&Value::Null);
        let text = |value: &Value, key: &str| {
            let word = value.get(key).and_then(Value::as_str).unwrap_or_default();
            word.to_owned()
        };
        let vantage = trace.get("vantage_point").unwrap_or(&Value::Null);
        let units = [common, configuration]
            .map(|place| text(place, "time_units"))
            .concat();
        let unit = match units.as_str() {
            "us" => 1e3,
            "ns" => 1.0,
            "s" => 1e9,
            _ => 1e6,
        };
        let format = text(common, "time_format");
        let fields = trace.get("event_fields").and_then(Value::as_array);
        let texts = fields.into_iter().flatten().filter_map(Value::as_str);
        let fields: Vec<String> = texts.map(str::to_ascii_lowercase).collect();
        let reference = number_of(common.get("reference_time"));
        let absolute = format == "absolute" || fields.iter().any(|field| field == "time");
        let reference = reference.filter(|_| !absolute).unwrap_or(0.0) * unit;
        let title = [trace, file].map(|place| text(place, "title"));
        Self {
            number,
            title: title
                .into_iter()
                .find(|title| !title.is_empty())
                .unwrap_or_default(),
            vantage: match vantage.as_str() {
                Some(word) => word.to_owned(),
                None => text(vantage, "type"),
            },
            unit,
            reference: match reference.is_finite() {
                true => reference as i128,
                false => 0,
            },
            delta: matches!(format.as_str(), "delta" | "relative_to_previous_event")
                || fields.iter().any(|field| field == "delta_time"),
            group: group(common),
            fields,
        }
    }
}

fn group(fields: &Value) -> String {
    let named = ["group_id", "ODCID", "odcid"]
        .iter()
        .find_map(|key| fields.get(key));
    match named {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// An event from its JSON value: an object, or in the first drafts an array.
fn event(head: &Head, last: i128, raw: Value) -> Option<Event> {
    let (time, name, group_of, data) = match raw {
        Value::Array(cells) => {
            let (mut time, mut name, mut data) = (None, String::new(), Value::Null);
            let mut own = String::new();
            let usual: &[&str] = match cells.len() {
                5 => &["relative_time", "category", "event", "trigger", "data"],
                _ => &["relative_time", "category", "event", "data"],
            };
            for (position, cell) in cells.into_iter().enumerate() {
                let known = match head.fields.is_empty() {
                    true => usual.get(position).copied(),
                    false => head.fields.get(position).map(String::as_str),
                };
                match known.unwrap_or_default() {
                    "relative_time" | "time" | "delta_time" => time = number_of(Some(&cell)),
                    "event" | "event_type" | "name" => name = cell.as_str()?.to_owned(),
                    "data" => data = cell,
                    "group_id" | "odcid" => {
                        own = cell
                            .as_str()
                            .map_or_else(|| cell.to_string(), str::to_owned);
                    }
                    _ => {}
                }
            }
            (time, name, own, data)
        }
        Value::Object(mut fields) => {
            let data = fields.remove("data").unwrap_or_default();
            let name = ["name", "event", "event_type"]
                .iter()
                .find_map(|key| fields.get(*key)?.as_str())?
                .to_owned();
            let keys = ["time", "relative_time", "delta_time"];
            let time = keys.iter().find_map(|key| number_of(fields.get(*key)));
            (time, name, group(&Value::Object(fields)), data)
        }
        _ => return None,
    };
    let nanos = time? * head.unit;
    if !nanos.is_finite() || nanos.abs() > 1e30 {
        return None;
    }
    let nanos = nanos.round() as i128;
    let name = name.rsplit(':').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    Some(Event {
        nanos: match head.delta {
            true => last + nanos,
            false => head.reference + nanos,
        },
        group: match group_of.is_empty() {
            true => head.group.clone(),
            false => group_of,
        },
        name,
        data,
    })
}

/// A number, which the first drafts wrote as text.
pub fn number_of(value: Option<&Value>) -> Option<f64> {
    match value? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|number: &f64| number.is_finite())
}

/// The bytes of JSON texts: the separators of a sequence (RFC 7464) become blanks.
struct Text<'a> {
    inner: Box<dyn BufRead + Send + 'a>,
    /// How much more text is allowed.
    left: Rc<Cell<u64>>,
}

impl Read for Text<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        for octet in into.iter_mut().take(read) {
            if *octet == 0x1e {
                *octet = b' ';
            }
        }
        let left = self.left.get().checked_sub(read as u64);
        let larger =
            || io::Error::other("a JSON text of it is larger than memory allows (--memory)");
        self.left.set(left.ok_or_else(larger)?);
        Ok(read)
    }
}
