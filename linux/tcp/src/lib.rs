//! What the engines of Linux's TCP share: the settings requested of the kernel, its netlink messages,
//! the packets on its devices, the state that it reports, and the record made of all that.

#[cfg(target_os = "linux")]
pub mod netlink;
pub mod packet;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
pub mod settings;
#[cfg(target_os = "linux")]
mod state;

#[cfg(target_os = "linux")]
pub use record::{Flow, Observations, record};
#[cfg(target_os = "linux")]
pub use state::{Bbr, Counts, Own, Rows, Sample, decode, mss};

/// The example of the README.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
