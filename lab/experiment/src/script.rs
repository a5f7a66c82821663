//! Changes during a run: by time, or when a flow's controller enters a state.

use paceline_recovery::Application;
use paceline_scenario::{AppChange, Scenario, When};
use paceline_units::{Duration, Instant};

use crate::change::{self, Change};

/// The changes that a scenario requests.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// In order of time; events at the same time in the order of the file.
    pub timed: Vec<(Instant, Change)>,
    /// By a flow's state, in the order of the file.
    pub triggers: Vec<Trigger>,
}

/// Changes when a flow enters a state.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The flow, by number.
    pub flow: usize,
    /// The state, by its controller's name for it.
    pub state: String,
    /// The entry, counted from 1.
    pub nth: u32,
    /// Delay after it.
    pub delay: Duration,
    /// The change.
    pub changes: Vec<Change>,
}

impl Script {
    /// Every change that it may make.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        let triggered = self.triggers.iter().flat_map(|trigger| &trigger.changes);
        self.timed.iter().map(|(_, change)| change).chain(triggered)
    }
}

/// The script of a scenario.
pub(crate) fn script(scenario: &Scenario) -> Script {
    let mut script = Script::default();
    for event in scenario.unfolded() {
        let changes = change::of_event(scenario, &event);
        match &event.when {
            When::At(at) => {
                let at = Instant::ZERO + *at;
                let changes = changes.into_iter().map(|change| (at, change));
                script.timed.extend(changes);
            }
            When::Enters {
                flow,
                state,
                nth,
                delay,
            } => script.triggers.push(Trigger {
                flow: *flow as usize,
                state: state.clone(),
                nth: *nth,
                delay: *delay,
                changes,
            }),
        }
    }
    script.timed.sort_by_key(|(at, _)| *at);
    script
}

impl Change {
    /// The flow whose application it concerns, by number.
    pub fn flow(&self) -> Option<usize> {
        match self {
            Self::App(flow, _) => Some(*flow),
            Self::Link(..) | Self::Rtt(_) => None,
        }
    }

    /// Passes the action to that application.
    pub fn steer(&self, now: Instant, application: &mut Application) {
        match self {
            Self::App(_, AppChange::Pause) => application.pause(now),
            Self::App(_, AppChange::Resume) => application.resume(now),
            Self::App(_, AppChange::Set(app)) => application.set_app(now, *app),
            Self::Link(..) | Self::Rtt(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_is_two_changes_and_ends_before_the_next_begins() {
        let read = |events: &str| {
            let head = "schema = 1\nrun.duration = \"30 s\"\n\
                [path]\nrate = \"100 Mbit/s\"\nrtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n\
                [[flows]]\ncc = \"reno\"\n";
            script(&crate::parse(&format!("{head}{events}"), "test.toml", &[]).unwrap())
        };
        let event = |rest: &str| format!("[[events]]\nwhen = {rest}\n");
        let pulses = read(
            &(event("\"6 s\"\nfor = \"1 s\"\npath.rate = \"-50 %\"")
                + &event("\"4 s\"\nfor = \"2 s\"\npath.rate = \"0 bit/s\"")
                + &event(
                    "{ flow = 0, enters = \"SlowStart\" }\nfor = \"1 s\"\npath.rtt = \"9 ms\"",
                )),
        );
        let plain = read(
            &(event("\"4 s\"\npath.rate = \"0 bit/s\"")
                + &event("\"6 s\"\npath.rate = \"100 Mbit/s\"")
                + &event("\"6 s\"\npath.rate = \"-50 %\"")
                + &event("\"7 s\"\npath.rate = \"100 Mbit/s\"")
                + &event(
                    "{ flow = 0, enters = \"SlowStart\", delay = \"1 s\" }\npath.rtt = \"40 ms\"",
                )
                + &event("{ flow = 0, enters = \"SlowStart\" }\npath.rtt = \"9 ms\"")),
        );
        assert_eq!(pulses.timed, plain.timed);
        let triggered = |script: Script| -> Vec<_> {
            let triggers = script.triggers.into_iter();
            triggers.map(|t| (t.delay, t.changes)).collect()
        };
        assert_eq!(triggered(pulses), triggered(plain));
    }
}
