//! Nanoseconds per data packet of sender and receiver together, without loss: 1000 segments in
//! flight, every second one acknowledged, fixed window, a trivial controller.

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use paceline_congestion::{Ack, Controller, RecoveryWindow};
use paceline_recovery::{Receiver, ReceiverConfig, Segment, Sender, SenderConfig};
use paceline_units::{Bytes, Duration, Instant, Rate};

const IN_FLIGHT: u64 = 1000;
const MSS: u64 = 1448;
const PACKETS: u64 = 10_000;

struct Fixed {
    rate: Option<Rate>,
}

impl Controller for Fixed {
    fn on_ack(&mut self, ack: &Ack) {
        black_box(ack);
    }
    fn on_recovery_enter(&mut self, _now: Instant, _in_flight: Bytes) {}
    fn on_timeout(&mut self, _now: Instant, _in_flight: Bytes) {}
    fn cwnd(&self) -> Bytes {
        Bytes::new(IN_FLIGHT * MSS)
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
    fn send_quantum(&self) -> Bytes {
        Bytes::new(2 * MSS)
    }
    fn recovery_window(&self) -> RecoveryWindow {
        RecoveryWindow::Controller
    }
    fn phase(&self) -> &'static str {
        "Fixed"
    }
}

/// A path that delivers one segment per microsecond, with a window of them on the way.
struct Path {
    sender: Sender<Fixed>,
    receiver: Receiver,
    wire: VecDeque<Segment>,
    now: Instant,
    /// One segment in this many is lost; 0: none.
    loss: u64,
    count: u64,
}

impl Path {
    fn new(rate: Option<Rate>, loss: u64) -> Self {
        let mut sender = Sender::new(SenderConfig::default(), Fixed { rate }, Instant::ZERO, None);
        sender.write_unlimited(Instant::ZERO);
        Self {
            sender,
            receiver: Receiver::new(ReceiverConfig::default()),
            wire: VecDeque::new(),
            now: Instant::ZERO,
            loss,
            count: 0,
        }
    }

    fn run(&mut self, packets: u64) {
        for _ in 0..packets {
            self.now += Duration::from_micros(1);
            if self
                .sender
                .next_timer()
                .is_some_and(|timer| timer <= self.now)
            {
                self.sender.on_timer(self.now);
            }
            while let Some(segment) = self.sender.poll_transmit(self.now) {
                self.wire.push_back(segment);
            }
            let Some(segment) = self.wire.pop_front() else {
                continue;
            };
            self.count += 1;
            if self.loss > 0 && self.count.is_multiple_of(self.loss) {
                continue;
            }
            if let Some(ack) = self.receiver.on_segment(self.now, &segment) {
                self.sender.on_ack(self.now, &ack);
            }
        }
    }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sender and receiver");
    group.throughput(Throughput::Elements(PACKETS));
    // Twice the path's rate: the window limits, the pacer computes.
    let paced = Some(Rate::from_bps(2 * 8 * MSS * 1_000_000));
    for (name, rate, loss) in [
        ("unpaced", None, 0),
        ("paced", paced, 0),
        ("1 % loss", None, 100),
    ] {
        group.bench_function(name, |bencher| {
            let mut path = Path::new(rate, loss);
            path.run(10 * PACKETS);
            bencher.iter(|| path.run(PACKETS));
            let lost = path.sender.stats().lost_packets;
            assert!((lost > 0) == (loss > 0), "{name}: {lost} lost");
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
