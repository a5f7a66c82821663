//! Any octets as what another program recorded: a capture, a qlog, a result of iperf3.

#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    paceline_fuzz::capture(octets);
});
