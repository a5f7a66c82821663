//! A window from `bbr3` without an operating system and without an allocator.
//!
//! A program has one panic handler. This one has its own, so that it does not build if anything
//! below it brings in the standard library.

#![no_std]

use core::panic::PanicInfo;

use paceline_congestion::{Config, Controller, build};
use paceline_units::{Bytes, Instant};

/// The initial window of `bbr3` in bytes for segments of `mss` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn initial_window(mss: u32) -> u64 {
    let config = Config {
        mss,
        initial_window: Bytes::new(10 * u64::from(mss)),
        seed: 1,
        now: Instant::ZERO,
        srtt: None,
        has_selective_acks: true,
    };
    build("bbr3", &config, &[]).map_or(0, |bbr| bbr.cwnd().get())
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
