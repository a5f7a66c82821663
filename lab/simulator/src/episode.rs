//! A run in steps, in which an agent sets the windows of some flows.

use std::sync::Arc;

use paceline_experiment::{Fault, Guests, RunError, Unbalanced, Watch};
use paceline_record::Run;
use paceline_scenario::{Diagnostic, Scenario, When};
use paceline_units::{Bytes, Duration, Instant};

use crate::agent::{Decision, Feedback, Wire};
use crate::flow::{Flow, Stage};
use crate::foreign::Stacks;
use crate::named::with_named;
use crate::quic::Qlogs;
use crate::run::{STRIDE, begun, prepare};
use crate::world::World;

/// A run that stops after each step for decisions about its steered flows.
pub struct Episode {
    scenario: Arc<Scenario>,
    world: World,
    qlogs: Qlogs,
    /// The steered flows.
    agents: Vec<Agent>,
}

struct Agent {
    flow: usize,
    wire: Arc<Wire>,
}

/// The state of a steered flow between two steps.
#[derive(Clone, Copy, Debug)]
pub struct Steered {
    /// Whether it can send now.
    pub is_open: bool,
    /// Whether it has ended.
    pub is_over: bool,
    /// The latest decision.
    pub decision: Decision,
    /// Data in flight.
    pub in_flight: Bytes,
    /// Smoothed RTT; before the first sample, its RTT without queues.
    pub srtt: Duration,
    /// Minimum RTT of the connection, once there is one.
    pub min_rtt: Option<Duration>,
    /// RTT without queues at the start of the run.
    pub base_rtt: Duration,
    /// Payload of a full packet in bytes.
    pub mss: u32,
}

/// Why a scenario's flows, given by number, cannot be steered.
fn invalid_flows(scenario: &Scenario, flows: &[u32]) -> Vec<Diagnostic> {
    let count = scenario.flow_count();
    let mut wrong = Vec::new();
    let mut refuse = |key: &str, message, hint: &str| {
        wrong.push(scenario.diagnostic(key, message, Some(hint.to_owned())));
    };
    if flows.is_empty() {
        refuse(
            "flows",
            "no flow is steered".into(),
            "name one by its number, from 0",
        );
    }
    let groups: Vec<usize> = crate::flow::each_flow(scenario).collect();
    for (nth, flow) in flows.iter().enumerate() {
        let Some(group) = groups.get(*flow as usize) else {
            let hint = format!("they have the numbers 0 to {}", count.saturating_sub(1));
            refuse("flows", format!("there is no flow {flow}"), &hint);
            continue;
        };
        if flows[..nth].contains(flow) {
            refuse(
                "flows",
                format!("flow {flow} is named twice"),
                "name each once",
            );
        }
        if scenario.flows[*group].is_quic() {
            let message = format!("flow {flow} has a transport of its own and cannot be steered");
            refuse(
                &format!("flows[{group}].stack"),
                message,
                "leave out `stack`",
            );
        }
    }
    for (index, event) in scenario.events.iter().enumerate() {
        if let When::Enters { flow, .. } = &event.when
            && flows.contains(flow)
        {
            let message = format!("flow {flow} is steered and has no states to wait for");
            let key = format!("events[{index}].when");
            refuse(&key, message, "give a time: when = \"10 s\"");
        }
    }
    wrong
}

impl Episode {
    /// The run of a scenario with `seed`, up to the time when the first of the steered flows (given
    /// by number) is open. The controllers that the scenario names for them decide nothing.
    ///
    /// # Errors
    /// An error in the scenario, or the reason why the run cannot begin.
    pub fn new(
        scenario: &Arc<Scenario>,
        seed: u64,
        flows: &[u32],
        watch: &mut Watch<'_>,
    ) -> Result<Self, RunError> {
        let (mut plan, mut choices) = prepare(scenario, seed, &Guests::none())?;
        let wrong = invalid_flows(scenario, flows);
        if !wrong.is_empty() {
            return Err(RunError::Scenario(wrong));
        }
        let mut agents = Vec::new();
        for flow in flows.iter().map(|flow| *flow as usize) {
            let wire = Wire::new();
            choices[flow] = wire.choice();
            plan.info.flows[flow].cc = "agent".into();
            agents.push(Agent { flow, wire });
        }
        plan.info.guests = paceline_experiment::used(&choices);
        // An episode has no guests.
        let fault = Fault::default();
        let (stacks, qlogs) = with_named(scenario, &Stacks::none(), &fault);
        watch.within(&begun(&plan))?;
        let mut episode = Self {
            scenario: Arc::clone(scenario),
            world: World::new(plan, choices, &stacks, &fault),
            qlogs,
            agents,
        };
        let end = episode.end();
        let mut events = 0;
        while !episode.is_at_end() && !episode.steered().any(|flow| flow.is_open) {
            episode.advance(end, 1)?;
            events += 1;
            if events % STRIDE == 0 {
                episode.check(watch)?;
            }
        }
        Ok(episode)
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.world.now
    }

    /// When the run ends.
    pub fn end(&self) -> Instant {
        Instant::ZERO + self.scenario.run.duration
    }

    /// Whether the run has reached its end.
    pub fn is_at_end(&self) -> bool {
        self.world.now >= self.end()
    }

    /// Data packets offered to the path so far.
    pub fn packets(&self) -> u64 {
        self.world.tally.packets
    }

    /// The steered flows, in the order in which they were named.
    pub fn steered(&self) -> impl Iterator<Item = Steered> + '_ {
        let agents = self.agents.iter();
        agents.filter_map(|agent| Some(steered(self.world.flow(agent.flow)?, &agent.wire)))
    }

    /// Sets the decision for the `nth` steered flow. A flow that is not open yet starts with the
    /// initial window.
    pub fn decide(&mut self, nth: usize, decision: Decision) {
        if let Some(agent) = self.agents.get(nth) {
            agent.wire.decide(decision);
            self.world.decided(agent.flow);
        }
    }

    /// The events of the `nth` steered flow since the last call.
    pub fn take_feedback(&mut self, nth: usize) -> Feedback {
        let agent = self.agents.get(nth);
        agent.map_or_else(Feedback::default, |agent| agent.wire.take())
    }

    /// Advances virtual time to `time`, or to the end of the run. `watch` is asked every few hundred
    /// events, and at the end: steps are short, and the limit on memory holds over all of them.
    ///
    /// # Errors
    /// Why the run cannot continue.
    pub fn run_until(&mut self, time: Instant, watch: &mut Watch<'_>) -> Result<(), RunError> {
        let time = time.min(self.end());
        loop {
            let reached = self.advance(time, STRIDE)?;
            self.check(watch)?;
            if reached {
                return Ok(());
            }
        }
    }

    fn advance(&mut self, time: Instant, work: i64) -> Result<bool, RunError> {
        let reached = self.world.run(time, work);
        reached.map_err(|halt| RunError::Failed(halt.message(self.world.now)))
    }

    fn check(&mut self, watch: &mut Watch<'_>) -> Result<(), RunError> {
        let so_far = self.world.progress(self.qlogs.size());
        watch.check(&so_far, Some(self.world.recorder()))
    }

    /// The record. The record of a run that has not reached its end is marked incomplete.
    ///
    /// # Errors
    /// If a link's packet counts do not balance.
    pub fn finish(self) -> Result<Run, Unbalanced> {
        let run = match self.is_at_end() {
            true => self.world.finish(),
            false => self.world.stop("no further step was taken"),
        };
        Ok(run?.with_qlogs(self.qlogs.take()))
    }
}

fn steered(flow: &Flow, wire: &Wire) -> Steered {
    let sender = flow.sender();
    let srtt = sender.and_then(|sender| sender.srtt());
    Steered {
        is_open: matches!(flow.stage, Stage::Open(_)),
        is_over: matches!(flow.stage, Stage::Closed(_)),
        decision: wire.decision(),
        in_flight: sender.map_or(Bytes::ZERO, |sender| sender.in_flight()),
        srtt: srtt.unwrap_or(flow.plan.base_rtt),
        min_rtt: sender.and_then(|sender| sender.min_rtt()),
        base_rtt: flow.plan.base_rtt,
        mss: flow.plan.mss,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use paceline_experiment::Progress;
    use paceline_record::Recorder;

    use super::*;

    fn scenario(more: &str) -> Arc<Scenario> {
        let text = format!(
            "schema = 1\nrun.duration = \"4 s\"\n[path]\nrate = \"12 Mbit/s\"\nrtt = \"40 ms\"\n\
             queue.size = \"1 bdp\"\n[[flows]]\ncc = \"bbr3\"\nack.every = \"1 packets\"\n{more}"
        );
        Arc::new(paceline_experiment::parse(&text, "test.toml", &[]).unwrap())
    }

    /// A packet takes 1 ms on the link, so that ten of them need 41 ms for a round trip.
    #[test]
    fn a_fixed_window_is_delivered_once_a_round_trip() {
        let mut episode = Episode::new(&scenario(""), 1, &[0], &mut Watch::none()).unwrap();
        let flow = episode.steered().next().unwrap();
        assert!(flow.is_open && !flow.is_over);
        assert_eq!(flow.decision.cwnd, Bytes::new(14_480));
        episode.take_feedback(0);
        let begin = episode.now();
        let round = Duration::from_millis(41);
        episode
            .run_until(begin + round * 3, &mut Watch::none())
            .unwrap();
        episode.take_feedback(0);
        episode
            .run_until(begin + round * 13, &mut Watch::none())
            .unwrap();
        let feedback = episode.take_feedback(0);
        assert_eq!(feedback.acked, Bytes::new(10 * 14_480));
        assert_eq!(feedback.sent, feedback.acked);
        assert_eq!((feedback.lost, feedback.marked), (Bytes::ZERO, Bytes::ZERO));
        assert_eq!(
            (feedback.mean_rtt, feedback.least_rtt),
            (Some(round), Some(round))
        );
        assert_eq!(episode.take_feedback(0), Feedback::default());
        // Decisions take effect at once.
        episode.decide(
            0,
            Decision {
                cwnd: Bytes::new(20 * 1448),
                pacing_rate: None,
            },
        );
        let flow = episode.steered().next().unwrap();
        assert_eq!(flow.in_flight, Bytes::new(20 * 1448));
        let run = episode.finish().unwrap();
        assert_eq!(run.info().flows[0].cc, "agent");
        assert!(run.info().incomplete.is_some());
    }

    #[test]
    fn what_cannot_be_steered_is_said() {
        let problem = |more: &str, flows: &[u32]| -> String {
            match Episode::new(&scenario(more), 1, flows, &mut Watch::none()) {
                Err(RunError::Scenario(wrong)) => wrong[0].message.clone(),
                Err(error) => panic!("{error}"),
                Ok(_) => panic!("it begins"),
            }
        };
        assert_eq!(problem("", &[]), "no flow is steered");
        assert_eq!(problem("", &[1]), "there is no flow 1");
        assert_eq!(problem("", &[0, 0]), "flow 0 is named twice");
        let quic = "[[flows]]\ncc = \"bbr3\"\nstack = \"quinn\"\n";
        assert!(problem(quic, &[0, 1]).contains("transport of its own"));
        let waits = "[[events]]\nwhen = { flow = 0, enters = \"Drain\" }\npath.rtt = \"50 ms\"\n";
        assert!(problem(waits, &[0]).contains("no states to wait for"));
    }

    #[test]
    fn who_asks_to_stop_is_heard() {
        let mut stops = |_: &Progress, _: Option<&Recorder>| ControlFlow::Break(());
        let mut episode = Episode::new(&scenario(""), 1, &[0], &mut Watch::none()).unwrap();
        let stopped = episode.run_until(episode.end(), &mut Watch::new(u64::MAX, &mut stops));
        assert!(matches!(stopped, Err(RunError::Interrupted)));
        assert!(!episode.is_at_end());
    }
}
