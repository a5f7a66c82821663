//! A run read back from its folder.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Field;
use paceline_units::{Bytes, Duration, Instant, Rate};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{RecordError, at};
use crate::folder::files::{RUN, SCENARIO, table_path};
use crate::folder::upgrade;
use crate::info::{FlowInfo, LinkInfo, RunInfo};
use crate::regular;
use crate::rows::TABLES;
use crate::run::Run;
use crate::table::{SCHEMA, SCHEMA_KEY, Table, schema};
use crate::view::TableView;

/// How a file is opened.
type Open<'a> = &'a dyn Fn(&Path) -> io::Result<File>;

impl Run {
    /// Reads a run back. Its metrics are computed anew from its tables.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] when there is no run in that place, [`RecordError::Schema`] when a
    /// newer version of the program wrote it, and the others when it is damaged.
    pub fn read(dir: &Path) -> Result<Self, RecordError> {
        Self::read_from(dir, &regular::open)
    }

    /// Reads a run back from a folder below another one, as [`Run::read`], and follows no link below
    /// that. Errors call it by its path there.
    ///
    /// # Errors
    /// As [`Run::read`].
    #[cfg(unix)]
    pub fn read_beneath(root: &Path, dir: &Path) -> Result<Self, RecordError> {
        Self::read_from(dir, &|path| regular::open_beneath(root, path))
    }

    fn read_from(dir: &Path, open: Open<'_>) -> Result<Self, RecordError> {
        let path = dir.join(RUN);
        let read_text = |path: &Path| regular::text_of(open(path)?, regular::TEXT);
        let text = match read_text(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RecordError::NotARun { path: dir.into() });
            }
            text => text.map_err(at(&path))?,
        };
        let json = |source| RecordError::Json {
            path: path.clone(),
            source,
        };
        let value: Value = serde_json::from_str(&text).map_err(json)?;
        let found = match value.get("schema") {
            Some(found) => found.to_string(),
            None => return Err(RecordError::NotARun { path: dir.into() }),
        };
        version(&path, Some(&found))?;
        let run: RunFile = serde_json::from_value(value).map_err(json)?;
        let scenario_path = dir.join(SCENARIO);
        let scenario_toml = read_text(&scenario_path).map_err(at(&scenario_path))?;
        let mut tables = Vec::new();
        for table in &TABLES {
            if let Some(batch) = read_table(dir, table, open)? {
                tables.push((table.name, batch));
            }
        }
        let flows = match tables.iter().find(|(name, _)| *name == "flows") {
            Some((table, batch)) => read_flows(TableView { table, batch })?,
            None => return Err(RecordError::Table { table: "flows" }),
        };
        check_ids(&tables, &flows, run.links.len())?;
        let emulation = run.emulation.clone();
        let read = Self::new(run.info(scenario_toml, flows), tables)?;
        Ok(match emulation {
            Some(emulation) => read.with_emulation(emulation),
            None => read,
        })
    }
}

/// The version of the schema that a file was written in, if this program reads it.
fn version(path: &Path, found: Option<&str>) -> Result<u32, RecordError> {
    let known = |version: &u32| (1..=SCHEMA).contains(version);
    let version = found.and_then(|found| found.parse().ok()).filter(known);
    version.ok_or_else(|| RecordError::Schema {
        path: path.into(),
        found: found.unwrap_or("none").into(),
    })
}

/// What `run.json` says of a run, besides its results.
#[derive(Deserialize)]
struct RunFile {
    scenario: String,
    seed: u64,
    backend: String,
    version: String,
    duration_ns: u64,
    sample_interval_ns: u64,
    payload_ratio: Option<f64>,
    links: Vec<LinkFile>,
    emulation: Option<Value>,
}

#[derive(Deserialize)]
struct LinkFile {
    name: String,
    capacity_bps: Option<u64>,
    limit_bytes: Option<u64>,
    flows: Vec<u32>,
}

impl RunFile {
    fn info(self, scenario_toml: String, flows: Vec<FlowInfo>) -> RunInfo {
        let links = self.links.into_iter().map(|link| LinkInfo {
            name: link.name,
            capacity: link.capacity_bps.map_or(Rate::INFINITE, Rate::from_bps),
            limit: link.limit_bytes.map_or(Bytes::INFINITE, Bytes::new),
            flows: link.flows,
        });
        RunInfo {
            scenario: self.scenario,
            scenario_toml,
            seed: self.seed,
            backend: self.backend,
            version: self.version,
            duration: Duration::from_nanos(self.duration_ns),
            sample_interval: Duration::from_nanos(self.sample_interval_ns),
            // Not a number is null in JSON.
            payload_ratio: self.payload_ratio.unwrap_or(f64::NAN),
            flows,
            links: links.collect(),
        }
    }
}

fn read_flows(table: TableView<'_>) -> Result<Vec<FlowInfo>, RecordError> {
    let ids = table.ids("flow")?.values();
    let (mut ccs, mut labels) = (
        table.texts("cc")?.into_iter(),
        table.texts("label")?.into_iter(),
    );
    let (starts, stops) = (table.values("start_ns")?, table.ints("stop_ns")?);
    let (base_rtts, msses) = (table.values("base_rtt_ns")?, table.values("mss_bytes")?);
    let time = |ns: i64| Instant::from_nanos(u64::try_from(ns).unwrap_or(0));
    let mut flows = Vec::with_capacity(ids.len());
    for (((flow, start), stop), (base_rtt, mss)) in ids
        .iter()
        .zip(starts)
        .zip(stops)
        .zip(base_rtts.iter().zip(msses))
    {
        flows.push(FlowInfo {
            flow: *flow,
            cc: ccs.next().flatten().unwrap_or_default().into(),
            label: labels.next().flatten().unwrap_or_default().into(),
            start: time(*start),
            stop: stop.map(time),
            base_rtt: time(*base_rtt).since(Instant::ZERO),
            mss: u32::try_from(*mss).unwrap_or(0),
        });
    }
    Ok(flows)
}

/// A table from its file, as this version has it; `None` when there is no file.
fn read_table(
    dir: &Path,
    table: &Table,
    open: Open<'_>,
) -> Result<Option<RecordBatch>, RecordError> {
    let path = table_path(dir, table.name);
    let file = match open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at(&path))?,
    };
    let parquet = |source| RecordError::Parquet {
        path: path.clone(),
        source,
    };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet)?;
    let found = reader.schema().clone();
    let version = version(&path, found.metadata().get(SCHEMA_KEY).map(String::as_str))?;
    let reader = reader.with_batch_size(1 << 16).build().map_err(parquet)?;
    let batches = reader.collect::<Result<Vec<_>, _>>();
    let batches = batches.map_err(|error| parquet(error.into()))?;
    let batch = arrow_select::concat::concat_batches(&found, &batches);
    let mut batch = batch.map_err(|error| parquet(error.into()))?;
    if version < SCHEMA {
        batch = upgrade::table(table, version, &batch)?;
    }
    conform(table, &batch).map(Some)
}

/// A table with its columns as they are declared, and further ones as they are after them.
fn conform(table: &Table, batch: &RecordBatch) -> Result<RecordBatch, RecordError> {
    let mut columns: Vec<(Field, ArrayRef)> = Vec::new();
    for column in table.columns {
        let array = batch.column_by_name(column.name);
        let right = array.filter(|array| *array.data_type() == column.kind.data_type());
        let array = right.ok_or(RecordError::Column {
            table: table.name,
            column: column.name,
        })?;
        columns.push((column.field(), array.clone()));
    }
    for (column, (_, array)) in table.columns.iter().zip(&columns) {
        // Quantities are not negative, and only what may be absent is.
        let ints = array.as_primitive_opt::<Int64Type>();
        let negative = ints.is_some_and(|ints| ints.iter().flatten().any(|value| value < 0));
        if negative || (array.null_count() > 0 && !column.nullable) {
            return Err(RecordError::Value {
                table: table.name,
                column: column.name,
            });
        }
    }
    let declared = |name: &str| table.columns.iter().any(|column| column.name == name);
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        if !declared(field.name()) {
            columns.push((field.as_ref().clone(), array.clone()));
        }
    }
    let (fields, arrays) = columns.into_iter().unzip();
    // Each array has the type of its field and the rows of the batch.
    Ok(RecordBatch::try_new(Arc::new(schema(fields)), arrays).expect("columns of one table"))
}

/// Each flow is there once, and every row is of a flow or of a link that is there.
fn check_ids(
    tables: &[(&'static str, RecordBatch)],
    flows: &[FlowInfo],
    links: usize,
) -> Result<(), RecordError> {
    let known: BTreeSet<u32> = flows.iter().map(|flow| flow.flow).collect();
    if flows.is_empty() || known.len() != flows.len() {
        return Err(RecordError::Value {
            table: "flows",
            column: "flow",
        });
    }
    let there = |link: u32| usize::try_from(link).is_ok_and(|link| link < links);
    let is_known = |flow: u32| known.contains(&flow);
    for (table, batch) in tables {
        let table = TableView { table, batch };
        let all = |column, right: &dyn Fn(u32) -> bool| -> Result<(), RecordError> {
            if table.ids(column)?.iter().flatten().all(right) {
                return Ok(());
            }
            Err(RecordError::Value {
                table: table.table,
                column,
            })
        };
        match table.table {
            "queue" => all("link", &there)?,
            "events" => all("flow", &is_known).and_then(|()| all("link", &there))?,
            _ => all("flow", &is_known)?,
        }
    }
    Ok(())
}
