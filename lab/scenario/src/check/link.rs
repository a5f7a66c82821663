//! Links, their queues and impairments; routes over them.

use paceline_units::{AckFilter, Direction, Duration, Policer, Rate, Site, Size};

use super::Check;
use crate::event::PathChange;
use crate::flow::FlowGroup;
use crate::limits;
use crate::link::{LinkKeys, RateSource};
use crate::queue::{NEEDS_SIZE, Queue};
use crate::reader::choices;
use crate::section::Key;

impl Check<'_> {
    pub(super) fn path(&mut self) {
        let path = &self.scenario.path;
        let rate = self.source("path.rate", &path.rate);
        path.check("path", &mut self.problems);
        self.name("path", &path.name);
        self.link("path", rate, &path.queue, &path.link);
    }

    /// The capacity of a trace is not known here: only checks that hold for any trace are possible.
    fn source(&mut self, key: &str, source: &RateSource) -> Rate {
        match source {
            RateSource::Fixed(rate) => {
                self.problems.rate(key, *rate);
                *rate
            }
            RateSource::Trace { .. } => Rate::ZERO,
        }
    }

    /// A return direction has a queue if it has a rate.
    pub(super) fn returns(&mut self) {
        let scenario = self.scenario;
        for (link, back) in scenario.returns() {
            let at = match link.checked_sub(1) {
                None => "path.return".to_owned(),
                Some(other) => format!("links[{other}].return"),
            };
            let key = format!("{at}.queue");
            match (&back.rate, &back.queue) {
                (Some(rate), Some(queue)) => {
                    let rate = self.source(&format!("{at}.rate"), rate);
                    self.link(&at, rate, queue, &back.link);
                }
                (Some(_), None) => {
                    let message = format!("`{at}` has a rate and no queue");
                    self.bad(&key, message, NEEDS_SIZE);
                }
                (None, Some(_)) => {
                    let message = format!("`{key}` has no rate, so nothing would wait in it");
                    let hint = "give the direction a rate, or leave out its queue";
                    self.bad(&key, message, hint);
                }
                (None, None) => {
                    self.keys(&at, &back.link);
                    self.filters(&at, Some(back.link.ack_filter));
                }
            }
        }
    }

    pub(super) fn links(&mut self) {
        let scenario = self.scenario;
        if scenario.links.len() > limits::MAX_LINKS {
            let message = format!("{} links", scenario.links.len());
            self.at_most("links", message, limits::MAX_LINKS);
        }
        for (index, link) in scenario.links.iter().enumerate() {
            let at = format!("links[{index}]");
            link.check(&at, &mut self.problems);
            if scenario.link_number(&link.name) != Some(index + 1) {
                let key = format!("{at}.name");
                let message = format!("`{key}` is \"{}\" again", link.name);
                self.bad(&key, message, "name each link once; the path's is \"bottleneck\" unless path.name says otherwise");
            }
            self.name(&at, &link.name);
            self.link(&at, link.rate, &link.queue, &link.link);
        }
    }

    fn name(&mut self, at: &str, name: &str) {
        if name.is_empty() {
            let message = format!("`{at}.name` is empty");
            self.bad(&format!("{at}.name"), message, "name the link");
        }
    }

    fn keys(&mut self, at: &str, keys: &LinkKeys) {
        if let Some(policer) = keys.policer {
            self.policer(&format!("{at}.policer"), policer);
        }
    }

    /// Errors that no bound of a single key reveals.
    fn link(&mut self, at: &str, rate: Rate, queue: &Queue, keys: &LinkKeys) {
        self.keys(at, keys);
        let key = |name: &str| format!("{at}.{name}");
        let path = &self.scenario.path;
        let site = Site {
            rate,
            rtt: path.rtt,
            mtu: path.mtu,
        };
        let vocabulary = self.scenario.document.vocabulary;
        queue.check_options(&key("queue"), vocabulary, &site, &mut self.problems);
        self.queue_size(&key("queue.size"), queue.size, &site);
    }

    fn queue_size(&mut self, key: &str, size: Size, site: &Site) {
        match size {
            Size::Bytes(bytes) if bytes < site.mtu => self.bad(
                key,
                format!("`{key}` is {bytes}, less than a packet of {}", site.mtu),
                "a queue holds at least one packet of path.mtu",
            ),
            Size::Packets(0) => {
                let hint = "a queue holds at least \"1 packet\"";
                self.bad(key, format!("`{key}` is 0 packets"), hint);
            }
            Size::Bdp { millionths: 0 } | Size::Time(Duration::ZERO) => {
                let hint = "a queue holds something; the smallest is \"1 packet\"";
                self.bad(key, format!("`{key}` is zero"), hint);
            }
            _ => {
                let bytes = size.to_bytes(site);
                if bytes > limits::MAX_QUEUE {
                    self.at_most(key, format!("`{key}` comes to {bytes}"), limits::MAX_QUEUE);
                }
            }
        }
    }

    /// A token bucket has to let a packet through.
    pub(super) fn policer(&mut self, key: &str, policer: Policer) {
        let (key, mtu) = (format!("{key}.burst"), self.scenario.path.mtu);
        if policer.burst < mtu {
            let message = format!("`{key}` is {}, less than a packet of {mtu}", policer.burst);
            let hint = "no packet of path.mtu would ever pass";
            self.bad(&key, message, hint);
        }
    }

    /// A link of that name, or a list of all names.
    fn link_name(&mut self, key: &str, name: &str) {
        let scenario = self.scenario;
        if scenario.link_number(name).is_none() {
            let names = scenario.links.iter().map(|link| link.name.as_str());
            let names: Vec<&str> = std::iter::once(scenario.path.name.as_str())
                .chain(names)
                .collect();
            let message = format!("no link is called \"{name}\"");
            self.bad(key, message, choices(name, &names, "\""));
        }
    }

    /// Changes of the return direction of a link need one.
    pub(super) fn event_return(&mut self, at: &str, change: &PathChange) {
        let Some(back) = &change.r#return else {
            return;
        };
        let link = change.link.as_ref();
        let link = link.map_or(Some(0), |name| self.scenario.link_number(name));
        let mut returns = self.scenario.returns();
        let section = returns.find(|(of, _)| Some(*of) == link);
        match section {
            None if link.is_some() => {
                let message =
                    format!("`{at}.return` changes a return direction that is not declared");
                let hint = "declare it: an empty `return = {}` in its table is enough";
                self.bad(&format!("{at}.return"), message, hint);
            }
            Some((_, section)) if back.rate.is_some() && section.rate.is_none() => {
                let key = format!("{at}.return.rate");
                let message = format!("`{key}` limits a direction that has no rate at the start");
                let hint = "give the direction a rate and a queue at the start";
                self.bad(&key, message, hint);
            }
            Some((_, section)) if section.rate.is_none() => {
                self.filters(&format!("{at}.return"), back.keys.ack_filter);
            }
            _ => {}
        }
    }

    /// A direction without a rate: no ACK waits there.
    fn filters(&mut self, at: &str, filter: Option<AckFilter>) {
        if filter.unwrap_or_default() != AckFilter::Off {
            let key = format!("{at}.ack_filter");
            let message = format!("`{key}` has no rate, so no ACK would wait for it");
            let hint = "give the direction a rate and a queue, or leave out its filter";
            self.bad(&key, message, hint);
        }
    }

    pub(super) fn event_link(&mut self, at: &str, change: &PathChange) {
        let Some(name) = &change.link else {
            return;
        };
        self.link_name(&format!("{at}.link"), name);
        if change.rtt.is_some() {
            let key = format!("{at}.rtt");
            let message = format!("`{key}` is the path's, not a link's");
            let hint = "give it an event without `link`";
            self.bad(&key, message, hint);
        }
    }

    /// The sum of the delays of a route's links.
    pub(super) fn delay_of(&self, route: &[String]) -> Duration {
        let links = route.iter().take(limits::MAX_LINKS).filter_map(|name| {
            let number = self.scenario.link_number(name)?.checked_sub(1)?;
            self.scenario.links.get(number)
        });
        links.fold(Duration::ZERO, |sum, link| sum + link.delay)
    }

    /// The links of a route, each once.
    fn links_of(&mut self, key: &str, route: &[String]) {
        if route.is_empty() {
            let message = format!("`{key}` is empty");
            self.bad(key, message, "name the links, or leave it out");
        }
        for (place, name) in route.iter().enumerate().take(limits::MAX_LINKS) {
            let key = format!("{key}[{place}]");
            self.link_name(&key, name);
            if route.iter().take(place).any(|earlier| earlier == name) {
                let message = format!("`{key}` is \"{name}\" again");
                self.bad(&key, message, "a route crosses a link once");
            }
        }
    }

    /// The way back goes over return directions that there are, and one of them limits an upload.
    fn return_route(&mut self, at: &str, group: &FlowGroup) {
        let scenario = self.scenario;
        let back = |name: &String| scenario.return_number(scenario.link_number(name)?);
        if let Some(route) = &group.return_route {
            let key = format!("{at}.return_route");
            self.links_of(&key, route);
            let known = |name: &&String| scenario.link_number(name).is_some();
            let mut known = route.iter().filter(known);
            if let Some(name) = known.find(|name| back(name).is_none()) {
                let message = format!("`{key}`: the link \"{name}\" has no return direction");
                let hint = "declare it: an empty `return = {}` in its table is enough";
                self.bad(&key, message, hint);
            }
        }
        let own = [scenario.path.name.clone()];
        let route = group.return_route.as_deref().or(group.route.as_deref());
        let mut numbers = route.unwrap_or(&own).iter().filter_map(back);
        if group.direction == Direction::Up && !numbers.any(|n| scenario.rate_source(n).is_some()) {
            let key = format!("{at}.direction");
            let message = format!("`{key}` is \"up\", and no return direction there has a rate");
            let hint = "path.return = { rate = \"1 Mbit/s\", queue = { size = \"40 ms\" } }";
            self.bad(&key, message, hint);
        }
    }

    pub(super) fn route(&mut self, at: &str, group: &FlowGroup) {
        self.return_route(at, group);
        let Some(route) = &group.route else {
            return;
        };
        let key = format!("{at}.route");
        self.links_of(&key, route);
        let delay = self.delay_of(route);
        // The path's own link takes half of the shortest RTT.
        let rtts = self.scenario.flows.iter().filter_map(|group| group.rtt);
        let shortest = rtts.fold(self.scenario.path.rtt, Duration::min);
        if delay > shortest / 2 {
            let message = format!("the delays of the links of `{key}` come to {delay}");
            let hint = format!("at most half of the shortest round trip, {}", shortest / 2);
            self.bad(&key, message, hint);
        }
    }
}
