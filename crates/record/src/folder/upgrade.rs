//! Converts tables of earlier schemas.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, UInt32Array, new_null_array,
};
use arrow_schema::{Field, Schema};

use crate::column::{Column, Kind};
use crate::error::RecordError;
use crate::rows::EventKind;
use crate::table::Table;
use crate::view::TableView;

/// A table written in `version`, with later columns added as null or zero.
pub fn table(table: &Table, version: u32, batch: &RecordBatch) -> Result<RecordBatch, RecordError> {
    let batch = match (table.name, version) {
        ("events", 1) => changes(batch)?,
        _ => batch.clone(),
    };
    let mut columns: Vec<(Field, ArrayRef)> = Vec::new();
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        columns.push((field.as_ref().clone(), array.clone()));
    }
    for column in table.columns.iter().filter(|column| column.since > version) {
        let place = columns
            .iter()
            .position(|(field, _)| field.name() == column.name);
        let place = place.unwrap_or_else(|| {
            let none = new_null_array(&column.kind.data_type(), batch.num_rows());
            columns.push((column.field(), none));
            columns.len() - 1
        });
        if let Some((field, array)) = columns.get_mut(place).filter(|_| !column.nullable) {
            (*field, *array) = (column.field(), filled(column, array));
        }
    }
    Ok(of_columns(columns))
}

fn of_columns(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<Field>, _) = columns.into_iter().unzip();
    // Each array has the type of its field and the rows of the batch.
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one table")
}

/// A column that cannot be null: its nulls become zero.
fn filled(column: &Column, array: &ArrayRef) -> ArrayRef {
    let rows = array.len();
    match column.kind {
        Kind::Int => match array.as_primitive_opt::<Int64Type>() {
            Some(values) => {
                let mut cells = Int64Builder::with_capacity(rows);
                values
                    .iter()
                    .for_each(|value| cells.append_value(value.unwrap_or(0)));
                Arc::new(cells.finish())
            }
            // Of another type, which is reported as an error elsewhere.
            None => array.clone(),
        },
        Kind::Id => Arc::new(UInt32Array::from(vec![0; rows])),
        Kind::Real => Arc::new(Float64Array::from(vec![0.0; rows])),
        Kind::Flag => Arc::new(BooleanArray::from(vec![false; rows])),
        Kind::Text => texts(std::iter::repeat_n(Some(""), rows)),
    }
}

fn texts<'a>(names: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut cells = StringDictionaryBuilder::<Int32Type>::new();
    names.for_each(|name| cells.append_option(name));
    Arc::new(cells.finish())
}

/// Events of schema 1: each change requested by the scenario had its own kind, and its values were
/// text.
fn changes(batch: &RecordBatch) -> Result<RecordBatch, RecordError> {
    let table = TableView {
        table: "events",
        batch,
    };
    let known = |kind: &str| EventKind::ALL.iter().any(|(word, _)| *word == kind);
    let (mut kinds, mut keys, mut units) = (Vec::new(), Vec::new(), Vec::new());
    let (mut olds, mut befores) = (Vec::new(), Vec::new());
    let (mut news, mut values) = (Vec::new(), Vec::new());
    let rows = table.texts("kind")?.into_iter().zip(table.texts("from")?);
    for ((kind, old), new) in rows.zip(table.texts("detail")?) {
        let key = kind.filter(|kind| !known(kind));
        let before = old.filter(|_| key.is_some()).and_then(number);
        let value = new.filter(|_| key.is_some()).and_then(number);
        kinds.push(key.map_or(kind, |_| Some(EventKind::Change.word())));
        keys.push(key);
        olds.push(if before.is_some() { None } else { old });
        befores.push(before.map(|(value, _)| value));
        news.push(if value.is_some() { Some("") } else { new });
        values.push(value.map(|(value, _)| value));
        units.push(value.or(before).map(|(_, unit)| unit));
    }
    let columns: [(&str, ArrayRef); 7] = [
        ("kind", texts(kinds.into_iter())),
        ("from", texts(olds.into_iter())),
        ("detail", texts(news.into_iter())),
        ("key", texts(keys.into_iter())),
        ("before_value", Arc::new(Float64Array::from(befores))),
        ("value", Arc::new(Float64Array::from(values))),
        ("unit", texts(units.into_iter())),
    ];
    let kept = |name: &str| columns.iter().all(|(changed, _)| *changed != name);
    let mut all: Vec<(Field, ArrayRef)> = Vec::new();
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        if kept(field.name()) {
            all.push((field.as_ref().clone(), array.clone()));
        }
    }
    for (name, array) in columns {
        let field = Field::new(name, array.data_type().clone(), true);
        all.push((field, array));
    }
    Ok(of_columns(all))
}

/// A number and its unit.
fn number(text: &str) -> Option<(f64, &str)> {
    let (number, unit) = text.split_once(' ')?;
    let known = ["bit/s", "ns"].contains(&unit);
    Some((number.parse().ok().filter(|_| known)?, unit))
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use arrow_array::types::Float64Type;

    use super::*;
    use crate::rows::{EventRow, QueueRow};
    use crate::table::Row;

    fn of(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let column = |(name, array): (&str, ArrayRef)| {
            (Field::new(name, array.data_type().clone(), true), array)
        };
        of_columns(columns.into_iter().map(column).collect())
    }

    fn words(batch: &RecordBatch, name: &'static str) -> Vec<Option<String>> {
        let view = TableView {
            table: "events",
            batch,
        };
        let texts = view.texts(name).unwrap().into_iter();
        texts.map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn a_change_of_schema_1_is_one_of_today() {
        let text = |words: [&'static str; 4]| texts(words.into_iter().map(Some));
        let old = of(vec![
            ("kind", text(["state", "rate", "hold", "rtt"])),
            (
                "from",
                texts([Some("Up"), Some("8 bit/s"), None, None].into_iter()),
            ),
            (
                "detail",
                text(["Down", "4 bit/s", "3 packets for 9 ns", "60 ns"]),
            ),
        ]);
        let new = table(&EventRow::TABLE, 1, &old).unwrap();
        let some = |words: [&str; 4]| words.map(|w| Some(w.to_owned()).filter(|w| w != "-"));
        assert_eq!(
            words(&new, "kind"),
            some(["state", "change", "change", "change"])
        );
        assert_eq!(words(&new, "key"), some(["-", "rate", "hold", "rtt"]));
        assert_eq!(words(&new, "from"), some(["Up", "-", "-", "-"]));
        // Text that is not a number with a unit stays unchanged.
        assert_eq!(
            words(&new, "detail"),
            some(["Down", "", "3 packets for 9 ns", ""])
        );
        assert_eq!(words(&new, "unit"), some(["-", "bit/s", "-", "ns"]));
        let reals = |name: &str| -> Vec<Option<f64>> {
            let column = new.column_by_name(name).unwrap();
            column.as_primitive::<Float64Type>().iter().collect()
        };
        assert_eq!(reals("value"), [None, Some(4.0), None, Some(60.0)]);
        assert_eq!(reals("before_value"), [None, Some(8.0), None, None]);
        assert_eq!(new.column_by_name("link").unwrap().null_count(), 4);
    }

    #[test]
    fn a_later_column_is_null_or_zero() {
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(3)]));
        let link: ArrayRef = Arc::new(UInt32Array::from(vec![0, 1]));
        let marked = |old: &RecordBatch| {
            let new = table(&QueueRow::TABLE, 1, old).unwrap();
            let column = new.column_by_name("marked_packets").unwrap();
            column
                .as_primitive::<Int64Type>()
                .iter()
                .collect::<Vec<_>>()
        };
        let before_the_first = of(vec![("link", link.clone()), ("marked_packets", counts)]);
        assert_eq!(marked(&before_the_first), [Some(0), Some(3)]);
        assert_eq!(marked(&of(vec![("link", link)])), [Some(0), Some(0)]);
    }
}
