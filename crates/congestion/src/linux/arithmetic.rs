//! Linux's fixed point: bandwidth in packets/us `<< 24`, fractions in 256ths.

/// A number in 256ths (`BBR_UNIT`).
pub type FixedPoint = u32;
/// Bits of fraction in a bandwidth (`BW_SCALE`).
pub const BW_SCALE: u32 = 24;
/// One packet per microsecond (`BW_UNIT`).
pub const BW_UNIT: u64 = 1 << BW_SCALE;
/// Bits of fraction in a gain (`BBR_SCALE`).
pub const BBR_SCALE: u32 = 8;
/// A gain of 1 (`BBR_UNIT`).
pub const BBR_UNIT: u32 = 1 << BBR_SCALE;
/// A bound that is not set, or an RTT that is not known (`~0U`).
pub const UNSET: u32 = u32::MAX;

/// The largest burst that a device accepts (`GSO_LEGACY_MAX_SIZE`).
const GSO_MAX_SIZE: u64 = 65_536;
/// Room for headers in a burst (`MAX_TCP_HEADER` of the recorded kernel).
const MAX_TCP_HEADER: u64 = 320;
/// The maximum number of bytes in a burst.
pub const MAX_BURST: u64 = GSO_MAX_SIZE - 1 - MAX_TCP_HEADER;
/// Bytes per second below which bursts of one packet are allowed: 1.2 Mbit/s (`bbr_min_tso_rate`).
pub const MIN_TSO_RATE: u64 = 1_200_000 / 8;
/// log2 of the number of bursts in a second of pacing (`sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;

/// `value * fraction`, rounded down; `fraction` in 256ths.
pub fn scaled(value: u32, fraction: u32) -> u32 {
    ((u64::from(value) * u64::from(fraction)) >> BBR_SCALE) as u32
}

/// Whether the count `a` comes before `b`, both modulo 2^32.
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Microseconds from `earlier` to `later`; zero if it is in fact later.
pub fn elapsed(later: u64, earlier: u64) -> u32 {
    later.saturating_sub(earlier) as u32
}

/// `bw * gain` in bytes per second, less `margin` percent.
pub fn bytes_per_sec(bw: u32, mss: u32, gain: u32, margin: u32) -> u64 {
    let rate = u64::from(bw)
        .wrapping_mul(u64::from(mss))
        .wrapping_mul(u64::from(gain));
    let percent = u64::from(100 - margin.min(100));
    (rate >> BBR_SCALE).wrapping_mul(10_000 * percent) >> BW_SCALE
}

/// The bandwidth at which `cwnd` packets leave in an RTT (of 1 ms while `srtt` is 0).
pub fn initial_bw(cwnd: u32, srtt: u32) -> u32 {
    let rtt = if srtt == 0 { 1_000 } else { u64::from(srtt) };
    (u64::from(cwnd) * BW_UNIT / rtt) as u32
}

/// Packets in `bw * min_rtt * gain`, rounded up.
pub fn bdp(bw: u32, min_rtt: u32, gain: u32) -> u32 {
    let volume = (u64::from(bw) * u64::from(min_rtt)).wrapping_mul(u64::from(gain)) >> BBR_SCALE;
    (volume.wrapping_add(BW_UNIT - 1) >> BW_SCALE) as u32
}

/// Packets that leave in `micros` at `bw`, rounded down.
pub fn packets_in(bw: u32, micros: u64) -> u32 {
    (u64::from(bw).wrapping_mul(micros) >> BW_SCALE) as u32
}

/// Bytes in one burst of pacing at `pacing_rate`.
pub fn burst(pacing_rate: u64) -> u64 {
    pacing_rate >> PACING_SHIFT
}

/// The part of a burst that a short RTT allows: 64 KiB, halved for each 512 us of `min_rtt`.
pub fn burst_for_rtt(min_rtt: u32) -> u64 {
    GSO_MAX_SIZE.checked_shr(min_rtt >> 9).unwrap_or(0)
}

/// The number of the `inflight` packets still in the network when the next packet departs, at
/// `departure_ns`; `burst` of them leave then.
pub fn packets_in_net_at_edt(bw: u32, inflight: u32, burst: u32, now: u64, edt_ns: u64) -> u32 {
    let wait = edt_ns.saturating_sub(now.wrapping_mul(1_000)) / 1_000;
    inflight
        .wrapping_add(burst)
        .saturating_sub(packets_in(bw, wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_compare_across_the_wrap() {
        assert!(before(u32::MAX, 0));
        assert!(!before(0, u32::MAX));
        assert!(!before(7, 7));
    }

    #[test]
    fn a_bdp_rounds_up() {
        // 50 Mbit/s of 1448 bytes over 40 ms is 172.6 packets.
        let bw = (50_000_000 * BW_UNIT / 8 / 1448 / 1_000_000) as u32;
        assert_eq!(bdp(bw, 40_000, BBR_UNIT), 173);
        assert_eq!(bdp(bw, 40_000, 2 * BBR_UNIT), 346);
        assert_eq!(bdp(0, 40_000, BBR_UNIT), 0);
    }

    #[test]
    fn bursts_halve_with_rtt() {
        assert_eq!(burst_for_rtt(0), 65_536);
        assert_eq!(burst_for_rtt(512), 32_768);
        assert_eq!(burst_for_rtt(40_000), 0);
        assert_eq!(burst_for_rtt(UNSET), 0);
    }

    #[test]
    fn the_initial_rate_is_the_kernels() {
        // 10 packets of 1448 bytes in 40 ms, times 710/256, less 1 percent and rounding.
        let bw = initial_bw(10, 40_000);
        assert_eq!(bytes_per_sec(bw, 1448, 710, 1), 993_872);
        assert_eq!(initial_bw(10, 0), (10 * BW_UNIT / 1000) as u32);
    }
}
