//! Reading, writing, defaults, overrides.

use std::path::{Path, PathBuf};

use paceline_scenario::*;
use paceline_units::options::OptionValue;
use paceline_units::{
    App, BurstLoss, Bytes, Comparison, Duration, Frequency, Gain, Loss, Rate, Recovery, Site, Size,
};
use proptest::prelude::*;

static VOCABULARY: Vocabulary = Vocabulary {
    queues: paceline_path::QUEUES,
    early_signals: paceline_path::EARLY_SIGNALS,
};

const FULL: &str = include_str!("full.toml");

fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn parse(text: &str, pairs: &[(&str, &str)]) -> Scenario {
    Scenario::parse(text, "dir/full.toml", &set(pairs), &VOCABULARY).unwrap_or_else(|problems| {
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("{}\n{text}", shown.join("\n"))
    })
}

fn files(folder: &Path, paths: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, paths);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            paths.push(path);
        }
    }
}

#[test]
fn reads_every_key() {
    let scenario = parse(FULL, &[]);
    assert_eq!(scenario.name, "everything");
    assert_eq!(scenario.run.duration, Duration::from_secs(90));
    assert_eq!(scenario.run.compare, ["bbr3", "cubic"]);
    assert!(scenario.run.record.packets);
    assert_eq!(
        scenario.path.link.loss,
        Loss::Independent(Gain::from_millionths(1_000))
    );
    assert_eq!(
        scenario.path.queue.size,
        Size::Bdp {
            millionths: 100_000
        }
    );
    let flow = &scenario.flows[0];
    assert_eq!(flow.cc.name, "bbr3");
    let option = |name: &str| flow.cc.options[name].clone();
    assert_eq!(
        option("startup_pacing_gain"),
        OptionInput::Millionths(2_890_000)
    );
    assert_eq!(option("ecn"), OptionInput::Flag(false));
    assert_eq!(option("rounds"), OptionInput::Integer(-3));
    assert_eq!(option("interval"), OptionInput::Text("5 s".to_owned()));
    assert_eq!(
        (flow.initial_window, flow.ack.every, flow.ack.quick),
        (Packets(4), Packets(1), Packets(0))
    );
    assert_eq!(flow.rtt, Some(Duration::from_millis(80)));
    assert_eq!(flow.ack.comp_sack_delay, Some(Duration::from_millis(1)));
    assert!(flow.ack.pushed && flow.ack.window_growth);
    assert_eq!(flow.max_burst, Some(Bytes::new(64 << 10)));
    assert!(flow.tso_defer);
    assert!(flow.ets && !flow.recovery.tlp);
    assert_eq!(flow.recovery.kind, Recovery::RackPrrCrb);
    assert!(!flow.recovery.f_rto && !flow.recovery.undo && !flow.recovery.limited_transmit);
    assert_eq!(
        scenario.flows[1].app,
        App::OnOff {
            on: Duration::from_secs(1),
            off: Duration::from_secs(2),
            rate: None
        }
    );
    let rate = |index: usize| scenario.events[index].path.as_ref().and_then(|p| p.rate);
    assert_eq!(
        rate(0),
        Some(RateChange::Factor(Gain::from_millionths(900_000)))
    );
    assert_eq!(rate(1), Some(RateChange::Absolute(Rate::ZERO)));
    assert_eq!(
        rate(2),
        Some(RateChange::Factor(Gain::from_millionths(1_500_000)))
    );
    assert_eq!(
        scenario.events[1].path.as_ref().and_then(|p| p.keys.drop),
        Some(Packets(6))
    );
    assert_eq!(
        scenario.events[0].when,
        When::Enters {
            flow: 0,
            state: "Drain".to_owned(),
            nth: 1,
            delay: Duration::ZERO
        }
    );
    let bound = |metric: &str| &scenario.expect[metric];
    assert_eq!(
        (bound("jain_ratio").op, bound("jain_ratio").value),
        (Comparison::AtLeast, 0.95)
    );
    assert_eq!(
        (bound("loss_ratio").op, bound("loss_ratio").value),
        (Comparison::Less, 0.01)
    );
    assert_eq!(bound("rtt_p95_ns").value, 1e8);
    assert_eq!(bound("goodput_bps").value, 4e7);
    assert_eq!(bound("queue_max_bytes").value, 250e3);
    let holds = |metric: &str, value| bound(metric).op.holds(value, bound(metric).value);
    assert!(holds("loss_ratio", 0.009) && !holds("loss_ratio", 0.01));
    assert!(!holds("jain_ratio", f64::NAN));
}

#[test]
fn fills_in_the_defaults() {
    let text = "schema = 1\nrun.duration = \"60 s\"\n[path]\nrate = \"50 Mbit/s\"\nrtt = \"40 ms\"\n\
                queue.size = \"1 bdp\"\n[[flows]]\ncc = \"bbr3\"\n";
    let scenario = parse(text, &[]);
    assert_eq!(scenario.name, "full");
    assert_eq!((scenario.run.seed, scenario.run.repeats), (1, 1));
    assert_eq!(scenario.sample_interval(), Duration::from_millis(10));
    assert_eq!(scenario.path.queue.kind.name, "droptail");
    assert_eq!(scenario.path.mtu, Bytes::new(1500));
    assert_eq!(scenario.path.link.loss, Loss::NONE);
    let flow = &scenario.flows[0];
    assert_eq!((flow.count, flow.initial_window), (1, Packets(10)));
    assert_eq!(flow.app, App::Bulk);
    assert_eq!((flow.ack.every, flow.ack.quick), (Packets(2), Packets(16)));
    assert_eq!(flow.ack.delay, Duration::from_millis(40));
    assert_eq!(flow.recovery.min_rto, Duration::from_millis(200));
    assert!(flow.recovery.tlp && !flow.ets);
    assert_eq!(flow.receive_window, Bytes::new(1 << 30));
    assert_eq!(flow.header, Some(Bytes::new(52)));
    assert_eq!((flow.stop, flow.rtt, flow.max_burst), (None, None, None));
    // A million rows are 10 000 s of one flow at 10 ms; more flows need a longer interval.
    let many = parse(text, &[("flows[0].count", "500")]);
    assert_eq!(many.sample_interval(), Duration::from_millis(30));
    // The resolved file contains the complete scenario, with the same meaning.
    let resolved = scenario.to_toml();
    for line in [
        "seed = 1",
        "mtu = \"1500 B\"",
        "initial_window = \"10 packets\"",
        "every = \"2 packets\"",
    ] {
        assert!(resolved.contains(line), "{line}\n{resolved}");
    }
}

const KINDS: [&str; 5] = ["droptail", "codel", "fq_codel", "pie", "dualpi2"];

#[test]
fn each_kind_of_queue_has_the_defaults_of_its_rfc_and_of_the_schema() {
    let schema: serde_json::Value = serde_json::from_str(&schema_json(&VOCABULARY)).expect("JSON");
    let forms = schema["$defs"]["Queue"]["anyOf"].as_array().expect("forms");
    assert_eq!(forms.len(), KINDS.len());
    for (kind, form) in KINDS.iter().zip(forms) {
        let text = format!("{{ kind = \"{kind}\", size = \"100 packets\" }}");
        let scenario = parse(FULL, &[("path.queue", &text)]);
        let again = parse(&scenario.to_toml(), &[]);
        assert_eq!(again.path.queue, scenario.path.queue);
        let written = serde_json::to_value(&scenario.path.queue).expect("JSON");
        assert_eq!(written["kind"], *kind);
        let properties = form["properties"].as_object().expect("properties");
        assert_eq!(properties["kind"]["const"], *kind);
        for (key, value) in written.as_object().expect("a table") {
            if !["kind", "size"].contains(&key.as_str()) {
                assert_eq!(properties[key]["default"], *value, "{kind}.{key}");
            }
        }
        let text = format!("{{ kind = \"{kind}\", size = \"1 bdp\", zz = 1 }}");
        let wrong = Scenario::parse(FULL, "x", &set(&[("path.queue", &text)]), &VOCABULARY);
        assert_eq!(wrong.expect_err(kind)[0].kind, Kind::UnknownKey);
    }
    let text = "{ kind = \"pie\", size = \"100 ms\", alpha = \"0.25 Hz\", target = \"20 ms\" }";
    let pie = parse(FULL, &[("path.queue", text)]).path.queue.kind;
    let option = |name: &str| pie.options.iter().find(|(known, _)| *known == name);
    for (name, value) in [
        (
            "alpha",
            OptionValue::Frequency(Frequency::from_millionths(250_000)),
        ),
        (
            "beta",
            OptionValue::Frequency(Frequency::from_millionths(1_250_000)),
        ),
        ("target", OptionValue::Duration(Duration::from_millis(20))),
        ("update", OptionValue::Duration(Duration::from_millis(15))),
    ] {
        assert_eq!(option(name), Some(&(name, value)));
    }
}

#[test]
fn loss_is_a_share_or_comes_in_bursts() {
    let loss = |text: &str| parse(FULL, &[("path.loss", text)]).path.link.loss;
    assert_eq!(
        loss("2 %"),
        Loss::Independent(Gain::from_millionths(20_000))
    );
    let burst = BurstLoss {
        p: Gain::from_millionths(10_000),
        r: Gain::from_millionths(200_000),
        good: Gain::default(),
        bad: Gain::ONE,
    };
    let text = "{ p = \"1 %\", r = \"20 %\" }";
    assert_eq!(loss(text), Loss::Burst(burst));
    let scenario = parse(FULL, &[("path.loss", text)]);
    assert_eq!(
        parse(&scenario.to_toml(), &[]).path.link.loss,
        scenario.path.link.loss
    );
}

#[test]
fn a_queue_size_in_bytes() {
    let site = Site {
        rate: Rate::from_bps(50_000_000),
        rtt: Duration::from_millis(40),
        mtu: Bytes::new(1500),
    };
    let bytes = |size: Size| size.to_bytes(&site).get();
    assert_eq!(
        bytes(Size::Bdp {
            millionths: 1_000_000
        }),
        250_000
    );
    assert_eq!(
        bytes(Size::Bdp {
            millionths: 100_000
        }),
        25_000
    );
    assert_eq!(
        bytes(Size::Bdp {
            millionths: 100_000_000
        }),
        25_000_000
    );
    assert_eq!(bytes(Size::Packets(165)), 247_500);
    assert_eq!(bytes(Size::Time(Duration::from_millis(4))), 25_000);
    assert_eq!(bytes(Size::Bytes(Bytes::new(99_999))), 99_999);
    // Never too small for a packet.
    assert_eq!(bytes(Size::Bdp { millionths: 1 }), 1500);
}

#[test]
fn overrides_replace_values() {
    let trace = parse(FULL, &[("path.rate.trace", "a.trace"), ("events", "[]")]);
    // A trace on the command line is relative to the current folder; one in the file is relative to
    // the file.
    let files = |scenario: &Scenario| -> Vec<_> { scenario.traces().collect() };
    let known = |key: &str, file: &str| (format!("{key}.rate.trace"), PathBuf::from(file));
    assert_eq!(files(&trace), [known("path", "a.trace")]);
    let text = FULL.replace("rate = \"50 Mbit/s\"", "rate = { trace = \"b.trace\" }");
    let beside = parse(&text, &[("events", "[]")]);
    assert_eq!(files(&beside), [known("path", "dir/b.trace")]);
    let both = [
        ("links[0].return.rate", "{ trace = \"c.trace\" }"),
        ("events", "[]"),
    ];
    let both = parse(&text, &both);
    let back = known("links[0].return", "c.trace");
    assert_eq!(files(&both), [known("path", "dir/b.trace"), back]);
    assert_eq!(files(&parse(FULL, &[])), []);

    let scenario = parse(
        FULL,
        &[
            ("run.seed", "7"),
            ("run.duration", "100 s"),
            ("run.record.packets", "false"),
            ("run.compare", "[]"),
            ("flows.1.cc", "reno"),
            ("flows[1].cc.paced", "true"),
            ("flows[0].cc.startup_pacing_gain", "2.77"),
            ("flows[0].ack", "{ every = \"3 packets\" }"),
            ("flows[1].start", "\"2 s\""),
            ("name", "another"),
        ],
    );
    assert_eq!(
        (scenario.run.seed, scenario.run.duration),
        (7, Duration::from_secs(100))
    );
    assert!(!scenario.run.record.packets && scenario.run.compare.is_empty());
    assert_eq!(scenario.flows[1].cc.name, "reno");
    assert_eq!(
        scenario.flows[1].cc.options["paced"],
        OptionInput::Flag(true)
    );
    assert_eq!(
        scenario.flows[0].cc.options["startup_pacing_gain"],
        OptionInput::Millionths(2_770_000)
    );
    assert_eq!(scenario.flows[0].ack.every, Packets(3));
    assert_eq!(scenario.flows[0].ack.quick, Packets(16));
    assert_eq!(scenario.flows[1].start, Duration::from_secs(2));
    assert_eq!(scenario.name, "another");
}

#[test]
fn the_resolved_file_says_the_same() {
    let scenario = parse(FULL, &[]);
    assert_eq!(parse(&scenario.to_toml(), &[]), scenario);
    // And differences are detected.
    assert_ne!(parse(FULL, &[("run.seed", "9")]), scenario);
}

#[test]
fn the_committed_scenarios_are_valid_and_say_why_they_exist() {
    let mut paths = Vec::new();
    files(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/scenarios")),
        &mut paths,
    );
    assert!(paths.len() >= 13, "{paths:?}");
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a file");
        let scenario = Scenario::parse(&text, &path.to_string_lossy(), &[], &VOCABULARY)
            .unwrap_or_else(|problems| panic!("{problems:?}"));
        assert!(
            scenario
                .about
                .as_ref()
                .is_some_and(|about| about.len() > 40),
            "{path:?}"
        );
        // The written values are the values that run: one point of a sweep.
        let mut point = scenario.clone();
        point.sweep = None;
        assert_eq!(parse(&scenario.to_toml(), &[]), point, "{path:?}");
        for (_, trace) in scenario.traces() {
            assert!(trace.is_file(), "{trace:?}");
        }
    }
}

#[test]
fn the_committed_trace_follows_its_formula() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/scenarios/bbr3/traces/steps.trace"
    );
    let text = std::fs::read_to_string(path).expect("the trace");
    let read: Vec<u64> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.parse().expect("milliseconds"))
        .collect();
    let formula: Vec<u64> = [1000_u64, 500, 2000, 250]
        .into_iter()
        .zip(0_u64..)
        .flat_map(|(n, s)| (1..=n).map(move |k| 1000 * s + (1000 * k).div_ceil(n)))
        .collect();
    assert_eq!(read, formula);
}

#[test]
fn the_committed_schema_is_the_types() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/scenario.schema.json"
    );
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == schema_json(&VOCABULARY),
        "docs/reference/scenario.schema.json is stale; write it anew with\n  \
         make reference"
    );
}

/// The schema and the reader know the same keys, require the same ones and have the same defaults.
#[test]
fn the_schema_agrees_with_the_reader() {
    let schema: serde_json::Value = serde_json::from_str(&schema_json(&VOCABULARY)).expect("JSON");
    let defs = &schema["$defs"];
    let minimal = "schema = 1\nrun.duration = \"60 s\"\n[path]\nrate = \"50 Mbit/s\"\nrtt = \"40 ms\"\n\
                   queue.size = \"1 bdp\"\n[[flows]]\ncc = \"bbr3\"\n[[links]]\nname = \"nic\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 bdp\"\n";
    let resolved: toml::Table = toml::from_str(&parse(minimal, &[]).to_toml()).expect("TOML");
    let resolved = serde_json::to_value(resolved).expect("JSON");
    for (section, value, prefix) in [
        ("RunSection", &resolved["run"], "run"),
        ("RecordSection", &resolved["run"]["record"], "run.record"),
        ("PathSection", &resolved["path"], "path"),
        ("Queue", &resolved["path"]["queue"], "path.queue"),
        ("FlowGroup", &resolved["flows"][0], "flows[0]"),
        ("LinkSection", &resolved["links"][0], "links[0]"),
        ("AckPolicy", &resolved["flows"][0]["ack"], "flows[0].ack"),
        (
            "RecoverySection",
            &resolved["flows"][0]["recovery"],
            "flows[0].recovery",
        ),
    ] {
        // A queue has a form for each kind; the first is that of the default.
        let form = match section {
            "Queue" => &defs[section]["anyOf"][0],
            _ => &defs[section],
        };
        let properties = form["properties"].as_object().expect("properties");
        let required = form["required"].as_array();
        for (key, property) in properties {
            let path = format!("{prefix}.{key}");
            // The reader knows it: a value of the wrong type is not an unknown key.
            let problems =
                Scenario::parse(minimal, "x", &set(&[(&path, "{ zz = { } }")]), &VOCABULARY)
                    .expect_err(&path);
            let unknown = |p: &Diagnostic| p.kind == Kind::UnknownKey && p.key == path;
            assert!(!problems.iter().any(unknown), "{path}");
            let needed = required.is_some_and(|list| list.iter().any(|name| name == key));
            if let Some(default) = property.get("default")
                && let Some(written) = value.get(key)
            {
                assert_eq!(default, written, "{path}");
                assert!(!needed, "{path}");
            }
        }
        for key in value.as_object().expect("a table").keys() {
            assert!(properties.contains_key(key), "{section}.{key}");
        }
    }
}

#[test]
fn a_recovery_is_its_kind_or_a_table() {
    for kind in [
        "rack-prr",
        "rack-prr-crb",
        "rack-prr-ssrb",
        "rack",
        "sack",
        "newreno",
    ] {
        let text = format!("\"{kind}\"");
        let table = format!("{{ kind = \"{kind}\" }}");
        let recovery = |value: &str| {
            let scenario = parse(FULL, &[("flows[0].recovery", value)]);
            let again = parse(&scenario.to_toml(), &[]);
            assert_eq!(again.flows[0].recovery, scenario.flows[0].recovery);
            scenario.flows[0].recovery.clone()
        };
        assert_eq!(recovery(&text), recovery(&table));
        let written = serde_json::to_value(recovery(&text).kind).expect("JSON");
        assert_eq!(written, kind);
    }
}

#[test]
fn acknowledgments_have_a_name_or_a_table() {
    let ack = |value: &str| {
        let scenario = parse(FULL, &[("flows[0].ack", value)]);
        let again = parse(&scenario.to_toml(), &[]);
        assert_eq!(again.flows[0].ack, scenario.flows[0].ack);
        scenario.flows[0].ack.clone()
    };
    let linux = r#"{ comp_sack_delay = "1 ms", pushed = true, window_growth = true }"#;
    assert_eq!(ack("\"linux\""), ack(linux));
    assert_eq!(ack("\"delayed\""), ack("{}"));
    assert_ne!(ack("\"linux\""), ack("{}"));
}

fn quantity() -> impl Strategy<Value = String> {
    (
        "[0-9]{1,6}(\\.[0-9]{1,3})?",
        "ns|us|ms|s|B|kB|MiB|bit/s|Mbit/s|bdp|packets|%|x|",
    )
        .prop_map(|(number, unit)| format!("{number} {unit}"))
}

/// Plausible values for keys that take text, numbers or tables; most of them are valid somewhere.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        quantity(),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        Just("true".to_owned()),
        Just("{ on = \"1 s\", off = \"300 ms\", rate = \"3 Mbit/s\" }".to_owned()),
        Just("{ size = \"10 MB\" }".to_owned()),
        Just("[\"a\", \"b\"]".to_owned()),
        ".{0,20}",
    ]
}

const KEYS: &[&str] = &[
    "name",
    "run.duration",
    "run.seed",
    "run.repeats",
    "run.sample_interval",
    "run.compare",
    "run.record.packets",
    "path.rate",
    "path.rtt",
    "path.queue.size",
    "path.link.loss",
    "path.link.loss.p",
    "path.queue.kind",
    "path.queue.target",
    "path.queue.alpha",
    "path.mtu",
    "path.jitter",
    "path.policer.rate",
    "path.queue.mark.threshold",
    "links[0].rate",
    "links[0].queue.red.min",
    "flows[0].route",
    "flows[0].cc",
    "flows[0].cc.option",
    "flows[0].count",
    "flows[0].start",
    "flows[0].start_jitter",
    "flows[0].stagger",
    "flows[0].stop",
    "flows[0].rtt",
    "flows[0].app",
    "flows[0].initial_window",
    "flows[0].ack.every",
    "flows[0].ack.delay",
    "flows[0].ack.comp_sack_delay",
    "flows[0].ack.pushed",
    "flows[0].ack.window_growth",
    "flows[0].recovery.min_rto",
    "flows[0].receive_window",
    "flows[0].header",
    "flows[0].max_burst",
    "flows[0].tso_defer",
    "flows[0].label",
    "events[0].when.delay",
    "events[1].path.rate",
    "events[1].path.rtt",
    "events[2].flow.app",
    "expect.metric",
    "about",
    "source",
    "schema",
];

proptest! {
    #[test]
    fn no_text_makes_it_panic(text: String) {
        if let Err(problems) = Scenario::parse(&text, "x.toml", &[], &VOCABULARY) {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(!problem.to_string().is_empty());
            }
        }
    }

    /// A corrupted file is still read or shown as wrong, and a scenario that was read can be
    /// written.
    #[test]
    fn a_spoiled_file_does_not_make_it_panic(
        at in any::<prop::sample::Index>(),
        length in 0_usize..40,
        insert in "[ -~\n\t\u{0}µ漢]{0,12}",
    ) {
        let places: Vec<usize> = FULL.char_indices().map(|(place, _)| place).collect();
        let from = places[at.index(places.len())];
        let to = FULL[from..].char_indices().map(|(i, _)| from + i).nth(length).unwrap_or(FULL.len());
        let text = format!("{}{insert}{}", &FULL[..from], &FULL[to..]);
        match Scenario::parse(&text, "full.toml", &[], &VOCABULARY) {
            Ok(scenario) => {
                let again = Scenario::parse(&scenario.to_toml(), "full.toml", &[], &VOCABULARY);
                prop_assert_eq!(again.map_err(|p| p.len()), Ok(scenario));
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(problem.to_string().contains("full.toml"));
                }
            }
        }
    }

    /// Whatever is set, the resolved file means the same.
    #[test]
    fn what_is_set_survives_writing(
        pairs in prop::collection::vec((prop::sample::select(KEYS), value()), 1..4),
    ) {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        if let Ok(scenario) = Scenario::parse(FULL, "full.toml", &set(&pairs), &VOCABULARY) {
            let again = Scenario::parse(&scenario.to_toml(), "full.toml", &[], &VOCABULARY);
            prop_assert_eq!(again.map_err(|p| p.len()), Ok(scenario));
        }
    }

    #[test]
    fn no_override_makes_it_panic(key in "[a-z0-9.\\[\\]]{0,30}", value: String) {
        let _ = Scenario::parse(FULL, "full.toml", &[(key, value)], &VOCABULARY);
    }
}

fn points(over: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let text =
        format!("{FULL}\n[sweep]\n[sweep.over]\n{over}\n").replace("compare = [", "# compare = [");
    let sweep = parse(&text, &[]).sweep.expect("a sweep");
    let axes = sweep.axes.into_iter();
    axes.map(|axis| (axis.keys, axis.points.into_iter().map(|p| p.name).collect()))
        .collect()
}

#[test]
fn a_sweep_has_its_axes_in_the_order_of_the_file() {
    let over = "path.rtt = [\"1 ms\", \"2 ms\"]\n\
                \"flows.0.cc, flows[1].cc\" = [[\"bbr3\", \"reno\"], \"cubic\"]\n\
                path.link.loss = [\"1 %\"]\n\
                flows.0.count = { from = 2, to = 8, step = 3 }";
    let own = |keys: &[&str], names: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        (owned(keys), owned(names))
    };
    assert_eq!(
        points(over),
        [
            own(&["path.rtt"], &["1 ms", "2 ms"]),
            own(&["flows.0.cc", "flows.1.cc"], &["bbr3, reno", "cubic"]),
            own(&["path.link.loss"], &["1 %"]),
            own(&["flows.0.count"], &["2", "5", "8"]),
        ]
    );
}

#[test]
fn ranges_are_worked_out_as_they_are_shown() {
    let names = |range: &str| points(&format!("path.rtt = {{ {range} }}")).remove(0).1;
    assert_eq!(
        names("from = \"10 ms\", to = \"40 ms\", step = \"10 ms\""),
        ["10 ms", "20 ms", "30 ms", "40 ms"]
    );
    assert_eq!(
        names("from = \"0.1 s\", to = \"0.7 s\", step = \"0.2 s\""),
        ["0.1 s", "0.3 s", "0.5 s", "0.7 s"]
    );
    assert_eq!(
        names("from = \"1 ms\", to = \"100 ms\", count = 5, scale = \"log\""),
        ["1 ms", "3.162 ms", "10 ms", "31.62 ms", "100 ms"]
    );
    assert_eq!(
        names("from = 1.0, to = 2.0, count = 4"),
        ["1.0", "1.333", "1.667", "2.0"]
    );
    assert_eq!(
        names("from = 8, to = 1, count = 4, scale = \"log\""),
        ["8", "4", "2", "1"]
    );
}

#[test]
fn seeds_are_counted_or_listed() {
    let seeds = |line: &str| {
        let text = format!("{FULL}\n[sweep]\n{line}\n[sweep.over]\npath.rtt = [\"1 ms\"]\n")
            .replace("compare = [", "# compare = [");
        let scenario = parse(&text, &[("run.seed", "7"), ("run.repeats", "2")]);
        let sweep = scenario.sweep.as_ref().expect("a sweep");
        assert!(!scenario.to_toml().contains("sweep"));
        sweep.seeds(scenario.run.seed, scenario.run.repeats)
    };
    assert_eq!(seeds(""), [7, 8]);
    assert_eq!(seeds("seeds = 3"), [7, 8, 9]);
    assert_eq!(seeds("seeds = [5, 1]"), [5, 1]);
}

/// A value of a list, written as an override, is read back as the same value.
#[test]
fn a_point_is_the_same_as_its_override() {
    let over = "flows.0.label = [\"5\", \"true\", \"a \\\"b\\\"\", \"1 ms\"]\n\
                path.queue = [{ kind = \"droptail\", size = \"7 packets\" }]\n";
    for (keys, names) in points(over) {
        for name in names {
            let scenario = parse(FULL, &[(&keys[0], &name)]);
            match keys[0].as_str() {
                "path.queue" => {
                    assert_eq!(name, "{ kind = \"droptail\", size = \"7 packets\" }");
                    assert_eq!(scenario.path.queue.size, Size::Packets(7));
                }
                _ => assert!(scenario.flows[0].label.is_some()),
            }
        }
    }
}
