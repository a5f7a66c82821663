//! Declaring losses, entering and leaving recovery, and the timers.

use paceline_congestion::{CaState, Controller, Loss, RecoveryWindow};
use paceline_units::{Bytes, Duration, Instant};

use super::{Sender, Urgent};
use crate::SackBlocks;
use crate::prr::Prr;

impl<C: Controller> Sender<C> {
    /// RFC 8985 6.2 step 5. Returns the bytes newly lost. The timer waits for
    /// the oldest transmission in doubt (the RFC's for the youngest, to have
    /// fewer expiries): each is declared lost when it is due.
    pub(super) fn detect_losses(&mut self, now: Instant) -> u64 {
        self.reorder = None;
        let reo_wnd = self.reo_wnd();
        let mut lost = 0;
        while let Some((index, segment)) = self.board.oldest() {
            let sent = segment.packet.send_time;
            let Some(deadline) = self.rack.deadline(segment.number, sent, reo_wnd) else {
                break;
            };
            if deadline > now {
                self.reorder = Some(deadline);
                break;
            }
            lost += self.lose(now, index);
        }
        lost
    }

    pub(super) fn reo_wnd(&self) -> Duration {
        let (min, srtt) = (self.rtt.min(), self.rtt.srtt());
        self.rack
            .reo_wnd(self.recovering(), self.board.sacked_count(), min, srtt)
    }

    pub(super) fn lose(&mut self, now: Instant, index: u64) -> u64 {
        let Some(lost) = self.board.mark_lost(index) else {
            return 0;
        };
        self.delivery.on_lost(&lost.packet);
        self.stats.packets_lost += 1;
        self.stats.bytes_lost += u64::from(lost.packet.size);
        self.controller.on_loss(&Loss {
            now,
            packet: lost.packet,
            lost: self.delivery.lost(),
            delivered: self.delivery.delivered(),
            in_flight: Bytes::new(self.board.in_flight()),
            starts_range: lost.starts_range,
            retransmission: lost.retransmission,
        });
        u64::from(lost.packet.size)
    }

    pub(super) fn recovering(&self) -> bool {
        matches!(self.state, CaState::Recovery | CaState::Loss)
    }

    /// Enters fast recovery if something is lost. Losses of data sent during
    /// the last episode open a new one when that is over.
    pub(super) fn enter_recovery(&mut self, now: Instant, recover_fs: u64) -> bool {
        if self.recovering() || self.board.lost_count() == 0 {
            return false;
        }
        self.state = CaState::Recovery;
        self.recovery_point = self.board.nxt();
        self.undo
            .begin(self.board.una(), self.board.retransmitted_count());
        self.tlp.reset();
        self.stats.recovery_count += 1;
        self.controller
            .on_recovery_enter(now, Bytes::new(self.board.in_flight()));
        if self.controller.recovery_window() == RecoveryWindow::Prr {
            self.prr = Some(Prr::new(
                self.controller.cwnd().get(),
                recover_fs,
                self.config.mss,
            ));
        }
        true
    }

    pub(super) fn leave_recovery(&mut self, now: Instant) {
        self.state = CaState::Open;
        self.prr = None;
        self.frto.end();
        self.controller.on_recovery_exit(now);
    }

    // ---- timers

    /// A timer may have expired. Calls before [`Self::next_timer`] do nothing.
    pub fn on_timer(&mut self, now: Instant) {
        self.check_app_limited();
        if self.reorder.is_some_and(|deadline| deadline <= now) {
            self.detect_losses(now);
            let recover_fs =
                (self.board.nxt() - self.board.una()).saturating_sub(self.board.sacked_bytes());
            self.enter_recovery(now, recover_fs);
        }
        if self.tlp.deadline().is_some_and(|deadline| deadline <= now) {
            self.tlp.disarm();
            if self.can_probe() {
                self.urgent = Urgent::Probe;
                self.rto = Some(self.rtt.expiry(now));
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
        let reo_wnd = self.reo_wnd();
        while let Some((index, segment)) = self.board.oldest() {
            if self.rack.expiry(segment.packet.send_time, reo_wnd) > now {
                break;
            }
            self.lose(now, index);
        }
        self.lose(now, first);

        // As in Linux's tcp_enter_loss, a timeout in recovery continues the
        // episode, and F-RTO leaves the first one in fast recovery alone.
        self.frto
            .begin(self.config.f_rto && self.state != CaState::Recovery);
        if !self.recovering() {
            self.undo
                .begin(self.board.una(), self.board.retransmitted_count());
        }
        self.state = CaState::Loss;
        self.recovery_point = self.board.nxt();
        self.prr = None;
        self.tlp.reset();
        self.reorder = None;
        self.stats.rto_count += 1;
        self.controller
            .on_timeout(now, Bytes::new(self.board.in_flight()));
        self.rtt.back_off();
        self.rto = Some(self.rtt.expiry(now));
        self.urgent = Urgent::FirstSegment;
    }

    /// RFC 8985 7.2: not in recovery, nothing SACKed, something to probe for.
    pub(super) fn can_probe(&self) -> bool {
        self.config.tlp
            && !self.recovering()
            && self.board.sacked_count() == 0
            && !self.board.is_empty()
    }

    pub(super) fn arm_probe(&mut self, now: Instant) {
        if self.can_probe() {
            let single = (self.board.len() == 1).then_some(self.config.max_ack_delay);
            self.tlp.arm(now, self.rtt.srtt(), single, self.rto);
        }
    }

    /// The earliest timer: retransmission, probe, reordering, or the pacer's
    /// release if something waits for it alone. It may lie in the past.
    pub fn next_timer(&self) -> Option<Instant> {
        if self.urgent != Urgent::Nothing {
            return Some(Instant::ZERO);
        }
        let paced = self
            .next()
            .is_some_and(|next| self.window_allows(next.len()))
            .then(|| self.pacer.release());
        let lossy = sooner(self.reorder, self.tlp.deadline());
        sooner(sooner(self.rto, lossy), paced)
    }

    /// `CheckIfApplicationLimited` (draft-ietf-ccwg-bbr-06 4.1.2.4).
    pub(super) fn check_app_limited(&mut self) {
        let in_flight = self.board.in_flight();
        if self.written <= self.board.nxt()
            && self.board.first_waiting().is_none()
            && in_flight < self.window()
        {
            self.delivery.mark_app_limited(Bytes::new(in_flight));
        }
    }

    pub(super) fn cwnd_limited(&self) -> bool {
        let ssthresh = self.controller.ssthresh().map(Bytes::get);
        self.usage
            .is_limited(self.controller.cwnd().get(), ssthresh)
    }
}

fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
