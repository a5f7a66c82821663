//! A bottleneck between two hosts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use s2n_quic::provider::io::testing::network::{Buffers, Network, Packet};
use s2n_quic::provider::io::testing::{spawn, time};
use s2n_quic_core::inet::SocketAddress;
use s2n_quic_core::time::{Clock as _, NoopClock, Timestamp};

/// IP and UDP headers.
const HEADERS: u64 = 28;

/// A link of one rate in both directions, with a delay and a buffer.
#[derive(Clone, Debug)]
pub struct Path {
    /// In bit/s, from these times on.
    pub rate: Vec<(Duration, f64)>,
    pub rtt: Duration,
    /// Bytes that wait.
    pub buffer: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// When everything is lost.
    pub outage: Option<(Duration, Duration)>,
    /// A packet is held back for up to this long, and those after it wait.
    pub jitter: Duration,
    /// One packet in so many is overtaken by those of this time.
    pub late: Option<(u64, Duration)>,
}

impl Path {
    /// In Mbit/s and ms, with a buffer of one BDP.
    pub fn new(rate: u32, rtt: u32) -> Self {
        let (rate, rtt) = (f64::from(rate) * 1e6, Duration::from_millis(rtt.into()));
        Self {
            buffer: (rate * rtt.as_secs_f64() / 8.0) as u64,
            rate: vec![(Duration::ZERO, rate)],
            rtt,
            loss: 0.0,
            outage: None,
            jitter: Duration::ZERO,
            late: None,
        }
    }

    fn rate_at(&self, now: Duration) -> f64 {
        let begun = self.rate.iter().rev().find(|(from, _)| *from <= now);
        begun.map_or(f64::INFINITY, |(_, rate)| *rate)
    }
}

/// Knuth's linear congruential generator.
pub fn next(draw: u64) -> u64 {
    draw.wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// The time at which a run begins.
pub fn start() -> Timestamp {
    NoopClock.get_time()
}

/// Waits of data packets, by when they arrived, and packets that found no room.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<(Vec<(Duration, Duration)>, u64)>>);

impl Log {
    /// The median wait from `from` on, and how many packets were dropped in all.
    pub fn summary(&self, from: Duration) -> (Duration, u64) {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let late = log.0.iter().filter(|(at, _)| *at >= from);
        let mut waits: Vec<Duration> = late.map(|(_, wait)| *wait).collect();
        waits.sort_unstable();
        let median = waits.get(waits.len() / 2).copied().unwrap_or_default();
        (median, log.1)
    }
}

pub struct Bottleneck {
    path: Path,
    /// When each sender's direction is free, and when its last packet arrives.
    free: HashMap<SocketAddress, (Duration, Duration)>,
    packets: u64,
    draws: u64,
    log: Log,
}

impl Bottleneck {
    pub fn new(path: Path) -> (Self, Log) {
        let log = Log::default();
        let network = Self {
            path,
            free: HashMap::new(),
            packets: 0,
            draws: 1,
            log: log.clone(),
        };
        (network, log)
    }

    /// From 0 to 1.
    fn draw(&mut self) -> f64 {
        self.draws = next(self.draws);
        (self.draws >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// When a packet arrives, if it does.
    fn carry(&mut self, now: Duration, packet: &Packet) -> Option<Duration> {
        let size = packet.payload.len() as u64 + HEADERS;
        let rate = self.path.rate_at(now);
        let from = *packet.path.local_address;
        let (free, last) = self.free.get(&from).copied().unwrap_or_default();
        let begins = free.max(now);
        let waits = begins - now;
        let is_data = size > 200;
        self.packets += u64::from(is_data);
        if is_data {
            let mut log = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
            log.0.push((now, waits));
            if waits.as_secs_f64() * rate / 8.0 + size as f64
                > self.path.buffer as f64 + size as f64
            {
                log.1 += 1;
                return None;
            }
        }
        let out = self
            .path
            .outage
            .is_some_and(|(from, to)| (from..to).contains(&now));
        let lost = self.path.loss > 0.0 && self.draw() < self.path.loss;
        let free = begins + Duration::from_secs_f64(size as f64 * 8.0 / rate);
        let mut arrives = free + self.path.rtt / 2;
        if !self.path.jitter.is_zero() {
            arrives += self.path.jitter.mul_f64(self.draw());
        }
        let overtaken = self
            .path
            .late
            .filter(|(every, _)| is_data && self.packets % every == 0);
        let ordered = arrives.max(last);
        self.free.insert(from, (free, ordered));
        let arrives = overtaken.map_or(ordered, |(_, late)| ordered + late);
        (!out && !lost).then_some(arrives)
    }
}

impl Network for Bottleneck {
    fn execute(&mut self, buffers: &Buffers) -> usize {
        let now = time::now().saturating_duration_since(start());
        let mut count = 0;
        buffers.drain_pending_transmissions(|mut packet| {
            count += 1;
            if let Some(arrives) = self.carry(now, &packet) {
                packet.switch();
                let buffers = buffers.clone();
                spawn(async move {
                    time::delay_until(start() + arrives).await;
                    buffers.rx(*packet.path.local_address, |queue| queue.enqueue(packet));
                });
            }
            Ok(())
        });
        count
    }
}
