//! Any octets as an ETS option.

#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    paceline_fuzz::ets(octets);
});
