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
mod netlink;
mod network;
mod packet;
mod place;
mod process;
mod programs;
mod record;
mod recovery;
mod run;
mod sample;
mod sockets;
mod sys;
mod tun;

/// Shared by the engines that run a kernel's TCP: the settings requested of the kernel, and the
/// state it reports.
#[doc(hidden)]
pub mod linux {
    pub use crate::kernel::{BBR3, check_tcp, derived, is_bbr, metrics, name, stack};
    pub use crate::message::{Flow, Outcome, Sample};
    pub use crate::namespace::{counter, settings};
    pub use crate::netlink::{LOOPBACK, Request, RouteMetrics, attribute, link_header};
    pub use crate::packet::{Kind, RECEIVERS, SENDER, classify, is_marked, receiver};
    pub use crate::record::run as record;
    pub use crate::sample::{Rows, decode};
}

pub use doctor::doctor;
pub use kernel::controllers;
pub use programs::Programs;
pub use recovery::record as record_recovery;
pub use run::{Emulator, shell};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
