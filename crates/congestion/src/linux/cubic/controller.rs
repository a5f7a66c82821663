//! Linux's CUBIC as a [`Controller`]: the transport's calls become the events of Linux's
//! congestion-control interface, and this code replaces Linux's surrounding stack (`tcp_input.c`).

use paceline_units::{Bytes, Duration, Instant, Rate, Visitor};

use super::{Core, INFINITE_SSTHRESH, Parameters, Sock};
use crate::linux::Field;
use crate::linux::adapter::{micros, micros_at, part, value, whole};
use crate::linux::arithmetic::{MAX_BURST, burst};
use crate::window::{EcnGate, Phase};
use crate::{Ack, CaState, Config, Controller, Cue, Described, Ecn, Lost, Sent, Signals};

/// Percent of `cwnd / srtt` at which the stack paces in slow start and above
/// (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const PACING_SS_RATIO: u128 = 200;
const PACING_CA_RATIO: u128 = 120;
/// The minimum limit of an unpaced burst.
const MAX_QUANTUM: Bytes = Bytes::new(64 * 1024);

/// The controller `cubic-linux`.
///
/// A packet is one MSS of data. Sequence numbers count transmissions: delivered or lost data is
/// acknowledged. The transport applies proportional rate reduction.
#[derive(Clone, Debug)]
pub struct Cubic {
    core: Core,
    sk: Sock,
    mss: u32,
    hz: u32,
    /// The initial window, to which a pause reduces it (`tcp_init_cwnd`).
    initial: u32,
    ca_state: CaState,
    /// `prior_ssthresh` of the last episode, until it is undone.
    undo: Option<u32>,
    /// The timer has fired and the cumulative ACK has not moved since (`icsk_retransmits`).
    timeout_outstanding: bool,
    /// Whether marks are requested.
    ecn: bool,
    ecn_gate: EcnGate,
    srtt: Duration,
    in_flight: Bytes,
}

impl Cubic {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        let mss = config.mss.max(1);
        let hz = parameters.hz.max(1);
        let mut sk = Sock {
            now: micros_at(config.now) as u32,
            jiffies: jiffies(config.now, hz),
            lsndtime: jiffies(config.now, hz),
            cwnd: whole(config.initial_window, mss).max(1),
            ssthresh: INFINITE_SSTHRESH,
            is_paced: parameters.pacing,
            ..Sock::default()
        };
        let mut cubic = Self {
            core: Core::new(&mut sk, parameters),
            sk,
            mss,
            hz,
            initial: sk.cwnd,
            ca_state: CaState::Open,
            undo: None,
            timeout_outstanding: false,
            ecn: parameters.ecn,
            ecn_gate: EcnGate::default(),
            srtt: config.srtt.unwrap_or(Duration::ZERO),
            in_flight: Bytes::ZERO,
        };
        cubic.update_pacing_rate();
        cubic
    }

    fn at(&mut self, now: Instant) {
        self.sk.now = micros_at(now) as u32;
        self.sk.jiffies = jiffies(now, self.hz);
    }

    /// The current sequence numbers.
    fn set_unresolved(&mut self, in_flight: Bytes) {
        self.sk.snd_una = self.sk.snd_nxt.wrapping_sub(in_flight.get() as u32);
    }

    /// `tcp_current_ssthresh`, outside of recovery.
    fn current_ssthresh(&self) -> u32 {
        self.sk.ssthresh.max(self.sk.cwnd / 2 + self.sk.cwnd / 4)
    }

    /// A reduction that can be undone begins (`tcp_init_undo`).
    fn reduce(&mut self) {
        self.undo = Some(self.current_ssthresh());
        let ssthresh = self.core.ssthresh(&self.sk);
        self.sk.begin_reduction(ssthresh);
        self.ecn_gate.on_loss_event();
    }

    /// `tcp_update_pacing_rate`.
    fn update_pacing_rate(&mut self) {
        let ratio = if self.sk.cwnd < self.sk.ssthresh / 2 {
            PACING_SS_RATIO
        } else {
            PACING_CA_RATIO
        };
        let window = self.sk.cwnd.max(part(self.in_flight, self.mss));
        let nanos = u128::from(self.srtt.as_nanos());
        // Without an RTT sample Linux skips the division, as if the RTT were an eighth of a
        // microsecond.
        let rate = u128::from(self.mss) * u128::from(window) * ratio * 10_000_000;
        let rate = rate / if nanos == 0 { 125 } else { nanos };
        self.sk.pacing_rate = u64::try_from(rate).unwrap_or(u64::MAX);
    }

    fn packets(&self, packets: u32) -> Bytes {
        Bytes::new(u64::from(packets) * u64::from(self.mss))
    }
}

impl Described for Cubic {
    type Parameters = Parameters;
    const NAME: &'static str = "cubic-linux";
    const SUMMARY: &'static str = "CUBIC with HyStart, as in mainline Linux";
    const SOURCE: &'static str = "Linux net/ipv4/tcp_cubic.c";
    const PHASES: &'static [&'static str] = Phase::WITHOUT_CSS;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: parameters.ecn,
            pacing: parameters.pacing,
            ..Signals::NONE
        }
    }
}

impl Controller for Cubic {
    fn on_send(&mut self, sent: &Sent) {
        self.at(sent.now);
        if sent.in_flight == Bytes::ZERO {
            self.core.tx_start(&self.sk);
        }
        self.sk.lsndtime = self.sk.jiffies;
        self.sk.snd_nxt = self.sk.snd_nxt.wrapping_add(sent.size);
    }

    fn follow(&mut self, cue: Cue) {
        if let Cue::SlowStartEnd(window) = cue {
            self.sk.cwnd = part(window, self.mss).max(2);
            self.sk.ssthresh = self.sk.cwnd;
            self.core.forget_epoch();
        }
    }

    /// `tcp_cwnd_restart`: the stack halves the window once for each timeout of the pause.
    fn on_idle_restart(&mut self, _now: Instant) {
        if !self.ca_state.is_reducing() {
            self.sk.ssthresh = self.current_ssthresh();
        }
        self.sk.cwnd = (self.sk.cwnd / 2).max(self.initial.min(self.sk.cwnd));
    }

    fn on_loss(&mut self, loss: &Lost) {
        self.set_unresolved(loss.in_flight);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.at(ack.now);
        self.sk.snd_nxt = ack.sent.get() as u32;
        self.set_unresolved(ack.in_flight);
        self.ca_state = ack.ca_state;
        if ack.una_advanced {
            self.timeout_outstanding = false;
        }
        if let Some(rtt) = ack.rtt {
            let cwnd = self.sk.cwnd;
            if ack.ca_state == CaState::Recovery {
                // The amount that proportional rate reduction allows: if that is below the
                // threshold, HyStart runs, and may lower it.
                self.sk.cwnd = part(ack.prior_in_flight, self.mss);
            }
            self.core.pkts_acked(&mut self.sk, micros(rtt));
            self.sk.cwnd = cwnd;
        }
        if self.ecn && self.ecn_gate.on_ack(ack) {
            let ssthresh = self.core.ssthresh(&self.sk);
            self.sk.begin_reduction(ssthresh);
            self.sk.cwnd = ssthresh;
            // The network itself reported it: nothing about it is spurious.
            self.undo = None;
        } else if ack.una_advanced && !ack.ca_state.is_reducing() {
            self.sk.is_cwnd_limited = ack.cwnd_limited;
            let before = whole(ack.delivered - ack.newly_acked, self.mss);
            let acked = whole(ack.delivered, self.mss).wrapping_sub(before);
            self.core.cong_avoid(&mut self.sk, acked);
        }
        if ack.srtt > Duration::ZERO {
            self.srtt = ack.srtt;
        }
        self.in_flight = ack.in_flight;
        self.update_pacing_rate();
    }

    /// `tcp_enter_recovery`. The transport reduces to the window after this call
    /// (`tcp_end_cwnd_reduction`).
    fn on_recovery_enter(&mut self, now: Instant, _in_flight: Bytes) {
        self.at(now);
        self.reduce();
        self.sk.cwnd = self.sk.ssthresh;
        self.ca_state = CaState::Recovery;
    }

    /// Not the kernel's: it reduces the window of the moment, as [`Self::on_recovery_enter`] does.
    fn on_recovery_again(&mut self, now: Instant, in_flight: Bytes, outstanding: Bytes) {
        let threshold = self.sk.ssthresh;
        self.on_recovery_enter(now, in_flight);
        let least = threshold.min(part(outstanding, self.mss) / 2);
        self.sk.ssthresh = self.sk.ssthresh.max(least);
        self.sk.cwnd = self.sk.cwnd.max(least);
    }

    fn on_recovery_exit(&mut self, _now: Instant) {
        if self.ca_state == CaState::Recovery && self.undo.is_some() {
            self.sk.cwnd = self.sk.cwnd.min(self.sk.ssthresh);
        }
        self.ca_state = CaState::Open;
    }

    /// `tcp_enter_loss`.
    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        self.at(now);
        // Once per episode, and again if it has made progress.
        let again = core::mem::replace(&mut self.timeout_outstanding, true);
        let reduced = match self.ca_state {
            CaState::Recovery | CaState::Cwr => true,
            CaState::Loss => again,
            _ => false,
        };
        if !reduced {
            self.reduce();
        }
        self.sk.cwnd = part(in_flight, self.mss).saturating_add(1);
        self.sk.cwnd_cnt = 0;
        self.core.enter_loss(&self.sk);
        self.ca_state = CaState::Loss;
    }

    /// `tcp_undo_cwnd_reduction`.
    fn on_spurious(&mut self, _now: Instant, _delivered: Bytes) {
        if let Some(prior_ssthresh) = self.undo.take() {
            self.sk.cwnd = self.sk.undo_cwnd();
            self.sk.ssthresh = self.sk.ssthresh.max(prior_ssthresh);
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
    }

    fn cwnd(&self) -> Bytes {
        self.packets(self.sk.cwnd)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        (self.sk.is_paced && self.srtt > Duration::ZERO)
            .then(|| Rate::from_bps(self.sk.pacing_rate.saturating_mul(8)))
    }

    fn send_quantum(&self) -> Bytes {
        if self.pacing_rate().is_none() {
            return self.cwnd().max(MAX_QUANTUM);
        }
        // At least two packets (tcp_min_tso_segs).
        let bytes = Bytes::new(burst(self.sk.pacing_rate).min(MAX_BURST));
        let packets = whole(bytes, self.mss).max(2);
        self.packets(packets)
    }

    fn ssthresh(&self) -> Option<Bytes> {
        Some(match self.sk.ssthresh {
            INFINITE_SSTHRESH.. => Bytes::INFINITE,
            packets => self.packets(packets),
        })
    }

    fn ecn(&self) -> Ecn {
        if self.ecn { Ecn::Ect0 } else { Ecn::NotEct }
    }

    fn phase(&self) -> &'static str {
        Phase::of(self.ca_state, self.sk.in_slow_start()).word()
    }

    fn visit_fields(visit: &mut dyn FnMut(paceline_units::Field)) {
        Core::visit_fields(visit);
    }

    fn visit_state(&self, visit: &mut Visitor<'_>) {
        self.core.visit(&self.sk, &mut |name, field| {
            let field = match field {
                Field::Packets(INFINITE_SSTHRESH..) => Field::Packets(u32::MAX),
                other => other,
            };
            visit.show(name, value(field, self.mss));
        });
    }
}

/// Jiffies at a given time. The machine has been up for a second at time zero, because zero means
/// "none".
fn jiffies(now: Instant, hz: u32) -> u32 {
    let ticks = u128::from(now.as_nanos()) * u128::from(hz) / u128::from(Duration::NANOS_PER_SEC);
    (ticks as u32).wrapping_add(hz)
}
