use paceline_units::{Bytes, Duration, Ecn, Field, Instant, Rate, Visitor};

use crate::options::Parameters;
use crate::{PacketState, RateSample, Signals};

/// The input of every controller at construction, once per path of a connection. After a path
/// change (RFC 9000 section 9.4) a new controller is made.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Sender maximum segment size: payload bytes in a full packet (the draft's `C.SMSS`).
    pub mss: u32,
    /// Initial window in bytes (RFC 6928; the draft's `C.InitialCwnd`).
    pub initial_window: Bytes,
    /// Seed of the controller's own random draws.
    pub seed: u64,
    /// The time of construction.
    pub now: Instant,
    /// Smoothed RTT, if the handshake has measured one.
    pub srtt: Option<Duration>,
    /// Whether acknowledgments are selective, so that more than one loss per round trip is detected
    /// (the draft's `C.has_selective_acks`).
    pub has_selective_acks: bool,
}

/// A packet is about to be sent. All volumes are those *before* it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The time of departure (from the pacer, if there is one).
    pub now: Instant,
    /// Payload bytes of the packet.
    pub size: u32,
    /// Data in flight before this packet.
    pub in_flight: Bytes,
    /// Whether `C.app_limited` is set.
    pub app_limited: bool,
}

/// One packet, or a batch of them ([`Signals::loss_per_packet`]), has been declared lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Time of the declaration.
    pub now: Instant,
    /// The token of the lost transmission. For a batch, the token of the newest, with the size of
    /// all.
    pub packet: PacketState,
    /// `C.lost` now, including this packet.
    pub lost: Bytes,
    /// `C.delivered` now.
    pub delivered: Bytes,
    /// Data in flight without this packet.
    pub in_flight: Bytes,
    /// Whether it opens a new range of lost data: the packet sent just before it, or just before it
    /// in sequence, is not lost. Always true for a batch.
    pub starts_range: bool,
    /// Whether the lost transmission was itself a retransmission; always false in QUIC, where a
    /// retransmission is a new packet.
    pub retransmission: bool,
}

impl Lost {
    /// Data lost since the packet was sent, including the packet (the draft's `RS.lost`).
    pub fn lost_since_send(&self) -> Bytes {
        self.lost - self.packet.lost
    }
}

/// The sender's loss-recovery state, by Linux's names. A QUIC sender has `Open`, `Recovery` (RFC 9002
/// section 7.3.2) and, from persistent congestion to the end of that period, `Loss`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaState {
    /// No sign of trouble.
    #[default]
    Open,
    /// Something was SACKed out of order; nothing is declared lost yet.
    Disorder,
    /// The window was reduced by an ECN signal.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery from a retransmission timeout.
    Loss,
}

impl CaState {
    /// The names of the states, in order.
    pub const NAMES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];

    /// Whether the transport reduces the window, so that the controller's does not grow.
    #[inline]
    pub fn is_reducing(self) -> bool {
        matches!(self, Self::Recovery | Self::Cwr)
    }

    /// Its name, as Linux and a record write it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One acknowledgment, after the transport has processed it.
///
/// Its volumes match what the controller has been notified of: a loss that is reported after the sample
/// ([`Signals::losses_first`]) is still in flight here, and not yet in `lost`.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Time of arrival.
    pub now: Instant,
    /// The delivery-rate sample of this ACK.
    pub sample: RateSample,
    /// Data newly delivered by it, cumulatively or selectively (`RS.newly_acked`).
    pub newly_acked: Bytes,
    /// Data newly declared lost on it (`RS.newly_lost`), or on the previous ACK if losses are
    /// reported after the sample. Losses declared by a timer count in neither.
    pub newly_lost: Bytes,
    /// Newly delivered data that carried a CE mark; none if it is not counted
    /// ([`Signals::mark_counts`]).
    pub newly_marked: Option<Bytes>,
    /// Data in flight before it.
    pub prior_in_flight: Bytes,
    /// Data in flight after it (`C.inflight`).
    pub in_flight: Bytes,
    /// Data delivered over the life of the connection (`C.delivered`).
    pub delivered: Bytes,
    /// Data declared lost over the life of the connection (`C.lost`), correctly or not.
    pub lost: Bytes,
    /// Data sent over the life of the connection, each transmission counted.
    pub sent: Bytes,
    /// RTT of the most recently sent packet that it newly acknowledges (`RS.rtt`); none if all are
    /// ambiguous (Karn).
    pub rtt: Option<Duration>,
    /// Smoothed RTT (RFC 6298), including this sample; zero before the first.
    pub srtt: Duration,
    /// Lifetime minimum RTT; zero before the first.
    pub min_rtt: Duration,
    /// Whether the window, not the application, limited the data in flight in the last round: at
    /// some send since then no further full packet fitted. Judged when packets are sent, before
    /// this ACK makes room and changes the window.
    pub cwnd_limited: bool,
    /// Recovery state after this ACK.
    pub ca_state: CaState,
    /// Whether it is not a duplicate: the cumulative acknowledgment advanced (RFC 5681 section
    /// 3.2). Without a cumulative acknowledgment, as in QUIC: whether it newly acknowledges
    /// anything.
    pub una_advanced: bool,
    /// Whether a delayed-ACK timer may have held it back; false if that is not known.
    pub delayed: bool,
    /// One-way delay of the newest delivered packet, if the transport can measure it.
    pub one_way_delay: Option<Duration>,
    /// RTT without the known delay of the receiver's host ([`Signals::receiver_delay`]). With ETS
    /// it is that of the earliest packet acknowledged in order, in whole microseconds, and none on
    /// an ACK that does not report it; a transport that never knows the delay gives the complete
    /// `rtt`.
    pub network_rtt: Option<Duration>,
    /// The delay of the receiver's host, which `network_rtt` excludes, if it is reported (ETS).
    pub receiver_delay: Option<Duration>,
    /// Whether it reports marks without their number: a receiver's classic ECN echo (ECE), or a
    /// callback without a count.
    pub ece: bool,
}

impl Ack {
    /// Data whose outcome is known: everything that was sent and is no longer in flight. A window
    /// that is in flight now is over once this reaches the present value of [`Self::sent`].
    pub fn resolved(&self) -> Bytes {
        self.sent - self.in_flight
    }

    /// Whether anything was marked.
    pub fn is_marked(&self) -> bool {
        self.ece || self.newly_marked.is_some_and(|marked| marked > Bytes::ZERO)
    }

    /// How much was marked: the count if there is one; otherwise a bare echo covers everything that
    /// it acknowledges.
    pub fn marked(&self) -> Bytes {
        match self.newly_marked {
            Some(marked) if marked > Bytes::ZERO => marked,
            _ if self.ece => self.newly_acked,
            _ => Bytes::ZERO,
        }
    }
}

/// Who sets the window in fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryWindow {
    /// The transport, by proportional rate reduction towards the controller's
    /// reduced window (RFC 9937).
    Prr,
    /// The controller's own window applies in recovery too (BBR).
    Controller,
}

/// What an algorithm draws at random, or times more finely than a recording shows
/// ([`Controller::follow`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cue {
    /// The next probe for bandwidth is due after this time.
    Probe(Instant),
    /// The next ProbeRTT is due after this time.
    ProbeRtt(Instant),
    /// The probe that is under way ended at this time.
    ProbeEnd(Instant),
    /// Slow start ended without a loss, at this window.
    SlowStartEnd(Bytes),
}

/// The decisions of a controller: the results of [`Controller`]'s functions of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is documented where it is asked for")]
pub struct Outputs {
    pub cwnd: Bytes,
    pub pacing_rate: Option<Rate>,
    pub send_quantum: Bytes,
    pub ssthresh: Option<Bytes>,
    pub round_count: u64,
    pub recovery_window: RecoveryWindow,
    pub marks_app_limited: bool,
    pub pacer_below: bool,
    pub ecn: Ecn,
}

/// The description of a controller: scenarios, listings and the reference use it.
pub trait Described {
    /// The options that a scenario may set.
    type Parameters: Parameters;
    /// Its name in scenarios.
    const NAME: &'static str;
    /// A one-line description.
    const SUMMARY: &'static str;
    /// The document it implements.
    const SOURCE: &'static str;
    /// The states of its state machine, by the names that [`Controller::phase`] returns.
    const PHASES: &'static [&'static str];
    /// The maximum size of a controller in bytes.
    const MAX_SIZE: usize = 512;

    /// The signals that it requires. It runs only on a transport whose [`Signals`] include these;
    /// [`Recipe::check`](crate::Recipe::check) tests that.
    fn needs(_parameters: &Self::Parameters) -> Signals {
        Signals::NONE
    }
}

/// How often a transport calls [`Controller::on_idle_restart`] after nothing was sent for `pause`:
/// once for each timeout that has passed, because Linux halves the window so often. After 32
/// times no window has anything left to lose.
pub fn idle_restarts(pause: Duration, timeout: Duration) -> u64 {
    let whole = pause.as_nanos().saturating_sub(1) / timeout.as_nanos().max(1);
    whole.min(u32::BITS.into())
}

/// A congestion-control algorithm.
///
/// [`contract`](crate::contract) describes in detail how a transport calls it, with examples of
/// both sides. For one incoming acknowledgment, the order is:
///
/// 1. [`on_spurious`](Self::on_spurious), if it shows that the episode's losses were spurious;
/// 2. [`on_recovery_exit`](Self::on_recovery_exit), if the episode is over;
/// 3. [`on_loss`](Self::on_loss) for each packet newly declared lost, and
///    [`on_recovery_enter`](Self::on_recovery_enter), if they open an episode;
/// 4. [`on_ack`](Self::on_ack), once.
///
/// If a transport reports losses after the sample ([`Signals::losses_first`] is false), step 3
/// comes after step 4. Losses declared by a timer come without an ACK.
pub trait Controller {
    /// A packet is about to be sent.
    fn on_send(&mut self, _sent: &Sent) {}

    /// Whether [`on_send`](Self::on_send) does anything while data is in flight. If not, a
    /// transport may skip the call then. The answer never changes.
    fn hears_each_send(&self) -> bool {
        true
    }

    /// Sending resumes after a pause longer than the retransmission timeout, with nothing in flight
    /// (RFC 5681 section 4.1). Called before [`Self::on_send`], as often as [`idle_restarts`] says.
    fn on_idle_restart(&mut self, _now: Instant) {}

    /// A packet was declared lost.
    fn on_loss(&mut self, _loss: &Lost) {}

    /// An acknowledgment was processed.
    fn on_ack(&mut self, ack: &Ack);

    /// [`Self::on_ack`], and the decisions after it. No controller needs its own.
    fn decide(&mut self, ack: &Ack) -> Outputs {
        self.on_ack(ack);
        self.outputs()
    }

    /// Fast recovery begins, after the [`on_loss`](Self::on_loss) calls that caused it; once per
    /// episode, unless a retransmission is lost again. `in_flight` no longer includes the lost
    /// packets.
    fn on_recovery_enter(&mut self, now: Instant, in_flight: Bytes);

    /// After a timeout retransmissions are lost again: the episode continues in fast recovery, with
    /// a second reduction (RFC 5681 section 4.3). The window is that of a slow start, while the
    /// `outstanding` data, sent and not acknowledged in order, is from before: RFC 5681 (4) takes
    /// the threshold from that. By default as [`Self::on_recovery_enter`].
    fn on_recovery_again(&mut self, now: Instant, in_flight: Bytes, _outstanding: Bytes) {
        self.on_recovery_enter(now, in_flight);
    }

    /// Fast recovery or recovery from a timeout has ended: everything sent before it is acknowledged (TCP), or
    /// something sent since it began is (RFC 9002 section 7.3.2).
    fn on_recovery_exit(&mut self, _now: Instant) {}

    /// The retransmission timer fired (RFC 6298), or congestion is persistent (RFC 9002 section
    /// 7.6); a probe timeout is neither. Called after the [`on_loss`](Self::on_loss) calls of the
    /// packets it declares lost, with or without [`on_recovery_enter`](Self::on_recovery_enter)
    /// before it; `in_flight` no longer includes the lost packets.
    fn on_timeout(&mut self, now: Instant, in_flight: Bytes);

    /// The recovery episode was spurious: every packet it declared lost was in fact delivered.
    /// `delivered` is `C.delivered` now.
    fn on_spurious(&mut self, _now: Instant, _delivered: Bytes) {}

    /// The payload of a full packet changed together with the path's MTU. Packets in flight keep
    /// their size.
    fn on_mss(&mut self, _mss: u32) {}

    /// A shadow of a recorded flow takes this from the flow, not from its own draw. No transport
    /// calls it.
    fn follow(&mut self, _cue: Cue) {}

    /// Congestion window: the maximum in flight (`C.cwnd`). It may be less than one packet: one
    /// packet may always be sent when nothing is in flight, and `pacing_rate` says when. A
    /// transport whose specification has a floor (RFC 9002 section 7.2) applies it itself.
    fn cwnd(&self) -> Bytes;

    /// Pacing rate in bits of payload (`C.pacing_rate`); none leaves sending to the ACK clock.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// The maximum size of one burst (`C.send_quantum`).
    fn send_quantum(&self) -> Bytes;

    /// Slow-start threshold, if the algorithm has one.
    fn ssthresh(&self) -> Option<Bytes> {
        None
    }

    /// Who sets the window in fast recovery. A transport without PRR uses [`Self::cwnd`] in any case.
    fn recovery_window(&self) -> RecoveryWindow {
        RecoveryWindow::Prr
    }

    /// True while the transport must mark the connection application-limited after each ACK
    /// (`MarkConnectionAppLimited` in BBR's ProbeRTT).
    fn marks_app_limited(&self) -> bool {
        false
    }

    /// Whether the controller's bandwidth samples assume that the pacer is below the transport; see
    /// [`crate::Delivery::new`].
    fn pacer_below(&self) -> bool {
        false
    }

    /// The ECN codepoint for data packets.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// All decisions that a transport acts on. They change by an event, and by
    /// [`on_send`](Self::on_send) only if nothing was in flight.
    fn outputs(&self) -> Outputs {
        Outputs {
            cwnd: self.cwnd(),
            pacing_rate: self.pacing_rate(),
            send_quantum: self.send_quantum(),
            ssthresh: self.ssthresh(),
            round_count: self.round_count(),
            recovery_window: self.recovery_window(),
            marks_app_limited: self.marks_app_limited(),
            pacer_below: self.pacer_below(),
            ecn: self.ecn(),
        }
    }

    /// The state of its state machine, by the source's name (`ProbeBW_UP`, `SlowStart`).
    fn phase(&self) -> &'static str;

    /// Packet-timed rounds so far, if the algorithm counts them.
    fn round_count(&self) -> u64 {
        0
    }

    /// Names the values of [`visit_state`](Self::visit_state), in the same order; `state!` writes
    /// both. Those of an [`AnyController`](crate::AnyController) are known from its
    /// [`Recipe`](crate::Recipe).
    fn visit_fields(_visit: &mut dyn FnMut(Field))
    where
        Self: Sized,
    {
    }

    /// Shows everything that a plot or a test may need, by the source's names without prefix or
    /// unit (`max_bw`, `inflight_longterm`).
    fn visit_state(&self, _visit: &mut Visitor<'_>) {}
}
