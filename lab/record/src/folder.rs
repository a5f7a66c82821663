//! The run folder.
//!
//! `scenario.toml`, `run.json`, a Parquet file for each table and the qlogs that QUIC stacks wrote of themselves. All of
//! it depends on the run alone: no wall time, no machine, so that identical runs are identical bytes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::error::{RecordError, at};
use crate::run::Run;

mod arrow;
mod columns;
mod pages;
mod read;
mod stream;

pub use read::table_size;
pub use stream::Stream;

const RUN: &str = "run.json";
const SCENARIO: &str = "scenario.toml";

/// The path of a run's table.
fn table_path(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.parquet"))
}

impl Run {
    /// Writes the files of the run into a folder, which is created if it does not exist.
    ///
    /// It replaces files of the same names, leaves all others (an old run's `packets.parquet`, for
    /// example), and does not sync to disk: a caller whose run is to survive a crash writes to a
    /// temporary folder, syncs it and renames it.
    ///
    /// # Errors
    /// [`RecordError::Io`] and [`RecordError::Parquet`] when a file cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), RecordError> {
        self.write_until(dir, &AtomicBool::new(false))
    }

    /// The same, but stops before the next file once `stop` is true.
    ///
    /// # Errors
    /// As [`Run::write`], and [`RecordError::Stopped`].
    pub fn write_until(&self, dir: &Path, stop: &AtomicBool) -> Result<(), RecordError> {
        let go_on = || match stop.load(Ordering::Relaxed) {
            true => Err(RecordError::Stopped),
            false => Ok(()),
        };
        let write = |name: &str, content: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, content).map_err(at(&path))
        };
        fs::create_dir_all(dir).map_err(at(dir))?;
        write(SCENARIO, self.info().scenario_toml.as_bytes())?;
        for (name, contents) in self.contents() {
            go_on()?;
            let path = table_path(dir, name);
            let file = File::create(&path).map_err(at(&path))?;
            columns::write(file, contents)
                .map_err(|source| RecordError::Parquet { path, source })?;
        }
        for (flow, qlog) in self.qlogs() {
            go_on()?;
            write(&format!("stack-{flow}.sqlog"), qlog)?;
        }
        go_on()?;
        write(RUN, format!("{:#}\n", self.run_json()).as_bytes())
    }

    fn run_json(&self) -> Value {
        let info = self.info();
        let links = info.links.iter().map(|link| {
            let mut object = json!({
                "name": link.name,
                "capacity_bps": (!link.capacity.is_infinite()).then(|| link.capacity.bps()),
                "limit_bytes": (!link.limit.is_infinite()).then(|| link.limit.get()),
                "flows": link.flows,
            });
            if let Some(of) = link.return_of {
                object["return_of"] = json!(of);
            }
            object
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

#[cfg(test)]
mod tests;
