//! BBRv1 as in mainline Linux (`net/ipv4/tcp_bbr.c`), still v1 in Linux 7.
//!
//! The order of an ACK is Linux's: bandwidth (with the policer detector),
//! aggregation, gain cycle, full pipe, drain, min RTT, gains; then pacing and
//! the window.

mod control;
pub mod fair;
mod parameters;

pub use parameters::Parameters;

use super::adapter::micros_at;
use super::aggregation::AckAggregation;
use super::arithmetic::FixedPoint;
use super::arithmetic::{BBR_UNIT, BW_UNIT, before, elapsed, scaled};
use super::minmax::WindowedMax;
use super::policer::PolicerDetector;
use super::{Adapter, Algorithm, Field, Random, RateSample, Socket};
use crate::options::{Choice as _, choice};
use crate::state::state;
use crate::{CaState, Cue, Described, Signals};

/// Phases in a gain cycle (`CYCLE_LEN`).
const CYCLE_LEN: u8 = 8;
/// Rounds in the bandwidth filter (`bbr_bw_rtts`).
const BW_RTTS: u32 = CYCLE_LEN as u32 + 2;

/// `bbr1` as a controller.
pub type Bbr1 = Adapter<Core>;

choice! {
    /// `bbr_mode`.
    enum Mode {
        Startup = "STARTUP",
        Drain = "DRAIN",
        ProbeBw = "PROBE_BW",
        ProbeRtt = "PROBE_RTT",
    }
}

/// The state of BBRv1 (`struct bbr`).
#[derive(Clone, Debug)]
pub struct Core {
    parameters: Parameters,
    /// Window of PROBE_RTT in BDPs; zero, as in Linux, is `cwnd_min_target`.
    probe_rtt_cwnd_gain: FixedPoint,
    mode: Mode,
    prev_ca_state: CaState,
    cycle_idx: u8,
    cycle_mstamp: u64,
    bw: WindowedMax,
    rtt_cnt: u32,
    next_rtt_delivered: u32,
    min_rtt_us: u32,
    min_rtt_stamp: u32,
    probe_rtt_done_stamp: Option<u32>,
    pacing_gain: FixedPoint,
    cwnd_gain: FixedPoint,
    full_bw: u32,
    full_bw_cnt: u32,
    prior_cwnd: u32,
    aggregation: AckAggregation,
    policer: PolicerDetector,
    packet_conservation: bool,
    round_start: bool,
    idle_restart: bool,
    probe_rtt_round_done: bool,
    has_seen_rtt: bool,
    full_bw_reached: bool,
}

impl Core {
    fn bw(&self) -> u32 {
        self.policer.bw().unwrap_or(self.bw.get())
    }

    // --- Gain cycle ---

    fn phase_gain(&self) -> FixedPoint {
        match self.cycle_idx {
            0 => self.parameters.probe_up_gain,
            1 => self.parameters.probe_down_gain,
            _ => BBR_UNIT,
        }
    }

    fn is_next_cycle_phase(&self, sk: &Socket, rs: &RateSample) -> bool {
        let is_full_length = elapsed(sk.delivered_mstamp, self.cycle_mstamp) > self.min_rtt_us;
        if self.pacing_gain == BBR_UNIT {
            return is_full_length;
        }
        let inflight = self.packets_in_net_at_edt(sk, rs.prior_in_flight);
        let max_bw = self.bw.get();
        if self.pacing_gain > BBR_UNIT {
            return is_full_length
                && (rs.losses > 0 || inflight >= self.inflight(sk, max_bw, self.pacing_gain));
        }
        is_full_length || inflight <= self.inflight(sk, max_bw, BBR_UNIT)
    }

    fn advance_cycle_phase(&mut self, sk: &Socket) {
        self.cycle_idx = (self.cycle_idx + 1) % CYCLE_LEN;
        self.cycle_mstamp = sk.delivered_mstamp;
    }

    fn reset_probe_bw_mode(&mut self, sk: &Socket, random: &mut Random<'_>) {
        self.mode = Mode::ProbeBw;
        // Any phase but the draining one, after the advance.
        let back = random(u32::from(CYCLE_LEN) - 1) as u8 % CYCLE_LEN;
        self.cycle_idx = CYCLE_LEN - 1 - back;
        self.advance_cycle_phase(sk);
    }

    // --- Model ---

    fn lt_bw_sampling(
        &mut self,
        sk: &Socket,
        losses: u32,
        app_limited: bool,
        rnd: &mut Random<'_>,
    ) {
        if !self.parameters.lt_bw {
            return;
        }
        if self.policer.bw().is_some() {
            if self.mode == Mode::ProbeBw && self.round_start && self.policer.has_served(sk) {
                self.reset_probe_bw_mode(sk, rnd);
            }
        } else if self
            .policer
            .sample(sk, losses > 0, app_limited, self.round_start)
        {
            self.pacing_gain = BBR_UNIT;
        }
    }

    fn update_bw(&mut self, sk: &Socket, rs: &RateSample, random: &mut Random<'_>) {
        self.round_start = false;
        if rs.delivered < 0 || rs.interval_us <= 0 {
            return;
        }
        if !before(rs.prior_delivered, self.next_rtt_delivered) {
            self.next_rtt_delivered = sk.delivered;
            self.rtt_cnt = self.rtt_cnt.wrapping_add(1);
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.lt_bw_sampling(sk, rs.losses, rs.is_app_limited, random);
        let bw = u64::from(rs.delivered.unsigned_abs()) * BW_UNIT / rs.interval_us.unsigned_abs();
        if !rs.is_app_limited || bw >= u64::from(self.bw.get()) {
            self.bw.update(BW_RTTS, self.rtt_cnt, bw as u32);
        }
    }

    fn check_full_bw_reached(&mut self, rs: &RateSample) {
        if self.full_bw_reached || !self.round_start || rs.is_app_limited {
            return;
        }
        let max_bw = self.bw.get();
        if max_bw >= scaled(self.full_bw, self.parameters.full_bw_thresh) {
            self.full_bw = max_bw;
            self.full_bw_cnt = 0;
            return;
        }
        self.full_bw_cnt += 1;
        self.full_bw_reached = self.full_bw_cnt >= self.parameters.full_bw_cnt;
    }

    fn check_drain(&mut self, sk: &Socket, random: &mut Random<'_>) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain
            && self.packets_in_net_at_edt(sk, sk.packets_in_flight)
                <= self.inflight(sk, self.bw.get(), BBR_UNIT)
        {
            self.reset_probe_bw_mode(sk, random);
        }
    }

    fn check_probe_rtt_done(&mut self, sk: &mut Socket, random: &mut Random<'_>) {
        let now = sk.jiffies();
        if self
            .probe_rtt_done_stamp
            .is_none_or(|done| !before(done, now))
        {
            return;
        }
        self.min_rtt_stamp = now;
        sk.cwnd = sk.cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.reset_probe_bw_mode(sk, random);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_min_rtt(&mut self, sk: &mut Socket, rs: &RateSample, random: &mut Random<'_>) {
        let now = sk.jiffies();
        let expiry = self.min_rtt_stamp.wrapping_add(self.parameters.min_rtt_win);
        let expired = before(expiry, now);
        if rs.rtt_us >= 0
            && (rs.rtt_us < i64::from(self.min_rtt_us) || (expired && !rs.is_ack_delayed))
        {
            self.min_rtt_us = rs.rtt_us as u32;
            self.min_rtt_stamp = now;
        }
        let dip = self.parameters.probe_rtt_mode;
        if dip > 0 && expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(sk);
            self.probe_rtt_done_stamp = None;
        }
        if self.mode == Mode::ProbeRtt {
            sk.app_limited = sk.delivered.wrapping_add(sk.packets_in_flight).max(1);
            if self.probe_rtt_done_stamp.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(sk, random);
                }
            } else if sk.packets_in_flight <= self.probe_rtt_cwnd() {
                self.probe_rtt_done_stamp = Some(now.wrapping_add(dip));
                self.probe_rtt_round_done = false;
                self.next_rtt_delivered = sk.delivered;
            }
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// `bbr_update_model`.
    fn update_model(&mut self, sk: &mut Socket, rs: &RateSample, random: &mut Random<'_>) {
        self.update_bw(sk, rs, random);
        if self.parameters.extra_acked_gain > 0 {
            let bw = self.bw();
            self.aggregation.update(sk, rs, bw, self.round_start, 5);
        }
        if self.mode == Mode::ProbeBw && self.is_next_cycle_phase(sk, rs) {
            self.advance_cycle_phase(sk);
        }
        self.check_full_bw_reached(rs);
        self.check_drain(sk, random);
        self.update_min_rtt(sk, rs, random);
        self.update_gains();
    }

    fn update_gains(&mut self) {
        let p = &self.parameters;
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (p.high_gain, p.high_gain),
            Mode::Drain => (p.drain_gain, p.high_gain),
            Mode::ProbeBw if self.policer.bw().is_some() => (BBR_UNIT, p.cwnd_gain),
            Mode::ProbeBw => (self.phase_gain(), p.cwnd_gain),
            Mode::ProbeRtt => (BBR_UNIT, BBR_UNIT),
        };
    }

    /// The phase of the cycle, which means nothing outside PROBE_BW.
    fn shown_phase(&self) -> u32 {
        if self.mode == Mode::ProbeBw {
            u32::from(self.cycle_idx)
        } else {
            0
        }
    }
}

impl Described for Core {
    type Parameters = Parameters;
    const NAME: &'static str = "bbr1";
    const SUMMARY: &'static str = "BBRv1 as in mainline Linux";
    const SOURCE: &'static str = "Linux net/ipv4/tcp_bbr.c";
    const PHASES: &'static [&'static str] = Mode::WORDS;

    fn needs(_parameters: &Self::Parameters) -> Signals {
        Signals {
            pacing: true,
            ..Signals::NONE
        }
    }
}

impl Algorithm for Core {
    fn new(sk: &mut Socket, parameters: Parameters) -> Self {
        let mut core = Self {
            parameters,
            probe_rtt_cwnd_gain: 0,
            mode: Mode::Startup,
            prev_ca_state: CaState::Open,
            cycle_idx: 0,
            cycle_mstamp: 0,
            bw: WindowedMax::default(),
            rtt_cnt: 0,
            next_rtt_delivered: sk.delivered,
            min_rtt_us: sk.min_rtt,
            min_rtt_stamp: sk.jiffies(),
            probe_rtt_done_stamp: None,
            pacing_gain: 0,
            cwnd_gain: 0,
            full_bw: 0,
            full_bw_cnt: 0,
            prior_cwnd: 0,
            aggregation: AckAggregation::default(),
            policer: PolicerDetector::new(sk),
            packet_conservation: false,
            round_start: false,
            idle_restart: false,
            probe_rtt_round_done: false,
            has_seen_rtt: false,
            full_bw_reached: false,
        };
        core.init_pacing_rate_from_rtt(sk);
        core.aggregation.restart(sk.now);
        core
    }

    fn cong_control(&mut self, sk: &mut Socket, rs: &RateSample, random: &mut Random<'_>) {
        self.update_model(sk, rs, random);
        let bw = self.bw();
        self.set_pacing_rate(sk, bw, self.pacing_gain);
        self.set_cwnd(sk, rs, bw);
    }

    fn ssthresh(&mut self, sk: &Socket) {
        self.save_cwnd(sk);
    }

    fn set_state(&mut self, sk: &mut Socket, state: CaState, random: &mut Random<'_>) {
        if state == CaState::Loss {
            self.prev_ca_state = CaState::Loss;
            self.full_bw = 0;
            // A timeout counts as the end of a round, with a loss.
            self.round_start = true;
            self.lt_bw_sampling(sk, 1, false, random);
        }
    }

    fn undo_cwnd(&mut self, sk: &Socket) -> u32 {
        self.full_bw = 0;
        self.full_bw_cnt = 0;
        self.policer.reset(sk);
        sk.cwnd
    }

    fn follow(&mut self, _sk: &Socket, cue: Cue) {
        match cue {
            // The last phase of the cycle ends then.
            Cue::Probe(at) => {
                self.cycle_idx = CYCLE_LEN - 1;
                self.cycle_mstamp = micros_at(at).saturating_sub(self.min_rtt_us.into());
            }
            // It ends by what is in flight, to a packet.
            Cue::ProbeEnd(at) if self.mode == Mode::ProbeBw => {
                (self.cycle_idx, self.cycle_mstamp) = (1, micros_at(at));
            }
            Cue::ProbeRtt(at) => {
                let at = (micros_at(at) / 1000) as u32;
                self.min_rtt_stamp = at.wrapping_sub(self.parameters.min_rtt_win);
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

    fn tso_segs(&self, sk: &Socket) -> u32 {
        self.tso_segs_goal(sk)
    }

    fn round_count(&self) -> u32 {
        self.rtt_cnt
    }

    fn phase(&self) -> &'static str {
        self.mode.word()
    }

    state! {
        fn visit(&self, sk: &Socket) -> Field {
            cycle_idx: Count = self.shown_phase(),
            cwnd: Packets = sk.cwnd,
            pacing_rate: BytesPerSec = sk.pacing_rate,
            pacing_gain: Gain = self.pacing_gain,
            cwnd_gain: Gain = self.cwnd_gain,
            bw: Bandwidth = self.bw(),
            max_bw: Bandwidth = self.bw.get(),
            min_rtt: Micros = self.min_rtt_us,
            round_start: Flag = self.round_start,
            full_bw: Bandwidth = self.full_bw,
            full_bw_cnt: Count = self.full_bw_cnt,
            full_bw_reached: Flag = self.full_bw_reached,
            prior_cwnd: Packets = self.prior_cwnd,
            extra_acked: Packets = self.aggregation.extra_acked(),
            idle_restart: Flag = self.idle_restart,
            rtt_cnt: Count = self.rtt_cnt,
            lt_use_bw: Flag = self.policer.bw().is_some(),
            lt_bw: Bandwidth = self.policer.lt_bw(),
            lt_rtt_cnt: Count = self.policer.rtt_cnt(),
            packet_conservation: Flag = self.packet_conservation,
        }
    }
}
