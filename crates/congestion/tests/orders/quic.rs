//! A sender as in QUIC (RFC 9002), which reports losses to its controller before the sample or
//! after it: packet numbers that are never reused, a gap of three or 9/8 of a round trip, probe
//! timeouts, persistent congestion, discarded keys, a path change.

use std::collections::BTreeMap;

use paceline_congestion::{
    Ack, AnyController, CaState, Config, Controller, Delivery, Ecn, Lost, PacketState, Recipe,
    Sent, Signals,
};
use paceline_units::{Bytes, Duration, Instant};

/// The signals that it gives, apart from the order.
pub const SIGNALS: Signals = Signals {
    losses_first: false,
    receiver_delay: false,
    ..Signals::ALL
};
const GRANULARITY: Duration = Duration::from_millis(1);
pub const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// The new information in one ACK frame.
#[derive(Clone, Debug, Default)]
pub struct AckFrame {
    pub numbers: Vec<u64>,
    pub marked: u64,
    /// Delay from the sender to the receiver of the newest.
    pub one_way: Duration,
    /// A timer delayed it.
    pub delayed: bool,
}

pub struct Sender {
    recipe: Recipe,
    losses_first: bool,
    mss: u32,
    seed: u64,
    pub controller: AnyController,
    pub delivery: Delivery,
    outstanding: BTreeMap<u64, PacketState>,
    /// Declared lost in this episode, and not delivered so far.
    lost: BTreeMap<u64, PacketState>,
    pub in_flight: Bytes,
    next: u64,
    largest: Option<u64>,
    release: Instant,
    cwnd_limited: bool,
    recovery: Option<u64>,
    state: CaState,
    srtt: Option<Duration>,
    rttvar: Duration,
    min_rtt: Duration,
    pto_count: u32,
    last_sent: Instant,
    /// Data reported lost, and marks reported, since the last sample.
    untold: Bytes,
    late_marks: Bytes,
    pub persistent: u32,
    pub spurious: u32,
    pub sent_packets: u64,
    pub lost_packets: u64,
}

impl Sender {
    pub fn new(recipe: Recipe, losses_first: bool, mss: u32, seed: u64, now: Instant) -> Self {
        let config = Config {
            mss,
            initial_window: Bytes::new(10 * u64::from(mss)),
            seed,
            now,
            srtt: None,
            has_selective_acks: true,
        };
        let controller = recipe.build(&config);
        Self {
            losses_first,
            mss,
            seed,
            delivery: Delivery::new(controller.pacer_below()),
            controller,
            recipe,
            outstanding: BTreeMap::new(),
            lost: BTreeMap::new(),
            in_flight: Bytes::ZERO,
            next: 0,
            largest: None,
            release: now,
            cwnd_limited: false,
            recovery: None,
            state: CaState::Open,
            srtt: None,
            rttvar: Duration::ZERO,
            min_rtt: Duration::MAX,
            pto_count: 0,
            last_sent: now,
            untold: Bytes::ZERO,
            late_marks: Bytes::ZERO,
            persistent: 0,
            spurious: 0,
            sent_packets: 0,
            lost_packets: 0,
        }
    }

    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.mss))
    }

    /// RFC 9002 section 6.2.1.
    fn pto(&self) -> Duration {
        let rtt = match self.srtt {
            Some(srtt) => srtt + (self.rttvar * 4).max(GRANULARITY) + MAX_ACK_DELAY,
            None => Duration::from_secs(1),
        };
        rtt * (1 << self.pto_count.min(6))
    }

    fn threshold(&self) -> Duration {
        self.srtt
            .map_or(Duration::from_secs(1), |srtt| srtt * 9 / 8)
    }

    /// The next packet, if window and pacer allow it.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(u64, u32, Ecn)> {
        let full = self.in_flight + self.size() > self.controller.cwnd();
        self.cwnd_limited |= full;
        if (full && self.in_flight > Bytes::ZERO) || now < self.release {
            return None;
        }
        Some(self.send(now))
    }

    fn send(&mut self, now: Instant) -> (u64, u32, Ecn) {
        if self.in_flight == Bytes::ZERO && now.since(self.last_sent) > self.pto() {
            self.controller.on_idle_restart(now);
        }
        let before = self.controller.outputs();
        // Writing all of it is slow.
        let unheard = self.in_flight > Bytes::ZERO && !self.controller.hears_each_send();
        let state =
            (unheard && self.next.is_multiple_of(64)).then(|| format!("{:?}", self.controller));
        self.controller.on_send(&Sent {
            now,
            size: self.mss,
            in_flight: self.in_flight,
            app_limited: self.delivery.is_app_limited(),
        });
        // A transport asks again only if the pipe was empty, and may skip calls that nobody needs.
        assert!(self.in_flight == Bytes::ZERO || before == self.controller.outputs());
        assert!(state.is_none_or(|state| state == format!("{:?}", self.controller)));
        let token = self.delivery.on_send(now, self.mss, self.in_flight);
        self.outstanding.insert(self.next, token);
        self.in_flight += self.size();
        if let Some(rate) = self.controller.pacing_rate() {
            let burst = rate.time_for(self.controller.send_quantum());
            let earliest = Instant::ZERO + (now.since(Instant::ZERO) - burst);
            self.release = self.release.max(earliest) + rate.time_for(self.size());
        } else {
            self.release = now;
        }
        self.last_sent = now;
        self.sent_packets += 1;
        self.next += 1;
        (self.next - 1, self.mss, self.controller.ecn())
    }

    /// The next due time: of a loss by time, a probe, or the pacer.
    pub fn next_timer(&self) -> Instant {
        let paced =
            self.in_flight + self.size() <= self.controller.cwnd() || self.in_flight == Bytes::ZERO;
        let pacer = if paced { self.release } else { Instant::MAX };
        let probe = match self.outstanding.is_empty() {
            true => Instant::MAX,
            false => self.last_sent + self.pto(),
        };
        let early = self
            .outstanding
            .iter()
            .next()
            .filter(|(number, _)| Some(**number) < self.largest);
        let lost = early.map_or(Instant::MAX, |(_, token)| {
            token.send_time + self.threshold()
        });
        pacer.min(probe).min(lost)
    }

    /// A timer is due; a probe may have to be sent whatever the window allows.
    pub fn on_timer(&mut self, now: Instant) -> Option<(u64, u32, Ecn)> {
        self.find_losses(now);
        if self.outstanding.is_empty() || now < self.last_sent + self.pto() {
            return None;
        }
        self.pto_count += 1;
        Some(self.send(now))
    }

    pub fn on_ack(&mut self, now: Instant, frame: &AckFrame) {
        let (prior_in_flight, limited) = (self.in_flight, self.cwnd_limited);
        let mut newly_acked = Bytes::ZERO;
        let mut newest: Option<PacketState> = None;
        let mut marked = Bytes::ZERO;
        for number in &frame.numbers {
            let outstanding = self.outstanding.remove(number);
            let was_lost = outstanding.is_none();
            let Some(token) = outstanding.or_else(|| self.lost.remove(number)) else {
                continue; // of a path or of keys that are no more
            };
            let size = Bytes::new(u64::from(token.size));
            if !was_lost {
                self.in_flight -= size;
                newest = Some(newest.map_or(token, |newest| {
                    if newest.send_time > token.send_time {
                        newest
                    } else {
                        token
                    }
                }));
            }
            let is_marked = marked < Bytes::new(frame.marked);
            marked += if is_marked { size } else { Bytes::ZERO };
            self.delivery.on_delivered(now, &token, *number, is_marked);
            newly_acked += size;
            self.largest = self.largest.max(Some(*number));
        }
        if newly_acked == Bytes::ZERO {
            return;
        }
        self.cwnd_limited = false;
        self.pto_count = 0;
        let rtt = newest.map(|token| now.since(token.send_time));
        if let Some(rtt) = rtt {
            self.measure(rtt);
        }
        let over = self
            .recovery
            .is_some_and(|first| frame.numbers.iter().any(|n| *n >= first));
        if self.recovery.is_some() && self.lost.is_empty() {
            self.spurious += 1;
            self.controller.on_spurious(now, self.delivery.delivered());
        }
        if over || (self.recovery.is_some() && self.lost.is_empty()) {
            self.recovery = None;
            self.lost.clear();
            self.state = CaState::Open;
            self.controller.on_recovery_exit(now);
        }
        if self.losses_first {
            self.untold = self.find_losses(now);
            self.late_marks = marked;
        }
        self.controller.on_ack(&Ack {
            now,
            sample: self.delivery.sample(),
            newly_acked,
            newly_lost: self.untold,
            newly_marked: Some(self.late_marks),
            prior_in_flight,
            in_flight: self.in_flight,
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.sent(),
            rtt,
            srtt: self.srtt.unwrap_or_default(),
            min_rtt: self.min_rtt,
            cwnd_limited: limited,
            ca_state: self.state,
            una_advanced: true,
            delayed: frame.delayed,
            one_way_delay: rtt.map(|_| frame.one_way),
            network_rtt: rtt,
            receiver_delay: None,
            ece: false,
        });
        if !self.losses_first {
            self.untold = self.find_losses(now);
            self.late_marks = marked;
        }
        if self.controller.marks_app_limited() {
            self.delivery.mark_app_limited(self.in_flight);
        }
    }

    /// RFC 9002 section 5.3.
    fn measure(&mut self, rtt: Duration) {
        self.delivery.on_rtt(rtt);
        self.min_rtt = self.min_rtt.min(rtt);
        let (srtt, rttvar) = match self.srtt {
            None => (rtt, rtt / 2),
            Some(srtt) => {
                let off = if srtt > rtt { srtt - rtt } else { rtt - srtt };
                ((srtt * 7 + rtt) / 8, (self.rttvar * 3 + off) / 4)
            }
        };
        (self.srtt, self.rttvar) = (Some(srtt), rttvar);
    }

    /// RFC 9002 section 6.1 and 7.6. Returns the packets declared lost.
    fn find_losses(&mut self, now: Instant) -> Bytes {
        let largest = self.largest.unwrap_or(0);
        let due = self.threshold();
        let is_lost = |(number, token): &(&u64, &PacketState)| {
            **number < largest && (**number + 3 <= largest || token.send_time + due <= now)
        };
        // Both grow with the packet number, so the scan ends at the first packet that is not lost.
        let gone = self.outstanding.iter().take_while(is_lost);
        let gone: Vec<(u64, PacketState)> = gone.map(|(n, t)| (*n, *t)).collect();
        let (mut bytes, mut before) = (Bytes::ZERO, None);
        for (number, token) in &gone {
            self.outstanding.remove(number);
            self.lost.insert(*number, *token);
            self.in_flight -= Bytes::new(u64::from(token.size));
            bytes += Bytes::new(u64::from(token.size));
            self.lost_packets += 1;
            self.delivery.on_lost(token);
            self.controller.on_loss(&Lost {
                now,
                packet: *token,
                lost: self.delivery.lost(),
                delivered: self.delivery.delivered(),
                in_flight: self.in_flight,
                starts_range: before != number.checked_sub(1),
                retransmission: false,
            });
            before = Some(*number);
        }
        let Some(((first, oldest), (last, newest))) = gone.first().zip(gone.last()) else {
            return bytes;
        };
        if self.recovery.is_none_or(|begun| *last >= begun) {
            self.recovery = Some(self.next);
            self.state = CaState::Recovery;
            self.controller.on_recovery_enter(now, self.in_flight);
        }
        let span = newest.send_time.since(oldest.send_time);
        let contiguous = gone.len() as u64 == last - first + 1;
        self.pto_count = if contiguous { 0 } else { self.pto_count };
        if contiguous && self.srtt.is_some() && span > self.pto() * 3 {
            self.persistent += 1;
            self.state = CaState::Loss;
            self.controller.on_timeout(now, self.in_flight);
        }
        bytes
    }

    /// The keys of the oldest packets are discarded.
    pub fn discard(&mut self, packets: usize) {
        for _ in 0..packets {
            if let Some((_, token)) = self.outstanding.pop_first() {
                self.in_flight -= Bytes::new(u64::from(token.size));
                self.delivery.on_discarded(&token);
            }
        }
    }

    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.controller.on_mss(mss);
    }

    /// The application had nothing to send for a moment.
    pub fn pause(&mut self) {
        self.delivery.mark_app_limited(self.in_flight);
    }

    /// Another path: all knowledge of the old one is discarded (RFC 9000 section 9.4).
    pub fn change_path(&mut self, now: Instant) {
        let counts = (self.sent_packets, self.lost_packets, self.next);
        let fresh = Self::new(
            self.recipe.clone(),
            self.losses_first,
            self.mss,
            self.seed,
            now,
        );
        *self = Self {
            persistent: self.persistent,
            spurious: self.spurious,
            ..fresh
        };
        (self.sent_packets, self.lost_packets, self.next) = counts;
    }
}
