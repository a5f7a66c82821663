//! What a flow asks of our own transport.

use paceline_experiment::{Choice, FlowPlan, sender_config};
use paceline_recovery::{ReceiverConfig, SenderConfig, ets};
use paceline_units::Duration;

/// By how much Linux lets the timer slip that ends the holding back of SACKs (`net.ipv4.tcp_comp_sack_slack_ns`).
const COMP_SACK_SLACK: Duration = Duration::from_micros(100);

/// Both ends of a connection, before there is one.
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
        ecn: group.ecn,
        sack_blocks: match group.ets {
            true => ets::SACK_BLOCKS,
            false => ReceiverConfig::default().sack_blocks,
        },
    }
}
