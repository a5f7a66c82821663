//! The time that a controller spends in each of its states.

use std::collections::BTreeMap;

use crate::counter::Span;
use crate::error::RecordError;
use crate::rows::EventKind;
use crate::series::{FlowSeries, Series};

const STATE: &str = EventKind::State.word();

impl Series<'_> {
    /// Nanoseconds of each flow in each state of its controller while it is active, in the order in
    /// which the states were first entered: exact, from the events.
    pub(crate) fn states(&self) -> Result<Vec<Vec<(String, u64)>>, RecordError> {
        let times = self.events.values("t_ns")?;
        let flows = self.events.ids("flow")?;
        let kinds = self.events.texts("kind")?;
        let (olds, news) = (self.events.texts("from")?, self.events.texts("detail")?);
        let mut changes: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for (((time, flow), kind), (old, new)) in
            (times.iter().zip(flows).zip(kinds)).zip(olds.into_iter().zip(news))
        {
            if let (Some(flow), Some(STATE)) = (flow, kind) {
                changes.entry(flow).or_default().push((*time, old, new));
            }
        }
        let of_flow = |flow: &FlowSeries| {
            let Some(active) = flow.active else {
                return Vec::new();
            };
            let mut states: Vec<(String, u64)> = Vec::new();
            let mut spend = |state: &str, from: i64, to: i64| {
                let time = Span::new(from, to)
                    .and_then(|s| s.meet(active))
                    .map(Span::length);
                match states.iter_mut().find(|(name, _)| name == state) {
                    Some((_, sum)) => *sum = sum.saturating_add(time.unwrap_or(0)),
                    None => states.extend(time.map(|time| (state.to_owned(), time))),
                }
            };
            let mut current: Option<(&str, i64)> = None;
            for (time, old, new) in changes.get(&flow.flow).into_iter().flatten() {
                // Before its first change a flow is in the state that it leaves.
                let before = current.or(old.map(|old| (old, flow.start)));
                if let Some((state, since)) = before {
                    spend(state, since, *time);
                }
                current = new.map(|new| (new, *time));
            }
            if let Some((state, since)) = current {
                spend(state, since, active.to);
            }
            states
        };
        Ok(self.flows.iter().map(of_flow).collect())
    }
}
