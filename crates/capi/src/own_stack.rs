//! Transports of a crate that links this one, behind the table: [`export_stack!`](crate::export_stack).

use core::ffi::{c_char, c_void};
use core::mem::{align_of, size_of};
use std::any::Any;
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use paceline_endpoint::{Datagram, Endpoint};
use paceline_units::Instant;

use crate::stack::*;
use crate::table::{fill, give};
use crate::text::{Message, slice};
use crate::types::*;
use crate::{codepoint, ecn};

/// What an end is made with.
#[derive(Clone, Copy, Debug)]
pub struct EndConfig<'a> {
    /// Whether it is the end that sends.
    pub sends: bool,
    /// The maximum UDP payload of a packet, in bytes.
    pub max_datagram: u32,
    /// Seed of the end's own draws.
    pub seed: u64,
    /// The time at which the flow starts.
    pub now: Instant,
    /// The controller that the scenario names.
    pub controller: &'a str,
}

/// A transport that [`export_stack!`](crate::export_stack) can put behind the table.
///
/// If a method panics, the run ends with an error that shows the panic's message; other runs go on.
pub trait OwnStack: Endpoint<Payload = Vec<u8>> + Send + Sized {
    /// Its name: letters, digits, `-`, `_`, `+` and `.`.
    const NAME: &'static str;
    /// What it is, in a line.
    const SUMMARY: &'static str;
    /// The version of the transport.
    const VERSION: &'static str;
    /// The names of its own controllers, separated by commas. A sender is made with one of them, unless there is none.
    const CONTROLLERS: &'static str;
    /// The names of its controllers' options, and what they do, if it says so: then any other is refused before
    /// [`new`](Self::new).
    const OPTIONS: Option<&'static [(&'static str, &'static str)]> = None;
    /// The maximum payload of a batch in bytes: at least a datagram's, at most 1 MiB.
    const MAX_BATCH: u32 = 65_535;

    /// Makes an end, with options as a scenario writes them.
    ///
    /// # Errors
    /// What is wrong with the configuration or an option, and what is allowed.
    fn new(config: &EndConfig<'_>, options: &[(&str, &str)]) -> Result<Self, String>;
}

/// An end, and why it cannot go on.
struct Guarded<E> {
    end: E,
    failure: OnceCell<String>,
}

impl<E: OwnStack> Guarded<E> {
    /// Does something with the end, unless it has failed.
    fn with<T>(&mut self, what: impl FnOnce(&mut E) -> T) -> Option<T> {
        let Self { end, failure } = self;
        guarded(failure, || what(end))
    }

    /// The same, of what does not change it.
    fn read<T>(&self, what: impl FnOnce(&E) -> T) -> Option<T> {
        guarded(&self.failure, || what(&self.end))
    }
}

fn guarded<T>(failure: &OnceCell<String>, what: impl FnOnce() -> T) -> Option<T> {
    if failure.get().is_some() {
        return None;
    }
    let outcome = catch_unwind(AssertUnwindSafe(what));
    outcome
        .map_err(|panic| fail(failure, panicked(panic.as_ref())))
        .ok()
}

/// The first reason is the one that counts.
fn fail(failure: &OnceCell<String>, why: String) {
    let _ = failure.set(why);
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", message.unwrap_or("without a message"))
}

/// Fills `out` with the table of `E` if `index` is 0.
///
/// # Safety
/// `out` is writable for `out_size` bytes and aligned as a `paceline_stack`.
#[doc(hidden)]
pub unsafe fn get_stack<E: OwnStack>(
    index: usize,
    out: *mut paceline_stack,
    out_size: usize,
) -> u32 {
    let table = |table_size| {
        (index == 0).then_some(paceline_stack {
            abi_version: PACELINE_ENDPOINT_ABI_VERSION,
            table_size,
            name: paceline_string::of(E::NAME),
            summary: paceline_string::of(E::SUMMARY),
            version: paceline_string::of(E::VERSION),
            context: core::ptr::null(),
            state_size: size_of::<Guarded<E>>(),
            state_align: align_of::<Guarded<E>>(),
            max_batch_bytes: E::MAX_BATCH,
            init: Some(init::<E>),
            fini: Some(fini::<E>),
            receive: Some(receive::<E>),
            on_timer: Some(on_timer::<E>),
            poll_transmit: Some(poll_transmit::<E>),
            next_timer: Some(next_timer::<E>),
            write: Some(write::<E>),
            delivered: Some(delivered::<E>),
            stats: Some(stats::<E>),
            controllers: paceline_string::of(E::CONTROLLERS),
            failure: Some(failure::<E>),
            phase: Some(phase::<E>),
            option: E::OPTIONS.map(|_| option::<E> as _),
        })
    };
    // SAFETY: by this function's contract.
    unsafe { fill(out, out_size, table) }
}

unsafe extern "C" fn init<E: OwnStack>(
    _stack: *const paceline_stack,
    state: *mut c_void,
    config: *const paceline_end_config,
    options: *const paceline_option,
    option_count: usize,
    message: *mut c_char,
    message_size: usize,
) -> u32 {
    // SAFETY: by the contract of the table.
    let mut reason = unsafe { Message::at(message, message_size) };
    let state = state.cast::<Guarded<E>>();
    if state.is_null() || !state.is_aligned() || config.is_null() {
        let why = "no state, no configuration, or a state that is not aligned";
        return reason.refuse(PACELINE_BAD_POINTER, why);
    }
    // SAFETY: by the contract of the table.
    let (config, controller, options) = unsafe {
        let options = slice(options, option_count);
        (&*config, (*config).controller.text(), options)
    };
    let options = options.iter().map(|option| {
        // SAFETY: by the contract of the table.
        unsafe { Some((option.name.text()?, option.value.text()?)) }
    });
    let (Some(controller), Some(options)) = (controller, options.collect::<Option<Vec<_>>>())
    else {
        return reason.refuse(PACELINE_BAD_CONFIG, "a text that is not UTF-8");
    };
    let config = EndConfig {
        sends: config.sends != 0,
        max_datagram: config.max_datagram_bytes,
        seed: config.seed,
        now: Instant::from_nanos(config.now_ns),
        controller,
    };
    let mut known = E::CONTROLLERS.split(',').filter(|name| !name.is_empty());
    if config.sends && !E::CONTROLLERS.is_empty() && !known.any(|name| name == controller) {
        let (name, all) = (E::NAME, E::CONTROLLERS);
        let why = format!("no controller of {name} is called `{controller}`; it has {all}");
        return reason.refuse(PACELINE_BAD_CONFIG, why);
    }
    let made = catch_unwind(AssertUnwindSafe(|| E::new(&config, &options)));
    match made.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))) {
        Ok(end) => {
            let failure = OnceCell::new();
            // SAFETY: `state` is aligned, and by the contract of the table writable.
            unsafe { state.write(Guarded { end, failure }) };
            PACELINE_OK
        }
        Err(why) => reason.refuse(PACELINE_BAD_CONFIG, why),
    }
}

/// # Safety
/// `state` was made by `init::<E>`, and nobody else uses it during the call.
unsafe fn guarded_mut<'s, E: OwnStack>(state: *mut c_void) -> &'s mut Guarded<E> {
    // SAFETY: by this function's contract.
    unsafe { &mut *state.cast::<Guarded<E>>() }
}

/// # Safety
/// `state` was made by `init::<E>`, and nobody changes it during the call.
unsafe fn guarded_ref<'s, E: OwnStack>(state: *const c_void) -> &'s Guarded<E> {
    // SAFETY: by this function's contract.
    unsafe { &*state.cast::<Guarded<E>>() }
}

unsafe extern "C" fn fini<E: OwnStack>(state: *mut c_void) {
    // SAFETY: by the contract of the table it is not used after this.
    let dropped = AssertUnwindSafe(|| unsafe { state.cast::<Guarded<E>>().drop_in_place() });
    // It is gone either way, and nobody remains to receive an error.
    let _ = catch_unwind(dropped);
}

unsafe extern "C" fn receive<E: OwnStack>(
    state: *mut c_void,
    now_ns: u64,
    datagram: *const paceline_datagram,
) {
    // SAFETY: by the contract of the table.
    let (guard, datagram) = unsafe { (guarded_mut::<E>(state), &*datagram) };
    // SAFETY: by the contract of the table.
    let payload = unsafe { slice(datagram.data, datagram.size_bytes as usize) }.to_vec();
    let datagram = Datagram {
        payload,
        size: datagram.size_bytes,
        ecn: (datagram.ecn != PACELINE_ECN_UNKNOWN).then(|| ecn(datagram.ecn)),
    };
    guard.with(|end| end.receive(Instant::from_nanos(now_ns), datagram));
}

unsafe extern "C" fn on_timer<E: OwnStack>(state: *mut c_void, now_ns: u64) {
    // SAFETY: by the contract of the table.
    let guard = unsafe { guarded_mut::<E>(state) };
    guard.with(|end| end.on_timer(Instant::from_nanos(now_ns)));
}

unsafe extern "C" fn poll_transmit<E: OwnStack>(
    state: *mut c_void,
    now_ns: u64,
    batch: *mut paceline_batch,
) -> u32 {
    // SAFETY: by the contract of the table.
    let (guard, batch) = unsafe { (guarded_mut::<E>(state), &mut *batch) };
    let sent = guard.with(|end| end.poll_transmit(Instant::from_nanos(now_ns)));
    let Some(out) = sent.flatten() else {
        return 0;
    };
    let size = out.payload.len();
    if size == 0 || batch.data.is_null() || size > batch.capacity_bytes as usize {
        let room = batch.capacity_bytes;
        let why = format!("a batch of {size} bytes, with room for {room}");
        fail(&guard.failure, why);
        return 0;
    }
    // SAFETY: by the contract of the table there is room for `capacity_bytes`, and `size` is no more.
    unsafe { batch.data.copy_from(out.payload.as_ptr(), size) };
    batch.size_bytes = size as u32;
    batch.segment_size_bytes = out.segment_size;
    batch.ecn = codepoint(out.ecn);
    1
}

unsafe extern "C" fn next_timer<E: OwnStack>(state: *mut c_void) -> u64 {
    // SAFETY: by the contract of the table.
    let guard = unsafe { guarded_mut::<E>(state) };
    let timer = guard.with(Endpoint::next_timer).flatten();
    timer.map_or(PACELINE_NONE, Instant::as_nanos)
}

unsafe extern "C" fn write<E: OwnStack>(
    state: *mut c_void,
    now_ns: u64,
    bytes: u64,
    stop: u8,
    close: u8,
) {
    // SAFETY: by the contract of the table.
    let guard = unsafe { guarded_mut::<E>(state) };
    let write = writing(bytes, stop, close);
    guard.with(|end| end.write(Instant::from_nanos(now_ns), write));
}

unsafe extern "C" fn delivered<E: OwnStack>(state: *const c_void) -> u64 {
    // SAFETY: by the contract of the table.
    let guard = unsafe { guarded_ref::<E>(state) };
    guard.read(Endpoint::delivered).unwrap_or_default()
}

unsafe extern "C" fn stats<E: OwnStack>(state: *const c_void, out: *mut paceline_stats) {
    // SAFETY: by the contract of the table.
    let guard = unsafe { guarded_ref::<E>(state) };
    if let Some(stats) = guard.read(Endpoint::stats) {
        // SAFETY: by the contract of the table.
        unsafe { out.write((&stats).into()) }
    }
}

unsafe extern "C" fn failure<E: OwnStack>(
    state: *const c_void,
    message: *mut c_char,
    message_size: usize,
) -> u32 {
    // SAFETY: by the contract of the table.
    let guard = unsafe { guarded_ref::<E>(state) };
    let own = || guard.read(Endpoint::failure).flatten();
    let Some(why) = guard.failure.get().cloned().or_else(own) else {
        return 0;
    };
    // SAFETY: by the contract of the table.
    let mut out = unsafe { Message::at(message, message_size) };
    out.refuse(1, why)
}

unsafe extern "C" fn phase<E: OwnStack>(state: *const c_void) -> paceline_string {
    // SAFETY: by the contract of the table.
    let guard = unsafe { guarded_ref::<E>(state) };
    paceline_string::of(guard.read(Endpoint::phase).unwrap_or_default())
}

unsafe extern "C" fn option<E: OwnStack>(
    _stack: *const paceline_stack,
    index: usize,
    out: *mut paceline_option_info,
) -> u32 {
    let entry = E::OPTIONS
        .and_then(|options| options.get(index))
        .map(|(name, about)| paceline_option_info {
            name: paceline_string::of(name),
            about: paceline_string::of(about),
        });
    // SAFETY: by the contract of the table.
    unsafe { give(entry, out) }
}

/// Makes a `cdylib` a library of one transport, which is an [`OwnStack`](crate::OwnStack): defines
/// `paceline_stack_get`.
///
/// The crate has this one without its default feature `library`, which defines that function for our transport.
#[macro_export]
macro_rules! export_stack {
    ($end:ty) => {
        /// The table of the transport, as in `paceline_endpoint.h`.
        ///
        /// # Safety
        /// `out` is writable for `out_size` bytes and aligned as a `paceline_stack`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn paceline_stack_get(
            index: usize,
            out: *mut $crate::stack::paceline_stack,
            out_size: usize,
        ) -> u32 {
            // SAFETY: by this function's contract.
            unsafe { $crate::get_stack::<$end>(index, out, out_size) }
        }
    };
}
