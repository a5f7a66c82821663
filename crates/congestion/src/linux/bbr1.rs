//! BBRv1 as in mainline Linux (`net/ipv4/tcp_bbr.c`), still v1 in Linux 7.
//!
//! The order of an ACK is Linux's: bandwidth (with the policer detector),
//! aggregation, gain cycle, full pipe, drain, min RTT, gains; then pacing and
//! the window.

pub mod fair;

use super::aggregation::AckAggregation;
use super::arithmetic::{
    BBR_UNIT, BW_UNIT, MAX_BURST, UNSET, bdp, before, burst, bytes_per_sec, elapsed, initial_bw,
    jiffies, packets_in_net_at_edt, scaled,
};
use super::minmax::WindowedMax;
use super::options::{FixedPoint, linux_options};
use super::policer::Policer;
use super::socket::in_recovery;
use super::{Adapter, Algorithm, Field, Random, RateSample, Socket};
use crate::CaState;

/// Phases in a gain cycle (`CYCLE_LEN`).
const CYCLE_LEN: u8 = 8;
/// Rounds in the bandwidth filter (`bbr_bw_rtts`).
const BW_RTTS: u32 = CYCLE_LEN as u32 + 2;
/// The default initial window of Linux (`TCP_INIT_CWND`).
const TCP_INIT_CWND: u32 = 10;
/// Bytes per second below which bursts of one packet are allowed: 1.2 Mbit/s (`bbr_min_tso_rate`).
pub(super) const MIN_TSO_RATE: u64 = 1_200_000 / 8;

/// What can be set; the defaults are Linux's.
#[derive(Clone, Debug)]
pub struct Parameters {
    high_gain: FixedPoint,
    drain_gain: FixedPoint,
    cwnd_gain: FixedPoint,
    probe_up_gain: FixedPoint,
    probe_down_gain: FixedPoint,
    full_bw_thresh: FixedPoint,
    full_bw_cnt: u32,
    min_rtt_win: u32,
    probe_rtt_mode: u32,
    cwnd_min_target: u32,
    pacing_margin_percent: u32,
    extra_acked_gain: FixedPoint,
    lt_bw: bool,
    /// Window of PROBE_RTT in BDPs; zero, as in Linux, is `cwnd_min_target`.
    probe_rtt_cwnd_gain: FixedPoint,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            high_gain: BBR_UNIT * 2885 / 1000 + 1,
            drain_gain: BBR_UNIT * 1000 / 2885,
            cwnd_gain: BBR_UNIT * 2,
            probe_up_gain: BBR_UNIT * 5 / 4,
            probe_down_gain: BBR_UNIT * 3 / 4,
            full_bw_thresh: BBR_UNIT * 5 / 4,
            full_bw_cnt: 3,
            min_rtt_win: 10_000,
            probe_rtt_mode: 200,
            cwnd_min_target: 4,
            pacing_margin_percent: 1,
            extra_acked_gain: BBR_UNIT,
            lt_bw: true,
            probe_rtt_cwnd_gain: 0,
        }
    }
}

impl crate::options::Parameters for Parameters {
    const OPTIONS: &'static [crate::options::OptionSpec<Self>] = linux_options! {
        high_gain: gain(256, 1023), "Pacing and cwnd gain of STARTUP, and cwnd gain of DRAIN (bbr_high_gain)";
        drain_gain: gain(1, 256), "Pacing gain of DRAIN (bbr_drain_gain)";
        cwnd_gain: gain(256, 1023), "Window of PROBE_BW in BDPs (bbr_cwnd_gain)";
        probe_up_gain: gain(256, 1023), "Pacing gain of the probing phase (bbr_pacing_gain[0])";
        probe_down_gain: gain(1, 256), "Pacing gain of the draining phase (bbr_pacing_gain[1])";
        full_bw_thresh: gain(256, 1023), "Growth of bandwidth in a round that says the pipe is not full (bbr_full_bw_thresh)";
        full_bw_cnt: count(1, 3), "Rounds without growth that say the pipe is full (bbr_full_bw_cnt)";
        min_rtt_win: millis(1, 600_000), "Window of the min RTT filter (bbr_min_rtt_win_sec)";
        probe_rtt_mode: millis(0, 60_000), "Least time in PROBE_RTT; zero never enters it (bbr_probe_rtt_mode_ms)";
        cwnd_min_target: count(1, 1_000), "Packets in flight in PROBE_RTT, and the least window (bbr_cwnd_min_target)";
        pacing_margin_percent: count(0, 50), "Percent by which pacing stays below the bandwidth (bbr_pacing_margin_percent)";
        extra_acked_gain: gain(0, 1023), "Part of the ACK aggregation that the window allows for (bbr_extra_acked_gain)";
        lt_bw: flag, "Detect token-bucket policers and send at their rate (the long-term bandwidth estimator)";
    };
}

/// `bbr1` as a controller.
pub type Bbr1 = Adapter<Core>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The state of BBRv1 (`struct bbr`).
#[derive(Clone, Debug)]
pub struct Core {
    parameters: Parameters,
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
    policer: Policer,
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

    // --- Pacing ---

    fn pacing_rate(&self, sk: &Socket, bw: u32, gain: FixedPoint) -> u64 {
        bytes_per_sec(bw, sk.mss, gain, self.parameters.pacing_margin_percent)
    }

    fn init_pacing_rate_from_rtt(&mut self, sk: &mut Socket) {
        self.has_seen_rtt |= sk.srtt != 0;
        let bw = initial_bw(sk.cwnd, sk.srtt);
        sk.pacing_rate = self.pacing_rate(sk, bw, self.parameters.high_gain);
    }

    fn set_pacing_rate(&mut self, sk: &mut Socket, bw: u32, gain: FixedPoint) {
        let rate = self.pacing_rate(sk, bw, gain);
        if !self.has_seen_rtt && sk.srtt != 0 {
            self.init_pacing_rate_from_rtt(sk);
        }
        if self.full_bw_reached || rate > sk.pacing_rate {
            sk.pacing_rate = rate;
        }
    }

    fn tso_segs_goal(&self, sk: &Socket) -> u32 {
        let least = if sk.pacing_rate < MIN_TSO_RATE { 1 } else { 2 };
        let bytes = burst(sk.pacing_rate).min(MAX_BURST) as u32;
        bytes.checked_div(sk.mss).unwrap_or(0).max(least).min(127)
    }

    // --- Volumes ---

    fn bdp(&self, bw: u32, gain: FixedPoint) -> u32 {
        if self.min_rtt_us == UNSET {
            return TCP_INIT_CWND;
        }
        bdp(bw, self.min_rtt_us, gain)
    }

    fn quantization_budget(&self, sk: &Socket, cwnd: u32) -> u32 {
        let even = cwnd.wrapping_add(3 * self.tso_segs_goal(sk) + 1) & !1;
        let probing = self.mode == Mode::ProbeBw && self.cycle_idx == 0;
        even.wrapping_add(if probing { 2 } else { 0 })
    }

    fn inflight(&self, sk: &Socket, bw: u32, gain: FixedPoint) -> u32 {
        self.quantization_budget(sk, self.bdp(bw, gain))
    }

    /// Packets in flight in PROBE_RTT.
    fn probe_rtt_cwnd(&self) -> u32 {
        match self.parameters.probe_rtt_cwnd_gain {
            0 => self.parameters.cwnd_min_target,
            gain => self
                .bdp(self.bw(), gain)
                .max(self.parameters.cwnd_min_target),
        }
    }

    fn packets_in_net_at_edt(&self, sk: &Socket, inflight_now: u32) -> u32 {
        let burst = if self.pacing_gain > BBR_UNIT {
            self.tso_segs_goal(sk)
        } else {
            0
        };
        packets_in_net_at_edt(self.bw(), inflight_now, burst, sk.now, sk.wstamp_ns)
    }

    // --- Window ---

    fn save_cwnd(&mut self, sk: &Socket) {
        self.prior_cwnd = if !in_recovery(self.prev_ca_state) && self.mode != Mode::ProbeRtt {
            sk.cwnd
        } else {
            self.prior_cwnd.max(sk.cwnd)
        };
    }

    /// The window in and just after recovery. Returns whether packet
    /// conservation decides it: in the first round, as many packets leave as are delivered.
    fn cwnd_to_recover_or_restore(&mut self, sk: &Socket, rs: &RateSample) -> (u32, bool) {
        let (prev, state) = (self.prev_ca_state, sk.ca_state);
        let mut cwnd = sk.cwnd;
        if rs.losses > 0 {
            cwnd = (cwnd.wrapping_sub(rs.losses) as i32).max(1) as u32;
        }
        let conserving = sk.packets_in_flight.wrapping_add(rs.acked_sacked);
        if state == CaState::Recovery && prev != CaState::Recovery {
            self.packet_conservation = true;
            self.next_rtt_delivered = sk.delivered;
            cwnd = conserving;
        } else if in_recovery(prev) && !in_recovery(state) {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prev_ca_state = state;
        if self.packet_conservation {
            return (cwnd.max(conserving), true);
        }
        (cwnd, false)
    }

    fn set_cwnd(&mut self, sk: &mut Socket, rs: &RateSample, bw: u32) {
        if rs.acked_sacked > 0 {
            let (mut cwnd, conserved) = self.cwnd_to_recover_or_restore(sk, rs);
            if !conserved {
                let mut target = self.bdp(bw, self.cwnd_gain);
                if self.full_bw_reached {
                    target = target.wrapping_add(
                        self.aggregation
                            .cwnd_bonus(self.bw(), self.parameters.extra_acked_gain),
                    );
                }
                let target = self.quantization_budget(sk, target);
                let grown = cwnd.wrapping_add(rs.acked_sacked);
                if self.full_bw_reached {
                    cwnd = grown.min(target);
                } else if cwnd < target || sk.delivered < TCP_INIT_CWND {
                    cwnd = grown;
                }
                cwnd = cwnd.max(self.parameters.cwnd_min_target);
            }
            sk.cwnd = cwnd;
        }
        if self.mode == Mode::ProbeRtt {
            sk.cwnd = sk.cwnd.min(self.probe_rtt_cwnd());
        }
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
        let now = jiffies(sk.now);
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
        let now = jiffies(sk.now);
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
}

impl Algorithm for Core {
    type Parameters = Parameters;

    const NAME: &'static str = "bbr1";

    fn new(sk: &mut Socket, parameters: Parameters) -> Self {
        let mut core = Self {
            parameters,
            mode: Mode::Startup,
            prev_ca_state: CaState::Open,
            cycle_idx: 0,
            cycle_mstamp: 0,
            bw: WindowedMax::default(),
            rtt_cnt: 0,
            next_rtt_delivered: sk.delivered,
            min_rtt_us: sk.min_rtt,
            min_rtt_stamp: jiffies(sk.now),
            probe_rtt_done_stamp: None,
            pacing_gain: 0,
            cwnd_gain: 0,
            full_bw: 0,
            full_bw_cnt: 0,
            prior_cwnd: 0,
            aggregation: AckAggregation::default(),
            policer: Policer::new(sk),
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
        match self.mode {
            Mode::Startup => "STARTUP",
            Mode::Drain => "DRAIN",
            Mode::ProbeBw => "PROBE_BW",
            Mode::ProbeRtt => "PROBE_RTT",
        }
    }

    fn visit(&self, sk: &Socket, visit: &mut dyn FnMut(&'static str, Field)) {
        // The phase means nothing outside PROBE_BW.
        let phase = if self.mode == Mode::ProbeBw {
            self.cycle_idx
        } else {
            0
        };
        visit("cycle_idx", Field::Count(u32::from(phase)));
        visit("cwnd", Field::Packets(sk.cwnd));
        visit("pacing_rate", Field::BytesPerSec(sk.pacing_rate));
        visit("pacing_gain", Field::Gain(self.pacing_gain));
        visit("cwnd_gain", Field::Gain(self.cwnd_gain));
        visit("bw", Field::Bandwidth(self.bw()));
        visit("max_bw", Field::Bandwidth(self.bw.get()));
        visit("min_rtt", Field::Micros(self.min_rtt_us));
        visit("round_start", Field::Flag(self.round_start));
        visit("full_bw", Field::Bandwidth(self.full_bw));
        visit("full_bw_cnt", Field::Count(self.full_bw_cnt));
        visit("full_bw_reached", Field::Flag(self.full_bw_reached));
        visit("prior_cwnd", Field::Packets(self.prior_cwnd));
        visit(
            "extra_acked",
            Field::Packets(self.aggregation.extra_acked()),
        );
        visit("idle_restart", Field::Flag(self.idle_restart));
        visit("rtt_cnt", Field::Count(self.rtt_cnt));
        visit("lt_use_bw", Field::Flag(self.policer.bw().is_some()));
        visit("lt_bw", Field::Bandwidth(self.policer.lt_bw()));
        visit("lt_rtt_cnt", Field::Count(self.policer.rtt_cnt()));
        visit("packet_conservation", Field::Flag(self.packet_conservation));
    }
}
