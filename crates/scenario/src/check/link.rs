//! Links, their queues and what goes wrong on them; routes over them.

use paceline_units::{Duration, Gain, Rate};

use super::Check;
use crate::aqm::Red;
use crate::event::PathChange;
use crate::flow::FlowGroup;
use crate::host::{Delay, HostSection};
use crate::impair::{Policer, PolicerChange, Reorder};
use crate::limits;
use crate::link::LinkSection;
use crate::loss::{BurstLoss, Loss};
use crate::path::{QueueSize, RateSource};
use crate::queue::{Codel, QueueKind};
use crate::reader::choices;

impl Check<'_> {
    pub(super) fn path(&mut self) {
        let path = &self.scenario.path;
        // The capacity of a trace is not known here: what can be said holds for any.
        let rate = match path.rate {
            RateSource::Fixed(rate) => {
                self.rate("path.rate", rate);
                rate
            }
            RateSource::Trace { .. } => Rate::ZERO,
        };
        self.time("path.rtt", path.rtt, limits::MAX_RTT);
        let slot = path.ack_aggregation;
        self.below("path.ack_aggregation", slot, limits::MAX_RTT);
        self.within("path.mtu", path.mtu, limits::MIN_MTU, limits::MAX_MTU);
        self.link("path", &path.link(rate, Duration::ZERO));
    }

    pub(super) fn links(&mut self) {
        let scenario = self.scenario;
        if scenario.links.len() > limits::MAX_LINKS {
            self.too_much(
                "links",
                format!("{} links", scenario.links.len()),
                format!("at most {}", limits::MAX_LINKS),
            );
        }
        for (index, link) in scenario.links.iter().enumerate() {
            let at = format!("links[{index}]");
            self.rate(&format!("{at}.rate"), link.rate);
            self.below(&format!("{at}.delay"), link.delay, limits::MAX_RTT);
            if scenario.link_number(&link.name) != Some(index + 1) {
                let key = format!("{at}.name");
                let message = format!("`{key}` is \"{}\" again", link.name);
                self.bad(&key, message, "name each link once; the path's is \"bottleneck\" unless path.name says otherwise");
            }
            self.link(&at, link);
        }
    }

    fn link(&mut self, at: &str, link: &LinkSection) {
        let key = |name: &str| format!("{at}.{name}");
        if link.name.is_empty() {
            self.bad(
                &key("name"),
                format!("`{at}.name` is empty"),
                "name the link",
            );
        }
        self.loss(&key("loss"), link.loss);
        if let Some(reorder) = link.reorder {
            self.reorder(&key("reorder"), reorder);
        }
        self.share(&key("duplicate"), link.duplicate);
        self.below(&key("jitter"), link.jitter, limits::MAX_RTT);
        if let Some(policer) = link.policer {
            self.policer(&key("policer"), policer);
        }
        self.below(&key("aggregation"), link.aggregation, limits::MAX_RTT);
        if let Some(red) = link.queue.red {
            self.red(&key("queue.red"), red, link.rate);
            if link.queue.mark.is_some() {
                let message = format!("`{at}.queue` has both `mark` and `red`");
                self.bad(&key("queue.mark"), message, "choose one of them");
            }
        }
        self.discipline(&key("queue"), link.queue.kind);
        self.queue_size(&key("queue.size"), link.queue.size, link.rate);
    }

    fn loss(&mut self, key: &str, loss: Loss) {
        match loss {
            Loss::Independent(share) => self.share(key, share),
            Loss::Burst(BurstLoss { p, r, good, bad }) => {
                for (name, share) in [("p", p), ("r", r), ("good", good), ("bad", bad)] {
                    self.share(&format!("{key}.{name}"), share);
                }
            }
        }
    }

    fn discipline(&mut self, at: &str, kind: QueueKind) {
        let key = |name: &str| format!("{at}.{name}");
        let codel = |check: &mut Self, codel: Codel| {
            check.time(&key("target"), codel.target, limits::MAX_RTT);
            check.time(&key("interval"), codel.interval, limits::MAX_RTT);
        };
        let (least, most) = (limits::MIN_UPDATE, limits::MAX_RTT);
        match kind {
            QueueKind::DropTail => {}
            QueueKind::Codel(queue) => codel(self, queue),
            QueueKind::FqCodel(fq) => {
                codel(self, fq.codel);
                self.within(&key("flows"), fq.flows, 1, limits::MAX_QUEUES);
                self.within(
                    &key("quantum"),
                    fq.quantum,
                    limits::MIN_MTU,
                    limits::MAX_MTU,
                );
            }
            QueueKind::Pie(pie) => {
                self.time(&key("target"), pie.target, most);
                self.within(&key("update"), pie.update, least, most);
                self.below(&key("burst"), pie.burst, most);
                self.share(&key("mark_limit"), pie.mark_limit);
            }
            QueueKind::DualPi2(dual) => {
                self.within(&key("target"), dual.target, least, most);
                self.within(&key("rtt_max"), dual.rtt_max, least * 3, most);
                self.within(&key("coupling"), dual.coupling, 1, 1000);
                self.below(&key("ramp_min"), dual.ramp_min, most);
                self.below(&key("ramp_range"), dual.ramp_range, most);
                self.share(&key("classic_share"), dual.classic_share);
            }
        }
    }

    fn queue_size(&mut self, key: &str, size: QueueSize, rate: Rate) {
        let path = &self.scenario.path;
        match size {
            QueueSize::Bytes(bytes) if bytes < path.mtu => self.bad(
                key,
                format!("`{key}` is {bytes}, less than a packet of {}", path.mtu),
                "a queue holds at least one packet of path.mtu",
            ),
            QueueSize::Packets(0) => {
                self.bad(
                    key,
                    format!("`{key}` is 0 packets"),
                    "a queue holds at least \"1 packet\"",
                );
            }
            QueueSize::Bdp { millionths: 0 } | QueueSize::Time(Duration::ZERO) => {
                self.bad(
                    key,
                    format!("`{key}` is zero"),
                    "a queue holds something; the smallest is \"1 packet\"",
                );
            }
            _ => {
                let bytes = size.to_bytes(rate, path.rtt, path.mtu);
                if bytes > limits::MAX_QUEUE {
                    self.too_much(
                        key,
                        format!("`{key}` comes to {bytes}"),
                        format!("at most {}", limits::MAX_QUEUE),
                    );
                }
            }
        }
    }

    fn red(&mut self, key: &str, red: Red, rate: Rate) {
        self.share(&format!("{key}.probability"), red.probability);
        let key_of = |name: &str| format!("{key}.{name}");
        let least = Gain::from_millionths(1);
        self.within(&key_of("weight"), red.weight, least, Gain::ONE);
        let packets = |size| matches!(size, QueueSize::Packets(_));
        let path = &self.scenario.path;
        let bytes = |size: QueueSize| size.to_bytes(rate, path.rtt, path.mtu);
        let key = key_of("max");
        if packets(red.min) != packets(red.max) {
            let message = format!("`{key}` is in another kind of unit than `min`");
            self.bad(&key, message, "give both in packets, or neither");
        } else if rate > Rate::ZERO && bytes(red.max) <= bytes(red.min) {
            let message = format!("`{key}` is not greater than `min`");
            self.bad(&key, message, "the probability rises from min to max");
        }
    }

    fn reorder(&mut self, key: &str, reorder: Reorder) {
        self.share(&format!("{key}.probability"), reorder.probability);
        self.time(&format!("{key}.delay"), reorder.delay, limits::MAX_RTT);
    }

    fn policer(&mut self, key: &str, policer: Policer) {
        self.rate(&format!("{key}.rate"), policer.rate);
        let (key, mtu) = (format!("{key}.burst"), self.scenario.path.mtu);
        if policer.burst < mtu {
            self.bad(
                &key,
                format!("`{key}` is {}, less than a packet of {mtu}", policer.burst),
                "no packet of path.mtu would ever pass",
            );
        } else {
            self.below(&key, policer.burst, limits::MAX_QUEUE);
        }
    }

    pub(super) fn impairments(&mut self, at: &str, change: &PathChange) {
        let key = |name: &str| format!("{at}.{name}");
        if let Some(loss) = change.loss {
            self.loss(&key("loss"), loss);
        }
        if let Some(hold) = change.hold {
            let most = u64::from(u32::MAX);
            self.within(&key("hold.packets"), u64::from(hold.packets), 1, most);
            self.time(&key("hold.delay"), hold.delay, limits::MAX_RTT);
        }
        if let Some(reorder) = change.reorder {
            self.reorder(&key("reorder"), reorder);
        }
        if let Some(share) = change.duplicate {
            self.share(&key("duplicate"), share);
        }
        if let Some(PolicerChange::Set(policer)) = change.policer {
            self.policer(&key("policer"), policer);
        }
        for (name, time) in [
            ("jitter", change.jitter),
            ("aggregation", change.aggregation),
            ("ack_aggregation", change.ack_aggregation),
        ] {
            self.below(&key(name), time.unwrap_or_default(), limits::MAX_RTT);
        }
    }

    /// A link of that name, or all that there are.
    fn link_name(&mut self, key: &str, name: &str) -> Option<usize> {
        let scenario = self.scenario;
        let number = scenario.link_number(name);
        if number.is_none() {
            let names = scenario.links.iter().map(|link| link.name.as_str());
            let names: Vec<&str> = std::iter::once(scenario.path.name.as_str())
                .chain(names)
                .collect();
            let message = format!("no link is called \"{name}\"");
            self.bad(key, message, choices(name, &names, "\""));
        }
        number
    }

    pub(super) fn event_link(&mut self, at: &str, change: &PathChange) {
        let Some(name) = &change.link else {
            return;
        };
        self.link_name(&format!("{at}.link"), name);
        for (name, set) in [
            ("rtt", change.rtt.is_some()),
            ("ack_aggregation", change.ack_aggregation.is_some()),
        ] {
            if set {
                let message = format!("`{at}.{name}` is the path's, not a link's");
                self.bad(
                    &format!("{at}.{name}"),
                    message,
                    "give it an event without `link`",
                );
            }
        }
    }

    pub(super) fn host(&mut self, at: &str, host: &HostSection) {
        for (name, delay) in [
            ("send", host.send),
            ("receive", host.receive),
            ("ack", host.ack),
            ("ack_receive", host.ack_receive),
        ] {
            let key = format!("{at}.{name}");
            self.below(&key, delay.greatest(), limits::MAX_RTT);
            if let Delay::Uniform { min, max } = delay
                && min > max
            {
                let message = format!("`{key}.min` is {min}, more than `max`, {max}");
                self.bad(&format!("{key}.min"), message, "from the least to the most");
            }
        }
        if let Some(gro) = host.gro {
            self.below(&format!("{at}.gro.time"), gro.time, limits::MAX_RTT);
            let most = u64::from(u32::MAX);
            self.within(
                &format!("{at}.gro.packets"),
                u64::from(gro.packets),
                1,
                most,
            );
        }
    }

    pub(super) fn route(&mut self, at: &str, group: &FlowGroup) {
        let Some(route) = &group.route else {
            return;
        };
        let key = format!("{at}.route");
        if route.is_empty() {
            self.bad(
                &key,
                format!("`{key}` is empty"),
                "name the links, or leave it out",
            );
        }
        let mut delay = Duration::ZERO;
        for (place, name) in route.iter().enumerate().take(limits::MAX_LINKS) {
            let key = format!("{key}[{place}]");
            let number = self.link_name(&key, name);
            if route.iter().take(place).any(|earlier| earlier == name) {
                let message = format!("`{key}` is \"{name}\" again");
                self.bad(&key, message, "a route crosses a link once");
            }
            let link = number.and_then(|number| self.scenario.links.get(number.checked_sub(1)?));
            delay += link.map_or(Duration::ZERO, |link| link.delay);
        }
        // The path's own link takes half of the shortest round trip.
        let rtts = self.scenario.flows.iter().filter_map(|group| group.rtt);
        let shortest = rtts.fold(self.scenario.path.rtt, Duration::min);
        if delay > shortest / 2 {
            let message = format!("the delays of the links of `{key}` come to {delay}");
            let hint = format!("at most half of the shortest round trip, {}", shortest / 2);
            self.bad(&key, message, hint);
        }
    }
}
