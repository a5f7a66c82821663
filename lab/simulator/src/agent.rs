//! A controller whose window and rate are set from outside, step by step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use paceline_congestion::{
    Ack, Config, Controller, Ecn, Field, Lost, Outputs, RecoveryWindow, Sent, Signals,
};
use paceline_experiment::{Choice, Fault, GuestController, Prepared, guest_quantum};
use paceline_record::GuestInfo;
use paceline_units::{Bytes, Duration, Instant, Rate};

/// The decision for a flow. It holds until the next decision, in recovery too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Congestion window.
    pub cwnd: Bytes,
    /// Pacing rate of payload; none leaves sending to the ACK clock.
    pub pacing_rate: Option<Rate>,
}

/// The events of a flow's sender since the last query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Payload sent, each transmission counted.
    pub sent: Bytes,
    /// Payload newly delivered.
    pub acked: Bytes,
    /// Payload declared lost.
    pub lost: Bytes,
    /// Payload newly delivered with a CE mark, where marks are counted.
    pub marked: Bytes,
    /// Mean of the RTT samples, if there were any.
    pub mean_rtt: Option<Duration>,
    /// The smallest of them.
    pub least_rtt: Option<Duration>,
    /// Delivery rate of the last ACK's sample, if one gave any (draft-ietf-ccwg-bbr section 4.1).
    pub delivery_rate: Option<Rate>,
}

/// The agent's interface to a flow: its decisions, and the events of the flow's sender.
///
/// One thread uses it at a time. Relaxed atomics cost the same as plain numbers.
#[derive(Debug)]
pub(crate) struct Wire {
    cwnd: AtomicU64,
    /// `u64::MAX` means none.
    pacing: AtomicU64,
    sent: AtomicU64,
    acked: AtomicU64,
    lost: AtomicU64,
    marked: AtomicU64,
    rtt_sum: AtomicU64,
    rtt_count: AtomicU64,
    /// `u64::MAX` means none.
    rtt_least: AtomicU64,
    /// `u64::MAX` means none.
    rate: AtomicU64,
}

fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed).saturating_add(more), Relaxed);
}

fn known(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

impl Wire {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            cwnd: AtomicU64::new(0),
            pacing: AtomicU64::new(u64::MAX),
            sent: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            rtt_sum: AtomicU64::new(0),
            rtt_count: AtomicU64::new(0),
            rtt_least: AtomicU64::new(u64::MAX),
            rate: AtomicU64::new(u64::MAX),
        })
    }

    pub fn decide(&self, decision: Decision) {
        self.cwnd.store(decision.cwnd.get(), Relaxed);
        let pacing = decision.pacing_rate.map_or(u64::MAX, Rate::bps);
        self.pacing.store(pacing, Relaxed);
    }

    pub fn decision(&self) -> Decision {
        Decision {
            cwnd: Bytes::new(self.cwnd.load(Relaxed)),
            pacing_rate: known(self.pacing.load(Relaxed)).map(Rate::from_bps),
        }
    }

    /// Returns the accumulated events and resets the counters.
    pub fn take(&self) -> Feedback {
        let bytes = |count: &AtomicU64| Bytes::new(count.swap(0, Relaxed));
        let (sum, count) = (
            self.rtt_sum.swap(0, Relaxed),
            self.rtt_count.swap(0, Relaxed),
        );
        let least = known(self.rtt_least.swap(u64::MAX, Relaxed));
        Feedback {
            sent: bytes(&self.sent),
            acked: bytes(&self.acked),
            lost: bytes(&self.lost),
            marked: bytes(&self.marked),
            mean_rtt: sum.checked_div(count).map(Duration::from_nanos),
            least_rtt: least.map(Duration::from_nanos),
            delivery_rate: known(self.rate.swap(u64::MAX, Relaxed)).map(Rate::from_bps),
        }
    }

    /// The choice of controller for a flow that it steers.
    pub fn choice(self: &Arc<Self>) -> Choice {
        let info = GuestInfo {
            name: "agent".into(),
            language: "gymnasium".into(),
            file: String::new(),
            sha256: String::new(),
        };
        Choice::Guest(info, Arc::new(Instances(Arc::clone(self))))
    }
}

/// Makes the controller of a flow.
struct Instances(Arc<Wire>);

impl Prepared for Instances {
    fn fields(&self) -> &[Field] {
        &[]
    }

    fn phases(&self) -> &[&'static str] {
        &[""]
    }

    fn build(
        &self,
        config: &Config,
        signals: Signals,
        _: &Fault,
    ) -> Result<GuestController, String> {
        self.0.decide(Decision {
            cwnd: config.initial_window,
            pacing_rate: None,
        });
        Ok(Box::new(Agent {
            wire: Arc::clone(&self.0),
            mss: config.mss,
            ecn: match signals.mark_counts {
                true => Ecn::Ect0,
                false => Ecn::NotEct,
            },
        }))
    }
}

/// The controller itself.
struct Agent {
    wire: Arc<Wire>,
    mss: u32,
    /// Packets can be marked only if the controller receives the number of marks.
    ecn: Ecn,
}

impl Controller for Agent {
    fn on_send(&mut self, sent: &Sent) {
        add(&self.wire.sent, sent.size.into());
    }

    fn on_loss(&mut self, loss: &Lost) {
        add(&self.wire.lost, loss.packet.size.into());
    }

    fn on_ack(&mut self, ack: &Ack) {
        let wire = &self.wire;
        add(&wire.acked, ack.newly_acked.get());
        if let Some(marked) = ack.newly_marked {
            add(&wire.marked, marked.get());
        }
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.as_nanos();
            add(&wire.rtt_sum, rtt);
            add(&wire.rtt_count, 1);
            let least = wire.rtt_least.load(Relaxed);
            wire.rtt_least.store(least.min(rtt), Relaxed);
        }
        if let Some(rate) = ack.sample.measured_rate() {
            wire.rate.store(rate.bps(), Relaxed);
        }
    }

    fn on_recovery_enter(&mut self, _: Instant, _: Bytes) {}

    fn on_timeout(&mut self, _: Instant, _: Bytes) {}

    fn on_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    fn cwnd(&self) -> Bytes {
        self.outputs().cwnd
    }

    fn send_quantum(&self) -> Bytes {
        self.outputs().send_quantum
    }

    fn outputs(&self) -> Outputs {
        let Decision { cwnd, pacing_rate } = self.wire.decision();
        Outputs {
            cwnd,
            pacing_rate,
            send_quantum: guest_quantum(cwnd, pacing_rate, self.mss),
            ssthresh: None,
            round_count: 0,
            recovery_window: RecoveryWindow::Controller,
            marks_app_limited: false,
            pacer_below: false,
            ecn: self.ecn,
        }
    }

    fn phase(&self) -> &'static str {
        ""
    }
}
