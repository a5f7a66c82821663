//! Tables that break the contract of the header in detectable ways.

use std::ffi::c_void;
use std::path::Path;

use paceline_capi::stack::paceline_stack;
use paceline_capi::types::*;
use paceline_capi::{paceline_controller_get, paceline_stack_get};
use paceline_plugin::{Foreign, Library, Transport};

/// Our first table, modified by `change`, is refused for this reason.
fn error_of(change: fn(&mut paceline_controller)) -> String {
    thread_local! {
        static CHANGE: std::cell::Cell<fn(&mut paceline_controller)> = const { std::cell::Cell::new(|_| ()) };
    }
    unsafe extern "C" fn get(index: usize, out: *mut paceline_controller, size: usize) -> u32 {
        if index > 0 {
            return PACELINE_NOT_FOUND;
        }
        // SAFETY: as this function is called; ours fills the whole table.
        unsafe {
            let status = paceline_controller_get(index, out, size);
            CHANGE.get()(&mut *out);
            status
        }
    }
    CHANGE.set(change);
    // SAFETY: it is ours except for the change, and the changed field is checked before it is used.
    unsafe { Library::of(get) }
        .expect_err("refused")
        .to_string()
}

unsafe extern "C" fn endless_phases(
    _: *const paceline_controller,
    _: usize,
    out: *mut paceline_string,
) -> u32 {
    // SAFETY: as this function is called.
    unsafe { out.write(paceline_string::of("\u{1b}[31m")) };
    PACELINE_OK
}

#[test]
fn a_table_that_breaks_the_contract_is_refused() {
    assert_eq!(
        error_of(|table| table.abi_version = 7),
        "it was built for version 7 of the interface, and this program supports version 1"
    );
    let wrong = |change| {
        let message = error_of(change);
        let prefix = "number 0 of what it has is wrong: ";
        message
            .strip_prefix(prefix)
            .expect("it says which")
            .to_owned()
    };
    assert_eq!(
        wrong(|table| table.on_ack = None),
        "`init`, `on_ack`, `outputs`, `phase` or `phase_name` is null"
    );
    assert_eq!(
        wrong(|table| table.values = None),
        "one of `field` and `values` is null, the other is not"
    );
    assert_eq!(
        wrong(|table| table.state_align = 3),
        "`state_align` is not a power of two"
    );
    assert_eq!(
        wrong(|table| table.state_align = 0),
        "`state_align` is not a power of two"
    );
    assert_eq!(
        wrong(|table| table.state_size = usize::MAX),
        "`state_size` is above 64 MiB"
    );
    let name = "its name is not of letters, digits, `-`, `_`, `+` and `.`";
    assert_eq!(wrong(|table| table.name = paceline_string::of("a b")), name);
    assert_eq!(wrong(|table| table.name = paceline_string::EMPTY), name);
    let text = "a text is not UTF-8, or has control characters";
    assert_eq!(
        wrong(|table| table.summary = paceline_string::of("red \u{1b}[31m")),
        text
    );
    assert_eq!(
        wrong(|table| table.source = paceline_string {
            data: b"\xff".as_ptr().cast(),
            length: 1
        }),
        text
    );
    assert_eq!(
        wrong(|table| table.source = paceline_string {
            data: std::ptr::null(),
            length: 1
        }),
        text
    );
    assert_eq!(
        wrong(|table| table.phase_name = Some(endless_phases)),
        "an option, a phase or a field without a name, or a quantity of no meaning"
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri loads no libraries")]
fn a_file_that_is_no_library_is_refused() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // SAFETY: no code runs: it is text.
    let error = unsafe { Library::open(&here.join("Cargo.toml")) }.expect_err("text");
    assert!(error.to_string().contains("Cargo.toml"), "{error}");
    // SAFETY: there is no code to run.
    let error = unsafe { Library::open(&here.join("absent.so")) }.expect_err("nothing");
    assert!(error.to_string().contains("absent.so"), "{error}");
    #[cfg(target_os = "linux")]
    {
        // SAFETY: this program has already loaded the C library.
        let error =
            unsafe { Library::open(Path::new("libc.so.6")) }.expect_err("of something else");
        assert_eq!(
            error.to_string(),
            "it does not define `paceline_controller_get` (paceline_controller.h)"
        );
    }
}

/// An `init` that fails without a message.
#[test]
fn a_refusal_without_a_reason_is_told() {
    unsafe extern "C" fn init(
        _: *const paceline_controller,
        _: *mut c_void,
        _: *const paceline_config,
        _: *const paceline_option,
        _: usize,
        _: *mut std::ffi::c_char,
        _: usize,
    ) -> u32 {
        9
    }
    unsafe extern "C" fn get(index: usize, out: *mut paceline_controller, size: usize) -> u32 {
        // SAFETY: as this function is called.
        unsafe {
            let status = paceline_controller_get(index, out, size);
            if status == PACELINE_OK {
                (*out).init = Some(init);
            }
            status
        }
    }
    // SAFETY: it is ours except for an `init` that makes nothing.
    let library = unsafe { Library::of(get) }.expect("tables are right");
    let config = paceline_congestion::Config {
        mss: 1448,
        initial_window: paceline_units::Bytes::new(14_480),
        seed: 1,
        now: paceline_units::Instant::ZERO,
        srtt: None,
        has_selective_acks: true,
    };
    let reno = library.find("reno").expect("it is there");
    assert_eq!(
        Foreign::build(reno, &config, paceline_congestion::Signals::ALL, &[])
            .expect_err("refused")
            .to_string(),
        "`reno` refused: status 9, without a reason"
    );
}

/// The names of the controllers of our transport as `change` has its table, or why it is refused.
fn transport(change: fn(&mut paceline_stack)) -> Result<Vec<&'static str>, String> {
    thread_local! {
        static CHANGE: std::cell::Cell<fn(&mut paceline_stack)> = const { std::cell::Cell::new(|_| ()) };
    }
    unsafe extern "C" fn get(index: usize, out: *mut paceline_stack, size: usize) -> u32 {
        // SAFETY: as this function is called; ours fills the whole table.
        unsafe {
            let status = paceline_stack_get(index, out, size);
            if status == PACELINE_OK {
                CHANGE.get()(&mut *out);
            }
            status
        }
    }
    CHANGE.set(change);
    // SAFETY: but for the change it is ours, and what is changed is looked at before it is used.
    let transports = unsafe { Transport::of(get) }.map_err(|error| error.to_string())?;
    Ok(transports
        .iter()
        .flat_map(|one| one.controllers.clone())
        .collect())
}

#[test]
fn a_transport_names_its_own_controllers() {
    assert_eq!(transport(|_| ()), Ok(vec![]));
    assert_eq!(
        transport(|table| table.controllers = paceline_string::of("bbr,cubic")),
        Ok(vec!["bbr", "cubic"])
    );
    // A table that ends before this field: the place of it keeps its zeros.
    let absent = |table: &mut paceline_stack| {
        table.controllers = paceline_string {
            data: std::ptr::null(),
            length: 0,
        };
    };
    assert_eq!(transport(absent), Ok(vec![]));
    let wrong = "number 0 of what it has is wrong: the names of its controllers are not of letters, digits, `-`, `_`, \
                 `+` and `.`, with commas in between";
    assert_eq!(
        transport(|table| table.controllers = paceline_string::of("bbr, cubic")),
        Err(wrong.to_owned())
    );
    assert_eq!(
        transport(|table| table.abi_version = 7),
        Err(
            "it was built for version 7 of the interface, and this program supports version 2"
                .to_owned()
        )
    );
}
