//! The QUIC stacks that a scenario names.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_experiment::end_config;
use paceline_quic::{AnyEnd, EndConfig, Qlog, end};
use paceline_scenario::FlowGroup;

use crate::foreign::{Setup, Stack};

/// The qlogs that the stacks of the flows write, if the scenario asks for them.
#[derive(Clone, Default)]
pub(crate) struct Qlogs(Arc<Mutex<Vec<(u32, Qlog)>>>);

impl Qlogs {
    fn open(&self, flow: u32) -> Qlog {
        let qlog = Qlog::default();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((flow, qlog.clone()));
        qlog
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(_, qlog)| qlog.size() as u64).sum()
    }

    /// What each flow's stack wrote.
    pub fn take(&self) -> Vec<(u32, Vec<u8>)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.drain(..)
            .map(|(flow, qlog)| (flow, qlog.take()))
            .collect()
    }
}

/// The QUIC stack of a group, none if it runs another transport. It writes to `qlogs`.
pub(crate) fn named(group: &FlowGroup, qlogs: Option<&Qlogs>) -> Option<Stack> {
    if !group.is_built_in_quic() {
        return None;
    }
    let (group, qlogs) = (group.clone(), qlogs.cloned());
    let made = move |setup: &Setup<'_>, sends: bool| -> AnyEnd {
        let config = end_config(&group, setup.controller, setup.max_datagram);
        let qlogs = qlogs.as_ref().filter(|_| sends);
        let config = config.map(|config| EndConfig {
            sends,
            seed: setup.seed,
            now: setup.now,
            qlog: qlogs.map(|qlogs| qlogs.open(setup.flow)),
            ..config
        });
        config
            .and_then(|config| end(group.stack, &config))
            .unwrap_or_else(|| unreachable!("a stack, and no guest on it: checked before"))
    };
    Some(Stack::new(move |setup| {
        (made(setup, true), made(setup, false))
    }))
}
