//! An endpoint of s2n-quic without its type, and the input and output that an engine gives it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use paceline_endpoint::{Batch, Ecn};
use paceline_units::Instant;
use s2n_quic::provider::io;
use s2n_quic_core::endpoint::Endpoint;
use s2n_quic_core::inet::{ExplicitCongestionNotification, SocketAddress, datagram::Header};
use s2n_quic_core::io::{rx, tx};
use s2n_quic_core::path::{Tuple, mtu};
use s2n_quic_core::time::Timestamp;

/// What an end asks of its endpoint.
pub trait Driven: Send {
    fn receive(&mut self, now: Instant, datagram: &mut Arrived);
    /// Time-outs that are due, and what is to be sent.
    fn transmit(&mut self, now: Instant, out: &mut Outbox);
    /// What the application has done; whether it was anything.
    fn wake(&mut self, now: Instant) -> bool;
    fn timeout(&self) -> Option<Instant>;
}

impl<E: Endpoint<PathHandle = Tuple>> Driven for E {
    fn receive(&mut self, now: Instant, datagram: &mut Arrived) {
        Endpoint::receive(self, datagram, &timestamp(now));
    }

    fn transmit(&mut self, now: Instant, out: &mut Outbox) {
        Endpoint::transmit(self, out, &timestamp(now));
    }

    fn wake(&mut self, now: Instant) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.poll_wakeups(&mut context, &timestamp(now)).is_ready()
    }

    fn timeout(&self) -> Option<Instant> {
        // SAFETY: it is a time of the clock that `timestamp` is, and goes back to it.
        let since = Endpoint::timeout(self).map(|at| unsafe { at.as_duration() });
        since.map(|since| Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// s2n-quic's clock, in microseconds, is the engine's.
fn timestamp(now: Instant) -> Timestamp {
    // SAFETY: only a source of time may make one, and the engine is the only source here.
    unsafe { Timestamp::from_duration(Duration::from_nanos(now.as_nanos())) }
}

/// Where an endpoint is put when s2n-quic starts it.
pub type Slot = Arc<Mutex<Option<Box<dyn Driven>>>>;

/// The provider of input and output: it hands the endpoint over, and does nothing more.
pub struct Io {
    pub slot: Slot,
    pub local: SocketAddress,
    pub mtu: mtu::Config,
}

impl io::Provider for Io {
    type PathHandle = Tuple;
    type Error = Infallible;

    fn start<E: Endpoint<PathHandle = Tuple>>(
        self,
        mut endpoint: E,
    ) -> Result<SocketAddress, Infallible> {
        endpoint.set_mtu_config(self.mtu);
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(endpoint));
        Ok(self.local)
    }
}

/// A datagram that has arrived.
pub struct Arrived {
    pub header: Header<Tuple>,
    pub payload: Vec<u8>,
}

impl rx::Queue for Arrived {
    type Handle = Tuple;

    fn for_each<F: FnMut(Header<Tuple>, &mut [u8])>(&mut self, mut on_packet: F) {
        on_packet(self.header, &mut self.payload);
        self.payload.clear();
    }

    fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }
}

/// Datagrams to be sent.
pub struct Outbox {
    pub waiting: VecDeque<Batch<Vec<u8>>>,
    pub max_datagram: usize,
}

/// The most datagrams that are taken at once.
pub const AT_ONCE: usize = 8;

impl tx::Queue for Outbox {
    type Handle = Tuple;

    const SUPPORTS_ECN: bool = true;

    fn push<M: tx::Message<Handle = Tuple>>(
        &mut self,
        mut message: M,
    ) -> Result<tx::Outcome, tx::Error> {
        if self.capacity() == 0 {
            return Err(tx::Error::AtCapacity);
        }
        let mut payload = vec![0; self.max_datagram];
        let room = tx::PayloadBuffer::new(&mut payload);
        let len = message.write_payload(room, 0)?;
        payload.truncate(len);
        let size = u32::try_from(len).unwrap_or(u32::MAX);
        let ecn = match message.ecn() {
            ExplicitCongestionNotification::NotEct => Ecn::NotEct,
            ExplicitCongestionNotification::Ect0 => Ecn::Ect0,
            ExplicitCongestionNotification::Ect1 => Ecn::Ect1,
            ExplicitCongestionNotification::Ce => Ecn::Ce,
        };
        self.waiting.push_back(Batch::single(size, payload, ecn));
        let index = self.waiting.len() - 1;
        Ok(tx::Outcome { len, index })
    }

    fn capacity(&self) -> usize {
        AT_ONCE.saturating_sub(self.waiting.len())
    }
}

/// A codepoint as s2n-quic has it; where it is not known, none.
pub fn codepoint(ecn: Option<Ecn>) -> ExplicitCongestionNotification {
    match ecn {
        None | Some(Ecn::NotEct) => ExplicitCongestionNotification::NotEct,
        Some(Ecn::Ect0) => ExplicitCongestionNotification::Ect0,
        Some(Ecn::Ect1) => ExplicitCongestionNotification::Ect1,
        Some(Ecn::Ce) => ExplicitCongestionNotification::Ce,
    }
}
