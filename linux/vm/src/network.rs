//! The path in the guest's kernel, as rtnetlink requests.
//!
//! ```text
//! senders s0 -- r0 router r1 -- p0 delay p1 -- d0 receivers
//! ```
//!
//! `r1` has the bottleneck: a server (htb) with the scenario's queue. `p1` has the propagation delay
//! and the losses of what it sends (netem). On the way back `p0` has the server of the return
//! direction, if there is one, and `r0` delay and losses: no queue is on a sender's host, which would
//! see its drops. In a direction with an ACK filter, `cake` is server and queue. All sizes count IP
//! packets: a size table subtracts the 14 bytes of Ethernet.

use std::net::Ipv4Addr;

use paceline_path::{Aqm, Codel, Pie, QueueLimit, Red};
use paceline_tcp::netlink::{LOOPBACK, Request, RouteMetrics, attribute, link_header};
use paceline_tcp::packet::{RECEIVERS, SENDER, receiver};
use paceline_units::{AckFilter, Bytes, Duration, Gain, Rate, Site};

use crate::wire;

/// The devices of each pair of namespaces: names, their namespaces, their numbers there.
const PAIRS: [[(&str, u16, u32); 2]; 3] = [
    [("s0", wire::SENDERS, 10), ("r0", wire::ROUTER, 10)],
    [("r1", wire::ROUTER, 11), ("p0", wire::DELAY, 10)],
    [("p1", wire::DELAY, 11), ("d0", wire::RECEIVERS, 10)],
];
/// A device in its namespace.
type Place = (u16, u32);
const TO_SENDERS: Place = (wire::ROUTER, 10);
const TO_RECEIVERS: Place = (wire::DELAY, 11);

/// The direction in which packets cross the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    There,
    Back,
}

impl Direction {
    pub const BOTH: [Self; 2] = [Self::There, Self::Back];

    /// The device of its server.
    fn bottleneck(self) -> Place {
        match self {
            Self::There => (wire::ROUTER, 11),
            Self::Back => (wire::DELAY, 10),
        }
    }

    /// The device behind it, of propagation and losses.
    fn way(self) -> Place {
        match self {
            Self::There => TO_RECEIVERS,
            Self::Back => TO_SENDERS,
        }
    }
}

const ETHERNET: i32 = 14;
/// The limit of netem: it never drops for lack of room.
const NETEM_LIMIT: u32 = 1_000_000;
/// How late the guest may take a packet out of the queue without losing time.
const SLACK: Duration = Duration::from_micros(100);
/// The maximum number of lanes: bands of `prio`.
pub const MOST_LANES: usize = 16;

const ROOT: u32 = u32::MAX;
const fn handle(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}
const SERVER: u32 = handle(1, 0);
/// The only class of the server.
const CLASS: u32 = handle(1, 1);
const QUEUE: u32 = handle(10, 0);
const NETEM: u32 = handle(1, 0);
const CLSACT: u32 = handle(0xffff, 0);

/// A request in a namespace.
pub type Placed = (u16, Request);

/// The bottleneck's queue.
#[derive(Clone, Debug)]
pub struct Queue {
    pub limit: QueueLimit,
    pub aqm: Option<Aqm>,
    pub ack_filter: AckFilter,
    /// The reference for sizes in BDPs or times.
    pub site: Site,
}

/// Creates the pairs of devices, and brings them all up.
pub fn devices(mtu: u32) -> Vec<Placed> {
    let mut asked = Vec::new();
    for (number, [near, far]) in (0..).zip(PAIRS) {
        // Both ends have the same address, and no ARP: each accepts the other's packets.
        let address = [2, 0, 0, 0, 0, number];
        let names = |body: &mut Vec<u8>, name: &str| {
            let name: Vec<u8> = name.bytes().chain([0]).collect();
            attribute(body, libc::IFLA_IFNAME, &name);
            attribute(body, libc::IFLA_ADDRESS, &address);
            attribute(body, libc::IFLA_MTU, &mtu.to_ne_bytes());
        };
        let mut peer = link_header(far.2, 0);
        names(&mut peer, far.0);
        let namespace = wire::NAMESPACE_FD + i32::from(far.1);
        attribute(&mut peer, libc::IFLA_NET_NS_FD, &namespace.to_ne_bytes());
        const VETH_INFO_PEER: u16 = 1;
        let (mut data, mut info) = (Vec::new(), Vec::new());
        attribute(&mut data, VETH_INFO_PEER, &peer);
        attribute(&mut info, libc::IFLA_INFO_KIND, b"veth");
        attribute(&mut info, libc::IFLA_INFO_DATA, &data);
        let mut body = link_header(near.2, 0);
        names(&mut body, near.0);
        attribute(&mut body, libc::IFLA_LINKINFO, &info);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        asked.push((near.1, Request::new(libc::RTM_NEWLINK, flags, body)));
        for (_, namespace, device) in [near, far] {
            let up = (libc::IFF_UP | libc::IFF_NOARP) as u32;
            let body = link_header(device, up);
            asked.push((namespace, Request::new(libc::RTM_NEWLINK, 0, body)));
        }
    }
    asked.extend((0..wire::NAMESPACES).map(|number| (number, Request::bring_up(LOOPBACK, None))));
    asked
}

/// The names of all devices, with their namespaces.
pub fn names() -> impl Iterator<Item = (u16, &'static str)> {
    let ends = PAIRS.into_iter().flatten();
    ends.map(|(name, namespace, _)| (namespace, name))
}

/// The capture points: the senders' host, the receivers' host, and between the queues and the
/// losses of both directions.
pub const CAPTURES: [(u16, &str); 3] = [
    (wire::SENDERS, "s0"),
    (wire::RECEIVERS, "d0"),
    (wire::ROUTER, "r1"),
];

/// The address on the senders' host to which a flow sends up.
pub fn up_receiver(flow: u32) -> Ipv4Addr {
    let [_, _, c, d] = receiver(flow).octets();
    Ipv4Addr::new(10, 3, c, d)
}
/// The network of those.
const UP_RECEIVERS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 3, 0, 0), 16);

/// Addresses and routes; each flow's route carries its TCP settings. Of each flow in turn: those,
/// and whether it sends up.
pub fn routes(flows: &[(RouteMetrics, bool)]) -> Vec<Placed> {
    let plain = RouteMetrics::default();
    let ecn = flows.iter().any(|(metrics, _)| metrics.ecn);
    let receives = RouteMetrics { ecn, ..plain };
    let add = |(namespace, device): Place, from, to, metrics| {
        (namespace, Request::add_route(device, from, to, metrics))
    };
    let (senders, receivers) = ((wire::SENDERS, 10), (wire::RECEIVERS, 10));
    let mut asked = vec![(wire::SENDERS, Request::add_address(10, SENDER))];
    let mut ends = vec![(SENDER, 32)];
    if flows.iter().any(|(_, up)| *up) {
        let (network, prefix) = UP_RECEIVERS;
        asked.push((wire::SENDERS, Request::add_local(network, prefix)));
        ends.push(UP_RECEIVERS);
    }
    let mut ups = Vec::new();
    for (number, (metrics, up)) in (0..).zip(flows) {
        let (here, there) = (receiver(number), up_receiver(number));
        asked.push(match up {
            false => add(senders, Some(SENDER), (here, 32), *metrics),
            true => add(senders, Some(there), (here, 32), receives),
        });
        if *up {
            ups.push(add(receivers, Some(here), (there, 32), *metrics));
        }
    }
    let (network, prefix) = RECEIVERS;
    let [there, back] = Direction::BOTH.map(Direction::bottleneck);
    asked.push(add(there, None, RECEIVERS, plain));
    asked.extend(ends.iter().map(|end| add(TO_SENDERS, None, *end, plain)));
    asked.push(add(TO_RECEIVERS, None, RECEIVERS, plain));
    asked.extend(ends.iter().map(|end| add(back, None, *end, plain)));
    asked.push((wire::RECEIVERS, Request::add_local(network, prefix)));
    asked.push(add(receivers, None, (SENDER, 32), receives));
    asked.extend(ups);
    asked
}

/// tcmsg: family, index, handle, parent, info.
fn traffic(device: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [device, handle, parent, info] {
        body.extend(word.to_ne_bytes());
    }
    body
}

fn nested(parts: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in parts {
        attribute(&mut body, *name, value);
    }
    body
}

fn word(value: u32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

fn micros(time: Duration) -> Vec<u8> {
    word(u32::try_from(time.as_micros()).unwrap_or(u32::MAX))
}

/// A queueing discipline; `options` is the content of its own attribute.
fn qdisc(
    (namespace, device): Place,
    (handle, parent): (u32, u32),
    kind: &str,
    options: &[u8],
    new: bool,
) -> Placed {
    let mut body = traffic(device, handle, parent, 0);
    let kind: Vec<u8> = kind.bytes().chain([0]).collect();
    attribute(&mut body, libc::TCA_KIND, &kind);
    attribute(&mut body, libc::TCA_OPTIONS, options);
    // A device counts IP packets. Also with a change: the kernel's `qdisc_change` drops a
    // table that is not in the request.
    if parent == ROOT {
        attribute(&mut body, TCA_STAB, &size_table());
    }
    let flags = match new {
        true => libc::NLM_F_CREATE | libc::NLM_F_EXCL,
        false => 0,
    };
    (namespace, Request::new(libc::RTM_NEWQDISC, flags, body))
}

const TCA_STAB: u16 = 8;

/// tc_sizespec: packets count without their Ethernet header.
fn size_table() -> Vec<u8> {
    const TCA_STAB_BASE: u16 = 1;
    let mut base = vec![0; 4];
    base.extend((-ETHERNET).to_ne_bytes());
    // linklayer, mpu, mtu, tsize
    for value in [1_u32, 0, 0, 0] {
        base.extend(value.to_ne_bytes());
    }
    nested(&[(TCA_STAB_BASE, base)])
}

/// The server of a direction at `rate`, or `cake`: all requests for a new one, or those that change
/// its rate.
///
/// HTB with one class lets a packet go if the class has any token at all, and then subtracts the time
/// of its transmission from the tokens. So it asks the queue for a packet when a link would begin to
/// transmit it, whatever its size; the netem behind it takes the time of the transmission. The
/// packets that wait here are those that wait behind a link's packet in service. A change of the
/// rate leaves the tokens as they are.
pub fn server(direction: Direction, rate: Rate, queue: &Queue, new: bool) -> Vec<Placed> {
    let place = direction.bottleneck();
    if queue.filters() {
        let options = cake_options(rate, queue);
        return vec![qdisc(place, (SERVER, ROOT), "cake", &options, new)];
    }
    const TCA_HTB_INIT: u16 = 2;
    const VERSION: u32 = 3;
    let mut requests = Vec::new();
    if new {
        // tc_htb_glob: version, rate2quantum, the class of packets without one, debug, and a counter.
        let global = [VERSION, 10, CLASS & 0xffff, 0, 0].map(u32::to_ne_bytes);
        let options = nested(&[(TCA_HTB_INIT, global.concat())]);
        requests.push(qdisc(place, (SERVER, ROOT), "htb", &options, new));
    }
    let (namespace, device) = place;
    let mut body = traffic(device, CLASS, SERVER, 0);
    attribute(&mut body, libc::TCA_KIND, b"htb\0");
    attribute(&mut body, libc::TCA_OPTIONS, &class_options(rate));
    let flags = match new {
        true => libc::NLM_F_CREATE | libc::NLM_F_EXCL,
        false => 0,
    };
    requests.push((namespace, Request::new(libc::RTM_NEWTCLASS, flags, body)));
    requests
}

/// tc_htb_opt, and the rates as 64-bit words.
fn class_options(rate: Rate) -> Vec<u8> {
    const PARMS: u16 = 1;
    const RATE64: u16 = 6;
    const CEIL64: u16 = 7;
    // The kernel's PSCHED_SHIFT is 6.
    const TICK_NS: u64 = 64;
    let bytes = rate.bps() / 8;
    // tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate.
    let mut spec = vec![0, 1, 0, 0, 0, 0, 0, 0];
    spec.extend(word(u32::try_from(bytes).unwrap_or(u32::MAX)));
    let mut parms = spec.repeat(2);
    let buffer = (SLACK.as_nanos() / TICK_NS) as u32;
    // buffer, cbuffer, quantum, level, prio; the quantum is that of a round of several classes.
    for value in [buffer, buffer, 1 << 16, 0, 0] {
        parms.extend(word(value));
    }
    let bytes = bytes.to_ne_bytes().to_vec();
    nested(&[(PARMS, parms), (RATE64, bytes.clone()), (CEIL64, bytes)])
}

/// `cake` as a queue of ACKs alone: COBALT, its AQM, and its limit, which counts memory, never act.
fn cake_options(rate: Rate, queue: &Queue) -> Vec<u8> {
    const RATE64: u16 = 2;
    const PRIORITIES: u16 = 3;
    const BEST_EFFORT: u32 = 3;
    const FLOW_MODE: u16 = 5;
    const ONE_QUEUE: u32 = 0;
    const QUEUE_EACH: u32 = 4;
    const INTERVAL: u16 = 7;
    const TARGET: u16 = 8;
    const MEMORY_LIMIT: u16 = 10;
    const ACK_FILTER: u16 = 16;
    let flows = queue.aqm.as_ref().map_or(ONE_QUEUE, |_| QUEUE_EACH);
    let filter = match queue.ack_filter {
        AckFilter::Off => 0,
        AckFilter::Cake => 1,
        AckFilter::CakeAggressive => 2,
    };
    nested(&[
        (RATE64, (rate.bps() / 8).to_ne_bytes().to_vec()),
        (PRIORITIES, word(BEST_EFFORT)),
        (FLOW_MODE, word(flows)),
        (INTERVAL, word(u32::MAX)),
        (TARGET, word(u32::MAX)),
        (MEMORY_LIMIT, word(u32::MAX)),
        (ACK_FILTER, word(filter)),
    ])
}

/// Counts packets where no rate limits a direction.
pub fn counter(direction: Direction) -> Placed {
    let room = word(NETEM_LIMIT);
    qdisc(direction.bottleneck(), (SERVER, ROOT), "pfifo", &room, true)
}

impl Queue {
    pub fn filters(&self) -> bool {
        self.ack_filter != AckFilter::Off
    }

    /// Whether more wait than it has room for.
    pub fn is_exceeded_by(&self, packets: u64, bytes: Bytes) -> bool {
        match self.limit {
            QueueLimit::Bytes(most) => bytes.get() > most,
            QueueLimit::Packets(most) => packets > most,
        }
    }

    /// The maximum that may wait, in the limit's own unit.
    fn room(&self) -> u32 {
        let room = match self.limit {
            QueueLimit::Bytes(bytes) => bytes,
            QueueLimit::Packets(packets) => packets,
        };
        u32::try_from(room).unwrap_or(u32::MAX)
    }

    /// The same in packets, which the kernel's CoDel, FQ-CoDel and PIE count.
    fn packets(&self) -> Vec<u8> {
        let mtu = u32::try_from(self.site.mtu.get())
            .unwrap_or(u32::MAX)
            .max(1);
        word(match self.limit {
            QueueLimit::Bytes(_) => self.room() / mtu,
            QueueLimit::Packets(_) => self.room(),
        })
    }
}

/// The queue inside the server.
pub fn queue(direction: Direction, queue: &Queue) -> Placed {
    let packets = queue.packets();
    let (kind, options) = match (&queue.aqm, queue.limit) {
        (None, QueueLimit::Packets(_)) => ("pfifo", packets),
        (None, QueueLimit::Bytes(_)) => ("bfifo", word(queue.room())),
        (Some(Aqm::Codel(codel)), _) => ("codel", nested(&codel_options(codel, packets))),
        (Some(Aqm::FqCodel(fq)), _) => {
            const FLOWS: u16 = 5;
            const QUANTUM: u16 = 6;
            const MEMORY_LIMIT: u16 = 9;
            let codel = Codel {
                target: fq.target,
                interval: fq.interval,
                ecn: fq.ecn,
            };
            let mut options = codel_options(&codel, packets);
            let quantum = u32::try_from(fq.quantum.get()).unwrap_or(u32::MAX);
            options.extend([
                (FLOWS, word(fq.flows)),
                (QUANTUM, word(quantum)),
                // The kernel's own limit counts its buffers, not packets.
                (MEMORY_LIMIT, word(u32::MAX)),
            ]);
            ("fq_codel", nested(&options))
        }
        (Some(Aqm::Pie(pie)), _) => ("pie", nested(&pie_options(pie, packets))),
        (Some(Aqm::Red(red)), _) => ("red", nested(&red_options(red, queue))),
        // `check` refuses the others.
        (Some(_), _) => ("pfifo", packets),
    };
    let place = (QUEUE, CLASS);
    qdisc(direction.bottleneck(), place, kind, &options, true)
}

fn codel_options(codel: &Codel, packets: Vec<u8>) -> Vec<(u16, Vec<u8>)> {
    const TARGET: u16 = 1;
    const LIMIT: u16 = 2;
    const INTERVAL: u16 = 3;
    const ECN: u16 = 4;
    vec![
        (TARGET, micros(codel.target)),
        (LIMIT, packets),
        (INTERVAL, micros(codel.interval)),
        (ECN, word(codel.ecn.into())),
    ]
}

/// The kernel's weights are in sixteenths of a hertz.
pub fn pie_weight(weight: paceline_units::Frequency) -> u32 {
    (u64::from(weight.per_second().millionths()) * 16 / 1_000_000) as u32
}

fn pie_options(pie: &Pie, packets: Vec<u8>) -> Vec<(u16, Vec<u8>)> {
    const TARGET: u16 = 1;
    const LIMIT: u16 = 2;
    const UPDATE: u16 = 3;
    const ALPHA: u16 = 4;
    const BETA: u16 = 5;
    const ECN: u16 = 6;
    vec![
        (TARGET, micros(pie.target)),
        (LIMIT, packets),
        (UPDATE, micros(pie.update)),
        (ALPHA, word(pie_weight(pie.alpha))),
        (BETA, word(pie_weight(pie.beta))),
        (ECN, word(pie.ecn.into())),
    ]
}

/// The kernel's weight is a power of one half: the exponent of the weight that equals the
/// scenario's to a millionth.
pub fn red_weight(weight: Gain) -> Option<u8> {
    (1..=31).find(|log| {
        let exact = f64::from(Gain::SCALE) / f64::from(1_u32 << log);
        exact >= 0.5 && (exact - f64::from(weight.millionths())).abs() < 1.0
    })
}

fn red_options(red: &Red, queue: &Queue) -> Vec<(u16, Vec<u8>)> {
    const PARMS: u16 = 1;
    const STAB: u16 = 2;
    const MAX_P: u16 = 3;
    const FLAG_ECN: u8 = 1;
    // From `max` on packets are dropped, whether or not they could be marked.
    const FLAG_HARD_DROP: u8 = 2;
    let bytes = |size: paceline_units::Size| {
        u32::try_from(size.to_bytes(&queue.site).get()).unwrap_or(u32::MAX)
    };
    // `check` refuses other weights.
    let weight_log = red_weight(red.weight).unwrap_or(9);
    let mtu = u32::try_from(queue.site.mtu.get()).unwrap_or(u32::MAX);
    let limit = match queue.limit {
        QueueLimit::Bytes(_) => queue.room(),
        QueueLimit::Packets(_) => queue.room().saturating_mul(mtu),
    };
    let (cell_log, table) = idle_table(weight_log, queue.site.rate.time_for(queue.site.mtu));
    // tc_red_qopt: limit, thresholds; Wlog, Plog, Scell_log, flags.
    let mut parms = [limit, bytes(red.min), bytes(red.max)]
        .map(u32::to_ne_bytes)
        .concat();
    let flags = FLAG_HARD_DROP | if red.ecn { FLAG_ECN } else { 0 };
    parms.extend([weight_log, 0, cell_log, flags]);
    vec![
        (PARMS, parms),
        (STAB, table.to_vec()),
        (MAX_P, word(chance(red.probability))),
    ]
}

/// How the average falls while the queue is empty, as `tc` computes it (iproute2,
/// `tc_red_eval_idle_damping`): the shift of the average for each cell of 2^log microseconds, when
/// a packet takes `packet` to send.
///
/// `tc` converts the time of a packet to ticks of 64 ns, and the kernel reads cells of
/// microseconds. This does the same, to behave like a RED that an administrator sets up.
fn idle_table(weight_log: u8, packet: Duration) -> (u8, [u8; 256]) {
    const MOST: f64 = 31.0;
    const TICK_NS: f64 = 64.0;
    let ticks = (packet.as_nanos() as f64 / TICK_NS).max(1.0);
    let fall = -(1.0 - 1.0 / f64::from(1_u32 << weight_log)).ln() / ticks;
    let cell = |log: u8| f64::from(1_u32 << log);
    let log = (0..31)
        .find(|log| MOST / fall / cell(*log) < 512.0)
        .unwrap_or(31);
    let mut table = [MOST as u8; 256];
    for (number, shift) in table[..255].iter_mut().enumerate() {
        *shift = (number as f64 * cell(log) * fall).min(MOST) as u8;
    }
    (log, table)
}

/// The impairments of packets on their way, by netem.
#[derive(Clone, Debug)]
pub struct Way {
    pub delay: Duration,
    /// After the delay packets leave one after the other, each in the time that it takes at this
    /// rate; 0 for none: a packet with a shorter delay than the one before it overtakes it.
    pub rate: Rate,
    /// Up to this much longer, uniform, and in order.
    pub jitter: Duration,
    pub duplicate: Gain,
    pub seed: u64,
}

/// Probabilities are in parts of 2^32 - 1.
fn chance(share: Gain) -> u32 {
    let most = u64::from(u32::MAX);
    let parts = u64::from(share.millionths()) * most / u64::from(Gain::SCALE);
    u32::try_from(parts).unwrap_or(u32::MAX)
}

impl Way {
    /// A rate that keeps packets in order, and takes none of them 2 ns.
    pub const IN_ORDER: Rate = Rate::from_bps(1 << 43);

    /// tc_netem_qopt, and the attributes after it.
    fn options(&self) -> Vec<u8> {
        const RATE: u16 = 6;
        const RATE64: u16 = 8;
        const LATENCY64: u16 = 10;
        const JITTER64: u16 = 11;
        const PRNG_SEED: u16 = 14;
        let mut options = Vec::new();
        // latency, limit, loss, gap, duplicate, jitter
        for value in [0, NETEM_LIMIT, 0, 0, chance(self.duplicate), 0] {
            options.extend(word(value));
        }
        // netem's jitter is symmetric.
        let half = Duration::from_nanos(self.jitter.as_nanos() / 2);
        for (name, time) in [(LATENCY64, self.delay + half), (JITTER64, half)] {
            let nanoseconds = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            attribute(&mut options, name, &nanoseconds.to_ne_bytes());
        }
        let bytes = self.rate.bps() / 8;
        // tc_netem_rate: rate, packet overhead, cell size, cell overhead. Here netem's lengths are
        // those of IP packets: full ones leave 1.2 ms apart at 10 Mbit/s.
        let low = u32::try_from(bytes).unwrap_or(u32::MAX);
        let spec = [low, 0, 0, 0].map(u32::to_ne_bytes);
        attribute(&mut options, RATE, &spec.concat());
        attribute(&mut options, RATE64, &bytes.to_ne_bytes());
        // A kernel before 6.7 has no seed for netem: it draws from the guest's generator, which is
        // seeded.
        attribute(&mut options, PRNG_SEED, &self.seed.to_ne_bytes());
        options
    }

    /// The netem of the way to the receivers.
    pub fn there(&self, new: bool) -> Placed {
        qdisc(TO_RECEIVERS, (NETEM, ROOT), "netem", &self.options(), new)
    }

    /// Those of the way back, at the start or changed: a delay, in addition to its own, for each
    /// lane.
    pub fn back(&self, delays: &[Duration], new: bool) -> Vec<Placed> {
        let alone = delays.len() == 1;
        let lane = |(number, delay): (u32, &Duration)| {
            let way = Self {
                delay: self.delay + *delay,
                ..self.clone()
            };
            let place = match alone {
                true => (NETEM, ROOT),
                false => (handle(number + 2, 0), handle(1, number + 1)),
            };
            qdisc(TO_SENDERS, place, "netem", &way.options(), new)
        };
        (0..).zip(delays).map(lane).collect()
    }
}

/// The program that loses packets, in front of the netem of a direction.
pub fn losses(direction: Direction) -> [Placed; 2] {
    const HOOKS: u32 = 0xffff_fff1;
    const EGRESS: u32 = 0xffff_fff3;
    const FD: u16 = 6;
    const NAME: u16 = 7;
    const FLAGS: u16 = 8;
    /// The program's result is the packet's fate.
    const DIRECT: u32 = 1;
    let place = (CLSACT, HOOKS);
    let options = nested(&[
        (FD, word(wire::LOSSES_FD as u32 + direction as u32)),
        (NAME, b"losses\0".to_vec()),
        (FLAGS, word(DIRECT)),
    ]);
    let protocol = u32::from((libc::ETH_P_IP as u16).to_be());
    let (namespace, device) = direction.way();
    let mut body = traffic(device, 0, EGRESS, 1 << 16 | protocol);
    attribute(&mut body, libc::TCA_KIND, b"bpf\0");
    attribute(&mut body, libc::TCA_OPTIONS, &options);
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    [
        qdisc(direction.way(), place, "clsact", &[], true),
        (namespace, Request::new(libc::RTM_NEWTFILTER, flags, body)),
    ]
}

/// The bands of the way back, one for each lane, if there is more than one; and each flow's lane.
pub fn bands(lanes: &[usize], count: usize) -> Vec<Placed> {
    if count == 1 {
        return Vec::new();
    }
    let mut priorities = word(u32::try_from(count).unwrap_or(u32::MAX));
    priorities.extend([0; 16]);
    let prio = qdisc(TO_SENDERS, (NETEM, ROOT), "prio", &priorities, true);
    let lane = |(flow, lane): (u32, &usize)| to_lane(receiver(flow), *lane as u32);
    std::iter::once(prio)
        .chain((0..).zip(lanes).map(lane))
        .collect()
}

/// A filter (u32): packets from a receiver go into its lane's band.
fn to_lane(receiver: Ipv4Addr, lane: u32) -> Placed {
    const CLASSID: u16 = 1;
    const SELECTOR: u16 = 5;
    const TERMINAL: u8 = 1;
    const SOURCE: i32 = 12;
    // tc_u32_sel: flags, offshift, nkeys, offmask, off, offoff, hoff, hmask; then one key.
    let mut selector = vec![TERMINAL, 0, 1, 0];
    selector.extend([0; 12]);
    selector.extend([0xff; 4]);
    selector.extend(receiver.octets());
    selector.extend(SOURCE.to_ne_bytes());
    selector.extend([0; 4]);
    let options = nested(&[(CLASSID, word(handle(1, lane + 1))), (SELECTOR, selector)]);
    let protocol = u32::from((libc::ETH_P_IP as u16).to_be());
    let (namespace, device) = TO_SENDERS;
    let mut body = traffic(device, 0, NETEM, 1 << 16 | protocol);
    attribute(&mut body, libc::TCA_KIND, b"u32\0");
    attribute(&mut body, libc::TCA_OPTIONS, &options);
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    (namespace, Request::new(libc::RTM_NEWTFILTER, flags, body))
}

/// The queries of a direction at each sample: the server, its queue if it is another qdisc, and what
/// loses packets on their way.
pub fn queries(direction: Direction, inner: bool, lossy: bool) -> [Placed; wire::QUERIES] {
    let way = if lossy { CLSACT } else { NETEM };
    let queue = if inner { QUEUE } else { SERVER };
    let question = |(namespace, device): Place, handle| {
        let body = traffic(device, handle, 0, 0);
        (namespace, Request::question(libc::RTM_GETQDISC, body))
    };
    [
        question(direction.bottleneck(), SERVER),
        question(direction.bottleneck(), queue),
        question(direction.way(), way),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernel_s_sizes() {
        // An attribute's header has four bytes.
        assert_eq!(size_table().len(), 4 + 24);
        let way = Way {
            delay: Duration::from_millis(20),
            rate: Rate::ZERO,
            jitter: Duration::ZERO,
            duplicate: Gain::default(),
            seed: 1,
        };
        let options = way.options();
        assert_eq!(options.len(), 24 + 12 + 12 + 20 + 12 + 12);
        // The last is the seed: TCA_NETEM_PRNG_SEED, after TCA_NETEM_SLOT_DIST (pkt_sched.h).
        let half = |at: usize| u16::from_ne_bytes([options[at], options[at + 1]]);
        assert_eq!([half(80), half(82)], [12, 14]);
        assert_eq!(chance(Gain::ONE), u32::MAX);
        assert_eq!(chance(Gain::from_millionths(500_000)), u32::MAX / 2);
    }

    fn site() -> Site {
        Site {
            rate: Rate::from_bps(12_000_000),
            rtt: Duration::from_millis(40),
            mtu: Bytes::new(1500),
        }
    }

    #[test]
    fn an_idle_queue_s_average_falls_as_tc_says() {
        // tc's own for 1500 bytes at 12 Mbit/s and a weight of 1/2: 15,625 ticks a packet, cells of 2048.
        let (log, table) = idle_table(1, Duration::from_millis(1));
        assert_eq!(log, 11);
        assert_eq!((table[0], table[11], table[12]), (0, 0, 1));
        assert_eq!(table[255], 31);
        assert_eq!(red_weight(Gain::from_millionths(1_953)), Some(9));
        assert_eq!(red_weight(Gain::from_millionths(2_000)), None);
        assert_eq!(red_weight(Gain::from_millionths(500_000)), Some(1));
    }

    #[test]
    fn an_ack_filter_is_cake_at_the_rate() {
        let queue = Queue {
            limit: QueueLimit::Packets(2),
            aqm: None,
            ack_filter: AckFilter::CakeAggressive,
            site: site(),
        };
        let requests = server(Direction::Back, site().rate, &queue, true);
        let [(place, request)] = &requests[..] else {
            panic!("cake is one qdisc");
        };
        assert_eq!(*place, wire::DELAY);
        let bytes = request.bytes(0);
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(has(b"cake\0"));
        // TCA_CAKE_BASE_RATE64 in bytes; TCA_CAKE_ACK_FILTER is the last (pkt_sched.h).
        let options = cake_options(site().rate, &queue);
        assert!(has(&options));
        assert_eq!(options[..4], [12, 0, 2, 0]);
        assert_eq!(options[4..12], 1_500_000_u64.to_ne_bytes());
        assert!(options.ends_with(&[8, 0, 16, 0, 2, 0, 0, 0]));
        let exceeded = |packets| queue.is_exceeded_by(packets, Bytes::new(52) * packets);
        assert_eq!([2, 3].map(exceeded), [false, true]);
    }

    #[test]
    fn a_change_of_the_rate_leaves_the_qdisc_and_its_queue() {
        let queue = Queue {
            limit: QueueLimit::Packets(10),
            aqm: None,
            ack_filter: AckFilter::Off,
            site: site(),
        };
        let kinds = |new| {
            let requests = server(Direction::There, site().rate, &queue, new);
            // The message type, after its length.
            requests
                .iter()
                .map(|(_, request)| request.bytes(0)[4])
                .collect::<Vec<_>>()
        };
        let [qdisc, class] = [libc::RTM_NEWQDISC, libc::RTM_NEWTCLASS].map(|kind| kind as u8);
        assert_eq!(kinds(true), [qdisc, class]);
        assert_eq!(kinds(false), [class]);
        // tc_htb_opt has 44 bytes; its buffers are in ticks of 64 ns. TCA_HTB_CEIL64 is the last.
        let options = class_options(site().rate);
        assert_eq!(options.len(), 4 + 44 + 2 * 12);
        // After the attribute's header of 4 bytes and two rates of 12.
        assert_eq!(options[28..32], 1562_u32.to_ne_bytes());
        assert_eq!(options[32..36], 1562_u32.to_ne_bytes());
        assert!(options.ends_with(&1_500_000_u64.to_ne_bytes()));
    }

    #[test]
    fn the_queue_holds_what_waits_behind_the_packet_in_service() {
        let text = |limit| {
            let waiting = Queue {
                limit,
                aqm: None,
                ack_filter: AckFilter::Off,
                site: site(),
            };
            let (_, request) = queue(Direction::There, &waiting);
            request.bytes(0)
        };
        let ends = |bytes: Vec<u8>, value: u32| bytes.ends_with(&value.to_ne_bytes());
        assert!(ends(text(QueueLimit::Bytes(15_000)), 15_000));
        assert!(ends(text(QueueLimit::Packets(10)), 10));
    }
}
