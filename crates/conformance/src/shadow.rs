//! Whether a recorded flow did what an algorithm allows, from its packets alone.
//!
//! A shadow of the algorithm runs beside the recording, fed with the flow's own sends, ACKs and
//! losses, and says at each ACK what it would allow: the flow's pace and what it has in flight are
//! laid against that. Only what the algorithm leaves to chance, when it probes, is taken from the
//! flow. A loss is marked between the ACK that allows it and the resend that shows it: a check whose
//! outcome hangs on the moment within cannot be told.

mod checks;
mod cues;
mod follow;
mod growth;
mod pace;
mod recording;
#[cfg(test)]
mod tests;
mod windows;

use paceline_congestion::Recipe;

pub use checks::{Check, Verdict};
pub use follow::{Followed, Moment, Probe};
pub use recording::{Kind, Recording, Row};

use follow::Marks;
use pace::Pace;

/// What a shadow says of a flow.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The share of time in which the flow did what the shadow allowed.
    pub likeness: f64,
    /// Every check.
    pub checks: Vec<Check>,
    /// What the shadow did.
    pub followed: Followed,
}

/// Follows a flow by the shadow of a controller.
pub fn follow(recording: &Recording, recipe: &Recipe, handshake: Option<u64>) -> Followed {
    usual(recording, &Pace::of(recording), recipe, handshake).0
}

/// Follows and judges a flow by marks as usual.
fn usual(
    recording: &Recording,
    pace: &Pace,
    recipe: &Recipe,
    handshake: Option<u64>,
) -> (Followed, f64, Vec<Check>) {
    let run = |marks| {
        let followed = follow::follow(recording, pace, recipe, marks, handshake);
        let (likeness, checks) = checks::judge(recording, pace, &followed);
        (followed, likeness, checks)
    };
    let first = run(Marks::Usual);
    if recipe.name() != "cubic-linux" || first.0.lost == 0 {
        return first;
    }
    let other = run(Marks::WithoutHyStart);
    if other.1 > first.1 { other } else { first }
}

/// Judges a flow by the shadow of a controller. `handshake` is the round trip of the connection's
/// set-up in nanoseconds, if it is known. A `thorough` judgement tells whether what is broken hangs
/// on when losses were marked.
pub fn judge(
    recording: &Recording,
    recipe: &Recipe,
    handshake: Option<u64>,
    thorough: bool,
) -> Judgement {
    let pace = Pace::of(recording);
    let (followed, likeness, mut checks) = usual(recording, &pace, recipe, handshake);
    let is_broken = |check: &Check| check.verdict == Verdict::Broken;
    if thorough && followed.lost > 0 && checks.iter().any(is_broken) {
        let all = [Marks::Early, Marks::Late, Marks::AsTcp];
        for &marks in &all[..if recording.is_stream { 2 } else { 3 }] {
            let run = follow::follow(recording, &pace, recipe, marks, handshake);
            let (_, others) = checks::judge(recording, &pace, &run);
            for (check, other) in checks.iter_mut().zip(others) {
                if is_broken(check) && other.verdict == Verdict::Held {
                    check.cannot_be_told(
                        "it hangs on when losses were marked, which no packet shows",
                    );
                }
            }
        }
    }
    Judgement {
        likeness,
        checks,
        followed,
    }
}
