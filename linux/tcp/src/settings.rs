//! The settings requested from the kernel, and what it cannot be asked for.

use paceline_experiment::{self as experiment, FlowPlan};
use paceline_scenario::{
    Diagnostic, Engine, FlowGroup, OptionInput, RecoverySection, Scenario, When,
};
use paceline_units::{Duration, EcnFeedback};

use crate::netlink::RouteMetrics;
use crate::packet::UDP_HEADERS;

/// The shortest time between two samples of a flow.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Controllers that the stack paces if a socket asks for it; the option that does so is `pacing`.
const PACED: [&str; 3] = ["cubic", "dctcp", "reno"];
/// BBRv3 by eBPF, as `paceline kernel load` registers it.
pub const BBR3: &str = "paceline_bbr3";
/// Inputs that a stock kernel does not give, and that it derives.
const BBR3_DERIVED: [&str; 5] = [
    "tx_in_flight",
    "lost",
    "skb_marked_lost",
    "tlp_recovery",
    "is_acking_tlp",
];

/// Headers of an IPv4 segment with timestamps.
const HEADER: u64 = 52;
/// Headers without timestamps.
const BARE_HEADER: u64 = 40;
/// Headers of a datagram.
const UDP_HEADER: u64 = UDP_HEADERS as u64;

/// The kernel's name for a controller.
pub fn name(cc: &str) -> &str {
    match cc {
        "bbr1" => "bbr",
        "cubic-linux" => "cubic",
        "reno-linux" => "reno",
        "bbr3-linux" => BBR3,
        other => other,
    }
}

/// The inputs that a controller, by the kernel's name, derives.
pub fn derived(name: &str) -> &'static [&'static str] {
    match name {
        BBR3 => &BBR3_DERIVED,
        _ => &[],
    }
}

/// Whether a flow's controller is one of the kernel's BBRs: paced, and with a state of its own.
pub fn is_bbr(flow: &FlowPlan) -> bool {
    name(&flow.group.cc.name).starts_with("bbr")
}

/// How long Linux delays ACKs of out-of-order data (`net.ipv4.tcp_comp_sack_delay_ns`).
pub const COMP_SACK_DELAY: Duration = Duration::from_millis(1);

/// The TCP settings of a host.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Largest IP packet.
    pub mtu: u32,
    /// Whether segments carry timestamps.
    pub timestamps: bool,
    /// The receiver's maximum buffer, in bytes of payload.
    pub window: u64,
}

/// The groups of flows that run the kernel's TCP.
pub fn tcp_groups(scenario: &Scenario) -> impl Iterator<Item = &FlowGroup> {
    scenario.flows.iter().filter(|group| !group.is_quic())
}

/// All errors in a scenario for an engine with a kernel's TCP.
pub fn check_tcp(scenario: &Scenario, engine: Engine) -> Vec<Diagnostic> {
    let mut wrong = experiment::check(scenario);
    let mut refuse = |key: String, message: &str, hint: &str| {
        wrong.push(scenario.diagnostic(&key, message, Some(hint.to_owned())));
    };
    let sim = "run it in the simulator, or leave it out";
    for key in scenario.unsupported(engine) {
        refuse(key.key, key.why, sim);
    }
    for (number, group) in scenario.flows.iter().enumerate() {
        let at = |key: &str| format!("flows[{number}].{key}");
        if group.is_quic() {
            if group.header().get() != UDP_HEADER {
                let message = "the headers of IPv4 and UDP have 28 bytes";
                refuse(at("header"), message, "header = \"28 B\", or leave it out");
            }
            continue;
        }
        let is_bbr3 = name(&group.cc.name) == BBR3;
        // ECN and pacing are choices per connection; a machine of its own loads BBRv3 with any
        // options.
        let taken = |option: &str| match option {
            "ecn" => true,
            "pacing" => engine == Engine::Vm && PACED.contains(&name(&group.cc.name)),
            _ => engine == Engine::Vm && is_bbr3,
        };
        if let Some(option) = group.cc.options.keys().find(|option| !taken(option)) {
            let message = "a kernel's controller takes no options from a scenario";
            let load = format!("sudo paceline kernel load --set {option}=VALUE");
            refuse(
                at(&format!("cc.{option}")),
                message,
                if is_bbr3 { &load } else { sim },
            );
        }
        let delay = group.ack.comp_sack_delay;
        if delay.is_some_and(|time| time != COMP_SACK_DELAY) {
            let message = "when a kernel's receiver acknowledges cannot be chosen";
            refuse(at("ack.comp_sack_delay"), message, sim);
        }
        if group.recovery.min_rto < MIN_INTERVAL {
            let message = "a kernel's shortest retransmission timeout is counted in milliseconds";
            refuse(at("recovery.min_rto"), message, "\"1 ms\" or more");
        }
        if asks_for_ecn(group) && group.ecn != EcnFeedback::Classic {
            let message = "the kernel's receiver reports marks by RFC 3168";
            refuse(at("ecn"), message, "ecn = \"classic\"");
        }
        let header = group.header().get();
        if ![HEADER, BARE_HEADER].contains(&header) {
            let message = "the kernel's headers have 52 bytes, or 40 without timestamps";
            refuse(at("header"), message, "header = \"52 B\"");
        } else if group.header()
            != tcp_groups(scenario)
                .next()
                .map_or(group.header(), FlowGroup::header)
        {
            let message = "all flows of a run with a kernel's TCP have timestamps, or none";
            refuse(at("header"), message, "give all flows the same header");
        }
    }
    for (number, event) in scenario.events.iter().enumerate() {
        if let When::Enters { .. } = event.when {
            let message = "a kernel's state is not seen soon enough to act upon it";
            let hint = "give the event a time of the run";
            refuse(format!("events[{number}].when"), message, hint);
        }
    }
    if scenario.sample_interval() < MIN_INTERVAL {
        let message = "a kernel's state is read once in a millisecond at most";
        refuse("run.sample_interval".into(), message, "\"1 ms\" or more");
    }
    wrong
}

fn asks_for_ecn(group: &FlowGroup) -> bool {
    group.cc.options.get("ecn") == Some(&OptionInput::Flag(true))
}

/// The settings that a group requests from the kernel for its path.
pub fn metrics(group: &FlowGroup) -> RouteMetrics {
    let min_rto = group.recovery.min_rto;
    let usual = RecoverySection::default().min_rto;
    RouteMetrics {
        initial_window: Some(group.initial_window.0),
        min_rto_ms: (min_rto != usual)
            .then(|| u32::try_from(min_rto.as_micros() / 1000).unwrap_or(u32::MAX)),
        ecn: asks_for_ecn(group),
    }
}

/// The settings that a run requests from both stacks.
pub fn stack(scenario: &Scenario) -> Stack {
    let groups = || tcp_groups(scenario);
    Stack {
        mtu: u32::try_from(scenario.path.mtu.get()).unwrap_or(u32::MAX),
        timestamps: groups().all(|group| group.header().get() == HEADER),
        window: groups()
            .map(|group| group.receive_window.get())
            .max()
            .unwrap_or(0),
    }
}

/// A counter of /proc/net/netstat: a line of names, then one of numbers.
pub fn counter(table: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix(group));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let place = names
        .split_whitespace()
        .position(|heading| heading == name)?;
    numbers.split_whitespace().nth(place)?.parse().ok()
}

/// TCP settings that belong to a namespace, by their names beneath `/proc/sys/net/ipv4`: those that
/// a scenario requests, and Linux's defaults where the machine may differ.
pub fn settings(stack: &Stack) -> [(&'static str, String); 24] {
    // A socket's buffer counts more than its payload; half of it is window.
    let buffer = stack.window.saturating_mul(2);
    let buffer = buffer.clamp(1 << 20, i32::MAX as u64);
    [
        ("conf/all/rp_filter", "0".to_owned()),
        ("conf/default/rp_filter", "0".to_owned()),
        ("tcp_timestamps", u8::from(stack.timestamps).to_string()),
        ("tcp_rmem", format!("4096 131072 {buffer}")),
        ("tcp_wmem", format!("4096 16384 {}", i32::MAX)),
        ("tcp_no_metrics_save", "1".to_owned()),
        ("tcp_ecn", "2".to_owned()),
        ("tcp_sack", "1".to_owned()),
        ("tcp_dsack", "1".to_owned()),
        ("tcp_window_scaling", "1".to_owned()),
        ("tcp_moderate_rcvbuf", "1".to_owned()),
        ("tcp_recovery", "1".to_owned()),
        ("tcp_early_retrans", "3".to_owned()),
        ("tcp_frto", "2".to_owned()),
        ("tcp_reordering", "3".to_owned()),
        ("tcp_slow_start_after_idle", "1".to_owned()),
        ("tcp_pacing_ss_ratio", "200".to_owned()),
        ("tcp_pacing_ca_ratio", "120".to_owned()),
        ("tcp_min_tso_segs", "2".to_owned()),
        ("tcp_mtu_probing", "0".to_owned()),
        ("tcp_fastopen", "0".to_owned()),
        (
            "tcp_comp_sack_delay_ns",
            COMP_SACK_DELAY.as_nanos().to_string(),
        ),
        ("tcp_comp_sack_slack_ns", "100000".to_owned()),
        ("tcp_comp_sack_nr", "44".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stands_below_its_name() {
        let table = "TcpExt: A TCPLossProbes B\nTcpExt: 1 23 4\nIpExt: TCPLossProbes\nIpExt: 9\n";
        assert_eq!(counter(table, "TcpExt:", "TCPLossProbes"), Some(23));
        assert_eq!(counter(table, "IpExt:", "TCPLossProbes"), Some(9));
        assert_eq!(counter(table, "TcpExt:", "C"), None);
        assert_eq!(counter("TcpExt: A", "TcpExt:", "A"), None);
    }
}
