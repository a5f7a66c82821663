//! Processing an acknowledgment.

use paceline_congestion::{Ack, CaState, Controller};
use paceline_units::{Bytes, Duration, Instant};

use super::detect::Signs;
use super::{Sender, Urgent};
use crate::frto::Evidence;
use crate::rack::Delivered;
use crate::scoreboard::Outstanding;
use crate::{Acknowledgment, Block, PlainAck, Recovery, SackBlocks, ets};

/// The data newly delivered by an acknowledgment, while it is processed.
#[derive(Default)]
struct Progress {
    bytes: u64,
    /// Bytes of the first segment that is acknowledged in order.
    hole: u64,
    /// Bytes marked CE not yet attributed to a packet, and those already attributed.
    marks: u64,
    marked: u64,
    /// `RACK.fack` before it.
    fack: u64,
    /// It includes data sent before the timeout and not retransmitted.
    original: bool,
    /// Some of it was SACKed.
    sacked: bool,
    /// It includes data sent more than once.
    retransmitted: bool,
    /// Send times of segments acknowledged in order and sent once, of segments SACKed and sent
    /// once, and of a retransmitted segment, if the echo identifies that transmission.
    acked: Option<SendTimes>,
    sacked_times: Option<SendTimes>,
    again: Option<Instant>,
    /// It acknowledges, in order, data sent more than once.
    again_acked: bool,
}

/// The send times of the earliest and the latest of some segments, which are added in that order.
#[derive(Clone, Copy)]
struct SendTimes {
    earliest: Instant,
    latest: Instant,
}

impl SendTimes {
    fn include(times: &mut Option<Self>, sent: Instant) {
        match times {
            Some(times) => times.latest = sent,
            None => {
                *times = Some(Self {
                    earliest: sent,
                    latest: sent,
                });
            }
        }
    }
}

impl Progress {
    /// The transmissions that give RTT samples: the earliest for the retransmission timeout, the
    /// latest for the controller (draft-ietf-ccwg-bbr-06 5.5.7.1). By Karn's algorithm (RFC 6298
    /// section 3) only data sent once counts, unless the echo identifies the transmission. Data
    /// acknowledged in order together with retransmitted data had waited for it at the receiver, so
    /// it does not measure the path (as in Linux).
    #[inline]
    fn measured(&self) -> Option<SendTimes> {
        let acked = if self.again_acked {
            self.again.map(|sent| SendTimes {
                earliest: sent,
                latest: sent,
            })
        } else {
            self.acked
        };
        let first = acked.or(self.sacked_times)?;
        let last = self.sacked_times.or(acked)?;
        Some(SendTimes {
            earliest: first.earliest,
            latest: first.latest.max(last.latest),
        })
    }
}

/// The state before an acknowledgment.
struct Before {
    in_flight: Bytes,
    cwnd_limited: bool,
    una: u64,
    window_end: u64,
    /// It acknowledges less than is already acknowledged.
    old: bool,
    /// For Linux: whether a timer other than the retransmission timer was running.
    other_timer: bool,
}

/// The results of an acknowledgment, for the controller and the timers.
struct News {
    delivered: u64,
    lost: u64,
    marked: u64,
    rtt: Option<Duration>,
    network_rtt: Option<Duration>,
    receiver_delay: Option<Duration>,
    advanced: bool,
    /// The retransmission timer restarts.
    restarts: bool,
}

impl<C: Controller> Sender<C> {
    /// An acknowledgment arrived. One of data never sent is ignored.
    #[inline]
    pub fn on_ack(&mut self, now: Instant, ack: &Acknowledgment) {
        let taken = match ack.blocks.is_empty() {
            true => self.advance(now, ack),
            false => self.extend(now, ack),
        };
        if !taken {
            self.process(now, ack);
        }
    }

    /// One without selective ranges arrived.
    #[inline]
    pub fn on_plain_ack(&mut self, now: Instant, ack: &PlainAck) {
        if !self.advance(now, ack) {
            self.process(now, &ack.with(SackBlocks::default()));
        }
    }

    /// The general path, for any acknowledgment.
    #[inline(never)]
    pub(crate) fn process(&mut self, now: Instant, ack: &Acknowledgment) {
        if ack.ack > self.board.nxt() {
            return;
        }
        // Before anything leaves the pipe (draft 4.1.2.4; and the window's utilisation).
        self.check_app_limited();
        let before = self.before(ack);
        if !before.old {
            self.open_window(ack);
        }
        self.idle = None;
        self.news = true;
        let news = self.take_any(now, ack, &before);
        if !before.old || news.delivered > 0 {
            self.sample = self.delivery.sample();
            self.pass_ack(now, ack, &before, &news);
        }
        self.arm(now, &before, &news);
    }

    /// Whether an acknowledgment without selective ranges can only advance.
    #[inline]
    pub(crate) fn is_plain<R>(&self, ack: &Acknowledgment<R>) -> bool {
        // Every segment is in flight, was sent once, and none was delivered out of order.
        let in_order = self.state == CaState::Open
            && self.board.is_undisturbed()
            && self.rack.fack() <= self.board.una();
        // No pending outcome, and no segment in doubt for RACK.
        let settled = !self.tlp.is_probing() && self.reorder.is_none();
        let no_mark = self.marks.reports_none(ack);
        in_order && settled && no_mark && self.config.recovery.has_rack() && !self.config.ets
    }

    /// By what the highest range has grown, if an acknowledgment says nothing else.
    #[inline]
    pub(crate) fn extension(&self, ack: &Acknowledgment) -> Option<Block> {
        let una = self.board.una();
        let goes_on = match self.state {
            CaState::Disorder => true,
            CaState::Recovery => una < self.recovery_point,
            _ => false,
        };
        let by_time = self.config.recovery.has_rack() && self.config.recovery != Recovery::Linux;
        let settled = !self.tlp.is_probing() && self.marks.reports_none(ack);
        if !(goes_on && by_time && settled && ack.ack == una) || self.config.ets {
            return None;
        }
        let part = ack.blocks.growth_since(&self.known)?;
        (self.rack.fack() <= part.start).then_some(part)
    }

    /// The short form of [`Self::process`] for an acknowledgment that [is plain](Self::is_plain).
    #[inline(always)]
    fn advance<R>(&mut self, now: Instant, ack: &Acknowledgment<R>) -> bool {
        ack.ack <= self.board.nxt() && self.is_plain(ack) && self.take_span(now, ack, None)
    }

    /// The same for an [extension](Self::extension).
    #[inline(never)]
    pub(crate) fn extend(&mut self, now: Instant, ack: &Acknowledgment) -> bool {
        let part = self.extension(ack);
        let taken = part.is_some() && self.take_span(now, ack, part);
        if taken {
            self.known = ack.blocks;
        }
        taken
    }

    /// Takes an acknowledgment that covers whole segments, or SACKs a `part` of them, and says nothing
    /// else: they were sent once and are in flight, and the remaining steps of [`Self::process`] would
    /// do nothing. False, and nothing is done, for any other.
    #[inline(always)]
    fn take_span<R>(&mut self, now: Instant, ack: &Acknowledgment<R>, part: Option<Block>) -> bool {
        let dry = self.is_running_dry();
        let before = self.before(ack);
        let unsacked = self.board.nxt() - before.una - self.board.sacked_bytes();
        let span = match part {
            None => self.board.pop_acked_span(ack.ack),
            Some(part) => self.board.sack_span(part),
        };
        let Some(span) = span else {
            return false;
        };
        if dry {
            self.delivery.mark_app_limited(before.in_flight);
        }
        self.open_window(ack);
        self.idle = None;
        self.news = true;
        let (una, nxt) = (self.board.una(), self.board.nxt());
        let (fack, min_rtt) = (self.rack.fack(), self.rtt.min());
        let delivered = Delivered {
            retransmitted: false,
            ..Delivered::of(&span.last)
        };
        self.rack.on_delivered(now, &delivered, fack, None, min_rtt);
        let times = SendTimes {
            earliest: span.earliest,
            latest: span.last.packet.send_time,
        };
        let rtt = self.measure(now - ack.stack, times);
        self.rack.on_ack(una, nxt, false, false);
        self.sample = self
            .delivery
            .sample_in_order(now, Bytes::new(span.bytes), &span.last.packet);
        let advanced = part.is_none();
        let mut lost = 0;
        if !advanced {
            lost = self.detect_by_time(now, false);
            self.sample.lost += Bytes::new(lost);
            self.enter_recovery(now, unsacked);
            if let Some(prr) = &mut self.prr {
                prr.on_ack(span.bytes, self.board.in_flight(), false);
            }
        }
        let news = News {
            delivered: span.bytes,
            lost,
            marked: 0,
            rtt: Some(rtt),
            network_rtt: Some(rtt),
            receiver_delay: None,
            advanced,
            restarts: advanced || self.board.first_sent_after(times.earliest),
        };
        self.pass_ack(now, ack, &before, &news);
        self.arm(now, &before, &news);
        true
    }

    #[inline(always)]
    fn before<R>(&self, ack: &Acknowledgment<R>) -> Before {
        let linux = self.config.recovery == Recovery::Linux;
        Before {
            in_flight: Bytes::new(self.board.in_flight()),
            cwnd_limited: self.cwnd_limited(),
            una: self.board.una(),
            window_end: self.window_end,
            old: ack.ack < self.board.una(),
            other_timer: linux && (self.reorder.is_some() || self.tlp.deadline().is_some()),
        }
    }

    /// The receive window as the acknowledgment has it.
    #[inline(always)]
    fn open_window<R>(&mut self, ack: &Acknowledgment<R>) {
        let end = ack.ack.saturating_add(ack.window);
        self.window_end = if self.window_end == u64::MAX {
            end
        } else {
            self.window_end.max(end)
        };
    }

    /// The timers after an acknowledgment (RFC 6298 5.2, 5.3; RFC 8985 7.2).
    #[inline(always)]
    fn arm(&mut self, now: Instant, before: &Before, news: &News) {
        if self.config.recovery == Recovery::Linux {
            return self.arm_as_linux(now, news, before.other_timer);
        }
        if self.board.is_empty() {
            self.rto = None;
        } else if news.restarts {
            self.rto = Some(self.rtt.expiry(now));
        }
        if !self.can_probe() {
            self.tlp.disarm();
        } else if news.advanced {
            self.arm_probe(now);
        }
    }

    /// Everything that an acknowledgment says.
    fn take_any(&mut self, now: Instant, ack: &Acknowledgment, before: &Before) -> News {
        let prior_una = before.una;
        let prior_sacked = self.board.sacked_bytes();
        let prior_told = prior_sacked + self.board.duplicates();
        let outstanding = !self.board.is_empty();

        let none = SackBlocks::default();
        let blocks = if self.config.recovery.has_sack() {
            &ack.blocks
        } else {
            &none
        };
        let duplicate = blocks.duplicate().filter(|duplicate| {
            duplicate.start < duplicate.end && duplicate.end <= self.board.nxt()
        });
        let credible = duplicate.filter(|duplicate| self.is_credible(*duplicate));
        let newly_acked = ack
            .ack
            .saturating_sub(prior_una.saturating_add(prior_sacked));
        let newly_acked = newly_acked.div_ceil(u64::from(self.config.mss));
        // An older acknowledgment has an older count of marks (RFC 9768).
        let marks = if before.old {
            0
        } else {
            self.marks
                .on_ack(ack, self.board.nxt(), newly_acked, self.config.mss)
        };
        let mut progress = Progress {
            marks,
            fack: self.rack.fack(),
            ..Progress::default()
        };
        let eifel = self.take_acked(now, ack, &mut progress);
        let linux = self.config.recovery == Recovery::Linux;
        let in_order = (linux && progress.bytes > 0).then(|| self.rack.rtt());
        self.take_sacked(now, blocks, &mut progress);
        if let Some(rtt) = in_order {
            self.rack.set_rtt(rtt);
        }
        self.board.trim();
        let reported = self.take_duplicates(prior_una, &progress);
        progress.bytes -= reported;
        let una_advanced = self.board.una() > prior_una;
        self.unanswered &= !una_advanced;
        let arrival = now - ack.stack;
        let measured = progress.measured();
        let rtt = measured.map(|times| self.measure(arrival, times));

        let plain = !una_advanced && ack.ack == prior_una && blocks.is_empty();
        let spurious = self.judge_timeout(&progress, una_advanced, plain);
        // As in Linux (`tcp_try_undo_partial`): it is reordering, and while other retransmissions
        // are outstanding nothing is undone, and nothing more is declared lost.
        let partial = self.state == CaState::Recovery && self.board.una() < self.recovery_point;
        let undo_waits = eifel && partial && self.board.has_retransmission_out();
        if eifel && partial {
            self.rack.on_reordering(prior_una);
            if !undo_waits {
                self.rack.on_late(prior_una + u64::from(self.config.mss));
            }
        }
        if linux {
            let una = (self.board.sacked_count() == 0).then_some(self.board.una());
            self.rack.measure_lateness(una, self.config.mss);
        }
        // Linux takes the marks of losses back only within an episode, and not for DSACKs.
        let exonerates = !linux || self.state == CaState::Loss || (eifel && partial);
        let eifel_undoes = eifel && !undo_waits;
        let (undone, repeated) =
            self.undo_on_ack(now, eifel_undoes, spurious, credible, exonerates);

        // Losses (RFC 8985 6.2).
        let exiting = self.recovering() && self.is_recovered();
        let needless = credible.is_some_and(|duplicate| !self.tlp.is_duplicate(duplicate));
        self.rack
            .on_ack(self.board.una(), self.board.nxt(), needless, exiting);
        // The end of an episode is reported before new losses: a controller that learns of a loss
        // first would take it for one of the old episode.
        if exiting {
            self.leave_recovery(now);
        }
        let signs = Signs {
            advanced: self.board.una() - prior_una,
            sacks: progress.sacked,
            duplicate: plain && outstanding && self.window_end == before.window_end,
            exiting,
        };
        let ending = self.recovering() && self.board.una() >= self.recovery_point;
        if ending {
            self.board.forget_duplicates();
        } else if !self.config.recovery.has_sack() {
            progress.bytes += self.count_duplicate(now, signs);
        }
        let mut lost = if undo_waits || ending {
            0
        } else {
            self.detect_losses(now, signs)
        };

        let repaired = self.tlp.repaired(ack.ack, duplicate, plain);
        let repaired = repaired.filter(|_| !self.recovering());
        if let Some(probed) = &repaired {
            lost += self.lose_repaired(now, probed);
        }
        let recover_fs = (self.board.nxt() - prior_una).saturating_sub(prior_told);
        let entered = self.enter_recovery(now, recover_fs);
        if repaired.is_some() && !entered {
            // RFC 8985 7.4.2: the probe repaired a loss; one reduction, over at once. It is proven,
            // so the state with which a late duplicate would undo it is cleared.
            self.undo.end();
            let in_flight = Bytes::new(self.board.in_flight());
            self.notify(|controller| {
                controller.on_recovery_enter(now, in_flight);
                controller.on_recovery_exit(now);
            });
        }
        if !self.recovering() {
            let disorder = self.board.sacked_count() > 0 || self.newreno.is_disordered();
            self.state = if self.state == CaState::Cwr && self.board.una() <= self.recovery_point {
                CaState::Cwr
            } else if disorder {
                CaState::Disorder
            } else {
                CaState::Open
            };
        }

        if !self.recovering() && self.state != CaState::Cwr {
            self.prr = None;
        }
        if let Some(prr) = &mut self.prr {
            let safe = una_advanced && lost == 0;
            // A spurious retransmission has left the network as well (Linux's `tcp_dsack_seen`).
            prr.on_ack(progress.bytes + repeated, self.board.in_flight(), safe);
        }
        let (network_rtt, receiver_delay) = if self.config.ets {
            // The echo belongs to this acknowledgment if that advances (RFC 7323 4.1).
            let echo = una_advanced.then(|| ets::over_the_wire(arrival, ack));
            let parts = echo.flatten().and_then(|echo| echo.parts());
            parts.unzip()
        } else {
            (rtt, None)
        };
        // RFC 6582 section 4.
        let impatient =
            self.config.recovery == Recovery::NewReno && self.state == CaState::Recovery;
        // As in Linux, newly SACKed data that was sent before the first segment's latest
        // transmission restarts it.
        let older = progress.sacked_times.filter(|_| !una_advanced);
        let older = older.is_some_and(|times| self.board.first_sent_after(times.earliest));
        News {
            delivered: progress.bytes,
            lost,
            marked: progress.marked,
            rtt,
            network_rtt,
            receiver_delay,
            advanced: una_advanced,
            restarts: undone || older || (una_advanced && !impatient),
        }
    }

    /// `tcp_set_xmit_timer`. The kernel has one timer, so that the retransmission timer does not run
    /// while another does: after that it is counted from the last transmission of the first segment
    /// (`tcp_rearm_rto`), not from the acknowledgment. `other` says that another was running.
    #[cold]
    #[inline(never)]
    fn arm_as_linux(&mut self, now: Instant, news: &News, other: bool) {
        if self.can_probe() {
            if news.advanced {
                let rto = self.rtt.expiry(now);
                self.arm_probe_before(now, Some(rto));
                self.rto = self.tlp.deadline().is_none().then_some(rto);
            }
            return;
        }
        self.tlp.disarm();
        if self.reorder.is_some() || self.board.is_empty() {
            self.rto = None;
        } else if other || self.rto.is_none() {
            self.rto = self.head_expiry(now);
        } else if news.restarts {
            self.rto = Some(self.rtt.expiry(now));
        }
    }

    /// An RTT sample from these send times.
    #[inline]
    fn measure(&mut self, arrival: Instant, times: SendTimes) -> Duration {
        let rtt = arrival.since(times.latest);
        self.sample_rtt(arrival.since(times.earliest), rtt);
        self.delivery.on_rtt(rtt);
        self.tlp.on_rtt();
        rtt
    }

    #[inline]
    pub(super) fn sample_rtt(&mut self, rtt: Duration, latest: Duration) {
        if self.config.recovery == Recovery::Linux {
            let (una, nxt) = (self.board.una(), self.board.nxt());
            self.rtt.on_sample_as_linux(rtt, latest, una, nxt);
        } else {
            self.rtt.on_sample(rtt, latest);
        }
    }

    #[inline(always)]
    fn pass_ack<R>(&mut self, now: Instant, ack: &Acknowledgment<R>, before: &Before, news: &News) {
        let in_flight = Bytes::new(self.board.in_flight());
        let event = Ack {
            now,
            sample: self.sample,
            newly_acked: Bytes::new(news.delivered),
            newly_lost: Bytes::new(news.lost),
            newly_marked: self.marks.counted(news.marked),
            prior_in_flight: before.in_flight,
            in_flight,
            delivered: self.delivery.delivered(),
            lost: self.delivery.lost(),
            sent: self.delivery.sent(),
            rtt: news.rtt,
            srtt: self.rtt.srtt().unwrap_or_default(),
            min_rtt: self.rtt.min().unwrap_or_default(),
            cwnd_limited: before.cwnd_limited,
            ca_state: self.state,
            una_advanced: news.advanced || (news.delivered > 0 && self.grows_on_any_delivery()),
            delayed: ack.delayed,
            one_way_delay: news
                .advanced
                .then(|| (ack.sent - ack.delay).since(ack.ts_echo)),
            network_rtt: news.network_rtt,
            receiver_delay: news.receiver_delay,
            ece: ack.ece,
        };
        let cwnd = self.outputs.cwnd;
        self.news = true;
        self.outputs = self.controller.decide(&event);
        let marked = self.config.recovery == Recovery::Linux && event.is_marked();
        if marked && self.outputs.cwnd <= cwnd {
            self.enter_cwr(cwnd, news.delivered, news.advanced && news.lost == 0);
        }
        if self.outputs.marks_app_limited {
            self.delivery.mark_app_limited(in_flight);
        }
    }

    /// Once reordering is high, Linux's window grows on selective acknowledgments too
    /// (`tcp_may_raise_cwnd`).
    fn grows_on_any_delivery(&self) -> bool {
        self.config.recovery == Recovery::Linux && self.rack.has_much_reordering(self.config.mss)
    }

    /// The cumulative part. Returns whether the echo shows that retransmitting the first segment
    /// was unnecessary (RFC 3522).
    fn take_acked(&mut self, now: Instant, ack: &Acknowledgment, progress: &mut Progress) -> bool {
        let first = self.board.first_index();
        let mut eifel = false;
        while let Some((index, segment)) = self.board.pop_acked(ack.ack) {
            if index == first {
                progress.hole = segment.len();
            }
            if index == first && segment.lost {
                eifel = self.config.undo && self.recovering() && self.undo.is_eifel(ack.ts_echo);
                if eifel && segment.out {
                    self.stats.spurious_packets += 1;
                }
            }
            self.take(now, &segment, Some(ack.ts_echo), progress);
        }
        eifel
    }

    /// Bytes acknowledged in order that duplicates had already reported; they count as delivered
    /// once.
    fn take_duplicates(&mut self, prior_una: u64, progress: &Progress) -> u64 {
        if self.board.duplicates() == 0 {
            return 0;
        }
        let acked = self.board.una() - prior_una;
        let reported = self.board.take_duplicates(acked, progress.hole);
        self.delivery.on_told_before(Bytes::new(reported));
        reported
    }

    /// The selective part.
    fn take_sacked(&mut self, now: Instant, blocks: &SackBlocks, progress: &mut Progress) {
        if blocks.is_empty() {
            return;
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        let sent = self.board.nxt();
        let is_taken = |block: &Block| block.end <= sent;
        let mut whole = !blocks.dsack;
        for (place, block) in blocks.held().iter().enumerate() {
            // Most of an option repeats the previous one, in the same place.
            let known = self.known.as_slice();
            if known.get(place) != Some(block) && !known.contains(block) {
                self.board.sack(*block, &mut fresh);
            }
            whole &= is_taken(block);
        }
        self.known = match whole {
            true => *blocks,
            false => blocks.held().iter().copied().filter(is_taken).collect(),
        };
        // Ascending, like the cumulative part: losses and marks follow the order of sending.
        if fresh.len() > 1 {
            fresh.sort_unstable_by_key(|part| part.start);
        }
        for part in &fresh {
            for index in part.start..part.end {
                if let Some(segment) = self.board.mark_sacked(index) {
                    progress.sacked = true;
                    self.take(now, &segment, None, progress);
                }
            }
        }
        fresh.clear();
        self.fresh = fresh;
    }

    /// A segment is delivered for the first time. `echo` is the timestamp echo if it belongs to
    /// this segment: a SACK's echo is older (RFC 7323 4.3).
    fn take(
        &mut self,
        now: Instant,
        segment: &Outstanding,
        echo: Option<Instant>,
        progress: &mut Progress,
    ) {
        let marked = progress.marks >= segment.len();
        if marked {
            progress.marks -= segment.len();
            progress.marked += segment.len();
        }
        progress.bytes += segment.len();
        progress.retransmitted |= segment.retransmitted;
        progress.original |= !segment.retransmitted && segment.end() <= self.recovery_point;
        if segment.waits() {
            // Declared lost and not retransmitted: the first transmission arrived.
            self.stats.spurious_packets += 1;
        }
        let sent = segment.packet.send_time;
        self.delivery
            .on_delivered(now, &segment.packet, segment.number, marked);
        self.rack.on_delivered(
            now,
            &Delivered::of(segment),
            progress.fack,
            echo,
            self.rtt.min(),
        );
        match echo {
            Some(echo) if segment.retransmitted => {
                progress.again_acked = true;
                // A matching echo distinguishes transmissions (RFC 7323 section 4).
                if echo == sent {
                    progress.again = Some(sent);
                }
            }
            Some(_) => SendTimes::include(&mut progress.acked, sent),
            None if segment.retransmitted => {}
            None => SendTimes::include(&mut progress.sacked_times, sent),
        }
    }

    /// F-RTO, after a timeout. `plain`: it repeats the previous one without selective ranges.
    fn judge_timeout(&mut self, progress: &Progress, advanced: bool, plain: bool) -> bool {
        self.state == CaState::Loss
            && self.frto.on_ack(Evidence {
                // Without SACK a gap may have been filled by the retransmission (Linux).
                original: progress.original
                    && (self.config.recovery.has_sack() || !progress.retransmitted),
                advanced,
                duplicate: plain || progress.sacked,
                recovered: self.board.una() >= self.recovery_point,
                new_sent: self.board.nxt() > self.recovery_point,
                new_available: self.new_data().is_some(),
            })
    }

    /// Whether a duplicate may come from a retransmission: there cannot be more of them than
    /// retransmissions (Linux's `tcp_dsack_seen`). The network may also duplicate packets.
    fn is_credible(&mut self, duplicate: Block) -> bool {
        let segments = (duplicate.end - duplicate.start).div_ceil(u64::from(self.config.mss));
        self.repeated = self.repeated.saturating_add(segments);
        self.repeated <= self.stats.retransmitted_packets
    }

    /// Undoes the episode if it was spurious. Returns whether it was, and the bytes that arrived
    /// again.
    fn undo_on_ack(
        &mut self,
        now: Instant,
        eifel: bool,
        f_rto: bool,
        duplicate: Option<Block>,
        exonerates: bool,
    ) -> (bool, u64) {
        // A spurious retransmission has been delivered as well, and counts (draft-ietf-ccwg-bbr-06
        // 2.2, Linux). A probe's does not: the data that it repeats counts once in flight.
        let duplicate = duplicate.filter(|duplicate| !self.tlp.is_duplicate(*duplicate));
        let repeated = duplicate.map_or(0, |duplicate| duplicate.end - duplicate.start);
        self.delivery.on_repeated(Bytes::new(repeated));
        let duplicate = duplicate.filter(|duplicate| self.board.may_be_duplicate(duplicate.start));
        if let Some(duplicate) = duplicate {
            let segments = self.undo.on_duplicate(duplicate, self.config.mss);
            self.stats.spurious_packets += segments;
        }
        let dsack = duplicate.is_some() && self.undo.all_duplicate();
        let shown = eifel || (self.config.undo && dsack);
        if !shown && !f_rto {
            return (false, repeated);
        }
        self.stats.undo_count += 1;
        self.stats.f_rto_count += u64::from(!shown);
        self.undo.end();
        if self.undo.restores() {
            let delivered = self.delivery.delivered();
            self.notify(|controller| controller.on_spurious(now, delivered));
        }
        if exonerates {
            self.stats.spurious_packets += self.board.exonerate();
        }
        self.sack.forget();
        self.urgent = Urgent::Nothing;
        if self.recovering() {
            self.leave_recovery(now);
        }
        (true, repeated)
    }
}
