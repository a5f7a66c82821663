//! Departure times for a stack that sends up to a millisecond before them.

use paceline_units::{Bytes, Duration, Instant, Rate};

/// The slowest that a controller can ask for: a rate of zero would never end.
const SLOWEST: Rate = Rate::from_bps(8_000);

/// Bursts of a send quantum. What is sent before it is due is paid for as well, so that a stack whose timers are early
/// keeps to the rate; a late release earns no credit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// When all that was sent is paid for.
    paid: Instant,
    /// Bytes sent in this burst.
    burst: u64,
}

impl Pacer {
    /// `size` bytes go now.
    pub fn on_send(&mut self, now: Instant, size: u32, rate: Option<Rate>) {
        if now >= self.paid {
            (self.paid, self.burst) = (now, 0);
        }
        self.burst = self.burst.saturating_add(size.into());
        let rate = rate.filter(|rate| !rate.is_infinite());
        let cost = rate.map_or(Duration::ZERO, |rate| {
            rate.max(SLOWEST).time_for(Bytes::new(size.into()))
        });
        self.paid += cost;
    }

    /// When a packet of `size` bytes may go; none if at once.
    pub fn due(&self, size: u32, quantum: Bytes) -> Option<Instant> {
        let fits = self.burst.saturating_add(size.into()) <= quantum.get();
        (!fits).then_some(self.paid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Option<Rate> = Some(Rate::from_bps(8_000_000)); // 1 byte a microsecond
    const QUANTUM: Bytes = Bytes::new(3000);

    const fn us(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn a_burst_is_a_quantum_and_is_paid_for_at_the_rate() {
        let mut pacer = Pacer::default();
        for _ in 0..3 {
            assert_eq!(pacer.due(1000, QUANTUM), None);
            pacer.on_send(us(10), 1000, RATE);
        }
        assert_eq!(pacer.due(1000, QUANTUM), Some(us(3010)));
        pacer.on_send(us(3010), 1000, RATE);
        assert_eq!(pacer.due(1000, QUANTUM), None);
    }

    /// A millisecond early each time: ten packets in the time of ten.
    #[test]
    fn an_early_packet_is_paid_for() {
        let mut pacer = Pacer::default();
        let mut now = us(0);
        for _ in 0..10 {
            pacer.on_send(now, 1000, RATE);
            let due = pacer
                .due(1000, Bytes::new(1000))
                .expect("the burst is full");
            now = Instant::from_nanos(due.as_nanos() - 900_000);
        }
        assert_eq!(now, us(9100));
    }

    #[test]
    fn a_late_packet_earns_no_credit() {
        let mut pacer = Pacer::default();
        pacer.on_send(us(0), 1000, RATE);
        pacer.on_send(us(9000), 1000, RATE);
        assert_eq!(pacer.due(3000, QUANTUM), Some(us(10_000)));
    }

    #[test]
    fn no_rate_and_an_infinite_rate_do_not_pace_and_zero_ends() {
        for rate in [None, Some(Rate::INFINITE)] {
            let mut pacer = Pacer::default();
            (0..9).for_each(|_| pacer.on_send(us(1), 1000, rate));
            assert!(
                pacer
                    .due(1000, Bytes::new(1))
                    .is_none_or(|due| due <= us(1))
            );
        }
        let mut pacer = Pacer::default();
        pacer.on_send(us(0), 1000, Some(Rate::ZERO));
        assert_eq!(pacer.due(1000, Bytes::new(1)), Some(us(1_000_000)));
    }
}
