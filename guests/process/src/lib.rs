//! Guests in processes of their own.
//!
//! [`Remote`] is the end that an engine drives: it starts an executable, and exchanges with it one message a step over a
//! socket. The executable calls [`serve`] with what makes an
//! end, and [`seams!`], by which its clock is the engine's and its
//! random bytes follow from the seed. What the process does to itself (a crash, an endless loop, memory without bound)
//! is the failure of that end.

pub mod qlog;
mod remote;
pub mod seams;
mod serve;
mod wire;

#[doc(hidden)]
pub use libc;
pub use paceline_capi as capi;
pub use remote::{Guest, Remote};
pub use serve::{identity, serve};
