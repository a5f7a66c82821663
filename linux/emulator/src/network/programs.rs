//! Packets of programs on the path.

use std::io;

use paceline_capture::Tcp;
use paceline_path::Link;
use paceline_record::PacketKind;
use paceline_tcp::Sample;
use paceline_tcp::packet;
use paceline_units::{Duration, Instant};

use super::talks::{Sent, Talks};
use super::{Frame, Network, write};
use crate::conversation::conversation;
use crate::message::Talk;
use crate::place::Place;
use crate::tun::Tun;

impl<'a> Network<'a> {
    /// Lets programs use the path: data of the server takes the path's own link, and that of the
    /// client its return direction, or without one `up`. The client is at `place`; the server is
    /// behind `gate`, or at the host of senders.
    pub fn with_programs(
        mut self,
        mut up: Link<Frame>,
        place: Place,
        gate: Option<&'a Tun>,
    ) -> Self {
        let back = self.plan.scenario.return_number(0);
        let number = back.unwrap_or(self.links.len());
        self.talks = Some(Talks::new(self.plan.flows.len(), number, place));
        self.gate = gate;
        if back.is_none() {
            up.set_delay(Instant::ZERO, self.up_delay(self.plan.scenario.path.rtt));
            self.links.push(up);
            self.offered.push(Instant::ZERO);
        }
        self
    }

    /// The rest of a round trip for the direction from client to server.
    fn up_delay(&self, rtt: Duration) -> Duration {
        Duration::from_nanos(rtt.as_nanos() - self.plan.ways.delays(rtt).link.as_nanos())
    }

    pub(super) fn set_up_delay(&mut self, at: Instant, rtt: Duration) {
        let delay = self.up_delay(rtt);
        let Some(up) = self.twin(0) else {
            return;
        };
        let at = self.offered.get(up).map_or(at, |last| at.max(*last));
        if let Some(link) = self.links.get_mut(up) {
            link.set_delay(at, delay);
        }
    }

    /// The upstream link that is like a downstream one, if the path has no return direction.
    pub(super) fn twin(&self, link: usize) -> Option<usize> {
        let up = self.talks.as_ref()?.up;
        (link == 0 && up >= self.plan.links.len()).then_some(up)
    }

    /// Takes a packet if a program sent it; returns whether one did.
    pub(super) fn take_program(&mut self, now: Instant, from_server: bool, bytes: &[u8]) -> bool {
        let Some(talks) = &mut self.talks else {
            return false;
        };
        let Some(of) = conversation(bytes, from_server, talks.at) else {
            return false;
        };
        let (flow, sent) = talks.on_sent(now, of, from_server, bytes);
        let link = if from_server { 0 } else { talks.up };
        if let (Sent::Datagram(_), false) = (&sent, from_server) {
            let delay = |link| self.links.get(link).map_or(Duration::ZERO, Link::delay);
            talks.on_datagram(now, flow, bytes, delay(0) + delay(talks.up));
        }
        self.log.offered += 1;
        let number = match sent {
            Sent::Datagram(number) => Some(number),
            _ => None,
        };
        let frame = Frame {
            flow,
            number,
            reply: false,
            bytes: bytes.into(),
        };
        match sent {
            Sent::Segment(tcp, again) => self.record_data(now, flow, &tcp, again),
            Sent::Datagram(_) => self.record(now, PacketKind::Send, &frame),
            Sent::Nothing => {}
        }
        self.offer(now, link, frame);
        true
    }

    /// Passes a program's packet to the other end.
    pub(super) fn deliver_program(&mut self, due: Instant, frame: &Frame) -> io::Result<()> {
        let now = self.now();
        self.late(now.since(due));
        let Some(talks) = &mut self.talks else {
            return Ok(());
        };
        let (up, other) = talks.on_delivered(now, frame.flow, &frame.bytes);
        if packet::payload(&frame.bytes) > 0 {
            self.record_delivery(now, frame);
        }
        if let Some(tcp) = Tcp::read(&frame.bytes) {
            self.record_ack(now, other, &tcp);
        }
        let servers = self.gate.unwrap_or(self.senders);
        write(if up { servers } else { self.receivers }, &frame.bytes)
    }

    /// A row for each direction that carries data.
    pub(super) fn sample_programs(&mut self, now: Instant) {
        if let Some(talks) = &self.talks {
            self.log.programs.extend(talks.rows(now));
        }
    }

    /// Each direction that carried data, and its rows: numbered without gaps, after the flows of
    /// the scenario.
    pub fn talks(&mut self) -> (Vec<Talk>, Vec<Sample>) {
        let mut rows = std::mem::take(&mut self.log.programs);
        let entries = match &self.talks {
            Some(talks) => talks.entries(&mut rows, &mut self.log.packets),
            None => Vec::new(),
        };
        (entries, rows)
    }
}
