//! Timeouts that were necessary, spurious, and partly spurious.

use paceline_units::{Bytes, Duration, Instant};

use super::harness::{Delays, Event, Window, World, at, ms};
use crate::{Acknowledgment, Receiver, ReceiverConfig, Segment, SenderConfig};

/// No probes, and no help from timestamps and DSACKs.
const F_RTO_ALONE: SenderConfig = SenderConfig {
    tlp: false,
    undo: false,
    ..config()
};

const fn config() -> SenderConfig {
    SenderConfig {
        mss: super::harness::MSS,
        initial_window: Bytes::new(10_000),
        min_rto: ms(200),
        initial_rto: ms(1000),
        max_rto: ms(120_000),
        recovery: crate::Recovery::RackPrr,
        tlp: true,
        f_rto: true,
        ets: false,
        push: false,
        tso_defer: false,
        limited_transmit: true,
        sample_unacknowledged: false,
        undo: true,
        max_ack_delay: ms(200),
        max_burst: None,
        ecn: crate::EcnFeedback::Accurate,
    }
}

fn direct<T>(_: u64, _: &T) -> Delays {
    vec![ms(20)]
}

/// Packets sent from 100 ms until `until` are delayed until then, and then arrive one by one every 5
/// ms; of the packets sent in that time, `lost` (by sequence, in segments) are lost once.
fn spike(until: Instant, lost: &[u64]) -> impl FnMut(u64, &Segment) -> Delays + '_ {
    let mut free = Instant::ZERO;
    move |_, segment| {
        let delayed = segment.sent >= at(100) && segment.sent < until;
        if delayed && !segment.retransmission && lost.contains(&(segment.seq / 1000)) {
            return vec![];
        }
        let arrival = segment.sent + ms(20);
        let arrival = if delayed { arrival.max(until) } else { arrival };
        let arrival = arrival.max(free);
        if segment.sent >= at(100) {
            free = arrival + ms(5);
        }
        vec![arrival.since(segment.sent)]
    }
}

/// Ten segments a window; after a timeout it grows as in slow start.
fn world<D, A>(config: SenderConfig, data: D, acks: A) -> World<D, A>
where
    D: FnMut(u64, &Segment) -> Delays,
    A: FnMut(u64, &Acknowledgment) -> Delays,
{
    let mut controller = Window::new(10);
    controller.slow_start = true;
    let mut world = World::with(config, controller, data, acks);
    world.receiver = Receiver::new(ReceiverConfig {
        ack_every: 1,
        ..ReceiverConfig::default()
    });
    world.sender.write(world.now, 200_000);
    world.sender.close();
    world
}

fn finish<D, A>(world: &mut World<D, A>)
where
    D: FnMut(u64, &Segment) -> Delays,
    A: FnMut(u64, &Acknowledgment) -> Delays,
{
    assert!(world.run(at(100_000)));
    assert!(world.sender.is_finished());
    assert_eq!(world.receiver.delivered(), 200_000);
}

/// The segments sent from the timeout on.
fn from_the_timeout(sent: &[Segment]) -> Vec<u64> {
    sent.iter()
        .skip_while(|segment| !segment.retransmission)
        .map(|segment| segment.seq / 1000)
        .collect()
}

/// Events until the first undo or the end of the episode.
fn moves(events: &[Event]) -> Vec<Event> {
    events
        .iter()
        .copied()
        .filter(|event| !matches!(event, Event::Loss { .. } | Event::Ack(_)))
        .collect()
}

/// RFC 5682: a sudden delay. Segments 30 to 39 are sent at 120 ms and arrive from 400 ms on; the
/// timeout is at 120 + 240 ms.
#[test]
fn a_delay_spike_is_found_by_two_new_segments() {
    let mut world = world(F_RTO_ALONE, spike(at(400), &[]), direct);
    finish(&mut world);
    // The first again; on its acknowledgment two new ones; on the next the timeout is known to be
    // spurious and the window is full again.
    let sent = from_the_timeout(&world.sent);
    assert_eq!(sent[..5], [30, 40, 41, 42, 43]);
    assert_eq!(world.sent.iter().filter(|s| s.retransmission).count(), 1);
    assert_eq!(
        moves(&world.sender.controller().events),
        [Event::Timeout, Event::Spurious, Event::Exit]
    );
    let stats = world.sender.stats();
    assert_eq!(
        (stats.rto_count, stats.undo_count, stats.f_rto_count),
        (1, 1, 1)
    );
    // All but the first one were declared lost wrongly; `C.lost` counts them nevertheless.
    assert_eq!(world.sender.stats().spurious_packets, 9);
    assert_eq!(world.sender.delivery().lost(), Bytes::new(10_000));
}

/// The same without F-RTO: conventional recovery retransmits everything.
#[test]
fn without_it_a_delay_spike_goes_back_over_the_whole_window() {
    let config = SenderConfig {
        f_rto: false,
        ..F_RTO_ALONE
    };
    let mut world = world(config, spike(at(400), &[]), direct);
    finish(&mut world);
    assert_eq!(from_the_timeout(&world.sent)[..3], [30, 31, 32]);
    assert_eq!(
        moves(&world.sender.controller().events),
        [Event::Timeout, Event::Exit]
    );
}

/// RFC 5682: all of the window is lost. The new segments overtake the gap.
#[test]
fn a_real_loss_is_recovered_after_the_new_segments() {
    let all: Vec<u64> = (30..40).collect();
    let mut world = world(F_RTO_ALONE, spike(at(360), &all), direct);
    finish(&mut world);
    let sent = from_the_timeout(&world.sent);
    assert_eq!(sent[..6], [30, 40, 41, 31, 32, 33]);
    let stats = world.sender.stats();
    assert_eq!((stats.rto_count, stats.undo_count), (1, 0));
    assert_eq!(
        moves(&world.sender.controller().events),
        [Event::Timeout, Event::Exit]
    );
}

/// Without SACK as well: the duplicates of the new segments make room for retransmissions.
#[test]
fn a_real_loss_without_sack_is_recovered_after_one_timeout() {
    let all: Vec<u64> = (30..40).collect();
    let config = SenderConfig {
        recovery: crate::Recovery::NewReno,
        ..F_RTO_ALONE
    };
    let mut world = world(config, spike(at(360), &all), direct);
    finish(&mut world);
    let sent = from_the_timeout(&world.sent);
    assert_eq!(sent[..4], [30, 40, 41, 31]);
    assert_eq!(world.sender.stats().rto_count, 1);
}

/// A delay, and two losses that it hides: the timeout is undone, and a fast recovery repairs the
/// losses.
#[test]
fn a_partly_real_loss_becomes_fast_recovery() {
    let mut world = world(F_RTO_ALONE, spike(at(400), &[33, 35]), direct);
    finish(&mut world);
    assert_eq!(
        moves(&world.sender.controller().events),
        [
            Event::Timeout,
            Event::Spurious,
            Event::Exit,
            Event::Enter,
            Event::Exit
        ]
    );
    let again: Vec<u64> = world
        .sent
        .iter()
        .filter(|segment| segment.retransmission)
        .map(|segment| segment.seq / 1000)
        .collect();
    assert_eq!(again, [30, 33, 35]);
}

/// RFC 6675: `HighRxt` restarts with each episode. The retransmissions of the timeout are lost as
/// well; once the timeout is undone, the SACKs reveal that, and no second timeout is needed.
#[test]
fn sack_finds_in_a_new_episode_what_was_lost_again_in_the_old() {
    let config = SenderConfig {
        recovery: crate::Recovery::Sack,
        ..F_RTO_ALONE
    };
    let mut spike = spike(at(400), &[30]);
    let mut first = true;
    let data = |number: u64, segment: &Segment| {
        let delays = spike(number, segment);
        let lost = segment.retransmission && std::mem::take(&mut first);
        if lost { vec![] } else { delays }
    };
    let mut world = world(config, data, direct);
    finish(&mut world);
    let stats = world.sender.stats();
    assert_eq!((stats.rto_count, stats.f_rto_count), (1, 1));
}

/// RFC 5682 section 2.1 step 1. All of a window is lost, and a retransmission as well in the slow
/// start after the timeout: without RACK that takes a second timeout. The new data outstanding then
/// arrives, but was sent within the recovery: it undoes nothing.
#[test]
fn a_timeout_within_the_recovery_of_another_gives_nothing_back() {
    let config = SenderConfig {
        recovery: crate::Recovery::Sack,
        ..F_RTO_ALONE
    };
    let all: Vec<u64> = (30..40).collect();
    let mut spike = spike(at(360), &all);
    let mut first = true;
    let data = |number: u64, segment: &Segment| {
        let delays = spike(number, segment);
        let again = segment.retransmission && segment.seq == 38_000;
        let lost = again && std::mem::take(&mut first);
        // Later packets arrive only after the second timeout, as through a long queue.
        let behind = segment.seq >= 42_000 && segment.sent < at(880);
        if lost {
            vec![]
        } else if behind {
            vec![at(900).since(segment.sent)]
        } else {
            delays
        }
    };
    let mut world = world(config, data, direct);
    finish(&mut world);
    let stats = world.sender.stats();
    assert_eq!((stats.rto_count, stats.undo_count), (2, 0));
}

/// With timestamps the first acknowledgment is enough (RFC 3522).
#[test]
fn the_echo_tells_before_f_rto_does() {
    let config = SenderConfig {
        tlp: false,
        ..config()
    };
    let mut world = world(config, spike(at(400), &[]), direct);
    finish(&mut world);
    let stats = world.sender.stats();
    assert_eq!((stats.undo_count, stats.f_rto_count), (1, 0));
    assert_eq!(stats.spurious_packets, 10);
}

/// A single segment is late and the acknowledgment of the first copy is lost:
/// the second copy's DSACK undoes the timeout.
#[test]
fn a_spurious_timeout_is_undone_by_the_duplicate() {
    let config = SenderConfig {
        tlp: false,
        f_rto: false,
        ..config()
    };
    let data = |number: u64, _: &Segment| match number {
        9 => vec![ms(250)],
        _ => vec![ms(20)],
    };
    let acks = |_: u64, ack: &Acknowledgment| {
        let first_copy = ack.ack == 10_000 && ack.blocks.duplicate().is_none();
        if first_copy { vec![] } else { vec![ms(20)] }
    };
    let mut controller = Window::new(10);
    controller.slow_start = true;
    let mut world = World::with(config, controller, data, acks);
    world.sender.write(at(0), 10_000);
    assert!(world.run(at(5000)));
    let stats = world.sender.stats();
    assert_eq!(
        (stats.rto_count, stats.undo_count, stats.f_rto_count),
        (1, 1, 0)
    );
    assert_eq!(
        moves(&world.sender.controller().events),
        [Event::Timeout, Event::Spurious, Event::Exit]
    );
}

/// A timeout in fast recovery is judged together with it: the only retransmission was needless, so
/// both reductions were.
#[test]
fn a_timeout_within_fast_recovery_is_undone_with_it() {
    // 12 is 300 ms late; its retransmission and later packets wait behind it.
    let data = |_: u64, segment: &Segment| {
        let late = segment.seq == 12_000 || segment.sent >= at(75);
        let arrival = segment.sent + ms(20);
        let arrival = if late { arrival.max(at(380)) } else { arrival };
        vec![arrival.since(segment.sent)]
    };
    let mut world = world(config(), data, direct);
    finish(&mut world);
    let story = moves(&world.sender.controller().events);
    assert_eq!(
        story,
        [Event::Enter, Event::Timeout, Event::Spurious, Event::Exit]
    );
    assert_eq!(world.sender.stats().f_rto_count, 0);
}

/// Linux's `tcp_fastretrans_alert`, RFC 5681 section 4.3: data retransmitted after a timeout and
/// lost again is a second sign of congestion, with PRR and without.
#[test]
fn a_retransmission_lost_after_a_timeout_reduces_again() {
    for recovery in [crate::Recovery::RackPrr, crate::Recovery::Rack] {
        let config = SenderConfig {
            recovery,
            ..F_RTO_ALONE
        };
        let mut again = false;
        let data = |_: u64, segment: &Segment| {
            let blackout = segment.sent >= at(100) && segment.sent < at(700);
            let hit = !blackout && segment.retransmission && segment.seq == 33_000;
            let lost = blackout || (hit && !std::mem::replace(&mut again, true));
            if lost { vec![] } else { vec![ms(20)] }
        };
        let mut world = world(config, data, direct);
        finish(&mut world);
        let mut events = moves(&world.sender.controller().events);
        events.dedup();
        assert_eq!(
            events,
            [Event::Timeout, Event::Enter, Event::Exit],
            "{recovery:?}"
        );
    }
}

/// 200 segments in flight are lost. In the slow start after the timeout, in rounds of 1, 2 and 4
/// retransmissions, the first two of the third round are lost again; the window then is four
/// segments, and the controller reduces it to three. Returns the retransmissions in each round trip
/// from the timeout on; the last counts all later ones.
fn a_long_loss_and_two_lost_again(recovery: crate::Recovery) -> [u64; 12] {
    let config = SenderConfig {
        recovery,
        f_rto: false,
        ..F_RTO_ALONE
    };
    let (mut lost, mut free) = (0, at(0));
    let data = |_: u64, segment: &Segment| {
        let blackout = segment.sent >= at(100) && segment.sent < at(200);
        let third = segment.retransmission && (203_000..205_000).contains(&segment.seq);
        let again = third && lost < 2;
        lost += u32::from(again);
        if blackout || again {
            return vec![];
        }
        // A link takes 100 us for each: the sender acts on every acknowledgment.
        let arrival = (segment.sent + ms(20)).max(free);
        free = arrival + Duration::from_micros(100);
        vec![arrival.since(segment.sent)]
    };
    let mut controller = Window::new(200);
    controller.slow_start = true;
    controller.reduced = 3_000;
    let mut world = World::with(config, controller, data, direct);
    world.receiver = Receiver::new(ReceiverConfig {
        ack_every: 1,
        ..ReceiverConfig::default()
    });
    world.sender.write(at(0), 200_000);
    world.run(at(90));
    world.now = at(100);
    world.sender.write(at(100), 200_000);
    world.run(at(5_000));
    let events = &world.sender.controller().events;
    assert_eq!(
        events
            .iter()
            .filter(|event| **event == Event::Enter)
            .count(),
        1
    );
    let again = world.sent.iter().filter(|segment| segment.retransmission);
    let times: Vec<Instant> = again.map(|segment| segment.sent).collect();
    let mut rounds = [0; 12];
    for time in &times {
        let round = time.since(times[0]).as_micros() / 40_000;
        rounds[(round as usize).min(11)] += 1;
    }
    rounds
}

/// RFC 5681 equation (4): half of the 197 segments outstanding bound the window, not the three to
/// which a window of four is reduced. The two of the third round that arrive let two be sent; from
/// there the pipe doubles each round, as every acknowledgment is safe, until all 202 are sent: 200,
/// and two again.
#[test]
fn a_lost_retransmission_does_not_pin_the_window_of_the_rest() {
    let rounds = a_long_loss_and_two_lost_again(crate::Recovery::RackPrr);
    assert_eq!(rounds, [1, 2, 4, 2, 4, 8, 16, 32, 64, 69, 0, 0]);
    // Linux reduces the window of the moment: three segments a round trip.
    let rounds = a_long_loss_and_two_lost_again(crate::Recovery::Linux);
    assert_eq!(rounds, [1, 2, 4, 2, 3, 3, 3, 3, 3, 3, 3, 172]);
}

/// The time from the last acknowledgment to the probe, with ten segments in flight over a link that
/// takes 30 ms for each and carries nothing from the 180th on.
fn probe_of_a_full_queue(recovery: crate::Recovery) -> Duration {
    let config = SenderConfig {
        recovery,
        ..config()
    };
    let mut free = Instant::ZERO;
    let queue = move |number: u64, segment: &Segment| {
        free = free.max(segment.sent) + ms(30);
        match number < 180 {
            true => vec![free.since(segment.sent)],
            false => vec![],
        }
    };
    let mut world = world(config, queue, |_, _| vec![ms(0)]);
    world.run(at(10_000));
    let last = world.sent[189].sent;
    assert_eq!(last.since(world.sent[180].sent), ms(270));
    world.sent[190].sent.since(last)
}

#[test]
fn the_kernel_s_probe_is_no_later_than_the_timeout_of_the_first_segment() {
    // The RTT is 300 ms, so that two of them are beyond the timeout of 300 + 200 ms. It is counted
    // from the acknowledgment, by the kernel from the first segment: 270 ms before.
    let near = |probe: Duration, expected| probe.max(expected) - probe.min(expected) < ms(8);
    let default = probe_of_a_full_queue(crate::Recovery::RackPrr);
    assert!(near(default, ms(500)), "{default:?}");
    let kernel = probe_of_a_full_queue(crate::Recovery::Linux);
    assert!(near(kernel, ms(230)), "{kernel:?}");
}

/// The transmissions between the first acknowledgment after a timeout and the next, in segments,
/// with a pacer and a window of at least four segments.
fn after_a_paced_timeout(recovery: crate::Recovery) -> Vec<u64> {
    let config = SenderConfig {
        recovery,
        ..F_RTO_ALONE
    };
    let mut world = world(config, spike(at(300), &LOST), direct);
    let mut controller = Window::new(10);
    controller.slow_start = true;
    controller.least = 4000;
    controller.rate = Some(paceline_units::Rate::from_bps(8_000_000));
    controller.quantum = Bytes::new(2000);
    world.sender = crate::Sender::new(config, controller, Instant::ZERO, None);
    world.sender.write(world.now, 200_000);
    world.sender.close();
    finish(&mut world);
    let first = world.sent.iter().position(|segment| segment.retransmission);
    let sent = &world.sent[first.unwrap()..];
    let echoed = sent[1].sent;
    let early = |segment: &&Segment| segment.sent < echoed + ms(20);
    let numbers = sent[1..].iter().take_while(early);
    numbers.map(|segment| segment.seq / 1000).collect()
}

const LOST: [u64; 10] = [30, 31, 32, 33, 34, 35, 36, 37, 38, 39];

#[test]
fn the_kernel_s_pacer_does_not_wait_for_the_answer_to_the_new_segments() {
    let default = after_a_paced_timeout(crate::Recovery::RackPrr);
    let kernel = after_a_paced_timeout(crate::Recovery::Linux);
    assert!(default.len() == 2 && default.iter().all(|number| !LOST.contains(number)));
    assert_eq!(kernel[..2], default);
    assert!(kernel[2..].len() == 2 && kernel[2..].iter().all(|number| LOST.contains(number)));
}
