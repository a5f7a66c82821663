//! Writes a world's events to the record.

use paceline_congestion::{CaState, Controller, Ecn};
use paceline_experiment::{
    ACK_COUNTERS, BANDWIDTH, Change, change_rows, end_counters, end_row, queue_row,
};
use paceline_path::{Link, Verdict};
use paceline_record::{
    EventKind, EventRow, FlowTotals, PacketKind, PacketRow, RecordMemory, Recorder, Run, RunInfo,
    SampleRow,
};
use paceline_recovery::{Acknowledgment, Segment, SenderStats};
use paceline_scenario::RecordSection;
use paceline_units::{Bytes, Duration, Field, Instant, Rate, Value};

use crate::flow::{Flow, Snapshot, Stage};
use crate::packet::{Load, Packet};

/// Rows on their way into a [`Recorder`].
pub(crate) struct Journal {
    recorder: Recorder,
    interval: Duration,
    /// The time of the last regular rows.
    sampled: Option<Instant>,
    /// Whether each packet is recorded.
    packets: bool,
    /// Whether a flow gets a row at each change.
    rounds: bool,
    states: bool,
    /// Whether flows have counters of their ACKs.
    acks: bool,
}

impl Journal {
    /// `fields` are those of each flow's controller.
    pub fn new(info: RunInfo, fields: &[Vec<Field>], record: &RecordSection) -> Self {
        let counters = SenderStats::COUNTERS.iter().map(|(name, _)| *name);
        let acks = info.links.iter().any(|link| link.return_of.is_some());
        let more = ACK_COUNTERS.iter().filter(|_| acks).map(|(name, _)| *name);
        Self {
            interval: info.sample_interval,
            sampled: None,
            recorder: Recorder::new(info, fields, counters.chain(more)),
            packets: record.packets,
            rounds: record.rounds,
            states: record.states,
            acks,
        }
    }

    /// Whether each packet is recorded.
    #[inline]
    pub fn packets(&self) -> bool {
        self.packets
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The record so far.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Memory of the record so far.
    pub fn memory(&self) -> RecordMemory {
        self.recorder.memory()
    }

    pub fn started(&mut self, now: Instant, flow: u32) {
        self.event(now, flow, EventKind::Start);
    }

    pub fn established(&mut self, now: Instant, flow: u32, phase: &'static str) {
        self.event(now, flow, EventKind::Established);
        self.entered(now, flow, "", phase);
    }

    /// All of a flow's data is delivered.
    pub fn finished(&mut self, now: Instant, flow: &Flow) {
        self.event(now, flow.id, EventKind::Finish);
        self.sample_flow(now, flow);
    }

    /// The scenario ends a flow.
    pub fn stopped(&mut self, now: Instant, flow: &Flow) {
        self.event(now, flow.id, EventKind::Stop);
        self.sample_flow(now, flow);
    }

    /// A flow's state differs from `before`.
    pub fn changed(&mut self, now: Instant, flow: &Flow, before: &Snapshot) {
        let after = &flow.snapshot;
        if self.rounds && !self.is_regular_due(now) {
            self.sample_flow(now, flow);
        }
        let flow = flow.id;
        if before.rto_count != after.rto_count {
            self.event(now, flow, EventKind::Rto);
        }
        if before.undo_count != after.undo_count {
            self.event(now, flow, EventKind::Undo);
        }
        if before.ca_state != after.ca_state {
            let (from, to) = (before.ca_state.name(), after.ca_state.name());
            // Disorder starts and ends with every reordered packet: only episodes are recorded.
            let episode = |state| matches!(state, CaState::Recovery | CaState::Loss | CaState::Cwr);
            if episode(before.ca_state) || episode(after.ca_state) {
                self.between(now, flow, EventKind::Recovery, from, to);
            }
        }
        if before.phase != after.phase {
            self.entered(now, flow, before.phase, after.phase);
        }
    }

    /// A flow's controller has entered another state.
    pub fn entered(&mut self, now: Instant, flow: u32, before: &'static str, phase: &'static str) {
        if self.states {
            self.between(now, flow, EventKind::State, before, phase);
        }
    }

    /// A change requested by the scenario, before it is made.
    pub fn scripted(&mut self, now: Instant, change: &Change, rate: Rate) {
        for row in change_rows(now, change, rate) {
            self.recorder.event(row);
        }
    }

    pub fn sent(&mut self, now: Instant, flow: u32, segment: &Segment, verdict: Verdict) {
        if !self.packets {
            return;
        }
        let kind = if segment.retransmission {
            PacketKind::Retransmit
        } else {
            PacketKind::Send
        };
        self.segment(now, flow, kind, segment);
        if let Verdict::Dropped(_) = verdict {
            self.segment(now, flow, PacketKind::Drop, segment);
        }
    }

    /// A packet is lost on the way, or dropped by a queue, which may have accepted it before.
    pub fn dropped(&mut self, now: Instant, packet: &Packet) {
        match &packet.load {
            Load::Segment(segment) if self.packets => {
                self.segment(now, packet.flow, PacketKind::Drop, segment);
            }
            Load::Datagram { number, size, .. } => {
                self.datagram(now, packet.flow, PacketKind::Drop, (*number, *size));
            }
            _ => {}
        }
    }

    /// Another transport's datagram, by its number and size.
    pub fn datagram(&mut self, t: Instant, flow: u32, kind: PacketKind, datagram: (u64, u32)) {
        if self.packets {
            let (number, size) = datagram;
            let row = PacketRow::new(t, flow, kind, number, size.into());
            self.recorder.packet(row);
        }
    }

    pub fn delivered(&mut self, now: Instant, flow: u32, segment: &Segment) {
        if self.packets {
            self.segment(now, flow, PacketKind::Deliver, segment);
            if segment.ecn == Ecn::Ce {
                self.segment(now, flow, PacketKind::Mark, segment);
            }
        }
    }

    /// What happens to an acknowledgment.
    pub fn ack(&mut self, at: Instant, flow: u32, kind: PacketKind, ack: &Acknowledgment) {
        if self.packets {
            self.recorder.packet(PacketRow {
                window_bytes: Bytes::new(ack.window),
                departed_ns: Some(ack.sent),
                echoed_ns: Some(ack.ts_echo),
                held_ns: Some(ack.delay),
                ..PacketRow::new(at, flow, kind, ack.ack, 0)
            });
        }
    }

    pub fn acknowledged(&mut self, now: Instant, flow: u32, ack: &Acknowledgment) {
        if !self.packets {
            return;
        }
        let window = Bytes::new(ack.window);
        self.ack(now, flow, PacketKind::Ack, ack);
        for block in ack.blocks.held() {
            let len = block.end.saturating_sub(block.start);
            self.recorder.packet(PacketRow {
                window_bytes: window,
                ..PacketRow::new(now, flow, PacketKind::Sack, block.start, len)
            });
        }
    }

    /// Whether a flow still gets a regular row at this instant: it is the first of that time, by
    /// which metrics distinguish it from the rows between.
    fn is_regular_due(&self, now: Instant) -> bool {
        let whole = now
            .as_nanos()
            .is_multiple_of(self.interval.as_nanos().max(1));
        whole && self.sampled != Some(now)
    }

    /// A row for each flow that is open, and one for each link.
    pub fn sample(&mut self, now: Instant, flows: &[Flow], links: &mut [Link<Packet>]) {
        self.sampled = Some(now);
        for flow in flows {
            self.sample_flow(now, flow);
        }
        for (number, link) in (0..).zip(links) {
            self.recorder.queue(queue_row(now, number, link));
        }
    }

    /// A row for a flow that is open; a closed one got its last row when it ended.
    fn sample_flow(&mut self, now: Instant, flow: &Flow) {
        let sender = match &flow.stage {
            Stage::Open(sender) => sender,
            Stage::Foreign(foreign) if !foreign.is_over => {
                let stats = foreign.ends.stats();
                let row = end_row(now, flow.id, &stats, flow.delivered());
                return self.recorder.sample(row, |visit| {
                    if let Some(rate) = stats.bandwidth {
                        visit.show(BANDWIDTH.name, Value::Rate(rate));
                    }
                });
            }
            _ => return,
        };
        let stats = sender.stats();
        let row = SampleRow {
            t_ns: now,
            flow: flow.id,
            cwnd_bytes: Some(sender.cwnd()),
            in_flight_bytes: sender.in_flight(),
            pacing_bps: sender.outputs().pacing_rate,
            delivery_bps: Some(sender.last_sample().delivery_rate()),
            rtt_ns: sender.latest_rtt(),
            srtt_ns: sender.srtt(),
            min_rtt_ns: sender.min_rtt(),
            goodput_bytes: Bytes::new(flow.delivered()),
            delivered_bytes: sender.delivery().delivered(),
            sent_packets: stats.sent_packets,
            lost_packets: stats.lost_packets,
            retransmitted_packets: stats.retransmitted_packets,
            phase: sender.controller().phase().into(),
            ca_state: sender.ca_state().name().into(),
            app_limited: sender.app_limited(),
        };
        self.recorder
            .sample(row, |visit| sender.controller().visit_state(visit));
    }

    /// The run ends here, before its planned end.
    pub fn stop(&mut self, now: Instant, why: &str) {
        self.recorder.stop(now, why);
    }

    pub fn finish(self, flows: &[Flow]) -> Run {
        let totals = |flow: &Flow| {
            let mut counters: Vec<_> = match &flow.stage {
                Stage::Foreign(foreign) => end_counters(&foreign.ends.stats()),
                _ => {
                    let stats = flow.sender().map(|sender| *sender.stats());
                    stats.unwrap_or_default().values().map(Some).into()
                }
            };
            if self.acks {
                let acks = [flow.acks_sent, flow.acks_lost, flow.acks_filtered];
                counters.extend(acks.map(|count| (!flow.plan.back.is_empty()).then_some(count)));
            }
            FlowTotals {
                flow: flow.id,
                goodput: Bytes::new(flow.delivered()),
                finished: flow.finished,
                counters,
            }
        };
        self.recorder
            .finish(&flows.iter().map(totals).collect::<Vec<_>>())
    }

    fn event(&mut self, t: Instant, flow: u32, kind: EventKind) {
        self.recorder.event(EventRow::new(t, Some(flow), kind));
    }

    fn between(
        &mut self,
        t: Instant,
        flow: u32,
        kind: EventKind,
        from: &'static str,
        to: &'static str,
    ) {
        let event = EventRow::new(t, Some(flow), kind);
        self.recorder.event(event.between(from, to));
    }

    fn segment(&mut self, t: Instant, flow: u32, kind: PacketKind, segment: &Segment) {
        let row = PacketRow::new(t, flow, kind, segment.seq, segment.len.into());
        self.recorder.packet(row);
    }
}
