//! Limits of a scenario. The bounds are far beyond any sensible experiment, and low enough that no
//! file keeps an engine running for ever or exhausts its memory.

use paceline_units::{Bytes, Duration};

pub use paceline_units::limits::{MAX_MTU, MAX_QUEUE, MAX_RATE, MAX_RTT, MIN_MTU};

/// The longest run.
pub const MAX_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);
/// The maximum number of repeats.
pub const MAX_REPEATS: u32 = 100_000;
/// The maximum number of flows, over all groups.
pub const MAX_FLOWS: u64 = 100_000;
/// Maximum initial window in packets.
pub const MAX_INITIAL_WINDOW: u64 = 65_535;
/// The maximum number of packets that a QUIC receiver is asked to acknowledge at once.
pub const MAX_ACK_FREQUENCY: u64 = 65_535;
/// The maximum number of controllers in a comparison.
pub const MAX_COMPARED: usize = 100;
/// The maximum number of errors reported for one scenario.
pub const MAX_PROBLEMS: usize = 100;
/// The maximum number of links in addition to the path's own.
pub const MAX_LINKS: usize = 1_000;
/// The maximum number of events.
pub const MAX_EVENTS: usize = 100_000;
/// The smallest header: IPv4 and TCP without options.
pub const MIN_HEADER: Bytes = Bytes::new(40);
/// IP and UDP headers.
const MIN_UDP_HEADER: Bytes = Bytes::new(28);
/// The minimum datagram size that QUIC needs (RFC 9000 section 14).
pub const MIN_DATAGRAM: Bytes = Bytes::new(1200);
/// The maximum size of a QUIC datagram: quinn and noq write the length of a packet with a long
/// header in two bytes (RFC 9000 section 16), and panic beyond that.
pub const MAX_DATAGRAM: Bytes = Bytes::new(16_383);

/// The minimum size of headers.
pub fn min_header(is_quic: bool) -> Bytes {
    match is_quic {
        true => MIN_UDP_HEADER,
        false => MIN_HEADER,
    }
}
/// The shortest retransmission timeout.
pub const MIN_RTO: Duration = Duration::from_micros(1);
/// The longest retransmission timeout (RFC 6298 2.5 asks for no less than 60 s).
pub const MAX_RTO: Duration = Duration::from_secs(120);
/// The maximum number of packets that one run may push through the bottleneck, estimated from its
/// rate.
pub const MAX_PACKETS: u64 = 200_000_000_000;
/// The maximum number of on/off cycles of all flows in one run.
pub const MAX_CYCLES: u64 = 1_000_000_000;
/// The maximum number of rows in the samples table for a given interval.
pub const MAX_SAMPLES: u64 = 100_000_000;
/// The maximum number of rows in the samples table if no interval is given.
pub const DEFAULT_SAMPLES: u64 = 1_000_000;
/// The maximum number of points along one axis of a sweep.
pub const MAX_SWEEP_POINTS: usize = 10_000;
/// The maximum number of runs of a sweep.
pub const MAX_SWEEP_RUNS: u64 = 1_000_000;
/// The maximum number of rows of a file from which values are drawn.
pub const MAX_FILE_ROWS: usize = 1_000_000;
/// The maximum number of its columns.
pub const MAX_FILE_COLUMNS: usize = 10_000;
