//! The description of a table's columns that Arrow's readers look for in a Parquet file: dictionaries, units of columns
//! and the table's version, which Parquet's own types do not have.
//!
//! It is the message `Schema` of Arrow's IPC format in base64: a flatbuffer, after a mark and its length.

use std::collections::BTreeMap;

use arrow_schema::{Field, Schema};

use crate::column::Kind;

/// Its key in the metadata of a Parquet file.
pub const KEY: &str = "ARROW:schema";

const MARK: [u8; 4] = [0xff; 4];

/// The description of a schema of the columns that a table can have.
pub fn describe(schema: &Schema) -> String {
    /// Version 5 of the format, and the kind of message that describes columns.
    const VERSION: [u8; 2] = 4_i16.to_le_bytes();
    const SCHEMA: [u8; 1] = [1];
    let mut flat = Flat {
        bytes: vec![0; 4],
        layouts: BTreeMap::new(),
    };
    let message = [Value(&VERSION), Value(&SCHEMA), Place, Value(&[0; 8])];
    let message = flat.table(0, &message);
    let parts = flat.table(message[0], &[Nothing, Place, Place]);
    for (place, field) in (flat.vector(parts[0], schema.fields().len())).zip(schema.fields()) {
        flat.field(place, field);
    }
    flat.pairs(parts[1], schema.metadata().iter().collect());
    let flat = flat.finish();
    base64(&[&MARK, &(flat.len() as u32).to_le_bytes(), &flat[..]].concat())
}

/// A flatbuffer that grows at its end: what is referred to follows what refers to it.
struct Flat {
    bytes: Vec<u8>,
    /// The tables of each layout. Layouts stand at the end: polars reads none that stands before the table above it.
    layouts: BTreeMap<Vec<u8>, Vec<usize>>,
}

/// What a table has for one of its fields.
enum Slot<'v> {
    Nothing,
    Value(&'v [u8]),
    /// The place of something that follows.
    Place,
}
use Slot::{Nothing, Place, Value};

impl Flat {
    fn pad(&mut self, to: usize) {
        let length = self.bytes.len().next_multiple_of(to);
        self.bytes.resize(length, 0);
    }

    /// Lets a place refer to what is written next; returns where that is.
    fn point(&mut self, place: usize) -> usize {
        let at = self.bytes.len();
        let far = (at - place) as u32;
        self.bytes[place..place + 4].copy_from_slice(&far.to_le_bytes());
        at
    }

    /// Writes the table that a place refers to; returns its own places.
    fn table(&mut self, from: usize, slots: &[Slot<'_>]) -> Vec<usize> {
        let (mut table, mut offsets, mut places) = (vec![0; 4], Vec::new(), Vec::new());
        for slot in slots {
            let value = match slot {
                Nothing => &[],
                Value(value) => *value,
                Place => &[0; 4],
            };
            // Each at a multiple of its width.
            let at = table.len().next_multiple_of(value.len().max(1));
            if let Place = slot {
                places.push(at);
            }
            let offset = if value.is_empty() { 0 } else { at as u16 };
            offsets.extend(offset.to_le_bytes());
            if offset != 0 {
                table.resize(at, 0);
                table.extend(value);
            }
        }
        let lengths = [4 + offsets.len(), table.len()].map(|length| (length as u16).to_le_bytes());
        let layout = [lengths.as_flattened(), &offsets].concat();
        self.pad(8);
        let at = self.point(from);
        self.layouts.entry(layout).or_default().push(at);
        self.bytes.extend(table);
        places.into_iter().map(|place| at + place).collect()
    }

    /// Writes the layouts, and of each table where its own is.
    fn finish(mut self) -> Vec<u8> {
        for (layout, tables) in std::mem::take(&mut self.layouts) {
            self.pad(2);
            for table in tables {
                let back = table as i32 - self.bytes.len() as i32;
                self.bytes[table..table + 4].copy_from_slice(&back.to_le_bytes());
            }
            self.bytes.extend(layout);
        }
        self.pad(8);
        self.bytes
    }

    /// Writes a list of places; returns them.
    fn vector(&mut self, from: usize, length: usize) -> impl Iterator<Item = usize> + use<> {
        self.pad(4);
        let at = self.point(from);
        self.bytes.extend((length as u32).to_le_bytes());
        self.bytes.resize(at + 4 + 4 * length, 0);
        (0..length).map(move |nth| at + 4 + 4 * nth)
    }

    fn text(&mut self, from: usize, text: &str) {
        self.pad(4);
        self.point(from);
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }

    /// Keys and values, in the order of the keys.
    fn pairs(&mut self, from: usize, pairs: BTreeMap<&String, &String>) {
        for (place, (key, value)) in self.vector(from, pairs.len()).zip(pairs) {
            let places = self.table(place, &[Place, Place]);
            self.text(places[0], key);
            self.text(places[1], value);
        }
    }

    fn integer(&mut self, from: usize, bits: i32, signed: bool) {
        self.table(from, &[Value(&bits.to_le_bytes()), Value(&[signed.into()])]);
    }

    fn field(&mut self, from: usize, field: &Field) {
        const INT: u8 = 2;
        const FLOAT: u8 = 3;
        const UTF8: u8 = 5;
        const BOOL: u8 = 6;
        const DOUBLE: [u8; 2] = 2_i16.to_le_bytes();
        let kind = Kind::of(field.data_type()).expect("a column's type is one of a table");
        let number = match kind {
            Kind::Id | Kind::Int => INT,
            Kind::Real => FLOAT,
            Kind::Flag => BOOL,
            Kind::Text => UTF8,
        };
        let if_so = |so: bool| if so { Place } else { Nothing };
        let places = self.table(
            from,
            &[
                Place,
                Value(&[field.is_nullable().into()]),
                Value(&[number]),
                Place,
                if_so(kind == Kind::Text),
                Place,
                if_so(!field.metadata().is_empty()),
            ],
        );
        let mut places = places.into_iter();
        let mut next = || places.next().expect("one for each");
        self.text(next(), field.name());
        let of = next();
        match kind {
            Kind::Id => self.integer(of, 32, false),
            Kind::Int => self.integer(of, 64, true),
            Kind::Real => drop(self.table(of, &[Value(&DOUBLE)])),
            Kind::Flag | Kind::Text => drop(self.table(of, &[])),
        }
        if kind == Kind::Text {
            // Its number, which differs from that of any other; the type of its keys.
            let id = (from as i64).to_le_bytes();
            let keys = self.table(next(), &[Value(&id), Place, Value(&[0])]);
            self.integer(keys[0], 32, true);
        }
        // It has no fields of its own.
        drop(self.vector(next(), 0));
        if !field.metadata().is_empty() {
            self.pairs(next(), field.metadata().iter().collect());
        }
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let all = three
            .iter()
            .fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        let all = all << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = (all >> (18 - 6 * digit)) & 63;
            let is_there = digit <= three.len();
            text.push(match is_there {
                true => DIGITS[value as usize].into(),
                false => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_in_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }
}
