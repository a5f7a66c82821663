//! What a shadow takes from the flow: when it probes for bandwidth, and when its ProbeRTT begins.

use paceline_congestion::{Ack, Controller, Cue, Value, Visitor};
use paceline_units::{Bytes, Duration, Instant};

use super::follow::{CYCLE, Probe, Shadow, SlowStart, is_probe_rtt};
use super::recording::What;

/// A cue that is not given.
const LATER: Duration = Duration::from_secs(3600);
/// What shows a probe for bandwidth: a pace above this share of the maximum bandwidth (the
/// algorithms pace at 1.25 times it).
const JUMP: f64 = 1.13;
/// A probe that is overdue for so long was missed, in nanoseconds.
const MISSED: u64 = 3_000_000_000;
/// The minimum time between two ProbeRTTs, a little less than the draft's 5 s (5.3.4), in
/// nanoseconds.
const PROBE_RTT_REST: u64 = 4_900_000_000;
/// The same for BBRv1, whose interval is 10 s.
const BBR1_PROBE_RTT_REST: u64 = 9_900_000_000;

impl Shadow<'_> {
    /// Tells the controller when its probe is due: when the flow's own shows, one round later, in
    /// its pace.
    pub(super) fn cue(&mut self, ack: &Ack, event: u32) {
        // A loss may have ended a probe.
        self.note_probe(ack.now);
        self.cue_probe_end(ack.now, event);
        self.cue_cycle(ack.now, event);
        if !rests(self.controller.phase()) {
            return;
        }
        let now = ack.now;
        let mut probes = self.shows_probe(ack, event);
        if probes {
            self.is_hidden = false;
        } else if ack.cwnd_limited && !self.is_overdue && self.is_due(now) {
            // A full window shows no probe: the flow may have begun it.
            (probes, self.is_hidden) = (true, true);
        } else if self.is_due(now) {
            let overdue = &mut self.followed.overdue;
            if !self.is_overdue {
                self.is_overdue = true;
                overdue.push(now.as_nanos());
            }
            // Without probes the maximum bandwidth never ages: one that was missed would part the
            // shadow from the flow for good.
            probes = overdue
                .last()
                .is_some_and(|since| now.as_nanos() > since + MISSED);
        }
        self.is_early = probes && !self.has_rested(now, Duration::from_millis(1950), 0.9, -3.0);
        let at = if probes {
            now - Duration::from_micros(2)
        } else {
            now + LATER
        };
        self.controller.follow(Cue::Probe(at));
    }

    /// ProbeRTT is due by the minimum RTT, whose time hangs on differences of a microsecond: it is
    /// taken from the flow, if the flow has one about then.
    pub(super) fn cue_probe_rtt(&mut self, now: Instant) {
        if is_probe_rtt(self.controller.phase()) {
            self.probed_rtt = now.as_nanos();
            return;
        }
        let next = self
            .recording
            .dips
            .partition_point(|at| *at + 20_000_000 < now.as_nanos());
        let Some(&at) = self.recording.dips.get(next) else {
            return;
        };
        let soon = now + Duration::from_secs(2);
        let rested = now.as_nanos().saturating_sub(self.probed_rtt);
        let rest = match self.followed.name {
            "bbr1" => BBR1_PROBE_RTT_REST,
            _ => PROBE_RTT_REST,
        };
        if at <= soon.as_nanos() && rested >= rest {
            let due = Instant::from_nanos(at) - Duration::from_nanos(1);
            self.controller.follow(Cue::ProbeRtt(due));
        }
    }

    /// HyStart ends slow start by differences of microseconds between RTTs: when it does is taken
    /// from the flow, a round trip later, by the most that it has in flight.
    pub(super) fn cue_slow_start(&mut self, now: Instant) {
        let Some(srtt) = self.srtt.filter(|_| self.followed.is_loss_based()) else {
            return;
        };
        let SlowStart::CheckAt(at, was_slow) = self.slow_start else {
            return;
        };
        let slow = matches!(self.controller.phase(), "SlowStart" | "CSS");
        if was_slow != slow {
            self.slow_start = SlowStart::CheckAt(now + srtt, slow);
        } else if now >= at {
            self.slow_start = SlowStart::CheckAt(now + srtt, slow);
            self.look_at_slow_start(now, srtt, slow);
        }
    }

    /// A loss ends slow start for all.
    pub(super) fn end_slow_start(&mut self, now: Instant) {
        if let (SlowStart::CheckAt(..), Some(srtt), true) =
            (self.slow_start, self.srtt, self.followed.is_loss_based())
        {
            let slow = matches!(self.controller.phase(), "SlowStart" | "CSS");
            self.look_at_slow_start(now, srtt, slow);
        }
        self.slow_start = SlowStart::Over;
    }

    fn look_at_slow_start(&mut self, now: Instant, srtt: Duration, slow: bool) {
        let sends = &self.followed.sends;
        let since = now.as_nanos().saturating_sub(srtt.as_nanos());
        let recent = &sends[sends.partition_point(|(at, ..)| *at < since)..];
        let Some(most) = recent.iter().map(|(_, in_flight, _)| *in_flight).max() else {
            return;
        };
        let (window, mss) = (self.controller.cwnd().get(), u64::from(self.recording.mss));
        let grows = self.controller.phase() != "SlowStart" && most > window + 2 * mss;
        // A sender that paces slow start (RFC 9002 7.7) fills its window within a round trip.
        let rests = slow
            && self.followed.is_bulk
            && most + (3 * mss).max(window / 14) < window
            && !self.grows_on(now, srtt, most);
        // One that has grown by so much was still in slow start, and may be.
        let goes_on = grows && most > window + window / 8;
        if (!slow && !goes_on) || rests {
            self.slow_start = SlowStart::Over;
        }
        if grows || rests {
            let end = Bytes::new(most.div_ceil(mss) * mss);
            self.controller.follow(Cue::SlowStartEnd(end));
        }
    }

    /// Whether the flow has more in flight within a round trip than conservative slow start allows,
    /// which grows by a quarter of the window (RFC 9406 4.2).
    fn grows_on(&self, now: Instant, srtt: Duration, most: u64) -> bool {
        let (events, balance) = (&self.recording.events, &self.recording.balance);
        let until = (now + srtt).as_nanos();
        let from = events.partition_point(|event| event.at <= now.as_nanos());
        let to = events.partition_point(|event| event.at <= until);
        let later = balance[from..to].iter().max();
        later.is_some_and(|later| 3 * later > 4 * most as i64)
    }

    /// By the draft a probe begins 2 to 3 s after the last one ended, or after 63 rounds or as many
    /// as the BDP has packets, if these are fewer.
    fn is_due(&self, now: Instant) -> bool {
        let slack = self.srtt.unwrap_or(Duration::ZERO) * 2;
        self.has_rested(now, Duration::from_secs(3) + slack, 1.0, 3.0)
    }

    fn may_probe(&self, now: Instant) -> bool {
        self.has_rested(now, Duration::from_secs(2), 1.0, -2.0)
    }

    fn has_rested(&self, now: Instant, time: Duration, share: f64, more: f64) -> bool {
        let (since, round) = self.rested;
        let rounds = self.rounds.saturating_sub(round);
        let bdp = self.bw * self.min_rtt.as_nanos() as f64 / 1e9;
        let window = self.controller.cwnd().get() as f64;
        let packets = (bdp.min(window) / f64::from(self.recording.mss)).clamp(1.0, 63.0);
        now.since(Instant::from_nanos(since)) > time || rounds as f64 > share * packets + more
    }

    /// How long the flow has waited for the probe that begins, unless a full window hid it, or its
    /// rounds or something else ended the wait sooner than a draw does.
    fn drawn_wait(&self, now: Instant) -> Option<u64> {
        let shows = !self.is_hidden && !self.is_early && !self.is_overdue;
        let by_rounds = self.has_rested(now, LATER, 1.0, -3.0);
        let wait = now.since(Instant::from_nanos(self.rested.0));
        let is_drawn = shows && !by_rounds && wait > Duration::from_millis(1950);
        is_drawn.then_some(wait.as_nanos())
    }

    /// BBRv1's cycle begins in a phase that is drawn, and drifts by a phase when DOWN ends by a packet
    /// more or less: when a probe begins is taken from the flow's pace, which rises to 1.25. If the
    /// window hides that, it falls to three quarters after it.
    fn cue_cycle(&mut self, now: Instant, event: u32) {
        let Some(last) = self.followed.moments.last() else {
            return;
        };
        if last.phase != CYCLE || last.gain != 1.0 {
            self.due = None;
            if last.gain > 1.0 {
                self.rested.0 = now.as_nanos();
            }
            return;
        }
        let (at, base, phase) = (now.as_nanos(), self.max_bw * 0.99, self.min_rtt);
        let is_fast = self.paces_within(now, JUMP * base, f64::INFINITY);
        let is_slow = self.paces_within(now, 0.65 * base, 0.83 * base);
        if self.due.is_none() && self.is_last_phase() {
            let begins = Instant::from_nanos(last.at);
            self.due = Some((begins + phase, begins + phase * 3));
        }
        // A probe that comes sooner is none of the algorithm's.
        let has_rested = now.since(Instant::from_nanos(self.rested.0)) > phase * 5;
        if has_rested && is_fast {
            let due = now - Duration::from_micros(2);
            self.controller.follow(Cue::Probe(due));
            self.is_hidden = false;
        } else if has_rested && is_slow && self.has_room(now, event) {
            self.controller.follow(Cue::ProbeEnd(now));
            self.rested.0 = at;
            self.is_hidden = false;
        } else if let Some((due, until)) = self.due
            && (due..until).contains(&now)
            && !is_fast
        {
            self.is_hidden = !self.has_room(now, event);
            if !self.is_hidden {
                // It is due with the next ACK.
                self.controller.follow(Cue::Probe(now));
            }
        }
    }

    /// Whether BBRv1's next phase is a probe.
    fn is_last_phase(&self) -> bool {
        let mut phase = 0;
        self.controller
            .visit_state(&mut Visitor::each(&mut |name, value| {
                if let ("cycle_idx", Value::Count(value)) = (name, value) {
                    phase = value;
                }
            }));
        phase == 7
    }

    /// BBRv1's probe ends by what is in flight, to a packet: when it does is taken from the flow's
    /// pace, which falls to three quarters.
    fn cue_probe_end(&mut self, now: Instant, event: u32) {
        let probes = self
            .followed
            .moments
            .last()
            .is_some_and(|last| last.phase == CYCLE && last.gain > 1.0);
        if !probes {
            return;
        }
        let base = self.max_bw * 0.99;
        if self.paces_within(now, 0.6 * base, 0.85 * base) && self.has_room(now, event) {
            self.controller.follow(Cue::ProbeEnd(now));
        }
    }

    /// Whether the window leaves room for half a phase of BBRv1's cycle: one that is full hides the pace.
    fn has_room(&self, now: Instant, event: u32) -> bool {
        let until = (now + self.min_rtt / 2).as_nanos();
        let (events, balance) = (&self.recording.events, &self.recording.balance);
        let window = self.controller.cwnd().get();
        let least = (window / 14).max(3 * u64::from(self.recording.mss));
        let most = window as i64 - least as i64 - self.in_flight as i64 + balance[event as usize];
        (event as usize..events.len())
            .take_while(|index| events[*index].at <= until)
            .all(|index| balance[index] <= most)
    }

    /// Whether the flow's pace is within bounds for half a phase of BBRv1's cycle: that of its next
    /// burst, of its next bursts, at most four, and of this time.
    fn paces_within(&self, now: Instant, least: f64, most: f64) -> bool {
        let (from, to) = (now, now + self.min_rtt / 2);
        let (from, to) = (from.as_nanos(), to.as_nanos());
        let count = self.pace.index(to) - self.pace.index(from);
        let within = |pace: f64| (least..most).contains(&pace);
        within(self.pace.over(from, to))
            && [1, count.clamp(1, 4)]
                .iter()
                .all(|count| self.pace.of_bursts(from, *count).is_some_and(within))
    }

    /// Whether more is in flight soon after a later event than the window allows now, and more than
    /// it would allow if it grew only from the next ACK on: it grows by what an ACK delivers.
    fn leaps(&self, event: u32, later: u32, window: Bytes) -> bool {
        let mss = i64::from(self.recording.mss);
        let now = self.recording.balance[event as usize];
        let mut grown = 0;
        let last = self.recording.events.len().min(later as usize + 25);
        (later as usize + 1..last).any(|index| match self.recording.events[index].what {
            What::Ack { from, to, .. } => {
                let delivered = &self.recording.delivered[from as usize..to as usize];
                let sizes = delivered
                    .iter()
                    .map(|n| i64::from(self.recording.sent[*n as usize].size));
                grown += sizes.sum::<i64>();
                false
            }
            // After a loss more than the window may be in flight, but nothing more is sent.
            What::Sent(_) => {
                let beyond = self.in_flight as i64 + self.recording.balance[index] - now;
                let beyond = beyond - window.get() as i64;
                beyond > 5 * mss / 2 && beyond > grown + mss / 2
            }
        })
    }

    /// Whether the data in flight reaches 33/32 of the window within a quarter of a round trip after
    /// the event `later`.
    fn fills(&self, event: u32, later: u32, window: Bytes) -> bool {
        let (events, balance) = (&self.recording.events, &self.recording.balance);
        let until = events[later as usize].at + self.srtt.map_or(0, Duration::as_nanos) / 4;
        let now = balance[event as usize] - self.in_flight as i64;
        (later as usize..events.len())
            .take_while(|index| events[*index].at <= until)
            .any(|index| 32 * (balance[index] - now) >= 33 * window.get() as i64)
    }

    /// The event that ends a round which begins with this one: the ACK of the next packet.
    fn round_after(&self, event: u32, sent: usize) -> Option<u32> {
        let next = sent..self.recording.sent.len().min(sent + 8);
        let ends = next.filter_map(|number| self.recording.sent[number].acked);
        ends.min().filter(|end| *end > event)
    }

    /// Whether a round that begins with the next ACK ends before the same burst as one that begins
    /// with this one: which of them it was shows with the last.
    fn is_soon(&self, event: u32, end: u64) -> bool {
        let mut sent = self.tokens.len();
        let later = (event as usize + 1..self.recording.events.len()).take(24);
        for index in later {
            match self.recording.events[index].what {
                What::Sent(_) => sent += 1,
                What::Ack { .. } => {
                    let next = self.round_after(index as u32, sent);
                    let next = next.map(|next| self.recording.events[next as usize].at);
                    return next.is_some_and(|next| self.pace.index(next) == self.pace.index(end));
                }
            }
        }
        false
    }

    /// After a loss in the last cycle REFILL is itself faster; otherwise UP shows, a round later.
    fn shows_probe(&self, ack: &Ack, event: u32) -> bool {
        let base = self.max_bw * 0.99;
        // UP may last no longer than a round trip, and that of a short path is a few bursts.
        let round = ack.now + self.min_rtt;
        let count = self.pace.index(round.as_nanos()) - self.pace.index(ack.now.as_nanos());
        let count = count.clamp(2, 6);
        let is_fast = |time, least: f64| {
            let bursts = |count| {
                self.pace
                    .of_bursts(time, count)
                    .is_some_and(|pace| pace > least)
            };
            bursts(1) && bursts(count)
        };
        let up = self.round_after(event, self.tokens.len());
        let shows_up = |up: u32| {
            let at = self.recording.events[up as usize].at;
            is_fast(at, JUMP * base) && !self.is_soon(event, at)
        };
        // What it would allow if it went on.
        let mut rest = self.controller.clone();
        rest.follow(Cue::Probe(ack.now + LATER));
        rest.on_ack(ack);
        let pace = rest
            .pacing_rate()
            .map_or(0.0, |rate| rate.bps() as f64 / 8.0);
        // Out of DOWN the pace rises in CRUISE, too, but not before the shadow is there.
        let is_cruise = self.controller.phase().ends_with("CRUISE");
        let stays = is_cruise || (rests(rest.phase()) && self.may_probe(ack.now));
        let stays = stays && rest.phase() == self.controller.phase();
        if stays && pace < 0.92 * base {
            // REFILL paces at the maximum; a little less is a bandwidth that losses bound.
            let at = ack.now.as_nanos();
            let half = at + self.srtt.map_or(0, Duration::as_nanos) / 2;
            let least = (pace + base) / 2.0;
            let is_base = self
                .pace
                .of_bursts(at, 6)
                .is_some_and(|pace| pace > 0.993 * base);
            if is_base && is_fast(at, least) && self.pace.over(at, half) > least {
                return true;
            }
        }
        // Without the headroom of CRUISE a window lets more packets out; if there is none, in UP.
        if !self.may_probe(ack.now) {
            // One that comes too soon has to be plain: a few bursts may be fast by chance.
            let lasts = |up: u32| {
                let at = self.recording.events[up as usize].at;
                let half = at + self.srtt.map_or(0, Duration::as_nanos) / 2;
                self.pace.over(at, half) > JUMP * base
            };
            return up.is_some_and(|up| shows_up(up) && lasts(up));
        }
        let mut refill = self.controller.clone();
        refill.follow(Cue::Probe(ack.now - Duration::from_micros(2)));
        refill.on_ack(ack);
        let window = rest.cwnd();
        let leaps = if refill.cwnd() > window {
            self.leaps(event, event, window)
        } else {
            // A stretched ACK, and the end of DOWN, also let out more than the window. Only in UP does
            // the data in flight grow beyond it.
            let widens = |up: &u32| is_cruise && self.fills(event, *up, window);
            up.filter(widens)
                .is_some_and(|up| self.leaps(event, up, window))
        };
        leaps || up.is_some_and(shows_up)
    }

    pub(super) fn note_probe(&mut self, now: Instant) {
        let phase = self.controller.phase();
        let last = std::mem::replace(&mut self.phase, phase);
        if phase == last {
            return;
        }
        if phase == CYCLE {
            // The first probe may come at once, or after the seven other phases.
            self.rested.0 = 0;
            self.due = Some((now, now + self.min_rtt * 8));
            self.controller.follow(Cue::Probe(now));
        }
        if rests(phase) && !rests(last) {
            self.is_overdue = false;
            self.rested = (now.as_nanos(), self.rounds);
        }
        if rests(last) && phase.ends_with("REFILL") {
            self.followed.probes.push(Probe {
                at: now.as_nanos(),
                is_early: self.is_early,
                is_late: self.is_overdue,
                wait: self.drawn_wait(now),
            });
        }
    }
}

/// Whether a state waits for the next probe.
fn rests(phase: &str) -> bool {
    phase.ends_with("_DOWN") || phase.ends_with("_CRUISE")
}
