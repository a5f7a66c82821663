//! Any text: what is read as a scenario is written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_scenario::Scenario;

fuzz_target!(|text: &str| {
    match Scenario::parse(text, "fuzz.toml", &[]) {
        Ok(scenario) => {
            let again = Scenario::parse(&scenario.to_toml(), "fuzz.toml", &[]);
            assert_eq!(again.expect("what is written can be read"), scenario);
        }
        Err(problems) => assert!(!problems.is_empty()),
    }
});
