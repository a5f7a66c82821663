//! Controllers behind the table: ours, and those of a crate that links this one.

use core::ffi::{c_char, c_void};
use core::fmt::Write;
use core::mem::{align_of, size_of};

use paceline_congestion::options::OptionValue;
use paceline_congestion::{Config, Controller, ControllerSpec, Quantity, Signals, Unmet};
use paceline_units::Bytes;

use crate::events::Plain;
use crate::text::{Message, slice, value};
use crate::types::*;

/// The maximum number of options in one call of `init`.
const MAX_OPTIONS: usize = 64;

/// Fills `out` with the `index`-th controller, at most `out_size` bytes of it: `PACELINE_NOT_FOUND` past the last.
///
/// A library of controllers defines this function. `paceline-plugin` looks for it in the libraries
/// that it loads; this library defines it for ours.
///
/// # Safety
/// `out` is writable for `out_size` bytes and aligned as a `paceline_controller`.
#[cfg(feature = "library")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_controller_get(
    index: usize,
    out: *mut paceline_controller,
    out_size: usize,
) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { copy::<Ours>(paceline_congestion::controllers().get(index), out, out_size) }
}

/// Fills `out` with the controller called `name`, which a zero ends: `PACELINE_NOT_FOUND` if there is none.
///
/// # Safety
/// `name` is text ended by a zero; `out` is writable for `out_size` bytes and aligned as a `paceline_controller`.
#[cfg(feature = "library")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_controller_find(
    name: *const c_char,
    out: *mut paceline_controller,
    out_size: usize,
) -> u32 {
    if name.is_null() {
        return PACELINE_BAD_POINTER;
    }
    // SAFETY: by this function's contract.
    let name = unsafe { core::ffi::CStr::from_ptr(name) }.to_bytes();
    match paceline_congestion::controllers()
        .iter()
        .position(|spec| spec.name.as_bytes() == name)
    {
        // SAFETY: by this function's contract.
        Some(index) => unsafe { paceline_controller_get(index, out, out_size) },
        None => PACELINE_NOT_FOUND,
    }
}

/// The factory of the state behind a table.
pub(crate) trait Family {
    type State: Controller;
    type Recipe;
    /// The controller `name` with these options, whose values fit their kinds.
    fn recipe(name: &str, options: &[(&str, OptionValue)]) -> Option<Self::Recipe>;
    fn check(recipe: &Self::Recipe, signals: Signals) -> Result<(), Unmet>;
    fn build(recipe: Self::Recipe, config: &Config) -> Self::State;
}

/// The controllers of `paceline-congestion`.
#[cfg(feature = "library")]
pub(crate) struct Ours;

#[cfg(feature = "library")]
impl Family for Ours {
    type State = paceline_congestion::AnyController;
    type Recipe = paceline_congestion::Recipe;

    fn recipe(name: &str, options: &[(&str, OptionValue)]) -> Option<Self::Recipe> {
        paceline_congestion::recipe(name, options).ok()
    }

    fn check(recipe: &Self::Recipe, signals: Signals) -> Result<(), Unmet> {
        recipe.check(signals)
    }

    fn build(recipe: Self::Recipe, config: &Config) -> Self::State {
        recipe.build(config)
    }
}

/// Fills `out` with the table of a controller, if there is one.
///
/// # Safety
/// `out` is writable for `out_size` bytes and aligned as a `paceline_controller`.
pub(crate) unsafe fn copy<F: Family>(
    spec: Option<&'static ControllerSpec>,
    out: *mut paceline_controller,
    out_size: usize,
) -> u32 {
    // SAFETY: by this function's contract.
    unsafe {
        fill(out, out_size, |size| {
            let mut table = table::<F>(spec?);
            table.table_size = size;
            Some(table)
        })
    }
}

/// Writes as much of the table to `out` as there is room for. `table` makes it, for this many
/// bytes; none if there is no such table.
///
/// # Safety
/// `out` is writable for `out_size` bytes and aligned as a `T`.
pub(crate) unsafe fn fill<T>(
    out: *mut T,
    out_size: usize,
    table: impl FnOnce(u32) -> Option<T>,
) -> u32 {
    if out.is_null() || !out.is_aligned() {
        return PACELINE_BAD_POINTER;
    }
    let size = size_of::<T>().min(out_size);
    let Some(table) = table(size as u32) else {
        return PACELINE_NOT_FOUND;
    };
    // SAFETY: `out` has room for `out_size` bytes, and `size` is no more.
    unsafe {
        (&raw const table)
            .cast::<u8>()
            .copy_to(out.cast::<u8>(), size)
    };
    PACELINE_OK
}

fn table<F: Family>(spec: &'static ControllerSpec) -> paceline_controller {
    paceline_controller {
        abi_version: PACELINE_ABI_VERSION,
        table_size: 0,
        name: paceline_string::of(spec.name),
        summary: paceline_string::of(spec.summary),
        source: paceline_string::of(spec.source),
        context: core::ptr::from_ref(spec).cast(),
        state_size: size_of::<F::State>(),
        state_align: align_of::<F::State>(),
        option: Some(option),
        phase_name: Some(phase_name),
        field: Some(field),
        init: Some(init::<F>),
        on_send: Some(on_send::<F::State>),
        on_idle_restart: Some(on_idle_restart::<F::State>),
        on_loss: Some(on_loss::<F::State>),
        on_ack: Some(on_ack::<F::State>),
        on_recovery_enter: Some(on_recovery_enter::<F::State>),
        on_recovery_exit: Some(on_recovery_exit::<F::State>),
        on_timeout: Some(on_timeout::<F::State>),
        on_spurious: Some(on_spurious::<F::State>),
        on_mss: Some(on_mss::<F::State>),
        outputs: Some(outputs::<F::State>),
        phase: Some(phase::<F::State>),
        values: Some(values::<F::State>),
    }
}

/// # Safety
/// `controller` is a complete table of ours.
unsafe fn spec(controller: *const paceline_controller) -> &'static ControllerSpec {
    // SAFETY: by this function's contract; `table` put the description there.
    unsafe { &*(*controller).context.cast::<ControllerSpec>() }
}

/// # Safety
/// `out` is writable.
pub(crate) unsafe fn give<T>(entry: Option<T>, out: *mut T) -> u32 {
    match entry {
        Some(_) if out.is_null() => PACELINE_BAD_POINTER,
        Some(entry) => {
            // SAFETY: by this function's contract.
            unsafe { out.write(entry) };
            PACELINE_OK
        }
        None => PACELINE_NOT_FOUND,
    }
}

unsafe extern "C" fn option(
    controller: *const paceline_controller,
    index: usize,
    out: *mut paceline_option_info,
) -> u32 {
    // SAFETY: by the contract of the table.
    unsafe {
        let entry = (spec(controller).option)(index).map(|option| paceline_option_info {
            name: paceline_string::of(option.name),
            about: paceline_string::of(option.doc),
        });
        give(entry, out)
    }
}

unsafe extern "C" fn phase_name(
    controller: *const paceline_controller,
    index: usize,
    out: *mut paceline_string,
) -> u32 {
    // SAFETY: by the contract of the table.
    unsafe {
        let name = spec(controller).phases.get(index);
        let entry = name.map(|name| paceline_string::of(name));
        give(entry, out)
    }
}

unsafe extern "C" fn field(
    controller: *const paceline_controller,
    index: usize,
    out: *mut paceline_field,
) -> u32 {
    let (mut at, mut entry) = (0, None);
    // SAFETY: by the contract of the table.
    let spec = unsafe { spec(controller) };
    (spec.visit_fields)(&mut |field| {
        if at == index {
            entry = Some(paceline_field {
                name: paceline_string::of(field.name),
                quantity: quantity(field.quantity),
            });
        }
        at += 1;
    });
    // SAFETY: by the contract of the table.
    unsafe { give(entry, out) }
}

fn quantity(quantity: Quantity) -> u32 {
    match quantity {
        Quantity::Bytes => PACELINE_BYTES,
        Quantity::Rate => PACELINE_BITS_PER_SECOND,
        Quantity::Duration => PACELINE_NANOSECONDS,
        Quantity::Gain => PACELINE_MILLIONTHS,
        Quantity::Packets => PACELINE_PACKETS,
        Quantity::Count => PACELINE_COUNT,
        Quantity::Flag => PACELINE_FLAG,
        Quantity::Number => PACELINE_NUMBER,
    }
}

unsafe extern "C" fn init<F: Family>(
    controller: *const paceline_controller,
    state: *mut c_void,
    config: *const paceline_config,
    options: *const paceline_option,
    option_count: usize,
    message: *mut c_char,
    message_size: usize,
) -> u32 {
    // SAFETY: by the contract of the table.
    let mut message = unsafe { Message::at(message, message_size) };
    let state = state.cast::<F::State>();
    if state.is_null() || !state.is_aligned() || config.is_null() {
        return message.refuse(
            PACELINE_BAD_POINTER,
            format_args!(
                "no state, no configuration, or a state not aligned to {} bytes",
                align_of::<F::State>()
            ),
        );
    }
    // SAFETY: by the contract of the table.
    let (spec, signals, config) = unsafe {
        (
            spec(controller),
            Signals::from_bits((*config).signals),
            Config::from(&*config),
        )
    };
    if config.mss == 0 || config.initial_window == Bytes::ZERO {
        let why = "`mss_bytes` and `initial_window_bytes` have to be above zero";
        return message.refuse(PACELINE_BAD_CONFIG, why);
    }
    // SAFETY: by the contract of the table.
    let recipe = unsafe {
        let options = slice(options, option_count);
        with_options::<F>(spec, options, &mut message)
    };
    let Some(recipe) = recipe else {
        return PACELINE_BAD_OPTION;
    };
    if let Err(unmet) = F::check(&recipe, signals) {
        return message.refuse(PACELINE_UNMET, unmet);
    }
    // SAFETY: `state` is aligned, and by the contract of the table writable.
    unsafe { state.write(F::build(recipe, &config)) };
    PACELINE_OK
}

/// The controller with `options`; none if one of them is refused, and `message` says why.
///
/// # Safety
/// The texts of `options` can be read.
pub(crate) unsafe fn with_options<F: Family>(
    spec: &ControllerSpec,
    options: &[paceline_option],
    message: &mut Message<'_>,
) -> Option<F::Recipe> {
    if options.len() > MAX_OPTIONS {
        let _ = write!(message, "more than {MAX_OPTIONS} options");
        return None;
    }
    let mut values = [("", OptionValue::Flag(false)); MAX_OPTIONS];
    for (place, option) in values.iter_mut().zip(options) {
        // SAFETY: by this function's contract.
        let (name, text) = unsafe { (option.name.text(), option.value.text()) };
        let (Some(name), Some(text)) = (name, text) else {
            let _ = write!(message, "an option that is not UTF-8");
            return None;
        };
        let Some(info) = spec.options().find(|info| info.name == name) else {
            let _ = write!(message, "`{}` has no option `{name}`", spec.name);
            return None;
        };
        let Some(value) = value(info.kind, text) else {
            let _ = write!(message, "`{name}` is {}, not `{text}`", info.kind);
            return None;
        };
        *place = (info.name, value);
    }
    F::recipe(spec.name, values.get(..options.len())?)
}

/// # Safety
/// `state` was made by `init`, and nobody else uses it during the call.
unsafe fn controller<'s, C>(state: *mut c_void) -> &'s mut C {
    // SAFETY: by this function's contract.
    unsafe { &mut *state.cast::<C>() }
}

unsafe extern "C" fn on_send<C: Controller>(state: *mut c_void, sent: *const paceline_sent) {
    // SAFETY: by the contract of the table.
    unsafe { controller::<C>(state).on_send(&(&*sent).into()) }
}

unsafe extern "C" fn on_loss<C: Controller>(state: *mut c_void, lost: *const paceline_lost) {
    // SAFETY: by the contract of the table.
    unsafe { controller::<C>(state).on_loss(&(&*lost).into()) }
}

unsafe extern "C" fn on_ack<C: Controller>(state: *mut c_void, ack: *const paceline_ack) {
    // SAFETY: by the contract of the table.
    unsafe { controller::<C>(state).on_ack(&(&*ack).into()) }
}

/// Defines the functions of the table that pass plain numbers on.
macro_rules! events {
    ($($event:ident($($given:ident: $plain:ty),*);)*) => {$(
        unsafe extern "C" fn $event<C: Controller>(state: *mut c_void, $($given: $plain),*) {
            // SAFETY: by the contract of the table.
            unsafe { controller::<C>(state).$event($(Plain::of($given)),*) }
        }
    )*};
}

events! {
    on_idle_restart(now_ns: u64);
    on_recovery_enter(now_ns: u64, in_flight_bytes: u64);
    on_recovery_exit(now_ns: u64);
    on_timeout(now_ns: u64, in_flight_bytes: u64);
    on_spurious(now_ns: u64, delivered_bytes: u64);
    on_mss(mss_bytes: u32);
}

unsafe extern "C" fn outputs<C: Controller>(state: *const c_void, out: *mut paceline_outputs) {
    // SAFETY: by the contract of the table.
    unsafe { out.write((&(*state.cast::<C>()).outputs()).into()) }
}

unsafe extern "C" fn phase<C: Controller>(state: *const c_void, out: *mut paceline_string) {
    // SAFETY: by the contract of the table.
    unsafe { out.write(paceline_string::of((*state.cast::<C>()).phase())) }
}

unsafe extern "C" fn values<C: Controller>(state: *const c_void, values: *mut u64, count: usize) {
    // SAFETY: by the contract of the table.
    let controller = unsafe { &*state.cast::<C>() };
    let mut index = 0;
    controller.visit_state(&mut paceline_congestion::Visitor::each(&mut |_, value| {
        if index < count {
            // SAFETY: `values` has room for `count`.
            unsafe { values.add(index).write(value.bits()) };
        }
        index += 1;
    }));
}
