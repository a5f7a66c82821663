//! The simulator in a browser: scenarios in, tables out.
//!
//! A page writes text into the memory at `paceline_input`, calls a function, and reads the answer
//! at `paceline_output`, `paceline_output_len` bytes long: JSON, or a column of 64-bit floats.
//! [`laboratory`] implements these functions without shared memory. [`script`] is a controller
//! written in the page.

#[cfg(target_arch = "wasm32")]
mod exports;
pub mod laboratory;
pub mod script;

#[cfg(target_arch = "wasm32")]
pub use exports::*;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
