//! The hosts at both ends of a flow: stack delays, batches, NIC timestamps.

use std::collections::VecDeque;

use paceline_recovery::Acknowledgment;
use paceline_scenario::{Delay, HostSection};
use paceline_units::{Duration, Instant, Rng};

use crate::packet::Packet;

/// The two hosts of a flow. Packets keep their order in each direction.
pub(crate) struct Host {
    /// Its number among the hosts, for the agenda.
    pub number: usize,
    spec: HostSection,
    rng: Rng,
    /// On the way from the pacer to the sender's NIC.
    egress: VecDeque<(Instant, Packet)>,
    /// On the way from the receiver's NIC to its TCP: arrival time at TCP, and at the NIC.
    ingress: VecDeque<Received>,
    /// On the way from the receiver's TCP to its NIC, if their way back crosses links.
    replies: VecDeque<(Instant, Packet)>,
    /// The number at the end of `ingress` that wait for more of their batch, and their deadline.
    open: usize,
    deadline: Instant,
    /// When the earliest segment not acknowledged yet reached the NIC.
    first_nic: Option<Instant>,
    last_ack: Instant,
}

/// A packet in the receiver's host.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    ready: Instant,
    pub nic: Instant,
    pub packet: Packet,
}

impl Host {
    pub fn new(number: usize, spec: HostSection, seed: u64) -> Self {
        Self {
            number,
            spec,
            rng: Rng::new(seed),
            egress: VecDeque::new(),
            ingress: VecDeque::new(),
            replies: VecDeque::new(),
            open: 0,
            deadline: Instant::MAX,
            first_nic: None,
            last_ack: Instant::ZERO,
        }
    }

    /// Memory of the packets in it, in bytes.
    pub fn memory(&self) -> usize {
        (self.egress.capacity() + self.replies.capacity()) * size_of::<(Instant, Packet)>()
            + self.ingress.capacity() * size_of::<Received>()
    }

    /// The pacer releases a packet.
    pub fn release(&mut self, now: Instant, packet: Packet) {
        let last = self.egress.back().map_or(now, |(ready, _)| *ready);
        let ready = (now + draw(self.spec.send, &mut self.rng)).max(last);
        self.egress.push_back((ready, packet));
    }

    /// When the next packet reaches the sender's NIC.
    pub fn next_release(&self) -> Instant {
        self.egress
            .front()
            .map_or(Instant::MAX, |(ready, _)| *ready)
    }

    /// The packet that has reached the sender's NIC by `now`.
    pub fn released(&mut self, now: Instant) -> Option<Packet> {
        let due = self.next_release() <= now;
        self.egress
            .pop_front()
            .filter(|_| due)
            .map(|(_, packet)| packet)
    }

    /// A packet reaches the receiver's NIC.
    pub fn receive(&mut self, now: Instant, packet: Packet) {
        self.ingress.push_back(Received {
            ready: Instant::MAX,
            nic: now,
            packet,
        });
        self.open += 1;
        let (time, packets) = match &self.spec.gro {
            Some(gro) => (gro.time, gro.packets.0 as usize),
            None => (Duration::ZERO, 1),
        };
        if self.open == 1 {
            self.deadline = now + time;
        }
        if self.open >= packets || self.deadline <= now {
            self.close(now);
        }
    }

    /// Passes the batch up.
    fn close(&mut self, now: Instant) {
        let whole = self.ingress.len();
        let begin = whole - self.open;
        let last = begin
            .checked_sub(1)
            .map_or(now, |index| self.ingress[index].ready);
        let ready = (now + draw(self.spec.receive, &mut self.rng)).max(last);
        for received in self.ingress.range_mut(begin..) {
            received.ready = ready;
        }
        self.open = 0;
        self.deadline = Instant::MAX;
    }

    /// When the receiver's host next has something to do.
    pub fn next_receive(&self) -> Instant {
        let ready = self
            .ingress
            .front()
            .map_or(Instant::MAX, |first| first.ready);
        let reply = self.replies.front().map_or(Instant::MAX, |(at, _)| *at);
        ready.min(self.deadline).min(reply)
    }

    /// A reply reaches the receiver's NIC at `release`.
    pub fn reply(&mut self, release: Instant, packet: Packet) {
        self.replies.push_back((release, packet));
    }

    /// The next reply that has reached the receiver's NIC by `now`.
    pub fn answered(&mut self, now: Instant) -> Option<Packet> {
        self.replies.front().filter(|(at, _)| *at <= now)?;
        self.replies.pop_front().map(|(_, packet)| packet)
    }

    /// The next packet that has reached TCP by `now`.
    pub fn received(&mut self, now: Instant) -> Option<Received> {
        if self.deadline <= now {
            self.close(now);
        }
        let ready = self.ingress.front()?.ready <= now;
        ready.then(|| self.ingress.pop_front())?
    }

    /// Whether packets passed up together are acknowledged together.
    pub fn merges(&self) -> bool {
        self.spec.gro.is_some()
    }

    /// TCP processes a segment that reached the NIC at `nic`; `waiting` says that others are
    /// already waiting for their acknowledgment.
    pub fn taken(&mut self, nic: Instant, waiting: bool) {
        if !waiting || self.first_nic.is_none() {
            self.first_nic = Some(nic);
        }
    }

    /// TCP decides to acknowledge. Returns since when its host has had the acknowledged data.
    pub fn acknowledge(&mut self, now: Instant, ack: &mut Acknowledgment) {
        if let (true, Some(nic)) = (self.spec.nic_timestamps, self.first_nic) {
            ack.delay = now.since(nic);
        }
    }

    /// The delay between the decision to acknowledge and the release of the acknowledgment, which
    /// it reports.
    pub fn hold(&mut self, now: Instant, ack: Option<&mut Acknowledgment>) -> Instant {
        let release = (now + draw(self.spec.ack, &mut self.rng)).max(self.last_ack);
        self.last_ack = release;
        if let (true, Some(ack)) = (self.spec.nic_timestamps, ack) {
            ack.delay += release.since(now);
            ack.sent = release;
        }
        release
    }

    /// An acknowledgment reaches the sender's NIC at `nic`, and TCP no earlier than `earliest`.
    /// Returns when it reaches TCP.
    pub fn hand_up(
        &mut self,
        nic: Instant,
        earliest: Instant,
        ack: Option<&mut Acknowledgment>,
    ) -> Instant {
        let up = (nic + draw(self.spec.ack_receive, &mut self.rng)).max(earliest);
        if let (true, Some(ack)) = (self.spec.nic_timestamps, ack) {
            ack.stack = up.since(nic);
        }
        up
    }
}

/// The maximum draw of an unbounded distribution, in means or deviations: larger values have a
/// probability of less than 1e-8.
const TAIL: f64 = 20.0;

fn draw(delay: Delay, rng: &mut Rng) -> Duration {
    match delay {
        Delay::Fixed(time) => time,
        Delay::Uniform { min, max } => {
            let span = (max - min).as_nanos().saturating_add(1);
            min + Duration::from_nanos(rng.below(span))
        }
        Delay::Exponential { mean } => {
            let means = -libm::log(rng.unit());
            scaled(mean, means.min(TAIL))
        }
        Delay::Normal { mean, deviation } => loop {
            let offset = rng.normal().clamp(-TAIL, TAIL);
            let shift = scaled(deviation, offset.abs());
            match offset < 0.0 {
                false => break mean + shift,
                true if shift <= mean => break mean - shift,
                true => {}
            }
        },
    }
}

fn scaled(time: Duration, factor: f64) -> Duration {
    Duration::from_nanos((time.as_nanos() as f64 * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn at(n: u64) -> Instant {
        Instant::ZERO + us(n)
    }

    fn packet(flow: u32) -> Packet {
        Packet {
            flow,
            size: 1500,
            load: crate::packet::Load::Syn,
        }
    }

    fn moments(delay: Delay) -> (f64, f64, f64) {
        let mut rng = Rng::new(3);
        let draws: Vec<f64> = (0..100_000)
            .map(|_| draw(delay, &mut rng).as_nanos() as f64 / 1e3)
            .collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / 1e5;
        (
            mean,
            variance.sqrt(),
            draws.iter().copied().fold(f64::MAX, f64::min),
        )
    }

    #[test]
    fn draws_have_the_moments_of_their_distribution() {
        let near = |value: f64, expected: f64| (value - expected).abs() < 0.02 * expected;
        let (mean, deviation, least) = moments(Delay::Uniform {
            min: us(10),
            max: us(50),
        });
        assert!(near(mean, 30.0) && near(deviation, 40.0 / 12_f64.sqrt()) && least >= 10.0);
        let (mean, deviation, _) = moments(Delay::Exponential { mean: us(20) });
        assert!(near(mean, 20.0) && near(deviation, 20.0));
        let (mean, deviation, _) = moments(Delay::Normal {
            mean: us(50),
            deviation: us(10),
        });
        assert!(near(mean, 50.0) && near(deviation, 10.0));
        // Half of a normal distribution around zero: its mean is sqrt(2 / pi) deviations.
        let (mean, _, least) = moments(Delay::Normal {
            mean: us(0),
            deviation: us(10),
        });
        assert!(near(mean, 7.979) && least >= 0.0);
        assert_eq!(moments(Delay::Fixed(us(7))).1, 0.0);
    }

    fn host(gro: Option<(u64, u32)>) -> Host {
        let spec = HostSection {
            send: Delay::Uniform {
                min: us(1),
                max: us(30),
            },
            receive: Delay::Fixed(us(5)),
            ack: Delay::NONE,
            ack_receive: Delay::NONE,
            gro: gro.map(|(time, packets)| paceline_scenario::Gro {
                time: us(time),
                packets: paceline_scenario::Packets(packets),
            }),
            nic_timestamps: true,
        };
        Host::new(0, spec, 1)
    }

    fn up(host: &mut Host) -> Vec<(u64, u32)> {
        let mut received_at = Vec::new();
        while host.next_receive() < Instant::MAX {
            let now = host.next_receive();
            while let Some(received) = host.received(now) {
                received_at.push((now.as_nanos() / 1000, received.packet.flow));
            }
        }
        received_at
    }

    #[test]
    fn packets_keep_their_order_in_the_sender() {
        let mut host = host(None);
        for n in 0..100 {
            host.release(at(u64::from(n)), packet(n));
        }
        let mut order = Vec::new();
        let mut before = Instant::ZERO;
        while host.next_release() < Instant::MAX {
            let now = host.next_release();
            assert!(now >= before);
            before = now;
            order.extend(host.released(now).map(|packet| packet.flow));
        }
        assert!(order.iter().copied().eq(0..100));
    }

    /// RTT and receiver's delay as in draft-yang-tcpm-ets: from the paced release to the NIC's
    /// receipt of the ACK, and from the NIC's receipt of the data to the ACK's release.
    #[test]
    fn acknowledgments_tell_delays_by_the_clock_of_the_nic() {
        let mut host = host(None);
        host.spec.ack = Delay::Fixed(us(7));
        host.spec.ack_receive = Delay::Fixed(us(11));
        // Two segments reach the NIC at 100 and 130 us; TCP acknowledges both at 150 us.
        host.taken(at(100), false);
        host.taken(at(130), true);
        let mut ack = Acknowledgment::default();
        host.acknowledge(at(150), &mut ack);
        assert_eq!(ack.delay, us(50));
        assert_eq!(host.hold(at(150), Some(&mut ack)), at(157));
        assert_eq!((ack.delay, ack.sent), (us(57), at(157)));
        assert_eq!(host.hand_up(at(200), at(0), Some(&mut ack)), at(211));
        assert_eq!(ack.stack, us(11));
        // The next one starts a new batch if nothing is waiting; otherwise it queues.
        host.taken(at(300), false);
        host.acknowledge(at(305), &mut ack);
        assert_eq!(ack.delay, us(5));
        assert_eq!(host.hand_up(at(340), at(360), Some(&mut ack)), at(360));
        assert_eq!(ack.stack, us(20));
        // Without the NIC's clock TCP's own delay is reported, and TCP gets the ACK on arrival.
        host.spec.nic_timestamps = false;
        let mut ack = Acknowledgment::default();
        host.acknowledge(at(400), &mut ack);
        host.hold(at(400), Some(&mut ack));
        host.hand_up(at(500), at(0), Some(&mut ack));
        assert_eq!((ack.delay, ack.stack), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn a_batch_goes_up_when_it_is_full_or_its_time_is_over() {
        let mut gro = host(Some((20, 3)));
        for (n, t) in (0..).zip([0, 1, 2, 10, 50]) {
            // The fourth has waited for its 20 us when the fifth arrives.
            while gro.next_receive() <= at(t) && n == 4 {
                assert_eq!(up(&mut gro), [(7, 0), (7, 1), (7, 2), (35, 3)]);
            }
            gro.receive(at(t), packet(n));
        }
        assert_eq!(up(&mut gro), [(75, 4)]);
        let mut none = host(None);
        none.receive(at(0), packet(0));
        none.receive(at(1), packet(1));
        assert_eq!(up(&mut none), [(5, 0), (6, 1)]);
    }
}
