//! The scenario's changes during a run: from its keys to the link or flow, and to the record.

use paceline_path::{Link, Packet};
use paceline_scenario::{
    AppChange, Event, LinkKey, PathChange, PolicerChange, RateChange, Scenario, Settings,
};
use paceline_units::{Duration, Instant, Rate, Setting};

/// A change that the scenario requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A link, by its number, changes.
    Link(usize, LinkChange),
    /// The path's new base RTT.
    Rtt(Duration),
    /// The action of a flow's application.
    App(usize, AppChange),
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkChange {
    /// Its rate.
    Rate(RateChange),
    /// Another key.
    Key(LinkKey),
}

impl LinkChange {
    /// Applies it.
    pub fn apply<P: Packet + Clone>(self, now: Instant, link: &mut Link<P>) {
        match self {
            Self::Rate(change) => link.set_rate(now, change.apply(link.rate())),
            Self::Key(key) => set(link, key, now),
        }
    }
}

/// Applies a key's value to a link.
pub(crate) fn set<P: Packet + Clone>(link: &mut Link<P>, key: LinkKey, now: Instant) {
    match key {
        LinkKey::Loss(loss) => link.set_loss(now, loss),
        LinkKey::Drop(packets) => link.drop_next(packets.0.into()),
        LinkKey::Hold(hold) => link.hold_next(now, hold),
        LinkKey::Reorder(reorder) => link.set_reorder(now, reorder),
        LinkKey::Duplicate(probability) => link.set_duplicate(probability),
        LinkKey::Jitter(jitter) => link.set_jitter(now, jitter),
        LinkKey::Policer(PolicerChange::Off) => link.set_policer(now, None),
        LinkKey::Policer(PolicerChange::Set(policer)) => link.set_policer(now, Some(policer)),
        LinkKey::Aggregation(slot) => link.set_aggregation(now, slot),
        LinkKey::GrantDelay(delay) => link.set_grant_delay(now, delay),
        LinkKey::AckThinning(every) => link.set_ack_thinning(every.0),
        LinkKey::AckFilter(filter) => link.set_ack_filter(now, filter),
    }
}

impl Change {
    /// The new value of each of the scenario's keys; `rate` is the current rate of the link.
    pub(crate) fn describe(&self, rate: Rate) -> Vec<(String, Setting)> {
        let (key, parts) = match self {
            Self::Link(_, LinkChange::Rate(change)) => ("rate", change.apply(rate).settings()),
            Self::Link(_, LinkChange::Key(key)) => (key.name(), key.settings()),
            Self::Rtt(rtt) => ("rtt", rtt.settings()),
            Self::App(_, change) => ("app", change.settings()),
        };
        let named = |(part, setting): (&str, _)| match part {
            "" => (key.to_owned(), setting),
            part => (format!("{key}.{part}"), setting),
        };
        parts.into_iter().map(named).collect()
    }
}

/// The changes of an event, in the order in which they are made.
pub(crate) fn of_event(scenario: &Scenario, event: &Event) -> Vec<Change> {
    let of_path = |path| of_path(scenario, path);
    let mut changes = event.path.as_ref().map(of_path).unwrap_or_default();
    let of_flow = |change: &paceline_scenario::FlowChange| {
        Change::App(change.flow as usize, change.app.clone())
    };
    changes.extend(event.flow.as_ref().map(of_flow));
    changes
}

fn of_path(scenario: &Scenario, path: &PathChange) -> Vec<Change> {
    let mut rtt = path.rtt.map(Change::Rtt);
    let mut changes = Vec::new();
    for change in path.directions(scenario) {
        let of_link = |to| Change::Link(change.number, to);
        changes.extend(change.rate.map(LinkChange::Rate).map(of_link));
        changes.extend(rtt.take());
        changes.extend(change.keys.keys().map(LinkChange::Key).map(of_link));
    }
    changes
}
