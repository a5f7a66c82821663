//! Our own transport's ends behind the table.

use core::ffi::{c_char, c_void};
use core::mem::{align_of, size_of};

use paceline_congestion::{AnyController, Config, Controller, controllers};
use paceline_endpoint::{Datagram, Endpoint};
use paceline_recovery::{Message, ReceiverConfig, ReceiverEnd, Sender, SenderConfig};
use paceline_units::{Bytes, Instant};

use crate::stack::*;
use crate::table::{Ours, fill, with_options};
use crate::text::{Message as Reason, slice};
use crate::types::*;
use crate::{codepoint, ecn};

/// Full packets of the initial window (RFC 6928).
const INITIAL_WINDOW: u64 = 10;
/// The minimum size of a datagram: an acknowledgment with all its ranges.
const LEAST_DATAGRAM: u32 = Message::MAX_ACKNOWLEDGMENT as u32;
/// The maximum size.
const MOST_DATAGRAM: u32 = u16::MAX as u32;

/// Fills `out` with the `index`-th transport, at most `out_size` bytes of it: `PACELINE_NOT_FOUND` past the last.
///
/// A library of transports defines this function. `paceline-plugin` looks for it in the libraries
/// that it loads; this library defines it for ours, `paceline`: RACK-TLP, PRR, a pacer, delayed
/// acknowledgments, accurate ECN. `init` takes the controller from its configuration, and the
/// controller's options from `options`. The content of the datagrams is private to the two ends; their
/// payload is zeros.
///
/// # Safety
/// `out` is writable for `out_size` bytes and aligned as a `paceline_stack`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_stack_get(
    index: usize,
    out: *mut paceline_stack,
    out_size: usize,
) -> u32 {
    let table = |table_size| {
        (index == 0).then_some(paceline_stack {
            table_size,
            ..TABLE
        })
    };
    // SAFETY: by this function's contract.
    unsafe { fill(out, out_size, table) }
}

const TABLE: paceline_stack = paceline_stack {
    abi_version: PACELINE_ENDPOINT_ABI_VERSION,
    table_size: 0,
    name: paceline_string::of("paceline"),
    summary: paceline_string::of("TCP's loss recovery as the RFCs have it, over datagrams"),
    version: paceline_string::of(env!("CARGO_PKG_VERSION")),
    context: core::ptr::null(),
    state_size: size_of::<End>(),
    state_align: align_of::<End>(),
    max_batch_bytes: MOST_DATAGRAM,
    init: Some(init),
    fini: Some(fini),
    receive: Some(receive),
    on_timer: Some(on_timer),
    poll_transmit: Some(poll_transmit),
    next_timer: Some(next_timer),
    write: Some(write),
    delivered: Some(delivered),
    stats: Some(stats),
    // It takes those of `paceline_controller_get`.
    controllers: paceline_string::EMPTY,
    failure: None,
    phase: Some(phase),
    // They are those of the controller, which `paceline_controller_get` lists.
    option: None,
};

/// Either end.
struct End {
    side: Side,
    /// The maximum size of its datagrams.
    max_datagram: u32,
}

#[expect(
    clippy::large_enum_variant,
    reason = "it stays where the engine has it"
)]
enum Side {
    Sender(Sender<AnyController>),
    Receiver(ReceiverEnd),
}

impl End {
    fn side(&self) -> &dyn Endpoint<Payload = Message> {
        match &self.side {
            Side::Sender(sender) => sender,
            Side::Receiver(receiver) => receiver,
        }
    }

    fn side_mut(&mut self) -> &mut dyn Endpoint<Payload = Message> {
        match &mut self.side {
            Side::Sender(sender) => sender,
            Side::Receiver(receiver) => receiver,
        }
    }
}

unsafe extern "C" fn init(
    _stack: *const paceline_stack,
    state: *mut c_void,
    config: *const paceline_end_config,
    options: *const paceline_option,
    option_count: usize,
    message: *mut c_char,
    message_size: usize,
) -> u32 {
    // SAFETY: by the contract of the table.
    let mut reason = unsafe { Reason::at(message, message_size) };
    let state = state.cast::<End>();
    if state.is_null() || !state.is_aligned() || config.is_null() {
        let why = "no state, no configuration, or a state that is not aligned";
        return reason.refuse(PACELINE_BAD_POINTER, why);
    }
    // SAFETY: by the contract of the table.
    match unsafe { end(&*config, slice(options, option_count), &mut reason) } {
        Ok(end) => {
            // SAFETY: `state` is aligned, and by the contract of the table writable.
            unsafe { state.write(end) };
            PACELINE_OK
        }
        Err(status) => status,
    }
}

/// A new end.
///
/// # Safety
/// The texts of `config` and `options` can be read.
unsafe fn end(
    config: &paceline_end_config,
    options: &[paceline_option],
    reason: &mut Reason<'_>,
) -> Result<End, u32> {
    let max_datagram = config.max_datagram_bytes;
    if !(LEAST_DATAGRAM..=MOST_DATAGRAM).contains(&max_datagram) {
        return Err(reason.refuse(
            PACELINE_BAD_CONFIG,
            format_args!("`max_datagram_bytes` is from {LEAST_DATAGRAM} to {MOST_DATAGRAM}"),
        ));
    }
    if config.sends == 0 {
        let side = Side::Receiver(ReceiverEnd::new(ReceiverConfig::default()));
        return Ok(End { side, max_datagram });
    }
    // SAFETY: by this function's contract.
    let name = unsafe { config.controller.text() }.unwrap_or_default();
    let Some(spec) = controllers().iter().find(|spec| spec.name == name) else {
        return Err(reason.refuse(
            PACELINE_BAD_CONFIG,
            format_args!("no controller is called `{name}`"),
        ));
    };
    // SAFETY: by this function's contract.
    let Some(recipe) = (unsafe { with_options::<Ours>(spec, options, reason) }) else {
        return Err(PACELINE_BAD_OPTION);
    };
    let mss = max_datagram - Message::HEADER as u32;
    let sender = SenderConfig {
        mss,
        initial_window: Bytes::new(INITIAL_WINDOW * u64::from(mss)),
        ..SenderConfig::default()
    };
    if let Err(unmet) = recipe.check(sender.signals()) {
        return Err(reason.refuse(PACELINE_UNMET, unmet));
    }
    let now = Instant::from_nanos(config.now_ns);
    let controller = recipe.build(&Config {
        mss,
        initial_window: sender.initial_window,
        seed: config.seed,
        now,
        srtt: None,
        has_selective_acks: sender.recovery.has_sack(),
    });
    let side = Side::Sender(Sender::new(sender, controller, now, None));
    Ok(End { side, max_datagram })
}

/// # Safety
/// `state` was made by `init`, and nobody else uses it during the call.
unsafe fn at<'s>(state: *mut c_void) -> &'s mut End {
    // SAFETY: by this function's contract.
    unsafe { &mut *state.cast::<End>() }
}

unsafe extern "C" fn fini(state: *mut c_void) {
    // SAFETY: by the contract of the table it is not used after this.
    unsafe { state.cast::<End>().drop_in_place() }
}

unsafe extern "C" fn receive(state: *mut c_void, now_ns: u64, datagram: *const paceline_datagram) {
    // SAFETY: by the contract of the table.
    let (end, datagram) = unsafe { (at(state), &*datagram) };
    // SAFETY: by the contract of the table.
    let bytes = unsafe { slice(datagram.data, datagram.size_bytes as usize) };
    // A datagram that is not one of ours is ignored.
    if let Some(payload) = Message::read(bytes) {
        let datagram = Datagram {
            payload,
            size: datagram.size_bytes,
            ecn: (datagram.ecn != PACELINE_ECN_UNKNOWN).then(|| ecn(datagram.ecn)),
        };
        end.side_mut()
            .receive(Instant::from_nanos(now_ns), datagram);
    }
}

unsafe extern "C" fn on_timer(state: *mut c_void, now_ns: u64) {
    // SAFETY: by the contract of the table.
    let end = unsafe { at(state) };
    end.side_mut().on_timer(Instant::from_nanos(now_ns));
}

unsafe extern "C" fn poll_transmit(
    state: *mut c_void,
    now_ns: u64,
    batch: *mut paceline_batch,
) -> u32 {
    // SAFETY: by the contract of the table.
    let (end, batch) = unsafe { (at(state), &mut *batch) };
    // Nothing is removed that would not fit.
    if batch.data.is_null() || batch.capacity_bytes < end.max_datagram {
        return 0;
    }
    let now = Instant::from_nanos(now_ns);
    let Some(out) = end.side_mut().poll_transmit(now) else {
        return 0;
    };
    // SAFETY: by the contract of the table there is room for `capacity_bytes`, and the largest
    // datagram needs no more; they are initialised before they become bytes.
    let room = unsafe {
        batch.data.write_bytes(0, end.max_datagram as usize);
        core::slice::from_raw_parts_mut(batch.data, end.max_datagram as usize)
    };
    let size = out.payload.write(room).unwrap_or_default() as u32;
    batch.size_bytes = size;
    batch.segment_size_bytes = size;
    batch.ecn = codepoint(out.ecn);
    u32::from(size > 0)
}

unsafe extern "C" fn next_timer(state: *mut c_void) -> u64 {
    // SAFETY: by the contract of the table.
    let end = unsafe { at(state) };
    end.side_mut()
        .next_timer()
        .map_or(PACELINE_NONE, Instant::as_nanos)
}

unsafe extern "C" fn write(state: *mut c_void, now_ns: u64, bytes: u64, stop: u8, close: u8) {
    // SAFETY: by the contract of the table.
    let end = unsafe { at(state) };
    let write = writing(bytes, stop, close);
    end.side_mut().write(Instant::from_nanos(now_ns), write);
}

unsafe extern "C" fn delivered(state: *const c_void) -> u64 {
    // SAFETY: by the contract of the table.
    unsafe { (*state.cast::<End>()).side().delivered() }
}

unsafe extern "C" fn stats(state: *const c_void, out: *mut paceline_stats) {
    // SAFETY: by the contract of the table.
    let stats = unsafe { (*state.cast::<End>()).side().stats() };
    // SAFETY: by the contract of the table.
    unsafe { out.write((&stats).into()) }
}

unsafe extern "C" fn phase(state: *const c_void) -> paceline_string {
    // SAFETY: by the contract of the table.
    paceline_string::of(match unsafe { &(*state.cast::<End>()).side } {
        Side::Sender(sender) => sender.controller().phase(),
        Side::Receiver(_) => "",
    })
}
