#![doc = include_str!("../README.md")]

mod clock;
mod pacer;

use paceline_adapter::Plan;
use paceline_congestion::{
    Ack, AnyController, CaState, Controller as _, Delivery, Ecn, Lost, PacketState, Recipe, Sent,
    Signals, idle_restarts,
};
use paceline_units::{Bytes, Duration, Instant};
use s2n_quic_core::random::Generator;
use s2n_quic_core::recovery::RttEstimator;
use s2n_quic_core::recovery::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher,
};
use s2n_quic_core::time::Timestamp;

use clock::Clock;
use pacer::Pacer;

pub use paceline_adapter::ControllerError;

/// What s2n-quic 1.91 reports to a controller and does for it.
pub const SIGNALS: Signals = Signals {
    losses_first: true,
    loss_per_packet: true,
    marks: true,
    mark_counts: true,
    pacing: true,
    app_limited_at_send: true,
    ..Signals::NONE
};

/// Makes controllers for s2n-quic's paths: what `with_congestion_controller` of a client's or a server's builder takes.
#[derive(Clone, Debug)]
pub struct Factory(Plan);

impl Factory {
    /// The controller of this name, with its defaults.
    ///
    /// # Errors
    /// If there is none, or it needs what s2n-quic does not report.
    pub fn named(name: &str) -> Result<Self, ControllerError> {
        Plan::named(name, SIGNALS).map(Self)
    }

    /// A controller with its options.
    ///
    /// # Errors
    /// If it needs what s2n-quic does not report.
    pub fn new(recipe: Recipe) -> Result<Self, ControllerError> {
        Plan::new(recipe, SIGNALS).map(Self)
    }

    /// The seed of the controllers' own draws; 0 if it is not set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// The initial window in full packets; 10 if it is not set (RFC 9002 section 7.2).
    #[must_use]
    pub fn initial_packets(mut self, packets: u64) -> Self {
        self.0.initial_packets = packets;
        self
    }
}

impl Endpoint for Factory {
    type CongestionController = Adapter;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Adapter {
        Adapter::new(&self.0, path.max_datagram_size)
    }
}

/// A controller of ours as s2n-quic's.
#[derive(Clone, Debug)]
pub struct Adapter {
    controller: AnyController,
    delivery: Delivery,
    clock: Clock,
    pacer: Pacer,
    mss: u32,
    in_flight: Bytes,
    min_rtt: Option<Duration>,
    /// When the recovery period began (RFC 9002 section 7.3.2), while there is one.
    recovery: Option<Instant>,
    state: CaState,
    /// A recovery period has begun and nothing was sent in it yet: one packet may exceed the window.
    sends_one: bool,
    cwnd_limited: bool,
    last_sent: Instant,
    acks: u64,
    pending: Pending,
}

/// The reports since the last ACK. s2n-quic does not say which losses are the last of an event, so their
/// consequence waits for the event that follows.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// The round trip of an ACK and its time of arrival.
    rtt: Option<(Instant, Duration)>,
    /// The newest lost packet's time of sending, and the time at which losses were reported.
    loss: Option<(Instant, Instant)>,
    persistent: bool,
    lost: Bytes,
    marked_packets: u64,
}

impl Adapter {
    fn new(plan: &Plan, mtu: u16) -> Self {
        let (controller, _) = plan.build(mtu);
        Self {
            delivery: Delivery::new(controller.pacer_below()),
            controller,
            clock: Clock::default(),
            pacer: Pacer::default(),
            mss: mtu.into(),
            in_flight: Bytes::ZERO,
            min_rtt: None,
            recovery: None,
            state: CaState::Open,
            sends_one: false,
            cwnd_limited: false,
            last_sent: Instant::ZERO,
            acks: 0,
            pending: Pending::default(),
        }
    }

    /// The controller.
    pub fn controller(&self) -> &AnyController {
        &self.controller
    }

    /// What was sent, delivered and lost.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Bytes that may be in flight: the controller's window, and two packets at least (RFC 9002 section 7.2).
    fn window(&self) -> Bytes {
        let least = Bytes::new(2 * u64::from(self.mss));
        self.controller.cwnd().max(least)
    }

    /// Whether a full packet more would exceed the window.
    fn is_full(&self) -> bool {
        self.in_flight + Bytes::new(self.mss.into()) > self.window()
    }

    /// The consequence of losses: all of an event's have been reported.
    fn conclude_losses(&mut self) {
        let Some((sent, now)) = self.pending.loss.take() else {
            return;
        };
        if self.recovery.is_none_or(|began| sent > began) {
            self.enter_recovery(now);
        }
        if std::mem::take(&mut self.pending.persistent) {
            self.state = CaState::Loss;
            self.controller.on_timeout(now, self.in_flight);
        }
    }

    fn enter_recovery(&mut self, now: Instant) {
        self.recovery = Some(now);
        self.state = CaState::Recovery;
        self.sends_one = true;
        self.controller.on_recovery_enter(now, self.in_flight);
    }

    fn leave_recovery(&mut self, now: Instant) {
        self.recovery = None;
        self.state = CaState::Open;
        self.sends_one = false;
        self.controller.on_recovery_exit(now);
    }
}

/// The counters of s2n-quic's interface have 32 bits; those of the controllers have 64.
fn saturated(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

fn bytes(size: usize) -> Bytes {
    Bytes::new(u64::try_from(size).unwrap_or(u64::MAX))
}

fn ours(time: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// RFC 9002 section 6.2.1, without the back-off.
fn probe_timeout(rtt: &RttEstimator) -> Duration {
    let least = std::time::Duration::from_millis(1);
    ours(rtt.smoothed_rtt() + (rtt.rttvar() * 4).max(least) + rtt.max_ack_delay())
}

impl CongestionController for Adapter {
    type PacketInfo = PacketState;

    fn congestion_window(&self) -> u32 {
        saturated(self.window())
    }

    fn bytes_in_flight(&self) -> u32 {
        saturated(self.in_flight)
    }

    fn is_congestion_limited(&self) -> bool {
        self.is_full()
    }

    fn requires_fast_retransmission(&self) -> bool {
        self.sends_one
    }

    fn on_packet_sent<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) -> PacketState {
        let now = self.clock.at(time_sent);
        // A packet of ACKs alone, which nobody acknowledges.
        if sent_bytes == 0 {
            return PacketState::default();
        }
        self.conclude_losses();
        let size = u32::try_from(sent_bytes).unwrap_or(u32::MAX);
        let idle = now.since(self.last_sent);
        if self.in_flight == Bytes::ZERO {
            for _ in 0..idle_restarts(idle, probe_timeout(rtt_estimator)) {
                self.controller.on_idle_restart(now);
            }
        }
        self.controller.on_send(&Sent {
            now,
            size,
            in_flight: self.in_flight,
            app_limited: self.delivery.is_app_limited(),
        });
        let token = self.delivery.on_send(now, size, self.in_flight);
        self.in_flight += bytes(sent_bytes);
        self.last_sent = now;
        self.sends_one = false;
        self.cwnd_limited |= self.is_full();
        // It is unknown in the handshake. The application has no more: what follows comes after a gap.
        if app_limited == Some(true) {
            self.delivery.mark_app_limited(self.in_flight);
        }
        self.pacer.on_send(now, size, self.controller.pacing_rate());
        token
    }

    fn on_rtt_update<Pub: Publisher>(
        &mut self,
        time_sent: Timestamp,
        now: Timestamp,
        _rtt_estimator: &RttEstimator,
        _publisher: &mut Pub,
    ) {
        let (sent, now) = (self.clock.at(time_sent), self.clock.at(now));
        let rtt = now.since(sent);
        // s2n-quic's own minimum starts again after persistent congestion.
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        self.delivery.on_rtt(rtt);
        self.pending.rtt = Some((now, rtt));
    }

    fn on_ack<Pub: Publisher>(
        &mut self,
        newest_acked_time_sent: Timestamp,
        bytes_acknowledged: usize,
        newest_acked_packet_info: PacketState,
        rtt_estimator: &RttEstimator,
        _random_generator: &mut dyn Generator,
        ack_receive_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        let now = self.clock.at(ack_receive_time);
        let sent = self.clock.at(newest_acked_time_sent);
        let acked = bytes(bytes_acknowledged);
        let pending = std::mem::take(&mut self.pending);
        (self.pending.loss, self.pending.persistent) = (pending.loss, pending.persistent);
        self.conclude_losses();
        let full = Bytes::new(self.mss.into());
        let marked = (full * pending.marked_packets).min(acked);
        let is_mark_a_loss = self.controller.ecn() == Ecn::NotEct;
        if marked > Bytes::ZERO && is_mark_a_loss && self.recovery.is_none_or(|began| sent > began)
        {
            // RFC 9002 section 7.1.
            self.enter_recovery(now);
        } else if self.recovery.is_some_and(|began| sent > began) {
            self.leave_recovery(now);
        }
        // Losses have left it already.
        let prior_in_flight = self.in_flight + pending.lost;
        self.in_flight -= acked;
        let part = |size| PacketState {
            size: saturated(size),
            ..newest_acked_packet_info
        };
        self.acks += 1;
        if marked > Bytes::ZERO {
            self.delivery
                .on_delivered(now, &part(marked), self.acks, true);
        }
        self.delivery
            .on_delivered(now, &part(acked - marked), self.acks, false);
        let rtt = pending.rtt.filter(|(at, _)| *at == now).map(|(_, rtt)| rtt);
        let sample = self.delivery.sample();
        self.controller.on_ack(&Ack {
            now,
            sample,
            newly_acked: acked,
            newly_lost: pending.lost,
            newly_marked: Some(marked),
            prior_in_flight,
            in_flight: self.in_flight,
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.sent(),
            rtt,
            srtt: ours(rtt_estimator.smoothed_rtt()),
            min_rtt: self.min_rtt.unwrap_or_default(),
            cwnd_limited: std::mem::take(&mut self.cwnd_limited),
            ca_state: self.state,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: rtt,
            receiver_delay: None,
            ece: false,
        });
        if self.controller.marks_app_limited() {
            self.delivery.mark_app_limited(self.in_flight);
        }
    }

    fn on_packet_lost<Pub: Publisher>(
        &mut self,
        lost_bytes: u32,
        packet_info: PacketState,
        persistent_congestion: bool,
        new_loss_burst: bool,
        _random_generator: &mut dyn Generator,
        timestamp: Timestamp,
        _publisher: &mut Pub,
    ) {
        let now = self.clock.at(timestamp);
        let size = Bytes::new(lost_bytes.into());
        self.in_flight -= size;
        self.delivery.on_lost(&packet_info);
        let newest = self
            .pending
            .loss
            .map_or(packet_info.send_time, |(sent, _)| {
                sent.max(packet_info.send_time)
            });
        self.pending.loss = Some((newest, now));
        self.pending.lost += size;
        self.pending.persistent |= persistent_congestion;
        self.controller.on_loss(&Lost {
            now,
            packet: packet_info,
            lost: self.delivery.lost(),
            delivered: self.delivery.delivered(),
            in_flight: self.in_flight,
            starts_range: new_loss_burst,
            retransmission: false,
        });
    }

    fn on_explicit_congestion<Pub: Publisher>(
        &mut self,
        ce_count: u64,
        _event_time: Timestamp,
        _publisher: &mut Pub,
    ) {
        self.pending.marked_packets += ce_count;
    }

    fn on_mtu_update<Pub: Publisher>(&mut self, max_data_size: u16, _publisher: &mut Pub) {
        self.mss = max_data_size.into();
        self.controller.on_mss(self.mss);
    }

    fn on_packet_discarded<Pub: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut Pub) {
        self.in_flight -= bytes(bytes_sent);
        self.sends_one = false;
        self.delivery.on_discarded(&PacketState {
            size: u32::try_from(bytes_sent).unwrap_or(u32::MAX),
            ..PacketState::default()
        });
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        let quantum = self.controller.send_quantum();
        let due = self.pacer.due(self.mss, quantum)?;
        self.clock.back(due)
    }

    fn send_quantum(&self) -> Option<usize> {
        usize::try_from(self.controller.send_quantum().get()).ok()
    }
}

#[cfg(test)]
mod tests;
