//! Random scenarios, and the invariants of their runs.
//!
//! [`draw`] follows the JSON Schema generated from the declarations of the format, and the
//! registries of queues and controllers: a new key is drawn without a line here. A draft that the
//! reader refuses is repaired until it is a scenario. [`judge`] runs it. `make soak` runs
//! thousands; an ordinary test runs a hundred.

mod draft;
mod draw;
mod drawer;
mod judge;
mod names;
mod quantity;
mod repair;
mod schema;
mod shrink;
mod watch;

pub use draft::Draft;
pub use draw::{draw, draw_emulated};
pub use judge::{Budget, Judged, judge, sane_emulated};
pub use schema::{Schema, keys};
pub use shrink::shrink;
pub use watch::{Watch, Watched};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
