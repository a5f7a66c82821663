//! Checks across values: whether they form an experiment, and one that ends.

use std::fmt::Display;

use paceline_units::{App, Bytes, Crypto, Duration, EcnFeedback, Gain, Rate};

use crate::bounds::{Problem, Problems};
use crate::diagnostic::Diagnostic;
use crate::event::RateChange;
use crate::flow::{AckPolicy, FlowGroup, RecoverySection};
use crate::limits;
use crate::link::RateSource;
use crate::scenario::Scenario;
use crate::section::Key;
use crate::sweep::Seeds;

mod event;
mod link;

/// Collects errors in a scenario whose single values are well formed.
struct Check<'s> {
    scenario: &'s Scenario,
    problems: Problems,
}

pub(crate) fn check(scenario: &Scenario) -> Vec<Diagnostic> {
    let mut check = Check {
        scenario,
        problems: Problems::default(),
    };
    check.head();
    check.run();
    check.path();
    check.links();
    check.returns();
    check.flows();
    check.events();
    check.work();
    check.sweep();
    let shown = |finding: Problem| {
        scenario.problem(
            finding.kind,
            &finding.key,
            finding.message,
            Some(finding.hint),
        )
    };
    check.problems.0.into_iter().map(shown).collect()
}

impl Check<'_> {
    fn bad(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.bad(key, message, hint);
    }

    fn at_most(&mut self, key: &str, message: String, most: impl Display) {
        self.problems
            .too_much(key, message, format!("at most {most}"));
    }

    fn head(&mut self) {
        let schema = self.scenario.schema;
        if schema != 1 {
            let hint = "this version reads schema = 1";
            self.bad("schema", format!("`schema` is {schema}"), hint);
        }
        if self.scenario.name.is_empty() {
            let hint = "leave it out to take the file's name";
            self.bad("name", "`name` is empty", hint);
        }
    }

    fn sweep(&mut self) {
        let Some(sweep) = &self.scenario.sweep else {
            return;
        };
        let run = &self.scenario.run;
        if !run.compare.is_empty() {
            let hint = "vary flows.0.cc in [sweep.over] instead";
            self.bad("run.compare", "`run.compare` stands beside `sweep`", hint);
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
            let message = format!("`sweep` asks for {runs} runs");
            self.at_most("sweep", message, limits::MAX_SWEEP_RUNS);
        }
    }

    fn run(&mut self) {
        let run = &self.scenario.run;
        run.check("run", &mut self.problems);
        let mut flows = self.scenario.flows.iter();
        if run.record.qlog && !flows.any(FlowGroup::is_built_in_quic) {
            let message = "`run.record.qlog` is for quinn and noq, and no flow runs one";
            let wanted = "stack = \"quinn\" in [[flows]], or leave it out";
            self.bad("run.record.qlog", message.to_owned(), wanted);
        }
        if run.compare.len() > limits::MAX_COMPARED {
            let message = format!("`run.compare` names {} controllers", run.compare.len());
            self.at_most("run.compare", message, limits::MAX_COMPARED);
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
                let hint = "name each controller once";
                self.bad(&key, format!("`{key}` is \"{name}\" again"), hint);
            }
        }
        let Some(interval) = run.sample_interval else {
            return;
        };
        let key = "run.sample_interval";
        let rows = cycles(run.duration, interval, self.scenario.flow_count());
        if interval != Duration::ZERO && rows > u128::from(limits::MAX_SAMPLES) {
            let message = format!("`{key}` of {interval} makes {rows} rows");
            let hint = format!("at most {}; choose a longer interval", limits::MAX_SAMPLES);
            self.problems.too_much(key, message, hint);
        }
    }

    fn flows(&mut self) {
        let scenario = self.scenario;
        if scenario.flows.is_empty() {
            let hint = "say who sends: [[flows]] with cc = \"bbr3\"";
            self.bad("flows", "there are no flows", hint);
        }
        for (index, group) in scenario.flows.iter().enumerate() {
            self.group(&format!("flows[{index}]"), group);
        }
        let flows = scenario.flow_count();
        if scenario.flows.len() > 1 && flows > limits::MAX_FLOWS {
            self.at_most("flows", format!("{flows} flows in all"), limits::MAX_FLOWS);
        }
    }

    fn group(&mut self, at: &str, group: &FlowGroup) {
        let key = |name: &str| format!("{at}.{name}");
        let duration = self.scenario.run.duration;
        if group.cc.name.is_empty() {
            self.bad(&key("cc"), "the controller has no name", "cc = \"bbr3\"");
        }
        self.problems
            .within(&key("count"), u64::from(group.count), 1, limits::MAX_FLOWS);
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
        self.route(at, group);
        self.app(&key("app"), &group.app, u64::from(group.count));
        group.check(at, &mut self.problems);
        let mtu = self.scenario.path.mtu;
        let header = group.header();
        if header >= mtu {
            let message = format!("`{at}.header` is {header}, but a packet has {mtu}");
            self.bad(&key("header"), message, "smaller than path.mtu");
        } else {
            let least = limits::min_header(group.is_quic());
            self.problems.within(&key("header"), header, least, mtu);
        }
        let payload = mtu - header;
        self.stack(at, group, payload);
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

    /// The settings fit the transport.
    fn stack(&mut self, at: &str, group: &FlowGroup, payload: Bytes) {
        let key = |name: &str| format!("{at}.{name}");
        if !group.is_quic() {
            let set = [
                ("crypto", group.crypto != Crypto::default()),
                ("timer_slack", group.timer_slack.is_some()),
                ("gso", group.gso),
                ("ack_frequency", group.ack_frequency.is_some()),
            ];
            for (name, _) in set.iter().filter(|(_, is_set)| *is_set) {
                let message = format!("`{at}.{name}` is for QUIC stacks, and these flows run none");
                let wanted = "stack = \"quinn\", or leave it out";
                self.bad(&key(name), message, wanted);
            }
            return;
        }
        let own = [
            ("ack", group.ack != AckPolicy::default()),
            ("recovery", group.recovery != RecoverySection::default()),
            ("ecn", group.ecn != EcnFeedback::default()),
            ("ets", group.ets),
            ("max_burst", group.max_burst.is_some()),
            ("tso_defer", group.tso_defer),
        ];
        let is_guest = !group.is_built_in_quic();
        let built_in = [
            ("crypto", group.crypto != Crypto::default()),
            ("timer_slack", group.timer_slack.is_some()),
            ("gso", group.gso),
            ("ack_frequency", group.ack_frequency.is_some()),
            (
                "initial_window",
                group.initial_window != FlowGroup::INITIAL_WINDOW,
            ),
            (
                "receive_window",
                group.receive_window != FlowGroup::RECEIVE_WINDOW,
            ),
        ];
        let of_libraries = built_in.iter().filter(|_| is_guest);
        for (name, _) in own.iter().chain(of_libraries).filter(|(_, set)| *set) {
            let stack = match is_guest {
                true => "a library's stack",
                false => "a QUIC stack",
            };
            let message = format!("`{at}.{name}` cannot be chosen for {stack}");
            self.bad(&key(name), message, "leave it out");
        }
        if group.is_theirs() && !is_guest && group.initial_window != FlowGroup::INITIAL_WINDOW {
            let key = key("initial_window");
            let message = format!(
                "`{key}` is for our controllers: `{}` has its own",
                group.cc.name
            );
            self.bad(&key, message, "leave it out");
        }
        let (least, most) = (limits::MIN_DATAGRAM, limits::MAX_DATAGRAM);
        if payload < least || payload > most {
            let message = format!("a packet of `path.mtu` has {payload} of UDP payload");
            let wanted = format!(
                "the stacks take {least} to {most}: change `path.mtu`, or leave out `stack`"
            );
            self.bad(&key("stack"), message, wanted);
        }
    }

    fn app(&mut self, key: &str, app: &App, flows: u64) {
        match app {
            App::Bulk => {}
            App::Sized { size } => {
                if *size == Bytes::ZERO {
                    let message = format!("`{key}.size` is zero");
                    let hint = "at least 1 B";
                    self.bad(&format!("{key}.size"), message, hint);
                }
            }
            App::Limited { rate } => self.problems.rate(&format!("{key}.rate"), *rate),
            App::OnOff { on, off, rate } => {
                self.problems
                    .time(&format!("{key}.on"), *on, limits::MAX_DURATION);
                self.problems
                    .time(&format!("{key}.off"), *off, limits::MAX_DURATION);
                if let Some(rate) = rate {
                    self.problems.rate(&format!("{key}.rate"), *rate);
                }
                let cycles = cycles(self.scenario.run.duration, *on + *off, flows);
                if cycles > u128::from(limits::MAX_CYCLES) {
                    let hint = format!("at most {}; choose longer periods", limits::MAX_CYCLES);
                    self.problems.too_much(
                        key,
                        format!("`{key}` makes {cycles} on/off cycles"),
                        hint,
                    );
                }
            }
        }
    }

    /// Whether the fastest link, at its highest rate during the run, passes more packets than a run
    /// may take. The capacity of a trace is not known here.
    fn work(&mut self) {
        let scenario = self.scenario;
        let fixed =
            (0..scenario.link_count()).filter_map(|number| match scenario.rate_source(number)? {
                RateSource::Fixed(rate) => Some(rate),
                RateSource::Trace { .. } => None,
            });
        let mut peak = fixed.fold(Rate::ZERO, Rate::max);
        let changes = || {
            let events = scenario.events.iter();
            let paths = events.filter_map(|event| event.path.as_ref());
            let directions = paths.flat_map(|path| path.directions(scenario));
            directions.filter_map(|change| change.rate)
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
            let message = format!("the events may raise the rate to {peak}");
            self.at_most("events", message, limits::MAX_RATE);
        }
        let packets = peak
            .volume_in(scenario.run.duration)
            .packets(scenario.path.mtu.get());
        if packets > limits::MAX_PACKETS {
            self.problems.too_much(
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

/// The number of periods that `flows` flows go through.
fn cycles(duration: Duration, period: Duration, flows: u64) -> u128 {
    let each = u128::from(duration.as_nanos()) / u128::from(period.as_nanos().max(1));
    each * u128::from(flows)
}
