//! Any text as a capacity trace.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    paceline_fuzz::trace(text);
});
