//! Congestion controllers and transports behind C headers.
//!
//! `paceline_controller.h` is generated from this crate: the [`types`] that cross the
//! boundary, a [`paceline_controller`](types::paceline_controller) for each controller, and the
//! delivery-rate sampler of [`delivery`]. The caller owns all memory; nothing is allocated and
//! nothing is global. `paceline_endpoint.h` is generated from [`stack`] in the same way,
//! for complete transports: ours are those of [`paceline_stack_get`], whose ends allocate memory
//! for data in flight. `paceline-plugin` loads third-party controllers and transports through the
//! same headers.
//!
//! Calling a function in violation of its contract (a null pointer, a state that was not made) is
//! undefined behaviour, as in C. Wrong numbers are not: they only lead to wrong decisions. If a
//! function panics nevertheless, the process aborts.

pub mod delivery;
#[cfg(feature = "library")]
mod ends;
mod events;
mod own;
mod own_stack;
pub mod stack;
mod table;
mod text;
pub mod types;

#[cfg(feature = "library")]
pub use ends::paceline_stack_get;
pub use events::{codepoint, ecn};
pub use own::Own;
#[doc(hidden)]
pub use own::get;
#[doc(hidden)]
pub use own_stack::get_stack;
pub use own_stack::{EndConfig, OwnStack};
pub use paceline_congestion::ControllerSpec;
pub use paceline_endpoint as endpoint;
pub use paceline_units as units;
#[cfg(feature = "library")]
pub use table::{paceline_controller_find, paceline_controller_get};
