use proptest::prelude::*;

use super::*;
use crate::{Receiver, ReceiverConfig, Segment};
use paceline_congestion::Ecn;

fn us(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn encoded(option: &Ets) -> Vec<u8> {
    let mut octets = [0xaa; 20];
    let len = option.encode(&mut octets).unwrap();
    assert!(octets[len..].iter().all(|octet| *octet == 0xaa));
    octets[..len].to_vec()
}

#[test]
fn octet_by_octet() {
    let segment = Ets {
        tsval: Timestamp(0x0102_0304),
        tsecr: Timestamp(0xfffe_fdfc),
        delay: EchoDelay::Micros(1),
        max_ack_delay: None,
    };
    let octets = [
        254, 14, 0x45, 0x54, 1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc, 0x00, 0x02,
    ];
    assert_eq!(encoded(&segment), octets);
    assert_eq!(Ets::decode(&octets), Ok(segment));

    let syn = Ets {
        delay: EchoDelay::Millis(MAX_DELAY),
        max_ack_delay: Some(0x1234),
        ..segment
    };
    let mut octets = octets.to_vec();
    octets[1] = 16;
    octets[12..].copy_from_slice(&[0x7f, 0xfe]);
    octets.extend([0x12, 0x34]);
    assert_eq!(encoded(&syn), octets);
    assert_eq!(Ets::decode(&octets), Ok(syn));
}

#[test]
fn units_and_the_reserved_bit() {
    for (bits, delay, time) in [
        (0x0000, EchoDelay::Micros(0), Some(Duration::ZERO)),
        (
            0x3ffe,
            EchoDelay::Micros(8191),
            Some(Duration::from_micros(8191)),
        ),
        (0x4002, EchoDelay::Millis(1), Some(Duration::from_millis(1))),
        (0x8000, EchoDelay::Invalid, None),
        (0xc000, EchoDelay::Reserved, None),
    ] {
        assert_eq!(delay.bits(), bits, "sent with the reserved bit clear");
        for reserved in [0, 1] {
            assert_eq!(EchoDelay::from_bits(bits | reserved), delay);
        }
        assert_eq!(delay.get(), time);
    }
    // Invalid options are ignored, whatever their value.
    assert_eq!(EchoDelay::from_bits(0x8ffe), EchoDelay::Invalid);
    assert_eq!(EchoDelay::from_bits(0xffff), EchoDelay::Reserved);
}

#[test]
fn a_delay_takes_the_finest_unit_that_holds_it() {
    for (nanos, delay) in [
        (0, EchoDelay::Micros(0)),
        (999, EchoDelay::Micros(0)),
        (8_191_999, EchoDelay::Micros(8191)),
        (8_192_000, EchoDelay::Millis(9)),
        (40_000_000, EchoDelay::Millis(40)),
        (8_191_000_000, EchoDelay::Millis(8191)),
        (8_191_001_000, EchoDelay::Invalid),
        (u64::MAX, EchoDelay::Invalid),
    ] {
        assert_eq!(
            EchoDelay::new(Duration::from_nanos(nanos)),
            delay,
            "{nanos}"
        );
    }
}

#[test]
fn the_clock_wraps() {
    let wrap = 1u64 << 32;
    assert_eq!(Timestamp::at(us(wrap - 1)), Timestamp(u32::MAX));
    assert_eq!(Timestamp::at(us(wrap + 5)), Timestamp(5));
    let option = Ets::new(us(0), Timestamp::at(us(wrap - 10)), Duration::ZERO);
    let sample = option.sample(us(wrap + 90)).unwrap();
    assert_eq!(sample.total_rtt, Duration::from_micros(100));
    // An echo from the future is ignored.
    assert_eq!(option.sample(us(wrap - 11)), None);
}

#[test]
fn paws_trusts_a_microsecond_clock_for_half_an_hour() {
    let recent = Timestamp(1_000);
    let old = Timestamp(999);
    assert!(old.is_outdated(recent, Duration::from_secs(2147)));
    assert!(!old.is_outdated(recent, Duration::from_secs(2148)));
    assert!(!recent.is_outdated(recent, Duration::ZERO));
    assert!(!Timestamp(5).is_outdated(Timestamp(u32::MAX), Duration::ZERO));
}

#[test]
fn what_is_no_option_is_told_apart() {
    let whole = encoded(&Ets::syn(us(7), Duration::from_millis(40)));
    for len in 0..whole.len() {
        assert_eq!(
            Ets::decode(&whole[..len]),
            Err(EtsError::Truncated),
            "{len}"
        );
    }
    let altered = |at: usize, octet: u8| {
        let mut octets = whole.clone();
        octets[at] = octet;
        Ets::decode(&octets)
    };
    assert_eq!(altered(0, 8), Err(EtsError::Kind(8)));
    assert_eq!(altered(2, 0xf9), Err(EtsError::ExId(0xf954)));
    for len in [0, 1, 4, 13, 15] {
        assert_eq!(altered(1, len), Err(EtsError::Length(len)));
    }
    assert_eq!(altered(1, 17), Err(EtsError::Truncated));
    // The length determines the fields that are read, not the kind of segment.
    assert_eq!(altered(1, 14).unwrap().max_ack_delay, None);
    // Of a later version, the known part.
    let mut later = whole.clone();
    later[1] = 20;
    later.extend([1, 2, 3, 4]);
    let read = Ets::decode(&later).unwrap();
    assert_eq!((read.tsval, read.max_ack_delay), (Timestamp(7), None));
    // No room to write.
    assert_eq!(Ets::syn(us(7), Duration::ZERO).encode(&mut [0; 15]), None);
}

#[test]
fn both_ends_agree_in_the_handshake() {
    let syn = Ets::syn(us(100), Duration::from_millis(40));
    assert_eq!((syn.wire_len(), syn.max_ack_delay), (16, Some(40_000)));
    assert_eq!((syn.tsecr, syn.delay), (Timestamp(0), EchoDelay::Invalid));
    let held = Duration::from_micros(30);
    let reply = Ets::syn_ack(Some(&syn), us(200), held, Duration::from_millis(70)).unwrap();
    assert_eq!(reply.max_ack_delay, Some(u16::MAX), "saturates at 65.5 ms");
    assert_eq!(
        reply.sample(us(260)),
        Some(EtsSample {
            total_rtt: Duration::from_micros(160),
            receiver_delay: Some(held),
        })
    );
    assert_eq!(Ets::syn_ack(None, us(200), held, held), None);
    // Next to MSS (4), SACK-permitted (2) and window scale (3).
    assert!(4 + 2 + 3 + syn.wire_len() <= OPTION_SPACE);
}

#[test]
fn two_ranges_fit_beside_it() {
    assert_eq!(SACK_BLOCKS, 2);
    assert_eq!(PADDED_LEN + SACK_HEADER + 2 * SACK_BLOCK, 36);
}

/// A receiver, and the sender's side of the option. All data takes 50 us each way.
struct Path {
    receiver: Receiver,
}

impl Path {
    fn new(ack_every: u32) -> Self {
        Self {
            receiver: Receiver::new(ReceiverConfig {
                ack_every,
                max_ack_delay: Duration::from_millis(20),
                quick_acks: 0,
                ..ReceiverConfig::default()
            }),
        }
    }

    /// Segment `number` of 100 bytes, sent at `sent` microseconds.
    fn segment(&mut self, number: u64, sent: u64) -> Option<EtsSample> {
        let segment = Segment {
            seq: number * 100,
            len: 100,
            ecn: Ecn::NotEct,
            cwr: false,
            push: false,
            sent: us(sent),
            retransmission: false,
        };
        let ack = self.receiver.on_segment(us(sent + 50), &segment)?;
        over_the_wire(us(sent + 100), &ack)
    }
}

fn sample(total: u64, delay: u64) -> Option<EtsSample> {
    Some(EtsSample {
        total_rtt: Duration::from_micros(total),
        receiver_delay: Some(Duration::from_micros(delay)),
    })
}

#[test]
fn a_cumulative_acknowledgment_echoes_the_earliest_and_its_delay() {
    let mut path = Path::new(3);
    assert_eq!(path.segment(0, 1_000), None);
    assert_eq!(path.segment(1, 1_300), None);
    // 700 us after the first: it was held for 700 us, and the network took 100.
    assert_eq!(path.segment(2, 1_700), sample(800, 700));
    // The next acknowledgment restarts.
    assert_eq!(path.segment(3, 2_000), None);
    assert_eq!(path.segment(4, 2_001), None);
    assert_eq!(path.segment(5, 2_002), sample(102, 2));
}

#[test]
fn a_delayed_acknowledgment_tells_its_timer() {
    let mut path = Path::new(2);
    assert_eq!(path.segment(0, 1_000), None);
    let at = path.receiver.next_timer().unwrap();
    let ack = path.receiver.on_timer(at).unwrap();
    let measured = over_the_wire(at + Duration::from_micros(50), &ack);
    // 20 ms do not fit into microseconds; milliseconds hold them exactly.
    assert_eq!(measured, sample(20_100, 20_000));
}

#[test]
fn a_segment_that_fills_a_gap_is_echoed_with_no_delay() {
    let mut path = Path::new(2);
    path.segment(0, 1_000);
    path.segment(1, 1_010);
    path.segment(3, 1_030);
    assert_eq!(path.segment(2, 5_000), sample(100, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(tsval in any::<u32>(), tsecr in any::<u32>(), nanos in any::<u64>(),
                               shift in 0u32..64, max in proptest::option::of(any::<u16>())) {
        let option = Ets {
            tsval: Timestamp(tsval),
            tsecr: Timestamp(tsecr),
            delay: EchoDelay::new(Duration::from_nanos(nanos >> shift)),
            max_ack_delay: max,
        };
        let octets = encoded(&option);
        prop_assert_eq!(octets.len(), option.wire_len());
        prop_assert_eq!(Ets::decode(&octets), Ok(option));
    }

    /// Writing an option that was read gives the same octets, except for the reserved bit, the
    /// value of a delay that has none, and the additions of a later version.
    #[test]
    fn what_is_read_is_written(mut octets in proptest::collection::vec(any::<u8>(), 0..24), like in any::<bool>()) {
        if like && octets.len() >= 4 {
            octets[0] = KIND;
            octets[1] = 14 + 2 * (octets[1] & 1);
            octets[2..4].copy_from_slice(&EX_ID);
        }
        if let Ok(option) = Ets::decode(&octets) {
            let again = encoded(&option);
            prop_assert_eq!(&again[2..12], &octets[2..12]);
            prop_assert_eq!(again[12] & 0xc0, octets[12] & 0xc0);
            if option.delay.get().is_some() {
                prop_assert_eq!(again[12], octets[12]);
                prop_assert_eq!(again[13], octets[13] & 0xfe);
            }
            prop_assert_eq!(Ets::decode(&again), Ok(option));
        }
    }

    /// The quantised delay differs from the true one by less than a unit.
    #[test]
    fn a_delay_is_within_its_unit(nanos in 0u64..9_000_000_000) {
        let delay = Duration::from_nanos(nanos);
        match EchoDelay::new(delay) {
            EchoDelay::Micros(micros) => prop_assert_eq!(u64::from(micros), nanos / 1_000),
            read @ EchoDelay::Millis(_) => {
                let read = read.get().unwrap();
                prop_assert!(read + Duration::from_micros(1) > delay);
                prop_assert!(read < delay + Duration::from_millis(1));
            }
            _ => prop_assert!(nanos > 8_191_000_000),
        }
    }
}
