//! The settings of a flow for our own transport.

use paceline_experiment::{Choice, FlowPlan, sender_config};
use paceline_recovery::{ReceiverConfig, SenderConfig, ets};
use paceline_units::Duration;

/// The slack that Linux gives the timer of SACK compression (`net.ipv4.tcp_comp_sack_slack_ns`).
const COMP_SACK_SLACK: Duration = Duration::from_micros(100);

/// The configuration of both ends of a connection.
pub(crate) struct Transport {
    pub controller: Choice,
    pub sender: SenderConfig,
    pub receiver: ReceiverConfig,
}

impl Transport {
    pub fn new(flow: &FlowPlan, controller: Choice) -> Self {
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
