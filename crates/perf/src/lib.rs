//! Bulk transfers over real QUIC on a real path: what `paceline perf` runs.
//!
//! The stack is quinn-proto with TLS 1.3, driven here over a UDP socket, so that a controller of ours is paced as it
//! asks. A server has a certificate of its own, of which its token has the fingerprint; a client that does not have the
//! token gets nothing.

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

pub use client::{Outcome, Report, Wish, client};
pub use error::{Error, Kind};
pub use server::{Limits, News, server};
pub use setup::{MOST_STREAMS, controller};
pub use token::Token;
