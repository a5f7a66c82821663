//! Third-party controllers and transports, loaded from a shared library.
//!
//! A library defines `paceline_controller_get` of `paceline_controller.h`.
//! [`Library::open`] runs its code in this process, with all of this process's rights; its
//! behaviour cannot be checked. A [`Foreign`] controller is a
//! [`Controller`](paceline_congestion::Controller) like ours, and equally fast except for the calls
//! across the boundary. In the same way, an [`End`] is an [`Endpoint`](paceline_endpoint::Endpoint)
//! of a library that defines `paceline_stack_get` of `paceline_endpoint.h`.

mod error;
mod foreign;
mod library;
mod open;
mod spec;
mod state;
mod transport;

pub use error::PluginError;
pub use foreign::Foreign;
pub use library::Library;
pub use paceline_capi::EndConfig;
pub use spec::Spec;
pub use transport::{End, Transport};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
