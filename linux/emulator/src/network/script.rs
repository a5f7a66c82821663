//! The scenario's changes of the path during the run.

use paceline_experiment::{Change, change_rows};
use paceline_path::Link;
use paceline_units::{Duration, Instant, Rate};

use super::Network;

impl Network<'_> {
    /// Makes the changes that are due.
    pub(super) fn follow_script(&mut self) {
        let now = self.now();
        while let Some((at, change)) = self.script.next_if(|(at, _)| *at <= now) {
            self.apply(*at, change);
        }
    }

    fn apply(&mut self, at: Instant, change: &Change) {
        let rate = match change {
            Change::Link(number, _) => self.links.get(*number).map(Link::rate),
            _ => None,
        };
        let before = rate.unwrap_or(Rate::ZERO);
        self.log.events.extend(change_rows(at, change, before));
        match change {
            Change::Link(number, change) => {
                for number in std::iter::once(*number).chain(self.twin(*number)) {
                    // Nothing may be offered to the link at a time before a change already made.
                    let last = self.offered.get(number).copied().unwrap_or(at);
                    if let Some(link) = self.links.get_mut(number) {
                        let delay = link.delay();
                        change.apply(at.max(last), link);
                        if number == 0 {
                            self.busy.interrupt(at.max(last) + delay.max(link.delay()));
                        }
                    }
                }
            }
            Change::Rtt(rtt) => self.set_rtt(at, *rtt),
            // The flow's own thread does it.
            Change::App(..) => {}
        }
    }

    fn set_rtt(&mut self, at: Instant, rtt: Duration) {
        self.set_up_delay(at, rtt);
        let delays = self.plan.ways.delays(rtt);
        if let Some(number) = self.plan.scenario.return_number(0)
            && let (Some(link), Some(last)) = (self.links.get_mut(number), self.offered.get(number))
        {
            link.set_delay(at.max(*last), delays.back);
        }
        let at = self.offered.first().map_or(at, |last| at.max(*last));
        if let Some(link) = self.links.first_mut() {
            let delay = link.delay().max(delays.link);
            link.set_delay(at, delays.link);
            self.busy.interrupt(at + delay);
        }
        for (lane, delay) in self.lanes.iter_mut().zip(delays.lanes) {
            lane.delay = delay;
        }
    }
}
