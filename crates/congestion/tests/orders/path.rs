//! A random path: a link with a queue that marks, loses and delays.

use std::collections::BTreeMap;

use paceline_congestion::{Controller, Ecn, Recipe, Rng};
use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::quic::{AckFrame, Sender};

#[derive(Clone, Debug)]
pub struct Path {
    pub rate: Rate,
    pub rtt: Duration,
    /// The queue's size in packets, and the threshold from which on it marks.
    pub queue: u64,
    pub mark: u64,
    /// Of a thousand packets, the number lost, and the number delayed by up to 5 ms.
    pub loss: u64,
    pub late: u64,
    /// Packets per ACK.
    pub ack_every: usize,
    pub seed: u64,
    /// Additional events, at a third and at half of the run: keys discarded, another MSS, a pause,
    /// another path, an outage of one and a half seconds.
    pub story: [u8; 2],
}

#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub goodput: Rate,
    pub lost: f64,
    /// The longest time without a delivery.
    pub stall: Duration,
    /// All such times that are as long as an outage.
    pub silent: Duration,
    pub persistent: u32,
    pub spurious: u32,
}

/// The progress of an outage.
pub const OUTAGE: u8 = 5;
const OUTAGE_LENGTH: Duration = Duration::from_millis(1500);
pub const LENGTH: Duration = Duration::from_secs(10);
const MSS: u32 = 1200;

enum Event {
    Arrive(u64, Ecn, Instant),
    Hold,
    Ack(AckFrame),
}

/// Runs a controller over a path. Asserts the invariants of every run.
pub fn run(recipe: &Recipe, path: &Path, losses_first: bool) -> Outcome {
    let name = recipe.name();
    let mut sender = Sender::new(recipe.clone(), losses_first, MSS, path.seed, Instant::ZERO);
    let mut rng = Rng::new(path.seed);
    let mut agenda: BTreeMap<(Instant, u64), Event> = BTreeMap::new();
    let (mut now, mut order, mut free) = (Instant::ZERO, 0_u64, Instant::ZERO);
    let (mut waiting, mut hold) = (AckFrame::default(), None);
    let (mut received, mut last) = (0_u64, Instant::ZERO);
    let (mut stall, mut silent) = (Duration::ZERO, Duration::ZERO);
    let mut wait = |time: Duration| {
        stall = stall.max(time);
        if time >= OUTAGE_LENGTH {
            silent += time;
        }
        (stall, silent)
    };
    let mut story = [LENGTH / 3, LENGTH / 2]
        .into_iter()
        .zip(path.story)
        .collect::<Vec<_>>();
    let end = Instant::ZERO + LENGTH;
    let (mut spins, mut outage) = (0, Instant::ZERO);
    while now < end {
        let due = agenda
            .first_key_value()
            .map_or(Instant::MAX, |((at, _), _)| *at);
        let timer = sender.next_timer().max(now);
        let next = due.min(timer);
        spins = if next > now { 0 } else { spins + 1 };
        assert!(spins < 100_000, "{name} spins at {now:?} over {path:?}");
        now = next;
        let mut out = Vec::new();
        if due <= now {
            let (_, event) = agenda.pop_first().expect("due");
            match event {
                Event::Arrive(number, ecn, sent) => {
                    let gap = waiting
                        .numbers
                        .last()
                        .is_some_and(|last| number != last + 1);
                    received += 1;
                    wait(now.since(last));
                    last = now;
                    waiting.numbers.push(number);
                    waiting.marked += if ecn == Ecn::Ce { u64::from(MSS) } else { 0 };
                    waiting.one_way = now.since(sent);
                    if gap || waiting.numbers.len() >= path.ack_every {
                        hold = Some(now);
                    } else if hold.is_none() {
                        hold = Some(now + Duration::from_millis(25));
                        waiting.delayed = true;
                    }
                    order += 1;
                    agenda.insert((hold.unwrap_or(now), order), Event::Hold);
                }
                Event::Hold if hold.is_some_and(|at| at <= now) => {
                    hold = None;
                    order += 1;
                    let frame = std::mem::take(&mut waiting);
                    agenda.insert((now + path.rtt / 2, order), Event::Ack(frame));
                }
                Event::Hold => {}
                Event::Ack(frame) => sender.on_ack(now, &frame),
            }
        } else {
            out.extend(sender.on_timer(now));
        }
        while story
            .first()
            .is_some_and(|(at, _)| now.since(Instant::ZERO) >= *at)
        {
            match story.remove(0).1 {
                0 => {}
                1 => sender.discard(3),
                2 => sender.set_mss(MSS + 200),
                3 => sender.pause(),
                4 => sender.change_path(now),
                OUTAGE => outage = now + OUTAGE_LENGTH,
                other => panic!("no story {other}"),
            }
        }
        while let Some(packet) = sender.poll_transmit(now) {
            out.push(packet);
            assert!(out.len() < 1_000_000, "{name} never stops over {path:?}");
        }
        let cwnd = sender.controller.cwnd();
        assert!(
            cwnd > Bytes::ZERO && !cwnd.is_infinite(),
            "{name}: {cwnd:?} over {path:?}"
        );
        assert!(
            sender.controller.send_quantum() > Bytes::ZERO,
            "{name} over {path:?}"
        );
        assert!(
            sender.controller.pacing_rate() != Some(Rate::ZERO),
            "{name} over {path:?}"
        );
        for (number, size, ecn) in out {
            let size = Bytes::new(u64::from(size));
            let queued = path.rate.volume_in(free.since(now)).packets(size.get());
            if queued >= path.queue || now < outage || rng.below(1000) < path.loss {
                continue;
            }
            let ecn = if ecn != Ecn::NotEct && queued >= path.mark {
                Ecn::Ce
            } else {
                ecn
            };
            free = free.max(now) + path.rate.time_for(size);
            let late = if rng.below(1000) < path.late {
                rng.below(5_000)
            } else {
                0
            };
            let arrival = free + path.rtt / 2 + Duration::from_micros(late);
            order += 1;
            agenda.insert((arrival, order), Event::Arrive(number, ecn, now));
        }
    }
    let (stall, silent) = wait(end.since(last));
    Outcome {
        goodput: Rate::from_delivery(Bytes::new(received * u64::from(MSS)), LENGTH),
        lost: sender.lost_packets as f64 / sender.sent_packets.max(1) as f64,
        stall,
        silent,
        persistent: sender.persistent,
        spurious: sender.spurious,
    }
}
