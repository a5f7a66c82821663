//! The effect of each event on CUBIC and its socket.

use paceline_congestion::linux::Field;
use paceline_congestion::linux::cubic::{Core, INFINITE_SSTHRESH, Sock};

use super::{Difference, Subject, foreign};
use crate::input::{CubicInput, Input, Kind};
use crate::trace::Event;

/// CUBIC with its socket.
#[derive(Default)]
pub(crate) struct CubicReplay {
    sk: Sock,
    core: Option<Core>,
}

impl Subject for CubicReplay {
    fn apply(&mut self, event: &Event) -> Vec<Difference> {
        let Input::Cubic(CubicInput { jiffies, kind }) = event.input else {
            return vec![foreign(event)];
        };
        let sk = &mut self.sk;
        let now = event.time as u32;
        if let Kind::Init {
            parameters,
            cwnd,
            una,
            nxt,
        } = kind
        {
            *sk = Sock {
                now,
                jiffies,
                cwnd,
                ssthresh: INFINITE_SSTHRESH,
                snd_una: una,
                snd_nxt: nxt,
                is_paced: parameters.pacing,
                ..Sock::default()
            };
            self.core = Some(Core::new(sk, parameters));
        }
        let Some(core) = &mut self.core else {
            return vec![foreign(event)];
        };
        (sk.now, sk.jiffies) = (now, jiffies);
        match kind {
            Kind::Init { .. } => {}
            Kind::Acked {
                una,
                nxt,
                rate,
                rtt,
            } => {
                (sk.snd_una, sk.snd_nxt, sk.pacing_rate) = (una, nxt, rate);
                if let Ok(rtt) = u32::try_from(rtt) {
                    core.pkts_acked(sk, rtt);
                }
            }
            Kind::Grow { acked, limited } => {
                sk.is_cwnd_limited = limited;
                core.cong_avoid(sk, acked);
            }
            Kind::Reduce => {
                let ssthresh = core.ssthresh(sk);
                sk.begin_reduction(ssthresh);
            }
            Kind::Stack {
                cwnd,
                ssthresh,
                cnt,
            } => (sk.cwnd, sk.ssthresh, sk.cwnd_cnt) = (cwnd, ssthresh, cnt),
            Kind::Loss { nxt } => {
                sk.snd_nxt = nxt;
                core.enter_loss(sk);
            }
            Kind::Undo => sk.cwnd = sk.undo_cwnd(),
            Kind::TxStart { lsndtime } => {
                sk.lsndtime = lsndtime;
                core.tx_start(sk);
            }
        }
        Vec::new()
    }

    fn visit(&self, visit: &mut dyn FnMut(&'static str, Field)) {
        if let Some(core) = &self.core {
            core.visit(&self.sk, visit);
        }
    }

    fn other_mode(&self, mode: &str) -> Option<String> {
        let got = match self.sk.in_slow_start() {
            true => "SLOW_START",
            false => "CONGESTION_AVOIDANCE",
        };
        (mode != got).then(|| String::from(got))
    }
}
