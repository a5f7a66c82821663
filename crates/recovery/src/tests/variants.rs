//! Each recovery algorithm against the worked traces of its RFC.

use paceline_congestion::{CaState, RecoveryWindow};
use paceline_units::{Bytes, Rate};

use super::harness::{Delays, Event, MSS, Window, World, at, ms};
use paceline_units::options::Choice;

use crate::{Acknowledgment, Recovery, Segment, SenderConfig};

fn config(recovery: Recovery) -> SenderConfig {
    SenderConfig {
        recovery,
        ..SenderConfig::default()
    }
}

fn direct<T>(_: u64, _: &T) -> Delays {
    vec![ms(20)]
}

/// Packet `n` of the first flight of twenty arrives at `20 + n` ms, so that
/// acknowledgments come one by one; those named in `lost` do not arrive.
fn flight(lost: &[u64]) -> impl FnMut(u64, &Segment) -> Delays + '_ {
    move |number, _| {
        if lost.contains(&number) {
            vec![]
        } else {
            vec![ms(20 + number.min(20))]
        }
    }
}

fn is_reduction(event: &&Event) -> bool {
    **event == Event::Enter
}

/// The segments sent on each of the acknowledgments of the first flight: new segments and
/// retransmissions.
fn acknowledged(sent: &[Segment]) -> Vec<(usize, usize)> {
    (40..60)
        .map(|millis| {
            let now = sent.iter().filter(|segment| segment.sent == at(millis));
            let again = now.clone().filter(|segment| segment.retransmission).count();
            (now.count() - again, again)
        })
        .collect()
}

/// RFC 6937 section 3.1, second example: 20 in flight, the first 15 lost. The
/// RFCs halve the flight of 22 that limited transmit leaves.
fn fifteen_of_twenty(recovery: Recovery) -> Vec<(usize, usize)> {
    let lost: Vec<u64> = (0..15).collect();
    let mut controller = Window::new(20);
    controller.reduced = 11 * u64::from(MSS);
    let mut world = World::with(config(recovery), controller, flight(&lost), direct);
    world.sender.write_unlimited(at(0));
    world.run(at(60));
    acknowledged(&world.sent).split_off(15)
}

#[test]
fn a_burst_follows_upon_fifteen_losses_without_rate_reduction() {
    // N N 7R R R.
    for recovery in [Recovery::Sack, Recovery::Rack] {
        let sent = fifteen_of_twenty(recovery);
        assert_eq!(
            sent,
            [(1, 0), (1, 0), (0, 7), (0, 1), (0, 1)],
            "{recovery:?}"
        );
    }
}

#[test]
fn rate_reduction_answers_each_delivery_within_its_bound() {
    // PRR-CRB and, as no acknowledgment is safe yet, RFC 9937: N N R R R.
    for recovery in [Recovery::RackPrr, Recovery::RackPrrCrb] {
        let sent = fifteen_of_twenty(recovery);
        assert_eq!(
            sent,
            [(1, 0), (1, 0), (0, 1), (0, 1), (0, 1)],
            "{recovery:?}"
        );
    }
    // PRR-SSRB: N N 2R 2R 2R.
    assert_eq!(
        fifteen_of_twenty(Recovery::RackPrrSsrb),
        [(1, 0), (1, 0), (0, 2), (0, 2), (0, 2)]
    );
}

/// RFC 6937 section 3.1, first example: one loss of twenty. RFC 6675 waits
/// until half of the window has left, then answers each acknowledgment.
#[test]
fn one_loss_of_twenty_halves_the_window_by_waiting() {
    let mut controller = Window::new(20);
    controller.reduced = 11 * u64::from(MSS);
    let mut world = World::with(config(Recovery::Sack), controller, flight(&[0]), direct);
    world.sender.write_unlimited(at(0));
    world.run(at(60));
    let sent = acknowledged(&world.sent);
    // N N R, then pipe falls from 19 to 11 with nothing sent, then one for one.
    assert_eq!(sent[1..4], [(1, 0), (1, 0), (0, 1)]);
    assert_eq!(sent[4..12], [(0, 0); 8]);
    assert_eq!(sent[12..], [(1, 0); 8]);
}

/// Lost: the segments in `lost`, and the first retransmission.
fn loses_its_first_retransmission(lost: u64) -> impl FnMut(u64, &Segment) -> Delays {
    let mut first = true;
    move |number, segment| {
        if number == lost || (segment.retransmission && std::mem::take(&mut first)) {
            vec![]
        } else {
            vec![ms(20)]
        }
    }
}

#[test]
fn only_rack_sees_a_lost_retransmission() {
    for &recovery in <Recovery as Choice>::ALL {
        let data = loses_its_first_retransmission(22);
        let mut world = World::with(config(recovery), Window::new(20), data, direct);
        world.sender.write(at(0), 400_000);
        world.sender.close();
        assert!(world.run(at(100_000)));
        let reductions = world
            .sender
            .controller()
            .events
            .iter()
            .filter(is_reduction)
            .count();
        let timeouts = u64::from(!recovery.has_rack());
        assert_eq!(world.sender.stats().rto_count, timeouts, "{recovery:?}");
        // RFC 5681 section 4.3.
        let expected = if recovery == Recovery::Rack { 2 } else { 1 };
        assert_eq!(reductions, expected, "{recovery:?}");
    }
}

/// Every other retransmission is lost, and the loss is detected when the one after it is
/// acknowledged: one more reduction, not one each.
#[test]
fn a_round_of_lost_retransmissions_is_one_signal() {
    let mut again = Vec::new();
    let data = |number: u64, segment: &Segment| {
        let first = segment.retransmission && !again.contains(&segment.seq);
        if first {
            again.push(segment.seq);
        }
        let lost = (20..28).contains(&number) || (first && segment.seq.is_multiple_of(2000));
        if lost { vec![] } else { vec![ms(20)] }
    };
    let mut controller = Window::new(40);
    controller.rate = Some(paceline_units::Rate::from_bps(8_000_000)); // a segment a millisecond
    controller.quantum = Bytes::new(1);
    let mut world = World::with(config(Recovery::Rack), controller, data, direct);
    world.sender.write_unlimited(at(0));
    world.run(at(160));
    let events = &world.sender.controller().events;
    let mut reported = 0;
    for pair in events.windows(2) {
        let lost = |event: &Event| matches!(event, Event::Loss { again: true, .. });
        reported += usize::from(lost(&pair[0]) && !lost(&pair[1]));
    }
    assert!(reported > 2, "{events:?}");
    assert_eq!(events.iter().filter(is_reduction).count(), 2);
}

/// RFC 6582: one hole per round trip; here segments 20, 22 and 24 of the flight of 20 to 39, which
/// was sent at 40 ms.
#[test]
fn newreno_repairs_one_hole_a_round_trip() {
    let data = |number: u64, _: &Segment| match number {
        20 | 22 | 24 => vec![],
        _ => vec![ms(20)],
    };
    let mut world = World::with(config(Recovery::NewReno), Window::new(20), data, direct);
    world.sender.write(at(0), 200_000);
    world.sender.close();
    assert!(world.run(at(10_000)));
    let again: Vec<(u64, u64)> = world
        .sent
        .iter()
        .filter(|segment| segment.retransmission)
        .map(|segment| (segment.seq / 1000, segment.sent.as_nanos() / 1_000_000))
        .collect();
    assert_eq!(again, [(20, 80), (22, 120), (24, 160)]);
    assert_eq!(
        world.sender.controller().story(),
        [
            Event::Loss {
                starts_range: true,
                again: false
            },
            Event::Enter,
            Event::Loss {
                starts_range: true,
                again: false
            },
            Event::Loss {
                starts_range: true,
                again: false
            },
            Event::Exit
        ]
    );
    assert_eq!(world.sender.stats().rto_count, 0);
}

/// RFC 6582 section 4: only the first partial acknowledgment restarts the timer, so ten holes are
/// not repaired one by one.
#[test]
fn impatient_newreno_times_out_over_many_holes() {
    let holes: Vec<u64> = (0..10).map(|hole| 20 + 2 * hole).collect();
    for (lost, timeouts) in [(&holes[..4], 0), (&holes[..], 1)] {
        let data = |number: u64, _: &Segment| {
            if lost.contains(&number) {
                vec![]
            } else {
                vec![ms(20)]
            }
        };
        let mut world = World::with(config(Recovery::NewReno), Window::new(20), data, direct);
        world.sender.write(at(0), 200_000);
        world.sender.close();
        assert!(world.run(at(10_000)));
        assert_eq!(world.sender.stats().rto_count, timeouts);
    }
}

/// RFC 3042: one new segment on each of the first two duplicates.
#[test]
fn limited_transmit_keeps_a_small_window_going() {
    for &recovery in <Recovery as Choice>::ALL {
        for limited_transmit in [true, false] {
            let config = SenderConfig {
                limited_transmit,
                tlp: false,
                ..config(recovery)
            };
            // A window of three: with one lost, only new data brings the third duplicate.
            let mut world = World::with(config, Window::new(3), flight(&[3]), direct);
            world.sender.write(at(0), 30_000);
            world.sender.close();
            assert!(world.run(at(10_000)));
            let stats = world.sender.stats();
            // RACK's timer needs no third duplicate.
            let timeouts = u64::from(!limited_transmit && !recovery.has_rack());
            assert_eq!(stats.rto_count, timeouts, "{recovery:?} {limited_transmit}");
            let disorder = Event::Ack(CaState::Disorder);
            assert!(world.sender.controller().events.contains(&disorder));
        }
    }
}

/// RFC 6675 `NextSeg`: rule 3, segments between SACKed ranges, and rule 4, the last segment, when
/// there is no new data.
#[test]
fn without_new_data_sack_repeats_what_may_be_lost() {
    // Of twelve, 0 is certainly lost given the SACKs above it; 10 has one segment above it.
    let mut world = World::with(
        config(Recovery::Sack),
        Window::new(24),
        flight(&[0, 10, 11]),
        |_: u64, _: &Acknowledgment| vec![ms(20)],
    );
    world.sender.write(at(0), 13_000);
    world.sender.close();
    assert!(world.run(at(10_000)));
    let again: Vec<u64> = world
        .sent
        .iter()
        .filter(|segment| segment.retransmission)
        .map(|segment| segment.seq / 1000)
        .collect();
    // Segment 11 is the highest that is not SACKed when the rescue retransmission is sent.
    assert_eq!(again.first(), Some(&0));
    assert!(again.contains(&10) && again.contains(&11), "{again:?}");
    assert_eq!(world.sender.stats().rto_count, 0);
    assert_eq!(world.sender.in_flight(), Bytes::ZERO);
}

/// The rescue finds a lost tail that no SACK reveals, once per episode.
#[test]
fn the_rescue_retransmission_spares_a_timeout() {
    for (tail, timeouts) in [(&[0, 12][..], 0), (&[0, 11, 12], 0), (&[12], 1)] {
        let config = config(Recovery::Sack);
        let mut world = World::with(config, Window::new(24), flight(tail), direct);
        world.sender.write(at(0), 13_000);
        world.sender.close();
        assert!(world.run(at(10_000)));
        assert_eq!(world.sender.stats().rto_count, timeouts, "{tail:?}");
        assert_eq!(
            world.sender.stats().retransmitted_packets,
            tail.len() as u64
        );
    }
}

/// Of a flight of twenty segments the last arrives and the others are held, so that RACK declares
/// them lost together, a quarter of a round trip later. What is sent then starts a new interval of
/// the delivery rate, because nothing is in flight, and what was held is counted in it. With the
/// draft's pull request 56 the interval goes on, because nineteen segments are unacknowledged.
#[test]
fn what_was_declared_lost_and_arrives_counts_for_too_short_an_interval() {
    let rates = [false, true].map(|sample_unacknowledged| {
        let config = SenderConfig {
            sample_unacknowledged,
            ..config(Recovery::RackPrr)
        };
        let mut controller = Window::new(20);
        controller.reduced = u64::from(MSS) * 40;
        controller.recovery = RecoveryWindow::Controller;
        let delayed = |number, _: &Segment| match number {
            20..39 => vec![ms(70)],
            _ => vec![ms(20)],
        };
        let mut world = World::with(config, controller, delayed, direct);
        world.sender.write(at(0), 40_000);
        world.run(at(90));
        world.sender.write(at(90), 40_000);
        world.sender.close();
        assert!(world.run(at(10_000)));
        let acks = &world.sender.controller().acks;
        acks.iter()
            .filter_map(|ack| ack.sample.measured_rate())
            .max()
            .unwrap()
    });
    let rate = |millis| Rate::from_delivery(Bytes::new(58_000), ms(millis));
    assert_eq!(rates, [rate(40), rate(50)]);
}
