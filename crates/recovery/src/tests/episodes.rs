//! Episodes of recovery, acknowledgment by acknowledgment.

use paceline_congestion::{CaState, RecoveryWindow};
use paceline_units::{Bytes, Instant};

use super::harness::{MSS, Told, Window, at};
use crate::{Acknowledgment, Block, Sender, SenderConfig};

const LOSS: Told = Told::Loss {
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

/// Writes and sends so many segments.
fn send(sender: &mut Sender<Window>, now: Instant, count: u64) {
    sender.write(now, count * u64::from(MSS));
    while sender.poll_transmit(now).is_some() {}
}

/// Ten segments of which the first is taken for lost and sent again, at 40 ms.
fn first_of_ten_lost() -> Sender<Window> {
    let mut sender = sender();
    send(&mut sender, at(0), 10);
    sender.on_ack(at(40), &ack(0, at(0), &[segments(1, 10)]));
    while sender.poll_transmit(at(40)).is_some() {}
    assert_eq!(sender.ca_state(), CaState::Recovery);
    sender
}

/// The end of an episode comes before the loss that opens the next, also when one acknowledgment
/// tells of both: what a controller saves upon loss is the state between them
/// (draft-ietf-ccwg-bbr-06 5.5.11.1).
#[test]
fn an_episode_ends_before_the_loss_that_opens_the_next() {
    let mut sender = first_of_ten_lost();
    send(&mut sender, at(40), 5);
    sender.on_ack(at(81), &ack(10, at(40), &[segments(11, 15)]));
    let story = sender.controller().story();
    assert_eq!(story, [LOSS, Told::Enter, Told::Exit, LOSS, Told::Enter]);
}

/// Ten segments; the ninth and the tenth go at 100 ms, the tenth is lost and probed, and a later
/// one shows that.
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

/// RFC 8985 7.4.2: the response is that to a loss. The controller hears of it, with the state of
/// the transmission that was lost, and `C.lost` counts it.
#[test]
fn a_loss_that_a_probe_repaired_is_told() {
    let mut sender = sender();
    send(&mut sender, at(0), 10);
    sender.on_ack(at(40), &ack(10, at(0), &[]));
    a_tail_lost_and_repaired(&mut sender, 10);
    let controller = sender.controller();
    assert_eq!(controller.story(), [LOSS, Told::Enter, Told::Exit]);
    let lost = controller.losses.first().map(|lost| lost.packet).unwrap();
    assert_eq!(lost.send_time, at(100));
    assert_eq!(lost.tx_in_flight, Bytes::new(2 * u64::from(MSS)));
    assert_eq!(sender.delivery().lost(), Bytes::new(u64::from(MSS)));
    let told = controller.acks.last().map(|ack| ack.newly_lost);
    assert_eq!(told, Some(Bytes::new(u64::from(MSS))));
    assert_eq!(sender.stats().lost_packets, 1);
}

/// After it an earlier episode is not undone: its duplicates would give back what the proven loss
/// has cost.
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
        let undone = sender.controller().told.contains(&Told::Spurious);
        assert_eq!(undone, !repaired);
    }
}
