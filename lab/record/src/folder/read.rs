//! A run read back from its folder.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::Field;
use paceline_units::{Bytes, Duration, Instant, Rate};
use parquet::basic::Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use serde::Deserialize;
use serde_json::Value;

use crate::column::{Kind, field};
use crate::error::{RecordError, at};
use crate::folder::{RUN, SCENARIO, columns, pages, table_path};
use crate::info::{FlowInfo, GuestInfo, LinkInfo, RunInfo};
use crate::regular;
use crate::rows::TABLES;
use crate::run::Run;
use crate::table::{SCHEMA, Table, schema};
use crate::view::TableView;

/// How a file is opened.
type Open<'a> = &'a dyn Fn(&Path) -> io::Result<File>;

impl Run {
    /// Reads a run that takes at most `limit` bytes of memory. Its metrics are recomputed from its
    /// tables.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] when the folder contains no run, [`RecordError::Schema`] when
    /// another version of the program wrote it, [`RecordError::TooLarge`] beyond the limit, and the
    /// others when it is damaged.
    pub fn read(dir: &Path, limit: u64) -> Result<Self, RecordError> {
        Self::read_from(dir, limit, &regular::open)
    }

    /// Reads a run from a folder below another one, like [`Run::read`], and follows no link below
    /// that. Errors show its path there.
    ///
    /// # Errors
    /// As [`Run::read`].
    pub fn read_beneath(root: &Path, dir: &Path, limit: u64) -> Result<Self, RecordError> {
        Self::read_from(dir, limit, &|path| regular::open_beneath(root, path))
    }

    fn read_from(dir: &Path, limit: u64, open: Open<'_>) -> Result<Self, RecordError> {
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
        if value.get("schema").is_none() {
            return Err(RecordError::NotARun { path: dir.into() });
        }
        check_schema(&path, &value)?;
        let run: RunFile = serde_json::from_value(value).map_err(json)?;
        let scenario_path = dir.join(SCENARIO);
        let scenario_toml = read_text(&scenario_path).map_err(at(&scenario_path))?;
        let (mut tables, mut left) = (Vec::new(), limit);
        for table in &TABLES {
            if let Some((batch, bytes)) = read_table(dir, table, left, open)? {
                left = left.saturating_sub(bytes);
                tables.push((table.name, batch));
            }
        }
        let flows = match tables.iter().find(|(name, _)| *name == "flows") {
            Some((table, batch)) => read_flows(TableView { table, batch })?,
            None => return Err(RecordError::Table { table: "flows" }),
        };
        check_ids(&tables, &flows, run.links.len())?;
        let (emulation, source) = (run.emulation.clone(), run.source.clone());
        let tables = tables.into_iter().map(|(name, batch)| (name, batch.into()));
        let mut read = Self::new(run.info(scenario_toml, flows), tables.collect())?;
        if let Some(emulation) = emulation {
            read = read.with_emulation(emulation);
        }
        if let Some(source) = source {
            read = read.with_source(source);
        }
        Ok(read)
    }
}

/// Refuses the description of a run in another schema.
pub(super) fn check_schema(path: &Path, described: &Value) -> Result<(), RecordError> {
    let schema = described.get("schema");
    if schema.and_then(Value::as_u64) == Some(SCHEMA.into()) {
        return Ok(());
    }
    Err(RecordError::Schema {
        path: path.into(),
        found: schema.map_or_else(|| "none".into(), Value::to_string),
    })
}

/// The description of a run in `run.json`, without its results.
#[derive(Deserialize)]
struct RunFile {
    scenario: String,
    seed: u64,
    backend: String,
    version: String,
    duration_ns: u64,
    sample_interval_ns: u64,
    payload_ratio: Option<f64>,
    #[serde(default)]
    payload_ratios: Vec<Option<f64>>,
    incomplete: Option<String>,
    #[serde(default)]
    guests: Vec<GuestInfo>,
    links: Vec<LinkFile>,
    emulation: Option<Value>,
    source: Option<Value>,
}

#[derive(Deserialize)]
struct LinkFile {
    name: String,
    capacity_bps: Option<u64>,
    limit_bytes: Option<u64>,
    flows: Vec<u32>,
    return_of: Option<u32>,
}

impl RunFile {
    fn info(self, scenario_toml: String, flows: Vec<FlowInfo>) -> RunInfo {
        let links = self.links.into_iter().map(|link| LinkInfo {
            name: link.name,
            capacity: link.capacity_bps.map_or(Rate::INFINITE, Rate::from_bps),
            limit: link.limit_bytes.map_or(Bytes::INFINITE, Bytes::new),
            flows: link.flows,
            return_of: link.return_of,
        });
        RunInfo {
            scenario: self.scenario,
            scenario_toml,
            seed: self.seed,
            backend: self.backend,
            version: self.version,
            duration: Duration::from_nanos(self.duration_ns),
            sample_interval: Duration::from_nanos(self.sample_interval_ns),
            // NaN is null in JSON.
            payload_ratio: self.payload_ratio.unwrap_or(f64::NAN),
            payload_ratios: (self.payload_ratios.into_iter())
                .map(|ratio| ratio.unwrap_or(f64::NAN))
                .collect(),
            incomplete: self.incomplete,
            guests: self.guests,
            flows,
            links: links.collect(),
        }
    }
}

fn read_flows(table: TableView<'_>) -> Result<Vec<FlowInfo>, RecordError> {
    let ids = table.ids("flow")?.values();
    let mut ccs = table.texts("cc")?.into_iter();
    let mut labels = table.texts("label")?.into_iter();
    let (starts, stops) = (table.values("start_ns")?, table.ints("stop_ns")?);
    let (base_rtts, msses) = (table.values("base_rtt_ns")?, table.values("mss_bytes")?);
    let time = |ns: i64| Instant::from_nanos(u64::try_from(ns).unwrap_or(0));
    let mut flows = Vec::with_capacity(ids.len());
    let times = ids.iter().zip(starts).zip(stops);
    for (((flow, start), stop), (base_rtt, mss)) in times.zip(base_rtts.iter().zip(msses)) {
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

/// Reads a table from its file. Returns also its memory, at most `limit` bytes; `None` when there is
/// no file.
fn read_table(
    dir: &Path,
    table: &Table,
    limit: u64,
    open: Open<'_>,
) -> Result<Option<(RecordBatch, u64)>, RecordError> {
    let path = table_path(dir, table.name);
    let file = match open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(at(&path))?,
    };
    let opened = Opened::new(file, &path, limit)?;
    let batch = (opened.read()).map_err(|source| RecordError::Parquet { path, source })?;
    Ok(Some((conform(table, &batch)?, opened.bytes)))
}

/// The number of rows of a Parquet file, and the memory needed to read them, in bytes, according to
/// its metadata, which its pages do not contradict. With `beneath` it is a file below that folder,
/// and no link below it is followed.
///
/// # Errors
/// [`RecordError::Io`] and [`RecordError::Parquet`].
pub fn table_size(path: &Path, beneath: Option<&Path>) -> Result<(u64, u64), RecordError> {
    let file = match beneath {
        Some(root) => regular::open_beneath(root, path),
        None => regular::open(path),
    };
    let opened = Opened::new(file.map_err(at(path))?, path, u64::MAX)?;
    Ok((opened.rows, opened.bytes))
}

pub(super) fn too_large(path: &Path, rows: u64, bytes: u64, limit: u64) -> RecordError {
    RecordError::TooLarge {
        path: path.into(),
        rows,
        bytes,
        limit,
    }
}

/// A table in its file.
struct Opened {
    reader: SerializedFileReader<File>,
    rows: u64,
    /// The memory needed to read it.
    bytes: u64,
}

impl Opened {
    /// Opens a table that takes at most `limit` bytes of memory.
    ///
    /// Identical rows take almost nothing in the file, however many they are.
    fn new(file: File, path: &Path, limit: u64) -> Result<Self, RecordError> {
        let described = description(&file).map_err(at(path))?;
        if described > regular::TEXT.min(limit) {
            return Err(too_large(path, 0, described, regular::TEXT.min(limit)));
        }
        let parquet = |source| RecordError::Parquet {
            path: path.into(),
            source,
        };
        let beside = file.try_clone().map_err(at(path))?;
        let reader = SerializedFileReader::new(file).map_err(parquet)?;
        let metadata = reader.metadata();
        let (rows, bytes) = size(metadata).map_err(parquet)?;
        if bytes > limit {
            return Err(too_large(path, rows, bytes, limit));
        }
        pages::check(&beside, metadata).map_err(parquet)?;
        Ok(Self {
            reader,
            rows,
            bytes,
        })
    }

    fn read(&self) -> Result<RecordBatch, ParquetError> {
        let file = self.reader.metadata().file_metadata();
        let columns = file.schema_descr().columns();
        let kinds = columns.iter().map(|column| columns::kind_of(column));
        let kinds: Vec<Kind> = kinds.collect::<Result<_, _>>()?;
        let all = columns.iter().zip(&kinds);
        let fields =
            all.map(|(column, kind)| field(column.name(), *kind, column.max_def_level() > 0));
        let arrays = kinds.iter().enumerate();
        let arrays = arrays.map(|(number, kind)| columns::read(&self.reader, number, *kind));
        let arrays = arrays.collect::<Result<_, _>>()?;
        let schema = Arc::new(schema(fields.collect()));
        let rows = RecordBatchOptions::new().with_row_count(usize::try_from(self.rows).ok());
        // Each array has the type of its field and the rows of the table.
        Ok(RecordBatch::try_new_with_options(schema, arrays, &rows).expect("columns of one table"))
    }
}

/// The number of rows of a table, and the memory needed to read it, in bytes, as its file describes it.
fn size(metadata: &ParquetMetaData) -> Result<(u64, u64), ParquetError> {
    /// The position of the row in its flow or link, and its share of the sorted data.
    const METRICS: u64 = 36;
    /// A name takes up to four times as much as in the file: where it ends, and its place among the others.
    const NAMES: u64 = 4;
    let number = |number: i64| {
        u64::try_from(number).map_err(|_| columns::damaged("a size is less than nothing"))
    };
    let rows = number(metadata.file_metadata().num_rows())?;
    let (mut of_groups, mut encoded) = (0_u64, 0_u64);
    for group in metadata.row_groups() {
        of_groups = of_groups.saturating_add(number(group.num_rows())?);
        for column in group.columns() {
            let times = match column.column_type() {
                Type::BYTE_ARRAY => NAMES,
                _ => 1,
            };
            let size = number(column.uncompressed_size())?;
            encoded = encoded.saturating_add(size.saturating_mul(times));
        }
    }
    if of_groups != rows {
        let what = format!("its parts have {of_groups} rows, and it says {rows}");
        return Err(columns::damaged(&what));
    }
    let columns = metadata.file_metadata().schema_descr().columns().iter();
    let width: u64 = columns.map(|column| width(column)).sum();
    // Twice: as they are read, and as one. Python's libraries, which read tables by this figure, do so.
    let bytes = rows.saturating_mul(2 * width + METRICS);
    Ok((rows, bytes.saturating_add(encoded)))
}

/// The length of a Parquet file's metadata, which is stored before its last four bytes; at most the
/// size of the file.
fn description(mut file: &File) -> io::Result<u64> {
    let mut end = [0; 8];
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(8)))?;
    // A shorter file is not a Parquet file, as its reader reports.
    let read = file.take(8).read(&mut end)?;
    file.rewind()?;
    let [a, b, c, d, ..] = end;
    let stored = u32::from_le_bytes([a, b, c, d]);
    Ok(match read < 8 {
        true => 0,
        false => length.min(stored.into()),
    })
}

/// Bytes of a cell.
fn width(column: &ColumnDescriptor) -> u64 {
    match column.physical_type() {
        _ if column.max_rep_level() > 0 => 64,
        Type::BOOLEAN => 1,
        // Of a text an offset; itself is counted as it is encoded.
        Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
        _ => 8,
    }
}

/// A table with its columns as declared, followed by further ones.
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
        // Quantities are not negative, and only optional ones may be absent.
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

/// Each flow exists once, and every row belongs to an existing flow or link.
pub(super) fn check_ids(
    tables: &[(&'static str, RecordBatch)],
    flows: &[FlowInfo],
    links: usize,
) -> Result<(), RecordError> {
    let known: BTreeSet<u32> = flows.iter().map(|flow| flow.flow).collect();
    // A session of programs that sent nothing has none.
    if known.len() != flows.len() {
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
