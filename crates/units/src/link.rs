//! Impairments of a link other than queueing, as plain values: a scenario writes them, a link
//! applies them.

use crate::limits::{MAX_QUEUE_BYTES, MAX_RTT_NS};
use crate::{Bytes, Duration, Gain, Rate, choice, parameters};

/// Which packets are lost on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// Each packet with this probability, independently of all others: "1 %".
    Independent(Gain),
    /// In bursts: { p = "1 %", r = "20 %" }.
    Burst(BurstLoss),
}

impl Loss {
    /// None at all.
    pub const NONE: Self = Self::Independent(Gain::from_millionths(0));
}

impl Default for Loss {
    fn default() -> Self {
        Self::NONE
    }
}

parameters! {
    /// Loss in two states (Gilbert 1960, Elliott 1963). In the long run (good r + bad p) / (p + r) of
    /// the packets are lost, and a bad state lasts 1 / r packets on average.
    pub struct BurstLoss {
        /// The probability of changing from the good state to the bad one, with each packet.
        p: Share = Gain::ONE, needs "say how likely a burst begins: { p = \"1 %\", r = \"20 %\" }";
        /// The probability of changing back.
        r: Share = Gain::ONE, needs "say how likely it ends: { p = \"1 %\", r = \"20 %\" }";
        /// The probability of loss in the good state.
        good: Share = Gain::from_millionths(0);
        /// The probability of loss in the bad state.
        bad: Share = Gain::ONE;
    }
}

parameters! {
    /// A token bucket in front of the queue: packets that find no tokens are dropped at once.
    pub struct Policer {
        /// The rate at which tokens arrive.
        rate: Rate = Rate::INFINITE, needs "say how fast tokens come: rate = \"10 Mbit/s\"";
        /// The maximum that the bucket holds; it is full at the start.
        burst: Bytes(0, MAX_QUEUE_BYTES) = Bytes::ZERO, needs "say what the bucket holds: burst = \"100 kB\"";
    }
}

parameters! {
    /// Some packets arrive late, and others overtake them.
    pub struct Reorder {
        /// The probability that a packet is late, independently of all others.
        probability: Share = Gain::from_millionths(0), needs "say how many packets: probability = \"1 %\"";
        /// How much later it arrives.
        delay: Nanos(1, MAX_RTT_NS) = Duration::ZERO, needs "say how much later they arrive: delay = \"20 ms\"";
    }
}

parameters! {
    /// The next packets are held on the way, and others overtake them.
    pub struct Hold {
        /// How many of the packets that the queue accepts.
        packets: Count(1, 4_294_967_295) = 1, needs "say how many: packets = 3";
        /// How much later they arrive, in their order.
        delay: Nanos(1, MAX_RTT_NS) = Duration::ZERO, needs "say how much later they arrive: delay = \"60 ms\"";
    }
}

choice! {
    /// Which ACKs that wait for a link an arriving one replaces, as in Linux's sch_cake.
    pub enum AckFilter {
        /// None.
        Off = "off" default,
        /// The oldest pure ACK of its connection, if it makes two redundant.
        Cake = "cake",
        /// Also a single one that it follows directly.
        CakeAggressive = "cake-aggressive",
    }
}
