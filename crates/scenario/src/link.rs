//! `[[links]]`: what flows cross beside the path's own link.

use paceline_units::{Duration, Gain, Rate};
use schemars::JsonSchema;
use serde::Serialize;

use crate::document::Node;
use crate::flow::zero;
use crate::impair::{Policer, Reorder};
use crate::loss::Loss;
use crate::path::{PathSection, QUEUE_NEEDS_SIZE, no_loss};
use crate::queue::Queue;
use crate::reader::{Read, Reader};

/// A link that flows cross if their route names it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LinkSection {
    /// Its name, for routes, events and plots.
    pub name: String,
    /// Its capacity.
    pub rate: Rate,
    /// One-way propagation delay, a part of the round trip of the flows that cross it.
    #[schemars(default = "zero")]
    pub delay: Duration,
    /// The queue in front of it. A `bdp` is its rate times the path's round trip.
    pub queue: Queue,
    /// Which packets are lost on the way.
    #[schemars(default = "crate::loss::none")]
    pub loss: Loss,
    /// Some packets arrive later than in their turn. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Reorder>,
    /// The probability that a packet arrives twice, independently of all others.
    #[schemars(default = "no_loss")]
    pub duplicate: Gain,
    /// Each packet takes up to this longer, uniform and seeded, but overtakes none.
    #[schemars(default = "zero")]
    pub jitter: Duration,
    /// A token bucket in front of the queue. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<Policer>,
    /// What has left the queue waits for the next multiple of this time, and goes on together.
    #[schemars(default = "zero")]
    pub aggregation: Duration,
}

impl PathSection {
    /// The path's own link at `rate`, with `delay` of its own.
    pub fn link(&self, rate: Rate, delay: Duration) -> LinkSection {
        LinkSection {
            name: self.name.clone(),
            rate,
            delay,
            queue: self.queue.clone(),
            loss: self.loss,
            reorder: self.reorder,
            duplicate: self.duplicate,
            jitter: self.jitter,
            policer: self.policer,
            aggregation: self.aggregation,
        }
    }
}

impl Read for LinkSection {
    fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
        let mut table = reader.table(node, key, "a table")?;
        let name = table.required("name", "name it, for routes: name = \"nic\"");
        let rate = table.required("rate", "say how fast it is: rate = \"50 Gbit/s\"");
        let delay = table.or("delay", zero());
        let queue = table.required("queue", QUEUE_NEEDS_SIZE);
        let loss = table.or("loss", Loss::NONE);
        let reorder = table.optional("reorder");
        let duplicate = table.or("duplicate", no_loss());
        let jitter = table.or("jitter", zero());
        let policer = table.optional("policer");
        let aggregation = table.or("aggregation", zero());
        table.finish();
        Some(Self {
            name: name?,
            rate: rate?,
            delay,
            queue: queue?,
            loss,
            reorder,
            duplicate,
            jitter,
            policer,
            aggregation,
        })
    }
}
