//! Tables: each is declared once, by [`table!`].

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};

use crate::column::Column;

/// Version of the tables and of `run.json`. A change that a reader must know about raises it; what a
/// later version added to a table is filled in when an earlier record is read.
pub const SCHEMA: u32 = 2;

/// Key of the schema version in a table's Arrow metadata.
pub(crate) const SCHEMA_KEY: &str = "paceline.schema";

/// A table of the record, as declared.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name, that of its file.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// The columns that it always has, in order.
    pub columns: &'static [Column],
}

impl Table {
    /// What a row takes in memory, in bytes, without columns after those that are declared.
    pub const fn row_bytes(&self) -> u64 {
        let (mut bits, mut n) = (0, 0);
        while n < self.columns.len() {
            bits += self.columns[n].kind.bits(self.columns[n].nullable);
            n += 1;
        }
        bits.div_ceil(8)
    }
}

/// A row of a table: see [`table!`].
pub(crate) trait Row: Sized {
    const TABLE: Table;
    /// The columns, as they grow.
    type Columns: Default;

    /// Adds the row to the columns.
    fn push(self, columns: &mut Self::Columns);

    /// The columns in their order.
    fn finish(columns: Self::Columns) -> Vec<ArrayRef>;

    /// The cells of a column from a row on, NaN for null; none of text, or if there is no such column.
    fn numbers(columns: &Self::Columns, name: &str, from: usize) -> Option<Vec<f64>>;
}

/// Declares a table: its row, its columns, their documentation.
///
/// ```ignore
/// table! {
///     /// A link at one time.
///     pub struct QueueRow in QueueColumns = "queue" {
///         /// When.
///         t_ns: Instant,
///         /// Waiting time of a packet that arrives now; null while the link is stopped.
///         delay_ns: Option<Duration>,
///         /// Packets marked with CE so far.
///         #[since(2)]
///         marked_packets: u64,
///     }
/// }
/// ```
///
/// A column is one line: its name, which ends in its unit, and the type of its cells (see
/// [`Cell`](crate::column::Cell)); the row's field has the same name and type. An `Option` makes the
/// column nullable. `#[since(N)]` says which version of the schema introduced it: in earlier records
/// it is null, or zero where it cannot be null.
macro_rules! table {
    ($(#[doc = $about:literal])+
     $(#[derive($($derive:ident),+)])?
     pub struct $row:ident in $columns:ident = $name:literal {
        $($(#[doc = $doc:literal])+ $(#[since($since:literal)])? $field:ident: $type:ty,)+
     }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        $(#[derive($($derive),+)])?
        pub struct $row { $($(#[doc = $doc])+ pub $field: $type),+ }

        #[derive(Default)]
        pub(crate) struct $columns {
            $($field: <$type as $crate::column::Cell>::Cells),+
        }

        impl $crate::table::Row for $row {
            const TABLE: $crate::table::Table = $crate::table::Table {
                name: $name,
                doc: concat!($($about),+),
                columns: &[$($crate::column::Column {
                    name: {
                        let name = stringify!($field);
                        assert!(
                            $crate::table::ends_in(name, <$type as $crate::column::Cell>::SUFFIX),
                            "the name of a column ends in the unit of its cells",
                        );
                        name
                    },
                    kind: <$type as $crate::column::Cell>::KIND,
                    nullable: <$type as $crate::column::Cell>::NULLABLE,
                    since: $crate::table::since!($($since)?),
                    doc: concat!($($doc),+),
                    words: <$type as $crate::column::Cell>::WORDS,
                }),+],
            };
            type Columns = $columns;

            fn push(self, columns: &mut $columns) {
                $($crate::column::Cell::push(self.$field, &mut columns.$field);)+
            }

            fn finish(columns: $columns) -> Vec<arrow_array::ArrayRef> {
                vec![$($crate::column::Cells::finish(columns.$field)),+]
            }

            fn numbers(columns: &$columns, name: &str, from: usize) -> Option<Vec<f64>> {
                match name {
                    $(stringify!($field) => $crate::column::Cells::numbers(&columns.$field, from),)+
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use table;

/// The version that introduced a column: the first unless another is given.
macro_rules! since {
    () => {
        1
    };
    ($since:literal) => {
        $since
    };
}
pub(crate) use since;

/// Whether a name ends so.
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
    pub(crate) fn new() -> Self {
        Self {
            rows: 0,
            columns: R::Columns::default(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn push(&mut self, row: R) {
        row.push(&mut self.columns);
        self.rows += 1;
    }

    /// See [`Row::numbers`].
    pub(crate) fn numbers(&self, name: &str, from: usize) -> Option<Vec<f64>> {
        R::numbers(&self.columns, name, from)
    }

    /// The table, with further columns after its own.
    pub(crate) fn finish(
        self,
        further: impl IntoIterator<Item = (Field, ArrayRef)>,
    ) -> RecordBatch {
        let mut fields: Vec<Field> = R::TABLE.columns.iter().map(Column::field).collect();
        let mut arrays = R::finish(self.columns);
        for (field, array) in further {
            fields.push(field);
            arrays.push(array);
        }
        // Every column has a cell for each row, and those that are not nullable have no null.
        RecordBatch::try_new(Arc::new(schema(fields)), arrays).expect("columns fit their table")
    }
}

/// The schema of a table as this version writes it.
pub(crate) fn schema(fields: Vec<Field>) -> Schema {
    Schema::new(fields).with_metadata([(SCHEMA_KEY.to_owned(), SCHEMA.to_string())])
}
