use super::*;
use crate::Block;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// The packet headers in the blocks of a capture.
fn captured(flow: Flow, packets: &[Packet]) -> Vec<Vec<u8>> {
    let mut capture = Capture::new(vec![flow], "a test", "tests");
    let begin = capture.octets.len();
    for packet in packets {
        capture.push(packet);
    }
    let octets = capture.into_octets();
    assert_eq!(octets[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let mut rest = &octets[begin..];
    let mut headers = Vec::new();
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        let length = word(4);
        assert_eq!((word(0), word(length - 4)), (6, length));
        headers.push(rest[28..28 + word(20)].to_vec());
        rest = &rest[length..];
    }
    headers
}

fn clock(ets: bool) -> Option<Clock> {
    Some(Clock {
        ets,
        max_ack_delay: Duration::from_millis(40),
        ..Clock::default()
    })
}

/// A connection: SYN, its SYN-ACK that left 20 ms later and took 20 ms more, data, and an ACK.
fn connection() -> [Packet; 4] {
    let sent = Packet {
        sent: true,
        ..Packet::default()
    };
    let came = |departed, held| Packet {
        t: at(departed + 20),
        times: Some(Times {
            departed: at(departed),
            echoed: at(departed - 20),
            held: Some(held),
        }),
        ..Packet::default()
    };
    let block = Block {
        start: 2896,
        end: 4344,
    };
    [
        Packet {
            syn: true,
            ..sent.clone()
        },
        Packet {
            syn: true,
            ..came(20, Duration::ZERO)
        },
        Packet {
            t: at(41),
            len: 1448,
            ..sent
        },
        Packet {
            ack: 1448,
            window: 1 << 20,
            blocks: [block].into_iter().collect(),
            ..came(80, Duration::from_micros(5))
        },
    ]
}

#[test]
fn a_connection_with_ets() {
    let flow = Flow {
        header: 56,
        mss: 1448,
        window: 1 << 30,
        clock: clock(true),
    };
    let packets = captured(flow, &connection());
    let options = |n: usize| &packets[n][40..];
    assert_eq!(options(0)[..12], [2, 4, 5, 168, 4, 2, 1, 3, 3, 14, 1, 1]);
    // The clock, nothing to echo, no delay, 40 ms.
    let syn = [
        254, 16, 0x45, 0x54, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0x9c, 0x40,
    ];
    assert_eq!(options(0)[12..], syn);
    assert_eq!(options(1)[16..20], 20_000_u32.to_be_bytes());
    // Data echoes the SYN-ACK, which arrived 1 ms ago.
    assert_eq!(options(2)[..4], [1, 1, 254, 14]);
    assert_eq!(options(2)[6..10], 41_000_u32.to_be_bytes());
    assert_eq!(options(2)[10..14], 20_000_u32.to_be_bytes());
    assert_eq!(options(2)[14..], (1000_u16 << 1).to_be_bytes());
    // On the wire with its payload.
    assert_eq!(packets[2][2..4], 1504_u16.to_be_bytes());
    assert_eq!(options(3)[14..16], (5_u16 << 1).to_be_bytes());
    assert_eq!(options(3)[16..], [1, 1, 5, 10, 0, 0, 11, 81, 0, 0, 16, 249]);
    assert_eq!(packets[3][28..32], 1449_u32.to_be_bytes());
    assert_eq!(packets[3][34..36], 64_u16.to_be_bytes());
}

#[test]
fn classic_timestamps_are_in_milliseconds() {
    let flow = Flow {
        header: 52,
        mss: 1448,
        window: 1 << 30,
        clock: clock(false),
    };
    let packets = captured(flow, &connection());
    assert_eq!(packets[2][40..], [1, 1, 8, 10, 0, 0, 0, 41, 0, 0, 0, 20]);
}

#[test]
fn options_that_do_not_fit_are_left_out() {
    let mut packets = connection();
    let blocks = (0..4).map(|n| Block {
        start: 10 * n,
        end: 10 * n + 5,
    });
    packets[3].blocks = blocks.collect();
    let flow = Flow {
        header: 48,
        mss: 1448,
        window: 1 << 30,
        clock: clock(false),
    };
    let headers = captured(flow, &packets);
    assert_eq!(headers[2][40..], [NOP; 8]);
    assert_eq!((headers[3].len(), headers[3][42]), (40 + 36, 5));
}

#[test]
fn checksums_hold() {
    let flow = Flow {
        header: 40,
        mss: 1448,
        window: 1 << 30,
        clock: None,
    };
    for mut packet in captured(flow, &connection()) {
        // Over all data including the checksum, the sum has all bits set.
        let pseudo = [&packet[12..20], &[0, 6], &[0, 0]].concat();
        let length = u16::from_be_bytes([packet[2], packet[3]]) - 20;
        let pseudo = [&pseudo[..10], &length.to_be_bytes()].concat();
        put_checksum(&mut packet[20..], 16, &pseudo);
        put_checksum(&mut packet[..20], 10, &[]);
        assert_eq!(
            (&packet[36..38], &packet[10..12]),
            (&[0, 0][..], &[0, 0][..])
        );
    }
}
