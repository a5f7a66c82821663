//! Code that Reno and CUBIC share: slow start, the floors of the window, the undo of a spurious
//! episode, the ECN gate, pacing.

use paceline_units::{Bytes, Duration, Gain, Rate, Value};

use crate::hystart::HyStart;
use crate::options::choice;
use crate::slowdown::{Shared, SharedSlowdown};
use crate::state::state;
use crate::{Ack, CaState, Config, Ecn};

/// RFC 9406 section 4.3: `L` of a sender that does not pace; one that paces has no limit.
const HYSTART_L: u64 = 8;
const HALF: Gain = Gain::from_millionths(500_000);
const THREE_QUARTERS: Gain = Gain::from_millionths(750_000);
/// The value of `abc_limit` with which there is none.
pub(crate) const NO_LIMIT: u32 = 1_000_000;
/// Linux `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`.
const PACING_SS_RATIO: Gain = Gain::from_millionths(2_000_000);
const PACING_CA_RATIO: Gain = Gain::from_millionths(1_200_000);
/// The maximum size of one paced burst; the minimum limit of an unpaced one.
const MAX_QUANTUM: Bytes = Bytes::new(64 * 1024);

/// The rate at which Linux paces a window, if configured to (`tcp_update_pacing_rate`); it also
/// sizes the bursts of a flow that is not paced by it.
pub fn window_rate(cwnd: Bytes, ssthresh: Bytes, in_flight: Bytes, srtt: Duration) -> Rate {
    let ratio = if cwnd.get() < ssthresh.get() / 2 {
        PACING_SS_RATIO
    } else {
        PACING_CA_RATIO
    };
    Rate::from_delivery(cwnd.max(in_flight) * ratio, srtt)
}

choice! {
    /// The states of a loss-based sender.
    pub(crate) enum Phase {
        SlowStart = "SlowStart",
        /// Conservative slow start (RFC 9406).
        Css = "CSS",
        CongestionAvoidance = "CongestionAvoidance",
        Recovery = "Recovery",
        Loss = "Loss",
        /// The window is limited to a few packets ([`Shared`]).
        Slowdown = "Slowdown",
    }
}

impl Phase {
    /// Those of a sender without HyStart++ and slowdowns.
    pub(crate) const WITHOUT_CSS: &'static [&'static str] = &[
        Self::SlowStart.word(),
        Self::CongestionAvoidance.word(),
        Self::Recovery.word(),
        Self::Loss.word(),
    ];

    pub(crate) fn of(ca_state: CaState, slow_start: bool) -> Self {
        match ca_state {
            CaState::Recovery => Self::Recovery,
            CaState::Loss => Self::Loss,
            _ if slow_start => Self::SlowStart,
            _ => Self::CongestionAvoidance,
        }
    }
}

/// The settings of a controller's window.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub(crate) beta: Gain,
    pub(crate) abc_limit: u32,
    pub(crate) initial_ssthresh: Bytes,
    pub(crate) hystart: bool,
    pub(crate) pacing: bool,
    pub(crate) ecn: bool,
    pub(crate) after_idle: AfterIdle,
    pub(crate) slowdown: SharedSlowdown,
}

choice! {
    /// The window after nothing was sent for longer than the retransmission timeout.
    pub enum AfterIdle {
        /// At most the initial window, and slow start to the threshold (RFC 5681 4.1).
        Restart = "restart" default,
        /// Unchanged.
        Keep = "keep",
        /// Halved for each timeout of the pause, down to the initial window, and the threshold is at
        /// least three quarters of it (Linux).
        Halve = "halve",
    }
}

/// Declares the parameters of Reno or CUBIC: the default and source of `beta`, the source of the
/// threshold, whether HyStart++ is on, and the controller's own options.
macro_rules! window_parameters {
    ($beta:expr, $beta_source:literal; $ssthresh_source:literal; hystart = $hystart:literal; $($own:tt)*) => {
        paceline_units::parameters! {
            /// The options that a scenario may set.
            pub struct Parameters {
                /// The fraction of the window kept after a congestion event
                #[doc = $beta_source]
                beta: Gain(100, 990) = $beta;
                $($own)*
                /// L: segments that one ACK may add in slow start without HyStart++ (RFC 3465 2.2);
                /// 1000000: no limit, after a timeout neither (Linux)
                abc_limit: Count(1, 1_000_000) = 2;
                /// Slow-start threshold at the start
                #[doc = $ssthresh_source]
                initial_ssthresh: AnyBytes = paceline_units::Bytes::INFINITE;
                /// HyStart++ in the initial slow start (RFC 9406)
                hystart: Flag = $hystart;
                /// Pace at 2 cwnd/srtt below half of ssthresh, at 1.2 cwnd/srtt above (Linux)
                pacing: Flag = false;
                /// Send ECT(0) and reduce once a round on an echoed mark (RFC 3168 6.1.2)
                ecn: Flag = false;
                /// After nothing was sent for an RTO: restart with the initial window (RFC 5681
                /// 4.1), keep the window, or halve it for each RTO (Linux), which in Reno and DCTCP
                /// also keeps the data counted towards the next segment
                after_idle: Choice($crate::window::AfterIdle) = $crate::window::AfterIdle::Restart;
                /// Periodic slowdowns, in which every flow can measure its base RTT: none, LEDBAT++'s
                /// or BBRv1's (IETF 115, BBR and LEDBAT++)
                slowdown: Choice($crate::slowdown::SharedSlowdown) = $crate::slowdown::SharedSlowdown::Never;
            }
        }

        impl From<Parameters> for $crate::window::Settings {
            fn from(p: Parameters) -> Self {
                Self {
                    beta: p.beta,
                    abc_limit: p.abc_limit,
                    initial_ssthresh: p.initial_ssthresh,
                    hystart: p.hystart,
                    pacing: p.pacing,
                    ecn: p.ecn,
                    after_idle: p.after_idle,
                    slowdown: p.slowdown,
                }
            }
        }
    };
}
pub(crate) use window_parameters;

/// The functions that a controller delegates to its `window`, within its `impl Controller`.
macro_rules! by_window {
    () => {
        fn on_recovery_again(
            &mut self,
            now: paceline_units::Instant,
            in_flight: paceline_units::Bytes,
            outstanding: paceline_units::Bytes,
        ) {
            let threshold = self.window.ssthresh();
            self.on_recovery_enter(now, in_flight);
            self.window
                .raise(threshold.min(outstanding * paceline_units::Gain::from_millionths(500_000)));
        }

        fn on_recovery_exit(&mut self, _now: paceline_units::Instant) {
            self.window.end_episode();
        }

        #[inline]
        fn cwnd(&self) -> paceline_units::Bytes {
            self.window.allowed()
        }

        #[inline]
        fn pacing_rate(&self) -> Option<paceline_units::Rate> {
            self.window.pacing_rate()
        }

        #[inline]
        fn send_quantum(&self) -> paceline_units::Bytes {
            self.window.send_quantum()
        }

        fn ssthresh(&self) -> Option<paceline_units::Bytes> {
            Some(self.window.ssthresh())
        }

        fn ecn(&self) -> $crate::Ecn {
            self.window.ecn()
        }

        #[inline]
        fn phase(&self) -> &'static str {
            self.window.phase().word()
        }
    };
}
pub(crate) use by_window;

/// The state restored after a spurious episode (RFC 9438 section 4.9, RFC 4015).
#[derive(Clone, Copy, Debug)]
struct Undo {
    cwnd: Bytes,
    ssthresh: Bytes,
    hystart: HyStart,
}

/// When a sender reacts to an ECN signal: once per window (RFC 3168 section 6.1.2), and not in
/// addition to a reduction for loss.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnGate {
    /// Sum of delivered and lost data up to which a reduction covers further signals; infinite
    /// until the ACK after a loss event sets it.
    cwr_end: Bytes,
}

impl EcnGate {
    /// The window is reduced for loss.
    pub(crate) fn on_loss_event(&mut self) {
        self.cwr_end = Bytes::INFINITE;
    }

    /// Whether the sender has to react to this ACK; must be called on every one.
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        let resolved = ack.resolved();
        let window_end = resolved + ack.in_flight;
        if self.cwr_end.is_infinite() {
            self.cwr_end = window_end;
        }
        let signal = ack.is_marked()
            // Beyond, not at, its end: CWR, on the first segment sent after the reduction, has to
            // reach the receiver before its echo can end (RFC 3168 section 6.1.2).
            && resolved > self.cwr_end
            && !matches!(ack.ca_state, CaState::Recovery | CaState::Loss);
        if signal {
            self.cwr_end = window_end;
        }
        signal
    }
}

/// A loss-based sender's window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    mss: Bytes,
    initial: Bytes,
    cwnd: Bytes,
    ssthresh: Bytes,
    settings: Settings,
    hystart: HyStart,
    ca_state: CaState,
    /// Whether an episode is in progress, from its first reduction to its end.
    in_episode: bool,
    undo: Option<Undo>,
    /// The timer has fired and the cumulative ACK has not moved since.
    timeout_outstanding: bool,
    /// Slow start follows a timeout (RFC 3465 section 2.3).
    after_timeout: bool,
    ecn_gate: EcnGate,
    srtt: Duration,
    pacing_rate: Option<Rate>,
    slowdown: Option<Shared>,
}

impl Window {
    pub(crate) fn new(config: &Config, settings: impl Into<Settings>) -> Self {
        let settings = settings.into();
        let mss = Bytes::new(u64::from(config.mss.max(1)));
        let mut window = Self {
            mss,
            initial: config.initial_window,
            cwnd: config.initial_window.max(mss),
            ssthresh: settings.initial_ssthresh.max(mss * 2),
            settings,
            hystart: HyStart::new(settings.hystart),
            ca_state: CaState::Open,
            in_episode: false,
            undo: None,
            timeout_outstanding: false,
            after_timeout: false,
            ecn_gate: EcnGate::default(),
            srtt: config.srtt.unwrap_or(Duration::ZERO),
            pacing_rate: None,
            slowdown: Shared::new(settings.slowdown, config.now),
        };
        window.pace(Bytes::ZERO);
        window
    }

    pub(crate) fn mss(&self) -> Bytes {
        self.mss
    }

    /// The algorithm's window, which a slowdown leaves as it is.
    #[inline]
    pub(crate) fn cwnd(&self) -> Bytes {
        self.cwnd
    }

    /// The window that the sender may use.
    #[inline]
    pub(crate) fn allowed(&self) -> Bytes {
        self.limit().map_or(self.cwnd, |limit| self.cwnd.min(limit))
    }

    /// The limit of a slowdown.
    fn limit(&self) -> Option<Bytes> {
        let slowdown = self.slowdown.as_ref()?;
        slowdown.limit(self.mss)
    }

    /// Whether a slowdown, or the slow start after it, takes the place of the algorithm's growth.
    pub(crate) fn is_held(&self) -> bool {
        self.slowdown.as_ref().is_some_and(Shared::holds)
    }

    pub(crate) fn ssthresh(&self) -> Bytes {
        self.ssthresh
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = Bytes::new(u64::from(mss.max(1)));
        self.ssthresh = self.ssthresh.max(self.mss * 2);
        self.set_cwnd(self.cwnd);
    }

    /// The window is never below one segment.
    pub(crate) fn set_cwnd(&mut self, cwnd: Bytes) {
        self.cwnd = cwnd.max(self.mss);
    }

    /// `beta` times the window, for the slow-start threshold. RFC 5681 (4) and RFC 9438 section 4.6
    /// use the flight size; this uses the window, as Linux does and RFC 9438 allows to a sender
    /// that, like this one, does not grow a window that it does not use.
    pub(crate) fn reduced(&self) -> Bytes {
        self.cwnd * self.settings.beta
    }

    /// Threshold and window are at least this.
    pub(crate) fn raise(&mut self, least: Bytes) {
        self.ssthresh = self.ssthresh.max(least);
        self.set_cwnd(self.cwnd.max(least));
    }

    /// A congestion event sets the threshold, at least two segments, and ends HyStart++.
    pub(crate) fn set_ssthresh(&mut self, ssthresh: Bytes) {
        self.ssthresh = ssthresh.max(self.mss * 2);
        self.hystart.end();
    }

    /// Slow start ended at this window.
    pub(crate) fn end_slow_start(&mut self, window: Bytes) {
        self.set_ssthresh(window);
        self.set_cwnd(self.ssthresh);
    }

    /// RFC 5681 section 4.1: after a pause of a retransmission timeout the window is at most the
    /// initial one, because there is no longer an ACK clock for the rest. The threshold stays. True
    /// if it made the window smaller. Linux halves it instead, and raises the threshold.
    pub(crate) fn restart(&mut self) -> bool {
        let halve = self.settings.after_idle == AfterIdle::Halve;
        if halve && !self.ca_state.is_reducing() {
            // No congestion event: HyStart++ goes on.
            self.ssthresh = self.ssthresh.max(self.cwnd * THREE_QUARTERS);
        }
        let cut = self.settings.after_idle != AfterIdle::Keep && self.cwnd > self.initial;
        if cut {
            self.set_cwnd(match halve {
                true => self.initial.max(self.cwnd * HALF),
                false => self.initial,
            });
            self.cancel_slowdown();
            self.pace(Bytes::ZERO);
        }
        cut
    }

    /// Whether what is counted towards the next segment survives a restart, as Linux's
    /// `snd_cwnd_cnt` does.
    pub(crate) fn keeps_growth(&self) -> bool {
        self.settings.after_idle == AfterIdle::Halve
    }

    /// Fast recovery or recovery from a timeout begins. True at the first reduction of an episode;
    /// the state before it is kept for the undo.
    pub(crate) fn begin_episode(&mut self, ca_state: CaState) -> bool {
        let first = !self.in_episode;
        if first {
            self.in_episode = true;
            self.undo = Some(Undo {
                cwnd: self.cwnd,
                ssthresh: self.ssthresh,
                hystart: self.hystart,
            });
        }
        self.ca_state = ca_state;
        self.ecn_gate.on_loss_event();
        first
    }

    /// RFC 5681 section 3.1: whether this timeout is the first of the oldest segment and so sets
    /// the threshold. Not if the window is reduced after marks: that was for the same window of data
    /// (Linux's `tcp_enter_loss`). Called before the episode begins.
    pub(crate) fn first_timeout(&mut self) -> bool {
        !core::mem::replace(&mut self.timeout_outstanding, true) && self.ca_state != CaState::Cwr
    }

    /// RFC 5681 section 3.1: the loss window is one segment, and slow start follows.
    pub(crate) fn collapse(&mut self) {
        self.cwnd = self.mss;
        self.after_timeout = true;
        self.cancel_slowdown();
        self.pace(Bytes::ZERO);
    }

    fn cancel_slowdown(&mut self) {
        if let Some(slowdown) = &mut self.slowdown {
            slowdown.cancel();
        }
    }

    pub(crate) fn end_episode(&mut self) {
        self.in_episode = false;
        self.timeout_outstanding = false;
        self.ca_state = CaState::Open;
    }

    /// Restores the state before the episode; false if there is nothing to restore.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(undo) = self.undo.take() else {
            return false;
        };
        self.end_episode();
        self.after_timeout = false;
        self.ssthresh = self.ssthresh.max(undo.ssthresh);
        self.hystart = undo.hystart;
        self.set_cwnd(self.cwnd.max(undo.cwnd));
        true
    }

    /// Records the state of recovery; called first on every ACK. True when the ACK carries an ECN
    /// signal to which the sender has to react.
    #[inline]
    pub(crate) fn begin_ack(&mut self, ack: &Ack) -> bool {
        self.ca_state = ack.ca_state;
        if ack.una_advanced {
            self.timeout_outstanding = false;
        }
        let signal = self.settings.ecn && self.ecn_gate.on_ack(ack);
        if signal {
            // The network itself reported it: nothing about it is spurious.
            self.undo = None;
        }
        self.slow_down(ack);
        signal
    }

    /// Begins or ends a slowdown, not while the transport reduces the window.
    fn slow_down(&mut self, ack: &Ack) {
        let Some(slowdown) = &mut self.slowdown else {
            return;
        };
        let in_slow_start = self.cwnd < self.ssthresh;
        if !ack.ca_state.is_reducing()
            && let Some(from) = slowdown.on_ack(ack, self.srtt, self.mss, in_slow_start)
            && from < self.cwnd
        {
            self.set_ssthresh(self.cwnd);
            self.set_cwnd(from);
        }
    }

    /// Whether the window may grow on this ACK: not while the transport reduces it after a loss (RFC
    /// 9937) or after marks (Linux's `tcp_enter_cwr`), not on a duplicate (RFC 5681 section 3.2), and
    /// only if it was in use (RFC 9438 section 5.8, RFC 7661).
    pub(crate) fn may_grow(ack: &Ack) -> bool {
        !ack.ca_state.is_reducing() && ack.una_advanced && ack.cwnd_limited
    }

    /// Slow start, with HyStart++ if it is active. Returns the acknowledged data that is left for
    /// congestion avoidance.
    #[inline]
    pub(crate) fn slow_start(&mut self, ack: &Ack) -> Bytes {
        if self.limit().is_some() {
            return Bytes::ZERO;
        }
        if self.cwnd >= self.ssthresh {
            self.leave_slow_start();
            return ack.newly_acked;
        }
        let exit = self.hystart.is_active() && self.hystart.on_ack(ack);
        if exit {
            self.set_ssthresh(self.cwnd);
        }
        if exit || !Self::may_grow(ack) {
            return Bytes::ZERO;
        }
        // RFC 3465 section 2.2: at most L segments per ACK, one after a timeout (2.3).
        let l = match (self.hystart.is_active(), self.settings.pacing) {
            (true, true) => u64::MAX,
            (true, false) => HYSTART_L,
            (false, _) if self.after_timeout && self.settings.abc_limit < NO_LIMIT => 1,
            (false, _) => u64::from(self.settings.abc_limit),
        };
        let increase = self.hystart.growth(ack.newly_acked.min(self.mss * l));
        let room = self.ssthresh - self.cwnd;
        if increase < room {
            self.cwnd += increase;
            return Bytes::ZERO;
        }
        self.cwnd = self.ssthresh;
        self.leave_slow_start();
        increase - room
    }

    /// Reno's growth (RFC 3465 section 2.1): one segment for each window acknowledged. `credit` is
    /// the data acknowledged towards the next one.
    #[inline]
    pub(crate) fn avoid_congestion(&mut self, credit: &mut Bytes, acked: Bytes) {
        *credit = (*credit + acked).min(self.cwnd * 2);
        if *credit >= self.cwnd {
            *credit -= self.cwnd;
            self.set_cwnd(self.cwnd + self.mss);
        }
    }

    fn leave_slow_start(&mut self) {
        self.after_timeout = false;
        self.hystart.end();
    }

    /// The pacing rate, with Linux's ratios (`tcp_update_pacing_rate`); called last on every ACK.
    #[inline]
    pub(crate) fn end_ack(&mut self, ack: &Ack) {
        if ack.srtt > Duration::ZERO {
            self.srtt = ack.srtt;
        }
        self.pace(ack.in_flight);
    }

    fn pace(&mut self, in_flight: Bytes) {
        if !self.settings.pacing || self.srtt == Duration::ZERO {
            return;
        }
        let cwnd = self.allowed();
        self.pacing_rate = Some(window_rate(cwnd, self.ssthresh, in_flight, self.srtt));
    }

    /// None without pacing, and before the first RTT is known.
    #[inline]
    pub(crate) fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }

    /// Without pacing, a whole window; with it, the data of a millisecond.
    #[inline]
    pub(crate) fn send_quantum(&self) -> Bytes {
        match self.pacing_rate {
            None => self.allowed().max(MAX_QUANTUM),
            Some(rate) => rate
                .volume_in(Duration::from_millis(1))
                .min(MAX_QUANTUM)
                .max(self.mss * 2),
        }
    }

    pub(crate) fn ecn(&self) -> Ecn {
        if self.settings.ecn {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        match Phase::of(self.ca_state, self.cwnd < self.ssthresh) {
            Phase::SlowStart | Phase::CongestionAvoidance if self.limit().is_some() => {
                Phase::Slowdown
            }
            Phase::SlowStart if self.hystart.in_css() => Phase::Css,
            phase => phase,
        }
    }

    state! {
        pub(crate) fn visit_state(&self) -> Value {
            ssthresh: Bytes = self.ssthresh,
            hystart: of(HyStart) = |visit| self.hystart.visit_state(visit),
        }
    }
}
