//! Bounds that more than one crate uses: far beyond any sensible experiment, and low enough that no
//! input keeps an engine running for ever.

use crate::{Bytes, Duration, Rate};

/// The longest round-trip time, in nanoseconds.
pub const MAX_RTT_NS: u64 = 100 * Duration::NANOS_PER_SEC;
/// The longest round-trip time.
pub const MAX_RTT: Duration = Duration::from_nanos(MAX_RTT_NS);
/// The largest queue, in bytes.
pub const MAX_QUEUE_BYTES: u64 = 1 << 40;
/// The largest queue.
pub const MAX_QUEUE: Bytes = Bytes::new(MAX_QUEUE_BYTES);
/// The fastest link or application.
pub const MAX_RATE: Rate = Rate::from_bps(10_000_000_000_000);
/// The smallest MTU (RFC 791).
pub const MIN_MTU: Bytes = Bytes::new(68);
/// The largest MTU: that of an IP packet.
pub const MAX_MTU: Bytes = Bytes::new(65_535);
/// The shortest time between two updates of a queue's controller, in nanoseconds.
pub const MIN_UPDATE_NS: u64 = 10_000;
