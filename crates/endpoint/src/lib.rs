//! The interface between an engine and one end of a connection.
//!
//! An engine carries datagrams: through a simulated path, or over a socket (`udp`, a feature, on
//! Unix). It makes steps. In each, in this order, for one end:
//!
//! 1. [`Endpoint::receive`] with each datagram that has arrived, or [`Endpoint::on_timer`] if the
//!    timeout is due;
//! 2. [`Endpoint::write`] with the application's data;
//! 3. [`Endpoint::poll_transmit`] until it returns none;
//! 4. [`Endpoint::next_timer`], read again after every step.
//!
//! `now` never goes back. After a step, an end that asks for a timeout before `now`, or that sends
//! or wakes endlessly at one instant, is defective: an engine stops with an error instead of
//! hanging.
//!
//! Times are the engine's, from an origin of its own. Sizes are those of UDP payloads; the engine
//! adds the headers.

#[cfg(all(unix, feature = "udp"))]
pub mod udp;

pub use paceline_units::Ecn;
use paceline_units::{Bytes, Duration, Instant, Rate};

/// The content of a datagram: bytes, or a value if only the other end looks at it. An engine keeps
/// it unread, and may deliver it twice.
pub trait Payload: Clone {
    /// Removes and returns the first `size` bytes. It is called only for a [`Batch`] of several
    /// datagrams: a payload that never forms one keeps this default, which takes everything.
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
    /// Its content.
    pub payload: P,
    /// Size of the UDP payload in bytes.
    pub size: u32,
    /// The ECN codepoint on arrival; none if the engine does not know it.
    pub ecn: Option<Ecn>,
}

/// Datagrams that leave together: one, or several of the same size as with segmentation offload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<P> {
    /// Their content, one after the other.
    pub payload: P,
    /// Total UDP payload in bytes.
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

/// The amount to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// Nothing now.
    #[default]
    None,
    /// This many bytes more.
    Bytes(u64),
    /// From now on always more.
    Unlimited,
}

/// The application's simultaneous actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The amount to write.
    pub amount: Amount,
    /// Whether unlimited data ends first: the data sent so far was all there is for now.
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
    /// Its pacing rate.
    pub pacing_rate: Option<Rate>,
    /// The delivery rate that it measures.
    pub delivery_rate: Option<Rate>,
    /// The bandwidth that its controller assumes (`bw` of BBR).
    pub bandwidth: Option<Rate>,
    /// The latest RTT sample.
    pub latest_rtt: Option<Duration>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Lifetime minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Data that the other end has acknowledged.
    pub acknowledged: Bytes,
    /// Packets with data that it sent, including retransmissions.
    pub sent_packets: u64,
    /// Packets that it declared lost.
    pub lost_packets: u64,
    /// Packets with data that it retransmitted.
    pub retransmitted_packets: u64,
    /// The state of its controller's state machine.
    pub phase: &'static str,
    /// Whether the application, not the network, limits it.
    pub app_limited: bool,
}

/// One end of a connection.
pub trait Endpoint {
    /// The content of its datagrams; the other end's is the same type.
    type Payload: Payload;

    /// A datagram has arrived.
    fn receive(&mut self, now: Instant, datagram: Datagram<Self::Payload>);

    /// The timeout may be due. Calls before it, or without one, do nothing.
    fn on_timer(&mut self, now: Instant);

    /// The datagrams to send now: call it until it returns none.
    fn poll_transmit(&mut self, now: Instant) -> Option<Batch<Self::Payload>>;

    /// When it wants [`Self::on_timer`] or [`Self::poll_transmit`] (its pacer) to be called next; none
    /// if never. Valid until any other method is called.
    fn next_timer(&mut self) -> Option<Instant>;

    /// The application writes. An end that first has to complete a handshake keeps the data until
    /// then.
    fn write(&mut self, now: Instant, write: Write);

    /// Bytes that it has received and passed to its application, in order and once each.
    fn delivered(&self) -> u64;

    /// Its state.
    fn stats(&self) -> Stats;

    /// That of its controller's state machine, as in its [`Stats`]: an engine asks after every step. An end whose `stats`
    /// take long says it here.
    fn phase(&self) -> &'static str {
        self.stats().phase
    }

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

    fn phase(&self) -> &'static str {
        (**self).phase()
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
