//! CUBIC with HyStart, as in mainline Linux (`net/ipv4/tcp_cubic.c`).
//!
//! The [`Core`] counts in packets, microseconds and jiffies and acts on a [`Sock`]; [`Cubic`] makes
//! a [`Controller`](crate::Controller) of it. Differences from [`crate::cubic`] (RFC 9438): HyStart
//! instead of HyStart++, a floor of 5 % per round until the first loss, Reno's share without RFC
//! 9438 4.3's `alpha = 1`, the minimum RTT instead of the smoothed one in the target, whole
//! packets.

mod algorithm;
mod controller;
mod hystart;
mod parameters;
mod root;
mod sock;
#[cfg(test)]
mod tests;

pub use algorithm::Core;
pub use controller::Cubic;
pub use parameters::{Detect, Parameters};
pub use sock::{INFINITE_SSTHRESH, Sock};
