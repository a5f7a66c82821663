//! Converts a plan to the guest's script.

use paceline_experiment::{Change, FlowPlan, LinkChange, Plan};
use paceline_path::{Aqm, QueueLimit};
use paceline_recovery::{Amount, App, Application};
use paceline_scenario::{LinkKey, OptionInput};
use paceline_tcp::netlink::Request;
use paceline_tcp::packet::receiver;
use paceline_tcp::settings;
use paceline_units::{Bytes, Duration, Gain, Instant, Loss, Rate, Rng, Site};

use crate::bbr3::Controllers;
use crate::losses::Losses;
use crate::network::{self, Direction, Placed, Queue, Way};
use crate::wire::{self, Command, Record};

/// Flows start up to this much later than the scenario says, depending on the seed.
pub const START_OFFSET: Duration = Duration::from_millis(10);
/// The maximum window of TCP (RFC 7323 2.3), for which no limit is needed.
const LARGEST: u64 = 1 << 30;
/// The maximum unsent bytes of a flow whose application may fall silent: it cannot take them back.
const UNSENT: u32 = 16 * 1024;
/// Each kind of draw has its own stream.
const KERNEL: u64 = 0x6b65_726e_656c;
const OFFSETS: u64 = 0x7374_6172_7473;
const NETEM: u64 = 0x6c6f_7373_6573;

/// A script.
#[derive(Default)]
struct Script(Vec<u8>);

impl Script {
    fn push(&mut self, kind: Command, number: u16, at: Instant, body: &[u8]) {
        let record = Record {
            kind: kind as u16,
            number,
            at: at.as_nanos(),
            body,
        };
        self.0.extend(record.head());
        self.0.extend(body);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    fn netlink(&mut self, (namespace, request): &Placed) {
        let message = request.bytes(1);
        self.push(Command::Netlink, *namespace, Instant::ZERO, &message);
    }

    fn file(&mut self, namespace: u16, path: &str, content: &str) {
        let body = [path.as_bytes(), &[0], content.as_bytes()].concat();
        self.push(Command::File, namespace, Instant::ZERO, &body);
    }
}

/// The number of the return direction of a machine's only link.
pub const BACK: usize = 1;

/// The directions of a plan, each with the number of its link.
pub fn directions(plan: &Plan<'_>) -> impl Iterator<Item = (usize, Direction)> + use<> {
    (0..plan.links.len()).zip(Direction::BOTH)
}

/// Whether a flow sends from the receivers' host.
pub fn is_up(flow: &FlowPlan) -> bool {
    flow.route.first() == Some(&BACK)
}

/// The state of a direction of the bottleneck at a time.
struct Path {
    link: usize,
    direction: Direction,
    rate: Rate,
    /// Whether the rate limits anything.
    is_limited: bool,
    way: Way,
    loss: Loss,
    rtt: Duration,
    queue: Queue,
    /// What packets on the way are like, where netem does not transmit each by its own size.
    usual: Bytes,
    /// Nothing but delay and transmission is ever on the way, always at the same rate.
    is_plain: bool,
}

impl Path {
    /// The delay of packets: propagation and transmission. The server releases a packet when
    /// a link would begin to transmit it. netem cannot transmit packets that it jitters or
    /// duplicates: each is delayed by the time of a usual one. Nor can it catch up: if the path
    /// becomes faster or shorter, or its jitter ends, packets that it transmits at the link's rate
    /// stay as late as the last one before the change, until the link is idle.
    fn way(&self, plan: &Plan<'_>, new: bool) -> Vec<Placed> {
        let delays = plan.ways.delays(self.rtt);
        let propagation = match self.direction {
            Direction::There => delays.link,
            Direction::Back => delays.back,
        };
        let (delay, rate) = match self.is_limited {
            _ if self.is_plain => (propagation, self.rate),
            true => (propagation + self.rate.time_for(self.usual), Way::IN_ORDER),
            false => (propagation, Way::IN_ORDER),
        };
        let way = Way {
            delay,
            rate,
            ..self.way.clone()
        };
        match self.direction {
            Direction::There => vec![way.there(new)],
            Direction::Back => way.back(&delays.lanes, new),
        }
    }
}

/// The way back where it has no direction of its own: a delay for each lane. ACKs keep their order,
/// also when the delay falls.
fn plain_back(plan: &Plan<'_>, rtt: Duration, new: bool) -> Vec<Placed> {
    let way = Way {
        delay: Duration::ZERO,
        rate: match new {
            true => Rate::ZERO,
            false => Way::IN_ORDER,
        },
        jitter: Duration::ZERO,
        duplicate: Gain::default(),
        seed: plan.seed,
    };
    way.back(&plan.ways.delays(rtt).lanes, new)
}

/// A command at a time.
type Timed = (Instant, Command, u16, Vec<u8>);

/// The script of a run. With `traced`, the calls of functions whose names begin so are recorded.
pub fn script(plan: &Plan<'_>, controllers: &Controllers, traced: Option<&str>) -> Vec<u8> {
    let mut script = Script::default();
    if let Some(functions) = traced {
        script.push(Command::Trace, 0, Instant::ZERO, functions.as_bytes());
    }
    let scenario = plan.scenario;
    let mtu = scenario.path.mtu;
    let mut rng = Rng::new(plan.seed ^ KERNEL);
    let seed: Vec<u8> = (0..4)
        .flat_map(|_| rng.below(u64::MAX).to_le_bytes())
        .collect();
    script.push(Command::Seed, 0, Instant::ZERO, &seed);
    for object in controllers.objects() {
        script.push(Command::Controller, 0, Instant::ZERO, &object);
    }
    for request in network::devices(u32::try_from(mtu.get()).unwrap_or(u32::MAX)) {
        script.netlink(&request);
    }
    for (namespace, name) in network::names() {
        script.push(Command::Plain, namespace, Instant::ZERO, name.as_bytes());
    }
    for namespace in [wire::ROUTER, wire::DELAY] {
        script.file(namespace, "/proc/sys/net/ipv4/ip_forward", "1");
        // No packet ends here: a search for its socket would be in vain.
        script.file(namespace, "/proc/sys/net/ipv4/ip_early_demux", "0");
    }
    for namespace in [wire::SENDERS, wire::RECEIVERS] {
        for (name, value) in settings::settings(&settings::stack(scenario)) {
            script.file(namespace, &format!("/proc/sys/net/ipv4/{name}"), &value);
        }
    }
    let metrics = |flow: &FlowPlan| (settings::metrics(&flow.group), is_up(flow));
    let flows: Vec<_> = plan.flows.iter().map(metrics).collect();
    for request in network::routes(&flows) {
        script.netlink(&request);
    }
    let mut paths: Vec<_> = directions(plan)
        .map(|(link, direction)| path(plan, link, direction))
        .collect();
    let losses: Vec<_> = directions(plan)
        .map(|(link, _)| Losses::of(plan, link))
        .collect();
    let lanes: Vec<usize> = plan.flows.iter().map(|flow| flow.lane).collect();
    let bands = network::bands(&lanes, plan.ways.delays(scenario.path.rtt).lanes.len());
    for (path, losses) in paths.iter().zip(&losses) {
        let direction = path.direction;
        if path.is_limited {
            for request in network::server(direction, path.rate, &path.queue, true) {
                script.netlink(&request);
            }
            if !path.queue.filters() {
                script.netlink(&network::queue(direction, &path.queue));
            }
        } else {
            script.netlink(&network::counter(direction));
        }
        let bands = bands.iter().filter(|_| direction == Direction::Back);
        bands.for_each(|request| script.netlink(request));
        for request in path.way(plan, true) {
            script.netlink(&request);
        }
        if let Some(losses) = losses {
            let body = losses.first(path.loss);
            script.push(Command::Losses, direction as u16, Instant::ZERO, &body);
            for request in network::losses(direction) {
                script.netlink(&request);
            }
        }
    }
    if let [path] = &paths[..] {
        let delays = plain_back(plan, path.rtt, true);
        for request in bands.iter().chain(&delays) {
            script.netlink(request);
        }
    }
    for (path, losses) in paths.iter().zip(&losses) {
        let inner = path.is_limited && !path.queue.filters();
        let queries = network::queries(path.direction, inner, losses.is_some());
        for (namespace, request) in queries {
            script.push(Command::Query, namespace, Instant::ZERO, &request.bytes(1));
        }
    }
    // RTTs are measured at the senders; a record of packets, and ACKs that a link may drop, need the
    // receivers' side, too. Filtered or lost: the point between shows.
    let mut ways = paths.iter().zip(&losses);
    let captures = match scenario.path.r#return.is_some() {
        true if ways.any(|(path, losses)| path.queue.filters() && losses.is_some()) => 3,
        back if back || scenario.run.record.packets => 2,
        _ => 1,
    };
    for (namespace, device) in network::CAPTURES.iter().take(captures) {
        let (at, device) = (Instant::ZERO, device.as_bytes());
        script.push(Command::Capture, *namespace, at, device);
    }
    let groups = scenario.flows.iter().zip(&controllers.names);
    let names = groups.flat_map(|(group, name)| std::iter::repeat_n(name, group.count as usize));
    for (number, (flow, name)) in plan.flows.iter().zip(names).enumerate() {
        let body = flow_body(plan, number, flow, name);
        script.push(Command::Flow, number as u16, Instant::ZERO, &body);
    }
    let times = [plan.info.duration, plan.info.sample_interval];
    let times = times.iter().flat_map(|time| time.as_nanos().to_le_bytes());
    let times: Vec<u8> = times.collect();
    script.push(Command::Begin, 0, Instant::ZERO, &times);

    let mut timed: Vec<Timed> = Vec::new();
    let mut rng = Rng::new(plan.seed ^ OFFSETS);
    for (number, flow) in plan.flows.iter().enumerate() {
        let offset = Duration::from_nanos(rng.below(START_OFFSET.as_nanos()));
        application(plan, number, flow, offset, &mut timed);
    }
    changes(plan, &mut paths, &losses, &mut timed);
    timed.sort_by_key(|(at, ..)| *at);
    for (at, kind, number, body) in timed {
        script.push(kind, number, at, &body);
    }
    script.0
}

/// A direction of the bottleneck at the start of the run.
fn path(plan: &Plan<'_>, link: usize, direction: Direction) -> Path {
    let scenario = plan.scenario;
    // ACKs alone go back, unless a flow sends up.
    let carries_data = plan.flows.iter().any(|flow| flow.route.contains(&link));
    let header = plan.flows.iter().map(|flow| flow.header).max();
    let usual = match (direction, header) {
        (Direction::Back, Some(header)) if !carries_data => Bytes::new(header.into()),
        _ => scenario.path.mtu,
    };
    let mut path = Path {
        link,
        direction,
        rate: plan.links.get(link).map_or(Rate::ZERO, |link| link.rate),
        is_limited: scenario.rate_source(link).is_some(),
        usual,
        way: Way {
            delay: Duration::ZERO,
            rate: Rate::ZERO,
            jitter: Duration::ZERO,
            duplicate: Gain::default(),
            seed: plan.seed ^ NETEM ^ link as u64,
        },
        loss: Loss::NONE,
        rtt: scenario.path.rtt,
        queue: queue(plan, link),
        is_plain: false,
    };
    for key in scenario.link_keys(link).at_start() {
        set(&mut path, key);
    }
    let steady = plan.script.timed.iter().all(|(_, change)| match change {
        Change::Link(number, change) if *number == link => {
            matches!(change, LinkChange::Key(LinkKey::Loss(_)))
        }
        Change::Rtt(_) => false,
        Change::Link(..) | Change::App(..) => true,
    });
    let unharmed = path.way.jitter == Duration::ZERO && path.way.duplicate == Gain::default();
    path.is_plain = steady && unharmed && path.is_limited;
    path
}

/// Applies a key's value to the link; `check` refuses the keys that it does not know.
fn set(path: &mut Path, key: LinkKey) {
    match key {
        LinkKey::Loss(loss) => path.loss = loss,
        LinkKey::Duplicate(share) => path.way.duplicate = share,
        LinkKey::Jitter(jitter) => path.way.jitter = jitter,
        _ => {}
    }
}

/// The queue of a direction.
pub fn queue(plan: &Plan<'_>, link: usize) -> Queue {
    let path = &plan.scenario.path;
    let section = plan.links.get(link);
    let queue = section.map_or(&path.queue, |link| &link.queue);
    let site = Site {
        rate: section.map_or(Rate::ZERO, |link| link.rate),
        rtt: path.rtt,
        mtu: path.mtu,
    };
    // `check` allows one early signal, and only before a plain queue.
    let discipline = queue.early_signals.first().unwrap_or(&queue.kind);
    Queue {
        limit: QueueLimit::new(queue.size, &site),
        aqm: Aqm::named(discipline.name, &discipline.options),
        ack_filter: plan.scenario.link_keys(link).ack_filter,
        site,
    }
}

fn flow_body(plan: &Plan<'_>, number: usize, flow: &FlowPlan, controller: &str) -> Vec<u8> {
    let mut timed = plan.script.timed.iter();
    let steered = timed.any(|(_, change)| change.flow() == Some(number));
    let silent = flow.group.app != App::Bulk || steered;
    let window = flow.group.receive_window.get();
    let clamp = if window < LARGEST { window as u32 } else { 0 };
    let (receiver, up) = match is_up(flow) {
        true => (network::up_receiver(number as u32), wire::UP),
        false => (receiver(number as u32), 0),
    };
    let mut body = receiver.octets().to_vec();
    body.extend(if silent { UNSENT } else { 0 }.to_le_bytes());
    body.extend(clamp.to_le_bytes());
    let paced = match flow.group.cc.options.get("pacing") {
        Some(OptionInput::Flag(true)) => wire::PACED,
        _ => 0,
    };
    body.extend((paced | up).to_le_bytes());
    body.extend(controller.bytes());
    body
}

/// The commands for a flow's application, which do not depend on the transport.
fn application(
    plan: &Plan<'_>,
    number: usize,
    flow: &FlowPlan,
    offset: Duration,
    timed: &mut Vec<Timed>,
) {
    let flow_number = number as u16;
    let end = Instant::ZERO + plan.info.duration;
    let stop = flow.stop.unwrap_or(Instant::MAX);
    let start = flow.start + offset;
    if start >= end.min(stop) {
        return;
    }
    timed.push((start, Command::Connect, flow_number, Vec::new()));
    let changes = plan.script.timed.iter();
    let steps = changes.filter(|(_, change)| change.flow() == Some(number));
    let mut steps = steps.peekable();
    let mut application = Application::new(flow.group.app, flow.mss, start);
    let mut now = start;
    while now < end.min(stop) {
        while let Some((at, change)) = steps.next_if(|(at, _)| *at <= now) {
            change.steer((*at).max(start), &mut application);
        }
        let write = application.poll(now);
        let mut push = |kind, body| timed.push((now, kind, flow_number, body));
        if write.stop {
            push(Command::Pause, Vec::new());
        }
        match write.amount {
            Amount::None => {}
            Amount::Bytes(bytes) => push(Command::Write, bytes.to_le_bytes().to_vec()),
            Amount::Unlimited => push(Command::Unlimited, Vec::new()),
        }
        if write.close {
            push(Command::Close, Vec::new());
        }
        let step = steps.peek().map_or(Instant::MAX, |(at, _)| *at);
        now = application.next_wakeup().unwrap_or(Instant::MAX).min(step);
    }
    if stop < end {
        timed.push((stop, Command::Stop, flow_number, Vec::new()));
    }
}

/// The scenario's changes of the path.
fn changes(plan: &Plan<'_>, paths: &mut [Path], losses: &[Option<Losses>], timed: &mut Vec<Timed>) {
    let mut seeds: Vec<_> = paths.iter().map(|path| Rng::new(path.way.seed)).collect();
    for (at, change) in &plan.script.timed {
        // netem starts its sequence over with each change: with the same seed, the same jitter
        // would follow each.
        for (path, seeds) in paths.iter_mut().zip(&mut seeds) {
            path.way.seed = seeds.below(u64::MAX);
        }
        let mut requests: Vec<Placed> = Vec::new();
        match change {
            Change::Link(number, change) => {
                let Some(path) = paths.iter_mut().find(|path| path.link == *number) else {
                    continue;
                };
                match change {
                    LinkChange::Rate(change) => {
                        path.rate = change.apply(path.rate);
                        let (rate, queue) = (path.rate, &path.queue);
                        requests.extend(network::server(path.direction, rate, queue, false));
                        requests.extend(path.way(plan, false));
                    }
                    LinkChange::Key(LinkKey::Loss(loss)) => {
                        path.loss = *loss;
                        // A link with a plain queue decides when a packet joins the queue, others
                        // when its transmission begins.
                        let joins = matches!(path.queue.aqm, None | Some(Aqm::Red(_)))
                            && !path.queue.filters();
                        let mut body = u64::from(joins).to_le_bytes().to_vec();
                        let losses = losses.get(*number).and_then(Option::as_ref);
                        body.extend(losses.map(|losses| losses.list(*loss)).unwrap_or_default());
                        timed.push((*at, Command::LossesAt, path.direction as u16, body));
                    }
                    LinkChange::Key(key) => {
                        set(path, *key);
                        requests.extend(path.way(plan, false));
                    }
                }
            }
            Change::Rtt(rtt) => {
                for path in paths.iter_mut() {
                    path.rtt = *rtt;
                    requests.extend(path.way(plan, false));
                }
                if let [_] = paths {
                    requests.extend(plain_back(plan, *rtt, false));
                }
            }
            Change::App(..) => {}
        }
        let at_time = |(namespace, request): Placed| {
            (*at, Command::At, namespace, Request::bytes(&request, 1))
        };
        timed.extend(requests.into_iter().map(at_time));
    }
}
