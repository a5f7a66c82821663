/* Congestion controllers, and what a transport tells them. MIT OR Apache-2.0.
 *
 * Written from crates/capi/src; change it there. Volumes are in bytes, times in nanoseconds from an origin that the
 * transport chooses, rates in bits per second: each name ends in its unit. Flags are 0 or 1.
 *
 * A program takes our controllers with paceline_controller_find. A library of controllers of your own defines
 * paceline_controller_get. examples/controller-c has one of each. */

#ifndef PACELINE_CONTROLLER_H
#define PACELINE_CONTROLLER_H

#include <stddef.h>
#include <stdint.h>
/* A paceline_string of a literal, in an initialiser. */
#define PACELINE_STRING(literal) { literal, sizeof(literal) - 1 }


// The version of this interface. A library and a program work together if theirs are equal. A
// table may grow at its end without a new version: `table_size` says how much of it is present.
#define PACELINE_ABI_VERSION 1

// An absent time, volume or rate, or a bound that is not set.
#define PACELINE_NONE UINT64_MAX

// The call succeeded.
#define PACELINE_OK 0

// There is nothing at this index, or nothing of this name.
#define PACELINE_NOT_FOUND 1

// An option is unknown, cannot be read, or is out of its bounds.
#define PACELINE_BAD_OPTION 2

// The configuration holds an unusable value.
#define PACELINE_BAD_CONFIG 3

// A pointer is null or not aligned.
#define PACELINE_BAD_POINTER 4

// The controller needs a signal that the transport does not give.
#define PACELINE_UNMET 5

// Not ECN-capable. The codepoints are those of the IP header (RFC 3168, RFC 9331).
#define PACELINE_NOT_ECT 0

// ECT(1): scalable response.
#define PACELINE_ECT1 1

// ECT(0): classic response.
#define PACELINE_ECT0 2

// Congestion experienced.
#define PACELINE_CE 3

// Recovery state: no sign of trouble. The names are Linux's.
#define PACELINE_CA_OPEN 0

// Recovery state: something was acknowledged out of order; nothing is declared lost yet.
#define PACELINE_CA_DISORDER 1

// Recovery state: the window was reduced by an ECN signal.
#define PACELINE_CA_CWR 2

// Recovery state: fast recovery.
#define PACELINE_CA_RECOVERY 3

// Recovery state: recovery from a retransmission timeout.
#define PACELINE_CA_LOSS 4

// A field in bytes; `PACELINE_NONE` is an infinite volume.
#define PACELINE_BYTES 0

// A field in bits per second; `PACELINE_NONE` is an infinite rate.
#define PACELINE_BITS_PER_SECOND 1

// A field in nanoseconds; `PACELINE_NONE` is for ever.
#define PACELINE_NANOSECONDS 2

// A factor in millionths.
#define PACELINE_MILLIONTHS 3

// A count of packets; `PACELINE_NONE` is no bound.
#define PACELINE_PACKETS 4

// A count; `PACELINE_NONE` is no bound.
#define PACELINE_COUNT 5

// A field that is 0 or 1.
#define PACELINE_FLAG 6

// A number of any other kind: the bits of a double (IEEE 754), as an integer.
#define PACELINE_NUMBER 7

// Signal: losses and marks that an ACK reveals are reported before its sample (Linux, s2n-quic,
// picoquic); without it, after the sample, so that they count in the next one (quinn, noq).
#define PACELINE_SIGNAL_LOSSES_FIRST (1 << 0)

// Signal: Each lost packet is reported with its own token; without it, a batch of losses is one report with the token of
// its newest packet and the total size.
#define PACELINE_SIGNAL_LOSS_PER_PACKET (1 << 1)

// Signal: CE marks are reported, by `ece` or by `newly_marked_bytes`.
#define PACELINE_SIGNAL_MARKS (1 << 2)

// Signal: The amount of CE-marked data is reported: `newly_marked_bytes`. Implies `PACELINE_SIGNAL_MARKS`.
#define PACELINE_SIGNAL_MARK_COUNTS (1 << 3)

// Signal: Packets carry ECT(1) if the controller asks for it.
#define PACELINE_SIGNAL_ECT1 (1 << 4)

// Signal: Spurious loss episodes are reported: `on_spurious`.
#define PACELINE_SIGNAL_SPURIOUS_LOSS (1 << 5)

// Signal: Packets leave at `pacing_rate_bps`, in bursts of `send_quantum_bytes` or less.
#define PACELINE_SIGNAL_PACING (1 << 6)

// Signal: The delay from sender to receiver is reported: `one_way_delay_ns`.
#define PACELINE_SIGNAL_ONE_WAY_DELAY (1 << 7)

// Signal: The receiver's host delay is reported, and excluded from `network_rtt_ns`.
#define PACELINE_SIGNAL_RECEIVER_DELAY (1 << 8)

// Signal: A token says whether the flow was application-limited when its packet was sent, not when it was acknowledged.
#define PACELINE_SIGNAL_APP_LIMITED_AT_SEND (1 << 9)

// Text in UTF-8, not ended by a zero. It lives as long as the library.
typedef struct paceline_string {
    // The first byte; may be null if `length` is 0.
    const char *data;
    // Its length in bytes.
    size_t length;
} paceline_string;

// An option of a controller.
typedef struct paceline_option_info {
    // Its name.
    struct paceline_string name;
    // What it does, with the section of its source.
    struct paceline_string about;
} paceline_option_info;

// A field of a controller's state.
typedef struct paceline_field {
    // Its name by the source, without prefix and unit: `max_bw`.
    struct paceline_string name;
    // The quantity of its values: `PACELINE_BYTES` and so on.
    uint32_t quantity;
} paceline_field;

// The configuration of a new controller.
typedef struct paceline_config {
    // Payload bytes of a full packet, above zero (the draft's `C.SMSS`).
    uint32_t mss_bytes;
    // Whether acknowledgments are selective, so that more than one loss per round trip is
    // detected.
    uint8_t has_selective_acks;
    // Zero.
    uint8_t reserved[3];
    // Initial window (RFC 6928; the draft's `C.InitialCwnd`).
    uint64_t initial_window_bytes;
    // Seed of the controller's own random draws.
    uint64_t seed;
    // The time of construction. Times count from an origin that the transport chooses.
    uint64_t now_ns;
    // Smoothed RTT of the handshake, or `PACELINE_NONE`.
    uint64_t srtt_ns;
    // The signals and services that the transport gives its controller: a sum such as
    // `PACELINE_SIGNAL_LOSSES_FIRST`. A controller that requires another one refuses with
    // `PACELINE_UNMET`.
    uint64_t signals;
} paceline_config;

// An option as in a scenario: `startup_pacing_gain`, `2.89`.
typedef struct paceline_option {
    // Its name.
    struct paceline_string name;
    // Its value with its unit, without quotes: `2.89`, `2 %`, `50 ms`, `true`.
    struct paceline_string value;
} paceline_option;

// A packet is about to be sent. Volumes are those before it is counted.
typedef struct paceline_sent {
    // Its departure time.
    uint64_t now_ns;
    // Data in flight before it.
    uint64_t in_flight_bytes;
    // Its payload.
    uint32_t size_bytes;
    // Whether the connection is application-limited.
    uint8_t app_limited;
    // Zero.
    uint8_t reserved[3];
} paceline_sent;

// The state that the transport keeps with each packet it has sent, and hands back when that packet
// is delivered or lost (draft-ietf-ccwg-bbr-06 section 4.1.2.1.2). `paceline_delivery_on_send`
// fills it; nobody else changes it.
typedef struct paceline_packet {
    // `C.delivered` when it was sent.
    uint64_t delivered_bytes;
    // Delivered data that carried CE, when it was sent.
    uint64_t delivered_ce_bytes;
    // `C.lost` when it was sent.
    uint64_t lost_bytes;
    // Data in flight just after it was sent, including itself.
    uint64_t tx_in_flight_bytes;
    // `C.delivered_time` when it was sent.
    uint64_t delivered_time_ns;
    // `C.first_send_time` when it was sent.
    uint64_t first_send_time_ns;
    // Its departure time.
    uint64_t send_time_ns;
    // Payload bytes.
    uint32_t size_bytes;
    // Whether the connection was application-limited when it was sent.
    uint8_t app_limited;
    // Zero.
    uint8_t reserved[3];
} paceline_packet;

// A packet was declared lost.
typedef struct paceline_lost {
    // The time of the declaration.
    uint64_t now_ns;
    // The state kept with it.
    struct paceline_packet packet;
    // `C.lost` now, including this packet.
    uint64_t lost_bytes;
    // `C.delivered` now.
    uint64_t delivered_bytes;
    // Data in flight without it.
    uint64_t in_flight_bytes;
    // Whether it opens a range of lost data: the packet just before it is not lost.
    uint8_t starts_range;
    // Whether it was itself a retransmission.
    uint8_t retransmission;
    // Zero.
    uint8_t reserved[6];
} paceline_lost;

// The delivery-rate sample of an ACK (draft-ietf-ccwg-bbr-06 section 4.1.2.1.3).
// `paceline_delivery_sample` fills it.
typedef struct paceline_sample {
    // Data delivered over the interval.
    uint64_t delivered_bytes;
    // CE-marked data delivered over the interval.
    uint64_t delivered_ce_bytes;
    // `P.delivered` of the newest delivered packet.
    uint64_t prior_delivered_bytes;
    // The longer of the send and ACK phases; 0 if the sample gives no rate.
    uint64_t interval_ns;
    // `P.tx_in_flight` of the newest delivered packet.
    uint64_t tx_in_flight_bytes;
    // Data declared lost since that packet was sent.
    uint64_t lost_bytes;
    // Whether the ACK newly delivered anything; otherwise the other fields mean nothing.
    uint8_t has_data;
    // Whether the sample is application-limited.
    uint8_t app_limited;
    // Zero.
    uint8_t reserved[6];
} paceline_sample;

// One acknowledgment, after the transport has processed it.
typedef struct paceline_ack {
    // Its arrival time.
    uint64_t now_ns;
    // Its delivery-rate sample.
    struct paceline_sample sample;
    // Data newly delivered by it, cumulatively or selectively.
    uint64_t newly_acked_bytes;
    // Data newly declared lost on it.
    uint64_t newly_lost_bytes;
    // Newly delivered data that carried a CE mark, or `PACELINE_NONE` if it is not counted.
    uint64_t newly_marked_bytes;
    // Data in flight before it.
    uint64_t prior_in_flight_bytes;
    // Data in flight after it.
    uint64_t in_flight_bytes;
    // `C.delivered`: data delivered over the life of the connection.
    uint64_t delivered_bytes;
    // `C.lost`: data declared lost over the life of the connection, correctly or not.
    uint64_t lost_bytes;
    // Data sent over the life of the connection, each transmission counted.
    uint64_t sent_bytes;
    // RTT of the most recently sent packet that it newly acknowledges, or `PACELINE_NONE`.
    uint64_t rtt_ns;
    // Smoothed RTT (RFC 6298), including this sample; 0 before the first.
    uint64_t srtt_ns;
    // Minimum RTT of the connection; 0 before the first.
    uint64_t min_rtt_ns;
    // One-way delay of the newest delivered packet, or `PACELINE_NONE`.
    uint64_t one_way_delay_ns;
    // RTT without the delay of the receiver's host, or `PACELINE_NONE`.
    uint64_t network_rtt_ns;
    // The delay of the receiver's host, or `PACELINE_NONE`.
    uint64_t receiver_delay_ns;
    // Recovery state after it: `PACELINE_CA_OPEN` and so on.
    uint32_t ca_state;
    // Whether the window, not the application, limited the data in flight in the last round.
    uint8_t cwnd_limited;
    // Whether the cumulative acknowledgment advanced.
    uint8_t una_advanced;
    // Whether a delayed-ACK timer may have held it back.
    uint8_t delayed;
    // Whether the receiver's classic ECN echo is set.
    uint8_t ece;
} paceline_ack;

// The decisions of a controller. Read them after every call that reports an event; `on_send`
// changes them only if nothing was in flight.
typedef struct paceline_outputs {
    // Congestion window: the maximum in flight.
    uint64_t cwnd_bytes;
    // Pacing rate of payload in bits per second; `PACELINE_NONE` leaves sending to the ACK clock.
    uint64_t pacing_rate_bps;
    // The maximum size of one burst.
    uint64_t send_quantum_bytes;
    // Slow-start threshold, `PACELINE_NONE` as long as none is set.
    uint64_t ssthresh_bytes;
    // Packet-timed rounds so far; 0 if the algorithm does not count them.
    uint64_t round_count;
    // The ECN codepoint for data packets: `PACELINE_NOT_ECT` and so on.
    uint32_t ecn;
    // 1 if the transport sets the window in fast recovery by proportional rate reduction (RFC
    // 9937); 0 if the controller's own window applies there too.
    uint8_t uses_prr;
    // Whether the transport must mark the connection application-limited after each ACK.
    uint8_t marks_app_limited;
    // Whether the sampler assumes that the pacer is below the transport: `paceline_delivery_init`.
    uint8_t pacer_below;
    // Whether the algorithm has a slow-start threshold.
    uint8_t has_ssthresh;
} paceline_outputs;

// A controller: its description and its functions.
//
// The state is memory of the caller: `state_size` bytes, aligned to `state_align`, made by `init`.
// It is plain data: it holds no pointers into itself, so that it may be copied and moved, and
// needs no call to release it. Nothing is allocated and nothing is shared: different threads may
// use different states at once. The order of calls for one acknowledgment is `on_spurious` if it
// shows that the episode's losses were spurious, `on_recovery_exit` if the episode is over,
// `on_loss` for each packet newly declared lost, `on_recovery_enter` if they open an episode, and
// last `on_ack`, once.
//
// A function may be null if its description says so; all others must be present.
typedef struct paceline_controller {
    // `PACELINE_ABI_VERSION`.
    uint32_t abi_version;
    // The size of this table in bytes.
    uint32_t table_size;
    // Its name.
    struct paceline_string name;
    // A one-line description.
    struct paceline_string summary;
    // The document it implements.
    struct paceline_string source;
    // Private data of the library for this table.
    const void *context;
    // The size of a state in bytes.
    size_t state_size;
    // The alignment of a state's address; a power of two.
    size_t state_align;
    // Its `index`-th option; `PACELINE_NOT_FOUND` past the last. May be null if it has none.
    uint32_t (*option)(const struct paceline_controller *controller,
                       size_t index,
                       struct paceline_option_info *out);
    // The `index`-th state of its state machine; `PACELINE_NOT_FOUND` past the last.
    uint32_t (*phase_name)(const struct paceline_controller *controller,
                           size_t index,
                           struct paceline_string *out);
    // The `index`-th field of its state; `PACELINE_NOT_FOUND` past the last. May be null if it shows none.
    uint32_t (*field)(const struct paceline_controller *controller, size_t index, struct paceline_field *out);
    // Makes a state in `state`. If it fails, `message` says why: at most `message_size` bytes,
    // ended by a zero.
    uint32_t (*init)(const struct paceline_controller *controller,
                     void *state,
                     const struct paceline_config *config,
                     const struct paceline_option *options,
                     size_t option_count,
                     char *message,
                     size_t message_size);
    // A packet is about to be sent. It may change the outputs only if nothing is in flight. May be null.
    void (*on_send)(void *state, const struct paceline_sent *sent);
    // Sending resumes after a pause longer than the retransmission timeout, with nothing in flight
    // (RFC 5681 section 4.1). Called before `on_send`, once for each timeout of the pause and at most
    // 32 times. May be null.
    void (*on_idle_restart)(void *state, uint64_t now_ns);
    // A packet was declared lost. May be null.
    void (*on_loss)(void *state, const struct paceline_lost *lost);
    // An acknowledgment was processed.
    void (*on_ack)(void *state, const struct paceline_ack *ack);
    // Fast recovery begins, after the losses that caused it. May be null.
    void (*on_recovery_enter)(void *state, uint64_t now_ns, uint64_t in_flight_bytes);
    // Recovery has ended: everything sent before it is acknowledged. May be null.
    void (*on_recovery_exit)(void *state, uint64_t now_ns);
    // The retransmission timer fired; the data in flight no longer includes lost packets. May be
    // null.
    void (*on_timeout)(void *state, uint64_t now_ns, uint64_t in_flight_bytes);
    // Every packet that the episode declared lost was delivered; `C.delivered` now. May be null.
    void (*on_spurious)(void *state, uint64_t now_ns, uint64_t delivered_bytes);
    // The payload of a full packet changed. May be null.
    void (*on_mss)(void *state, uint32_t mss_bytes);
    // Its current decisions.
    void (*outputs)(const void *state, struct paceline_outputs *out);
    // The name of the current state of its state machine, one of `phase_name`.
    void (*phase)(const void *state, struct paceline_string *out);
    // Writes the values of its fields, in their order, to `values`, which has room for `count`. May be null.
    void (*values)(const void *state, uint64_t *values, size_t count);
} paceline_controller;

// A connection's delivery state, one per connection, in memory of the caller. Plain data; only the
// functions below look inside.
typedef struct paceline_delivery {
    // Opaque to the caller.
    uint64_t opaque[20];
} paceline_delivery;

// The totals of a connection.
typedef struct paceline_totals {
    // `C.delivered`.
    uint64_t delivered_bytes;
    // `C.lost`: data declared lost, correctly or not.
    uint64_t lost_bytes;
    // Data sent, each transmission counted.
    uint64_t sent_bytes;
    // Whether the connection is application-limited now.
    uint8_t app_limited;
    // Zero.
    uint8_t reserved[7];
} paceline_totals;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Fills `out` with the `index`-th controller, at most `out_size` bytes of it: `PACELINE_NOT_FOUND` past the last.
//
// A library of controllers defines this function. `paceline-plugin` looks for it in the libraries
// that it loads; this library defines it for ours.
//
// # Safety
// `out` is writable for `out_size` bytes and aligned as a `paceline_controller`.
uint32_t paceline_controller_get(size_t index,
                                 struct paceline_controller *out,
                                 size_t out_size);

// Fills `out` with the controller called `name`, which a zero ends: `PACELINE_NOT_FOUND` if there is none.
//
// # Safety
// `name` is text ended by a zero; `out` is writable for `out_size` bytes and aligned as a `paceline_controller`.
uint32_t paceline_controller_find(const char *name,
                                  struct paceline_controller *out,
                                  size_t out_size);

// Begins a connection. `pacer_below` says that the pacer is below the transport, where a packet
// that waits for it counts as sent (`paceline_outputs`).
//
// # Safety
// `delivery` is writable and aligned to 8 bytes.
void paceline_delivery_init(struct paceline_delivery *delivery, uint8_t pacer_below);

// A packet of `size_bytes` departs with `in_flight_bytes` before it. `packet` becomes the state
// that the transport keeps with it (`OnPacketSent`, 4.1.2.2).
//
// # Safety
// `delivery` is one of `paceline_delivery_init`, `packet` is writable.
void paceline_delivery_on_send(struct paceline_delivery *delivery,
                               uint64_t send_time_ns,
                               uint32_t size_bytes,
                               uint64_t in_flight_bytes,
                               struct paceline_packet *packet);

// A packet is delivered for the first time (`UpdateRateSample`, 4.1.2.3). `id` grows with each
// transmission: it breaks ties between equal send times.
//
// # Safety
// `delivery` is one of `paceline_delivery_init`, `packet` one that it filled.
void paceline_delivery_on_delivered(struct paceline_delivery *delivery,
                                    uint64_t now_ns,
                                    const struct paceline_packet *packet,
                                    uint64_t id,
                                    uint8_t marked);

// A packet was declared lost.
//
// # Safety
// `delivery` is one of `paceline_delivery_init`, `packet` one that it filled.
void paceline_delivery_on_lost(struct paceline_delivery *delivery, const struct paceline_packet *packet);

// A packet is no longer in flight and will be neither acknowledged nor declared lost: its keys were
// discarded (RFC 9002 section 6.4).
//
// # Safety
// `delivery` is one of `paceline_delivery_init`, `packet` one that it filled.
void paceline_delivery_on_discarded(struct paceline_delivery *delivery, const struct paceline_packet *packet);

// An RTT sample, for the minimum RTT below which no sample gives a rate.
//
// # Safety
// `delivery` is one of `paceline_delivery_init`.
void paceline_delivery_on_rtt(struct paceline_delivery *delivery, uint64_t rtt_ns);

// The application has nothing more to send for now, and the window would allow it
// (`MarkConnectionAppLimited`, 4.1.2.4).
//
// # Safety
// `delivery` is one of `paceline_delivery_init`.
void paceline_delivery_mark_app_limited(struct paceline_delivery *delivery, uint64_t in_flight_bytes);

// Ends the ACK in progress (`GenerateRateSample`, 4.1.2.3).
//
// # Safety
// `delivery` is one of `paceline_delivery_init`, `sample` is writable.
void paceline_delivery_sample(struct paceline_delivery *delivery, struct paceline_sample *sample);

// The connection's totals now, each of `paceline_totals`.
//
// # Safety
// `delivery` is one of `paceline_delivery_init`, `totals` is writable.
void paceline_delivery_totals(const struct paceline_delivery *delivery, struct paceline_totals *totals);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PACELINE_CONTROLLER_H */
