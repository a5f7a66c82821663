//! CUBIC with HyStart, as in mainline Linux (`net/ipv4/tcp_cubic.c`).
//!
//! The [`Core`] counts in packets, microseconds and jiffies and acts on a
//! [`Sock`]; [`Cubic`] makes a [`Controller`](crate::Controller) of it. Next to
//! [`crate::cubic`] (RFC 9438): HyStart in place of HyStart++, a floor of 5 % a
//! round until the first loss, Reno's share without RFC 9438 4.3's `alpha = 1`,
//! the minimum RTT in place of the smoothed one in the target, whole packets.

mod controller;
mod hystart;
mod parameters;
mod root;
#[cfg(test)]
mod tests;

pub use controller::Cubic;
use hystart::HyStart;
pub use parameters::{Detect, Parameters};
use root::cubic_root;

use super::Field;
use super::arithmetic::UNSET;

/// No threshold (`TCP_INFINITE_SSTHRESH`).
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// `BICTCP_BETA_SCALE`.
const BETA_SCALE: u32 = 1024;
/// log2 of the units of `bic_k` in a second (`BICTCP_HZ`).
const BICTCP_HZ: u32 = 10;
/// Bits of fraction in the cubic function: of its factor, and of its time cubed.
const SCALE_BITS: u32 = 10 + 3 * BICTCP_HZ;
/// `cnt` at most, until a loss has shown the path's limit: 5 % a round.
const FIRST_CNT: u32 = 20;
/// `cnt` at least: 50 % a round.
const LEAST_CNT: u32 = 2;

/// The fields of Linux's socket that CUBIC reads and writes.
///
/// Counts are in packets and wrap at 2^32.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sock {
    /// The time in microseconds, modulo 2^32 (`tcp_mstamp`).
    pub now: u32,
    /// The time in ticks of the kernel's clock (`tcp_jiffies32`).
    pub jiffies: u32,
    /// When data was last sent, in jiffies (`lsndtime`).
    pub lsndtime: u32,
    /// Congestion window (`snd_cwnd`).
    pub cwnd: u32,
    /// Packets acknowledged towards the next growth of the window (`snd_cwnd_cnt`).
    pub cwnd_cnt: u32,
    /// Slow-start threshold (`snd_ssthresh`).
    pub ssthresh: u32,
    /// The window before the last reduction (`prior_cwnd`).
    pub prior_cwnd: u32,
    /// What is acknowledged, a sequence number (`snd_una`).
    pub snd_una: u32,
    /// What is sent, a sequence number (`snd_nxt`).
    pub snd_nxt: u32,
    /// Bytes per second at which the stack would pace (`sk_pacing_rate`).
    pub pacing_rate: u64,
    /// Whether something paces at it (`sk_pacing_status`).
    pub is_paced: bool,
    /// Whether the window limits the sender (`tcp_is_cwnd_limited`).
    pub is_cwnd_limited: bool,
}

impl Sock {
    /// `tcp_in_slow_start`.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The stack reduces the window: `ssthresh` is what the algorithm has asked for
    /// (`tcp_init_cwnd_reduction`, `tcp_enter_loss`).
    pub fn begin_reduction(&mut self, ssthresh: u32) {
        self.prior_cwnd = self.cwnd;
        self.ssthresh = ssthresh;
        self.cwnd_cnt = 0;
    }

    /// The window after a reduction that was spurious (`tcp_reno_undo_cwnd`).
    pub fn undo_cwnd(&self) -> u32 {
        self.cwnd.max(self.prior_cwnd)
    }

    /// Slow start; gives the packets that are left to congestion avoidance (`tcp_slow_start`).
    fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// One packet more for each `cnt` acknowledged (`tcp_cong_avoid_ai`).
    fn avoid_congestion(&mut self, cnt: u32, acked: u32) {
        let cnt = cnt.max(1);
        // Credit gathered while growth was slower counts for one packet, not for more.
        if self.cwnd_cnt >= cnt {
            self.cwnd_cnt = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.cwnd_cnt = self.cwnd_cnt.saturating_add(acked);
        let growth = self.cwnd_cnt / cnt;
        self.cwnd_cnt -= growth * cnt;
        self.cwnd = self.cwnd.saturating_add(growth);
    }
}

/// `struct bictcp`, less what [`HyStart`] has of it.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// The window grows by one packet for each so many acknowledged.
    cnt: u32,
    /// Where the plateau is; zero until a loss has told it.
    last_max_cwnd: u32,
    /// The window at the last update, and its time in jiffies.
    last_cwnd: u32,
    last_time: u32,
    /// The plateau of this epoch.
    bic_origin_point: u32,
    /// The time to it from the start of the epoch, in 1024ths of a second.
    bic_k: u32,
    /// Least RTT in microseconds; zero before the first.
    delay_min: u32,
    /// Start of the epoch in jiffies; zero before its first ACK.
    epoch_start: u32,
    /// Packets acknowledged that `tcp_cwnd` has not grown by.
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

    /// `pkts_acked`: an ACK told an RTT, in microseconds; before the window grows on it.
    pub fn pkts_acked(&mut self, sk: &mut Sock, rtt_us: u32) {
        let epoch = &mut self.epoch;
        // The first second of an epoch still sees the queue that ended the one before.
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

    /// `bictcp_update`: how fast the window is to grow.
    fn update(&mut self, cwnd: u32, acked: u32, jiffies: u32) {
        let hz = self.parameters.hz;
        let epoch = &mut self.epoch;
        epoch.ack_cnt = epoch.ack_cnt.wrapping_add(acked);
        // The same window is looked at 32 times a second, another one once a jiffy.
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

    /// `cnt` such that the window is on the curve one least RTT from now.
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

    /// `cnt` no slower than Reno's with the same share of the window.
    fn keep_up_with_reno(&mut self, cwnd: u32) {
        let epoch = &mut self.epoch;
        let each = cwnd.wrapping_mul(self.beta_scale) >> 3;
        if epoch.ack_cnt > each {
            // As long as more than `each` is left. A product that wraps to zero says nothing.
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

    /// `set_state(TCP_CA_Loss)`: all is forgotten, the least RTT too, and HyStart guards again.
    pub fn enter_loss(&mut self, sk: &Sock) {
        self.epoch = Epoch::default();
        self.hystart.found = false;
        self.hystart.begin_round(sk);
    }

    /// `cwnd_event(CA_EVENT_TX_START)`: sending starts with nothing in flight. The epoch does not
    /// count the time in which nothing was sent.
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

    /// Every field that a golden trace shows, by Linux's names.
    pub fn visit(&self, sk: &Sock, visit: &mut dyn FnMut(&'static str, Field)) {
        let Epoch {
            cnt,
            last_max_cwnd,
            last_cwnd,
            last_time,
            bic_origin_point,
            bic_k,
            delay_min,
            epoch_start,
            ack_cnt,
            tcp_cwnd,
        } = self.epoch;
        visit("cnt", Field::Count(cnt));
        visit("last_max_cwnd", Field::Packets(last_max_cwnd));
        visit("last_cwnd", Field::Packets(last_cwnd));
        visit("last_time", Field::Count(last_time));
        visit("bic_origin_point", Field::Packets(bic_origin_point));
        visit("bic_k", Field::Count(bic_k));
        visit("delay_min", Field::Micros(delay_min));
        visit("epoch_start", Field::Count(epoch_start));
        visit("ack_cnt", Field::Count(ack_cnt));
        visit("tcp_cwnd", Field::Packets(tcp_cwnd));
        self.hystart.visit(visit);
        visit("cwnd", Field::Packets(sk.cwnd));
        visit("cwnd_cnt", Field::Count(sk.cwnd_cnt));
        visit("ssthresh", Field::Packets(sk.ssthresh));
        visit("prior_cwnd", Field::Packets(sk.prior_cwnd));
    }
}

/// `usecs_to_jiffies`: rounded up.
fn micros_to_jiffies(micros: u32, hz: u32) -> u64 {
    (u64::from(micros) * u64::from(hz)).div_ceil(1_000_000)
}
