//! `[[flows]]`: the senders.

use duplicate::duplicate;
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
use crate::section::{Key, section};

impl Key for Vec<FlowGroup> {}

section! {
    /// One flow, or several alike.
    pub struct FlowGroup, "a table" {
        /// The congestion controller, by name, with options if it is a table.
        cc: ControllerChoice, needs "name the controller: cc = \"bbr3\"";
        /// The transport that these flows run. A QUIC stack brings its own acknowledgments, loss
        /// recovery, ECN and pacing; `cc` names a built-in controller or, with the stack's name as
        /// a prefix, one of the stack's own: `"quinn:cubic"`. Such a name implies its stack, and
        /// `"guest"` if a library brings that. In the emulator it runs over UDP sockets.
        stack: StackName => StackName::Paceline, on hosted("there the machine's TCP runs");
        /// How a QUIC stack's packets are protected. Goodput, times and sizes are the same either way.
        crypto: Crypto => Crypto::Null, on hosted("there the machine's TCP runs");
        /// The shortest wait between two steps that a QUIC stack's timers ask for. Unset: 50 us.
        timer_slack: Option<Duration>, in within(MIN_SLACK, MAX_SLACK), on hosted("a kernel's timers cannot be chosen");
        /// Whether a QUIC stack sends several packets at once, as segmentation offload takes them.
        gso: bool => false, on hosted("how much the kernel sends at once cannot be chosen");
        /// How many packets a QUIC stack's receiver is asked to acknowledge at once
        /// (draft-ietf-quic-ack-frequency). Unset: it is not asked, and both stacks acknowledge every second packet.
        ack_frequency: Option<Packets>, in packets(limits::MAX_ACK_FREQUENCY), on hosted("there the machine's TCP runs");
        /// How many flows. Flows are numbered from 0 in the order of the groups.
        count: u32 = 1, on ALL;
        /// When the first of them starts.
        start: Duration = Duration::ZERO, on ALL;
        /// Each flow starts later by a random time up to this, uniform and seeded.
        start_jitter: Duration = Duration::ZERO, on ALL;
        /// Each flow starts later than the one before it by this.
        stagger: Duration = Duration::ZERO, on ALL;
        /// When they stop, in time of the run. Unset: at its end.
        stop: Option<Duration>, on ALL;
        /// Round-trip propagation delay of these flows. Unset: that of the path.
        rtt: Option<Duration>, in time(limits::MAX_RTT), on ALL;
        /// The links that they cross, by name and in the order of downloads. Unset: that of the path.
        route: Option<Vec<String>>, on ALL;
        /// Whether their data goes down, over the links of `route`, or up, over the return directions
        /// of these. ACKs take the other way.
        direction: Direction => Direction::Down, on ALL;
        /// The links whose return directions they cross, by name and in order. Unset: those of `route`
        /// that have one, from the last to the first.
        return_route: Option<Vec<String>>, on ALL;
        /// The workload of the application.
        app: App = App::Bulk, on ALL;
        /// The congestion window at the start.
        initial_window: Packets = FlowGroup::INITIAL_WINDOW, in packets(limits::MAX_INITIAL_WINDOW), on ALL;
        /// When the receiver acknowledges.
        ack: AckPolicy as AckChoice = AckPolicy::default(), on ALL;
        /// How the sender recovers from loss.
        recovery: RecoverySection as RecoveryChoice = RecoverySection::default(), on ALL;
        /// The delays and batching of the hosts at both ends. Unset: none.
        host: Option<HostSection>, on simulated("what a real host adds cannot be chosen");
        /// How the receiver reports congestion marks. Whether packets can be marked is the
        /// controller's choice.
        ecn: EcnFeedback = EcnFeedback::Accurate, on ALL;
        /// The receiver's buffer.
        receive_window: Bytes = FlowGroup::RECEIVE_WINDOW, on ALL;
        /// IP and TCP or UDP headers of a packet: its payload is the path's `mtu` less this. Unset: 52 bytes, with a QUIC
        /// stack 28.
        header: Option<Bytes>, on ALL;
        /// Measure round trips and the receiver's delay with the ETS option (draft-yang-tcpm-ets),
        /// in its units. An ACK then holds at most two SACK ranges, and the header has 56 bytes
        /// instead of the 52 with plain timestamps.
        ets: bool => false, on simulated("the kernel has no ETS option");
        /// The maximum that a paced controller sends at once. Unset or "0 B": the controller's quantum.
        max_burst: Option<Bytes>, on simulated("how much the kernel sends at once cannot be chosen");
        /// Whether new data waits until the window has room for a larger burst, as Linux's does
        /// (`tcp_tso_should_defer`).
        tso_defer: bool => false, on ALL;
        /// A name for plots and tables.
        label: Option<String>, on ALL;
    }
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

section! {
    /// When the receiver acknowledges. Also written as `"linux"`, which is `comp_sack_delay = "1 ms"`,
    /// `pushed = true` and `window_growth = true`, or as `"delayed"`, the default.
    pub struct AckPolicy = default, "\"linux\", \"delayed\" or a table" {
        /// Number of packets per ACK.
        every: Packets = Packets(2), in packets(u64::from(u32::MAX)), on ACKS;
        /// The maximum delay of an ACK.
        delay: Duration = Duration::from_millis(40), in within(Duration::ZERO, limits::MAX_RTT), on ACKS;
        /// Number of packets at the start that are acknowledged one by one, at once.
        quick: Packets = Packets(16), on ACKS;
        /// How long SACKs are delayed once three have reported the same gap: Linux's
        /// `tcp_comp_sack_delay_ns`, which is 1 ms, at most a twentieth of the flow's base RTT,
        /// plus 100 us of timer slack. Unset: not at all.
        comp_sack_delay: Option<Duration>, on ALL;
        /// Whether packets with PSH are acknowledged at once, as Linux does since 6.6, and are sent
        /// as Linux sends them: the last of the application's data, and the last of each burst of
        /// two or more that segmentation offload forms (1/1024 s at the pacing rate, at least two
        /// packets).
        pushed: bool => false, on ALL;
        /// Whether the receive window grows from 64 kB with what a round brings, as in Linux
        /// (`tcp_grow_window`, `tcp_rcv_space_adjust`), up to `receive_window`. A packet that lets it
        /// grow is acknowledged at once: in slow start nearly every packet is.
        window_growth: bool => false, on ALL;
    }
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

section! {
    /// How the sender recovers from loss. Also written as the `kind` alone.
    pub struct RecoverySection = default, "\"rack-prr\" or another kind, or a table" {
        /// How losses are detected, and how the window is reduced.
        kind: Recovery = Recovery::RackPrr, on ALL;
        /// The shortest retransmission timeout.
        min_rto: Duration = Duration::from_millis(200), in within(limits::MIN_RTO, limits::MAX_RTO), on ALL;
        /// Whether a tail loss probe is sent (RFC 8985 section 7).
        tlp: bool = true, on RECOVERY;
        /// Whether acknowledgments after a timeout may show it to be spurious (F-RTO, RFC 5682).
        f_rto: bool = true, on RECOVERY;
        /// Whether timestamps (RFC 3522) and DSACKs may show losses to be spurious.
        undo: bool = true, on RECOVERY;
        /// Whether the interval of a delivery-rate sample starts with a packet only if no other is
        /// unacknowledged, as in Linux and in pull request 56 of draft-ietf-ccwg-bbr, not if none is
        /// estimated to be in flight (draft-ietf-ccwg-bbr-06 4.1.2.2).
        sample_unacknowledged: bool = false, on RECOVERY;
        /// Whether the first duplicate ACKs send new data (RFC 3042).
        limited_transmit: bool = true, on RECOVERY;
    }
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
