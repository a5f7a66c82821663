//! BBRv3 according to the IETF draft (draft-ietf-ccwg-bbr-06, the text of its repository at
//! 4ce5e87d). Section numbers next to the steps are the draft's; where the draft has an error,
//! `docs/divergences.md` describes what this does instead.
//!
//! One concept per file: the path model (`model`), Startup and Drain (`startup`), the ProbeBW cycle
//! (`probe_bw`), ProbeRTT (`probe_rtt`), the response to loss and its undo (`loss`), and the three
//! control parameters (`control`).

mod control;
mod ecn;
mod loss;
mod max_filter;
mod model;
mod parameters;
mod probe_bw;
mod probe_rtt;
mod startup;
pub mod swift;
#[cfg(test)]
mod tests;

use paceline_units::{Bytes, Duration, Ecn, Gain, Instant, Rate};

use crate::options::{Choice as _, choice};
use crate::state::state;
use crate::{
    Ack, Config, Controller, Cue, Described, Lost, RecoveryWindow, Rng, Sent, Signals, Value,
};
use ecn::Marks;
use max_filter::MaxFilter;
use parameters::EcnResponse;
pub use parameters::Parameters;

choice! {
    /// The state machine (5.1).
    enum State {
        Startup = "Startup",
        Drain = "Drain",
        Down = "ProbeBW_DOWN",
        Cruise = "ProbeBW_CRUISE",
        Refill = "ProbeBW_REFILL",
        Up = "ProbeBW_UP",
        ProbeRtt = "ProbeRTT",
    }
}

impl State {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`: accelerating to find more bandwidth.
    fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// The phase of the last bandwidth probe that arriving ACKs belong to (5.3.3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The state that an undo restores (5.5.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UndoState {
    None,
    Startup,
    Up,
}

/// BBRv3.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    parameters: Parameters,
    mss: u32,
    initial_window: Bytes,
    has_selective_acks: bool,
    rng: Rng,
    state: State,

    // Control parameters (2.4) and their gains.
    cwnd: Bytes,
    pacing_rate: Rate,
    send_quantum: Bytes,
    pacing_gain: Gain,
    cwnd_gain: Gain,
    has_seen_rtt: bool,

    // Rounds (5.5.1).
    /// The last reported `C.delivered`.
    delivered: Bytes,
    next_round_delivered: Bytes,
    round_count: u32,
    round_start: bool,

    // Data rate model (2.9.1).
    /// The maximum of the previous cycle and of this one.
    max_bw_filter: [Rate; 2],
    max_bw: Rate,
    bw: Rate,
    bw_shortterm: Rate,
    bw_latest: Rate,
    cycle_count: u32,
    /// When the filter last advanced, and whether it has since had a sample that is not
    /// application-limited; for `advance_after`.
    max_bw_stamp: Instant,
    max_bw_sampled: bool,

    // Data volume model (2.9.2).
    min_rtt: Duration,
    min_rtt_stamp: Instant,
    inflight_shortterm: Bytes,
    inflight_longterm: Bytes,
    inflight_latest: Bytes,

    // Aggregation (5.5.9).
    extra_acked: Bytes,
    extra_acked_filter: MaxFilter,
    extra_acked_interval_start: Instant,
    extra_acked_delivered: Bytes,

    // Congestion signals (5.5.10).
    loss_round_delivered: Bytes,
    loss_round_start: bool,
    is_loss_in_round: bool,
    /// Discontiguous ranges lost in this loss round, for the exit from Startup (5.3.1.3).
    loss_ranges_in_round: u32,
    in_fast_recovery: bool,
    in_recovery: bool,
    /// A loss was detected within fast recovery since the last ACK.
    is_loss_in_fast_recovery: bool,
    prior_cwnd: Bytes,
    /// For `ecn`.
    marks: Marks,

    // Full pipe (5.3.1.2).
    full_bw: Rate,
    full_bw_count: u32,
    full_bw_now: bool,
    full_bw_reached: bool,
    drain_start_round: u32,

    // ProbeBW (5.3.3).
    ack_phase: AckPhase,
    cycle_stamp: Instant,
    bw_probe_wait: Duration,
    rounds_since_probe_up: u32,
    bw_probe_up_rounds: u32,
    bw_probe_up_acked: Bytes,
    probe_up_acked_per_inc: Bytes,
    is_bw_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,

    // ProbeRTT (5.3.4).
    probe_rtt_min_delay: Duration,
    probe_rtt_min_stamp: Instant,
    probe_rtt_expired: bool,
    /// [`Instant::MAX`] while not scheduled.
    probe_rtt_done_stamp: Instant,
    probe_rtt_round_done: bool,
    /// This ACK was handled in ProbeRTT, also if it ended ProbeRTT.
    marks_app_limited: bool,
    idle_restart: bool,
    // For its options: min_rtt before this ACK, the bound of the window, the delivery rate before
    // the window shrank, what was delivered by then, and whether the path then showed no queue.
    prior_min_rtt: Duration,
    probe_rtt_cap: Bytes,
    probe_rtt_prior_bw: Rate,
    probe_rtt_delivered: Bytes,
    probe_rtt_drained: bool,

    // Undo (5.5.11).
    undo_state: UndoState,
    undo_bw_shortterm: Rate,
    undo_inflight_shortterm: Bytes,
    undo_inflight_longterm: Bytes,
    /// Whether this loss episode's state is already saved.
    is_episode_saved: bool,
}

impl Bbr3 {
    /// `OnInit` (5.2.1).
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        let mut bbr = Self {
            mss: config.mss.max(1),
            initial_window: config.initial_window,
            has_selective_acks: config.has_selective_acks,
            rng: Rng::new(config.seed),
            state: State::Startup,
            cwnd: config.initial_window,
            pacing_rate: Rate::ZERO,
            send_quantum: Bytes::ZERO,
            pacing_gain: parameters.startup_pacing_gain,
            cwnd_gain: parameters.startup_cwnd_gain,
            has_seen_rtt: false,
            delivered: Bytes::ZERO,
            next_round_delivered: Bytes::ZERO,
            round_count: 0,
            round_start: false,
            max_bw_filter: [Rate::ZERO; 2],
            max_bw: Rate::ZERO,
            bw: Rate::ZERO,
            bw_shortterm: Rate::INFINITE,
            bw_latest: Rate::ZERO,
            cycle_count: 0,
            max_bw_stamp: config.now,
            max_bw_sampled: false,
            min_rtt: config.srtt.unwrap_or(Duration::MAX),
            min_rtt_stamp: config.now,
            inflight_shortterm: Bytes::INFINITE,
            inflight_longterm: Bytes::INFINITE,
            inflight_latest: Bytes::ZERO,
            extra_acked: Bytes::ZERO,
            extra_acked_filter: MaxFilter::default(),
            extra_acked_interval_start: config.now,
            extra_acked_delivered: Bytes::ZERO,
            // One more than delivered: the first ACK does not end a loss round (divergence 10).
            loss_round_delivered: Bytes::new(1),
            loss_round_start: false,
            is_loss_in_round: false,
            loss_ranges_in_round: 0,
            in_fast_recovery: false,
            in_recovery: false,
            is_loss_in_fast_recovery: false,
            prior_cwnd: Bytes::ZERO,
            marks: Marks::default(),
            full_bw: Rate::ZERO,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            cycle_stamp: config.now,
            bw_probe_wait: Duration::ZERO,
            rounds_since_probe_up: 0,
            bw_probe_up_rounds: 0,
            bw_probe_up_acked: Bytes::ZERO,
            probe_up_acked_per_inc: Bytes::INFINITE,
            is_bw_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_rtt_min_delay: config.srtt.unwrap_or(Duration::MAX),
            probe_rtt_min_stamp: config.now,
            probe_rtt_expired: false,
            probe_rtt_done_stamp: Instant::MAX,
            probe_rtt_round_done: false,
            marks_app_limited: false,
            idle_restart: false,
            prior_min_rtt: Duration::MAX,
            probe_rtt_cap: Bytes::INFINITE,
            probe_rtt_prior_bw: Rate::ZERO,
            probe_rtt_delivered: Bytes::ZERO,
            probe_rtt_drained: true,
            undo_state: UndoState::None,
            undo_bw_shortterm: Rate::INFINITE,
            undo_inflight_shortterm: Bytes::INFINITE,
            undo_inflight_longterm: Bytes::INFINITE,
            is_episode_saved: false,
            parameters,
        };
        bbr.init_pacing_rate(config.srtt);
        bbr
    }

    fn smss(&self) -> Bytes {
        Bytes::new(u64::from(self.mss))
    }

    /// `MinPipeCwnd` (2.8).
    fn min_pipe_cwnd(&self) -> Bytes {
        self.smss() * u64::from(self.parameters.min_pipe_packets)
    }
}

impl Described for Bbr3 {
    type Parameters = Parameters;
    const NAME: &'static str = "bbr3";
    const SUMMARY: &'static str = "BBRv3 as the IETF draft says";
    const SOURCE: &'static str = "draft-ietf-ccwg-bbr-06";
    const PHASES: &'static [&'static str] = State::WORDS;
    const MAX_SIZE: usize = 600;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            pacing: true,
            marks: parameters.ecn != EcnResponse::None,
            mark_counts: parameters.ecn == EcnResponse::Alpha,
            ..Signals::NONE
        }
    }
}

impl Controller for Bbr3 {
    /// `OnTransmit` (5.2.2).
    fn on_send(&mut self, sent: &Sent) {
        self.handle_restart_from_idle(sent);
    }

    fn hears_each_send(&self) -> bool {
        false
    }

    /// `UpdateOnACK` (5.2.3).
    fn on_ack(&mut self, ack: &Ack) {
        if !self.has_seen_rtt && ack.srtt > Duration::ZERO {
            // 5.6.2: the first RTT replaces the placeholder of 1 ms (divergence 9).
            self.init_pacing_rate(Some(ack.srtt));
        }
        self.delivered = ack.delivered;
        if !ack.sample.has_data && ack.newly_acked == Bytes::ZERO {
            // Nothing was delivered: ProbeRTT continues, and may end (divergence 21).
            self.round_start = false;
            self.continue_probe_rtt(ack);
            return;
        }
        if self.parameters.ecn != EcnResponse::None {
            self.note_marks(ack);
        }
        let rate = ack.sample.delivery_rate();
        if ack.sample.has_data {
            self.update_latest_delivery_signals(ack, rate);
            self.update_congestion_signals(ack, rate);
        } else {
            // Without SACK, a duplicate: no sample, no round ends (divergence 21).
            self.loss_round_start = false;
            self.round_start = false;
        }
        self.update_ack_aggregation(ack);
        self.check_full_bw_reached(ack, rate);
        self.check_startup_done(ack);
        self.check_drain_done(ack);
        self.update_probe_bw_cycle_phase(ack, rate);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        self.advance_latest_delivery_signals(ack, rate);
        self.bound_bw_for_model();
        self.set_pacing_rate(self.pacing_gain);
        self.set_cwnd(ack);
    }

    fn on_loss(&mut self, loss: &Lost) {
        self.handle_lost_packet(loss);
    }

    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.enter_fast_recovery();
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        self.exit_recovery();
    }

    fn on_timeout(&mut self, _now: Instant, in_flight: Bytes) {
        self.enter_rto(in_flight);
    }

    fn on_spurious(&mut self, _now: Instant, delivered: Bytes) {
        self.delivered = delivered;
        self.handle_spurious_loss();
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
        self.set_send_quantum();
    }

    fn follow(&mut self, cue: Cue) {
        match cue {
            Cue::Probe(at) => {
                self.bw_probe_wait = at.since(self.cycle_stamp);
                self.rounds_since_probe_up = 0;
            }
            Cue::ProbeRtt(at) => self.probe_rtt_min_stamp = at - self.parameters.probe_rtt_interval,
            Cue::ProbeEnd(_) | Cue::SlowStartEnd(_) => {}
        }
    }

    #[inline]
    fn cwnd(&self) -> Bytes {
        self.cwnd
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing_rate)
    }

    #[inline]
    fn send_quantum(&self) -> Bytes {
        self.send_quantum
    }

    fn recovery_window(&self) -> RecoveryWindow {
        RecoveryWindow::Controller
    }

    fn ecn(&self) -> Ecn {
        match self.parameters.ecn {
            EcnResponse::None => Ecn::NotEct,
            EcnResponse::Alpha | EcnResponse::Loss => Ecn::Ect0,
        }
    }

    fn marks_app_limited(&self) -> bool {
        self.marks_app_limited
    }

    #[inline]
    fn phase(&self) -> &'static str {
        self.state.word()
    }

    fn round_count(&self) -> u64 {
        self.round_count.into()
    }

    state! {
        fn visit_state(&self) -> Value {
            max_bw: Rate = self.max_bw,
            bw: Rate = self.bw,
            bw_shortterm: Rate = self.bw_shortterm,
            bw_latest: Rate = self.bw_latest,
            inflight_shortterm: Bytes = self.inflight_shortterm,
            inflight_longterm: Bytes = self.inflight_longterm,
            inflight_latest: Bytes = self.inflight_latest,
            bdp: Bytes = self.bdp(self.bw),
            max_inflight: Bytes = self.max_inflight(),
            model_min_rtt: Duration = self.min_rtt,
            probe_rtt_min_delay: Duration = self.probe_rtt_min_delay,
            probe_rtt_min_stamp: Duration = self.probe_rtt_min_stamp.since(Instant::ZERO),
            // `Inflight(bw, 1.0)`, where Drain ends, and the same for max_bw, where ProbeBW_DOWN
            // may end.
            inflight_at_bw: Bytes = self.inflight(self.bw, Gain::ONE),
            inflight_at_max_bw: Bytes = self.inflight(self.max_bw, Gain::ONE),
            inflight_with_headroom: Bytes = self.inflight_with_headroom(),
            round_start: Flag = self.round_start,
            extra_acked: Bytes = self.extra_acked,
            offload_budget: Bytes = self.offload_budget(),
            pacing_gain: Gain = self.pacing_gain,
            cwnd_gain: Gain = self.cwnd_gain,
            prior_cwnd: Bytes = self.prior_cwnd,
            round_count: Count = self.round_count.into(),
            cycle_count: Count = self.cycle_count.into(),
            full_bw: Rate = self.full_bw,
            full_bw_count: Count = self.full_bw_count.into(),
            full_bw_now: Flag = self.full_bw_now,
            full_bw_reached: Flag = self.full_bw_reached,
            drain_start_round: Count = self.drain_start_round.into(),
            is_loss_in_round: Flag = self.is_loss_in_round,
            loss_ranges_in_round: Count = self.loss_ranges_in_round.into(),
            ack_phase: Count = self.ack_phase as u64,
            bw_probe_wait: Duration = self.bw_probe_wait,
            rounds_since_probe_up: Count = self.rounds_since_probe_up.into(),
            bw_probe_up_rounds: Count = self.bw_probe_up_rounds.into(),
            probe_up_acked_per_inc: Bytes = self.probe_up_acked_per_inc,
            is_bw_probe_sample: Flag = self.is_bw_probe_sample,
            prev_probe_too_high: Flag = self.prev_probe_too_high,
            prev_probe_precautionary: Flag = self.prev_probe_precautionary,
            idle_restart: Flag = self.idle_restart,
            undo_state: Count = self.undo_state as u64,
            undo_bw_shortterm: Rate = self.undo_bw_shortterm,
            undo_inflight_shortterm: Bytes = self.undo_inflight_shortterm,
            undo_inflight_longterm: Bytes = self.undo_inflight_longterm,
        }
    }
}
