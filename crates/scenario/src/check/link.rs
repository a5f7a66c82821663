//! Links, their queues and impairments; routes over them.

use paceline_units::{Duration, Policer, Rate, Site, Size};

use super::Check;
use crate::event::PathChange;
use crate::flow::FlowGroup;
use crate::limits;
use crate::link::{LinkSection, RateSource};
use crate::reader::choices;
use crate::section::Key;

impl Check<'_> {
    pub(super) fn path(&mut self) {
        let path = &self.scenario.path;
        // The capacity of a trace is not known here: only checks that hold for any trace are
        // possible.
        let rate = match path.rate {
            RateSource::Fixed(rate) => {
                self.found.rate("path.rate", rate);
                rate
            }
            RateSource::Trace { .. } => Rate::ZERO,
        };
        path.check("path", &mut self.found);
        self.link("path", &path.own_link(rate, Duration::ZERO));
    }

    pub(super) fn links(&mut self) {
        let scenario = self.scenario;
        if scenario.links.len() > limits::MAX_LINKS {
            self.found.too_much(
                "links",
                format!("{} links", scenario.links.len()),
                format!("at most {}", limits::MAX_LINKS),
            );
        }
        for (index, link) in scenario.links.iter().enumerate() {
            let at = format!("links[{index}]");
            link.check(&at, &mut self.found);
            if scenario.link_number(&link.name) != Some(index + 1) {
                let key = format!("{at}.name");
                let message = format!("`{key}` is \"{}\" again", link.name);
                self.found.bad(&key, message, "name each link once; the path's is \"bottleneck\" unless path.name says otherwise");
            }
            self.link(&at, link);
        }
    }

    /// Errors that no bound of a single key reveals.
    fn link(&mut self, at: &str, link: &LinkSection) {
        let key = |name: &str| format!("{at}.{name}");
        if link.name.is_empty() {
            self.found.bad(
                &key("name"),
                format!("`{at}.name` is empty"),
                "name the link",
            );
        }
        if let Some(policer) = link.link.policer {
            self.policer(&key("policer"), policer);
        }
        let path = &self.scenario.path;
        let site = Site {
            rate: link.rate,
            rtt: path.rtt,
            mtu: path.mtu,
        };
        let vocabulary = self.scenario.document.vocabulary;
        link.queue
            .check_options(&key("queue"), vocabulary, &site, &mut self.found);
        self.queue_size(&key("queue.size"), link.queue.size, &site);
    }

    fn queue_size(&mut self, key: &str, size: Size, site: &Site) {
        match size {
            Size::Bytes(bytes) if bytes < site.mtu => self.found.bad(
                key,
                format!("`{key}` is {bytes}, less than a packet of {}", site.mtu),
                "a queue holds at least one packet of path.mtu",
            ),
            Size::Packets(0) => {
                self.found.bad(
                    key,
                    format!("`{key}` is 0 packets"),
                    "a queue holds at least \"1 packet\"",
                );
            }
            Size::Bdp { millionths: 0 } | Size::Time(Duration::ZERO) => {
                self.found.bad(
                    key,
                    format!("`{key}` is zero"),
                    "a queue holds something; the smallest is \"1 packet\"",
                );
            }
            _ => {
                let bytes = size.to_bytes(site);
                if bytes > limits::MAX_QUEUE {
                    self.found.too_much(
                        key,
                        format!("`{key}` comes to {bytes}"),
                        format!("at most {}", limits::MAX_QUEUE),
                    );
                }
            }
        }
    }

    /// A token bucket has to let a packet through.
    pub(super) fn policer(&mut self, key: &str, policer: Policer) {
        let (key, mtu) = (format!("{key}.burst"), self.scenario.path.mtu);
        if policer.burst < mtu {
            self.found.bad(
                &key,
                format!("`{key}` is {}, less than a packet of {mtu}", policer.burst),
                "no packet of path.mtu would ever pass",
            );
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
            self.found.bad(key, message, choices(name, &names, "\""));
        }
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
                self.found.bad(
                    &format!("{at}.{name}"),
                    message,
                    "give it an event without `link`",
                );
            }
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

    pub(super) fn route(&mut self, at: &str, group: &FlowGroup) {
        let Some(route) = &group.route else {
            return;
        };
        let key = format!("{at}.route");
        if route.is_empty() {
            self.found.bad(
                &key,
                format!("`{key}` is empty"),
                "name the links, or leave it out",
            );
        }
        for (place, name) in route.iter().enumerate().take(limits::MAX_LINKS) {
            let key = format!("{key}[{place}]");
            self.link_name(&key, name);
            if route.iter().take(place).any(|earlier| earlier == name) {
                let message = format!("`{key}` is \"{name}\" again");
                self.found.bad(&key, message, "a route crosses a link once");
            }
        }
        let delay = self.delay_of(route);
        // The path's own link takes half of the shortest RTT.
        let rtts = self.scenario.flows.iter().filter_map(|group| group.rtt);
        let shortest = rtts.fold(self.scenario.path.rtt, Duration::min);
        if delay > shortest / 2 {
            let message = format!("the delays of the links of `{key}` come to {delay}");
            let hint = format!("at most half of the shortest round trip, {}", shortest / 2);
            self.found.bad(&key, message, hint);
        }
    }
}
