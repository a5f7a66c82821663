//! The record of a run with programs.

use paceline_experiment::Plan;
use paceline_record::{FlowInfo, LinkInfo, RunInfo};
use paceline_units::Instant;

use crate::message::Outcome;

/// Data of a run with programs that is known when it has ended: its true length, their
/// conversations, and the link from client to server.
pub fn with_talks(plan: &Plan<'_>, up_link: Option<&LinkInfo>, outcome: &Outcome) -> RunInfo {
    let mut info = plan.info.clone();
    let mut scenario = plan.scenario.clone();
    scenario.run.duration = outcome.ended.since(Instant::ZERO);
    info.duration = scenario.run.duration;
    info.scenario_toml = scenario.to_toml();
    let mtu = scenario.path.mtu.get();
    let mss = mtu.saturating_sub(HEADERS);
    let flows = 0..info.flows.len();
    let mut ratios: Vec<f64> = flows.map(|flow| info.payload_ratio_of(flow)).collect();
    // Without a conversation either, the ratio is that of TCP.
    ratios.resize(
        (info.flows.len() + outcome.talks.len()).max(1),
        mss as f64 / mtu.max(1) as f64,
    );
    info.set_payload_ratios(ratios);
    let mut ways = [Vec::new(), Vec::new()];
    for talk in &outcome.talks {
        let flow = talk.totals.flow;
        ways[usize::from(talk.up)].push(flow);
        info.flows.push(FlowInfo {
            flow,
            cc: talk.cc.clone(),
            label: talk.label.clone(),
            start: talk.start,
            stop: talk.stop,
            base_rtt: scenario.path.rtt,
            mss: u32::try_from(mss).unwrap_or(u32::MAX),
        });
    }
    let [down, up] = ways;
    let back = plan.scenario.return_number(0);
    if let Some(link) = info.links.first_mut() {
        let twin = LinkInfo {
            name: format!("{} up", link.name),
            flows: up.clone(),
            ..up_link.unwrap_or(link).clone()
        };
        link.flows.extend(down);
        match back.and_then(|number| info.links.get_mut(number)) {
            Some(back) => back.flows.extend(up),
            None => info.links.push(twin),
        }
    }
    info
}

/// IP and TCP headers with timestamps.
const HEADERS: u64 = 52;
