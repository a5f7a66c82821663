use super::*;
use paceline_congestion::Ecn;
use proptest::prelude::*;

const fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn segment(number: u64, sent: u64) -> Segment {
    Segment {
        seq: number * 100,
        len: 100,
        ecn: Ecn::NotEct,
        cwr: false,
        push: false,
        sent: at(sent),
        retransmission: false,
    }
}

/// A full Ethernet segment.
fn full(number: u64, sent: u64) -> Segment {
    Segment {
        seq: number * 1448,
        len: 1448,
        ..segment(number, sent)
    }
}

fn receiver() -> Receiver {
    Receiver::new(ReceiverConfig {
        quick_acks: 0,
        ..ReceiverConfig::default()
    })
}

fn compressing() -> Receiver {
    Receiver::new(ReceiverConfig {
        quick_acks: 0,
        sack_delay: Duration::from_millis(1),
        ..ReceiverConfig::default()
    })
}

#[test]
fn none_waits_among_the_first_segments() {
    let mut receiver = Receiver::new(ReceiverConfig {
        quick_acks: 5,
        sack_delay: Duration::from_millis(1),
        ..ReceiverConfig::default()
    });
    // As in Linux, those five are not among the three that report the gap.
    for number in 1..=8 {
        assert!(receiver.on_segment(at(10), &segment(number, 0)).is_some());
    }
    assert_eq!(receiver.on_segment(at(10), &segment(9, 0)), None);
}

#[test]
fn while_the_window_grows_fewer_of_the_first_segments_count() {
    let mut receiver = Receiver::new(ReceiverConfig {
        quick_acks: 4,
        window_growth: true,
        ..ReceiverConfig::default()
    });
    // By hand: the window has room for seven of these; with each the count of four becomes five, and
    // four again. Then four more are acknowledged at once, and every second one.
    let mut at_once = |number| receiver.on_segment(at(10), &full(number, 0)).is_some();
    let acked: Vec<_> = (0..15).filter(|&number| at_once(number)).collect();
    assert_eq!(acked, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14]);
}

#[test]
fn what_fills_a_gap_is_read_a_buffer_at_a_time() {
    // Of a thousand segments behind a filled gap, those acknowledged at once.
    let answered = |gap_segments: u64| {
        let mut receiver = Receiver::new(ReceiverConfig {
            quick_acks: 0,
            window_growth: true,
            ..ReceiverConfig::default()
        });
        // The first round: ten segments, of which the window grows by seven; then a gap.
        for number in 0..10 {
            receiver.on_segment(at(20), &full(number, 10));
        }
        for number in 11..11 + gap_segments {
            receiver.on_segment(at(30), &full(number, 20));
        }
        receiver.on_segment(at(60), &full(10, 50));
        let behind = 11 + gap_segments;
        let mut answered = |number| receiver.on_segment(at(61), &full(number, 51)).is_some();
        (behind..behind + 1000)
            .filter(|&number| answered(number))
            .count()
    };
    // By hand: 27 in a round of ten expected, (54 + 16) (1 + 2 * 17 / 10) * 1448 = 446 kB: 126 more,
    // and every second one of the others. With 17 behind the gap, only 11 count.
    assert_eq!(answered(16), 126 + (1000 - 126) / 2);
    assert_eq!(answered(17), 500);
}

#[test]
fn the_offered_window_grows_and_data_behind_a_gap_takes_of_it() {
    let mut receiver = Receiver::new(ReceiverConfig {
        window_growth: true,
        ..ReceiverConfig::default()
    });
    let mut offered = |number: u64| {
        let ack = receiver.on_segment(at(10), &full(number, 0)).unwrap();
        ack.ack + ack.window
    };
    // By hand: it grows by two segments, and for the seventh by what is left.
    let grown = |count: u64| (64_240 + 2 * 1448 * count).min(81_920);
    for number in 0..8 {
        assert_eq!(offered(number), (number + 1) * 1448 + grown(number + 1));
    }
    // What was offered stays so.
    let edge = 8 * 1448 + 81_920;
    for number in 9..20 {
        assert_eq!(offered(number), edge);
    }
    // The gap is filled, and another opens.
    assert_eq!(offered(8), 20 * 1448 + 81_920);
    assert_eq!(offered(21), 20 * 1448 + 81_920);
}

#[test]
fn from_the_fourth_of_a_gap_on_they_wait_for_each_other() {
    let mut receiver = compressing();
    for number in 1..=3 {
        assert!(receiver.on_segment(at(10), &segment(number, 0)).is_some());
        assert_eq!(receiver.next_timer(), None);
    }
    for (number, millis) in [(4, 20), (5, 21)] {
        assert_eq!(receiver.on_segment(at(millis), &segment(number, 0)), None);
        assert_eq!(receiver.next_timer(), Some(at(21)));
    }
    assert_eq!(receiver.on_timer(at(20)), None);
    let ack = receiver.on_timer(at(21)).unwrap();
    let block = Block {
        start: 100,
        end: 600,
    };
    assert_eq!((ack.ack, ack.delayed, ack.sent), (0, false, at(21)));
    assert_eq!(ack.blocks.as_slice(), [block]);
    assert_eq!(
        (receiver.next_timer(), receiver.on_timer(at(30))),
        (None, None)
    );
    // The timer restarts.
    assert_eq!(receiver.on_segment(at(40), &segment(6, 0)), None);
    assert_eq!(receiver.next_timer(), Some(at(41)));
}

#[test]
fn what_fills_a_gap_or_repeats_data_ends_the_waiting() {
    for (number, acked) in [(0, 500), (2, 0)] {
        let mut receiver = compressing();
        for number in 1..=4 {
            receiver.on_segment(at(10), &segment(number, 0));
        }
        assert_eq!(receiver.next_timer(), Some(at(11)));
        let ack = receiver.on_segment(at(10), &segment(number, 0)).unwrap();
        assert_eq!(ack.ack, acked);
        assert_eq!(receiver.next_timer(), None);
    }
}

#[test]
fn each_gap_is_told_of_three_times_at_once() {
    let mut receiver = compressing();
    for number in 2..=5 {
        receiver.on_segment(at(10), &segment(number, 0));
    }
    // Segment 0 has arrived; segment 1 has not.
    assert!(receiver.on_segment(at(10), &segment(0, 0)).is_some());
    let at_once = (6..=10).map(|number| receiver.on_segment(at(10), &segment(number, 0)).is_some());
    assert_eq!(
        at_once.collect::<Vec<_>>(),
        [true, true, true, false, false]
    );
}

#[test]
fn no_range_is_pushed_out_unsaid() {
    let mut receiver = compressing();
    for number in [2, 4, 5, 6] {
        receiver.on_segment(at(10), &segment(number, 0));
    }
    assert_eq!(receiver.next_timer(), Some(at(11)));
    // The first belongs to one of the two ranges, the second to neither.
    assert_eq!(receiver.before_segment(at(10), &segment(3, 0)), None);
    assert_eq!(receiver.before_segment(at(10), &segment(7, 0)), None);
    let ack = receiver.before_segment(at(10), &segment(9, 0)).unwrap();
    let range = |start, end| Block { start, end };
    assert_eq!(ack.blocks.as_slice(), [range(400, 700), range(200, 300)]);
    assert_eq!(receiver.on_segment(at(10), &segment(9, 0)), None);
    // A segment that fills the gap pushes none out, nor does any where nothing waits.
    assert_eq!(receiver.before_segment(at(10), &segment(0, 0)), None);
    assert!(receiver.on_timer(at(11)).is_some());
    assert_eq!(receiver.before_segment(at(12), &segment(20, 0)), None);
}

#[test]
fn a_change_of_marks_does_not_wait() {
    let mut receiver = Receiver::new(ReceiverConfig {
        ecn: EcnFeedback::Dctcp,
        ..compressing().config
    });
    for number in 1..=3 {
        receiver.on_segment(at(10), &segment(number, 0));
    }
    let marked = |number| Segment {
        ecn: Ecn::Ce,
        ..segment(number, 0)
    };
    assert_eq!(receiver.on_segment(at(10), &segment(4, 0)), None);
    assert!(receiver.on_segment(at(10), &marked(5)).unwrap().ece);
    assert_eq!(receiver.on_segment(at(10), &marked(6)), None);
}

#[test]
fn no_more_than_44_wait() {
    let mut receiver = compressing();
    let sent: Vec<u64> = (1..=96)
        .filter(|number| receiver.on_segment(at(10), &segment(*number, 0)).is_some())
        .collect();
    assert_eq!(sent, [1, 2, 3, 48, 93]);
}

fn arrive(receiver: &mut Receiver, number: u64, now: u64) -> Option<Acknowledgment> {
    receiver.on_segment(at(now), &segment(number, now - 10))
}

fn ranges(ack: &Acknowledgment) -> Vec<(u64, u64)> {
    ack.blocks
        .iter()
        .map(|block| (block.start, block.end))
        .collect()
}

#[test]
fn a_pushed_segment_is_answered_at_once() {
    let pushed = |number| Segment {
        push: true,
        ..segment(number, 0)
    };
    let mut plain = receiver();
    assert_eq!(plain.on_segment(at(10), &pushed(0)), None);
    let mut receiver = Receiver::new(ReceiverConfig {
        quick_acks: 0,
        pushed: true,
        ..ReceiverConfig::default()
    });
    assert!(receiver.on_segment(at(10), &pushed(0)).is_some());
    assert_eq!(receiver.on_segment(at(20), &segment(1, 0)), None);
    // Nothing is pending from before: the next waits for its second again.
    assert_eq!(receiver.on_segment(at(21), &pushed(2)).unwrap().ack, 300);
    assert_eq!(receiver.on_segment(at(22), &segment(3, 0)), None);
}

#[test]
fn every_second_segment_echoing_the_first() {
    let mut receiver = receiver();
    assert_eq!(arrive(&mut receiver, 0, 20), None);
    let ack = arrive(&mut receiver, 1, 25).unwrap();
    assert_eq!((ack.ack, ack.ts_echo, ack.delayed), (200, at(10), false));
    assert_eq!(ack.delay, Duration::from_millis(5));
    assert_eq!(receiver.next_timer(), None);
}

#[test]
fn the_timer_acknowledges_a_lone_segment() {
    let mut receiver = receiver();
    assert_eq!(arrive(&mut receiver, 0, 20), None);
    assert_eq!(receiver.next_timer(), Some(at(60)));
    assert_eq!(receiver.on_timer(at(59)), None);
    let ack = receiver.on_timer(at(60)).unwrap();
    assert_eq!((ack.ack, ack.delayed), (100, true));
    assert_eq!(ack.delay, Duration::from_millis(40));
    assert_eq!(receiver.on_timer(at(61)), None);
}

#[test]
fn the_first_segments_are_acknowledged_one_by_one() {
    let mut receiver = Receiver::new(ReceiverConfig::default());
    let answered = (0..20)
        .filter(|n| arrive(&mut receiver, *n, 20).is_some())
        .count();
    assert_eq!(answered, 18);
}

#[test]
fn ranges_are_reported_latest_first() {
    let mut receiver = receiver();
    let acks: Vec<Vec<(u64, u64)>> = [2, 4, 6, 8, 10, 5]
        .into_iter()
        .map(|number| ranges(&arrive(&mut receiver, number, 20).unwrap()))
        .collect();
    assert_eq!(acks[0], [(200, 300)]);
    assert_eq!(acks[1], [(400, 500), (200, 300)]);
    assert_eq!(acks[4], [(1000, 1100), (800, 900), (600, 700), (400, 500)]);
    // 4 and 6 merge.
    assert_eq!(acks[5], [(400, 700), (1000, 1100), (800, 900)]);
    assert_eq!(receiver.held(), 600);
    // The first gap closes up to the next.
    arrive(&mut receiver, 0, 30);
    let ack = arrive(&mut receiver, 1, 30).unwrap();
    assert_eq!(ack.ack, 300);
    assert_eq!(ranges(&ack), [(400, 700), (1000, 1100), (800, 900)]);
    let ack = arrive(&mut receiver, 3, 31).unwrap();
    assert_eq!((ack.ack, receiver.held()), (700, 200));
    assert_eq!(ranges(&ack), [(1000, 1100), (800, 900)]);
}

#[test]
fn other_options_leave_room_for_fewer_ranges() {
    let mut receiver = Receiver::new(ReceiverConfig {
        quick_acks: 0,
        sack_blocks: crate::ets::SACK_BLOCKS,
        ..ReceiverConfig::default()
    });
    for number in [2, 4, 6] {
        arrive(&mut receiver, number, 20);
    }
    let ack = arrive(&mut receiver, 8, 20).unwrap();
    assert_eq!(ranges(&ack), [(800, 900), (600, 700)]);
    // A duplicate takes the first place, the range that contains it the second.
    let ack = arrive(&mut receiver, 2, 20).unwrap();
    assert_eq!(ranges(&ack), [(200, 300), (200, 300)]);
}

#[test]
fn duplicates_are_reported_below_and_above_the_cumulative_point() {
    let mut receiver = receiver();
    arrive(&mut receiver, 0, 20);
    let ack = arrive(&mut receiver, 0, 25).unwrap();
    assert!(ack.blocks.dsack);
    assert_eq!((ack.ack, ranges(&ack)), (100, vec![(0, 100)]));
    arrive(&mut receiver, 3, 26);
    let ack = arrive(&mut receiver, 3, 27).unwrap();
    assert!(ack.blocks.dsack);
    assert_eq!(ranges(&ack), [(300, 400), (300, 400)]);
    assert_eq!(receiver.duplicate_bytes(), 200);
}

#[test]
fn an_out_of_order_segment_echoes_the_last_in_order_one() {
    let mut receiver = receiver();
    arrive(&mut receiver, 0, 20);
    assert_eq!(arrive(&mut receiver, 2, 30).unwrap().ts_echo, at(10));
    // The retransmission that fills the gap is echoed.
    assert_eq!(arrive(&mut receiver, 1, 90).unwrap().ts_echo, at(80));
}

#[test]
fn counts_congestion_marks_and_echoes_each_once() {
    let mut receiver = receiver();
    let marked = Segment {
        ecn: Ecn::Ce,
        ..segment(0, 10)
    };
    assert_eq!(receiver.on_segment(at(20), &marked), None);
    let ack = arrive(&mut receiver, 1, 20).unwrap();
    assert_eq!((ack.ece, ack.ce_packets, ack.ce_bytes), (true, 1, 100));
    arrive(&mut receiver, 2, 20);
    let ack = arrive(&mut receiver, 3, 20).unwrap();
    assert_eq!((ack.ece, ack.ce_packets), (false, 1));
}

#[test]
fn the_window_edge_holds_and_what_lies_beyond_is_dropped() {
    let mut receiver = Receiver::new(ReceiverConfig {
        window: 300,
        ..ReceiverConfig::default()
    });
    let ack = arrive(&mut receiver, 2, 20).unwrap();
    assert_eq!((ack.ack, ack.window), (0, 300));
    let ack = arrive(&mut receiver, 3, 20).unwrap();
    assert_eq!((ranges(&ack), receiver.held()), (vec![(200, 300)], 100));
    let ack = arrive(&mut receiver, 0, 20).unwrap();
    assert_eq!((ack.ack, ack.window), (100, 200));
    let ack = arrive(&mut receiver, 1, 20).unwrap();
    assert_eq!((ack.ack, ack.window), (300, 300));
}

proptest! {
    /// A segment in sequence is answered by the short form as by the general one.
    #[test]
    fn the_short_form_is_the_general_one(
        (feedback, every, quick, window) in (0usize..4, 1u32..5, 0u32..4, 1u64..20),
        (growth, pushed, delay) in (any::<bool>(), any::<bool>(), 0u64..2),
        steps in prop::collection::vec((0u64..10, 0u64..8, 0u32..12), 1..200),
    ) {
        use EcnFeedback::{Accurate, Ace, Classic, Dctcp};
        let mut general = Receiver::new(ReceiverConfig {
            ack_every: every,
            quick_acks: quick,
            window: 100 * window,
            sack_delay: Duration::from_millis(delay),
            window_growth: growth,
            pushed,
            ecn: [Accurate, Ace, Classic, Dctcp][feedback],
            ..ReceiverConfig::default()
        });
        let mut short = general.clone();
        let (mut now, mut seq) = (0, 0);
        for (gap, offset, bits) in steps {
            now += gap;
            if general.next_timer().is_some_and(|timer| timer <= at(now)) {
                prop_assert_eq!(general.on_timer(at(now)), short.on_timer(at(now)));
            }
            // Most segments are the next ones.
            let segment = Segment {
                seq: seq + 100 * offset.saturating_sub(5),
                ecn: if bits % 3 == 0 { Ecn::Ce } else { Ecn::Ect0 },
                cwr: bits % 4 == 0,
                push: bits % 5 == 0,
                ..segment(0, now)
            };
            let before = general.before_segment(at(now), &segment);
            let general_ack = general.on_segment(at(now), &segment);
            match short.on_next(at(now), &segment) {
                Some(next) => {
                    prop_assert_eq!(before, None);
                    prop_assert_eq!(general_ack, next.map(|ack| ack.with(SackBlocks::default())));
                }
                None => {
                    prop_assert_eq!(before, short.before_segment(at(now), &segment));
                    prop_assert_eq!(general_ack, short.on_segment(at(now), &segment));
                }
            }
            prop_assert_eq!(format!("{general:?}"), format!("{short:?}"));
            seq = general.delivered();
        }
    }
}
