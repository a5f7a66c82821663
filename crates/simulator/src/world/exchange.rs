//! Steps of flows of other transports.

use paceline_congestion::Ecn;
use paceline_path::Verdict;
use paceline_record::PacketKind;
use paceline_units::Instant;

use super::World;
use crate::flow::{Stage, offer};
use crate::foreign::{Defect, Outgoing, Side};
use crate::lanes::Reply;
use crate::packet::{Load, Packet};

impl World {
    /// A packet other than a segment reached the receiver: a SYN, or a datagram.
    #[cold]
    pub(super) fn taken(&mut self, index: usize, load: &Load) {
        let Load::Datagram { number, size, ecn } = *load else {
            return self.send_reply(index, Reply::SynAck);
        };
        let (now, flow) = (self.now, &mut self.flows[index]);
        let id = flow.id;
        self.journal
            .datagram(now, id, PacketKind::Deliver, (number, size));
        if ecn == Ecn::Ce {
            self.journal
                .datagram(now, id, PacketKind::Mark, (number, size));
        }
        let before = flow.delivered();
        if let Some(ends) = flow.foreign() {
            ends.receive(now, Side::Receiver, number, size, ecn);
        }
        if flow.delivered() > before {
            flow.last_delivery = now;
        }
        self.send_datagrams(index, Side::Receiver);
        self.close_if_done(index);
    }

    fn close_if_done(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if flow.foreign().is_some() && flow.is_foreign_done() {
            flow.finished = Some(flow.last_delivery);
            self.journal.finished(self.now, flow);
            flow.close();
        }
    }

    /// A side's timeout; another call may have made it unnecessary.
    #[cold]
    pub(super) fn wake(&mut self, index: usize, side: Side) {
        let now = self.now;
        if let Some(Err(defect)) = self.flows[index]
            .foreign()
            .map(|ends| ends.on_timer(now, side))
        {
            self.halt(index, defect);
        }
    }

    /// The packet on the return path is not an acknowledgment: a SYN, or a datagram.
    #[cold]
    pub(super) fn replied(&mut self, index: usize, reply: &Reply) {
        let now = self.now;
        match reply {
            Reply::SynAck => self.establish(index),
            Reply::Datagram { number, size, ecn } => {
                if let Some(ends) = self.flows[index].foreign() {
                    ends.receive(now, Side::Sender, *number, *size, *ecn);
                }
            }
            Reply::Ack(_) => {}
        }
    }

    /// A flow without a sender of ours: another transport's application writes, and its end sends
    /// as much as it may.
    #[cold]
    pub(super) fn transmit_other(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if !matches!(flow.stage, Stage::Foreign(_)) {
            return self.reschedule(index);
        }
        flow.write_foreign(self.now);
        self.send_datagrams(index, Side::Sender);
    }

    /// A side sends as much as it may, and says when it wants to be called next.
    pub(super) fn send_datagrams(&mut self, index: usize, side: Side) {
        let now = self.now;
        let mut sent = false;
        let timer = loop {
            let Some(ends) = self.flows[index].foreign() else {
                break Ok(Instant::MAX);
            };
            match ends.transmit(now, side) {
                Err(defect) => break Err(defect),
                Ok(None) => break ends.next_timer(now, side),
                Ok(Some(out)) if side == Side::Receiver => self.answer(index, out),
                Ok(Some(out)) => {
                    sent = true;
                    self.send_datagram(index, out);
                }
            }
        };
        if sent {
            self.offered(index);
        }
        match timer {
            Err(defect) => self.halt(index, defect),
            Ok(timer) if side == Side::Receiver => {
                self.agenda.set(self.sources.receiver(index), timer);
            }
            Ok(timer) => {
                let flow = &mut self.flows[index];
                if let Stage::Foreign(foreign) = &mut flow.stage {
                    foreign.timer = timer;
                }
                let next = flow.next_timer().max(now);
                self.agenda.set(self.sources.sender(index), next);
            }
        }
    }

    fn send_datagram(&mut self, index: usize, out: Outgoing) {
        self.tally.packets += 1;
        self.allowance -= 1;
        let flow = &mut self.flows[index];
        let packet = Packet {
            flow: flow.id,
            size: flow.plan.header.saturating_add(out.size),
            load: Load::Datagram {
                number: out.number,
                size: out.size,
                ecn: out.ecn,
            },
        };
        let (id, first) = (flow.id, flow.plan.route[0]);
        let verdict = offer(
            self.now,
            flow.host.as_deref_mut(),
            &mut self.links[first],
            packet,
        );
        self.journal
            .datagram(self.now, id, PacketKind::Send, (out.number, out.size));
        self.forwarded(&packet, verdict);
    }

    fn answer(&mut self, index: usize, out: Outgoing) {
        self.allowance -= 1;
        self.send_reply(
            index,
            Reply::Datagram {
                number: out.number,
                size: out.size,
                ecn: out.ecn,
            },
        );
    }

    /// A link on the way accepts a packet, or refuses it.
    pub(super) fn forwarded(&mut self, packet: &Packet, verdict: Verdict) {
        self.journal.forwarded(self.now, packet, verdict);
        if let Verdict::Dropped(_) = verdict {
            self.gone(packet);
        }
    }

    /// A packet will not arrive.
    pub(super) fn gone(&mut self, packet: &Packet) {
        if let Load::Datagram { number, .. } = packet.load
            && let Some(ends) = self.flows[packet.flow as usize].foreign()
        {
            ends.gone(Side::Sender, number);
        }
    }

    /// The run cannot continue.
    fn halt(&mut self, index: usize, defect: Defect) {
        self.defect.get_or_insert((self.flows[index].id, defect));
        self.allowance = 0;
    }
}
