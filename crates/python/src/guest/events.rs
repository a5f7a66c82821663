//! The events of a controller in Python. Names end in their unit; `None` means not known.

use paceline_congestion as congestion;
use paceline_congestion::CaState;
use paceline_units::Duration;
use pyo3::prelude::*;

fn nanos(time: Option<Duration>) -> Option<u64> {
    time.map(Duration::as_nanos)
}

/// The configuration of a new controller: one per connection.
#[pyclass(frozen, get_all, module = "paceline", name = "Config")]
pub struct Config {
    /// Payload bytes of a full packet.
    mss_bytes: u32,
    /// Initial window (RFC 6928).
    initial_window_bytes: u64,
    /// Seed of the controller's own random draws: `random.Random(config.seed)`.
    seed: u64,
    /// The time of construction; a run begins at 0.
    now_ns: u64,
    /// Smoothed RTT, if the handshake has measured one.
    srtt_ns: Option<u64>,
    /// Whether acknowledgments are selective, so that more than one loss per round trip is
    /// detected.
    has_selective_acks: bool,
}

impl From<&congestion::Config> for Config {
    fn from(config: &congestion::Config) -> Self {
        Self {
            mss_bytes: config.mss,
            initial_window_bytes: config.initial_window.get(),
            seed: config.seed,
            now_ns: config.now.as_nanos(),
            srtt_ns: nanos(config.srtt),
            has_selective_acks: config.has_selective_acks,
        }
    }
}

/// One acknowledgment, after the transport has processed it.
#[pyclass(frozen, get_all, module = "paceline", name = "Ack")]
pub struct Ack {
    /// Its arrival time.
    now_ns: u64,
    /// Data newly delivered by it, cumulatively or selectively.
    newly_acked_bytes: u64,
    /// Data newly declared lost on it.
    newly_lost_bytes: u64,
    /// Newly delivered data that carried a CE mark; `None` if it is not counted.
    ce_bytes: Option<u64>,
    /// Whether the receiver's classic ECN echo is set.
    ece: bool,
    /// Data in flight before it.
    prior_in_flight_bytes: u64,
    /// Data in flight after it.
    in_flight_bytes: u64,
    /// Data delivered over the life of the connection.
    delivered_bytes: u64,
    /// Data declared lost over the life of the connection, correctly or not.
    lost_bytes: u64,
    /// Data sent over the life of the connection, each transmission counted.
    sent_bytes: u64,
    /// RTT of the most recently sent packet that it newly acknowledges; `None` if all are
    /// ambiguous.
    rtt_ns: Option<u64>,
    /// Smoothed RTT (RFC 6298), including this sample; 0 before the first.
    srtt_ns: u64,
    /// Minimum RTT of the connection; 0 before the first.
    min_rtt_ns: u64,
    /// Delivery rate of its sample (draft-ietf-ccwg-bbr section 4.1); `None` if it has none.
    delivery_rate_bps: Option<u64>,
    /// Whether that sample is application-limited.
    app_limited: bool,
    /// Time over which the sample was taken; 0 if it gives no rate.
    sample_interval_ns: u64,
    /// Data delivered in that time.
    sample_delivered_bytes: u64,
    /// Data declared lost since the newest delivered packet was sent.
    sample_lost_bytes: u64,
    /// Data in flight just after that packet was sent, including itself.
    tx_in_flight_bytes: u64,
    /// Whether it begins a packet-timed round: it delivers a packet that was sent after the start
    /// of the previous round.
    round_start: bool,
    /// Packet-timed rounds that have begun so far.
    round_count: u64,
    /// Whether the window, not the application, limited the data in flight in the last round.
    cwnd_limited: bool,
    /// Whether the cumulative acknowledgment advanced.
    una_advanced: bool,
    /// Whether a delayed-ACK timer may have held it back.
    delayed: bool,
    /// One-way delay of the newest delivered packet.
    one_way_delay_ns: Option<u64>,
    /// RTT without the delay of the receiver's host.
    network_rtt_ns: Option<u64>,
    /// The delay of the receiver's host.
    receiver_delay_ns: Option<u64>,
    /// Recovery state after it, by Linux's names: `Open`, `Disorder`, `CWR`, `Recovery`, `Loss`.
    ca_state: &'static str,
}

impl Ack {
    pub fn new(ack: &congestion::Ack, round_start: bool, round_count: u64) -> Self {
        let sample = &ack.sample;
        let has_rate = sample.has_data && sample.interval > Duration::ZERO;
        Self {
            now_ns: ack.now.as_nanos(),
            newly_acked_bytes: ack.newly_acked.get(),
            newly_lost_bytes: ack.newly_lost.get(),
            ce_bytes: ack.newly_marked.map(paceline_units::Bytes::get),
            ece: ack.ece,
            prior_in_flight_bytes: ack.prior_in_flight.get(),
            in_flight_bytes: ack.in_flight.get(),
            delivered_bytes: ack.delivered.get(),
            lost_bytes: ack.lost.get(),
            sent_bytes: ack.sent.get(),
            rtt_ns: nanos(ack.rtt),
            srtt_ns: ack.srtt.as_nanos(),
            min_rtt_ns: ack.min_rtt.as_nanos(),
            delivery_rate_bps: has_rate.then(|| sample.delivery_rate().bps()),
            app_limited: sample.app_limited,
            sample_interval_ns: sample.interval.as_nanos(),
            sample_delivered_bytes: sample.delivered.get(),
            sample_lost_bytes: sample.lost.get(),
            tx_in_flight_bytes: sample.tx_in_flight.get(),
            round_start,
            round_count,
            cwnd_limited: ack.cwnd_limited,
            una_advanced: ack.una_advanced,
            delayed: ack.delayed,
            one_way_delay_ns: nanos(ack.one_way_delay),
            network_rtt_ns: nanos(ack.network_rtt),
            receiver_delay_ns: nanos(ack.receiver_delay),
            ca_state: match ack.ca_state {
                CaState::Open => "Open",
                CaState::Disorder => "Disorder",
                CaState::Cwr => "CWR",
                CaState::Recovery => "Recovery",
                CaState::Loss => "Loss",
            },
        }
    }
}

/// A packet was declared lost.
#[pyclass(frozen, get_all, module = "paceline", name = "Loss")]
pub struct Loss {
    /// The time of the declaration.
    now_ns: u64,
    /// Payload of the packet.
    size_bytes: u32,
    /// When it was sent.
    sent_ns: u64,
    /// Data declared lost over the life of the connection, including this packet.
    lost_bytes: u64,
    /// Data declared lost since it was sent, including itself.
    lost_since_send_bytes: u64,
    /// Data delivered over the life of the connection.
    delivered_bytes: u64,
    /// Data in flight without it.
    in_flight_bytes: u64,
    /// Data in flight just after it was sent, including itself.
    tx_in_flight_bytes: u64,
    /// Whether it opens a range of lost data: the packet just before it is not lost.
    starts_range: bool,
    /// Whether it was itself a retransmission.
    retransmission: bool,
}

impl From<&congestion::Lost> for Loss {
    fn from(loss: &congestion::Lost) -> Self {
        Self {
            now_ns: loss.now.as_nanos(),
            size_bytes: loss.packet.size,
            sent_ns: loss.packet.send_time.as_nanos(),
            lost_bytes: loss.lost.get(),
            lost_since_send_bytes: loss.lost_since_send().get(),
            delivered_bytes: loss.delivered.get(),
            in_flight_bytes: loss.in_flight.get(),
            tx_in_flight_bytes: loss.packet.tx_in_flight.get(),
            starts_range: loss.starts_range,
            retransmission: loss.retransmission,
        }
    }
}

/// A packet is about to be sent. Volumes are those before it is counted.
#[pyclass(frozen, get_all, module = "paceline", name = "Sent")]
pub struct Sent {
    /// Its departure time.
    now_ns: u64,
    /// Its payload.
    size_bytes: u32,
    /// Data in flight before it.
    in_flight_bytes: u64,
    /// Whether the connection is application-limited.
    app_limited: bool,
}

impl From<&congestion::Sent> for Sent {
    fn from(sent: &congestion::Sent) -> Self {
        Self {
            now_ns: sent.now.as_nanos(),
            size_bytes: sent.size,
            in_flight_bytes: sent.in_flight.get(),
            app_limited: sent.app_limited,
        }
    }
}
