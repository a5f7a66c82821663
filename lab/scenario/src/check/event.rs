//! Events: the same checks as at the start, and whether they act.

use std::collections::BTreeMap;

use paceline_units::{App, Duration};

use super::Check;
use crate::app::AppChange;
use crate::event::{DirectionChange, Event, PathChange, RateChange, ReturnChange, When};
use crate::flow::FlowGroup;
use crate::limits;
use crate::link::{PolicerChange, RateSource};
use crate::pulse;
use crate::section::Key;

/// The workload of a flow between two events.
struct Workload<'s> {
    group: &'s FlowGroup,
    app: App,
    paused: bool,
    /// Whether it has been without a limit at some time.
    unlimited: bool,
}

/// Whether a workload writes without a limit.
fn is_unlimited(app: App) -> bool {
    matches!(app, App::Bulk | App::OnOff { rate: None, .. })
}

impl Workload<'_> {
    /// Why a change of it at this time (unknown if it waits for a state) does nothing, and what
    /// to write instead.
    fn refusal(&self, event: &Event, change: &AppChange) -> Option<(String, String)> {
        let at = match event.when {
            When::At(at) => Some(at),
            When::Enters { .. } => None,
        };
        let is_over = |stop: &Duration| at.is_some_and(|at| at >= *stop);
        if let Some(stop) = self.group.stop.filter(is_over) {
            let hint = format!("choose a time before {stop}");
            return Some((format!("changes a flow that stops at {stop}"), hint));
        }
        let start = self.group.start;
        let waits = self.paused || at.is_some_and(|at| at < start);
        if matches!(self.app, App::Sized { .. }) && !waits {
            let message = "changes a flow that has handed over all of its data at once";
            let hint = match start {
                Duration::ZERO => String::new(),
                start => format!(", or a time before {start}"),
            };
            let hint =
                format!("give the flow another app, such as {{ rate = \"5 Mbit/s\" }}{hint}");
            return Some((message.to_owned(), hint));
        }
        let AppChange::Set(App::Sized { .. }) = change else {
            return None;
        };
        if event.r#for.is_some() {
            let message = "hands over all of its data at once, which cannot be undone";
            return Some((message.to_owned(), "leave `for` out".to_owned()));
        }
        if self.group.is_quic() && self.unlimited {
            let message = "follows bulk data, whose end a QUIC stack does not tell";
            let hint = "give the flow an app with a rate or a size from the start";
            return Some((message.to_owned(), hint.to_owned()));
        }
        None
    }

    fn change(&mut self, change: &AppChange) {
        match change {
            AppChange::Pause => self.paused = true,
            AppChange::Resume => self.paused = false,
            AppChange::Set(app) => self.app = *app,
        }
        self.unlimited |= is_unlimited(self.app);
    }
}

impl Check<'_> {
    pub(super) fn events(&mut self) {
        let events = &self.scenario.events;
        if events.len() > limits::MAX_EVENTS {
            let message = format!("{} events", events.len());
            self.at_most("events", message, limits::MAX_EVENTS);
        }
        for (index, event) in events.iter().enumerate() {
            self.event(&format!("events[{index}]"), event);
        }
        self.round_trips();
        self.workloads();
        pulse::check(self.scenario, &mut self.problems);
    }

    fn event(&mut self, at: &str, event: &Event) {
        let duration = self.scenario.run.duration;
        let after = |time| format!("it happens at {time}, but the run lasts {duration}");
        event.check(at, &mut self.problems);
        match &event.when {
            When::At(time) if *time >= duration => {
                let hint = "choose a time before the end, or a longer run.duration";
                self.bad(&format!("{at}.when"), after(time), hint);
            }
            When::At(_) => {}
            When::Enters {
                flow,
                state,
                nth,
                delay,
            } => {
                self.flow_number(&format!("{at}.when.flow"), *flow);
                if state.is_empty() {
                    let hint = "such as \"Drain\"";
                    self.bad(&format!("{at}.when.enters"), "the state has no name", hint);
                }
                self.problems.within(
                    &format!("{at}.when.nth"),
                    u64::from(*nth),
                    1,
                    u64::from(u32::MAX),
                );
                if *delay >= duration {
                    let key = format!("{at}.when.delay");
                    self.bad(&key, after(delay), "shorter than run.duration");
                }
            }
        }
        if event.path.is_none() && event.flow.is_none() {
            let hint = "say what: path.rate = \"-10 %\" or flow = { flow = 0, app = \"pause\" }";
            self.bad(at, format!("`{at}` changes nothing"), hint);
        }
        if let Some(change) = &event.path {
            if (PathChange {
                link: None,
                r#return: change
                    .r#return
                    .clone()
                    .filter(|back| *back != ReturnChange::default()),
                ..change.clone()
            }) == PathChange::default()
            {
                let message = format!("`{at}.path` changes nothing");
                let hint = "say what, such as path.rate = \"-10 %\" or path.loss = \"1 %\"";
                self.bad(&format!("{at}.path"), message, hint);
            }
            self.event_link(&format!("{at}.path"), change);
            self.event_return(&format!("{at}.path"), change);
            for change in change.directions(self.scenario) {
                self.direction(&format!("{at}.{}", change.at), change);
            }
        }
        if let Some(change) = &event.flow {
            self.flow_number(&format!("{at}.flow.flow"), change.flow);
            if let AppChange::Set(app) = &change.app {
                self.app(&format!("{at}.flow.app"), app, 1);
            }
        }
    }

    /// The changes of one direction of a link.
    fn direction(&mut self, at: &str, change: DirectionChange<'_>) {
        if let Some(PolicerChange::Set(policer)) = change.keys.policer {
            self.policer(&format!("{at}.policer"), policer);
        }
        let key = format!("{at}.rate");
        match (change.rate, self.scenario.rate_source(change.number)) {
            (Some(RateChange::Absolute(rate)), _) => {
                self.problems.below(&key, rate, limits::MAX_RATE);
            }
            (Some(RateChange::Factor(_)), Some(RateSource::Trace { .. })) => self.bad(
                &key,
                "a change in percent needs a fixed rate, and the link has a trace",
                "give the new rate, such as \"5 Mbit/s\"",
            ),
            _ => {}
        }
    }

    /// Changes of the round trip keep its rule at the start, and some flow follows the path's.
    fn round_trips(&mut self) {
        let scenario = self.scenario;
        let fixed = scenario.flows.iter().all(|group| group.rtt.is_some());
        let groups = scenario.flows.iter();
        let routes = groups.filter_map(|group| group.route.as_ref());
        let delays = routes.map(|route| self.delay_of(route));
        let longest = delays.max().unwrap_or_default();
        for (number, event) in scenario.events.iter().enumerate() {
            let Some(rtt) = event.path.as_ref().and_then(|path| path.rtt) else {
                continue;
            };
            let key = format!("events[{number}].path.rtt");
            if fixed && !scenario.flows.is_empty() {
                let message = format!("`{key}` changes nothing: each flow has an `rtt` of its own");
                self.bad(&key, message, "leave out `rtt` in [[flows]]");
            }
            if longest > rtt / 2 {
                let message = format!(
                    "`{key}` is {rtt}, and the delays of a route's links come to {longest}"
                );
                let hint = format!("at least {}, twice as much", longest * 2);
                self.bad(&key, message, hint);
            }
        }
    }

    /// Every change of an application acts.
    fn workloads(&mut self) {
        let mut order: Vec<(usize, &Event)> = self.scenario.events.iter().enumerate().collect();
        // Those that wait for a state may happen at any time: before all others.
        order.sort_by_key(|(_, event)| event.at());
        let mut now: BTreeMap<u32, Workload<'_>> = BTreeMap::new();
        for (number, event) in order {
            let Some(change) = &event.flow else { continue };
            let Some(group) = self.scenario.group_of(change.flow) else {
                continue; // it is reported by itself
            };
            let workload = now.entry(change.flow).or_insert_with(|| Workload {
                group,
                app: group.app,
                paused: false,
                unlimited: is_unlimited(group.app),
            });
            if let Some((what, hint)) = workload.refusal(event, &change.app) {
                let key = format!("events[{number}].flow.app");
                self.bad(&key, format!("`{key}` {what}"), hint);
                continue;
            }
            match &change.app {
                app if event.at().is_some() && event.r#for.is_none() => workload.change(app),
                // When it happens, or until when, does not matter: it may be before the next.
                AppChange::Set(app) => {
                    workload.unlimited |= is_unlimited(*app);
                    if matches!(app, App::Sized { .. }) {
                        workload.app = *app;
                    }
                }
                AppChange::Pause | AppChange::Resume => {}
            }
        }
    }

    fn flow_number(&mut self, key: &str, flow: u32) {
        let flows = self.scenario.flow_count();
        if u64::from(flow) >= flows {
            self.bad(
                key,
                format!("there is no flow {flow}"),
                match flows {
                    0 => "there are none".to_owned(),
                    1 => "the only flow is 0".to_owned(),
                    _ => format!(
                        "flows are numbered from 0 to {} in the order of the groups",
                        flows - 1
                    ),
                },
            );
        }
    }
}
