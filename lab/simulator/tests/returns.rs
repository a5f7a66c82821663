//! The return path: ACKs are packets that queue, are lost and are counted.

use std::ops::ControlFlow;

use paceline_experiment::Progress;
use paceline_record::Run;
use paceline_record::arrow_array::StringArray;
use paceline_record::arrow_array::cast::AsArray;
use paceline_record::arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use proptest::prelude::*;

fn run(text: &str, seed: u64) -> Run {
    let scenario = paceline_experiment::parse(text, "test.toml", &[]).unwrap_or_else(|wrong| {
        let shown: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        panic!("{}\n{text}", shown.join("\n"))
    });
    let mut few = |so_far: &Progress| match so_far.events > 3_000_000 {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    paceline_simulator::run(&scenario, seed, &mut few)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .0
}

const PATH: &str = "schema = 1\nrun.duration = \"10 s\"\n[path]\nrate = \"20 Mbit/s\"\n\
    rtt = \"40 ms\"\nqueue.size = \"1 bdp\"\n";
const RENO: &str = "[[flows]]\ncc = \"reno\"\n";

fn with(back: &str, flows: &str) -> String {
    format!("{PATH}[path.return]\n{back}\n{flows}")
}

fn metric(run: &Run, name: &str) -> f64 {
    run.metric(name)
        .unwrap_or_else(|| panic!("{name} is undefined"))
}

/// A column of numbers, of all rows or of one link's.
fn ints(run: &Run, table: &str, column: &str, link: Option<u32>) -> Vec<i64> {
    let table = run.table(table).unwrap();
    let values = table.column_by_name(column).unwrap();
    let values = values.as_primitive::<Int64Type>().values();
    let links = link.map(|_| {
        let links = table.column_by_name("link").unwrap();
        links.as_primitive::<UInt32Type>().values()
    });
    let of_link = |row: &usize| links.is_none_or(|links| Some(links[*row]) == link);
    let rows = (0..values.len()).filter(of_link);
    rows.map(|row| values[row]).collect()
}

fn last(run: &Run, column: &str, link: u32) -> i64 {
    *ints(run, "queue", column, Some(link)).last().unwrap()
}

fn count(run: &Run, column: &str) -> i64 {
    ints(run, "flows", column, None).iter().sum()
}

#[test]
fn an_empty_return_direction_only_counts() {
    let (none, empty) = (format!("{PATH}{RENO}"), with("", RENO));
    let (none, empty) = (run(&none, 1), run(&empty, 1));
    assert_eq!(
        format!("{:?}", none.table("samples")),
        format!("{:?}", empty.table("samples"))
    );
    let names: Vec<_> = empty.info().links.iter().map(|link| &link.name).collect();
    assert_eq!(names, ["bottleneck", "bottleneck return"]);
    assert_eq!(empty.info().links[1].return_of, Some(0));
    assert!(none.column("flows", "ack_sent_packets").is_none());
    assert_eq!(count(&empty, "ack_lost_packets"), 0);
    // The first 16 packets have an ACK each, and every second one later.
    let sent = count(&empty, "sent_packets");
    let acks = count(&empty, "ack_sent_packets");
    assert!(
        (sent / 2..sent / 2 + 500).contains(&acks),
        "{acks} for {sent}"
    );
    assert_eq!(last(&empty, "offered_packets", 1), acks);
    // 52 bytes each, and more with SACK blocks.
    assert!(last(&empty, "delivered_bytes", 1) >= 52 * (acks - 40));
}

#[test]
fn an_ack_takes_its_time_on_a_slow_return_path() {
    // 52 bytes at 100 kbit/s take 4.16 ms.
    let flow = "[[flows]]\ncc = \"reno\"\napp = { size = \"1000 B\" }\n";
    let quick = run(&format!("{PATH}{flow}"), 1);
    let slow = with("rate = \"100 kbit/s\"\nqueue.size = \"10 packets\"", flow);
    let slow = run(&slow, 1);
    let completion = |run: &Run| ints(run, "flows", "finish_ns", None)[0];
    // The data waits for the SYN-ACK.
    assert_eq!(completion(&slow) - completion(&quick), 4_160_000);
    let rtts = |run: &Run| *ints(run, "samples", "rtt_ns", None).last().unwrap();
    assert_eq!(rtts(&slow) - rtts(&quick), 4_160_000);
}

#[test]
fn the_rate_of_acks_limits_a_download() {
    // 240 ACKs of 52 bytes a second, each for two packets of 1448 bytes. In slow start, which nothing
    // ends, each lets four go: 11.1 Mbit/s.
    let acks = 100e3 / 8.0 / 52.0;
    let most = acks * 4.0 * 1448.0 * 8.0;
    let slow = with("rate = \"100 kbit/s\"\nqueue.size = \"1 MB\"", RENO);
    let slow = run(&slow.replace("10 s", "60 s"), 1);
    let goodput = metric(&slow, "goodput_bps");
    assert!((0.95 * most..1.01 * most).contains(&goodput), "{goodput}");
    assert_eq!(count(&slow, "ack_lost_packets"), 0);
    let delivered = last(&slow, "delivered_bytes", 1);
    assert!((740_000..=750_000).contains(&delivered), "{delivered}");
    // With a short queue ACKs are lost; those that come through cover more.
    let short = with("rate = \"100 kbit/s\"\nqueue.size = \"5 packets\"", RENO);
    let short = run(&short.replace("10 s", "60 s"), 1);
    let goodput = metric(&short, "goodput_bps");
    assert!(goodput > 1.4 * most, "{goodput}");
    assert!(count(&short, "ack_lost_packets") > 1000);
}

/// ACKs wait for up to two seconds, and a receive window that follows the data of a round trip has to
/// follow that of so long a one.
#[test]
fn the_receive_window_follows_a_round_trip_in_which_acks_wait() {
    let flow = RENO.to_owned() + "ack = \"linux\"\n";
    let slow = with(
        "rate = \"200 kbit/s\"\nqueue.size = \"1000 packets\"",
        &flow,
    );
    let most = ints(&run(&slow, 1), "samples", "in_flight_bytes", None);
    assert!(
        most.iter().max() > Some(&1_500_000),
        "{:?}",
        most.iter().max()
    );
}

#[test]
fn lost_acks_are_counted_by_cause_and_flow() {
    let flows = format!("{RENO}{RENO}");
    let lossy = run(&with("loss = \"5 %\"", &flows), 1);
    let (sent, lost) = (
        count(&lossy, "ack_sent_packets") as f64,
        count(&lossy, "ack_lost_packets") as f64,
    );
    assert!((0.045..0.055).contains(&(lost / sent)), "{lost} of {sent}");
    // Those that are lost but have not left the link are counted by the flow only.
    let dropped = last(&lossy, "dropped_packets", 1);
    assert!((0..5).contains(&(lost as i64 - dropped)));
    assert!(metric(&lossy, "utilisation_ratio") > 0.9);
}

#[test]
fn a_filter_keeps_the_newest_acks() {
    // 200 kbit/s carry 480 ACKs of 52 bytes a second; a full link would need 863.
    let back = |more: &str| {
        let flow = format!("rate = \"200 kbit/s\"\nqueue.size = \"100 packets\"\n{more}");
        run(&with(&flow, RENO).replace("10 s", "30 s"), 1)
    };
    let acks = |run: &Run| {
        ["sent", "lost", "filtered"].map(|fate| count(run, &format!("ack_{fate}_packets")))
    };
    let [plain, cake, most] = [
        "",
        "ack_filter = \"cake\"",
        "ack_filter = \"cake-aggressive\"",
    ]
    .map(back);
    let delay = |run: &Run| metric(run, "return_queue_p50_ns") / 1e6;
    // The queue is full of ACKs, each of 2.08 ms: 100 wait.
    assert!((207.0..210.0).contains(&delay(&plain)), "{}", delay(&plain));
    assert!(
        acks(&plain)[1] > 1000 && acks(&plain)[2] == 0,
        "{:?}",
        acks(&plain)
    );
    // At most two or three wait, and nothing else is lost.
    for (run, waiting) in [(&cake, 3.0), (&most, 2.0)] {
        assert!(delay(run) < waiting * 2.08, "{}", delay(run));
        let [sent, lost, filtered] = acks(run);
        assert_eq!(lost, 0);
        assert!(
            (0.3..0.6).contains(&(filtered as f64 / sent as f64)),
            "{filtered} of {sent}"
        );
        // They are drops of the link, which delivers the others.
        assert_eq!(last(run, "dropped_packets", 1), filtered);
        assert!(metric(run, "goodput_bps") > 1.2 * metric(&plain, "goodput_bps"));
    }
}

/// An early signal decides first: the ACK that goes makes room for one that stays.
#[test]
fn no_ack_goes_for_one_that_the_queue_drops() {
    for (kind, more) in [
        (
            "droptail",
            ", red = { min = \"3 packets\", max = \"9 packets\", probability = \"10 %\" }",
        ),
        ("pie", ""),
    ] {
        let back = format!(
            "rate = \"200 kbit/s\"\nack_filter = \"cake\"\n\
             queue = {{ kind = \"{kind}\", size = \"100 packets\"{more} }}"
        );
        let text = with(&back, &format!("{RENO}{UP}"));
        let text = text.replace(
            "run.duration = \"10 s\"",
            "run.record.packets = true\nrun.duration = \"60 s\"",
        );
        let run = run(&text, 1);
        let table = run.table("packets").unwrap();
        let kinds = table.column_by_name("kind").unwrap();
        let kinds = kinds
            .as_dictionary::<Int32Type>()
            .downcast_dict::<StringArray>();
        let times = ints(&run, "packets", "t_ns", None);
        let at = |of: &str| -> Vec<i64> {
            let rows = kinds.unwrap().into_iter().zip(&times);
            rows.filter(|(kind, _)| *kind == Some(of))
                .map(|(_, at)| *at)
                .collect()
        };
        let (gone, dropped) = (at("ack-filter"), at("ack-drop"));
        assert!(
            gone.len() > 50 && dropped.len() > 20,
            "{kind} {} {}",
            gone.len(),
            dropped.len()
        );
        assert!(gone.iter().all(|at| !dropped.contains(at)), "{kind}");
    }
}

/// A link filters copies, too.
#[test]
fn a_copy_is_an_ack() {
    let far = "[[links]]\nname = \"far\"\nrate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"\n\
        return = { duplicate = \"100 %\" }\n";
    let back = "rate = \"200 kbit/s\"\nqueue.size = \"100 packets\"\nack_filter = \"cake\"";
    let flow = format!("{far}{RENO}route = [\"bottleneck\", \"far\"]\n");
    let run = run(&with(back, &flow), 1);
    let [sent, filtered] =
        ["sent", "filtered"].map(|fate| count(&run, &format!("ack_{fate}_packets")));
    assert_eq!(last(&run, "offered_packets", 2), 2 * sent);
    // Where one of two has gone, the other may go as well; the ACK counts once.
    let gone = last(&run, "dropped_packets", 2);
    assert!(filtered <= sent && gone > sent, "{sent} {filtered} {gone}");
}

#[test]
fn one_of_four_acks_comes_through() {
    // Less than a BDP in flight: nothing is lost, so every ACK only advances.
    let flow = format!("{RENO}receive_window = \"50 kB\"\n");
    let thin = run(&with("ack_thinning = \"4 packets\"", &flow), 1);
    let [sent, filtered] =
        ["ack_sent_packets", "ack_filtered_packets"].map(|name| count(&thin, name));
    assert_eq!(count(&thin, "lost_packets"), 0);
    // The SYN-ACK is no ACK.
    let missing = 3 * (sent - 1) - 4 * filtered;
    assert!(
        (0..4).contains(&-missing) || (0..4).contains(&missing),
        "{filtered} of {sent}"
    );
    assert_eq!(last(&thin, "offered_packets", 1), sent);
    assert_eq!(last(&thin, "dropped_packets", 1), filtered);
    // The first ACK of two packets waits for three more, which come after a loss probe.
    let short = "[[flows]]\ncc = \"reno\"\napp = { size = \"2896 B\" }\n";
    let probes = |more: &str| count(&run(&with(more, short), 1), "tlp_count");
    assert_eq!([probes(""), probes("ack_thinning = \"4 packets\"")], [0, 1]);
}

#[test]
fn events_change_the_return_direction() {
    let event = "[[events]]\nwhen = \"2 s\"\nfor = \"1 s\"\npath.return.loss = \"50 %\"\n\
        [[events]]\nwhen = \"5 s\"\nfor = \"2 s\"\npath.return.rate = \"-50 %\"\n";
    let back = "rate = \"1 Mbit/s\"\nqueue.size = \"40 ms\"";
    let changed = run(&with(back, &format!("{RENO}{event}")), 1);
    let at = |second: usize| {
        let dropped = ints(&changed, "queue", "dropped_packets", Some(1));
        dropped[second * 100]
    };
    assert_eq!(at(2), 0);
    // A packet on its way is counted when it would have arrived.
    assert!(at(3) > 100 && at(5) == at(4), "{} {}", at(3), at(5));
    let rates = ints(&changed, "queue", "rate_bps", Some(1));
    assert_eq!(
        [499, 510, 690, 710].map(|row| rates[row]),
        [1_000_000, 500_000, 500_000, 1_000_000]
    );
    let links = changed.table("events").unwrap();
    let links = links.column_by_name("link").unwrap();
    assert!(
        links
            .as_primitive::<UInt32Type>()
            .iter()
            .flatten()
            .all(|link| link == 1)
    );
}

#[test]
fn hosts_hold_acks_before_the_return_link() {
    let host = "host = { ack = \"3 ms\", ack_receive = \"2 ms\" }\n";
    let text = with("rate = \"100 kbit/s\"\nqueue.size = \"10 packets\"", RENO);
    let delayed = run(&format!("{text}{host}app = {{ size = \"1000 B\" }}\n"), 1);
    let rtt = *ints(&delayed, "samples", "rtt_ns", None).last().unwrap();
    // 40 ms, 0.42 ms for 1052 bytes at 20 Mbit/s, 3 ms in the receiver and 4.16 ms for 52 bytes at 100
    // kbit/s; not the 2 ms in the sender, by the NIC's clock.
    assert_eq!(rtt, 40_000_000 + 420_800 + 3_000_000 + 4_160_000);
    let completion = ints(&delayed, "flows", "finish_ns", None)[0];
    let slow = run(&format!("{text}app = {{ size = \"1000 B\" }}\n"), 1);
    let without = ints(&slow, "flows", "finish_ns", None)[0];
    assert_eq!(completion - without, 5_000_000);
}

const UP: &str = "[[flows]]\ncc = \"reno\"\ndirection = \"up\"\n";

/// Goodput of each flow, in Mbit/s.
fn goodputs(run: &Run) -> Vec<f64> {
    let metrics = run.flows().iter().map(|flow| flow.metrics.iter());
    let goodput = metrics.map(|mut all| all.find(|m| m.name == "goodput_bps").unwrap());
    goodput
        .map(|goodput| goodput.value.unwrap() / 1e6)
        .collect()
}

#[test]
fn an_upload_fills_the_return_link() {
    let back = "rate = \"2 Mbit/s\"\nqueue.size = \"1 bdp\"";
    let up = run(&with(back, UP), 1);
    let most = 2.0 * 1448.0 / 1500.0;
    let goodput = goodputs(&up)[0];
    assert!((0.9 * most..most).contains(&goodput), "{goodput}");
    // Its ACKs cross the link itself, and nothing else does but the SYN-ACK, which counts as one.
    assert_eq!(
        last(&up, "offered_packets", 0),
        count(&up, "ack_sent_packets")
    );
    assert_eq!(
        last(&up, "offered_packets", 1),
        count(&up, "sent_packets") + 1
    );
    assert_eq!(up.info().links[1].flows, [0]);
    // The data takes half of the round trip, whatever its direction.
    let flow = "app = { size = \"1000 B\" }\n";
    let same = with("rate = \"20 Mbit/s\"\nqueue.size = \"1 bdp\"", "");
    let completion = |flows: &str| {
        ints(
            &run(&format!("{same}{flows}"), 1),
            "flows",
            "finish_ns",
            None,
        )[0]
    };
    assert_eq!(
        completion(&format!("{UP}{flow}")),
        completion(&format!("{RENO}{flow}"))
    );
}

#[test]
fn an_upload_kills_a_download_unless_the_return_queue_is_fair() {
    let flows = format!("{RENO}{UP}");
    let both = |queue: &str| {
        let back = format!("rate = \"1 Mbit/s\"\n{queue}");
        let both = run(&with(&back, &flows).replace("10 s", "60 s"), 1);
        assert_eq!(
            last(&both, "offered_packets", 0),
            // Both SYNs, or that of the one and the SYN-ACK of the other.
            ints(&both, "flows", "sent_packets", None)[0]
                + 1
                + ints(&both, "flows", "ack_sent_packets", None)[1]
        );
        (goodputs(&both), metric(&both, "return_queue_p50_ns") / 1e6)
    };
    let (deep, delay) = both("queue.size = \"1000 packets\"");
    assert!(
        deep[0] < 10.0 && deep[1] > 0.7 && delay > 1000.0,
        "{deep:?} {delay}"
    );
    let (fair, delay) = both("queue = { kind = \"fq_codel\", size = \"1000 packets\" }");
    assert!(
        fair[0] > 15.0 && fair[1] > 0.4 && delay < 100.0,
        "{fair:?} {delay}"
    );
}

#[test]
fn every_link_with_a_return_direction_is_crossed_back() {
    let text = "schema = 1\nrun.duration = \"5 s\"\n[path]\nrate = \"20 Mbit/s\"\nrtt = \"40 ms\"\n\
        queue.size = \"1 bdp\"\nreturn = {}\n[[links]]\nname = \"far\"\nrate = \"1 Gbit/s\"\n\
        queue.size = \"1 MB\"\nreturn.loss = \"10 %\"\ndelay = \"5 ms\"\n\
        [[flows]]\ncc = \"reno\"\nroute = [\"bottleneck\", \"far\"]\n\
        [[flows]]\ncc = \"reno\"\nroute = [\"bottleneck\", \"far\"]\nreturn_route = [\"bottleneck\"]\n";
    let links = run(text, 1);
    let names: Vec<_> = links
        .info()
        .links
        .iter()
        .map(|link| link.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["bottleneck", "far", "bottleneck return", "far return"]
    );
    let sent = ints(&links, "flows", "ack_sent_packets", None);
    let lost = ints(&links, "flows", "ack_lost_packets", None);
    assert_eq!(last(&links, "offered_packets", 3), sent[0]);
    assert!(lost[0] > 100 && lost[1] == 0, "{lost:?}");
    // What the far link loses, or still has, does not reach the other.
    let offered = last(&links, "offered_packets", 2);
    assert!((0..50).contains(&(sent[0] + sent[1] - lost[0] - offered)));
    let rtt = ints(&links, "samples", "min_rtt_ns", None);
    let least = *rtt.iter().filter(|rtt| **rtt > 0).min().unwrap();
    assert!((40_000_000..42_000_000).contains(&least), "{least}");
}

const QUEUES: [&str; 6] = [
    "queue.size = \"3 packets\"",
    "queue = { kind = \"codel\", size = \"50 packets\" }",
    "queue = { kind = \"fq_codel\", size = \"50 packets\" }",
    "queue = { kind = \"pie\", size = \"50 packets\" }",
    "queue = { kind = \"dualpi2\", size = \"50 packets\" }",
    "queue = { size = \"20 packets\", red = { min = \"3 packets\", max = \"9 packets\", probability = \"10 %\" } }",
];
const IMPAIRMENTS: [&str; 12] = [
    "",
    "loss = \"5 %\"",
    "loss = { p = \"2 %\", r = \"30 %\" }",
    "duplicate = \"10 %\"",
    "jitter = \"20 ms\"",
    "reorder = { probability = \"10 %\", delay = \"15 ms\" }",
    "aggregation = \"7 ms\"",
    "grant_delay = \"7 ms\"",
    "policer = { rate = \"300 kbit/s\", burst = \"3 kB\" }",
    "ack_thinning = \"3 packets\"",
    "ack_filter = \"cake\"",
    "ack_filter = \"cake-aggressive\"",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens on the return path, each of its packets is accounted for, the download goes
    /// on, and the same seed gives the same record.
    #[test]
    fn packets_are_conserved_in_both_directions(
        kbps in 50u64..2_000,
        queue in prop::sample::select(&QUEUES[..]),
        first in prop::sample::select(&IMPAIRMENTS[..]),
        other in prop::sample::select(&IMPAIRMENTS[..]),
        limited in any::<bool>(),
        host in prop::sample::select(&["", "host = { ack = { mean = \"1 ms\" }, ack_receive = \"1 ms\" }\n"][..]),
        seed in 0u64..1000,
    ) {
        let other = if first.split(' ').next() == other.split(' ').next() { "" } else { other };
        let rate = format!("rate = \"{kbps} kbit/s\"\n{queue}\n");
        let back = format!("{}{first}\n{other}\n", if limited { rate.as_str() } else { "" });
        prop_assume!(limited || !back.contains("ack_filter"));
        // Without a rate nothing would limit an upload.
        let second = if limited { UP } else { RENO };
        let flows = format!("{RENO}{host}{second}{host}[[flows]]\ncc = \"bbr3\"\nstart = \"1 s\"\nrtt = \"70 ms\"\n");
        let text = with(&back, &flows);
        // A link that has lost count of its packets is an error of the run.
        let one = run(&text, seed);
        let (sent, lost) = (count(&one, "ack_sent_packets"), count(&one, "ack_lost_packets"));
        let of = |column: &str| ints(&one, "flows", column, None);
        let (acks, data) = (of("ack_sent_packets"), of("sent_packets"));
        // Both directions: the ACKs of the one and the data of the other, with a SYN or several.
        let (mut down, mut up) = (data[0] + data[2], acks[0] + acks[2]);
        match limited {
            true => (down, up) = (down + acks[1], up + data[1]),
            false => (down, up) = (down + data[1], up + acks[1]),
        }
        let syns = last(&one, "offered_packets", 1) - up;
        prop_assert!((0..=6).contains(&syns), "{} {}", syns, text);
        let syns = last(&one, "offered_packets", 0) - down;
        prop_assert!((0..=12).contains(&syns), "{} {}", syns, text);
        prop_assert!(lost + count(&one, "ack_filtered_packets") <= sent);
        let again = run(&text, seed);
        prop_assert_eq!(one.digest(), again.digest());
        let goodput = ints(&one, "flows", "goodput_bytes", None);
        // An upload through three packets of queue at 50 kbit/s leaves little to anybody.
        prop_assert!(goodput.iter().sum::<i64>() > 10_000, "{:?}\n{}", goodput, text);
    }
}
