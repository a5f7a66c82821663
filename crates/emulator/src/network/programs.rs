//! Traffic of programs: each direction of a conversation is a flow of the record, told from its packets.

use std::collections::HashMap;
use std::io;

use paceline_path::Link;
use paceline_record::{FlowTotals, SampleRow};
use paceline_recovery::SenderStats;
use paceline_units::{Bytes, Duration, Instant};

use super::{Frame, Network, write};
use crate::message::{Own, Sample, Talk};
use crate::packet::{self, Conversation, Tcp};
use crate::programs::{CLIENT, SERVER};
use crate::tracker::Tracker;

/// Conversations that are told apart; those after them are one.
const MOST: usize = 500;

/// One direction of a conversation.
#[derive(Default)]
struct Side {
    tracker: Tracker,
    sent: u64,
    again: u64,
    lost: u64,
    /// Payload that has left the path, each byte of TCP once.
    delivered: u64,
    /// When its last payload left the path.
    last: Option<Instant>,
}

/// Both directions of a conversation.
struct Pair {
    of: Option<Conversation>,
    since: Instant,
    down: Side,
    up: Side,
}

/// The conversations of programs.
pub(super) struct Talks {
    /// The number of the first flow that is theirs.
    first: u32,
    /// The link from client to server.
    up: usize,
    pairs: Vec<Pair>,
    places: HashMap<Conversation, usize>,
}

impl Talks {
    pub(super) fn new(first: usize, up: usize) -> Self {
        Self {
            first: first as u32,
            up,
            pairs: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// The pair of a conversation.
    fn place(&mut self, now: Instant, of: Conversation) -> usize {
        if let Some(place) = self.places.get(&of) {
            return *place;
        }
        let full = self.pairs.len() >= MOST;
        if !full || self.pairs.len() == MOST {
            self.pairs.push(Pair {
                of: (!full).then_some(of),
                since: now,
                down: Side::default(),
                up: Side::default(),
            });
        }
        let place = self.pairs.len() - 1;
        if !full {
            self.places.insert(of, place);
        }
        place
    }

    /// The direction that a frame is of, and its opposite.
    fn sides(&mut self, flow: u32) -> Option<(&mut Side, &mut Side)> {
        let number = flow.checked_sub(self.first)? as usize;
        let pair = self.pairs.get_mut(number / 2)?;
        Some(match number % 2 {
            0 => (&mut pair.down, &mut pair.up),
            _ => (&mut pair.up, &mut pair.down),
        })
    }

    pub(super) fn owns(&self, flow: u32) -> bool {
        flow >= self.first
    }

    pub(super) fn dropped(&mut self, flow: u32) {
        if let Some((side, _)) = self.sides(flow) {
            side.lost += 1;
        }
    }
}

impl Side {
    fn row(&self, now: Instant, flow: u32) -> SampleRow {
        SampleRow {
            t_ns: now,
            flow,
            in_flight_bytes: Bytes::new(self.tracker.in_flight()),
            rtt_ns: self.tracker.rtt(),
            goodput_bytes: Bytes::new(self.delivered),
            delivered_bytes: Bytes::new(self.delivered),
            sent_packets: self.sent,
            lost_packets: self.lost,
            retransmitted_packets: self.again,
            ..SampleRow::default()
        }
    }

    fn totals(&self, flow: u32) -> FlowTotals {
        let known = [
            ("sent_packets", self.sent),
            ("retransmitted_packets", self.again),
            ("lost_packets", self.lost),
        ];
        let counters = SenderStats::COUNTERS.iter().map(|(name, _)| {
            let found = known.iter().find(|(counter, _)| counter == name);
            found.map(|(_, count)| *count)
        });
        FlowTotals {
            flow,
            goodput: Bytes::new(self.delivered),
            finished: None,
            counters: counters.collect(),
        }
    }
}

impl Network<'_> {
    /// Lets programs use the path: data of the server takes the path's own link, and that of the client another of the same
    /// kind.
    pub fn with_programs(mut self, mut up: Link<Frame>) -> Self {
        up.set_delay(Instant::ZERO, self.up_delay(self.plan.scenario.path.rtt));
        self.talks = Some(Talks::new(self.plan.flows.len(), self.links.len()));
        self.links.push(up);
        self.offered.push(Instant::ZERO);
        self
    }

    /// What is left of a round trip for the way from client to server.
    fn up_delay(&self, rtt: Duration) -> Duration {
        Duration::from_nanos(rtt.as_nanos() - self.plan.ways.delays(rtt).link.as_nanos())
    }

    pub(super) fn set_up_delay(&mut self, at: Instant, rtt: Duration) {
        let delay = self.up_delay(rtt);
        let Some(up) = self.talks.as_ref().map(|talks| talks.up) else {
            return;
        };
        let at = self.offered.get(up).map_or(at, |last| at.max(*last));
        if let Some(link) = self.links.get_mut(up) {
            link.set_delay(at, delay);
        }
    }

    /// The link that does on the way up what another does on the way down.
    pub(super) fn twin(&self, link: usize) -> Option<usize> {
        self.talks
            .as_ref()
            .filter(|_| link == 0)
            .map(|talks| talks.up)
    }

    /// Takes a packet if a program sent it; whether one did.
    pub(super) fn take_program(&mut self, now: Instant, from_server: bool, bytes: &[u8]) -> bool {
        let Some(talks) = &mut self.talks else {
            return false;
        };
        let to = if from_server { CLIENT } else { SERVER };
        let Some(of) = packet::conversation(bytes, from_server, to) else {
            return false;
        };
        let place = talks.place(now, of);
        let flow = talks.first + 2 * place as u32 + u32::from(!from_server);
        let link = if from_server { 0 } else { talks.up };
        if let Some((side, _)) = talks.sides(flow) {
            if packet::payload(bytes) > 0 {
                side.sent += 1;
            }
            if let Some(tcp) = Tcp::read(bytes) {
                side.again += u64::from(side.tracker.on_data(now, &tcp));
            }
        }
        self.log.offered += 1;
        let frame = Frame {
            flow,
            number: None,
            bytes: bytes.into(),
        };
        self.offer(now, link, frame);
        true
    }

    /// Hands a program's packet to the other end.
    pub(super) fn deliver_program(&mut self, due: Instant, frame: &Frame) -> io::Result<()> {
        let now = self.now();
        self.late(now.since(due));
        let Some(talks) = &mut self.talks else {
            return Ok(());
        };
        let up = (frame.flow - talks.first) % 2 == 1;
        if let Some((side, other)) = talks.sides(frame.flow) {
            let payload = packet::payload(&frame.bytes);
            match Tcp::read(&frame.bytes) {
                Some(tcp) => {
                    other.tracker.on_ack(now, &tcp);
                    // What the other end has, in order.
                    other.delivered = other.delivered.max(other.tracker.acknowledged());
                }
                None => side.delivered += payload,
            }
            if payload > 0 {
                side.last = Some(now);
            }
        }
        write(if up { self.senders } else { self.receivers }, &frame.bytes)
    }

    /// A row for each direction that carries data.
    pub(super) fn sample_programs(&mut self, now: Instant) {
        let Some(talks) = &self.talks else {
            return;
        };
        let first = talks.first;
        for (place, pair) in (0..).zip(&talks.pairs) {
            for (turn, side) in (0..).zip([&pair.down, &pair.up]) {
                if side.sent > 0 {
                    let row = side.row(now, first + 2 * place + turn);
                    let own = Own::Hidden;
                    self.log.programs.push(Sample { row, own });
                }
            }
        }
    }

    /// Each direction that carried data, and its rows: numbered without gaps, after the flows of the scenario.
    pub fn talks(&mut self) -> (Vec<Talk>, Vec<Sample>) {
        let mut rows = std::mem::take(&mut self.log.programs);
        let Some(talks) = &self.talks else {
            return (Vec::new(), rows);
        };
        let (mut found, mut numbers) = (Vec::new(), HashMap::new());
        for (place, pair) in (0..).zip(&talks.pairs) {
            for (turn, side) in (0..).zip([&pair.down, &pair.up]) {
                if side.sent == 0 {
                    continue;
                }
                let flow = talks.first + found.len() as u32;
                numbers.insert(talks.first + 2 * place + turn, flow);
                found.push(pair.told(side, flow, turn == 1));
            }
        }
        for row in &mut rows {
            let flow = &mut row.row.flow;
            *flow = numbers.get(flow).copied().unwrap_or(*flow);
        }
        (found, rows)
    }
}

impl Pair {
    /// What the record says of a direction.
    fn told(&self, side: &Side, flow: u32, up: bool) -> Talk {
        let way = if up { "up" } else { "down" };
        let kind = self
            .of
            .map_or("others", |(number, ..)| packet::protocol(number));
        let label = match self.of {
            None | Some((_, 0, _)) => format!("{kind} {way}"),
            Some((_, port, client)) => format!("{kind} {port}-{client} {way}"),
        };
        Talk {
            label,
            kind: kind.to_owned(),
            up,
            start: self.since,
            stop: side.last,
            totals: side.totals(flow),
        }
    }
}
