//! What a scenario changes of the path while it runs.

use paceline_experiment::Change;
use paceline_units::{Duration, Instant};

use super::Network;
use crate::message::Event;

impl Network<'_> {
    /// Makes the changes that are due.
    pub(super) fn follow_script(&mut self) {
        let now = self.now();
        while let Some((at, change)) = self.script.next_if(|(at, _)| *at <= now) {
            self.apply(*at, change);
        }
    }

    fn apply(&mut self, at: Instant, change: &Change) {
        let (flow, kind, mut detail) = change.describe();
        let mut from = String::new();
        if let Change::Link(number, _) = change {
            if let Some(link) = self.links.get(*number).filter(|_| kind == "rate") {
                from = format!("{} bit/s", link.rate().bps());
            }
            if let Some(section) = self.plan.links.get(*number).filter(|_| *number > 0) {
                detail.push_str(&format!(" at {}", section.name));
            }
        }
        self.log.events.push(Event {
            t: at.as_nanos(),
            flow: flow.map(|flow| flow as u32),
            kind: kind.into(),
            from,
            detail,
        });
        match change {
            Change::Link(number, change) => {
                // Nothing may be offered before a change that has been made.
                let last = self.offered.get(*number).copied().unwrap_or(at);
                if let Some(link) = self.links.get_mut(*number) {
                    let delay = link.delay();
                    change.apply(at.max(last), link);
                    if *number == 0 {
                        self.busy.interrupt(at.max(last) + delay.max(link.delay()));
                    }
                }
            }
            Change::Rtt(rtt) => self.set_rtt(at, *rtt),
            Change::AckAggregation(slot) => self.slot = *slot,
            // The flow's own thread does it.
            Change::Pause(_) | Change::Resume(_) | Change::Workload(..) => {}
        }
    }

    /// Half of a change goes to the path's link, half to the ways back, or all to these where
    /// the data does not cross that link.
    fn set_rtt(&mut self, at: Instant, rtt: Duration) {
        let (old_there, new_there) = (self.rtt / 2, rtt / 2);
        let (old_back, new_back) = (self.rtt - old_there, rtt - new_there);
        let at = self.offered.first().map_or(at, |last| at.max(*last));
        if let Some(link) = self.links.first_mut() {
            let delay = link.delay();
            link.set_delay(at, delay + new_there - old_there);
            self.busy.interrupt(at + delay.max(link.delay()));
        }
        for lane in &mut self.lanes {
            lane.plan.delay = match lane.plan.beside {
                false => lane.plan.delay + new_back - old_back,
                true => lane.plan.delay + rtt - self.rtt,
            };
        }
        self.rtt = rtt;
    }
}
