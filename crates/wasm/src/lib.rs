//! The simulator in a browser: scenarios in, tables out.
//!
//! A page writes text into the memory that `paceline_input` gives, calls what it wants, and reads
//! the answer at `paceline_output`, `paceline_output_len` bytes of it: JSON, or a column of 64-bit floats.
//! [`laboratory`] is what these do, without memory shared with anyone. [`script`] is a controller written in the page.

#[cfg(target_arch = "wasm32")]
mod exports;
pub mod laboratory;
pub mod script;

#[cfg(target_arch = "wasm32")]
pub use exports::*;
