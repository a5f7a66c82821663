//! `for` of an event: the change is undone after this time.
//!
//! During a pulse no other event changes the same key, so the previous value is known when the
//! scenario is read, and an engine only sees ordinary events.

use std::collections::BTreeMap;

use paceline_units::{App, Duration, Rate};

use crate::app::AppChange;
use crate::bounds::Problems;
use crate::event::{Event, FlowChange, PathChange, RateChange, ReturnChange, When};
use crate::flow::FlowGroup;
use crate::link::{LinkKey, LinkKeyChanges, RateSource};
use crate::scenario::Scenario;

/// The owner of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Link(usize),
    Path,
    Flow(u32),
}

/// A change of a key: the number of the event, and the key as written in it.
type Written<'e> = (usize, &'e Event, String);

/// The state of the path and the flows after some events.
#[derive(Default)]
struct Now {
    rates: BTreeMap<usize, Rate>,
    links: BTreeMap<usize, LinkKeyChanges>,
    rtt: Option<Duration>,
    /// The application of a flow, and whether it is paused.
    apps: BTreeMap<u32, (App, bool)>,
}

impl Scenario {
    /// Its events without `for`: each `for` becomes another event that undoes the change. Undoing
    /// events come first, so that at the same time the end of a pulse precedes the start of the
    /// next.
    pub fn unfolded(&self) -> Vec<Event> {
        let mut order: Vec<&Event> = self.events.iter().collect();
        // Events that wait for a state come first: nothing else changes their keys.
        order.sort_by_key(|event| event.at());
        let mut now = Now::default();
        let mut ends = Vec::new();
        let mut begins = self.events.clone();
        for event in order {
            match (event.r#for, &event.when) {
                (Some(lasts), when) => ends.push(Event {
                    when: when.after(lasts),
                    r#for: None,
                    path: event.path.as_ref().map(|path| now.path(self, path)),
                    flow: event.flow.as_ref().map(|flow| now.flow(self, flow)),
                }),
                (None, When::At(_)) => now.change(self, event),
                (None, When::Enters { .. }) => {}
            }
        }
        begins.iter_mut().for_each(|event| event.r#for = None);
        ends.append(&mut begins);
        ends
    }

    /// The group of a flow, by its number.
    pub(crate) fn group_of(&self, flow: u32) -> Option<&FlowGroup> {
        let mut left = flow;
        self.flows.iter().find(|group| {
            let here = left < group.count;
            left = left.saturating_sub(group.count);
            here
        })
    }

    fn app_of(&self, flow: u32) -> App {
        self.group_of(flow).map_or(App::Bulk, |group| group.app)
    }

    /// The rate of a link at the start of the run, unless it follows a trace.
    fn rate_of(&self, link: usize) -> Option<Rate> {
        match self.rate_source(link)? {
            RateSource::Fixed(rate) => Some(rate),
            RateSource::Trace { .. } => None,
        }
    }
}

impl Event {
    /// When it happens, if that is known.
    pub(crate) fn at(&self) -> Option<Duration> {
        match self.when {
            When::At(time) => Some(time),
            When::Enters { .. } => None,
        }
    }

    /// Its changes: owner, key, and how the event writes it.
    fn keys(&self, scenario: &Scenario) -> Vec<(Owner, &'static str, String)> {
        let mut keys = Vec::new();
        if let Some(path) = &self.path {
            for change in path.directions(scenario) {
                let link = Owner::Link(change.number);
                let mut add = |key| keys.push((link, key, format!("{}.{key}", change.at)));
                if change.rate.is_some() {
                    add("rate");
                }
                change.keys.keys().for_each(|key| add(key.name()));
            }
            let mut add = |owner, key| keys.push((owner, key, format!("path.{key}")));
            if path.rtt.is_some() {
                add(Owner::Path, "rtt");
            }
        }
        if let Some(flow) = &self.flow {
            keys.push((Owner::Flow(flow.flow), "app", "flow.app".to_owned()));
        }
        keys
    }
}

impl When {
    fn after(&self, time: Duration) -> Self {
        let mut later = self.clone();
        match &mut later {
            Self::At(at) => *at += time,
            Self::Enters { delay, .. } => *delay += time,
        }
        later
    }
}

impl Now {
    fn rate(&self, scenario: &Scenario, link: usize) -> Option<Rate> {
        let changed = self.rates.get(&link).copied();
        changed.or_else(|| scenario.rate_of(link))
    }

    fn app(&self, scenario: &Scenario, flow: u32) -> (App, bool) {
        let changed = self.apps.get(&flow).copied();
        changed.unwrap_or_else(|| (scenario.app_of(flow), false))
    }

    /// Applies an event.
    fn change(&mut self, scenario: &Scenario, event: &Event) {
        if let Some(path) = &event.path {
            for change in path.directions(scenario) {
                let link = change.number;
                let rate = match change.rate {
                    Some(RateChange::Absolute(rate)) => Some(rate),
                    Some(factor) => self.rate(scenario, link).map(|rate| factor.apply(rate)),
                    None => None,
                };
                self.rates.extend(rate.map(|rate| (link, rate)));
                self.links.entry(link).or_default().update(change.keys);
            }
            self.rtt = path.rtt.or(self.rtt);
        }
        if let Some(flow) = &event.flow {
            let (app, paused) = self.app(scenario, flow.flow);
            let becomes = match flow.app {
                AppChange::Pause => (app, true),
                AppChange::Resume => (app, false),
                AppChange::Set(app) => (app, paused),
            };
            self.apps.insert(flow.flow, becomes);
        }
    }

    /// The event that undoes a change of the path.
    fn path(&self, scenario: &Scenario, change: &PathChange) -> PathChange {
        let path = &scenario.path;
        let undone = change.directions(scenario).map(|change| {
            let so_far = self.links.get(&change.number).cloned().unwrap_or_default();
            let rate = change.rate.and_then(|_| self.rate(scenario, change.number));
            ReturnChange {
                rate: rate.map(RateChange::Absolute),
                keys: change.keys.back(scenario.link_keys(change.number), &so_far),
            }
        });
        let mut undone = undone.fuse();
        let forward = undone.next().unwrap_or_default();
        PathChange {
            link: change.link.clone(),
            rate: forward.rate,
            rtt: change.rtt.map(|_| self.rtt.unwrap_or(path.rtt)),
            keys: forward.keys,
            r#return: undone.next(),
        }
    }

    /// The event that undoes a change of a flow.
    fn flow(&self, scenario: &Scenario, change: &FlowChange) -> FlowChange {
        let (app, paused) = self.app(scenario, change.flow);
        let back = match (&change.app, paused) {
            (AppChange::Set(_), _) => AppChange::Set(app),
            (AppChange::Pause | AppChange::Resume, true) => AppChange::Pause,
            (AppChange::Pause | AppChange::Resume, false) => AppChange::Resume,
        };
        FlowChange {
            flow: change.flow,
            app: back,
        }
    }
}

/// Finds pulses that do not end in the run, whose change cannot be undone, or that overlap another
/// event's change.
pub(crate) fn check(scenario: &Scenario, problems: &mut Problems) {
    let mut changes: BTreeMap<(Owner, &str), Vec<Written<'_>>> = BTreeMap::new();
    let mut so_far = Now::default();
    let mut order: Vec<(usize, &Event)> = scenario.events.iter().enumerate().collect();
    order.sort_by_key(|(_, event)| event.at());
    for (number, event) in order {
        for (owner, key, written) in event.keys(scenario) {
            let all = changes.entry((owner, key)).or_default();
            all.push((number, event, written));
        }
        match event.r#for {
            Some(lasts) => single(scenario, (number, event, lasts), &so_far, problems),
            None if event.at().is_some() => so_far.change(scenario, event),
            None => {}
        }
    }
    for all in changes.values() {
        // Those that wait for a state come first.
        let (waiting, timed) =
            all.split_at(all.partition_point(|(_, event, _)| event.at().is_none()));
        for pair in timed.windows(2) {
            if let [earlier, later] = pair {
                meeting(earlier, later, problems);
            }
        }
        let pulse = all.iter().find(|(_, event, _)| event.r#for.is_some());
        for one in waiting {
            let other = match one.1.r#for {
                Some(_) => all.iter().find(|(number, ..)| *number != one.0),
                None => pulse,
            };
            if let Some(other) = other {
                meeting(one, other, problems);
            }
        }
    }
}

/// The errors in a pulse on its own.
fn single(
    scenario: &Scenario,
    (number, event, lasts): (usize, &Event, Duration),
    so_far: &Now,
    problems: &mut Problems,
) {
    let key = format!("events[{number}].for");
    let duration = scenario.run.duration;
    let end = event.at().unwrap_or_default() + lasts;
    if end >= duration {
        problems.bad(
            &key,
            format!("`events[{number}]` ends at {end}, but the run lasts {duration}"),
            "end before the run does, or leave `for` out",
        );
    }
    let directions = event.path.iter().flat_map(|path| path.directions(scenario));
    for change in directions {
        let link = change.number;
        let back = change
            .keys
            .back(scenario.link_keys(link), &LinkKeyChanges::default());
        let once = |key: &LinkKey| back.keys().all(|back| back.name() != key.name());
        if let Some(once) = change.keys.keys().find(once) {
            let (at, name) = (change.at, once.name());
            let hint = "give it an event of its own, without `for`";
            problems.bad(&key, format!("`{at}.{name}` happens once"), hint);
        }
        if change.rate.is_some() && so_far.rate(scenario, link).is_none() {
            problems.bad(
                &key,
                "the link follows a trace, and a trace is not taken up again",
                "write the outage into the trace, or leave `for` out",
            );
        }
    }
}

/// Finds that the earlier of two changes of a key lasts into the other, or may do so.
fn meeting(
    (first, earlier, written): &Written<'_>,
    (second, later, _): &Written<'_>,
    problems: &mut Problems,
) {
    let (pulse, other) = match (earlier.r#for, later.r#for) {
        (Some(_), _) => (first, second),
        (None, Some(_)) => (second, first),
        (None, None) => return,
    };
    let key = format!("events[{pulse}].for");
    match (earlier.at(), later.at()) {
        (Some(at), Some(next)) => {
            if next < at + earlier.r#for.unwrap_or_default() || next == at {
                problems.bad(
                    &key,
                    format!("`events[{other}]` changes `{written}` while `events[{pulse}]` lasts"),
                    "end one before the other begins",
                );
            }
        }
        _ => problems.bad(
            &key,
            format!(
                "`events[{other}]` changes `{written}` too, and when a state begins is not known"
            ),
            "give both a time of the run, or leave `for` out",
        ),
    }
}

#[cfg(test)]
mod tests {
    use paceline_units::{Gain, Reorder};

    use super::*;
    use crate::link::PolicerChange;
    use crate::vocabulary::Vocabulary;

    static VOCABULARY: Vocabulary = Vocabulary {
        queues: paceline_path::QUEUES,
        early_signals: paceline_path::EARLY_SIGNALS,
    };

    const HEAD: &str = "schema = 1\nrun.duration = \"60 s\"\n\
        [path]\nrate = \"10 Mbit/s\"\nrtt = \"40 ms\"\nloss = \"1 %\"\nqueue.size = \"1 bdp\"\n\
        [[links]]\nname = \"nic\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 MB\"\n\
        [[flows]]\ncc = \"reno\"\n\
        [[flows]]\ncc = \"reno\"\ncount = 2\napp = { rate = \"1 Mbit/s\" }\n";

    fn read(events: &str) -> Result<Scenario, Vec<String>> {
        let text = format!("{HEAD}{events}");
        Scenario::parse(&text, "x.toml", &[], &VOCABULARY).map_err(|problems| {
            let message = |d: crate::Diagnostic| format!("{}: {}", d.key, d.message);
            problems.into_iter().map(message).collect()
        })
    }

    fn ends(events: &str) -> Vec<Event> {
        let scenario = read(events).unwrap();
        let mut events = scenario.unfolded();
        assert!(events.iter().all(|event| event.r#for.is_none()));
        let ends = events.len() - scenario.events.len();
        events.truncate(ends);
        events
    }

    #[test]
    fn each_key_returns_to_what_the_file_says() {
        let result = ends(
            "[[events]]\nwhen = \"10 s\"\nfor = \"5 s\"\n\
             path = { rate = \"0 bit/s\", rtt = \"80 ms\", loss = \"5 %\", jitter = \"2 ms\" }\n\
             flow = { flow = 2, app = \"bulk\" }\n",
        );
        let [end] = &result[..] else { panic!() };
        let path = end.path.as_ref().unwrap();
        assert_eq!(end.when, When::At(Duration::from_secs(15)));
        let rate = Rate::parse("10 Mbit/s").unwrap();
        assert_eq!(path.rate, Some(RateChange::Absolute(rate)));
        assert_eq!(path.rtt, Some(Duration::from_millis(40)));
        let keys: Vec<LinkKey> = path.keys.keys().collect();
        let loss = paceline_units::Loss::Independent(Gain::from_millionths(10_000));
        assert_eq!(keys, [LinkKey::Loss(loss), LinkKey::Jitter(Duration::ZERO)]);
        let rate = Rate::parse("1 Mbit/s").unwrap();
        let app = AppChange::Set(App::Limited { rate });
        assert_eq!(end.flow, Some(FlowChange { flow: 2, app }));
    }

    #[test]
    fn what_a_link_had_none_of_ends() {
        let result = ends(
            "[[events]]\nwhen = \"1 s\"\nfor = \"1 s\"\n[events.path]\nlink = \"nic\"\n\
             policer = { rate = \"1 Mbit/s\", burst = \"10 kB\" }\n\
             reorder = { probability = \"1 %\", delay = \"3 ms\" }\n",
        );
        let path = result[0].path.as_ref().unwrap();
        assert_eq!(path.link.as_deref(), Some("nic"));
        assert_eq!(path.keys.policer, Some(PolicerChange::Off));
        let reorder = Reorder {
            probability: Gain::from_millionths(0),
            delay: Duration::from_millis(3),
        };
        assert_eq!(path.keys.reorder, Some(reorder));
        assert_eq!(path.keys.loss, None);
    }

    #[test]
    fn a_pulse_returns_to_what_events_have_made_of_it() {
        // Not in order of time, and by a factor: 10 Mbit/s becomes 5 at 5 s, and 20 at 30 s.
        let result = ends(
            "[[events]]\nwhen = \"40 s\"\nfor = \"1 s\"\npath.rate = \"-10 %\"\n\
             [[events]]\nwhen = \"30 s\"\npath.rate = \"20 Mbit/s\"\n\
             [[events]]\nwhen = \"10 s\"\nfor = \"20 s\"\npath.rate = \"1 Mbit/s\"\n\
             [[events]]\nwhen = \"5 s\"\npath.rate = \"-50 %\"\n\
             [[events]]\nwhen = \"1 s\"\nfor = \"4 s\"\npath.rate = \"0 bit/s\"\n",
        );
        let back: Vec<_> = result
            .iter()
            .map(|end| (end.at().unwrap(), end.path.as_ref().unwrap().rate))
            .collect();
        let change = |seconds, text| {
            let rate = RateChange::Absolute(Rate::parse(text).unwrap());
            (Duration::from_secs(seconds), Some(rate))
        };
        let wanted = [
            change(5, "10 Mbit/s"),
            change(30, "5 Mbit/s"),
            change(41, "20 Mbit/s"),
        ];
        assert_eq!(back, wanted);
    }

    #[test]
    fn an_application_resumes_unless_it_was_paused() {
        let pulse =
            "[[events]]\nwhen = \"10 s\"\nfor = \"5 s\"\nflow = { flow = 0, app = \"pause\" }\n";
        let back = |events: &str| ends(events)[0].flow.clone().unwrap().app;
        assert_eq!(back(pulse), AppChange::Resume);
        let paused = "[[events]]\nwhen = \"1 s\"\nflow = { flow = 0, app = \"pause\" }\n";
        assert_eq!(back(&format!("{paused}{pulse}")), AppChange::Pause);
    }

    #[test]
    fn a_pulse_upon_a_state_ends_so_long_after_it() {
        let result = ends(
            "[[events]]\nwhen = { flow = 0, enters = \"Drain\", delay = \"1 s\" }\nfor = \"2 s\"\npath.loss = \"9 %\"\n",
        );
        let When::Enters { delay, .. } = &result[0].when else {
            panic!()
        };
        assert_eq!(*delay, Duration::from_secs(3));
    }

    #[test]
    fn changes_of_one_key_do_not_meet_a_pulse() {
        let pulse = "[[events]]\nwhen = \"10 s\"\nfor = \"5 s\"\npath.loss = \"2 %\"\n";
        let with = |rest: &str| read(&format!("{pulse}[[events]]\n{rest}\n"));
        for (rest, meets) in [
            ("when = \"12 s\"\npath.loss = \"3 %\"", true),
            ("when = \"10 s\"\npath.loss = \"3 %\"", true),
            ("when = \"9 s\"\nfor = \"2 s\"\npath.loss = \"3 %\"", true),
            (
                "when = { flow = 0, enters = \"Drain\" }\npath.loss = \"3 %\"",
                true,
            ),
            (
                "when = { flow = 0, enters = \"Drain\" }\npath.loss = \"3 %\"\n\
                 [[events]]\nwhen = \"5 s\"\npath.loss = \"3 %\"",
                true,
            ),
            ("when = \"15 s\"\npath.loss = \"3 %\"", false),
            ("when = \"9 s\"\nfor = \"1 s\"\npath.loss = \"3 %\"", false),
            ("when = \"12 s\"\npath.rate = \"3 Mbit/s\"", false),
            (
                "when = \"12 s\"\npath = { link = \"nic\", loss = \"3 %\" }",
                false,
            ),
        ] {
            let result = with(rest);
            assert_eq!(result.is_err(), meets, "{rest}: {result:?}");
        }
    }

    #[test]
    fn what_cannot_end_is_refused() {
        let event = |rest: &str| {
            let result = read(&format!("[[events]]\nwhen = \"10 s\"\n{rest}\n"));
            result.unwrap_err()
        };
        assert_eq!(
            event("for = \"50 s\"\npath.loss = \"3 %\""),
            ["events[0].for: `events[0]` ends at 60 s, but the run lasts 60 s"]
        );
        assert_eq!(
            event("for = \"5 s\"\npath.drop = \"3 packets\""),
            ["events[0].for: `path.drop` happens once"]
        );
        assert_eq!(
            event("for = \"0 s\"\npath.loss = \"3 %\""),
            ["events[0].for: `events[0].for` is zero"]
        );
    }
}
