//! Scenarios: parsed, checked, resolved.

use std::path::{Path, PathBuf};

use paceline_experiment::{Guests, RunError};
use paceline_record::{self as record, Expectation};
use paceline_scenario::{Axis, Scenario};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::{self, Engine};
use crate::error;
use crate::guest::{self, PyGuest};

/// The maximum size of a file from which a population is drawn, in bytes.
const MOST: u64 = 64 << 20;

/// Parses and checks a scenario, including names of controllers and metrics. Unless `files`, one that names a file is refused, and the file
/// is not opened.
pub fn parse(
    text: &str,
    file: &Path,
    overrides: &[(String, String)],
    engine: Engine,
    guests: &Guests,
    files: bool,
) -> Result<Scenario, RunError> {
    // File names need not be text; the names in errors are.
    let file = &*file.to_string_lossy();
    let scenario = paceline_experiment::parse(text, file, overrides).map_err(RunError::Scenario)?;
    if !files && let Some((key, _)) = scenario.traces().next() {
        let hint = "`paceline run` reads them".to_owned();
        let message = "files are not read here";
        let problem = scenario.diagnostic(&key, message, Some(hint));
        return Err(RunError::Scenario(vec![problem]));
    }
    let diagnostics = engine::backend(engine).check(&scenario, guests);
    if !diagnostics.is_empty() {
        return Err(RunError::Scenario(diagnostics));
    }
    Ok(scenario)
}

/// A checked scenario.
#[pyclass(frozen, module = "paceline._paceline")]
pub struct CheckedScenario {
    scenario: Scenario,
}

#[pymethods]
impl CheckedScenario {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.scenario.name
    }

    /// Its description.
    #[getter]
    fn about(&self) -> Option<&str> {
        self.scenario.about.as_deref()
    }

    /// Its seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.run.seed
    }

    /// Length of one run in nanoseconds.
    #[getter]
    fn duration_ns(&self) -> u64 {
        self.scenario.run.duration.as_nanos()
    }

    /// The number of repeats.
    #[getter]
    fn repeats(&self) -> u32 {
        self.scenario.run.repeats
    }

    /// The controllers that it is run with one after another; none to run it as it is.
    #[getter]
    fn compare(&self) -> Vec<String> {
        self.scenario.run.compare.clone()
    }

    /// The number of `[[flows]]` groups.
    #[getter]
    fn flow_groups(&self) -> usize {
        self.scenario.flows.len()
    }

    /// The number of flows.
    #[getter]
    fn flow_count(&self) -> u64 {
        self.scenario.flow_count()
    }

    /// The files of its capacity traces.
    #[getter]
    fn traces(&self) -> Vec<PathBuf> {
        self.scenario.traces().map(|(_, path)| path).collect()
    }

    /// Its sweep: `seeds`, `metrics` and `axes` [`keys`, `drawn`, `points` [`name`, `values`]],
    /// with values in the form of overrides; `None` if it has none.
    #[getter]
    fn sweep<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(sweep) = &self.scenario.sweep else {
            return Ok(None);
        };
        let axes: PyResult<Vec<_>> = sweep.axes.iter().map(|axis| as_dict(py, axis)).collect();
        let run = &self.scenario.run;
        let dict = PyDict::new(py);
        dict.set_item("seeds", sweep.seeds(run.seed, run.repeats))?;
        dict.set_item("metrics", paceline_experiment::looked_at(sweep))?;
        dict.set_item("axes", axes?)?;
        Ok(Some(dict))
    }

    /// The scenario with every default written out, as TOML.
    #[getter]
    fn toml(&self) -> String {
        self.scenario.to_toml()
    }

    /// The rows that a run has in the table of samples, if all flows last to its end.
    #[getter]
    fn sample_rows(&self) -> u64 {
        let run = self.scenario.run.duration.as_nanos();
        let each = run / self.scenario.sample_interval().as_nanos().max(1);
        each * self.scenario.flow_count()
    }

    /// Checks `[expect]` against metrics: [{`metric`, `bound`, `value`, `held`}].
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        metrics: Vec<(String, Option<f64>)>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let metrics: Vec<_> = record::metrics::METRICS
            .iter()
            .filter_map(|definition| {
                let (_, value) = metrics.iter().find(|(name, _)| *name == definition.name)?;
                Some(record::Metric {
                    name: definition.name,
                    value: *value,
                    censored: None,
                })
            })
            .collect();
        outcomes(py, &self.scenario, &metrics)
    }
}

/// Checks `[expect]` of a scenario against metrics.
pub fn outcomes<'py>(
    py: Python<'py>,
    scenario: &Scenario,
    metrics: &[record::Metric],
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let expectation = |(metric, bound): (&String, &paceline_scenario::Bound)| Expectation {
        metric: metric.clone(),
        op: bound.op,
        bound: bound.value,
    };
    let expected: Vec<_> = scenario.expect.iter().map(expectation).collect();
    let dict = |outcome: record::Outcome| {
        let dict = PyDict::new(py);
        dict.set_item("metric", outcome.metric)?;
        dict.set_item("bound", outcome.bound)?;
        dict.set_item("value", outcome.value)?;
        dict.set_item("held", outcome.held)?;
        Ok(dict)
    };
    let outcomes = record::evaluate(metrics, &expected);
    outcomes.into_iter().map(dict).collect()
}

/// Checks a scenario, including the points of its sweep unless `sweep` is false; unless `files`, it
/// may name none. `ScenarioError` lists all errors in it; `UnavailableError` says what the machine lacks
/// to run it, unless `here` is false: a plan needs no engine.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
#[pyo3(signature = (text, file, overrides = Vec::new(), sweep = true, backend = "sim", files = true, guests = Vec::new(), here = true))]
pub fn check(
    py: Python<'_>,
    text: &str,
    file: PathBuf,
    overrides: Vec<(String, String)>,
    sweep: bool,
    backend: &str,
    files: bool,
    guests: Vec<PyRef<'_, PyGuest>>,
    here: bool,
) -> PyResult<CheckedScenario> {
    let guests = guest::guests(&guests);
    let engine = engine::named(backend)?;
    // A capacity trace may take long to read, so other threads may run meanwhile.
    let parsed = py.detach(|| parse(text, &file, &overrides, engine, &guests, files));
    let mut scenario = parsed.map_err(|error| error::run(py, &error))?;
    if here {
        let available = engine::backend(engine).available(&scenario);
        available.map_err(|error| error::run(py, &error))?;
    }
    let diagnostics = if sweep {
        py.detach(|| {
            let drawn = scenario.populate(|path| read(path, files));
            drawn.err().unwrap_or_else(|| {
                scenario.check_sweep(|point| engine::backend(engine).check(point, &guests))
            })
        })
    } else {
        Vec::new()
    };
    match diagnostics.is_empty() {
        true => Ok(CheckedScenario { scenario }),
        false => Err(error::scenario(py, &diagnostics)),
    }
}

/// A file of values from which a population is drawn.
fn read(path: &Path, files: bool) -> Result<String, String> {
    if !files {
        return Err("files are not read here; `paceline sweep` reads them".to_owned());
    }
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !size.is_file() || size.len() > MOST {
        return Err(format!("it is no regular file of at most {MOST} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// An axis: `keys`, `drawn`, `points` [`name`, `values`].
fn as_dict<'py>(py: Python<'py>, axis: &Axis) -> PyResult<Bound<'py, PyDict>> {
    let mut points = Vec::with_capacity(axis.points.len());
    for point in &axis.points {
        let dict = PyDict::new(py);
        dict.set_item("name", &point.name)?;
        dict.set_item("values", &point.values)?;
        points.push(dict);
    }
    let dict = PyDict::new(py);
    dict.set_item("keys", &axis.keys)?;
    dict.set_item("drawn", axis.drawn)?;
    dict.set_item("points", points)?;
    Ok(dict)
}

/// The axes in a text, written as in `[sweep.over]`; with `twice` a value may occur again.
/// `ScenarioError` lists all errors in them.
#[pyfunction]
#[pyo3(signature = (text, file, twice = false))]
pub fn axes<'py>(
    py: Python<'py>,
    text: &str,
    file: &str,
    twice: bool,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let axes = paceline_scenario::axes(text, file, twice);
    let axes = axes.map_err(|diagnostics| error::scenario(py, &diagnostics))?;
    axes.iter().map(|axis| as_dict(py, axis)).collect()
}

/// The JSON Schema of scenarios.
#[pyfunction]
pub fn schema() -> String {
    paceline_experiment::schema_json()
}
