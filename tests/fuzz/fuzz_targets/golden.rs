//! Any octets as a golden trace of Linux; what is read is replayed.

#![no_main]

use paceline_conformance::{Version, read_trace, replay};

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    if let Ok(trace) = read_trace(octets) {
        for version in Version::ALL {
            let _ = replay(version, &trace);
        }
    }
});
