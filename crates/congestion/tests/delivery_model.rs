//! Compares the sampler with a slow model that keeps the whole history and follows the definitions
//! of draft-ietf-ccwg-bbr-06 section 4.1 literally.

use paceline_congestion::{Delivery, PacketState, RateSample};
use paceline_units::{Bytes, Duration, Instant};
use proptest::prelude::*;

/// The events, in order.
enum Happened {
    /// A packet was sent, with nothing in flight before it or not.
    Sent {
        id: usize,
        at: Instant,
        idle: bool,
    },
    /// These packets were delivered on one ACK.
    Acked {
        ids: Vec<usize>,
        at: Instant,
    },
    Lost {
        id: usize,
    },
}

#[derive(Default)]
struct Model {
    history: Vec<Happened>,
    sizes: Vec<u32>,
    sent_at: Vec<Instant>,
    in_flight_after: Vec<u64>,
    limited: Vec<bool>,
    /// The lifetime minimum RTT, if there is one.
    min_rtt: Option<Duration>,
}

impl Model {
    fn sent_index(&self, id: usize) -> usize {
        self.history
            .iter()
            .position(|h| matches!(h, Happened::Sent { id: sent, .. } if *sent == id))
            .unwrap()
    }

    fn volume(&self, ids: &[usize]) -> u64 {
        ids.iter().map(|&id| u64::from(self.sizes[id])).sum()
    }

    fn newest(&self, ids: &[usize]) -> usize {
        *ids.iter()
            .max_by_key(|&&id| (self.sent_at[id], id))
            .unwrap()
    }

    fn delivered_before(&self, index: usize) -> u64 {
        self.history[..index]
            .iter()
            .map(|h| match h {
                Happened::Acked { ids, .. } => self.volume(ids),
                _ => 0,
            })
            .sum()
    }

    fn lost_before(&self, index: usize) -> u64 {
        self.history[..index]
            .iter()
            .map(|h| match h {
                Happened::Lost { id } => u64::from(self.sizes[*id]),
                _ => 0,
            })
            .sum()
    }

    /// The start of the send phase and of the ACK phase of a packet: at the last ACK before it was
    /// sent, or where sending restarted after a silence.
    fn phases(&self, index: usize) -> (Instant, Instant) {
        for event in self.history[..=index].iter().rev() {
            match event {
                Happened::Sent { at, idle: true, .. } => return (*at, *at),
                Happened::Acked { ids, at } => return (self.sent_at[self.newest(ids)], *at),
                _ => {}
            }
        }
        unreachable!("the first packet is sent into silence")
    }

    /// The sample of the last ACK.
    fn sample(&self) -> RateSample {
        let Some(Happened::Acked { ids, at }) = self.history.last() else {
            return RateSample::default();
        };
        let newest = self.newest(ids);
        let sent = self.sent_index(newest);
        let (send_phase, ack_phase) = self.phases(sent);
        let interval = self.sent_at[newest]
            .since(send_phase)
            .max(at.since(ack_phase));
        let end = self.history.len();
        RateSample {
            has_data: true,
            delivered: Bytes::new(self.delivered_before(end) - self.delivered_before(sent)),
            delivered_ce: Bytes::ZERO,
            prior_delivered: Bytes::new(self.delivered_before(sent)),
            interval: match self.min_rtt {
                Some(min) if interval < min => Duration::ZERO,
                _ => interval,
            },
            tx_in_flight: Bytes::new(self.in_flight_after[newest]),
            lost: Bytes::new(self.lost_before(end) - self.lost_before(sent)),
            app_limited: self.limited[newest],
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send {
        gap: u64,
        size: u32,
    },
    Ack {
        gap: u64,
        picks: Vec<prop::sample::Index>,
    },
    Lose(prop::sample::Index),
    Limit,
}

fn op() -> impl Strategy<Value = Op> {
    let gap = prop_oneof![3 => 0u64..3, 3 => 0u64..5_000_000, 1 => Just(10_000_000_000)];
    let size = prop_oneof![Just(1448u32), 1u32..3000, Just(u32::MAX)];
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 1..5);
    prop_oneof![
        5 => (gap.clone(), size).prop_map(|(gap, size)| Op::Send { gap, size }),
        4 => (gap, picks).prop_map(|(gap, picks)| Op::Ack { gap, picks }),
        1 => any::<prop::sample::Index>().prop_map(Op::Lose),
        1 => Just(Op::Limit),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_definitions(ops in prop::collection::vec(op(), 1..120), min_rtt in prop_oneof![Just(0u64), 0u64..3_000_000]) {
        let mut delivery = Delivery::default();
        let mut model = Model::default();
        if min_rtt > 0 {
            model.min_rtt = Some(Duration::from_nanos(min_rtt));
            delivery.on_rtt(Duration::from_nanos(min_rtt));
        }
        let mut now = Instant::from_nanos(1);
        let mut packets: Vec<PacketState> = Vec::new();
        let mut outstanding: Vec<usize> = Vec::new();
        // The model's own application-limited mark: the draft's C.app_limited.
        let mut limit: Option<u64> = None;
        for op in ops {
            let in_flight: u64 = model.volume(&outstanding);
            match op {
                Op::Send { gap, size } => {
                    now += Duration::from_nanos(gap);
                    let id = packets.len();
                    packets.push(delivery.on_send(now, size, Bytes::new(in_flight)));
                    model.history.push(Happened::Sent { id, at: now, idle: in_flight == 0 });
                    model.sizes.push(size);
                    model.sent_at.push(now);
                    model.in_flight_after.push(in_flight + u64::from(size));
                    model.limited.push(limit.is_some());
                    outstanding.push(id);
                }
                Op::Ack { gap, picks } => {
                    now += Duration::from_nanos(gap);
                    let mut ids = Vec::new();
                    for pick in picks {
                        if !outstanding.is_empty() {
                            ids.push(outstanding.swap_remove(pick.index(outstanding.len())));
                        }
                    }
                    if ids.is_empty() {
                        prop_assert_eq!(delivery.sample(), RateSample::default());
                        continue;
                    }
                    for &id in &ids {
                        delivery.on_delivered(now, &packets[id], id as u64, false);
                    }
                    model.history.push(Happened::Acked { ids, at: now });
                    prop_assert_eq!(delivery.sample(), model.sample());
                    let delivered = model.delivered_before(model.history.len());
                    prop_assert_eq!(delivery.delivered().get(), delivered);
                    if limit.is_some_and(|mark| delivered > mark) {
                        limit = None;
                    }
                }
                Op::Lose(pick) => {
                    if !outstanding.is_empty() {
                        let id = outstanding.swap_remove(pick.index(outstanding.len()));
                        delivery.on_lost(&packets[id]);
                        model.history.push(Happened::Lost { id });
                    }
                }
                Op::Limit => {
                    delivery.mark_app_limited(Bytes::new(in_flight));
                    let delivered = model.delivered_before(model.history.len());
                    limit = Some((delivered + in_flight).max(1));
                }
            }
            prop_assert_eq!(delivery.is_app_limited(), limit.is_some());
        }
    }
}

#[test]
fn a_steady_flow_measures_its_rate() {
    // 1000 B per millisecond, acknowledged 10 ms later: 8 Mbit/s.
    let mut delivery = Delivery::default();
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    let mut packets = Vec::new();
    let mut rate = 0;
    for ms in 0..40u64 {
        if ms >= 10 {
            let packet: PacketState = packets[(ms - 10) as usize];
            delivery.on_delivered(at(ms), &packet, ms, false);
            rate = delivery.sample().delivery_rate().bps();
        }
        packets.push(delivery.on_send(at(ms), 1000, Bytes::new(1000 * ms.min(10))));
    }
    assert_eq!(rate, 8_000_000);
}

/// 1000 B every 10 ms, acknowledged after 1 ms: one packet per round trip if intervals restart with
/// nothing in flight, the sending rate if the pacer is below and intervals continue.
#[test]
fn less_than_a_packet_a_round_trip_is_measured_if_the_pacer_is_below() {
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    for (below, expected) in [(false, 8_000_000), (true, 800_000)] {
        let mut delivery = Delivery::new(below);
        let mut send = |ms: u64, app_limited: bool| {
            if app_limited {
                delivery.mark_app_limited(Bytes::ZERO);
            }
            let packet = delivery.on_send(at(ms), 1000, Bytes::ZERO);
            delivery.on_delivered(at(ms + 1), &packet, ms, false);
            delivery.sample().delivery_rate().bps()
        };
        assert_eq!(send(0, false), 8_000_000, "the first");
        assert_eq!([send(10, false), send(20, false)], [expected; 2]);
        // An idle application, however, does not give the path's rate.
        assert_eq!(send(500, true), 8_000_000);
    }
}

/// Nothing has been delivered before the first flight: its interval begins with it, wherever the
/// pacer is.
#[test]
fn the_first_flight_begins_its_interval() {
    for pacer_below in [false, true] {
        let mut delivery = Delivery::new(pacer_below);
        let sent = Instant::ZERO + Duration::from_secs(5);
        let packet = delivery.on_send(sent, 1000, Bytes::ZERO);
        delivery.on_delivered(sent + Duration::from_millis(10), &packet, 0, false);
        assert_eq!(delivery.sample().interval, Duration::from_millis(10));
    }
}
