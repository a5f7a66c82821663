//! The algorithm: `struct tcp_congestion_ops cubictcp`.

use super::hystart::HyStart;
use super::parameters::Parameters;
use super::root::cubic_root;
use super::sock::Sock;
use crate::linux::Field;
use crate::state::state;

/// `BICTCP_BETA_SCALE`.
const BETA_SCALE: u32 = 1024;
/// log2 of the units of `bic_k` in a second (`BICTCP_HZ`).
const BICTCP_HZ: u32 = 10;
/// Bits of fraction in the cubic function: of its factor, and of its time cubed.
const SCALE_BITS: u32 = 10 + 3 * BICTCP_HZ;
/// Maximum of `cnt` until a loss has shown the path's limit: 5 % per round.
const FIRST_CNT: u32 = 20;
/// Minimum of `cnt`: 50 % per round.
const LEAST_CNT: u32 = 2;

/// `struct bictcp`, without the part in [`HyStart`].
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// The window grows by one packet for each of this many acknowledged.
    cnt: u32,
    /// The window of the plateau; zero until a loss has revealed it.
    last_max_cwnd: u32,
    /// The window at the last update, and its time in jiffies.
    last_cwnd: u32,
    last_time: u32,
    /// The plateau of this epoch.
    bic_origin_point: u32,
    /// The time to it from the start of the epoch, in 1024ths of a second.
    bic_k: u32,
    /// Minimum RTT in microseconds; zero before the first.
    delay_min: u32,
    /// Start of the epoch in jiffies; zero before its first ACK.
    epoch_start: u32,
    /// Packets acknowledged that have not made `tcp_cwnd` grow yet.
    ack_cnt: u32,
    /// The window that Reno would have.
    tcp_cwnd: u32,
}

/// The algorithm (`struct tcp_congestion_ops cubictcp`).
#[derive(Clone, Debug)]
pub struct Core {
    parameters: Parameters,
    /// `beta_scale`: eighths of the window that Reno's share needs for a packet.
    beta_scale: u32,
    /// `cube_rtt_scale`.
    cube_rtt_scale: u64,
    /// `cube_factor`.
    cube_factor: u64,
    epoch: Epoch,
    hystart: HyStart,
}

impl Core {
    /// `init`.
    pub fn new(sk: &mut Sock, parameters: Parameters) -> Self {
        let beta = parameters.beta.min(BETA_SCALE - 1);
        let cube_rtt_scale = u64::from(parameters.bic_scale.max(1)) * 10;
        let mut core = Self {
            beta_scale: 8 * (BETA_SCALE + beta) / 3 / (BETA_SCALE - beta),
            cube_rtt_scale,
            cube_factor: (1 << SCALE_BITS) / cube_rtt_scale,
            epoch: Epoch::default(),
            hystart: HyStart::default(),
            parameters,
        };
        if parameters.hystart {
            core.hystart.begin_round(sk);
        } else if parameters.initial_ssthresh > 0 {
            sk.ssthresh = parameters.initial_ssthresh;
        }
        core
    }

    /// `pkts_acked`: an ACK gave an RTT sample, in microseconds; called before the window grows on
    /// it.
    pub fn pkts_acked(&mut self, sk: &mut Sock, rtt_us: u32) {
        let epoch = &mut self.epoch;
        // The first second of an epoch still sees the queue that ended the previous one.
        let age = sk.jiffies.wrapping_sub(epoch.epoch_start) as i32;
        if epoch.epoch_start != 0 && age < self.parameters.hz as i32 {
            return;
        }
        let delay = rtt_us.max(1);
        if epoch.delay_min == 0 || epoch.delay_min > delay {
            epoch.delay_min = delay;
        }
        if self.parameters.hystart && !self.hystart.found && sk.in_slow_start() {
            let least = epoch.delay_min;
            self.hystart.update(sk, &self.parameters, delay, least);
        }
    }

    /// `cong_avoid`: an ACK advanced, with `acked` packets newly delivered.
    pub fn cong_avoid(&mut self, sk: &mut Sock, acked: u32) {
        if !sk.is_cwnd_limited {
            return;
        }
        let mut acked = acked;
        if sk.in_slow_start() {
            acked = sk.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.update(sk.cwnd, acked, sk.jiffies);
        sk.avoid_congestion(self.epoch.cnt, acked);
    }

    /// `bictcp_update`: computes how fast the window grows.
    fn update(&mut self, cwnd: u32, acked: u32, jiffies: u32) {
        let hz = self.parameters.hz;
        let epoch = &mut self.epoch;
        epoch.ack_cnt = epoch.ack_cnt.wrapping_add(acked);
        // The same window is updated 32 times a second, a changed one once per jiffy.
        let since = jiffies.wrapping_sub(epoch.last_time) as i32;
        if epoch.last_cwnd == cwnd && since <= (hz / 32) as i32 {
            return;
        }
        if epoch.epoch_start == 0 || jiffies != epoch.last_time {
            epoch.last_cwnd = cwnd;
            epoch.last_time = jiffies;
            if epoch.epoch_start == 0 {
                self.begin_epoch(cwnd, acked, jiffies);
            }
            self.follow_curve(cwnd, jiffies);
        }
        if self.parameters.tcp_friendliness {
            self.keep_up_with_reno(cwnd);
        }
        self.epoch.cnt = self.epoch.cnt.max(LEAST_CNT);
    }

    fn begin_epoch(&mut self, cwnd: u32, acked: u32, jiffies: u32) {
        let epoch = &mut self.epoch;
        epoch.epoch_start = jiffies;
        epoch.ack_cnt = acked;
        epoch.tcp_cwnd = cwnd;
        if epoch.last_max_cwnd <= cwnd {
            epoch.bic_k = 0;
            epoch.bic_origin_point = cwnd;
        } else {
            let below = u64::from(epoch.last_max_cwnd - cwnd);
            epoch.bic_k = cubic_root(self.cube_factor.wrapping_mul(below));
            epoch.bic_origin_point = epoch.last_max_cwnd;
        }
    }

    /// `cnt` such that the window is on the curve one minimum RTT from now.
    fn follow_curve(&mut self, cwnd: u32, jiffies: u32) {
        let hz = self.parameters.hz;
        let epoch = &mut self.epoch;
        let age = i64::from(jiffies.wrapping_sub(epoch.epoch_start) as i32) as u64;
        let t = age.wrapping_add(micros_to_jiffies(epoch.delay_min, hz));
        let t = (t << BICTCP_HZ) / u64::from(hz.max(1));
        let k = u64::from(epoch.bic_k);
        let offset = t.abs_diff(k);
        let cube = (self.cube_rtt_scale)
            .wrapping_mul(offset)
            .wrapping_mul(offset)
            .wrapping_mul(offset);
        let delta = (cube >> SCALE_BITS) as u32;
        let target = if t < k {
            epoch.bic_origin_point.wrapping_sub(delta)
        } else {
            epoch.bic_origin_point.wrapping_add(delta)
        };
        epoch.cnt = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            cwnd.wrapping_mul(100)
        };
        if epoch.last_max_cwnd == 0 {
            epoch.cnt = epoch.cnt.min(FIRST_CNT);
        }
    }

    /// Limits `cnt` so that growth is no slower than Reno's with the same share of the window.
    fn keep_up_with_reno(&mut self, cwnd: u32) {
        let epoch = &mut self.epoch;
        let each = cwnd.wrapping_mul(self.beta_scale) >> 3;
        if epoch.ack_cnt > each {
            // As long as more than `each` is left. A product that wraps to zero means nothing.
            let times = (epoch.ack_cnt - 1).checked_div(each).unwrap_or(0);
            epoch.ack_cnt -= times * each;
            epoch.tcp_cwnd = epoch.tcp_cwnd.wrapping_add(times);
        }
        if let Some(cnt) = epoch
            .tcp_cwnd
            .checked_sub(cwnd)
            .and_then(|ahead| cwnd.checked_div(ahead))
        {
            epoch.cnt = epoch.cnt.min(cnt);
        }
    }

    /// The next ACK begins an epoch.
    pub fn forget_epoch(&mut self) {
        self.epoch.epoch_start = 0;
    }

    /// `ssthresh`: the threshold after a congestion event.
    pub fn ssthresh(&mut self, sk: &Sock) -> u32 {
        let beta = self.parameters.beta;
        let epoch = &mut self.epoch;
        epoch.epoch_start = 0;
        epoch.last_max_cwnd = if self.parameters.fast_convergence && sk.cwnd < epoch.last_max_cwnd {
            sk.cwnd.wrapping_mul(BETA_SCALE + beta) / (2 * BETA_SCALE)
        } else {
            sk.cwnd
        };
        (sk.cwnd.wrapping_mul(beta) / BETA_SCALE).max(2)
    }

    /// `set_state(TCP_CA_Loss)`: resets everything, including the minimum RTT, and enables HyStart
    /// again.
    pub fn enter_loss(&mut self, sk: &Sock) {
        self.epoch = Epoch::default();
        self.hystart.found = false;
        self.hystart.begin_round(sk);
    }

    /// `cwnd_event(CA_EVENT_TX_START)`: sending starts with nothing in flight. The epoch excludes
    /// the time in which nothing was sent.
    pub fn tx_start(&mut self, sk: &Sock) {
        let idle = sk.jiffies.wrapping_sub(sk.lsndtime);
        let epoch = &mut self.epoch;
        if epoch.epoch_start != 0 && idle as i32 > 0 {
            epoch.epoch_start = epoch.epoch_start.wrapping_add(idle);
            if (sk.jiffies.wrapping_sub(epoch.epoch_start) as i32) < 0 {
                epoch.epoch_start = sk.jiffies;
            }
        }
    }

    state! {
        /// The fields that a golden trace shows, by Linux's names.
        pub fn visit(&self, sk: &Sock) -> Field {
            cnt: Count = self.epoch.cnt,
            last_max_cwnd: Packets = self.epoch.last_max_cwnd,
            last_cwnd: Packets = self.epoch.last_cwnd,
            last_time: Count = self.epoch.last_time,
            bic_origin_point: Packets = self.epoch.bic_origin_point,
            bic_k: Count = self.epoch.bic_k,
            delay_min: Micros = self.epoch.delay_min,
            epoch_start: Count = self.epoch.epoch_start,
            ack_cnt: Count = self.epoch.ack_cnt,
            tcp_cwnd: Packets = self.epoch.tcp_cwnd,
            hystart: of(HyStart) = |visit| self.hystart.visit(visit),
            cwnd: Packets = sk.cwnd,
            cwnd_cnt: Count = sk.cwnd_cnt,
            ssthresh: Packets = sk.ssthresh,
            prior_cwnd: Packets = sk.prior_cwnd,
        }
    }
}

/// `usecs_to_jiffies`: rounded up.
fn micros_to_jiffies(micros: u32, hz: u32) -> u64 {
    (u64::from(micros) * u64::from(hz)).div_ceil(1_000_000)
}
