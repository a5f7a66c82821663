//! When flows start, and what they send.

use paceline_recovery::Workload;
use paceline_scenario::{App, FlowGroup, Scenario};
use paceline_units::{Bytes, Duration, Instant, Rate, Rng};

use crate::seed_of;

const START_STREAM: u64 = u64::MAX - 1;

/// Draws the starts of flows, in their order.
pub struct Starts(Rng);

impl Starts {
    /// Those of a run with `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Rng::new(seed_of(seed, START_STREAM)))
    }

    /// When the `nth` flow of a group starts, counted from 0.
    pub fn of(&mut self, group: &FlowGroup, nth: u32) -> Instant {
        let jitter = Duration::from_nanos(self.0.below(group.start_jitter.as_nanos()));
        Instant::ZERO + group.start + group.stagger * u64::from(nth) + jitter
    }
}

/// The payload of a full packet of a group.
pub fn mss(scenario: &Scenario, group: &FlowGroup) -> u32 {
    let header = u32::try_from(group.header.get()).unwrap_or(u32::MAX);
    let mtu = u32::try_from(scenario.path.mtu.get()).unwrap_or(u32::MAX);
    mtu.saturating_sub(header).max(1)
}

/// What an application does, with packets of `mss`.
pub fn workload(app: &App, mss: u32) -> Workload {
    match app {
        App::Bulk => Workload::Bulk,
        App::Sized { size } => Workload::Sized { bytes: *size },
        App::Limited { rate } => limited(*rate, mss),
        App::OnOff { on, off, rate } => Workload::OnOff {
            on: *on,
            off: *off,
            rate: *rate,
        },
    }
}

/// An application with a rate writes packet by packet, but no more often than every millisecond.
fn limited(rate: Rate, mss: u32) -> Workload {
    Workload::Limited {
        rate,
        chunk: rate
            .volume_in(Duration::from_millis(1))
            .max(Bytes::new(u64::from(mss))),
    }
}
