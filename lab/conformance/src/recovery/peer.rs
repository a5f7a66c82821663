//! The other side of a sender: the path of a script and the receiver behind it, without a clock.

use std::collections::BTreeMap;

use paceline_congestion::Ecn;
use paceline_recovery::{Acknowledgment, Block, Receiver, ReceiverConfig, SackBlocks, Segment};
use paceline_units::{Duration, Instant};

use super::script::{Delay, MSS, Pick, Script};
use super::trace::Transmission;

/// SACK ranges that fit next to timestamps.
const SACK_RANGES: usize = 3;

/// The receiver's buffer; never the limit.
pub const WINDOW: u64 = 1 << 25;

/// The path and the receiver. Data goes in as it is sent; acknowledgments come out when they arrive.
#[derive(Debug)]
pub struct Peer<'a> {
    script: &'a Script,
    start: Instant,
    receiver: Receiver,
    on_the_way: BTreeMap<(Instant, u64), Packet>,
    packets: u64,
    /// Transmissions of each segment, and acknowledgments, so far.
    counts: BTreeMap<u64, u64>,
    acks: u64,
    /// When the path may deliver the next segment.
    free: Instant,
    /// The highest acknowledgment that has arrived.
    acked: u64,
    log: Vec<Transmission>,
}

#[derive(Debug)]
enum Packet {
    Data(Segment),
    Ack(Acknowledgment),
}

impl<'a> Peer<'a> {
    /// The peer of a connection whose application first writes at `start`.
    pub fn new(script: &'a Script, start: Instant) -> Self {
        let config = ReceiverConfig {
            ack_every: script.ack_every,
            max_ack_delay: script.ack_delay,
            window: WINDOW,
            quick_acks: 0,
            sack_blocks: if script.sack { SACK_RANGES } else { 0 },
            ..ReceiverConfig::default()
        };
        Self {
            script,
            start,
            receiver: Receiver::new(config),
            on_the_way: BTreeMap::new(),
            packets: 0,
            counts: BTreeMap::new(),
            acks: 0,
            free: Instant::ZERO,
            acked: 0,
            log: Vec::new(),
        }
    }

    /// The sender sends the segment at `seq` now; the receiver echoes its timestamp, `stamp`.
    pub fn on_data(&mut self, now: Instant, seq: u64, stamp: Instant) {
        let number = seq / u64::from(MSS) + 1;
        let count = self.counts.entry(number).or_default();
        *count += 1;
        let nth = *count;
        let time = now.since(self.start);
        self.log.push(Transmission { time, number, nth });
        let picked = |picks: &[Pick]| picks.iter().any(|pick| pick.holds(number, nth));
        if picked(&self.script.drop) || self.is_black(now) {
            return;
        }
        let segment = Segment {
            seq,
            len: MSS,
            ecn: Ecn::NotEct,
            cwr: false,
            push: false,
            sent: stamp,
            retransmission: nth > 1,
        };
        let arrives = (now + self.script.rtt / 2).max(self.free);
        self.free = arrives + self.script.spacing;
        let arrives = arrives + extra(&self.script.delay, number, nth);
        self.carry(arrives, Packet::Data(segment));
        if picked(&self.script.duplicate) {
            self.carry(arrives, Packet::Data(segment));
        }
    }

    /// The time of the next event.
    pub fn next_event(&self) -> Option<Instant> {
        let arrival = self.on_the_way.keys().next().map(|(time, _)| *time);
        let timer = self.receiver.next_timer();
        arrival.into_iter().chain(timer).min()
    }

    /// Continues until an acknowledgment reaches the sender, or until `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Acknowledgment> {
        while let Some(time) = self.next_event().filter(|time| *time <= now) {
            if let Some(ack) = self.receiver.on_timer(time) {
                self.send_ack(time, ack);
                continue;
            }
            match self.on_the_way.pop_first() {
                Some((_, Packet::Ack(ack))) => {
                    self.acked = self.acked.max(ack.ack);
                    return Some(ack);
                }
                Some((_, Packet::Data(segment))) => {
                    if let Some(ack) = self.receiver.on_segment(time, &segment) {
                        self.send_ack(time, ack);
                    }
                }
                None => {}
            }
        }
        None
    }

    /// Whether everything is acknowledged and nothing is on its way, or time is up.
    pub fn is_over(&self, now: Instant) -> bool {
        let done = self.acked >= self.script.bytes() && self.on_the_way.is_empty();
        done || now >= self.start + self.script.end
    }

    /// The transmissions so far.
    pub fn into_log(self) -> Vec<Transmission> {
        self.log
    }

    fn carry(&mut self, arrives: Instant, packet: Packet) {
        self.on_the_way.insert((arrives, self.packets), packet);
        self.packets += 1;
    }

    fn send_ack(&mut self, now: Instant, mut ack: Acknowledgment) {
        if !self.script.dsack && ack.blocks.dsack {
            let sacked: Vec<Block> = ack.blocks.held().to_vec();
            ack.blocks = SackBlocks::from_iter(sacked);
        }
        self.acks += 1;
        let number = self.acks;
        let mut dropped = self.script.drop_acks.iter();
        let lost = dropped.any(|pick| pick.holds(number, 1));
        if lost || self.is_black(now) {
            return;
        }
        let arrives = now + self.script.rtt / 2 + extra(&self.script.delay_acks, number, 1);
        self.carry(arrives, Packet::Ack(ack));
    }

    fn is_black(&self, now: Instant) -> bool {
        self.script.blackouts.iter().any(|blackout| {
            let from = self.start + blackout.at;
            from <= now && now < from + blackout.length
        })
    }
}

fn extra(delays: &[Delay], number: u64, nth: u64) -> Duration {
    let delays = delays.iter().filter(|delay| delay.of.holds(number, nth));
    delays.fold(Duration::ZERO, |sum, delay| sum + delay.by)
}
