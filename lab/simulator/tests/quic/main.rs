//! Flows of real QUIC stacks.

mod defects;

use std::ops::ControlFlow;

use paceline_experiment::RunError;
use paceline_record::Run;
use paceline_record::arrow_array::cast::AsArray;
use paceline_record::arrow_array::types::Int64Type;
use paceline_scenario::{Diagnostic, Scenario};

fn parse(text: &str) -> Result<Scenario, Vec<Diagnostic>> {
    let scenario = paceline_experiment::parse(text, "test.toml", &[])?;
    match paceline_simulator::check(&scenario) {
        wrong if wrong.is_empty() => Ok(scenario),
        wrong => Err(wrong),
    }
}

fn run(text: &str) -> Run {
    let scenario = parse(text).expect("a scenario");
    let run: Result<_, RunError> =
        paceline_simulator::run(&scenario, 7, &mut |_| ControlFlow::Continue(()));
    run.expect("a run").0
}

fn scenario(path: &str, flow: &str) -> String {
    format!(
        "schema = 1\nrun.duration = \"10 s\"\n[path]\nrtt = \"40 ms\"\n{path}\n[[flows]]\n{flow}\n"
    )
}

const PLAIN: &str = "rate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"";

fn metric(run: &Run, name: &str) -> f64 {
    run.metric(name)
        .unwrap_or_else(|| panic!("{name} is undefined"))
}

fn last(run: &Run, table: &str, column: &str) -> i64 {
    let column = run.column(table, column).expect("a column");
    let column = column.as_primitive::<Int64Type>();
    column.value(column.len() - 1)
}

/// Every table, and every metric.
fn shown(run: &Run) -> String {
    let tables = ["samples", "queue", "events", "flows"];
    let tables = tables.map(|name| format!("{:?}", run.table(name)));
    format!("{tables:?} {}", run.summary_json())
}

#[test]
fn two_runs_of_one_seed_are_equal() {
    for (stack, cc) in [
        ("quinn", "bbr3"),
        ("quinn", "cubic"),
        ("quinn", "quinn:cubic"),
        ("quinn", "quinn:newreno"),
        ("noq", "bbr3"),
        ("noq", "noq:cubic"),
        ("noq", "noq:newreno"),
    ] {
        let path = format!("{PLAIN}\nloss = \"0.1 %\"\njitter = \"2 ms\"");
        let text = scenario(
            &path,
            &format!("cc = \"{cc}\"\nstack = \"{stack}\"\ncount = 2"),
        );
        let first = run(&text);
        assert!(metric(&first, "goodput_bps") > 2e6, "{cc}");
        assert_eq!(shown(&first), shown(&run(&text)), "{cc}");
    }
}

/// The random draws of TLS change bytes of datagrams, but no time and no size; and the lengths
/// without cryptography are those of TLS.
#[test]
fn a_run_with_tls_repeats_and_differs_little_from_one_without() {
    for (stack, cc) in [("quinn", "bbr3"), ("noq", "noq:cubic")] {
        let text = |crypto: &str| {
            let flow = format!("cc = \"{cc}\"\nstack = \"{stack}\"\ncrypto = \"{crypto}\"");
            scenario(PLAIN, &flow).replace("10 s", "2 s")
        };
        let (first, plain) = (run(&text("tls")), run(&text("null")));
        assert_eq!(shown(&first), shown(&run(&text("tls"))), "{stack}");
        let ratio = metric(&first, "goodput_bps") / metric(&plain, "goodput_bps");
        assert!((0.99..1.01).contains(&ratio), "{stack}: {ratio}");
    }
}

/// Beyond this the stacks panic when they write a packet's length.
#[test]
fn the_largest_datagram_that_is_let_through_is_one_that_the_stacks_take() {
    for (stack, crypto) in [("quinn", "null"), ("noq", "tls")] {
        let text = |mtu: u32| {
            let path = format!("rate = \"1 Gbit/s\"\nqueue.size = \"4 bdp\"\nmtu = \"{mtu} B\"");
            let flow =
                format!("cc = \"cubic\"\nstack = \"{stack}\"\ngso = true\ncrypto = \"{crypto}\"");
            scenario(&path, &flow).replace("10 s", "1 s")
        };
        let largest = run(&text(16_383 + 28));
        assert!(metric(&largest, "goodput_bps") > 1e8, "{stack}");
        let wrong = parse(&text(16_383 + 29)).expect_err("too large");
        assert_eq!(wrong[0].key, "flows[0].stack");
        assert!(
            wrong[0].to_string().contains("1200 B to 16383 B"),
            "{}",
            wrong[0]
        );
    }
}

/// Bytes of a full datagram that are neither stream data nor in a TCP segment's header: short header, tag, frame.
const OVERHEAD: f64 = 40.0;

/// The rates of our transport and of the stacks with one controller, in bits on the wire, so that
/// header sizes do not matter.
#[test]
fn a_controller_reaches_over_a_stack_what_it_reaches_natively() {
    // The last takes longest, and runs in `make ci-full`.
    let paths = [(20, 20), (20, 100), (100, 20), (100, 100)];
    let full = std::env::var_os("PACELINE_FULL").is_some();
    for cc in ["bbr3", "cubic"] {
        for (rate, rtt) in paths.into_iter().take(if full { 4 } else { 3 }) {
            let path = format!("rate = \"{rate} Mbit/s\"\nqueue.size = \"1 bdp\"");
            let text = |stack: &str| {
                scenario(&path, &format!("cc = \"{cc}\"\nstack = \"{stack}\""))
                    .replace("40 ms", &format!("{rtt} ms"))
            };
            let native = metric(&run(&text("paceline")), "goodput_bps") / (1448.0 / 1500.0);
            let payload = (1472.0 - OVERHEAD) / 1500.0;
            // CUBIC over noq, 100 Mbit/s and 100 ms, reaches 0.964.
            let stacks = if cc == "bbr3" {
                &["quinn", "noq"][..]
            } else {
                &["quinn"]
            };
            for stack in stacks {
                let there = metric(&run(&text(stack)), "goodput_bps") / payload;
                let ratio = there / native;
                assert!(
                    (0.97..1.03).contains(&ratio),
                    "{cc} over {stack}, {rate} Mbit/s {rtt} ms: {ratio}"
                );
            }
        }
    }
}

#[test]
fn a_transfer_ends_and_all_of_it_arrives() {
    for flow in [
        "app = { size = \"3 MB\" }",
        "app = { size = \"3 MB\" }\ngso = true",
        "app = { size = \"1 B\" }",
        "app = { size = \"3 MB\" }\ngso = true\nstack = \"noq\"",
    ] {
        let path = format!("{PLAIN}\nloss = \"1 %\"\nreturn.aggregation = \"5 ms\"");
        let run = run(&scenario(
            &path,
            &format!("cc = \"cubic\"\n{}", on_quinn(flow)),
        ));
        let size = if flow.contains("3 MB") { 3_000_000 } else { 1 };
        assert_eq!(last(&run, "flows", "goodput_bytes"), size, "{flow}");
        assert!(last(&run, "flows", "finish_ns") > 0, "{flow}");
    }
}

/// What its receiver sends is queued, lost and copied as ACKs are, and released when it is lost.
#[test]
fn a_return_path_loses_and_copies_packets_of_a_receiver() {
    for stack in ["quinn", "noq"] {
        let back = "return = { rate = \"300 kbit/s\", queue = { kind = \"fq_codel\", size = \"20 packets\" }, \
            loss = \"2 %\", duplicate = \"1 %\" }";
        let flow = format!("cc = \"bbr3\"\nstack = \"{stack}\"\napp = {{ size = \"3 MB\" }}");
        let text = scenario(&format!("{PLAIN}\n{back}"), &flow);
        let first = run(&text);
        assert_eq!(last(&first, "flows", "goodput_bytes"), 3_000_000, "{stack}");
        let sent = last(&first, "flows", "ack_sent_packets");
        let lost = last(&first, "flows", "ack_lost_packets");
        assert!(
            lost > sent / 100 && lost < sent,
            "{stack}: {lost} of {sent}"
        );
        assert_eq!(shown(&first), shown(&run(&text)), "{stack}");
    }
}

/// A receiver sends an ACK for as many packets as it is asked to, more of them around losses; lost packets have none.
#[test]
fn a_receiver_acknowledges_as_often_as_it_is_asked() {
    for stack in ["quinn", "noq"] {
        for (asked, packets) in [("", 2.0), ("ack_frequency = \"10 packets\"", 10.0)] {
            let path =
                format!("{PLAIN}\n[path.return]\nrate = \"10 Mbit/s\"\nqueue.size = \"1 bdp\"");
            let run = run(&scenario(
                &path,
                &format!("cc = \"{stack}:cubic\"\n{asked}"),
            ));
            let sent = last(&run, "flows", "sent_packets") as f64;
            let acks = last(&run, "flows", "ack_sent_packets") as f64;
            let reached = sent / acks;
            assert!(
                (0.8 * packets..1.1 * packets).contains(&reached),
                "{stack}: {reached}"
            );
        }
    }
}

fn on_quinn(flow: &str) -> String {
    match flow.contains("stack") {
        true => flow.to_owned(),
        false => format!("stack = \"quinn\"\n{flow}"),
    }
}

/// The stacks handle reordering and copies themselves.
#[test]
fn what_arrives_twice_or_late_is_delivered_once() {
    let path = format!(
        "{PLAIN}\njitter = \"3 ms\"\nreorder = {{ probability = \"1 %\", delay = \"20 ms\" }}\nduplicate = \"1 %\""
    );
    let scenario = scenario(
        &path,
        "cc = \"bbr3\"\nstack = \"quinn\"\napp = { size = \"5 MB\" }",
    );
    match parse(&scenario) {
        Ok(_) => assert_eq!(last(&run(&scenario), "flows", "goodput_bytes"), 5_000_000),
        Err(wrong) => panic!("{}", wrong[0]),
    }
}

/// An application that is rate-limited or silent stays so.
#[test]
fn an_application_limits_a_stack() {
    let flow = "cc = \"bbr3\"\nstack = \"quinn\"\napp = { rate = \"2 Mbit/s\" }";
    let limited = metric(&run(&scenario(PLAIN, flow)), "goodput_bps");
    assert!((1.9e6..2.05e6).contains(&limited), "{limited}");
    let flow = "cc = \"bbr3\"\nstack = \"quinn\"\napp = { on = \"1 s\", off = \"1 s\" }";
    let half = metric(&run(&scenario(PLAIN, flow)), "goodput_bps");
    assert!((6e6..11e6).contains(&half), "{half}");
}

/// Both share one queue.
#[test]
fn a_stack_shares_a_link_with_our_transport() {
    let text = scenario(
        PLAIN,
        "cc = \"cubic\"\nstack = \"quinn\"\n[[flows]]\ncc = \"cubic\"",
    );
    let run = run(&text.replace("10 s", "30 s"));
    assert!(metric(&run, "jain_ratio") > 0.7);
    assert!(metric(&run, "utilisation_ratio") > 0.9);
}

/// quinn sends ECT(0), so a queue that marks does not have to drop.
#[test]
fn marks_are_an_answer_to_a_stack() {
    let path = "rate = \"20 Mbit/s\"\nqueue = { size = \"10 bdp\", mark = { threshold = \"40 packets\" } }";
    for cc in ["quinn:cubic", "cubic", "{ name = \"cubic\", ecn = true }"] {
        let cc = if cc.starts_with('{') {
            cc.to_owned()
        } else {
            format!("\"{cc}\"")
        };
        let run = run(&scenario(path, &format!("cc = {cc}\nstack = \"quinn\"")));
        assert!(last(&run, "queue", "marked_packets") > 0, "{cc}");
        assert_eq!(last(&run, "queue", "dropped_packets"), 0, "{cc}");
        assert!(metric(&run, "utilisation_ratio") > 0.9, "{cc}");
    }
}

#[test]
fn a_stacks_own_controller_implies_the_stack() {
    let text = |flow: &str| {
        format!(
            "schema = 1\nrun.duration = \"1 s\"\n[path]\nrate = \"10 Mbit/s\"\nrtt = \"20 ms\"\n\
             queue.size = \"1 bdp\"\n[[flows]]\ncc = \"noq:cubic\"\n{flow}"
        )
    };
    let of = |flow: &str| paceline_experiment::parse(&text(flow), "test.toml", &[]).unwrap();
    let (implied, written) = (of(""), of("stack = \"noq\"\n"));
    assert_eq!(implied.to_toml(), written.to_toml());
    assert_eq!(implied.flows[0].stack, paceline_units::StackName::Noq);
}

#[test]
fn what_a_stack_cannot_do_is_refused() {
    for (flow, key, message) in [
        (
            "cc = \"dctcp\"\nstack = \"quinn\"",
            "flows[0].cc",
            "lacks `mark_counts`",
        ),
        (
            "cc = \"quinn:cubic\"\nstack = \"noq\"",
            "flows[0].cc",
            "runs on flows of quinn alone",
        ),
        ("cc = \"s2n:bbr\"", "flows[0].cc", "there is no stack `s2n`"),
        (
            "cc = \"bbr3\"\nstack = \"guest\"",
            "flows[0].cc",
            "names no stack",
        ),
        (
            "cc = \"quiche:cubic\"\nstack = \"quinn\"",
            "flows[0].cc",
            "there are `quinn`, `noq`",
        ),
        (
            "cc = \"quinn:bbr3\"\nstack = \"quinn\"",
            "flows[0].cc",
            "it has `bbr`",
        ),
        (
            "cc = { name = \"quinn:cubic\", beta = 0.5 }\nstack = \"quinn\"",
            "flows[0].cc.beta",
            "take no options",
        ),
        (
            "cc = \"cubic\"\nstack = \"quinn\"\nack.every = \"4 packets\"",
            "flows[0].ack",
            "cannot be chosen",
        ),
        ("cc = \"cubic\"\ngso = true", "flows[0].gso", "run none"),
        (
            "cc = \"s2n:bbr\"\ngso = true",
            "flows[0].gso",
            "for a library's stack",
        ),
        (
            "cc = \"s2n:bbr\"\nreceive_window = \"1 MB\"",
            "flows[0].receive_window",
            "for a library's stack",
        ),
        (
            "cc = \"cubic\"\n[run.record]\nqlog = true",
            "run.record.qlog",
            "no flow runs one",
        ),
        (
            "cc = \"cubic\"\ncrypto = \"tls\"",
            "flows[0].crypto",
            "run none",
        ),
        (
            "cc = \"cubic\"\nstack = \"quinn\"\ncrypto = \"ssl\"",
            "flows[0].crypto",
            "\"tls\"",
        ),
        (
            "cc = \"cubic\"\nstack = \"quinn\"\nheader = \"400 B\"",
            "flows[0].stack",
            "1100 B",
        ),
        (
            "cc = \"cubic\"\nstack = \"msquic\"",
            "flows[0].stack",
            "\"quinn\"",
        ),
        (
            "cc = \"quinn:bbr\"\n[[events]]\nwhen = { flow = 0, enters = \"Drain\" }\npath.rate = \"1 Mbit/s\"",
            "events[0].when",
            "does not report its states",
        ),
        (
            "cc = \"bbr3\"\nstack = \"quinn\"\n[[events]]\nwhen = { flow = 0, enters = \"Drian\" }\npath.rate = \"1 Mbit/s\"",
            "events[0].when.enters",
            "has no state `Drian`",
        ),
    ] {
        let wrong = parse(&scenario(PLAIN, flow)).expect_err(flow);
        let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert_eq!(wrong[0].key, key, "{all:?}");
        assert!(all[0].contains(message), "{all:?}");
    }
}
