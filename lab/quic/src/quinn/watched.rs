//! One of quinn's own controllers, observed or replaced by another.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};

use crate::watch::Watch;

type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// A controller that is chosen when its connection already exists: a server learns it from its
/// client. Until then it is quinn's CUBIC.
#[derive(Clone, Default)]
pub struct Slot(Arc<Mutex<Option<Factory>>>);

impl Slot {
    /// Before the next packet is sent, a controller from this factory replaces it.
    pub fn set(&self, factory: Factory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(factory);
    }

    fn take(&self) -> Option<Factory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ControllerFactory for Slot {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Watched {
            watch: Watch::default(),
            slot: Some(Self::clone(&self)),
            mtu: current_mtu,
            inner: Arc::new(CubicConfig::default()).build(now, current_mtu),
        })
    }
}

/// A factory of quinn's own, and the destination of the observations of its controllers.
pub(super) struct Watching {
    pub watch: Watch,
    pub inner: Factory,
}

impl ControllerFactory for Watching {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Watched {
            watch: self.watch.clone(),
            slot: None,
            mtu: current_mtu,
            inner: self.inner.clone().build(now, current_mtu),
        })
    }
}

struct Watched {
    watch: Watch,
    slot: Option<Slot>,
    mtu: u16,
    inner: Box<dyn Controller>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        if let Some(factory) = self.slot.as_ref().and_then(Slot::take) {
            self.inner = factory.build(now, self.mtu);
        }
        self.watch.update(|state| state.in_flight += bytes);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let latest = now.saturating_duration_since(sent);
        self.watch.update(|state| {
            state.acknowledged += bytes;
            state.latest_rtt = Some(latest);
            state.min_rtt = Some(state.min_rtt.map_or(latest, |min| min.min(latest)));
        });
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.watch.update(|state| {
            state.in_flight = in_flight;
            state.app_limited = app_limited;
        });
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.watch
            .update(|state| state.in_flight = state.in_flight.saturating_sub(lost_bytes));
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            watch: self.watch.clone(),
            slot: self.slot.clone(),
            mtu: self.mtu,
            inner: self.inner.clone_box(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    /// The type of the controller inside, which identifies it.
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
