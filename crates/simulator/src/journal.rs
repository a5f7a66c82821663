//! What a world tells the record.

use paceline_congestion::{CaState, Controller, Ecn};
use paceline_path::{Link, Verdict};
use paceline_record::{
    AckTimes, EventRow, FlowTotals, PacketRow, QueueRow, Recorder, Run, RunInfo, STATE, SampleRow,
};
use paceline_recovery::{Acknowledgment, Segment};
use paceline_scenario::RecordSection;
use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::flow::{Flow, Packet, Seen, Stage, ca_state_name};
use paceline_experiment::Change;

/// Rows on their way into a [`Recorder`].
pub(crate) struct Journal {
    recorder: Recorder,
    interval: Duration,
    /// What the links are called.
    names: Vec<String>,
    /// Whether each packet is recorded.
    packets: bool,
    /// Whether a flow has a row at each change.
    rounds: bool,
    states: bool,
}

impl Journal {
    pub fn new(info: RunInfo, record: &RecordSection) -> Self {
        Self {
            interval: info.sample_interval,
            names: info.links.iter().map(|link| link.name.clone()).collect(),
            recorder: Recorder::new(info),
            packets: record.packets,
            rounds: record.rounds,
            states: record.states,
        }
    }

    pub fn interval(&self) -> Duration {
        self.interval
    }

    pub fn started(&mut self, now: Instant, flow: u32) {
        self.event(now, Some(flow), "start", "", "");
    }

    pub fn established(&mut self, now: Instant, flow: u32, phase: &str) {
        self.event(now, Some(flow), "established", "", "");
        if self.states {
            self.event(now, Some(flow), STATE, "", phase);
        }
    }

    /// All of a flow's data is delivered.
    pub fn finished(&mut self, now: Instant, flow: &Flow) {
        self.event(now, Some(flow.id), "finish", "", "");
        self.sample_flow(now, flow);
    }

    /// The scenario ends a flow.
    pub fn stopped(&mut self, now: Instant, flow: &Flow) {
        self.event(now, Some(flow.id), "stop", "", "");
        self.sample_flow(now, flow);
    }

    /// A flow's state is not what it was `before`.
    pub fn changed(&mut self, now: Instant, flow: &Flow, before: &Seen) {
        let seen = &flow.seen;
        if self.rounds {
            self.sample_flow(now, flow);
        }
        let flow = flow.id;
        if before.rto_count != seen.rto_count {
            self.event(now, Some(flow), "rto", "", "");
        }
        if before.undo_count != seen.undo_count {
            self.event(now, Some(flow), "undo", "", "");
        }
        if before.ca_state != seen.ca_state {
            let (from, to) = (ca_state_name(before.ca_state), ca_state_name(seen.ca_state));
            // Disorder comes and goes with every reordered packet: only episodes are told.
            let told = |state| matches!(state, CaState::Recovery | CaState::Loss | CaState::Cwr);
            if told(before.ca_state) || told(seen.ca_state) {
                self.event(now, Some(flow), "recovery", from, to);
            }
        }
        if self.states && before.phase != seen.phase {
            self.event(now, Some(flow), STATE, before.phase, seen.phase);
        }
    }

    /// A change that the scenario asks for, before it is done.
    pub fn scripted(&mut self, now: Instant, change: &Change, links: &[Link<Packet>]) {
        let (flow, kind, mut detail) = change.describe();
        let mut rate = Rate::ZERO;
        if let Change::Link(number, _) = change {
            rate = links[*number].rate();
            if *number > 0 {
                detail.push_str(&format!(" at {}", self.names[*number]));
            }
        }
        let before = match kind {
            "rate" => format!("{} bit/s", rate.bps()),
            _ => String::new(),
        };
        self.event(now, flow.map(|flow| flow as u32), kind, &before, &detail);
    }

    pub fn sent(&mut self, now: Instant, flow: u32, segment: &Segment, verdict: Verdict) {
        if !self.packets {
            return;
        }
        let kind = if segment.retransmission {
            "retransmit"
        } else {
            "send"
        };
        self.packet(now, flow, kind, segment.seq, segment.len, 0);
        if let Verdict::Dropped(_) = verdict {
            self.packet(now, flow, "drop", segment.seq, segment.len, 0);
        }
    }

    /// A link on the way takes a packet, or does not.
    pub fn forwarded(&mut self, now: Instant, packet: &Packet, verdict: Verdict) {
        if let Verdict::Dropped(_) = verdict {
            self.dropped(now, packet);
        }
    }

    /// A packet is lost on the way, or by a queue that had taken it.
    pub fn dropped(&mut self, now: Instant, packet: &Packet) {
        if let (true, Some(segment)) = (self.packets, &packet.segment) {
            self.packet(now, packet.flow, "drop", segment.seq, segment.len, 0);
        }
    }

    pub fn delivered(&mut self, now: Instant, flow: u32, segment: &Segment) {
        if self.packets {
            self.packet(now, flow, "deliver", segment.seq, segment.len, 0);
            if segment.ecn == Ecn::Ce {
                self.packet(now, flow, "mark", segment.seq, segment.len, 0);
            }
        }
    }

    pub fn acknowledged(&mut self, now: Instant, flow: u32, ack: &Acknowledgment) {
        if !self.packets {
            return;
        }
        self.recorder.packet(&PacketRow {
            t: now,
            flow,
            kind: "ack",
            seq: ack.ack,
            len: 0,
            window: ack.window,
            told: Some(AckTimes {
                departed: ack.sent,
                echoed: ack.ts_echo,
                held: ack.delay,
            }),
        });
        for block in ack.blocks.held() {
            let len = u32::try_from(block.end.saturating_sub(block.start)).unwrap_or(u32::MAX);
            self.packet(now, flow, "sack", block.start, len, ack.window);
        }
    }

    /// A row for each flow that is open, and one for each link.
    pub fn sample(&mut self, now: Instant, flows: &[Flow], links: &mut [Link<Packet>]) {
        for flow in flows {
            self.sample_flow(now, flow);
        }
        for (number, link) in (0..).zip(links) {
            self.sample_link(now, number, link);
        }
    }

    fn sample_link(&mut self, now: Instant, number: u32, link: &mut Link<Packet>) {
        let backlog = link.backlog(now);
        let counters = *link.counters();
        self.recorder.queue(&QueueRow {
            t: now,
            link: number,
            backlog: backlog.bytes,
            packets: backlog.packets,
            delay: backlog.delay,
            peak: link.take_peak(now),
            rate: link.rate(),
            capacity: link.capacity(now),
            // A copy takes no capacity.
            delivered: counters.delivered.bytes - counters.duplicated.bytes,
            dropped_packets: counters.dropped().packets,
            offered_packets: counters.offered.packets,
            marked_packets: counters.marked.packets,
        });
    }

    /// A row for a flow that is open; a closed one had its last at its end.
    fn sample_flow(&mut self, now: Instant, flow: &Flow) {
        let Stage::Open(sender) = &flow.stage else {
            return;
        };
        let stats = sender.stats();
        let row = SampleRow {
            t: now,
            flow: flow.id,
            cwnd: sender.cwnd(),
            in_flight: sender.in_flight(),
            pacing_rate: sender.controller().pacing_rate(),
            delivery_rate: sender.last_sample().delivery_rate(),
            rtt: sender.latest_rtt(),
            srtt: sender.srtt(),
            min_rtt: sender.min_rtt(),
            goodput: Bytes::new(flow.receiver.delivered()),
            delivered: sender.delivery().delivered(),
            sent_packets: stats.packets_sent,
            lost_packets: stats.packets_lost,
            retransmitted_packets: stats.packets_retransmitted,
            phase: sender.controller().phase(),
            ca_state: ca_state_name(sender.ca_state()),
            app_limited: sender.app_limited(),
        };
        self.recorder
            .sample(&row, |visit| sender.controller().visit_state(visit));
    }

    pub fn finish(self, flows: &[Flow]) -> Run {
        let totals: Vec<FlowTotals> = flows
            .iter()
            .map(|flow| {
                let stats = flow
                    .sender()
                    .map(|sender| *sender.stats())
                    .unwrap_or_default();
                FlowTotals {
                    flow: flow.id,
                    packets_sent: stats.packets_sent,
                    packets_retransmitted: stats.packets_retransmitted,
                    packets_lost: stats.packets_lost,
                    spurious_losses: stats.spurious_losses,
                    rto_count: stats.rto_count,
                    tlp_count: stats.tlp_count,
                    goodput: Bytes::new(flow.receiver.delivered()),
                    finished: flow.finished,
                }
            })
            .collect();
        self.recorder.finish(&totals)
    }

    fn event(&mut self, t: Instant, flow: Option<u32>, kind: &str, from: &str, detail: &str) {
        self.recorder.event(&EventRow {
            t,
            flow,
            kind,
            from,
            detail,
        });
    }

    fn packet(
        &mut self,
        t: Instant,
        flow: u32,
        kind: &'static str,
        seq: u64,
        len: u32,
        window: u64,
    ) {
        self.recorder.packet(&PacketRow {
            t,
            flow,
            kind,
            seq,
            len,
            window,
            told: None,
        });
    }
}
