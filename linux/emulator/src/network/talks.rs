//! Conversations between programs, and the data carried in each direction.

use std::collections::HashMap;

use paceline_capture::{Spin, Tcp, Tracker};
use paceline_record::{FlowTotals, PacketRow, SampleRow};
use paceline_recovery::SenderStats;
use paceline_tcp::packet;
use paceline_tcp::{Own, Sample};
use paceline_units::{Bytes, Duration, Instant};

use crate::conversation::Conversation;
use crate::message::Talk;
use crate::place::Place;

/// The maximum number of separate conversations; all later ones count as one.
const MOST: usize = 500;

/// One direction of a conversation.
#[derive(Default)]
struct Side {
    tracker: Tracker,
    sent: u64,
    again: u64,
    lost: u64,
    /// Payload that the other end has: acknowledged data for TCP, data that left the path
    /// otherwise.
    delivered: u64,
    /// When its last payload left the path.
    last: Option<Instant>,
}

/// The content of a packet of an end.
pub(super) enum Sent {
    /// No data.
    Nothing,
    /// A segment with data; whether it is a retransmission.
    Segment(Tcp, bool),
    /// A datagram with data, and the number sent before it.
    Datagram(u64),
}

/// Both directions of a conversation.
struct Pair {
    of: Option<Conversation>,
    since: Instant,
    down: Side,
    up: Side,
    /// Of the client's datagrams.
    spin: Spin,
}

/// The conversations of programs.
pub(super) struct Talks {
    /// The number of their first flow.
    first: u32,
    /// The link from client to server.
    pub(super) up: usize,
    /// The client's place.
    pub(super) at: Place,
    pairs: Vec<Pair>,
    places: HashMap<Conversation, usize>,
}

impl Talks {
    pub(super) fn new(first: usize, up: usize, at: Place) -> Self {
        Self {
            first: first as u32,
            up,
            at,
            pairs: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// The two directions of a conversation.
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
                spin: Spin::default(),
            });
        }
        let place = self.pairs.len() - 1;
        if !full {
            self.places.insert(of, place);
        }
        place
    }

    /// The direction of a frame, and the opposite one.
    fn sides(&mut self, flow: u32) -> Option<(&mut Side, &mut Side)> {
        let number = flow.checked_sub(self.first)? as usize;
        let pair = self.pairs.get_mut(number / 2)?;
        Some(match number % 2 {
            0 => (&mut pair.down, &mut pair.up),
            _ => (&mut pair.up, &mut pair.down),
        })
    }

    /// State of a direction, inferred from its packets.
    pub(super) fn tracker(&self, flow: u32) -> Option<&Tracker> {
        let number = flow.checked_sub(self.first)? as usize;
        let pair = self.pairs.get(number / 2)?;
        Some(match number % 2 {
            0 => &pair.down.tracker,
            _ => &pair.up.tracker,
        })
    }

    pub(super) fn owns(&self, flow: u32) -> bool {
        flow >= self.first
    }

    /// An end sends a packet: returns its flow and its content.
    pub(super) fn on_sent(
        &mut self,
        now: Instant,
        of: Conversation,
        from_server: bool,
        bytes: &[u8],
    ) -> (u32, Sent) {
        let place = self.place(now, of);
        let flow = self.first + 2 * place as u32 + u32::from(!from_server);
        let mut sent = Sent::Nothing;
        if let Some((side, other)) = self.sides(flow) {
            let has_data = packet::payload(bytes) > 0;
            match Tcp::read(bytes) {
                Some(tcp) => {
                    let again = side.tracker.on_data(now, &tcp) > 0;
                    side.again += u64::from(again);
                    if !tcp.syn {
                        // Data of the other direction that this end has received in order.
                        let has = other.tracker.covered_by(&tcp);
                        other.delivered = other.delivered.max(has.unwrap_or(0));
                    }
                    if has_data {
                        sent = Sent::Segment(tcp, again);
                    }
                }
                None if has_data => sent = Sent::Datagram(side.sent),
                None => {}
            }
            side.sent += u64::from(has_data);
        }
        (flow, sent)
    }

    /// A client's datagram: evaluates its spin bit, on a path with a minimum RTT of `least`.
    pub(super) fn on_datagram(&mut self, now: Instant, flow: u32, bytes: &[u8], least: Duration) {
        let number = flow.saturating_sub(self.first) as usize;
        let pair = self.pairs.get_mut(number / 2);
        if let Some(pair) = pair.filter(|pair| pair.of.is_some()) {
            pair.spin.on_datagram(now, packet::datagram(bytes), least);
        }
    }

    /// A packet has crossed the path: returns whether it goes to the server, and the flow of the
    /// other direction.
    pub(super) fn on_delivered(&mut self, now: Instant, flow: u32, bytes: &[u8]) -> (bool, u32) {
        if let Some((side, other)) = self.sides(flow) {
            let payload = packet::payload(bytes);
            match Tcp::read(bytes) {
                Some(tcp) => {
                    other.tracker.on_ack(now, &tcp);
                }
                None => side.delivered += payload,
            }
            if payload > 0 {
                side.last = Some(now);
            }
        }
        let number = flow - self.first;
        (number % 2 == 1, self.first + (number ^ 1))
    }

    pub(super) fn dropped(&mut self, flow: u32) {
        if let Some((side, _)) = self.sides(flow) {
            side.lost += 1;
        }
    }

    /// Each direction that has carried data, with the number of its flow and whether it goes to the server.
    fn used(&self) -> impl Iterator<Item = (u32, &Pair, &Side, bool)> {
        let pairs = (self.first..).step_by(2).zip(&self.pairs);
        let sides = pairs.flat_map(|(flow, pair)| {
            [
                (flow, pair, &pair.down, false),
                (flow + 1, pair, &pair.up, true),
            ]
        });
        sides.filter(|(_, _, side, _)| side.sent > 0)
    }

    pub(super) fn rows(&self, now: Instant) -> impl Iterator<Item = Sample> {
        self.used().map(move |(flow, pair, side, _)| Sample {
            row: side.row(now, flow, pair.spin.rtt()),
            own: Own::Hidden,
        })
    }

    /// The record's entry for each direction; its rows become numbered without gaps.
    pub(super) fn entries(&self, rows: &mut [Sample], packets: &mut Vec<PacketRow>) -> Vec<Talk> {
        let mut numbers = HashMap::new();
        let entries = (self.first..).zip(self.used());
        let entries = entries.map(|(flow, (number, pair, side, up))| {
            numbers.insert(number, flow);
            pair.entry(side, flow, up)
        });
        let entries = entries.collect();
        for row in rows {
            let flow = &mut row.row.flow;
            *flow = numbers.get(flow).copied().unwrap_or(*flow);
        }
        packets.retain_mut(|row| match numbers.get(&row.flow) {
            Some(number) => {
                row.flow = *number;
                true
            }
            // Acknowledgments of a direction that carried nothing.
            None => row.flow < self.first,
        });
        entries
    }
}

impl Side {
    fn row(&self, now: Instant, flow: u32, spin: Option<Duration>) -> SampleRow {
        SampleRow {
            t_ns: now,
            flow,
            in_flight_bytes: Bytes::new(self.tracker.in_flight()),
            rtt_ns: self.tracker.rtt().or(spin),
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
            let entry = known.iter().find(|(counter, _)| counter == name);
            entry.map(|(_, count)| *count)
        });
        FlowTotals {
            flow,
            goodput: Bytes::new(self.delivered),
            finished: None,
            counters: counters.collect(),
        }
    }
}

impl Pair {
    /// The record's entry for a direction.
    fn entry(&self, side: &Side, flow: u32, up: bool) -> Talk {
        let way = if up { "up" } else { "down" };
        let kind = self.of.map_or("others", |of| packet::protocol(of.protocol));
        let label = match self.of {
            None | Some(Conversation { server: 0, .. }) => format!("{kind} {way}"),
            Some(of) => format!("{kind} {}-{} {way}", of.server, of.client),
        };
        Talk {
            label,
            cc: kind.to_owned(),
            of: self.of,
            up,
            start: self.since,
            stop: side.last,
            totals: side.totals(flow),
        }
    }
}
