//! Classic HyStart: leaves slow start by the length of a train of ACKs, which is the time the
//! bottleneck needs to send a window, or by an increase of the delay (`hystart_update`).

use super::parameters::{Detect, Parameters};
use super::sock::Sock;
use crate::linux::Field;
use crate::linux::arithmetic::{MAX_BURST, UNSET};
use crate::state::state;

/// RTT samples of a round before it is judged (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u8 = 8;
/// Bounds of the delay increase, in microseconds (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_MIN: u32 = 4_000;
const DELAY_MAX: u32 = 16_000;
/// Maximum number of microseconds that bursts may add to a train (`hystart_ack_delay`).
const MAX_ACK_DELAY: u64 = 1_000;

/// HyStart's part of `struct bictcp`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// RTT samples of the round, counted up to [`MIN_SAMPLES`].
    sample_cnt: u8,
    /// The exit was found.
    pub(super) found: bool,
    /// Start of the round in microseconds.
    round_start: u32,
    /// The round ends beyond this sequence number.
    end_seq: u32,
    /// The last ACK of the train, in microseconds.
    last_ack: u32,
    /// Minimum RTT of the round.
    curr_rtt: u32,
}

impl HyStart {
    /// `bictcp_hystart_reset`.
    pub(super) fn begin_round(&mut self, sk: &Sock) {
        self.round_start = sk.now;
        self.last_ack = sk.now;
        self.end_seq = sk.snd_nxt;
        self.curr_rtt = UNSET;
        self.sample_cnt = 0;
    }

    /// An ACK in slow start with an RTT of `delay`.
    pub(super) fn update(&mut self, sk: &mut Sock, p: &Parameters, delay: u32, delay_min: u32) {
        if (self.end_seq.wrapping_sub(sk.snd_una) as i32) < 0 {
            self.begin_round(sk);
        }
        if sk.cwnd < p.hystart_low_window {
            return;
        }
        let train = p.hystart_detect != Detect::Delay && self.train(sk, p, delay_min);
        let delayed = p.hystart_detect != Detect::Train && self.delayed(delay, delay_min);
        if train || delayed {
            self.found = true;
            sk.ssthresh = sk.cwnd;
        }
    }

    /// Whether the round's train of ACKs is longer than the path's delay: half the RTT, or the
    /// whole RTT if pacing spreads the window over up to half of it.
    fn train(&mut self, sk: &Sock, p: &Parameters, delay_min: u32) -> bool {
        let gap = i64::from(sk.now.wrapping_sub(self.last_ack) as i32);
        if gap > p.hystart_ack_delta.as_micros() as i64 {
            return false;
        }
        self.last_ack = sk.now;
        let mut threshold = delay_min.wrapping_add(burst_delay(sk.pacing_rate));
        if !sk.is_paced {
            threshold /= 2;
        }
        sk.now.wrapping_sub(self.round_start) > threshold
    }

    /// Whether the round's minimum RTT, over more than eight samples, is an eighth above the
    /// overall minimum.
    fn delayed(&mut self, delay: u32, delay_min: u32) -> bool {
        self.curr_rtt = self.curr_rtt.min(delay);
        if self.sample_cnt < MIN_SAMPLES {
            self.sample_cnt += 1;
            return false;
        }
        let rise = (delay_min / 8).clamp(DELAY_MIN, DELAY_MAX);
        self.curr_rtt > delay_min.wrapping_add(rise)
    }

    state! {
        pub(super) fn visit(&self) -> Field {
            sample_cnt: Count = self.sample_cnt.into(),
            found: Flag = self.found,
            round_start: Count = self.round_start,
            end_seq: Count = self.end_seq,
            last_ack: Count = self.last_ack,
            curr_rtt: Micros = self.curr_rtt,
        }
    }
}

/// The time of four of the largest bursts at `rate` bytes per second, in microseconds
/// (`hystart_ack_delay`).
fn burst_delay(rate: u64) -> u32 {
    let micros = (MAX_BURST * 4 * 1_000_000).checked_div(rate).unwrap_or(0);
    micros.min(MAX_ACK_DELAY) as u32
}
