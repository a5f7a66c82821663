//! The values of single keys: quantities, numbers, words, lists.

use std::path::PathBuf;

use duplicate::duplicate_item;
use paceline_units::options::Choice;
use paceline_units::{
    AckFilter, Acks, Bytes, Crypto, Direction, Duration, EcnFeedback, Frequency, Gain,
    ParseErrorKind, Rate, Recovery, Size, StackName,
};

use crate::document::{Node, Value};
use crate::packets::Packets;
use crate::reader::{Read, Reader, choices, unit_hint};
use crate::section::Key;

#[duplicate_item(
    Plain;
    [Rate]; [Duration]; [Bytes]; [Gain]; [Size]; [Packets]; [bool]; [u32]; [u64]; [String]; [PathBuf]; [Vec<String>];
    [EcnFeedback]; [StackName]; [Crypto]; [Direction]; [AckFilter];
)]
impl Key for Plain {}

impl Read for Packets {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a number of packets such as \"10 packets\"";
        let text = reader.text(node, key, wanted)?.trim();
        let number = text
            .strip_suffix("packets")
            .or_else(|| text.strip_suffix("packet"));
        match number.map(|number| number.trim().parse()) {
            Some(Ok(count)) => Some(Self(count)),
            Some(Err(_)) => {
                let hint = format!("a whole number from 0 to {}", u32::MAX);
                reader.bad_value(node, key, wanted, hint)
            }
            None => {
                let hint = "the unit is \"packets\"".to_owned();
                reader.bad_value(node, key, wanted, hint)
            }
        }
    }
}

#[duplicate_item(
    Word; [Acks]; [Recovery]; [EcnFeedback]; [StackName]; [Crypto]; [Direction]; [AckFilter]
)]
impl Read for Word {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let words: Vec<_> = Self::WORDS.iter().map(|w| format!("\"{w}\"")).collect();
        let mut wanted = words.join(", ");
        if let Some((first, last)) = wanted.rsplit_once(", ") {
            wanted = format!("{first} or {last}");
        }
        Self::of(reader.word(node, key, &wanted, Self::WORDS)?)
    }
}

impl Read for Size {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a size such as \"1 bdp\", \"165 packets\", \"250 kB\" or \"40 ms\"";
        let text = reader.text(node, key, wanted)?.trim();
        let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
        let size = match unit {
            "packet" | "packets" => number
                .trim()
                .parse()
                .map(Self::Packets)
                .map_err(|_| "packets are counted in whole numbers".to_owned()),
            "bdp" => Self::parse_bdp(text)
                .map_err(|_| "a bdp takes a decimal number with at most 6 places".to_owned()),
            _ => match (Bytes::parse(text), Duration::parse(text)) {
                (Ok(bytes), _) => Ok(Self::Bytes(bytes)),
                (_, Ok(time)) => Ok(Self::Time(time)),
                (Err(volume), Err(time)) => {
                    let unknown = ParseErrorKind::UnknownUnit;
                    let mut units = vec!["bdp", "packets"];
                    units.extend(volume.units().chain(time.units()));
                    Err(if unit.is_empty() {
                        format!("the unit is missing; {}", choices("", &units, "\""))
                    } else if volume.kind() == unknown && time.kind() == unknown {
                        choices(unit, &units, "\"")
                    } else if volume.kind() == unknown {
                        unit_hint(text, &time)
                    } else {
                        unit_hint(text, &volume)
                    })
                }
            },
        };
        match size {
            Ok(size) => Some(size),
            Err(hint) => reader.bad_value(node, key, wanted, hint),
        }
    }
}

impl Read for Frequency {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let wanted = "a weight per second such as \"0.125 Hz\"";
        let text = reader.text(node, key, wanted)?;
        Self::parse(text).ok().or_else(|| {
            let hint = "a decimal number up to 4294 with at most 6 places, and the unit Hz";
            reader.bad_value(node, key, wanted, hint.to_owned())
        })
    }
}

#[duplicate_item(
    Amount      name      example;
    [Rate]      ["rate"]    ["50 Mbit/s"];
    [Duration]  ["time"]    ["40 ms"];
    [Bytes]     ["volume"]  ["250 kB"];
    [Gain]      ["share"]   ["2 %"];
)]
impl Read for Amount {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        reader.quantity(node, key, (name, example), Amount::parse)
    }
}

impl Read for bool {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        match node.value {
            Value::Flag(flag) => Some(flag),
            _ => reader.wrong_type(node, key, "true or false"),
        }
    }
}

impl Read for String {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, key, "text").map(str::to_owned)
    }
}

impl Read for PathBuf {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let text = reader.text(node, key, "the name of a file")?;
        if text.is_empty() {
            let hint = "the name is empty".to_owned();
            return reader.bad_value(node, key, "the name of a file", hint);
        }
        Some(text.into())
    }
}

fn integer(node: &Node, key: &str, reader: &mut Reader<'_>, most: u64) -> Option<u64> {
    match node.value {
        Value::Integer(number) => match u64::try_from(number) {
            Ok(number) if number <= most => Some(number),
            _ => reader.bad_value(node, key, "a whole number", format!("from 0 to {most}")),
        },
        _ => reader.wrong_type(node, key, "a whole number"),
    }
}

impl Read for u32 {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        integer(node, key, reader, u64::from(u32::MAX)).and_then(|n| n.try_into().ok())
    }
}

/// Whole numbers are limited to TOML's range, so that any can be written back.
impl Read for u64 {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        integer(node, key, reader, i64::MAX.unsigned_abs())
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::Array(items) = &node.value else {
            return reader.wrong_type(node, key, "an array");
        };
        let read: Vec<Option<T>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| T::read(item, &format!("{key}[{index}]"), reader))
            .collect();
        read.into_iter().collect()
    }
}
