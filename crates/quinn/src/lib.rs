#![doc = include_str!("../README.md")]

#[cfg(feature = "socket")]
mod socket;

use std::any::Any;
use std::sync::Arc;
use std::time;

use paceline_adapter::{Begun, Path, Plan};
use paceline_congestion::{AnyController, Controller as _, Recipe, Signals};
use paceline_units::{Bytes, Rate};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

pub use paceline_adapter::{ControllerError, Pace};
pub use quinn_proto::TransportConfig;
#[cfg(feature = "socket")]
pub use socket::PacedSocket;

/// What quinn 0.11 reports to a controller and does for it.
pub const SIGNALS: Signals = Signals {
    marks: true,
    ..Signals::NONE
};

/// Makes controllers for quinn's connections.
#[derive(Clone, Debug)]
pub struct Factory {
    plan: Plan,
    pace: Option<Pace>,
}

impl Factory {
    /// The controller of this name, with its defaults.
    ///
    /// # Errors
    /// If it does not exist, or needs a signal that quinn does not give.
    pub fn named(name: &str) -> Result<Self, ControllerError> {
        let plan = Plan::named(name, SIGNALS)?;
        Ok(Self { plan, pace: None })
    }

    /// A controller whose packets the sender paces as `pace` says.
    ///
    /// # Errors
    /// If it needs a signal that quinn does not give.
    pub fn paced(recipe: Recipe, pace: Pace) -> Result<Self, ControllerError> {
        let signals = Signals {
            pacing: true,
            ..SIGNALS
        };
        let plan = Plan::new(recipe, signals)?;
        let pace = Some(pace);
        Ok(Self { plan, pace })
    }

    /// The seed of the controllers' own draws; 0 if it is not set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self
    }

    /// The initial window in full packets; 10 if it is not set (RFC 9002 section 7.2).
    #[must_use]
    pub fn initial_packets(mut self, packets: u64) -> Self {
        self.plan.initial_packets = packets;
        self
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: time::Instant, current_mtu: u16) -> Box<dyn Controller> {
        let adapter = Adapter {
            begun: self.plan.begin(now, current_mtu),
            pace: self.pace.clone(),
        };
        adapter.show();
        Box::new(adapter)
    }
}

/// Adapts one of our controllers to quinn's interface.
#[derive(Clone, Debug)]
pub struct Adapter {
    begun: Begun,
    pace: Option<Pace>,
}

impl Adapter {
    /// The controller behind `controller`, if it is one of ours.
    pub fn of(controller: &dyn Controller) -> Option<Box<Self>> {
        controller.clone_box().into_any().downcast().ok()
    }

    /// The path that the controller works on.
    pub fn path(&self) -> &Path<AnyController> {
        &self.begun.path
    }

    fn show(&self) {
        if let Some(pace) = &self.pace {
            pace.set(self.begun.path.controller());
        }
    }
}

/// Bytes of packets that leave or arrive together: far from the limit.
fn small(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Controller for Adapter {
    fn on_sent(&mut self, now: time::Instant, bytes: u64, _last_packet_number: u64) {
        self.begun
            .path
            .sent_together(self.begun.clock.at(now), small(bytes));
        self.show();
    }

    fn on_ack(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        let (now, sent) = (self.begun.clock.at(now), self.begun.clock.at(sent));
        self.begun.path.acked(now, sent, None, small(bytes));
    }

    fn on_end_acks(
        &mut self,
        now: time::Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.begun
            .path
            .end_acks(self.begun.clock.at(now), in_flight, app_limited);
        self.show();
    }

    fn on_congestion_event(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let (now, sent) = (self.begun.clock.at(now), self.begun.clock.at(sent));
        match lost_bytes {
            0 => self.begun.path.marked(now, sent),
            _ => {
                self.begun.path.lost_together(now, sent, lost_bytes);
                self.begun
                    .path
                    .congestion(now, sent, is_persistent_congestion);
            }
        }
        self.show();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.begun.path.set_mss(new_mtu.into());
        self.show();
    }

    /// One byte more than the controller's: quinn stays below its window, while the controller
    /// allows reaching it.
    fn window(&self) -> u64 {
        self.begun.path.window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let controller = self.begun.path.controller();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.begun.path.window();
        metrics.ssthresh = controller.ssthresh().map(Bytes::get);
        metrics.pacing_rate = controller.pacing_rate().map(Rate::bps);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.begun.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use paceline_congestion::recipe;

    use super::*;

    #[test]
    fn what_quinn_does_not_tell_is_missed_by_name() {
        let error_of = |name| {
            Factory::named(name)
                .expect_err("it lacks something")
                .to_string()
        };
        assert!(error_of("bbr3").ends_with("lacks `pacing`"));
        assert!(error_of("dctcp").ends_with("lacks `mark_counts`"));
        assert!(error_of("prague").ends_with("lacks `mark_counts`, `ect1`, `pacing`"));
        assert_eq!(error_of("bbr4"), "there is no controller of that name");
        assert!(Factory::named("cubic").is_ok());
        let bbr3 = recipe("bbr3", &[]).expect("a controller");
        assert!(Factory::paced(bbr3, Pace::default()).is_ok());
    }

    fn cubic() -> (Box<dyn Controller>, time::Instant) {
        let now = time::Instant::now();
        let factory = Arc::new(Factory::named("cubic").expect("cubic"));
        (factory.build(now, 1200), now)
    }

    fn after(now: time::Instant, ms: u64) -> time::Instant {
        now + time::Duration::from_millis(ms)
    }

    /// The signals match the callbacks: losses after the sample, in a batch, marks without a count.
    #[test]
    fn callbacks_reach_the_controller() {
        let (mut controller, now) = cubic();
        assert_eq!(controller.initial_window(), 12_000);
        assert_eq!(controller.window(), 12_001);
        (0..10).for_each(|n| controller.on_sent(now, 1200, n));
        controller.on_end_acks(after(now, 40), 12_000, false, None);
        controller.on_congestion_event(after(now, 40), now, false, 3 * 1200);
        let reduced = controller.window();
        assert!(reduced < 12_000);
        // More losses in that round trip change nothing.
        controller.on_congestion_event(after(now, 41), now, false, 1200);
        assert_eq!(controller.window(), reduced);
        let ours = Adapter::of(controller.as_ref()).expect("ours");
        assert_eq!(ours.path().delivery().lost(), Bytes::new(4 * 1200));
    }

    #[test]
    fn a_mark_is_told_without_lost_bytes() {
        let (mut controller, now) = cubic();
        controller.on_sent(now, 1200, 0);
        controller.on_congestion_event(after(now, 40), now, false, 0);
        assert!(controller.window() < 12_000);
    }

    #[test]
    fn a_pace_is_that_of_its_controller() {
        let pace = Pace::default();
        let bbr3 = recipe("bbr3", &[]).expect("a controller");
        let factory = Factory::paced(bbr3, pace.clone()).expect("it is paced");
        let controller = Arc::new(factory).build(time::Instant::now(), 1200);
        let ours = Adapter::of(controller.as_ref()).expect("ours");
        assert_eq!(pace.rate(), ours.path().controller().pacing_rate());
        assert!(pace.rate().is_some() && pace.quantum() > 0);
        assert_eq!(controller.metrics().pacing_rate, pace.rate().map(Rate::bps));
    }

    /// The README's table matches the constant.
    #[test]
    fn the_readme_lists_the_signals() {
        let table = paceline_adapter::table(SIGNALS, "quinn 0.11");
        assert!(include_str!("../README.md").contains(&table), "{table}");
    }
}
