//! What fuzzing starts from, and what it has found: `fuzz/seeds/trace`, replayed.

use std::fs;
use std::path::PathBuf;

use paceline_path::{CapacityTrace, Link, LinkConfig, Loss, Packet, QueueLimit, Service};
use paceline_units::{Duration, Instant};

/// Every file, by name.
fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/trace");
    let entries = fs::read_dir(folder).expect("the corpus");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() > 5);
    let read = |path: PathBuf| {
        let octets = fs::read(&path).expect("a file");
        (path, octets)
    };
    files.into_iter().map(read).collect()
}

#[derive(Clone)]
struct Frame;

impl Packet for Frame {
    fn size(&self) -> u32 {
        1000
    }
}

#[test]
fn what_is_read_drives_a_link_to_its_end() {
    let mut read = 0;
    for (path, octets) in corpus() {
        let Ok(trace) = CapacityTrace::parse(&String::from_utf8_lossy(&octets)) else {
            continue;
        };
        read += 1;
        assert!(trace.period() > Duration::ZERO, "{}", path.display());
        let mut link = Link::new(LinkConfig {
            service: Service::Trace(trace),
            delay: Duration::ZERO,
            limit: QueueLimit::Packets(100),
            loss: Loss::default(),
            seed: 1,
        });
        for _ in 0..100 {
            link.enqueue(Instant::ZERO, Frame);
        }
        let mut arrived = 0;
        while let Some(at) = link.next_arrival() {
            arrived += u32::from(link.arrive(at).is_some());
        }
        assert_eq!(arrived, 100, "{}", path.display());
        assert!(link.counters().balanced(), "{}", path.display());
    }
    assert_eq!(read, 3);
}
