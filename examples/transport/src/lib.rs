//! A transport of some forty lines: a fixed window, an answer to each datagram, and what is not answered
//! in time goes again. It has no congestion control: the window is what it is given.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use paceline_endpoint::{Amount, Batch, Datagram, Ecn, Endpoint, Stats, Write};
use paceline_units::{Bytes, Duration, Instant};

/// Either end.
#[derive(Default)]
pub struct End {
    /// Datagrams that may be unanswered, bytes of each, and how long an answer may take.
    window: usize,
    size: u32,
    patience: Duration,
    unsent: u64,
    next: u64,
    unanswered: BTreeMap<u64, Instant>,
    answers: VecDeque<u64>,
    /// Numbers that have arrived beyond those that were delivered.
    ahead: BTreeSet<u64>,
    delivered: u64,
    stats: Stats,
}

impl End {
    /// An end that keeps `window` datagrams of `size` bytes unanswered and sends each again after `patience`.
    pub fn new(window: usize, size: u32, patience: Duration) -> Self {
        Self {
            window,
            size,
            patience,
            ..Self::default()
        }
    }

    /// A datagram with data: its number, and padding.
    fn data(&mut self, now: Instant, number: u64) -> Batch<Vec<u8>> {
        self.unanswered.insert(number, now);
        self.stats.sent_packets += 1;
        let mut bytes = vec![0; self.size as usize];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        Batch::single(self.size, bytes, Ecn::NotEct)
    }
}

impl Endpoint for End {
    type Payload = Vec<u8>;

    fn receive(&mut self, now: Instant, datagram: Datagram<Vec<u8>>) {
        let Some(number) = datagram
            .payload
            .first_chunk()
            .copied()
            .map(u64::from_be_bytes)
        else {
            return; // no datagram of ours
        };
        if datagram.payload.len() == 8 {
            if let Some(sent) = self.unanswered.remove(&number) {
                self.stats.latest_rtt = Some(now.since(sent));
                self.stats.acknowledged += Bytes::new(self.size.into());
            }
        } else {
            self.answers.push_back(number);
            self.ahead
                .extend((number >= self.delivered).then_some(number));
            while self.ahead.remove(&self.delivered) {
                self.delivered += 1;
            }
        }
    }

    fn on_timer(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Vec<u8>>> {
        if let Some(number) = self.answers.pop_front() {
            return Some(Batch::single(8, number.to_be_bytes().to_vec(), Ecn::NotEct));
        }
        let late = self
            .unanswered
            .iter()
            .find(|(_, sent)| **sent + self.patience <= now);
        if let Some((number, _)) = late {
            self.stats.lost_packets += 1;
            self.stats.retransmitted_packets += 1;
            return Some(self.data(now, *number));
        }
        if self.unsent == 0 || self.unanswered.len() >= self.window {
            return None;
        }
        self.unsent = self.unsent.saturating_sub(self.size.into());
        self.next += 1;
        Some(self.data(now, self.next - 1))
    }

    fn next_timer(&mut self) -> Option<Instant> {
        self.unanswered
            .values()
            .min()
            .map(|sent| *sent + self.patience)
    }

    fn write(&mut self, _now: Instant, write: Write) {
        match write.amount {
            Amount::None => {}
            Amount::Bytes(bytes) => self.unsent += bytes,
            Amount::Unlimited => self.unsent = u64::MAX,
        }
    }

    fn delivered(&self) -> u64 {
        self.delivered * u64::from(self.size)
    }

    fn stats(&self) -> Stats {
        let in_flight = self.unanswered.len() as u64 * u64::from(self.size);
        Stats {
            cwnd: Some(Bytes::new(self.window as u64 * u64::from(self.size))),
            in_flight: Bytes::new(in_flight),
            phase: "Fixed",
            ..self.stats
        }
    }
}
