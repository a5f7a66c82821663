//! Congestion controllers as pure decision logic.
//!
//! Two things, not one: [`Delivery`] is the delivery-rate sampler of
//! draft-ietf-ccwg-bbr-06 section 4.1 (its `C.`, `P.` and `RS.` state), and a
//! [`Controller`] is the algorithm that decides from its samples. The transport
//! keeps a small `Copy` token ([`PacketState`]) with each packet and hands it
//! back, so nothing here grows with what is in flight.
//!
//! No clock, no I/O, no allocation after construction, no floating point in
//! the controllers, no randomness but that of a seeded [`Rng`] handed over at
//! construction: the same events give the same decisions everywhere.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod bbr3;
mod controller;
pub mod cubic;
pub mod dctcp;
mod delivery;
mod hystart;
pub mod ledbat;
pub mod linux;
pub mod options;
pub mod prague;
mod registry;
pub mod reno;
pub mod swift;
mod window;

pub use controller::{Ack, CaState, Config, Controller, Ecn, Loss, RecoveryWindow, Sent};
pub use delivery::{Delivery, PacketState, RateSample};
pub use paceline_units::{Rng, Value};
pub use registry::{AnyController, BuildError, ControllerSpec, Recipe, build, controllers, recipe};
pub use window::window_rate;
