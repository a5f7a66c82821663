//! Linux's algorithms, digit for digit: BBR, as [`bbr1`] (mainline), [`bbr2`] (the alpha) and
//! [`bbr3`] (google/bbr, branch v3), and [`cubic`]. [`reno`] is no port: it is RFC 5681's
//! Reno with Linux's settings.
//!
//! Each BBR is a core ([`Algorithm`]) in Linux's own units (packets, microseconds, and packets per
//! microsecond shifted left by 24), driven by the events of Linux's congestion-control interface
//! and acting on a [`Socket`]. Golden traces of the kernel's code hold every field after every
//! event. An [`Adapter`] turns a core into a [`Controller`](crate::Controller).
//!
//! v2 and v3 share one algorithm, [`bbr23`]; differences are marked there.
//!
//! Arithmetic follows C's: 32-bit values wrap or truncate where Linux's do,
//! because a trace sees the difference.

mod adapter;
mod aggregation;
mod arithmetic;
pub mod bbr1;
pub mod bbr2;
pub mod bbr23;
pub mod bbr3;
pub mod cubic;
mod minmax;
mod policer;
pub mod reno;
mod socket;
#[cfg(test)]
mod tests;

pub use adapter::Adapter;
pub use socket::{Algorithm, Field, LostPacket, Random, RateSample, Socket};
