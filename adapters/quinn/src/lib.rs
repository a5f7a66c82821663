#![doc = include_str!("../README.md")]

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time;

use paceline_adapter::Path;
use paceline_congestion::{AnyController, Config, Controller as _, Recipe, Signals, Unmet, recipe};
use paceline_units::{Bytes, Duration, Instant, Rate};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

pub use quinn_proto::TransportConfig;

/// What quinn 0.11 tells a controller and does for it.
pub const SIGNALS: Signals = Signals {
    marks: true,
    ..Signals::NONE
};

/// Why a controller cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No controller has this name.
    Unknown,
    /// It needs what quinn does not tell or do.
    Unmet(Unmet),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no controller of that name"),
            Self::Unmet(unmet) => unmet.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

/// At what rate and in what bursts a controller wants its packets to leave, for whoever sends them.
#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<Outputs>);

/// Zero before the first.
#[derive(Debug, Default)]
struct Outputs {
    bits_per_second: AtomicU64,
    quantum: AtomicU64,
}

impl Pace {
    /// The rate, in bits of UDP payload; none if the controller leaves sending to the ACK clock.
    pub fn rate(&self) -> Option<Rate> {
        match self.0.bits_per_second.load(Relaxed) {
            0 => None,
            rate => Some(Rate::from_bps(rate)),
        }
    }

    /// The most bytes that one burst may hold.
    pub fn quantum(&self) -> u64 {
        self.0.quantum.load(Relaxed)
    }

    fn set(&self, controller: &AnyController) {
        // A rate of zero would never end; the slowest is a bit a second.
        let rate = controller.pacing_rate().map_or(0, |rate| rate.bps().max(1));
        self.0.bits_per_second.store(rate, Relaxed);
        let quantum = controller.send_quantum().get();
        self.0.quantum.store(quantum, Relaxed);
    }
}

/// Makes controllers for quinn's connections.
#[derive(Clone, Debug)]
pub struct Factory {
    recipe: Recipe,
    pace: Option<Pace>,
    seed: u64,
    initial_packets: u64,
}

impl Factory {
    /// The controller of this name, with its defaults.
    ///
    /// # Errors
    /// If there is none, or it needs what quinn does not tell.
    pub fn named(name: &str) -> Result<Self, Refused> {
        let recipe = recipe(name, &[]).map_err(|_| Refused::Unknown)?;
        Self::new(recipe, None, SIGNALS)
    }

    /// A controller whose packets whoever sends them paces as `pace` says.
    ///
    /// # Errors
    /// If it needs what quinn does not tell.
    pub fn paced(recipe: Recipe, pace: Pace) -> Result<Self, Refused> {
        let signals = Signals {
            pacing: true,
            ..SIGNALS
        };
        Self::new(recipe, Some(pace), signals)
    }

    fn new(recipe: Recipe, pace: Option<Pace>, signals: Signals) -> Result<Self, Refused> {
        recipe.check(signals).map_err(Refused::Unmet)?;
        Ok(Self {
            recipe,
            pace,
            seed: 0,
            initial_packets: 10,
        })
    }

    /// The seed of the controllers' own draws; 0 if it is not set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The initial window in full packets; 10 if it is not set (RFC 9002 section 7.2).
    #[must_use]
    pub fn initial_packets(mut self, packets: u64) -> Self {
        self.initial_packets = packets;
        self
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: time::Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mss = u32::from(current_mtu);
        let initial_window = u64::from(mss) * self.initial_packets;
        let controller = self.recipe.build(&Config {
            mss,
            initial_window: Bytes::new(initial_window),
            seed: self.seed,
            now: ORIGIN,
            srtt: None,
            has_selective_acks: true,
        });
        let adapter = Adapter {
            path: Path::new(controller, mss),
            origin: now,
            pace: self.pace.clone(),
            initial_window,
        };
        adapter.show();
        Box::new(adapter)
    }
}

/// The time of a path's beginning: what was sent before it is not of the path.
const ORIGIN: Instant = Instant::from_nanos(1);

/// A controller of ours as quinn's.
#[derive(Clone, Debug)]
pub struct Adapter {
    path: Path<AnyController>,
    origin: time::Instant,
    pace: Option<Pace>,
    initial_window: u64,
}

impl Adapter {
    /// The controller behind `controller`, if it is one of ours.
    pub fn of(controller: &dyn Controller) -> Option<Box<Self>> {
        controller.clone_box().into_any().downcast().ok()
    }

    /// The path that the controller works on.
    pub fn path(&self) -> &Path<AnyController> {
        &self.path
    }

    fn at(&self, instant: time::Instant) -> Instant {
        let since = instant.saturating_duration_since(self.origin).as_nanos();
        ORIGIN + Duration::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn show(&self) {
        if let Some(pace) = &self.pace {
            pace.set(self.path.controller());
        }
    }
}

/// Bytes of packets that leave or arrive together: far from the limit.
fn small(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Controller for Adapter {
    fn on_sent(&mut self, now: time::Instant, bytes: u64, _last_packet_number: u64) {
        self.path.sent_together(self.at(now), small(bytes));
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
        let (now, sent) = (self.at(now), self.at(sent));
        self.path.acked(now, sent, None, small(bytes));
    }

    fn on_end_acks(
        &mut self,
        now: time::Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        self.path.end_acks(self.at(now), in_flight, app_limited);
        self.show();
    }

    fn on_congestion_event(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let (now, sent) = (self.at(now), self.at(sent));
        match lost_bytes {
            0 => self.path.marked(now, sent),
            _ => {
                self.path.lost_together(now, sent, lost_bytes);
                self.path.congestion(now, sent, is_persistent_congestion);
            }
        }
        self.show();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.path.set_mss(new_mtu.into());
        self.show();
    }

    /// A byte more than the controller's: quinn stays below it, and the controller allows to reach it.
    fn window(&self) -> u64 {
        self.path.window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let controller = self.path.controller();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.path.window();
        metrics.ssthresh = controller.ssthresh().map(Bytes::get);
        metrics.pacing_rate = controller.pacing_rate().map(Rate::bps);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_quinn_does_not_tell_is_missed_by_name() {
        let refused = |name| {
            Factory::named(name)
                .expect_err("it lacks something")
                .to_string()
        };
        assert!(refused("bbr3").ends_with("lacks `pacing`"));
        assert!(refused("dctcp").ends_with("lacks `mark_counts`"));
        assert!(refused("prague").ends_with("lacks `mark_counts`, `ect1`, `pacing`"));
        assert_eq!(refused("bbr4"), "there is no controller of that name");
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

    /// The signals are those of the callbacks: losses after the sample, in a batch, marks without a count.
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
        // More losses of that round trip change nothing.
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

    /// The README's table is that of the constant.
    #[test]
    fn the_readme_lists_the_signals() {
        let mut table =
            String::from("| signal | what is told or done | quinn 0.11 |\n|---|---|---|\n");
        SIGNALS.visit(&mut |name, says, given| {
            let says = says.replace("\n ", " ");
            let given = if given { "yes" } else { "no" };
            table.push_str(&format!("| `{name}` | {says} | {given} |\n"));
        });
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
        let readme = include_str!("../README.md");
        let (before, rest) = readme.split_once("<!-- signals -->\n").expect("a mark");
        let after = rest.find("\nEvery packet").expect("what follows");
        if std::env::var_os("PACELINE_WRITE").is_some() {
            let text = format!("{before}<!-- signals -->\n{table}{}", &rest[after..]);
            std::fs::write(file, text).expect("written");
        } else {
            assert_eq!(&rest[..after], table, "PACELINE_WRITE=1 writes it");
        }
    }
}
