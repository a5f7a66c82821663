//! The engines: the simulator, and the emulator and the virtual machine where available.

use paceline_experiment::Backend;
use paceline_simulator::Simulator;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

pub use paceline_scenario::Engine;
pub use system::{
    Prepare, Programs, doctor, images, prepare, record_recovery, remove, shell, trace,
};

/// An engine by the name of its backend.
pub fn named(backend: &str) -> PyResult<Engine> {
    match backend {
        "sim" => Ok(Engine::Simulator),
        "emu" => Ok(Engine::Emulator),
        "vm" => Ok(Engine::Vm),
        _ => Err(PyValueError::new_err(format!(
            "no backend is called {backend:?}; there are \"sim\", \"emu\" and \"vm\""
        ))),
    }
}

/// The engine itself.
pub fn backend(engine: Engine) -> &'static dyn Backend {
    match engine {
        Engine::Simulator => &Simulator,
        Engine::Emulator => &system::EMULATOR,
        Engine::Vm => &system::VM,
    }
}

#[cfg(target_os = "linux")]
mod system {
    use paceline_emulator::Emulator;
    use paceline_vm::Vm;

    pub use paceline_emulator::{Programs, record_recovery, shell};
    pub use paceline_vm::{Prepare, images, prepare, remove, trace};

    pub const EMULATOR: Emulator = Emulator;
    pub const VM: Vm = Vm;

    pub fn doctor(quick: bool, step: &mut dyn FnMut(&str)) -> String {
        let mut report = paceline_emulator::doctor(quick, step);
        if let Some(checks) = report["checks"].as_array_mut() {
            checks.push(paceline_vm::doctor());
        }
        report.to_string()
    }
}

/// What takes the place of the engines that need Linux.
#[cfg(not(target_os = "linux"))]
mod system {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use paceline_conformance::recovery::{Played as Script, Trace};
    use paceline_experiment::{Backend, Guests, Progress, RunError, Unavailable, Watch};
    use paceline_record::Run;
    use paceline_scenario::{Diagnostic, Scenario};
    use serde_json::Value;

    /// An engine that needs another system: its error.
    pub struct Absent(&'static str);

    pub const EMULATOR: Absent = Absent("the emulator needs Linux");
    pub const VM: Absent = Absent("a virtual machine needs Linux on x86-64");

    impl Absent {
        fn lacking<T>(&self) -> Result<T, RunError> {
            Err(Unavailable::new(self.0, "run the scenario in the simulator").into())
        }
    }

    impl Backend for Absent {
        fn check(&self, _: &Scenario, _: &Guests) -> Vec<Diagnostic> {
            Vec::new()
        }

        fn available(&self, _: &Scenario) -> Result<(), RunError> {
            self.lacking()
        }

        fn run(
            &self,
            _: &Scenario,
            _: &Guests,
            _: u64,
            _: &mut Watch<'_>,
        ) -> Result<(Run, Progress), RunError> {
            self.lacking()
        }
    }

    pub fn doctor(_: bool, _: &mut dyn FnMut(&str)) -> String {
        let check = r#"{"name":"system","state":"missing","found":"not Linux","fix":null}"#;
        format!(r#"{{"kernel":"","controllers":[],"able":false,"checks":[{check}]}}"#)
    }

    pub fn record_recovery(
        scripts: &[Script],
        _: &(dyn Fn(&str) + Sync),
    ) -> Vec<Result<Trace, String>> {
        vec![Err("it is played to Linux".to_owned()); scripts.len()]
    }

    pub struct Programs {
        pub client: Vec<OsString>,
        pub server: Option<OsString>,
        pub up: Option<Scenario>,
    }

    pub fn shell(
        _: &Scenario,
        _: u64,
        _: &Programs,
        _: &mut Watch<'_>,
    ) -> Result<(Run, i32), RunError> {
        EMULATOR.lacking()
    }

    pub struct Traced {
        pub kernel: String,
        pub controller: String,
        pub receiver: u32,
        pub calls: Vec<u8>,
    }

    pub fn trace(_: &Scenario, _: u64, _: &mut Watch<'_>) -> Result<Traced, RunError> {
        VM.lacking()
    }

    pub fn images() -> Result<Vec<Value>, RunError> {
        Ok(Vec::new())
    }

    pub struct Prepare {
        pub kernel: Option<PathBuf>,
        pub modules: Option<PathBuf>,
    }

    pub fn prepare(_: &Prepare, _: &mut dyn FnMut(&str) -> bool) -> Result<Value, RunError> {
        VM.lacking()
    }

    pub fn remove(_: &str) -> Result<bool, RunError> {
        Ok(false)
    }
}
