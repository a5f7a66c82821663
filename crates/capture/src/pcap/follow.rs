//! A connection, followed from any capture point.

use std::collections::VecDeque;

use paceline_units::{Duration, Instant};

use crate::frame::End;
use crate::tcp::Tcp;
use crate::tracker::Tracker;

/// Maximum numbers of timestamps waiting for their echo and of gaps in a stream: older ones are
/// dropped.
const WAITING: usize = 4096;
/// Data that arrives within this time of the start of a gap was only reordered (RFC 8985 section
/// 6.2: a quarter of the minimum RTT).
const REORDERING: u64 = 4;
/// The same while no RTT is known.
const UNKNOWN: Duration = Duration::from_millis(3);

/// The capture point of a flow, relative to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    /// Close to it: an RTT is from a packet to its ACK.
    Sender,
    /// Elsewhere: the time to the sender and back, from timestamps, is added.
    Between,
}

/// The data of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// None, or a probe of one byte that is not sent for its own sake.
    None,
    /// Seen for the first time, from this byte on.
    New(u64),
    /// A retransmission, from this byte on.
    Again(u64),
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Side {
    pub tracker: Tracker,
    pub data_packets: u64,
    pub retransmitted: u64,
    pub reordered: u64,
    /// Bytes that were acknowledged and never captured.
    pub unseen: u64,
    /// The largest payload.
    pub largest: u32,
    pub first: Option<Instant>,
    pub last: Option<Instant>,
    pub finished: Option<Instant>,
    /// Where the stream ends.
    end: Option<u64>,
    /// The gaps in it: from, to, since.
    gaps: Vec<(u64, u64, Instant)>,
    /// From the capture point to the receiver and back.
    there: Leg,
    /// From the capture point to the sender and back.
    back: Leg,
    /// Timestamps of the receiver that the sender has not echoed.
    stamps: VecDeque<(u32, Instant)>,
}

/// A path segment, there and back.
#[derive(Debug, Default)]
struct Leg {
    latest: Option<Duration>,
    least: Option<Duration>,
}

impl Leg {
    fn on_sample(&mut self, sample: Duration) {
        self.latest = Some(sample);
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
    }
}

impl Side {
    pub fn vantage(&self) -> Vantage {
        match (self.there.least, self.back.least) {
            (Some(there), Some(back)) if back * 10 > there => Vantage::Between,
            _ => Vantage::Sender,
        }
    }

    /// The latest round trip.
    pub fn rtt(&self, vantage: Vantage) -> Option<Duration> {
        join(self.there.latest, self.back.latest, vantage)
    }

    /// The minimum, as far as the flow has been followed.
    pub fn least(&self, vantage: Vantage) -> Option<Duration> {
        join(self.there.least, self.back.least, vantage)
    }

    /// The minimum of the whole flow.
    pub fn least_rtt(&self) -> Option<Duration> {
        self.least(self.vantage())
    }

    /// The data of a segment of this side.
    fn on_data(&mut self, now: Instant, tcp: &Tcp, handshake: Option<Duration>) -> Data {
        let start = self.tracker.start_of(tcp);
        let end = start + u64::from(tcp.len);
        if tcp.fin {
            self.end = Some(end);
        }
        if tcp.len == 0 {
            return Data::None;
        }
        let highest = self.tracker.highest();
        // A keepalive sends the last byte that was acknowledged once more.
        if tcp.len == 1 && start + 1 == highest && self.tracker.acknowledged() == highest {
            return Data::None;
        }
        self.data_packets += 1;
        self.largest = self.largest.max(tcp.len);
        self.first.get_or_insert(now);
        self.last = Some(now);
        if start > highest {
            self.gaps.push((highest, start, now));
            if self.gaps.len() > WAITING {
                self.gaps.remove(0);
            }
        }
        if !self.tracker.on_data(now, tcp) {
            return Data::New(start);
        }
        if self.fills(start, end, now, handshake) {
            self.reordered += 1;
            return Data::New(start);
        }
        self.retransmitted += 1;
        Data::Again(start)
    }

    /// Whether a segment fills a gap so soon that it was reordered and not lost.
    fn fills(&mut self, start: u64, end: u64, now: Instant, handshake: Option<Duration>) -> bool {
        let gap = self
            .gaps
            .iter()
            .position(|(from, to, _)| *from <= start && end <= *to);
        let Some((from, to, since)) = gap.map(|place| self.gaps.swap_remove(place)) else {
            return false;
        };
        for (from, to) in [(from, start), (end, to)] {
            if from < to {
                self.gaps.push((from, to, since));
            }
        }
        let rtt = join(self.there.least, self.back.least, Vantage::Between).or(handshake);
        now.since(since) < rtt.map_or(UNKNOWN, |rtt| rtt / REORDERING)
    }

    /// The other side acknowledges.
    fn on_ack(&mut self, now: Instant, tcp: &Tcp) {
        let ack = self.tracker.ack_of(tcp);
        let highest = self.tracker.highest();
        // A FIN uses a sequence number.
        let end = self.end.map_or(ack, |end| ack.min(end));
        if end > highest + u64::from(self.end.is_none()) {
            self.unseen += end - highest;
            self.tracker.skip_to(end);
        }
        if let Some(rtt) = self.tracker.on_ack(now, tcp) {
            self.there.on_sample(rtt);
        }
        if self.finished.is_none() && self.end.is_some_and(|end| ack > end) {
            self.finished = Some(now);
        }
        if self.first.is_some() {
            self.last = Some(now);
        }
    }

    /// The receiver sends a timestamp, for the sender to echo.
    fn on_stamp(&mut self, now: Instant, stamp: u32) {
        if stamp != 0 && self.stamps.back().is_none_or(|(last, _)| *last != stamp) {
            self.stamps.push_back((stamp, now));
            if self.stamps.len() > WAITING {
                self.stamps.pop_front();
            }
        }
    }

    /// The sender echoes one.
    fn on_echo(&mut self, now: Instant, echo: u32) {
        let found = self.stamps.iter().position(|(stamp, _)| *stamp == echo);
        if let Some((_, since)) = found.and_then(|place| self.stamps.drain(..=place).next_back()) {
            self.back.on_sample(now.since(since));
        }
    }
}

fn join(there: Option<Duration>, back: Option<Duration>, vantage: Vantage) -> Option<Duration> {
    let there = there?;
    Some(match (vantage, back) {
        (Vantage::Between, Some(back)) => there + back,
        _ => there,
    })
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The address and port of each side; the first is the one that was first seen to send.
    pub ends: [End; 2],
    pub sides: [Side; 2],
    /// Whether its beginning was captured.
    pub opened: bool,
    /// The RTT of its handshake.
    pub handshake: Option<Duration>,
    /// The time of its SYN, and of the SYN-ACK.
    syns: [Option<(Instant, u32)>; 2],
    broken: bool,
}

impl Connection {
    pub fn new(from: End, to: End) -> Self {
        Self {
            ends: [from, to],
            sides: [Side::default(), Side::default()],
            opened: false,
            handshake: None,
            syns: [None; 2],
            broken: false,
        }
    }

    /// Whether a segment begins another connection of the same ends.
    pub fn is_over(&self, from: End, tcp: &Tcp) -> bool {
        let side = usize::from(self.ends[0] != from);
        let other = self.syns[side].is_none_or(|(_, seq)| seq != tcp.seq);
        let used = self.broken || self.sides.iter().any(|side| side.data_packets > 0);
        tcp.syn && other && used
    }

    /// A segment of one of its sides passes.
    pub fn on_segment(&mut self, now: Instant, from: usize, tcp: &Tcp) -> Data {
        self.broken |= tcp.rst;
        let [first, second] = &mut self.sides;
        let (own, other) = match from {
            0 => (first, second),
            _ => (second, first),
        };
        if tcp.syn {
            self.opened = true;
            self.syns[from].get_or_insert((now, tcp.seq));
            own.tracker.on_data(now, tcp);
            other.tracker.on_ack(now, tcp);
            return Data::None;
        }
        if let ([Some((opened, _)), Some((answered, _))], None) = (self.syns, self.handshake) {
            // From the SYN to the ACK of the SYN-ACK is a round trip, at any capture point.
            if usize::from(answered < opened) == from {
                self.handshake = Some(now.since(opened.min(answered)));
            }
        }
        own.tracker.begin(tcp.seq);
        other.tracker.begin(tcp.ack);
        other.on_stamp(now, tcp.stamp);
        own.on_echo(now, tcp.echo);
        let data = own.on_data(now, tcp, self.handshake);
        other.on_ack(now, tcp);
        data
    }
}
