//! What a scenario asks of every engine.
//!
//! Virtual and real time run the same experiment: the same links with the same seeds, the same
//! changes on the way, the same starts and workloads. Names and files are resolved here; what is
//! wrong with them is told with its place in the scenario.

mod change;
mod check;
mod network;
mod starts;

pub use change::{Change, LinkChange, of_event};
pub use check::{check, list, nearest, service};
pub use network::{link, links, queue_limit, route};
pub use starts::{Starts, mss, workload};

/// Streams of one seed: each part of an experiment draws from its own.
pub fn seed_of(seed: u64, stream: u64) -> u64 {
    let mut rng = paceline_units::Rng::new(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
    rng.next_u64()
}
