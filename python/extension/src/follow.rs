//! Writes the rows of a run to disk while it goes on.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use paceline_record::{RecordError, Recorder, Stream};
use paceline_units as units;

/// The rows that a killed run loses. A shorter run has no stream.
const PERIOD: Duration = Duration::from_secs(1);

/// Writes the rows of a run to a stream, every [`PERIOD`].
pub struct Follower<'p> {
    /// The path of the stream; none if there is to be none.
    path: Option<&'p Path>,
    stream: Option<Stream>,
    due: Instant,
}

impl<'p> Follower<'p> {
    pub fn new(path: Option<&'p Path>) -> Self {
        Self {
            path,
            stream: None,
            due: Instant::now() + PERIOD,
        }
    }

    /// Writes the rows that are new if it is time. Where nothing can be written, the run goes on
    /// without a stream.
    pub fn follow(&mut self, record: &Recorder, passed: units::Duration) {
        let Some(path) = self.path else { return };
        if Instant::now() < self.due {
            return;
        }
        if self.write(path, record, passed).is_err() {
            (self.path, self.stream) = (None, None);
            // If the disk is full, it has room again for the run itself.
            let _ = fs::remove_file(path);
        }
        self.due = Instant::now() + PERIOD;
    }

    fn write(
        &mut self,
        path: &Path,
        record: &Recorder,
        passed: units::Duration,
    ) -> Result<(), RecordError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(Stream::create(path, record)?),
        };
        stream.append(record, units::Instant::ZERO + passed)
    }
}
