//! The sender: combines the mechanisms. This file sends; its submodules process acknowledgments,
//! losses and timers.

mod acknowledge;
mod detect;
mod recovery;

use paceline_congestion::{
    CaState, Controller, Delivery, Outputs, RateSample, Sent, idle_restarts, window_rate,
};
use paceline_units::{Bytes, Duration, Instant};

use crate::ecn::Marks;
use crate::frto::FRto;
use crate::newreno::NewReno;
use crate::pacer::Pacer;
use crate::prr::Prr;
use crate::push::{self, Bursts, Room};
use crate::rack::Rack;
use crate::rtt::RttEstimator;
use crate::sack::Sack;
use crate::scoreboard::Scoreboard;
use crate::tlp::{Probed, Tlp};
use crate::undo::Undo;
use crate::usage::WindowUsage;
use crate::{Block, Recovery, SackBlocks, Segment, SenderConfig, SenderStats};

/// The sending side of a connection, with controller `C`.
#[derive(Clone, Debug)]
pub struct Sender<C> {
    config: SenderConfig,
    controller: C,
    hears_each_send: bool,
    /// The controller's latest decision.
    outputs: Outputs,
    delivery: Delivery,
    sample: RateSample,
    stats: SenderStats,
    board: Scoreboard,
    rtt: RttEstimator,
    rack: Rack,
    sack: Sack,
    newreno: NewReno,
    tlp: Tlp,
    undo: Undo,
    frto: FRto,
    pacer: Pacer,
    bursts: Bursts,
    usage: WindowUsage,
    /// Proportional rate reduction, while it sets the window.
    prr: Option<Prr>,
    state: CaState,
    /// Recovery ends when this is acknowledged.
    recovery_point: u64,
    /// The number of the first transmission after the last reduction, and whether a retransmission
    /// since then is declared lost.
    reduced_at: u64,
    is_again: bool,
    /// The timer has fired, and the cumulative point has not advanced since (Linux's
    /// `icsk_retransmits`).
    unanswered: bool,
    /// When the last segment was sent.
    sent_at: Option<Instant>,
    /// Segments reported as received twice.
    repeated: u64,
    /// Data to send next regardless of window and pacer.
    urgent: Urgent,
    /// The reason found by the last poll, if it sent nothing and nothing has happened since.
    idle: Option<Idle>,
    /// See [`Self::take_news`].
    news: bool,
    /// Bytes written by the application: the current end of the stream.
    written: u64,
    unlimited: bool,
    closed: bool,
    /// The receive window's right edge.
    window_end: u64,
    marks: Marks,
    rto: Option<Instant>,
    reorder: Option<Instant>,
    /// Parts of the scoreboard that an acknowledgment newly SACKs.
    fresh: Vec<Block>,
    /// The ranges of the last SACK option, already in the scoreboard.
    known: SackBlocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgent {
    Nothing,
    /// A tail loss probe (RFC 8985 section 7.3).
    Probe,
    /// The first lost segment: after a timeout (RFC 6298 5.4), a fast retransmit (RFC 5681 3.2).
    FirstLost,
}

/// Why nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    /// The pacer releases the next segment at this time.
    Paced(Instant),
    /// There is no data, or the window has no room.
    Blocked,
    /// The window has room, but not for a burst.
    Deferred,
}

/// The next transmission.
#[derive(Clone, Copy, Debug)]
enum Next {
    Again(u64, u32),
    /// RFC 6675's rescue retransmission.
    Rescue(u64, u32),
    New(u32),
}

impl Next {
    fn len(self) -> u32 {
        match self {
            Self::Again(_, len) | Self::Rescue(_, len) | Self::New(len) => len,
        }
    }
}

/// Segments sent at once: one, or several new ones, full but for the last.
#[derive(Clone, Debug)]
pub struct Burst {
    next: Segment,
    end: u64,
}

impl Iterator for Burst {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        let left = self
            .end
            .checked_sub(self.next.seq)
            .filter(|left| *left > 0)?;
        let len = left.min(u64::from(self.next.len)) as u32;
        let segment = Segment { len, ..self.next };
        self.next.seq = segment.end();
        self.next.cwr = false;
        Some(segment)
    }
}

impl<C: Controller> Sender<C> {
    /// A sender at sequence 0. `handshake_rtt` is a first RTT sample, if the connection's set-up
    /// gave one; `now` is only the time of construction.
    pub fn new(
        config: SenderConfig,
        controller: C,
        _now: Instant,
        handshake_rtt: Option<Duration>,
    ) -> Self {
        let config = SenderConfig {
            mss: config.mss.max(1),
            ..config
        };
        let outputs = controller.outputs();
        let delivery = Delivery::new(outputs.pacer_below);
        let mut sender = Self {
            config,
            hears_each_send: controller.hears_each_send(),
            controller,
            outputs,
            delivery,
            sample: RateSample::default(),
            stats: SenderStats::default(),
            board: Scoreboard::default(),
            rtt: RttEstimator::new(config.initial_rto, config.min_rto, config.max_rto),
            rack: Rack::default(),
            sack: Sack::default(),
            newreno: NewReno::default(),
            tlp: Tlp::default(),
            undo: Undo::default(),
            frto: FRto::default(),
            pacer: Pacer::default(),
            bursts: Bursts::default(),
            usage: WindowUsage::default(),
            prr: None,
            state: CaState::Open,
            recovery_point: 0,
            reduced_at: 0,
            is_again: false,
            unanswered: false,
            sent_at: None,
            repeated: 0,
            urgent: Urgent::Nothing,
            idle: None,
            news: true,
            written: 0,
            unlimited: false,
            closed: false,
            window_end: u64::MAX,
            marks: Marks::new(config.ecn),
            rto: None,
            reorder: None,
            fresh: Vec::new(),
            known: SackBlocks::default(),
        };
        if let Some(rtt) = handshake_rtt {
            sender.sample_rtt(rtt, rtt);
            sender.delivery.on_rtt(rtt);
        }
        sender
    }

    /// Passes an event to the controller, and applies its decision.
    fn notify(&mut self, event: impl FnOnce(&mut C)) {
        self.news = true;
        event(&mut self.controller);
        self.outputs = self.controller.outputs();
    }

    /// Applies a decision that the controller made without an event.
    pub fn decided(&mut self) {
        self.idle = None;
        self.news = true;
        self.outputs = self.controller.outputs();
    }

    // ---- the application's side

    /// The application writes `bytes` more. Ignored after [`Self::close`].
    pub fn write(&mut self, _now: Instant, bytes: u64) {
        self.check_app_limited();
        self.idle = None;
        if !self.closed && !self.unlimited {
            self.written = self.written.saturating_add(bytes);
        }
    }

    /// From now on the application always has more. Ignored after [`Self::close`].
    pub fn write_unlimited(&mut self, _now: Instant) {
        self.check_app_limited();
        self.idle = None;
        if !self.closed && !self.unlimited {
            self.unlimited = true;
            self.written = u64::MAX / 2;
        }
    }

    /// Ends [`Self::write_unlimited`]: the data sent so far is all there is for now.
    pub fn stop_unlimited(&mut self, _now: Instant) {
        self.idle = None;
        if std::mem::take(&mut self.unlimited) {
            self.written = self.board.nxt();
        }
    }

    /// Nothing more will be written. This also ends unlimited data.
    pub fn close(&mut self) {
        self.idle = None;
        if std::mem::take(&mut self.unlimited) {
            self.written = self.board.nxt();
        }
        self.closed = true;
    }

    // ---- the path's side

    /// The path's MTU has changed: segments carry at most `mss` bytes from now on. Outstanding
    /// segments keep their size, also when they are retransmitted: on a path with a smaller MTU the
    /// network layer fragments them.
    pub fn set_mss(&mut self, mss: u32) {
        let mss = mss.max(1);
        self.config.mss = mss;
        self.idle = None;
        self.notify(|controller| controller.on_mss(mss));
    }

    // ---- sending

    /// What [`Self::poll_transmit`] returns, several segments at once where that is possible. Call it
    /// until it returns none.
    #[inline]
    pub fn poll_burst(&mut self, now: Instant) -> Option<Burst> {
        match self.idle {
            Some(Idle::Blocked) if self.urgent == Urgent::Nothing => return None,
            Some(Idle::Paced(release)) if release > now && self.urgent == Urgent::Nothing => {
                return None;
            }
            _ => {}
        }
        self.burst_of_new(now).or_else(|| {
            let next = self.poll_transmit(now)?;
            let end = next.end();
            Some(Burst { next, end })
        })
    }

    /// The short form: the new segments that window and pacer allow while nothing else is to be sent.
    #[inline]
    fn burst_of_new(&mut self, now: Instant) -> Option<Burst> {
        // NextSeg() chooses for each segment what is sent next (RFC 6675 section 4).
        let by_rules = self.config.recovery == Recovery::Sack && self.state == CaState::Recovery;
        let calm = self.urgent == Urgent::Nothing
            && self.withheld() == 0
            && self.prr.is_none()
            && self.rto.is_some()
            && self.board.is_calm()
            && self.frto.new_segments().is_none()
            && !by_rules;
        let special =
            self.config.tso_defer || self.config.push || self.config.recovery == Recovery::Linux;
        let mut in_flight = self.board.in_flight();
        if !calm || special || in_flight == 0 {
            return None;
        }
        let (cwnd, mss) = (self.outputs.cwnd.get(), self.config.mss);
        let (una, first) = (self.board.una(), self.board.nxt());
        let end = self.written.min(self.window_end);
        let mut nxt = first;
        let mut len = self.written.saturating_sub(nxt).min(u64::from(mss));
        if len == 0 || nxt + len > end || in_flight + len > cwnd {
            return None;
        }
        let quantum = self.quantum();
        if !self.pacer.allows(now, len as u32, quantum) {
            return None;
        }
        let rate = self.outputs.pacing_rate.filter(|rate| !rate.is_infinite());
        // The first one is allowed, whatever the quantum is.
        let begun = self.pacer.begun(now);
        let most = match rate {
            None => u64::MAX,
            Some(_) => quantum.get().saturating_sub(begun).max(len),
        };
        let app_limited = self.delivery.is_app_limited();
        let mut packet = self.delivery.on_send(now, 0, Bytes::new(in_flight));
        let idle = loop {
            if self.hears_each_send {
                self.controller.on_send(&Sent {
                    now,
                    size: len as u32,
                    in_flight: Bytes::new(in_flight),
                    app_limited,
                });
            }
            nxt += len;
            in_flight += len;
            packet.size = len as u32;
            packet.tx_in_flight = Bytes::new(in_flight);
            self.board.send_new(packet);
            self.stats.sent_packets += 1;
            self.usage.on_send(una, nxt, in_flight, cwnd, mss);
            let more = self.written.saturating_sub(nxt).min(u64::from(mss));
            if more == 0 || nxt + more > end || in_flight + more > cwnd {
                break Idle::Blocked;
            }
            if nxt - first + more > most {
                break Idle::Paced(now);
            }
            len = more;
        };
        let sent = nxt - first;
        self.delivery.on_sent(Bytes::new(sent));
        self.pacer.on_burst(now, begun + sent, sent == len, rate);
        self.idle = Some(match idle {
            Idle::Paced(_) => Idle::Paced(self.pacer.release()),
            idle => idle,
        });
        self.sent_at = Some(now);
        self.arm_probe(now);
        let next = Segment {
            seq: first,
            len: mss,
            push: false,
            ecn: self.marks.codepoint(self.outputs.ecn, false),
            cwr: self.marks.take_cwr(),
            sent: now,
            retransmission: false,
        };
        Some(Burst { next, end: nxt })
    }

    /// The next segment, if the congestion window, the receive window and the pacer allow one now.
    /// Call it until it returns none.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        let urgent = match self.urgent {
            Urgent::Nothing => None,
            _ => self.take_urgent(),
        };
        let (next, probe) = match urgent {
            Some(urgent) => urgent,
            None => (self.released(now)?, false),
        };
        self.transmit(now, next, probe)
    }

    /// The segment sent regardless of window and pacer, and whether it is a probe.
    #[cold]
    fn take_urgent(&mut self) -> Option<(Next, bool)> {
        match std::mem::replace(&mut self.urgent, Urgent::Nothing) {
            Urgent::Nothing => None,
            Urgent::Probe => Some((self.probe()?, true)),
            Urgent::FirstLost => Some((self.waiting()?, false)),
        }
    }

    /// The segment that window and pacer allow now.
    #[inline]
    fn released(&mut self, now: Instant) -> Option<Next> {
        let Some(next) = self.ready() else {
            self.idle = Some(Idle::Blocked);
            return None;
        };
        if !self.pacer.allows(now, next.len(), self.quantum()) {
            self.idle = Some(Idle::Paced(self.pacer.release()));
            return None;
        }
        if self.config.tso_defer && self.defers(now, next) {
            self.idle = Some(Idle::Deferred);
            return None;
        }
        if matches!(next, Next::Rescue(..)) {
            self.sack.on_rescue();
        }
        Some(next)
    }

    /// Whether new data waits for a larger burst ([`SenderConfig::tso_defer`]). A segment on its own
    /// does not, nor the end of the data, nor data whose next ACK is not due soon.
    #[cold]
    #[inline(never)]
    fn defers(&mut self, now: Instant, next: Next) -> bool {
        let Next::New(len) = next else {
            return false;
        };
        if self.bursts.take(now, u64::from(len)) {
            return false;
        }
        let (una, nxt) = (self.board.una(), self.board.nxt());
        let unsent = self.written.saturating_sub(nxt);
        let free = self.window().saturating_sub(self.board.in_flight());
        let offered = self.window_end.saturating_sub(nxt);
        let limit = free.min(offered);
        let srtt = self.rtt.srtt().unwrap_or(Duration::ZERO);
        let early = srtt - (srtt / 2).min(push::SOON);
        let soon = !self.board.is_empty() && !self.board.first_sent_after(now - early);
        let last = unsent <= u64::from(self.config.mss) || self.closed && unsent <= limit;
        if self.recovering() || last || !soon {
            return false;
        }
        let mss = u64::from(self.config.mss);
        let buffer = push::BUFFER * mss;
        let room = Room {
            rest: buffer - nxt % buffer,
            limit,
            window: self.window().min(self.window_end.saturating_sub(una)),
            burst: (self.burst().get() / mss).max(2) * mss,
        };
        let waits = self.bursts.waits(now, self.sent_at, room);
        if waits && free < offered {
            self.usage.on_wait(una, nxt, self.board.in_flight());
        }
        waits || !self.bursts.take(now, u64::from(len))
    }

    /// The next transmission, if the window has room for it.
    #[inline]
    fn ready(&self) -> Option<Next> {
        self.next().filter(|next| self.window_allows(*next))
    }

    /// Retransmissions first, lowest sequence first; then new data. In step 2b of F-RTO new data
    /// only, if there is any.
    // Always inlined: a call costs more than most of its work.
    #[inline(always)]
    fn next(&self) -> Option<Next> {
        match self.frto.new_segments() {
            Some(0) => None,
            Some(_) => self.new_data().or_else(|| self.waiting()),
            None => self
                .waiting()
                .or_else(|| self.new_data())
                .or_else(|| self.speculative()),
        }
    }

    /// Rules 3 and 4 of RFC 6675's `NextSeg`: segments that may be lost, then the last segment,
    /// once.
    #[cold]
    fn speculative(&self) -> Option<Next> {
        if self.config.recovery != Recovery::Sack || self.state != CaState::Recovery {
            return None;
        }
        if let Some(index) = self.board.first_hole(self.sack.high_rxt()) {
            return self.again(index);
        }
        let last = self.board.last_hole().filter(|_| self.sack.may_rescue())?;
        match self.again(last)? {
            Next::Again(index, len) => Some(Next::Rescue(index, len)),
            next => Some(next),
        }
    }

    fn waiting(&self) -> Option<Next> {
        let index = self.board.first_waiting()?;
        self.again(index)
    }

    fn again(&self, index: u64) -> Option<Next> {
        self.board
            .get(index)
            .map(|segment| Next::Again(index, segment.packet.size))
    }

    /// A full segment, or the rest of the application's data. The receive window cuts a segment
    /// short only when nothing is outstanding (RFC 9293 3.8.6.2.1).
    fn new_data(&self) -> Option<Next> {
        let unsent = self.written.saturating_sub(self.board.nxt());
        let room = self.window_end.saturating_sub(self.board.nxt());
        let len = unsent.min(u64::from(self.config.mss));
        let len = if len <= room {
            len
        } else if self.board.is_empty() {
            room
        } else {
            0
        };
        u32::try_from(len)
            .ok()
            .filter(|len| *len > 0)
            .map(Next::New)
    }

    /// RFC 8985 7.3: new data, or else the segment of the highest sequence.
    fn probe(&self) -> Option<Next> {
        if !self.can_probe() {
            return None;
        }
        self.new_data()
            .or_else(|| self.again(self.board.last_index()?))
    }

    /// The transmission that a probe repeats.
    fn probed(&self, next: Next) -> Option<Probed> {
        let Next::Again(index, _) = next else {
            return None;
        };
        self.board.get(index).map(|segment| Probed {
            packet: segment.packet,
            retransmission: segment.retransmitted,
        })
    }

    fn window(&self) -> u64 {
        match &self.prr {
            Some(prr) => prr.window(self.board.in_flight()),
            None => self.outputs.cwnd.get(),
        }
    }

    /// One segment always fits into an empty pipe: below a window of one segment, the pacer limits
    /// sending.
    fn window_allows(&self, next: Next) -> bool {
        let in_flight = self.board.in_flight();
        let after = in_flight.saturating_add(u64::from(next.len()));
        in_flight == 0 || after.saturating_add(self.withheld()) <= self.window()
    }

    fn quantum(&self) -> Bytes {
        self.config.max_burst.unwrap_or(self.outputs.send_quantum)
    }

    /// The largest burst of segmentation offload.
    fn burst(&self) -> Bytes {
        match (self.outputs.pacing_rate, self.rtt.srtt()) {
            (None, Some(srtt)) => {
                let ssthresh = self.outputs.ssthresh.unwrap_or(Bytes::INFINITE);
                let in_flight = Bytes::new(self.board.in_flight());
                window_rate(self.outputs.cwnd, ssthresh, in_flight, srtt).volume_in(push::BURST)
            }
            (None, None) => Bytes::INFINITE,
            (Some(_), _) => self.quantum(),
        }
    }

    /// Whether the new segment just sent carries PSH: no data is written behind it, or it ends a
    /// burst.
    fn pushes(&mut self, now: Instant) -> bool {
        let burst = self.burst();
        let more = self.ready().is_some_and(|next| {
            matches!(next, Next::New(_)) && self.pacer.allows(now, next.len(), self.quantum())
        });
        let ends = self.bursts.on_send(now, burst, self.config.mss, more);
        ends || self.board.nxt() == self.written
    }

    /// Sending resumes after a pause.
    #[cold]
    fn restart(&mut self, now: Instant) {
        let pause = self.sent_at.map_or(Duration::ZERO, |sent| now.since(sent));
        for _ in 0..idle_restarts(pause, self.rtt.rto()) {
            self.notify(|controller| controller.on_idle_restart(now));
        }
    }

    #[inline]
    fn transmit(&mut self, now: Instant, next: Next, probe: bool) -> Option<Segment> {
        self.idle = None;
        let len = next.len();
        let in_flight = Bytes::new(self.board.in_flight());
        if self.board.is_empty() && self.sent_at.is_some_and(|sent| sent + self.rtt.rto() < now) {
            self.restart(now);
        }
        self.sent_at = Some(now);
        // The controller is notified before the segment counts as in flight, unless that
        // makes no difference.
        if self.hears_each_send || in_flight == Bytes::ZERO {
            self.controller.on_send(&Sent {
                now,
                size: len,
                in_flight,
                app_limited: self.delivery.is_app_limited(),
            });
        }
        // A send changes the controller's decision only if nothing was in flight.
        if in_flight == Bytes::ZERO {
            self.news = true;
            self.outputs = self.controller.outputs();
        }
        debug_assert_eq!(self.outputs, self.controller.outputs());
        let probed = if probe { self.probed(next) } else { None };
        let nothing = in_flight == Bytes::ZERO
            && (!self.config.sample_unacknowledged || self.board.is_empty());
        let packet = self.delivery.on_send_after(now, len, in_flight, nothing);
        let mut first = false;
        let mut retransmission = true;
        let seq = match next {
            Next::Again(index, _) => {
                // RFC 6582 section 4, impatient: the timer keeps running from the first partial
                // ACK.
                first = index == self.board.first_index()
                    && (self.config.recovery != Recovery::NewReno
                        || self.state != CaState::Recovery);
                self.sack.on_retransmit(index);
                self.board.send_again(index, packet)?
            }
            Next::Rescue(index, _) => self.board.send_again(index, packet)?,
            Next::New(_) => {
                retransmission = false;
                self.board.send_new(packet)
            }
        };

        self.stats.sent_packets += 1;
        if retransmission {
            self.stats.retransmitted_packets += 1;
            if self.recovering() {
                self.undo.on_retransmit(now);
            }
        } else {
            self.frto.on_new_segment();
            if self.outputs.pacing_rate.is_some() && self.config.recovery == Recovery::Linux {
                self.frto.on_paced();
            }
        }
        if let Some(prr) = &mut self.prr {
            prr.on_send(len);
        }
        self.pacer.on_send(now, len, self.outputs.pacing_rate);
        let (una, nxt) = (self.board.una(), self.board.nxt());
        self.usage.on_send(
            una,
            nxt,
            self.board.in_flight(),
            self.window(),
            self.config.mss,
        );

        // RFC 6298 5.1; as in Linux, retransmitting the first segment restarts the timer.
        let linux = self.config.recovery == Recovery::Linux;
        if linux {
            let restarts = probe || (first && self.reorder.is_none());
            self.arm_sent_as_linux(now, restarts, !retransmission && !probe);
        } else if self.rto.is_none() || first || probe {
            self.rto = Some(self.rtt.expiry(now));
        }
        if probe {
            self.tlp.on_probe(nxt, probed);
            self.stats.tlp_count += 1;
        } else if !retransmission && !linux {
            self.arm_probe(now);
        }
        let push = self.config.push && !retransmission && self.pushes(now);
        Some(Segment {
            seq,
            len,
            push,
            ecn: self.marks.codepoint(self.outputs.ecn, retransmission),
            cwr: !retransmission && self.marks.take_cwr(),
            sent: now,
            retransmission,
        })
    }

    // ---- looks

    /// Data in flight: sent, and as far as known neither delivered nor lost.
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.board.in_flight())
    }

    /// The current window: the controller's, or PRR's in fast recovery.
    pub fn cwnd(&self) -> Bytes {
        Bytes::new(self.window())
    }

    /// Smoothed RTT.
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// The latest RTT sample.
    pub fn latest_rtt(&self) -> Option<Duration> {
        self.rtt.latest()
    }

    /// Lifetime minimum RTT.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.rtt.min()
    }

    /// The retransmission timeout, including back-off.
    pub fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// The state of loss recovery.
    pub fn ca_state(&self) -> CaState {
        self.state
    }

    /// The first byte not acknowledged cumulatively (`SND.UNA`).
    pub fn una(&self) -> u64 {
        self.board.una()
    }

    /// The next new byte (`SND.NXT`).
    pub fn snd_nxt(&self) -> u64 {
        self.board.nxt()
    }

    /// The memory of segments in flight, in bytes.
    pub fn memory(&self) -> usize {
        self.board.memory()
    }

    /// Whether it is closed and everything is acknowledged.
    pub fn is_finished(&self) -> bool {
        self.closed && self.board.is_empty() && self.board.nxt() >= self.written
    }

    /// Counters.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// The controller.
    pub fn controller(&self) -> &C {
        &self.controller
    }

    /// Whether anything has happened since the last call: an acknowledgment, a timeout, a send into
    /// an empty pipe. If not, the controller's phase and outputs, the state of loss recovery, and
    /// the numbers of timeouts and undos are unchanged.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// The controller's latest decision.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// The delivery-rate sampler.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The sample of the last acknowledgment.
    pub fn last_sample(&self) -> &RateSample {
        &self.sample
    }

    /// Whether the connection is application-limited now.
    pub fn app_limited(&self) -> bool {
        self.delivery.is_app_limited()
    }

    /// Everything except the controller, as text.
    #[cfg(test)]
    pub(crate) fn state(&self) -> String {
        let Self {
            config: _,
            controller: _,
            hears_each_send: _,
            outputs,
            delivery,
            sample,
            stats,
            board,
            rtt,
            rack,
            sack,
            newreno,
            tlp,
            undo,
            frto,
            pacer,
            bursts,
            usage,
            prr,
            state,
            recovery_point,
            reduced_at,
            is_again,
            unanswered,
            sent_at,
            repeated,
            urgent,
            idle,
            news,
            written,
            unlimited,
            closed,
            window_end,
            marks,
            rto,
            reorder,
            fresh,
            known,
        } = self;
        format!(
            "{outputs:?} {delivery:?} {sample:?} {stats:?} {board:?} {rtt:?} {rack:?} {sack:?} {newreno:?} \
             {tlp:?} {undo:?} {frto:?} {pacer:?} {bursts:?} {usage:?} {prr:?} {state:?} {recovery_point} \
             {reduced_at} {is_again} {unanswered} {sent_at:?} {repeated} {urgent:?} {idle:?} {news} {written} {unlimited} {closed} \
             {window_end} {marks:?} {rto:?} {reorder:?} {fresh:?} {known:?}"
        )
    }

    /// Every incremental counter against a slow recount.
    #[cfg(test)]
    pub(crate) fn audit(&self) -> Result<(), &'static str> {
        self.board.audit()
    }
}
