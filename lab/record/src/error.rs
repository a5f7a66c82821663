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
        /// The file or folder.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
    /// Writing was stopped.
    #[error("writing the run was stopped")]
    Stopped,
    /// Something other than a run is at this location.
    #[error("{} is not a run", path.display())]
    NotARun {
        /// The file or folder.
        path: PathBuf,
    },
    /// Another version of the program wrote the run, with other tables.
    #[error("{} has schema {found}, this program reads schema {SCHEMA}; write the record again with this version", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its version, as written.
        found: String,
    },
    /// `run.json` is damaged.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A table is damaged.
    #[cfg(feature = "folder")]
    #[error("{}: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ParquetError,
    },
    /// The stream of an unfinished run is damaged.
    #[cfg(feature = "folder")]
    #[error("{}: {what}", path.display())]
    Stream {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A table would exceed the memory limit.
    #[error("{} has {rows} rows, which take some {} of memory; at most {} may be read", path.display(), in_words(*bytes), in_words(*limit))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The number of rows that it states.
        rows: u64,
        /// Their memory.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A table is missing.
    #[error("the run has no table `{table}`")]
    Table {
        /// Its name.
        table: &'static str,
    },
    /// A table lacks a required column, or has it with another type.
    #[error("the table `{table}` has no proper column `{column}`")]
    Column {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
    },
    /// A table has a value that no run has: a negative quantity, or a flow or link that does not
    /// exist.
    #[error("the table `{table}` has a value in `{column}` that cannot be")]
    Value {
        /// Name of the table.
        table: &'static str,
        /// Name of the column.
        column: &'static str,
    },
}

/// An error of the operating system, with the path.
#[cfg(feature = "folder")]
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> RecordError {
    |source| RecordError::Io {
        path: path.into(),
        source,
    }
}
