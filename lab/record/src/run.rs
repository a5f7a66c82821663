//! A completed run.

use arrow_array::{ArrayRef, RecordBatch};
use serde_json::{Map, Value, json};

use crate::digest;
use crate::error::RecordError;
use crate::info::RunInfo;
use crate::metric::{FlowMetrics, Metric};
use crate::metrics::{of_flows, of_run};
use crate::series::Series;
use crate::table::{Contents, SCHEMA};
use crate::view::TableView;

/// A completed run: its description, its tables, its metrics.
#[derive(Clone, Debug)]
pub struct Run {
    info: RunInfo,
    tables: Vec<(&'static str, Contents)>,
    metrics: Vec<Metric>,
    flows: Vec<FlowMetrics>,
    /// Remarks on the figures.
    notes: Vec<String>,
    emulation: Option<Value>,
    source: Option<Value>,
    qlogs: Vec<(u32, Vec<u8>)>,
}

impl Run {
    /// A run of these tables; computes its metrics.
    pub(crate) fn new(
        info: RunInfo,
        tables: Vec<(&'static str, Contents)>,
    ) -> Result<Self, RecordError> {
        // Of the large tables, only the columns that metrics read.
        let columns = |table: &'static str| match tables.iter().find(|(name, _)| *name == table) {
            Some((_, contents)) => Ok(match Series::columns(table) {
                Some(names) => contents.only(names),
                None => contents.batch(),
            }),
            None => Err(RecordError::Table { table }),
        };
        let [flows, samples, queue, events] = ["flows", "samples", "queue", "events"].map(columns);
        let (flows, samples, queue, events) = (flows?, samples?, queue?, events?);
        let view = |table, batch| TableView { table, batch };
        let (flows, samples) = (view("flows", &flows), view("samples", &samples));
        let (queue, events) = (view("queue", &queue), view("events", &events));
        let rows = Series::new(&info, flows, samples, queue, events)?;
        let (metrics, flows) = (of_run(&rows), of_flows(&rows)?);
        let notes = rows.notes(&info);
        Ok(Self {
            info,
            tables,
            metrics,
            flows,
            notes,
            emulation: None,
            source: None,
            qlogs: Vec::new(),
        })
    }

    /// The run with its emulator's measurements of itself.
    pub fn with_emulation(mut self, emulation: Value) -> Self {
        self.emulation = Some(emulation);
        self
    }

    /// The run, with a description of the recording that it was imported from.
    pub fn with_source(mut self, source: Value) -> Self {
        self.source = Some(source);
        self
    }

    /// The run with the qlogs that the QUIC stacks of its flows wrote.
    pub fn with_qlogs(mut self, qlogs: Vec<(u32, Vec<u8>)>) -> Self {
        self.qlogs = qlogs;
        self
    }

    /// The qlogs that the QUIC stacks of its flows wrote, by the numbers of the flows. A run that is read back has
    /// none: they stay in its folder.
    pub fn qlogs(&self) -> &[(u32, Vec<u8>)] {
        &self.qlogs
    }

    /// The run without its tables and its scenario, which use most of the memory: only the results.
    pub fn measured(&self) -> Self {
        Self {
            info: RunInfo {
                scenario_toml: String::new(),
                ..self.info.clone()
            },
            tables: Vec::new(),
            metrics: self.metrics.clone(),
            flows: self.flows.clone(),
            notes: self.notes.clone(),
            emulation: self.emulation.clone(),
            source: self.source.clone(),
            qlogs: Vec::new(),
        }
    }

    /// Its emulator's measurements of itself; none for a simulated run.
    pub fn emulation(&self) -> Option<&Value> {
        self.emulation.as_ref()
    }

    /// Its description.
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Its tables with their names, each built on request.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = (&'static str, RecordBatch)> {
        let tables = self.tables.iter();
        tables.map(|(name, contents)| (*name, contents.batch()))
    }

    /// A table by its name, one of [`TABLES`](crate::TABLES); `None` for another name, and for
    /// `packets` when they were not recorded. It is built for each call.
    pub fn table(&self, name: &str) -> Option<RecordBatch> {
        let (_, contents) = self.tables.iter().find(|(table, _)| *table == name)?;
        Some(contents.batch())
    }

    /// A column of a table; `None` if there is none of that name.
    pub fn column(&self, table: &str, name: &str) -> Option<ArrayRef> {
        let (_, contents) = self.tables.iter().find(|(named, _)| *named == table)?;
        contents.column(name)
    }

    /// Its tables as stored.
    #[cfg(feature = "folder")]
    pub(crate) fn contents(&self) -> &[(&'static str, Contents)] {
        &self.tables
    }

    /// SHA-256 of the values of all tables, in hexadecimal: equal wherever the same run was done.
    pub fn digest(&self) -> String {
        digest::of(&self.tables)
    }

    /// The metrics of the run, in the order of their definition.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// A metric of the run by its name; `None` if it does not exist or is undefined.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.iter().find(|m| m.name == name)?.value
    }

    /// The metrics of each flow, in the order of [`RunInfo::flows`].
    pub fn flows(&self) -> &[FlowMetrics] {
        &self.flows
    }

    /// `schema`, `scenario`, `seed`, `backend`, `metrics` and `flows` of the `--json` output.
    pub fn summary_json(&self) -> Value {
        let flows: Vec<Value> = self
            .info
            .flows
            .iter()
            .zip(&self.flows)
            .map(|(info, flow)| {
                let mut object = Map::new();
                object.insert("flow".into(), json!(flow.flow));
                object.insert("cc".into(), json!(info.cc));
                object.insert("label".into(), json!(info.label));
                object.extend(flow.metrics.iter().map(|m| (m.name.to_owned(), m.json())));
                object.extend(Metric::censored_json(&flow.metrics).map(|c| ("censored".into(), c)));
                let states: Map<String, Value> = flow
                    .states
                    .iter()
                    .map(|(state, time)| (state.clone(), json!(time)))
                    .collect();
                object.insert("state_ns".into(), Value::Object(states));
                Value::Object(object)
            })
            .collect();
        let metrics = self.metrics.iter().map(|m| (m.name.to_owned(), m.json()));
        let metrics: Map<String, Value> = metrics.collect();
        let mut summary = json!({
            "schema": SCHEMA,
            "scenario": self.info.scenario,
            "seed": self.info.seed,
            "backend": self.info.backend,
            "metrics": metrics,
            "flows": flows,
        });
        let extra = [
            ("censored", Metric::censored_json(&self.metrics)),
            ("emulation", self.emulation.clone()),
            ("source", self.source.clone()),
            (
                "guests",
                (!self.info.guests.is_empty()).then(|| json!(self.info.guests)),
            ),
            ("notes", (!self.notes.is_empty()).then(|| json!(self.notes))),
            (
                "incomplete",
                self.info.incomplete.as_ref().map(|why| json!(why)),
            ),
        ];
        if let Some(object) = summary.as_object_mut() {
            let present = |(name, value): (&str, Option<Value>)| Some((name.to_owned(), value?));
            object.extend(extra.into_iter().filter_map(present));
        }
        summary
    }
}
