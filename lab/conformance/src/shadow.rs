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

use std::borrow::Cow;

use paceline_congestion::Recipe;

pub use checks::{Check, Verdict};
pub use follow::{Followed, Moment, Probe};
pub use recording::{Kind, Recording, Row};

use follow::Marks;
use pace::Pace;

/// An ACK may reach the sender up to a millisecond before or after the time that fits best.
const SHIFTS: [i64; 4] = [-300_000, 300_000, -1_000_000, 1_000_000];

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

/// A recording, as it is or with its ACKs at other times, and the shadow beside it.
struct Reading<'a> {
    recording: Cow<'a, Recording>,
    pace: &'a Pace,
    recipe: &'a Recipe,
    handshake: Option<u64>,
}

/// What the shadow did, the share of time as allowed, and every check.
type Outcome = (Followed, f64, Vec<Check>);

fn is_broken(check: &Check) -> bool {
    check.verdict == Verdict::Broken
}

impl<'a> Reading<'a> {
    /// Of the times at which its ACKs may have arrived those that fit best, by marks as usual.
    fn best(
        recording: &'a Recording,
        pace: &'a Pace,
        recipe: &'a Recipe,
        handshake: Option<u64>,
    ) -> (Self, Outcome) {
        let as_recorded = || Self {
            recording: Cow::Borrowed(recording),
            pace,
            recipe,
            handshake,
        };
        let mut best = (as_recorded(), as_recorded().usual());
        if let Some(by) = recording.offset()
            && by != 0
            && best.1.2.iter().any(is_broken)
        {
            let other = as_recorded().shifted(by);
            let outcome = other.usual();
            if outcome.1 > best.1.1 {
                best = (other, outcome);
            }
        }
        best
    }

    fn shifted(&self, by: i64) -> Self {
        Self {
            recording: Cow::Owned(self.recording.shifted(by)),
            handshake: self.handshake.map(|rtt| later(rtt, by)),
            ..*self
        }
    }

    fn judge(&self, marks: Marks) -> Outcome {
        let recording = &self.recording;
        let followed = follow::follow(recording, self.pace, self.recipe, marks, self.handshake);
        let (likeness, checks) = checks::judge(recording, self.pace, &followed);
        (followed, likeness, checks)
    }

    /// By marks as usual. A window that one more loss reduces is another for good: of the ways in
    /// which senders count these, the one that fits best.
    fn usual(&self) -> Outcome {
        let mut best = self.judge(Marks::Usual);
        if best.0.lost == 0 {
            return best;
        }
        let is_linux = self.recipe.name() == "cubic-linux";
        let is_quic = best.0.is_loss_based() && !self.recording.is_stream;
        for (marks, applies) in [(Marks::WithoutHyStart, is_linux), (Marks::AsTcp, is_quic)] {
            if applies {
                let other = self.judge(marks);
                if other.1 > best.1 {
                    best = other;
                }
            }
        }
        best
    }
}

/// A round trip whose ACK is so many nanoseconds later.
pub fn later(rtt: u64, by: i64) -> u64 {
    rtt.saturating_add_signed(by).max(1)
}

/// Follows a flow by the shadow of a controller.
pub fn follow(recording: &Recording, recipe: &Recipe, handshake: Option<u64>) -> Followed {
    let (_, (followed, ..)) = Reading::best(recording, &Pace::of(recording), recipe, handshake);
    followed
}

/// Judges a flow by the shadow of a controller. `handshake` is the round trip of the connection's
/// set-up in nanoseconds, if it is known. A `thorough` judgement says whether what is broken hangs
/// on when losses were marked, or on where the recording was made.
pub fn judge(
    recording: &Recording,
    recipe: &Recipe,
    handshake: Option<u64>,
    thorough: bool,
) -> Judgement {
    let pace = Pace::of(recording);
    let (reading, (followed, likeness, mut checks)) =
        Reading::best(recording, &pace, recipe, handshake);
    // Unless the first ACK shows that the capture was made at the sender, its ACKs may be early or late.
    let is_off = recording.offset() != Some(0);
    // What is broken cannot be told if it is not in another reading.
    let mut doubt = |why, other: &dyn Fn() -> Outcome| {
        if !checks.iter().any(is_broken) {
            return;
        }
        for (check, other) in checks.iter_mut().zip(other().2) {
            if is_broken(check)
                && (other.verdict == Verdict::Held || (is_off && !is_broken(&other)))
            {
                check.cannot_be_told(why);
            }
        }
    };
    if thorough {
        let marks = match (followed.lost, reading.recording.is_stream) {
            (0, _) => &[][..],
            (_, true) => &[Marks::Early, Marks::Late],
            (_, false) => &[Marks::Early, Marks::Late, Marks::AsTcp],
        };
        for &marks in marks {
            let why = "it hangs on when losses were marked, which no packet shows";
            doubt(why, &|| reading.judge(marks));
        }
        let shifts = if is_off { &SHIFTS[..] } else { &[] };
        for &by in shifts.iter().filter(|by| reading.recording.may_shift(**by)) {
            let why = "it hangs on a millisecond between the sender and where it was recorded";
            doubt(why, &|| reading.shifted(by).usual());
        }
    }
    Judgement {
        likeness,
        checks,
        followed,
    }
}
