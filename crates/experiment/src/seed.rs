use paceline_units::Rng;

/// Random streams of one seed: each part of an experiment draws from its own.
pub fn seed_of(seed: u64, stream: u64) -> u64 {
    let mut rng = Rng::new(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
    rng.next_u64()
}
