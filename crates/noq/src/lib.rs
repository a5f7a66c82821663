#![doc = include_str!("../README.md")]

use std::any::Any;
use std::sync::Arc;
use std::time;

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use paceline_adapter::{Begun, Path, Plan};
use paceline_congestion::{AnyController, Controller as _, Recipe, Signals};
use paceline_units::Bytes;

pub use noq_proto::TransportConfig;
pub use paceline_adapter::ControllerError;

/// What noq 1.4 reports to a controller and does for it.
pub const SIGNALS: Signals = Signals {
    loss_per_packet: true,
    marks: true,
    spurious_loss: true,
    pacing: true,
    ..Signals::NONE
};

/// Makes controllers for noq's paths.
#[derive(Clone, Debug)]
pub struct Factory(Plan);

impl Factory {
    /// The controller of this name, with its defaults.
    ///
    /// # Errors
    /// If it does not exist, or needs a signal that noq does not give.
    pub fn named(name: &str) -> Result<Self, ControllerError> {
        Plan::named(name, SIGNALS).map(Self)
    }

    /// A controller with its options.
    ///
    /// # Errors
    /// If it needs a signal that noq does not give.
    pub fn new(recipe: Recipe) -> Result<Self, ControllerError> {
        Plan::new(recipe, SIGNALS).map(Self)
    }

    /// The seed of the controllers' own draws; 0 if it is not set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.0.seed = seed;
        self
    }

    /// The initial window in full packets; 10 if it is not set (RFC 9002 section 7.2).
    #[must_use]
    pub fn initial_packets(mut self, packets: u64) -> Self {
        self.0.initial_packets = packets;
        self
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: time::Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Adapter(self.0.begin(now, current_mtu)))
    }
}

/// Adapts one of our controllers to noq's interface.
#[derive(Clone, Debug)]
pub struct Adapter(Begun);

impl Adapter {
    /// The controller behind `controller`, if it is one of ours.
    pub fn of(controller: &dyn Controller) -> Option<Box<Self>> {
        controller.clone_box().into_any().downcast().ok()
    }

    /// The path that the controller works on.
    pub fn path(&self) -> &Path<AnyController> {
        &self.0.path
    }
}

impl Controller for Adapter {
    fn on_packet_sent(&mut self, now: time::Instant, bytes: u16, pn: u64) {
        self.0.path.sent(self.0.clock.at(now), pn, bytes.into());
    }

    fn on_cwnd_limited(&mut self) {
        self.0.path.cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        let (now, sent) = (self.0.clock.at(now), self.0.clock.at(sent));
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.0.path.acked(now, sent, Some(pn), bytes);
    }

    fn on_end_acks(
        &mut self,
        now: time::Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.0
            .path
            .end_acks(self.0.clock.at(now), in_flight, app_limited);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: time::Instant) {
        self.0
            .path
            .lost(self.0.clock.at(now), pn, lost_bytes.into());
    }

    fn on_congestion_event(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let (now, sent) = (self.0.clock.at(now), self.0.clock.at(sent));
        match is_ecn {
            true => self.0.path.marked(now, sent),
            false => self.0.path.congestion(now, sent, is_persistent_congestion),
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        self.0.path.spurious();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.path.set_mss(new_mtu.into());
    }

    fn window(&self) -> u64 {
        self.0.path.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let controller = self.0.path.controller();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.0.path.window();
        metrics.ssthresh = controller.ssthresh().map(Bytes::get);
        // noq expects bytes per second.
        metrics.pacing_rate = controller.pacing_rate().map(|rate| rate.bps() / 8);
        metrics.send_quantum = Some(controller.send_quantum().get());
        metrics.bandwidth_estimate = Some(self.0.path.delivery_rate().bps());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_noq_does_not_tell_is_missed_by_name() {
        let error_of = |name| {
            Factory::named(name)
                .expect_err("it lacks something")
                .to_string()
        };
        assert!(error_of("dctcp").ends_with("lacks `mark_counts`"));
        assert!(error_of("prague").ends_with("lacks `mark_counts`, `ect1`"));
        assert_eq!(error_of("bbr4"), "there is no controller of that name");
        for name in ["bbr3", "cubic", "swift"] {
            assert!(Factory::named(name).is_ok(), "{name}");
        }
    }

    fn built(name: &str) -> (Box<dyn Controller>, time::Instant) {
        let now = time::Instant::now();
        let factory = Arc::new(Factory::named(name).expect("a controller"));
        (factory.build(now, 1200), now)
    }

    /// Losses by packet, after the sample; a mark without a count; spurious losses.
    #[test]
    fn callbacks_reach_the_controller() {
        let (mut controller, now) = built("cubic");
        let later = now + time::Duration::from_millis(40);
        (0..10).for_each(|pn| controller.on_packet_sent(now, 1200, pn));
        let before = controller.window();
        (0..2).for_each(|pn| controller.on_packet_lost(1200, pn, later));
        controller.on_congestion_event(later, now, false, false, 2400, 1);
        assert!(controller.window() < before);
        let ours = Adapter::of(controller.as_ref()).expect("ours");
        assert_eq!(ours.path().delivery().lost(), Bytes::new(2400));
        controller.on_spurious_congestion_event();
        assert!(controller.window() >= before);
        controller.on_congestion_event(later, now, false, true, 0, 0);
        assert!(controller.window() < before);
    }

    /// The units are noq's: bytes per second, and bytes.
    #[test]
    fn rate_and_quantum_are_the_controllers() {
        let (controller, _) = built("bbr3");
        let ours = Adapter::of(controller.as_ref()).expect("ours");
        let rate = ours.path().controller().pacing_rate().expect("it paces");
        let metrics = controller.metrics();
        assert_eq!(metrics.pacing_rate, Some(rate.bps() / 8));
        let quantum = ours.path().controller().send_quantum();
        assert_eq!(metrics.send_quantum, Some(quantum.get()));
    }

    /// The README's table matches the constant.
    #[test]
    fn the_readme_lists_the_signals() {
        let table = paceline_adapter::table(SIGNALS, "noq 1.4");
        assert!(include_str!("../README.md").contains(&table), "{table}");
    }
}
