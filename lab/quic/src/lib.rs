//! Ends of real QUIC stacks as [`Endpoint`]s.
//!
//! The stacks are complete and unmodified: streams, loss recovery, flow control, timers, packets.
//! Without cryptography (through the stacks' own traits), tags and samples have their real lengths
//! on the wire, and identifiers and random draws come from a seed, so an engine in virtual time
//! gets the same datagrams from the same seed. With TLS, it gets datagrams of the same sizes at the
//! same times: only TLS's own random draws come from the operating system.
//!
//! The end paces a controller of ours: it sends a datagram no earlier than the controller's rate
//! allows. The stack's own pacer paces the stack's own controllers.

mod assembly;
mod certificate;
mod config;
mod handshake;
pub mod noq;
mod null;
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

/// An end that has sent nothing; none if the transport is not a QUIC stack.
pub fn end(stack: StackName, config: &EndConfig) -> Option<AnyEnd> {
    match stack {
        StackName::Paceline | StackName::Guest => None,
        StackName::Quinn => Some(Box::new(quinn::End::new(config))),
        StackName::Noq => Some(Box::new(noq::End::new(config))),
    }
}

/// The release of a stack; none of the transport that is no QUIC stack.
pub fn version(stack: StackName) -> Option<&'static str> {
    match stack {
        StackName::Paceline | StackName::Guest => None,
        StackName::Quinn => Some("quinn-proto 0.11.19"),
        StackName::Noq => Some("noq-proto 1.4.0"),
    }
}

/// The stack's own controllers, by their names; none of the transport that is no QUIC stack.
pub fn controllers(stack: StackName) -> &'static [&'static str] {
    match stack {
        StackName::Paceline | StackName::Guest => &[],
        StackName::Quinn => quinn::CONTROLLERS,
        StackName::Noq => noq::CONTROLLERS,
    }
}

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        for stack in [StackName::Quinn, StackName::Noq] {
            let (name, version) = version(stack).unwrap().split_once(' ').unwrap();
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"");
            assert!(lock.contains(&entry), "{entry}");
        }
    }
}
