//! The stream of a run, of which one frame is spoiled.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use paceline_experiment::{Guests, Progress, Watch};
use paceline_record::{Recorder, Stream};
use paceline_simulator::Stacks;
use paceline_units::{Duration, Instant};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::record::{LIMIT, SCENARIO};

/// Longer and faster than a record's: rows are written while it goes on. Each value is TOML.
const OVERRIDES: [(&str, &str); 3] = [
    ("run.duration", "\"0.3 s\""),
    ("path.rate", "\"20 Mbit/s\""),
    ("flows.0.cc", "\"bbr3\""),
];

/// Bytes before the content of a frame: its length and its checksum.
const HEAD: usize = 16;

/// A folder for streams, and the contents of a stream's frames.
pub struct Spoiled {
    folder: TempDir,
    frames: Vec<Vec<u8>>,
}

#[allow(clippy::new_without_default, reason = "it writes files")]
impl Spoiled {
    /// Makes the stream: its header, and two frames of rows.
    pub fn new() -> Self {
        let overrides = OVERRIDES.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let scenario =
            paceline_experiment::parse(SCENARIO, "stream.toml", &overrides).expect("a scenario");
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("whole");
        let mut stream = None;
        let mut due = Duration::from_millis(100);
        let (guests, stacks) = (Guests::none(), Stacks::none());
        let mut look = |at: &Progress, record: Option<&Recorder>| {
            let record = record.expect("the simulator has one");
            if at.passed >= due {
                let stream =
                    stream.get_or_insert_with(|| Stream::create(&place, record).expect("a stream"));
                let appended = stream.append(record, Instant::ZERO + at.passed);
                appended.expect("a frame");
                due += Duration::from_millis(100);
            }
            ControlFlow::Continue(())
        };
        let mut watch = Watch::new(u64::MAX, &mut look);
        let run = paceline_simulator::run_with(&scenario, 1, &guests, &stacks, &mut watch);
        run.expect("a run");
        let octets = fs::read(&place).expect("a stream");
        let frames = frames(&octets);
        assert!(frames.len() >= 3);
        Self { folder, frames }
    }

    /// Inputs that spoil nothing.
    pub fn whole(&self) -> impl Iterator<Item = Vec<u8>> {
        (0_u8..)
            .zip(&self.frames)
            .map(|(nth, content)| [&[nth], content.as_slice()].concat())
    }

    /// Puts octets in the place of the frame that the first of them names, with the right length and checksum: the
    /// stream is read, or refused.
    pub fn read(&self, octets: &[u8]) -> bool {
        let Some((nth, octets)) = octets.split_first() else {
            return false;
        };
        let nth = usize::from(*nth) % self.frames.len();
        let mut stream = Vec::new();
        for (number, content) in self.frames.iter().enumerate() {
            let content = if number == nth { octets } else { content };
            stream.extend((content.len() as u64).to_le_bytes());
            stream.extend(&Sha256::digest(content)[..8]);
            stream.extend(content);
        }
        fs::write(self.folder.path().join("spoiled"), stream).expect("a stream");
        let read = Stream::read_beneath(self.folder.path(), Path::new("spoiled"), LIMIT);
        read.is_ok_and(|run| run.is_some())
    }
}

/// The contents of the frames of a stream.
fn frames(mut octets: &[u8]) -> Vec<Vec<u8>> {
    let mut contents = Vec::new();
    while let Some((head, rest)) = octets.split_at_checked(HEAD) {
        let length = u64::from_le_bytes(head[..8].try_into().expect("eight octets"));
        let (content, rest) = rest.split_at(length as usize);
        contents.push(content.to_vec());
        octets = rest;
    }
    contents
}
