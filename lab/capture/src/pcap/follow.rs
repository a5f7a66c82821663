//! A connection, followed from any capture point.

use std::collections::VecDeque;

use paceline_units::{Duration, Instant};

use crate::frame::End;
use crate::pcap::copies::Copies;
use crate::pcap::sizes::{Packets, Sizes};
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
/// Nothing is sent again within this time, nor within a quarter of the minimum RTT.
const COPIED: Duration = Duration::from_millis(10);
/// The same while no RTT is known.
const COPIED_UNKNOWN: Duration = Duration::from_millis(1);
/// A SYN that announces less is not believed: an IPv4 host takes 576 bytes, and options are short.
const LEAST_MSS: u16 = 88;
/// Without timestamps, a capture is near the receiver if the handshake took this many times longer
/// to the sender and back than data takes to the receiver.
const FAR: u64 = 4;
/// Without a handshake too, if mostly fewer packets than these wait for an ACK as another passes, and
/// at least so many pass: a receiver acknowledges every second packet, and a sender fills a path.
const CROWD: u64 = 2;
const ENOUGH: u64 = 100;
/// A full packet's bytes, if segments are merged and the SYNs do not show it.
const PACKET: u32 = 1500;
/// An echo for which the sender may have waited for data is an RTT up to this many times the
/// minimum.
const IDLE: u64 = 2;

/// The capture point of a flow, relative to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vantage {
    /// Close to it: an RTT is from a packet to its ACK.
    Sender,
    /// Elsewhere: the time to the sender and back, from timestamps, is added.
    Between,
    /// Near the receiver, as it seems, without timestamps: RTTs are not known.
    Receiver,
}

/// The data of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// None, or a probe that is not sent for its own sake.
    None,
    /// The packet was captured before.
    Copy,
    /// Seen for the first time, from this byte on.
    New(u64),
    /// A retransmission, from this byte on.
    Again(u64),
    /// Some of it; its parts: from, to, and whether it is a retransmission.
    Mixed(Vec<(u64, u64, bool)>),
}

/// A gap in a stream.
#[derive(Clone, Copy, Debug)]
struct Gap {
    from: u64,
    to: u64,
    since: Instant,
    /// Of the packet that was sent after the gap: its timestamp and its identification.
    stamp: Option<u32>,
    id: Option<u16>,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Side {
    pub tracker: Tracker,
    pub copies: Copies,
    pub packets: Packets,
    pub reordered: u64,
    /// ACKs of data that the capture did not have before.
    ahead: u64,
    /// The largest captured payload, and the payload of a full packet.
    largest: u32,
    piece: Option<u32>,
    /// The largest segment, as the SYNs announce it.
    mss: Option<u16>,
    sizes: Sizes,
    /// The fewest bytes of options in a header of data.
    options: Option<u8>,
    pub first: Option<Instant>,
    /// When it last sent data, or had some acknowledged.
    pub last: Option<Instant>,
    /// When it last sent data.
    sent: Option<Instant>,
    pub finished: Option<Instant>,
    /// Where its captured data begins.
    begin: u64,
    /// How far it was acknowledged when its first packet was captured.
    base: Option<u64>,
    /// Whether the other side acknowledges anything in the capture.
    is_answered: bool,
    /// Where the stream ends.
    end: Option<u64>,
    gaps: Vec<Gap>,
    /// Packets with data, and those of them before which several waited for an ACK.
    crowded: (u64, u64),
    /// The window that the receiver announced last, beyond its acknowledgment.
    window: Option<u64>,
    /// The byte that probes a closed window.
    probe: Option<u64>,
    /// Successive packets with data, and those of them that count identifications up.
    steps: (u64, u64),
    last_id: Option<u16>,
    /// From the capture point to the receiver and back.
    there: Leg,
    /// From the capture point to the sender and back.
    back: Leg,
    /// The same in the handshake.
    opening: Option<Duration>,
    /// Timestamps of the receiver that the sender has not echoed: first and last time.
    stamps: VecDeque<(u32, Instant, Instant)>,
    /// The latest of them, and when it first passed, in whatever segment.
    ticked: Option<(u32, Instant)>,
    /// An echo above this time may have waited for data.
    idle: Option<Duration>,
    /// How many were left out for that.
    pub waited: u64,
}

/// A path segment, there and back.
#[derive(Debug, Default)]
struct Leg {
    latest: Option<(Duration, Instant)>,
    least: Option<Duration>,
}

impl Leg {
    fn on_sample(&mut self, now: Instant, sample: Duration) {
        self.latest = Some((sample, now));
        self.see(sample);
    }

    fn see(&mut self, sample: Duration) {
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
    }

    /// The latest, if it was measured after a time.
    fn after(&self, time: Option<Instant>) -> Option<Duration> {
        let latest = self
            .latest
            .filter(|(_, at)| time.is_none_or(|time| *at > time));
        latest.map(|(sample, _)| sample)
    }
}

impl Side {
    /// An empty side of a connection of which everything is known: how to count it.
    fn like(known: &Self) -> Self {
        Self {
            piece: known.piece,
            base: known.base,
            is_answered: known.is_answered,
            idle: known.back.least.map(|least| least * IDLE),
            ..Self::default()
        }
    }

    /// Decides how to count packets once all of them have passed.
    pub fn settle(&mut self) {
        let options = self.options.unwrap_or(0).into();
        let announced = self.mss.map(|mss| (mss.into(), options));
        if let Some(piece) = self.sizes.piece(announced) {
            self.piece = Some(piece);
            self.packets = self.sizes.packets(piece);
        }
    }

    /// Whether the SYNs show the size of packets.
    pub fn is_sized(&self) -> bool {
        self.mss.is_some()
    }

    /// The payload of a full packet.
    pub fn full(&self) -> u32 {
        self.piece
            .map_or(self.largest, |piece| piece.min(self.largest))
    }

    /// Bytes that the receiver acknowledged since the flow's first packet; all bytes, if the
    /// capture has nothing of the receiver.
    pub fn goodput(&self) -> u64 {
        match self.is_answered {
            true => {
                let base = self.base.unwrap_or(self.begin);
                self.tracker.acknowledged().saturating_sub(base)
            }
            false => self.tracker.passed().total(),
        }
    }

    /// The same, with what was acknowledged selectively.
    pub fn delivered(&self) -> u64 {
        self.goodput() + self.tracker.ahead()
    }

    /// How often its packets do not follow each other as they are sent.
    pub fn oddities(&self) -> u64 {
        self.ahead + self.reordered + self.packets.again
    }

    /// Bytes of data in the capture, each once.
    pub fn carried(&self) -> u64 {
        self.tracker.passed().total()
    }

    pub fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Bytes that were acknowledged and are not in the capture.
    fn unseen(&self, opened: bool) -> u64 {
        if self.first.is_none() {
            return 0;
        }
        let from = match opened {
            true => self.tracker.origin(),
            false => self.begin,
        };
        let passed = self.tracker.passed();
        let missing = passed.missing(from, self.tracker.acknowledged());
        missing.iter().map(|(from, to)| to - from).sum::<u64>() + passed.joined()
    }

    pub fn vantage(&self) -> Vantage {
        match (self.there.least, self.back.least, self.opening) {
            (Some(there), Some(back), _) if back * 10 > there => Vantage::Between,
            (Some(there), None, Some(back)) if back > there * FAR => Vantage::Receiver,
            (Some(_), None, None) if self.is_crowded() == Some(false) => Vantage::Receiver,
            _ => Vantage::Sender,
        }
    }

    /// Whether several packets mostly waited for an ACK as another passed, if enough have passed.
    fn is_crowded(&self) -> Option<bool> {
        let (all, crowded) = self.crowded;
        (all >= ENOUGH).then_some(crowded * 2 > all)
    }

    /// The latest round trip, if it was measured after a time.
    pub fn rtt(&self, vantage: Vantage, after: Option<Instant>) -> Option<Duration> {
        match vantage {
            Vantage::Sender => self.there.after(after),
            Vantage::Between => Some(self.there.after(None)? + self.back.after(after)?),
            Vantage::Receiver => None,
        }
    }

    /// The minimum, as far as the flow has been followed.
    pub fn least(&self, vantage: Vantage) -> Option<Duration> {
        match vantage {
            Vantage::Sender => self.there.least,
            Vantage::Between => Some(self.there.least? + self.back.least?),
            Vantage::Receiver => None,
        }
    }

    /// The minimum of the whole flow.
    pub fn least_rtt(&self) -> Option<Duration> {
        self.least(self.vantage())
    }

    /// A packet of this side that is no copy: whether identifications count its packets.
    fn counts_up(&self) -> bool {
        let (steps, up) = self.steps;
        steps >= 4 && up * 10 >= steps * 9
    }

    /// The data of a segment of this side.
    fn on_data(&mut self, now: Instant, tcp: &Tcp, id: Option<u16>, rtt: Option<Duration>) -> Data {
        let (start, end) = self.tracker.span(tcp);
        if tcp.fin {
            self.end = Some(end);
        }
        if start >= end {
            return Data::None;
        }
        let (highest, acknowledged) = (self.tracker.highest(), self.tracker.acknowledged());
        // A keepalive sends the last byte that was acknowledged once more.
        if tcp.len == 1 && start + 1 == highest && acknowledged == highest {
            return Data::None;
        }
        // A closed window is probed with the next byte, which is sent again with what follows it
        // (RFC 9293 section 3.8.6.1).
        if tcp.len == 1 && start == acknowledged && self.window == Some(0) {
            self.probe = Some(start);
            return Data::None;
        }
        if self.first.is_none() {
            self.first = Some(now);
            self.begin = start;
            if self.is_answered && self.base.is_none() {
                self.base = Some(acknowledged);
            }
        }
        self.begin = self.begin.min(start);
        let ahead = self.tracker.ahead();
        let waiting = self.tracker.in_flight().saturating_sub(ahead);
        self.crowded.0 += 1;
        self.crowded.1 += u64::from(waiting >= CROWD * u64::from(self.full().min(PACKET)));
        (self.last, self.sent) = (Some(now), Some(now));
        let late = match start < highest {
            true => self.tracker.passed().missing(start, end.min(highest)),
            false => Vec::new(),
        };
        if start >= highest {
            if let (Some(last), Some(id)) = (self.last_id, id) {
                let step = id.wrapping_sub(last);
                let up = u64::from(0 < step && step <= 1024);
                self.steps = (self.steps.0 + 1, self.steps.1 + up);
            }
            if start > highest {
                self.open_gap(highest, start, now, tcp.stamp, id);
            }
        }
        self.last_id = id;
        let known = self.tracker.on_data(now, tcp);
        let late: Vec<(u64, u64, bool)> = late
            .into_iter()
            .map(|(from, to)| (from, to, !self.fills(from, to, now, tcp, id, rtt)))
            .collect();
        let resent = late.iter().filter(|(.., again)| *again);
        let again = known + resent.map(|(from, to, _)| to - from).sum::<u64>();
        self.reordered += u64::from(late.iter().any(|(.., again)| !again));
        self.count(tcp, again as u32);
        let origin = self.tracker.origin();
        match again {
            0 => Data::New(start.saturating_sub(origin)),
            again if again == end - start => Data::Again(start.saturating_sub(origin)),
            _ => {
                let (mut parts, mut from) = (Vec::new(), start);
                let fresh = (highest.clamp(start, end), end, false);
                for part in late.into_iter().chain([fresh]) {
                    // What lies between was captured before.
                    for (from, to, again) in [(from, part.0, true), part] {
                        if from < to {
                            let place = |at: u64| at.saturating_sub(origin);
                            parts.push((place(from), place(to), again));
                        }
                    }
                    from = from.max(part.1);
                }
                Data::Mixed(parts)
            }
        }
    }

    /// Counts a segment, `again` bytes of which are sent again.
    fn count(&mut self, tcp: &Tcp, again: u32) {
        self.packets.add((tcp.len, again), self.piece, 1);
        self.sizes.add(tcp.len, again);
        self.options = Some(
            self.options
                .map_or(tcp.options, |least| least.min(tcp.options)),
        );
        self.largest = self.largest.max(tcp.len);
    }

    fn open_gap(
        &mut self,
        from: u64,
        to: u64,
        since: Instant,
        stamp: Option<u32>,
        id: Option<u16>,
    ) {
        if self.gaps.len() >= WAITING {
            self.gaps.remove(0);
        }
        self.gaps.push(Gap {
            from,
            to,
            since,
            stamp,
            id,
        });
    }

    /// Whether bytes that fill gaps were reordered and not lost: they were sent before what followed
    /// the gap, as timestamps or identifications say, or they come too soon for a retransmission.
    fn fills(
        &mut self,
        start: u64,
        end: u64,
        now: Instant,
        tcp: &Tcp,
        id: Option<u16>,
        rtt: Option<Duration>,
    ) -> bool {
        let soon = rtt.map_or(UNKNOWN, |rtt| rtt / REORDERING);
        let counts_up = self.counts_up();
        let mut reordered = None;
        for gap in std::mem::take(&mut self.gaps) {
            let (from, to) = (start.max(gap.from), end.min(gap.to));
            if from >= to {
                self.gaps.push(gap);
                continue;
            }
            for (from, to) in [(gap.from, from), (to, gap.to)] {
                if from < to {
                    self.gaps.push(Gap { from, to, ..gap });
                }
            }
            let stamps = tcp.stamp.zip(gap.stamp);
            let order = stamps.map(|(own, after)| own.wrapping_sub(after).cast_signed());
            let ids = id.zip(gap.id).filter(|_| counts_up);
            let counted = ids.map(|(own, after)| own.wrapping_sub(after).cast_signed().into());
            let order = order.filter(|order| *order != 0).or(counted);
            let earlier = match order {
                Some(order) => order < 0,
                None => now.since(gap.since) < soon,
            };
            reordered = Some(reordered.unwrap_or(true) && earlier);
        }
        // Before the first packet of the capture.
        reordered.unwrap_or_else(|| self.first.is_some_and(|first| now.since(first) < soon))
    }

    /// Whether the other side acknowledges more than before.
    fn advances(&self, tcp: &Tcp) -> bool {
        let ack = self.tracker.ack_of(tcp);
        ack.is_some_and(|ack| ack > self.tracker.acknowledged())
    }

    /// The other side acknowledges.
    fn on_ack(&mut self, now: Instant, tcp: &Tcp) {
        let Some(ack) = self.tracker.ack_of(tcp) else {
            return;
        };
        self.is_answered = true;
        if self.first.is_some() && self.base.is_none() {
            self.base = Some(ack.min(self.begin));
        }
        if let Some(probe) = self.probe.filter(|probe| *probe < ack) {
            self.tracker.pass(probe, probe + 1);
            self.probe = None;
        }
        let highest = self.tracker.highest();
        // A FIN uses a sequence number.
        let end = self.end.map_or(ack, |end| ack.min(end));
        if end > highest + u64::from(self.end.is_none()) {
            self.ahead += 1;
            self.open_gap(highest, end, now, None, None);
            self.tracker.skip_to(end);
        }
        let before = self.tracker.delivered();
        if let Some(rtt) = self.tracker.on_ack(now, tcp) {
            self.there.on_sample(now, rtt);
        }
        if !tcp.rst && ack >= self.tracker.acknowledged() {
            self.window = Some(self.tracker.window_of(tcp));
        }
        if self.finished.is_none() && self.end.is_some_and(|end| ack > end) {
            self.finished = Some(now);
        }
        if self.first.is_some() && self.tracker.delivered() > before {
            self.last = Some(now);
        }
    }

    /// The receiver sends a timestamp, for the sender to echo; `counts` is whether data may answer
    /// it at once.
    ///
    /// Its clock ticks every millisecond or less often, so an earlier segment may have had the same
    /// one, and be what is echoed: an RTT is never measured too short.
    fn on_stamp(&mut self, now: Instant, stamp: u32, counts: bool) {
        let same = self.ticked.filter(|&(last, _)| last == stamp);
        let (_, first) = *self.ticked.insert(same.unwrap_or((stamp, now)));
        if !counts {
            return;
        }
        match self.stamps.back_mut() {
            Some((last, _, at)) if *last == stamp => *at = now,
            _ => {
                self.stamps.push_back((stamp, first, now));
                if self.stamps.len() > WAITING {
                    self.stamps.pop_front();
                }
            }
        }
    }

    /// The sender echoes one. If the segment acknowledges nothing new, and no data has arrived since
    /// the timestamp passed, it may have waited for the application (RFC 7323 section 4).
    fn on_echo(&mut self, now: Instant, echo: u32, advances: bool, data: Option<Instant>) {
        let sent = self.stamps.iter().position(|(stamp, ..)| *stamp == echo);
        let sent = sent.and_then(|place| self.stamps.drain(..=place).next_back());
        if let Some((_, first, last)) = sent {
            let sample = now.since(first);
            let is_busy = advances || data.is_some_and(|data| data > last);
            if is_busy || self.idle.is_none_or(|most| sample <= most) {
                self.back.on_sample(now, sample);
            } else {
                self.waited += 1;
                self.back.see(sample);
            }
        }
    }
}

/// The SYN of a side.
#[derive(Clone, Copy, Debug)]
struct Syn {
    at: Instant,
    seq: u32,
    /// The segment size that it announces.
    mss: Option<u16>,
    /// Whether it answers one.
    is_syn_ack: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The address and port of each side; the first is the one that was first captured as a sender.
    pub ends: [End; 2],
    pub sides: [Side; 2],
    /// Whether its beginning was captured.
    pub opened: bool,
    /// The RTT of its handshake.
    pub handshake: Option<Duration>,
    syns: [Option<Syn>; 2],
    /// A SYN was sent again: what its answer answers is not known.
    is_repeated: bool,
    broken: bool,
}

impl Connection {
    /// A connection; `known` is the same one, of which everything has passed.
    pub fn new(from: End, to: End, known: Option<&Self>) -> Self {
        let side =
            |side: usize| known.map_or_else(Side::default, |one| Side::like(&one.sides[side]));
        Self {
            ends: [from, to],
            sides: [side(0), side(1)],
            opened: false,
            handshake: None,
            syns: [None; 2],
            is_repeated: false,
            broken: false,
        }
    }

    /// Whether a segment begins another connection of the same ends.
    pub fn is_over(&self, from: End, tcp: &Tcp) -> bool {
        let side = usize::from(self.ends[0] != from);
        let begins = self.sides[side].tracker.begins(tcp.seq.wrapping_add(1));
        let other = self.syns[side].map_or(!begins, |syn| syn.seq != tcp.seq);
        let used = self.broken || self.sides.iter().any(|side| side.first.is_some());
        tcp.syn && other && used
    }

    /// Bytes that were acknowledged and are not in the capture.
    pub fn unseen(&self) -> u64 {
        let of_side = |side: &Side| side.unseen(self.opened);
        self.sides.iter().map(of_side).sum()
    }

    /// A segment of one of its sides passes.
    pub fn on_segment(&mut self, now: Instant, from: usize, tcp: &Tcp, id: Option<u16>) -> Data {
        if let Some(apart) = self.copied(now, from, tcp, id) {
            self.sides[from].copies.count += 1;
            let sides = self.sides.iter_mut();
            sides.for_each(|side| side.copies.learn(apart * 2));
            return Data::Copy;
        }
        self.broken |= tcp.rst;
        if tcp.syn {
            self.on_syn(now, from, tcp);
        } else {
            self.on_handshake(now, from, tcp);
        }
        let rtt = self.rtt(from);
        let [first, second] = &mut self.sides;
        let (own, other) = match from {
            0 => (first, second),
            _ => (second, first),
        };
        if !tcp.rst {
            if !tcp.syn {
                own.tracker.begin(tcp.seq);
            }
            if let Some(ack) = tcp.ack {
                other.tracker.begin(ack);
            }
        }
        if tcp.syn {
            own.tracker.open(tcp);
        }
        own.copies.pass(now, tcp, id, own.tracker.span(tcp));
        let advances = other.advances(tcp);
        if let Some(echo) = tcp.echo {
            let data = own.sent.filter(|_| tcp.len > 0);
            own.on_echo(now, echo, advances, data);
        }
        let data = own.on_data(now, tcp, id, rtt);
        if let Some(stamp) = tcp.stamp {
            other.on_stamp(now, stamp, advances || tcp.len > 0 || tcp.syn);
        }
        other.on_ack(now, tcp);
        data
    }

    /// The time from a side's packet to the effect of its loss, at least.
    fn rtt(&self, side: usize) -> Option<Duration> {
        let (there, back) = (self.sides[side].there.least, self.sides[side].back.least);
        let sum = there.zip(back).map(|(there, back)| there + back);
        sum.max(self.handshake)
    }

    /// The time since a packet of which this is a copy.
    fn copied(&self, now: Instant, from: usize, tcp: &Tcp, id: Option<u16>) -> Option<Duration> {
        let (own, other) = (&self.sides[from], &self.sides[1 - from]);
        let rtt = self.rtt(from);
        let short = rtt.map_or(COPIED_UNKNOWN, |rtt| (rtt / REORDERING).min(COPIED));
        let (start, end) = own.tracker.span(tcp);
        if start < end && !tcp.syn {
            let again = own.tracker.passed().has(start, end);
            let copy = || own.copies.has_data(now, tcp, id, (start, end), short);
            return again.then(copy).flatten();
        }
        let copy = || own.copies.has_bare(now, tcp, id, short);
        (!other.advances(tcp)).then(copy).flatten()
    }

    fn on_syn(&mut self, now: Instant, from: usize, tcp: &Tcp) {
        self.opened = true;
        let syn = Syn {
            at: now,
            seq: tcp.seq,
            mss: tcp.mss,
            is_syn_ack: tcp.ack.is_some(),
        };
        self.is_repeated |= self.syns[from].replace(syn).is_some();
        // The smaller of both: each sender also knows its own network.
        let sizes = self.syns.iter().flatten().filter_map(|syn| syn.mss);
        let mss = sizes.filter(|mss| *mss >= LEAST_MSS).min();
        self.sides.iter_mut().for_each(|side| side.mss = mss);
    }

    /// From the SYN to the ACK of the SYN-ACK is a round trip, at any capture point.
    fn on_handshake(&mut self, now: Instant, from: usize, tcp: &Tcp) {
        if let ([Some(a), Some(b)], None, false) = (self.syns, self.handshake, self.is_repeated)
            && a.is_syn_ack != b.is_syn_ack
            && from == usize::from(a.is_syn_ack)
            && tcp.ack.is_some()
            && !tcp.rst
        {
            let (opened, replied) = match a.is_syn_ack {
                true => (b.at, a.at),
                false => (a.at, b.at),
            };
            self.handshake = Some(now.since(opened));
            self.sides[from].opening = Some(now.since(replied));
            self.sides[1 - from].opening = Some(replied.since(opened));
        }
    }
}
