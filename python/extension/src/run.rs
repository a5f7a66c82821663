//! A completed run.

use std::path::PathBuf;

use paceline_record as record;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error;
use crate::interruptible::interruptible;
use crate::scenario::outcomes;
use crate::table::Table;

/// The results of a run: its tables and its metrics.
#[pyclass(frozen, module = "paceline._paceline")]
pub struct Run {
    inner: record::Run,
}

impl Run {
    pub fn new(inner: record::Run) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Run {
    /// A table by its name; `None` if the run has none of that name.
    fn table(&self, name: &str) -> Option<Table> {
        self.inner.table(name).map(Table::new)
    }

    /// The run's description and results, as JSON.
    fn summary_json(&self) -> String {
        self.inner.summary_json().to_string()
    }

    /// SHA-256 of the values of all tables, in hexadecimal. A signal is heard.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        let run = self.inner.clone();
        interruptible(py, move |_| run.digest())
    }

    /// `metrics` and `flows` of that, without the time that controllers spent in each state.
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let add = |dict: &Bound<'py, PyDict>, metrics: &[record::Metric]| {
            metrics.iter().try_for_each(|metric| match metric.json() {
                serde_json::Value::Number(number) => match number.as_u64() {
                    Some(whole) => dict.set_item(metric.name, whole),
                    None => dict.set_item(metric.name, number.as_f64()),
                },
                _ => dict.set_item(metric.name, py.None()),
            })
        };
        let limits = |dict: &Bound<'py, PyDict>, metrics: &[record::Metric]| {
            let limits = PyDict::new(py);
            for metric in metrics {
                if let Some(limit) = metric.censored {
                    limits.set_item(metric.name, limit as u64)?;
                }
            }
            dict.set_item("censored", limits)
        };
        let metrics = PyDict::new(py);
        add(&metrics, self.inner.metrics())?;
        let flows = PyList::empty(py);
        for (info, flow) in self.inner.info().flows.iter().zip(self.inner.flows()) {
            let dict = PyDict::new(py);
            dict.set_item("flow", flow.flow)?;
            dict.set_item("cc", &info.cc)?;
            dict.set_item("label", &info.label)?;
            add(&dict, &flow.metrics)?;
            limits(&dict, &flow.metrics)?;
            flows.append(dict)?;
        }
        let summary = PyDict::new(py);
        summary.set_item("metrics", metrics)?;
        limits(&summary, self.inner.metrics())?;
        summary.set_item("flows", flows)?;
        Ok(summary)
    }

    /// The scenario with every default written out, as TOML.
    #[getter]
    fn scenario_toml(&self) -> &str {
        &self.inner.info().scenario_toml
    }

    /// The results of the scenario's `[expect]`: [{`metric`, `bound`, `value`, `held`}]. Empty if
    /// this version cannot read the scenario.
    fn outcomes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        match paceline_experiment::parse(self.scenario_toml(), "scenario.toml", &[]) {
            Ok(scenario) => outcomes(py, &scenario, self.inner.metrics()),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// The links, the bottleneck first: [(`name`, capacity at the start in bit/s, maximum of the
    /// queue in bytes or none)].
    fn links(&self) -> Vec<(String, Option<u64>, Option<u64>)> {
        let links = &self.inner.info().links;
        let each = links.iter().map(|link| {
            let limit = link.limit.get();
            let most = (limit != u64::MAX).then_some(limit);
            let rate = (!link.capacity.is_infinite()).then(|| link.capacity.bps());
            (link.name.clone(), rate, most)
        });
        each.collect()
    }

    /// For each link, the position of the link whose return direction it is, if it is one.
    fn returns(&self) -> Vec<Option<u32>> {
        let links = &self.inner.info().links;
        links.iter().map(|link| link.return_of).collect()
    }

    /// The run without its tables and its scenario: only the results.
    fn measured(&self) -> Self {
        Self::new(self.inner.measured())
    }

    /// Writes the files of the run into a folder, in the place of files of the same names. A signal stops it.
    fn write(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let run = self.inner.clone();
        interruptible(py, move |stop| run.write_until(&folder, stop))?
            .map_err(|error| error::record(py, &error))
    }

    /// Reads a run from its folder; it may use `memory` bytes. With `beneath` it is a folder below
    /// that one, and no link below it is followed.
    #[staticmethod]
    #[pyo3(signature = (folder, memory, beneath = None))]
    fn read(
        py: Python<'_>,
        folder: PathBuf,
        memory: u64,
        beneath: Option<PathBuf>,
    ) -> PyResult<Self> {
        interruptible(py, move |_| match beneath {
            Some(root) => record::Run::read_beneath(&root, &folder, memory),
            None => record::Run::read(&folder, memory),
        })?
        .map(Self::new)
        .map_err(|error| error::record(py, &error))
    }

    /// Reads the part of a run that a stream below a folder has left; it may use `memory` bytes, and
    /// no link below the folder is followed. `None` if the stream has no rows.
    #[staticmethod]
    fn unfinished(
        py: Python<'_>,
        root: PathBuf,
        stream: PathBuf,
        memory: u64,
    ) -> PyResult<Option<Self>> {
        let read = move |_: &_| record::Stream::read_beneath(&root, &stream, memory);
        let run = interruptible(py, read)?.map_err(|error| error::record(py, &error))?;
        Ok(run.map(Self::new))
    }
}

/// The number of rows of a Parquet file, and the memory needed to read them, according to its
/// metadata, which its pages do not contradict. With `beneath` it is a file below that folder, and
/// no link below it is followed.
#[pyfunction]
#[pyo3(signature = (file, beneath = None))]
pub fn parquet_size(
    py: Python<'_>,
    file: PathBuf,
    beneath: Option<PathBuf>,
) -> PyResult<(u64, u64)> {
    py.detach(|| record::table_size(&file, beneath.as_deref()))
        .map_err(|error| error::record(py, &error))
}
