//! A flow's own packets and the ACKs that it received, and what they say of each transmission.

use std::collections::{BTreeMap, VecDeque};

/// The kinds of rows of `packets` that a sender sees of its own flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A transmission leaves.
    Sent,
    /// A cumulative acknowledgment arrives: of everything below `seq`.
    Ack,
    /// A range is acknowledged: of the last [`Kind::Ack`] at that time, or on its own (QUIC).
    Sack,
}

/// A row of a flow's packets, in the order of the record.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// In nanoseconds.
    pub at: u64,
    /// What happened.
    pub kind: Kind,
    /// The first byte in the stream, or in sending order (QUIC).
    pub seq: u64,
    /// The payload in bytes.
    pub len: u64,
}

/// One transmission, of at most one segment.
#[derive(Clone, Copy, Debug)]
pub struct Transmission {
    /// When it left.
    pub at: u64,
    /// Its first byte.
    pub start: u64,
    /// Its payload in bytes.
    pub size: u32,
    /// The event that acknowledged it.
    pub acked: Option<u32>,
    /// Its data was acknowledged, by this event, by an older transmission: it stands for nothing.
    pub moot: Option<u32>,
    /// The transmission of the same data before it.
    pub previous: Option<u32>,
    /// The next transmission of the same data.
    pub next: Option<u32>,
}

impl Transmission {
    /// The byte after it.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.size)
    }
}

/// What the sender sees at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// In nanoseconds.
    pub at: u64,
    /// What it sees.
    pub what: What,
}

/// What the sender sees.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// It sends this transmission.
    Sent(u32),
    /// An ACK of these [deliveries](Recording::delivered), with the cumulative point, if there is
    /// one.
    Ack {
        /// The first of them.
        from: u32,
        /// One more than the last.
        to: u32,
        /// Everything below is acknowledged.
        point: Option<u64>,
    },
}

/// A flow as its sender saw it.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Payload of a full packet.
    pub mss: u32,
    /// Every transmission, in order.
    pub sent: Vec<Transmission>,
    /// Everything that happened, in order.
    pub events: Vec<Event>,
    /// Bytes in flight after each event, as it turned out.
    pub balance: Vec<i64>,
    /// When the flow falls silent and then keeps little in flight for a while, as in ProbeRTT: the
    /// times of the ACKs after which it does.
    pub dips: Vec<u64>,
    /// The transmissions that ACKs covered, by ACK.
    pub delivered: Vec<u32>,
    /// Whether ACKs have a cumulative point (TCP).
    pub is_stream: bool,
    /// The shortest round trip of data sent once, in nanoseconds.
    pub min_rtt: u64,
}

fn is_ack(event: &&Event) -> bool {
    matches!(event.what, What::Ack { .. })
}

/// Segments not acknowledged yet, by their first byte: the latest transmission of each.
type Open = BTreeMap<u64, u32>;

impl Recording {
    /// Follows the rows of one flow. A packet of several segments counts as these.
    pub fn new(rows: impl Iterator<Item = Row>, mss: u32) -> Self {
        let mut recording = Self {
            mss: mss.max(1),
            min_rtt: u64::MAX,
            // All but the rows of a merged packet are an event.
            events: Vec::with_capacity(rows.size_hint().0),
            ..Self::default()
        };
        let mut open = Open::new();
        let mut point = 0;
        let mut rows = rows.peekable();
        while let Some(row) = rows.next() {
            if row.kind == Kind::Sent {
                recording.send(&mut open, point, row);
                continue;
            }
            let from = recording.delivered.len() as u32;
            if row.kind == Kind::Ack {
                recording.is_stream = true;
                point = point.max(row.seq);
                recording.cover(&mut open, row.at, 0, point);
            } else {
                recording.cover(&mut open, row.at, row.seq, row.seq + row.len);
            }
            let more = |next: &Row| next.kind == Kind::Sack && next.at == row.at;
            while let Some(block) = rows.next_if(more) {
                recording.cover(&mut open, row.at, block.seq, block.seq + block.len);
            }
            let what = What::Ack {
                from,
                to: recording.delivered.len() as u32,
                point: recording.is_stream.then_some(point),
            };
            recording.events.push(Event { at: row.at, what });
        }
        recording.balance = recording.balances();
        recording.dips = recording.find_dips();
        recording
    }

    /// How much later its ACKs reached the sender than they were recorded, in nanoseconds, if packets
    /// show it. A pacer hides which ACK lets data out, but not at the first: the initial window is
    /// used up, and the sender silent until then.
    pub fn offset(&self) -> Option<i64> {
        let first = self.events.iter().find(is_ack)?.at;
        let reach = self.min_rtt / 3 * 2;
        let until = self.sent.partition_point(|sent| sent.at <= first + reach);
        let new = self.sent[..until]
            .iter()
            .filter(|sent| sent.previous.is_none());
        let times = new.map(|sent| sent.at);
        let gaps = times.clone().zip(times.skip(1));
        let silences = gaps.filter(|(from, to)| to - from > reach / 2);
        let (_, end) = silences.max_by_key(|(from, to)| to - from)?;
        match end as i64 - first as i64 {
            // A sender takes a while to answer.
            0..60_000 => Some(0),
            by => (by.unsigned_abs() <= reach).then_some(by),
        }
    }

    /// No ACK comes before its data.
    pub fn may_shift(&self, by: i64) -> bool {
        by > -(self.min_rtt.min(1 << 40) as i64 / 10 * 9)
    }

    /// The same flow with each ACK so many nanoseconds later.
    pub fn shifted(&self, by: i64) -> Self {
        let mut rows = Vec::with_capacity(self.events.len() + self.delivered.len());
        let row = |number: usize, kind, at| {
            let sent = &self.sent[number];
            let (seq, len) = (sent.start, sent.size.into());
            Row { at, kind, seq, len }
        };
        let mut sent = 0;
        let mut send = |rows: &mut Vec<Row>, until: usize| {
            rows.extend((sent..until).map(|n| row(n, Kind::Sent, self.sent[n].at)));
            sent = sent.max(until);
        };
        let mut seen = 0;
        for group in self.events.chunk_by(|a, b| a.at == b.at) {
            seen += group.len();
            let at = group[0].at.saturating_add_signed(by);
            let acks = group.iter().filter_map(|event| match event.what {
                What::Sent(_) => None,
                What::Ack { from, to, point } => Some((from as usize, to as usize, point)),
            });
            let all: usize = acks.clone().map(|(from, to, _)| to - from).sum();
            let before = self.sent.partition_point(|sent| sent.at < at);
            let here = self.sent[before..].partition_point(|sent| sent.at == at);
            let next = self.events[seen..].iter().find(is_ack);
            let next = next.map_or(u64::MAX, |ack| ack.at.saturating_add_signed(by));
            let later = self.sent.get(before + here);
            let is_paced = here < all || later.is_some_and(|sent| sent.at < next);
            let mut acked = 0;
            for (from, to, point) in acks {
                send(&mut rows, before);
                let kind = Kind::Ack;
                rows.extend(point.map(|seq| Row {
                    at,
                    kind,
                    seq,
                    len: 0,
                }));
                let covered = self.delivered[from..to].iter();
                rows.extend(covered.map(|n| row(*n as usize, Kind::Sack, at)));
                // Of ACKs at one instant each lets out its share, or, if only the pacer holds back
                // more, all that a window which grows by what is acknowledged has room for.
                acked += to - from;
                let share = if is_paced {
                    here.min(2 * acked)
                } else {
                    here * acked / all.max(1)
                };
                send(&mut rows, before + share);
            }
        }
        send(&mut rows, self.sent.len());
        Self::new(rows.into_iter(), self.mss)
    }

    /// A transmission that no ACK covers counts until one of a later transmission comes.
    fn balances(&self) -> Vec<i64> {
        let (mut balance, mut newest) = (0, 0);
        let mut missing = VecDeque::new();
        let balances = self.events.iter().map(|event| {
            match event.what {
                What::Sent(number) => {
                    balance += self.size(number);
                    if self.sent[number as usize].acked.is_none() {
                        missing.push_back(number);
                    }
                }
                What::Ack { from, to, .. } => {
                    let delivered = &self.delivered[from as usize..to as usize];
                    balance -= delivered.iter().map(|n| self.size(*n)).sum::<i64>();
                    newest = delivered
                        .iter()
                        .fold(newest, |newest, number| newest.max(*number));
                    let passed = missing.partition_point(|number| *number < newest);
                    balance -= missing.drain(..passed).map(|n| self.size(n)).sum::<i64>();
                }
            }
            balance
        });
        balances.collect()
    }

    fn size(&self, number: u32) -> i64 {
        self.sent[number as usize].size.into()
    }

    /// When the first packet left.
    pub fn begins(&self) -> u64 {
        self.sent.first().map_or(0, |sent| sent.at)
    }

    /// When the last event was.
    pub fn ends(&self) -> u64 {
        self.events.last().map_or(0, |event| event.at)
    }

    /// Whether the application always had more to send, as far as packets show. All but one of a
    /// thousand were full (QUIC begins with shorter ones). The sender was never silent for an RTT with
    /// nothing in flight. It was never silent for half an RTT with room in its window and then filled
    /// it at once: a window does not cause that, and a pace only in the first round trips.
    pub fn is_bulk(&self) -> bool {
        let last = self.sent.last().map_or(0, Transmission::end);
        let is_short = |sent: &Transmission| sent.size < self.mss && sent.end() < last;
        if 1000 * self.sent.iter().filter(|sent| is_short(sent)).count() > self.sent.len() {
            return false;
        }
        let half = self.min_rtt / 2;
        let begun = self.begins() + 3 * self.min_rtt;
        // Since when nothing is in flight.
        let mut empty = None;
        // Since when the window has had room and nothing was sent.
        let mut room = None;
        // The data in flight after the last send.
        let mut level = 0;
        // A window that is full again by this time was filled at once.
        let mut until = 0;
        // The data in flight that counts as a full window.
        let mut refilled = i64::MAX;
        for (event, &balance) in self.events.iter().zip(&self.balance) {
            let silence = |since: Option<u64>| since.map_or(0, |since| event.at - since);
            if matches!(event.what, What::Sent(_)) {
                if silence(room) > half && event.at > begun {
                    (until, refilled) = (event.at + half, level * 9 / 10);
                }
                let is_refilled = event.at <= until && balance >= refilled;
                if is_refilled || silence(empty) > self.min_rtt {
                    return false;
                }
                (room, level) = (None, balance);
            } else if balance < level * 9 / 10 && level >= 8 * i64::from(self.mss) {
                room = room.or(Some(event.at));
            }
            empty = (balance == 0).then_some(empty.unwrap_or(event.at));
        }
        true
    }

    /// See [`Self::dips`].
    fn find_dips(&self) -> Vec<u64> {
        const LEAST: u64 = 120_000_000;
        let soon = self.most_within(LEAST);
        let later = self.most_within(1_500_000_000 + 3 * self.min_rtt.min(1 << 32));
        let sends = self.next_sends();
        let mut dips: Vec<u64> = Vec::new();
        let mut silent = None;
        for (index, event) in self.events.iter().enumerate() {
            let What::Sent(number) = event.what else {
                continue;
            };
            let last = silent.replace((index, number));
            let Some((last, number)) = last else {
                continue;
            };
            let (at, level) = (self.events[last].at, self.balance[last]);
            // A dip lasts until the data in flight and its queue have drained.
            let acked = self.sent[number as usize].acked;
            let rtt = acked.map_or(0, |ack| self.events[ack as usize].at - at);
            let rtt = rtt.max(self.min_rtt);
            if event.at - at < self.min_rtt / 5 || event.at - at > rtt * 2 + LEAST {
                continue;
            }
            let low = (level * 68 / 100).max(i64::from(self.mss) * 46 / 10);
            let goes_on = sends[index].is_some_and(|next| next < event.at + LEAST.max(rtt));
            if soon[index] <= low && goes_on && later[index] > low {
                // The first ACK after the last send.
                let ack = self.events[last + 1].at;
                if dips.last().is_none_or(|dip| *dip + 1_000_000_000 < ack) {
                    dips.push(ack);
                }
            }
        }
        dips
    }

    /// For each event, the most in flight from then on, for a span of time.
    fn most_within(&self, span: u64) -> Vec<i64> {
        let mut candidates: VecDeque<usize> = VecDeque::new();
        let mut end = 0;
        let mut most = Vec::with_capacity(self.events.len());
        for (index, event) in self.events.iter().enumerate() {
            let until = event.at.saturating_add(span);
            while self.events.get(end).is_some_and(|event| event.at < until) {
                while candidates
                    .back()
                    .is_some_and(|c| self.balance[*c] <= self.balance[end])
                {
                    candidates.pop_back();
                }
                candidates.push_back(end);
                end += 1;
            }
            while candidates
                .front()
                .is_some_and(|candidate| *candidate < index)
            {
                candidates.pop_front();
            }
            most.push(
                candidates
                    .front()
                    .map_or(0, |candidate| self.balance[*candidate]),
            );
        }
        most
    }

    /// For each event, the time of the first transmission that is later than it.
    fn next_sends(&self) -> Vec<Option<u64>> {
        let (mut at, mut later) = (None, None);
        let mut next = vec![None; self.events.len()];
        for (index, event) in self.events.iter().enumerate().rev() {
            if at.is_some_and(|at| at > event.at) {
                later = at;
            }
            next[index] = later;
            if matches!(event.what, What::Sent(_)) {
                at = Some(event.at);
            }
        }
        next
    }

    fn send(&mut self, open: &mut Open, point: u64, row: Row) {
        let end = row.seq + row.len;
        let mut start = row.seq;
        while start < end {
            let size = (end - start).min(u64::from(self.mss));
            let index = self.sent.len() as u32;
            // Acknowledged before, as far as this end can know: its copy was on the way.
            let is_late = self.is_stream && start + size <= point;
            let previous = if is_late {
                None
            } else {
                open.insert(start, index)
            };
            if let Some(previous) = previous {
                self.sent[previous as usize].next = Some(index);
            }
            self.sent.push(Transmission {
                at: row.at,
                start,
                size: size as u32,
                acked: None,
                moot: is_late.then_some(self.events.len() as u32),
                previous,
                next: None,
            });
            self.events.push(Event {
                at: row.at,
                what: What::Sent(index),
            });
            start += size;
        }
    }

    /// An ACK covers the segments that lie within these bytes.
    fn cover(&mut self, open: &mut Open, at: u64, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let covered: Vec<(u64, u32)> = open.range(start..end).map(|(k, v)| (*k, *v)).collect();
        let mut partly = 0;
        for (key, latest) in covered {
            if self.sent[latest as usize].end() <= end {
                open.remove(&key);
                self.deliver(at, latest);
                continue;
            }
            // Of a sender there is one; of a file that is made to be slow, thousands.
            partly += 1;
            if partly > 64 {
                open.remove(&key);
            }
        }
    }

    /// Of several transmissions, the latest that could have been answered by now was delivered.
    fn deliver(&mut self, now: u64, latest: u32) {
        let event = self.events.len() as u32;
        let mut index = latest;
        while let Some(previous) = self.sent[index as usize].previous {
            let least = if self.min_rtt == u64::MAX {
                0
            } else {
                self.min_rtt / 10 * 9
            };
            if self.sent[index as usize].at + least <= now {
                break;
            }
            self.sent[index as usize].moot = Some(event);
            index = previous;
        }
        let sent = &mut self.sent[index as usize];
        sent.acked = Some(event);
        if sent.previous.is_none() && sent.next.is_none() {
            self.min_rtt = self.min_rtt.min(now - sent.at);
        }
        self.delivered.push(index);
    }
}
