//! Draws and judges a hundred scenarios.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use paceline_soak::{Budget, Schema, Watch, draw, judge};

/// Each run is shortened to this budget.
const BUDGET: Budget = Budget {
    work: 5_000,
    wanted: 1_000,
    rows: 4_000,
};

/// A thread that takes longer than this for a scenario never ends: a scenario takes some tenths of
/// a second.
const HANG: Duration = Duration::from_secs(300);

#[test]
fn a_hundred_scenarios_end_in_records_that_hold_together() {
    let schema = Schema::new();
    let (next, judged) = (AtomicU64::new(0), AtomicU64::new(0));
    let (failures, watch) = (Mutex::new(Vec::new()), Watch::new(2));
    thread::scope(|scope| {
        for number in 0..2 {
            let (schema, next, judged, failures) = (&schema, &next, &judged, &failures);
            let watched = watch.thread(number);
            scope.spawn(move || {
                let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{number}"));
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= 100 {
                        return;
                    }
                    watched.begin(seed);
                    let Some(mut draft) = draw(schema, seed, paceline_simulator::check) else {
                        continue;
                    };
                    match judge(schema, &mut draft, &folder, BUDGET) {
                        Ok(Some(_)) => {
                            judged.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(None) => {}
                        Err(error) => failures.lock().unwrap().push((seed, error)),
                    }
                }
            });
        }
        watch.guard(HANG);
    });
    let failures = failures.into_inner().unwrap();
    let again = "cargo run --release -p paceline-soak -- --count 1 --seed SEED makes a small scenario of a failure";
    assert!(failures.is_empty(), "{failures:#?}\n{again}");
    // Few exceed the budget, or cannot be repaired.
    let judged = judged.into_inner();
    assert!(judged >= 90, "only {judged} of 100 were judged");
}
