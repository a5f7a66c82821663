use paceline_congestion::{CaState, Config, Controller, Ecn};
use paceline_endpoint::{Amount, Write};
use paceline_experiment::{Choice, Fault, FlowController, FlowPlan, seed_of, sender_config};
use paceline_path::{Header, Link, Verdict};
use paceline_recovery::{
    Acknowledgment, Application, PlainAck, Receiver, ReceiverConfig, Segment, Sender, SenderConfig,
    ets,
};
use paceline_scenario::Scenario;
use paceline_units::{Duration, EcnFeedback, Instant};

use crate::foreign::{Ends, Setup, Stack};
use crate::host::Host;
use crate::lanes::Reply;
use crate::packet::{Load, Packet};

/// The state of a connection.
pub(crate) enum Stage {
    /// Not started.
    Waiting,
    /// The SYN is on its way; the timeout doubles with each retransmission.
    Opening { sent: Instant, tries: u32 },
    /// Data may flow.
    Open(Box<Sender<FlowController>>),
    /// Stopped by the scenario, or everything delivered; the sender is kept for its statistics.
    Closed(Option<Box<Sender<FlowController>>>),
    /// Of another transport, which opens its connection itself; kept after it ends.
    Foreign(Box<Foreign>),
}

/// The ends of another transport.
pub(crate) struct Foreign {
    pub ends: Box<dyn Ends>,
    pub is_over: bool,
    /// When the sending end asks to be called next.
    pub timer: Instant,
    /// The state of its controller after its last step.
    pub phase: &'static str,
    /// Bytes written by the application, and whether those were all.
    written: u64,
    is_closed: bool,
}

/// One connection: its two ends, its application and its plan.
pub(crate) struct Flow {
    pub id: u32,
    pub stage: Stage,
    pub receiver: Receiver,
    pub application: Application,
    /// The delays of its hosts, if there are any.
    pub host: Option<Box<Host>>,
    pub plan: FlowPlan,
    /// The factory of its ends, if they are not our own.
    stack: Option<Stack>,
    /// Where a guest controller reports that it cannot continue.
    fault: Fault,
    transport: Transport,
    /// Replies of its receiver that links were offered, those that they lost, and those that they
    /// filtered.
    pub acks_sent: u64,
    pub acks_lost: u64,
    pub acks_filtered: u64,
    /// When the receiver last handed data to its application.
    pub last_delivery: Instant,
    /// When it had received everything, once the sender knows.
    pub finished: Option<Instant>,
    /// The sender's last known state, to detect changes.
    pub snapshot: Snapshot,
    /// The bytes that its receiver has delivered by now, if that runs ahead of the time.
    pub shown: Option<u64>,
}

/// The last state in the record's events.
#[derive(Clone, Copy, Default)]
pub(crate) struct Snapshot {
    pub phase: &'static str,
    pub ca_state: CaState,
    pub rto_count: u64,
    pub undo_count: u64,
    pub round_count: u64,
}

impl Flow {
    /// RFC 6298 section 2.1: the first SYN is repeated after one second.
    pub const SYN_TIMEOUT: Duration = Duration::from_secs(1);
    /// The maximum of the timeout.
    const SYN_TIMEOUT_MAX: Duration = Duration::from_secs(64);

    pub fn new(
        id: u32,
        plan: FlowPlan,
        controller: Choice,
        host: Option<Box<Host>>,
        stack: Option<Stack>,
        fault: Fault,
    ) -> Self {
        let transport = Transport::new(&plan, controller);
        Self {
            id,
            stage: Stage::Waiting,
            receiver: Receiver::new(transport.receiver),
            application: Application::new(plan.group.app, plan.mss, plan.start),
            host,
            plan,
            stack,
            fault,
            transport,
            acks_sent: 0,
            acks_lost: 0,
            acks_filtered: 0,
            last_delivery: Instant::ZERO,
            finished: None,
            snapshot: Snapshot::default(),
            shown: None,
        }
    }

    /// Whether its ends are of another transport.
    pub fn is_foreign(&self) -> bool {
        self.stack.is_some()
    }

    pub fn sender(&self) -> Option<&Sender<FlowController>> {
        match &self.stage {
            Stage::Open(sender) | Stage::Closed(Some(sender)) => Some(sender),
            Stage::Waiting | Stage::Opening { .. } | Stage::Closed(None) | Stage::Foreign(_) => {
                None
            }
        }
    }

    /// The ends of another transport, while the flow is open.
    pub fn foreign(&mut self) -> Option<&mut dyn Ends> {
        match &mut self.stage {
            Stage::Foreign(foreign) if !foreign.is_over => Some(&mut *foreign.ends),
            _ => None,
        }
    }

    /// Bytes delivered by its receiving end.
    pub fn delivered(&self) -> u64 {
        match &self.stage {
            Stage::Foreign(foreign) => foreign.ends.delivered(),
            _ => self.shown.unwrap_or_else(|| self.receiver.delivered()),
        }
    }

    /// Memory of its packets at its ends, in bytes.
    pub fn memory(&self) -> usize {
        let host = self.host.as_ref().map_or(0, |host| host.memory());
        let ends = match &self.stage {
            Stage::Foreign(foreign) => foreign.ends.memory(),
            _ => self.sender().map_or(0, Sender::memory),
        };
        host + ends
    }

    /// When the sending side wants to be called next.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        let next = match &self.stage {
            Stage::Open(sender) => {
                let sender = sender.next_timer().unwrap_or(Instant::MAX);
                let application = self.application.next_wakeup().unwrap_or(Instant::MAX);
                sender.min(application)
            }
            _ => match self.next_without_sender() {
                Some(next) => next,
                None => return Instant::MAX,
            },
        };
        next.min(self.plan.stop.unwrap_or(Instant::MAX))
    }

    /// The same if there is no open sender of ours; none if the flow is over.
    #[cold]
    fn next_without_sender(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Waiting => Some(self.plan.start),
            Stage::Opening { sent, tries } => Some(*sent + Self::syn_timeout(*tries)),
            Stage::Foreign(foreign) if !foreign.is_over => {
                let application = self.application.next_wakeup().unwrap_or(Instant::MAX);
                Some(foreign.timer.min(application))
            }
            Stage::Open(_) | Stage::Closed(_) | Stage::Foreign(_) => None,
        }
    }

    fn syn_timeout(tries: u32) -> Duration {
        (Self::SYN_TIMEOUT * (1 << (tries.max(1) - 1).min(16))).min(Self::SYN_TIMEOUT_MAX)
    }

    /// Starts to send SYNs to a new receiver.
    pub fn start(&mut self, now: Instant) -> Packet {
        self.receiver = Receiver::new(self.transport.receiver);
        self.syn(now, 1)
    }

    /// The SYN, for the `tries`th time.
    pub fn syn(&mut self, now: Instant, tries: u32) -> Packet {
        self.stage = Stage::Opening { sent: now, tries };
        Packet {
            flow: self.id,
            size: self.plan.header,
            load: Load::Syn,
        }
    }

    /// Completes the handshake, if it was in progress and there is a controller. `seed` is the
    /// run's.
    pub fn open(&mut self, now: Instant, seed: u64) -> bool {
        let Stage::Opening { sent, tries } = self.stage else {
            return false;
        };
        // Karn: a retransmitted SYN gives no sample.
        let rtt = (tries == 1).then(|| now.since(sent));
        let mut sender = self.transport.sender;
        let config = Config {
            mss: sender.mss,
            initial_window: sender.initial_window,
            seed: seed_of(seed, u64::from(self.id)),
            now,
            srtt: rtt,
            has_selective_acks: sender.recovery.has_sack(),
        };
        if tries > 1 {
            // RFC 6298 5.7: the SYN's timeout showed that one second is too short.
            sender.initial_rto = sender.initial_rto.max(Duration::from_secs(3));
        }
        let built = (self.transport.controller).build(&config, sender.signals(), &self.fault);
        let controller = match built {
            Ok(controller) => controller,
            Err(why) => {
                self.fault.report(why);
                return false;
            }
        };
        let sender = Sender::new(sender, controller, now, rtt);
        self.snapshot = Snapshot::of(&sender);
        self.stage = Stage::Open(Box::new(sender));
        true
    }

    /// [`Receiver::on_next`], without hosts.
    #[inline(always)]
    pub fn take_next(&mut self, now: Instant, segment: &Segment) -> Option<Option<PlainAck>> {
        let ack = self.receiver.on_next(now, segment)?;
        self.last_delivery = now;
        Some(ack)
    }

    /// The acknowledgment, if any, that the receiver's TCP sends before it processes a segment.
    #[inline]
    pub fn before(&mut self, now: Instant, segment: &Segment) -> Option<Acknowledgment> {
        let mut ack = self.receiver.before_segment(now, segment)?;
        if let Some(host) = &mut self.host {
            host.acknowledge(now, &mut ack);
        }
        Some(ack)
    }

    /// The receiver's TCP processes a segment that reached its NIC at `nic`.
    #[inline]
    pub fn take(
        &mut self,
        now: Instant,
        segment: &Segment,
        nic: Instant,
    ) -> Option<Acknowledgment> {
        let before = self.receiver.delivered();
        let waiting = self.host.is_some() && self.receiver.next_timer().is_some();
        let mut reply = self.receiver.on_segment(now, segment);
        if let Some(host) = &mut self.host {
            host.taken(nic, waiting);
            if let Some(ack) = &mut reply {
                host.acknowledge(now, ack);
            }
        }
        if self.receiver.delivered() > before {
            self.last_delivery = now;
        }
        reply
    }

    /// The sender has taken an acknowledgment that was sent at that time. Only links make it wait.
    #[inline(always)]
    pub fn returned(&mut self, now: Instant, sent: Instant) {
        if !self.plan.back.is_empty() {
            self.receiver.on_returned(now.since(sent));
        }
    }

    /// The receiver's timer.
    #[inline]
    pub fn on_receiver_timer(&mut self, now: Instant) -> Option<Acknowledgment> {
        let mut reply = self.receiver.on_timer(now);
        if let (Some(ack), Some(host)) = (&mut reply, &mut self.host) {
            host.acknowledge(now, ack);
        }
        reply
    }

    /// The TCP header of a reply of its receiver, as an ACK filter reads it; none of QUIC.
    pub fn header(&self, reply: &Reply) -> Option<Header> {
        let header = Header {
            connection: u64::from(self.id),
            ..Header::default()
        };
        let ack = match reply {
            Reply::SynAck => return Some(header),
            Reply::Datagram { .. } => return None,
            Reply::Ack(ack) => ack,
        };
        let capable = (self.sender()).is_some_and(|sender| sender.outputs().ecn != Ecn::NotEct);
        // ACE starts at 5, and its highest bit is a flag that filters do not know (RFC 9768 3.2.2);
        // nor do they know the options of accurate ECN and of explicit timestamps.
        let ace = (ack.ce_packets.wrapping_add(5) % 8) as u8;
        let (ecn, known) = match self.plan.group.ecn {
            EcnFeedback::Classic | EcnFeedback::Dctcp => (u8::from(ack.ece), true),
            EcnFeedback::Ace if capable => (ace & 3, ace < 4),
            EcnFeedback::Accurate if capable => (ace & 3, false),
            EcnFeedback::Ace | EcnFeedback::Accurate => (0, true),
        };
        let mut blocks = [[0; 2]; 4];
        for (to, from) in blocks.iter_mut().zip(ack.blocks.as_slice()) {
            *to = [from.start as u32, from.end as u32];
        }
        // Linux's timestamps count milliseconds.
        let stamp = |at: Instant| (at.as_nanos() / 1_000_000) as u32;
        Some(Header {
            acknowledges: true,
            pure: known && !self.plan.group.ets,
            ecn,
            ack: ack.ack as u32,
            stamps: Some([stamp(ack.sent), stamp(ack.ts_echo)]),
            blocks,
            sacks: ack.blocks.len() as u8,
            ..header
        })
    }

    /// Creates the ends of another transport; false if the flow is our own.
    pub fn start_foreign(&mut self, now: Instant, seed: u64) -> bool {
        let Some(stack) = &self.stack else {
            return false;
        };
        let ends = stack.make(&Setup {
            flow: self.id,
            seed: seed_of(seed, u64::from(self.id)),
            now,
            max_datagram: self.plan.mss,
            controller: &self.transport.controller,
        });
        self.stage = Stage::Foreign(Box::new(Foreign {
            ends,
            is_over: false,
            timer: Instant::MAX,
            phase: "",
            written: 0,
            is_closed: false,
        }));
        true
    }

    /// Passes the application's data to another transport.
    pub fn write_foreign(&mut self, now: Instant) {
        let Stage::Foreign(foreign) = &mut self.stage else {
            return;
        };
        let write = self.application.poll(now);
        if let Amount::Bytes(bytes) = write.amount {
            foreign.written += bytes;
        }
        foreign.is_closed |= write.close;
        if write != Write::default() {
            foreign.ends.write(now, write);
        }
    }

    /// Whether another transport has delivered everything that its application will ever write.
    pub fn is_foreign_done(&self) -> bool {
        match &self.stage {
            Stage::Foreign(foreign) => {
                foreign.is_closed && foreign.ends.delivered() >= foreign.written
            }
            _ => false,
        }
    }

    /// Passes the application's data to the sender.
    #[inline]
    pub fn write(&mut self, now: Instant) {
        let Stage::Open(sender) = &mut self.stage else {
            return;
        };
        let write = self.application.poll(now);
        if write.stop {
            sender.stop_unlimited(now);
        }
        match write.amount {
            Amount::None => {}
            Amount::Bytes(bytes) => sender.write(now, bytes),
            Amount::Unlimited => sender.write_unlimited(now),
        }
        if write.close {
            sender.close();
        }
    }

    /// Ends the connection in its current state.
    pub fn close(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::Open(sender) => Stage::Closed(Some(sender)),
            Stage::Closed(sender) => Stage::Closed(sender),
            Stage::Waiting | Stage::Opening { .. } => Stage::Closed(None),
            Stage::Foreign(foreign) => Stage::Foreign(Box::new(Foreign {
                is_over: true,
                ..*foreign
            })),
        };
    }
}

impl PartialEq for Snapshot {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // All fields are named, so that none is forgotten.
        let Self {
            phase,
            ca_state,
            rto_count,
            undo_count,
            round_count,
        } = *self;
        // Names are literals: the same address means the same name.
        let same_phase = std::ptr::eq(phase, other.phase) || phase == other.phase;
        same_phase
            && ca_state == other.ca_state
            && rto_count == other.rto_count
            && undo_count == other.undo_count
            && round_count == other.round_count
    }
}

impl Snapshot {
    #[inline]
    pub fn of(sender: &Sender<FlowController>) -> Self {
        let stats = sender.stats();
        Self {
            phase: sender.controller().phase(),
            ca_state: sender.ca_state(),
            rto_count: stats.rto_count,
            undo_count: stats.undo_count,
            round_count: sender.outputs().round_count,
        }
    }
}

/// The slack that Linux gives the timer of SACK compression (`net.ipv4.tcp_comp_sack_slack_ns`).
const COMP_SACK_SLACK: Duration = Duration::from_micros(100);

/// The configuration of both ends of a connection of ours.
struct Transport {
    controller: Choice,
    sender: SenderConfig,
    receiver: ReceiverConfig,
}

impl Transport {
    fn new(flow: &FlowPlan, controller: Choice) -> Self {
        Self {
            controller,
            sender: sender_config(&flow.group, flow.mss),
            receiver: receiver(flow),
        }
    }
}

fn receiver(flow: &FlowPlan) -> ReceiverConfig {
    let (group, ack) = (&flow.group, &flow.group.ack);
    let held_back = ack.comp_sack_delay.filter(|time| *time > Duration::ZERO);
    ReceiverConfig {
        ack_every: ack.every.0,
        max_ack_delay: ack.delay,
        window: group.receive_window.get(),
        quick_acks: ack.quick.0,
        sack_delay: held_back.map_or(Duration::ZERO, |time| {
            time.min(flow.base_rtt / 20) + COMP_SACK_SLACK
        }),
        pushed: ack.pushed,
        window_growth: ack.window_growth,
        ecn: group.ecn,
        sack_blocks: match group.ets {
            true => ets::SACK_BLOCKS,
            false => ReceiverConfig::default().sack_blocks,
        },
    }
}

/// The group of each flow of a scenario, by its index in the file.
pub(crate) fn each_flow(scenario: &Scenario) -> impl Iterator<Item = usize> {
    let groups = scenario.flows.iter().enumerate();
    groups.flat_map(|(number, group)| std::iter::repeat_n(number, group.count as usize))
}

/// A packet leaves its sender: for the first link, or for the host before it.
#[inline(always)]
pub(crate) fn offer(
    now: Instant,
    host: Option<&mut Host>,
    link: &mut Link<Packet>,
    packet: Packet,
) -> Verdict {
    match host {
        Some(host) => {
            host.release(now, packet);
            Verdict::Queued
        }
        None => link.enqueue(now, packet),
    }
}
