//! What no single value shows: whether the values together make an experiment, and one that ends.

use std::fmt::Display;

use paceline_units::{Bytes, Duration, Gain, Rate};

use crate::Scenario;
use crate::diagnostic::{Diagnostic, Kind};
use crate::event::{AppChange, Event, PathChange, RateChange, When};
use crate::flow::{App, FlowGroup};
use crate::limits;
use crate::path::RateSource;
use crate::sweep::Seeds;

mod link;

/// Collects what is wrong with a scenario whose single values are well formed.
struct Check<'s> {
    scenario: &'s Scenario,
    problems: Vec<Diagnostic>,
}

pub(crate) fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    let mut check = Check {
        scenario,
        problems: Vec::new(),
    };
    check.head();
    check.run();
    check.path();
    check.links();
    check.flows();
    check.events();
    check.work();
    check.sweep();
    check.problems
}

impl Check<'_> {
    fn bad(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Kind::BadValue, key, message.into(), hint.into());
    }

    fn too_much(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.report(Kind::Limit, key, message.into(), hint.into());
    }

    fn report(&mut self, kind: Kind, key: &str, message: String, hint: String) {
        if self.problems.len() < limits::MAX_PROBLEMS {
            let problem = self.scenario.problem(kind, key, message, Some(hint));
            self.problems.push(problem);
        }
    }

    /// Reports a value outside `least..=most`.
    fn within<T: PartialOrd + Display>(&mut self, key: &str, value: T, least: T, most: T) {
        if value < least || value > most {
            let message = format!("`{key}` is {value}");
            self.too_much(key, message, format!("from {least} to {most}"));
        }
    }

    /// Reports a value beyond `most`.
    fn below<T: PartialOrd + Display>(&mut self, key: &str, value: T, most: T) {
        if value > most {
            self.too_much(
                key,
                format!("`{key}` is {value}"),
                format!("at most {most}"),
            );
        }
    }

    /// Reports a time of zero, or longer than `most`.
    fn time(&mut self, key: &str, value: Duration, most: Duration) {
        if value == Duration::ZERO {
            self.bad(
                key,
                format!("`{key}` is zero"),
                format!("more than 0 s, at most {most}"),
            );
        } else {
            self.below(key, value, most);
        }
    }

    fn head(&mut self) {
        let found = self.scenario.schema;
        if found != 1 {
            self.bad(
                "schema",
                format!("`schema` is {found}"),
                "this version reads schema = 1",
            );
        }
        if self.scenario.name.is_empty() {
            self.bad(
                "name",
                "`name` is empty",
                "leave it out to take the file's name",
            );
        }
    }

    fn sweep(&mut self) {
        let Some(sweep) = &self.scenario.sweep else {
            return;
        };
        let run = &self.scenario.run;
        if !run.compare.is_empty() {
            self.bad(
                "run.compare",
                "`run.compare` stands beside `sweep`",
                "vary flows.0.cc in [sweep.over] instead",
            );
        }
        let seeds = match &sweep.seeds {
            Seeds::Repeats => u64::from(run.repeats),
            Seeds::Count(count) => u64::from(*count),
            Seeds::List(list) => list.len() as u64,
        };
        let runs = sweep.axes.iter().fold(seeds, |runs, axis| {
            runs.saturating_mul(axis.points.len() as u64)
        });
        if runs > limits::MAX_SWEEP_RUNS {
            self.too_much(
                "sweep",
                format!("`sweep` asks for {runs} runs"),
                format!("at most {}", limits::MAX_SWEEP_RUNS),
            );
        }
    }

    fn run(&mut self) {
        let run = &self.scenario.run;
        self.time("run.duration", run.duration, limits::MAX_DURATION);
        self.within("run.repeats", run.repeats, 1, limits::MAX_REPEATS);
        if run.compare.len() > limits::MAX_COMPARED {
            self.too_much(
                "run.compare",
                format!("`run.compare` names {} controllers", run.compare.len()),
                format!("at most {}", limits::MAX_COMPARED),
            );
        }
        let compared = run.compare.iter().take(limits::MAX_COMPARED);
        for (index, name) in compared.enumerate() {
            let key = format!("run.compare[{index}]");
            if name.is_empty() {
                self.bad(&key, format!("`{key}` is empty"), "name a controller");
            } else if run
                .compare
                .iter()
                .take(index)
                .any(|earlier| earlier == name)
            {
                self.bad(
                    &key,
                    format!("`{key}` is \"{name}\" again"),
                    "name each controller once",
                );
            }
        }
        let Some(interval) = run.sample_interval else {
            return;
        };
        let key = "run.sample_interval";
        self.time(key, interval, limits::MAX_DURATION);
        let rows = cycles(run.duration, interval, self.scenario.flow_count());
        if interval != Duration::ZERO && rows > u128::from(limits::MAX_SAMPLES) {
            self.too_much(
                key,
                format!("`{key}` of {interval} makes {rows} rows"),
                format!("at most {}; choose a longer interval", limits::MAX_SAMPLES),
            );
        }
    }

    fn rate(&mut self, key: &str, rate: Rate) {
        if rate == Rate::ZERO {
            let hint = "more than 0 bit/s; an outage is an event: path.rate = \"0 bit/s\"";
            self.bad(key, format!("`{key}` is zero"), hint);
        } else {
            self.below(key, rate, limits::MAX_RATE);
        }
    }

    fn share(&mut self, key: &str, share: Gain) {
        self.within(key, share, Gain::from_millionths(0), Gain::ONE);
    }

    fn flows(&mut self) {
        let scenario = self.scenario;
        if scenario.flows.is_empty() {
            self.bad(
                "flows",
                "there are no flows",
                "say who sends: [[flows]] with cc = \"bbr3\"",
            );
        }
        for (index, group) in scenario.flows.iter().enumerate() {
            self.group(&format!("flows[{index}]"), group);
        }
        let flows = scenario.flow_count();
        if scenario.flows.len() > 1 && flows > limits::MAX_FLOWS {
            self.too_much(
                "flows",
                format!("{flows} flows in all"),
                format!("at most {}", limits::MAX_FLOWS),
            );
        }
    }

    fn group(&mut self, at: &str, group: &FlowGroup) {
        let key = |name: &str| format!("{at}.{name}");
        let duration = self.scenario.run.duration;
        if group.cc.name.is_empty() {
            self.bad(&key("cc"), "the controller has no name", "cc = \"bbr3\"");
        }
        self.within(&key("count"), u64::from(group.count), 1, limits::MAX_FLOWS);
        let last = group.start + group.stagger * u64::from(group.count.saturating_sub(1));
        let last = last + group.start_jitter;
        if duration == Duration::ZERO {
            // Reported by itself; every start would be too late.
        } else if group.start >= duration {
            let message = format!(
                "`{at}.start` is {}, but the run lasts {duration}",
                group.start
            );
            self.bad(&key("start"), message, "start before the run ends");
        } else if last >= duration {
            let late = match group.stagger {
                Duration::ZERO => "start_jitter",
                _ => "stagger",
            };
            let message = format!(
                "the last flow of `{at}` may start at {last}, but the run lasts {duration}"
            );
            self.bad(&key(late), message, "start every flow before the run ends");
        }
        if let Some(stop) = group.stop
            && stop <= last
        {
            let message = format!("`{at}.stop` is {stop}, but its last flow may start at {last}");
            self.bad(&key("stop"), message, "stop after the last start");
        }
        if let Some(rtt) = group.rtt {
            self.time(&key("rtt"), rtt, limits::MAX_RTT);
        }
        self.route(at, group);
        if let Some(host) = &group.host {
            self.host(&key("host"), host);
        }
        self.app(&key("app"), &group.app, u64::from(group.count));
        let most = u64::from(u32::MAX);
        self.within(
            &key("initial_window"),
            u64::from(group.initial_window),
            1,
            limits::MAX_INITIAL_WINDOW,
        );
        self.within(&key("ack.every"), u64::from(group.ack.every), 1, most);
        let delay = group.ack.delay;
        self.within(&key("ack.delay"), delay, Duration::ZERO, limits::MAX_RTT);
        self.within(
            &key("recovery.min_rto"),
            group.recovery.min_rto,
            limits::MIN_RTO,
            limits::MAX_RTO,
        );
        let mtu = self.scenario.path.mtu;
        if group.header >= mtu {
            let message = format!("`{at}.header` is {}, but a packet has {mtu}", group.header);
            self.bad(&key("header"), message, "smaller than path.mtu");
        } else {
            self.within(&key("header"), group.header, limits::MIN_HEADER, mtu);
        }
        let payload = mtu - group.header;
        if group.receive_window < payload {
            let message = format!(
                "`{at}.receive_window` is {}, less than a packet's payload of {payload}",
                group.receive_window
            );
            self.bad(&key("receive_window"), message, "nothing could be sent");
        }
        if group.max_burst.is_some_and(|burst| burst < payload) {
            let message = format!("`{at}.max_burst` is less than a packet's payload of {payload}");
            self.bad(&key("max_burst"), message, "nothing could be sent");
        }
    }

    fn app(&mut self, key: &str, app: &App, flows: u64) {
        match app {
            App::Bulk => {}
            App::Sized { size } => {
                if *size == Bytes::ZERO {
                    self.bad(
                        &format!("{key}.size"),
                        format!("`{key}.size` is zero"),
                        "at least 1 B",
                    );
                }
            }
            App::Limited { rate } => self.rate(&format!("{key}.rate"), *rate),
            App::OnOff { on, off, rate } => {
                self.time(&format!("{key}.on"), *on, limits::MAX_DURATION);
                self.time(&format!("{key}.off"), *off, limits::MAX_DURATION);
                if let Some(rate) = rate {
                    self.rate(&format!("{key}.rate"), *rate);
                }
                let cycles = cycles(self.scenario.run.duration, *on + *off, flows);
                if cycles > u128::from(limits::MAX_CYCLES) {
                    self.too_much(
                        key,
                        format!("`{key}` makes {cycles} on/off cycles"),
                        format!("at most {}; choose longer periods", limits::MAX_CYCLES),
                    );
                }
            }
        }
    }

    fn events(&mut self) {
        let events = &self.scenario.events;
        if events.len() > limits::MAX_EVENTS {
            self.too_much(
                "events",
                format!("{} events", events.len()),
                format!("at most {}", limits::MAX_EVENTS),
            );
        }
        for (index, event) in events.iter().enumerate() {
            self.event(&format!("events[{index}]"), event);
        }
    }

    fn event(&mut self, at: &str, event: &Event) {
        let duration = self.scenario.run.duration;
        let after = |time| format!("it happens at {time}, but the run lasts {duration}");
        match &event.when {
            When::At(time) if *time >= duration => {
                self.bad(
                    &format!("{at}.when"),
                    after(time),
                    "choose a time before the end, or a longer run.duration",
                );
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
                    self.bad(
                        &format!("{at}.when.enters"),
                        "the state has no name",
                        "such as \"Drain\"",
                    );
                }
                self.within(
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
            self.bad(
                at,
                format!("`{at}` changes nothing"),
                "say what: path.rate = \"-10 %\" or flow = { flow = 0, app = \"pause\" }",
            );
        }
        if let Some(change) = &event.path {
            if (PathChange {
                link: None,
                ..change.clone()
            }) == PathChange::default()
            {
                self.bad(
                    &format!("{at}.path"),
                    format!("`{at}.path` changes nothing"),
                    "say what, such as path.rate = \"-10 %\" or path.loss = \"1 %\"",
                );
            }
            if let Some(rtt) = change.rtt {
                self.time(&format!("{at}.path.rtt"), rtt, limits::MAX_RTT);
            }
            self.event_link(&format!("{at}.path"), change);
            self.impairments(&format!("{at}.path"), change);
            let key = format!("{at}.path.rate");
            let main = change.link.as_ref() == Some(&self.scenario.path.name);
            match (change.rate, &self.scenario.path.rate) {
                (Some(RateChange::Absolute(rate)), _) => {
                    self.below(&key, rate, limits::MAX_RATE);
                }
                (Some(RateChange::Factor(_)), RateSource::Trace { .. })
                    if main || change.link.is_none() =>
                {
                    self.bad(
                        &key,
                        "a change in percent needs a fixed rate, and the path has a trace",
                        "give the new rate, such as \"5 Mbit/s\"",
                    )
                }
                _ => {}
            }
        }
        if let Some(change) = &event.flow {
            self.flow_number(&format!("{at}.flow.flow"), change.flow);
            if let AppChange::Set(app) = &change.app {
                self.app(&format!("{at}.flow.app"), app, 1);
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

    /// Whether the fastest link, at the highest rate that it may have, passes more packets than a
    /// run may take. The capacity of a trace is not known here.
    fn work(&mut self) {
        let scenario = self.scenario;
        let mut peak = match scenario.path.rate {
            RateSource::Fixed(rate) => rate,
            RateSource::Trace { .. } => Rate::ZERO,
        };
        for link in &scenario.links {
            peak = peak.max(link.rate);
        }
        let changes = || {
            scenario
                .events
                .iter()
                .filter_map(|event| event.path.as_ref()?.rate)
        };
        for change in changes() {
            if let RateChange::Absolute(rate) = change {
                peak = peak.max(rate);
            }
        }
        for change in changes() {
            if let RateChange::Factor(factor) = change {
                peak = peak * factor.max(Gain::ONE);
            }
        }
        if peak > limits::MAX_RATE && changes().any(|c| matches!(c, RateChange::Factor(_))) {
            self.too_much(
                "events",
                format!("the events may raise the rate to {peak}"),
                format!("at most {}", limits::MAX_RATE),
            );
        }
        let packets = peak
            .volume_in(scenario.run.duration)
            .packets(scenario.path.mtu.get());
        if packets > limits::MAX_PACKETS {
            self.too_much(
                "run.duration",
                format!(
                    "{} at {peak} is {packets} packets of {}",
                    scenario.run.duration, scenario.path.mtu
                ),
                format!(
                    "at most {}; choose a shorter run or a lower rate",
                    limits::MAX_PACKETS
                ),
            );
        }
    }
}

/// How many periods `flows` flows go through.
fn cycles(duration: Duration, period: Duration, flows: u64) -> u128 {
    let each = u128::from(duration.as_nanos()) / u128::from(period.as_nanos().max(1));
    each * u128::from(flows)
}
