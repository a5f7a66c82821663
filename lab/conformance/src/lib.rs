//! Replays golden traces of Linux's BBR, CUBIC, Reno and DCTCP: feeds the same events into
//! Paceline's `bbr1`, `bbr2`, `bbr3-linux`, `cubic-linux`, `reno-linux` and `dctcp`, and compares
//! every field of the state after every event.
//!
//! [`read_trace`] reads one, [`replay`] replays it, [`replay_dir`] does so for a folder with `v1`,
//! `v2`, `v3`, `cubic`, `reno` or `dctcp` in it, and a [`Case`] is the outcome as a row. For a trace
//! that fails, a [`Mismatch`] says where, field by field, and which inputs led there.

mod folder;
mod input;
mod pairs;
pub mod recovery;
mod replay;
pub mod shadow;
mod subject;
mod trace;

pub use folder::{Case, Failure, Replay, replay_dir, trace_id, traces};
pub use input::{AckSocket, CubicInput, Input, WindowInput};
pub use replay::{Mismatch, Replayed, Version, replay};
pub use subject::Difference;
pub use trace::{Draw, Event, State, Trace, TraceError, read_trace};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
