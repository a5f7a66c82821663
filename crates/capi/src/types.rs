//! The types at the boundary: plain data, with its unit in each name. The header contains these
//! texts.
//!
//! Numbers that name a choice are integers and flags are bytes, not enums and `bool`: values from
//! outside may be anything.

use core::ffi::{c_char, c_void};

/// The version of this interface. A library and a program work together if theirs are equal. A
/// table may grow at its end without a new version: `table_size` says how much of it is present.
pub const PACELINE_ABI_VERSION: u32 = 1;

/// An absent time, volume or rate, or a bound that is not set.
pub const PACELINE_NONE: u64 = u64::MAX;

/// The call succeeded.
pub const PACELINE_OK: u32 = 0;
/// There is nothing at this index, or nothing of this name.
pub const PACELINE_NOT_FOUND: u32 = 1;
/// An option is unknown, cannot be read, or is out of its bounds.
pub const PACELINE_BAD_OPTION: u32 = 2;
/// The configuration holds an unusable value.
pub const PACELINE_BAD_CONFIG: u32 = 3;
/// A pointer is null or not aligned.
pub const PACELINE_BAD_POINTER: u32 = 4;
/// The controller needs a signal that the transport does not give.
pub const PACELINE_UNMET: u32 = 5;

/// Not ECN-capable. The codepoints are those of the IP header (RFC 3168, RFC 9331).
pub const PACELINE_NOT_ECT: u32 = 0;
/// ECT(1): scalable response.
pub const PACELINE_ECT1: u32 = 1;
/// ECT(0): classic response.
pub const PACELINE_ECT0: u32 = 2;
/// Congestion experienced.
pub const PACELINE_CE: u32 = 3;

/// Recovery state: no sign of trouble. The names are Linux's.
pub const PACELINE_CA_OPEN: u32 = 0;
/// Recovery state: something was acknowledged out of order; nothing is declared lost yet.
pub const PACELINE_CA_DISORDER: u32 = 1;
/// Recovery state: the window was reduced by an ECN signal.
pub const PACELINE_CA_CWR: u32 = 2;
/// Recovery state: fast recovery.
pub const PACELINE_CA_RECOVERY: u32 = 3;
/// Recovery state: recovery from a retransmission timeout.
pub const PACELINE_CA_LOSS: u32 = 4;

/// A field in bytes; `PACELINE_NONE` is an infinite volume.
pub const PACELINE_BYTES: u32 = 0;
/// A field in bits per second; `PACELINE_NONE` is an infinite rate.
pub const PACELINE_BITS_PER_SECOND: u32 = 1;
/// A field in nanoseconds; `PACELINE_NONE` is for ever.
pub const PACELINE_NANOSECONDS: u32 = 2;
/// A factor in millionths.
pub const PACELINE_MILLIONTHS: u32 = 3;
/// A count of packets; `PACELINE_NONE` is no bound.
pub const PACELINE_PACKETS: u32 = 4;
/// A count; `PACELINE_NONE` is no bound.
pub const PACELINE_COUNT: u32 = 5;
/// A field that is 0 or 1.
pub const PACELINE_FLAG: u32 = 6;
/// A number of any other kind: the bits of a double (IEEE 754), as an integer.
pub const PACELINE_NUMBER: u32 = 7;

/// Signal: losses and marks that an ACK reveals are reported before its sample (Linux, s2n-quic,
/// picoquic); without it, after the sample, so that they count in the next one (quinn, noq).
pub const PACELINE_SIGNAL_LOSSES_FIRST: u64 = 1 << 0;
/// Signal: Each lost packet is reported with its own token; without it, a batch of losses is one report with the token of
/// its newest packet and the total size.
pub const PACELINE_SIGNAL_LOSS_PER_PACKET: u64 = 1 << 1;
/// Signal: CE marks are reported, by `ece` or by `newly_marked_bytes`.
pub const PACELINE_SIGNAL_MARKS: u64 = 1 << 2;
/// Signal: The amount of CE-marked data is reported: `newly_marked_bytes`. Implies `PACELINE_SIGNAL_MARKS`.
pub const PACELINE_SIGNAL_MARK_COUNTS: u64 = 1 << 3;
/// Signal: Packets carry ECT(1) if the controller asks for it.
pub const PACELINE_SIGNAL_ECT1: u64 = 1 << 4;
/// Signal: Spurious loss episodes are reported: `on_spurious`.
pub const PACELINE_SIGNAL_SPURIOUS_LOSS: u64 = 1 << 5;
/// Signal: Packets leave at `pacing_rate_bps`, in bursts of `send_quantum_bytes` or less.
pub const PACELINE_SIGNAL_PACING: u64 = 1 << 6;
/// Signal: The delay from sender to receiver is reported: `one_way_delay_ns`.
pub const PACELINE_SIGNAL_ONE_WAY_DELAY: u64 = 1 << 7;
/// Signal: The receiver's host delay is reported, and excluded from `network_rtt_ns`.
pub const PACELINE_SIGNAL_RECEIVER_DELAY: u64 = 1 << 8;
/// Signal: A token says whether the flow was application-limited when its packet was sent, not when it was acknowledged.
pub const PACELINE_SIGNAL_APP_LIMITED_AT_SEND: u64 = 1 << 9;

/// Text in UTF-8, not ended by a zero. It lives as long as the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_string {
    /// The first byte; may be null if `length` is 0.
    pub data: *const c_char,
    /// Its length in bytes.
    pub length: usize,
}

/// The state that the transport keeps with each packet it has sent, and hands back when that packet
/// is delivered or lost (draft-ietf-ccwg-bbr-06 section 4.1.2.1.2). `paceline_delivery_on_send`
/// fills it; nobody else changes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct paceline_packet {
    /// `C.delivered` when it was sent.
    pub delivered_bytes: u64,
    /// Delivered data that carried CE, when it was sent.
    pub delivered_ce_bytes: u64,
    /// `C.lost` when it was sent.
    pub lost_bytes: u64,
    /// Data in flight just after it was sent, including itself.
    pub tx_in_flight_bytes: u64,
    /// `C.delivered_time` when it was sent.
    pub delivered_time_ns: u64,
    /// `C.first_send_time` when it was sent.
    pub first_send_time_ns: u64,
    /// Its departure time.
    pub send_time_ns: u64,
    /// Payload bytes.
    pub size_bytes: u32,
    /// Whether the connection was application-limited when it was sent.
    pub app_limited: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// The configuration of a new controller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_config {
    /// Payload bytes of a full packet, above zero (the draft's `C.SMSS`).
    pub mss_bytes: u32,
    /// Whether acknowledgments are selective, so that more than one loss per round trip is
    /// detected.
    pub has_selective_acks: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Initial window (RFC 6928; the draft's `C.InitialCwnd`).
    pub initial_window_bytes: u64,
    /// Seed of the controller's own random draws.
    pub seed: u64,
    /// The time of construction. Times count from an origin that the transport chooses.
    pub now_ns: u64,
    /// Smoothed RTT of the handshake, or `PACELINE_NONE`.
    pub srtt_ns: u64,
    /// The signals and services that the transport gives its controller: a sum such as
    /// `PACELINE_SIGNAL_LOSSES_FIRST`. A controller that requires another one refuses with
    /// `PACELINE_UNMET`.
    pub signals: u64,
}

/// An option as in a scenario: `startup_pacing_gain`, `2.89`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_option {
    /// Its name.
    pub name: paceline_string,
    /// Its value with its unit, without quotes: `2.89`, `2 %`, `50 ms`, `true`.
    pub value: paceline_string,
}

/// An option of a controller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_option_info {
    /// Its name.
    pub name: paceline_string,
    /// What it does, with the section of its source.
    pub about: paceline_string,
}

/// A field of a controller's state.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_field {
    /// Its name by the source, without prefix and unit: `max_bw`.
    pub name: paceline_string,
    /// The quantity of its values: `PACELINE_BYTES` and so on.
    pub quantity: u32,
}

/// A packet is about to be sent. Volumes are those before it is counted.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_sent {
    /// Its departure time.
    pub now_ns: u64,
    /// Data in flight before it.
    pub in_flight_bytes: u64,
    /// Its payload.
    pub size_bytes: u32,
    /// Whether the connection is application-limited.
    pub app_limited: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// A packet was declared lost.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_lost {
    /// The time of the declaration.
    pub now_ns: u64,
    /// The state kept with it.
    pub packet: paceline_packet,
    /// `C.lost` now, including this packet.
    pub lost_bytes: u64,
    /// `C.delivered` now.
    pub delivered_bytes: u64,
    /// Data in flight without it.
    pub in_flight_bytes: u64,
    /// Whether it opens a range of lost data: the packet just before it is not lost.
    pub starts_range: u8,
    /// Whether it was itself a retransmission.
    pub retransmission: u8,
    /// Zero.
    pub reserved: [u8; 6],
}

/// The delivery-rate sample of an ACK (draft-ietf-ccwg-bbr-06 section 4.1.2.1.3).
/// `paceline_delivery_sample` fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct paceline_sample {
    /// Data delivered over the interval.
    pub delivered_bytes: u64,
    /// CE-marked data delivered over the interval.
    pub delivered_ce_bytes: u64,
    /// `P.delivered` of the newest delivered packet.
    pub prior_delivered_bytes: u64,
    /// The longer of the send and ACK phases; 0 if the sample gives no rate.
    pub interval_ns: u64,
    /// `P.tx_in_flight` of the newest delivered packet.
    pub tx_in_flight_bytes: u64,
    /// Data declared lost since that packet was sent.
    pub lost_bytes: u64,
    /// Whether the ACK newly delivered anything; otherwise the other fields mean nothing.
    pub has_data: u8,
    /// Whether the sample is application-limited.
    pub app_limited: u8,
    /// Zero.
    pub reserved: [u8; 6],
}

/// One acknowledgment, after the transport has processed it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_ack {
    /// Its arrival time.
    pub now_ns: u64,
    /// Its delivery-rate sample.
    pub sample: paceline_sample,
    /// Data newly delivered by it, cumulatively or selectively.
    pub newly_acked_bytes: u64,
    /// Data newly declared lost on it.
    pub newly_lost_bytes: u64,
    /// Newly delivered data that carried a CE mark, or `PACELINE_NONE` if it is not counted.
    pub newly_marked_bytes: u64,
    /// Data in flight before it.
    pub prior_in_flight_bytes: u64,
    /// Data in flight after it.
    pub in_flight_bytes: u64,
    /// `C.delivered`: data delivered over the life of the connection.
    pub delivered_bytes: u64,
    /// `C.lost`: data declared lost over the life of the connection, correctly or not.
    pub lost_bytes: u64,
    /// Data sent over the life of the connection, each transmission counted.
    pub sent_bytes: u64,
    /// RTT of the most recently sent packet that it newly acknowledges, or `PACELINE_NONE`.
    pub rtt_ns: u64,
    /// Smoothed RTT (RFC 6298), including this sample; 0 before the first.
    pub srtt_ns: u64,
    /// Minimum RTT of the connection; 0 before the first.
    pub min_rtt_ns: u64,
    /// One-way delay of the newest delivered packet, or `PACELINE_NONE`.
    pub one_way_delay_ns: u64,
    /// RTT without the delay of the receiver's host, or `PACELINE_NONE`.
    pub network_rtt_ns: u64,
    /// The delay of the receiver's host, or `PACELINE_NONE`.
    pub receiver_delay_ns: u64,
    /// Recovery state after it: `PACELINE_CA_OPEN` and so on.
    pub ca_state: u32,
    /// Whether the window, not the application, limited the data in flight in the last round.
    pub cwnd_limited: u8,
    /// Whether the cumulative acknowledgment advanced.
    pub una_advanced: u8,
    /// Whether a delayed-ACK timer may have held it back.
    pub delayed: u8,
    /// Whether the receiver's classic ECN echo is set.
    pub ece: u8,
}

/// The decisions of a controller. Read them after every call that reports an event; `on_send`
/// changes them only if nothing was in flight.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct paceline_outputs {
    /// Congestion window: the maximum in flight.
    pub cwnd_bytes: u64,
    /// Pacing rate of payload in bits per second; `PACELINE_NONE` leaves sending to the ACK clock.
    pub pacing_rate_bps: u64,
    /// The maximum size of one burst.
    pub send_quantum_bytes: u64,
    /// Slow-start threshold, `PACELINE_NONE` as long as none is set.
    pub ssthresh_bytes: u64,
    /// Packet-timed rounds so far; 0 if the algorithm does not count them.
    pub round_count: u64,
    /// The ECN codepoint for data packets: `PACELINE_NOT_ECT` and so on.
    pub ecn: u32,
    /// 1 if the transport sets the window in fast recovery by proportional rate reduction (RFC
    /// 9937); 0 if the controller's own window applies there too.
    pub uses_prr: u8,
    /// Whether the transport must mark the connection application-limited after each ACK.
    pub marks_app_limited: u8,
    /// Whether the sampler assumes that the pacer is below the transport: `paceline_delivery_init`.
    pub pacer_below: u8,
    /// Whether the algorithm has a slow-start threshold.
    pub has_ssthresh: u8,
}

/// A controller: its description and its functions.
///
/// The state is memory of the caller: `state_size` bytes, aligned to `state_align`, made by `init`.
/// It is plain data: it holds no pointers into itself, so that it may be copied and moved, and
/// needs no call to release it. Nothing is allocated and nothing is shared: different threads may
/// use different states at once. The order of calls for one acknowledgment is `on_spurious` if it
/// shows that the episode's losses were spurious, `on_recovery_exit` if the episode is over,
/// `on_loss` for each packet newly declared lost, `on_recovery_enter` if they open an episode, and
/// last `on_ack`, once.
///
/// A function may be null if its description says so; all others must be present.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_controller {
    /// `PACELINE_ABI_VERSION`.
    pub abi_version: u32,
    /// The size of this table in bytes.
    pub table_size: u32,
    /// Its name.
    pub name: paceline_string,
    /// A one-line description.
    pub summary: paceline_string,
    /// The document it implements.
    pub source: paceline_string,
    /// Private data of the library for this table.
    pub context: *const c_void,
    /// The size of a state in bytes.
    pub state_size: usize,
    /// The alignment of a state's address; a power of two.
    pub state_align: usize,
    /// Its `index`-th option; `PACELINE_NOT_FOUND` past the last. May be null if it has none.
    pub option: Option<
        unsafe extern "C" fn(
            controller: *const paceline_controller,
            index: usize,
            out: *mut paceline_option_info,
        ) -> u32,
    >,
    /// The `index`-th state of its state machine; `PACELINE_NOT_FOUND` past the last.
    pub phase_name: Option<
        unsafe extern "C" fn(
            controller: *const paceline_controller,
            index: usize,
            out: *mut paceline_string,
        ) -> u32,
    >,
    /// The `index`-th field of its state; `PACELINE_NOT_FOUND` past the last. May be null if it shows none.
    pub field: Option<
        unsafe extern "C" fn(
            controller: *const paceline_controller,
            index: usize,
            out: *mut paceline_field,
        ) -> u32,
    >,
    /// Makes a state in `state`. If it fails, `message` says why: at most `message_size` bytes,
    /// ended by a zero.
    pub init: Option<
        unsafe extern "C" fn(
            controller: *const paceline_controller,
            state: *mut c_void,
            config: *const paceline_config,
            options: *const paceline_option,
            option_count: usize,
            message: *mut c_char,
            message_size: usize,
        ) -> u32,
    >,
    /// A packet is about to be sent. It may change the outputs only if nothing is in flight. May be null.
    pub on_send: Option<unsafe extern "C" fn(state: *mut c_void, sent: *const paceline_sent)>,
    /// Sending resumes after a pause longer than the retransmission timeout, with nothing in flight
    /// (RFC 5681 section 4.1). Called before `on_send`, once for each timeout of the pause and at most
    /// 32 times. May be null.
    pub on_idle_restart: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64)>,
    /// A packet was declared lost. May be null.
    pub on_loss: Option<unsafe extern "C" fn(state: *mut c_void, lost: *const paceline_lost)>,
    /// An acknowledgment was processed.
    pub on_ack: Option<unsafe extern "C" fn(state: *mut c_void, ack: *const paceline_ack)>,
    /// Fast recovery begins, after the losses that caused it. May be null.
    pub on_recovery_enter:
        Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, in_flight_bytes: u64)>,
    /// Recovery has ended: everything sent before it is acknowledged. May be null.
    pub on_recovery_exit: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64)>,
    /// The retransmission timer fired; the data in flight no longer includes lost packets. May be
    /// null.
    pub on_timeout:
        Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, in_flight_bytes: u64)>,
    /// Every packet that the episode declared lost was delivered; `C.delivered` now. May be null.
    pub on_spurious:
        Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, delivered_bytes: u64)>,
    /// The payload of a full packet changed. May be null.
    pub on_mss: Option<unsafe extern "C" fn(state: *mut c_void, mss_bytes: u32)>,
    /// Its current decisions.
    pub outputs: Option<unsafe extern "C" fn(state: *const c_void, out: *mut paceline_outputs)>,
    /// The name of the current state of its state machine, one of `phase_name`.
    pub phase: Option<unsafe extern "C" fn(state: *const c_void, out: *mut paceline_string)>,
    /// Writes the values of its fields, in their order, to `values`, which has room for `count`. May be null.
    pub values: Option<unsafe extern "C" fn(state: *const c_void, values: *mut u64, count: usize)>,
}
