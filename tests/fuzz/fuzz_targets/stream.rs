//! Any octets in the place of one frame of a killed run's stream; the first octet says of which.

#![no_main]

use std::sync::LazyLock;

use paceline_fuzz::stream::Spoiled;

static STREAM: LazyLock<Spoiled> = LazyLock::new(Spoiled::new);

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    STREAM.read(octets);
});
