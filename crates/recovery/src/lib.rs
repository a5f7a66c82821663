//! Sans-IO loss recovery: what was delivered, what was lost.
//!
//! A TCP-like [`Sender`] and [`Receiver`] without sockets and without a clock: segments,
//! acknowledgments and times go in and out as values. Unless another [`Recovery`] is chosen, the
//! sender detects losses by RACK-TLP (RFC 8985) and reduces its window by PRR (RFC 9937) where the
//! controller leaves that to it. Its timeouts follow RFC 6298. It undoes episodes that DSACK (RFC
//! 2883), timestamps (RFC 3522) or F-RTO (RFC 5682) show to be spurious. An [`Application`] decides
//! how much data to send.
//!
//! After every event (a write, an acknowledgment, a timer) call
//! [`Sender::poll_transmit`] until it returns none, then look at
//! [`Sender::next_timer`].
//!
//! Differences from a kernel's TCP: sequence numbers have 64 bits, there is no handshake and no
//! reset, segments are never split or merged, and there is no persist timer: a receiver whose
//! window closes must send a window update when it opens, and the transport must not lose it.

mod application;
pub mod capture;
mod codec;
mod config;
mod ecn;
mod endpoint;
pub mod ets;
mod frto;
mod newreno;
mod pacer;
mod prr;
mod push;
mod rack;
mod ranges;
mod receive_window;
mod receiver;
mod rtt;
mod sack;
mod scoreboard;
mod sender;
mod stats;
mod tlp;
mod undo;
mod usage;
mod wire;

#[cfg(test)]
mod tests;

pub use application::Application;
pub use config::SenderConfig;
pub use endpoint::{Message, ReceiverEnd};
pub use paceline_endpoint::{Amount, Write};
pub use paceline_units::{App, EcnFeedback, Recovery};
pub use pacer::Pacer;
pub use receiver::{Receiver, ReceiverConfig};
pub use sender::{Burst, Sender};
pub use stats::SenderStats;
pub use wire::{Acknowledgment, Block, PlainAck, SackBlocks, Segment};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
