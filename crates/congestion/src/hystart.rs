//! HyStart++: leaving slow start when the RTT rises (RFC 9406).

use paceline_units::{Bytes, Duration, Value};

use crate::Ack;
use crate::state::state;

// The constants of section 4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u64 = 4;
const CSS_ROUNDS: u32 = 5;

/// The state of section 4.2. [`Duration::MAX`] is the section's infinity.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HyStart {
    /// HyStart++ covers only the initial slow start (4.3): the first congestion event ends it.
    active: bool,
    /// Conservative slow start.
    css: bool,
    /// The sum of delivered and lost data at which the round ends; none before the first ACK.
    window_end: Option<Bytes>,
    last_round_min_rtt: Duration,
    current_round_min_rtt: Duration,
    rtt_sample_count: u32,
    css_baseline_min_rtt: Duration,
    css_rounds: u32,
}

impl HyStart {
    pub(crate) fn new(active: bool) -> Self {
        Self {
            active,
            css: false,
            window_end: None,
            last_round_min_rtt: Duration::MAX,
            current_round_min_rtt: Duration::MAX,
            rtt_sample_count: 0,
            css_baseline_min_rtt: Duration::MAX,
            css_rounds: 0,
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    pub(crate) fn in_css(&self) -> bool {
        self.css
    }

    /// The initial slow start is over.
    pub(crate) fn end(&mut self) {
        self.active = false;
        self.css = false;
    }

    /// One ACK in slow start or CSS. True when CSS is complete and congestion avoidance must begin.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        let resolved = ack.resolved();
        // SND.NXT, counted in transmitted rather than numbered bytes.
        let snd_nxt = resolved + ack.in_flight;
        let window_end = *self.window_end.get_or_insert(snd_nxt);
        if let Some(rtt) = ack.rtt {
            self.current_round_min_rtt = self.current_round_min_rtt.min(rtt);
            self.rtt_sample_count = self.rtt_sample_count.saturating_add(1);
        }
        if self.rtt_sample_count >= N_RTT_SAMPLE {
            self.judge_delay();
        }
        if resolved < window_end {
            return false;
        }
        // The round ends, and the next begins. The part of a round in which CSS was entered counts
        // as a CSS round.
        self.window_end = Some(snd_nxt);
        self.last_round_min_rtt = self.current_round_min_rtt;
        self.current_round_min_rtt = Duration::MAX;
        self.rtt_sample_count = 0;
        if self.css {
            self.css_rounds += 1;
        }
        self.css_rounds >= CSS_ROUNDS
    }

    /// Enters CSS when the round's minimum has risen, leaves it when it has fallen again.
    fn judge_delay(&mut self) {
        let current = self.current_round_min_rtt;
        if self.css {
            if current < self.css_baseline_min_rtt {
                self.css = false;
                self.css_rounds = 0;
                self.css_baseline_min_rtt = Duration::MAX;
            }
        } else if current != Duration::MAX && self.last_round_min_rtt != Duration::MAX {
            let rtt_thresh =
                (self.last_round_min_rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            if current >= self.last_round_min_rtt + rtt_thresh {
                self.css = true;
                self.css_baseline_min_rtt = current;
            }
        }
    }

    /// The growth of the window when slow start would grow it by `increase`.
    pub(crate) fn growth(&self, increase: Bytes) -> Bytes {
        if self.css {
            Bytes::new(increase.get() / CSS_GROWTH_DIVISOR)
        } else {
            increase
        }
    }

    state! {
        pub(crate) fn visit_state(&self) -> Value {
            last_round_min_rtt: Duration = self.last_round_min_rtt,
            current_round_min_rtt: Duration = self.current_round_min_rtt,
            rtt_sample_count: Count = self.rtt_sample_count.into(),
            css_baseline_min_rtt: Duration = self.css_baseline_min_rtt,
            css_rounds: Count = self.css_rounds.into(),
        }
    }
}
