//! Any octets: what is read as an ETS option is written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_recovery::ets::Ets;

fuzz_target!(|octets: &[u8]| {
    let Ok(option) = Ets::decode(octets) else {
        return;
    };
    let mut written = [0; Ets::SYN_LEN];
    let len = option.encode(&mut written).expect("the longest option fits");
    assert!(len <= octets.len());
    assert_eq!(written[2..12], octets[2..12]);
    assert_eq!(Ets::decode(&written[..len]), Ok(option));
});
