//! BBRv2 and BBRv3 as in Linux: one model of the path, with bounds that loss and ECN move.
//!
//! `V` is the version, 2 or 3; code that differs between them checks it. The order of an ACK is
//! Linux's: round and ECN, latest delivery signals, then (unless the fast path allows skipping it)
//! congestion signals, aggregation, STARTUP's exits, DRAIN, the PROBE_BW cycle and min RTT; then
//! gains, pacing and the window.

mod control;
mod cycle;
mod parameters;
mod probe_rtt;
mod signals;

pub use parameters::Parameters;

use super::adapter::micros_at;
use super::aggregation::AckAggregation;
use super::arithmetic::FixedPoint;
use super::arithmetic::{BBR_UNIT, UNSET, before};
use super::{Algorithm, Field, LostPacket, Random, RateSample, Socket};
use crate::options::choice;
use crate::state::state;
use crate::{CaState, Cue, Described, Signals};

choice! {
    /// `bbr_mode`.
    enum Mode {
        Startup = "STARTUP",
        Drain = "DRAIN",
        ProbeBw = "PROBE_BW",
        ProbeRtt = "PROBE_RTT",
    }
}

choice! {
    /// The phases of PROBE_BW (`bbr_pacing_gain_phase`).
    enum Phase {
        Up = "PROBE_BW_UP",
        Down = "PROBE_BW_DOWN",
        Cruise = "PROBE_BW_CRUISE",
        Refill = "PROBE_BW_REFILL",
    }
}

/// How the incoming ACKs relate to bandwidth probing (`bbr_ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// What PRR counts: packets delivered and sent before fast recovery.
#[derive(Clone, Copy, Debug)]
struct Prr {
    delivered: u32,
    sent: u32,
}

/// Bounds before the latest recovery, to undo it.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    bw_lo: u32,
    inflight_lo: u32,
    inflight_hi: u32,
}

/// The state of BBRv2 or BBRv3 (`struct bbr`).
#[derive(Clone, Debug)]
pub struct Core<const V: u8> {
    parameters: Parameters<V>,
    mode: Mode,
    cycle_idx: Phase,
    ack_phase: AckPhase,
    prev_ca_state: CaState,
    cycle_mstamp: u64,
    min_rtt_us: u32,
    min_rtt_stamp: u32,
    probe_rtt_min_us: u32,
    probe_rtt_min_stamp: u32,
    probe_rtt_done_stamp: Option<u32>,
    next_rtt_delivered: u32,
    loss_round_delivered: u32,
    prior_cwnd: u32,
    init_cwnd: u32,
    pacing_gain: FixedPoint,
    cwnd_gain: FixedPoint,
    /// The bandwidth of this ACK's sample (`ctx.sample_bw`).
    sample_bw: u32,
    full_bw: u32,
    full_bw_cnt: u32,
    bw_latest: u32,
    bw_lo: u32,
    bw_hi: [u32; 2],
    inflight_latest: u32,
    inflight_lo: u32,
    inflight_hi: u32,
    undo: Undo,
    prr: Option<Prr>,
    bw_probe_up_cnt: u32,
    bw_probe_up_acks: u32,
    bw_probe_up_rounds: u32,
    probe_wait_us: u32,
    rounds_since_probe: u32,
    ecn_alpha: u32,
    alpha_last_delivered: u32,
    alpha_last_delivered_ce: u32,
    startup_ecn_rounds: u32,
    loss_events_in_round: u32,
    aggregation: AckAggregation,
    round_start: bool,
    loss_round_start: bool,
    loss_in_round: bool,
    ecn_in_round: bool,
    loss_in_cycle: bool,
    ecn_in_cycle: bool,
    try_fast_path: bool,
    idle_restart: bool,
    probe_rtt_round_done: bool,
    has_seen_rtt: bool,
    full_bw_reached: bool,
    full_bw_now: bool,
    ecn_eligible: bool,
    bw_probe_samples: bool,
    prev_probe_too_high: bool,
    stopped_risky_probe: bool,
}

impl<const V: u8> Core<V> {
    /// Whether this is v3; otherwise it is v2.
    const V3: bool = V == 3;

    fn max_bw(&self) -> u32 {
        self.bw_hi[0].max(self.bw_hi[1])
    }

    fn bw(&self) -> u32 {
        self.max_bw().min(self.bw_lo)
    }

    fn is_up(&self) -> bool {
        self.mode == Mode::ProbeBw && self.cycle_idx == Phase::Up
    }

    fn is_cruising(&self) -> bool {
        self.mode == Mode::ProbeBw && self.cycle_idx == Phase::Cruise
    }

    fn is_probing_bandwidth(&self) -> bool {
        self.mode == Mode::Startup
            || (self.mode == Mode::ProbeBw && matches!(self.cycle_idx, Phase::Refill | Phase::Up))
    }

    fn update_round_start(&mut self, sk: &Socket, rs: &RateSample) {
        self.round_start =
            rs.interval_us > 0 && !before(rs.prior_delivered, self.next_rtt_delivered);
        if self.round_start {
            self.next_rtt_delivered = sk.delivered;
            self.rounds_since_probe = (self.rounds_since_probe + 1).min(0xff);
            self.update_ecn_alpha(sk);
        }
    }

    fn update_model(&mut self, sk: &mut Socket, rs: &RateSample, random: &mut Random<'_>) {
        self.update_congestion_signals(sk, rs);
        self.update_ack_aggregation(sk, rs);
        self.check_loss_too_high_in_startup(sk, rs);
        self.check_full_bw_reached(rs);
        self.check_drain(sk, random);
        self.update_cycle_phase(sk, rs, random);
        self.update_min_rtt(sk, rs, random);
    }

    /// Skips most of the model, and the control too if nothing changed, for a flow that the
    /// application limits to less than the known capacity of the path. Returns whether to run the
    /// model and the control.
    fn run_fast_path(
        &mut self,
        sk: &mut Socket,
        rs: &RateSample,
        random: &mut Random<'_>,
    ) -> (bool, bool) {
        let may_skip = self.parameters.fast_path
            && self.try_fast_path
            && rs.is_app_limited
            && self.sample_bw < self.max_bw()
            && !self.loss_in_round
            && !self.ecn_in_round;
        if !may_skip {
            return (true, true);
        }
        let before = (self.mode, self.min_rtt_us);
        self.check_drain(sk, random);
        self.update_cycle_phase(sk, rs, random);
        self.update_min_rtt(sk, rs, random);
        let settled = before == (self.mode, self.min_rtt_us) && self.try_fast_path;
        (false, !settled)
    }
}

impl<const V: u8> Described for Core<V> {
    type Parameters = Parameters<V>;
    const NAME: &'static str = if Self::V3 { "bbr3-linux" } else { "bbr2" };
    const SUMMARY: &'static str = if Self::V3 {
        "BBRv3 as in Linux"
    } else {
        "BBRv2 alpha as in Linux"
    };
    const SOURCE: &'static str = if Self::V3 {
        "google/bbr v3 net/ipv4/tcp_bbr.c"
    } else {
        "google/bbr v2alpha net/ipv4/tcp_bbr2.c"
    };
    /// The modes, with the phases in place of PROBE_BW.
    const PHASES: &'static [&'static str] = &[
        Mode::Startup.word(),
        Mode::Drain.word(),
        Phase::Up.word(),
        Phase::Down.word(),
        Phase::Cruise.word(),
        Phase::Refill.word(),
        Mode::ProbeRtt.word(),
    ];

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: parameters.ecn,
            mark_counts: parameters.ecn,
            pacing: true,
            ..Signals::NONE
        }
    }
}

impl<const V: u8> Algorithm for Core<V> {
    fn new(sk: &mut Socket, parameters: Parameters<V>) -> Self {
        const { assert!(V == 2 || V == 3, "there are versions 2 and 3") };
        let mut core = Self {
            mode: Mode::Startup,
            cycle_idx: Phase::Up,
            ack_phase: AckPhase::Init,
            prev_ca_state: CaState::Open,
            cycle_mstamp: 0,
            min_rtt_us: sk.min_rtt,
            min_rtt_stamp: sk.jiffies(),
            probe_rtt_min_us: sk.min_rtt,
            probe_rtt_min_stamp: sk.jiffies(),
            probe_rtt_done_stamp: None,
            next_rtt_delivered: if Self::V3 { sk.delivered } else { 0 },
            loss_round_delivered: sk.delivered.wrapping_add(1),
            prior_cwnd: 0,
            init_cwnd: sk.cwnd.min(127),
            pacing_gain: 0,
            cwnd_gain: 0,
            sample_bw: 0,
            full_bw: 0,
            full_bw_cnt: 0,
            bw_latest: 0,
            bw_lo: UNSET,
            bw_hi: [0; 2],
            inflight_latest: 0,
            inflight_lo: UNSET,
            inflight_hi: UNSET,
            undo: Undo::default(),
            prr: None,
            bw_probe_up_cnt: UNSET,
            bw_probe_up_acks: 0,
            bw_probe_up_rounds: 0,
            probe_wait_us: 0,
            rounds_since_probe: 0,
            ecn_alpha: parameters.ecn_alpha_init,
            alpha_last_delivered: 0,
            alpha_last_delivered_ce: 0,
            startup_ecn_rounds: 0,
            loss_events_in_round: 0,
            aggregation: AckAggregation::default(),
            round_start: false,
            loss_round_start: false,
            loss_in_round: false,
            ecn_in_round: false,
            loss_in_cycle: false,
            ecn_in_cycle: false,
            try_fast_path: false,
            idle_restart: false,
            probe_rtt_round_done: false,
            has_seen_rtt: false,
            full_bw_reached: false,
            full_bw_now: false,
            ecn_eligible: false,
            bw_probe_samples: false,
            prev_probe_too_high: false,
            stopped_risky_probe: false,
            parameters,
        };
        core.init_pacing_rate_from_rtt(sk);
        core.aggregation.restart(sk.now);
        core
    }

    fn cong_control(&mut self, sk: &mut Socket, rs: &RateSample, random: &mut Random<'_>) {
        self.update_round_start(sk, rs);
        self.ecn_in_round |= rs.is_ece && (self.ecn_eligible || !Self::V3);
        self.calculate_bw_sample(rs);
        if Self::V3 {
            self.update_latest_delivery_signals(sk, rs);
        }
        let (do_model, do_control) = self.run_fast_path(sk, rs, random);
        if do_model {
            self.update_model(sk, rs, random);
        }
        if do_control {
            self.update_gains();
            let bw = self.bw();
            self.set_pacing_rate(sk, bw, self.pacing_gain);
            self.set_cwnd(sk, rs.acked_sacked, bw);
            self.bound_cwnd_for_inflight_model(sk);
            self.bound_cwnd_for_delivery(sk, rs);
        }
        // A TLP retransmission that repairs a tail loss must not hide the path's deliveries before
        // it.
        if Self::V3 && self.loss_round_start && !rs.is_acking_tlp_retrans_seq {
            self.advance_latest_delivery_signals(rs);
        }
        self.prev_ca_state = sk.ca_state;
        self.loss_in_cycle |= rs.lost > 0;
        self.ecn_in_cycle |= rs.delivered_ce > 0;
    }

    fn skb_marked_lost(&mut self, sk: &mut Socket, skb: &LostPacket, random: &mut Random<'_>) {
        self.note_loss(sk);
        self.close_window_for_loss(sk, skb.pcount);
        if !self.bw_probe_samples {
            return;
        }
        let mut rs = RateSample {
            tx_in_flight: skb.tx_in_flight,
            lost: sk.lost.wrapping_sub(skb.tx_lost) as i32,
            is_app_limited: skb.is_app_limited,
            ..RateSample::default()
        };
        if self.is_inflight_too_high(&rs) {
            rs.tx_in_flight = self.inflight_hi_from_lost_skb(&rs, skb.pcount);
            self.handle_inflight_too_high(sk, &rs, random);
        }
    }

    fn ssthresh(&mut self, sk: &Socket) {
        self.save_cwnd(sk);
        // By now a lost packet may already have cut inflight_hi: then the undo does not restore it.
        self.undo = Undo {
            bw_lo: self.bw_lo,
            inflight_lo: self.inflight_lo,
            inflight_hi: self.inflight_hi,
        };
    }

    fn set_state(&mut self, sk: &mut Socket, state: CaState, _random: &mut Random<'_>) {
        if state == CaState::Recovery {
            self.begin_prr(sk);
        } else {
            self.prr = None;
        }
        if state == CaState::Loss {
            self.prev_ca_state = CaState::Loss;
            self.full_bw = 0;
            if Self::V3 {
                self.reset_full_bw();
            }
            if !self.is_probing_bandwidth() && self.inflight_lo == UNSET {
                let cwnd = if Self::V3 { sk.cwnd } else { 0 };
                self.inflight_lo = cwnd.max(self.prior_cwnd);
            }
        } else if self.prev_ca_state == CaState::Loss {
            sk.cwnd = sk.cwnd.max(self.prior_cwnd);
            self.try_fast_path = false;
        }
    }

    fn undo_cwnd(&mut self, _sk: &Socket) -> u32 {
        self.full_bw = 0;
        self.full_bw_cnt = 0;
        self.loss_in_round = false;
        if Self::V3 {
            self.full_bw_now = false;
            self.try_fast_path = false;
        }
        self.bw_lo = self.bw_lo.max(self.undo.bw_lo);
        self.inflight_lo = self.inflight_lo.max(self.undo.inflight_lo);
        self.inflight_hi = self.inflight_hi.max(self.undo.inflight_hi);
        self.prior_cwnd
    }

    fn follow(&mut self, _sk: &Socket, cue: Cue) {
        match cue {
            Cue::Probe(at) => {
                // After this time, as the kernel tests it.
                let wait = micros_at(at).saturating_sub(self.cycle_mstamp);
                self.probe_wait_us = u32::try_from(wait).unwrap_or(i32::MAX as u32);
                self.rounds_since_probe = 0;
            }
            Cue::ProbeRtt(at) => {
                let at = (micros_at(at) / 1000) as u32;
                self.probe_rtt_min_stamp = at.wrapping_sub(self.parameters.probe_rtt_win);
            }
            Cue::ProbeEnd(_) | Cue::SlowStartEnd(_) => {}
        }
    }

    fn tx_start(&mut self, sk: &mut Socket, random: &mut Random<'_>) {
        if sk.app_limited == 0 {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(sk.now);
        match self.mode {
            Mode::ProbeBw => self.set_pacing_rate(sk, self.bw(), BBR_UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(sk, random),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn tlp_recovery(&mut self, sk: &Socket, random: &mut Random<'_>) {
        if !Self::V3 {
            return;
        }
        self.note_loss(sk);
        if !self.bw_probe_samples {
            return;
        }
        let rs = RateSample {
            lost: 1,
            tx_in_flight: self.inflight_latest.wrapping_add(1),
            is_app_limited: sk.tlp_orig_data_app_limited,
            ..RateSample::default()
        };
        if self.is_inflight_too_high(&rs) {
            self.handle_inflight_too_high(sk, &rs, random);
        }
    }

    fn tso_segs(&self, sk: &Socket) -> u32 {
        self.tso_segs_goal(sk)
    }

    fn wants_ecn(&self) -> bool {
        self.parameters.ecn
    }

    fn phase(&self) -> &'static str {
        match self.mode {
            Mode::ProbeBw => self.cycle_idx.word(),
            mode => mode.word(),
        }
    }

    state! {
        fn visit(&self, sk: &Socket) -> Field {
            cwnd: Packets = sk.cwnd,
            pacing_rate: BytesPerSec = sk.pacing_rate,
            pacing_gain: Gain = self.pacing_gain,
            cwnd_gain: Gain = self.cwnd_gain,
            bw: Bandwidth = self.bw(),
            max_bw: Bandwidth = self.max_bw(),
            min_rtt: Micros = self.min_rtt_us,
            round_start: Flag = self.round_start,
            full_bw: Bandwidth = self.full_bw,
            full_bw_cnt: Count = self.full_bw_cnt,
            full_bw_reached: Flag = self.full_bw_reached,
            prior_cwnd: Packets = self.prior_cwnd,
            extra_acked: Packets = self.aggregation.extra_acked(),
            idle_restart: Flag = self.idle_restart,
            bw_lo: Bandwidth = self.bw_lo,
            inflight_lo: Packets = self.inflight_lo,
            inflight_hi: Packets = self.inflight_hi,
            bw_latest: Bandwidth = self.bw_latest,
            inflight_latest: Packets = self.inflight_latest,
            loss_round_start: Flag = self.loss_round_start,
            loss_in_round: Flag = self.loss_in_round,
            ack_phase: Count = self.ack_phase as u32,
            bw_probe_samples: Flag = self.bw_probe_samples,
            prev_probe_too_high: Flag = self.prev_probe_too_high,
            stopped_risky_probe: Flag = self.stopped_risky_probe,
            rounds_since_probe: Count = self.rounds_since_probe,
            bw_probe_up_cnt: Packets = self.bw_probe_up_cnt,
            bw_probe_up_acks: Packets = self.bw_probe_up_acks,
            bw_probe_up_rounds: Count = self.bw_probe_up_rounds,
            probe_wait: Micros = self.probe_wait_us,
            ecn_alpha: Gain = self.ecn_alpha,
            try_fast_path: Flag = self.try_fast_path,
            full_bw_now: Flag if Self::V3 = self.full_bw_now,
        }
    }
}

#[cfg(test)]
mod tests;
