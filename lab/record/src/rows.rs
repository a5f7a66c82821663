//! The tables: their rows, column by column.

use duplicate::duplicate_item;
use paceline_units::options::{Choice as _, choice};
use paceline_units::{Bytes, Duration, Instant, Rate, Setting};
use serde::{Deserialize, Serialize};

use crate::column::{Cell, Kind, Text, Words};
use crate::table::{Row, Table, table};

/// The tables of a run, in the order in which they are listed; `packets` is optional.
pub const TABLES: [Table; 5] = [
    FlowRow::TABLE,
    SampleRow::TABLE,
    QueueRow::TABLE,
    EventRow::TABLE,
    PacketRow::TABLE,
];

table! {
    /// A flow over the whole run. These columns are followed by the counters of the engine.
    #[derive(Default)]
    pub struct FlowRow in FlowColumns = "flows" {
        /// Its number, used in all other tables.
        flow: u32,
        /// Name of its controller.
        cc: Text,
        /// Its name in plots.
        label: Text,
        /// When it starts.
        start_ns: Instant,
        /// When the scenario stops it.
        stop_ns: Option<Instant>,
        /// When all of its data was delivered.
        finish_ns: Option<Instant>,
        /// RTT without queues.
        base_rtt_ns: Duration,
        /// Payload of a full packet.
        mss_bytes: Bytes,
        /// Payload that the receiver has passed to its application in order.
        goodput_bytes: Bytes,
    }
}

table! {
    /// A flow at one time. Counters run from the flow's start. Rows of a flow are in order of time,
    /// one every sample interval, the last one at the end of the run; there may be more between
    /// them, which metrics ignore. These columns are followed by the fields of the flows'
    /// controllers.
    #[derive(Default)]
    pub struct SampleRow in SampleColumns = "samples" {
        /// Time of the row.
        t_ns: Instant,
        /// The flow.
        flow: u32,
        /// The current congestion window.
        cwnd_bytes: Option<Bytes>,
        /// Sent and neither acknowledged nor declared lost.
        in_flight_bytes: Bytes,
        /// Pacing rate; null when the flow is not paced.
        pacing_bps: Option<Rate>,
        /// Delivery rate of the latest rate sample.
        delivery_bps: Option<Rate>,
        /// Latest RTT sample; null before the first, and in imported captures and qlogs if there was
        /// none since the row before.
        rtt_ns: Option<Duration>,
        /// Smoothed RTT.
        srtt_ns: Option<Duration>,
        /// Minimum RTT so far.
        min_rtt_ns: Option<Duration>,
        /// Payload that the receiver has passed to its application in order.
        goodput_bytes: Bytes,
        /// Bytes that the sender knows to be delivered.
        delivered_bytes: Bytes,
        /// Data packets sent, including retransmissions.
        sent_packets: u64,
        /// Packets declared lost.
        lost_packets: u64,
        /// Packets retransmitted.
        retransmitted_packets: u64,
        /// State of the controller.
        phase: Text,
        /// State of loss recovery.
        ca_state: Text,
        /// Whether the application, not the network, limits the flow.
        app_limited: bool,
    }
}

table! {
    /// A link at one time. Counters run from the start of the run. Rows of a link are in order of
    /// time, one every sample interval, the last one at the end of the run.
    #[derive(Copy, Default)]
    pub struct QueueRow in QueueColumns = "queue" {
        /// Time of the row.
        t_ns: Instant,
        /// The link: its position in the links of `run.json`.
        link: u32,
        /// Bytes waiting.
        backlog_bytes: Bytes,
        /// Packets waiting.
        backlog_packets: u64,
        /// Waiting time of a packet that arrives now; null while the link is stopped.
        delay_ns: Option<Duration>,
        /// Maximum backlog since the previous row.
        peak_bytes: Bytes,
        /// Current rate of the link.
        rate_bps: Option<Rate>,
        /// Wire bytes that the link could have carried so far.
        capacity_bytes: Bytes,
        /// Wire bytes that it has carried so far.
        delivered_bytes: Bytes,
        /// Packets dropped so far, for whatever cause.
        dropped_packets: u64,
        /// Packets offered to the link so far.
        offered_packets: u64,
        /// Packets marked with CE so far.
        #[since(2)]
        marked_packets: u64,
    }
}

choice! {
    /// The kind of an event.
    #[derive(Serialize, Deserialize)]
    pub enum EventKind {
        /// A flow starts: its connection is opened.
        Start = "start",
        /// Its connection is established.
        Established = "established",
        /// Its controller enters a state: `from` is the old one, `detail` the new one.
        State = "state",
        /// An episode of loss recovery begins, changes or ends: `from` is the old state, `detail`
        /// the new one.
        Recovery = "recovery",
        /// A retransmission timeout.
        Rto = "rto",
        /// A recovery episode is undone as spurious.
        Undo = "undo",
        /// All of a flow's data is delivered.
        Finish = "finish",
        /// The scenario stops a flow.
        Stop = "stop",
        /// A change requested by the scenario: `key` is the changed key, and `value` (in `unit`) or
        /// `detail` is its new value.
        Change = "change",
        /// A connection breaks: `detail` is the operating system's reason.
        Error = "error",
    }
}

table! {
    /// An event at one time.
    pub struct EventRow in EventColumns = "events" {
        /// Time of the event.
        t_ns: Instant,
        /// The flow; null for the path.
        flow: Option<u32>,
        /// The kind: see below.
        kind: EventKind,
        /// The previous state.
        from: Option<Text>,
        /// The new state, or another word.
        detail: Text,
        /// For a change: the link.
        #[since(2)]
        link: Option<u32>,
        /// For a change: the scenario's key (`rate`, `rtt`, `loss.p`, `app.rate`).
        #[since(2)]
        key: Option<Text>,
        /// For a change: the previous value, if the engine knows it.
        #[since(2)]
        before_value: Option<f64>,
        /// For a change: the new value.
        #[since(2)]
        value: Option<f64>,
        /// Unit of the values: `bit/s`, `ns`, `byte`, `packet` or `1`.
        #[since(2)]
        unit: Option<Text>,
    }
}

impl EventRow {
    /// A change of a key's value.
    pub fn change(t: Instant, key: impl Into<Text>, to: Setting) -> Self {
        let event = Self {
            key: Some(key.into()),
            ..Self::new(t, None, EventKind::Change)
        };
        match to {
            Setting::Value(value) => Self {
                value: value.number(),
                unit: Some(value.quantity().unit().into()),
                ..event
            },
            Setting::Word(word) => Self {
                detail: word.into(),
                ..event
            },
        }
    }

    /// An event without details.
    pub fn new(t: Instant, flow: Option<u32>, kind: EventKind) -> Self {
        Self {
            t_ns: t,
            flow,
            kind,
            from: None,
            detail: Text::default(),
            link: None,
            key: None,
            before_value: None,
            value: None,
            unit: None,
        }
    }

    /// A change from one state to another; there may be no previous one.
    pub fn between(self, from: impl Into<Text>, to: impl Into<Text>) -> Self {
        Self {
            from: Some(from.into()).filter(|from| !from.is_empty()),
            detail: to.into(),
            ..self
        }
    }
}

choice! {
    /// The fate of a packet.
    #[derive(Serialize, Deserialize)]
    pub enum PacketKind {
        /// It leaves its sender for the first time.
        Send = "send",
        /// It leaves its sender again.
        Retransmit = "retransmit",
        /// The path drops it.
        Drop = "drop",
        /// It reaches its receiver.
        Deliver = "deliver",
        /// It has reached its receiver with a CE mark.
        Mark = "mark",
        /// An acknowledgment reaches the sender: `seq_bytes` is the first byte that it does not cover.
        Ack = "ack",
        /// A SACK block of that acknowledgment, one row for each.
        Sack = "sack",
        /// A link of the return path loses an acknowledgment of TCP; the columns are those of `ack`.
        AckDrop = "ack-drop",
        /// An ACK filter removes it, or it is thinned out.
        AckFilter = "ack-filter",
    }
}

table! {
    /// A packet at one time. The table exists if the scenario asks for it (`run.record.packets`).
    #[derive(Copy)]
    pub struct PacketRow in PacketColumns = "packets" {
        /// Time of the row.
        t_ns: Instant,
        /// The flow.
        flow: u32,
        /// The kind: see below.
        kind: PacketKind,
        /// Its first byte in the stream.
        seq_bytes: Bytes,
        /// Its payload.
        len_bytes: Bytes,
        /// The receive window that an acknowledgment announces.
        window_bytes: Bytes,
        /// When the acknowledgment left the receiver, in the clock that both ends share.
        #[since(2)]
        departed_ns: Option<Instant>,
        /// When the segment that it echoes left the sender.
        #[since(2)]
        echoed_ns: Option<Instant>,
        /// How long the receiver held that segment.
        #[since(2)]
        held_ns: Option<Duration>,
    }
}

impl PacketRow {
    /// A row about this many bytes of the stream.
    pub fn new(t: Instant, flow: u32, kind: PacketKind, seq: u64, len: u64) -> Self {
        Self {
            t_ns: t,
            flow,
            kind,
            seq_bytes: Bytes::new(seq),
            len_bytes: Bytes::new(len),
            window_bytes: Bytes::ZERO,
            departed_ns: None,
            echoed_ns: None,
            held_ns: None,
        }
    }
}

#[duplicate_item(Word; [EventKind]; [PacketKind])]
impl Cell for Word {
    type Cells = Words<Self>;
    const KIND: Kind = Kind::Text;
    const WORDS: &'static [(&'static str, &'static str)] = Self::MEANINGS;

    fn push(self, column: &mut Self::Cells) {
        column.push(self);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::table::SCHEMA;

    #[test]
    fn every_column_says_what_it_is() {
        for table in TABLES {
            let names: BTreeSet<_> = table.columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
            for column in table.columns {
                assert!(
                    column.doc.ends_with('.') || !column.words.is_empty(),
                    "{column:?}"
                );
                assert!((1..=SCHEMA).contains(&column.since), "{column:?}");
            }
        }
    }

    #[test]
    fn words_are_kept_in_the_order_in_which_they_come() {
        use arrow_array::cast::AsArray;
        use arrow_array::types::Int32Type;

        use crate::table::TableBuilder;

        let mut table = TableBuilder::<PacketRow>::new(1);
        for kind in [PacketKind::Sack, PacketKind::Send, PacketKind::Sack] {
            table.push(PacketRow::new(Instant::ZERO, 0, kind, 0, 0));
        }
        let batch = table.finish([]).batch();
        let kinds = batch.column_by_name("kind").unwrap();
        let kinds = kinds.as_dictionary::<Int32Type>();
        assert_eq!(kinds.keys().values(), &[0, 1, 0]);
        let words: Vec<_> = kinds.values().as_string::<i32>().iter().flatten().collect();
        assert_eq!(words, ["sack", "send"]);
    }
}
