//! Scenarios with known outcomes.

use paceline_congestion::{CaState, Ecn, RecoveryWindow};
use paceline_units::{Bytes, Duration, Rate};

use super::harness::{Delays, Event, MSS, Window, World, at, ms};
use crate::{Acknowledgment, Block, Segment, Sender, SenderConfig};

const LOSS: Event = Event::Loss {
    starts_range: true,
    again: false,
};
const MORE: Event = Event::Loss {
    starts_range: false,
    again: false,
};
const AGAIN: Event = Event::Loss {
    starts_range: true,
    again: true,
};

fn direct<T>(_: u64, _: &T) -> Delays {
    vec![ms(20)]
}

/// 20 ms each way, and every data packet named in `lost` (by order of sending) is lost.
fn losing(lost: &[u64]) -> impl FnMut(u64, &Segment) -> Delays + '_ {
    move |number, _| {
        if lost.contains(&number) {
            vec![]
        } else {
            vec![ms(20)]
        }
    }
}

fn run<D, A>(world: &mut World<D, A>, segments: u64)
where
    D: FnMut(u64, &Segment) -> Delays,
    A: FnMut(u64, &Acknowledgment) -> Delays,
{
    let bytes = segments * u64::from(MSS);
    world.sender.write(world.now, bytes);
    world.sender.close();
    assert!(world.run(at(100_000)));
    assert!(world.sender.is_finished());
    assert_eq!(world.receiver.delivered(), bytes);
    assert_eq!(world.sender.in_flight(), Bytes::ZERO);
}

#[test]
fn a_new_mss_is_that_of_new_segments() {
    let mut world = World::new(Window::new(10), losing(&[3]), direct);
    world.sender.write(at(0), 30_000);
    world.sender.close();
    assert!(!world.run(at(10)));
    world.sender.set_mss(1500);
    assert!(world.run(at(100_000)));
    assert!(world.sender.is_finished());
    assert_eq!(world.receiver.delivered(), 30_000);
    assert_eq!(
        world.sender.controller().story(),
        [Event::Mss(1500), LOSS, Event::Enter, Event::Exit]
    );
    // The first flight has the old size, and so do its retransmissions; the last one holds the
    // rest.
    let (again, new): (Vec<&Segment>, _) = world.sent[10..]
        .iter()
        .partition(|segment| segment.retransmission);
    let sizes = |segments: &[&Segment]| segments.iter().map(|one| one.len).collect::<Vec<_>>();
    assert!(world.sent[..10].iter().all(|segment| segment.len == MSS));
    assert_eq!(sizes(&again), [MSS]);
    assert_eq!(sizes(&new), [[1500; 13].as_slice(), &[500]].concat());
}

#[test]
fn what_ends_a_burst_or_a_write_carries_psh() {
    let pushed = |controller: Window, push: bool| {
        let config = SenderConfig {
            push,
            ..SenderConfig::default()
        };
        let mut world = World::with(config, controller, direct, direct);
        run(&mut world, 7);
        let sent = world.sent.iter().enumerate();
        let numbers = sent.filter(|(_, segment)| segment.push);
        numbers.map(|(number, _)| number).collect::<Vec<_>>()
    };
    // Three form one burst before there is an RTT, and then one of two, because the data of 1/1024
    // s is less than that, and one of one.
    assert_eq!(pushed(Window::new(3), true), [2, 4, 6]);
    assert!(pushed(Window::new(3), false).is_empty());
    let mut paced = Window::new(20);
    paced.rate = Some(Rate::from_bps(1_000_000));
    paced.quantum = Bytes::new(u64::from(2 * MSS));
    assert_eq!(pushed(paced.clone(), true), [1, 3, 5, 6]);
    paced.quantum = Bytes::new(u64::from(MSS));
    assert_eq!(pushed(paced, true), [6]);
}

#[test]
fn new_data_waits_until_the_window_has_room_for_a_burst() {
    let rounds = |tso_defer: bool| {
        let config = SenderConfig {
            tso_defer,
            ..SenderConfig::default()
        };
        // A link that takes a tenth of a millisecond for each segment.
        let mut free = at(0);
        let link = move |_: u64, segment: &Segment| {
            free = free.max(segment.sent) + Duration::from_micros(100);
            vec![free.since(segment.sent) + ms(1)]
        };
        let back = |_: u64, _: &_| vec![ms(1)];
        let mut world = World::with(config, Window::new(12), link, back);
        run(&mut world, 60);
        let bursts = world.sent.chunk_by(|one, next| one.sent == next.sent);
        bursts.map(<[Segment]>::len).collect::<Vec<_>>()
    };
    // After the first, which comes after a pause, four are a third of the window; each ACK would
    // release one or two. The 45th segment ends a buffer, and does not wait.
    let (deferred, plain) = (rounds(true), rounds(false));
    assert_eq!(deferred[..4], [12, 1, 4, 4]);
    assert_eq!(plain[..4], [12, 1, 1, 1]);
    let mut sent = 0;
    assert!(deferred.iter().any(|burst| {
        sent += burst;
        sent == 45
    }));
}

#[test]
fn new_data_does_not_wait_for_an_ack_that_is_far_away() {
    // The largest burst after the start, over a link that takes this long for each segment, with an
    // ACK for so many.
    let most = |window: u64, each: u64, ack_every: u32| {
        let each = Duration::from_micros(each);
        let config = SenderConfig {
            tso_defer: true,
            ..SenderConfig::default()
        };
        let mut free = at(0);
        let link = move |_: u64, segment: &Segment| {
            free = free.max(segment.sent) + each;
            vec![free.since(segment.sent) + ms(10)]
        };
        let mut world = World::with(config, Window::new(window), link, |_, _| vec![ms(10)]);
        world.receiver = crate::Receiver::new(crate::ReceiverConfig {
            ack_every,
            quick_acks: 0,
            ..crate::ReceiverConfig::default()
        });
        run(&mut world, 100);
        let bursts = world.sent.chunk_by(|one, next| one.sent == next.sent);
        bursts.map(<[Segment]>::len).skip(8).max()
    };
    // Two leave at once. The third waits for the next ACK if that is due within a millisecond; half
    // an RTT of 20 ms is too long.
    assert_eq!(most(12, 200, 3), Some(4));
    assert_eq!(most(12, 1500, 3), Some(3));
    // Two and a half segments in 1/1024 s: two are a full burst. Three leave behind the end of a buffer.
    assert_eq!(most(26, 200, 2), Some(3));
}

#[test]
fn without_loss_everything_is_sent_once() {
    let mut world = World::new(Window::new(10), direct, direct);
    run(&mut world, 100);
    assert_eq!(world.sender.stats().sent_packets, 100);
    assert_eq!(world.sender.srtt(), Some(ms(40)));
    assert_eq!(world.sender.controller().story(), []);
    // Ten segments every 40 ms; an even number never waits for a delayed ACK.
    assert_eq!(world.now, at(400));
    assert!(world.sent.iter().all(|segment| segment.ecn == Ecn::Ect1));
}

#[test]
fn one_loss_is_one_episode() {
    let mut world = World::new(Window::new(10), losing(&[12]), direct);
    run(&mut world, 60);
    assert_eq!(
        world.sender.controller().story(),
        [LOSS, Event::Enter, Event::Exit]
    );
    let stats = world.sender.stats();
    assert_eq!((stats.lost_packets, stats.retransmitted_packets), (1, 1));
    assert_eq!(
        (
            stats.rto_count,
            stats.spurious_packets,
            stats.recovery_count
        ),
        (0, 0, 1)
    );
}

#[test]
fn neighbouring_losses_are_one_range_and_one_episode() {
    let mut world = World::new(Window::new(20), losing(&[22, 23, 25]), direct);
    run(&mut world, 100);
    assert_eq!(
        world.sender.controller().story(),
        [LOSS, MORE, LOSS, Event::Enter, Event::Exit]
    );
    assert_eq!(world.sender.stats().retransmitted_packets, 3);
}

#[test]
fn a_lost_retransmission_is_found_without_a_timeout() {
    // Packet 22 is lost, and so is its retransmission.
    let mut first = true;
    let data = |number: u64, segment: &Segment| {
        let lost = number == 22 || (segment.retransmission && std::mem::take(&mut first));
        if lost { vec![] } else { vec![ms(20)] }
    };
    let mut world = World::new(Window::new(20), data, direct);
    run(&mut world, 200);
    assert_eq!(
        world.sender.controller().story()[..3],
        [LOSS, Event::Enter, AGAIN]
    );
    assert_eq!(world.sender.stats().rto_count, 0);
    assert_eq!(world.sender.stats().retransmitted_packets, 2);
}

#[test]
fn proportional_reduction_ends_at_the_reduced_window() {
    let mut lowest = u64::MAX;
    let mut world = World::new(Window::new(20), losing(&[20]), direct);
    world.sender.write(at(0), 200_000);
    let mut time = at(0);
    while world.sender.ca_state() != CaState::Recovery {
        time += ms(1);
        world.run(time);
    }
    while world.sender.ca_state() == CaState::Recovery {
        lowest = lowest.min(world.sender.in_flight().get());
        time += ms(1);
        world.run(time);
    }
    assert_eq!(lowest, 10_000);
}

#[test]
fn the_controllers_window_holds_in_recovery_if_it_asks() {
    let mut controller = Window::new(20);
    controller.recovery = RecoveryWindow::Controller;
    let mut world = World::new(controller, losing(&[20]), direct);
    world.sender.write(at(0), 200_000);
    let mut time = at(0);
    while world.sender.ca_state() != CaState::Recovery {
        time += ms(1);
        world.run(time);
    }
    assert_eq!(world.sender.cwnd(), Bytes::new(10_000));
}

#[test]
fn a_lost_tail_is_probed_and_counts_as_one_congestion_signal() {
    // The last segment of the first write; another write follows.
    let mut world = World::new(Window::new(10), losing(&[9]), direct);
    world.sender.write(at(0), 10_000);
    // 240 ms after the last acknowledgment, when the timeout would expire.
    assert!(world.run(at(400)));
    assert_eq!(world.sent.last().map(|probe| probe.sent), Some(at(280)));
    assert_eq!(world.sender.una(), 10_000);
    world.sender.write(world.now, 10_000);
    assert!(world.run(at(1000)));
    let stats = world.sender.stats();
    assert_eq!(
        (
            stats.tlp_count,
            stats.rto_count,
            stats.retransmitted_packets
        ),
        (1, 0, 1)
    );
    assert_eq!(
        world.sender.controller().story(),
        [LOSS, Event::Enter, Event::Exit]
    );
}

#[test]
fn a_lost_tail_of_several_is_recovered_after_the_probe() {
    let mut world = World::new(Window::new(10), losing(&[7, 8, 9]), direct);
    run(&mut world, 10);
    let stats = world.sender.stats();
    assert_eq!((stats.tlp_count, stats.rto_count), (1, 0));
    assert_eq!(
        world.sender.controller().story(),
        [LOSS, MORE, Event::Enter, Event::Exit]
    );
}

#[test]
fn a_lost_window_times_out_and_backs_off() {
    // Everything sent before 5 s is lost.
    let data = |_: u64, segment: &Segment| {
        if segment.sent < at(5000) {
            vec![]
        } else {
            vec![ms(20)]
        }
    };
    let mut world = World::new(Window::new(4), data, direct);
    run(&mut world, 20);
    let sent: Vec<u64> = world
        .sent
        .iter()
        .map(|segment| segment.sent.as_nanos() / 1_000_000)
        .collect();
    // Probe and timeout coincide at 1 s; then 1 s after the probe, doubled each time.
    assert_eq!(sent[..8], [0, 0, 0, 0, 1000, 2000, 4000, 8000]);
    assert_eq!(world.sender.stats().rto_count, 3);
    assert_eq!(world.sender.stats().undo_count, 0);
    assert_eq!(world.sender.controller().story().last(), Some(&Event::Exit));
}

#[test]
fn reordering_within_a_quarter_rtt_is_no_loss() {
    let data = |number: u64, _: &Segment| {
        if number == 12 {
            vec![ms(28)]
        } else {
            vec![ms(20)]
        }
    };
    let mut controller = Window::new(10);
    // Spread out, so that few arrive in between.
    controller.rate = Some(Rate::from_bps(8 * 250_000));
    controller.quantum = Bytes::new(1);
    let mut world = World::new(controller, data, direct);
    run(&mut world, 60);
    assert_eq!(world.sender.stats().retransmitted_packets, 0);
    assert!(
        world
            .sender
            .controller()
            .events
            .contains(&Event::Ack(CaState::Disorder))
    );
}

#[test]
fn a_late_segment_taken_for_lost_is_undone() {
    let data = |number: u64, _: &Segment| {
        if number == 12 {
            vec![ms(45)]
        } else {
            vec![ms(20)]
        }
    };
    let mut world = World::new(Window::new(10), data, direct);
    run(&mut world, 60);
    let story = world.sender.controller().story();
    assert_eq!(story, [LOSS, Event::Enter, Event::Spurious, Event::Exit]);
    let stats = world.sender.stats();
    assert_eq!(
        (
            stats.undo_count,
            stats.spurious_packets,
            stats.retransmitted_packets
        ),
        (1, 1, 1)
    );
    // `C.lost` is a lifetime total (draft-ietf-ccwg-bbr-06 2.2): packets marked lost stay in it.
    assert_eq!(world.sender.delivery().lost(), Bytes::new(1000));
}

#[test]
fn a_spurious_timeout_is_undone_by_the_echo() {
    // All packets sent from 100 ms to 2 s are held until 2.12 s.
    let data = |_: u64, segment: &Segment| {
        if segment.sent >= at(100) && segment.sent < at(2000) {
            vec![ms(2020) - (segment.sent.since(at(100)))]
        } else {
            vec![ms(20)]
        }
    };
    let mut world = World::new(Window::new(10), data, direct);
    run(&mut world, 100);
    let stats = world.sender.stats();
    assert!(stats.rto_count >= 1);
    assert_eq!(stats.undo_count, 1);
    assert!(world.sender.controller().story().contains(&Event::Spurious));
}

#[test]
fn needless_retransmissions_are_undone_by_duplicates() {
    // Two segments are late by more than the window; the echo of the first is lost.
    let data = |number: u64, _: &Segment| match number {
        22 | 23 => vec![ms(59)],
        _ => vec![ms(20)],
    };
    let acks = |_: u64, ack: &Acknowledgment| {
        let filled = ack.ack >= 23_000 && ack.sent < at(100);
        if filled { vec![] } else { vec![ms(20)] }
    };
    let mut world = World::new(Window::new(20), data, acks);
    run(&mut world, 200);
    assert_eq!(world.sender.stats().undo_count, 1);
    assert_eq!(world.sender.stats().spurious_packets, 2);
}

#[test]
fn acknowledgments_may_be_lost() {
    let acks = |number: u64, _: &Acknowledgment| {
        if number.is_multiple_of(3) {
            vec![ms(20)]
        } else {
            vec![]
        }
    };
    let mut world = World::new(Window::new(20), direct, acks);
    run(&mut world, 200);
    assert_eq!(world.sender.stats().lost_packets, 0);
}

#[test]
fn pacing_spreads_bursts_of_a_quantum() {
    let mut controller = Window::new(100);
    controller.rate = Some(Rate::from_bps(8_000_000)); // a segment a millisecond
    controller.quantum = Bytes::new(2 * u64::from(MSS));
    let mut world = World::new(controller, direct, direct);
    run(&mut world, 50);
    let bursts: Vec<u64> = world
        .sent
        .iter()
        .map(|s| s.sent.as_nanos() / 1_000_000)
        .collect();
    let expected: Vec<u64> = (0..50).map(|number| number / 2 * 2).collect();
    assert_eq!(bursts, expected);
}

#[test]
fn the_receive_window_is_respected() {
    let mut world = World::new(Window::new(100), direct, direct);
    world.receiver = crate::Receiver::new(crate::ReceiverConfig {
        window: 3500,
        ..crate::ReceiverConfig::default()
    });
    // The window is not known yet to the first flight.
    world.sender.write(at(0), 1000);
    assert!(world.run(at(1000)));
    world.sender.write(world.now, 50_000);
    world.send();
    assert_eq!(world.sender.in_flight(), Bytes::new(3000));
    assert!(world.run(at(100_000)));
    assert_eq!(world.receiver.delivered(), 51_000);
    assert_eq!(world.sender.stats().lost_packets, 0);
}

#[test]
fn congestion_marks_reach_the_controller_in_bytes() {
    let mut world = World::new(Window::new(10), direct, direct);
    world.sender.write(at(0), 10_000);
    world.send();
    let ack = Acknowledgment {
        ack: 4000,
        ce_packets: 2,
        ce_bytes: 2000,
        window: 1 << 20,
        ..Acknowledgment::default()
    };
    world.sender.on_ack(at(40), &ack);
    let events = world
        .sender
        .controller()
        .acks
        .last()
        .map(|ack| (ack.newly_acked, ack.newly_marked));
    assert_eq!(events, Some((Bytes::new(4000), Some(Bytes::new(2000)))));
    // The same count again marks nothing; an absurd count marks no more than is delivered.
    world
        .sender
        .on_ack(at(41), &Acknowledgment { ack: 5000, ..ack });
    world.sender.on_ack(
        at(42),
        &Acknowledgment {
            ack: 7000,
            ce_bytes: u64::MAX,
            ..ack
        },
    );
    let marked: Vec<u64> = world
        .sender
        .controller()
        .acks
        .iter()
        .filter_map(|ack| ack.newly_marked.map(Bytes::get))
        .collect();
    assert_eq!(marked, [2000, 0, 2000]);
}

#[test]
fn an_application_that_runs_dry_marks_the_samples() {
    let mut world = World::new(Window::new(10), direct, direct);
    world.sender.write(at(0), 2000);
    assert!(world.run(at(1000)));
    world.sender.write(at(1000), 2000);
    world.now = at(1000);
    assert!(world.run(at(2000)));
    assert!(world.sender.last_sample().app_limited);
    assert!(
        world
            .sender
            .controller()
            .acks
            .iter()
            .all(|ack| !ack.cwnd_limited)
    );
    let mut world = World::new(Window::new(10), direct, direct);
    run(&mut world, 100);
    // The first flight follows a write to a sender that had nothing to send.
    let acks = &world.sender.controller().acks;
    assert!(
        acks.iter()
            .skip(10)
            .take(30)
            .all(|ack| ack.cwnd_limited && !ack.sample.app_limited)
    );
}

#[test]
fn the_samples_give_the_rate_of_the_window() {
    // A window of ten segments every 40 ms is 250 kB/s.
    let mut world = World::new(Window::new(10), direct, direct);
    run(&mut world, 200);
    let rates = world
        .sender
        .controller()
        .acks
        .iter()
        .map(|ack| ack.sample.delivery_rate());
    let expected = Rate::from_delivery(Bytes::new(10_000), Duration::from_millis(40));
    assert_eq!(rates.max(), Some(expected));
}

#[test]
fn what_was_unlimited_can_end() {
    let mut world = World::new(Window::new(10), direct, direct);
    world.sender.write_unlimited(at(0));
    world.run(at(1000));
    world.sender.stop_unlimited(world.now);
    world.sender.close();
    assert!(world.run(at(2000)));
    assert!(world.sender.is_finished());
}

#[test]
fn a_timeout_sends_the_first_segment_whatever_the_window() {
    let config = SenderConfig {
        mss: MSS,
        tlp: false,
        ..SenderConfig::default()
    };
    let mut sender = Sender::new(config, Window::new(10), at(0), Some(ms(40)));
    for time in [0, 230] {
        sender.write(at(time), u64::from(MSS));
        assert!(sender.poll_transmit(at(time)).is_some());
    }
    // The handshake gave 40 ms, and the timeout is 200 ms more.
    assert_eq!(sender.next_timer(), Some(at(240)));
    // RACK has an RTT to judge by: at the timeout the third segment is too young to be lost.
    let ack = Acknowledgment {
        ack: u64::from(MSS),
        ts_echo: at(0),
        window: 1 << 20,
        ..Acknowledgment::default()
    };
    sender.on_ack(at(235), &ack);
    sender.write(at(400), u64::from(MSS));
    assert!(sender.poll_transmit(at(400)).is_some());
    let timeout = sender.next_timer().unwrap();
    sender.on_timer(timeout);
    assert_eq!(sender.controller().story(), [LOSS, Event::Timeout]);
    assert_eq!(sender.in_flight(), Bytes::new(1000));
    let again = sender.poll_transmit(timeout).unwrap();
    assert_eq!((again.seq, again.retransmission), (1000, true));
    // The window of one segment is full.
    assert_eq!(sender.poll_transmit(timeout), None);
}

#[test]
fn a_window_below_a_segment_is_carried_by_the_pacer() {
    let mut controller = Window::new(1);
    controller.cwnd = 100; // a tenth of a segment
    controller.rate = Some(Rate::from_bps(20_000)); // over an RTT of 40 ms
    controller.quantum = Bytes::new(u64::from(MSS));
    let mut world = World::new(controller, direct, direct);
    run(&mut world, 20);
    let sent: Vec<u64> = world
        .sent
        .iter()
        .map(|s| s.sent.as_nanos() / 1_000_000)
        .collect();
    let expected: Vec<u64> = (0..20).map(|number| number * 400).collect();
    assert_eq!(sent, expected);
    assert_eq!(world.sender.stats().rto_count, 0);
}

/// The controller's view of each acknowledgment: the network's RTT and the receiver's delay, in
/// microseconds.
fn round_trips(ets: bool) -> Vec<(Option<u64>, Option<u64>)> {
    let mut world = World::new(Window::new(2), direct, direct);
    world.sender = Sender::new(
        SenderConfig {
            mss: MSS,
            ets,
            ..SenderConfig::default()
        },
        Window::new(2),
        at(0),
        None,
    );
    world.receiver = crate::Receiver::new(crate::ReceiverConfig {
        quick_acks: 0,
        max_ack_delay: Duration::from_nanos(15_400_999),
        ..crate::ReceiverConfig::default()
    });
    // Two together, then one alone.
    run(&mut world, 3);
    let micros = |span: Duration| span.as_micros();
    world
        .sender
        .controller()
        .acks
        .iter()
        .map(|ack| (ack.network_rtt.map(micros), ack.receiver_delay.map(micros)))
        .collect()
}

#[test]
fn the_ets_option_tells_the_receivers_delay_as_its_units_hold_it() {
    let plain = [(Some(40_000), None), (Some(55_400), None)];
    assert_eq!(round_trips(false), plain);
    // 15.4 ms do not fit into 13 bits of microseconds: 16 ms.
    let events = [(Some(40_000), Some(0)), (Some(39_400), Some(16_000))];
    assert_eq!(round_trips(true), events);
}

#[test]
fn the_ets_option_speaks_of_the_earliest_segment_and_of_advances_only() {
    let mut controller = Window::new(100);
    controller.rate = Some(Rate::from_bps(8_000_000)); // a segment a millisecond
    controller.quantum = Bytes::new(u64::from(MSS));
    let config = SenderConfig {
        mss: MSS,
        ets: true,
        ..SenderConfig::default()
    };
    let mut world = World::new(controller.clone(), losing(&[4]), direct);
    world.sender = Sender::new(config, controller, at(0), None);
    world.receiver = crate::Receiver::new(crate::ReceiverConfig {
        quick_acks: 0,
        ..crate::ReceiverConfig::default()
    });
    run(&mut world, 8);
    let samples: Vec<_> = world
        .sender
        .controller()
        .acks
        .iter()
        .take(3)
        .map(|ack| {
            let network = (ack.network_rtt, ack.receiver_delay);
            (ack.una_advanced, ack.rtt, network)
        })
        .collect();
    // Every second segment is acknowledged at once, the one before it one millisecond late.
    assert_eq!(
        samples[..2],
        [(true, Some(ms(40)), (Some(ms(40)), Some(ms(1)))); 2]
    );
    // A selective acknowledgment echoes a much older segment: no delay is reported.
    assert_eq!(samples[2], (false, Some(ms(40)), (None, None)));
}

/// draft-ietf-ccwg-bbr-06 5.5.7.1: among several acknowledged segments the earliest gives the
/// timeout's RTT, the latest the controller's.
#[test]
fn the_timeout_measures_the_earliest_segment_and_the_controller_the_latest() {
    let mut sender = Sender::new(
        SenderConfig {
            mss: MSS,
            ..SenderConfig::default()
        },
        Window::new(10),
        at(0),
        None,
    );
    for time in [0, 3, 5] {
        sender.write(at(time), u64::from(MSS));
        assert!(sender.poll_transmit(at(time)).is_some());
    }
    sender.on_ack(
        at(45),
        &Acknowledgment {
            ack: 3000,
            ts_echo: at(0),
            window: 1 << 20,
            ..Acknowledgment::default()
        },
    );
    let events = sender.controller().acks.last().map(|ack| ack.rtt);
    assert_eq!(events, Some(Some(ms(40))));
    assert_eq!(
        (sender.srtt(), sender.min_rtt()),
        (Some(ms(45)), Some(ms(40)))
    );
}

/// Karn's algorithm excludes the retransmitted segments, not the others of the same acknowledgment.
#[test]
fn an_ambiguous_segment_does_not_take_the_sample_of_another() {
    let mut sender = Sender::new(
        SenderConfig {
            mss: MSS,
            ..SenderConfig::default()
        },
        Window::new(10),
        at(0),
        None,
    );
    sender.write(at(0), 20_000);
    while sender.poll_transmit(at(0)).is_some() {}
    let block = |start, end| Block { start, end };
    let sack = |blocks: &[Block]| Acknowledgment {
        blocks: blocks.iter().copied().collect(),
        window: 1 << 20,
        ..Acknowledgment::default()
    };
    // The tenth arrives alone; one new segment is sent, and the reordering timer declares nine
    // lost.
    sender.on_ack(at(40), &sack(&[block(9000, 10_000)]));
    assert_eq!(
        sender.poll_transmit(at(40)).map(|new| new.seq),
        Some(10_000)
    );
    sender.on_timer(at(50));
    while sender.poll_transmit(at(50)).is_some() {}
    // Either copy of the second may have arrived; the new one was sent once.
    let both = [block(1000, 2000), block(9000, 11_000)];
    sender.on_ack(at(90), &sack(&both));
    let events = sender.controller().acks.last().map(|ack| ack.rtt);
    assert_eq!(events, Some(Some(ms(50))));
}
