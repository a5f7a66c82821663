//! A connection's state, as the kernel tells it (tcp(7), TCP_INFO and TCP_CC_INFO).

use std::io;
use std::os::fd::BorrowedFd;

use crate::message::{Bbr, Sample};
use crate::sys;

/// States of recovery by the kernel's numbers.
pub const CA_STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];
/// States of controllers, by the simulator's names for them.
pub const PHASES: [&str; 8] = [
    "SlowStart",
    "CongestionAvoidance",
    "Recovery",
    "Loss",
    "STARTUP",
    "DRAIN",
    "PROBE_BW",
    "PROBE_RTT",
];

const SLOW_START: u8 = 0;
const AVOIDANCE: u8 = 1;
const RECOVERY: u8 = 2;
const LOSS: u8 = 3;
const STARTUP: u8 = 4;
const DRAIN: u8 = 5;
const PROBE_BW: u8 = 6;
const PROBE_RTT: u8 = 7;

/// The kernel's gains are in 256ths.
const UNIT: u32 = 256;

/// `struct tcp_info` of linux/tcp.h, by its offsets: an older kernel's is shorter, and what it has
/// not is zero.
struct Info<'a>(&'a [u8]);

impl Info<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn half(&self, at: usize) -> u16 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn long(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }
}

/// What is read beside the columns of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Retransmission timeouts.
    pub rto: u64,
    /// Packets that arrived twice.
    pub duplicates: u64,
    /// Packets that are not acknowledged.
    pub unacknowledged: u32,
    /// Bytes written and not yet sent.
    pub unsent: u32,
    /// Nanoseconds in which the receiver's window was the limit.
    pub window_limited: u64,
    /// Nanoseconds in which the sender's buffer was the limit.
    pub buffer_limited: u64,
    /// Whether the connection is open.
    pub established: bool,
}

/// Reads a connection. Times and places are the caller's to fill in, as is what the receiver has.
pub fn read(socket: BorrowedFd<'_>, paced: bool, mss: u32) -> io::Result<(Sample, Counts)> {
    let (mut info, mut own) = ([0; 512], [0; 64]);
    let info = sys::tcp_option(socket, libc::TCP_INFO, &mut info)?;
    // A controller without state of its own has none to tell.
    let own = sys::tcp_option(socket, libc::TCP_CC_INFO, &mut own).unwrap_or_default();
    Ok(decode(info, own, paced, mss))
}

fn decode(info: &[u8], own: &[u8], paced: bool, mss: u32) -> (Sample, Counts) {
    const ESTABLISHED: u8 = 1;
    let info = Info(info);
    let bytes = |packets: u32| u64::from(packets) * u64::from(mss);
    let micros = |value: u32| (value > 0).then(|| u64::from(value) * 1000);
    let ca_state = info.byte(1).min(CA_STATES.len() as u8 - 1);
    let (unacknowledged, sacked) = (info.word(24), info.word(28));
    let (lost, retransmitted) = (info.word(32), info.word(36));
    // tcp_packets_in_flight
    let in_flight = unacknowledged.saturating_sub(sacked.saturating_add(lost)) + retransmitted;
    let (ssthresh, cwnd) = (info.word(76), info.word(80));
    let bbr = paced.then(|| bbr(own)).flatten();
    let phase = match (bbr, ca_state) {
        (Some(bbr), _) => bbr_phase(bbr),
        (None, 3) => RECOVERY,
        (None, 4) => LOSS,
        (None, _) if cwnd < ssthresh => SLOW_START,
        (None, _) => AVOIDANCE,
    };
    let rate = |bytes: u64| bytes.saturating_mul(8);
    let total = info.word(100);
    let sample = Sample {
        cwnd: bytes(cwnd),
        in_flight: bytes(in_flight),
        pacing: Some(info.long(104))
            .filter(|rate| paced && *rate < u64::MAX)
            .map(rate),
        delivery: rate(info.long(160)),
        srtt: micros(info.word(68)),
        min_rtt: Some(info.word(148))
            .filter(|rtt| *rtt < u32::MAX)
            .and_then(micros),
        delivered: bytes(info.word(192)),
        sent: u64::from(info.word(156)),
        // The kernel tells only of losses outstanding; all earlier ones have been sent again.
        lost: u64::from(total) + u64::from(lost.saturating_sub(retransmitted)),
        retransmitted: u64::from(total),
        phase,
        ca_state,
        app_limited: info.byte(7) & 1 == 1,
        // What was never set is "infinite" (TCP_INFINITE_SSTHRESH).
        ssthresh: (ssthresh < 0x7fff_ffff).then(|| bytes(ssthresh)),
        reordering: info.word(88),
        bbr,
        ..Sample::default()
    };
    let counts = Counts {
        rto: u64::from(info.half(240)),
        duplicates: u64::from(info.word(216)),
        unacknowledged,
        unsent: info.word(144),
        window_limited: info.long(176).saturating_mul(1000),
        buffer_limited: info.long(184).saturating_mul(1000),
        established: info.byte(0) == ESTABLISHED,
    };
    (sample, counts)
}

/// `struct tcp_bbr_info` of linux/inet_diag.h.
fn bbr(bytes: &[u8]) -> Option<Bbr> {
    let info = Info(bytes);
    (bytes.len() >= 20).then(|| Bbr {
        bw: (u64::from(info.word(4)) << 32 | u64::from(info.word(0))).saturating_mul(8),
        min_rtt: u64::from(info.word(8)) * 1000,
        pacing_gain: info.word(12),
        cwnd_gain: info.word(16),
    })
}

/// The state that goes with the gains of tcp_bbr.c: 2.89 for both in STARTUP, its inverse for
/// pacing in DRAIN, 1 for both in PROBE_RTT, and a window gain of 2 in PROBE_BW.
fn bbr_phase(bbr: Bbr) -> u8 {
    const HIGH: u32 = UNIT * 2885 / 1000 + 1;
    match (bbr.pacing_gain, bbr.cwnd_gain) {
        // Before the first ACK it has no gains.
        _ if bbr.bw == 0 => STARTUP,
        (pacing, HIGH) if pacing < UNIT => DRAIN,
        (_, HIGH) => STARTUP,
        (_, UNIT) => PROBE_RTT,
        _ => PROBE_BW,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(set: &[(usize, u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0; 248];
        for (at, value, length) in set {
            bytes[*at..at + length].copy_from_slice(&value.to_ne_bytes()[..*length]);
        }
        bytes
    }

    #[test]
    fn a_flow_in_recovery() {
        let bytes = info(&[
            (1, 3, 1),
            (7, 1, 1),
            (24, 50, 4),
            (28, 20, 4),
            (32, 10, 4),
            (36, 4, 4),
            (68, 40_000, 4),
            (76, 30, 4),
            (80, 24, 4),
            (100, 7, 4),
            (104, 125_000, 8),
            (148, 39_000, 4),
            (160, 1_000_000, 8),
            (240, 2, 2),
        ]);
        let (sample, counts) = decode(&bytes, &[], false, 1000);
        assert_eq!((sample.cwnd, sample.in_flight), (24_000, 24_000));
        assert_eq!((sample.lost, sample.retransmitted), (13, 7));
        assert_eq!(sample.srtt, Some(40_000_000));
        assert_eq!(sample.min_rtt, Some(39_000_000));
        assert_eq!((sample.pacing, sample.delivery), (None, 8_000_000));
        assert_eq!(PHASES[usize::from(sample.phase)], "Recovery");
        assert_eq!(CA_STATES[usize::from(sample.ca_state)], "Recovery");
        assert!(sample.app_limited);
        assert_eq!((counts.rto, counts.unacknowledged), (2, 50));
    }

    #[test]
    fn an_older_kernel_has_less_to_tell() {
        let bytes = info(&[(76, 0x7fff_ffff, 4), (80, 10, 4)]);
        let (sample, counts) = decode(&bytes[..104], &[], false, 1448);
        assert_eq!((sample.cwnd, sample.ssthresh), (14_480, None));
        assert_eq!(PHASES[usize::from(sample.phase)], "SlowStart");
        assert_eq!((counts.rto, sample.sent), (0, 0));
    }

    #[test]
    fn states_of_bbr_follow_from_its_gains() {
        let state_at = |bw: u32, pacing: u32, cwnd: u32| {
            let mut own = Vec::new();
            for word in [bw, 0, 40_000, pacing, cwnd] {
                own.extend(word.to_ne_bytes());
            }
            let (sample, _) = decode(&info(&[]), &own, true, 1448);
            let bbr = sample.bbr.unwrap();
            assert_eq!((bbr.bw, bbr.min_rtt), (u64::from(bw) * 8, 40_000_000));
            PHASES[usize::from(sample.phase)]
        };
        let state = |pacing, cwnd| state_at(1_250_000, pacing, cwnd);
        assert_eq!(state_at(0, 256, 256), "STARTUP");
        assert_eq!(state(739, 739), "STARTUP");
        assert_eq!(state(88, 739), "DRAIN");
        assert_eq!(state(320, 512), "PROBE_BW");
        assert_eq!(state(192, 512), "PROBE_BW");
        assert_eq!(state(256, 512), "PROBE_BW");
        assert_eq!(state(256, 256), "PROBE_RTT");
    }
}
