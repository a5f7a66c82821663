//! The flows of a plan: when they start, which links they use, and what they send.

use std::sync::Arc;

use paceline_scenario::{FlowGroup, Scenario};
use paceline_units::{Direction, Duration, Instant, Rng};

use crate::network::seed_of;
use crate::ways::Ways;

const START_STREAM: u64 = u64::MAX - 1;

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its group, for options that only some engines use.
    pub group: Arc<FlowGroup>,
    /// When it starts.
    pub start: Instant,
    /// When it is stopped, if it is.
    pub stop: Option<Instant>,
    /// Its RTT without queues at the start of the run.
    pub base_rtt: Duration,
    /// Payload of a full packet in bytes.
    pub mss: u32,
    /// IP and TCP headers of a packet in bytes.
    pub header: u32,
    /// The links that its data crosses, by number.
    pub route: Box<[usize]>,
    /// Those that its ACKs cross, before the lane.
    pub back: Box<[usize]>,
    /// The index of the return lane that carries its ACKs.
    pub lane: usize,
    /// Its name in plots.
    pub label: String,
}

impl FlowPlan {
    /// The link after `link` on the way of its data.
    #[inline]
    pub fn after(&self, link: usize) -> Option<usize> {
        let place = self.route.iter().position(|number| *number == link)?;
        self.route.get(place + 1).copied()
    }

    /// The link after `link` on the way of its ACKs.
    pub fn back_after(&self, link: usize) -> Option<usize> {
        let place = self.back.iter().position(|number| *number == link)?;
        self.back.get(place + 1).copied()
    }
}

/// The flows of a run with `seed`, in their order, and their return paths.
pub(crate) fn flows(scenario: &Scenario, seed: u64) -> (Vec<FlowPlan>, Ways) {
    let mut rng = Rng::new(seed_of(seed, START_STREAM));
    let mut ways = Ways::new(scenario);
    let mut flows = Vec::new();
    for group in &scenario.flows {
        let shared = Arc::new(group.clone());
        let (route, back) = routes(scenario, group);
        let mss = mss(scenario, group);
        for nth in 0..group.count {
            let label = group.label.as_deref().filter(|label| !label.is_empty());
            flows.push(FlowPlan {
                group: Arc::clone(&shared),
                start: start(group, nth, &mut rng),
                stop: group.stop.map(|stop| Instant::ZERO + stop),
                base_rtt: group.rtt.unwrap_or(scenario.path.rtt),
                mss,
                header: u32::try_from(group.header().get()).unwrap_or(u32::MAX),
                lane: ways.lane_of(scenario, group, route.iter().chain(&back)),
                route: route.clone(),
                back: back.clone(),
                label: label.map_or_else(|| format!("{} {}", name(group), flows.len()), Into::into),
            });
        }
    }
    (flows, ways)
}

/// The name of a group's flows: their controller, and their stack if it is not our own.
fn name(group: &FlowGroup) -> String {
    let (stack, cc) = (group.stack.word(), &group.cc.name);
    match group.is_quic() && !cc.contains(':') {
        true => format!("{stack} {cc}"),
        false => cc.clone(),
    }
}

/// When the `nth` flow of a group starts, counted from 0.
fn start(group: &FlowGroup, nth: u32, rng: &mut Rng) -> Instant {
    let jitter = Duration::from_nanos(rng.below(group.start_jitter.as_nanos()));
    Instant::ZERO + group.start + group.stagger * u64::from(nth) + jitter
}

/// The links that a group's data crosses, by number, and those that its ACKs cross.
fn routes(scenario: &Scenario, group: &FlowGroup) -> (Box<[usize]>, Box<[usize]>) {
    let numbers = |names: &[String]| -> Vec<usize> {
        let numbers = names.iter().map(|name| scenario.link_number(name));
        numbers.flatten().collect()
    };
    let route = match &group.route {
        None => vec![0],
        Some(names) => numbers(names),
    };
    let back: Vec<usize> = match &group.return_route {
        None => route.iter().rev().copied().collect(),
        Some(names) => numbers(names),
    };
    let back = back.into_iter();
    let back = back.filter_map(|link| scenario.return_number(link));
    match group.direction {
        Direction::Down => (route.into(), back.collect()),
        Direction::Up => (back.collect(), route.into()),
    }
}

/// The payload of a full packet of a group.
fn mss(scenario: &Scenario, group: &FlowGroup) -> u32 {
    let header = u32::try_from(group.header().get()).unwrap_or(u32::MAX);
    let mtu = u32::try_from(scenario.path.mtu.get()).unwrap_or(u32::MAX);
    mtu.saturating_sub(header).max(1)
}
