//! The names that a page calls. They share a buffer each way, and no pointer that they get is read.
#![allow(unsafe_code, reason = "names are exported and one is imported")]

use std::cell::RefCell;
use std::ops::ControlFlow;

use crate::laboratory::Laboratory;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Virtual time that has passed and that of the whole run, in nanoseconds, and packets so far.
    safe fn heard(simulated_ns: f64, total_ns: f64, packets: f64);
}

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static LABORATORY: RefCell<Laboratory> = RefCell::default();
}

fn answer(act: impl FnOnce(&mut Laboratory, &str) -> Vec<u8>) {
    let text = INPUT.with_borrow(|input| String::from_utf8_lossy(input).into_owned());
    let given = LABORATORY.with_borrow_mut(|laboratory| act(laboratory, &text));
    OUTPUT.set(given);
}

/// Where so many bytes of input are written.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_input(bytes: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(bytes, 0);
        input.as_mut_ptr()
    })
}

/// Where the last answer is.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

/// How many bytes it has.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_output_len() -> usize {
    OUTPUT.with_borrow(Vec::len)
}

/// Checks a scenario: [`Laboratory::check`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_check() {
    answer(|laboratory, text| laboratory.check(text).to_string().into_bytes());
}

/// Runs a scenario: [`Laboratory::run`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_run() {
    let mut told = 0;
    answer(|laboratory, text| {
        let run = laboratory.run(text, &mut |progress| {
            // Some fifty times a run: each is a call into the page.
            let part = 50 * progress.simulated.as_nanos() / progress.total.as_nanos().max(1);
            if part > told {
                told = part;
                heard(
                    progress.simulated.as_nanos() as f64,
                    progress.total.as_nanos() as f64,
                    progress.packets as f64,
                );
            }
            ControlFlow::Continue(())
        });
        run.to_string().into_bytes()
    });
}

/// A column of the last run, `TABLE.COLUMN`: [`Laboratory::column`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_column() {
    answer(|laboratory, text| laboratory.column(text));
}

/// The digest of the last run: [`Laboratory::digest`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_digest() {
    answer(|laboratory, _| laboratory.digest().into_bytes());
}

/// The JSON Schema of scenarios.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_schema() {
    answer(|_, _| paceline_experiment::schema_json().into_bytes());
}
