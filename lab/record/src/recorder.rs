//! Converts rows into columns as they happen.

use std::collections::BTreeMap;

use paceline_units::{Bytes, Field, Instant, Visitor};
use serde::{Deserialize, Serialize};

#[cfg(feature = "folder")]
use crate::column::{Coding, SoFar};
use crate::column::{Complete, Kind, NONE, Text, field};
use crate::fields::FieldColumns;
use crate::info::{FlowInfo, RunInfo};
use crate::memory::RecordMemory;
use crate::packed::Packed;
use crate::rows::{EventRow, FlowRow, PacketRow, QueueRow, SampleRow};
use crate::run::Run;
use crate::table::{Contents, Row, Table, TableBuilder};

/// The totals of a flow, known when the run has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowTotals {
    /// Its number.
    pub flow: u32,
    /// Payload that the receiver has passed to its application in order.
    pub goodput: Bytes,
    /// When all of its data was delivered, if it was.
    pub finished: Option<Instant>,
    /// Its counters in the order of their declaration; none for one that the engine does not know.
    pub counters: Vec<Option<u64>>,
}

/// Takes the rows of a run as they happen, and stores them as packed columns: a cell takes a byte
/// or two if it differs little from that of the same flow one row before.
pub struct Recorder {
    info: RunInfo,
    counters: Vec<&'static str>,
    samples: TableBuilder<SampleRow>,
    fields: FieldColumns,
    /// Their memory in a row of `samples`, in bytes.
    field_bytes: u64,
    queue: TableBuilder<QueueRow>,
    events: TableBuilder<EventRow>,
    packets: TableBuilder<PacketRow>,
}

impl Recorder {
    /// An empty record of a run. All of its columns are known: `fields` are those of each flow's
    /// controller, `counters` names the engine's counters of every flow; each name ends in its
    /// unit.
    pub fn new(
        info: RunInfo,
        fields: &[Vec<Field>],
        counters: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let fields = FieldColumns::new(&info.flows, fields, SampleRow::TABLE.columns);
        let [(_, samples), (_, queue), (_, events), (_, packets)] = growing(&info);
        Self {
            field_bytes: fields.row_bytes(),
            fields,
            counters: counters.into_iter().collect(),
            samples: TableBuilder::new(samples),
            queue: TableBuilder::new(queue),
            events: TableBuilder::new(events),
            packets: TableBuilder::new(packets),
            info,
        }
    }

    /// The description of the run.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// A flow at one time. `show` passes the controller's own fields in the order of their
    /// declaration (`|visitor| controller.visit_state(visitor)`); fields left out at the end are
    /// null.
    pub fn sample(&mut self, row: SampleRow, show: impl FnOnce(&mut Visitor<'_>)) {
        self.fields.push(row.flow, show);
        self.samples.push(row);
    }

    /// A link at one time.
    pub fn queue(&mut self, row: QueueRow) {
        self.queue.push(row);
    }

    /// An event.
    pub fn event(&mut self, row: EventRow) {
        self.events.push(row);
    }

    /// A packet at one time. A run that never calls this has no table `packets`.
    pub fn packet(&mut self, row: PacketRow) {
        self.packets.push(row);
    }

    /// Memory of its tables so far when they are read.
    pub fn memory(&self) -> RecordMemory {
        RecordMemory::rows(
            self.samples.rows() as u64,
            self.field_bytes,
            self.queue.rows() as u64,
            self.events.rows() as u64,
            self.packets.rows() as u64,
        )
    }

    /// The cells so far of a column of numbers, `TABLE.COLUMN`, from a row on: NaN for null. None
    /// for text, for a controller's own fields and for `flows`, which is written at the end.
    pub fn numbers(&self, name: &str, from: usize) -> Option<Vec<f64>> {
        let (table, column) = name.split_once('.')?;
        match table {
            "samples" => self.samples.numbers(column, from),
            "queue" => self.queue.numbers(column, from),
            "events" => self.events.numbers(column, from),
            "packets" => self.packets.numbers(column, from),
            _ => None,
        }
    }

    /// The description of the run, the columns that its controllers' fields have, and its counters.
    #[cfg(feature = "folder")]
    pub(crate) fn described(&self) -> (&RunInfo, Vec<(String, Coding)>, &[&'static str]) {
        (&self.info, self.fields.described(), &self.counters)
    }

    /// The rows so far of the [`growing`] tables, and their columns.
    #[cfg(feature = "folder")]
    pub(crate) fn so_far(&self) -> [(usize, Vec<SoFar<'_>>); 4] {
        let mut samples = self.samples.so_far();
        samples.extend(self.fields.so_far());
        [
            (self.samples.rows(), samples),
            (self.queue.rows(), self.queue.so_far()),
            (self.events.rows(), self.events.so_far()),
            (self.packets.rows(), self.packets.so_far()),
        ]
    }

    /// The run ends now, early, for this reason.
    pub fn stop(&mut self, now: Instant, why: &str) {
        self.info.duration = now.since(Instant::ZERO);
        self.info.incomplete = Some(why.to_owned());
    }

    /// The complete record. A flow without totals has no counters.
    pub fn finish(self, totals: &[FlowTotals]) -> Run {
        let mut tables = vec![
            (
                FlowRow::TABLE.name,
                flows(&self.info.flows, totals, &self.counters),
            ),
            (
                SampleRow::TABLE.name,
                self.samples.finish(self.fields.finish()),
            ),
            (QueueRow::TABLE.name, self.queue.finish([])),
            (EventRow::TABLE.name, self.events.finish([])),
        ];
        if self.packets.rows() > 0 {
            tables.push((PacketRow::TABLE.name, self.packets.finish([])));
        }
        Run::new(self.info, tables).expect("tables as they were just built")
    }
}

/// The tables that grow while a run goes on; the rows of each cycle through this many flows or links.
pub(crate) fn growing(info: &RunInfo) -> [(Table, usize); 4] {
    [
        (SampleRow::TABLE, info.flows.len().max(1)),
        (QueueRow::TABLE, info.links.len().max(1)),
        (EventRow::TABLE, 1),
        (PacketRow::TABLE, 1),
    ]
}

/// The table of flows: the description of each, and its totals.
pub(crate) fn flows(
    flows: &[FlowInfo],
    totals: &[FlowTotals],
    counters: &[impl AsRef<str>],
) -> Contents {
    let totals: BTreeMap<u32, &FlowTotals> = totals.iter().map(|t| (t.flow, t)).collect();
    let mut table = TableBuilder::<FlowRow>::new(1);
    let mut counted: Vec<Packed> = counters.iter().map(|_| Packed::new(1)).collect();
    for flow in flows {
        let totals = totals.get(&flow.flow);
        table.push(FlowRow {
            flow: flow.flow,
            cc: Text::Owned(flow.cc.clone()),
            label: Text::Owned(flow.label.clone()),
            start_ns: flow.start,
            stop_ns: flow.stop,
            finish_ns: totals.and_then(|totals| totals.finished),
            base_rtt_ns: flow.base_rtt,
            mss_bytes: Bytes::new(flow.mss.into()),
            goodput_bytes: totals.map_or(Bytes::ZERO, |totals| totals.goodput),
        });
        for (number, cells) in counted.iter_mut().enumerate() {
            let count = totals.and_then(|totals| *totals.counters.get(number)?);
            cells.push(count.unwrap_or(NONE));
        }
    }
    let column = |(name, cells): (&str, Packed)| {
        let column = Complete::new::<Option<u64>>(cells);
        (field(name, Kind::Int, true), column)
    };
    let names = counters.iter().map(|name| name.as_ref());
    table.finish(names.zip(counted).map(column))
}
