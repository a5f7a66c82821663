//! The queues of a Linux kernel (recorded by `kernel/record.py`) and ours, given the same packets.
//!
//! Each queue gets the same packets at the same times, and is dequeued at the same times.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::path::Path;

use paceline_units::{Bytes, Duration, Instant, Site};

use super::codel::{Codel, CodelQueue};
use super::discipline::Discipline;
use super::discipline::testing::{Discarded, Probe, SITE};
use super::fq_codel::{FqCodel, FqCodelQueue};
use crate::ack_filter::{Header, redundant};
use crate::packet::QueueLimit;

/// Linux's estimate of 1 / sqrt(count): one step of Newton's each time the count changes, with 16
/// bits; a count of one restarts the estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct InverseRoot(f64);

impl InverseRoot {
    const SCALE: f64 = 65_536.0;

    pub(super) fn new() -> Self {
        Self(0.0)
    }

    pub(super) fn follow(&mut self, count: u32) {
        let root = self.0;
        let next = match count {
            1 => 1.0 - 1.0 / Self::SCALE,
            _ => root * (3.0 - f64::from(count) * root * root) / 2.0,
        };
        self.0 = (next * Self::SCALE).floor() / Self::SCALE;
    }

    /// That fraction of an interval, in whole units of 1024 ns.
    pub(super) fn share(self, interval: Duration) -> Duration {
        let units = (interval.as_nanos() / 1024) as f64 * self.0;
        Duration::from_nanos(units as u64 * 1024)
    }
}

/// An event at one queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A packet arrived, and was refused or not.
    Comes { packet: Probe, dropped: bool },
    /// A dequeue; none if the queue was empty.
    Goes { number: Option<u32>, marked: bool },
    /// PIE is about to compute its probability from a delay; `accumulated` since the last drop.
    Updates {
        probability: f64,
        delay: Duration,
        accumulated: f64,
    },
}

/// The text of a trace that `kernel/record.py` wrote.
pub(super) fn trace(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/traces");
    let file = File::open(folder.join(format!("{name}.txt.zst"))).unwrap();
    String::from_utf8(zstd::decode_all(file).unwrap()).unwrap()
}

/// The events of such a text.
pub(super) fn events(text: &str) -> Vec<(Instant, Event)> {
    let mut events: Vec<(Instant, Event)> = Vec::new();
    let (mut at, mut packet, mut last) = (Instant::ZERO, Probe::new(0, 0), 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        if words[0] == "x" {
            match events.last_mut() {
                Some((_, Event::Comes { dropped, .. })) => *dropped = true,
                other => panic!("{other:?}"),
            }
            continue;
        }
        at += Duration::from_micros(number(1));
        let event = match words[0] {
            "+" => {
                packet.number += 1;
                if words.len() > 2 {
                    packet.size = number(2) as u32;
                    packet.flow = number(3);
                    packet.ecn = number(4) as u8;
                }
                Event::Comes {
                    packet,
                    dropped: false,
                }
            }
            "-" => {
                let column = words.get(2).map(|word| word.trim_end_matches('*'));
                let number = column.map_or(last + 1, |number| number.parse().unwrap());
                if number != 0 {
                    last = number;
                }
                Event::Goes {
                    number: (number != 0).then_some(number),
                    marked: words.get(2).is_some_and(|word| word.ends_with('*')),
                }
            }
            "p" => Event::Updates {
                // 56 bits, and units of 64 ns.
                probability: number(2) as f64 / 2.0_f64.powi(56),
                delay: Duration::from_nanos(number(3) * 64),
                accumulated: number(4) as f64 / 2.0_f64.powi(56),
            },
            other => panic!("{other}"),
        };
        events.push((at, event));
    }
    events
}

/// Packets that were marked by the queue.
pub(super) fn marked(events: &[(Instant, Event)]) -> BTreeSet<u32> {
    let marked = events.iter().filter_map(|(_, event)| match event {
        Event::Goes { number, marked } => number.filter(|_| *marked),
        _ => None,
    });
    marked.collect()
}

/// Packets sent, passed and dropped, by the kernel's own counters.
fn counts(trace: &str) -> [usize; 3] {
    let line = trace.lines().nth(1).unwrap();
    let words = line.split([' ', ',']).filter_map(|word| word.parse().ok());
    words.collect::<Vec<usize>>().try_into().unwrap()
}

const CODEL: Codel = Codel {
    target: Duration::from_millis(5),
    interval: Duration::from_millis(100),
    ecn: false,
};

/// With the Ethernet header, like all sizes here.
const ETHERNET: Site = Site {
    mtu: Bytes::new(1514),
    ..SITE
};

/// A dequeue: when, which packet if any, whether it was marked.
type Departure = (Instant, Option<u32>, bool);

/// The packets of our queue when dequeued at the kernel's times, and those of the kernel. `enqueue`
/// also receives whether the shaper holds a packet: the kernel's queues still count that one.
fn replay(
    trace: &str,
    enqueue: impl Fn(Instant, Probe, bool),
    dequeue: impl Fn(Instant) -> Option<Probe>,
) -> (Vec<Departure>, Vec<Departure>) {
    let (mut ours, mut theirs): (Vec<Departure>, Vec<Departure>) = (Vec::new(), Vec::new());
    for (at, event) in events(trace) {
        match event {
            Event::Comes { packet, .. } => {
                let in_service = theirs.last().is_some_and(|(_, number, _)| number.is_some());
                enqueue(at, packet, in_service);
            }
            Event::Goes { number, marked } => {
                theirs.push((at, number, marked));
                let packet = dequeue(at);
                let number = packet.map(|packet| packet.number);
                ours.push((at, number, packet.is_some_and(|packet| packet.marked)));
            }
            Event::Updates { .. } => panic!("{event:?}"),
        }
    }
    (ours, theirs)
}

fn differences(ours: &[Departure], theirs: &[Departure]) -> Vec<(Departure, Departure)> {
    let both = ours.iter().copied().zip(theirs.iter().copied());
    both.filter(|(ours, theirs)| ours != theirs).collect()
}

fn marks(departures: &[Departure]) -> usize {
    departures.iter().filter(|(_, _, marked)| *marked).count()
}

/// CoDel with Linux's root or with the RFC's: our departures, Linux's departures, and when packets
/// were dropped.
fn replay_codel(
    trace: &str,
    ecn: bool,
    root: Option<InverseRoot>,
) -> (Vec<Departure>, Vec<Departure>, Vec<Instant>) {
    let mut queue = CodelQueue::new(Codel { ecn, ..CODEL }, &ETHERNET, 1);
    queue.state.estimate = root;
    let (queue, discarded) = (RefCell::new(queue), RefCell::new(Discarded::new()));
    let (ours, theirs) = replay(
        trace,
        |at, packet, _| {
            let mut discarded = discarded.borrow_mut();
            let taken = queue
                .borrow_mut()
                .enqueue(at, packet, None, &mut discarded.sink());
            assert_eq!(taken, Ok(()));
        },
        |at| {
            let mut discarded = discarded.borrow_mut();
            queue.borrow_mut().dequeue(at, &mut discarded.sink())
        },
    );
    let discarded = discarded.into_inner();
    let drops = discarded.dropped.iter().map(|(at, ..)| *at).collect();
    (ours, theirs, drops)
}

/// Identical packet by packet: the steps are the same except for the root.
#[test]
fn codel_does_what_linux_does_given_its_root() {
    for (name, ecn, marked) in [("codel", false, 0), ("codel-ecn", true, 58)] {
        let trace = &trace(name);
        let root = Some(InverseRoot::new());
        let (ours, theirs, drops) = replay_codel(trace, ecn, root);
        assert_eq!(differences(&ours, &theirs), []);
        let [sent, passed, dropped] = counts(trace);
        assert_eq!(passed + dropped, sent);
        assert_eq!((drops.len(), marks(&ours)), (dropped, marked));
    }
}

/// Linux has 1 for the first drop, 0.5 for the second and 0.5625 for the third, where the roots are
/// 0.7071 and 0.5774; when it returns to a former rate, it uses the last count's estimate. So its
/// second drop comes after 50 ms, the RFC's after 70.7 ms.
#[test]
fn the_root_is_where_codel_differs_from_linux() {
    let root = |counts: &[u32]| {
        let mut root = InverseRoot::new();
        counts.iter().for_each(|count| root.follow(*count));
        root.share(Duration::from_micros(102_400)).as_nanos() / 102_400
    };
    // In units of 1024 ns; a count of one is one bit short of one.
    assert_eq!(
        [root(&[1]), root(&[1, 2]), root(&[1, 2, 3])],
        [999, 500, 562]
    );
    let us = |n: u64| Instant::ZERO + Duration::from_micros(n);
    for (name, ecn, first, signals) in [
        ("codel", false, (us(331_240), 393), [62, 64]),
        ("codel-ecn", true, (us(311_854), 367), [125, 107]),
    ] {
        let trace = &trace(name);
        let (ours, theirs, drops) = replay_codel(trace, ecn, None);
        // Linux has dropped it and continues with the next.
        let ((at, passed, _), (_, next, _)) = differences(&ours, &theirs)[0];
        assert_eq!(
            (at, passed, next),
            (first.0, Some(first.1), Some(first.1 + 1))
        );
        let [_, _, dropped] = counts(trace);
        assert_eq!(
            [drops.len() + marks(&ours), dropped + marks(&theirs)],
            signals
        );
    }
}

fn replay_fq(trace: &str, fq: FqCodel, limit: u64) -> (Vec<Departure>, Vec<Departure>, usize) {
    let (queue, discarded) = (
        RefCell::new(FqCodelQueue::new(fq, &ETHERNET, 1)),
        RefCell::new(Discarded::new()),
    );
    queue.borrow_mut().estimate(InverseRoot::new());
    let (ours, theirs) = replay(
        trace,
        |at, packet, in_service| {
            let limit = Some(QueueLimit::Packets(limit - u64::from(in_service)));
            let mut discarded = discarded.borrow_mut();
            let mut queue = queue.borrow_mut();
            let taken = queue.enqueue(at, packet, limit, &mut discarded.sink());
            assert_eq!(taken, Ok(()));
        },
        |at| {
            let mut discarded = discarded.borrow_mut();
            queue.borrow_mut().dequeue(at, &mut discarded.sink())
        },
    );
    let dropped = discarded.borrow().dropped.len();
    (ours, theirs, dropped)
}

/// Identical packet by packet with Linux's backlog. With the queue's own, one mark is missing: its
/// packet left an empty queue, with 233 kB in others.
#[test]
fn fq_codel_does_what_linux_does_given_its_root() {
    let trace = &trace("fq-codel");
    let at = Instant::ZERO + Duration::from_micros(2_094_137);
    let missing = ((at, Some(3134), false), (at, Some(3134), true));
    for (total_backlog, marked, expected) in [(true, 93, vec![]), (false, 92, vec![missing])] {
        let fq = FqCodel {
            total_backlog,
            ..FqCodel::default()
        };
        let (ours, theirs, dropped) = replay_fq(trace, fq, 1000);
        assert_eq!(differences(&ours, &theirs), expected);
        assert_eq!((dropped, marks(&ours)), (counts(trace)[2], marked));
    }
}

/// CoDel does not act here: Linux adds overflow drops to its count, the RFC does not.
#[test]
fn fq_codel_overflows_as_in_linux() {
    let trace = &trace("fq-codel-full");
    let fq = FqCodel {
        target: Duration::from_secs(1),
        interval: Duration::from_secs(10),
        ecn: false,
        ..FqCodel::default()
    };
    let (ours, theirs, dropped) = replay_fq(trace, fq, 60);
    assert_eq!(differences(&ours, &theirs), []);
    assert_eq!(dropped, counts(trace)[2]);
}

/// A packet of the schedule `acks` of `kernel/record.py`: its queue, if each flow has its own, and
/// what a filter reads.
fn ack(words: &[&str]) -> Header {
    const SYN: u64 = 2;
    const ACK: u64 = 16;
    const ECN: u64 = 192;
    let word: Vec<u64> = words.iter().map(|word| word.parse().unwrap()).collect();
    let [size, flow, _, flags, number, value, echo, sacks @ ..] = &word[..] else {
        panic!("{words:?}");
    };
    let options = if sacks.is_empty() {
        0
    } else {
        4 + 4 * sacks.len() as u64
    };
    let mut blocks = [[0; 2]; 4];
    for (block, words) in blocks.iter_mut().zip(sacks.chunks(2)) {
        *block = [words[0] as u32, words[1] as u32];
    }
    Header {
        connection: *flow,
        acknowledges: flags & (ACK | SYN) == ACK,
        // No other flag, no option that nobody knows, and no data behind all headers.
        pure: flags & !ECN == ACK && *size == 14 + 20 + 32 + options,
        ecn: (flags >> 6) as u8 & 3,
        ack: *number as u32,
        stamps: Some([*value as u32, *echo as u32]),
        blocks,
        sacks: sacks.len() as u8 / 2,
    }
}

/// Identical packet by packet, in queues of one connection each and in one queue of all.
#[test]
fn acks_are_filtered_as_in_linux() {
    for (name, aggressive, kept) in [("cake", false, 1483), ("cake-blind", true, 1282)] {
        let trace = &trace(name);
        let mut queues: BTreeMap<u64, VecDeque<(u32, Header)>> = BTreeMap::new();
        let (mut number, mut last, mut passed, mut filtered) = (0, 0, 0, 0);
        let mut header = Header::default();
        let mut flows = Vec::new();
        for line in trace.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "+" {
                if words.len() > 2 {
                    header = ack(&words[2..]);
                }
                number += 1;
                let flow = if aggressive { 0 } else { header.connection };
                flows.push(flow);
                let queue = queues.entry(flow).or_default();
                let waiting = queue.iter().map(|(_, header)| Some(*header));
                if let Some(place) = redundant(waiting, &header, aggressive) {
                    queue.remove(place);
                    filtered += 1;
                }
                queue.push_back((number, header));
                continue;
            }
            let gone = words.get(2).map_or(last + 1, |word| word.parse().unwrap());
            if gone == 0 {
                assert!(queues.values().all(VecDeque::is_empty), "after {last}");
                continue;
            }
            (last, passed) = (gone, passed + 1);
            let queue = queues.get_mut(&flows[gone as usize - 1]).unwrap();
            assert_eq!(
                queue.pop_front().map(|(number, _)| number),
                Some(gone),
                "{name}"
            );
        }
        assert_eq!([number as usize, passed, filtered], counts(trace));
        assert_eq!(passed, kept);
    }
}
