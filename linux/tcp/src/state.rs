//! A connection's state as the kernel reports it (tcp(7), TCP_INFO and TCP_CC_INFO).

use paceline_record::{EventKind, EventRow, FlowTotals, SampleRow};
use paceline_recovery::SenderStats;
use paceline_units::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Serialize};

/// A flow at one time, with its controller's displayed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its row.
    pub row: SampleRow,
    /// Its controller's displayed state.
    pub own: Own,
}

/// The kernel's state of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Own {
    /// One with a threshold, infinite before it is set.
    Window(Bytes),
    /// BBR.
    Bbr(Bbr),
    /// One of a guest's transport, which reports the bandwidth that it assumes.
    Bandwidth(Rate),
    /// One on another stack, with no more state than in the row.
    Hidden,
}

impl Default for Own {
    fn default() -> Self {
        Self::Window(Bytes::INFINITE)
    }
}

/// The state of the kernel's BBR; gains in units of 1/256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bbr {
    /// Its bandwidth estimate.
    pub bw: Rate,
    /// The minimum RTT that it has measured.
    pub min_rtt: Duration,
    /// The gain of its pacing rate.
    pub pacing_gain: u32,
    /// The gain of its window.
    pub cwnd_gain: u32,
}

/// Recovery states by the kernel's numbers.
const CA_STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];
/// The kernel's gains are in 256ths.
const UNIT: u32 = 256;

/// `struct tcp_info` of linux/tcp.h, by its offsets: an older kernel's is shorter, and missing
/// fields are zero.
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

/// Values in addition to the columns of a sample.
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

/// The payload of a full segment, according to TCP_INFO.
pub fn mss(info: &[u8]) -> u32 {
    Info(info).word(16)
}

/// Reads the results of TCP_INFO and TCP_CC_INFO. The caller fills in times and places.
pub fn decode(info: &[u8], own: &[u8], is_bbr: bool, mss: u32) -> (Sample, Counts) {
    const ESTABLISHED: u8 = 1;
    let info = Info(info);
    let bytes = |packets: u32| Bytes::new(u64::from(packets) * u64::from(mss));
    let micros = |value: u32| (value > 0).then(|| Duration::from_micros(value.into()));
    let ca_state = usize::from(info.byte(1)).min(CA_STATES.len() - 1);
    let ca_state = CA_STATES.get(ca_state).copied().unwrap_or("");
    let (unacknowledged, sacked) = (info.word(24), info.word(28));
    let (lost, retransmitted) = (info.word(32), info.word(36));
    // tcp_packets_in_flight
    let in_flight = unacknowledged.saturating_sub(sacked.saturating_add(lost)) + retransmitted;
    let (ssthresh, cwnd) = (info.word(76), info.word(80));
    let bbr = is_bbr.then(|| bbr(own)).flatten();
    let phase = match (bbr, ca_state) {
        (Some(bbr), _) => bbr_phase(bbr),
        (None, "Recovery" | "Loss") => ca_state,
        (None, _) if cwnd < ssthresh => "SlowStart",
        (None, _) => "CongestionAvoidance",
    };
    let rate = |bytes: u64| Rate::from_bps(bytes.saturating_mul(8));
    let total = info.word(100);
    let row = SampleRow {
        cwnd_bytes: Some(bytes(cwnd)),
        in_flight_bytes: bytes(in_flight),
        pacing_bps: Some(info.long(104))
            .filter(|rate| is_bbr && *rate < u64::MAX)
            .map(rate),
        delivery_bps: Some(rate(info.long(160))),
        srtt_ns: micros(info.word(68)),
        min_rtt_ns: Some(info.word(148))
            .filter(|rtt| *rtt < u32::MAX)
            .and_then(micros),
        // The kernel counts the SYN as a delivered packet.
        delivered_bytes: bytes(info.word(192).saturating_sub(1)),
        sent_packets: u64::from(info.word(156)),
        // The kernel reports outstanding losses only; all earlier ones have been retransmitted.
        lost_packets: u64::from(total) + u64::from(lost.saturating_sub(retransmitted)),
        retransmitted_packets: u64::from(total),
        phase: phase.into(),
        ca_state: ca_state.into(),
        app_limited: info.byte(7) & 1 == 1,
        ..SampleRow::default()
    };
    let own = match bbr {
        Some(bbr) => Own::Bbr(bbr),
        // A value that was never set is "infinite" (TCP_INFINITE_SSTHRESH).
        None if ssthresh < 0x7fff_ffff => Own::Window(bytes(ssthresh)),
        None => Own::default(),
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
    (Sample { row, own }, counts)
}

/// A flow's rows, in order.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The last one, to detect changes.
    pub last: Option<(Sample, Counts)>,
}

impl Rows {
    /// Takes the next row, with its time and flow filled in; returns the changes since the previous
    /// one.
    pub fn next(&mut self, sample: &mut Sample, counts: Counts) -> Vec<EventRow> {
        let row = &mut sample.row;
        let before = self.last.take();
        let had = before.as_ref().map_or(0, |(_, counts)| counts.rto);
        let was = before.map(|(sample, _)| sample.row);
        // Counted from outstanding losses, it could fall after an undo.
        let lost = was.as_ref().map_or(0, |was| was.lost_packets);
        row.lost_packets = row.lost_packets.max(lost);
        let (phase, ca_state) =
            was.map_or(("".into(), "Open".into()), |was| (was.phase, was.ca_state));
        let (at, flow) = (row.t_ns, row.flow);
        let event = |kind| EventRow::new(at, Some(flow), kind);
        let mut events = Vec::new();
        if phase != row.phase {
            events.push(event(EventKind::State).between(phase, row.phase.clone()));
        }
        if counts.rto > had {
            events.push(event(EventKind::Rto));
        }
        // Disorder starts and ends with every reordered packet: only episodes are recorded.
        let episode = |state: &str| !matches!(state, "Open" | "Disorder");
        if ca_state != row.ca_state && (episode(&ca_state) || episode(&row.ca_state)) {
            events.push(event(EventKind::Recovery).between(ca_state, row.ca_state.clone()));
        }
        self.last = Some((sample.clone(), counts));
        events
    }

    /// The totals of a flow whose receiver has read `goodput`, and had everything at `finished`.
    pub fn totals(&self, flow: u32, goodput: Bytes, finished: Option<Instant>) -> FlowTotals {
        let (sample, counts) = self.last.clone().unwrap_or_default();
        // The kernel's counters of a connection; loss probes, for example, are counted only per
        // host.
        let known = [
            ("sent_packets", sample.row.sent_packets),
            ("retransmitted_packets", sample.row.retransmitted_packets),
            ("lost_packets", sample.row.lost_packets),
            ("spurious_packets", counts.duplicates),
            ("rto_count", counts.rto),
        ];
        let counters = SenderStats::COUNTERS.iter().map(|(name, _)| {
            let entry = known.iter().find(|(counter, _)| counter == name);
            entry.map(|(_, count)| *count)
        });
        FlowTotals {
            flow,
            goodput,
            finished,
            counters: counters.collect(),
        }
    }
}

/// `struct tcp_bbr_info` of linux/inet_diag.h.
fn bbr(bytes: &[u8]) -> Option<Bbr> {
    let info = Info(bytes);
    (bytes.len() >= 20).then(|| Bbr {
        bw: Rate::from_bps(
            (u64::from(info.word(4)) << 32 | u64::from(info.word(0))).saturating_mul(8),
        ),
        min_rtt: Duration::from_micros(info.word(8).into()),
        pacing_gain: info.word(12),
        cwnd_gain: info.word(16),
    })
}

/// The state that corresponds to the gains of tcp_bbr.c: 2.89 for both in STARTUP, its inverse for
/// pacing in DRAIN, 1 for both in PROBE_RTT, and a window gain of 2 in PROBE_BW.
fn bbr_phase(bbr: Bbr) -> &'static str {
    const HIGH: u32 = UNIT * 2885 / 1000 + 1;
    match (bbr.pacing_gain, bbr.cwnd_gain) {
        // Before the first ACK it has no gains.
        _ if bbr.bw == Rate::ZERO => "STARTUP",
        (pacing, HIGH) if pacing < UNIT => "DRAIN",
        (_, HIGH) => "STARTUP",
        (_, UNIT) => "PROBE_RTT",
        _ => "PROBE_BW",
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
        let row = sample.row;
        assert_eq!(row.cwnd_bytes, Some(Bytes::new(24_000)));
        assert_eq!(row.in_flight_bytes, Bytes::new(24_000));
        assert_eq!((row.lost_packets, row.retransmitted_packets), (13, 7));
        assert_eq!(row.srtt_ns, Some(Duration::from_millis(40)));
        assert_eq!(row.min_rtt_ns, Some(Duration::from_millis(39)));
        assert_eq!(row.pacing_bps, None);
        assert_eq!(row.delivery_bps, Some(Rate::from_bps(8_000_000)));
        assert_eq!((&*row.phase, &*row.ca_state), ("Recovery", "Recovery"));
        assert!(row.app_limited);
        assert_eq!((counts.rto, counts.unacknowledged), (2, 50));
    }

    #[test]
    fn an_older_kernel_has_less_to_tell() {
        let bytes = info(&[(76, 0x7fff_ffff, 4), (80, 10, 4)]);
        let (sample, counts) = decode(&bytes[..104], &[], false, 1448);
        assert_eq!(sample.row.cwnd_bytes, Some(Bytes::new(14_480)));
        assert_eq!(sample.own, Own::Window(Bytes::INFINITE));
        assert_eq!(sample.row.phase, "SlowStart");
        assert_eq!((counts.rto, sample.row.sent_packets), (0, 0));
    }

    #[test]
    fn states_of_bbr_follow_from_its_gains() {
        let state_at = |bw: u32, pacing: u32, cwnd: u32| {
            let mut own = Vec::new();
            for word in [bw, 0, 40_000, pacing, cwnd] {
                own.extend(word.to_ne_bytes());
            }
            let (sample, _) = decode(&info(&[]), &own, true, 1448);
            let Own::Bbr(bbr) = sample.own else {
                panic!("{:?}", sample.own);
            };
            assert_eq!(bbr.bw, Rate::from_bps(u64::from(bw) * 8));
            assert_eq!(bbr.min_rtt, Duration::from_millis(40));
            sample.row.phase
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
