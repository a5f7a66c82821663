//! RACK: loss detection by time (RFC 8985 section 6).
//!
//! The sender's state across acknowledgments. Transmissions are ordered by their numbers, which is
//! finer than the RFC's pair of time and sequence.

use paceline_units::{Duration, Instant};

use crate::scoreboard::Outstanding;

/// The RFC's `RACK.` state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// Number of the newest transmission known to be delivered (`RACK.segment`).
    newest: Option<u64>,
    /// RTT of the most recently delivered transmission, whichever was sent last (`RACK.rtt`), and
    /// its number.
    rtt: Duration,
    rtt_of: u64,
    /// Highest sequence delivered (`RACK.fack`).
    fack: u64,
    reordering_seen: bool,
    /// The lowest end of the segments that arrived late with the current acknowledgment, and how
    /// many bytes late a segment has been at most (Linux's `reordering`).
    late: Option<u64>,
    lateness: u64,
    reo_wnd_mult: u64,
    reo_wnd_persist: u32,
    /// DSACKs until this sequence is acknowledged belong to one round.
    dsack_round: Option<u64>,
}

/// A transmission that was newly delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    /// Its number.
    pub number: u64,
    /// When it was sent.
    pub sent: Instant,
    /// The sequence after its last byte.
    pub end: u64,
    /// Whether its data had been sent more than once.
    pub retransmitted: bool,
}

impl Delivered {
    pub(crate) fn of(segment: &Outstanding) -> Self {
        Self {
            number: segment.number,
            sent: segment.packet.send_time,
            end: segment.end(),
            retransmitted: segment.retransmitted,
        }
    }
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            rtt: Duration::ZERO,
            rtt_of: 0,
            fack: 0,
            reordering_seen: false,
            late: None,
            lateness: 0,
            reo_wnd_mult: 1,
            reo_wnd_persist: Self::PERSIST,
            dsack_round: None,
        }
    }
}

impl Rack {
    const PERSIST: u32 = 16;
    /// `DupThresh`.
    const DUP_THRESH: u64 = 3;

    /// Steps 2 and 3. `fack` is [`Self::fack`] as it was before the acknowledgment; `echo` is its
    /// timestamp echo, if that identifies the transmission.
    #[inline]
    pub(crate) fn on_delivered(
        &mut self,
        now: Instant,
        packet: &Delivered,
        fack: u64,
        echo: Option<Instant>,
        min_rtt: Option<Duration>,
    ) {
        // Step 3: reordering.
        if packet.end > self.fack {
            self.fack = packet.end;
        }
        if packet.end < fack && !packet.retransmitted {
            self.reordering_seen = true;
            self.on_late(packet.end);
        }
        // Step 2: the most recently sent one. An acknowledgment of data sent twice may be for the
        // first transmission.
        let rtt = now.since(packet.sent);
        if packet.retransmitted
            && (echo.is_some_and(|echo| echo < packet.sent) || min_rtt.is_some_and(|min| rtt < min))
        {
            return;
        }
        self.rtt = rtt;
        self.rtt_of = packet.number;
        self.newest = self.newest.max(Some(packet.number));
    }

    /// The retransmitted segment at `seq` arrived by its first transmission: reordering, if
    /// anything above it had been delivered (Linux's `tcp_check_sack_reordering`; the RFC considers
    /// only segments that were not retransmitted).
    pub(crate) fn on_reordering(&mut self, seq: u64) {
        self.reordering_seen |= seq < self.fack;
    }

    /// The segment that ends at `end` is late, to be measured.
    pub(crate) fn on_late(&mut self, end: u64) {
        self.late = Some(self.late.map_or(end, |late| late.min(end)));
    }

    /// The acknowledgment is taken: how late its late segments were. `una` is the first
    /// unacknowledged byte if nothing is SACKed, in which case the kernel measures from there.
    pub(crate) fn measure_lateness(&mut self, una: Option<u64>, mss: u32) {
        if let Some(end) = self.late.take() {
            let from = una.map_or(self.fack, |una| una.saturating_add(u64::from(mss)));
            self.lateness = self.lateness.max(from.saturating_sub(end));
        }
    }

    /// Whether a segment was so late that Linux lets the window grow on any delivery from then on
    /// (`tcp_may_raise_cwnd`).
    pub(crate) fn has_much_reordering(&self, mss: u32) -> bool {
        self.lateness > Self::DUP_THRESH * u64::from(mss)
    }

    /// A timeout with many SACKs in no episode: the degree of reordering was taken for too high
    /// (`tcp_enter_loss`).
    pub(crate) fn on_timeout_in_disorder(&mut self, sacked: u64) {
        if sacked >= Self::DUP_THRESH {
            self.lateness = 0;
        }
    }

    /// Step 4, DSACK rounds. `exiting`: recovery ends with this acknowledgment.
    pub(crate) fn on_ack(&mut self, una: u64, nxt: u64, duplicate: bool, exiting: bool) {
        if self.dsack_round.is_some_and(|round| una >= round) {
            self.dsack_round = None;
        }
        if self.dsack_round.is_none() && duplicate {
            self.dsack_round = Some(nxt);
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = Self::PERSIST;
        } else if exiting {
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
    }

    /// Step 4: the reordering window.
    #[inline]
    pub(crate) fn reo_wnd(
        &self,
        recovering: bool,
        sacked: u64,
        min_rtt: Option<Duration>,
        srtt: Option<Duration>,
    ) -> Duration {
        if !self.reordering_seen && (recovering || sacked >= Self::DUP_THRESH) {
            return Duration::ZERO;
        }
        let window = min_rtt.unwrap_or_default() * self.reo_wnd_mult / 4;
        window.min(srtt.unwrap_or_default())
    }

    /// Step 5: when the transmission `number`, sent at `sent`, is lost; none while nothing sent
    /// after it is known to be delivered.
    pub(crate) fn deadline(
        &self,
        number: u64,
        sent: Instant,
        reo_wnd: Duration,
    ) -> Option<Instant> {
        let later = self.newest.is_some_and(|newest| number < newest);
        later.then(|| self.expiry(sent, reo_wnd))
    }

    /// The same regardless of later deliveries (6.3: on a retransmission timeout).
    pub(crate) fn expiry(&self, sent: Instant, reo_wnd: Duration) -> Instant {
        sent + self.rtt + reo_wnd
    }

    /// The number of `RACK.segment`.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// `RACK.rtt`, and the number of its transmission.
    pub(crate) fn rtt(&self) -> (Duration, u64) {
        (self.rtt, self.rtt_of)
    }

    /// Sets it: Linux reads selective ranges first, so that the last delivery is of the data
    /// acknowledged in order, if there is any.
    pub(crate) fn set_rtt(&mut self, rtt: (Duration, u64)) {
        (self.rtt, self.rtt_of) = rtt;
    }

    /// `RACK.fack`.
    pub(crate) fn fack(&self) -> u64 {
        self.fack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn deliver(rack: &mut Rack, now: u64, number: u64, sent: u64, retransmitted: bool) {
        let packet = Delivered {
            number,
            sent: at(sent),
            end: (number + 1) * 100,
            retransmitted,
        };
        let fack = rack.fack();
        rack.on_delivered(at(now), &packet, fack, None, Some(ms(40)));
    }

    /// RFC 8985 section 3.4-like: P1, P2, P3 sent 1 ms apart, P2 delivered.
    #[test]
    fn what_was_sent_before_the_newest_delivered_waits_the_reordering_window() {
        let mut rack = Rack::default();
        deliver(&mut rack, 41, 1, 1, false);
        // Fewer than three SACKed, no reordering detected: a quarter of the minimum RTT.
        let window = rack.reo_wnd(false, 1, Some(ms(40)), Some(ms(40)));
        assert_eq!(window, ms(10));
        assert_eq!(rack.deadline(0, at(0), window), Some(at(50)));
        // Sent later than anything delivered: no conclusion yet.
        assert_eq!(rack.deadline(2, at(2), window), None);
    }

    #[test]
    fn three_sacked_or_recovery_close_the_window_until_reordering_is_seen() {
        let mut rack = Rack::default();
        assert_eq!(rack.reo_wnd(false, 3, Some(ms(40)), Some(ms(40))), ms(0));
        assert_eq!(rack.reo_wnd(true, 0, Some(ms(40)), Some(ms(40))), ms(0));
        deliver(&mut rack, 45, 5, 5, false);
        deliver(&mut rack, 46, 3, 3, false);
        assert_eq!(rack.reo_wnd(true, 3, Some(ms(40)), Some(ms(40))), ms(10));
    }

    /// RFC 8985 6.2 step 2: the RTT is that of the latest delivery, the segment that of the latest
    /// transmission.
    #[test]
    fn the_round_trip_is_that_of_the_last_delivery() {
        let mut rack = Rack::default();
        deliver(&mut rack, 815, 9, 715, true);
        deliver(&mut rack, 900, 5, 200, false);
        assert_eq!((rack.newest, rack.rtt), (Some(9), ms(700)));
        // As old as the segment that has just arrived: it still has the reordering window.
        assert_eq!(rack.deadline(4, at(200), ms(25)), Some(at(925)));
    }

    #[test]
    fn a_late_retransmission_is_not_reordering() {
        let mut rack = Rack::default();
        deliver(&mut rack, 45, 5, 5, false);
        deliver(&mut rack, 99, 3, 50, true);
        assert!(!rack.reordering_seen);
    }

    #[test]
    fn an_acknowledgment_sooner_than_the_minimum_rtt_is_of_the_first_transmission() {
        let mut rack = Rack::default();
        deliver(&mut rack, 40, 0, 0, false);
        deliver(&mut rack, 60, 9, 50, true);
        assert_eq!((rack.newest, rack.rtt), (Some(0), ms(40)));
        deliver(&mut rack, 92, 9, 50, true);
        assert_eq!((rack.newest, rack.rtt), (Some(9), ms(42)));
    }

    #[test]
    fn an_older_echo_is_of_the_first_transmission() {
        let mut rack = Rack::default();
        let packet = Delivered {
            number: 9,
            sent: at(50),
            end: 100,
            retransmitted: true,
        };
        rack.on_delivered(at(150), &packet, 0, Some(at(49)), Some(ms(40)));
        assert_eq!(rack.newest, None);
        rack.on_delivered(at(150), &packet, 0, Some(at(50)), Some(ms(40)));
        assert_eq!(rack.newest, Some(9));
    }

    #[test]
    fn dsacks_widen_the_window_once_a_round_and_sixteen_recoveries_close_it() {
        let mut rack = Rack {
            reordering_seen: true,
            ..Rack::default()
        };
        rack.on_ack(0, 1000, true, false);
        rack.on_ack(500, 1500, true, false);
        assert_eq!(rack.reo_wnd(false, 0, Some(ms(40)), Some(ms(100))), ms(20));
        rack.on_ack(1000, 2000, true, false);
        assert_eq!(rack.reo_wnd(false, 0, Some(ms(40)), Some(ms(100))), ms(30));
        // Bounded by the smoothed RTT.
        assert_eq!(rack.reo_wnd(false, 0, Some(ms(40)), Some(ms(25))), ms(25));
        for _ in 0..15 {
            rack.on_ack(2000, 3000, false, true);
        }
        assert_eq!(rack.reo_wnd_mult, 3);
        rack.on_ack(2000, 3000, false, true);
        assert_eq!(rack.reo_wnd_mult, 1);
    }
}
