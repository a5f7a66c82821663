//! Ends of real QUIC stacks as [`Endpoint`]s.
//!
//! The stacks are whole and unmodified: streams, loss recovery, flow control, timers, packets and all. Without
//! cryptography, through their own traits, tags and samples have the lengths that the wire has; their identifiers and
//! their draws come from a seed. So an engine in virtual time gets the same datagrams from the same seed. With TLS, it
//! gets datagrams of the same sizes at the same times: what TLS draws itself comes from the operating system.
//!
//! A controller of ours is paced by the end, which sends a datagram no earlier than the controller's rate allows; of the
//! stack's own controllers the stack's own pacer takes care.

mod assembly;
mod config;
mod handshake;
pub mod noq;
mod qlog;
pub mod quinn;
pub mod tls;
mod watch;

use paceline_endpoint::Endpoint;
use paceline_units::StackName;

pub use config::{Choice, EndConfig};
pub use qlog::Qlog;

/// An end of either stack, in any thread.
pub type AnyEnd = Box<dyn Endpoint<Payload = Vec<u8>> + Send>;

/// An end that has sent nothing; none of the transport that is no QUIC stack.
pub fn end(stack: StackName, config: &EndConfig) -> Option<AnyEnd> {
    match stack {
        StackName::Paceline => None,
        StackName::Quinn => Some(Box::new(quinn::End::new(config))),
        StackName::Noq => Some(Box::new(noq::End::new(config))),
    }
}

/// The stack's own controllers, by their names; none of the transport that is no QUIC stack.
pub fn controllers(stack: StackName) -> &'static [&'static str] {
    match stack {
        StackName::Paceline => &[],
        StackName::Quinn => quinn::CONTROLLERS,
        StackName::Noq => noq::CONTROLLERS,
    }
}
