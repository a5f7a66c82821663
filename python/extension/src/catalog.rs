//! The catalogue: controllers with their options, metrics and tables with their definitions.

use paceline_congestion::controllers as registry;
use paceline_congestion::options::OptionInfo;
use paceline_record::metrics::{Better, Definition, FLOW_METRICS, METRICS};
use paceline_record::{Column, Kind, TABLES, Table, column_name};
use paceline_simulator::{ACK_COUNTERS, COUNTERS};
use paceline_units::StackName;
use paceline_units::options::Choice as _;
use pyo3::prelude::*;
use pyo3::types::PyDict;

fn option<'py>(py: Python<'py>, info: &OptionInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", info.name)?;
    dict.set_item("default", info.default.to_string())?;
    dict.set_item("range", info.kind.to_string())?;
    dict.set_item("doc", info.doc)?;
    Ok(dict)
}

/// Every controller: `name`, `summary`, `source`, `options` [`name`, `default`, `range`, `doc`], and the
/// columns of its `state` in `samples`.
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
            let mut state = Vec::new();
            (spec.visit_fields)(&mut |field| state.push(column_name(&field)));
            dict.set_item("state", state)?;
            Ok(dict)
        })
        .collect()
}

/// Every transport that brings controllers of its own: its name, these, its version, and a line about it.
#[pyfunction]
pub fn stacks() -> Vec<(
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
)> {
    let named = |stack: &StackName| {
        let (controllers, version) = paceline_experiment::brought(*stack)?;
        let (word, about) = StackName::MEANINGS[stack.number()];
        Some((word, controllers, version, about.trim()))
    };
    StackName::ALL.iter().filter_map(named).collect()
}

/// Every queue: its name and summary.
#[pyfunction]
pub fn queues() -> Vec<(&'static str, &'static str)> {
    let queues = paceline_experiment::queues().iter();
    queues.map(|queue| (queue.name, queue.summary)).collect()
}

fn definition<'py, F>(
    py: Python<'py>,
    scope: &str,
    definition: &Definition<F>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", definition.name)?;
    dict.set_item("label", definition.label)?;
    dict.set_item("scope", scope)?;
    let better = match definition.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    };
    dict.set_item("better", better)?;
    dict.set_item("formula", definition.formula)?;
    dict.set_item("window", definition.window)?;
    let censored = definition.censored.as_ref().map(|time| time.at);
    dict.set_item("censored", censored)?;
    Ok(dict)
}

/// Every metric: `name`, `scope` (`run` or `flow`), `better`, `formula`, `window`, `censored`.
#[pyfunction]
pub fn metrics(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let runs = METRICS.iter().map(|metric| definition(py, "run", metric));
    let flows = FLOW_METRICS
        .iter()
        .map(|metric| definition(py, "flow", metric));
    runs.chain(flows).collect()
}

/// Every table of a record: `name`, `doc`, `columns` [`name`, `unit`, `type`, `nullable`, `since`, `doc`,
/// `words` [(word, doc)]].
#[pyfunction]
pub fn tables(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let counter = |(name, doc): &(&'static str, &'static str)| Column {
        name,
        kind: Kind::Int,
        nullable: true,
        since: 1,
        doc,
        words: &[],
    };
    let counters: Vec<Column> = COUNTERS.iter().chain(ACK_COUNTERS).map(counter).collect();
    let table = |table: &Table| {
        let dict = PyDict::new(py);
        dict.set_item("name", table.name)?;
        dict.set_item("doc", table.doc.trim())?;
        let counters = counters.iter().filter(|_| table.name == "flows");
        let columns = table.columns.iter().chain(counters);
        let columns: PyResult<Vec<_>> = columns.map(|c| column(py, c)).collect();
        dict.set_item("columns", columns?)?;
        Ok(dict)
    };
    TABLES.iter().map(table).collect()
}

fn column<'py>(py: Python<'py>, column: &Column) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", column.name)?;
    dict.set_item("unit", column.unit())?;
    let kind = match column.kind {
        Kind::Id => "number",
        Kind::Int => "integer",
        Kind::Real => "real",
        Kind::Flag => "flag",
        Kind::Text => "text",
    };
    dict.set_item("type", kind)?;
    dict.set_item("nullable", column.nullable)?;
    dict.set_item("since", column.since)?;
    dict.set_item("doc", column.doc.trim())?;
    let words: Vec<_> = (column.words.iter())
        .map(|(word, doc)| (*word, doc.trim()))
        .collect();
    dict.set_item("words", words)?;
    Ok(dict)
}
