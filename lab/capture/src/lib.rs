//! Recordings of other programs as records: captures of TCP (pcap, pcapng), qlog of QUIC stacks,
//! iperf3's JSON, Flent's data; and the events of BBRv3 in the running kernel.
//!
//! Files are untrusted: they are read in bounded memory, may be compressed (gzip, zstd), truncated
//! or damaged, and the record contains exactly what they report. Data that a file does not contain
//! is absent, and the record's `source` lists the data that was left out.

mod build;
mod cut;
mod error;
mod flent;
mod frame;
mod iperf3;
mod kernel;
mod pcap;
mod qlog;
mod ranges;
mod source;
mod spin;
mod tcp;
mod tracker;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use paceline_record::Run;

pub use error::CaptureError;
pub use kernel::{Ending, Kernel};
pub use source::Format;
use source::Source;
pub use spin::Spin;
pub use tcp::{TCP, Tcp};
pub use tracker::Tracker;

/// Reads a file as a record; without a format, the format is detected from the beginning of the
/// file. A record that would exceed `memory` bytes ends where the limit is reached, and says so.
///
/// # Errors
/// [`CaptureError`] if the file cannot be read, has no known format, or contains nothing of its
/// format.
pub fn read(
    path: &Path,
    format: Option<Format>,
    memory: u64,
    stop: &AtomicBool,
) -> Result<Run, CaptureError> {
    read_source(&Source::file(path, memory, stop), format)
}

/// The same for a file in memory.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(
    bytes: &[u8],
    name: &str,
    format: Option<Format>,
    memory: u64,
    stop: &AtomicBool,
) -> Result<Run, CaptureError> {
    read_source(&Source::bytes(bytes, name, memory, stop), format)
}

fn read_source(source: &Source<'_>, format: Option<Format>) -> Result<Run, CaptureError> {
    match format.map_or_else(|| source.format(), Ok)? {
        Format::Pcap => pcap::read(source),
        Format::Qlog => qlog::read(source),
        Format::Iperf3 => iperf3::read(source),
        Format::Flent => flent::read(source),
    }
}

/// The format detected from the beginning of a file.
///
/// # Errors
/// [`CaptureError`] if it cannot be read or has no known format.
pub fn format(path: &Path) -> Result<Format, CaptureError> {
    Source::file(path, 0, &AtomicBool::new(false)).format()
}

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
