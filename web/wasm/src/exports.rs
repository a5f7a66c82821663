//! The functions that a page calls. They share a buffer in each direction, and read no pointer that
//! they receive.
#![allow(unsafe_code, reason = "names are exported and one is imported")]

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::laboratory::Laboratory;
use crate::script::{self, CONSTRUCTOR, Page, Script, Slots};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Virtual time that has passed and that of the whole run, in nanoseconds, and packets so far.
    safe fn heard(simulated_ns: f64, total_ns: f64, packets: f64);
    /// The next rows of a followed column, by its number: this many 64-bit floats.
    safe fn grown(column: u32, rows: *const f64, count: usize);
    /// Calls a method of an instance of the page's class, with numbers both ways and a text.
    /// Returns 0, or 1 if it throws; then the message is the new input, as is the description of
    /// the class when an instance is created.
    safe fn called(call: u32, instance: u32, slots: *mut f64, text: *const u8, bytes: usize)
    -> u32;
}

thread_local! {
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The columns that the page follows during a run.
    static FOLLOWED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static LABORATORY: RefCell<Laboratory> = RefCell::default();
}

/// The class of the page; none of its code runs before a run is requested.
struct Tab {
    asleep: bool,
}

impl Page for Tab {
    fn call(
        &self,
        (name, number): (&'static str, u32),
        instance: u32,
        slots: &mut Slots,
        text: &str,
    ) -> Result<String, String> {
        if self.asleep {
            return Ok(script::SILENT.into());
        }
        let (at, length) = (text.as_ptr(), text.len());
        let thrown = called(number, instance, slots.as_mut_ptr(), at, length);
        let returned = || INPUT.with_borrow(|input| String::from_utf8_lossy(input).into_owned());
        match (thrown, name) {
            (0, CONSTRUCTOR) => Ok(returned()),
            (0, _) => Ok(String::new()),
            _ => Err(returned()),
        }
    }
}

/// Sets the page's own controller, by its source, which the page has; none if that is empty.
/// `asleep` says whether only its name is known, for checks.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_bring(asleep: bool) {
    respond(|laboratory, source| {
        let guest = (!source.is_empty()).then(|| Script::new(Tab { asleep }, source));
        laboratory.bring(guest.map(|guest| Arc::new(guest) as _));
        Vec::new()
    });
}

/// The calls of the page's class: [`script::interface`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_interface() {
    respond(|_, _| script::interface().to_string().into_bytes());
}

fn respond(act: impl FnOnce(&mut Laboratory, &str) -> Vec<u8>) {
    let text = INPUT.with_borrow(|input| String::from_utf8_lossy(input).into_owned());
    let given = LABORATORY.with_borrow_mut(|laboratory| act(laboratory, &text));
    OUTPUT.set(given);
}

/// The address for this many bytes of input.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_input(bytes: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(bytes, 0);
        input.as_mut_ptr()
    })
}

/// The address of the last result.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

/// Its length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_output_len() -> usize {
    OUTPUT.with_borrow(Vec::len)
}

/// Checks a scenario: [`Laboratory::check`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_check() {
    respond(|laboratory, text| laboratory.check(text).to_string().into_bytes());
}

/// During a run, the page receives the rows of these columns, `TABLE.COLUMN` line by line.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_follow() {
    respond(|_, names| {
        FOLLOWED.set(names.lines().map(str::to_owned).collect());
        Vec::new()
    });
}

/// Runs a scenario: [`Laboratory::run`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_run() {
    let mut reported = 0;
    let followed = FOLLOWED.with_borrow(Vec::clone);
    let mut rows = vec![0; followed.len()];
    respond(|laboratory, text| {
        let run = laboratory.run(text, &mut |progress, record| {
            // About fifty times per run: each is a call into the page.
            let part = 50 * progress.passed.as_nanos() / progress.total.as_nanos().max(1);
            if part > reported {
                reported = part;
                for ((column, name), from) in (0..).zip(&followed).zip(&mut rows) {
                    let next = record.numbers(name, *from).unwrap_or_default();
                    *from += next.len();
                    grown(column, next.as_ptr(), next.len());
                }
                heard(
                    progress.passed.as_nanos() as f64,
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
    respond(|laboratory, text| laboratory.column(text));
}

/// The digest of the last run: [`Laboratory::digest`].
#[unsafe(no_mangle)]
pub extern "C" fn paceline_digest() {
    respond(|laboratory, _| laboratory.digest().into_bytes());
}

/// The JSON Schema of scenarios.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_schema() {
    respond(|_, _| paceline_experiment::schema_json().into_bytes());
}
