//! One number for everything that a run recorded: two engines agree if it is equal.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_schema::DataType;
use sha2::{Digest, Sha256};

use crate::table::Contents;

/// SHA-256 of names, types and values of tables, in hexadecimal. Bits of floats and nulls count;
/// the storage format of a table does not.
pub(crate) fn of(tables: &[(&'static str, Contents)]) -> String {
    let mut hash = Sha256::new();
    for (name, contents) in tables {
        text(&mut hash, name);
        hash.update((contents.rows() as u64).to_le_bytes());
        for (field, column) in contents.arrays() {
            text(&mut hash, field.name());
            values(&mut hash, column.as_ref());
        }
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}

fn values(hash: &mut Sha256, column: &dyn Array) {
    text(hash, &column.data_type().to_string());
    for row in 0..column.len() {
        hash.update([u8::from(column.is_valid(row))]);
        if column.is_null(row) {
            continue;
        }
        match column.data_type() {
            DataType::UInt32 => {
                hash.update(column.as_primitive::<UInt32Type>().value(row).to_le_bytes())
            }
            DataType::Int64 => {
                hash.update(column.as_primitive::<Int64Type>().value(row).to_le_bytes())
            }
            DataType::Float64 => {
                let value = column.as_primitive::<Float64Type>().value(row);
                hash.update(value.to_bits().to_le_bytes());
            }
            DataType::Boolean => hash.update([u8::from(column.as_boolean().value(row))]),
            DataType::Dictionary(..) => {
                let words = column.as_dictionary::<Int32Type>();
                let key = words.keys().value(row) as usize;
                text(hash, words.values().as_string::<i32>().value(key));
            }
            other => unreachable!("no column is of type {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};

    use super::*;

    fn table(name: &str, column: ArrayRef) -> String {
        let batch = RecordBatch::try_from_iter([(name, column)]).unwrap();
        of(&[("t", batch.into())])
    }

    #[test]
    fn names_types_values_and_nulls_count() {
        let ints = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let one = table("a", ints(vec![Some(1), None]));
        assert_eq!(one, table("a", ints(vec![Some(1), None])));
        let others = [
            table("b", ints(vec![Some(1), None])),
            table("a", ints(vec![None, Some(1)])),
            table("a", ints(vec![Some(1), Some(0)])),
            table("a", ints(vec![Some(1)])),
            table("a", Arc::new(Float64Array::from(vec![Some(1.0), None]))),
        ];
        for other in &others {
            assert_ne!(*other, one);
        }
        // A slice contains only its own rows.
        assert_eq!(table("a", ints(vec![None, Some(1), None]).slice(1, 2)), one);
        // The bits of a float: zero has two signs.
        let float = |value: f64| table("a", Arc::new(Float64Array::from(vec![value])));
        assert_ne!(float(0.0), float(-0.0));
    }

    #[test]
    fn it_is_the_sha_256_of_what_is_written_above() {
        let mut by_hand: Vec<u8> = Vec::new();
        let text = |bytes: &mut Vec<u8>, word: &str| {
            bytes.extend((word.len() as u64).to_le_bytes());
            bytes.extend(word.as_bytes());
        };
        text(&mut by_hand, "t");
        by_hand.extend(1_u64.to_le_bytes());
        text(&mut by_hand, "a");
        text(&mut by_hand, "Int64");
        by_hand.push(1);
        by_hand.extend(7_i64.to_le_bytes());
        let hash = Sha256::digest(&by_hand);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(table("a", Arc::new(Int64Array::from(vec![7]))), hex);
    }
}
