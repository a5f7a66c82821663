//! `[run]`: duration, repeats, recording.

use paceline_derive::Section;
use paceline_units::{Duration, Gain};

use crate::bounds::{time, within};
use crate::engines::{ALL, hosted, simulated};
use crate::limits;

/// Duration, seeds and recording of the experiment.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct RunSection {
    /// Length of one run.
    #[key(needs = "say how long a run is: duration = \"60 s\"", bound = time(limits::MAX_DURATION))]
    pub duration: Duration,
    /// Seed of all random numbers: repeat n uses seed + n.
    #[key(default = 1, on = ALL)]
    pub seed: u64,
    /// How many runs, each with the next seed.
    #[key(default = 1, bound = within(1, limits::MAX_REPEATS), on = ALL)]
    pub repeats: u32,
    /// Time between rows of the samples table. Unset: 10 ms, and longer when that would make
    /// more than a million rows.
    #[key(bound = time(limits::MAX_DURATION), on = ALL)]
    pub sample_interval: Option<Duration>,
    /// Run the whole scenario once for each of these controllers, each time replacing the `cc`
    /// of every flow. Empty: run it once as it is written.
    #[key(default = Vec::new(), quiet, on = ALL)]
    pub compare: Vec<String>,
    /// What to record in addition to the standard tables.
    #[key(default = RecordSection::default(), on = ALL)]
    pub record: RecordSection,
    /// Bounds within which an emulated run is trusted.
    #[key(default = EmulationSection::default(), quiet, on = ALL)]
    pub emulation: EmulationSection,
}

/// The bounds within which an emulated run is trusted.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct EmulationSection {
    /// The 99th percentile of how much later than planned packets leave the path.
    #[key(default = Duration::from_millis(2), on = ALL)]
    pub lateness_p99: Duration,
    /// The median delay that the emulator itself adds to an RTT.
    #[key(default = Duration::from_millis(1), on = ALL)]
    pub added_delay: Duration,
    /// The relative error of a busy link's rate.
    #[key(default = Gain::from_millionths(20_000), on = ALL)]
    pub rate_error: Gain,
    /// The share of the run in which the path stood still because the machine did not run it.
    #[key(default = Gain::from_millionths(10_000), on = ALL)]
    pub stalled: Gain,
    /// The maximum delay of an ACK that a receiver has to send at once: after such a delay its
    /// ACKs arrive in a burst, and so do the packets that they release. Linux itself compresses
    /// SACKs for up to 1 ms.
    #[key(default = Duration::from_millis(3), on = ALL)]
    pub answer_max: Duration,
}

/// Recordings in addition to the standard tables.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct RecordSection {
    /// A row for every packet.
    #[key(default = false, on = ALL)]
    pub packets: bool,
    /// The qlog that the stack of each QUIC flow writes, as `stack-NUMBER.sqlog` in the run's folder.
    #[key(default = false, quiet, on = hosted("a kernel's TCP writes no qlog"))]
    pub qlog: bool,
    /// In addition to those at each interval, a row of the samples table whenever a flow's
    /// round, its controller's state or its recovery state changes, and when a loss episode is
    /// undone.
    #[key(default = false, on = simulated("the kernel does not report its rounds"))]
    pub rounds: bool,
    /// A row of the events table whenever a controller's state changes. With thousands of flows
    /// that probe every round trip they take gigabytes; without them `state_ns` is unknown.
    #[key(default = true, quiet, on = ALL)]
    pub states: bool,
}
