//! Episodes of recovery, acknowledgment by acknowledgment.

use paceline_congestion::{CaState, RecoveryWindow};
use paceline_units::{Bytes, Instant, Recovery};

use super::harness::{Event, MSS, Window, at};
use crate::{Acknowledgment, Block, Sender, SenderConfig};

const LOSS: Event = Event::Loss {
    starts_range: true,
    again: false,
};

/// Segments, as a range of sequence numbers.
fn segments(first: u64, end: u64) -> Block {
    let mss = u64::from(MSS);
    Block {
        start: first * mss,
        end: end * mss,
    }
}

fn ack(up_to: u64, echo: Instant, blocks: &[Block]) -> Acknowledgment {
    Acknowledgment {
        ack: up_to * u64::from(MSS),
        ts_echo: echo,
        blocks: blocks.iter().copied().collect(),
        window: 1 << 20,
        ..Acknowledgment::default()
    }
}

/// A sender whose controller keeps its window.
fn sender() -> Sender<Window> {
    let mut controller = Window::new(20);
    controller.reduced = 20 * u64::from(MSS);
    controller.recovery = RecoveryWindow::Controller;
    let config = SenderConfig {
        mss: MSS,
        ..SenderConfig::default()
    };
    Sender::new(config, controller, at(0), None)
}

/// Writes and sends this many segments.
fn send(sender: &mut Sender<Window>, now: Instant, count: u64) {
    sender.write(now, count * u64::from(MSS));
    while sender.poll_transmit(now).is_some() {}
}

/// Ten segments, the first of which is declared lost and retransmitted at 40 ms.
fn first_of_ten_lost() -> Sender<Window> {
    let mut sender = sender();
    send(&mut sender, at(0), 10);
    sender.on_ack(at(40), &ack(0, at(0), &[segments(1, 10)]));
    while sender.poll_transmit(at(40)).is_some() {}
    assert_eq!(sender.ca_state(), CaState::Recovery);
    sender
}

/// The end of an episode is reported before the loss that opens the next, also when one
/// acknowledgment reveals both: a controller that saves its state upon loss saves the state between
/// them (draft-ietf-ccwg-bbr-06 5.5.11.1).
#[test]
fn an_episode_ends_before_the_loss_that_opens_the_next() {
    let mut sender = first_of_ten_lost();
    send(&mut sender, at(40), 5);
    sender.on_ack(at(81), &ack(10, at(40), &[segments(11, 15)]));
    let story = sender.controller().story();
    assert_eq!(story, [LOSS, Event::Enter, Event::Exit, LOSS, Event::Enter]);
}

/// Ten segments; the ninth and the tenth are sent at 100 ms, the tenth is lost and probed, and a
/// later one shows that.
fn a_tail_lost_and_repaired(sender: &mut Sender<Window>, una: u64) {
    send(sender, at(100), 2);
    sender.on_ack(at(140), &ack(una + 1, at(100), &[]));
    let probe = sender.next_timer().unwrap();
    sender.on_timer(probe);
    let sent = sender.poll_transmit(probe).unwrap();
    assert!(sent.retransmission && sender.stats().tlp_count == 1);
    let later = Instant::from_nanos(probe.as_nanos() + 40_000_000);
    sender.on_ack(later, &ack(una + 2, probe, &[]));
    send(sender, later, 1);
    let later = Instant::from_nanos(later.as_nanos() + 40_000_000);
    sender.on_ack(later, &ack(una + 3, later, &[]));
}

/// RFC 8985 7.4.2: the response is the same as to a loss. The controller is notified, with the state of
/// the lost transmission, and `C.lost` counts it.
#[test]
fn a_loss_that_a_probe_repaired_is_told() {
    let mut sender = sender();
    send(&mut sender, at(0), 10);
    sender.on_ack(at(40), &ack(10, at(0), &[]));
    a_tail_lost_and_repaired(&mut sender, 10);
    let controller = sender.controller();
    assert_eq!(controller.story(), [LOSS, Event::Enter, Event::Exit]);
    let lost = controller.losses.first().map(|lost| lost.packet).unwrap();
    assert_eq!(lost.send_time, at(100));
    assert_eq!(lost.tx_in_flight, Bytes::new(2 * u64::from(MSS)));
    assert_eq!(sender.delivery().lost(), Bytes::new(u64::from(MSS)));
    let events = controller.acks.last().map(|ack| ack.newly_lost);
    assert_eq!(events, Some(Bytes::new(u64::from(MSS))));
    assert_eq!(sender.stats().lost_packets, 1);
}

/// After it an earlier episode is not undone: its duplicates would take back the reduction for the
/// proven loss.
#[test]
fn a_late_duplicate_does_not_undo_a_repaired_loss() {
    for repaired in [false, true] {
        let mut sender = first_of_ten_lost();
        sender.on_ack(at(80), &ack(10, at(40), &[]));
        assert_eq!(sender.ca_state(), CaState::Open);
        let mut una = 10;
        if repaired {
            a_tail_lost_and_repaired(&mut sender, una);
            una += 3;
        }
        let mut duplicate = ack(una, at(40), &[segments(0, 1)]);
        duplicate.blocks.dsack = true;
        sender.on_ack(at(2000), &duplicate);
        let undone = sender.controller().events.contains(&Event::Spurious);
        assert_eq!(undone, !repaired);
    }
}

/// RFC 5681 section 4.1: restart after more than a timeout without sending a segment, and nothing
/// in flight.
#[test]
fn a_pause_longer_than_the_timeout_is_a_restart() {
    // The timeout is 240 ms once the RTT is known to be 40.
    for (pause, restarts) in [(240, 0), (241, 1)] {
        let mut sender = sender();
        send(&mut sender, at(0), 10);
        sender.on_ack(at(40), &ack(10, at(0), &[]));
        assert_eq!(sender.rto(), super::harness::ms(240));
        send(&mut sender, at(50), 2);
        sender.on_ack(at(90), &ack(12, at(50), &[]));
        let rto = sender.rto().as_nanos() / 1_000_000;
        send(&mut sender, at(50 + rto + pause - 240), 2);
        let events = sender.controller().events.iter();
        let restart = events.filter(|event| **event == Event::Idle).count();
        assert_eq!(restart, restarts, "{pause} ms");
    }
}

/// draft-ietf-ccwg-bbr-06 4.1.3.5.1, Linux's `tcp_add_reno_sack` and `tcp_remove_reno_sacks`:
/// without SACK a duplicate acknowledgment delivers a segment, and a later acknowledgment does not
/// deliver it again.
#[test]
fn without_sack_a_duplicate_delivers_a_segment() {
    let mut controller = Window::new(20);
    controller.reduced = 5 * u64::from(MSS);
    let config = SenderConfig {
        mss: MSS,
        recovery: Recovery::NewReno,
        ..SenderConfig::default()
    };
    let mut sender = Sender::new(config, controller, at(0), None);
    // The receive window is known, and a duplicate does not change it.
    sender.on_ack(at(0), &ack(0, at(0), &[]));
    // Ten segments; the first and the sixth are lost: eight duplicates.
    send(&mut sender, at(0), 10);
    for nth in 0..8 {
        sender.on_ack(at(40 + nth), &ack(0, at(0), &[]));
        let events = sender.controller().acks.last().unwrap();
        assert_eq!(events.newly_acked, Bytes::new(1000));
        assert_eq!(events.delivered, Bytes::new(1000 * (nth + 1)));
        assert!(!events.sample.has_data);
        while sender.poll_transmit(at(40 + nth)).is_some() {}
    }
    // Outstanding: the retransmission and one segment that is missing or not.
    assert_eq!(sender.in_flight(), Bytes::new(2000));
    assert_eq!(sender.ca_state(), CaState::Recovery);
    // Five are acknowledged: one filled the hole, four had been reported; the sixth is lost.
    sender.on_ack(at(80), &ack(5, at(42), &[]));
    let events = sender.controller().acks.last().unwrap();
    assert_eq!(events.newly_acked, Bytes::new(1000));
    assert_eq!(events.delivered, Bytes::new(9000));
    while sender.poll_transmit(at(80)).is_some() {}
    sender.on_ack(at(120), &ack(10, at(80), &[]));
    assert_eq!(sender.delivery().delivered(), Bytes::new(10_000));
    assert_eq!(sender.in_flight(), Bytes::ZERO);
    assert_eq!(sender.ca_state(), CaState::Open);
}

/// draft-ietf-ccwg-bbr-06 2.2: `C.delivered` counts spurious retransmissions that were delivered.
#[test]
fn a_segment_that_arrived_twice_was_delivered_twice() {
    let mut sender = first_of_ten_lost();
    sender.on_ack(at(80), &ack(10, at(40), &[]));
    for delivered in [11_000, 11_000] {
        let mut duplicate = ack(10, at(40), &[segments(0, 1)]);
        duplicate.blocks.dsack = true;
        sender.on_ack(at(90), &duplicate);
        // Retransmitted once: at most one can have arrived twice.
        assert_eq!(sender.delivery().delivered(), Bytes::new(delivered));
    }
}

/// RFC 8985 6.2 step 4: a duplicate widens RACK's window by a quarter of the minimum RTT, but the
/// duplicate of a tail loss probe does not.
#[test]
fn a_duplicate_widens_the_reordering_window_unless_a_probe_made_it() {
    for (probed, window) in [(false, 20), (true, 10)] {
        let mut sender = sender();
        send(&mut sender, at(0), 2);
        sender.on_ack(at(40), &ack(2, at(0), &[]));
        send(&mut sender, at(100), 10);
        if probed {
            // No acknowledgment arrives: the last segment is sent again, and then both copies have
            // arrived.
            let now = sender.next_timer().unwrap();
            sender.on_timer(now);
            assert_eq!(
                sender.poll_transmit(now).map(|probe| probe.seq),
                Some(11_000)
            );
            let mut duplicate = ack(12, at(100), &[segments(11, 12)]);
            duplicate.blocks.dsack = true;
            sender.on_ack(at(300), &duplicate);
        } else {
            sender.on_ack(at(140), &ack(2, at(0), &[segments(3, 12)]));
            while sender.poll_transmit(at(140)).is_some() {}
            sender.on_ack(at(180), &ack(12, at(100), &[]));
            let mut duplicate = ack(12, at(140), &[segments(2, 3)]);
            duplicate.blocks.dsack = true;
            sender.on_ack(at(300), &duplicate);
        }
        // One of two is missing: it is lost once the RTT and the window have passed.
        send(&mut sender, at(400), 2);
        sender.on_ack(at(440), &ack(12, at(0), &[segments(13, 14)]));
        assert_eq!(sender.next_timer(), Some(at(440 + window)), "{probed}");
    }
}

/// A block beyond what was sent reports nothing. Once that is sent the same block counts: only what
/// was taken is skipped when it is repeated.
#[test]
fn a_block_that_was_beyond_what_was_sent_counts_later() {
    let mut sender = sender();
    send(&mut sender, at(0), 3);
    let events = [segments(1, 2), segments(5, 6)];
    sender.on_ack(at(40), &ack(0, at(0), &events));
    assert_eq!(sender.delivery().delivered(), Bytes::new(u64::from(MSS)));
    send(&mut sender, at(40), 7);
    sender.on_ack(at(80), &ack(0, at(0), &events));
    assert_eq!(
        sender.delivery().delivered(),
        Bytes::new(2 * u64::from(MSS))
    );
    assert_eq!(sender.audit(), Ok(()));
}

/// How many segments each acknowledgment of a window of ten releases; the first has an echo of a
/// mark, to which the controller halves its window.
fn released_after_a_mark(recovery: Recovery) -> Vec<usize> {
    let config = SenderConfig {
        mss: MSS,
        recovery,
        ..SenderConfig::default()
    };
    let mut sender = Sender::new(config, Window::new(10), at(0), None);
    send(&mut sender, at(0), 10);
    sender.write(at(0), 100 * u64::from(MSS));
    let mut next = |number: u64| {
        let now = at(40 + number);
        let ack = Acknowledgment {
            ece: number == 1,
            ..ack(number, at(0), &[])
        };
        sender.on_ack(now, &ack);
        let cwr = matches!(recovery, Recovery::Linux) && number < 11;
        assert_eq!(sender.ca_state() == CaState::Cwr, cwr, "{number}");
        std::iter::from_fn(|| sender.poll_transmit(now)).count()
    };
    (1..=12).map(&mut next).collect()
}

#[test]
fn the_kernel_reduces_the_window_over_a_round_trip_after_a_mark() {
    // PRR: of n delivered segments half are sent, rounded up; at the ninth five are in flight, the
    // window. The episode ends with the first
    // acknowledgment of data sent in it.
    let kernel = released_after_a_mark(Recovery::Linux);
    assert_eq!(kernel, [1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1, 1]);
    let default = released_after_a_mark(Recovery::RackPrr);
    assert_eq!(default, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
}

fn sender_as_linux(tlp: bool) -> Sender<Window> {
    let config = SenderConfig {
        mss: MSS,
        recovery: Recovery::Linux,
        tlp,
        ..SenderConfig::default()
    };
    Sender::new(config, Window::new(10), at(0), None)
}

fn marked(ack: Acknowledgment) -> Acknowledgment {
    Acknowledgment { ece: true, ..ack }
}

/// Ten segments; the acknowledgment of the first has a mark, to which the window is halved, over a
/// round trip, and an eleventh is sent.
fn marked_as_linux() -> Sender<Window> {
    let mut sender = sender_as_linux(false);
    send(&mut sender, at(0), 10);
    sender.on_ack(at(40), &marked(ack(1, at(0), &[])));
    assert_eq!(sender.ca_state(), CaState::Cwr);
    send(&mut sender, at(40), 1);
    assert_eq!(sender.snd_nxt(), 11_000);
    sender
}

/// `tcp_enter_recovery`: in the state CWR the window is reduced already. The reduction goes on, and
/// nothing is restored if the loss was none.
#[test]
fn the_kernel_does_not_reduce_for_a_loss_while_it_reduces_for_a_mark() {
    let mut sender = marked_as_linux();
    sender.write(at(40), 100_000);
    sender.on_ack(at(44), &ack(1, at(0), &[segments(2, 5)]));
    assert_eq!(sender.ca_state(), CaState::Recovery);
    assert_eq!(sender.stats().recovery_count, 1);
    assert_eq!(sender.controller().story(), [LOSS]);
    // PRR from a window of ten to five: of four delivered since the mark two may be sent, and one
    // was.
    let sent: Vec<u64> = std::iter::from_fn(|| sender.poll_transmit(at(44)))
        .map(|segment| segment.seq / 1000)
        .collect();
    assert_eq!(sent, [1]);
    // The round trip after the mark ends it: not what was sent since.
    let mut late = ack(10, at(0), &[]);
    late.ts_echo = at(44);
    sender.on_ack(at(84), &late);
    assert_eq!(sender.ca_state(), CaState::Open);
    assert_eq!(sender.controller().story(), [LOSS, Event::Exit]);
}

#[test]
fn the_kernel_restores_no_window_that_a_mark_reduced() {
    let mut sender = marked_as_linux();
    sender.on_ack(at(44), &ack(1, at(0), &[segments(2, 5)]));
    while sender.poll_transmit(at(44)).is_some() {}
    // The first transmission arrives: Eifel.
    sender.on_ack(at(46), &ack(10, at(0), &[]));
    assert_eq!(sender.stats().undo_count, 1);
    assert_eq!(sender.controller().story(), [LOSS, Event::Exit]);
}

/// `tcp_enter_loss`: no new episode for the undo, and F-RTO restores nothing.
#[test]
fn a_timeout_in_the_round_trip_of_a_mark_restores_nothing() {
    let mut sender = marked_as_linux();
    let now = sender.next_timer().unwrap();
    sender.on_timer(now);
    assert_eq!(sender.ca_state(), CaState::Loss);
    assert!(sender.poll_transmit(now).is_some());
    let later = Instant::from_nanos(now.as_nanos() + 1_000_000);
    sender.on_ack(later, &ack(10, at(0), &[]));
    let stats = sender.stats();
    assert_eq!((stats.rto_count, stats.f_rto_count), (1, 1));
    let events = sender.controller().events.iter();
    let moves: Vec<Event> = events
        .copied()
        .filter(|event| matches!(event, Event::Timeout | Event::Spurious | Event::Exit))
        .collect();
    assert_eq!(moves, [Event::Timeout, Event::Exit]);
}

/// `tcp_enter_cwr` resets `undo_marker`: a late duplicate does not restore the window of an earlier
/// episode.
#[test]
fn a_mark_ends_the_undo_of_an_earlier_episode() {
    for marks in [false, true] {
        let mut sender = sender_as_linux(false);
        send(&mut sender, at(0), 10);
        sender.on_ack(at(40), &ack(0, at(0), &[segments(1, 10)]));
        while sender.poll_transmit(at(40)).is_some() {}
        send(&mut sender, at(40), 1);
        sender.on_ack(at(80), &ack(11, at(40), &[]));
        assert_eq!(sender.ca_state(), CaState::Open);
        send(&mut sender, at(80), 2);
        let next = ack(12, at(80), &[]);
        sender.on_ack(at(120), &if marks { marked(next) } else { next });
        let mut duplicate = ack(12, at(40), &[segments(0, 1)]);
        duplicate.blocks.dsack = true;
        sender.on_ack(at(121), &duplicate);
        let undone = sender.controller().events.contains(&Event::Spurious);
        assert_eq!(undone, !marks);
    }
}

/// It resets `tlp_high_seq` too: the loss that a probe repaired is not reported.
#[test]
fn a_mark_ends_the_episode_of_a_probe() {
    for marks in [false, true] {
        let mut sender = sender_as_linux(true);
        send(&mut sender, at(0), 10);
        sender.on_ack(at(40), &ack(10, at(0), &[]));
        send(&mut sender, at(100), 2);
        let probe = sender.next_timer().unwrap();
        sender.on_timer(probe);
        assert_eq!(
            sender.poll_transmit(probe).map(|sent| sent.seq),
            Some(11_000)
        );
        let next = |ms: u64| Instant::from_nanos(probe.as_nanos() + ms * 1_000_000);
        let first = ack(11, at(100), &[]);
        sender.on_ack(next(1), &if marks { marked(first) } else { first });
        sender.on_ack(next(40), &ack(12, probe, &[]));
        send(&mut sender, next(40), 1);
        sender.on_ack(next(80), &ack(13, next(40), &[]));
        assert_eq!(sender.stats().lost_packets, u64::from(!marks));
    }
}

/// After losses that RACK's timer finds, the retransmission timer counts from now:
/// `tcp_xmit_retransmit_queue` comes before `tcp_rearm_rto`.
#[test]
fn no_timeout_together_with_the_kernel_s_reordering_timer() {
    let config = SenderConfig {
        min_rto: super::harness::ms(1),
        mss: MSS,
        recovery: Recovery::Linux,
        tlp: false,
        ..SenderConfig::default()
    };
    let mut sender = Sender::new(config, Window::new(10), at(0), None);
    let mut now = 0;
    for round in 1..100 {
        send(&mut sender, at(now), 1);
        now += 40;
        sender.on_ack(at(now), &ack(round, at(now - 40), &[]));
    }
    // A steady RTT: the timeout is the floor above it, below RACK's deadline of 50 ms.
    assert!(sender.rto() < super::harness::ms(45), "{:?}", sender.rto());
    send(&mut sender, at(now), 2);
    sender.on_ack(at(now + 40), &ack(99, at(now), &[segments(100, 101)]));
    assert_eq!(sender.next_timer(), Some(at(now + 50)));
    sender.on_timer(at(now + 50));
    let sent = sender.poll_transmit(at(now + 50)).unwrap();
    assert_eq!((sent.seq, sender.stats().rto_count), (99_000, 0));
    assert_eq!(sender.stats().recovery_count, 1);
    let rto = Instant::from_nanos(at(now + 50).as_nanos() + sender.rto().as_nanos());
    assert_eq!(sender.next_timer(), Some(rto));
}
