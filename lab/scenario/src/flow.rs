//! `[[flows]]`: the senders.

use duplicate::duplicate;
use paceline_derive::Section;
use paceline_units::options::Choice as _;
use paceline_units::{
    Acks, App, Bytes, Crypto, Direction, Duration, EcnFeedback, Recovery, StackName,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::bounds::{packets, time, within};
use crate::controller::ControllerChoice;
use crate::document::{Node, Value};
use crate::engines::{self, ALL, Engine, Honoured, Unsupported, hosted, simulated};
use crate::host::HostSection;
use crate::limits;
use crate::packets::Packets;
use crate::reader::{Read, Reader};
use crate::section::Key;

impl Key for Vec<FlowGroup> {}

/// One flow, or several alike.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "a table")]
pub struct FlowGroup {
    /// The congestion controller, by name, with options if it is a table.
    #[key(needs = "name the controller: cc = \"bbr3\"")]
    pub cc: ControllerChoice,
    /// The transport that these flows run. A QUIC stack brings its own acknowledgments, loss
    /// recovery, ECN and pacing; `cc` names a built-in controller or, with the stack's name as
    /// a prefix, one of the stack's own: `"quinn:cubic"`. Such a name implies its stack, and
    /// `"guest"` if a library brings that. In the emulator it runs over UDP sockets.
    #[key(default = StackName::Paceline, quiet, on = hosted("there the machine's TCP runs"))]
    pub stack: StackName,
    /// How a QUIC stack's packets are protected. Goodput, times and sizes are the same either way.
    #[key(default = Crypto::Null, quiet, on = hosted("there the machine's TCP runs"))]
    pub crypto: Crypto,
    /// The shortest wait between two steps that a QUIC stack's timers ask for. Unset: 50 us.
    #[key(bound = within(MIN_SLACK, MAX_SLACK), on = hosted("a kernel's timers cannot be chosen"))]
    pub timer_slack: Option<Duration>,
    /// Whether a QUIC stack sends several packets at once, as segmentation offload takes them.
    #[key(
        default = false,
        quiet,
        on = hosted("how much the kernel sends at once cannot be chosen")
    )]
    pub gso: bool,
    /// How many packets a QUIC stack's receiver is asked to acknowledge at once
    /// (draft-ietf-quic-ack-frequency). Unset: it is not asked, and both stacks acknowledge every second packet.
    #[key(bound = packets(limits::MAX_ACK_FREQUENCY), on = hosted("there the machine's TCP runs"))]
    pub ack_frequency: Option<Packets>,
    /// How many flows. Flows are numbered from 0 in the order of the groups.
    #[key(default = 1, on = ALL)]
    pub count: u32,
    /// When the first of them starts.
    #[key(default = Duration::ZERO, on = ALL)]
    pub start: Duration,
    /// Each flow starts later by a random time up to this, uniform and seeded.
    #[key(default = Duration::ZERO, on = ALL)]
    pub start_jitter: Duration,
    /// Each flow starts later than the one before it by this.
    #[key(default = Duration::ZERO, on = ALL)]
    pub stagger: Duration,
    /// When they stop, in time of the run. Unset: at its end.
    #[key(on = ALL)]
    pub stop: Option<Duration>,
    /// Round-trip propagation delay of these flows. Unset: that of the path.
    #[key(bound = time(limits::MAX_RTT), on = ALL)]
    pub rtt: Option<Duration>,
    /// The links that they cross, by name and in the order of downloads. Unset: that of the path.
    #[key(on = ALL)]
    pub route: Option<Vec<String>>,
    /// Whether their data goes down, over the links of `route`, or up, over the return directions
    /// of these. ACKs take the other way.
    #[key(default = Direction::Down, quiet, on = ALL)]
    pub direction: Direction,
    /// The links whose return directions they cross, by name and in order. Unset: those of `route`
    /// that have one, from the last to the first.
    #[key(on = ALL)]
    pub return_route: Option<Vec<String>>,
    /// The workload of the application.
    #[key(default = App::Bulk, on = ALL)]
    pub app: App,
    /// The congestion window at the start.
    #[key(
        default = FlowGroup::INITIAL_WINDOW,
        bound = packets(limits::MAX_INITIAL_WINDOW),
        on = ALL
    )]
    pub initial_window: Packets,
    /// When the receiver acknowledges.
    #[key(default = AckPolicy::default(), from = AckChoice, on = ALL)]
    pub ack: AckPolicy,
    /// How the sender recovers from loss.
    #[key(default = RecoverySection::default(), from = RecoveryChoice, on = ALL)]
    pub recovery: RecoverySection,
    /// The delays and batching of the hosts at both ends. Unset: none.
    #[key(on = simulated("what a real host adds cannot be chosen"))]
    pub host: Option<HostSection>,
    /// How the receiver reports congestion marks. Whether packets can be marked is the
    /// controller's choice.
    #[key(default = EcnFeedback::Accurate, on = ALL)]
    pub ecn: EcnFeedback,
    /// The receiver's buffer.
    #[key(default = FlowGroup::RECEIVE_WINDOW, on = ALL)]
    pub receive_window: Bytes,
    /// IP and TCP or UDP headers of a packet: its payload is the path's `mtu` less this. Unset: 52 bytes, with a QUIC
    /// stack 28.
    #[key(on = ALL)]
    pub header: Option<Bytes>,
    /// Measure round trips and the receiver's delay with the ETS option (draft-yang-tcpm-ets),
    /// in its units. An ACK then holds at most two SACK ranges, and the header has 56 bytes
    /// instead of the 52 with plain timestamps.
    #[key(default = false, quiet, on = simulated("the kernel has no ETS option"))]
    pub ets: bool,
    /// The maximum that a paced controller sends at once. Unset or "0 B": the controller's quantum.
    #[key(on = simulated("how much the kernel sends at once cannot be chosen"))]
    pub max_burst: Option<Bytes>,
    /// Whether new data waits until the window has room for a larger burst, as Linux's does
    /// (`tcp_tso_should_defer`).
    #[key(default = false, quiet, on = ALL)]
    pub tso_defer: bool,
    /// A name for plots and tables.
    #[key(on = ALL)]
    pub label: Option<String>,
}

/// 20 bytes of IPv4, 20 of TCP, 12 of timestamps.
const HEADER: Bytes = Bytes::new(52);
/// 20 bytes of IPv4, 8 of UDP.
const UDP_HEADER: Bytes = Bytes::new(28);
/// The minimum wait of timers.
const SLACK: Duration = Duration::from_micros(50);
const MIN_SLACK: Duration = Duration::from_micros(1);
const MAX_SLACK: Duration = Duration::from_millis(100);

impl FlowGroup {
    /// Without `initial_window`: RFC 6928's.
    pub(crate) const INITIAL_WINDOW: Packets = Packets(10);
    /// Without `receive_window`.
    pub(crate) const RECEIVE_WINDOW: Bytes = Bytes::new(1 << 30);

    /// Writes out the defaults that depend on the controller and the transport.
    pub(crate) fn complete(&mut self) {
        self.stack = self.stack_of(&self.cc.name);
        self.header = Some(self.header());
        self.max_burst = self.max_burst.filter(|burst| *burst > Bytes::ZERO);
        if self.is_built_in_quic() {
            self.timer_slack = Some(self.timer_slack());
        }
    }

    /// IP and TCP or UDP headers of a packet.
    pub fn header(&self) -> Bytes {
        self.header.unwrap_or(match self.stack {
            StackName::Paceline => HEADER,
            StackName::Quinn | StackName::Noq | StackName::Guest => UDP_HEADER,
        })
    }

    /// The transport that these flows run with a controller: a name such as `"noq:bbr3"` implies it.
    pub fn stack_of(&self, cc: &str) -> StackName {
        match cc.split_once(':') {
            Some((stack, _)) if self.stack == StackName::Paceline => {
                StackName::of(stack).unwrap_or(StackName::Guest)
            }
            _ => self.stack,
        }
    }

    /// The shortest wait between two steps that a QUIC stack's timers ask for.
    pub fn timer_slack(&self) -> Duration {
        self.timer_slack.unwrap_or(SLACK)
    }

    /// Whether the flows run a QUIC stack, of this program or of a library.
    pub fn is_quic(&self) -> bool {
        self.stack != StackName::Paceline
    }

    /// Whether a controller of the stack itself decides, as in `"quinn:cubic"`.
    pub(crate) fn is_theirs(&self) -> bool {
        self.is_quic() && self.cc.name.contains(':')
    }

    /// Whether the flows run a QUIC stack of this program.
    pub fn is_built_in_quic(&self) -> bool {
        matches!(self.stack, StackName::Quinn | StackName::Noq)
    }
}

const ACKS: Honoured = simulated("when a kernel's receiver acknowledges cannot be chosen");

/// When the receiver acknowledges. Also written as `"linux"`, which is `comp_sack_delay = "1 ms"`,
/// `pushed = true` and `window_growth = true`, or as `"delayed"`, the default.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "\"linux\", \"delayed\" or a table")]
pub struct AckPolicy {
    /// Number of packets per ACK.
    #[key(default = Packets(2), bound = packets(u64::from(u32::MAX)), on = ACKS)]
    pub every: Packets,
    /// The maximum delay of an ACK.
    #[key(
        default = Duration::from_millis(40),
        bound = within(Duration::ZERO, limits::MAX_RTT),
        on = ACKS
    )]
    pub delay: Duration,
    /// Number of packets at the start that are acknowledged one by one, at once.
    #[key(default = Packets(16), on = ACKS)]
    pub quick: Packets,
    /// How long SACKs are delayed once three have reported the same gap: Linux's
    /// `tcp_comp_sack_delay_ns`, which is 1 ms, at most a twentieth of the flow's base RTT,
    /// plus 100 us of timer slack. Unset: not at all.
    #[key(on = ALL)]
    pub comp_sack_delay: Option<Duration>,
    /// Whether packets with PSH are acknowledged at once, as Linux does since 6.6, and are sent
    /// as Linux sends them: the last of the application's data, and the last of each burst of
    /// two or more that segmentation offload forms (1/1024 s at the pacing rate, at least two
    /// packets).
    #[key(default = false, quiet, on = ALL)]
    pub pushed: bool,
    /// Whether the receive window grows from 64 kB with what a round brings, as in Linux
    /// (`tcp_grow_window`, `tcp_rcv_space_adjust`), up to `receive_window`. A packet that lets it
    /// grow is acknowledged at once: in slow start nearly every packet is.
    #[key(default = false, quiet, on = ALL)]
    pub window_growth: bool,
}

impl From<Acks> for AckPolicy {
    fn from(acks: Acks) -> Self {
        match acks {
            Acks::Delayed => Self::default(),
            Acks::Linux => Self {
                comp_sack_delay: Some(Duration::from_millis(1)),
                pushed: true,
                window_growth: true,
                ..Self::default()
            },
        }
    }
}

const RECOVERY: Honoured = simulated("how a kernel recovers from loss cannot be chosen");

/// A kernel recovers as `linux` says, so that one file runs on all engines; the default stands for
/// what each of them has.
impl Key for Recovery {
    fn find_unsupported(&self, key: &str, engine: Engine, unsupported: &mut Vec<Unsupported>) {
        let is_free = matches!(self, Self::Linux | Self::RackPrr);
        engines::judge(Some(RECOVERY), engine, is_free, key, unsupported);
    }
}

/// How the sender recovers from loss. Also written as the `kind` alone.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(takes = "\"rack-prr\" or another kind, or a table")]
pub struct RecoverySection {
    /// How losses are detected, and how the window is reduced.
    #[key(default = Recovery::RackPrr, on = ALL)]
    pub kind: Recovery,
    /// The shortest retransmission timeout.
    #[key(
        default = Duration::from_millis(200),
        bound = within(limits::MIN_RTO, limits::MAX_RTO),
        on = ALL
    )]
    pub min_rto: Duration,
    /// Whether a tail loss probe is sent (RFC 8985 section 7).
    #[key(default = true, on = RECOVERY)]
    pub tlp: bool,
    /// Whether acknowledgments after a timeout may show it to be spurious (F-RTO, RFC 5682).
    #[key(default = true, on = RECOVERY)]
    pub f_rto: bool,
    /// Whether timestamps (RFC 3522) and DSACKs may show losses to be spurious.
    #[key(default = true, on = RECOVERY)]
    pub undo: bool,
    /// Whether the interval of a delivery-rate sample starts with a packet only if no other is
    /// unacknowledged, as in Linux and in pull request 56 of draft-ietf-ccwg-bbr, not if none is
    /// estimated to be in flight (draft-ietf-ccwg-bbr-06 4.1.2.2).
    #[key(default = false, on = RECOVERY)]
    pub sample_unacknowledged: bool,
    /// Whether the first duplicate ACKs send new data (RFC 3042).
    #[key(default = true, on = RECOVERY)]
    pub limited_transmit: bool,
}

impl From<Recovery> for RecoverySection {
    fn from(kind: Recovery) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }
}

// Sections that are also written as a name alone, from which they are made.
duplicate! {
    [
        Choice            title         Word        Section            about;
        [AckChoice]  ["Ack"]  [Acks]  [AckPolicy]  ["When the receiver acknowledges: a policy's name, or a table."];
        [RecoveryChoice]  ["Recovery"]  [Recovery]  [RecoverySection]  ["How the sender recovers from loss: a kind, or a table of its options."];
    ]
    #[doc = about]
    #[derive(PartialEq, Serialize, JsonSchema)]
    #[serde(untagged)]
    #[schemars(rename = title)]
    enum Choice {
        Name(Word),
        Table(Section),
    }

    impl Key for Choice {}

    impl Read for Choice {
        fn read(node: &Node, key: &str, reader: &mut Reader<'_>) -> Option<Self> {
            match &node.value {
                Value::Text(_) => Read::read(node, key, reader).map(Self::Name),
                _ => Read::read(node, key, reader).map(Self::Table),
            }
        }
    }

    impl From<Choice> for Section {
        fn from(choice: Choice) -> Self {
            match choice {
                Choice::Name(name) => name.into(),
                Choice::Table(section) => section,
            }
        }
    }
}
