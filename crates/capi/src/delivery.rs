//! The delivery-rate sampler (draft-ietf-ccwg-bbr-06 section 4.1) for transports that have none.

use core::mem::{align_of, size_of};

use paceline_congestion::{Delivery, PacketState};
use paceline_units::{Bytes, Duration, Instant};

use crate::types::{paceline_packet, paceline_sample};

/// A connection's delivery state, one per connection, in memory of the caller. Plain data; only the
/// functions below look inside.
#[repr(C)]
pub struct paceline_delivery {
    /// Opaque to the caller.
    pub opaque: [u64; 20],
}

// With room to grow in this version of the interface.
const _: () = assert!(
    size_of::<Delivery>() <= size_of::<paceline_delivery>()
        && align_of::<Delivery>() <= align_of::<paceline_delivery>()
);

/// # Safety
/// `delivery` was made by [`paceline_delivery_init`] and nobody else uses it during the call.
unsafe fn inner<'d>(delivery: *mut paceline_delivery) -> &'d mut Delivery {
    // SAFETY: `paceline_delivery_init` stored a `Delivery` there, which fits.
    unsafe { &mut *delivery.cast::<Delivery>() }
}

/// Begins a connection. `pacer_below` says that the pacer is below the transport, where a packet
/// that waits for it counts as sent (`paceline_outputs`).
///
/// # Safety
/// `delivery` is writable and aligned to 8 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_init(delivery: *mut paceline_delivery, pacer_below: u8) {
    // SAFETY: the caller provides memory of this size and alignment.
    unsafe {
        delivery
            .cast::<Delivery>()
            .write(Delivery::new(pacer_below != 0))
    }
}

/// A packet of `size_bytes` departs with `in_flight_bytes` before it. `packet` becomes the state
/// that the transport keeps with it (`OnPacketSent`, 4.1.2.2).
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`, `packet` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_on_send(
    delivery: *mut paceline_delivery,
    send_time_ns: u64,
    size_bytes: u32,
    in_flight_bytes: u64,
    packet: *mut paceline_packet,
) {
    let at = Instant::from_nanos(send_time_ns);
    let in_flight = Bytes::new(in_flight_bytes);
    // SAFETY: of both, by this function's contract.
    unsafe {
        let kept = inner(delivery).on_send(at, size_bytes, in_flight);
        packet.write((&kept).into());
    }
}

/// A packet is delivered for the first time (`UpdateRateSample`, 4.1.2.3). `id` grows with each
/// transmission: it breaks ties between equal send times.
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`, `packet` one that it filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_on_delivered(
    delivery: *mut paceline_delivery,
    now_ns: u64,
    packet: *const paceline_packet,
    id: u64,
    marked: u8,
) {
    // SAFETY: of both, by this function's contract.
    let (delivery, packet) = unsafe { (inner(delivery), PacketState::from(&*packet)) };
    delivery.on_delivered(Instant::from_nanos(now_ns), &packet, id, marked != 0);
}

/// A packet was declared lost.
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`, `packet` one that it filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_on_lost(
    delivery: *mut paceline_delivery,
    packet: *const paceline_packet,
) {
    // SAFETY: of both, by this function's contract.
    let (delivery, packet) = unsafe { (inner(delivery), PacketState::from(&*packet)) };
    delivery.on_lost(&packet);
}

/// A packet is no longer in flight and will be neither acknowledged nor declared lost: its keys were
/// discarded (RFC 9002 section 6.4).
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`, `packet` one that it filled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_on_discarded(
    delivery: *mut paceline_delivery,
    packet: *const paceline_packet,
) {
    // SAFETY: of both, by this function's contract.
    let (delivery, packet) = unsafe { (inner(delivery), PacketState::from(&*packet)) };
    delivery.on_discarded(&packet);
}

/// An RTT sample, for the minimum RTT below which no sample gives a rate.
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_on_rtt(delivery: *mut paceline_delivery, rtt_ns: u64) {
    // SAFETY: by this function's contract.
    unsafe { inner(delivery) }.on_rtt(Duration::from_nanos(rtt_ns));
}

/// The application has nothing more to send for now, and the window would allow it
/// (`MarkConnectionAppLimited`, 4.1.2.4).
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_mark_app_limited(
    delivery: *mut paceline_delivery,
    in_flight_bytes: u64,
) {
    // SAFETY: by this function's contract.
    unsafe { inner(delivery) }.mark_app_limited(Bytes::new(in_flight_bytes));
}

/// Ends the ACK in progress (`GenerateRateSample`, 4.1.2.3).
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`, `sample` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_sample(
    delivery: *mut paceline_delivery,
    sample: *mut paceline_sample,
) {
    // SAFETY: of both, by this function's contract.
    unsafe { sample.write((&inner(delivery).sample()).into()) }
}

/// The connection's totals now, each of `paceline_totals`.
///
/// # Safety
/// `delivery` is one of `paceline_delivery_init`, `totals` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn paceline_delivery_totals(
    delivery: *const paceline_delivery,
    totals: *mut paceline_totals,
) {
    // SAFETY: of both, by this function's contract; nothing is written through `delivery`.
    unsafe {
        let delivery = &*delivery.cast::<Delivery>();
        totals.write(paceline_totals {
            delivered_bytes: delivery.delivered().get(),
            lost_bytes: delivery.lost().get(),
            sent_bytes: delivery.sent().get(),
            app_limited: delivery.is_app_limited().into(),
            reserved: [0; 7],
        });
    }
}

/// The totals of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct paceline_totals {
    /// `C.delivered`.
    pub delivered_bytes: u64,
    /// `C.lost`: data declared lost, correctly or not.
    pub lost_bytes: u64,
    /// Data sent, each transmission counted.
    pub sent_bytes: u64,
    /// Whether the connection is application-limited now.
    pub app_limited: u8,
    /// Zero.
    pub reserved: [u8; 7],
}
