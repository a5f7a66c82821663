//! Why a run could not be written or read.

use std::io;
#[cfg(feature = "folder")]
use std::path::Path;
use std::path::PathBuf;

#[cfg(feature = "folder")]
use parquet::errors::ParquetError;

use crate::memory::in_words;
use crate::table::SCHEMA;

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
    /// Writing was stopped, and has left nothing.
    #[error("writing the run was stopped")]
    Stopped,
    /// Something other than a run is in its place.
    #[error("{} is not a run", path.display())]
    NotARun {
        /// Which file or folder.
        path: PathBuf,
    },
    /// The run was written by a newer version of the program, with other tables.
    #[error("{} has schema {found}, this program reads schemas 1 to {SCHEMA}", path.display())]
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
    #[cfg(feature = "folder")]
    #[error("{}: {source}", path.display())]
    Parquet {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParquetError,
    },
    /// A table would take more memory than it may.
    #[error("{} has {rows} rows, which take some {} of memory; at most {} may be read", path.display(), in_words(*bytes), in_words(*limit))]
    TooLarge {
        /// Which file.
        path: PathBuf,
        /// Its rows, as it says.
        rows: u64,
        /// What they take in memory.
        bytes: u64,
        /// What they may take.
        limit: u64,
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

/// What the operating system refused at a place.
#[cfg(feature = "folder")]
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> RecordError {
    |source| RecordError::Io {
        path: path.into(),
        source,
    }
}
