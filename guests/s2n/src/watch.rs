//! What s2n-quic says of a connection in its events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber, events};

/// What its events said last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latest {
    /// What the controller and the estimator of RTT say; none before their first word.
    pub path: Option<Path>,
    /// Bytes per second; BBR alone has a rate.
    pub pacing_rate: Option<u64>,
    /// Bytes delivered in nanoseconds; BBR alone measures it.
    pub delivered: Option<(u64, u64)>,
    /// The state of BBR; empty with CUBIC.
    pub phase: &'static str,
    /// Bytes of the stream that were sent once at least.
    pub stream_sent: u64,
    /// Packets with data, their bytes, and how many have data that was sent before.
    pub packets: u64,
    pub bytes: u64,
    pub retransmitted: u64,
    pub lost_packets: u64,
    pub lost_bytes: u64,
    /// Whether the packet that is being written has data, and old data.
    writing: (bool, bool),
    /// `bytes` when the sender was application-limited last.
    limited_at: Option<u64>,
}

impl Latest {
    /// What has been sent until now is a bubble, as in the estimator of s2n-quic, which tells only the samples' state.
    pub fn mark_app_limited(&mut self) {
        self.limited_at = Some(self.bytes);
    }

    /// Whether some of the bubble is in flight: the state of the sender, and not that of the packet acknowledged last.
    pub fn is_app_limited(&self) -> bool {
        let in_flight = self.path.map_or(0, |path| path.in_flight);
        self.limited_at
            .is_some_and(|at| self.bytes.saturating_sub(in_flight) <= at)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub cwnd: u64,
    pub in_flight: u64,
    pub latest_rtt: u64,
    pub smoothed_rtt: u64,
    pub min_rtt: u64,
}

/// Shared by the subscriber and the end.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Latest>>);

impl Watch {
    pub fn latest(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Subscriber for Watch {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo) {}

    fn on_recovery_metrics(
        &mut self,
        (): &mut (),
        _: &ConnectionMeta,
        event: &events::RecoveryMetrics,
    ) {
        let mut latest = self.latest();
        latest.path = Some(Path {
            cwnd: event.congestion_window.into(),
            in_flight: event.bytes_in_flight.into(),
            latest_rtt: nanos(event.latest_rtt),
            smoothed_rtt: nanos(event.smoothed_rtt),
            min_rtt: nanos(event.min_rtt),
        });
        if latest.phase == "ProbeRTT" {
            latest.mark_app_limited();
        }
    }

    fn on_pacing_rate_updated(
        &mut self,
        (): &mut (),
        _: &ConnectionMeta,
        event: &events::PacingRateUpdated,
    ) {
        self.latest().pacing_rate = Some(event.bytes_per_second);
    }

    fn on_delivery_rate_sampled(
        &mut self,
        (): &mut (),
        _: &ConnectionMeta,
        event: &events::DeliveryRateSampled,
    ) {
        let mut latest = self.latest();
        let sample = &event.rate_sample;
        latest.delivered = Some((sample.delivered_bytes, nanos(sample.interval)));
    }

    fn on_bbr_state_changed(
        &mut self,
        (): &mut (),
        _: &ConnectionMeta,
        event: &events::BbrStateChanged,
    ) {
        use events::BbrState;
        self.latest().phase = match event.state {
            BbrState::Startup { .. } => "Startup",
            BbrState::Drain { .. } => "Drain",
            BbrState::ProbeBwDown { .. } => "ProbeBW_DOWN",
            BbrState::ProbeBwCruise { .. } => "ProbeBW_CRUISE",
            BbrState::ProbeBwRefill { .. } => "ProbeBW_REFILL",
            BbrState::ProbeBwUp { .. } => "ProbeBW_UP",
            BbrState::ProbeRtt { .. } => "ProbeRTT",
            _ => "",
        };
    }

    fn on_frame_sent(&mut self, (): &mut (), _: &ConnectionMeta, event: &events::FrameSent) {
        if let events::Frame::Stream { offset, len, .. } = event.frame {
            let mut latest = self.latest();
            let end = offset + u64::from(len);
            latest.writing.0 = true;
            latest.writing.1 |= offset < latest.stream_sent;
            latest.stream_sent = latest.stream_sent.max(end);
        }
    }

    fn on_packet_sent(&mut self, (): &mut (), _: &ConnectionMeta, event: &events::PacketSent) {
        let mut latest = self.latest();
        let (data, old) = std::mem::take(&mut latest.writing);
        if data {
            latest.packets += 1;
            latest.bytes += event.packet_len as u64;
            latest.retransmitted += u64::from(old);
        }
    }

    fn on_packet_lost(&mut self, (): &mut (), _: &ConnectionMeta, event: &events::PacketLost) {
        let mut latest = self.latest();
        latest.lost_packets += 1;
        latest.lost_bytes += u64::from(event.bytes_lost);
    }
}
