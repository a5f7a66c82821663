//! The results of a run: tables, metrics, the run folder.
//!
//! An engine passes rows to a [`Recorder`], which stores them as Arrow columns;
//! [`Recorder::finish`] returns a [`Run`]: its tables, its metrics (each defined once, in
//! [`metrics`]), and its folder on disk. Nothing here knows an engine or a controller, only rows.
//! All of it is deterministic: the same rows give the same bytes.

mod column;
mod counter;
mod digest;
mod error;
mod expect;
mod fairness;
mod fields;
#[cfg(feature = "folder")]
mod folder;
mod info;
mod memory;
mod metric;
pub mod metrics;
mod notes;
mod packed;
mod recorder;
pub mod regular;
mod rounds;
mod rows;
mod run;
mod series;
mod states;
mod table;
#[cfg(test)]
mod testing;
mod view;

pub use arrow_array;
pub use arrow_schema;
pub use column::{Column, Kind, Text};
pub use error::RecordError;
pub use expect::{Expectation, Outcome, evaluate};
pub use fields::column_name;
#[cfg(feature = "folder")]
pub use folder::{Stream, table_size};
pub use info::{FlowInfo, GuestInfo, LinkInfo, RunInfo};
pub use memory::{RecordMemory, in_words};
pub use metric::{FlowMetrics, Metric};
pub use recorder::{FlowTotals, Recorder};
pub use rows::{EventKind, EventRow, FlowRow, PacketKind, PacketRow, QueueRow, SampleRow, TABLES};
pub use run::Run;
pub use series::{FlowSeries, Series};
pub use table::{SCHEMA, Table};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
