//! Any text as a scenario that is run.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    paceline_fuzz::run(text);
});
