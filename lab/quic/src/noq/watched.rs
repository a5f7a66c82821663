//! One of noq's own controllers, observed.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::watch::Watch;

/// A factory, or a controller, and the destination of the observations.
#[derive(Debug)]
pub(super) struct Watched<T: ?Sized> {
    watch: Watch,
    inner: T,
}

impl Watched<Arc<dyn ControllerFactory + Send + Sync>> {
    pub fn new(inner: Arc<dyn ControllerFactory + Send + Sync>, watch: Watch) -> Self {
        Self { watch, inner }
    }
}

impl ControllerFactory for Watched<Arc<dyn ControllerFactory + Send + Sync>> {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Watched {
            watch: self.watch.clone(),
            inner: self.inner.clone().build(now, current_mtu),
        })
    }
}

impl Controller for Watched<Box<dyn Controller>> {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.watch.update(|state| state.in_flight += bytes);
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.watch.update(|state| state.sent += 1);
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.watch.update(|state| state.lost += 1);
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.inner.on_ack_frequency_update(threshold, max_ack_delay);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let latest = now.saturating_duration_since(sent);
        self.watch.update(|state| {
            state.acknowledged += bytes;
            state.latest_rtt = Some(latest);
            state.min_rtt = Some(state.min_rtt.map_or(latest, |min| min.min(latest)));
        });
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
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
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.watch
            .update(|state| state.in_flight = state.in_flight.saturating_sub(lost_bytes));
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
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
            inner: self.inner.clone_box(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
