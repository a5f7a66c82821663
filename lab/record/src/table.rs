//! Tables: each is declared once, as a struct that derives [`Row`](paceline_derive::Row).

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};

#[cfg(feature = "folder")]
use crate::column::SoFar;
use crate::column::{Column, Complete};

/// Version of the tables and of `run.json`. A change that a reader must know about increments it, and
/// records of another version are refused.
pub const SCHEMA: u32 = 2;

/// Key of the schema version in a table's Arrow metadata.
pub(crate) const SCHEMA_KEY: &str = "paceline.schema";

/// A table of the record, as declared.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name, which is also its file's.
    pub name: &'static str,
    /// The meaning of a row.
    pub doc: &'static str,
    /// The columns that it always has, in order.
    pub columns: &'static [Column],
}

impl Table {
    /// Memory of a row, in bytes, without the columns after the declared ones.
    pub const fn row_bytes(&self) -> u64 {
        let (mut bits, mut n) = (0, 0);
        while n < self.columns.len() {
            bits += self.columns[n].kind.bits(self.columns[n].nullable);
            n += 1;
        }
        bits.div_ceil(8)
    }
}

/// A row of a table, as [`Row`](paceline_derive::Row) derives it.
pub(crate) trait Row: Sized {
    const TABLE: Table;
    /// The growing columns.
    type Columns;

    /// No rows; rows will cycle through this many flows or links.
    fn columns(period: usize) -> Self::Columns;

    /// Adds the row to the columns.
    fn push(self, columns: &mut Self::Columns);

    /// The columns in their order.
    fn finish(columns: Self::Columns) -> Vec<Complete>;

    /// The columns so far, in their order.
    #[cfg(feature = "folder")]
    fn so_far(columns: &Self::Columns) -> Vec<SoFar<'_>>;

    /// The cells of a column from a row on, NaN for null; none for text, or if there is no such
    /// column.
    fn numbers(columns: &Self::Columns, name: &str, from: usize) -> Option<Vec<f64>>;
}

/// Whether a name has this suffix.
pub(crate) const fn ends_in(name: &str, suffix: &str) -> bool {
    let (name, suffix) = (name.as_bytes(), suffix.as_bytes());
    let mut n = 0;
    while n < suffix.len() {
        if n == name.len() || name[name.len() - 1 - n] != suffix[suffix.len() - 1 - n] {
            return false;
        }
        n += 1;
    }
    true
}

/// A table that grows row by row.
pub(crate) struct TableBuilder<R: Row> {
    rows: usize,
    columns: R::Columns,
}

impl<R: Row> TableBuilder<R> {
    /// An empty table; its rows cycle through this many flows or links.
    pub(crate) fn new(period: usize) -> Self {
        Self {
            rows: 0,
            columns: R::columns(period),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn push(&mut self, row: R) {
        row.push(&mut self.columns);
        self.rows += 1;
    }

    /// See [`Row::so_far`].
    #[cfg(feature = "folder")]
    pub(crate) fn so_far(&self) -> Vec<SoFar<'_>> {
        R::so_far(&self.columns)
    }

    /// See [`Row::numbers`].
    pub(crate) fn numbers(&self, name: &str, from: usize) -> Option<Vec<f64>> {
        R::numbers(&self.columns, name, from)
    }

    /// The table, with further columns after its own.
    pub(crate) fn finish(self, further: impl IntoIterator<Item = (Field, Complete)>) -> Contents {
        let mut fields: Vec<Field> = R::TABLE.columns.iter().map(Column::field).collect();
        let mut columns = R::finish(self.columns);
        for (field, column) in further {
            fields.push(field);
            columns.push(column);
        }
        Contents::packed(fields, columns, self.rows)
    }
}

/// The content of a table. A recorded one is converted to arrays only on request.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    schema: SchemaRef,
    rows: usize,
    columns: Columns,
}

#[derive(Clone, Debug)]
enum Columns {
    Packed(Arc<[Complete]>),
    Arrays(Vec<ArrayRef>),
}

impl From<RecordBatch> for Contents {
    fn from(batch: RecordBatch) -> Self {
        let rows = batch.num_rows();
        let (schema, arrays, _) = batch.into_parts();
        Self {
            schema,
            rows,
            columns: Columns::Arrays(arrays),
        }
    }
}

impl Contents {
    /// A table of these columns, each with this many cells.
    pub(crate) fn packed(fields: Vec<Field>, columns: Vec<Complete>, rows: usize) -> Self {
        Self {
            schema: Arc::new(schema(fields)),
            rows,
            columns: Columns::Packed(columns.into()),
        }
    }

    #[cfg(feature = "folder")]
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Its columns, each built on request.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = (&Field, ArrayRef)> {
        let fields = self.schema.fields().iter().enumerate();
        fields.map(|(number, field)| (field.as_ref(), self.array(number)))
    }

    /// The column of this name.
    pub(crate) fn column(&self, name: &str) -> Option<ArrayRef> {
        Some(self.array(self.schema.index_of(name).ok()?))
    }

    fn array(&self, number: usize) -> ArrayRef {
        match &self.columns {
            Columns::Packed(columns) => columns[number].array(),
            Columns::Arrays(arrays) => Arc::clone(&arrays[number]),
        }
    }

    /// All of it.
    pub(crate) fn batch(&self) -> RecordBatch {
        self.batch_of((0..self.schema.fields().len()).collect())
    }

    /// The columns of these names, as far as it has them.
    pub(crate) fn only(&self, names: &[&str]) -> RecordBatch {
        let named = names
            .iter()
            .filter_map(|name| self.schema.index_of(name).ok());
        self.batch_of(named.collect())
    }

    fn batch_of(&self, numbers: Vec<usize>) -> RecordBatch {
        let arrays = numbers.iter().map(|number| self.array(*number)).collect();
        let schema = self.schema.project(&numbers);
        let schema = schema.expect("columns that there are");
        let rows = RecordBatchOptions::new().with_row_count(Some(self.rows));
        // Every column has a cell for each row, and those that are not nullable have no null.
        RecordBatch::try_new_with_options(Arc::new(schema), arrays, &rows)
            .expect("columns fit their table")
    }
}

/// The schema of a table as this version writes it.
pub(crate) fn schema(fields: Vec<Field>) -> Schema {
    Schema::new(fields).with_metadata([(SCHEMA_KEY.to_owned(), SCHEMA.to_string())])
}
