use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::CapacityTrace;

/// How fast a link sends.
#[derive(Clone, Debug)]
pub enum Service {
    /// At a constant rate until it is changed; zero stops the link.
    Fixed(Rate),
    /// At the opportunities of a recorded trace.
    Trace(CapacityTrace),
}

/// Bit-nanoseconds per byte-second: a packet of n bytes is n times this much work.
const WORK_PER_BYTE: u128 = 8 * Duration::NANOS_PER_SEC as u128;

/// The server at the head of a queue: computes when each packet departs.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Fixed {
        rate: Rate,
        /// Remainder of the last departure's division, so that the rate is exact over any number of
        /// packets.
        carry: u64,
        /// Capacity offered before `since`, when the rate was last set.
        capacity: Bytes,
        since: Instant,
    },
    Trace {
        trace: CapacityTrace,
        /// The opportunity in use and the bytes left in it.
        index: u64,
        credit: u64,
    },
}

impl Server {
    pub(crate) fn new(service: Service) -> Self {
        match service {
            Service::Fixed(rate) => Self::fixed(rate, Bytes::ZERO, Instant::ZERO),
            Service::Trace(trace) => Self::Trace {
                trace,
                index: 0,
                credit: CapacityTrace::OPPORTUNITY,
            },
        }
    }

    pub(crate) fn fixed(rate: Rate, capacity: Bytes, since: Instant) -> Self {
        Self::Fixed {
            rate,
            carry: 0,
            capacity,
            since,
        }
    }

    pub(crate) fn rate(&self) -> Rate {
        match self {
            Self::Fixed { rate, .. } => *rate,
            Self::Trace { trace, .. } => trace.mean_rate(),
        }
    }

    /// Bytes on the wire that the link could have carried up to `now`.
    pub(crate) fn capacity(&self, now: Instant) -> Bytes {
        match self {
            Self::Fixed {
                rate,
                capacity,
                since,
                ..
            } => *capacity + rate.volume_in(now.since(*since)),
            Self::Trace { trace, .. } => {
                Bytes::new(trace.count_before(now) * CapacityTrace::OPPORTUNITY)
            }
        }
    }

    /// When a packet of `size` bytes that reaches the head at `start` departs; `idle` says that the
    /// server was idle just before.
    #[inline]
    pub(crate) fn depart(&mut self, start: Instant, size: u32, idle: bool) -> Instant {
        match self {
            Self::Fixed { rate, carry, .. } => {
                if rate.bps() == 0 {
                    return Instant::MAX;
                }
                if idle {
                    *carry = 0;
                }
                // 2^32 bytes of work and a carry below the rate stay within 64 bits.
                let work = u64::from(size)
                    .saturating_mul(WORK_PER_BYTE as u64)
                    .saturating_add(*carry);
                *carry = work % rate.bps();
                start + Duration::from_nanos(work / rate.bps())
            }
            Self::Trace {
                trace,
                index,
                credit,
            } => {
                if idle {
                    let first = trace.count_before(start);
                    if first > *index {
                        *index = first;
                        *credit = CapacityTrace::OPPORTUNITY;
                    }
                }
                let mut left = u64::from(size);
                while left > *credit {
                    left -= *credit;
                    *index += 1;
                    *credit = CapacityTrace::OPPORTUNITY;
                }
                *credit -= left;
                trace.time_of(*index).max(start)
            }
        }
    }

    /// When `bytes` more are through after `start`, the departure planned last.
    pub(crate) fn drained(&self, start: Instant, bytes: u64) -> Instant {
        match self {
            _ if bytes == 0 => start,
            Self::Fixed { rate, .. } => start + rate.time_for(Bytes::new(bytes)),
            Self::Trace {
                trace,
                index,
                credit,
            } => {
                let more = bytes.saturating_sub(*credit);
                let index = index.saturating_add(more.div_ceil(CapacityTrace::OPPORTUNITY));
                trace.time_of(index).max(start)
            }
        }
    }

    /// Remaining work at `now` on a packet that would depart at `departure`.
    pub(crate) fn remaining(&self, now: Instant, departure: Instant, size: u32) -> u128 {
        let whole = u128::from(size) * WORK_PER_BYTE;
        match self {
            Self::Fixed { rate, .. } if departure < Instant::MAX => {
                (u128::from(departure.since(now).as_nanos()) * u128::from(rate.bps())).min(whole)
            }
            _ => whole,
        }
    }

    /// When the `work` in progress at `now` is done.
    pub(crate) fn resume(&self, now: Instant, work: u128) -> Instant {
        let bps = u128::from(self.rate().bps());
        if bps == 0 {
            return Instant::MAX;
        }
        now + Duration::from_nanos(u64::try_from(work.div_ceil(bps)).unwrap_or(u64::MAX))
    }
}
