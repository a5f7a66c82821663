#![doc = include_str!("../README.md")]

mod pace;
mod path;
mod plan;
mod ring;

pub use pace::Pace;
pub use path::Path;
pub use plan::{Begun, Clock, ControllerError, Plan, table};
