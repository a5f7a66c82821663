//! A record of which one file is spoiled.

use std::fs;
use std::ops::ControlFlow;

use paceline_record::Run;
use tempfile::TempDir;

/// The files of a record, in the order in which the first octet of an input names them.
pub const FILES: [&str; 7] = [
    "events.parquet",
    "flows.parquet",
    "packets.parquet",
    "queue.parquet",
    "run.json",
    "samples.parquet",
    "scenario.toml",
];

/// What reading may take: more than the record does.
pub(crate) const LIMIT: u64 = 64 << 20;

/// The scenario of what is spoiled.
pub(crate) const SCENARIO: &str = r#"
schema = 1
[run]
duration = "0.1 s"
record.packets = true
sample_interval = "20 ms"
[path]
rate = "2 Mbit/s"
rtt = "20 ms"
queue = { kind = "droptail", size = "10 packets" }
[[flows]]
cc = "cubic"
count = 2
"#;

/// A folder with a record, and its files as they were.
pub struct Spoiled {
    folder: TempDir,
    files: Vec<Vec<u8>>,
}

#[allow(clippy::new_without_default, reason = "it writes files")]
impl Spoiled {
    /// Makes the record.
    pub fn new() -> Self {
        let scenario =
            paceline_experiment::parse(SCENARIO, "record.toml", &[]).expect("a scenario");
        let whole = paceline_simulator::run(&scenario, 1, &mut |_| ControlFlow::Continue(()));
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("record");
        whole.expect("a run").0.write(&place).expect("a record");
        let file = |name: &&str| fs::read(place.join(name)).expect("a file of the record");
        Self {
            files: FILES.iter().map(file).collect(),
            folder,
        }
    }

    /// Inputs that spoil nothing.
    pub fn whole(&self) -> impl Iterator<Item = Vec<u8>> {
        (0_u8..)
            .zip(&self.files)
            .map(|(nth, octets)| [&[nth], octets.as_slice()].concat())
    }

    /// Puts octets in the place of the file that the first of them names: the record is read, or refused.
    pub fn read(&self, octets: &[u8]) -> bool {
        let Some((nth, octets)) = octets.split_first() else {
            return false;
        };
        let nth = usize::from(*nth) % FILES.len();
        let place = self.folder.path().join("record");
        let file = place.join(FILES[nth]);
        fs::write(&file, octets).expect("a file of the record");
        let read = Run::read(&place, LIMIT).is_ok();
        fs::write(&file, &self.files[nth]).expect("a file of the record");
        read
    }
}
