//! BBRv3 as in Linux (google/bbr branch v3, `tcp_bbr.c`).
//!
//! The [`bbr23`] with v3's constants and steps. Left out, because they touch none of its state:
//! protective load balancing (off by default), the receiver's side of precise ECN echoes, and the
//! fast ACK mode.

use super::Adapter;
use super::bbr23;

/// The algorithm.
pub type Core = bbr23::Core<3>;
/// The options.
pub type Parameters = bbr23::Parameters<3>;
/// `bbr3-linux` as a controller.
pub type Bbr3 = Adapter<Core>;
