//! Swift: delay compared with a target, in the fabric and at the hosts ("Swift: Delay is Simple and
//! Effective for Congestion Control in the Datacenter", SIGCOMM 2020, algorithms 1 and 2 and
//! section 3).
//!
//! Windows are in packets with a fraction, and may be below one: then pacing sends one packet every
//! `rtt / cwnd`. All arithmetic is in integers.

mod parameters;
mod target;
#[cfg(test)]
mod tests;

use paceline_units::{Bytes, Duration, Gain, Instant, Rate, Value};

use crate::options::{Choice as _, choice};
use crate::state::state;
use crate::{Ack, Config, Controller, Described, RecoveryWindow, Signals};
pub use parameters::Parameters;
pub(crate) use target::FlowScaling;

/// Bits of fraction in a window in packets.
const BITS: u32 = 20;
/// A window of one packet.
const ONE: u64 = 1 << BITS;

/// One of the two windows (algorithm 1): each has its own delay, target and time of decrease.
#[derive(Clone, Copy, Debug)]
struct DelayWindow {
    /// In packets, with [`BITS`] of fraction.
    cwnd: u64,
    last_decrease: Option<Instant>,
}

impl DelayWindow {
    fn can_decrease(&self, now: Instant, rtt: Duration) -> bool {
        self.last_decrease.is_none_or(|last| now.since(last) >= rtt)
    }

    /// Multiplies by `1 - cut` if the last decrease was at least a round trip ago. Only a change
    /// that makes the window smaller counts as a decrease: a decrease at the floor or the ceiling
    /// does not delay the next one.
    fn decrease(&mut self, now: Instant, rtt: Duration, cut: Gain, p: &Parameters) {
        if !self.can_decrease(now, rtt) {
            return;
        }
        let kept = Gain::from_millionths(Gain::SCALE.saturating_sub(cut.millionths()));
        let reduced = p.clamp(kept.scale(self.cwnd));
        if reduced < self.cwnd {
            self.cwnd = reduced;
            self.last_decrease = Some(now);
        }
    }

    /// Algorithm 1, on an ACK of `acked` packets (with fraction).
    fn on_ack(
        &mut self,
        now: Instant,
        rtt: Duration,
        delay: Duration,
        target: Duration,
        acked: u64,
        p: &Parameters,
    ) {
        if delay < target {
            let added = u128::from(p.ai.scale(acked));
            // Above one packet, the ACKs of a whole window add ai; below, each ACK does.
            let added = if self.cwnd >= ONE {
                (added << BITS) / u128::from(self.cwnd)
            } else {
                added
            };
            let added = u64::try_from(added).unwrap_or(u64::MAX);
            self.cwnd = p.clamp(self.cwnd.saturating_add(added));
        } else {
            self.decrease(now, rtt, excess(delay, target, p.beta, p.max_mdf), p);
        }
    }
}

/// `beta * (delay - target) / delay`, at most `most`.
pub(crate) fn excess(delay: Duration, target: Duration, beta: Gain, most: Gain) -> Gain {
    let over = u128::from((delay - target).as_nanos()) * u128::from(beta.millionths());
    let cut = over.checked_div(u128::from(delay.as_nanos())).unwrap_or(0);
    Gain::from_millionths(u32::try_from(cut).unwrap_or(u32::MAX)).min(most)
}

choice! {
    /// The mechanism that releases packets.
    enum Phase {
        /// The window, if it is one packet or more.
        Window = "Window",
        /// The pacer, below that.
        Paced = "Paced",
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Swift {
    parameters: Parameters,
    scaling: FlowScaling,
    mss: u32,
    /// `fcwnd`, from the delay of the fabric.
    fabric: DelayWindow,
    /// `ecwnd`, from the delay of the hosts.
    endpoint: DelayWindow,
    /// `retransmit_cnt`: timeouts since the last ACK.
    timeouts: u32,
    rtt: Duration,
    fabric_delay: Duration,
    /// Smoothed.
    endpoint_delay: Option<Duration>,
}

impl Swift {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        let mss = config.mss.max(1);
        let packets = (u128::from(config.initial_window.get()) << BITS) / u128::from(mss);
        let window = DelayWindow {
            cwnd: parameters.clamp(u64::try_from(packets).unwrap_or(u64::MAX)),
            last_decrease: None,
        };
        Self {
            scaling: FlowScaling::new(&parameters),
            parameters,
            mss,
            fabric: window,
            endpoint: window,
            timeouts: 0,
            rtt: config.srtt.unwrap_or(Duration::ZERO),
            fabric_delay: Duration::ZERO,
            endpoint_delay: None,
        }
    }

    /// The current window, in packets with fraction. The hosts' window applies once their delay is
    /// known.
    fn window(&self) -> u64 {
        match self.endpoint_delay {
            Some(_) => self.fabric.cwnd.min(self.endpoint.cwnd),
            None => self.fabric.cwnd,
        }
    }

    /// The target of the fabric's delay (section 3.5): topology, then flow scaling.
    fn fabric_target(&self) -> Duration {
        let p = &self.parameters;
        p.base_target + p.hop_delay * u64::from(p.hops) + self.scaling.extra(self.fabric.cwnd)
    }

    /// A loss reduces both windows, because it does not say where it happened.
    fn cut(&mut self, now: Instant) {
        let p = &self.parameters;
        self.fabric.decrease(now, self.rtt, p.max_mdf, p);
        self.endpoint.decrease(now, self.rtt, p.max_mdf, p);
    }

    /// A window in 2^-BITS packets, as bytes.
    fn packets(&self, cwnd: u64) -> Bytes {
        let bytes = (u128::from(cwnd) * u128::from(self.mss)) >> BITS;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl Described for Swift {
    type Parameters = Parameters;
    const NAME: &'static str = "swift";
    const SUMMARY: &'static str =
        "Delays of fabric and hosts against their targets, with windows below a packet";
    const SOURCE: &'static str = "Swift, SIGCOMM 2020";
    const PHASES: &'static [&'static str] = Phase::WORDS;

    fn needs(_parameters: &Self::Parameters) -> Signals {
        Signals {
            pacing: true,
            ..Signals::NONE
        }
    }
}

impl Controller for Swift {
    fn hears_each_send(&self) -> bool {
        false
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.newly_acked > Bytes::ZERO {
            self.timeouts = 0;
        }
        // Section 3.1: the delay of the receiver's host is not the fabric's. If hosts report it, an
        // ACK without a report gives no sample.
        let Some(network) = ack.network_rtt else {
            return;
        };
        let endpoint = ack.receiver_delay.unwrap_or(Duration::ZERO);
        let rtt = network + endpoint;
        self.rtt = rtt;
        let acked = (u128::from(ack.newly_acked.get()) << BITS) / u128::from(self.mss);
        let acked = u64::try_from(acked).unwrap_or(u64::MAX);
        self.fabric_delay = network;
        let target = self.fabric_target();
        let p = &self.parameters;
        self.fabric
            .on_ack(ack.now, rtt, self.fabric_delay, target, acked, p);
        if ack.receiver_delay.is_some() {
            let smooth = match self.endpoint_delay {
                None => endpoint,
                Some(old) => {
                    let weight = p.endpoint_ewma;
                    let kept =
                        Gain::from_millionths(Gain::SCALE.saturating_sub(weight.millionths()));
                    old * kept + endpoint * weight
                }
            };
            self.endpoint_delay = Some(smooth);
            self.endpoint
                .on_ack(ack.now, rtt, smooth, p.endpoint_target, acked, p);
        }
    }

    /// Fast recovery (algorithm 1).
    fn on_recovery_enter(&mut self, now: Instant, _in_flight: Bytes) {
        self.timeouts = 0;
        self.cut(now);
    }

    /// A timeout (algorithm 1): several without an ACK in between reset the window.
    fn on_timeout(&mut self, now: Instant, _in_flight: Bytes) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= self.parameters.retx_reset {
            let least = self.parameters.clamp(0);
            self.fabric.cwnd = least;
            self.endpoint.cwnd = least;
        } else {
            self.cut(now);
        }
    }

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
    }

    /// It may be less than one packet; pacing then limits the rate.
    fn cwnd(&self) -> Bytes {
        let bytes = (u128::from(self.window()) * u128::from(self.mss)) >> BITS;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)).max(Bytes::new(1))
    }

    /// Below one packet, one every `rtt / cwnd`; above, the ACK clock.
    fn pacing_rate(&self) -> Option<Rate> {
        if self.window() >= ONE || self.rtt == Duration::ZERO {
            return None;
        }
        let bits = u128::from(self.window()) * u128::from(self.mss) * 8_000_000_000;
        let bps = (bits >> BITS) / u128::from(self.rtt.as_nanos());
        Some(Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)).max(Rate::from_bps(1)))
    }

    fn send_quantum(&self) -> Bytes {
        let least = Bytes::new(u64::from(self.mss));
        if self.window() < ONE {
            least
        } else {
            self.cwnd().max(least)
        }
    }

    fn recovery_window(&self) -> RecoveryWindow {
        RecoveryWindow::Controller
    }

    fn phase(&self) -> &'static str {
        if self.window() < ONE {
            Phase::Paced.word()
        } else {
            Phase::Window.word()
        }
    }

    state! {
        fn visit_state(&self) -> Value {
            fcwnd: Bytes = self.packets(self.fabric.cwnd),
            ecwnd: Bytes = self.packets(self.endpoint.cwnd),
            fabric_delay: Duration = self.fabric_delay,
            fabric_target: Duration = self.fabric_target(),
            endpoint_delay: Duration = self.endpoint_delay.unwrap_or(Duration::MAX),
            retransmit_cnt: Count = self.timeouts.into(),
        }
    }
}
