//! Every error, as it is shown. `PACELINE_UPDATE=1 cargo test -p paceline-scenario` rewrites
//! `tests/errors.txt` with the current output; read the difference before keeping it.

use std::fmt::Write;

use paceline_scenario::{Scenario, Vocabulary, limits};

static VOCABULARY: Vocabulary = Vocabulary {
    queues: paceline_path::QUEUES,
    early_signals: paceline_path::EARLY_SIGNALS,
};

const VALID: &str = r#"schema = 1

[run]
duration = "60 s"

[path]
rate = "50 Mbit/s"
rtt = "40 ms"
queue = { kind = "droptail", size = "1 bdp" }

[[flows]]
cc = "bbr3"
"#;

/// The modification of the valid file: its lines from, to, and the appended text.
struct Case {
    name: &'static str,
    replace: &'static [(&'static str, &'static str)],
    append: &'static str,
    set: &'static [(&'static str, &'static str)],
}

const PLAIN: Case = Case {
    name: "",
    replace: &[],
    append: "",
    set: &[],
};

/// What replaces what in the valid file, or the keys that are set from outside.
macro_rules! case {
    ($name:literal, $($from:literal => $to:literal),+) => {
        Case { name: $name, replace: &[$(($from, $to)),+], ..PLAIN }
    };
    ($name:literal, $($key:literal = $value:literal),+) => {
        Case { name: $name, set: &[$(($key, $value)),+], ..PLAIN }
    };
}

const fn append(name: &'static str, append: &'static str) -> Case {
    Case {
        name,
        append,
        ..PLAIN
    }
}

const CASES: &[Case] = &[
    case!("two syntax errors", "schema = 1" => "schema = = 1", "\"40 ms\"" => "\"40 ms"),
    append("a key twice", "cc = \"reno\"\n"),
    case!("an unknown key", "duration =" => "duraton ="),
    case!("an unknown table", "[run]\nduration" => "[rum]\nduration"),
    append("a key that is like none", "zzz = 1\n"),
    append(
        "several problems at once",
        "count = 0\nstart = \"5 sec\"\napp = \"bulky\"\nlabel = 5\n",
    ),
    case!("no schema", "schema = 1\n" => ""),
    case!("another schema", "schema = 1" => "schema = 2"),
    case!("schema as text", "schema = 1" => "schema = \"1\""),
    case!("no run", "[run]\nduration = \"60 s\"\n" => ""),
    case!("no duration", "duration = \"60 s\"\n" => ""),
    case!("no flows", "[[flows]]\ncc = \"bbr3\"\n" => ""),
    case!("an empty list of flows", "schema = 1\n" => "schema = 1\nflows = []\n", "[[flows]]\ncc = \"bbr3\"\n" => ""),
    case!("no queue", "queue = { kind = \"droptail\", size = \"1 bdp\" }\n" => ""),
    case!("no queue size", ", size = \"1 bdp\"" => ""),
    case!("no controller", "cc = \"bbr3\"\n" => ""),
    case!("an empty controller", "cc = \"bbr3\"" => "cc = \"\""),
    case!("a controller without a name", "cc = \"bbr3\"" => "cc = { gain = 2.89 }"),
    case!("an option that is a table", "cc = \"bbr3\"" => "cc = { name = \"bbr3\", gain = { } }"),
    case!("an option that is no number", "cc = \"bbr3\"" => "cc = { name = \"bbr3\", gain = nan }"),
    case!("a rate without unit", "\"50 Mbit/s\"" => "\"50\""),
    case!("a rate as a number", "\"50 Mbit/s\"" => "50"),
    case!("an unknown unit", "\"50 Mbit/s\"" => "\"50 Mbps\""),
    case!("a negative rate", "\"50 Mbit/s\"" => "\"-50 Mbit/s\""),
    case!("not a number", "\"50 Mbit/s\"" => "\"fast\""),
    case!("an empty quantity", "\"50 Mbit/s\"" => "\"\""),
    case!("too large to hold", "\"50 Mbit/s\"" => "\"50000000000 Tbit/s\""),
    case!("too fine", "\"40 ms\"" => "\"0.5 ns\""),
    case!("a rate of zero", "\"50 Mbit/s\"" => "\"0 bit/s\""),
    case!("too fast", "\"50 Mbit/s\"" => "\"11 Tbit/s\""),
    case!("a trace without file", "\"50 Mbit/s\"" => "{ trace = \"\" }"),
    case!("a trace with another key", "\"50 Mbit/s\"" => "{ file = \"a\" }"),
    case!("a duration of zero", "\"60 s\"" => "\"0 s\""),
    case!("a duration too long", "\"60 s\"" => "\"31000000 s\""),
    case!("an rtt of zero", "\"40 ms\"" => "\"0 ms\""),
    case!("an rtt too long", "\"40 ms\"" => "\"101 s\""),
    case!("an unknown queue", "\"droptail\"" => "\"drop-tail\""),
    case!("a queue size without unit", "\"1 bdp\"" => "\"165\""),
    case!("a queue size in an unknown unit", "\"1 bdp\"" => "\"1 bdps\""),
    case!("half a packet", "\"1 bdp\"" => "\"0.5 packets\""),
    case!("no packets", "\"1 bdp\"" => "\"0 packets\""),
    case!("no bdp", "\"1 bdp\"" => "\"0 bdp\""),
    case!("less than a packet", "\"1 bdp\"" => "\"100 B\""),
    case!("too large a queue", "\"1 bdp\"" => "\"2000 GiB\""),
    case!("too small an mtu", "[path]\n" => "[path]\nmtu = \"67 B\"\n"),
    case!("too large an mtu", "[path]\n" => "[path]\nmtu = \"64 KiB\"\n"),
    append("a header larger than the mtu", "header = \"1500 B\"\n"),
    append("a header too small for TCP", "header = \"39 B\"\n"),
    case!("certain loss and more", "[path]\n" => "[path]\nloss = \"101 %\"\n"),
    case!("no repeats", "[run]\n" => "[run]\nrepeats = 0\n"),
    case!("too many repeats", "[run]\n" => "[run]\nrepeats = 100001\n"),
    case!("a negative seed", "[run]\n" => "[run]\nseed = -1\n"),
    case!("too many samples", "[run]\n" => "[run]\nsample_interval = \"1 ns\"\n"),
    case!("a comparison with itself", "[run]\n" => "[run]\ncompare = [\"bbr3\", \"cubic\", \"bbr3\"]\n"),
    case!("a comparison with nobody", "[run]\n" => "[run]\ncompare = \"bbr3\"\n"),
    append("no flow in a group", "count = 0\n"),
    append("too many flows in a group", "count = 100001\n"),
    append(
        "too many flows in all",
        "count = 60000\n[[flows]]\ncc = \"reno\"\ncount = 60000\n",
    ),
    append("a start after the end", "start = \"60 s\"\n"),
    append(
        "a last start after the end",
        "count = 61\nstagger = \"1 s\"\n",
    ),
    append(
        "a stop before the start",
        "start = \"2 s\"\nstop = \"1 s\"\n",
    ),
    append("a window in bytes", "initial_window = \"15 kB\"\n"),
    append("no window", "initial_window = \"0 packets\"\n"),
    append(
        "an application that is neither",
        "app = { size = \"1 MB\", rate = \"1 Mbit/s\" }\n",
    ),
    append(
        "an application with half its cycle",
        "app = { on = \"1 s\" }\n",
    ),
    append(
        "an application with an unknown key",
        "app = { sise = \"1 MB\" }\n",
    ),
    append(
        "an application that cycles for ever",
        "app = { on = \"1 ns\", off = \"1 ns\" }\n",
    ),
    append("no timeout", "recovery.min_rto = \"0 s\"\n"),
    append("an unknown policy of ACKs", "ack = \"linx\"\n"),
    append("an unknown recovery", "recovery = \"rack-pr\"\n"),
    append("a recovery that is a number", "recovery = 3\n"),
    append(
        "a recovery's option that is none",
        "recovery = { kind = \"sack\", frto = false }\n",
    ),
    append("a receive window too small", "receive_window = \"100 B\"\n"),
    case!(
        "an unknown kind of queue",
        "path.queue" = "{ kind = \"coddel\", size = \"1 bdp\", target = \"5 ms\" }"
    ),
    case!(
        "an option of another queue",
        "path.queue" = "{ size = \"1 bdp\", target = \"5 ms\" }"
    ),
    case!(
        "options beyond their bounds",
        "path.queue" = "{ kind = \"fq_codel\", size = \"1 bdp\", target = \"0 s\", flows = 0, quantum = \"1 B\" }"
    ),
    case!(
        "a weight without its unit",
        "path.queue" = "{ kind = \"pie\", size = \"1 bdp\", alpha = \"0.1\", update = \"1 us\" }"
    ),
    case!(
        "a dual queue beyond its bounds",
        "path.queue" =
            "{ kind = \"dualpi2\", size = \"1 bdp\", coupling = 0, classic_share = \"101 %\" }"
    ),
    case!(
        "half a burst of loss",
        "path.loss" = "{ p = \"101 %\", bad = \"2 %\" }"
    ),
    case!(
        "a burst of loss beyond its bounds",
        "path.loss" = "{ p = \"101 %\", r = \"2 %\" }"
    ),
    append(
        "an event without a time",
        "[[events]]\npath.loss = \"1 %\"\n",
    ),
    case!("an impairment beyond its bounds",
        "[[flows]]" => "reorder = { probability = \"101 %\", delay = \"0 ms\" }\nduplicate = \"200 %\"\njitter = \"200 s\"\nack_thinning = \"0 packets\"\nack_filter = \"cakes\"\npolicer = { rate = \"0 bit/s\", burst = \"1 kB\" }\naggregation = \"1 h\"\ngrant_delay = \"1 h\"\n[[flows]]"),
    case!("half an impairment",
        "[[flows]]" => "reorder = { probability = \"1 %\" }\npolicer = \"10 Mbit/s\"\n[[flows]]"),
    append(
        "an impairment by event that is wrong",
        "[[events]]\nwhen = \"1 s\"\n[events.path]\nhold = { packets = 0, delay = \"0 ms\" }\npolicer = { rate = \"1 Mbit/s\", burst = \"1 kB\" }\nduplicate = \"2\"\n[[events]]\nwhen = \"2 s\"\npath = { policer = \"on\", hold = { packets = \"3 packets\" } }\n",
    ),
    case!("return directions that are wrong",
        "[[flows]]" => "[path.return]\nspeed = 1\n[[links]]\nname = \"a\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 MB\"\nreturn.rate = \"1 Mbit/s\"\n[[links]]\nname = \"b\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 MB\"\nreturn.queue.size = \"1 MB\"\n[[flows]]"),
    case!("a return direction whose values are wrong",
        "[[flows]]" => "[path.return]\nrate = \"0 bit/s\"\nqueue = { size = \"10 B\" }\nloss = \"101 %\"\npolicer = { rate = \"1 Mbit/s\", burst = \"1 kB\" }\n[[flows]]"),
    append(
        "a return direction that an event changes and there is none",
        "[[events]]\nwhen = \"1 s\"\npath.return.loss = \"1 %\"\n",
    ),
    case!("an ack filter where nothing waits",
        "[[flows]]" => "[path.return]\nack_filter = \"cake\"\n[[events]]\nwhen = \"1 s\"\npath.return.ack_filter = \"cake-aggressive\"\n[[flows]]"),
    case!("changes of a return direction that are wrong",
        "[[flows]]" => "[path.return]\nloss = \"1 %\"\n[[events]]\nwhen = \"1 s\"\npath.return = { rate = \"1 Mbit/s\" }\n[[events]]\nwhen = \"2 s\"\npath.return = { loss = \"101 %\" }\n[[events]]\nwhen = \"3 s\"\nfor = \"1 s\"\npath.return.drop = \"1 packet\"\n[[events]]\nwhen = \"4 s\"\nfor = \"1 s\"\npath.return.loss = \"2 %\"\n[[events]]\nwhen = \"4.5 s\"\npath.return.loss = \"3 %\"\n[[events]]\nwhen = \"6 s\"\npath.return = {}\n[[flows]]"),
    append(
        "an upload without a return direction",
        "direction = \"up\"\n",
    ),
    case!("an upload that nothing limits",
        "[[flows]]" => "[path.return]\nloss = \"1 %\"\n[[flows]]\ndirection = \"up\""),
    append(
        "a direction that does not exist",
        "direction = \"sideways\"\n",
    ),
    append(
        "a return route that leads nowhere",
        "return_route = [\"bottleneck\", \"nic\"]\n",
    ),
    case!("a return route twice over a link",
        "[[flows]]" => "[path.return]\n[[flows]]\nreturn_route = [\"bottleneck\", \"bottleneck\"]"),
    case!("a threshold without unit", "size = \"1 bdp\"" => "size = \"1 bdp\", mark = { threshold = 65 }"),
    case!("red and a step", "size = \"1 bdp\"" => "size = \"1 bdp\", mark = { threshold = \"65 packets\" }, red = { min = \"30 kB\", max = \"90 kB\" }"),
    case!("red upside down", "size = \"1 bdp\"" => "size = \"1 bdp\", red = { min = \"90 kB\", max = \"30 kB\", weight = \"0 %\", probability = \"101 %\" }"),
    case!("red in two units", "size = \"1 bdp\"" => "size = \"1 bdp\", red = { min = \"5 packets\", max = \"30 kB\" }"),
    append("an ecn feedback that does not exist", "ecn = \"dctpc\"\n"),
    append(
        "links that are wrong",
        "route = [\"nic\", \"nic\", \"bottlenek\"]\n[[links]]\nname = \"nic\"\nrate = \"0 bit/s\"\ndelay = \"30 ms\"\nqueue.size = \"0 packets\"\n[[links]]\nname = \"wire\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 bdp\"\n",
    ),
    append(
        "half a link",
        "route = [\"nic\"]\n[[links]]\nname = \"nic\"\nrate = \"1 Gbit/s\"\n",
    ),
    append(
        "a name twice and an event for no link",
        "[[links]]\nname = \"bottleneck\"\nrate = \"1 Gbit/s\"\nqueue.size = \"1 bdp\"\n[[events]]\nwhen = \"1 s\"\npath = { link = \"nic\", loss = \"1 %\" }\n[[events]]\nwhen = \"2 s\"\npath = { link = \"bottleneck\", rtt = \"1 ms\" }\n[[events]]\nwhen = \"3 s\"\npath = { link = \"bottleneck\" }\n",
    ),
    append(
        "a route too long",
        "route = [\"nic\", \"bottleneck\"]\n[[links]]\nname = \"nic\"\nrate = \"1 Gbit/s\"\ndelay = \"30 ms\"\nqueue.size = \"1 bdp\"\n",
    ),
    append(
        "a host that is wrong",
        "host = { send = { min = \"5 us\", max = \"1 us\" }, receive = { deviation = \"1 us\" }, ack = 5, gro = { packets = \"0 packets\" }, akc = \"1 us\" }\n",
    ),
    append(
        "a host beyond its bounds",
        "host = { send = { min = \"5 us\", max = \"1 us\" }, receive = \"101 s\", gro = { time = \"1 ms\", packets = \"0 packets\" } }\n",
    ),
    append(
        "pulses that cannot end, or meet",
        "[[events]]\nwhen = \"1 s\"\nfor = \"60 s\"\npath.drop = \"3 packets\"\n[[events]]\nwhen = \"1 s\"\nfor = \"2 s\"\npath.loss = \"1 %\"\n[[events]]\nwhen = \"2 s\"\npath.loss = \"2 %\"\n",
    ),
    append(
        "a pulse without length, and one that meets what waits for a state",
        "[[events]]\nwhen = \"1 s\"\nfor = 2\npath.loss = \"1 %\"\n[[events]]\nwhen = \"1 s\"\nfor = \"0 s\"\npath.rtt = \"1 ms\"\n[[events]]\nwhen = { flow = 0, enters = \"Drain\" }\nfor = \"1 s\"\npath.rtt = \"2 ms\"\n",
    ),
    append("an event without a change", "[[events]]\nwhen = \"1 s\"\n"),
    append(
        "an event after the end",
        "[[events]]\nwhen = \"60 s\"\npath.loss = \"1 %\"\n",
    ),
    append(
        "an event of no flow",
        "[[events]]\nwhen = { flow = 1, enters = \"Drain\" }\npath.loss = \"1 %\"\n",
    ),
    append(
        "an event for no flow",
        "[[events]]\nwhen = \"1 s\"\nflow = { flow = 7, app = \"pause\" }\n",
    ),
    append(
        "an unknown change of application",
        "[[events]]\nwhen = \"1 s\"\nflow = { flow = 0, app = \"resum\" }\n",
    ),
    append(
        "an unknown change of path",
        "[[events]]\nwhen = \"1 s\"\npath.rat = \"1 Mbit/s\"\n",
    ),
    append(
        "a change without sign",
        "[[events]]\nwhen = \"1 s\"\npath.rate = \"10 %\"\n",
    ),
    append(
        "a change of more than all",
        "[[events]]\nwhen = \"1 s\"\npath.rate = \"-101 %\"\n",
    ),
    append(
        "an entry counted from 0",
        "[[events]]\nwhen = { flow = 0, enters = \"Drain\", nth = 0 }\npath.loss = \"1 %\"\n",
    ),
    append(
        "a bound without comparison",
        "[expect]\njain_ratio = \"0.95\"\n",
    ),
    append(
        "a bound without number",
        "[expect]\njain_ratio = \">= much\"\n",
    ),
    append("a bound as a number", "[expect]\njain_ratio = 0.95\n"),
    case!("too many packets", "\"60 s\"" => "\"2000000 s\"", "\"50 Mbit/s\"" => "\"10 Gbit/s\""),
    append(
        "a rise beyond what is allowed",
        "[[events]]\nwhen = \"1 s\"\npath.rate = \"+4000 %\"\n[[events]]\nwhen = \"2 s\"\npath.rate = \"+4000 %\"\n[[events]]\nwhen = \"3 s\"\npath.rate = \"+4000 %\"\n[[events]]\nwhen = \"4 s\"\npath.rate = \"+4000 %\"\n",
    ),
    case!("an override of an unknown key", "run.durationn" = "5 s"),
    case!("an override in an unknown table", "rnu.duration" = "5 s"),
    case!("an override with a wrong value", "run.duration" = "5 sec"),
    append("a sweep over nothing", "[sweep]\nseeds = 3\n[sweep.over]\n"),
    append("a sweep without keys", "[sweep]\nseed = 3\n"),
    append(
        "no seeds",
        "[sweep]\nseeds = 0\n[sweep.over]\npath.rtt = [\"1 ms\"]\n",
    ),
    append(
        "a seed twice",
        "[sweep]\nseeds = [1, 1]\n[sweep.over]\npath.rtt = [\"1 ms\"]\n",
    ),
    append("a sweep over the seed", "[sweep.over]\nrun.seed = [1, 2]\n"),
    append(
        "a key that is varied twice",
        "[sweep.over]\nflows.0.cc = [\"bbr3\"]\n\"flows[0].cc\" = [\"reno\"]\n",
    ),
    append(
        "a value twice",
        "[sweep.over]\npath.rtt = [\"1 ms\", \"2 ms\", \"1 ms\"]\n",
    ),
    append("an axis without values", "[sweep.over]\npath.rtt = []\n"),
    append(
        "an axis that is one value",
        "[sweep.over]\npath.rtt = \"1 ms\"\n",
    ),
    append(
        "a zipped point that is too short",
        "[sweep.over]\n\"path.rtt, path.rate\" = [[\"1 ms\"]]\n",
    ),
    append(
        "a key that is none in a sweep",
        "[sweep.over]\n\"path..rtt\" = [\"1 ms\"]\n",
    ),
    append(
        "a range in two units",
        "[sweep.over]\npath.rtt = { from = \"1 ms\", to = \"1 s\", count = 3 }\n",
    ),
    append(
        "a range without steps",
        "[sweep.over]\npath.rtt = { from = \"1 ms\", to = \"9 ms\" }\n",
    ),
    append(
        "a range that leads away",
        "[sweep.over]\npath.rtt = { from = \"1 ms\", to = \"9 ms\", step = \"-1 ms\" }\n",
    ),
    append(
        "a range of one point",
        "[sweep.over]\npath.rtt = { from = \"1 ms\", to = \"9 ms\", count = 1 }\n",
    ),
    append(
        "a log range from zero",
        "[sweep.over]\npath.rtt = { from = \"0 ms\", to = \"9 ms\", count = 3, scale = \"log\" }\n",
    ),
    append(
        "a range without a unit",
        "[sweep.over]\npath.rtt = { from = \"fast\", to = \"9 ms\", count = 3 }\n",
    ),
    append(
        "an unknown scale",
        "[sweep.over]\npath.rtt = { from = \"1 ms\", to = \"9 ms\", count = 3, scale = \"logg\" }\n",
    ),
    append(
        "an unknown key of a range",
        "[sweep.over]\npath.rtt = { from = \"1 ms\", to = \"9 ms\", steps = 3 }\n",
    ),
    append(
        "too many runs",
        "[sweep]\nseeds = 100000\n[sweep.over]\npath.rtt = { from = \"1 ms\", to = \"99 ms\", count = 99 }\n",
    ),
    append(
        "a comparison beside a sweep",
        "[sweep.over]\nrun.compare = [[\"bbr3\"]]\n",
    ),
    case!("an override of the wrong type", "run.duration" = "5"),
    case!(
        "an override of a flow that is not there",
        "flows.1.cc" = "cubic"
    ),
    case!("an override that is no key", "run..duration" = "5 s"),
    case!("an override with an open bracket", "flows[0.cc" = "cubic"),
    case!(
        "a percentage over a trace",
        "path.rate.trace" = "a",
        "events" = "[{ when = \"1 s\", path.rate = \"-10 %\" }]"
    ),
];

fn shown(case: &Case) -> String {
    let mut text = VALID.to_owned();
    for (from, to) in case.replace {
        assert!(text.contains(from), "{}: {from}", case.name);
        text = text.replace(from, to);
    }
    text.push_str(case.append);
    let set: Vec<_> = case
        .set
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let problems = Scenario::parse(&text, "dir/test.toml", &set, &VOCABULARY).expect_err(case.name);
    assert!(!problems.is_empty(), "{}", case.name);
    let mut shown = format!("==== {}\n", case.name);
    for problem in problems {
        writeln!(shown, "[{}] {problem}\n", problem.kind.as_str()).expect("a string");
    }
    shown
}

#[test]
fn every_error_is_shown_as_agreed() {
    Scenario::parse(VALID, "test.toml", &[], &VOCABULARY)
        .expect("the file that is spoiled is valid itself");
    let shown: String = CASES.iter().map(shown).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/errors.txt");
    if std::env::var_os("PACELINE_UPDATE").is_some() {
        std::fs::write(path, &shown).expect("tests/errors.txt");
    }
    let agreed = std::fs::read_to_string(path).expect("tests/errors.txt");
    for (shown, agreed) in shown.split("==== ").zip(agreed.split("==== ")) {
        assert_eq!(shown, agreed, "PACELINE_UPDATE=1 rewrites tests/errors.txt");
    }
    assert_eq!(shown, agreed);
}

/// A hostile file costs neither time nor a flood of messages.
#[test]
fn the_number_of_problems_is_bounded() {
    let unknown: String = (0..100_000).map(|n| format!("k{n} = 1\n")).collect();
    let names = "\"a\",".repeat(100_000);
    let syntax = "= =\n".repeat(100_000);
    let events = "[[events]]\nwhen = \"1 s\"\n".repeat(100_000);
    for text in [
        format!("{unknown}{VALID}"),
        VALID.replace("[run]\n", &format!("[run]\ncompare = [{names}]\n")),
        syntax,
        format!("{VALID}{events}"),
    ] {
        let problems = Scenario::parse(&text, "test.toml", &[], &VOCABULARY).expect_err("hostile");
        assert!((1..=limits::MAX_PROBLEMS).contains(&problems.len()));
    }
}

/// An error in a point of a sweep is shown where the point is written.
#[test]
fn a_wrong_point_is_shown_in_its_place() {
    let text = format!(
        "{VALID}\n[sweep.over]\npath.rate = [\"1 Mbit/s\", \"2 Mbps\"]\n\
         path.rat = [1, 2]\nflows.1.cc = [\"reno\"]\n"
    );
    let scenario =
        Scenario::parse(&text, "test.toml", &[], &VOCABULARY).expect("its form is right");
    let problems = scenario.check_sweep(|_| Vec::new());
    let places: Vec<_> = problems
        .iter()
        .map(|problem| (problem.line, problem.column, problem.message.as_str()))
        .collect();
    assert_eq!(
        places,
        [(Some(17), Some(9), "\"1\" is not one of the 1 `flows`")]
    );
    let text = text.replace("flows.1.cc = [\"reno\"]\n", "");
    let scenario =
        Scenario::parse(&text, "test.toml", &[], &VOCABULARY).expect("its form is right");
    let problems = scenario.check_sweep(|_| Vec::new());
    let places: Vec<_> = problems
        .iter()
        .map(|p| (p.line, p.column, p.key.as_str()))
        .collect();
    assert_eq!(
        places,
        [
            (Some(16), Some(6), "path.rat"),
            (Some(15), Some(26), "path.rate"),
        ]
    );
}

/// An error found by another crate is shown like the ones found here.
#[test]
fn others_can_point_at_a_key() {
    let text = VALID.replace("\"bbr3\"", "{ name = \"bbr3\", startup_gain = 2.89 }");
    let scenario = Scenario::parse(&text, "test.toml", &[], &VOCABULARY).expect("valid");
    let problem = scenario.diagnostic("flows[0].cc.startup_gain", "no such option", None);
    assert_eq!((problem.line, problem.column), (Some(12), Some(38)));
    // A key that has its default: the table it would be in.
    let problem = scenario.diagnostic("flows[0].ack.every", "why not", None);
    assert_eq!(problem.line, Some(11));
    let problem = scenario.diagnostic("expect.speed", "no such metric", None);
    assert_eq!((problem.line, problem.column), (Some(1), Some(1)));
}
