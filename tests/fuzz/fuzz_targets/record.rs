//! Any octets in the place of one file of a record; the first octet says of which.

#![no_main]

use std::sync::LazyLock;

use paceline_fuzz::record::Spoiled;

static RECORD: LazyLock<Spoiled> = LazyLock::new(Spoiled::new);

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    RECORD.read(octets);
});
