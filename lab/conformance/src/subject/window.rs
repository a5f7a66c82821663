//! The effect of each event on Reno or DCTCP.
//!
//! Neither is a port of Linux's code: they count bytes, and the transport does what Linux's stack
//! does to a window between the algorithm's calls. Where the kernel's stack sets another window than
//! ours would have, a controller with that window goes on.

use paceline_congestion::dctcp::{self, Dctcp};
use paceline_congestion::linux::Field;
use paceline_congestion::linux::cubic::INFINITE_SSTHRESH;
use paceline_congestion::linux::reno::{self, Reno};
use paceline_congestion::{Ack, CaState, Config, Controller, RateSample, Value, Visitor};
use paceline_units::{Bytes, Duration, Gain, Instant};

use super::{Difference, Subject, foreign};
use crate::input::{Input, WindowInput};
use crate::trace::Event;

/// `DCTCP_MAX_ALPHA`: one, in the kernel's units.
const ALPHA_ONE: u32 = 1024;

/// A window in packets, as the kernel has it.
#[derive(Clone, Copy, Default)]
struct Shown {
    cwnd: u32,
    cnt: u32,
    ssthresh: u32,
}

/// A controller that starts with a window, a threshold and, for DCTCP, an alpha in 1024ths.
pub(crate) trait Start: Controller + Sized {
    /// Whether marks decide its reductions. Such a controller does not show the packets that it
    /// has counted towards the next growth.
    const MARKS: bool;

    fn start(config: &Config, ssthresh: Bytes, alpha: u32) -> Self;
}

impl Start for Reno {
    const MARKS: bool = false;

    fn start(config: &Config, ssthresh: Bytes, _alpha: u32) -> Self {
        let parameters = reno::Parameters {
            initial_ssthresh: ssthresh,
            ..reno::Parameters::default()
        };
        Self::new(config, parameters)
    }
}

impl Start for Dctcp {
    const MARKS: bool = true;

    fn start(config: &Config, ssthresh: Bytes, alpha: u32) -> Self {
        let millionths = u64::from(alpha) * u64::from(Gain::SCALE) / u64::from(ALPHA_ONE);
        let parameters = dctcp::Parameters {
            initial_ssthresh: ssthresh,
            initial_alpha: Gain::from_millionths(millionths as u32),
            abc_limit: 1_000_000,
            ..dctcp::Parameters::default()
        };
        Self::new(config, parameters)
    }
}

/// A controller with the window that the kernel's stack has.
pub(crate) struct WindowReplay<C> {
    mss: u32,
    shown: Shown,
    controller: Option<C>,
    delivered: u64,
}

impl<C> WindowReplay<C> {
    pub(crate) fn new() -> Self {
        Self {
            mss: 1,
            shown: Shown::default(),
            controller: None,
            delivered: 0,
        }
    }
}

impl<C: Start> WindowReplay<C> {
    fn start(&self, window: Shown, alpha: u32) -> C {
        let bytes = |packets: u32| Bytes::new(u64::from(packets) * u64::from(self.mss));
        let config = Config {
            mss: self.mss,
            initial_window: bytes(window.cwnd),
            seed: 0,
            now: Instant::ZERO,
            srtt: None,
            has_selective_acks: true,
        };
        let ssthresh = match window.ssthresh {
            INFINITE_SSTHRESH.. => Bytes::INFINITE,
            packets => bytes(packets),
        };
        C::start(&config, ssthresh, alpha)
    }

    /// Lets a controller with the stack's window go on, if it is not the controller's own.
    fn take_window(&mut self) {
        let fresh = self.start(self.shown, ALPHA_ONE);
        let window = |one: &C| (one.cwnd(), one.ssthresh());
        match &mut self.controller {
            Some(controller) if window(controller) == window(&fresh) => {
                controller.on_recovery_exit(Instant::ZERO);
            }
            controller => *controller = Some(fresh),
        }
    }

    /// What the controller has, in packets; a part of a packet counts as one, or as none.
    fn own(&self, up: bool) -> Shown {
        let Some(controller) = &self.controller else {
            return Shown::default();
        };
        let packets = |bytes: Bytes| match bytes.is_infinite() {
            true => INFINITE_SSTHRESH,
            false if up => bytes.get().div_ceil(u64::from(self.mss)) as u32,
            false => (bytes.get() / u64::from(self.mss)) as u32,
        };
        let mut cnt = 0;
        let mut visit = |name: &'static str, value: Value| {
            if let ("bytes_acked", Value::Bytes(bytes)) = (name, value) {
                cnt = (bytes.get() / u64::from(self.mss)) as u32;
            }
        };
        controller.visit_state(&mut Visitor::each(&mut visit));
        Shown {
            cwnd: packets(controller.cwnd()),
            cnt,
            ssthresh: packets(controller.ssthresh().unwrap_or(Bytes::INFINITE)),
        }
    }

    fn ack(&mut self, acked: Bytes, marked: Bytes, limited: bool, state: CaState) -> Ack {
        let in_flight = Bytes::new(u64::from(self.shown.cwnd) * u64::from(self.mss));
        self.delivered = self.delivered.saturating_add(acked.get());
        let delivered = Bytes::new(self.delivered);
        Ack {
            now: Instant::ZERO,
            sample: RateSample::default(),
            newly_acked: acked,
            newly_lost: Bytes::ZERO,
            newly_marked: Some(marked),
            prior_in_flight: in_flight,
            in_flight,
            delivered,
            lost: Bytes::ZERO,
            sent: delivered + in_flight,
            rtt: None,
            srtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            cwnd_limited: limited,
            ca_state: state,
            una_advanced: true,
            delayed: false,
            one_way_delay: None,
            network_rtt: None,
            receiver_delay: None,
            ece: false,
        }
    }

    /// DCTCP's alpha after `delivered` packets, in units of the kernel's.
    fn alpha(&mut self, from: u32, delivered: u32, marked: u32) -> f64 {
        let mut one = self.start(self.shown, from);
        let bytes = |packets: u32| Bytes::new(u64::from(packets));
        let ack = self.ack(bytes(delivered), bytes(marked), false, CaState::Open);
        one.on_ack(&ack);
        let mut alpha = 0.0;
        let mut visit = |name: &'static str, value: Value| {
            if let ("alpha", Value::Gain(gain)) = (name, value) {
                alpha = f64::from(gain.millionths()) / f64::from(Gain::SCALE);
            }
        };
        one.visit_state(&mut Visitor::each(&mut visit));
        alpha * f64::from(ALPHA_ONE)
    }

    /// A reduction because of marks: the controller goes on with an alpha that the ACK's own share
    /// of marks, which is the same, does not change.
    fn react_to_marks(&mut self, alpha: u32) {
        let mut one = self.start(self.shown, alpha);
        let [all, marked] = [ALPHA_ONE, alpha].map(|bytes| Bytes::new(bytes.into()));
        let ack = self.ack(all, marked, false, CaState::Open);
        one.on_ack(&ack);
        self.controller = Some(one);
    }
}

impl<C: Start> Subject for WindowReplay<C> {
    fn apply(&mut self, event: &Event) -> Vec<Difference> {
        let Input::Window(input) = event.input else {
            return vec![foreign(event)];
        };
        if let WindowInput::Init {
            cwnd,
            ssthresh,
            mss,
        } = input
        {
            self.mss = mss.max(1);
            self.shown = Shown {
                cwnd,
                cnt: 0,
                ssthresh,
            };
            self.controller = Some(self.start(self.shown, ALPHA_ONE));
        }
        match input {
            WindowInput::Init { .. } => {}
            WindowInput::Grow {
                acked,
                limited,
                state,
            } => {
                self.take_window();
                let acked = Bytes::new(u64::from(acked) * u64::from(self.mss));
                let ack = self.ack(acked, Bytes::ZERO, limited, state);
                if let Some(controller) = &mut self.controller {
                    controller.on_ack(&ack);
                }
                self.shown = self.own(false);
            }
            WindowInput::Reduce { state, alpha } => {
                self.take_window();
                match (&mut self.controller, state) {
                    (_, CaState::Cwr) if C::MARKS => self.react_to_marks(alpha),
                    (Some(controller), CaState::Loss) => {
                        controller.on_timeout(Instant::ZERO, Bytes::ZERO);
                    }
                    (Some(controller), _) => {
                        controller.on_recovery_enter(Instant::ZERO, Bytes::ZERO);
                    }
                    (None, _) => {}
                }
                // The kernel rounds down what it cuts because of marks, and the half that it
                // keeps after a loss.
                let own = self.own(state == CaState::Cwr);
                self.shown = Shown {
                    cnt: 0,
                    ssthresh: own.ssthresh,
                    ..self.shown
                };
            }
            WindowInput::Stack {
                cwnd,
                ssthresh,
                cnt,
            } => {
                self.shown = Shown {
                    cwnd,
                    cnt,
                    ssthresh,
                };
            }
            WindowInput::Undo => {
                if let Some(controller) = &mut self.controller {
                    controller.on_spurious(Instant::ZERO, Bytes::ZERO);
                }
                self.shown.cwnd = self.own(false).cwnd;
            }
            WindowInput::Alpha {
                from,
                to,
                delivered,
                marked,
            } => {
                let got = self.alpha(from, delivered, marked);
                // The kernel rounds its two terms down, and below 16/1024 its first to zero.
                let slack = 1.0 + if from < 16 { f64::from(from) } else { 0.0 };
                if (got - f64::from(to)).abs() > slack {
                    return vec![Difference {
                        field: "alpha".into(),
                        expected: to.to_string(),
                        got: format!("{got:.3}"),
                    }];
                }
            }
        }
        Vec::new()
    }

    fn visit(&self, visit: &mut dyn FnMut(&'static str, Field)) {
        visit("cwnd", Field::Packets(self.shown.cwnd));
        if !C::MARKS {
            visit("cwnd_cnt", Field::Packets(self.shown.cnt));
        }
        visit("ssthresh", Field::Packets(self.shown.ssthresh));
    }

    fn other_mode(&self, mode: &str) -> Option<String> {
        let slow_start = self.shown.cwnd < self.shown.ssthresh;
        let got = match slow_start {
            true => "SLOW_START",
            false => "CONGESTION_AVOIDANCE",
        };
        (mode != got).then(|| String::from(got))
    }
}
