use std::collections::BinaryHeap;

use paceline_units::{Duration, Instant};

use paceline_experiment::Change;

/// Changes upon a flow's entry into a state.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub flow: usize,
    pub phase: String,
    /// Which entry, counted from 1.
    pub nth: u32,
    pub delay: Duration,
    pub changes: Vec<Change>,
}

/// A change that is due; of those due together the earlier in the file comes first.
#[derive(Debug, PartialEq)]
struct Due {
    at: Instant,
    order: u32,
    change: Change,
}

impl Eq for Due {}

impl Ord for Due {
    /// Reversed: the heap gives the greatest, we want the earliest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The scenario's `[[events]]`: by time, or upon a flow's state.
#[derive(Debug, Default)]
pub(crate) struct Script {
    due: BinaryHeap<Due>,
    order: u32,
    /// Those that still wait, with how often their state has been entered.
    triggers: Vec<(Trigger, u32)>,
}

impl Script {
    pub fn at(&mut self, at: Instant, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            self.order += 1;
            self.due.push(Due {
                at,
                order: self.order,
                change,
            });
        }
    }

    pub fn upon(&mut self, trigger: Trigger) {
        self.triggers.push((trigger, 0));
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

    /// A flow has entered a state: what waits for it is scheduled.
    pub fn entered(&mut self, now: Instant, flow: usize, phase: &str) {
        let mut fired = Vec::new();
        self.triggers.retain_mut(|(trigger, count)| {
            if trigger.flow != flow || trigger.phase != phase {
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
            self.at(at, changes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_experiment::LinkChange;

    fn drop(packets: u64) -> Change {
        Change::Link(0, LinkChange::Drop(packets))
    }

    #[test]
    fn keeps_the_files_order_among_equals() {
        let mut script = Script::default();
        let t = Instant::from_nanos(5);
        script.at(t, [drop(1), drop(2)]);
        script.at(Instant::from_nanos(3), [drop(3)]);
        assert_eq!(script.next(), Instant::from_nanos(3));
        assert_eq!(script.pop(Instant::from_nanos(2)), None);
        let order: Vec<_> = std::iter::from_fn(|| script.pop(t)).collect();
        assert_eq!(order, [drop(3), drop(1), drop(2)]);
    }

    #[test]
    fn fires_once_at_the_nth_entry() {
        let mut script = Script::default();
        script.upon(Trigger {
            flow: 1,
            phase: "Drain".into(),
            nth: 2,
            delay: Duration::from_nanos(4),
            changes: vec![drop(7)],
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
