//! Flows of other transports: two ends that are [`Endpoint`]s, whatever data they exchange.
//!
//! Payloads stay here. The links carry only a datagram's number, size and codepoint.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use paceline_endpoint::{Datagram, Ecn, Endpoint, Stats, Write};
use paceline_experiment::Choice;
use paceline_units::Instant;

use crate::carried::Carried;

/// The parameters of a flow whose ends are to be made.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// Its number.
    pub flow: u32,
    /// The seed of its own random draws.
    pub seed: u64,
    /// The time at which it starts.
    pub now: Instant,
    /// The maximum UDP payload of a packet, in bytes.
    pub max_datagram: u32,
    /// The controller that the scenario names; a transport with one of its own ignores it.
    pub controller: &'a Choice,
}

/// Creates the two ends of flows.
#[derive(Clone)]
pub struct Stack {
    make: Arc<Make>,
    /// Whether a datagram may arrive twice.
    copies: bool,
}

type Make = dyn Fn(&Setup<'_>, bool) -> Box<dyn Ends> + Send + Sync;

impl Stack {
    /// `make` returns the sending end and the receiving one.
    pub fn new<A, B>(make: impl Fn(&Setup<'_>) -> (A, B) + Send + Sync + 'static) -> Self
    where
        A: Endpoint<Payload: Send> + Send + 'static,
        B: Endpoint<Payload = A::Payload> + Send + 'static,
    {
        let make = move |setup: &Setup<'_>, copies| -> Box<dyn Ends> {
            let (sender, receiver) = make(setup);
            Box::new(Pair {
                sender: End::new(sender, copies),
                receiver: End::new(receiver, copies),
            })
        };
        Self {
            make: Arc::new(make),
            copies: false,
        }
    }

    /// The same over a path that copies packets, or does not.
    pub(crate) fn over(self, copies: bool) -> Self {
        Self { copies, ..self }
    }

    pub(crate) fn make(&self, setup: &Setup<'_>) -> Box<dyn Ends> {
        (self.make)(setup, self.copies)
    }
}

/// Which groups of a scenario's flows run which stack, by their index in the file; all others are
/// our own.
#[derive(Clone, Default)]
pub struct Stacks(pub(crate) BTreeMap<usize, Stack>);

impl Stacks {
    /// None: every flow is our own.
    pub fn none() -> Self {
        Self::default()
    }

    /// The flows of `[[flows]]` number `group`, counted from 0, run `stack`.
    #[must_use]
    pub fn with(mut self, group: usize, stack: Stack) -> Self {
        self.0.insert(group, stack);
        self
    }
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}

/// A datagram sent by an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub number: u64,
    pub size: u32,
    pub ecn: Ecn,
}

/// What is wrong with an end.
pub(crate) type Defect = Cow<'static, str>;

/// Both ends of a flow, without their types.
pub(crate) trait Ends: Send {
    /// Datagram `number` of the other side has arrived.
    fn receive(&mut self, now: Instant, side: Side, number: u64, size: u32, ecn: Ecn);
    /// Datagram `number` of a side will not arrive.
    fn gone(&mut self, side: Side, number: u64);
    /// The side's timeout may be due.
    fn on_timer(&mut self, now: Instant, side: Side) -> Result<(), Defect>;
    /// The next datagram that a side can send now.
    fn transmit(&mut self, now: Instant, side: Side) -> Result<Option<Outgoing>, Defect>;
    /// When a side wants to be called next after a step at `now`; [`Instant::MAX`] if never.
    fn next_timer(&mut self, now: Instant, side: Side) -> Result<Instant, Defect>;
    fn write(&mut self, now: Instant, write: Write);
    /// Bytes delivered by the receiving end.
    fn delivered(&self) -> u64;
    fn stats(&self) -> Stats;
    /// The state of the sending end's controller.
    fn phase(&self) -> &'static str;
    /// Memory of its datagrams on their way, in bytes, estimated from their sizes.
    fn memory(&self) -> usize;
}

struct Pair<A: Endpoint, B: Endpoint> {
    sender: End<A>,
    receiver: End<B>,
}

/// An end and the datagrams it has sent.
struct End<E: Endpoint> {
    endpoint: E,
    /// The rest of the last batch.
    pending: VecDeque<Datagram<E::Payload>>,
    way: Carried<E::Payload>,
    /// The time of the last call, and the number of calls at that time.
    at: Instant,
    calls: u32,
}

impl<E: Endpoint> End<E> {
    /// The number of calls at one instant beyond which an end must be defective.
    const MOST_AT_ONCE: u32 = 1_000_000;

    fn new(endpoint: E, copies: bool) -> Self {
        Self {
            endpoint,
            pending: VecDeque::new(),
            way: Carried::new(copies),
            at: Instant::ZERO,
            calls: 0,
        }
    }

    fn count(&mut self, now: Instant, defect: &'static str) -> Result<(), Defect> {
        if now > self.at {
            (self.at, self.calls) = (now, 0);
        }
        self.calls += 1;
        if self.calls > Self::MOST_AT_ONCE {
            return Err(defect.into());
        }
        Ok(())
    }

    fn on_timer(&mut self, now: Instant) -> Result<(), Defect> {
        self.count(now, "it asks to be woken without end at one instant")?;
        self.endpoint.on_timer(now);
        Ok(())
    }

    fn transmit(&mut self, now: Instant) -> Result<Option<Outgoing>, Defect> {
        if self.pending.is_empty() {
            let Some(batch) = self.endpoint.poll_transmit(now) else {
                return Ok(None);
            };
            if batch.size > 0 && batch.segment_size == 0 {
                return Err("a batch of its has segments without size".into());
            }
            self.pending.extend(batch.datagrams());
        }
        self.count(now, "it sends without end at one instant")?;
        Ok(self.pending.pop_front().map(|datagram| Outgoing {
            number: self.way.put(datagram.size, datagram.payload),
            size: datagram.size,
            ecn: datagram.ecn.unwrap_or_default(),
        }))
    }

    fn next_timer(&mut self, now: Instant) -> Result<Instant, Defect> {
        let timer = self.endpoint.next_timer();
        if let Some(failure) = self.endpoint.failure() {
            return Err(failure.into());
        }
        match timer {
            None => Ok(Instant::MAX),
            Some(timer) if timer < now => Err("it asks for a time-out that is past".into()),
            Some(timer) => Ok(timer),
        }
    }
}

/// Calls the same method of the given side.
macro_rules! at {
    ($pair:expr, $side:expr, $end:ident => $what:expr) => {
        match $side {
            Side::Sender => {
                let $end = &mut $pair.sender;
                $what
            }
            Side::Receiver => {
                let $end = &mut $pair.receiver;
                $what
            }
        }
    };
}

impl<A, B> Ends for Pair<A, B>
where
    A: Endpoint<Payload: Send> + Send,
    B: Endpoint<Payload = A::Payload> + Send,
{
    fn receive(&mut self, now: Instant, side: Side, number: u64, size: u32, ecn: Ecn) {
        let payload = at!(self, side.other(), end => end.way.arrive(number));
        if let Some(payload) = payload {
            let datagram = Datagram {
                payload,
                size,
                ecn: Some(ecn),
            };
            at!(self, side, end => end.endpoint.receive(now, datagram));
        }
    }

    fn gone(&mut self, side: Side, number: u64) {
        at!(self, side, end => drop(end.way.leave(number)));
    }

    fn on_timer(&mut self, now: Instant, side: Side) -> Result<(), Defect> {
        at!(self, side, end => end.on_timer(now))
    }

    fn transmit(&mut self, now: Instant, side: Side) -> Result<Option<Outgoing>, Defect> {
        at!(self, side, end => end.transmit(now))
    }

    fn next_timer(&mut self, now: Instant, side: Side) -> Result<Instant, Defect> {
        at!(self, side, end => end.next_timer(now))
    }

    fn write(&mut self, now: Instant, write: Write) {
        self.sender.endpoint.write(now, write);
    }

    fn delivered(&self) -> u64 {
        self.receiver.endpoint.delivered()
    }

    fn stats(&self) -> Stats {
        self.sender.endpoint.stats()
    }

    fn phase(&self) -> &'static str {
        self.sender.endpoint.phase()
    }

    fn memory(&self) -> usize {
        self.sender.way.bytes() + self.receiver.way.bytes()
    }
}
