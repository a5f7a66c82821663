//! Bulk transfers over real QUIC on a real path: the engine of `paceline perf`.
//!
//! The stack is quinn-proto with TLS 1.3, driven here over a UDP socket, so that our controllers
//! are paced at the rate they ask for. A server has its own certificate, and its token contains the
//! certificate's fingerprint; a client without the token gets nothing.

mod client;
mod control;
mod error;
mod link;
mod message;
mod meter;
mod record;
mod server;
mod setup;
mod token;
mod transfer;
mod wire;

pub use client::{ClientOptions, Outcome, Report, client};
pub use error::{Error, Kind};
pub use server::{Limits, News, server};
pub use setup::{MOST_STREAMS, controller};
pub use token::Token;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
