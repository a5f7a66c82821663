//! Memory of a run while it is in progress.

use paceline_path::{Aqm, Service};
use paceline_record::RecordMemory;

use crate::plan::Plan;

/// Memory of a run, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The rows of the record.
    pub record: RecordMemory,
    /// Packets on their way, and the ends' state for them.
    pub in_flight: u64,
    /// Memory before the first packet: the scenario, its trace, flows, links.
    pub fixed: u64,
}

/// A part of a run's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What uses it.
    pub name: &'static str,
    /// The amount, in bytes.
    pub bytes: u64,
    /// How to reduce it.
    pub hint: &'static str,
}

impl Memory {
    /// Its parts.
    pub fn parts(&self) -> [Part; 7] {
        let part = |name, bytes, hint| Part { name, bytes, hint };
        [
            part(
                "samples",
                self.record.samples,
                "a longer run.sample_interval, a shorter run.duration or fewer flows",
            ),
            part(
                "queue",
                self.record.queue,
                "a longer run.sample_interval or a shorter run.duration",
            ),
            part(
                "events",
                self.record.events,
                "run.record.states = false or a shorter run.duration",
            ),
            part(
                "packets",
                self.record.packets,
                "run.record.packets = false or a shorter run.duration",
            ),
            part(
                "qlog",
                self.record.qlog,
                "run.record.qlog = false or a shorter run.duration",
            ),
            part(
                "packets in flight",
                self.in_flight,
                "a smaller queue or a smaller receive_window of the flows",
            ),
            part(
                "scenario",
                self.fixed,
                "fewer flows, links or events, or a shorter trace",
            ),
        ]
    }

    /// The total.
    pub fn total(&self) -> u64 {
        let parts = self.parts();
        parts
            .iter()
            .fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// The largest part.
    pub fn largest(&self) -> Part {
        let [first, others @ ..] = self.parts();
        let larger = |most: Part, part: Part| if part.bytes > most.bytes { part } else { most };
        others.into_iter().fold(first, larger)
    }
}

/// Size of a stack's qlog entry for a packet or an acknowledgment, in bytes.
pub const QLOG_ENTRY: u64 = 500;

impl Plan<'_> {
    /// Memory before the first packet, in bytes.
    pub fn fixed_memory(&self) -> u64 {
        /// A flow with both of its ends.
        const FLOW: u64 = 8_000;
        /// An event in its text, parsed, resolved and recorded forms.
        const EVENT: u64 = 1_500;
        let traces = self.services.iter().map(|service| match service {
            Service::Fixed(_) => 0,
            Service::Trace(trace) => trace.opportunities() as u64 * 8,
        });
        let queues = self.links.iter().map(|link| {
            let choices = std::iter::once(&link.queue.kind).chain(&link.queue.early_signals);
            let aqms = choices.filter_map(|choice| Aqm::named(choice.name, &choice.options));
            aqms.map(|aqm| aqm.memory()).sum::<u64>()
        });
        self.flows.len() as u64 * FLOW
            + self.scenario.events.len() as u64 * EVENT
            + traces.sum::<u64>()
            + queues.sum::<u64>()
    }
}
