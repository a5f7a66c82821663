//! Defects found in BBR implementations of QUIC stacks, each by its name: tested in our controllers
//! over every transport, and in the stacks' own.

use paceline_record::Run;
use paceline_record::arrow_array::Array;
use paceline_record::arrow_array::cast::AsArray;
use paceline_record::arrow_array::types::Int64Type;

use crate::{last, metric, run, scenario};

/// Our BBRv3 over each transport, followed by the stacks' own BBRs.
const OURS: [&str; 3] = [
    "cc = \"bbr3\"",
    "cc = \"bbr3\"\nstack = \"quinn\"",
    "cc = \"bbr3\"\nstack = \"noq\"",
];
const QUINNS: &str = "cc = \"quinn:bbr\"\nstack = \"quinn\"";
const NOQS: &str = "cc = \"noq:bbr3\"\nstack = \"noq\"";

fn ours() -> impl Iterator<Item = &'static str> {
    OURS.into_iter()
}

fn all() -> impl Iterator<Item = &'static str> {
    ours().chain([QUINNS, NOQS])
}

fn ran(duration: &str, path: &str, flow: &str) -> Run {
    run(&scenario(path, flow).replace("10 s", duration))
}

/// A column of the samples of the only flow.
fn samples(run: &Run, column: &str) -> Vec<i64> {
    let table = run.table("samples").expect("samples");
    let column = table.column_by_name(column).expect("a column");
    column.as_primitive::<Int64Type>().values().to_vec()
}

/// Goodput after `from`, in seconds.
fn goodput_after(run: &Run, from: f64) -> f64 {
    let (times, bytes) = (samples(run, "t_ns"), samples(run, "goodput_bytes"));
    let first = times.partition_point(|time| *time < (from * 1e9) as i64);
    let (span, delivered) = (
        times[times.len() - 1] - times[first],
        bytes[bytes.len() - 1] - bytes[first],
    );
    delivered as f64 * 8e9 / span as f64
}

/// quinn: a rate is computed but not enforced, so that the window fills the queue.
#[test]
fn pacing_not_engaged() {
    let path = "rate = \"20 Mbit/s\"\nqueue.size = \"4 bdp\"";
    for flow in ours().chain([NOQS]) {
        let run = ran("5 s", path, flow);
        assert!(metric(&run, "queue_p50_ns") < 10e6, "{flow}");
    }
    // A controller without pacing fills it.
    for flow in ["cc = \"quinn:cubic\"\nstack = \"quinn\"", QUINNS] {
        assert!(
            metric(&ran("5 s", path, flow), "queue_p50_ns") > 25e6,
            "{flow}"
        );
    }
}

/// noq: the initial window over a placeholder of 1 ms is used as the rate, and a flow without
/// samples of its own keeps it for life.
#[test]
fn initial_rate_from_a_1_ms_placeholder() {
    let path = "rate = \"20 Mbit/s\"\nqueue.size = \"20 packets\"";
    let frames = "app = { on = \"33 ms\", off = \"67 ms\", rate = \"6 Mbit/s\" }";
    for flow in ours() {
        let text = format!("{flow}\n{frames}");
        let run = run(&scenario(path, &text).replace("40 ms", "100 ms"));
        // The initial window over 1 ms is 330 Mbit/s with the gain of STARTUP.
        let rate = last(&run, "samples", "pacing_bps");
        assert!(rate < 30_000_000, "{flow}: {rate}");
        assert_eq!(last(&run, "samples", "lost_packets"), 0, "{flow}");
    }
}

/// quiche, lsquic: a flow held back by its pacer counts as application-limited, and its samples are
/// ignored.
#[test]
fn app_limited_under_pacing() {
    for flow in all() {
        let run = ran("5 s", "rate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"", flow);
        let table = run.table("samples").expect("samples");
        let limited = table.column_by_name("app_limited").expect("a column");
        let limited = limited.as_boolean();
        let share = limited.true_count() as f64 / limited.len() as f64;
        assert!(share < 0.15, "{flow}: {share}");
    }
}

/// s2n-quic: whether the window limits the flow is evaluated after the ACK has made room, so that
/// the long-term bound never grows when a path gets more capacity.
#[test]
fn cwnd_limited_read_after_the_ack() {
    let path = "rate = \"10 Mbit/s\"\nqueue.size = \"10 packets\"\n[[events]]\nwhen = \"5 s\"\npath.rate = \"40 Mbit/s\"";
    for flow in ours().chain([QUINNS]) {
        let reached = goodput_after(&ran("12 s", path, flow), 9.0);
        assert!(reached > 30e6, "{flow}: {reached}");
    }
}

/// freenet: a timeout forgets the minimum RTT and the bandwidth, and the window stays at a few packets.
#[test]
fn min_rtt_wiped_on_timeout() {
    let path = "rate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"\n[[events]]\nwhen = \"3 s\"\npath.loss = \"100 %\"\n[[events]]\nwhen = \"5 s\"\npath.loss = \"0 %\"";
    for flow in all() {
        let run = ran("10 s", path, flow);
        let reached = goodput_after(&run, 8.0);
        assert!(reached > 14e6, "{flow}: {reached}");
        assert!(last(&run, "samples", "min_rtt_ns") < 42_000_000, "{flow}");
    }
}

/// picoquic: values below one microsecond or millisecond are truncated to zero, and the window
/// stays at its minimum.
#[test]
fn rtt_below_100_us() {
    let path = "rate = \"1 Gbit/s\"\nqueue.size = \"100 packets\"";
    let reached = |flow| {
        let text = scenario(path, flow).replace("10 s", "100 ms");
        metric(&run(&text.replace("40 ms", "50 us")), "goodput_bps")
    };
    for flow in ours().chain([NOQS]) {
        assert!(reached(flow) > 880e6, "{flow}: {}", reached(flow));
    }
    // quinn's own reaches one third.
    assert!(reached(QUINNS) < 600e6);
}

/// picoquic: a burst sent at one instant gives samples that are too high, or none.
#[test]
fn gso_bursts() {
    let path = "rate = \"200 Mbit/s\"\nqueue.size = \"2 bdp\"\nreturn.aggregation = \"1 ms\"";
    // quinn's own reaches two thirds.
    for flow in ours().chain([NOQS]) {
        let bursts = match flow.contains("stack") {
            true => "gso = true",
            false => "max_burst = \"64 kB\"",
        };
        let text = scenario(path, &format!("{flow}\n{bursts}")).replace("10 s", "1 s");
        let run = run(&text.replace("40 ms", "5 ms"));
        let reached = goodput_after(&run, 0.3);
        assert!(reached > 170e6, "{flow}: {reached}");
    }
}

/// Counters of 32 bits. Over the stacks it takes half a minute, in `make ci-full`.
#[test]
fn four_gibibyte_wrap() {
    let full = std::env::var_os("PACELINE_FULL").is_some();
    for flow in ours().take(if full { OURS.len() } else { 1 }) {
        let path = "rate = \"50 Gbit/s\"\nqueue.size = \"4 bdp\"\nmtu = \"16000 B\"";
        // A quantum in 50 us would be 10 Gbit/s.
        let slack = match flow.contains("stack") {
            true => "timer_slack = \"1 us\"",
            false => "",
        };
        let text = scenario(path, &format!("{flow}\n{slack}")).replace("10 s", "1 s");
        let run = run(&text.replace("40 ms", "1 ms"));
        assert!(last(&run, "samples", "delivered_bytes") > 9 << 29, "{flow}");
        assert!(goodput_after(&run, 0.9) > 45e9, "{flow}");
    }
}

/// Nothing to measure, nothing to divide by; and with losses, timeouts in all three packet-number
/// spaces.
#[test]
fn one_packet_flows() {
    for flow in all().chain([
        "cc = \"reno\"\nstack = \"noq\"",
        "cc = \"cubic\"\nstack = \"quinn\"",
    ]) {
        let one = format!("{flow}\napp = {{ size = \"1 B\" }}");
        let alone = ran("1 s", "rate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"", &one);
        let ended = last(&alone, "flows", "finish_ns");
        assert!((60_000_000..62_000_000).contains(&ended), "{flow}: {ended}");
        let many = format!("{one}\ncount = 20");
        let run = ran(
            "60 s",
            "rate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"\nloss = \"20 %\"",
            &many,
        );
        let table = run.table("flows").expect("flows");
        let ended = table.column_by_name("finish_ns").expect("a column");
        assert_eq!(ended.null_count(), 0, "{flow}");
    }
}

/// Late packets are declared lost. If the stack reports that, the reduction is undone.
#[test]
fn spurious_loss() {
    let path = "rate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"\nreorder = { probability = \"0.1 %\", delay = \"10 ms\" }";
    let reached = |flow: &str| metric(&ran("10 s", path, flow), "goodput_bps");
    let cubic = |flow: &str| reached(&flow.replace("bbr3", "cubic"));
    let [native, quinn, noq] = OURS.map(cubic);
    assert!(native > 18e6 && noq > 18e6, "{native} {noq}");
    // quinn 0.11 does not report it.
    assert!(quinn < 17.5e6, "{quinn}");
    for flow in ours() {
        assert!(reached(flow) > 17.5e6, "{flow}: {}", reached(flow));
    }
}

/// noq: half of the link at 10 ms with a jitter of 5 ms.
#[test]
fn jitter() {
    let path = "rate = \"20 Mbit/s\"\nqueue.size = \"4 bdp\"\njitter = \"5 ms\"";
    for flow in all() {
        let text = scenario(path, flow).replace("40 ms", "10 ms");
        let reached = metric(&run(&text), "goodput_bps");
        assert!(reached > 17.5e6, "{flow}: {reached}");
    }
}

/// noq: the ACK phase has to leave ProbeStopping; while it does not, each round advances the filter
/// of the maximum bandwidth, and the estimate falls in Cruise.
#[test]
fn probe_stopping() {
    let path = "rate = \"100 Mbit/s\"\nqueue.size = \"1 bdp\"";
    let reached = |flow| metric(&ran("20 s", path, flow), "goodput_bps");
    for flow in ours() {
        assert!(reached(flow) > 91e6, "{flow}: {}", reached(flow));
    }
    assert!(reached(NOQS) < 88e6, "{}", reached(NOQS));
}
