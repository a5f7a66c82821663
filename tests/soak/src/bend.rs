//! Corrupted inputs for readers: accepted or refused, and never a panic.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{panic, thread};

use flate2::read::GzDecoder;
use paceline_conformance::{Version, read_trace, replay};
use paceline_tcp::packet;
use paceline_units::Rng;

#[path = "../../fuzz/src/lib.rs"]
mod checks;

/// A reader, with the folder of its seeds.
type Reader = (&'static str, &'static str, fn(&[u8]) -> bool);

/// The readers, by the names of their fuzz targets.
const READERS: [Reader; 9] = [
    ("capture", "capture", |octets| checks::capture(octets)),
    ("ets", "ets", |octets| checks::ets(octets)),
    ("golden", "golden", |octets| {
        let trace = read_trace(octets);
        trace.is_ok_and(|trace| {
            Version::ALL
                .into_iter()
                .any(|version| replay(version, &trace).is_ok())
        })
    }),
    ("packet", "ets", |octets| {
        packet::classify(octets, true);
        packet::classify(octets, false);
        paceline_capture::Tcp::read(octets);
        true
    }),
    ("record", "record", |octets| {
        RECORD.with(|record| record.read(octets))
    }),
    ("stream", "stream", |octets| {
        STREAM.with(|stream| stream.read(octets))
    }),
    ("trace", "trace", |octets| {
        checks::trace(&String::from_utf8_lossy(octets))
    }),
    ("scenario", "scenario", |octets| {
        checks::scenario(&String::from_utf8_lossy(octets))
    }),
    ("run", "scenario", |octets| {
        checks::run(&String::from_utf8_lossy(octets))
    }),
];

thread_local! {
    /// Each thread mutates its own.
    static RECORD: checks::record::Spoiled = checks::record::Spoiled::new();
    static STREAM: checks::stream::Spoiled = checks::stream::Spoiled::new();
}

/// Number of inputs that a thread takes at once.
const BATCH: u64 = 64;

/// The names of the readers.
pub fn names() -> Vec<&'static str> {
    READERS.iter().map(|(name, ..)| *name).collect()
}

/// The contents of the files in a folder of `tests/fuzz/ARCHIVE.tar.gz`, in their order there.
fn files(archive: &str, folder: &str) -> io::Result<Vec<Vec<u8>>> {
    const BLOCK: usize = 512;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fuzz/{archive}.tar.gz"));
    let mut tar = Vec::new();
    GzDecoder::new(File::open(&path)?).read_to_end(&mut tar)?;
    let field = |octets: &[u8]| {
        let text = String::from_utf8_lossy(octets);
        text.trim_end_matches(['\0', ' ']).to_owned()
    };
    let (below, mut files, mut rest) = (format!("{archive}/{folder}/"), Vec::new(), &tar[..]);
    while let Some((header, after)) = rest.split_at_checked(BLOCK) {
        let name = field(&header[..100]);
        if name.is_empty() {
            break;
        }
        let size = usize::from_str_radix(&field(&header[124..136]), 8).map_err(io::Error::other)?;
        if name.starts_with(&below) && !name.ends_with('/') {
            files.push(after[..size].to_vec());
        }
        rest = &after[size.next_multiple_of(BLOCK)..];
    }
    if files.is_empty() {
        return Err(io::Error::other(format!(
            "{} has no {below}",
            path.display()
        )));
    }
    Ok(files)
}

/// Gives a reader `count` inputs, those of the seeds from `seed` on; an input that panics is
/// written to `out`. Returns how many did.
///
/// # Errors
/// There are no seeds, or `out` cannot be written.
pub fn bend(name: &str, seed: u64, count: u64, threads: usize, out: &Path) -> io::Result<u64> {
    let known = READERS.iter().find(|(known, ..)| *known == name);
    let (_, folder, read) =
        known.ok_or_else(|| io::Error::other(format!("no reader is called {name}")))?;
    let mut corpus = files("seeds", folder)?;
    corpus.extend(files("found", name)?);
    // As written today, in addition to the stored corpus.
    match name {
        "record" => RECORD.with(|record| corpus.extend(record.whole())),
        "stream" => STREAM.with(|stream| corpus.extend(stream.whole())),
        _ => {}
    }
    let (next, panics) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= count {
                        return;
                    }
                    for nth in first..(first + BATCH).min(count) {
                        let octets = bent(&mut Rng::new(seed.wrapping_add(nth)), &corpus);
                        if panic::catch_unwind(|| read(&octets)).is_err() {
                            panics
                                .lock()
                                .expect("no thread panics")
                                .push((seed.wrapping_add(nth), octets));
                        }
                    }
                }
            });
        }
    });
    let panics = panics.into_inner().expect("no thread panics");
    for (seed, octets) in &panics {
        let file = out.join(format!("{name}-{seed}"));
        fs::write(&file, octets)?;
        println!(
            "{name}: {} makes it panic; --bend {name} --seed {seed} --count 1 repeats it",
            file.display()
        );
    }
    Ok(panics.len() as u64)
}

/// One of the corpus with some mutations.
fn bent(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    const EDGES: [&[u8]; 17] = [
        b"0",
        b"-1",
        b"1e300",
        b"18446744073709551616",
        b"nan",
        b"\"0 s\"",
        b"\"1 ns\"",
        b"\"584 years\"",
        b"\"1e12 Gbit/s\"",
        b"\"1e-9 bdp\"",
        b"\"1 bit/s\"",
        b"\"0 packets\"",
        b"\"100 %\"",
        b"true",
        b"[]",
        b"{}",
        b"\xff",
    ];
    let any = |rng: &mut Rng, most: usize| rng.below(most as u64 + 1) as usize;
    let mut octets = corpus[any(rng, corpus.len() - 1)].clone();
    for _ in 0..1 + any(rng, 3) {
        let mut at = any(rng, octets.len());
        let mut end = (at + [0, 1, 2, 12][any(rng, 3)]).min(octets.len());
        // As often a whole value, from a `=` to the end of its line.
        let equals = octets[at..].iter().position(|octet| *octet == b'=');
        if let (1, Some(equals)) = (any(rng, 1), equals) {
            at += equals + 1;
            let line = octets[at..].iter().position(|octet| *octet == b'\n');
            end = line.map_or(octets.len(), |length| at + length);
        }
        let given = match any(rng, 2) {
            0 => EDGES[any(rng, EDGES.len() - 1)].to_vec(),
            1 => (0..any(rng, 4)).map(|_| rng.next_u64() as u8).collect(),
            _ => {
                let other = &corpus[any(rng, corpus.len() - 1)];
                let start = any(rng, other.len());
                other[start..(start + any(rng, 60)).min(other.len())].to_vec()
            }
        };
        octets.splice(at..end, given);
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inputs with which libFuzzer has reached the largest part of a reader, and the seeds.
    #[test]
    fn stored_inputs_are_read_or_refused() {
        let accepted = READERS.map(|(name, folder, read)| {
            let inputs = files("found", name).expect("what was found");
            let seeds = files("seeds", folder).expect("the seeds");
            for octets in &inputs {
                read(octets);
            }
            let accepted = seeds.iter().filter(|octets| read(octets)).count();
            (name, accepted, seeds.len())
        });
        for expected in [
            ("capture", 8, 10),
            ("ets", 4, 8),
            ("trace", 3, 10),
            ("scenario", 10, 15),
            ("run", 8, 15),
        ] {
            assert!(accepted.contains(&expected), "{expected:?}: {accepted:?}");
        }
    }

    #[test]
    fn a_record_and_a_stream_are_accepted_as_written() {
        RECORD.with(|record| {
            assert!(record.whole().all(|octets| record.read(&octets)));
            assert!(!record.read(b"") && !record.read(b"\x04{}"));
        });
        STREAM.with(|stream| {
            assert!(stream.whole().all(|octets| stream.read(&octets)));
            assert!(!stream.read(b"") && !stream.read(b"\x00{}"));
        });
    }

    /// Inputs of each reader: two or three seconds of one processor, unoptimised. `make soak` reads for hours.
    const COUNTS: [(&str, u64); 9] = [
        ("capture", 2_500),
        ("ets", 1_000_000),
        ("golden", 60_000),
        ("packet", 750_000),
        ("record", 400),
        ("stream", 750),
        ("trace", 200_000),
        ("scenario", 15_000),
        ("run", 10_000),
    ];

    #[test]
    fn bent_inputs_are_read_or_refused_by_every_reader() {
        let out = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(COUNTS.map(|(name, _)| name).to_vec(), names());
        for (name, count) in COUNTS {
            let panics = bend(name, 1, count, 2, out).expect("a folder");
            assert_eq!(panics, 0, "{name}");
        }
    }
}
