//! The spin bit of QUIC: an RTT that anyone on the path may measure (RFC 9000 section 17.4).

use paceline_units::{Duration, Instant};

const LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const SPIN: u8 = 0x20;

/// RTTs of one connection, from the datagrams of one of its directions in their order.
///
/// Each end of a connection sends the value that it received last, and the client its opposite: at
/// any point of the path, an edge passes once per round trip. An end without data to send delays
/// it. An end may leave the bit unused, with any value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spin {
    /// Whether a handshake was captured: other protocols use these bits differently.
    is_quic: bool,
    /// The bit's last value.
    value: Option<bool>,
    /// When it last changed.
    edge: Option<Instant>,
    rtt: Option<Duration>,
}

impl Spin {
    /// A datagram with this payload passes. A time below `least` is not an RTT of this path.
    pub fn on_datagram(&mut self, now: Instant, payload: &[u8], least: Duration) {
        let Some(first) = payload.first().filter(|first| *first & FIXED != 0) else {
            return;
        };
        if first & LONG != 0 {
            // A version, and lengths of connection identifiers that no version exceeds (RFC 9000 section 17.2).
            let version = payload.get(1..5).is_some_and(|version| version != [0; 4]);
            self.is_quic |= version && payload.get(5).is_some_and(|length| *length <= 20);
            return;
        }
        if !self.is_quic {
            return;
        }
        let value = first & SPIN != 0;
        if self.value.replace(value).is_some_and(|last| last != value) {
            let since = self.edge.replace(now).map(|edge| now.since(edge));
            self.rtt = since.filter(|rtt| *rtt >= least).or(self.rtt);
        }
    }

    /// The latest round trip.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIAL: [u8; 8] = [0xc3, 0, 0, 0, 1, 8, 0, 0];
    const LEAST: Duration = Duration::from_millis(20);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn short(spin: bool) -> [u8; 3] {
        [FIXED | if spin { SPIN } else { 0 } | 3, 7, 7]
    }

    fn after(initial: &[u8], bits: impl IntoIterator<Item = (u64, bool)>) -> Option<Duration> {
        let mut spin = Spin::default();
        spin.on_datagram(at(0), initial, LEAST);
        for (ms, bit) in bits {
            spin.on_datagram(at(ms), &short(bit), LEAST);
        }
        spin.rtt()
    }

    #[test]
    fn a_round_trip_lies_between_two_edges() {
        let bits = [(1, false), (10, true), (30, true), (55, false)];
        assert_eq!(after(&INITIAL, bits), Some(Duration::from_millis(45)));
        // The first change alone says nothing: the start of the value before it is unknown.
        assert_eq!(after(&INITIAL, [(1, false), (10, true)]), None);
    }

    #[test]
    fn an_unused_bit_measures_nothing() {
        assert_eq!(after(&INITIAL, (1..500).map(|ms| (ms, false))), None);
        // With a random value in each packet, edges arrive faster than the path's RTT.
        let any = (1..500).map(|ms| (ms, (ms * 2_654_435_761) % 7 > 3));
        assert_eq!(after(&INITIAL, any), None);
    }

    #[test]
    fn other_protocols_have_no_spin_bit() {
        let bits = [(1, false), (10, true), (55, false)];
        for other in [
            [0; 8],
            [0xc3, 0, 0, 0, 0, 8, 0, 0],
            [0xc3, 0, 0, 0, 1, 99, 0, 0],
        ] {
            assert_eq!(after(&other, bits), None);
        }
        assert_eq!(after(&[], bits), None);
    }
}
