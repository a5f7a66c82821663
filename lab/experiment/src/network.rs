//! Builds the path's links from a scenario's.

use paceline_path::{Aqm, Link, LinkConfig, Packet, QueueLimit, Service};
use paceline_scenario::{LinkSection, Scenario};
use paceline_units::{Instant, Rate, Rng, Site};

use crate::change;

const LOSS_STREAM: u64 = u64::MAX;
/// The offset from one link's random stream of losses to the next link's.
const LINK_STRIDE: u64 = 1 << 32;

/// The rate of a service at the start of the run; a trace's mean.
pub fn rate(service: &Service) -> Rate {
    match service {
        Service::Fixed(rate) => *rate,
        Service::Trace(trace) => trace.mean_rate(),
    }
}

/// Random streams of one seed: each part of an experiment draws from its own.
pub fn seed_of(seed: u64, stream: u64) -> u64 {
    let mut rng = Rng::new(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
    rng.next_u64()
}

/// The seed of a link, by its number, in a run with `seed`.
pub fn link_seed(seed: u64, number: u64) -> u64 {
    seed_of(seed, LOSS_STREAM - number * LINK_STRIDE)
}

/// A link, by its number, with its initial service.
pub(crate) fn link<P: Packet + Clone>(
    scenario: &Scenario,
    (number, section): (u64, &LinkSection),
    service: Service,
    seed: u64,
) -> Link<P> {
    let mut link = Link::new(LinkConfig {
        service,
        delay: section.delay,
        limit: queue_limit(scenario, section),
        seed: link_seed(seed, number),
    });
    let queue = &section.queue;
    let chosen = std::iter::once(&queue.kind).chain(&queue.early_signals);
    let mut aqm = chosen.filter_map(|choice| Aqm::named(choice.name, &choice.options));
    link.set_aqm(aqm.next_back(), &site(scenario, section));
    if scenario.run.record.packets {
        link.tell_drops();
    }
    for key in section.link.at_start() {
        change::set(&mut link, key, Instant::ZERO);
    }
    link
}

/// The reference for relative sizes at a link.
fn site(scenario: &Scenario, link: &LinkSection) -> Site {
    Site {
        rate: link.rate,
        rtt: scenario.path.rtt,
        mtu: scenario.path.mtu,
    }
}

/// The maximum that waits at a link.
pub(crate) fn queue_limit(scenario: &Scenario, link: &LinkSection) -> QueueLimit {
    QueueLimit::new(link.queue.size, &site(scenario, link))
}
