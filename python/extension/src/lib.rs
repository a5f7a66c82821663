//! The extension module `paceline._paceline`: scenarios in, runs out. The user interface is in
//! Python; this only passes data.

mod capture;
mod catalog;
mod conformance;
mod doctor;
mod engine;
mod error;
mod follow;
mod foreign;
mod guest;
mod interruptible;
mod perf;
mod quantity;
mod run;
mod scenario;
mod shadow;
mod shell;
mod simulate;
mod startup;
mod table;
mod vm;
mod worlds;

/// Scenarios in, runs out.
#[pyo3::pymodule]
mod _paceline {
    #[pymodule_export]
    use crate::capture::pcapng;
    #[pymodule_export]
    use crate::catalog::{controllers, metrics, queues, stacks, tables};
    #[pymodule_export]
    use crate::conformance::{golden_traces, recovery_live, recovery_scripts};
    #[pymodule_export]
    use crate::doctor::doctor;
    #[pymodule_export]
    use crate::foreign::{KernelRecord, capture, capture_format};
    #[pymodule_export]
    use crate::guest::{Ack, Config, Loss, PyGuest, Sent};
    #[pymodule_export]
    use crate::perf::{Perf, perf_client, perf_server};
    #[pymodule_export]
    use crate::quantity::{nearest, number, parse_quantity, plain, quantity, scale};
    #[pymodule_export]
    use crate::run::{Run, parquet_size};
    #[pymodule_export]
    use crate::scenario::{CheckedScenario, axes, check, schema};
    #[pymodule_export]
    use crate::shadow::Packets;
    #[pymodule_export]
    use crate::shell::shell;
    #[pymodule_export]
    use crate::simulate::simulate;
    #[pymodule_export]
    use crate::startup::{least_doubling_gain, startup, startup_derivation};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::vm::{vm_images, vm_prepare, vm_remove, vm_trace};
    #[pymodule_export]
    use crate::worlds::Worlds;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Distinguishes this engine from one built from other sources.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __build__: &str = env!("PACELINE_BUILD");

    /// The newest schema of records that can be read.
    #[pymodule_export]
    const RECORD_SCHEMA: u32 = paceline_record::SCHEMA;
}
