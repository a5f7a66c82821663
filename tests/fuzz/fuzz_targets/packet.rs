//! Any octets as an IP packet that the kernel hands the emulator: its TCP header and options.

#![no_main]

use paceline_tcp::packet;

libfuzzer_sys::fuzz_target!(|octets: &[u8]| {
    packet::classify(octets, true);
    packet::classify(octets, false);
    paceline_capture::Tcp::read(octets);
    let mut octets = octets.to_vec();
    assert_eq!(
        packet::mark(&mut octets),
        octets.len() >= 20 && packet::is_marked(&octets)
    );
});
