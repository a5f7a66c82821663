//! The shadow: a controller fed with a flow's own sends, ACKs and losses.

use std::collections::{BTreeMap, VecDeque};

use paceline_congestion::{
    Ack, AnyController, CaState, Config, Controller, Delivery, Lost, PacketState, Recipe, Sent,
    Value, Visitor,
};
use paceline_units::{Bytes, Duration, Gain, Instant};

use super::pace::Pace;
use super::recording::{Event, Recording, What};

/// When a lost packet counts as marked lost: its resending shows only when the latest was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// As RACK (RFC 8985) and RFC 9002 mark: at the ACK of the third packet sent after it; in
    /// recovery, at the first.
    Usual,
    /// At the first ACK of a packet sent after it.
    Early,
    /// When its data is sent again.
    Late,
    /// As usual, and Linux's HyStart rests in recovery: there it goes by what PRR allows, which no
    /// packet shows.
    WithoutHyStart,
    /// QUIC marked as TCP is, whose episodes last until a round trip without losses. By RFC 9002
    /// (7.3.2) they end after one.
    AsTcp,
}

/// What the shadow allows from an ACK on, and what the flow had in flight then.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// In nanoseconds.
    pub at: u64,
    /// Bytes per second; none leaves it to the ACK clock.
    pub pace: Option<f64>,
    /// In bytes.
    pub window: u64,
    /// In bytes.
    pub in_flight: u64,
    /// Sent so far, in bytes.
    pub sent: u64,
    /// The state of its state machine.
    pub phase: &'static str,
    /// Its maximum bandwidth in bytes per second, if it has one.
    pub max_bw: f64,
    /// The gain of its pace over its bandwidth, if it has one.
    pub gain: f64,
    /// Whether the flow seems to have had nothing more to send.
    pub app_limited: bool,
    /// Whether a full window hid when the flow's last probe began.
    pub is_hidden: bool,
}

/// A probe for bandwidth.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// When the shadow began it.
    pub at: u64,
    /// It came sooner than it may.
    pub is_early: bool,
    /// It came later than it was due.
    pub is_late: bool,
    /// How long the flow waited for it, in nanoseconds, if a draw alone decides that and it shows.
    pub wait: Option<u64>,
}

/// What a shadow did.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// After each ACK.
    pub moments: Vec<Moment>,
    /// Each transmission: its time, the bytes in flight after it, and the window then.
    pub sends: Vec<(u64, u64, u64)>,
    /// Each probe for bandwidth.
    pub probes: Vec<Probe>,
    /// When a probe was due that the flow did not show.
    pub overdue: Vec<u64>,
    /// Marked lost, in bytes.
    pub lost: u64,
    /// The name of its algorithm.
    pub name: &'static str,
    /// See [`Recording::is_bulk`].
    pub is_bulk: bool,
    /// Whether the round trip of the connection's set-up is known.
    pub knows_rtt: bool,
}

impl Followed {
    /// Whether the algorithm has a window that only losses reduce, and no model of the path.
    pub fn is_loss_based(&self) -> bool {
        matches!(self.name, "reno" | "reno-linux" | "cubic" | "cubic-linux")
    }

    /// Whether its states last a round trip each, as BBRv1's.
    pub fn has_cycle(&self) -> bool {
        self.moments.iter().any(|moment| moment.phase == CYCLE)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Out,
    Delivered,
    Lost,
    Moot,
}

/// Whether the flow's first slow start is checked again.
#[derive(Clone, Copy)]
pub(super) enum SlowStart {
    /// At this time, or when the shadow is no longer in slow start, or is again.
    CheckAt(Instant, bool),
    Over,
}

/// What was sent since a time, and what the pace allowed, in bytes: they show whether the
/// application limits the flow.
#[derive(Clone, Copy)]
struct Counted {
    since: Instant,
    last: Instant,
    sent: u64,
    allowed: u64,
}

impl Counted {
    fn from(now: Instant) -> Self {
        Self {
            since: now,
            last: now,
            sent: 0,
            allowed: 0,
        }
    }
}

/// The controller, and the transport that the recording stands for.
pub(super) struct Shadow<'a> {
    pub(super) recording: &'a Recording,
    pub(super) pace: &'a Pace,
    marks: Marks,
    pub(super) controller: AnyController,
    delivery: Delivery,
    pub(super) tokens: Vec<PacketState>,
    statuses: Vec<Status>,
    pub(super) in_flight: u64,
    /// Transmissions that will be lost, or sent again before they are delivered; oldest first.
    doubtful: VecDeque<u32>,
    /// The three newest transmissions delivered.
    newest: [Option<u32>; 3],
    /// In recovery: everything below this byte, or after this transmission (QUIC), ends it.
    recovery: Option<(u64, u32)>,
    /// The first transmission after the last episode began.
    since_episode: u32,
    timed_out: bool,
    /// Segments that were marked lost and are not delivered: first byte, and the byte after.
    missing: BTreeMap<u64, u64>,
    last_lost: Option<u32>,
    newly_lost: u64,
    /// Marked lost in this episode, and of these delivered after all.
    marked: (u64, u64),
    highest: u64,
    /// Everything below is acknowledged.
    una: u64,
    pub(super) srtt: Option<Duration>,
    pub(super) min_rtt: Duration,
    last_sent: Option<u64>,
    cwnd_limited_at: Option<u64>,
    counted: Counted,
    /// Rounds that have begun, and the first transmission whose ACK begins the next. Linux counts none.
    pub(super) rounds: u64,
    round_end: u32,
    /// The end of the last probe: time and round.
    pub(super) rested: (u64, u64),
    /// When BBRv1's next probe is due, and until when it is waited for.
    pub(super) due: Option<(Instant, Instant)>,
    /// The probe that is due now was not observed.
    pub(super) is_overdue: bool,
    pub(super) slow_start: SlowStart,
    /// The probe that begins now is too early.
    pub(super) is_early: bool,
    /// A full window hid when the flow's last probe began.
    pub(super) is_hidden: bool,
    /// When the shadow's last ProbeRTT was.
    pub(super) probed_rtt: u64,
    /// After the last ACK: the state, and the maximum bandwidth in bytes per second.
    pub(super) phase: &'static str,
    pub(super) max_bw: f64,
    /// The bandwidth in use, after losses less than the maximum, in bytes per second.
    pub(super) bw: f64,
    pub(super) followed: Followed,
}

/// Follows a flow.
pub fn follow(
    recording: &Recording,
    pace: &Pace,
    recipe: &Recipe,
    marks: Marks,
    handshake: Option<u64>,
) -> Followed {
    let begins = Instant::from_nanos(recording.begins());
    let config = Config {
        mss: recording.mss,
        initial_window: Bytes::new(10 * u64::from(recording.mss)),
        seed: 1,
        now: begins,
        srtt: handshake.map(Duration::from_nanos),
        has_selective_acks: true,
    };
    let controller = recipe.build(&config);
    let mut shadow = Shadow {
        recording,
        pace,
        marks,
        delivery: Delivery::new(controller.pacer_below()),
        phase: controller.phase(),
        max_bw: 0.0,
        bw: 0.0,
        is_early: false,
        is_hidden: false,
        controller,
        tokens: Vec::with_capacity(recording.sent.len()),
        statuses: Vec::with_capacity(recording.sent.len()),
        in_flight: 0,
        doubtful: VecDeque::new(),
        newest: [None; 3],
        recovery: None,
        since_episode: 0,
        timed_out: false,
        missing: BTreeMap::new(),
        last_lost: None,
        newly_lost: 0,
        marked: (0, 0),
        highest: 0,
        una: 0,
        srtt: config.srtt,
        min_rtt: config.srtt.unwrap_or(Duration::MAX),
        last_sent: None,
        cwnd_limited_at: None,
        counted: Counted::from(begins),
        rounds: 0,
        round_end: 0,
        rested: (recording.begins(), 0),
        due: None,
        is_overdue: false,
        slow_start: SlowStart::CheckAt(begins, true),
        probed_rtt: recording.begins(),
        followed: Followed {
            name: recipe.name(),
            sends: Vec::with_capacity(recording.sent.len()),
            is_bulk: recording.is_bulk(),
            knows_rtt: config.srtt.is_some(),
            ..Followed::default()
        },
    };
    if let Some(srtt) = config.srtt {
        shadow.delivery.on_rtt(srtt);
    }
    for (index, event) in recording.events.iter().enumerate() {
        shadow.on_event(index as u32, event);
    }
    shadow.followed.lost = shadow.delivery.lost().get();
    shadow.followed
}

impl Shadow<'_> {
    fn on_event(&mut self, index: u32, event: &Event) {
        let now = Instant::from_nanos(event.at);
        match event.what {
            What::Sent(number) => self.on_sent(now, number),
            What::Ack { from, to, point } if from < to => {
                self.on_ack(now, index, from, to, point);
            }
            What::Ack { .. } => {}
        }
    }

    fn on_sent(&mut self, now: Instant, number: u32) {
        let sent = self.recording.sent[number as usize];
        // The latest time at which its last transmission was marked.
        if let Some(previous) = sent.previous
            && self.statuses[previous as usize] == Status::Out
            && !self.is_probe(previous, now)
        {
            self.give_up(now, previous);
        }
        let in_flight = Bytes::new(self.in_flight);
        if self.in_flight == 0 {
            self.restart(now);
        }
        if self.is_pause(now, sent.size) {
            self.delivery.mark_app_limited(in_flight);
        }
        self.controller.on_send(&Sent {
            now,
            size: sent.size,
            in_flight,
            app_limited: self.delivery.is_app_limited(),
        });
        let token = self.delivery.on_send(now, sent.size, in_flight);
        self.tokens.push(token);
        self.highest = self.highest.max(sent.end());
        self.last_sent = Some(sent.at);
        let is_moot = sent.moot.is_some() && sent.acked.is_none();
        let resent = sent.next.map(|next| &self.recording.sent[next as usize]);
        // Delivered, and sent again before: its sender considered it lost.
        let exonerated = sent.acked.is_some() && resent.is_some();
        if !is_moot && (sent.acked.is_none() || exonerated) {
            self.doubtful.push_back(number);
        }
        // Sent after its ACK: no other will take it out of what is in flight.
        let is_late = is_moot && sent.previous.is_none();
        self.statuses
            .push(if is_late { Status::Moot } else { Status::Out });
        if !is_late {
            self.in_flight += u64::from(sent.size);
        }
        self.counted.sent += u64::from(sent.size);
        let window = self.controller.cwnd().get();
        if (self.in_flight + u64::from(self.recording.mss)) * 1000 > window * 995 {
            self.cwnd_limited_at = Some(sent.at);
        }
        self.followed.sends.push((sent.at, self.in_flight, window));
    }

    /// A probe of the tail (RFC 8985 section 7.3, RFC 9002 section 6.2) is no sign of a loss.
    fn is_probe(&self, previous: u32, now: Instant) -> bool {
        let sent = &self.recording.sent[previous as usize];
        let is_tail = sent.end() >= self.highest && sent.previous.is_none();
        is_tail && now.as_nanos() > sent.at && self.recovery.is_none()
    }

    /// Data is sent again that no ACK has shown to be lost: the first outstanding means a timeout.
    fn give_up(&mut self, now: Instant, previous: u32) {
        let is_first = self.doubtful.front() == Some(&previous);
        let silence = now.since(self.delivery_time());
        let is_timeout = is_first && silence >= Duration::from_millis(190);
        if !is_timeout {
            self.lose(now, previous);
            self.enter(now);
            return;
        }
        for number in std::mem::take(&mut self.doubtful) {
            self.lose(now, number);
        }
        self.end_slow_start(now);
        self.since_episode = self.tokens.len() as u32;
        self.recovery = Some((self.highest, self.since_episode));
        self.timed_out = true;
        self.controller.on_timeout(now, Bytes::new(self.in_flight));
    }

    /// When data was delivered last.
    fn delivery_time(&self) -> Instant {
        let last = self.followed.moments.last().map(|moment| moment.at);
        Instant::from_nanos(last.unwrap_or(self.recording.begins()))
    }

    /// Nothing was in flight, and nothing but the application can have held the sender back.
    fn is_pause(&self, now: Instant, size: u32) -> bool {
        let (Some(last), None, 0) = (self.last_sent, self.recovery, self.in_flight) else {
            return false;
        };
        let gap = now.since(Instant::from_nanos(last));
        let rate = self.controller.pacing_rate();
        let paced = rate.map_or(Duration::ZERO, |rate| {
            rate.time_for(Bytes::new(size.into()))
        });
        gap > paced * 4 && gap > self.min_rtt
    }

    fn restart(&mut self, now: Instant) {
        let (Some(last), Some(srtt)) = (self.last_sent, self.srtt) else {
            return;
        };
        let timeout = srtt + Duration::from_millis(200).max(srtt / 2);
        let pause = now.since(Instant::from_nanos(last));
        for _ in 0..paceline_congestion::idle_restarts(pause, timeout) {
            self.controller.on_idle_restart(now);
        }
    }

    fn on_ack(&mut self, now: Instant, event: u32, from: u32, to: u32, point: Option<u64>) {
        let recording = self.recording;
        let delivered = &recording.delivered[from as usize..to as usize];
        self.judge_application(now);
        let prior_in_flight = self.in_flight;
        let latest = delivered.iter().max().copied().unwrap_or(0);
        // The window was full after the newest of these was sent.
        let cwnd_limited = self
            .cwnd_limited_at
            .is_some_and(|at| at >= recording.sent[latest as usize].at);
        if latest >= self.round_end {
            self.rounds += 1;
            self.round_end = self.tokens.len() as u32;
        }
        let una_advanced = point.is_none_or(|point| point > self.una);
        self.una = self.una.max(point.unwrap_or(0));
        let mut newly_acked = 0;
        let (mut in_order, mut again, mut rtt) = (None, None, None);
        for &number in delivered {
            let sent = &recording.sent[number as usize];
            newly_acked += u64::from(sent.size);
            match self.statuses[number as usize] {
                Status::Out => self.in_flight -= u64::from(sent.size),
                Status::Lost => self.marked.1 += 1,
                Status::Delivered | Status::Moot => {}
            }
            self.statuses[number as usize] = Status::Delivered;
            self.missing.remove(&sent.start);
            let token = self.tokens[number as usize];
            self.delivery
                .on_delivered(now, &token, u64::from(number), false);
            let is_in_order = point.is_some_and(|point| sent.end() <= point);
            let is_again = sent.previous.is_some() || sent.next.is_some();
            match (recording.is_stream && is_again, is_in_order) {
                (false, true) => in_order = in_order.max(Some(sent.at)),
                (false, false) => rtt = rtt.max(Some(sent.at)),
                // A timestamp tells which transmission of it has come (RFC 7323 4).
                (true, true) => again = again.or(Some(sent.previous.map(|_| sent.at))),
                (true, false) => {}
            }
            self.drop_copies(number, event);
            self.notice(number);
        }
        // Data after what was sent again had waited for it at the receiver.
        let rtt = rtt.max(again.unwrap_or(in_order));
        let rtt = rtt.map(|at| now.since(Instant::from_nanos(at)));
        if let Some(rtt) = rtt {
            self.min_rtt = self.min_rtt.min(rtt);
            self.srtt = Some(self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
            self.delivery.on_rtt(rtt);
        }
        let is_over = self.recovery.is_some_and(|(end, first)| match point {
            Some(point) => point >= end,
            None => latest >= first,
        });
        if is_over {
            self.leave(now);
        }
        self.detect(now);
        let newly_lost = std::mem::take(&mut self.newly_lost);
        let sample = self.delivery.sample();
        let ca_state = match (self.recovery, self.timed_out) {
            (None, _) => CaState::Open,
            (Some(_), false) => CaState::Recovery,
            (Some(_), true) => CaState::Loss,
        };
        let ack = Ack {
            now,
            sample,
            newly_acked: Bytes::new(newly_acked),
            newly_lost: Bytes::new(newly_lost),
            newly_marked: None,
            prior_in_flight: Bytes::new(prior_in_flight),
            in_flight: Bytes::new(self.in_flight),
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.sent(),
            rtt: rtt.filter(|_| self.recovery.is_none() || self.marks != Marks::WithoutHyStart),
            srtt: self.srtt.unwrap_or(Duration::ZERO),
            min_rtt: if self.min_rtt == Duration::MAX {
                Duration::ZERO
            } else {
                self.min_rtt
            },
            cwnd_limited,
            ca_state,
            una_advanced,
            delayed: false,
            one_way_delay: None,
            network_rtt: rtt,
            receiver_delay: None,
            ece: false,
        };
        self.cue(&ack, event);
        self.cue_probe_rtt(now);
        self.cue_slow_start(now);
        self.controller.on_ack(&ack);
        self.note_probe(now);
        if self.controller.marks_app_limited() {
            self.delivery.mark_app_limited(Bytes::new(self.in_flight));
        }
        self.show(now);
    }

    /// The other transmissions of delivered data are in flight no longer.
    fn drop_copies(&mut self, number: u32, event: u32) {
        let mut next = self.recording.sent[number as usize].next;
        while let Some(copy) = next {
            let sent = &self.recording.sent[copy as usize];
            if let Some(status) = self.statuses.get_mut(copy as usize)
                && *status == Status::Out
                && sent.moot == Some(event)
            {
                *status = Status::Moot;
                self.in_flight -= u64::from(sent.size);
            }
            next = sent.next;
        }
    }

    fn notice(&mut self, number: u32) {
        let [first, second, third] = self.newest;
        self.newest = match Some(number) {
            new if new > first => [new, first, second],
            new if new > second => [first, new, second],
            new if new > third => [first, second, new],
            _ => self.newest,
        };
    }

    /// Marks what this ACK shows to be lost.
    fn detect(&mut self, now: Instant) {
        let is_tcp = self.recording.is_stream || self.marks == Marks::AsTcp;
        let usual = match (self.marks, self.recovery) {
            (Marks::Late, _) => return self.settle_late(now),
            (Marks::Early, _) => self.newest[0],
            (_, Some(_)) if is_tcp => self.newest[0],
            (_, None) if is_tcp => self.newest[2],
            // RFC 9002 6.1.1: three packets before the largest, whether those between came or not.
            _ => self.newest[0].map(|newest| newest.saturating_sub(2)),
        };
        self.lose_before(now, usual);
        if self.recovery.is_some() && is_tcp {
            self.lose_before(now, self.newest[0]);
        }
        if self.newly_lost > 0 {
            self.enter(now);
        }
    }

    /// A packet that is never sent again, as in QUIC, is marked by RFC 9002's time threshold at the
    /// latest (6.1.2).
    fn settle_late(&mut self, now: Instant) {
        let patience = self.srtt.unwrap_or(Duration::ZERO) * 9 / 8;
        while let Some(&number) = self.doubtful.front() {
            let sent = &self.recording.sent[number as usize];
            let is_old = now.since(Instant::from_nanos(sent.at)) > patience;
            match self.statuses[number as usize] {
                Status::Out if sent.next.is_none() && is_old => {
                    self.lose(now, number);
                    self.enter(now);
                }
                Status::Out => break,
                _ => drop(self.doubtful.pop_front()),
            }
        }
    }

    fn lose_before(&mut self, now: Instant, end: Option<u32>) {
        let Some(end) = end else { return };
        while self.doubtful.front().is_some_and(|number| *number < end) {
            if let Some(number) = self.doubtful.pop_front() {
                self.lose(now, number);
            }
        }
    }

    fn lose(&mut self, now: Instant, number: u32) {
        if self.statuses[number as usize] != Status::Out {
            return;
        }
        let sent = &self.recording.sent[number as usize];
        self.statuses[number as usize] = Status::Lost;
        self.in_flight -= u64::from(sent.size);
        self.newly_lost += u64::from(sent.size);
        self.marked.0 += 1;
        let starts_range = starts_range(&self.missing, sent.start);
        self.missing.insert(sent.start, sent.end());
        self.last_lost = Some(number);
        let token = self.tokens[number as usize];
        self.delivery.on_lost(&token);
        self.controller.on_loss(&Lost {
            now,
            packet: token,
            lost: self.delivery.lost(),
            delivered: self.delivery.delivered(),
            in_flight: Bytes::new(self.in_flight),
            starts_range,
            retransmission: self.recording.is_stream && sent.previous.is_some(),
        });
    }

    fn enter(&mut self, now: Instant) {
        if self.marks == Marks::AsTcp && self.recovery.is_some() {
            self.recovery = Some((self.highest, self.tokens.len() as u32));
            return;
        }
        // In QUIC the loss of what was sent since an episode began opens another at once, and that of
        // what was sent before none, also after the episode (RFC 9002 7.3.2 and B.6).
        let begins = if self.recording.is_stream || self.marks == Marks::AsTcp {
            self.recovery.is_none()
        } else {
            self.last_lost >= Some(self.since_episode)
        };
        if begins {
            self.end_slow_start(now);
            self.since_episode = self.tokens.len() as u32;
            self.recovery = Some((self.highest, self.since_episode));
            self.controller
                .on_recovery_enter(now, Bytes::new(self.in_flight));
        }
    }

    fn leave(&mut self, now: Instant) {
        let (marked, delivered) = std::mem::take(&mut self.marked);
        if self.recording.is_stream && marked > 0 && marked == delivered {
            self.controller.on_spurious(now, self.delivery.delivered());
        }
        self.recovery = None;
        self.timed_out = false;
        self.controller.on_recovery_exit(now);
        // What was sent in the episode and is lost opens another (TCP).
        if self.recording.is_stream && !self.missing.is_empty() {
            self.enter(now);
        }
    }

    /// A flow that neither fills its window nor sends at its pace has nothing more to send.
    fn judge_application(&mut self, now: Instant) {
        let (Some(rate), Some(srtt)) = (self.controller.pacing_rate(), self.srtt) else {
            return;
        };
        if self.followed.is_bulk {
            return;
        }
        let Counted {
            since,
            last,
            sent,
            allowed,
        } = self.counted;
        let allowed = allowed + rate.volume_in(now.since(last)).get();
        self.counted.allowed = allowed;
        self.counted.last = now;
        let quantum = self.controller.send_quantum().get();
        if now.since(since) < srtt / 2 || allowed < 4 * quantum {
            return;
        }
        // One that has left UP unseen still sends at .72 of UP's pace.
        let share = if self.controller.phase().ends_with("_UP") {
            60
        } else {
            75
        };
        let is_slow = 100 * (sent + quantum) < share * allowed;
        let has_room = self.in_flight * 10 < self.controller.cwnd().get() * 8;
        let limited = self.cwnd_limited_at.map(Instant::from_nanos);
        if is_slow && has_room && limited.is_none_or(|at| now.since(at) > srtt) {
            self.delivery.mark_app_limited(Bytes::new(self.in_flight));
        }
        self.counted = Counted::from(now);
    }

    /// The maximum bandwidth and that in use, in bytes per second, and the pacing gain.
    fn model(&self) -> (f64, f64, f64) {
        let (mut bandwidth, mut used, mut gain) = (0.0, 0.0, 0.0);
        self.controller
            .visit_state(&mut Visitor::each(&mut |name, value| match (name, value) {
                ("max_bw", Value::Rate(rate)) => bandwidth = rate.bps() as f64 / 8.0,
                // Linux has the bound instead.
                ("bw" | "bw_lo", Value::Rate(rate)) => used = rate.bps() as f64 / 8.0,
                ("pacing_gain", Value::Gain(value)) => {
                    gain = value.millionths() as f64 / Gain::SCALE as f64;
                }
                _ => {}
            }));
        let used = if used > 0.0 {
            used.min(bandwidth)
        } else {
            bandwidth
        };
        (bandwidth, used, gain)
    }

    fn show(&mut self, now: Instant) {
        let (max_bw, bw, gain) = self.model();
        (self.max_bw, self.bw) = (max_bw, bw);
        self.followed.moments.push(Moment {
            at: now.as_nanos(),
            pace: self
                .controller
                .pacing_rate()
                .map(|rate| rate.bps() as f64 / 8.0),
            window: self.controller.cwnd().get(),
            in_flight: self.in_flight,
            sent: self.delivery.sent().get(),
            phase: self.controller.phase(),
            max_bw,
            gain,
            app_limited: self.delivery.is_app_limited(),
            is_hidden: self.is_hidden,
        });
    }
}

/// Whether a lost segment begins a range: it belongs to that of a loss before it, whenever that was
/// marked.
pub(super) fn starts_range(missing: &BTreeMap<u64, u64>, start: u64) -> bool {
    let before = missing.range(..start).next_back();
    before.is_none_or(|(_, end)| *end != start)
}

/// Whether a state is ProbeRTT, by either spelling.
pub fn is_probe_rtt(phase: &str) -> bool {
    matches!(phase, "ProbeRTT" | "PROBE_RTT")
}

/// BBRv1's states of steady gain cycling are one.
pub const CYCLE: &str = "PROBE_BW";
