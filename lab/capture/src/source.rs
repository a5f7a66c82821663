//! A recording: its format, and its bytes after decompression.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use paceline_record::regular;
use serde_json::Value;

use crate::error::CaptureError;

/// A supported format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap or pcapng, of TCP.
    Pcap,
    /// qlog, of any version.
    Qlog,
    /// iperf3's `--json` or `--json-stream`.
    Iperf3,
    /// Flent's data.
    Flent,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pcap, Self::Qlog, Self::Iperf3, Self::Flent];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcap => "pcap",
            Self::Qlog => "qlog",
            Self::Iperf3 => "iperf3",
            Self::Flent => "flent",
        }
    }
}

/// The first bytes of a capture: pcap in either byte order and resolution, or pcapng.
const CAPTURES: [[u8; 4]; 5] = [
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0x0a, 0x0d, 0x0d, 0x0a],
];
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// How much of a text is examined to recognise its format.
const HEAD: u64 = 1 << 16;
/// The maximum size of a file after decompression.
const MOST: u64 = 64 << 30;

/// Where a file is.
enum Place<'a> {
    Disk(&'a Path),
    Memory(&'a [u8]),
}

/// A file of another program.
pub struct Source<'a> {
    place: Place<'a>,
    /// The last part of its path, as far as it is printable.
    pub name: String,
    /// The memory limit for its record, in bytes.
    pub memory: u64,
    pub stop: &'a AtomicBool,
}

impl<'a> Source<'a> {
    pub fn file(path: &'a Path, memory: u64, stop: &'a AtomicBool) -> Self {
        let name = path.file_name().unwrap_or_default();
        Self {
            place: Place::Disk(path),
            name: shown(&name.to_string_lossy()),
            memory,
            stop,
        }
    }

    pub fn bytes(bytes: &'a [u8], name: &str, memory: u64, stop: &'a AtomicBool) -> Self {
        Self {
            place: Place::Memory(bytes),
            name: shown(name),
            memory,
            stop,
        }
    }

    /// Its bytes, from the first.
    pub fn open(&self) -> Result<Box<dyn BufRead + Send + '_>, CaptureError> {
        let raw: Box<dyn Read + Send + '_> = match self.place {
            Place::Disk(path) => Box::new(regular::open(path)?),
            Place::Memory(bytes) => Box::new(bytes),
        };
        let mut file = BufReader::with_capacity(1 << 18, raw);
        let head = file.fill_buf()?;
        let inner: Box<dyn Read + Send + '_> = if head.starts_with(&GZIP) {
            Box::new(flate2::bufread::MultiGzDecoder::new(file))
        } else if head.starts_with(&ZSTD) {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
            // A frame may ask for a window of gigabytes.
            decoder.window_log_max(27)?;
            Box::new(decoder)
        } else {
            Box::new(file)
        };
        let bounded = Bounded {
            inner,
            left: MOST,
            stop: self.stop,
        };
        Ok(Box::new(BufReader::with_capacity(1 << 18, bounded)))
    }

    /// The format detected from its beginning.
    pub fn format(&self) -> Result<Format, CaptureError> {
        let mut head = Vec::new();
        // Even a truncated compressed file has a beginning.
        let read = self.open()?.take(HEAD).read_to_end(&mut head);
        if head.is_empty() {
            read?;
            return Err(CaptureError::empty("it is empty"));
        }
        if CAPTURES.iter().any(|magic| head.starts_with(magic)) {
            return Ok(Format::Pcap);
        }
        let text = String::from_utf8_lossy(&head);
        let text = text.trim_start_matches(['\u{1e}', '\u{feff}']).trim_start();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let is_json = text.starts_with('{');
        if is_json && says(&["\"qlog_version\"", "\"qlog_format\"", "\"file_schema\""]) {
            return Ok(Format::Qlog);
        }
        // A program that runs iperf3 may print a line before.
        let is_iperf3 = says(&["\"intervals\"", "\"test_start\""]);
        let after = text.contains("\n{") && !text.contains('\0');
        if is_json && (is_iperf3 || says(&["\"event\"", "\"start\""])) || after && is_iperf3 {
            return Ok(Format::Iperf3);
        }
        let is_flent = says(&[
            "\"x_values\"",
            "\"raw_values\"",
            "\"SERIES_META\"",
            "\"T0\"",
        ]);
        if is_json && says(&["\"metadata\""]) && is_flent {
            return Ok(Format::Flent);
        }
        Err(CaptureError::Unknown)
    }

    /// Its text, of which a limited part fits in memory.
    pub fn text(&self, limit: u64) -> Result<Vec<u8>, CaptureError> {
        let mut text = Vec::new();
        self.open()?.take(limit + 1).read_to_end(&mut text)?;
        self.check()?;
        if text.len() as u64 > limit {
            let limit = limit >> 20;
            return Err(CaptureError::damaged(format!(
                "it is larger than {limit} MiB"
            )));
        }
        Ok(text)
    }

    /// Whether the caller is still waiting.
    pub fn check(&self) -> Result<(), CaptureError> {
        match self.stop.load(Relaxed) {
            true => Err(CaptureError::Stopped),
            false => Ok(()),
        }
    }
}

fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}

/// A bounded byte stream that can be cancelled.
struct Bounded<'a> {
    inner: Box<dyn Read + Send + 'a>,
    left: u64,
    stop: &'a AtomicBool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        let read = self.inner.read(into)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Ok(read)
    }
}

/// The list under a key of JSON; empty if there is none.
pub fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}
