//! Delivery-rate samples (draft-ietf-ccwg-bbr-06 section 4.1).

use paceline_units::{Bytes, Duration, Instant, Rate};

/// The state that the transport keeps with each packet it has sent (the draft's `P.` state,
/// 4.1.2.1.2): a token, plain data of 64 bytes, handed back when the packet is delivered, lost or
/// discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketState {
    /// `C.delivered` when it was sent.
    pub delivered: Bytes,
    /// Delivered data that carried CE, when it was sent.
    pub delivered_ce: Bytes,
    /// `C.lost` when it was sent.
    pub lost: Bytes,
    /// Data in flight just after it was sent, including itself.
    pub tx_in_flight: Bytes,
    /// `C.delivered_time` when it was sent.
    pub delivered_time: Instant,
    /// `C.first_send_time` when it was sent.
    pub first_send_time: Instant,
    /// Its departure time.
    pub send_time: Instant,
    /// Payload bytes.
    pub size: u32,
    /// Whether the connection was application-limited when it was sent.
    pub app_limited: bool,
}

/// One ACK's delivery-rate sample (the draft's `RS.`, 4.1.2.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Whether the ACK newly delivered anything; otherwise the other fields mean nothing.
    pub has_data: bool,
    /// Data delivered over the interval.
    pub delivered: Bytes,
    /// CE-marked data delivered over the interval.
    pub delivered_ce: Bytes,
    /// `P.delivered` of the newest delivered packet.
    pub prior_delivered: Bytes,
    /// The interval: the longer of the send and ACK phases. Zero when the sample gives no rate.
    pub interval: Duration,
    /// `P.tx_in_flight` of the newest delivered packet.
    pub tx_in_flight: Bytes,
    /// Data declared lost since that packet was sent.
    pub lost: Bytes,
    /// Whether the sample is application-limited.
    pub app_limited: bool,
}

const _: () = assert!(size_of::<PacketState>() == 64 && size_of::<Delivery>() <= 144);

impl RateSample {
    /// `RS.delivery_rate`; zero when the interval is too short to give one.
    pub fn delivery_rate(&self) -> Rate {
        if self.interval == Duration::ZERO {
            return Rate::ZERO;
        }
        Rate::from_delivery(self.delivered, self.interval)
    }

    /// The delivery rate, if the sample gives one.
    pub fn measured_rate(&self) -> Option<Rate> {
        (self.has_data && self.interval > Duration::ZERO).then(|| self.delivery_rate())
    }
}

/// The connection's delivery state (the draft's `C.`, 4.1.2.1.1) for one path: a new path begins
/// with a new one.
#[derive(Clone, Debug)]
pub struct Delivery {
    delivered: Bytes,
    delivered_ce: Bytes,
    lost: Bytes,
    sent: Bytes,
    delivered_time: Instant,
    first_send_time: Instant,
    /// The `C.delivered` beyond which samples are no longer application-limited; zero if they are
    /// not.
    app_limited: Bytes,
    /// [`Duration::MAX`] before the first sample.
    min_rtt: Duration,
    pacer_below: bool,
    /// The newest packet of the ACK in progress: its state and its identifier.
    newest: Option<(PacketState, u64)>,
}

impl Default for Delivery {
    /// With the pacer in the transport.
    fn default() -> Self {
        Self::new(false)
    }
}

impl Delivery {
    /// `pacer_below` says that the pacer is below the transport, like fq in Linux, where a packet
    /// counts as sent while it waits there. An interval then includes the time a packet waits for
    /// the pacer, and a flow with less than one packet per round trip measures its sending rate,
    /// not one packet per round trip.
    pub fn new(pacer_below: bool) -> Self {
        Self {
            delivered: Bytes::ZERO,
            delivered_ce: Bytes::ZERO,
            lost: Bytes::ZERO,
            sent: Bytes::ZERO,
            delivered_time: Instant::ZERO,
            first_send_time: Instant::ZERO,
            app_limited: Bytes::ZERO,
            min_rtt: Duration::MAX,
            pacer_below,
            newest: None,
        }
    }

    /// `C.delivered`.
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// `C.lost`: the data declared lost, correctly or not (section 2.2).
    pub fn lost(&self) -> Bytes {
        self.lost
    }

    /// Data sent, each transmission counted.
    pub fn sent(&self) -> Bytes {
        self.sent
    }

    /// Whether the connection is application-limited now.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited > Bytes::ZERO
    }

    /// `OnPacketSent` (4.1.2.2): returns the state to keep with a packet of `size` bytes that
    /// departs at `send_time` with `in_flight` before it.
    #[inline]
    pub fn on_send(&mut self, send_time: Instant, size: u32, in_flight: Bytes) -> PacketState {
        self.on_send_after(send_time, size, in_flight, in_flight == Bytes::ZERO)
    }

    /// [`Self::on_send`], if the interval starts with this packet only if `nothing` may still
    /// arrive (Linux's `packets_out`; the draft's pull request 56). After a spurious loss the data
    /// in flight, an estimate, may be zero although everything arrives.
    pub fn on_send_after(
        &mut self,
        send_time: Instant,
        size: u32,
        in_flight: Bytes,
        nothing: bool,
    ) -> PacketState {
        self.sent += Bytes::new(u64::from(size));
        let goes_on = self.pacer_below && !self.is_app_limited() && self.delivered > Bytes::ZERO;
        if nothing && !goes_on {
            self.first_send_time = send_time;
            self.delivered_time = send_time;
        }
        PacketState {
            delivered: self.delivered,
            delivered_ce: self.delivered_ce,
            lost: self.lost,
            tx_in_flight: in_flight + Bytes::new(u64::from(size)),
            delivered_time: self.delivered_time,
            first_send_time: self.first_send_time,
            send_time,
            size,
            app_limited: self.is_app_limited(),
        }
    }

    /// [`Self::on_send`] returned the state of a burst, without its size: it has `bytes`.
    #[inline]
    pub fn on_sent(&mut self, bytes: Bytes) {
        self.sent += bytes;
    }

    /// `UpdateRateSample` (4.1.2.3): a packet is delivered for the first time.
    /// `id` grows with each transmission; it breaks ties between equal send times.
    #[inline]
    pub fn on_delivered(&mut self, now: Instant, packet: &PacketState, id: u64, marked: bool) {
        let size = Bytes::new(u64::from(packet.size));
        self.delivered += size;
        if marked {
            self.delivered_ce += size;
        }
        self.delivered_time = now;
        // The newest packet is that of this ACK (the draft also compares with C.first_send_time,
        // which is the newest of the previous ACKs).
        let newer = match &self.newest {
            None => true,
            Some((newest, newest_id)) => (packet.send_time, id) > (newest.send_time, *newest_id),
        };
        if newer {
            self.newest = Some((*packet, id));
        }
    }

    /// [`Self::on_delivered`] and [`Self::sample`] for an ACK of `bytes` that were sent one after
    /// another, `newest` last, if none sent after it was delivered before.
    #[inline(always)]
    pub fn sample_in_order(
        &mut self,
        now: Instant,
        bytes: Bytes,
        newest: &PacketState,
    ) -> RateSample {
        debug_assert!(self.newest.is_none());
        self.delivered += bytes;
        self.delivered_time = now;
        self.sample_of(Some(newest))
    }

    /// Without SACK, a duplicate acknowledgment reports `bytes` that arrived at an unknown place
    /// (4.1.3.5.1). They count as delivered but give no sample.
    pub fn on_duplicate(&mut self, now: Instant, bytes: Bytes) {
        self.delivered += bytes;
        self.delivered_time = now;
    }

    /// A spurious retransmission of `bytes` was delivered (`C.delivered`, section 2.2).
    pub fn on_repeated(&mut self, bytes: Bytes) {
        self.delivered += bytes;
    }

    /// Of the bytes that [`Self::on_delivered`] reported on this ACK, [`Self::on_duplicate`] had
    /// already counted `bytes`.
    pub fn on_told_before(&mut self, bytes: Bytes) {
        self.delivered -= bytes;
    }

    /// A transmission was declared lost.
    pub fn on_lost(&mut self, packet: &PacketState) {
        self.lost += Bytes::new(u64::from(packet.size));
    }

    /// A transmission will be neither acknowledged nor declared lost, and is no longer in flight:
    /// its keys were discarded (RFC 9002 section 6.4). It counts as neither; the connection's
    /// application-limited phase ends that much earlier.
    pub fn on_discarded(&mut self, packet: &PacketState) {
        if self.is_app_limited() {
            let left = self.app_limited - Bytes::new(u64::from(packet.size));
            self.app_limited = left.max(Bytes::new(1));
        }
    }

    /// An RTT sample for the lifetime minimum (`C.min_rtt`).
    #[inline]
    pub fn on_rtt(&mut self, rtt: Duration) {
        self.min_rtt = self.min_rtt.min(rtt);
    }

    /// `MarkConnectionAppLimited` (4.1.2.4).
    pub fn mark_app_limited(&mut self, in_flight: Bytes) {
        self.app_limited = (self.delivered + in_flight).max(Bytes::new(1));
    }

    /// `GenerateRateSample` (4.1.2.3): ends the ACK in progress.
    #[inline]
    pub fn sample(&mut self) -> RateSample {
        let newest = self.newest.take();
        self.sample_of(newest.as_ref().map(|(packet, _)| packet))
    }

    #[inline(always)]
    fn sample_of(&mut self, newest: Option<&PacketState>) -> RateSample {
        if self.delivered > self.app_limited {
            self.app_limited = Bytes::ZERO;
        }
        let Some(packet) = newest else {
            return RateSample::default();
        };
        let send_elapsed = packet.send_time.since(packet.first_send_time);
        let ack_elapsed = self.delivered_time.since(packet.delivered_time);
        self.first_send_time = packet.send_time;
        let interval = send_elapsed.max(ack_elapsed);
        let reliable = interval >= self.min_rtt || self.min_rtt == Duration::MAX;
        RateSample {
            has_data: true,
            delivered: self.delivered - packet.delivered,
            delivered_ce: self.delivered_ce - packet.delivered_ce,
            prior_delivered: packet.delivered,
            interval: if reliable { interval } else { Duration::ZERO },
            tx_in_flight: packet.tx_in_flight,
            lost: self.lost - packet.lost,
            app_limited: packet.app_limited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 2.2: `C.delivered` counts spurious retransmissions too.
    #[test]
    fn what_arrives_again_counts_as_delivered() {
        let mut delivery = Delivery::default();
        let token = delivery.on_send(Instant::ZERO, 1000, Bytes::ZERO);
        delivery.on_delivered(Instant::from_nanos(1), &token, 0, false);
        delivery.on_repeated(Bytes::new(700));
        assert_eq!(delivery.delivered(), Bytes::new(1700));
    }

    /// Ten packets are declared lost 500 ms after the last delivery, and arrive all the same. Pull
    /// request 56: the next sample covers the time since that delivery.
    #[test]
    fn after_a_spurious_loss_the_interval_goes_on_if_packets_are_unacknowledged() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        for (nothing, interval) in [(true, 40), (false, 540)] {
            let mut delivery = Delivery::default();
            let first = delivery.on_send(at(0), 1000, Bytes::ZERO);
            delivery.on_delivered(at(40), &first, 0, false);
            delivery.sample();
            let token = delivery.on_send_after(at(540), 1000, Bytes::ZERO, nothing);
            delivery.on_delivered(at(580), &token, 1, false);
            assert_eq!(delivery.sample().interval, Duration::from_millis(interval));
        }
    }

    /// Nothing waits for discarded packets: neither the application-limited mark nor the volumes.
    #[test]
    fn what_is_discarded_does_not_keep_a_flow_application_limited() {
        let size = Bytes::new(1000);
        let mut delivery = Delivery::default();
        let tokens = [0, 1, 2].map(|n| delivery.on_send(Instant::ZERO, 1000, size * n));
        delivery.mark_app_limited(size * 3);
        delivery.on_discarded(&tokens[0]);
        delivery.on_discarded(&tokens[1]);
        assert_eq!(
            (delivery.delivered(), delivery.lost()),
            (Bytes::ZERO, Bytes::ZERO)
        );
        let now = Instant::from_nanos(1);
        delivery.on_delivered(now, &tokens[2], 2, false);
        delivery.sample();
        assert!(
            delivery.is_app_limited(),
            "what was in flight is delivered, not more"
        );
        let next = delivery.on_send(now, 1000, Bytes::ZERO);
        delivery.on_delivered(now, &next, 3, false);
        delivery.sample();
        assert!(!delivery.is_app_limited());
    }
}
