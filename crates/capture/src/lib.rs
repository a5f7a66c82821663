//! What other programs recorded, as records: captures of TCP (pcap, pcapng), qlog of QUIC stacks, iperf3's JSON; and
//! what BBRv3 in the running kernel tells.
//!
//! A file is data of others: it is read in bounded memory, may be compressed (gzip, zstd), cut off or damaged, and
//! gives a record of what it says. What it does not say is absent, and what was left out is in the record's `source`.

mod build;
mod error;
mod frame;
mod iperf3;
mod kernel;
mod pcap;
mod qlog;
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

/// Reads a file as a record; without a format, the one that its beginning says. A record that would take more than
/// `memory` bytes ends where that is reached, and says so.
///
/// # Errors
/// [`CaptureError`] for what cannot be read, has no known format, or has nothing of its format.
pub fn read(
    path: &Path,
    format: Option<Format>,
    memory: u64,
    stop: &AtomicBool,
) -> Result<Run, CaptureError> {
    read_source(&Source::file(path, memory, stop), format)
}

/// The same of a file that is in memory.
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
    }
}

/// What the beginning of a file says that it is.
///
/// # Errors
/// [`CaptureError`] for what cannot be read or has no known format.
pub fn format(path: &Path) -> Result<Format, CaptureError> {
    Source::file(path, 0, &AtomicBool::new(false)).format()
}
