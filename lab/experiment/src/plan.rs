//! The plan of a run.

use paceline_path::{Link, Packet, QueueLimit, Service};
use paceline_record::{FlowInfo, LinkInfo, RunInfo};
use paceline_scenario::{Diagnostic, LinkSection, Scenario};
use paceline_units::{Bytes, Duration, Rate};

use crate::change::{Change, LinkChange};
use crate::flows::{self, FlowPlan};
use crate::script::{self, Script};
use crate::ways::Ways;
use crate::{check, network};

/// A scenario with everything resolved, for any engine.
#[derive(Clone, Debug)]
pub struct Plan<'s> {
    /// The scenario, for options that only some engines use.
    pub scenario: &'s Scenario,
    /// The source of all randomness.
    pub seed: u64,
    /// The record's description of the run before it begins.
    pub info: RunInfo,
    /// The services of all links at the start of the run.
    pub services: Vec<Service>,
    /// The path's own link, then the others, then the return directions.
    pub links: Vec<LinkSection>,
    /// The return paths.
    pub ways: Ways,
    /// The flows, in the order of their groups.
    pub flows: Vec<FlowPlan>,
    /// Changes during the run.
    pub script: Script,
}

impl<'s> Plan<'s> {
    /// The plan of a run with `seed` for the engine named `backend` in the record.
    ///
    /// # Errors
    /// All errors that [`crate::check`] reports.
    pub fn resolve(
        scenario: &'s Scenario,
        seed: u64,
        backend: &str,
    ) -> Result<Self, Vec<Diagnostic>> {
        let services = check::resolve(scenario)?;
        let (flows, ways) = flows::flows(scenario, seed);
        let path = &scenario.path;
        let delays = ways.delays(path.rtt);
        let rate = |number: usize| services.get(number).map_or(Rate::INFINITE, network::rate);
        let returns = scenario.returns().zip(1 + scenario.links.len()..);
        let returns = returns.map(|((link, back), number)| {
            let delay = match link {
                0 => delays.back,
                _ => Duration::ZERO,
            };
            back.as_link(scenario.link_title(number), rate(number), delay)
        });
        let links: Vec<_> = std::iter::once(path.own_link(rate(0), delays.link))
            .chain(scenario.links.iter().cloned())
            .chain(returns)
            .collect();
        Ok(Self {
            scenario,
            seed,
            info: info(scenario, seed, backend, &flows, &links),
            services,
            script: script::script(scenario),
            links,
            ways,
            flows,
        })
    }

    /// The minimum RTT without queues that a flow has during the run.
    pub fn least_rtt(&self, flow: &FlowPlan) -> Duration {
        let scripted = self.script.changes().filter_map(|change| match change {
            // A flow's own RTT does not change.
            Change::Rtt(rtt) if flow.group.rtt.is_none() => Some(*rtt),
            _ => None,
        });
        scripted.fold(flow.base_rtt, Duration::min)
    }

    /// The rates that links, by number, get from the changes at times of the run, in their order.
    pub fn later_rates(&self) -> Vec<(usize, Rate)> {
        let mut now: Vec<Rate> = self.links.iter().map(|link| link.rate).collect();
        let mut rates = Vec::new();
        for (_, change) in &self.script.timed {
            if let Change::Link(number, LinkChange::Rate(change)) = change
                && let Some(rate) = now.get_mut(*number)
            {
                *rate = change.apply(*rate);
                rates.push((*number, *rate));
            }
        }
        rates
    }

    /// The links at the start of the run.
    pub fn build_links<P: Packet + Clone>(&self) -> Vec<Link<P>> {
        (0..)
            .zip(&self.links)
            .zip(&self.services)
            .map(|(link, service)| network::link(self.scenario, link, service.clone(), self.seed))
            .collect()
    }
}

fn info(
    scenario: &Scenario,
    seed: u64,
    backend: &str,
    flows: &[FlowPlan],
    links: &[LinkSection],
) -> RunInfo {
    let mut crossing = vec![Vec::new(); links.len()];
    for (number, flow) in (0..).zip(flows) {
        for link in &flow.route {
            if let Some(crossing) = crossing.get_mut(*link) {
                crossing.push(number);
            }
        }
    }
    let payload = |flow: &FlowPlan| f64::from(flow.mss) / f64::from(flow.mss + flow.header);
    let mut info = RunInfo {
        scenario: scenario.name.clone(),
        scenario_toml: scenario.to_toml(),
        seed,
        backend: backend.to_owned(),
        version: env!("CARGO_PKG_VERSION").into(),
        duration: scenario.run.duration,
        sample_interval: scenario.sample_interval(),
        payload_ratio: 0.0,
        payload_ratios: Vec::new(),
        incomplete: None,
        guests: Vec::new(),
        flows: (0..)
            .zip(flows)
            .map(|(number, flow)| FlowInfo {
                flow: number,
                cc: flow.group.cc.name.clone(),
                label: flow.label.clone(),
                start: flow.start,
                stop: flow.stop,
                base_rtt: flow.base_rtt,
                mss: flow.mss,
            })
            .collect(),
        links: crossing
            .into_iter()
            .zip(links)
            .enumerate()
            .map(|(number, (flows, link))| LinkInfo {
                name: link.name.clone(),
                capacity: link.rate,
                limit: match network::queue_limit(scenario, link) {
                    QueueLimit::Bytes(bytes) => Bytes::new(bytes),
                    QueueLimit::Packets(_) => Bytes::INFINITE,
                },
                flows,
                return_of: scenario.return_of(number).map(|link| link as u32),
            })
            .collect(),
    };
    info.set_payload_ratios(flows.iter().map(payload).collect());
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_rates_follow_every_factor() {
        let text = "schema = 1\nrun.duration = \"30 s\"\n\
            [path]\nrate = \"100 Mbit/s\"\nrtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n\
            [[flows]]\ncc = \"reno\"\n\
            [[events]]\nwhen = \"5 s\"\npath.rate = \"+100 %\"\n\
            [[events]]\nwhen = \"1 s\"\nfor = \"1 s\"\npath.rate = \"-50 %\"\n\
            [[events]]\nwhen = \"3 s\"\npath.rate = \"30 Mbit/s\"\n";
        let scenario = crate::parse(text, "test.toml", &[]).unwrap();
        let plan = Plan::resolve(&scenario, 1, "sim").unwrap();
        let mbit = |rate: u64| (0, Rate::from_bps(rate * 1_000_000));
        assert_eq!(plan.later_rates(), [50, 100, 30, 60].map(mbit));
    }

    #[test]
    fn the_least_rtt_counts_every_event() {
        let text = "schema = 1\nrun.duration = \"30 s\"\n\
            [path]\nrate = \"100 Mbit/s\"\nrtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n\
            [[flows]]\ncc = \"reno\"\n\
            [[flows]]\ncc = \"reno\"\nrtt = \"10 ms\"\n\
            [[events]]\nwhen = \"1 s\"\npath.rtt = \"30 ms\"\n\
            [[events]]\nwhen = { flow = 0, enters = \"SlowStart\" }\npath.rtt = \"20 ms\"\n\
            [[events]]\nwhen = \"3 s\"\npath.rtt = \"80 ms\"\n";
        let scenario = crate::parse(text, "test.toml", &[]).unwrap();
        let plan = Plan::resolve(&scenario, 1, "sim").unwrap();
        let least = plan.flows.iter().map(|flow| plan.least_rtt(flow));
        let least: Vec<u64> = least.map(Duration::as_micros).collect();
        assert_eq!(least, [20_000, 10_000]);
    }
}
