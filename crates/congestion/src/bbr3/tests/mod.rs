mod path;
mod properties;
mod rules;

use std::vec::Vec;

use super::*;
use crate::{CaState, Delivery, PacketState, RateSample};

const MSS: u32 = 1000;

fn config(srtt: Option<Duration>) -> Config {
    Config {
        mss: MSS,
        initial_window: Bytes::new(10_000),
        seed: 7,
        now: Instant::ZERO,
        srtt,
        has_selective_acks: true,
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
