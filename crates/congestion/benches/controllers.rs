//! Nanoseconds per acknowledgment of two packets: controller, sampler and the two sends that
//! follow, for different amounts in flight. Prints a table; asserts nothing.

#[path = "../tests/pipe/mod.rs"]
mod pipe;

use std::time::Instant;

use paceline_congestion::controllers;
use pipe::Pipe;

fn main() {
    const ACKS: u32 = 200_000;
    const ROUNDS: usize = 15;
    println!(
        "controller, sampler and two sends: ns per ACK of two packets (least of {ROUNDS} rounds of {ACKS} ACKs)"
    );
    println!(
        "{:<12} {:>10} {:>10} {:>10}",
        "in flight", 100, 1_000, 10_000
    );
    for spec in controllers() {
        print!("{:<12}", spec.name);
        for flight in [100, 1_000, 10_000] {
            let mut pipe = Pipe::new(spec.name, flight);
            let least = (0..ROUNDS)
                .map(|_| {
                    let start = Instant::now();
                    for _ in 0..ACKS {
                        pipe.step(2);
                    }
                    start.elapsed().as_nanos() / u128::from(ACKS)
                })
                .min()
                .unwrap_or_default();
            print!(" {least:>10}");
        }
        println!();
    }
}
