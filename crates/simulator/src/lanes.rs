//! The return paths of all flows: uncongested, in order.

use std::collections::VecDeque;

use paceline_congestion::Ecn;
use paceline_experiment::Ways;
use paceline_path::next_slot;
use paceline_recovery::Acknowledgment;
use paceline_units::{Duration, Instant};

use crate::host::Host;

/// What comes back to a sender.
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
    fn ack(&mut self) -> Option<&mut Acknowledgment> {
        match self {
            Self::SynAck | Self::Datagram { .. } => None,
            Self::Ack(ack) => Some(ack),
        }
    }
}

/// A reply on its way: when it arrives, and at which flow.
pub(crate) type Arrival = (Instant, u32, Reply);

/// The return path of all flows with the same delay.
struct Lane {
    delay: Duration,
    last_arrival: Instant,
    queue: VecDeque<Arrival>,
}

/// All of them, by number.
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// Replies set out at multiples of this.
    pub slot: Duration,
    ways: Ways,
}

impl Lanes {
    pub fn new(ways: Ways, rtt: Duration, slot: Duration) -> Self {
        let lane = |delay| Lane {
            delay,
            last_arrival: Instant::ZERO,
            queue: VecDeque::new(),
        };
        let delays = ways.delays(rtt).lanes;
        Self {
            lanes: delays.into_iter().map(lane).collect(),
            slot,
            ways,
        }
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// What the replies on their way take in memory, in bytes.
    pub fn memory(&self) -> usize {
        let replies = self.lanes.iter().map(|lane| lane.queue.capacity());
        replies.sum::<usize>() * size_of::<Arrival>()
    }

    /// The path's RTT becomes another; the delay that its own link has then.
    pub fn set_rtt(&mut self, rtt: Duration) -> Duration {
        let delays = self.ways.delays(rtt);
        for (lane, delay) in self.lanes.iter_mut().zip(delays.lanes) {
            lane.delay = delay;
        }
        delays.link
    }

    /// A flow's receiver replies; when the lane's next reply arrives if that is this one.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        number: usize,
        flow: u32,
        mut host: Option<&mut Host>,
        mut reply: Reply,
    ) -> Option<Instant> {
        let lane = &mut self.lanes[number];
        let release = match &mut host {
            Some(host) => host.hold(now, reply.ack()),
            None => now,
        };
        let nic = next_slot(release, self.slot) + lane.delay;
        lane.last_arrival = match &mut host {
            Some(host) => host.hand_up(nic, lane.last_arrival, reply.ack()),
            None => lane.last_arrival.max(nic),
        };
        lane.queue.push_back((lane.last_arrival, flow, reply));
        (lane.queue.len() == 1).then_some(lane.last_arrival)
    }

    /// What arrives next by a lane, and at which flow. It is large: who takes it reads it where it is, and then
    /// lets it go by [`Self::arrived`].
    #[inline]
    pub fn head(&self, number: usize) -> Option<(u32, &Reply)> {
        let (_, flow, reply) = self.lanes[number].queue.front()?;
        Some((*flow, reply))
    }

    /// What was at the head of a lane has arrived; when the next one does.
    #[inline]
    pub fn arrived(&mut self, number: usize) -> Instant {
        let queue = &mut self.lanes[number].queue;
        queue.pop_front();
        queue.front().map_or(Instant::MAX, |entry| entry.0)
    }
}
