//! The tables: their columns, and how rows become them.

use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringDictionaryBuilder, UInt32Builder,
};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use crate::SCHEMA;

/// Key of the schema version in a table's Arrow metadata.
pub(crate) const SCHEMA_KEY: &str = "paceline.schema";

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Number of a flow or link.
    Id,
    /// A quantity. Signed, so that the difference of two columns is right in every tool.
    Int,
    /// A ratio.
    Ratio,
    /// Yes or no.
    Flag,
    /// A name, dictionary-encoded.
    Text,
}

impl Kind {
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Id => DataType::UInt32,
            Self::Int => DataType::Int64,
            Self::Ratio => DataType::Float64,
            Self::Flag => DataType::Boolean,
            Self::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        }
    }
}

/// A column that every table of its name has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) nullable: bool,
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        nullable: false,
    }
}

const fn nullable(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        nullable: true,
    }
}

/// The columns of a table by its name. `samples` has the controllers' own fields after these.
pub(crate) fn columns_of(table: &str) -> &'static [Column] {
    match table {
        "flows" => FLOWS,
        "samples" => SAMPLES,
        "queue" => QUEUE,
        "events" => EVENTS,
        "packets" => PACKETS,
        _ => &[],
    }
}

const FLOWS: &[Column] = &[
    column("flow", Kind::Id),
    column("cc", Kind::Text),
    column("label", Kind::Text),
    column("start_ns", Kind::Int),
    nullable("stop_ns", Kind::Int),
    nullable("finish_ns", Kind::Int),
    column("base_rtt_ns", Kind::Int),
    column("mss_bytes", Kind::Int),
    column("goodput_bytes", Kind::Int),
    column("sent_packets", Kind::Int),
    column("retransmitted_packets", Kind::Int),
    column("lost_packets", Kind::Int),
    column("spurious_packets", Kind::Int),
    column("rto_count", Kind::Int),
    column("tlp_count", Kind::Int),
];

const SAMPLES: &[Column] = &[
    column("t_ns", Kind::Int),
    column("flow", Kind::Id),
    nullable("cwnd_bytes", Kind::Int),
    column("in_flight_bytes", Kind::Int),
    nullable("pacing_bps", Kind::Int),
    nullable("delivery_bps", Kind::Int),
    nullable("rtt_ns", Kind::Int),
    nullable("srtt_ns", Kind::Int),
    nullable("min_rtt_ns", Kind::Int),
    column("goodput_bytes", Kind::Int),
    column("delivered_bytes", Kind::Int),
    column("sent_packets", Kind::Int),
    column("lost_packets", Kind::Int),
    column("retransmitted_packets", Kind::Int),
    column("phase", Kind::Text),
    column("ca_state", Kind::Text),
    column("app_limited", Kind::Flag),
];

const QUEUE: &[Column] = &[
    column("t_ns", Kind::Int),
    column("link", Kind::Id),
    column("backlog_bytes", Kind::Int),
    column("backlog_packets", Kind::Int),
    nullable("delay_ns", Kind::Int),
    column("peak_bytes", Kind::Int),
    nullable("rate_bps", Kind::Int),
    column("capacity_bytes", Kind::Int),
    column("delivered_bytes", Kind::Int),
    column("dropped_packets", Kind::Int),
    column("offered_packets", Kind::Int),
];

const EVENTS: &[Column] = &[
    column("t_ns", Kind::Int),
    nullable("flow", Kind::Id),
    column("kind", Kind::Text),
    nullable("from", Kind::Text),
    column("detail", Kind::Text),
];

const PACKETS: &[Column] = &[
    column("t_ns", Kind::Int),
    column("flow", Kind::Id),
    column("kind", Kind::Text),
    column("seq_bytes", Kind::Int),
    column("len_bytes", Kind::Int),
    column("window_bytes", Kind::Int),
];

/// The suffixes of names, and the unit that each stands for.
const UNITS: [(&str, &str); 6] = [
    ("_ns", "ns"),
    ("_bytes", "byte"),
    ("_bps", "bit/s"),
    ("_ratio", "1"),
    ("_packets", "packet"),
    ("_count", "1"),
];

/// The unit that the end of a name says, if it does.
pub(crate) fn unit_of(name: &str) -> Option<&'static str> {
    let (_, unit) = UNITS.iter().find(|(suffix, _)| name.ends_with(suffix))?;
    Some(unit)
}

/// A value in a row. `Null` goes into nullable columns only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cell<'a> {
    Id(u32),
    Int(i64),
    Ratio(f64),
    Flag(bool),
    Text(&'a str),
    Null,
}

/// A quantity; what does not fit saturates.
pub(crate) fn int<'a>(value: u64) -> Cell<'a> {
    Cell::Int(saturate(value))
}

pub(crate) fn saturate(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A quantity that may be absent, or `u64::MAX`, which stands for infinite in every unit.
pub(crate) fn finite<'a>(value: Option<u64>) -> Cell<'a> {
    match value {
        Some(value) if value != u64::MAX => int(value),
        _ => Cell::Null,
    }
}

enum Builder {
    Id(UInt32Builder),
    Int(Int64Builder),
    Ratio(Float64Builder),
    Flag(BooleanBuilder),
    Text(StringDictionaryBuilder<Int32Type>),
}

impl Builder {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Id => Self::Id(UInt32Builder::new()),
            Kind::Int => Self::Int(Int64Builder::new()),
            Kind::Ratio => Self::Ratio(Float64Builder::new()),
            Kind::Flag => Self::Flag(BooleanBuilder::new()),
            Kind::Text => Self::Text(StringDictionaryBuilder::new()),
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Id(b), Cell::Id(v)) => b.append_value(v),
            (Self::Int(b), Cell::Int(v)) => b.append_value(v),
            (Self::Ratio(b), Cell::Ratio(v)) => b.append_value(v),
            (Self::Flag(b), Cell::Flag(v)) => b.append_value(v),
            (Self::Text(b), Cell::Text(v)) => b.append_value(v),
            (builder, _) => builder.push_nulls(1),
        }
    }

    fn push_nulls(&mut self, count: usize) {
        match self {
            Self::Id(b) => b.append_nulls(count),
            Self::Int(b) => b.append_nulls(count),
            Self::Ratio(b) => b.append_nulls(count),
            Self::Flag(b) => b.append_nulls(count),
            Self::Text(b) => b.append_nulls(count),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Id(b) => Arc::new(b.finish()),
            Self::Int(b) => Arc::new(b.finish()),
            Self::Ratio(b) => Arc::new(b.finish()),
            Self::Flag(b) => Arc::new(b.finish()),
            Self::Text(b) => Arc::new(b.finish()),
        }
    }
}

/// A table that grows row by row.
pub(crate) struct TableBuilder {
    rows: usize,
    fields: Vec<Field>,
    builders: Vec<Builder>,
    /// How many cells each column after the fixed ones has.
    filled: Vec<usize>,
}

impl TableBuilder {
    /// The table of that name, without rows.
    pub(crate) fn new(table: &str) -> Self {
        let columns = columns_of(table);
        Self {
            rows: 0,
            fields: columns
                .iter()
                .map(|c| field(c.name, c.kind, c.nullable))
                .collect(),
            builders: columns.iter().map(|c| Builder::new(c.kind)).collect(),
            filled: Vec::new(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|f| f.name() == name)
    }

    /// Adds a row: a cell for each fixed column, in their order.
    pub(crate) fn push<const N: usize>(&mut self, cells: [Cell<'_>; N]) {
        debug_assert_eq!(self.builders.len() - self.filled.len(), N);
        for (builder, cell) in self.builders.iter_mut().zip(cells) {
            builder.push(cell);
        }
        self.rows += 1;
    }

    /// Adds a nullable column after the others, and says which it is.
    pub(crate) fn add_column(&mut self, name: &str, kind: Kind) -> usize {
        self.fields.push(field(name, kind, true));
        self.builders.push(Builder::new(kind));
        self.filled.push(0);
        self.filled.len() - 1
    }

    /// Sets a cell of the latest row in an added column; what is not set is null, and of two
    /// values for one cell the first counts.
    pub(crate) fn set(&mut self, added: usize, cell: Cell<'_>) {
        let fixed = self.builders.len() - self.filled.len();
        let (Some(filled), Some(builder)) = (
            self.filled.get_mut(added),
            self.builders.get_mut(fixed + added),
        ) else {
            return;
        };
        if *filled >= self.rows {
            return;
        }
        if *filled + 1 < self.rows {
            builder.push_nulls(self.rows - 1 - *filled);
        }
        builder.push(cell);
        *filled = self.rows;
    }

    /// The table.
    pub(crate) fn finish(mut self) -> RecordBatch {
        let fixed = self.builders.len() - self.filled.len();
        for (builder, filled) in self.builders.iter_mut().skip(fixed).zip(&self.filled) {
            builder.push_nulls(self.rows - filled);
        }
        let schema =
            Schema::new(self.fields).with_metadata([(SCHEMA_KEY.to_owned(), SCHEMA.to_string())]);
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        // Every column has a cell for each row, and those of fixed columns are not null.
        RecordBatch::try_new(Arc::new(schema), arrays).expect("columns fit their table")
    }
}

fn field(name: &str, kind: Kind, nullable: bool) -> Field {
    let field = Field::new(name, kind.data_type(), nullable);
    match unit_of(name) {
        Some(unit) => field.with_metadata([("unit".to_owned(), unit.to_owned())]),
        None => field,
    }
}
