//! The types at the boundary between an engine and a transport's ends.
//! `paceline_endpoint.h` contains these texts.

use core::ffi::{c_char, c_void};

use paceline_endpoint::{Amount, Write};

use crate::types::{PACELINE_NONE, paceline_option, paceline_option_info, paceline_string};

/// The version of this interface. A program takes libraries of its own version and of earlier ones:
/// structures grow at their end, and what a library does not know of stays as the program has set it.
/// The table of functions may grow without a new version: `table_size` says how much of it is present.
pub const PACELINE_ENDPOINT_ABI_VERSION: u32 = 2;

/// An unlimited write: from now on there is always more.
pub const PACELINE_UNLIMITED: u64 = u64::MAX;

/// The codepoint of a datagram that arrived where the engine cannot tell. The others are those of
/// paceline_controller.h: `PACELINE_NOT_ECT` and so on.
pub const PACELINE_ECN_UNKNOWN: u32 = 255;

/// The configuration of an end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_end_config {
    /// Whether it is the sending end; the other one listens.
    pub sends: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// The maximum UDP payload of a packet, in bytes.
    pub max_datagram_bytes: u32,
    /// Seed of the end's own random draws; the two ends of a flow have different ones.
    pub seed: u64,
    /// The time at which the flow starts. Times count from an origin that the engine chooses.
    pub now_ns: u64,
    /// The controller that the scenario names; a transport with one of its own ignores it. It lives until `init` returns.
    pub controller: paceline_string,
}

/// A datagram that has arrived. It lives until `receive` returns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_datagram {
    /// Its UDP payload.
    pub data: *const u8,
    /// Its length in bytes.
    pub size_bytes: u32,
    /// The codepoint with which it arrived.
    pub ecn: u32,
}

/// Datagrams that leave together: one, or several of the same size as with segmentation offload.
/// The engine provides the room, the end fills in the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_batch {
    /// Room for their UDP payloads, one after the other.
    pub data: *mut u8,
    /// Size of the room in bytes.
    pub capacity_bytes: u32,
    /// Total bytes of the payloads.
    pub size_bytes: u32,
    /// Bytes of each but the last, which may be shorter; not zero.
    pub segment_size_bytes: u32,
    /// The codepoint of all: `PACELINE_NOT_ECT` and so on.
    pub ecn: u32,
    /// When they leave: the engine holds them until then, and calls `poll_transmit` again only when they have left. Set to 0
    /// by the engine: a time that is past, or none, is at once. Since version 2.
    pub departs_ns: u64,
}

/// The state of an end, for the record. The engine sets all of it to unknown before it asks:
/// `PACELINE_NONE`, and 0 for volumes and counts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_stats {
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Data in flight.
    pub in_flight_bytes: u64,
    /// Its pacing rate.
    pub pacing_rate_bps: u64,
    /// The delivery rate that it measures.
    pub delivery_rate_bps: u64,
    /// The latest RTT sample.
    pub latest_rtt_ns: u64,
    /// Smoothed RTT.
    pub srtt_ns: u64,
    /// Lifetime minimum RTT.
    pub min_rtt_ns: u64,
    /// Data that the other end has acknowledged.
    pub acknowledged_bytes: u64,
    /// Packets with data that it sent, including retransmissions.
    pub sent_packets: u64,
    /// Packets that it declared lost.
    pub lost_packets: u64,
    /// Packets with data that it retransmitted.
    pub retransmitted_packets: u64,
    /// Whether the application, not the network, limits it.
    pub app_limited: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// The bandwidth that its controller assumes (`bw` of BBR). Since version 2.
    pub bandwidth_bps: u64,
}

impl paceline_stats {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        cwnd_bytes: PACELINE_NONE,
        in_flight_bytes: 0,
        pacing_rate_bps: PACELINE_NONE,
        delivery_rate_bps: PACELINE_NONE,
        latest_rtt_ns: PACELINE_NONE,
        srtt_ns: PACELINE_NONE,
        min_rtt_ns: PACELINE_NONE,
        acknowledged_bytes: 0,
        sent_packets: 0,
        lost_packets: 0,
        retransmitted_packets: 0,
        app_limited: 0,
        reserved: [0; 7],
        bandwidth_bps: PACELINE_NONE,
    };
}

/// What the arguments of `write` ask for.
pub(crate) fn writing(bytes: u64, stop: u8, close: u8) -> Write {
    Write {
        amount: match bytes {
            0 => Amount::None,
            PACELINE_UNLIMITED => Amount::Unlimited,
            bytes => Amount::Bytes(bytes),
        },
        stop: stop != 0,
        close: close != 0,
    }
}

/// A transport: what it says of itself, and the functions of its ends.
///
/// The state of an end is memory of the engine: `state_size` bytes, aligned to `state_align`, made
/// by `init` and ended by `fini`. It is not moved in between. An engine makes steps. In each, in
/// this order, for one end: `receive` with each datagram that has arrived, or `on_timer` if the
/// timeout is due; `write` with the application's data; `poll_transmit` until it returns 0;
/// `next_timer`, read again after every step.
///
/// `now_ns` never goes back. An end that asks for a timeout before it, or sends or wakes endlessly
/// at one instant, is defective: the engine stops with an error. All functions must be present,
/// unless their description says that they may be null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_stack {
    /// `PACELINE_ENDPOINT_ABI_VERSION`.
    pub abi_version: u32,
    /// The size of this table in bytes.
    pub table_size: u32,
    /// Its name.
    pub name: paceline_string,
    /// A one-line description.
    pub summary: paceline_string,
    /// The version of the transport.
    pub version: paceline_string,
    /// Private data of the library for this table.
    pub context: *const c_void,
    /// The size of a state in bytes.
    pub state_size: usize,
    /// The alignment of a state's address; a power of two.
    pub state_align: usize,
    /// The maximum payload of its batches in bytes; at least that of a datagram.
    pub max_batch_bytes: u32,
    /// Makes an end in `state` and returns `PACELINE_OK`. If it fails, `message` says why: at most
    /// `message_size` bytes, ended by a zero.
    pub init: Option<
        unsafe extern "C" fn(
            stack: *const paceline_stack,
            state: *mut c_void,
            config: *const paceline_end_config,
            options: *const paceline_option,
            option_count: usize,
            message: *mut c_char,
            message_size: usize,
        ) -> u32,
    >,
    /// Ends it and frees its memory. May be null.
    pub fini: Option<unsafe extern "C" fn(state: *mut c_void)>,
    /// A datagram has arrived.
    pub receive: Option<
        unsafe extern "C" fn(state: *mut c_void, now_ns: u64, datagram: *const paceline_datagram),
    >,
    /// The timeout may be due. Calls before it, or without one, do nothing.
    pub on_timer: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64)>,
    /// Fills `batch` with the datagrams to send now and returns 1; returns 0 if there are none.
    pub poll_transmit: Option<
        unsafe extern "C" fn(state: *mut c_void, now_ns: u64, batch: *mut paceline_batch) -> u32,
    >,
    /// When it wants `on_timer` or `poll_transmit` (its pacer) to be called next; `PACELINE_NONE`
    /// if never.
    pub next_timer: Option<unsafe extern "C" fn(state: *mut c_void) -> u64>,
    /// The application writes `bytes` more, or `PACELINE_UNLIMITED`. If `stop`, unlimited data ends
    /// first. If `close`, nothing will follow. An end that first has to complete a handshake keeps
    /// the data until then.
    pub write: Option<
        unsafe extern "C" fn(state: *mut c_void, now_ns: u64, bytes: u64, stop: u8, close: u8),
    >,
    /// Bytes that it has received and passed to its application, in order and once each.
    pub delivered: Option<unsafe extern "C" fn(state: *const c_void) -> u64>,
    /// Its state.
    pub stats: Option<unsafe extern "C" fn(state: *const c_void, out: *mut paceline_stats)>,
    /// The names of its own controllers, any of which `init` takes, separated by commas; empty if it has none to choose
    /// from. A table that ends before this has none.
    pub controllers: paceline_string,
    /// Whether it cannot go on: returns 1, and `message` says why, at most `message_size` bytes with a zero at the end. The
    /// engine asks after every step, and stops with this as its error. May be null.
    pub failure: Option<
        unsafe extern "C" fn(
            state: *const c_void,
            message: *mut c_char,
            message_size: usize,
        ) -> u32,
    >,
    /// The state of its controller's state machine, empty if it has none; the text is never freed. The engine asks after every
    /// step. May be null; a table that ends before this has none.
    pub phase: Option<unsafe extern "C" fn(state: *const c_void) -> paceline_string>,
    /// The `index`-th option of its controllers; `PACELINE_NOT_FOUND` past the last. The engine refuses any other. Null if it
    /// does not say which it has; a table that ends before this does not.
    pub option: Option<
        unsafe extern "C" fn(
            stack: *const paceline_stack,
            index: usize,
            out: *mut paceline_option_info,
        ) -> u32,
    >,
}
