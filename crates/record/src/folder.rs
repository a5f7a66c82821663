//! The run folder.
//!
//! `scenario.toml`, `run.json`, a Parquet file for each table, the qlogs that QUIC stacks wrote of themselves and, if the
//! caller knows the machine, `machine.json`. All but the last depend on the run alone: no wall time, no machine, so that
//! identical runs are identical bytes.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::error::{RecordError, at};
use crate::regular;
use crate::run::Run;

mod arrow;
mod columns;
mod files;
mod pages;
mod place;
mod read;
mod stream;
mod upgrade;

pub use read::{table_size, table_size_beneath};
pub use stream::Stream;

use files::{MACHINE, RUN, SCENARIO, qlog_path, table_path};
use place::Beside;

impl Run {
    /// Writes the run as a folder; `machine` becomes `machine.json`.
    ///
    /// The folder is written under a temporary name, synced to disk and then renamed, so that a
    /// process killed half-way or a power failure leaves the old run or the new one. Files in the
    /// old folder that are not part of a run are kept.
    ///
    /// # Errors
    /// [`RecordError::NotARun`] when the folder contains something else, which is left unchanged;
    /// [`RecordError::Io`] and [`RecordError::Parquet`] when a file cannot be written.
    pub fn write(&self, dir: &Path, machine: Option<&Value>) -> Result<(), RecordError> {
        self.write_until(dir, machine, &AtomicBool::new(false))
    }

    /// The same, but stops before the next table once `stop` returns true: nothing is written then.
    ///
    /// # Errors
    /// As [`Run::write`], and [`RecordError::Stopped`].
    pub fn write_until(
        &self,
        dir: &Path,
        machine: Option<&Value>,
        stop: &AtomicBool,
    ) -> Result<(), RecordError> {
        // The folder itself, not a link to it.
        let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.into());
        let (Some(name), Some(parent)) = (dir.file_name(), dir.parent()) else {
            return Err(RecordError::NotARun { path: dir });
        };
        // The parent of a name with one component is this one.
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        place::tidy(parent);
        check_place(&dir)?;
        fs::create_dir_all(parent).map_err(at(parent))?;
        let beside = Beside::new(parent, name).map_err(at(parent))?;
        let written = self.write_files(beside.path(), machine, stop);
        let placed = written.and_then(|()| beside.put(&dir).map_err(at(&dir)));
        if placed.is_err() {
            // The first error is the one to report.
            let _ = place::settle(beside.path(), &dir);
        }
        placed?;
        sync(parent)
    }

    fn write_files(
        &self,
        dir: &Path,
        machine: Option<&Value>,
        stop: &AtomicBool,
    ) -> Result<(), RecordError> {
        let go_on = || match stop.load(Ordering::Relaxed) {
            true => Err(RecordError::Stopped),
            false => Ok(()),
        };
        let write = |name: &str, text: String| {
            let path = dir.join(name);
            fs::write(&path, text).map_err(at(&path))
        };
        write(SCENARIO, self.info().scenario_toml.clone())?;
        for (name, contents) in self.contents() {
            go_on()?;
            let path = table_path(dir, name);
            let file = File::create(&path).map_err(at(&path))?;
            columns::write(file, contents)
                .map_err(|source| RecordError::Parquet { path, source })?;
        }
        for (flow, qlog) in self.qlogs() {
            go_on()?;
            let path = qlog_path(dir, *flow);
            fs::write(&path, qlog).map_err(at(&path))?;
        }
        if let Some(machine) = machine {
            write(MACHINE, format!("{machine:#}\n"))?;
        }
        write(RUN, format!("{:#}\n", self.run_json()))?;
        // After all are written: a file system that commits one file commits most of the others
        // too.
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            sync(&entry.map_err(at(dir))?.path())?;
        }
        sync(dir)?;
        go_on()
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
            if !info.payload_ratios.is_empty() {
                object.insert("payload_ratios".into(), json!(info.payload_ratios));
            }
            object.insert("links".into(), json!(links));
        }
        run
    }
}

/// Whether a run may be written here: the path does not exist, or is an empty folder, or a run of
/// any version.
fn check_place(dir: &Path) -> Result<(), RecordError> {
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(RecordError::NotARun { path: dir.into() });
        }
        Err(error) => return Err(at(dir)(error)),
    };
    let run = regular::read_text(&dir.join(RUN), regular::TEXT).ok();
    let run = run.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    if entries.next().is_none() || run.is_some_and(|run| run.get("schema").is_some()) {
        return Ok(());
    }
    Err(RecordError::NotARun { path: dir.into() })
}

/// Syncs a file, or a folder's entries, to disk.
#[cfg(unix)]
fn sync(path: &Path) -> Result<(), RecordError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(at(path))
}

/// Only Unix opens folders, and syncs files that are open for reading.
#[cfg(not(unix))]
fn sync(_: &Path) -> Result<(), RecordError> {
    Ok(())
}

#[cfg(test)]
mod tests;
