//! A scenario in virtual time with a real kernel.
//!
//! QEMU runs a Linux kernel without hardware virtualisation, its clock driven by the number of
//! executed instructions. The kernel's TCP sends through the kernel's own queues, and the same
//! scenario with the same seed gives the same record, whatever else the machine does. See
//! `docs/concepts/virtual-time.md`.

#![cfg(target_os = "linux")]

mod bbr3;
mod check;
mod doctor;
mod image;
mod losses;
mod machine;
mod network;
mod read;
mod run;
mod script;
// The guest uses the other half of it.
#[allow(dead_code)]
mod wire;

pub use doctor::doctor;
pub use image::{Image, Prepare, images, prepare, remove};
pub use run::{Traced, Vm, trace};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
