//! The network's effect on a packet.
//!
//! A [`Link`] serves a queue at a fixed rate or along a recorded [`CapacityTrace`]. The queue is
//! drop-tail, or marks or drops early ([`Aqm`]). The link delays the packets it has served, and may
//! police, lose, hold, reorder, duplicate or batch some of them, and take away ACKs that others repeat. Virtual and real time ask it the
//! same two questions: *enqueue at t* and *next arrival?* Every packet is accounted for (see
//! [`Counters`]).

mod ack_filter;
mod impair;
mod link;
mod packet;
mod queue;
mod service;
mod trace;

pub use ack_filter::Header;
pub use impair::LossState;
pub use link::{Link, LinkConfig};
pub use packet::{Backlog, Counters, DropCause, Packet, QueueLimit, Tally, Verdict};
pub use queue::{Aqm, Codel, DualPi2, EARLY_SIGNALS, FqCodel, Pie, QUEUES, Red, StepMark};
pub use service::Service;
pub use trace::{CapacityTrace, TraceError};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
