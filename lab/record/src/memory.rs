//! Memory of records.

use crate::rows::{EventRow, PacketRow, QueueRow, SampleRow};
use crate::table::Row;

/// Memory of a record, in bytes: its tables, and the data from which its metrics are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordMemory {
    /// The table `samples`.
    pub samples: u64,
    /// The table `queue`.
    pub queue: u64,
    /// The table `events`.
    pub events: u64,
    /// The table `packets`.
    pub packets: u64,
    /// What QUIC stacks write of themselves.
    pub qlog: u64,
}

impl RecordMemory {
    /// The position of each row in its flow, its RTT sorted within its flow and over all flows, and
    /// the memory for sorting.
    const METRICS_OF_SAMPLE: u64 = 36;
    /// The position of each row in its link, and its delay in sorted order.
    const METRICS_OF_QUEUE: u64 = 16;

    /// Memory of this many rows; each of `samples` has `field_bytes` in addition to its declared
    /// columns.
    pub const fn rows(
        samples: u64,
        field_bytes: u64,
        queue: u64,
        events: u64,
        packets: u64,
    ) -> Self {
        let sample = SampleRow::TABLE.row_bytes() + field_bytes + Self::METRICS_OF_SAMPLE;
        let link = QueueRow::TABLE.row_bytes() + Self::METRICS_OF_QUEUE;
        Self {
            samples: samples.saturating_mul(sample),
            queue: queue.saturating_mul(link),
            events: events.saturating_mul(EventRow::TABLE.row_bytes()),
            packets: packets.saturating_mul(PacketRow::TABLE.row_bytes()),
            qlog: 0,
        }
    }

    /// All of it.
    #[cfg(feature = "folder")]
    pub(crate) fn total(&self) -> u64 {
        let parts = [
            self.samples,
            self.queue,
            self.events,
            self.packets,
            self.qlog,
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// A number of bytes with two or three digits, and its unit.
pub fn in_words(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in ["kB", "MB", "GB", "TB", "PB", "EB"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    let digits = usize::from(value < 9.95 && unit != "B");
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_few_digits() {
        let texts = [
            0,
            999,
            1_000,
            9_949_999,
            9_950_000,
            999_499_999,
            999_500_000,
            u64::MAX,
        ];
        let texts = texts.map(in_words);
        assert_eq!(
            texts,
            [
                "0 B", "999 B", "1.0 kB", "9.9 MB", "10 MB", "999 MB", "1.0 GB", "18 EB"
            ]
        );
    }

    #[test]
    fn rows_take_what_their_columns_do() {
        // t, seq, len, window: 8 each; departed, echoed, held: 8 and a bit; flow: 4; kind: 8.
        assert_eq!(PacketRow::TABLE.row_bytes(), 4 * 8 + 3 * 8 + 4 + 8 + 1);
        let memory = RecordMemory::rows(2, 10, 3, 4, 5);
        assert_eq!(memory.samples, 2 * (SampleRow::TABLE.row_bytes() + 10 + 36));
        assert_eq!(memory.queue, 3 * (QueueRow::TABLE.row_bytes() + 16));
        assert_eq!(memory.events, 4 * EventRow::TABLE.row_bytes());
        assert_eq!(memory.packets, 5 * 69);
        assert_eq!(RecordMemory::rows(u64::MAX, 0, 0, 0, 0).samples, u64::MAX);
    }
}
