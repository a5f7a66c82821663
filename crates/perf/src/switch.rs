//! A controller that is chosen when the connection is there already: a server learns it from its client.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};

type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// Where the choice goes.
#[derive(Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Factory>>>);

impl Slot {
    /// Before the next packet is sent, the controller becomes one of this factory's.
    pub fn set(&self, factory: Factory) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(factory);
    }

    fn take(&self) -> Option<Factory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ControllerFactory for Slot {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Switch {
            slot: Slot::clone(&self),
            inner: Arc::new(CubicConfig::default()).build(now, current_mtu),
            mtu: current_mtu,
        })
    }
}

struct Switch {
    slot: Slot,
    inner: Box<dyn Controller>,
    mtu: u16,
}

impl Controller for Switch {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        if let Some(factory) = self.slot.take() {
            self.inner = factory.build(now, self.mtu);
        }
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
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
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
            slot: self.slot.clone(),
            inner: self.inner.clone_box(),
            mtu: self.mtu,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    /// That of the controller in it, by which it is known.
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
