//! Replays golden traces of Linux's BBR and CUBIC: the same events into
//! Paceline's `bbr1`, `bbr2`, `bbr3-linux` and `cubic-linux`, and every field of
//! the state compared after every event.
//!
//! [`read_trace`] reads one, [`replay`] replays it, [`replay_dir`] does so for a
//! folder with `v1`, `v2`, `v3` or `cubic` in it, and [`cases`] gives the outcome as
//! rows. A trace that does not hold says where, field by field, and which
//! inputs led there ([`Mismatch`]).

mod cubic;
mod folder;
mod replay;
mod trace;

pub use cubic::CubicInput;
pub use folder::{Case, Failure, Replay, cases, replay_dir};
pub use replay::{Difference, Mismatch, Replayed, Version, replay};
pub use trace::{AckSocket, Draw, Event, Input, State, Trace, TraceError, read_trace};
