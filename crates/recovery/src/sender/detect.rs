//! Declaring losses: by time (RFC 8985), by SACKs (RFC 6675), by duplicates (RFC 6582), and by the
//! timeout.

use paceline_congestion::{CaState, Controller, Lost, RecoveryWindow};
use paceline_units::{Bytes, Duration, Instant};

use super::{Sender, Urgent};
use crate::Recovery;
use crate::sack::Sack;
use crate::scoreboard::LostTransmission;
use crate::tlp::Probed;

/// The kind of an acknowledgment, for loss detection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// Bytes by which the cumulative point advanced.
    pub advanced: u64,
    /// It newly SACKs something.
    pub sacks: bool,
    /// It repeats the previous one (RFC 5681 section 2).
    pub duplicate: bool,
    /// It ends the episode.
    pub exiting: bool,
}

impl<C: Controller> Sender<C> {
    /// Detects losses on an acknowledgment. Returns the bytes newly lost.
    pub(super) fn detect_losses(&mut self, now: Instant, signs: Signs) -> u64 {
        match self.config.recovery {
            Recovery::Sack => self.detect_by_sacks(now, signs),
            Recovery::NewReno | Recovery::NewRenoPrr => self.detect_by_duplicates(now, signs),
            _ => self.detect_by_time(now, false),
        }
    }

    /// RFC 8985 6.2 step 5. The timer waits for the oldest transmission in doubt (the RFC's and
    /// Linux's for the youngest, to have fewer expiries), so each is declared lost when it is due.
    ///
    /// Two transmissions of one burst have the same time here. A kernel's have not: one that was sent
    /// after the one whose RTT it is compared with is not due yet.
    pub(super) fn detect_by_time(&mut self, now: Instant, by_timer: bool) -> u64 {
        let linux = self.config.recovery == Recovery::Linux;
        let (_, rtt_of) = self.rack.rtt();
        self.reorder = None;
        let reo_wnd = self.reo_wnd();
        let mut lost = 0;
        while let Some(oldest) = self.board.oldest() {
            let Some(deadline) = self.rack.deadline(oldest.number, oldest.sent, reo_wnd) else {
                break;
            };
            let later = linux && !by_timer && oldest.number > rtt_of;
            if deadline > now || (later && deadline == now) {
                self.reorder = Some(match linux {
                    true => self.last_deadline(reo_wnd).unwrap_or(deadline),
                    false => deadline,
                });
                break;
            }
            lost += self.lose(now, oldest.index);
        }
        self.reduce_again(now);
        lost
    }

    /// When the youngest transmission in doubt is due.
    #[cold]
    fn last_deadline(&self, reo_wnd: Duration) -> Option<Instant> {
        let sent = self.board.sent_last_before(self.rack.newest()?)?;
        Some(self.rack.expiry(sent, reo_wnd))
    }

    fn reo_wnd(&self) -> Duration {
        let (min, srtt) = (self.rtt.min(), self.rtt.srtt());
        self.rack
            .reo_wnd(self.recovering(), self.board.sacked_count(), min, srtt)
    }

    /// RFC 5681 section 4.3: the loss of a retransmission is a second sign of congestion, here once
    /// for all retransmissions since the last reduction. With PRR it is not one within fast
    /// recovery, as in Linux; after a timeout [`Self::enter_recovery`] responds to it.
    fn reduce_again(&mut self, now: Instant) {
        if self.state == CaState::Loss {
            return;
        }
        let again = std::mem::take(&mut self.is_again);
        if again
            && self.config.recovery == Recovery::Rack
            && self.state == CaState::Recovery
            && self.outputs.recovery_window == RecoveryWindow::Prr
        {
            self.reduced_at = self.board.next_number();
            let in_flight = Bytes::new(self.board.in_flight());
            self.notify(|controller| controller.on_recovery_enter(now, in_flight));
        }
    }

    /// `Update` and `IsLost` (RFC 6675 section 4). Data retransmitted in an episode is not declared
    /// lost again in that episode before the timeout: `HighRxt` is above it.
    fn detect_by_sacks(&mut self, now: Instant, signs: Signs) -> u64 {
        self.sack.on_ack(signs.advanced > 0, signs.sacks);
        let most = u64::from(self.config.mss) * (Sack::DUP_THRESH as u64 - 1);
        let bound = self.board.lost_below(Sack::DUP_THRESH, most);
        let first = self.board.first_index();
        let mut lost = 0;
        for index in self.sack.examine(first, bound) {
            lost += self.lose_original(now, index);
        }
        if self.sack.is_first_lost() {
            lost += self.lose_original(now, first);
        }
        lost
    }

    /// Without SACK a duplicate means that a segment has arrived (draft-ietf-ccwg-bbr-06 4.1.3.5.1,
    /// Linux's `tcp_add_reno_sack`). After a timeout this holds if new data was sent since, as in
    /// step 2b of F-RTO; an acknowledgment that advances outside fast recovery ends the count.
    /// Returns the bytes that it delivers.
    pub(super) fn count_duplicate(&mut self, now: Instant, signs: Signs) -> u64 {
        if signs.advanced > 0 && self.state != CaState::Recovery {
            self.board.forget_duplicates();
        }
        let old = self.state == CaState::Loss && self.board.nxt() <= self.recovery_point;
        if !signs.duplicate || old {
            return 0;
        }
        let delivered = self.board.add_duplicate(u64::from(self.config.mss));
        self.delivery.on_duplicate(now, Bytes::new(delivered));
        delivered
    }

    /// RFC 6582 section 3.2: the third duplicate, and each partial acknowledgment.
    fn detect_by_duplicates(&mut self, now: Instant, signs: Signs) -> u64 {
        let first = self.board.first_index();
        match self.state {
            _ if signs.exiting => 0,
            CaState::Recovery if signs.advanced > 0 => {
                if self.newreno.on_partial() {
                    self.rto = Some(self.rtt.expiry(now));
                }
                self.urgent = Urgent::FirstLost;
                self.lose(now, first)
            }
            CaState::Loss if signs.advanced == 0 => 0,
            CaState::Recovery => 0,
            _ if signs.advanced > 0 => {
                self.newreno.reset();
                0
            }
            _ if signs.duplicate && self.newreno.on_duplicate(self.board.una()) => {
                self.lose(now, first)
            }
            _ => 0,
        }
    }

    /// The timer expired: RFC 8985 6.3 by RACK, everything without it (RFC 5681 section 3.1).
    pub(super) fn lose_at_timeout(&mut self, now: Instant) {
        let reo_wnd = match self.config.recovery {
            // `tcp_timeout_mark_lost`; RFC 8985 6.3 adds the window.
            Recovery::Linux => Duration::ZERO,
            _ => self.reo_wnd(),
        };
        while let Some(oldest) = self.board.oldest() {
            let expiry = self.rack.expiry(oldest.sent, reo_wnd);
            if self.config.recovery.has_rack() && expiry > now {
                break;
            }
            self.lose(now, oldest.index);
        }
    }

    fn lose_original(&mut self, now: Instant, index: u64) -> u64 {
        let segment = self.board.get(index);
        let repeated = |number| self.recovering() && number >= self.reduced_at;
        if segment.is_none_or(|segment| segment.retransmitted && repeated(segment.number)) {
            return 0;
        }
        self.lose(now, index)
    }

    pub(super) fn lose(&mut self, now: Instant, index: u64) -> u64 {
        let Some(lost) = self.board.mark_lost(index) else {
            return 0;
        };
        // To Linux any retransmission counts, also one from before the timeout.
        let counts = lost.number >= self.reduced_at || self.config.recovery == Recovery::Linux;
        self.is_again |= lost.retransmission && counts;
        self.count_lost(now, &lost)
    }

    /// RFC 8985 7.4.2: a transmission was lost that a probe has since repaired.
    pub(super) fn lose_repaired(&mut self, now: Instant, probed: &Probed) -> u64 {
        self.count_lost(
            now,
            &LostTransmission {
                packet: probed.packet,
                starts_range: true,
                retransmission: probed.retransmission,
                number: 0,
            },
        )
    }

    #[inline]
    fn count_lost(&mut self, now: Instant, lost: &LostTransmission) -> u64 {
        self.delivery.on_lost(&lost.packet);
        self.stats.lost_packets += 1;
        let loss = Lost {
            now,
            packet: lost.packet,
            lost: self.delivery.lost(),
            delivered: self.delivery.delivered(),
            in_flight: Bytes::new(self.board.in_flight()),
            starts_range: lost.starts_range,
            retransmission: lost.retransmission,
        };
        self.notify(|controller| controller.on_loss(&loss));
        u64::from(lost.packet.size)
    }
}
