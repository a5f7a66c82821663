//! The end of all flows' return paths, after the links that they cross: propagation alone, in order.

use std::collections::VecDeque;

use paceline_congestion::Ecn;
use paceline_experiment::{Delays, Ways};
use paceline_recovery::Acknowledgment;
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

/// A reply on its way.
struct Arrival {
    time: Instant,
    flow: u32,
    /// Whether its receiver's timer sent it.
    timed: bool,
    reply: Reply,
}

/// The return path of all flows with the same delay.
struct Lane {
    delay: Duration,
    last_arrival: Instant,
    queue: VecDeque<Arrival>,
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
            last_arrival: Instant::ZERO,
            queue: VecDeque::new(),
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
        let replies = self.lanes.iter().map(|lane| lane.queue.capacity());
        replies.sum::<usize>() * size_of::<Arrival>()
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
        lane.queue.push_back(Arrival {
            time: now,
            flow,
            timed: false,
            reply,
        });
        let Arrival { time, reply, .. } = lane.queue.back_mut()?;
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
        *time = lane.last_arrival;
        (lane.queue.len() == 1).then_some(lane.last_arrival)
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
        let place = lane
            .queue
            .iter()
            .rposition(before)
            .map_or(0, |last| last + 1);
        let arrival = Arrival {
            time,
            flow,
            timed: true,
            reply,
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

    /// The next reply to arrive on a lane, and its flow. It is large: the caller reads it in place,
    /// and then removes it with [`Self::arrived`].
    #[inline]
    pub fn head(&self, number: usize) -> Option<(u32, &Reply)> {
        let first = self.lanes[number].queue.front()?;
        Some((first.flow, &first.reply))
    }

    /// Removes the arrived reply at the head of a lane. Returns when the next one arrives.
    #[inline]
    pub fn arrived(&mut self, number: usize) -> Instant {
        let queue = &mut self.lanes[number].queue;
        queue.pop_front();
        queue.front().map_or(Instant::MAX, |first| first.time)
    }
}
