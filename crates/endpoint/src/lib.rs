//! What an engine asks of one end of a connection, and gives to it.
//!
//! An engine carries datagrams: through a simulated path, or over a socket (`udp`, a feature, on Unix). It makes steps.
//! In each, in this order, for one end:
//!
//! 1. [`Endpoint::receive`] with each datagram that has arrived, or [`Endpoint::on_timer`] if the
//!    time-out is due;
//! 2. [`Endpoint::write`] with what the application has to send;
//! 3. [`Endpoint::poll_transmit`] until it returns none;
//! 4. [`Endpoint::next_timer`], read again after every step.
//!
//! `now` never goes back. After a step an end that asks for a time-out before `now`, and one that sends
//! or wakes without end at one instant, is defective: an engine stops with an error, it does not hang.
//!
//! Times are the engine's, from an origin of its own. Sizes are those of UDP payloads; what headers add
//! is the engine's business.

#[cfg(all(unix, feature = "udp"))]
pub mod udp;

pub use paceline_units::Ecn;
use paceline_units::{Bytes, Duration, Instant, Rate};

/// What travels in a datagram: bytes, or a value where nobody but the other end looks at it. An engine
/// keeps it unread, and may deliver it twice.
pub trait Payload: Clone {
    /// Takes the first `size` bytes off. It is asked of a [`Batch`] of several datagrams alone: a
    /// payload that never is one keeps this default, which takes everything.
    fn split_to(&mut self, _size: usize) -> Self {
        self.clone()
    }
}

impl Payload for Vec<u8> {
    fn split_to(&mut self, size: usize) -> Self {
        let rest = self.split_off(size.min(self.len()));
        std::mem::replace(self, rest)
    }
}

/// A datagram that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram<P> {
    /// What it carries.
    pub payload: P,
    /// Bytes of UDP payload.
    pub size: u32,
    /// The ECN codepoint on arrival; none if the engine does not know it.
    pub ecn: Option<Ecn>,
}

/// Datagrams that leave together: one, or several of the same size as segmentation offload takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<P> {
    /// What they carry, one behind the other.
    pub payload: P,
    /// Bytes of UDP payload of all.
    pub size: u32,
    /// Bytes of each but the last, which may be shorter; not zero.
    pub segment_size: u32,
    /// The codepoint of all.
    pub ecn: Ecn,
}

impl<P: Payload> Batch<P> {
    /// A single datagram of `size` bytes.
    pub fn single(size: u32, payload: P, ecn: Ecn) -> Self {
        Self {
            payload,
            size,
            segment_size: size,
            ecn,
        }
    }

    /// Its datagrams, in order.
    pub fn datagrams(self) -> impl Iterator<Item = Datagram<P>> {
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let mut batch = rest.take()?;
            let ecn = Some(batch.ecn);
            let size = batch.segment_size.max(1);
            if batch.size <= size {
                return Some(Datagram {
                    payload: batch.payload,
                    size: batch.size,
                    ecn,
                });
            }
            let payload = batch.payload.split_to(size as usize);
            batch.size -= size;
            rest = Some(batch);
            Some(Datagram { payload, size, ecn })
        })
    }
}

/// What to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// Nothing now.
    #[default]
    None,
    /// So many bytes more.
    Bytes(u64),
    /// From now on always more.
    Unlimited,
}

/// What the application does at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// What to write.
    pub amount: Amount,
    /// Whether what was unlimited ends before it: what was sent was all there is for now.
    pub stop: bool,
    /// Whether nothing will follow.
    pub close: bool,
}

/// The state of an end, for the record. Unknown values are none or zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Congestion window.
    pub cwnd: Option<Bytes>,
    /// Data in flight.
    pub in_flight: Bytes,
    /// The rate at which it paces.
    pub pacing_rate: Option<Rate>,
    /// The delivery rate that it measures.
    pub delivery_rate: Option<Rate>,
    /// The latest RTT sample.
    pub latest_rtt: Option<Duration>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Lifetime minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Data that the other end has acknowledged.
    pub acknowledged: Bytes,
    /// Packets with data that it sent, retransmissions included.
    pub sent_packets: u64,
    /// Packets that it declared lost.
    pub lost_packets: u64,
    /// Packets with data that it sent again.
    pub retransmitted_packets: u64,
    /// The state of its controller's state machine.
    pub phase: &'static str,
    /// Whether the application, not the network, limits it.
    pub app_limited: bool,
}

/// One end of a connection.
pub trait Endpoint {
    /// What its datagrams carry; that of the other end is the same.
    type Payload: Payload;

    /// A datagram has arrived.
    fn receive(&mut self, now: Instant, datagram: Datagram<Self::Payload>);

    /// The time-out may have come. Calls before it, or without one, do nothing.
    fn on_timer(&mut self, now: Instant);

    /// What is to be sent now: call it until it returns none.
    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Self::Payload>>;

    /// When it wants [`Self::on_timer`] or [`Self::poll_transmit`] (its pacer) to be called next; none
    /// if never. Valid until any other method is called.
    fn next_timer(&mut self) -> Option<Instant>;

    /// The application writes. An end that has a handshake to do first keeps it until then.
    fn write(&mut self, now: Instant, write: Write);

    /// Bytes that it has received and handed to its application, in order and once each.
    fn delivered(&self) -> u64;

    /// What it says of itself.
    fn stats(&self) -> Stats;

    /// Why it cannot go on, if so. An engine asks after every step, and stops with this as its error.
    fn failure(&self) -> Option<String> {
        None
    }
}

impl<E: Endpoint + ?Sized> Endpoint for Box<E> {
    type Payload = E::Payload;

    fn receive(&mut self, now: Instant, datagram: Datagram<Self::Payload>) {
        (**self).receive(now, datagram);
    }

    fn on_timer(&mut self, now: Instant) {
        (**self).on_timer(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Self::Payload>> {
        (**self).poll_transmit(now)
    }

    fn next_timer(&mut self) -> Option<Instant> {
        (**self).next_timer()
    }

    fn write(&mut self, now: Instant, write: Write) {
        (**self).write(now, write);
    }

    fn delivered(&self) -> u64 {
        (**self).delivered()
    }

    fn stats(&self) -> Stats {
        (**self).stats()
    }

    fn failure(&self) -> Option<String> {
        (**self).failure()
    }
}

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_at_its_segment_size() {
        let batch = Batch {
            payload: (0..25).collect::<Vec<u8>>(),
            size: 25,
            segment_size: 10,
            ecn: Ecn::Ect0,
        };
        let cut: Vec<(u32, Vec<u8>)> = batch
            .datagrams()
            .map(|one| (one.size, one.payload))
            .collect();
        assert_eq!(cut.iter().map(|one| one.0).collect::<Vec<_>>(), [10, 10, 5]);
        assert_eq!(cut.concat_bytes(), (0..25).collect::<Vec<u8>>());
        let whole = Batch::single(3, vec![1, 2, 3], Ecn::NotEct);
        assert_eq!(whole.datagrams().count(), 1);
    }

    trait Concat {
        fn concat_bytes(&self) -> Vec<u8>;
    }

    impl Concat for Vec<(u32, Vec<u8>)> {
        fn concat_bytes(&self) -> Vec<u8> {
            self.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
        }
    }
}
