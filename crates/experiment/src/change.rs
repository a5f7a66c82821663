//! What a scenario changes on the way: from its keys to the link or flow, and to the record.

use paceline_path::{Burst, Link, Loss, Packet, Policing};
use paceline_recovery::Workload;
use paceline_scenario::{
    AppChange, Event, LinkSection, PathChange, Policer, PolicerChange, RateChange, Scenario,
};
use paceline_units::{Duration, Gain, Instant, Rate};

use crate::workload;

/// A change that the scenario asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A link, by its number, becomes another.
    Link(usize, LinkChange),
    /// The path's base RTT becomes this.
    Rtt(Duration),
    /// ACKs come back in slots of this length.
    AckAggregation(Duration),
    /// A flow's application stops writing.
    Pause(usize),
    /// A flow's application goes on writing.
    Resume(usize),
    /// A flow's application becomes another.
    Workload(usize, Workload),
}

/// A change of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkChange {
    /// The rate becomes this.
    Rate(Rate),
    /// The rate is multiplied by this.
    RateBy(Gain),
    /// Packets are lost like this.
    Loss(Loss),
    /// The next packets offered are dropped.
    Drop(u64),
    /// The next packets accepted arrive so much later.
    Hold(u64, Duration),
    /// So many packets arrive so much later.
    Reorder(Gain, Duration),
    /// So many packets arrive twice.
    Duplicate(Gain),
    /// Each packet arrives later by up to this.
    Jitter(Duration),
    /// What comes is policed.
    Policer(Option<Policing>),
    /// What departs is bundled in slots of this length.
    Aggregation(Duration),
}

impl LinkChange {
    /// Does it.
    pub fn apply<P: Packet + Clone>(self, now: Instant, link: &mut Link<P>) {
        match self {
            Self::Rate(rate) => link.set_rate(now, rate),
            Self::RateBy(factor) => link.set_rate(now, link.rate() * factor),
            Self::Loss(loss) => link.set_loss(now, loss),
            Self::Drop(count) => link.drop_next(count),
            Self::Hold(count, delay) => link.hold_next(now, count, delay),
            Self::Reorder(probability, delay) => link.set_reorder(now, probability, delay),
            Self::Duplicate(probability) => link.set_duplicate(probability),
            Self::Jitter(jitter) => link.set_jitter(now, jitter),
            Self::Policer(policing) => link.set_policer(now, policing),
            Self::Aggregation(slot) => link.set_aggregation(now, slot),
        }
    }

    /// What it is called in the record, and what it says.
    fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Rate(rate) => ("rate", format!("{} bit/s", rate.bps())),
            Self::RateBy(by) => ("rate", format!("{} of it", percent(*by))),
            Self::Loss(Loss::Independent(share)) => ("loss", percent(*share)),
            Self::Loss(Loss::Burst(Burst { p, r, good, bad })) => {
                let [p, r, good, bad] = [p, r, good, bad].map(|share| percent(*share));
                ("loss", format!("p {p}, r {r}, good {good}, bad {bad}"))
            }
            Self::Drop(count) => ("drop", format!("{count} packets")),
            Self::Hold(count, delay) => {
                let nanos = delay.as_nanos();
                ("hold", format!("{count} packets for {nanos} ns"))
            }
            Self::Reorder(share, delay) => {
                let nanos = delay.as_nanos();
                ("reorder", format!("{} by {nanos} ns", percent(*share)))
            }
            Self::Duplicate(share) => ("duplicate", percent(*share)),
            Self::Jitter(jitter) => ("jitter", nanos(*jitter)),
            Self::Policer(None) => ("policer", "off".into()),
            Self::Policer(Some(Policing { rate, burst })) => {
                let (rate, burst) = (rate.bps(), burst.get());
                ("policer", format!("{rate} bit/s, {burst} B"))
            }
            Self::Aggregation(slot) => ("aggregation", nanos(*slot)),
        }
    }
}

impl Change {
    /// The flow it concerns, what it is called in the record, and what it says.
    pub fn describe(&self) -> (Option<usize>, &'static str, String) {
        match self {
            Self::Link(_, change) => {
                let (kind, detail) = change.describe();
                (None, kind, detail)
            }
            Self::Rtt(rtt) => (None, "rtt", nanos(*rtt)),
            Self::AckAggregation(slot) => (None, "ack_aggregation", nanos(*slot)),
            Self::Pause(flow) => (Some(*flow), "app", "pause".into()),
            Self::Resume(flow) => (Some(*flow), "app", "resume".into()),
            Self::Workload(flow, workload) => (Some(*flow), "app", format!("{workload:?}")),
        }
    }
}

fn percent(share: Gain) -> String {
    format!("{} %", f64::from(share.millionths()) / 1e4)
}

fn nanos(time: Duration) -> String {
    format!("{} ns", time.as_nanos())
}

/// As the path has it.
pub(crate) fn loss(loss: paceline_scenario::Loss) -> Loss {
    match loss {
        paceline_scenario::Loss::Independent(share) => Loss::Independent(share),
        paceline_scenario::Loss::Burst(burst) => Loss::Burst(Burst {
            p: burst.p,
            r: burst.r,
            good: burst.good,
            bad: burst.bad,
        }),
    }
}

fn policing(policer: &Policer) -> Policing {
    Policing {
        rate: policer.rate,
        burst: policer.burst,
    }
}

/// What a link has from the start beside its queue and its loss.
pub(crate) fn at_start(link: &LinkSection) -> impl Iterator<Item = LinkChange> {
    let reorder = link.reorder;
    [
        reorder.map(|reorder| LinkChange::Reorder(reorder.probability, reorder.delay)),
        Some(LinkChange::Duplicate(link.duplicate)),
        Some(LinkChange::Jitter(link.jitter)),
        Some(LinkChange::Policer(link.policer.as_ref().map(policing))),
        Some(LinkChange::Aggregation(link.aggregation)),
    ]
    .into_iter()
    .flatten()
}

/// What an event asks for, in the order in which it is done; `mss` is that of a flow.
pub fn of_event(scenario: &Scenario, event: &Event, mss: impl Fn(usize) -> u32) -> Vec<Change> {
    let of_path = |path| of_path(scenario, path);
    let mut changes = event.path.as_ref().map(of_path).unwrap_or_default();
    if let Some(change) = &event.flow {
        let flow = change.flow as usize;
        changes.push(match &change.app {
            AppChange::Pause => Change::Pause(flow),
            AppChange::Resume => Change::Resume(flow),
            AppChange::Set(app) => Change::Workload(flow, workload(app, mss(flow))),
        });
    }
    changes
}

fn of_path(scenario: &Scenario, path: &PathChange) -> Vec<Change> {
    let named = path.link.as_ref();
    let number = named
        .and_then(|name| scenario.link_number(name))
        .unwrap_or(0);
    let link = [
        path.rate.map(|rate| match rate {
            RateChange::Absolute(rate) => LinkChange::Rate(rate),
            RateChange::Factor(factor) => LinkChange::RateBy(factor),
        }),
        path.loss.map(|change| LinkChange::Loss(loss(change))),
        path.drop.map(|count| LinkChange::Drop(u64::from(count))),
        path.hold
            .map(|hold| LinkChange::Hold(u64::from(hold.packets), hold.delay)),
        path.reorder
            .map(|reorder| LinkChange::Reorder(reorder.probability, reorder.delay)),
        path.duplicate.map(LinkChange::Duplicate),
        path.jitter.map(LinkChange::Jitter),
        path.policer.as_ref().map(|change| {
            LinkChange::Policer(match change {
                PolicerChange::Off => None,
                PolicerChange::Set(policer) => Some(policing(policer)),
            })
        }),
        path.aggregation.map(LinkChange::Aggregation),
    ];
    let mut changes: Vec<Change> = link
        .into_iter()
        .flatten()
        .map(|change| Change::Link(number, change))
        .collect();
    // The RTT comes after the rate.
    let after_rate = usize::from(path.rate.is_some());
    changes.splice(after_rate..after_rate, path.rtt.map(Change::Rtt));
    changes.extend(path.ack_aggregation.map(Change::AckAggregation));
    changes
}
