use paceline_units::{Bytes, Duration, Instant, Rate};

/// What a run was, known before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInfo {
    /// Name of the scenario.
    pub scenario: String,
    /// The resolved scenario: TOML with every default written.
    pub scenario_toml: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// What ran it: `sim` or `emu`.
    pub backend: String,
    /// Version of the program.
    pub version: String,
    /// Length of the run, from [`Instant::ZERO`].
    pub duration: Duration,
    /// Time between two rows of `samples` of one flow, and of `queue` of one link.
    pub sample_interval: Duration,
    /// Payload over wire bytes of a full packet: the share of a link's capacity that can be goodput.
    pub payload_ratio: f64,
    /// The flows, in the order in which results list them.
    pub flows: Vec<FlowInfo>,
    /// The links; rows of `queue` name them by position.
    pub links: Vec<LinkInfo>,
}

/// A flow, known before it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowInfo {
    /// Its number, by which rows name it.
    pub flow: u32,
    /// Name of its controller.
    pub cc: String,
    /// What plots call it.
    pub label: String,
    /// When it starts.
    pub start: Instant,
    /// When its application is told to stop, if it is.
    pub stop: Option<Instant>,
    /// Round trip without queues.
    pub base_rtt: Duration,
    /// Payload of a full packet in bytes.
    pub mss: u32,
}

/// A link, as it is at the start.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkInfo {
    /// What plots call it.
    pub name: String,
    /// Its capacity at the start.
    pub capacity: Rate,
    /// The most its queue holds at the start; infinite when it is not counted in bytes.
    pub limit: Bytes,
    /// The flows whose data crosses it; none for a link that carries only acknowledgments.
    pub flows: Vec<u32>,
}

/// A flow at one time. Counters run from the flow's start. Rows of a flow come in order of time, one
/// every [`RunInfo::sample_interval`], the last one at the end of the run; there may be more between
/// them, which metrics do not weigh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRow {
    /// When.
    pub t: Instant,
    /// Which flow.
    pub flow: u32,
    /// The congestion window in force.
    pub cwnd: Bytes,
    /// Sent and neither acknowledged nor declared lost.
    pub in_flight: Bytes,
    /// Pacing rate; `None` (or an infinite rate) when the flow is not paced.
    pub pacing_rate: Option<Rate>,
    /// Delivery rate of the latest rate sample.
    pub delivery_rate: Rate,
    /// Latest RTT, once there is one.
    pub rtt: Option<Duration>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Least RTT so far.
    pub min_rtt: Option<Duration>,
    /// Payload that the receiver has handed over in order.
    pub goodput: Bytes,
    /// Bytes that the sender knows to be delivered.
    pub delivered: Bytes,
    /// Data packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets retransmitted.
    pub retransmitted_packets: u64,
    /// State of the controller.
    pub phase: &'static str,
    /// State of loss recovery.
    pub ca_state: &'static str,
    /// Whether the application, not the network, limits the flow.
    pub app_limited: bool,
}

/// A link at one time. Counters run from the start of the run. Rows of a link come in order of time,
/// one every [`RunInfo::sample_interval`], the last one at the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueRow {
    /// When.
    pub t: Instant,
    /// Which link: its position in [`RunInfo::links`].
    pub link: u32,
    /// Bytes waiting.
    pub backlog: Bytes,
    /// Packets waiting.
    pub packets: u64,
    /// How long a packet that came now would wait; [`Duration::MAX`] when the link stands still.
    pub delay: Duration,
    /// Greatest backlog since the row before.
    pub peak: Bytes,
    /// Rate of the link now.
    pub rate: Rate,
    /// Wire bytes that the link could have carried so far.
    pub capacity: Bytes,
    /// Wire bytes that it has carried so far.
    pub delivered: Bytes,
    /// Packets dropped so far, for whatever cause.
    pub dropped_packets: u64,
    /// Packets that came to the link so far.
    pub offered_packets: u64,
    /// Packets marked with CE so far. The column is there once there is one.
    pub marked_packets: u64,
}

/// [`EventRow::kind`] of a change of a controller's state: `from` the old state, `detail` the new one.
/// [`metrics`](crate::metrics) computes the time in each state from these.
pub const STATE: &str = "state";

/// Something that happened at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRow<'a> {
    /// When.
    pub t: Instant,
    /// To which flow; `None` for the path.
    pub flow: Option<u32>,
    /// What: [`STATE`], `recovery`, `rto`, `undo`, `start`, `established`, `finish`, `rate`, `rtt`,
    /// `loss`, `app`, ...
    pub kind: &'a str,
    /// What was before; empty when there is nothing to say.
    pub from: &'a str,
    /// What is now.
    pub detail: &'a str,
}

/// A packet at one time, for the optional table `packets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRow {
    /// When.
    pub t: Instant,
    /// Which flow.
    pub flow: u32,
    /// What happened to it: `send`, `retransmit`, `deliver`, `ack`, `sack`, `drop`, ...
    pub kind: &'static str,
    /// Its first byte in the stream.
    pub seq: u64,
    /// Its payload in bytes.
    pub len: u32,
    /// The receive window in bytes, for an acknowledgment.
    pub window: u64,
    /// The times that an acknowledgment says, where they are known.
    pub told: Option<AckTimes>,
}

/// What an acknowledgment's timestamps say, in the clock that both ends share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTimes {
    /// When it left the receiver.
    pub departed: Instant,
    /// When the segment that it echoes left the sender.
    pub echoed: Instant,
    /// How long the receiver held that segment.
    pub held: Duration,
}

impl AckTimes {
    /// Columns of `packets`, and the values in nanoseconds.
    pub(crate) fn times(self) -> [(&'static str, u64); 3] {
        [
            ("departed_ns", self.departed.as_nanos()),
            ("echoed_ns", self.echoed.as_nanos()),
            ("held_ns", self.held.as_nanos()),
        ]
    }
}

/// A flow, known when the run has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTotals {
    /// Its number.
    pub flow: u32,
    /// Data packets sent, retransmissions included.
    pub packets_sent: u64,
    /// Packets retransmitted.
    pub packets_retransmitted: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that had arrived.
    pub spurious_losses: u64,
    /// Retransmission timeouts.
    pub rto_count: u64,
    /// Tail loss probes.
    pub tlp_count: u64,
    /// Payload that the receiver has handed over in order.
    pub goodput: Bytes,
    /// When all of its data was delivered, if that came to pass.
    pub finished: Option<Instant>,
}
