//! Nanoseconds per ACK frame of two packets through an adapter's path: ring, sampler, controller
//! and the two sends that follow, for different amounts in flight. Prints a table; asserts nothing.

use std::time;

use paceline_adapter::Path;
use paceline_congestion::{AnyController, Config, recipe};
use paceline_units::{Bytes, Duration, Instant};

const MSS: u32 = 1452;
const RTT: Duration = Duration::from_millis(50);

/// A full pipe: each packet is acknowledged a round trip after it was sent, and another replaces
/// it.
struct Pipe {
    path: Path<AnyController>,
    /// Time between two packets.
    gap: Duration,
    flight: u64,
    /// The next packet to be sent.
    next: u64,
    numbered: bool,
}

impl Pipe {
    fn new(name: &str, flight: u64, numbered: bool) -> Self {
        let recipe = recipe(name, &[]).unwrap_or_else(|_| panic!("no controller {name}"));
        let controller = recipe.build(&Config {
            mss: MSS,
            initial_window: Bytes::new(flight * u64::from(MSS)),
            seed: 1,
            now: Instant::from_nanos(1),
            srtt: None,
            has_selective_acks: true,
        });
        let mut pipe = Self {
            path: Path::new(controller, MSS),
            gap: RTT / flight,
            flight,
            next: 0,
            numbered,
        };
        (0..flight).for_each(|_| pipe.send());
        pipe
    }

    /// When packet `number` is sent: two leave at the same time.
    fn sent_at(&self, number: u64) -> Instant {
        Instant::from_nanos(1) + self.gap * (number / 2 * 2)
    }

    fn send(&mut self) {
        let now = self.sent_at(self.next);
        match self.numbered {
            true => self.path.sent(now, self.next, MSS),
            false => self.path.sent_together(now, MSS),
        }
        self.next += 1;
    }

    /// An ACK of the two oldest, and two more.
    fn step(&mut self) {
        let oldest = self.next - self.flight;
        let sent = self.sent_at(oldest);
        let now = self.sent_at(self.next);
        for number in [oldest, oldest + 1] {
            let number = self.numbered.then_some(number);
            self.path.acked(now, sent, number, MSS);
        }
        let left = (self.flight - 2) * u64::from(MSS);
        self.path.end_acks(now, left, false);
        self.send();
        self.send();
    }
}

fn main() {
    const ACKS: u32 = 100_000;
    const ROUNDS: usize = 15;
    println!(
        "path of an adapter: ns per ACK frame of two packets (least of {ROUNDS} rounds of {ACKS} ACKs)"
    );
    println!(
        "{:<8} {:<8} {:>10} {:>10} {:>10}",
        "as", "in flight", 100, 1_000, 10_000
    );
    for (stack, numbered) in [("quinn", false), ("noq", true)] {
        for name in ["bbr3", "cubic", "reno"] {
            print!("{stack:<8} {name:<9}");
            for flight in [100, 1_000, 10_000] {
                let mut pipe = Pipe::new(name, flight, numbered);
                let least = (0..ROUNDS)
                    .map(|_| {
                        let start = time::Instant::now();
                        (0..ACKS).for_each(|_| pipe.step());
                        start.elapsed().as_nanos() / u128::from(ACKS)
                    })
                    .min()
                    .unwrap_or_default();
                print!(" {least:>10}");
            }
            println!();
        }
    }
}
