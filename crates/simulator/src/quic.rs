//! The stacks that a scenario names.

use paceline_experiment::end_config;
use paceline_quic::{AnyEnd, EndConfig, end};
use paceline_scenario::FlowGroup;

use crate::foreign::{Setup, Stack};

/// The QUIC stack of a group, none if it runs another transport.
pub(crate) fn named(group: &FlowGroup) -> Option<Stack> {
    if !group.is_quic() {
        return None;
    }
    let group = group.clone();
    let made = move |setup: &Setup<'_>, sends: bool| -> AnyEnd {
        let config = end_config(&group, setup.controller, setup.max_datagram);
        let config = config.map(|config| EndConfig {
            sends,
            seed: setup.seed,
            now: setup.now,
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
