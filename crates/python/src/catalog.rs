//! What there is: controllers with their options, metrics with their definitions.

use paceline_congestion::controllers as registry;
use paceline_congestion::options::OptionInfo;
use paceline_record::metrics::{Better, Definition, FLOW_METRICS, METRICS};
use paceline_simulator::{allowed, written};
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn option<'py>(py: Python<'py>, info: &OptionInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", info.name)?;
    dict.set_item("default", written(&info.default))?;
    dict.set_item("range", allowed(&info.kind))?;
    dict.set_item("doc", info.doc)?;
    Ok(dict)
}

/// Every controller: `name`, `summary`, `source`, `options` [`name`, `default`, `range`, `doc`].
#[pyfunction]
pub fn controllers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    registry()
        .iter()
        .map(|spec| {
            let dict = PyDict::new(py);
            dict.set_item("name", spec.name)?;
            dict.set_item("summary", spec.summary)?;
            dict.set_item("source", spec.source)?;
            let options: PyResult<Vec<_>> = spec.options().map(|o| option(py, &o)).collect();
            dict.set_item("options", options?)?;
            Ok(dict)
        })
        .collect()
}

fn definition<'py, F>(
    py: Python<'py>,
    scope: &str,
    definition: &Definition<F>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", definition.name)?;
    dict.set_item("scope", scope)?;
    let better = match definition.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    };
    dict.set_item("better", better)?;
    dict.set_item("formula", definition.formula)?;
    dict.set_item("window", definition.window)?;
    Ok(dict)
}

/// Every metric: `name`, `scope` (`run` or `flow`), `better`, `formula`, `window`.
#[pyfunction]
pub fn metrics(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let runs = METRICS.iter().map(|metric| definition(py, "run", metric));
    let flows = FLOW_METRICS
        .iter()
        .map(|metric| definition(py, "flow", metric));
    runs.chain(flows).collect()
}
