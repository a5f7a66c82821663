//! Replays the fuzzing seeds and past findings, and proptest's mutations of them.

#[path = "../../../fuzz/src/lib.rs"]
mod checks;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

/// The seeds of a fuzz target, by name.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let entries = fs::read_dir(folder.join(target)).expect("the seeds");
    let read = |path: &Path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), fs::read(path).expect("a file"))
    };
    let mut files: Vec<_> = entries
        .map(|entry| read(&entry.expect("an entry").path()))
        .collect();
    files.sort();
    files
}

/// The number of accepted seeds, and the total.
fn accepted(target: &str, check: impl Fn(&[u8]) -> bool) -> (usize, usize) {
    let seeds = seeds(target);
    let accepted = seeds.iter().filter(|(name, octets)| {
        println!("{target}/{name}");
        check(octets)
    });
    (accepted.count(), seeds.len())
}

fn text(check: impl Fn(&str) -> bool) -> impl Fn(&[u8]) -> bool {
    move |octets| check(&String::from_utf8_lossy(octets))
}

#[test]
fn every_seed_is_accepted_or_refused() {
    assert_eq!(accepted("capture", checks::capture), (8, 10));
    assert_eq!(accepted("ets", checks::ets), (4, 8));
    assert_eq!(accepted("trace", text(checks::trace)), (3, 10));
    assert_eq!(accepted("scenario", text(checks::scenario)), (10, 15));
    assert_eq!(accepted("scenario", text(checks::run)), (8, 15));
    let record = checks::record::Spoiled::new();
    assert!(record.whole().all(|octets| record.read(&octets)));
    assert!(!record.read(b"") && !record.read(b"\x04{}"));
    accepted("record", |octets| record.read(octets));
    let stream = checks::stream::Spoiled::new();
    assert!(stream.whole().all(|octets| stream.read(&octets)));
    assert!(!stream.read(b"") && !stream.read(b"\x00{}"));
    accepted("stream", |octets| stream.read(octets));
}

/// One mutation of octets: this many are removed at a position, and others are inserted there.
#[derive(Clone, Debug)]
struct Bend {
    at: Index,
    taken: usize,
    given: Vec<u8>,
}

impl Bend {
    fn apply(&self, octets: &mut Vec<u8>) {
        let at = self.at.index(octets.len() + 1);
        let end = (at + self.taken).min(octets.len());
        octets.splice(at..end, self.given.iter().copied());
    }
}

/// Values at the edge of the allowed range, or beyond it.
const EDGES: [&str; 16] = [
    "0",
    "-1",
    "1e300",
    "18446744073709551616",
    "nan",
    "\"0 s\"",
    "\"1 ns\"",
    "\"584 years\"",
    "\"1 bit/s\"",
    "\"1e12 Gbit/s\"",
    "\"0 packets\"",
    "\"1e-9 bdp\"",
    "\"100 %\"",
    "true",
    "[]",
    "{}",
];

/// A seed of a target with some mutations.
fn bent(target: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let seeds = seeds(target);
    let others: Vec<Vec<u8>> = seeds.into_iter().map(|(_, octets)| octets).collect();
    let piece = (
        prop::sample::select(others.clone()),
        any::<Index>(),
        0..60_usize,
    );
    let given = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        prop::sample::select(&EDGES[..]).prop_map(|text| text.as_bytes().to_vec()),
        piece.prop_map(|(from, at, len)| {
            let at = at.index(from.len() + 1);
            from[at..(at + len).min(from.len())].to_vec()
        }),
    ];
    let bend = (any::<Index>(), 0..12_usize, given);
    let bend = bend.prop_map(|(at, taken, given)| Bend { at, taken, given });
    let bends = prop::collection::vec(bend, 1..4);
    (prop::sample::select(others), bends).prop_map(|(mut octets, bends)| {
        for bend in bends {
            bend.apply(&mut octets);
        }
        octets
    })
}

proptest! {
    // Findings are kept as seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_bent_ets_option(octets in bent("ets")) {
        checks::ets(&octets);
    }

    #[test]
    fn a_bent_capture(octets in bent("capture")) {
        checks::capture(&octets);
    }

    #[test]
    fn a_bent_record(octets in bent("record")) {
        thread_local! {
            static RECORD: checks::record::Spoiled = checks::record::Spoiled::new();
        }
        RECORD.with(|record| record.read(&octets));
    }

    #[test]
    fn a_bent_trace(octets in bent("trace")) {
        checks::trace(&String::from_utf8_lossy(&octets));
    }

    #[test]
    fn a_bent_scenario(octets in bent("scenario")) {
        let text = String::from_utf8_lossy(&octets);
        checks::scenario(&text);
        checks::run(&text);
    }
}

/// Replaces a value of an accepted scenario by one at the edge.
fn at_an_edge() -> impl Strategy<Value = String> {
    let seeds = seeds("scenario");
    let whole = seeds
        .into_iter()
        .map(|(_, octets)| String::from_utf8_lossy(&octets).into_owned())
        .filter(|text| checks::scenario(text));
    let whole = prop::sample::select(whole.collect::<Vec<String>>());
    let edge = prop::sample::select(&EDGES[..]);
    (whole, any::<Index>(), edge).prop_map(|(text, at, edge)| {
        let lines: Vec<&str> = text.lines().collect();
        let values = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.contains('='));
        let places: Vec<usize> = values.map(|(nth, _)| nth).collect();
        let place = places[at.index(places.len())];
        let (key, _) = lines[place].split_once('=').expect("a value");
        let line = format!("{key}= {edge}");
        let mut lines = lines.clone();
        lines[place] = &line;
        lines.join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_value_at_an_edge(text in at_an_edge()) {
        checks::scenario(&text);
        checks::run(&text);
    }
}
