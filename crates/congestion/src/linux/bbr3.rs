//! BBRv3 as in Linux (google/bbr branch v3, `tcp_bbr.c`).
//!
//! The [`bbr23`] with v3's constants and steps. Left out, because they touch none of its state:
//! protective load balancing (off by default), the receiver's side of precise ECN echoes, and the
//! fast ACK mode.

use super::Adapter;
use super::bbr23;
use crate::{Described, Signals};

/// The algorithm.
pub type Core = bbr23::Core<3>;
/// The options.
pub type Parameters = bbr23::Parameters<3>;
/// `bbr3-linux` as a controller.
pub type Bbr3 = Adapter<Core>;

impl Described for Core {
    type Parameters = Parameters;
    const NAME: &'static str = "bbr3-linux";
    const SUMMARY: &'static str = "BBRv3 as in Linux";
    const SOURCE: &'static str = "google/bbr v3 net/ipv4/tcp_bbr.c";
    const PHASES: &'static [&'static str] = bbr23::PHASES;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: parameters.ecn,
            mark_counts: parameters.ecn,
            pacing: true,
            ..Signals::NONE
        }
    }
}
