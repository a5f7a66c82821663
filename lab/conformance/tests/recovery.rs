//! Our recovery sends the same segments as Linux's.

use std::path::{Path, PathBuf};

use paceline_conformance::recovery::{Script, Trace, cases, compare, play};
use paceline_recovery::Recovery;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/conformance/linux-recovery")
}

#[test]
fn every_script_is_sent_as_linux_sends_it_or_is_listed() {
    let cases = cases(&folder()).unwrap();
    let failed: Vec<_> = cases.iter().filter(|case| case.verdict == "fail").collect();
    for case in &failed {
        println!("{} {}", case.id, case.evidence);
    }
    assert_eq!(failed.len(), 0, "of {}", cases.len());
    assert!(cases.len() >= 60);
    let drawn = cases.iter().filter(|case| case.id.contains("drawn-"));
    assert!(drawn.count() >= 10);
}

#[test]
fn what_is_expected_to_differ_is_in_the_list_of_divergences() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/divergences.md");
    let list = std::fs::read_to_string(list).unwrap();
    for case in cases(&folder()).unwrap() {
        let name = case.id.trim_start_matches("recovery/");
        let listed = list.contains(&format!("`{name}`"));
        assert_eq!(listed, case.verdict == "expected fail", "{name}");
    }
}

/// A script with a loss.
fn loss() -> Script {
    let script = "[loss]\nwrites = [{ segments = 40 }]\ndrop = [\"15\"]\n";
    Script::read(script).unwrap().remove("loss").unwrap()
}

/// The trace of our own transmissions, altered.
fn bent(bend: impl Fn(&mut String)) -> Option<usize> {
    let script = loss();
    let kernel = "Linux".to_owned();
    let sent = play(&script, Recovery::RackPrr);
    let mut text = Trace {
        kernel,
        sent: sent.clone(),
    }
    .write();
    bend(&mut text);
    let trace = Trace::read(&text).unwrap();
    compare(&trace.sent, &sent, script.rtt).map(|departure| departure.at)
}

#[test]
fn segments_their_order_and_times_are_compared() {
    assert_eq!(bent(|_| {}), None);
    let line = |text: &str, segment: &str| {
        let end = format!(" {segment}");
        let place = text.lines().position(|line| line.ends_with(&end));
        place.unwrap_or_else(|| panic!("no {segment} in {text}")) - 1
    };
    let script = loss();
    let text = Trace {
        kernel: "Linux".to_owned(),
        sent: play(&script, Recovery::RackPrr),
    }
    .write();
    let again = line(&text, "15#2");
    assert_eq!(
        bent(|text| *text = text.replace(" 15#2", " 16#2")),
        Some(again)
    );
    assert_eq!(
        bent(|text| *text = text.replace(" 15#2", " 15#3")),
        Some(again)
    );
    // Something more at the end, something less.
    assert_eq!(
        bent(|text| text.push_str("9999.0 40#2\n")),
        Some(text.lines().count() - 1)
    );
    let last = text.trim_end().rfind('\n').unwrap();
    assert_eq!(
        bent(|text| text.truncate(last + 1)),
        Some(text.lines().count() - 2)
    );
    // 40 ms later is within half a round trip, 60 ms is not.
    let late = |by: f64| {
        bent(|text| {
            let lines = text
                .lines()
                .enumerate()
                .map(|(at, line)| match line.split_once(' ') {
                    Some((time, rest)) if at > again => {
                        let time: f64 = time.parse().unwrap();
                        format!("{:.1} {rest}\n", time + by)
                    }
                    _ => format!("{line}\n"),
                });
            *text = lines.collect();
        })
    };
    assert_eq!((late(40.0), late(60.0)), (None, Some(again)));
}

#[test]
fn a_broken_trace_names_its_line() {
    for (text, line) in [
        ("", 1),
        ("0.0 1#1\n", 1),
        ("# Linux\n0.0 1#1\nx\n", 3),
        ("# Linux\n0.0 1\n", 2),
        ("# Linux\n0 1#1\n", 2),
        ("# Linux\n0.10 1#1\n", 2),
        ("# Linux\n99999999999999999999.0 1#1\n", 2),
    ] {
        assert_eq!(Trace::read(text), Err(line), "{text}");
    }
}
