//! What happened: tables, metrics, the run folder.
//!
//! An engine hands rows to a [`Recorder`], which keeps them as Arrow columns; [`Recorder::finish`]
//! gives a [`Run`]: its tables, its metrics (each defined once, in [`metrics`]), and its folder on
//! disk. Nothing here knows an engine or a controller, only rows. All of it is deterministic: the
//! same rows give the same bytes.

mod aggregate;
mod columns;
mod counter;
mod expect;
mod fairness;
mod folder;
pub mod metrics;
mod recorder;
mod rounds;
mod rows;
mod run;
mod states;
#[cfg(test)]
mod testing;
mod view;

pub use aggregate::{Aggregate, aggregate, repeats_json};
pub use arrow_array;
pub use arrow_schema;
pub use expect::{Expectation, Op, Outcome, evaluate};
pub use folder::RecordError;
pub use recorder::Recorder;
pub use rows::{
    AckTimes, EventRow, FlowInfo, FlowTotals, LinkInfo, PacketRow, QueueRow, RunInfo, STATE,
    SampleRow,
};
pub use run::{FlowMetrics, Metric, Run};
pub use view::{FlowRows, Rows};

/// Version of the tables and of `run.json`. A change that a reader must know about raises it.
pub const SCHEMA: u32 = 1;

/// The tables of a run, in the order in which they are listed; `packets` is optional.
pub const TABLES: [&str; 5] = ["flows", "samples", "queue", "events", "packets"];
