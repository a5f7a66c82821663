//! The rows that the path records.

use paceline_capture::{Tcp, Tracker};
use paceline_record::{PacketKind, PacketRow, QueueRow};
use paceline_tcp::packet;
use paceline_units::Instant;

use super::{Frame, Network};

impl Network<'_> {
    pub(super) fn records_packets(&self) -> bool {
        self.plan.scenario.run.record.packets
    }

    /// A sender has sent data; `again` if it is a retransmission.
    pub(super) fn record_data(&mut self, now: Instant, flow: u32, tcp: &Tcp, again: bool) {
        if tcp.len > 0 {
            let kind = match again {
                true => PacketKind::Retransmit,
                false => PacketKind::Send,
            };
            self.data(now, flow, kind, tcp);
        }
    }

    /// Data reaches its receiver.
    pub(super) fn record_delivery(&mut self, now: Instant, frame: &Frame) {
        self.record(now, PacketKind::Deliver, frame);
        if packet::is_marked(&frame.bytes) {
            self.record(now, PacketKind::Mark, frame);
        }
    }

    /// The fate of a packet, by its position in the stream or by the datagram's number.
    pub(super) fn record(&mut self, at: Instant, kind: PacketKind, frame: &Frame) {
        if let (true, Some(number)) = (self.records_packets(), frame.number) {
            let size = frame.bytes.len().saturating_sub(packet::UDP_HEADERS);
            let row = PacketRow::new(at, frame.flow, kind, number, size as u64);
            self.log.packets.push(row);
        } else if let Some(tcp) = Tcp::read(&frame.bytes) {
            self.data(at, frame.flow, kind, &tcp);
        }
    }

    /// An ACK reaches its sender.
    pub(super) fn record_ack(&mut self, now: Instant, flow: u32, tcp: &Tcp) {
        if !self.records_packets() || tcp.syn {
            return;
        }
        let Some(tracker) = self.tracker(flow) else {
            return;
        };
        let rows = tracker.ack_rows(now, flow, tcp);
        self.log.packets.extend(rows);
    }

    /// A link loses an ACK, or filters it.
    pub(super) fn record_ack_loss(&mut self, at: Instant, kind: PacketKind, frame: &Frame) {
        let tcp = Tcp::read(&frame.bytes).filter(|tcp| self.records_packets() && !tcp.syn);
        let tracker = self.tracker(frame.flow);
        let row = tracker.and_then(|tracker| tracker.ack_row(at, frame.flow, kind, &tcp?));
        self.log.packets.extend(row);
    }

    /// State of a flow, inferred from its packets.
    fn tracker(&self, flow: u32) -> Option<&Tracker> {
        let of_program = || self.talks.as_ref()?.tracker(flow);
        self.trackers.get(flow as usize).or_else(of_program)
    }

    fn data(&mut self, at: Instant, flow: u32, kind: PacketKind, tcp: &Tcp) {
        if let (true, Some(tracker)) = (self.records_packets(), self.tracker(flow)) {
            let row = PacketRow::new(at, flow, kind, tracker.start_of(tcp), tcp.len.into());
            self.log.packets.push(row);
        }
    }

    /// A row for each link, and for programs.
    pub(super) fn sample(&mut self, now: Instant) {
        self.sample_programs(now);
        for (number, link) in (0..).zip(&mut self.links) {
            let offered = self.offered.get(number as usize);
            let now = offered.map_or(now, |last| now.max(*last));
            let row = paceline_experiment::queue_row(now, number, link);
            self.log.queues.push(QueueRow {
                t_ns: now.min(self.end),
                ..row
            });
        }
    }
}
