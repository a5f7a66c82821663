//! The run folder.
//!
//! `scenario.toml`, `run.json`, a Parquet file for each table and, if the caller knows the machine,
//! `machine.json`. All but the last depend on the run alone: no wall time, no machine, so that
//! identical runs are identical bytes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use paceline_units::{Bytes, Duration, Instant, Rate};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::columns::{SCHEMA_KEY, columns_of};
use crate::view::TableView;
use crate::{FlowInfo, LinkInfo, Run, RunInfo, SCHEMA, TABLES};

mod place;

use place::Beside;

const RUN: &str = "run.json";
const SCENARIO: &str = "scenario.toml";
const MACHINE: &str = "machine.json";

/// Why a run could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// There is something else in the place of a run.
    #[error("{} is not a run", path.display())]
    NotARun {
        /// Which file or folder.
        path: PathBuf,
    },
    /// The run was written by another version of the program, with other tables.
    #[error("{} has schema {found}, this program reads schema {SCHEMA}", path.display())]
    Schema {
        /// Which file.
        path: PathBuf,
        /// Its version, as written.
        found: String,
    },
    /// `run.json` is not what it should be.
    #[error("{}: {source}", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A table is not what it should be.
    #[error("{}: {source}", path.display())]
    Parquet {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParquetError,
    },
    /// A table is missing.
    #[error("the run has no table `{table}`")]
    Table {
        /// Its name.
        table: &'static str,
    },
    /// A table has not a column that it should have, or not of the right type.
    #[error("the table `{table}` has no proper column `{column}`")]
    Column {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
    },
    /// A table has a value that no run has: a negative quantity, or a flow or link that is not there.
    #[error("the table `{table}` has a value in `{column}` that cannot be")]
    Value {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
    },
}

fn at(path: &Path) -> impl Fn(io::Error) -> RecordError {
    |source| RecordError::Io {
        path: path.into(),
        source,
    }
}

impl Run {
    /// Writes the run as a folder; `machine` becomes `machine.json`.
    ///
    /// The folder is written beside its place, brought to the disk and then moved there, so that a
    /// process killed half-way, or a machine that loses its power, leaves the old run or the new one.
    /// What is in the old folder and not part of a run stays.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] when there is something else in its place, which is left as it is;
    /// [`RecordError::Io`] and [`RecordError::Parquet`] when a file cannot be written.
    pub fn write(&self, dir: &Path, machine: Option<&Value>) -> Result<(), RecordError> {
        // The place itself, not a link to it.
        let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.into());
        let (Some(name), Some(parent)) = (dir.file_name(), dir.parent()) else {
            return Err(RecordError::NotARun { path: dir });
        };
        // The folder of a name of one part is this one.
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        place::tidy(parent);
        check_place(&dir)?;
        fs::create_dir_all(parent).map_err(at(parent))?;
        let beside = Beside::new(parent, name).map_err(at(parent))?;
        let written = self.write_files(beside.path(), machine);
        let placed = written.and_then(|()| beside.put(&dir).map_err(at(&dir)));
        if placed.is_err() {
            // The first error is the one to tell of.
            let _ = place::settle(beside.path(), &dir);
        }
        placed?;
        sync(parent)
    }

    fn write_files(&self, dir: &Path, machine: Option<&Value>) -> Result<(), RecordError> {
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            fs::write(&path, text).map_err(at(&path))
        };
        write(SCENARIO, self.info().scenario_toml.clone())?;
        for (name, batch) in self.tables() {
            let path = table_path(dir, name);
            let file = File::create(&path).map_err(at(&path))?;
            write_table(file, batch).map_err(|source| RecordError::Parquet { path, source })?;
        }
        if let Some(machine) = machine {
            write(MACHINE, format!("{machine:#}\n"))?;
        }
        write(RUN, format!("{:#}\n", self.run_json()))?;
        // Once all are written: a file system that commits one commits most of what it has.
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            sync(&entry.map_err(at(dir))?.path())?;
        }
        sync(dir)
    }

    fn run_json(&self) -> Value {
        let info = self.info();
        let links = info.links.iter().map(|link| {
            json!({
                "name": link.name,
                "capacity_bps": (!link.capacity.is_infinite()).then(|| link.capacity.bps()),
                "limit_bytes": (!link.limit.is_infinite()).then(|| link.limit.get()),
                "flows": link.flows,
            })
        });
        let links: Vec<Value> = links.collect();
        let mut run = self.summary_json();
        if let Some(object) = run.as_object_mut() {
            object.insert("version".into(), json!(info.version));
            object.insert("duration_ns".into(), json!(info.duration.as_nanos()));
            object.insert(
                "sample_interval_ns".into(),
                json!(info.sample_interval.as_nanos()),
            );
            object.insert("payload_ratio".into(), json!(info.payload_ratio));
            object.insert("links".into(), json!(links));
        }
        run
    }

    /// Reads a run back. Its metrics are computed anew from its tables.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] when there is no run in that place, [`RecordError::Schema`] when it
    /// was written in another version of the format, and the others when it is damaged.
    pub fn read(dir: &Path) -> Result<Self, RecordError> {
        let path = dir.join(RUN);
        let text = match fs::read_to_string(&path) {
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
        if found != SCHEMA.to_string() {
            return Err(RecordError::Schema { path, found });
        }
        let run: RunFile = serde_json::from_value(value).map_err(json)?;
        let scenario_path = dir.join(SCENARIO);
        let scenario_toml = fs::read_to_string(&scenario_path).map_err(at(&scenario_path))?;
        let mut tables = Vec::new();
        for table in TABLES {
            if let Some(batch) = read_table(dir, table)? {
                tables.push((table, batch));
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

/// Whether a run may be written here: there is nothing, an empty folder, or a run of any version.
fn check_place(dir: &Path) -> Result<(), RecordError> {
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(RecordError::NotARun { path: dir.into() });
        }
        Err(error) => return Err(at(dir)(error)),
    };
    let run = fs::read_to_string(dir.join(RUN)).ok();
    let run = run.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    if entries.next().is_none() || run.is_some_and(|run| run.get("schema").is_some()) {
        return Ok(());
    }
    Err(RecordError::NotARun { path: dir.into() })
}

/// Brings a file, or what a folder lists, to the disk.
#[cfg(unix)]
fn sync(path: &Path) -> Result<(), RecordError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(at(path))
}

/// Only Unix opens folders, and syncs what is open for reading.
#[cfg(not(unix))]
fn sync(_: &Path) -> Result<(), RecordError> {
    Ok(())
}

fn is_ours(name: &str) -> bool {
    let table = |file: &str| {
        TABLES
            .iter()
            .any(|t| file.strip_suffix(".parquet") == Some(t))
    };
    [RUN, SCENARIO, MACHINE].contains(&name) || table(name)
}

fn table_path(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.parquet"))
}

fn write_table(file: File, batch: &RecordBatch) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by("paceline".to_owned())
        .build();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(())
}

/// A table from its file; `None` when there is no file.
fn read_table(dir: &Path, table: &'static str) -> Result<Option<RecordBatch>, RecordError> {
    let path = table_path(dir, table);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at(&path))?,
    };
    let parquet = |source| RecordError::Parquet {
        path: path.clone(),
        source,
    };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet)?;
    let schema = reader.schema().clone();
    let found = schema
        .metadata()
        .get(SCHEMA_KEY)
        .map_or("none", String::as_str);
    if found != SCHEMA.to_string() {
        return Err(RecordError::Schema {
            path,
            found: found.into(),
        });
    }
    for column in columns_of(table) {
        let right = schema.field_with_name(column.name);
        if !right.is_ok_and(|field| *field.data_type() == column.kind.data_type()) {
            return Err(RecordError::Column {
                table,
                column: column.name,
            });
        }
    }
    let reader = reader.with_batch_size(1 << 16).build().map_err(parquet)?;
    let batches = reader.collect::<Result<Vec<_>, _>>();
    let batches = batches.map_err(|error| parquet(error.into()))?;
    let batch = arrow_select::concat::concat_batches(&schema, &batches);
    let batch = batch.map_err(|error| parquet(error.into()))?;
    check_values(TableView {
        table,
        batch: &batch,
    })?;
    Ok(Some(batch))
}

/// Quantities are not negative, and only what may be absent is.
fn check_values(table: TableView<'_>) -> Result<(), RecordError> {
    for column in columns_of(table.table) {
        let array = table.batch.column_by_name(column.name);
        let absent = array.is_some_and(|array| array.null_count() > 0);
        let ints = array.and_then(|array| array.as_primitive_opt::<Int64Type>());
        let negative = ints.is_some_and(|ints| ints.iter().flatten().any(|value| value < 0));
        if negative || (absent && !column.nullable) {
            return Err(RecordError::Value {
                table: table.table,
                column: column.name,
            });
        }
    }
    Ok(())
}

/// Each flow is there once, and every row is of a flow or of a link that is there.
fn check_ids(
    tables: &[(&'static str, RecordBatch)],
    flows: &[FlowInfo],
    links: usize,
) -> Result<(), RecordError> {
    let known: BTreeSet<u32> = flows.iter().map(|flow| flow.flow).collect();
    for (table, batch) in tables {
        let table = TableView { table, batch };
        let (column, right) = match table.table {
            "flows" => ("flow", !flows.is_empty() && known.len() == flows.len()),
            "queue" => {
                let there = |link| usize::try_from(link).is_ok_and(|link| link < links);
                let mut ids = table.ids("link")?.iter().flatten();
                ("link", ids.all(there))
            }
            _ => {
                let mut ids = table.ids("flow")?.iter().flatten();
                ("flow", ids.all(|flow| known.contains(&flow)))
            }
        };
        if !right {
            return Err(RecordError::Value {
                table: table.table,
                column,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
