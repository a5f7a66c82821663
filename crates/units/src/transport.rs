//! The settings of a flow's transport, as plain values: a scenario writes them, `recovery` applies
//! them.

use crate::{Bytes, Duration, Rate, choice};

choice! {
    /// How losses are detected, and how the window is reduced.
    pub enum Recovery {
        /// RACK-TLP (RFC 8985) and proportional rate reduction (RFC 9937).
        RackPrr = "rack-prr" default,
        /// The same with the kernel's code wherever that departs from the RFCs (Linux 6.12).
        Linux = "linux",
        /// The same with the conservative bound of RFC 6937.
        RackPrrCrb = "rack-prr-crb",
        /// The same with the slow-start bound of RFC 6937.
        RackPrrSsrb = "rack-prr-ssrb",
        /// RACK-TLP; the window is reduced at once, and again when retransmissions are lost (RFC
        /// 5681 4.3).
        Rack = "rack",
        /// SACK without RACK (RFC 6675): a lost retransmission waits for the timeout.
        Sack = "sack",
        /// No SACK (RFC 6582, impatient): one segment a round trip.
        NewReno = "newreno",
        /// No SACK, and proportional rate reduction, as Linux does it.
        NewRenoPrr = "newreno-prr",
    }
}

impl Recovery {
    /// Whether the sender reads selective acknowledgments.
    pub const fn has_sack(self) -> bool {
        !matches!(self, Self::NewReno | Self::NewRenoPrr)
    }

    /// Whether losses are detected by time, and tails probed (RFC 8985).
    pub const fn has_rack(self) -> bool {
        self.has_sack() && !matches!(self, Self::Sack)
    }
}

choice! {
    /// When a receiver acknowledges.
    pub enum Acks {
        /// Every second packet (RFC 5681 section 4.2), each of the first 16, and gaps at once.
        Delayed = "delayed" default,
        /// The same, but as Linux does it since 6.6: also the end of each burst, each packet that lets
        /// the receive window grow, and a few of a gap together.
        Linux = "linux",
    }
}

choice! {
    /// Which transport a flow runs.
    pub enum StackName {
        /// The project's own: TCP as Linux has it.
        Paceline = "paceline" default,
        /// The QUIC stack quinn, unmodified.
        Quinn = "quinn",
        /// The QUIC stack noq, a fork of quinn that gives controllers more signals, unmodified.
        Noq = "noq",
        /// A stack of a library that whoever runs the scenario brings; `cc` names the stack and its controller.
        Guest = "guest",
    }
}

choice! {
    /// The direction of a flow's data.
    pub enum Direction {
        /// Over the links of its route.
        Down = "down" default,
        /// Over the return directions of those links, from the last to the first; its ACKs come over
        /// the links themselves.
        Up = "up",
    }
}

choice! {
    /// How a QUIC stack's packets are protected.
    pub enum Crypto {
        /// No encryption: tags, samples and certificates have their usual lengths on the wire, and
        /// use no CPU time.
        Null = "null" default,
        /// TLS 1.3, with an Ed25519 certificate of the flow's own. Its random draws change bytes,
        /// but no time and no size.
        Tls = "tls",
    }
}

choice! {
    /// How a receiver reports congestion marks.
    pub enum EcnFeedback {
        /// ECE on every ACK from a mark on until the sender sets CWR (RFC 3168).
        Classic = "classic",
        /// ECE says whether the latest packet was marked; a change is reported at once (RFC 8257).
        Dctcp = "dctcp",
        /// Exact counts of marked packets and bytes on every ACK (RFC 9768 with its option).
        Accurate = "accurate" default,
        /// The three bits of ACE alone on every ACK: marked packets modulo 8 (RFC 9768).
        Ace = "ace",
    }
}

/// The ECN codepoint of a packet (RFC 3168, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct,
    /// ECT(0): classic response.
    Ect0,
    /// ECT(1): scalable response.
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// The workload of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum App {
    /// As much as possible, for ever: "bulk".
    #[default]
    Bulk,
    /// A number of bytes, then it closes: `{ size = "10 MB" }`.
    Sized {
        /// The number of bytes.
        size: Bytes,
    },
    /// At most this rate, for ever: `{ rate = "5 Mbit/s" }`.
    Limited {
        /// The rate, in payload bits.
        rate: Rate,
    },
    /// Alternately active and silent: `{ on = "1 s", off = "2 s" }`.
    OnOff {
        /// How long it is active.
        on: Duration,
        /// How long it is silent.
        off: Duration,
        /// The rate while active. Unset: as fast as possible.
        rate: Option<Rate>,
    },
}
