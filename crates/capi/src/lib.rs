//! Congestion controllers and transports behind C headers.
//!
//! `include/paceline_controller.h` is written from this crate: the [`types`] that cross the boundary, a
//! [`paceline_controller`](types::paceline_controller) for each controller, and the delivery-rate sampler
//! of [`delivery`]. Memory is the caller's; nothing is allocated and nothing is global. `include/paceline_endpoint.h`
//! is written from [`stack`] likewise, for whole transports: ours are [`paceline_stack_get`]'s, whose ends allocate what
//! they keep of data in flight. `paceline-plugin` takes controllers and transports of others in by the same headers.
//!
//! A function that is called against its contract (a null pointer, a state that was not made) is undefined
//! behaviour, as in C. Wrong numbers are not: they lead to wrong decisions, no further. Should a function
//! panic all the same, the process aborts.

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
