//! `[run]`: duration, repeats, recording.

use paceline_units::{Duration, Gain};

use crate::bounds::{time, within};
use crate::engines::{ALL, hosted, simulated};
use crate::limits;
use crate::section::section;

section! {
    /// Duration, seeds and recording of the experiment.
    pub struct RunSection, "a table" {
        /// Length of one run.
        duration: Duration, needs "say how long a run is: duration = \"60 s\"", in time(limits::MAX_DURATION);
        /// Seed of all random numbers: repeat n uses seed + n.
        seed: u64 = 1, on ALL;
        /// How many runs, each with the next seed.
        repeats: u32 = 1, in within(1, limits::MAX_REPEATS), on ALL;
        /// Time between rows of the samples table. Unset: 10 ms, and longer when that would make
        /// more than a million rows.
        sample_interval: Option<Duration>, in time(limits::MAX_DURATION), on ALL;
        /// Run the whole scenario once for each of these controllers, each time replacing the `cc`
        /// of every flow. Empty: run it once as it is written.
        compare: Vec<String> => Vec::new(), on ALL;
        /// What to record in addition to the standard tables.
        record: RecordSection = RecordSection::default(), on ALL;
        /// Bounds within which an emulated run is trusted.
        emulation: EmulationSection => EmulationSection::default(), on ALL;
    }
}

section! {
    /// The bounds within which an emulated run is trusted.
    pub struct EmulationSection = default, "a table" {
        /// The 99th percentile of how much later than planned packets leave the path.
        lateness_p99: Duration = Duration::from_millis(2), on ALL;
        /// The median delay that the emulator itself adds to an RTT.
        added_delay: Duration = Duration::from_millis(1), on ALL;
        /// The relative error of a busy link's rate.
        rate_error: Gain = Gain::from_millionths(20_000), on ALL;
        /// The share of the run in which the path stood still because the machine did not run it.
        stalled: Gain = Gain::from_millionths(10_000), on ALL;
        /// The maximum delay of an ACK that a receiver has to send at once: after such a delay its
        /// ACKs arrive in a burst, and so do the packets that they release. Linux itself compresses
        /// SACKs for up to 1 ms.
        answer_max: Duration = Duration::from_millis(3), on ALL;
    }
}

section! {
    /// Recordings in addition to the standard tables.
    pub struct RecordSection = default, "a table" {
        /// A row for every packet.
        packets: bool = false, on ALL;
        /// The qlog that the stack of each QUIC flow writes, as `stack-NUMBER.sqlog` in the run's folder.
        qlog: bool => false, on hosted("a kernel's TCP writes no qlog");
        /// In addition to those at each interval, a row of the samples table whenever a flow's
        /// round, its controller's state or its recovery state changes, and when a loss episode is
        /// undone.
        rounds: bool = false, on simulated("the kernel does not report its rounds");
        /// A row of the events table whenever a controller's state changes. With thousands of flows
        /// that probe every round trip they take gigabytes; without them `state_ns` is unknown.
        states: bool => true, on ALL;
    }
}
