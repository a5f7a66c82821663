//! The end of all flows' return paths, after the links that they cross: propagation alone, in order.

use std::collections::VecDeque;

use paceline_congestion::Ecn;
use paceline_experiment::{Delays, Ways};
use paceline_recovery::{Acknowledgment, PlainAck, SackBlocks};
use paceline_units::{Duration, Instant};

use crate::host::Host;

/// A message back to a sender.
#[derive(Clone, Copy)]
pub(crate) enum Reply {
    SynAck,
    Ack(Acknowledgment),
    /// A datagram of another transport's receiving end, by its number.
    Datagram {
        number: u64,
        size: u32,
        ecn: Ecn,
    },
}

impl Reply {
    pub fn ack(&mut self) -> Option<&mut Acknowledgment> {
        match self {
            Self::SynAck | Self::Datagram { .. } => None,
            Self::Ack(ack) => Some(ack),
        }
    }

    /// Its bytes on the wire with this header. SACK blocks have eight bytes each, and four before
    /// them (RFC 2018 section 3 and RFC 7323 appendix A).
    pub fn size(&self, header: u32) -> u32 {
        let load = match self {
            Self::SynAck => 0,
            Self::Ack(ack) => match ack.blocks.len() as u32 {
                0 => 0,
                blocks => 4 + 8 * blocks,
            },
            Self::Datagram { size, .. } => *size,
        };
        header.saturating_add(load)
    }

    /// The codepoint with which it leaves. Acknowledgments of TCP have none (RFC 3168 section 6.1.4).
    pub fn ecn(&self) -> Ecn {
        match self {
            Self::SynAck | Self::Ack(_) => Ecn::NotEct,
            Self::Datagram { ecn, .. } => *ecn,
        }
    }
}

/// A reply that arrives.
pub(crate) enum Head<'l> {
    Plain(PlainAck),
    Other(&'l Reply),
}

/// A reply on its way, in a line of the cache.
struct Arrival {
    time: Instant,
    flow: u32,
    /// Whether its receiver's timer sent it.
    timed: bool,
    /// None if it is the next of [`Lane::others`], which is read in place.
    short: Option<Short>,
}

/// A plain acknowledgment whose numbers are small enough.
#[derive(Clone, Copy)]
struct Short {
    ack: u64,
    ts_echo: Instant,
    window: u64,
    /// How long it is on its way, and [`Acknowledgment::delay`], in nanoseconds.
    took: u32,
    delay: u32,
    ce_packets: u32,
    ce_bytes: u32,
    ece: bool,
    delayed: bool,
}

const _: () = assert!(size_of::<Arrival>() == 64);

impl Short {
    /// An acknowledgment that arrives at `time`.
    #[inline(always)]
    fn of(time: Instant, ack: &PlainAck) -> Option<Self> {
        let (took, delay) = (time.since(ack.sent).as_nanos(), ack.delay.as_nanos());
        let most = took | delay | ack.ce_packets | ack.ce_bytes;
        let fits = most <= u64::from(u32::MAX) && ack.stack == Duration::ZERO && ack.sent <= time;
        fits.then_some(Self {
            ack: ack.ack,
            ts_echo: ack.ts_echo,
            window: ack.window,
            took: took as u32,
            delay: delay as u32,
            ce_packets: ack.ce_packets as u32,
            ce_bytes: ack.ce_bytes as u32,
            ece: ack.ece,
            delayed: ack.delayed,
        })
    }

    #[inline(always)]
    fn long(&self, time: Instant) -> PlainAck {
        PlainAck {
            ack: self.ack,
            blocks: (),
            ts_echo: self.ts_echo,
            sent: time - Duration::from_nanos(self.took.into()),
            ece: self.ece,
            ce_packets: self.ce_packets.into(),
            ce_bytes: self.ce_bytes.into(),
            window: self.window,
            delay: Duration::from_nanos(self.delay.into()),
            delayed: self.delayed,
            stack: Duration::ZERO,
        }
    }
}

/// The return path of all flows with the same delay.
#[derive(Default)]
struct Lane {
    delay: Duration,
    last_arrival: Instant,
    queue: VecDeque<Arrival>,
    /// The replies of the queue that are not short.
    others: VecDeque<Reply>,
}

/// All of them, by number.
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    ways: Ways,
}

impl Lanes {
    pub fn new(ways: Ways, rtt: Duration) -> Self {
        let lane = |delay| Lane {
            delay,
            ..Lane::default()
        };
        let delays = ways.delays(rtt).lanes;
        Self {
            lanes: delays.into_iter().map(lane).collect(),
            ways,
        }
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Memory of the replies on their way, in bytes.
    pub fn memory(&self) -> usize {
        let memory = |lane: &Lane| {
            lane.queue.capacity() * size_of::<Arrival>()
                + lane.others.capacity() * size_of::<Reply>()
        };
        self.lanes.iter().map(memory).sum()
    }

    /// The path's RTT changes. Returns all delays.
    pub fn set_rtt(&mut self, rtt: Duration) -> Delays {
        let delays = self.ways.delays(rtt);
        for (lane, delay) in self.lanes.iter_mut().zip(&delays.lanes) {
            lane.delay = *delay;
        }
        delays
    }

    /// A reply begins its lane, from its receiver or from the links that it `crossed`. Returns the
    /// arrival of the lane's next reply if it is this one.
    // Always inlined: a call would copy the reply once more.
    #[inline(always)]
    pub fn send(
        &mut self,
        now: Instant,
        number: usize,
        flow: u32,
        host: Option<&mut Host>,
        reply: Reply,
        crossed: bool,
    ) -> Option<Instant> {
        let lane = &mut self.lanes[number];
        // It is copied once, and the hosts write into it in the queue.
        lane.others.push_back(reply);
        let reply = lane.others.back_mut()?;
        lane.last_arrival = match host {
            Some(host) => {
                // The receiver's host held it before the links.
                let release = match crossed {
                    true => now,
                    false => host.hold(now, reply.ack()),
                };
                host.hand_up(release + lane.delay, lane.last_arrival, reply.ack())
            }
            None => lane.last_arrival.max(now + lane.delay),
        };
        lane.queue.push_back(Arrival {
            time: lane.last_arrival,
            flow,
            timed: false,
            short: None,
        });
        (lane.queue.len() == 1).then_some(lane.last_arrival)
    }

    /// The same for a plain acknowledgment, without hosts.
    #[inline(always)]
    pub fn send_plain(
        &mut self,
        now: Instant,
        number: usize,
        flow: u32,
        ack: &PlainAck,
    ) -> Option<Instant> {
        let lane = &mut self.lanes[number];
        let time = lane.last_arrival.max(now + lane.delay);
        let Some(short) = Short::of(time, ack) else {
            let reply = Reply::Ack(ack.with(SackBlocks::default()));
            return self.send(now, number, flow, None, reply, false);
        };
        lane.last_arrival = time;
        lane.queue.push_back(Arrival {
            time,
            flow,
            timed: false,
            short: Some(short),
        });
        (lane.queue.len() == 1).then_some(time)
    }

    /// The same for a reply by the timer of a receiver that runs ahead of the time. Replies that
    /// begin their lane later may be there already; of those that begin it now, timers' are the
    /// last, in the order of the flows.
    pub fn insert(
        &mut self,
        now: Instant,
        number: usize,
        flow: u32,
        reply: Reply,
    ) -> Option<Instant> {
        let lane = &mut self.lanes[number];
        let time = now + lane.delay;
        let before = |there: &Arrival| (there.time, there.timed, there.flow) <= (time, true, flow);
        let place = (lane.queue.iter().rposition(before)).map_or(0, |last| last + 1);
        let after = lane
            .queue
            .range(place..)
            .filter(|there| there.short.is_none());
        let among = lane.others.len() - after.count();
        lane.others.insert(among, reply);
        let arrival = Arrival {
            time,
            flow,
            timed: true,
            short: None,
        };
        lane.queue.insert(place, arrival);
        lane.last_arrival = lane.last_arrival.max(time);
        (place == 0).then_some(time)
    }

    /// Whether a reply that begins a lane now has arrived.
    pub fn arrives_at_once(&self, now: Instant, number: usize) -> bool {
        let lane = &self.lanes[number];
        lane.delay == Duration::ZERO && lane.queue.is_empty() && lane.last_arrival <= now
    }

    /// The next reply to arrive on a lane, and its flow. The caller reads it, and then removes it
    /// with [`Self::arrived`].
    #[inline(always)]
    pub fn head(&self, number: usize) -> Option<(u32, Head<'_>)> {
        let lane = &self.lanes[number];
        let first = lane.queue.front()?;
        let head = match &first.short {
            Some(short) => Head::Plain(short.long(first.time)),
            None => Head::Other(lane.others.front()?),
        };
        Some((first.flow, head))
    }

    /// Removes the arrived reply at the head of a lane. Returns when the next one arrives.
    #[inline(always)]
    pub fn arrived(&mut self, number: usize) -> Instant {
        let lane = &mut self.lanes[number];
        let first = lane.queue.pop_front();
        if first.is_some_and(|first| first.short.is_none()) {
            lane.others.pop_front();
        }
        (lane.queue.front()).map_or(Instant::MAX, |first| first.time)
    }
}
