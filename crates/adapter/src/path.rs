//! A path, with the state that its transport does not keep for the controller.

use std::sync::Arc;

use paceline_congestion::{
    Ack, CaState, Controller, Delivery, Ecn, Lost, PacketState, Sent, idle_restarts,
};
use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::ring::Ring;

/// RFC 9002 section 6.1.2: the granularity of timers.
const GRANULARITY: Duration = Duration::from_millis(1);
/// RFC 9000 section 18.2: the default for the maximum ACK delay of a receiver.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// A path's controller, with the state that its transport does not keep for it.
///
/// For one ACK frame: [`acked`](Self::acked) for each packet, [`end_acks`](Self::end_acks), and the
/// stack's subsequent reports of losses and marks.
#[derive(Clone, Debug)]
pub struct Path<C> {
    controller: C,
    delivery: Delivery,
    /// Copies share it: stacks show their controller only as a copy, and each packet in flight has an
    /// entry.
    ring: Arc<Ring>,
    mss: u32,
    in_flight: Bytes,
    rtt: Rtt,
    /// When the recovery period began (RFC 9002 section 7.3.2), while there is one.
    recovery: Option<Instant>,
    state: CaState,
    cwnd_limited: bool,
    last_sent: Instant,
    now: Instant,
    /// The ACK in progress: bytes, and the newest packet.
    newly_acked: Bytes,
    newest: Option<Instant>,
    prior_in_flight: Bytes,
    /// When the last ACK ended: losses reported at that time were detected by it.
    acked_at: Option<Instant>,
    /// Reports since the last sample, which count in the next one.
    late_losses: Bytes,
    late_mark: bool,
    delivery_rate: Rate,
    sent_packets: u64,
    lost_packets: u64,
}

/// RTT estimates by RFC 9002 section 5, from times alone: the receiver's reported delay is not
/// available.
#[derive(Clone, Copy, Debug, Default)]
struct Rtt {
    latest: Option<Duration>,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
}

impl Rtt {
    fn update(&mut self, rtt: Duration) {
        self.latest = Some(rtt);
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation, self.min) = (Some(rtt), rtt / 2, rtt);
            return;
        };
        let off = smoothed.max(rtt) - smoothed.min(rtt);
        self.variation = (self.variation * 3 + off) / 4;
        self.smoothed = Some((smoothed * 7 + rtt) / 8);
        self.min = self.min.min(rtt);
    }

    /// RFC 9002 section 6.2.1.
    fn probe_timeout(&self) -> Duration {
        self.smoothed.map_or(Duration::from_secs(1), |smoothed| {
            smoothed + (self.variation * 4).max(GRANULARITY) + MAX_ACK_DELAY
        })
    }

    /// A packet sent more than this before the newest acknowledged one is no longer expected: RFC
    /// 9002 section 6.1.2 declares it lost after 9/8 of a round trip.
    fn forgotten(&self) -> Duration {
        (self.latest.unwrap_or_default() + self.smoothed.unwrap_or_default()) * 2 + GRANULARITY
    }
}

impl<C: Controller> Path<C> {
    /// A new path. Full packets have `mss` bytes, as the transport counts them.
    pub fn new(controller: C, mss: u32) -> Self {
        Self {
            delivery: Delivery::new(controller.pacer_below()),
            controller,
            ring: Arc::default(),
            mss,
            in_flight: Bytes::ZERO,
            rtt: Rtt::default(),
            recovery: None,
            state: CaState::Open,
            cwnd_limited: false,
            last_sent: Instant::ZERO,
            now: Instant::ZERO,
            newly_acked: Bytes::ZERO,
            newest: None,
            prior_in_flight: Bytes::ZERO,
            acked_at: None,
            late_losses: Bytes::ZERO,
            late_mark: false,
            delivery_rate: Rate::ZERO,
            sent_packets: 0,
            lost_packets: 0,
        }
    }

    /// Packet `number` of `bytes` is sent.
    pub fn sent(&mut self, now: Instant, number: u64, bytes: u32) {
        let token = self.send(now, bytes);
        Arc::make_mut(&mut self.ring).push(token, number);
        self.sent_packets += 1;
    }

    /// One or several packets of `bytes` in total are sent. Packets that leave at the same time
    /// share a token, like the segments of a packet in Linux.
    pub fn sent_together(&mut self, now: Instant, bytes: u32) {
        let token = self.send(now, bytes);
        Arc::make_mut(&mut self.ring).extend(token);
    }

    fn send(&mut self, now: Instant, bytes: u32) -> PacketState {
        self.now = now;
        if self.in_flight == Bytes::ZERO {
            for _ in 0..idle_restarts(now.since(self.last_sent), self.rtt.probe_timeout()) {
                self.controller.on_idle_restart(now);
            }
        }
        self.controller.on_send(&Sent {
            now,
            size: bytes,
            in_flight: self.in_flight,
            app_limited: self.delivery.is_app_limited(),
        });
        let token = self.delivery.on_send(now, bytes, self.in_flight);
        self.in_flight += Bytes::new(bytes.into());
        self.last_sent = now;
        if self.in_flight + Bytes::new(self.mss.into()) > Bytes::new(self.window()) {
            self.cwnd_limited = true;
        }
        token
    }

    /// The window kept data back.
    pub fn cwnd_limited(&mut self) {
        self.cwnd_limited = true;
    }

    /// An ACK frame newly acknowledges a packet that was sent at `sent`, with this `number` if
    /// numbers are reported.
    pub fn acked(&mut self, now: Instant, sent: Instant, number: Option<u64>, bytes: u32) {
        self.now = now;
        if self.newly_acked == Bytes::ZERO {
            self.prior_in_flight = self.in_flight;
        }
        // Probes of the path's MTU are reported when they arrive, not when they leave.
        let taken = Arc::make_mut(&mut self.ring).take(sent, number, bytes);
        let Some((token, id)) = taken else {
            return;
        };
        let token = PacketState {
            size: bytes,
            ..token
        };
        self.delivery.on_delivered(now, &token, id, false);
        self.newly_acked += Bytes::new(bytes.into());
        self.in_flight -= Bytes::new(bytes.into());
        self.newest = self.newest.max(Some(sent));
    }

    /// The ACK frame ends, with `in_flight` left; `app_limited` says that the application had
    /// nothing more to send.
    pub fn end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.now = now;
        // Packets that are never acknowledged, such as ACKs, and packets discarded with their keys
        // leave without a report.
        self.in_flight = Bytes::new(in_flight);
        if app_limited {
            self.delivery.mark_app_limited(self.in_flight);
        }
        let Some(newest) = self.newest.take() else {
            return;
        };
        let rtt = now.since(newest);
        self.rtt.update(rtt);
        self.delivery.on_rtt(rtt);
        if self.recovery.is_some_and(|began| newest > began) {
            self.leave_recovery(now);
        }
        let (newly_acked, limited) = (self.newly_acked, self.cwnd_limited);
        self.newly_acked = Bytes::ZERO;
        self.cwnd_limited = false;
        let sample = self.delivery.sample();
        self.delivery_rate = sample.delivery_rate();
        self.controller.on_ack(&Ack {
            now,
            sample,
            newly_acked,
            newly_lost: std::mem::take(&mut self.late_losses),
            newly_marked: None,
            prior_in_flight: self.prior_in_flight,
            in_flight: self.in_flight,
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.sent(),
            rtt: Some(rtt),
            srtt: self.rtt.smoothed.unwrap_or_default(),
            min_rtt: self.rtt.min,
            cwnd_limited: limited,
            ca_state: self.state,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: Some(rtt),
            receiver_delay: None,
            ece: std::mem::take(&mut self.late_mark),
        });
        self.acked_at = Some(now);
        if self.controller.marks_app_limited() {
            self.delivery.mark_app_limited(self.in_flight);
        }
        let ring = Arc::make_mut(&mut self.ring);
        for token in ring.forget(newest, self.rtt.forgotten()) {
            self.delivery.on_discarded(&token);
        }
    }

    /// Packets of `bytes` in total are declared lost, the newest of which was sent at `sent`.
    pub fn lost_together(&mut self, now: Instant, sent: Instant, bytes: u64) {
        let token = self.ring.at(sent);
        self.lose(now, token, bytes, true);
    }

    /// Packet `number` of `bytes` is declared lost.
    pub fn lost(&mut self, now: Instant, number: u64, bytes: u32) {
        let (token, starts_range) = Arc::make_mut(&mut self.ring).lose(number, bytes);
        self.lost_packets += 1;
        self.lose(now, token, bytes.into(), starts_range);
    }

    fn lose(&mut self, now: Instant, token: Option<PacketState>, bytes: u64, starts_range: bool) {
        self.now = now;
        // If a packet was not reported when it left, its sending time is not known.
        let Some(token) = token else {
            return;
        };
        let token = PacketState {
            size: u32::try_from(bytes).unwrap_or(u32::MAX),
            ..token
        };
        self.in_flight -= Bytes::new(bytes);
        self.delivery.on_lost(&token);
        if self.acked_at == Some(now) {
            self.late_losses += Bytes::new(bytes);
        }
        self.controller.on_loss(&Lost {
            now,
            packet: token,
            lost: self.delivery.lost(),
            delivered: self.delivery.delivered(),
            in_flight: self.in_flight,
            starts_range,
            retransmission: false,
        });
    }

    /// Losses were reported; the newest lost packet was sent at `sent`. `persistent` says whether
    /// congestion is persistent (RFC 9002 section 7.6).
    pub fn congestion(&mut self, now: Instant, sent: Instant, persistent: bool) {
        if self.recovery.is_none_or(|began| sent > began) {
            self.enter_recovery(now);
        }
        if persistent {
            self.state = CaState::Loss;
            self.controller.on_timeout(now, self.in_flight);
        }
    }

    /// Packets were marked CE, the newest of which was sent at `sent`. Their number is not
    /// reported. For a controller that does not ask for ECN a mark is equivalent to a loss (RFC
    /// 9002 section 7.1).
    pub fn marked(&mut self, now: Instant, sent: Instant) {
        self.now = now;
        if self.controller.ecn() != Ecn::NotEct {
            self.late_mark = true;
        } else if self.recovery.is_none_or(|began| sent > began) {
            self.enter_recovery(now);
        }
    }

    fn enter_recovery(&mut self, now: Instant) {
        self.recovery = Some(now);
        self.state = CaState::Recovery;
        self.controller.on_recovery_enter(now, self.in_flight);
    }

    fn leave_recovery(&mut self, now: Instant) {
        self.recovery = None;
        self.state = CaState::Open;
        self.controller.on_recovery_exit(now);
    }

    /// Everything that was declared lost in this recovery period has arrived.
    pub fn spurious(&mut self) {
        if self.recovery.is_some() {
            self.controller
                .on_spurious(self.now, self.delivery.delivered());
            self.leave_recovery(self.now);
        }
    }

    /// Full packets have `mss` bytes from now on.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.controller.on_mss(mss);
    }

    /// The maximum in flight: the controller's window, but at least two packets (RFC 9002 section
    /// 7.2).
    pub fn window(&self) -> u64 {
        self.controller.cwnd().get().max(2 * u64::from(self.mss))
    }

    /// The controller.
    pub fn controller(&self) -> &C {
        &self.controller
    }

    /// Data sent, delivered and lost.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Data in flight, as far as the transport has reported.
    pub fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    /// The latest RTT.
    pub fn latest_rtt(&self) -> Option<Duration> {
        self.rtt.latest
    }

    /// The minimum RTT.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.rtt.latest.map(|_| self.rtt.min)
    }

    /// Packets sent and lost, if they are reported one by one.
    pub fn packets(&self) -> (u64, u64) {
        (self.sent_packets, self.lost_packets)
    }

    /// The delivery rate of the last sample.
    pub fn delivery_rate(&self) -> Rate {
        self.delivery_rate
    }
}

#[cfg(test)]
mod tests {
    use paceline_congestion::options::OptionValue;
    use paceline_congestion::{AnyController, Config, recipe};
    use proptest::prelude::*;

    use super::*;

    const MSS: u32 = 1200;

    fn path(name: &str, options: &[(&str, OptionValue)]) -> Path<AnyController> {
        let controller = recipe(name, options).expect("a controller").build(&Config {
            mss: MSS,
            initial_window: Bytes::new(12_000),
            seed: 1,
            now: Instant::from_nanos(1),
            srtt: None,
            has_selective_acks: true,
        });
        Path::new(controller, MSS)
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Ten packets in two bursts: 6000 bytes at 10 ms, 6000 at 20 ms, acknowledged 40 ms later.
    #[test]
    fn a_sample_spans_what_was_delivered_since_its_packet_left() {
        let mut path = path("reno", &[]);
        for ms in [10, 20] {
            (0..5).for_each(|_| path.sent_together(at(ms), MSS));
        }
        for ms in [10, 20] {
            (0..5).for_each(|_| path.acked(at(ms + 40), at(ms), None, MSS));
            path.end_acks(at(ms + 40), if ms == 10 { 6000 } else { 0 }, false);
        }
        // 12 000 bytes were delivered since 10 ms, 50 ms before.
        assert_eq!(path.delivery().delivered(), Bytes::new(12_000));
        assert_eq!(path.delivery_rate(), Rate::from_bps(12_000 * 8 * 20));
        assert_eq!(path.latest_rtt(), Some(Duration::from_millis(40)));
        assert_eq!(path.in_flight(), Bytes::ZERO);
    }

    #[test]
    fn a_batch_of_losses_is_one_episode_until_something_sent_since_arrives() {
        let mut path = path("reno", &[]);
        (0..10).for_each(|n| path.sent_together(at(10 + n), MSS));
        let before = path.window();
        path.acked(at(60), at(19), None, MSS);
        path.end_acks(at(60), 9 * 1200, false);
        path.lost_together(at(60), at(16), 7 * 1200);
        path.congestion(at(60), at(16), false);
        assert_eq!(path.in_flight(), Bytes::new(2 * 1200));
        let halved = path.window();
        assert!(
            halved <= before / 2 + u64::from(MSS),
            "{halved} of {before}"
        );
        // Sent before the episode began: it belongs to the same one.
        path.lost_together(at(61), at(17), 1200);
        path.congestion(at(61), at(17), false);
        assert_eq!(path.window(), halved);
        path.sent_together(at(62), MSS);
        path.acked(at(102), at(62), None, MSS);
        path.end_acks(at(102), 0, false);
        path.sent_together(at(103), MSS);
        path.lost_together(at(110), at(103), 1200);
        path.congestion(at(110), at(103), false);
        assert!(path.window() < halved);
    }

    #[test]
    fn packets_are_told_apart_by_number_and_a_spurious_episode_is_undone() {
        let mut path = path("cubic", &[]);
        (0..10).for_each(|n| path.sent(at(10), n, MSS));
        let before = path.window();
        path.acked(at(50), at(10), Some(9), MSS);
        path.end_acks(at(50), 9 * 1200, false);
        (0..3).for_each(|n| path.lost(at(50), n, MSS));
        path.congestion(at(50), at(10), false);
        assert_eq!(path.delivery().lost(), Bytes::new(3 * 1200));
        assert!(path.window() < before);
        path.spurious();
        assert!(path.window() >= before);
    }

    /// Marks are reported to a controller that asks for ECN, and are losses for one that does not.
    #[test]
    fn a_mark_reduces_the_window_either_way() {
        for ecn in [true, false] {
            let mut path = path("reno", &[("ecn", OptionValue::Flag(ecn))]);
            let before = path.window();
            for round in 0..2 {
                let sent = at(10 + round * 40);
                (0..10).for_each(|_| path.sent_together(sent, MSS));
                (0..10).for_each(|_| path.acked(at(50 + round * 40), sent, None, MSS));
                path.end_acks(at(50 + round * 40), 0, false);
                path.marked(at(50 + round * 40), sent);
            }
            assert!(
                path.window() < before * 3 / 2,
                "ecn = {ecn}: {}",
                path.window()
            );
        }
    }

    /// 4 GiB and more: nothing wraps.
    #[test]
    fn more_than_four_gibibytes_are_counted() {
        let mut path = path("reno", &[]);
        let size = 1 << 30;
        for n in 1..=6 {
            path.sent_together(at(n * 10), size);
            path.acked(at(n * 10 + 5), at(n * 10), None, size);
            path.end_acks(at(n * 10 + 5), 0, false);
        }
        assert_eq!(path.delivery().delivered(), Bytes::new(6 << 30));
    }

    /// Initial, Handshake and application data each count from 0, and the space is not reported.
    #[test]
    fn packet_number_spaces() {
        let mut path = path("bbr3", &[]);
        for (ms, size) in [(10, 1200), (30, 300), (50, 800)] {
            (0..2).for_each(|number| path.sent(at(ms), number, size));
        }
        path.acked(at(50), at(10), Some(0), 1200);
        path.end_acks(at(50), 3400, false);
        // The handshake's and then the application's, although others of the same number are older.
        path.lost(at(80), 0, 300);
        path.acked(at(90), at(50), Some(1), 800);
        path.end_acks(at(90), 2300, false);
        assert_eq!(path.latest_rtt(), Some(Duration::from_millis(40)));
        assert_eq!(path.delivery().delivered(), Bytes::new(2000));
        assert_eq!(path.delivery().lost(), Bytes::new(300));
        assert_eq!(path.packets(), (6, 1));
        let left: Vec<_> = path.ring.numbers().collect();
        assert_eq!(left, [1, 1, 0]);
    }

    /// Data in flight with discarded keys is neither acknowledged nor lost.
    #[test]
    fn key_discard() {
        let mut path = path("bbr3", &[]);
        (0..2).for_each(|number| path.sent(at(10), number, MSS));
        (0..4).for_each(|number| path.sent(at(50), number, MSS));
        assert_eq!(path.in_flight(), Bytes::new(6 * 1200));
        (0..2).for_each(|number| path.acked(at(90), at(50), Some(number), MSS));
        path.end_acks(at(90), 2 * 1200, false);
        assert_eq!(path.in_flight(), Bytes::new(2 * 1200));
        let delivery = path.delivery();
        let counted = (delivery.delivered(), delivery.lost());
        assert_eq!(counted, (Bytes::new(2 * 1200), Bytes::ZERO));
        // Later it is forgotten, and only the newest packet remains.
        path.sent(at(900), 4, MSS);
        path.acked(at(940), at(900), Some(4), MSS);
        path.end_acks(at(940), 0, false);
        assert_eq!(path.ring.len(), 0);
        assert_eq!(path.delivery().lost(), Bytes::ZERO);
    }

    /// A stack's copy costs no more with many packets in flight, and is not changed by what follows.
    #[test]
    fn a_copy_shares_the_packets_until_one_changes() {
        let mut path = path("reno", &[]);
        path.sent(at(0), 0, MSS);
        let copy = path.clone();
        assert!(Arc::ptr_eq(&path.ring, &copy.ring));
        path.sent(at(1), 1, MSS);
        assert_eq!((path.ring.len(), copy.ring.len()), (2, 1));
    }

    /// Packets that are never acknowledged, such as ACKs, do not stay.
    #[test]
    fn the_ring_forgets() {
        let mut path = path("reno", &[]);
        for n in 0..10_000 {
            path.sent_together(at(n * 10), 40);
            path.sent_together(at(n * 10 + 1), MSS);
            path.acked(at(n * 10 + 6), at(n * 10 + 1), None, MSS);
            path.end_acks(at(n * 10 + 6), 0, false);
        }
        assert!(path.ring.len() < 10, "{}", path.ring.len());
    }

    proptest! {
        /// For callbacks in any order, with any values.
        #[test]
        fn no_order_of_calls_panics(calls in prop::collection::vec((0..9u8, 0..50u64, 0..3000u32), 1..300)) {
            for name in ["bbr3", "cubic", "reno", "swift", "bbr3-linux"] {
                let mut path = path(name, &[]);
                let mut now = at(1);
                for (call, value, bytes) in &calls {
                    let then = at(*value);
                    match call {
                        0 => now += Duration::from_millis(*value),
                        1 => path.sent(now, *value, *bytes),
                        2 => path.sent_together(now, *bytes),
                        3 => path.acked(now, then, Some(*value), *bytes),
                        4 => path.acked(now, then, None, *bytes),
                        5 => path.end_acks(now, *value * 1200, *bytes % 2 == 0),
                        6 => path.lost(now, *value, *bytes),
                        7 => path.lost_together(now, then, (*bytes).into()),
                        _ if *bytes % 3 == 0 => path.marked(now, then),
                        _ if *bytes % 3 == 1 => path.spurious(),
                        _ => path.congestion(now, then, *value % 5 == 0),
                    }
                    prop_assert!(path.window() >= 2 * u64::from(MSS));
                }
            }
        }
    }
}
