//! A group's settings for our own transport.

use paceline_recovery::SenderConfig;
use paceline_scenario::FlowGroup;
use paceline_units::Bytes;

/// The configuration of our sender when full packets have `mss` bytes of payload.
pub fn sender_config(group: &FlowGroup, mss: u32) -> SenderConfig {
    let recovery = &group.recovery;
    SenderConfig {
        mss,
        initial_window: Bytes::new(u64::from(mss) * u64::from(group.initial_window.0)),
        min_rto: recovery.min_rto,
        recovery: recovery.kind,
        tlp: recovery.tlp,
        f_rto: recovery.f_rto,
        limited_transmit: recovery.limited_transmit,
        undo: recovery.undo,
        sample_unacknowledged: recovery.sample_unacknowledged,
        max_ack_delay: group.ack.delay,
        max_burst: group.max_burst,
        tso_defer: group.tso_defer,
        ecn: group.ecn,
        push: group.ack.pushed,
        ets: group.ets,
        ..SenderConfig::default()
    }
}
