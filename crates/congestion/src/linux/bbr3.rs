//! BBRv3 as in Linux (google/bbr branch v3, `tcp_bbr.c`).
//!
//! The [`model`](super::model) with v3's constants and steps. Not here, for
//! they touch no state of it: protective load balancing (off by default), the
//! receiver's side of precise ECN echoes, and the fast ACK mode.

use super::Adapter;
use super::model;

/// The algorithm.
pub type Core = model::Core<3>;
/// What can be set.
pub type Parameters = model::Parameters<3>;
/// `bbr3-linux` as a controller.
pub type Bbr3 = Adapter<Core>;
