use std::borrow::Cow;
use std::collections::BTreeMap;

use paceline_units::{Bytes, Duration, Gain, Rate, Value};

use crate::columns::{Cell, Kind, TableBuilder, finite, int};
use crate::{EventRow, FlowTotals, PacketRow, QueueRow, Run, RunInfo, SampleRow};

/// Takes the rows of a run as they happen, and keeps them as columns: some 150 bytes for a row of
/// `samples`, plus 8 for each field of the controller.
pub struct Recorder {
    info: RunInfo,
    samples: TableBuilder,
    fields: Vec<FieldKey>,
    queue: TableBuilder,
    /// The column of marks in `queue`.
    marked: Option<usize>,
    events: TableBuilder,
    packets: TableBuilder,
    /// The columns of what acknowledgments say, in `packets`.
    told: Option<[usize; 3]>,
}

/// What tells one field of a controller from another: two controllers may use one name for
/// quantities of two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldKey {
    name: &'static str,
    suffix: &'static str,
    kind: Kind,
}

impl FieldKey {
    fn new(name: &'static str, value: Value) -> Self {
        let (suffix, kind) = match value {
            Value::Bytes(_) => ("_bytes", Kind::Int),
            Value::Rate(_) => ("_bps", Kind::Int),
            Value::Duration(_) => ("_ns", Kind::Int),
            Value::Gain(_) => ("_ratio", Kind::Ratio),
            Value::Count(_) => ("", Kind::Int),
            Value::Flag(_) => ("", Kind::Flag),
        };
        Self { name, suffix, kind }
    }

    /// Equal down to the addresses of its texts: what a controller's code says again is, and this
    /// runs for every field of every row.
    fn is_literally(&self, other: &Self) -> bool {
        std::ptr::eq(self.name, other.name)
            && std::ptr::eq(self.suffix, other.suffix)
            && self.kind == other.kind
    }

    /// The name of its column; one that is taken gets `cc_` in front (`cc_min_rtt_ns` is the
    /// controller's, `min_rtt_ns` the transport's).
    fn column(self, table: &TableBuilder) -> String {
        let mut name = Cow::Borrowed(self.name);
        if !name.ends_with(self.suffix) {
            name.to_mut().push_str(self.suffix);
        }
        while table.has(&name) {
            name = Cow::Owned(format!("cc_{name}"));
        }
        name.into_owned()
    }
}

impl Recorder {
    /// An empty record of a run.
    pub fn new(info: RunInfo) -> Self {
        Self {
            info,
            samples: TableBuilder::new("samples"),
            fields: Vec::new(),
            queue: TableBuilder::new("queue"),
            marked: None,
            told: None,
            events: TableBuilder::new("events"),
            packets: TableBuilder::new("packets"),
        }
    }

    /// A flow at one time. `fields` hands over the controller's own fields, one call for each
    /// (`|visit| controller.visit_state(visit)`). A field becomes a column when it is first seen,
    /// null wherever a row does not have it; its name ends in the unit of its value.
    pub fn sample(
        &mut self,
        row: &SampleRow,
        fields: impl FnOnce(&mut dyn FnMut(&'static str, Value)),
    ) {
        self.samples.push([
            int(row.t.as_nanos()),
            Cell::Id(row.flow),
            finite(Some(row.cwnd.get())),
            int(row.in_flight.get()),
            finite(row.pacing_rate.map(Rate::bps)),
            finite(Some(row.delivery_rate.bps())),
            finite(row.rtt.map(Duration::as_nanos)),
            finite(row.srtt.map(Duration::as_nanos)),
            finite(row.min_rtt.map(Duration::as_nanos)),
            int(row.goodput.get()),
            int(row.delivered.get()),
            int(row.sent_packets),
            int(row.lost_packets),
            int(row.retransmitted_packets),
            Cell::Text(row.phase),
            Cell::Text(row.ca_state),
            Cell::Flag(row.app_limited),
        ]);
        // A controller visits its fields in one order: the next one is most likely the next column.
        let mut next = 0;
        fields(&mut |name, value| {
            let key = FieldKey::new(name, value);
            let column = if self.fields.get(next).is_some_and(|k| k.is_literally(&key)) {
                next
            } else if let Some(found) = self.fields.iter().position(|k| *k == key) {
                found
            } else {
                self.fields.push(key);
                let name = key.column(&self.samples);
                self.samples.add_column(&name, key.kind)
            };
            next = column + 1;
            self.samples.set(column, cell(value));
        });
    }

    /// A link at one time.
    pub fn queue(&mut self, row: &QueueRow) {
        self.queue.push([
            int(row.t.as_nanos()),
            Cell::Id(row.link),
            int(row.backlog.get()),
            int(row.packets),
            finite(Some(row.delay.as_nanos())),
            int(row.peak.get()),
            finite(Some(row.rate.bps())),
            int(row.capacity.get()),
            int(row.delivered.get()),
            int(row.dropped_packets),
            int(row.offered_packets),
        ]);
        if self.marked.is_none() && row.marked_packets > 0 {
            self.marked = Some(self.queue.add_column("marked_packets", Kind::Int));
        }
        if let Some(column) = self.marked {
            self.queue.set(column, int(row.marked_packets));
        }
    }

    /// Something that happened.
    pub fn event(&mut self, row: &EventRow<'_>) {
        self.events.push([
            int(row.t.as_nanos()),
            row.flow.map_or(Cell::Null, Cell::Id),
            Cell::Text(row.kind),
            match row.from {
                "" => Cell::Null,
                from => Cell::Text(from),
            },
            Cell::Text(row.detail),
        ]);
    }

    /// A packet at one time. A run that never calls this has no table `packets`.
    pub fn packet(&mut self, row: &PacketRow) {
        self.packets.push([
            int(row.t.as_nanos()),
            Cell::Id(row.flow),
            Cell::Text(row.kind),
            int(row.seq),
            int(u64::from(row.len)),
            int(row.window),
        ]);
        if let Some(told) = row.told {
            let times = told.times();
            let columns = *self.told.get_or_insert_with(|| {
                times.map(|(name, _)| self.packets.add_column(name, Kind::Int))
            });
            for (column, (_, nanos)) in columns.into_iter().zip(times) {
                self.packets.set(column, int(nanos));
            }
        }
    }

    /// The record, whole. A flow without totals has totals of zero.
    pub fn finish(self, totals: &[FlowTotals]) -> Run {
        let mut flows = TableBuilder::new("flows");
        let totals: BTreeMap<u32, &FlowTotals> = totals.iter().map(|t| (t.flow, t)).collect();
        for flow in &self.info.flows {
            let totals = totals.get(&flow.flow).copied().copied().unwrap_or_default();
            flows.push([
                Cell::Id(flow.flow),
                Cell::Text(&flow.cc),
                Cell::Text(&flow.label),
                int(flow.start.as_nanos()),
                finite(flow.stop.map(|t| t.as_nanos())),
                finite(totals.finished.map(|t| t.as_nanos())),
                int(flow.base_rtt.as_nanos()),
                int(u64::from(flow.mss)),
                int(totals.goodput.get()),
                int(totals.packets_sent),
                int(totals.packets_retransmitted),
                int(totals.packets_lost),
                int(totals.spurious_losses),
                int(totals.rto_count),
                int(totals.tlp_count),
            ]);
        }
        let mut tables = vec![
            ("flows", flows.finish()),
            ("samples", self.samples.finish()),
            ("queue", self.queue.finish()),
            ("events", self.events.finish()),
        ];
        if self.packets.rows() > 0 {
            tables.push(("packets", self.packets.finish()));
        }
        Run::new(self.info, tables).expect("tables as they were just built")
    }
}

/// A field's value; what is infinite is null.
fn cell<'a>(value: Value) -> Cell<'a> {
    match value {
        Value::Bytes(v) => finite(Some(Bytes::get(v))),
        Value::Rate(v) => finite(Some(v.bps())),
        Value::Duration(v) => finite(Some(v.as_nanos())),
        Value::Gain(v) => Cell::Ratio(f64::from(v.millionths()) / f64::from(Gain::SCALE)),
        Value::Count(v) => finite(Some(v)),
        Value::Flag(v) => Cell::Flag(v),
    }
}
