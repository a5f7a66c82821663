//! Linux's loss recovery compared with ours.
//!
//! A [`Script`] is played to two senders: to a kernel's TCP in real time (by the emulator), whose
//! transmissions are kept as a [`Trace`], and to ours in virtual time ([`play`]). Both talk to the
//! same [`Peer`]. They agree if they send the same segments in the same order at about the same
//! times ([`compare`]).

mod folder;
mod ours;
mod peer;
mod script;
mod trace;

pub use folder::{Played, cases, judge, scripts};
pub use ours::play;
pub use peer::{Peer, WINDOW};
pub use script::{Blackout, Cc, Delay, MSS, Pick, Script, ScriptError, Write};
pub use trace::{Departure, Trace, Transmission, compare};
