//! The files of a run's folder.

use std::path::{Path, PathBuf};

use crate::rows::TABLES;

pub const RUN: &str = "run.json";
pub const SCENARIO: &str = "scenario.toml";
pub const MACHINE: &str = "machine.json";

/// Whether a file of this name is part of a run.
pub fn is_ours(name: &str) -> bool {
    let table = |file: &str| {
        let stem = file.strip_suffix(".parquet");
        TABLES.iter().any(|table| stem == Some(table.name))
    };
    [RUN, SCENARIO, MACHINE].contains(&name) || table(name) || is_qlog(name)
}

/// Whether a file of this name was written by a flow's QUIC stack.
fn is_qlog(name: &str) -> bool {
    let flow = name
        .strip_prefix("stack-")
        .and_then(|name| name.strip_suffix(".sqlog"));
    flow.is_some_and(|flow| flow.parse::<u32>().is_ok())
}

/// The path of a run's table.
pub fn table_path(dir: &Path, table: &str) -> PathBuf {
    dir.join(format!("{table}.parquet"))
}

/// The path of the file that a flow's QUIC stack wrote.
pub fn qlog_path(dir: &Path, flow: u32) -> PathBuf {
    dir.join(format!("stack-{flow}.sqlog"))
}
