//! Entering and leaving recovery, and the timers.

use paceline_congestion::{CaState, Controller, RecoveryWindow};
use paceline_units::{Bytes, Duration, Instant};

use super::{Idle, Sender, Urgent};
use crate::prr::{Bound, Prr};
use crate::{Recovery, SackBlocks};

impl<C: Controller> Sender<C> {
    pub(super) fn recovering(&self) -> bool {
        matches!(self.state, CaState::Recovery | CaState::Loss)
    }

    /// Whether the data outstanding at the start of the episode is acknowledged. Without SACK Linux
    /// waits for more: duplicates of this acknowledgment are no sign of another loss (RFC 6582
    /// section 4.1).
    pub(super) fn is_recovered(&self) -> bool {
        let una = self.board.una();
        let waits = self.config.recovery == Recovery::NewRenoPrr;
        una > self.recovery_point || (una == self.recovery_point && !waits)
    }

    /// Enters fast recovery if something is lost. Losses of data sent during the last episode open
    /// a new one when that is over. After a timeout the loss of data sent and retransmitted since
    /// is a second sign of congestion (RFC 5681 section 4.3): fast recovery continues the episode.
    ///
    /// Then the window is that of a slow start, and says nothing about the path, which may have all
    /// the data from before the timeout to carry again. So PRR's threshold is at least half of the
    /// data outstanding (RFC 5681 equation 4). Linux reduces the window of the moment, and is bound
    /// to a few packets until everything is sent again.
    ///
    /// Linux does not reduce a second time after marks: the reduction, its end and its threshold
    /// stay, and an undo restores nothing (`tcp_enter_recovery`).
    pub(super) fn enter_recovery(&mut self, now: Instant, recover_fs: u64) -> bool {
        let linux = self.config.recovery == Recovery::Linux;
        let again = self.state == CaState::Loss && std::mem::take(&mut self.is_again);
        if (self.recovering() && !again) || self.board.lost_count() == 0 {
            return false;
        }
        let una = self.board.una();
        let reducing = linux && self.state == CaState::Cwr && una <= self.recovery_point;
        self.state = CaState::Recovery;
        self.frto.end();
        if linux {
            self.begin_undo_as_linux(false);
        } else if !again {
            self.begin_undo();
        }
        self.tlp.reset();
        self.stats.recovery_count += 1;
        if reducing {
            self.undo.keep_reduction();
            return true;
        }
        self.recovery_point = self.board.nxt();
        let in_flight = Bytes::new(self.board.in_flight());
        let prior_cwnd = self.outputs.cwnd.get();
        let outstanding = Bytes::new(self.board.nxt() - self.board.una());
        self.notify(|controller| match again && !linux {
            true => controller.on_recovery_again(now, in_flight, outstanding),
            false => controller.on_recovery_enter(now, in_flight),
        });
        self.reduced_at = self.board.next_number();
        self.sack.enter(self.board.first_index());
        self.newreno.enter(self.board.nxt());
        let transports = self.outputs.recovery_window == RecoveryWindow::Prr;
        match Bound::of(self.config.recovery) {
            Some(bound) if transports => {
                let (least, recover_fs) = match (linux, again) {
                    (true, _) => (0, prior_cwnd),
                    (false, true) => (outstanding.get() / 2, recover_fs),
                    (false, false) => (0, recover_fs),
                };
                let ssthresh = self.outputs.cwnd.get().max(least);
                self.prr = Some(Prr::new(bound, ssthresh, recover_fs, self.config.mss));
            }
            Some(_) => {}
            // The window may be full for a while: the fast retransmit is sent nevertheless.
            None if transports || !self.config.recovery.has_rack() => {
                self.urgent = Urgent::FirstLost;
            }
            None => {}
        }
        true
    }

    /// Linux reduces the window over a round trip also after marks (`tcp_enter_cwr`). PRR moves the
    /// window from `cwnd` to the controller's window. The episode also starts if the controller did
    /// not reduce; its window then does not grow for a round trip. An earlier episode can no longer
    /// be undone, and an outstanding probe no longer matters.
    #[cold]
    pub(super) fn enter_cwr(&mut self, cwnd: Bytes, delivered: u64, safe: bool) {
        let reducing = self.recovering() || self.state == CaState::Cwr;
        if reducing || self.outputs.recovery_window != RecoveryWindow::Prr {
            return;
        }
        self.state = CaState::Cwr;
        self.undo.end();
        self.undo.keep_reduction();
        self.tlp.forget_probe();
        self.recovery_point = self.board.nxt();
        let ssthresh = self.outputs.cwnd.get();
        let mut prr = Prr::new(Bound::SafeAck, ssthresh, cwnd.get(), self.config.mss);
        prr.on_ack(delivered, self.board.in_flight(), safe);
        self.prr = Some(prr);
    }

    fn begin_undo(&mut self) {
        let resent = self.board.resent_count();
        self.undo.begin(self.board.una(), resent, resent > 0);
    }

    /// `tcp_init_undo`, after `tcp_retrans_stamp_cleanup` unless the time is kept.
    fn begin_undo_as_linux(&mut self, keeps: bool) {
        let out = self.board.retransmissions_out();
        let keeps = keeps || out > 0 || self.board.is_first_retransmitted();
        self.undo.begin(self.board.una(), out, keeps);
    }

    pub(super) fn leave_recovery(&mut self, now: Instant) {
        self.state = CaState::Open;
        self.unanswered = false;
        self.prr = None;
        self.frto.end();
        self.newreno.reset();
        self.board.forget_duplicates();
        self.sack.forget();
        self.notify(|controller| controller.on_recovery_exit(now));
    }

    // ---- timers

    /// A timer may have expired. Calls before [`Self::next_timer`] do nothing.
    pub fn on_timer(&mut self, now: Instant) {
        self.check_app_limited();
        self.idle = None;
        if self.reorder.is_some_and(|deadline| deadline <= now) {
            let linux = self.config.recovery == Recovery::Linux;
            // To Linux any loss that this timer finds after a timeout is one too many.
            self.is_again |= self.detect_by_time(now, true) > 0 && linux;
            let recover_fs =
                (self.board.nxt() - self.board.una()).saturating_sub(self.board.sacked_bytes());
            if self.enter_recovery(now, recover_fs)
                && linux
                && let Some(prr) = &mut self.prr
            {
                // `tcp_rack_reo_timeout` counts a packet as delivered.
                prr.on_ack(u64::from(self.config.mss), self.board.in_flight(), false);
            }
            if linux && self.reorder.is_none() {
                // Retransmitting the first segment restarts it.
                self.rto = self.head_expiry(now);
            }
        }
        if self.tlp.deadline().is_some_and(|deadline| deadline <= now) {
            self.tlp.disarm();
            if self.can_probe() {
                self.urgent = Urgent::Probe;
                self.rto = Some(self.rtt.expiry(now));
            } else if self.rto.is_none() {
                self.rto = self.head_expiry(now);
            }
        }
        if self.rto.is_some_and(|deadline| deadline <= now) {
            self.on_timeout(now);
        }
    }

    /// RFC 6298 5.4 to 5.7, RFC 8985 6.3.
    fn on_timeout(&mut self, now: Instant) {
        if self.board.is_empty() {
            self.rto = None;
            return;
        }
        let first = self.board.first_index();
        if self.board.get(first).is_some_and(|segment| segment.sacked) {
            self.board.renege();
            self.known = SackBlocks::default();
        }
        self.board.forget_duplicates();
        self.lose_at_timeout(now);
        self.lose(now, first);

        // A timeout in recovery continues the episode, as in Linux's tcp_enter_loss. F-RTO ignores
        // it (RFC 5682 2.1 step 1): the next acknowledgments are for data sent within the episode,
        // and say nothing about the loss that began it. Linux tries it also if nothing was
        // acknowledged since the last timeout, and begins a new episode if something was.
        let linux = self.config.recovery == Recovery::Linux;
        let unanswered = std::mem::replace(&mut self.unanswered, true);
        let recurs = linux && unanswered;
        self.frto
            .begin(self.config.f_rto && (!self.recovering() || recurs));
        if linux {
            // Reduced in this window of data already.
            let reducing = self.state == CaState::Recovery
                || (self.state == CaState::Cwr && self.board.una() < self.recovery_point);
            if !self.recovering() && self.state != CaState::Cwr {
                self.rack.on_timeout_in_disorder(self.board.sacked_count());
            }
            if !reducing && !recurs {
                self.begin_undo_as_linux(self.state == CaState::Loss);
            }
        } else if !self.recovering() {
            self.begin_undo();
        }
        self.state = CaState::Loss;
        self.recovery_point = self.board.nxt();
        self.prr = None;
        self.tlp.reset();
        self.newreno.on_timeout(self.board.nxt());
        self.reduced_at = self.board.next_number();
        self.is_again = false;
        self.reorder = None;
        self.stats.rto_count += 1;
        let in_flight = Bytes::new(self.board.in_flight());
        self.notify(|controller| controller.on_timeout(now, in_flight));
        self.rtt.back_off();
        self.rto = Some(self.rtt.expiry(now));
        self.urgent = Urgent::FirstLost;
    }

    /// RFC 8985 7.2: not in recovery, nothing SACKed, something to probe for.
    pub(super) fn can_probe(&self) -> bool {
        self.config.tlp
            && self.config.recovery.has_rack()
            && !self.recovering()
            && self.board.sacked_count() == 0
            && !self.board.is_empty()
    }

    // Always inlined, as is the next one, and [`Self::next_timer`]: a call costs more than most of
    // its work.
    #[inline(always)]
    pub(super) fn arm_probe(&mut self, now: Instant) {
        self.arm_probe_before(now, self.rto);
    }

    /// Arms the probe's timer, no later than the retransmission timer at `rto`.
    #[inline(always)]
    pub(super) fn arm_probe_before(&mut self, now: Instant, rto: Option<Instant>) {
        if self.can_probe() {
            let single = (self.board.len() == 1).then_some(self.config.max_ack_delay);
            self.tlp.arm(now, self.rtt.srtt(), single, rto);
        }
    }

    /// The timer after a transmission: of new data, or of what `restarts` the retransmission timer.
    #[cold]
    #[inline(never)]
    pub(super) fn arm_sent_as_linux(&mut self, now: Instant, restarts: bool, new: bool) {
        if restarts || (new && self.board.len() == 1) {
            self.rto = Some(self.rtt.expiry(now));
        }
        if new {
            let rto = self.head_due().filter(|head| *head > now);
            self.arm_probe_before(now, rto);
        }
    }

    /// When the retransmission timer expires, counted from the last transmission of the first
    /// segment (`tcp_rto_delta_us`). It may be in the past.
    fn head_due(&self) -> Option<Instant> {
        Some(self.rtt.expiry(self.board.first_sent()?))
    }

    /// The same, but at least a microsecond from now (`tcp_rearm_rto`): a retransmission that is due
    /// now is sent first.
    #[cold]
    #[inline(never)]
    pub(super) fn head_expiry(&self, now: Instant) -> Option<Instant> {
        Some(self.head_due()?.max(now + Duration::from_micros(1)))
    }

    /// The earliest timer: retransmission, probe, reordering, or the pacer's release if something
    /// waits for it alone. It may be in the past.
    #[inline(always)]
    pub fn next_timer(&self) -> Option<Instant> {
        if self.urgent != Urgent::Nothing {
            return Some(Instant::ZERO);
        }
        let waits = || match self.ready() {
            Some(_) => Idle::Paced(self.pacer.release()),
            None => Idle::Blocked,
        };
        let known = |idle| idle == Idle::Deferred || idle == waits();
        debug_assert!(self.idle.is_none_or(known));
        let paced = match self.idle.unwrap_or_else(waits) {
            Idle::Paced(release) => release,
            Idle::Blocked | Idle::Deferred => Instant::MAX,
        };
        // Comparing options costs more than comparing times.
        let or_never = |timer: Option<Instant>| timer.unwrap_or(Instant::MAX);
        let lossy = or_never(self.reorder).min(or_never(self.tlp.deadline()));
        let next = or_never(self.rto).min(lossy).min(paced);
        (next < Instant::MAX).then_some(next)
    }

    /// `CheckIfApplicationLimited` (draft-ietf-ccwg-bbr-06 4.1.2.4).
    pub(super) fn check_app_limited(&mut self) {
        if self.is_running_dry() {
            let in_flight = self.board.in_flight();
            self.delivery.mark_app_limited(Bytes::new(in_flight));
        }
    }

    /// Whether the application gives less than the window allows.
    #[inline]
    pub(super) fn is_running_dry(&self) -> bool {
        self.written <= self.board.nxt()
            && self.board.first_waiting().is_none()
            && self.board.in_flight() < self.window()
    }

    /// What left the pipe and does not make room. Without limited transmit (RFC 3042), SACKed data
    /// does only when something is declared lost; with it and without SACK, each of the first two
    /// duplicates allows one segment.
    #[inline]
    pub(super) fn withheld(&self) -> u64 {
        match self.state {
            CaState::Disorder if !self.config.limited_transmit => {
                self.board.sacked_bytes() + self.board.duplicates()
            }
            CaState::Disorder => {
                let two = 2 * u64::from(self.config.mss);
                self.board.duplicates().saturating_sub(two)
            }
            _ => 0,
        }
    }

    #[inline]
    pub(super) fn cwnd_limited(&self) -> bool {
        let ssthresh = self.outputs.ssthresh.map(Bytes::get);
        self.usage.is_limited(self.outputs.cwnd.get(), ssthresh)
    }
}
