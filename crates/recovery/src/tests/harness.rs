//! A sender and a receiver in a closed loop with a scripted network between them.

use std::collections::BTreeMap;

use paceline_congestion::{Ack, CaState, Controller, Ecn, Lost, RecoveryWindow, Sent};
use paceline_units::{Bytes, Duration, Instant, Rate};

use crate::{Acknowledgment, Receiver, ReceiverConfig, Segment, Sender, SenderConfig};

pub(super) const MSS: u32 = 1000;

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) const fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// An event of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Loss { starts_range: bool, again: bool },
    Enter,
    Exit,
    Idle,
    Timeout,
    Spurious,
    Mss(u32),
    Ack(CaState),
}

/// A window that halves in recovery and falls to one segment on a timeout,
/// until the end of the episode.
#[derive(Clone, Debug)]
pub(super) struct Window {
    full: u64,
    /// The window after a reduction.
    pub reduced: u64,
    pub cwnd: u64,
    pub rate: Option<Rate>,
    pub quantum: Bytes,
    pub recovery: RecoveryWindow,
    /// Whether it grows after a timeout.
    pub slow_start: bool,
    /// What it is at least once something is acknowledged after a timeout.
    pub least: u64,
    pub events: Vec<Event>,
    pub acks: Vec<Ack>,
    pub losses: Vec<Lost>,
}

impl Window {
    pub(super) fn new(segments: u64) -> Self {
        Self {
            full: segments * u64::from(MSS),
            reduced: segments * u64::from(MSS) / 2,
            cwnd: segments * u64::from(MSS),
            rate: None,
            quantum: Bytes::INFINITE,
            recovery: RecoveryWindow::Prr,
            slow_start: false,
            least: 0,
            events: Vec::new(),
            acks: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// Its events, without the acknowledgments of undisturbed times.
    pub(super) fn story(&self) -> Vec<Event> {
        let quiet = |event: &Event| matches!(event, Event::Ack(_));
        self.events
            .iter()
            .copied()
            .filter(|event| !quiet(event))
            .collect()
    }
}

impl Controller for Window {
    fn on_send(&mut self, _sent: &Sent) {}
    fn on_loss(&mut self, loss: &Lost) {
        self.losses.push(*loss);
        self.events.push(Event::Loss {
            starts_range: loss.starts_range,
            again: loss.retransmission,
        });
    }
    fn on_ack(&mut self, ack: &Ack) {
        self.events.push(Event::Ack(ack.ca_state));
        self.acks.push(*ack);
        if ack.ece {
            self.cwnd = self.reduced;
        }
        if self.slow_start && ack.ca_state == CaState::Loss && ack.una_advanced {
            self.cwnd += ack.newly_acked.get().min(u64::from(MSS));
            self.cwnd = self.cwnd.max(self.least);
        }
    }
    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {
        self.events.push(Event::Enter);
        self.cwnd = self.reduced;
    }
    fn on_recovery_exit(&mut self, _now: Instant) {
        self.events.push(Event::Exit);
        self.cwnd = self.full;
    }
    fn on_idle_restart(&mut self, _now: Instant) {
        self.events.push(Event::Idle);
    }
    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {
        self.events.push(Event::Timeout);
        self.cwnd = u64::from(MSS);
    }
    fn on_spurious(&mut self, _now: Instant, _delivered: Bytes) {
        self.events.push(Event::Spurious);
        self.cwnd = self.full;
    }
    fn on_mss(&mut self, mss: u32) {
        self.events.push(Event::Mss(mss));
    }
    fn cwnd(&self) -> Bytes {
        Bytes::new(self.cwnd)
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
    fn send_quantum(&self) -> Bytes {
        self.quantum
    }
    fn recovery_window(&self) -> RecoveryWindow {
        self.recovery
    }
    fn ecn(&self) -> Ecn {
        Ecn::Ect1
    }
    fn phase(&self) -> &'static str {
        "Fixed"
    }
}

enum Packet {
    Data(Segment),
    Ack(Acknowledgment),
}

/// The delays after which copies of a packet arrive; none: it is lost.
pub(super) type Delays = Vec<Duration>;

pub(super) struct World<D, A> {
    pub sender: Sender<Window>,
    pub receiver: Receiver,
    pub now: Instant,
    pub sent: Vec<Segment>,
    data: D,
    acks: A,
    wire: BTreeMap<(Instant, u64), Packet>,
    count: u64,
    acks_sent: u64,
    /// Acknowledgments that the sender has processed, and how many of them were plain or extensions.
    pub acks_taken: u64,
    pub plain: u64,
    pub extensions: u64,
    /// Whether both paths of these are compared.
    pub compares: bool,
}

impl<D, A> World<D, A>
where
    D: FnMut(u64, &Segment) -> Delays,
    A: FnMut(u64, &Acknowledgment) -> Delays,
{
    /// `data` and `acks` receive the number of each packet sent, from 0.
    pub(super) fn new(controller: Window, data: D, acks: A) -> Self {
        Self::with(SenderConfig::default(), controller, data, acks)
    }

    pub(super) fn with(config: SenderConfig, controller: Window, data: D, acks: A) -> Self {
        let config = SenderConfig { mss: MSS, ..config };
        Self {
            sender: Sender::new(config, controller, Instant::ZERO, None),
            receiver: Receiver::new(ReceiverConfig::default()),
            now: Instant::ZERO,
            sent: Vec::new(),
            data,
            acks,
            wire: BTreeMap::new(),
            count: 0,
            acks_sent: 0,
            acks_taken: 0,
            plain: 0,
            extensions: 0,
            compares: false,
        }
    }

    fn carry(&mut self, delays: Delays, packet: impl Fn() -> Packet) {
        for delay in delays {
            self.wire.insert((self.now + delay, self.count), packet());
            self.count += 1;
        }
    }

    fn send_ack(&mut self, ack: Option<Acknowledgment>) {
        if let Some(ack) = ack {
            let delays = (self.acks)(self.acks_sent, &ack);
            self.acks_sent += 1;
            self.carry(delays, || Packet::Ack(ack));
        }
    }

    /// An acknowledgment arrives. If both paths are compared, the short one must give the same result
    /// as the general one.
    fn acknowledge(&mut self, ack: &Acknowledgment) {
        let plain = ack.blocks.is_empty() && self.sender.is_plain(ack);
        let extends = self.sender.extension(ack).is_some();
        self.plain += u64::from(plain);
        self.extensions += u64::from(extends && self.sender.clone().extend(self.now, ack));
        self.acks_taken += 1;
        let general = (self.compares && (plain || extends)).then(|| {
            let mut general = self.sender.clone();
            general.process(self.now, ack);
            general
        });
        self.sender.on_ack(self.now, ack);
        if let Some(general) = general {
            assert_eq!(self.sender.state(), general.state());
            let (short, general) = (self.sender.controller(), general.controller());
            assert_eq!(short.events, general.events);
            let last = |controller: &Window| format!("{:?}", controller.acks.last());
            assert_eq!(last(short), last(general));
        }
    }

    pub(super) fn send(&mut self) {
        let mut single = self.compares.then(|| self.sender.clone());
        let mut segments = Vec::new();
        while let Some(burst) = self.sender.poll_burst(self.now) {
            segments.extend(burst);
            assert_eq!(self.sender.audit(), Ok(()));
        }
        if let Some(single) = &mut single {
            let each = std::iter::from_fn(|| single.poll_transmit(self.now));
            assert_eq!(each.collect::<Vec<_>>(), segments);
            assert_eq!(single.state(), self.sender.state());
        }
        for segment in segments {
            let delays = (self.data)(self.sent.len() as u64, &segment);
            self.sent.push(segment);
            self.carry(delays, || Packet::Data(segment));
        }
    }

    /// Runs until nothing remains to happen by `end`; false if something does.
    pub(super) fn run(&mut self, end: Instant) -> bool {
        self.send();
        loop {
            let timers = [
                self.sender.next_timer(),
                self.receiver.next_timer(),
                self.wire.keys().next().map(|(time, _)| *time),
            ];
            let Some(next) = timers.into_iter().flatten().min() else {
                return true;
            };
            if next > end {
                return false;
            }
            // A timer in the past would mean time running backwards.
            assert!(next >= self.now, "{next:?} before {:?}", self.now);
            self.now = next;
            let delivered = self.receiver.delivered();
            while let Some(entry) = self
                .wire
                .first_entry()
                .filter(|entry| entry.key().0 <= next)
            {
                match entry.remove() {
                    Packet::Data(segment) => {
                        let before = self.receiver.before_segment(next, &segment);
                        self.send_ack(before);
                        let ack = self.receiver.on_segment(next, &segment);
                        self.send_ack(ack);
                    }
                    Packet::Ack(ack) => self.acknowledge(&ack),
                }
                assert_eq!(self.sender.audit(), Ok(()));
            }
            let ack = self.receiver.on_timer(next);
            self.send_ack(ack);
            if self.sender.next_timer().is_some_and(|timer| timer <= next) {
                self.sender.on_timer(next);
                assert_eq!(self.sender.audit(), Ok(()));
            }
            self.send();
            assert!(self.receiver.delivered() >= delivered);
            assert!(self.sender.una() <= self.receiver.delivered());
            assert!(self.receiver.delivered() <= self.sender.snd_nxt());
        }
    }
}
