//! What the network does to a packet.
//!
//! A [`Link`] serves a queue at a fixed rate or along a recorded [`CapacityTrace`]: drop-tail, or
//! one that marks or drops early ([`Aqm`]). It delays what it has served, and may police, lose,
//! hold, reorder, duplicate or bundle some of it.
//! Virtual and real time ask it the same two questions: *enqueue at t* and
//! *next arrival?* Every packet is accounted for (see [`Counters`]).

mod aqm;
mod counters;
mod impair;
mod link;
mod loss;
mod service;
mod trace;

pub use aqm::{Aqm, Codel, DualPi2, FqCodel, Pie, Red, Threshold};
pub use counters::{Counters, Tally};
pub use impair::{Policing, next_slot};
pub use link::{Backlog, DropCause, Link, LinkConfig, Packet, QueueLimit, Verdict};
pub use loss::{Burst, Loss};
pub use service::Service;
pub use trace::{CapacityTrace, TraceError};
