//! The tables: their rows, column by column.

use duplicate::duplicate_item;
use paceline_derive::Row;
use paceline_units::options::{Choice as _, choice};
use paceline_units::{Bytes, Duration, Instant, Rate, Setting};
use serde::{Deserialize, Serialize};

use crate::column::{Cell, Kind, Text, Words};
use crate::table::{Row as _, Table};

/// The tables of a run, in the order in which they are listed; `packets` is optional.
pub const TABLES: [Table; 5] = [
    FlowRow::TABLE,
    SampleRow::TABLE,
    QueueRow::TABLE,
    EventRow::TABLE,
    PacketRow::TABLE,
];

/// A flow over the whole run. These columns are followed by the counters of the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Row)]
#[row("flows")]
pub struct FlowRow {
    /// Its number, used in all other tables.
    pub flow: u32,
    /// Name of its controller.
    pub cc: Text,
    /// Its name in plots.
    pub label: Text,
    /// When it starts.
    pub start_ns: Instant,
    /// When the scenario stops it.
    pub stop_ns: Option<Instant>,
    /// When all of its data was delivered.
    pub finish_ns: Option<Instant>,
    /// RTT without queues.
    pub base_rtt_ns: Duration,
    /// Payload of a full packet.
    pub mss_bytes: Bytes,
    /// Payload that the receiver has passed to its application in order.
    pub goodput_bytes: Bytes,
}

/// A flow at one time. Counters run from the flow's start. Rows of a flow are in order of time,
/// one every sample interval, the last one at the end of the run; there may be more between
/// them, which metrics ignore. These columns are followed by the fields of the flows'
/// controllers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Row)]
#[row("samples")]
pub struct SampleRow {
    /// Time of the row.
    pub t_ns: Instant,
    /// The flow.
    pub flow: u32,
    /// The current congestion window.
    pub cwnd_bytes: Option<Bytes>,
    /// Sent and neither acknowledged nor declared lost.
    pub in_flight_bytes: Bytes,
    /// Pacing rate; null when the flow is not paced.
    pub pacing_bps: Option<Rate>,
    /// Delivery rate of the latest rate sample.
    pub delivery_bps: Option<Rate>,
    /// Latest RTT sample; null before the first, and in imported captures and qlogs if there was
    /// none since the row before.
    pub rtt_ns: Option<Duration>,
    /// Smoothed RTT.
    pub srtt_ns: Option<Duration>,
    /// Minimum RTT so far.
    pub min_rtt_ns: Option<Duration>,
    /// Payload that the receiver has passed to its application in order.
    pub goodput_bytes: Bytes,
    /// Bytes that the sender knows to be delivered.
    pub delivered_bytes: Bytes,
    /// Data packets sent, including retransmissions.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets retransmitted.
    pub retransmitted_packets: u64,
    /// State of the controller.
    pub phase: Text,
    /// State of loss recovery.
    pub ca_state: Text,
    /// Whether the application, not the network, limits the flow.
    pub app_limited: bool,
}

/// A link at one time. Counters run from the start of the run. Rows of a link are in order of
/// time, one every sample interval, the last one at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Row)]
#[row("queue")]
pub struct QueueRow {
    /// Time of the row.
    pub t_ns: Instant,
    /// The link: its position in the links of `run.json`.
    pub link: u32,
    /// Bytes waiting.
    pub backlog_bytes: Bytes,
    /// Packets waiting.
    pub backlog_packets: u64,
    /// Waiting time of a packet that arrives now; null while the link is stopped.
    pub delay_ns: Option<Duration>,
    /// Maximum backlog since the previous row.
    pub peak_bytes: Bytes,
    /// Current rate of the link.
    pub rate_bps: Option<Rate>,
    /// Wire bytes that the link could have carried so far.
    pub capacity_bytes: Bytes,
    /// Wire bytes that it has carried so far.
    pub delivered_bytes: Bytes,
    /// Packets dropped so far, for whatever cause.
    pub dropped_packets: u64,
    /// Packets offered to the link so far.
    pub offered_packets: u64,
    /// Packets marked with CE so far.
    #[since(2)]
    pub marked_packets: u64,
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

/// An event at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row("events")]
pub struct EventRow {
    /// Time of the event.
    pub t_ns: Instant,
    /// The flow; null for the path.
    pub flow: Option<u32>,
    /// The kind: see below.
    pub kind: EventKind,
    /// The previous state.
    pub from: Option<Text>,
    /// The new state, or another word.
    pub detail: Text,
    /// For a change: the link.
    #[since(2)]
    pub link: Option<u32>,
    /// For a change: the scenario's key (`rate`, `rtt`, `loss.p`, `app.rate`).
    #[since(2)]
    pub key: Option<Text>,
    /// For a change: the previous value, if the engine knows it.
    #[since(2)]
    pub before_value: Option<f64>,
    /// For a change: the new value.
    #[since(2)]
    pub value: Option<f64>,
    /// Unit of the values: `bit/s`, `ns`, `byte`, `packet` or `1`.
    #[since(2)]
    pub unit: Option<Text>,
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

/// A packet at one time. The table exists if the scenario asks for it (`run.record.packets`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Row)]
#[row("packets")]
pub struct PacketRow {
    /// Time of the row.
    pub t_ns: Instant,
    /// The flow.
    pub flow: u32,
    /// The kind: see below.
    pub kind: PacketKind,
    /// Its first byte in the stream.
    pub seq_bytes: Bytes,
    /// Its payload.
    pub len_bytes: Bytes,
    /// The receive window that an acknowledgment announces.
    pub window_bytes: Bytes,
    /// When the acknowledgment left the receiver, in the clock that both ends share.
    #[since(2)]
    pub departed_ns: Option<Instant>,
    /// When the segment that it echoes left the sender.
    #[since(2)]
    pub echoed_ns: Option<Instant>,
    /// How long the receiver held that segment.
    #[since(2)]
    pub held_ns: Option<Duration>,
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
