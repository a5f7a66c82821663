//! Any text as a scenario.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    paceline_fuzz::scenario(text);
});
