//! The window of both algorithms, and their common bounds.

use paceline_units::Bytes;

/// RFC 6817 section 2.5: `MIN_CWND`, `INIT_CWND`.
pub(super) const MIN_CWND: u64 = 2;
/// The minimum limit of an unpaced burst; the window is the bound.
pub(super) const MAX_QUANTUM: Bytes = Bytes::new(64 * 1024);

/// A window that changes by less than a byte at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct FineWindow {
    pub(super) bytes: Bytes,
    /// The remainder of an acknowledgment, in 2^-16 bytes.
    fraction: u16,
}

impl FineWindow {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { bytes, fraction: 0 }
    }

    pub(super) fn set(&mut self, bytes: Bytes) {
        *self = Self::new(bytes);
    }

    /// Adds `change` in 2^-16 bytes, and keeps the window between two bounds.
    pub(super) fn add(&mut self, change: i128, least: Bytes, most: Bytes) {
        let before = (i128::from(self.bytes.get()) << 16) + i128::from(self.fraction);
        let after = before.saturating_add(change).max(0);
        let bytes = Bytes::new(u64::try_from(after >> 16).unwrap_or(u64::MAX));
        if bytes < least || bytes >= most {
            self.set(bytes.min(most).max(least));
        } else {
            self.bytes = bytes;
            self.fraction = (after & 0xffff) as u16;
        }
    }
}

/// `change` per `whole` bytes, for the `part` that has arrived: one division, in 64 bits if the
/// values fit.
pub(super) fn share(change: i128, part: Bytes, whole: Bytes) -> i128 {
    let (part, whole) = (part.min(whole).get(), whole.get().max(1));
    let small = i64::try_from(change)
        .ok()
        .zip(i64::try_from(part).ok())
        .and_then(|(change, part)| change.checked_mul(part))
        .zip(i64::try_from(whole).ok());
    match small {
        Some((product, whole)) => i128::from(product / whole),
        None => change.saturating_mul(i128::from(part)) / i128::from(whole),
    }
}
