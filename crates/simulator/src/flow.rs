use crate::host::Host;
use paceline_congestion::{AnyController, CaState, Controller, Ecn, Recipe};
use paceline_recovery::{
    Amount, Application, Receiver, ReceiverConfig, Segment, Sender, SenderConfig,
};
use paceline_units::{Duration, Instant};

/// What travels over a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub flow: u32,
    /// Bytes on the wire, headers included.
    pub size: u32,
    /// None in a connection's opening SYN.
    pub segment: Option<Segment>,
}

impl paceline_path::Packet for Packet {
    fn size(&self) -> u32 {
        self.size
    }

    fn mark(&mut self) -> bool {
        match &mut self.segment {
            Some(segment) if segment.ecn != Ecn::NotEct => {
                segment.ecn = Ecn::Ce;
                true
            }
            _ => false,
        }
    }

    fn flow(&self) -> u64 {
        u64::from(self.flow)
    }

    fn is_l4s(&self) -> bool {
        let ecn = self.segment.map(|segment| segment.ecn);
        matches!(ecn, Some(Ecn::Ect1 | Ecn::Ce))
    }
}

/// Where a connection stands.
pub(crate) enum Stage {
    /// Not started.
    Waiting,
    /// The SYN is on its way; the timeout doubles with each repetition.
    Opening { sent: Instant, tries: u32 },
    /// Data may flow.
    Open(Box<Sender<AnyController>>),
    /// Stopped by the scenario, or all delivered; the sender is kept for its figures.
    Closed(Option<Box<Sender<AnyController>>>),
}

/// One connection: its two ends, its application and its plan.
pub(crate) struct Flow {
    pub id: u32,
    pub stage: Stage,
    pub receiver: Receiver,
    pub application: Application,
    /// What its hosts add, if they add anything.
    pub host: Option<Box<Host>>,
    pub plan: FlowPlan,
    /// When the receiver last handed data to its application.
    pub last_delivery: Instant,
    /// When it had all of it, once the sender knows.
    pub finished: Option<Instant>,
    /// What was last seen of the sender, to tell changes from.
    pub seen: Seen,
}

/// What a flow is to be, as the scenario has it.
#[derive(Clone)]
pub(crate) struct FlowPlan {
    pub start: Instant,
    pub stop: Option<Instant>,
    pub base_rtt: Duration,
    pub controller: Recipe,
    pub sender: SenderConfig,
    pub receiver: ReceiverConfig,
    /// IP and TCP headers of a packet.
    pub header: u32,
    /// The links that its data crosses, by number.
    pub route: Box<[usize]>,
    /// The ACK lane that leads back to its sender.
    pub lane: usize,
    pub label: String,
}

/// The state that the record's events follow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    pub phase: &'static str,
    pub ca_state: CaState,
    pub rto_count: u64,
    pub undo_count: u64,
    pub round_count: u64,
}

impl FlowPlan {
    /// The link after `link` on the way of its data.
    pub fn after(&self, link: usize) -> Option<usize> {
        let place = self.route.iter().position(|number| *number == link)?;
        self.route.get(place + 1).copied()
    }
}

impl Flow {
    /// RFC 6298 section 2.1: the first SYN is repeated after one second.
    pub const SYN_TIMEOUT: Duration = Duration::from_secs(1);
    /// The most that the timeout grows to.
    const SYN_TIMEOUT_MAX: Duration = Duration::from_secs(64);

    pub fn sender(&self) -> Option<&Sender<AnyController>> {
        match &self.stage {
            Stage::Open(sender) | Stage::Closed(Some(sender)) => Some(sender),
            Stage::Waiting | Stage::Opening { .. } | Stage::Closed(None) => None,
        }
    }

    /// When the sending side wants to be called next.
    pub fn next_timer(&self) -> Instant {
        let next = match &self.stage {
            Stage::Waiting => self.plan.start,
            Stage::Opening { sent, tries } => *sent + Self::syn_timeout(*tries),
            Stage::Open(sender) => {
                let sender = sender.next_timer().unwrap_or(Instant::MAX);
                let application = self.application.next_wakeup().unwrap_or(Instant::MAX);
                sender.min(application)
            }
            Stage::Closed(_) => return Instant::MAX,
        };
        next.min(self.plan.stop.unwrap_or(Instant::MAX))
    }

    fn syn_timeout(tries: u32) -> Duration {
        (Self::SYN_TIMEOUT * (1 << (tries.max(1) - 1).min(16))).min(Self::SYN_TIMEOUT_MAX)
    }

    /// Hands over what the application has to write.
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

    /// Ends the connection where it stands.
    pub fn close(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::Open(sender) => Stage::Closed(Some(sender)),
            Stage::Closed(sender) => Stage::Closed(sender),
            Stage::Waiting | Stage::Opening { .. } => Stage::Closed(None),
        };
    }
}

/// The sender's recovery state by its name in the record.
pub(crate) fn ca_state_name(state: CaState) -> &'static str {
    match state {
        CaState::Open => "Open",
        CaState::Disorder => "Disorder",
        CaState::Cwr => "CWR",
        CaState::Recovery => "Recovery",
        CaState::Loss => "Loss",
    }
}

impl Seen {
    pub fn of(sender: &Sender<AnyController>) -> Self {
        let stats = sender.stats();
        Self {
            phase: sender.controller().phase(),
            ca_state: sender.ca_state(),
            rto_count: stats.rto_count,
            undo_count: stats.undo_count,
            round_count: sender.controller().round_count(),
        }
    }
}
