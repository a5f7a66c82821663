//! The events of Reno's and DCTCP's traces.

use paceline_congestion::CaState;

use crate::pairs::Pairs;

/// The kinds of event.
#[derive(Clone, Copy, Debug, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[expect(
    missing_docs,
    reason = "the fields are those of Linux's socket of the same names"
)]
pub enum WindowInput {
    /// `n`: the connection is established.
    Init { cwnd: u32, ssthresh: u32, mss: u32 },
    /// `w`: `cong_avoid()`.
    Grow {
        acked: u32,
        limited: bool,
        state: CaState,
    },
    /// `r`: `ssthresh()`, before the recovery state `state`; `alpha` of DCTCP in 1024ths.
    Reduce { state: CaState, alpha: u32 },
    /// `k`: the stack sets the window.
    Stack { cwnd: u32, ssthresh: u32, cnt: u32 },
    /// `v`: `undo_cwnd()`.
    Undo,
    /// `d`: DCTCP's alpha goes from one value to another, in 1024ths, because of `delivered`
    /// packets, of which `marked` carried CE.
    Alpha {
        from: u32,
        to: u32,
        delivered: u32,
        marked: u32,
    },
}

impl WindowInput {
    /// Parses the event of a line, if its letter names one.
    pub(crate) fn read(letter: &str, pairs: &mut Pairs<'_>) -> Result<Option<Self>, String> {
        Ok(Some(match letter {
            "n" => Self::Init {
                cwnd: pairs.get("cwnd")?,
                ssthresh: pairs.get("ssthresh")?,
                mss: pairs.get::<u16>("mss")?.into(),
            },
            "w" => Self::Grow {
                acked: pairs.get("acked")?,
                limited: pairs.flag("cwl")?,
                state: pairs.ca_state()?,
            },
            "r" => Self::Reduce {
                state: pairs.ca_state()?,
                alpha: pairs.get("alpha")?,
            },
            "k" => Self::Stack {
                cwnd: pairs.get("cwnd")?,
                ssthresh: pairs.get("ssthresh")?,
                cnt: pairs.get("cnt")?,
            },
            "v" => Self::Undo,
            "d" => Self::Alpha {
                from: pairs.get("from")?,
                to: pairs.get("to")?,
                delivered: pairs.get("delivered")?,
                marked: pairs.get("marked")?,
            },
            _ => return Ok(None),
        }))
    }
}
