//! Packets sent and still expected, in the order of sending.

use std::collections::VecDeque;

use paceline_congestion::PacketState;
use paceline_units::{Duration, Instant};

/// Tokens by the instant of sending, and by number if there are numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    /// The number of removed entries: the identifier of the first that is left.
    gone: u64,
    /// The number of the packet lost last.
    last_lost: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    token: PacketState,
    number: u64,
    /// Bytes that are neither acknowledged nor lost.
    left: u32,
}

impl Ring {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The numbers of the expected packets.
    #[cfg(test)]
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        let left = self.entries.iter().filter(|entry| entry.left > 0);
        left.map(|entry| entry.number)
    }

    pub fn push(&mut self, token: PacketState, number: u64) {
        self.entries.push_back(Entry {
            token,
            number,
            left: token.size,
        });
    }

    /// Adds a packet that left at the same time to the newest entry.
    pub fn extend(&mut self, token: PacketState) {
        match self.entries.back_mut() {
            Some(last) if last.token.send_time == token.send_time => {
                last.left = last.left.saturating_add(token.size);
                last.token.size = last.token.size.saturating_add(token.size);
                last.token.tx_in_flight = token.tx_in_flight;
            }
            _ => self.push(token, 0),
        }
    }

    /// Subtracts `bytes` from the entry sent at `sent`; returns its token and an identifier that
    /// grows with time.
    pub fn take(
        &mut self,
        sent: Instant,
        number: Option<u64>,
        bytes: u32,
    ) -> Option<(PacketState, u64)> {
        let mut index = self.first_at(sent);
        if let Some(number) = number {
            // Few packets leave at the same time.
            let same = |entry: &&Entry| entry.token.send_time == sent && entry.number != number;
            index += self.entries.range(index..).take_while(same).count();
        }
        let entry = self.entries.get_mut(index)?;
        if entry.token.send_time != sent || number.is_some_and(|number| entry.number != number) {
            return None;
        }
        entry.left = entry.left.saturating_sub(bytes);
        let packet = (entry.token, self.gone + index as u64);
        self.trim();
        Some(packet)
    }

    /// The token of the entry sent at `sent`.
    pub fn at(&self, sent: Instant) -> Option<PacketState> {
        let entry = self.entries.get(self.first_at(sent))?;
        (entry.token.send_time == sent).then_some(entry.token)
    }

    /// The first entry sent at `sent` or later. Acknowledged packets are mostly near the front.
    fn first_at(&self, sent: Instant) -> usize {
        const NEAR: usize = 4;
        let near = self.entries.iter().take(NEAR);
        let passed = near
            .take_while(|entry| entry.token.send_time < sent)
            .count();
        match passed {
            NEAR => self
                .entries
                .partition_point(|entry| entry.token.send_time < sent),
            _ => passed,
        }
    }

    /// Packet `number` of `bytes` is lost: returns its token, and whether the packet before it is
    /// not lost.
    pub fn lose(&mut self, number: u64, bytes: u32) -> (Option<PacketState>, bool) {
        let starts = self.last_lost.is_none_or(|last| last + 1 != number);
        self.last_lost = Some(number);
        // Numbers are reported without their space. A lost packet is among the oldest; of two with
        // the same number it is the older one, if the size fits.
        let fits = |entry: &Entry| entry.number == number && entry.left == bytes;
        let Some(entry) = self.entries.iter_mut().find(|entry| fits(entry)) else {
            return (None, starts);
        };
        entry.left = 0;
        let token = entry.token;
        self.trim();
        (Some(token), starts)
    }

    /// Drops entries sent more than `patience` before `newest`.
    pub fn forget(
        &mut self,
        newest: Instant,
        patience: Duration,
    ) -> impl Iterator<Item = PacketState> {
        std::iter::from_fn(move || {
            self.trim();
            let first = self.entries.front()?;
            if newest.since(first.token.send_time) <= patience {
                return None;
            }
            let token = PacketState {
                size: first.left,
                ..first.token
            };
            self.entries.pop_front();
            self.gone += 1;
            Some(token)
        })
    }

    fn trim(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.left == 0) {
            self.entries.pop_front();
            self.gone += 1;
        }
    }
}
