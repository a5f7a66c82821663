//! Congestion controllers as pure decision logic.
//!
//! There are two separate parts: [`Delivery`] is the delivery-rate sampler of
//! draft-ietf-ccwg-bbr-06 section 4.1 (its `C.`, `P.` and `RS.` state), and a [`Controller`] is the
//! algorithm that decides from its samples. The transport keeps a small `Copy` token
//! ([`PacketState`]) with each packet and hands it back, so nothing here grows with the data in
//! flight.
//!
//! [`contract`] describes how a transport and a controller work together.
//!
//! No clock, no I/O, no allocation after construction, no floating point in the controllers, and no
//! randomness except that of a seeded [`Rng`] passed at construction: the same events give the same
//! decisions everywhere.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod bbr3;
#[doc = include_str!("../CONTRACT.md")]
pub mod contract {}
mod controller;
pub mod cubic;
pub mod dctcp;
mod delivery;
mod hystart;
pub mod ledbat;
pub mod linux;
pub mod prague;
mod registry;
pub mod reno;
mod signals;
mod slowdown;
mod state;
pub mod swift;
mod window;

pub use controller::{
    Ack, CaState, Config, Controller, Cue, Described, Lost, Outputs, RecoveryWindow, Sent,
    idle_restarts,
};
pub use delivery::{Delivery, PacketState, RateSample};
pub use paceline_units::{Ecn, Field, Quantity, Rng, Value, Visitor, options};
pub use registry::{
    AnyController, BuildError, ControllerSpec, NoGuest, Recipe, build, controllers, recipe,
};
pub use signals::{Signals, Unmet};
pub use window::window_rate;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
