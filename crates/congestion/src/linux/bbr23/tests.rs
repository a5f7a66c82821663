//! PRR's bound (RFC 9937 section 6.2) by hand: 100 packets were in flight, half of them are lost, and
//! an ACK delivers two.

use std::vec::Vec;

use super::*;
use crate::linux::bbr2;

struct Flow {
    sk: Socket,
    core: bbr2::Core,
}

impl Flow {
    fn new(prr_bound: bool) -> Self {
        let mut sk = Socket {
            now: 1_000_000,
            mss: 1000,
            cwnd: 100,
            srtt: 40_000,
            min_rtt: 40_000,
            delivered: 1000,
            lost: 50,
            packets_in_flight: 50,
            ..Socket::default()
        };
        let parameters = Parameters {
            prr_bound,
            ..Parameters::default()
        };
        let core = bbr2::Core::new(&mut sk, parameters);
        Self { sk, core }
    }

    fn enter(&mut self) {
        self.core.ssthresh(&self.sk);
        self.state(CaState::Recovery);
    }

    fn state(&mut self, state: CaState) {
        self.core.set_state(&mut self.sk, state, &mut |_| 0);
        self.sk.ca_state = state;
    }

    /// What the window allows; sends it.
    fn send(&mut self) -> u32 {
        let sent = self.sk.cwnd.saturating_sub(self.sk.packets_in_flight);
        self.sk.packets_in_flight += sent;
        sent
    }

    /// An ACK that delivers `acked` packets and shows the loss of others. Returns how many packets
    /// the window allows, and sends them.
    fn ack(&mut self, acked: u32, losses: u32) -> u32 {
        let sk = &mut self.sk;
        sk.now += 1_000;
        sk.delivered += acked;
        sk.lost += losses;
        let prior_in_flight = sk.packets_in_flight;
        sk.packets_in_flight -= acked + losses;
        for _ in 0..losses {
            let packet = LostPacket {
                pcount: 1,
                ..LostPacket::default()
            };
            self.core.skb_marked_lost(sk, &packet, &mut |_| 0);
        }
        let rs = RateSample {
            interval_us: 40_000,
            rtt_us: 40_000,
            delivered: 50,
            prior_delivered: sk.delivered - 50,
            acked_sacked: acked,
            losses,
            tx_in_flight: 100,
            prior_in_flight,
            ..RateSample::default()
        };
        self.core.cong_control(sk, &rs, &mut |_| 0);
        self.send()
    }
}

#[test]
fn in_recovery_no_more_is_sent_than_prr_allows() {
    let mut flow = Flow::new(true);
    flow.enter();
    // No safe ACK: conservation. A safe one: a packet more.
    let sent: Vec<u32> = [(2, 1), (2, 0), (2, 3), (1, 0)]
        .into_iter()
        .map(|(acked, losses)| flow.ack(acked, losses))
        .collect();
    assert_eq!(sent, [2, 3, 2, 2]);
    // Without the bound the window of before is sent at once.
    let mut flow = Flow::new(false);
    flow.enter();
    assert!(flow.ack(2, 1) > 50);
}

/// `prr_delivered - prr_out`: what the pacer held back is sent later.
#[test]
fn what_was_delivered_and_not_replaced_may_be_sent() {
    let mut flow = Flow::new(true);
    flow.enter();
    assert_eq!(flow.ack(2, 1), 2);
    for _ in 0..3 {
        let sent = flow.ack(2, 1);
        flow.sk.packets_in_flight -= sent;
    }
    // Eight were delivered and two sent; the last ACK was not safe.
    assert_eq!(flow.ack(2, 1), 8);
}

/// A timer may begin recovery, and may find losses in it: the fast retransmit leaves, no loss lets
/// others leave, and with nothing in flight a packet may.
#[test]
fn without_an_ack_only_a_retransmission_is_sent() {
    let mut flow = Flow::new(true);
    flow.enter();
    assert_eq!(flow.send(), 1);
    assert_eq!(flow.ack(0, 20), 0);
    assert_eq!(flow.ack(0, 31), 1);
}

/// After recovery the window grows from the data in flight by what is delivered; an undo restores
/// it.
#[test]
fn the_bound_ends_with_recovery() {
    let mut flow = Flow::new(true);
    flow.enter();
    assert_eq!(flow.ack(2, 1), 2);
    let in_flight = flow.sk.packets_in_flight;
    assert_eq!(flow.sk.cwnd, in_flight);
    flow.state(CaState::Open);
    assert_eq!(flow.ack(2, 0), 4);
    let undone = flow.core.undo_cwnd(&flow.sk);
    assert_eq!(undone, 100);
}
