//! Any text: what is read as a capacity trace drives a link to its end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_path::{CapacityTrace, Link, LinkConfig, Loss, Packet, QueueLimit, Service};
use paceline_units::{Duration, Instant};

#[derive(Clone)]
struct Frame;

impl Packet for Frame {
    fn size(&self) -> u32 {
        1000
    }
}

fuzz_target!(|text: &str| {
    let Ok(trace) = CapacityTrace::parse(text) else {
        return;
    };
    assert!(trace.period() > Duration::ZERO);
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
    let mut now = Instant::ZERO;
    while let Some(at) = link.next_arrival() {
        assert!(at >= now);
        now = at;
        assert!(link.arrive(at).is_some());
    }
    assert!(link.counters().balanced());
});
