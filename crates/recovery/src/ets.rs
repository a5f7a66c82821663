//! The Extensible Timestamp option (draft-yang-tcpm-ets-00): microsecond timestamps, and how long
//! the receiver held the data it acknowledges.
//!
//! ```text
//! octet  0     1       2..4   4..8   8..12  12..14                  14..16 (SYN)
//!        Kind  Length  ExID   TSval  TSecr  Unit:2 EcrDel:13 Rsvd:1 MaxACKDel
//!        254   14, 16  0x4554
//! ```
//!
//! Multi-octet fields are in network byte order and bit fields start at the most significant bit;
//! the draft's figure was not readable, and this is the usual meaning of such figures. Version -01
//! no longer mentions the maximum ACK delay, so the length need not depend on SYN: both lengths are
//! accepted anywhere. Of a longer option, which -00 announces for later versions, the known part is
//! read.

use paceline_units::{Duration, Instant};

use crate::Acknowledgment;

/// The experimental option kind (RFC 6994).
const KIND: u8 = 254;
/// The experiment: "ET".
const EX_ID: [u8; 2] = [0x45, 0x54];
/// The maximum value of the 13 bits of `EcrDel`.
const MAX_DELAY: u16 = (1 << 13) - 1;

/// Octets of options in a TCP header (RFC 9293 section 3.1).
pub(crate) const OPTION_SPACE: usize = 40;
/// The option padded to a multiple of four, as stacks lay options out.
const PADDED_LEN: usize = Ets::LEN.next_multiple_of(4);
/// Kind, length and two octets of padding of a SACK option, and a range (RFC 2018 section 3).
const SACK_HEADER: usize = 4;
const SACK_BLOCK: usize = 8;

/// SACK ranges that fit next to the option: two, where RFC 7323's timestamps leave three.
pub const SACK_BLOCKS: usize = (OPTION_SPACE - PADDED_LEN - SACK_HEADER) / SACK_BLOCK;

/// A 32-bit clock of microseconds, which wraps every 71.6 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp(pub u32);

impl Timestamp {
    /// Half of the clock's range: beyond it, earlier and later are ambiguous.
    pub const HALF_RANGE: Duration = Duration::from_micros(1 << 31);

    /// The clock at `now`.
    pub const fn at(now: Instant) -> Self {
        Self((now.as_nanos() / 1_000) as u32)
    }

    /// Time since `earlier`; none if that is in fact later (RFC 7323 section 5.2).
    pub fn since(self, earlier: Self) -> Option<Duration> {
        let micros = self.0.wrapping_sub(earlier.0);
        (micros < 1 << 31).then(|| Duration::from_micros(u64::from(micros)))
    }

    /// PAWS (RFC 7323 section 5.3): whether a segment with this `TSval` is an old duplicate, given
    /// `TS.Recent` and its age. RFC 7323 trusts `TS.Recent` for 24 days, half the range of a
    /// millisecond clock; here that is 35.8 minutes.
    pub fn is_outdated(self, recent: Self, idle: Duration) -> bool {
        idle < Self::HALF_RANGE && self.since(recent).is_none()
    }
}

/// `EcrDelUnit` and `EcrDel`: how long the receiver held the segment that `TSecr` echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoDelay {
    /// Unit 0: microseconds.
    Micros(u16),
    /// Unit 1: milliseconds.
    Millis(u16),
    /// Unit 2: to be ignored.
    Invalid,
    /// Unit 3: reserved in this version.
    Reserved,
}

impl EchoDelay {
    /// The finest unit that holds `delay`: microseconds as the clock shows them; milliseconds
    /// rounded up so that the network's part is not overstated; beyond 8.191 s none.
    pub fn new(delay: Duration) -> Self {
        let micros = delay.as_micros();
        if let Some(value) = field(micros) {
            return Self::Micros(value);
        }
        field(micros.div_ceil(1_000)).map_or(Self::Invalid, Self::Millis)
    }

    /// The delay, if there is one.
    pub fn get(self) -> Option<Duration> {
        match self {
            Self::Micros(value) => Some(Duration::from_micros(u64::from(value))),
            Self::Millis(value) => Some(Duration::from_millis(u64::from(value))),
            Self::Invalid | Self::Reserved => None,
        }
    }

    fn bits(self) -> u16 {
        let (unit, value) = match self {
            Self::Micros(value) => (0, value),
            Self::Millis(value) => (1, value),
            Self::Invalid => (2, 0),
            Self::Reserved => (3, 0),
        };
        unit << 14 | value.min(MAX_DELAY) << 1
    }

    fn from_bits(bits: u16) -> Self {
        let value = bits >> 1 & MAX_DELAY;
        match bits >> 14 {
            0 => Self::Micros(value),
            1 => Self::Millis(value),
            2 => Self::Invalid,
            _ => Self::Reserved,
        }
    }
}

fn field(value: u64) -> Option<u16> {
    u16::try_from(value)
        .ok()
        .filter(|value| *value <= MAX_DELAY)
}

/// The option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ets {
    /// The sender's clock.
    pub tsval: Timestamp,
    /// The echo: `TSval` of the earliest segment that this one is the first to
    /// acknowledge in order (RFC 7323 section 4.3); zero in a SYN.
    pub tsecr: Timestamp,
    /// How long that segment was held.
    pub delay: EchoDelay,
    /// The maximum ACK delay, in microseconds; on SYNs.
    pub max_ack_delay: Option<u16>,
}

/// Why octets are not an ETS option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtsError {
    /// They end before the option does.
    Truncated,
    /// Another option's kind.
    Kind(u8),
    /// A length that no version uses.
    Length(u8),
    /// Another experiment's identifier.
    ExId(u16),
}

impl Ets {
    /// Octets of the option.
    pub const LEN: usize = 14;
    /// Octets with the maximum ACK delay.
    pub const SYN_LEN: usize = 16;

    /// The option of a segment without SYN.
    pub fn new(now: Instant, tsecr: Timestamp, held: Duration) -> Self {
        Self {
            tsval: Timestamp::at(now),
            tsecr,
            delay: EchoDelay::new(held),
            max_ack_delay: None,
        }
    }

    /// The offer in a SYN. There is nothing to echo, so there is no delay.
    pub fn syn(now: Instant, max_ack_delay: Duration) -> Self {
        let micros = max_ack_delay.as_micros();
        Self {
            tsval: Timestamp::at(now),
            tsecr: Timestamp(0),
            delay: EchoDelay::Invalid,
            max_ack_delay: Some(u16::try_from(micros).unwrap_or(u16::MAX)),
        }
    }

    /// The answer in a SYN-ACK to the option of the SYN: the option is in use if both carry it, and
    /// a SYN-ACK never offers it if the SYN did not.
    pub fn syn_ack(
        offered: Option<&Self>,
        now: Instant,
        held: Duration,
        max_ack_delay: Duration,
    ) -> Option<Self> {
        offered.map(|syn| Self {
            tsecr: syn.tsval,
            delay: EchoDelay::new(held),
            ..Self::syn(now, max_ack_delay)
        })
    }

    /// Its length in octets.
    pub const fn wire_len(&self) -> usize {
        match self.max_ack_delay {
            Some(_) => Self::SYN_LEN,
            None => Self::LEN,
        }
    }

    /// Writes it to the start of `out`; returns its length, or none if there is no room.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let len = self.wire_len();
        let mut octets = [0; Self::SYN_LEN];
        let fields = [
            &[KIND, len as u8][..],
            &EX_ID,
            &self.tsval.0.to_be_bytes(),
            &self.tsecr.0.to_be_bytes(),
            &self.delay.bits().to_be_bytes(),
            &self.max_ack_delay.unwrap_or(0).to_be_bytes(),
        ];
        for (slot, octet) in octets.iter_mut().zip(fields.into_iter().flatten()) {
            *slot = *octet;
        }
        out.get_mut(..len)?.copy_from_slice(octets.get(..len)?);
        Some(len)
    }

    /// Reads the option that starts `octets`; its length is in its second octet.
    pub fn decode(octets: &[u8]) -> Result<Self, EtsError> {
        let mut rest = octets;
        let [kind] = take(&mut rest)?;
        if kind != KIND {
            return Err(EtsError::Kind(kind));
        }
        let [len] = take(&mut rest)?;
        let ex_id = take(&mut rest)?;
        if ex_id != EX_ID {
            return Err(EtsError::ExId(u16::from_be_bytes(ex_id)));
        }
        let whole = usize::from(len);
        if whole < Self::LEN || whole == Self::LEN + 1 {
            return Err(EtsError::Length(len));
        }
        if octets.len() < whole {
            return Err(EtsError::Truncated);
        }
        Ok(Self {
            tsval: Timestamp(u32::from_be_bytes(take(&mut rest)?)),
            tsecr: Timestamp(u32::from_be_bytes(take(&mut rest)?)),
            delay: EchoDelay::from_bits(u16::from_be_bytes(take(&mut rest)?)),
            max_ack_delay: if whole == Self::SYN_LEN {
                Some(u16::from_be_bytes(take(&mut rest)?))
            } else {
                None
            },
        })
    }

    /// The measurement of a sender that receives it at `now`: the time since the echoed segment
    /// left, and the receiver's share of it.
    pub fn sample(&self, now: Instant) -> Option<EtsSample> {
        Some(EtsSample {
            total_rtt: Timestamp::at(now).since(self.tsecr)?,
            receiver_delay: self.delay.get(),
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], EtsError> {
    let (head, tail) = rest.split_first_chunk().ok_or(EtsError::Truncated)?;
    *rest = tail;
    Ok(*head)
}

/// A round trip as measured by the option, in whole microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtsSample {
    /// From the echoed segment's departure to the acknowledgment's arrival.
    pub total_rtt: Duration,
    /// The receiver's part, if it is reported.
    pub receiver_delay: Option<Duration>,
}

impl EtsSample {
    /// The network's part of the round trip and the receiver's, if that is known.
    pub fn parts(self) -> Option<(Duration, Duration)> {
        let held = self.receiver_delay?;
        Some((self.total_rtt - held, held))
    }
}

/// The sender's view at `now` of an acknowledgment whose times were carried in this option:
/// precision that its fields cannot hold is lost.
pub fn over_the_wire(now: Instant, ack: &Acknowledgment) -> Option<EtsSample> {
    let mut octets = [0; Ets::LEN];
    Ets::new(ack.sent, Timestamp::at(ack.ts_echo), ack.delay).encode(&mut octets)?;
    Ets::decode(&octets).ok()?.sample(now)
}

#[cfg(test)]
mod tests;
