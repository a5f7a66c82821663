//! Replays whole folders of traces.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::trace::MAX_BYTES;
use crate::{Mismatch, Replayed, TraceError, Version, read_trace, replay};

/// Why a trace of a folder fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not a trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The controller behaves differently.
    #[error(transparent)]
    Mismatch(#[from] Box<Mismatch>),
}

/// The outcome of one trace.
#[derive(Debug)]
pub struct Replay {
    /// The file.
    pub file: PathBuf,
    /// The Linux algorithm that it was recorded from.
    pub version: Version,
    /// The result.
    pub result: Result<Replayed, Failure>,
}

impl Replay {
    /// Replays a file.
    pub fn of(version: Version, file: PathBuf) -> Self {
        Self {
            version,
            result: replay_file(version, &file),
            file,
        }
    }

    /// Version and name of the trace, as `v3/script_01`.
    pub fn id(&self) -> String {
        trace_id(self.version, &self.file)
    }
}

/// Version and name of a trace, as `v3/script_01`.
pub fn trace_id(version: Version, file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".zst").unwrap_or(&name);
    let stem = stem.strip_suffix(".txt").unwrap_or(stem);
    format!("{}/{stem}", version.folder())
}

/// A row of a conformance report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Version and name of the trace.
    pub id: String,
    /// The group that it belongs to.
    pub suite: &'static str,
    /// The controller tried.
    pub controller: &'static str,
    /// `pass` or `fail`.
    pub verdict: &'static str,
    /// A description of the comparison, or the first event that differs.
    pub evidence: String,
}

impl From<&Replay> for Case {
    fn from(replay: &Replay) -> Self {
        let (verdict, evidence) = match &replay.result {
            Ok(Replayed { events, states: 0 }) => (
                "fail",
                format!("{events} events and no state: nothing was compared"),
            ),
            Ok(Replayed { events, states }) => (
                "pass",
                format!("{events} events, {states} states equal in every field"),
            ),
            Err(failure) => ("fail", failure.to_string()),
        };
        Self {
            id: replay.id(),
            suite: replay.version.suite(),
            controller: replay.version.controller(),
            verdict,
            evidence,
        }
    }
}

/// Every `*.txt` and `*.txt.zst` in the folders `v1`, `v2`, `v3`, `cubic`, `reno` and `dctcp` of
/// `dir`, in order of version and name.
///
/// # Errors
/// When `dir` cannot be read, or contains no trace: an empty folder proves nothing.
pub fn traces(dir: &Path) -> io::Result<Vec<(Version, PathBuf)>> {
    let mut traces = Vec::new();
    for version in Version::ALL {
        let folder = dir.join(version.folder());
        if !folder.is_dir() {
            continue;
        }
        let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        let mut files = entries.collect::<io::Result<Vec<_>>>()?;
        files.retain(|file| {
            let name = file.to_string_lossy();
            name.ends_with(".txt") || name.ends_with(".txt.zst")
        });
        files.sort();
        traces.extend(files.into_iter().map(|file| (version, file)));
    }
    if traces.is_empty() {
        let message = format!(
            "{}: no trace in v1, v2, v3, cubic, reno or dctcp",
            dir.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    Ok(traces)
}

/// Replays all [`traces`] of a folder.
///
/// # Errors
/// As [`traces`].
pub fn replay_dir(dir: &Path) -> io::Result<Vec<Replay>> {
    let replay = |(version, file)| Replay::of(version, file);
    Ok(traces(dir)?.into_iter().map(replay).collect())
}

fn replay_file(version: Version, file: &Path) -> Result<Replayed, Failure> {
    // Reading a FIFO would block, and a device never ends.
    if !fs::metadata(file)?.is_file() {
        let message = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message).into());
    }
    let mut bytes = Vec::new();
    File::open(file)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    let trace = read_trace(&bytes)?;
    Ok(replay(version, &trace)?)
}
