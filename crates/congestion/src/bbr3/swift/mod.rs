//! BBR.Swift: BBR that keeps the RTT at a target with Swift's decrease ("BBR Update: BBR.Swift;
//! Scalable Loss Handling", IETF 109). There is no public code, and the description leaves much
//! open: this is a reconstruction, with an option for each open choice
//! (`docs/concepts/bbr-swift.md`).
//!
//! The core is `bbr3`, unchanged. With a target set it would not respond to ECN; `bbr3` never does.

mod parameters;
#[cfg(test)]
mod tests;

use paceline_units::{Bytes, Duration, Gain, Instant, Rate, Value};

use super::{Bbr3, State};
use crate::state::state;
use crate::swift::{self, FlowScaling, excess};
use crate::{Ack, Config, Controller, Described, Ecn, Lost, RecoveryWindow, Sent, Signals};
pub use parameters::Parameters;
use parameters::{ActsOn, Cadence, Pacer, Sample, Signal, TargetRule};

/// The RTT samples of a round.
#[derive(Clone, Copy, Debug)]
struct Samples {
    sum: Duration,
    count: u64,
    min: Duration,
    latest: Duration,
}

impl Samples {
    const NONE: Self = Self {
        sum: Duration::ZERO,
        count: 0,
        min: Duration::MAX,
        latest: Duration::ZERO,
    };

    fn add(&mut self, rtt: Duration) {
        self.sum += rtt;
        self.count += 1;
        self.min = self.min.min(rtt);
        self.latest = rtt;
    }

    fn get(&self, sample: Sample) -> Option<Duration> {
        (self.count > 0).then(|| match sample {
            Sample::Mean => self.sum / self.count,
            Sample::Min => self.min,
            Sample::Latest => self.latest,
        })
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct BbrSwift {
    bbr: Bbr3,
    target_rtt: Duration,
    target_rule: TargetRule,
    boundary_share: Gain,
    /// The RTT at the boundary of marking; none before the first mark.
    boundary: Option<Duration>,
    signal: Signal,
    acts_on: ActsOn,
    cadence: Cadence,
    sample: Sample,
    md_beta: Gain,
    md_max: Gain,
    ai: Gain,
    startup_rounds: u32,
    ends_probe: bool,
    scaling: FlowScaling,
    pacer: Pacer,
    network_rtt: Duration,
    samples: Samples,
    /// Number of consecutive rounds above the target.
    rounds_above: u32,
    /// The factor of the last decrease.
    md: Gain,
    /// The remaining fraction of window and pacing rate, if the decrease lasts, in millionths of
    /// millionths.
    scale: u64,
}

/// The weight of an RTT in the estimated boundary of marking is 1/16, DCTCP's `g` (RFC 8257 4.2).
const BOUNDARY_WEIGHT: u64 = 16;
/// A scale of one.
const WHOLE: u64 = 1_000_000_000_000;

impl BbrSwift {
    /// Makes one.
    pub fn new(config: &Config, parameters: Parameters) -> Self {
        let p = parameters;
        Self {
            bbr: Bbr3::new(config, p.bbr),
            target_rtt: p.target_rtt,
            target_rule: p.target_rule,
            boundary_share: p.boundary_share,
            boundary: None,
            signal: p.signal,
            acts_on: p.acts_on,
            cadence: p.cadence,
            sample: p.sample,
            md_beta: p.md_beta,
            md_max: p.md_max,
            ai: p.ai,
            startup_rounds: p.startup_rounds,
            ends_probe: p.ends_probe,
            scaling: FlowScaling::new(&swift::Parameters {
                fs_range: p.fs_range,
                ..swift::Parameters::default()
            }),
            pacer: p.pacer,
            network_rtt: Duration::ZERO,
            samples: Samples::NONE,
            rounds_above: 0,
            md: Gain::ONE,
            scale: WHOLE,
        }
    }

    /// `target_RTT`, plus the addition of flow scaling for the packets that the estimated bandwidth
    /// keeps in the network.
    fn target(&self) -> Duration {
        let flight = self.bbr.bw.volume_in(self.network_rtt);
        let boundary = self.boundary.map(|rtt| rtt * self.boundary_share);
        boundary.unwrap_or(self.target_rtt) + self.scaling.for_flight(flight, self.bbr.mss)
    }

    /// Moves the boundary of marking towards an RTT on its wrong side.
    fn follow_marks(&mut self, ack: &Ack) {
        let (rtt, marked) = (self.network_rtt, ack.is_marked());
        if self.target_rule == TargetRule::Fixed || (self.boundary.is_none() && !marked) {
            return;
        }
        let boundary = self.boundary.unwrap_or(self.target_rtt);
        let moved = if marked {
            boundary - (boundary - rtt) / BOUNDARY_WEIGHT
        } else {
            boundary + (rtt - boundary) / BOUNDARY_WEIGHT
        };
        self.boundary = Some(moved);
    }

    /// `max(1 - 0.8 (rtt - target) / rtt, 0.5)`.
    fn decrease(&self, rtt: Duration) -> Gain {
        let cut = excess(rtt, self.target(), self.md_beta, self.md_max);
        Gain::from_millionths(Gain::SCALE - cut.millionths().min(Gain::SCALE))
    }

    fn apply_signal(&mut self, ack: &Ack) {
        let round = self.bbr.round_start;
        let due = match self.cadence {
            Cadence::Ack => Some(self.network_rtt),
            Cadence::Round if round => self.samples.get(self.sample),
            Cadence::Round => None,
        };
        if round {
            let above = self
                .samples
                .get(self.sample)
                .is_some_and(|rtt| rtt > self.target());
            self.samples = Samples::NONE;
            self.rounds_above = if above {
                self.rounds_above.saturating_add(1)
            } else {
                0
            };
            self.leave_startup();
            if above && self.ends_probe && self.bbr.state == State::Up {
                self.bbr.start_probe_bw_down(ack.now);
            }
        }
        if let Some(rtt) = due {
            self.md = self.decrease(rtt);
            if self.md < Gain::ONE {
                self.multiply();
            } else {
                self.grow(rtt);
            }
        }
        if matches!(self.acts_on, ActsOn::Output | ActsOn::Stored) {
            // BBR recomputes the rate on each ACK, and so does this.
            self.md = self.decrease(self.network_rtt);
        }
    }

    /// Excess delay for some rounds ends Startup, as high loss does.
    fn leave_startup(&mut self) {
        if self.bbr.state == State::Startup
            && self.startup_rounds > 0
            && self.rounds_above >= self.startup_rounds
        {
            self.bbr.full_bw_now = true;
            self.bbr.full_bw_reached = true;
            self.bbr.enter_drain();
        }
    }

    fn multiply(&mut self) {
        match self.acts_on {
            ActsOn::Scale => self.scale = self.md.scale(self.scale).max(1),
            ActsOn::Bounds => {
                // Not bounded from below by the delivered data, unlike the response to loss: a flow
                // with less than one packet in flight cannot measure less than one packet per round
                // trip.
                let bbr = &mut self.bbr;
                bbr.bw_shortterm = (bbr.bw * self.md).max(Rate::from_bps(1));
                bbr.inflight_shortterm = bbr.inflight_shortterm.min(bbr.cwnd) * self.md;
                bbr.bound_bw_for_model();
                bbr.set_pacing_rate(bbr.pacing_gain);
                bbr.bound_cwnd_for_model();
            }
            // Rate and window are multiplied where they are read.
            ActsOn::Output => {}
            ActsOn::Stored => {
                self.bbr.cwnd = (self.bbr.cwnd * self.md).max(self.bbr.min_pipe_cwnd())
            }
        }
    }

    /// Below the target the factor grows back by `ai` packets per round trip at each decision, so
    /// that small flows gain on large ones.
    fn grow(&mut self, rtt: Duration) {
        if self.acts_on != ActsOn::Scale || self.scale == WHOLE {
            return;
        }
        let bdp = self.bbr.bw.volume_in(rtt).get().max(1);
        let packets = u128::from(self.ai.millionths()) * u128::from(self.bbr.mss);
        let step = packets * u128::from(WHOLE / u64::from(Gain::SCALE)) / u128::from(bdp);
        let step = u64::try_from(step).unwrap_or(WHOLE);
        self.scale = self.scale.saturating_add(step).min(WHOLE);
    }

    fn scaled(&self, value: u64) -> u64 {
        let scaled = u128::from(value) * u128::from(self.scale) / u128::from(WHOLE);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// The scale, for display.
    fn shown_scale(&self) -> Gain {
        let scale = u32::try_from(self.scale / u64::from(Gain::SCALE)).unwrap_or(Gain::SCALE);
        Gain::from_millionths(scale)
    }
}

impl Described for BbrSwift {
    type Parameters = Parameters;
    const NAME: &'static str = "bbr-swift";
    const SUMMARY: &'static str =
        "BBRv3 that keeps the network's round trip to a target (a reconstruction)";
    const SOURCE: &'static str = "BBR.Swift, IETF 109";
    const PHASES: &'static [&'static str] = <Bbr3 as Described>::PHASES;
    const MAX_SIZE: usize = 752;

    fn needs(parameters: &Self::Parameters) -> Signals {
        Signals {
            marks: parameters.target_rule == TargetRule::Marks,
            pacing: true,
            ..Signals::NONE
        }
    }
}

impl Controller for BbrSwift {
    fn on_send(&mut self, sent: &Sent) {
        self.bbr.on_send(sent);
    }

    fn hears_each_send(&self) -> bool {
        self.bbr.hears_each_send()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.bbr.on_ack(ack);
        if self.target_rtt == Duration::ZERO || !ack.sample.has_data {
            return;
        }
        if let Some(rtt) = ack.network_rtt {
            self.network_rtt = match self.signal {
                Signal::Network => rtt,
                Signal::Total => rtt + ack.receiver_delay.unwrap_or(Duration::ZERO),
            };
            self.follow_marks(ack);
            self.samples.add(self.network_rtt);
            self.apply_signal(ack);
        }
    }

    fn on_loss(&mut self, loss: &Lost) {
        self.bbr.on_loss(loss);
    }

    fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes) {
        self.bbr.on_recovery_enter(now, in_flight);
    }

    fn on_recovery_exit(&mut self, now: Instant) {
        self.bbr.on_recovery_exit(now);
    }

    fn on_timeout(&mut self, now: Instant, in_flight: Bytes) {
        self.bbr.on_timeout(now, in_flight);
    }

    fn on_spurious(&mut self, now: Instant, delivered: Bytes) {
        self.bbr.on_spurious(now, delivered);
    }

    fn on_mss(&mut self, mss: u32) {
        self.bbr.on_mss(mss);
    }

    /// It may fall below one packet; pacing then limits the rate.
    fn cwnd(&self) -> Bytes {
        match self.acts_on {
            ActsOn::Scale => Bytes::new(self.scaled(self.bbr.cwnd.get())).max(Bytes::new(1)),
            ActsOn::Output => (self.bbr.cwnd * self.md).max(self.bbr.smss()),
            ActsOn::Bounds | ActsOn::Stored => self.bbr.cwnd,
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = self.bbr.pacing_rate;
        Some(match self.acts_on {
            ActsOn::Scale => Rate::from_bps(self.scaled(rate.bps())).max(Rate::from_bps(1)),
            ActsOn::Output | ActsOn::Stored => (rate * self.md).max(Rate::from_bps(1)),
            ActsOn::Bounds => rate,
        })
    }

    fn send_quantum(&self) -> Bytes {
        self.bbr.send_quantum()
    }

    fn recovery_window(&self) -> RecoveryWindow {
        RecoveryWindow::Controller
    }

    fn marks_app_limited(&self) -> bool {
        self.bbr.marks_app_limited()
    }

    fn pacer_below(&self) -> bool {
        self.target_rtt > Duration::ZERO && self.pacer == Pacer::Below
    }

    fn ecn(&self) -> Ecn {
        match self.target_rule {
            TargetRule::Fixed => self.bbr.ecn(),
            TargetRule::Marks => Ecn::Ect0,
        }
    }

    fn phase(&self) -> &'static str {
        self.bbr.phase()
    }

    state! {
        fn visit_state(&self) -> Value {
            bbr: of(Bbr3) = |visit| self.bbr.visit_state(visit),
            network_rtt: Duration = self.network_rtt,
            md: Gain = self.md,
            scale: Gain = self.shown_scale(),
        }
    }
}
