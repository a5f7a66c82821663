//! The script of a run in progress.

use std::collections::BinaryHeap;

use paceline_experiment::{Change, Script, Trigger};
use paceline_units::Instant;

/// A change that is due. Among changes due together, the earlier in the file comes first.
#[derive(Debug, PartialEq)]
struct Due {
    at: Instant,
    order: u32,
    change: Change,
}

impl Eq for Due {}

impl Ord for Due {
    /// Reversed: the heap returns the maximum, and we want the earliest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The changes that are due, and those that wait for a flow's state.
#[derive(Debug)]
pub(crate) struct Schedule {
    due: BinaryHeap<Due>,
    order: u32,
    /// The changes that still wait, with the number of times their state has been entered.
    triggers: Vec<(Trigger, u32)>,
}

impl Schedule {
    pub fn new(script: Script) -> Self {
        let mut schedule = Self {
            due: BinaryHeap::new(),
            order: 0,
            triggers: script.triggers.into_iter().map(|one| (one, 0)).collect(),
        };
        for (at, change) in script.timed {
            schedule.add(at, change);
        }
        schedule
    }

    fn add(&mut self, at: Instant, change: Change) {
        let order = self.order;
        self.order += 1;
        self.due.push(Due { at, order, change });
    }

    pub fn next(&self) -> Instant {
        self.due.peek().map_or(Instant::MAX, |due| due.at)
    }

    /// The next change that is due by `now`.
    pub fn pop(&mut self, now: Instant) -> Option<Change> {
        if self.next() > now {
            return None;
        }
        self.due.pop().map(|due| due.change)
    }

    /// A flow has entered a state: the changes that wait for it are scheduled.
    pub fn entered(&mut self, now: Instant, flow: usize, phase: &str) {
        let mut fired = Vec::new();
        self.triggers.retain_mut(|(trigger, count)| {
            if trigger.flow != flow || trigger.state != phase {
                return true;
            }
            *count += 1;
            if *count < trigger.nth {
                return true;
            }
            fired.push((now + trigger.delay, std::mem::take(&mut trigger.changes)));
            false
        });
        for (at, changes) in fired {
            for change in changes {
                self.add(at, change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_experiment::LinkChange;
    use paceline_scenario::{LinkKey, Packets};
    use paceline_units::Duration;

    fn drop(packets: u32) -> Change {
        Change::Link(0, LinkChange::Key(LinkKey::Drop(Packets(packets))))
    }

    #[test]
    fn keeps_the_files_order_among_equals() {
        let t = Instant::from_nanos(5);
        let mut script = Schedule::new(Script {
            timed: vec![
                (Instant::from_nanos(3), drop(3)),
                (t, drop(1)),
                (t, drop(2)),
            ],
            ..Script::default()
        });
        assert_eq!(script.next(), Instant::from_nanos(3));
        assert_eq!(script.pop(Instant::from_nanos(2)), None);
        let order: Vec<_> = std::iter::from_fn(|| script.pop(t)).collect();
        assert_eq!(order, [drop(3), drop(1), drop(2)]);
    }

    #[test]
    fn fires_once_at_the_nth_entry() {
        let mut script = Schedule::new(Script {
            triggers: vec![Trigger {
                flow: 1,
                state: "Drain".into(),
                nth: 2,
                delay: Duration::from_nanos(4),
                changes: vec![drop(7)],
            }],
            ..Script::default()
        });
        let now = Instant::from_nanos(10);
        script.entered(now, 0, "Drain");
        script.entered(now, 1, "Startup");
        script.entered(now, 1, "Drain");
        assert_eq!(script.next(), Instant::MAX);
        script.entered(now, 1, "Drain");
        assert_eq!(script.next(), Instant::from_nanos(14));
        script.entered(now, 1, "Drain");
        assert_eq!(script.pop(Instant::MAX), Some(drop(7)));
        assert_eq!(script.pop(Instant::MAX), None);
    }
}
