//! Steps of flows of other transports, and of replies over links.

use paceline_congestion::Ecn;
use paceline_path::{DropCause, Verdict};
use paceline_record::PacketKind;
use paceline_units::Instant;

use super::{World, acknowledge};
use crate::flow::{Stage, offer};
use crate::foreign::{Defect, Outgoing, Side};
use crate::lanes::{Head, Reply};
use crate::packet::{Load, Packet};

impl World {
    /// A packet other than a segment has arrived: a SYN or a datagram at the receiver, or a reply.
    #[cold]
    pub(super) fn taken(&mut self, packet: &Packet) {
        let index = packet.flow as usize;
        let (number, size, ecn) = match packet.load {
            Load::Datagram { number, size, ecn } => (number, size, ecn),
            Load::Reply { number, hop, ecn } => {
                return self.came_back(packet, (number, hop), ecn);
            }
            Load::Syn | Load::Segment(_) | Load::Taken(_) => {
                return self.send_reply(index, Reply::SynAck);
            }
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
                Ok(Some(out)) if side == Side::Receiver => self.reply_datagram(index, out),
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
                let (mut before, mut phase) = ("", "");
                if let Stage::Foreign(foreign) = &mut flow.stage {
                    foreign.timer = timer;
                    phase = foreign.ends.phase();
                    before = std::mem::replace(&mut foreign.phase, phase);
                }
                let next = flow.next_timer().max(now);
                self.agenda.set(self.sources.sender(index), next);
                if before != phase {
                    self.journal
                        .entered(now, self.flows[index].id, before, phase);
                    self.entered(index, phase);
                }
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

    fn reply_datagram(&mut self, index: usize, out: Outgoing) {
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

    /// A reply leaves its receiver for the links on its way.
    #[inline(never)]
    pub(super) fn send_back(&mut self, index: usize, reply: &Reply) {
        // A caller copies what a callee may change, so this copy is the only one.
        let mut reply = *reply;
        let flow = &mut self.flows[index];
        let host = flow.host.as_mut();
        let release = host.map_or(self.now, |host| host.hold(self.now, reply.ack()));
        let size = reply.size(flow.plan.header);
        let packet = Packet {
            flow: flow.id,
            size,
            load: Load::Reply {
                number: self.replies[index].put(size, reply),
                hop: 0,
                ecn: reply.ecn(),
            },
        };
        match &mut flow.host {
            Some(host) => {
                host.reply(release, packet);
                let (number, next) = (host.number, host.next_receive());
                self.agenda.set(self.sources.ingress(number), next);
            }
            None => self.offer_back(index, &packet),
        }
    }

    /// Replies have reached the receiver's NIC.
    pub(super) fn answer_due(&mut self, index: usize) {
        while let Some(packet) =
            (self.flows[index].host.as_mut()).and_then(|h| h.answered(self.now))
        {
            self.offer_back(index, &packet);
        }
    }

    /// A reply is offered to the first link on its way.
    fn offer_back(&mut self, index: usize, packet: &Packet) {
        let flow = &mut self.flows[index];
        flow.acks_sent += 1;
        let first = flow.plan.back[0];
        self.offer_reply(first, packet);
    }

    fn offer_reply(&mut self, link: usize, packet: &Packet) {
        let (flows, replies) = (&self.flows, &self.replies);
        let header = |packet: &Packet| match packet.load {
            Load::Reply { number, .. } => {
                let index = packet.flow as usize;
                flows[index].header(replies[index].get(number)?)
            }
            // The data of a connection goes the other way.
            _ => None,
        };
        let verdict = self.links[link].enqueue_read(self.now, *packet, header);
        self.forwarded(packet, verdict);
        self.joined(link);
    }

    /// A reply has crossed a link: the next one follows, or the rest of its way.
    fn came_back(&mut self, packet: &Packet, (number, hop): (u64, u32), marked: Ecn) {
        let index = packet.flow as usize;
        if let Some(next) = self.flows[index].plan.back.get(hop as usize + 1) {
            let load = Load::Reply {
                number,
                hop: hop + 1,
                ecn: marked,
            };
            return self.offer_reply(*next, &Packet { load, ..*packet });
        }
        let Some(mut reply) = self.replies[index].arrive(number) else {
            return;
        };
        if let Reply::Datagram { ecn, .. } = &mut reply {
            *ecn = marked;
        }
        let flow = &mut self.flows[index];
        if flow.host.is_some() || !self.lanes.arrives_at_once(self.now, flow.plan.lane) {
            return self.end_reply(index, reply, true);
        }
        // Its lane would cost another event and a copy.
        if !acknowledge(self.now, &mut self.journal, flow, &Head::Other(&reply)) {
            self.replied(index, &reply);
        }
        self.transmit(index);
    }

    /// A link on the way accepts a packet, or refuses it.
    #[inline]
    pub(super) fn forwarded(&mut self, packet: &Packet, verdict: Verdict) {
        if let Verdict::Dropped(cause) = verdict {
            self.journal.dropped(self.now, packet);
            self.gone(self.now, packet, cause);
        }
    }

    /// A packet that was dropped `at` this time will not arrive.
    pub(super) fn gone(&mut self, at: Instant, packet: &Packet, cause: DropCause) {
        let flow = &mut self.flows[packet.flow as usize];
        let (side, number) = match packet.load {
            Load::Datagram { number, .. } => (Side::Sender, number),
            Load::Reply { number, .. } => {
                let Some(reply) = self.replies[packet.flow as usize].leave(number) else {
                    return;
                };
                let (count, kind) = match cause {
                    DropCause::Filtered => (&mut flow.acks_filtered, PacketKind::AckFilter),
                    _ => (&mut flow.acks_lost, PacketKind::AckDrop),
                };
                *count += 1;
                if let Reply::Ack(ack) = &reply {
                    self.journal.ack(at, flow.id, kind, ack);
                }
                let Reply::Datagram { number, .. } = reply else {
                    return;
                };
                (Side::Receiver, number)
            }
            _ => return,
        };
        if let Some(ends) = flow.foreign() {
            ends.gone(side, number);
        }
    }

    /// The run cannot continue.
    fn halt(&mut self, index: usize, defect: Defect) {
        self.defect.get_or_insert((self.flows[index].id, defect));
        self.allowance = 0;
    }
}
