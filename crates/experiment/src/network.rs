//! From the links of a scenario to those of the path.

use paceline_path::{
    Aqm, Codel, DualPi2, FqCodel, Link, LinkConfig, Packet, Pie, QueueLimit, Red, Service,
    Threshold,
};
use paceline_scenario::{FlowGroup, LinkSection, QueueKind, QueueSize, Scenario};
use paceline_units::{Duration, Instant, Rate};

use crate::{change, seed_of};

const LOSS_STREAM: u64 = u64::MAX;
/// From one link's stream of losses to the next link's.
const LINK_STRIDE: u64 = 1 << 32;

/// The path's own link at `rate`, then the others. Half of the shortest RTT lies on the path's own,
/// the rest on each way back.
pub fn links(scenario: &Scenario, rate: Rate) -> Vec<LinkSection> {
    let path = &scenario.path;
    let shortest = scenario
        .flows
        .iter()
        .map(|group| group.rtt.unwrap_or(path.rtt))
        .fold(path.rtt, Duration::min);
    let mut links = vec![path.link(rate, shortest / 2)];
    links.extend(scenario.links.iter().cloned());
    links
}

/// The links that a group's data crosses, by number.
pub fn route(scenario: &Scenario, group: &FlowGroup) -> Box<[usize]> {
    match &group.route {
        None => Box::new([0]),
        Some(names) => names
            .iter()
            .filter_map(|name| scenario.link_number(name))
            .collect(),
    }
}

/// A link, by its number, with the service that it begins with.
pub fn link<P: Packet + Clone>(
    scenario: &Scenario,
    (number, section): (u64, &LinkSection),
    service: Service,
    seed: u64,
) -> Link<P> {
    let mut link = Link::new(LinkConfig {
        service,
        delay: section.delay,
        limit: queue_limit(scenario, section),
        loss: change::loss(section.loss),
        seed: seed_of(seed, LOSS_STREAM - number * LINK_STRIDE),
    });
    link.set_aqm(aqm(scenario, section));
    if scenario.run.record.packets {
        link.tell_drops();
    }
    for change in change::at_start(section) {
        change.apply(Instant::ZERO, &mut link);
    }
    link
}

/// The most that waits at a link.
pub fn queue_limit(scenario: &Scenario, link: &LinkSection) -> QueueLimit {
    match &link.queue.size {
        QueueSize::Packets(packets) => QueueLimit::Packets(*packets),
        size => QueueLimit::Bytes(
            size.to_bytes(link.rate, scenario.path.rtt, scenario.path.mtu)
                .get(),
        ),
    }
}

/// How the queue signals congestion.
fn aqm(scenario: &Scenario, link: &LinkSection) -> Option<Aqm> {
    let (path, queue, rate) = (&scenario.path, &link.queue, link.rate);
    let amount = |size: QueueSize| match size {
        QueueSize::Packets(packets) => packets,
        size => size.to_bytes(rate, path.rtt, path.mtu).get(),
    };
    let step = queue.mark.map(|mark| {
        Aqm::Step(match mark.threshold {
            QueueSize::Packets(packets) => Threshold::Packets(packets),
            QueueSize::Time(time) => Threshold::Sojourn(time),
            size => Threshold::Bytes(amount(size)),
        })
    });
    let red = |red: paceline_scenario::Red| {
        Aqm::Red(Red {
            in_packets: matches!(red.min, QueueSize::Packets(_)),
            min: amount(red.min),
            max: amount(red.max),
            probability: red.probability,
            weight: red.weight,
            ecn: red.ecn,
            gentle: red.gentle,
        })
    };
    discipline(queue.kind, path.mtu.get())
        .or(step)
        .or(queue.red.map(red))
}

/// A queue that is more than drop-tail; the largest packet is `mtu` bytes.
fn discipline(kind: QueueKind, mtu: u64) -> Option<Aqm> {
    let codel = |codel: paceline_scenario::Codel| Codel {
        target: codel.target,
        interval: codel.interval,
        ecn: codel.ecn,
        max_packet: mtu,
    };
    Some(match kind {
        QueueKind::DropTail => return None,
        QueueKind::Codel(queue) => Aqm::Codel(codel(queue)),
        QueueKind::FqCodel(queue) => Aqm::FqCodel(FqCodel {
            codel: codel(queue.codel),
            flows: queue.flows,
            quantum: u32::try_from(queue.quantum.get()).unwrap_or(u32::MAX),
        }),
        QueueKind::Pie(queue) => Aqm::Pie(Pie {
            target: queue.target,
            update: queue.update,
            alpha: queue.alpha.0,
            beta: queue.beta.0,
            burst: queue.burst,
            ecn: queue.ecn,
            mark_limit: queue.mark_limit,
            derandomize: queue.derandomize,
            mean_packet: mtu,
        }),
        QueueKind::DualPi2(queue) => Aqm::DualPi2(DualPi2 {
            target: queue.target,
            rtt_max: queue.rtt_max,
            coupling: queue.coupling,
            ramp_min: queue.ramp_min,
            ramp_range: queue.ramp_range,
            ramp_packets: 1,
            classic_share: queue.classic_share,
            max_packet: mtu,
        }),
    })
}
