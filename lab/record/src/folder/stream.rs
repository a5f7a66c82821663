//! The rows of a run on disk while it goes on, for when its process is killed.
//!
//! A stream is a file of frames: the description of the run as JSON, then frames of rows. A frame has its length, a
//! checksum and, of all growing tables at once, the rows that are new since the one before, packed as in memory. What
//! follows the last complete frame is not read, so all tables of the part that is left end at the same time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use paceline_units::{Bytes, Instant};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::column::{Coding, Column, Complete, NONE, Text, field};
use crate::error::{RecordError, at};
use crate::folder::read::{check_ids, check_schema, too_large};
use crate::info::RunInfo;
use crate::memory::RecordMemory;
use crate::packed::{Packed, pack, unpack};
use crate::recorder::{FlowTotals, Recorder, flows, growing};
use crate::regular;
use crate::rows::{EventKind, FlowRow, SampleRow};
use crate::run::Run;
use crate::table::{Contents, Row, SCHEMA, Table};
use crate::view::TableView;

/// Writes the rows of a run to a file while it goes on.
#[derive(Debug)]
pub struct Stream {
    path: PathBuf,
    file: File,
    /// Of each growing table, the rows that are written, and of each of its columns the names.
    written: [(usize, Vec<usize>); 4],
}

/// The first frame.
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    schema: u32,
    info: Cow<'a, RunInfo>,
    /// The columns of the controllers' fields.
    fields: Vec<(String, Coding)>,
    counters: Vec<Cow<'a, str>>,
}

impl Stream {
    /// A stream at a path where there is no file.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn create(path: &Path, recorder: &Recorder) -> Result<Self, RecordError> {
        let (info, fields, counters) = recorder.described();
        let header = Header {
            schema: SCHEMA,
            info: Cow::Borrowed(info),
            fields,
            counters: counters.iter().map(|name| Cow::Borrowed(*name)).collect(),
        };
        let json = serde_json::to_vec(&header).map_err(|error| at(path)(error.into()))?;
        let stream = Self {
            path: path.into(),
            file: File::create_new(path).map_err(at(path))?,
            written: recorder
                .so_far()
                .map(|(_, columns)| (0, vec![0; columns.len()])),
        };
        stream.write(&json)?;
        Ok(stream)
    }

    /// Writes the rows that are new; the run has reached this time.
    ///
    /// # Errors
    /// [`RecordError::Io`]: the stream cannot go on.
    pub fn append(&mut self, recorder: &Recorder, reached: Instant) -> Result<(), RecordError> {
        let mut content = Vec::new();
        put(&mut content, reached.as_nanos());
        let periods = growing(recorder.described().0);
        let tables = recorder.so_far().into_iter().zip(periods);
        for (((rows, columns), (_, period)), (before, names)) in tables.zip(&mut self.written) {
            put(&mut content, (rows - *before) as u64);
            for (column, known) in columns.iter().zip(names) {
                put(&mut content, (column.names.len() - *known) as u64);
                for name in &column.names[*known..] {
                    put(&mut content, name.len() as u64);
                    content.extend(name.as_bytes());
                }
                *known = column.names.len();
                pack(&column.cells_from(*before), period, &mut content);
            }
            *before = rows;
        }
        self.write(&content)
    }

    fn write(&self, content: &[u8]) -> Result<(), RecordError> {
        let mut frame = Vec::with_capacity(HEAD + content.len());
        put(&mut frame, content.len() as u64);
        frame.extend(sum(content));
        frame.extend(content);
        let written = (&self.file).write_all(&frame);
        written.map_err(at(&self.path))
    }

    /// Reads the run that a stream below a folder has left, marked incomplete; follows no link below that folder.
    /// It takes at most `limit` bytes of memory. `None` if not one frame of rows is complete.
    ///
    /// # Errors
    /// [`RecordError::Stream`], [`RecordError::Json`], [`RecordError::Value`] and [`RecordError::Column`] when it is
    /// damaged, [`RecordError::Schema`] when another version of the program wrote it, [`RecordError::TooLarge`]
    /// beyond the limit.
    pub fn read_beneath(root: &Path, path: &Path, limit: u64) -> Result<Option<Run>, RecordError> {
        let file = regular::open_beneath(root, path).map_err(at(path))?;
        let length = file.metadata().map_err(at(path))?.len();
        if length > limit {
            return Err(too_large(path, 0, length, limit));
        }
        let mut content = Vec::new();
        let read = file.take(length).read_to_end(&mut content);
        read.map_err(at(path))?;
        read_stream(&content, path, limit)
    }
}

/// The maximum number of columns of controllers, and of counters of the engine. A column takes memory of its own when
/// it is written, a counter of each flow takes some.
const MOST_FIELDS: usize = 10_000;
const MOST_COUNTERS: usize = 100;
/// Bytes before the content of a frame.
const HEAD: usize = 8 + SUM;
const SUM: usize = 8;

fn sum(content: &[u8]) -> [u8; SUM] {
    let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = Sha256::digest(content).into();
    [a, b, c, d, e, f, g, h]
}

fn put(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_le_bytes());
}

/// The number at the front.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

/// As many bytes at the front.
fn take<'b>(bytes: &mut &'b [u8], count: u64) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// The content of the next frame, if it is complete.
fn frame<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = number(bytes)?;
    let stored = take(bytes, SUM as u64)?;
    let content = take(bytes, length)?;
    (sum(content) == stored).then_some(content)
}

fn read_stream(mut rest: &[u8], path: &Path, limit: u64) -> Result<Option<Run>, RecordError> {
    let Some(header) = frame(&mut rest) else {
        return Ok(None);
    };
    let most = regular::TEXT.min(limit);
    if header.len() as u64 > most {
        return Err(too_large(path, 0, header.len() as u64, most));
    }
    let json = |source| RecordError::Json {
        path: path.into(),
        source,
    };
    let value: Value = serde_json::from_slice(header).map_err(json)?;
    check_schema(path, &value)?;
    let header: Header<'_> = serde_json::from_value(value).map_err(json)?;
    let damaged = |what| RecordError::Stream {
        path: path.into(),
        what,
    };
    if header.fields.len() > MOST_FIELDS || header.counters.len() > MOST_COUNTERS {
        return Err(damaged("it has more columns than a run"));
    }
    let own = FlowRow::TABLE.columns.iter().map(|column| column.name);
    let counters = header.counters.iter().map(|name| &**name);
    let names: BTreeSet<_> = own.clone().chain(counters).collect();
    if names.len() < own.count() + header.counters.len() {
        return Err(damaged("two columns have one name"));
    }
    let mut tables = Growing::all(&header).ok_or_else(|| damaged("two columns have one name"))?;
    let fields = header.fields.iter().map(|(_, coding)| coding.kind());
    let field_bytes = fields.map(|kind| kind.bits(true)).sum::<u64>().div_ceil(8);
    let mut reached = None;
    while let Some(mut content) = frame(&mut rest) {
        let cut = || damaged("a part of it has other rows than it says");
        reached = Some(number(&mut content).ok_or_else(cut)?);
        for nth in 0..tables.len() {
            let rows = number(&mut content).ok_or_else(cut)?;
            // A row may take less than a byte of the file.
            let mut all = [0; 4];
            for (all, table) in all.iter_mut().zip(&tables) {
                *all = table.rows as u64;
            }
            all[nth] = rows.saturating_add(all[nth]);
            let [samples, queue, events, packets] = all;
            let memory = RecordMemory::rows(samples, field_bytes, queue, events, packets).total();
            if memory > limit {
                return Err(too_large(path, all[nth], memory, limit));
            }
            tables[nth]
                .take(rows as usize, &mut content)
                .ok_or_else(cut)?;
        }
        if !content.is_empty() {
            return Err(cut());
        }
    }
    let Some(reached) = reached.map(Instant::from_nanos) else {
        return Ok(None);
    };
    let mut info = header.info.into_owned();
    let length = info.duration;
    info.duration = reached.since(Instant::ZERO);
    info.incomplete = Some(format!(
        "the process that ran it was killed; the record ends at {} s of {} s",
        info.duration.as_secs_f64(),
        length.as_secs_f64(),
    ));
    let tables = tables.map(Growing::finish);
    let ids = tables
        .iter()
        .map(|(name, rows)| (*name, rows.only(&["flow", "link"])));
    check_ids(&ids.collect::<Vec<_>>(), &info.flows, info.links.len())?;
    let [(_, samples), _, (_, events), (_, packets)] = &tables;
    let totals = totals(samples, events, &header.counters)?;
    let has_packets = packets.rows() > 0;
    let mut complete = vec![(
        FlowRow::TABLE.name,
        flows(&info.flows, &totals, &header.counters),
    )];
    complete.extend(tables.into_iter().take(if has_packets { 4 } else { 3 }));
    Run::new(info, complete).map(Some)
}

/// A table that is put together from frames.
struct Growing {
    table: Table,
    period: usize,
    rows: usize,
    columns: Vec<(String, bool, Complete)>,
}

impl Growing {
    /// The tables without rows; `None` if two columns of one have the same name.
    fn all(header: &Header<'_>) -> Option<[Self; 4]> {
        let tables = growing(&header.info).map(|(table, period)| {
            let declared = |column: &Column| {
                let coding = Coding::of(column.kind);
                (column.name.to_owned(), column.nullable, coding)
            };
            let mut columns: Vec<_> = table.columns.iter().map(declared).collect();
            if table.name == SampleRow::TABLE.name {
                let fields = header.fields.iter().cloned();
                columns.extend(fields.map(|(name, coding)| (name, true, coding)));
            }
            let empty = |(name, nullable, coding)| {
                let cells = Packed::new(period);
                let names = Vec::new();
                (
                    name,
                    nullable,
                    Complete {
                        coding,
                        cells,
                        names,
                    },
                )
            };
            Self {
                table,
                period,
                rows: 0,
                columns: columns.into_iter().map(empty).collect(),
            }
        });
        let distinct = |table: &Self| {
            let names: BTreeSet<_> = table.columns.iter().map(|(name, ..)| name).collect();
            names.len() == table.columns.len()
        };
        tables.iter().all(distinct).then_some(tables)
    }

    /// Takes rows from the front of a frame's content; `None` if there are others.
    fn take(&mut self, rows: usize, content: &mut &[u8]) -> Option<()> {
        let mut cells = Vec::new();
        for (_, nullable, column) in &mut self.columns {
            for _ in 0..number(content)? {
                let length = number(content)?;
                let name = str::from_utf8(take(content, length)?).ok()?;
                column.names.push(Text::Owned(name.to_owned()));
            }
            cells.clear();
            unpack(content, rows, self.period, &mut cells)?;
            let most = match column.coding {
                Coding::Text => (column.names.len() as u64).checked_sub(1),
                Coding::Id => Some(u32::MAX.into()),
                _ => Some(NONE - 1),
            };
            let fits = |cell: &u64| match *cell {
                NONE => *nullable,
                cell => most.is_some_and(|most| cell <= most),
            };
            if !cells.iter().all(fits) {
                return None;
            }
            column.cells.extend(cells.iter().copied());
        }
        self.rows += rows;
        Some(())
    }

    fn finish(self) -> (&'static str, Contents) {
        let columns = self
            .columns
            .into_iter()
            .map(|(name, nullable, column)| (field(&name, column.coding.kind(), nullable), column));
        let (fields, columns) = columns.unzip();
        let contents = Contents::packed(fields, columns, self.rows);
        (self.table.name, contents)
    }
}

/// The totals of flows, as far as their last rows have them.
fn totals(
    samples: &Contents,
    events: &Contents,
    counters: &[Cow<'_, str>],
) -> Result<Vec<FlowTotals>, RecordError> {
    const COUNTS: [&str; 3] = ["sent_packets", "lost_packets", "retransmitted_packets"];
    let [sent, lost, retransmitted] = COUNTS;
    let samples = samples.only(&["flow", "goodput_bytes", sent, lost, retransmitted]);
    let events = events.only(&["t_ns", "flow", "kind"]);
    let view = |table, batch| TableView { table, batch };
    let (samples, events) = (view("samples", &samples), view("events", &events));
    let count = |ns: i64| u64::try_from(ns).unwrap_or(0);
    let mut finished = BTreeMap::new();
    let rows = events.values("t_ns")?.iter().zip(events.ids("flow")?);
    for ((t, flow), kind) in rows.zip(events.texts("kind")?) {
        if let (Some(flow), Some(kind)) = (flow, kind)
            && kind == EventKind::Finish.word()
        {
            finished.insert(flow, Instant::from_nanos(count(*t)));
        }
    }
    let goodputs = samples.values("goodput_bytes")?;
    let ids = samples.ids("flow")?.values().iter();
    let last: BTreeMap<u32, usize> = ids.copied().zip(0..).collect();
    let mut counted = Vec::new();
    for name in counters {
        let known = COUNTS.into_iter().find(|known| known == name);
        counted.push(known.map(|known| samples.values(known)).transpose()?);
    }
    let totals = last.into_iter().map(|(flow, row)| FlowTotals {
        flow,
        goodput: Bytes::new(count(goodputs[row])),
        finished: finished.get(&flow).copied(),
        counters: counted
            .iter()
            .map(|counts| counts.map(|counts| count(counts[row])))
            .collect(),
    });
    Ok(totals.collect())
}

#[cfg(test)]
mod tests;
