//! A scenario in real time.
//!
//! Real sockets, with the kernel's own TCP or a QUIC stack, through the links of [`paceline_path`]
//! run in real time between two TUN devices. All of it runs in one child process, in network
//! namespaces that only its descriptors hold: when it ends, however it ends, nothing remains.

#![cfg(target_os = "linux")]

mod busy;
mod child;
mod clock;
mod conversation;
mod diag;
mod doctor;
mod ends;
mod fidelity;
mod gate;
mod histogram;
mod host;
mod kernel;
mod log;
mod message;
mod namespace;
mod network;
mod place;
mod process;
mod programs;
mod record;
mod recovery;
mod run;
mod sockets;
mod sys;
mod tun;

pub use doctor::doctor;
pub use kernel::controllers;
pub use programs::Programs;
pub use recovery::record as record_recovery;
pub use run::{Emulator, shell};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
