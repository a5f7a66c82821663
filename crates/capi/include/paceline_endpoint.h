/* Ends of a transport, as an engine drives them. MIT OR Apache-2.0.
 *
 * Written from crates/capi/src; change it there. Volumes are in bytes, times in nanoseconds from an origin that the engine
 * chooses, rates in bits per second: each name ends in its unit. Flags are 0 or 1.
 *
 * A program takes our transport with paceline_stack_get. A library of transports of your own defines that function.
 * examples/transport-c has one of each. */

#ifndef PACELINE_ENDPOINT_H
#define PACELINE_ENDPOINT_H

#include "paceline_controller.h"

// The version of this interface. A program takes libraries of its own version and of earlier ones:
// structures grow at their end, and what a library does not know of stays as the program has set it.
// The table of functions may grow without a new version: `table_size` says how much of it is present.
#define PACELINE_ENDPOINT_ABI_VERSION 2

// An unlimited write: from now on there is always more.
#define PACELINE_UNLIMITED UINT64_MAX

// The codepoint of a datagram that arrived where the engine cannot tell. The others are those of
// paceline_controller.h: `PACELINE_NOT_ECT` and so on.
#define PACELINE_ECN_UNKNOWN 255

// The configuration of an end.
typedef struct paceline_end_config {
    // Whether it is the sending end; the other one listens.
    uint8_t sends;
    // Zero.
    uint8_t reserved[3];
    // The maximum UDP payload of a packet, in bytes.
    uint32_t max_datagram_bytes;
    // Seed of the end's own random draws; the two ends of a flow have different ones.
    uint64_t seed;
    // The time at which the flow starts. Times count from an origin that the engine chooses.
    uint64_t now_ns;
    // The controller that the scenario names; a transport with one of its own ignores it. It lives until `init` returns.
    paceline_string controller;
} paceline_end_config;

// A datagram that has arrived. It lives until `receive` returns.
typedef struct paceline_datagram {
    // Its UDP payload.
    const uint8_t *data;
    // Its length in bytes.
    uint32_t size_bytes;
    // The codepoint with which it arrived.
    uint32_t ecn;
} paceline_datagram;

// Datagrams that leave together: one, or several of the same size as with segmentation offload.
// The engine provides the room, the end fills in the rest.
typedef struct paceline_batch {
    // Room for their UDP payloads, one after the other.
    uint8_t *data;
    // Size of the room in bytes.
    uint32_t capacity_bytes;
    // Total bytes of the payloads.
    uint32_t size_bytes;
    // Bytes of each but the last, which may be shorter; not zero.
    uint32_t segment_size_bytes;
    // The codepoint of all: `PACELINE_NOT_ECT` and so on.
    uint32_t ecn;
    // When they leave: the engine holds them until then, and calls `poll_transmit` again only when they have left. Set to 0
    // by the engine: a time that is past, or none, is at once. Since version 2.
    uint64_t departs_ns;
} paceline_batch;

// The state of an end, for the record. The engine sets all of it to unknown before it asks:
// `PACELINE_NONE`, and 0 for volumes and counts.
typedef struct paceline_stats {
    // Congestion window.
    uint64_t cwnd_bytes;
    // Data in flight.
    uint64_t in_flight_bytes;
    // Its pacing rate.
    uint64_t pacing_rate_bps;
    // The delivery rate that it measures.
    uint64_t delivery_rate_bps;
    // The latest RTT sample.
    uint64_t latest_rtt_ns;
    // Smoothed RTT.
    uint64_t srtt_ns;
    // Lifetime minimum RTT.
    uint64_t min_rtt_ns;
    // Data that the other end has acknowledged.
    uint64_t acknowledged_bytes;
    // Packets with data that it sent, including retransmissions.
    uint64_t sent_packets;
    // Packets that it declared lost.
    uint64_t lost_packets;
    // Packets with data that it retransmitted.
    uint64_t retransmitted_packets;
    // Whether the application, not the network, limits it.
    uint8_t app_limited;
    // Zero.
    uint8_t reserved[7];
    // The bandwidth that its controller assumes (`bw` of BBR). Since version 2.
    uint64_t bandwidth_bps;
} paceline_stats;

// A transport: what it says of itself, and the functions of its ends.
//
// The state of an end is memory of the engine: `state_size` bytes, aligned to `state_align`, made
// by `init` and ended by `fini`. It is not moved in between. An engine makes steps. In each, in
// this order, for one end: `receive` with each datagram that has arrived, or `on_timer` if the
// timeout is due; `write` with the application's data; `poll_transmit` until it returns 0;
// `next_timer`, read again after every step.
//
// `now_ns` never goes back. An end that asks for a timeout before it, or sends or wakes endlessly
// at one instant, is defective: the engine stops with an error. All functions must be present,
// unless their description says that they may be null.
typedef struct paceline_stack {
    // `PACELINE_ENDPOINT_ABI_VERSION`.
    uint32_t abi_version;
    // The size of this table in bytes.
    uint32_t table_size;
    // Its name.
    paceline_string name;
    // A one-line description.
    paceline_string summary;
    // The version of the transport.
    paceline_string version;
    // Private data of the library for this table.
    const void *context;
    // The size of a state in bytes.
    size_t state_size;
    // The alignment of a state's address; a power of two.
    size_t state_align;
    // The maximum payload of its batches in bytes; at least that of a datagram.
    uint32_t max_batch_bytes;
    // Makes an end in `state` and returns `PACELINE_OK`. If it fails, `message` says why: at most
    // `message_size` bytes, ended by a zero.
    uint32_t (*init)(const struct paceline_stack *stack,
                     void *state,
                     const struct paceline_end_config *config,
                     const paceline_option *options,
                     size_t option_count,
                     char *message,
                     size_t message_size);
    // Ends it and frees its memory. May be null.
    void (*fini)(void *state);
    // A datagram has arrived.
    void (*receive)(void *state, uint64_t now_ns, const struct paceline_datagram *datagram);
    // The timeout may be due. Calls before it, or without one, do nothing.
    void (*on_timer)(void *state, uint64_t now_ns);
    // Fills `batch` with the datagrams to send now and returns 1; returns 0 if there are none.
    uint32_t (*poll_transmit)(void *state, uint64_t now_ns, struct paceline_batch *batch);
    // When it wants `on_timer` or `poll_transmit` (its pacer) to be called next; `PACELINE_NONE`
    // if never.
    uint64_t (*next_timer)(void *state);
    // The application writes `bytes` more, or `PACELINE_UNLIMITED`. If `stop`, unlimited data ends
    // first. If `close`, nothing will follow. An end that first has to complete a handshake keeps
    // the data until then.
    void (*write)(void *state, uint64_t now_ns, uint64_t bytes, uint8_t stop, uint8_t close);
    // Bytes that it has received and passed to its application, in order and once each.
    uint64_t (*delivered)(const void *state);
    // Its state.
    void (*stats)(const void *state, struct paceline_stats *out);
    // The names of its own controllers, any of which `init` takes, separated by commas; empty if it has none to choose
    // from. A table that ends before this has none.
    paceline_string controllers;
    // Whether it cannot go on: returns 1, and `message` says why, at most `message_size` bytes with a zero at the end. The
    // engine asks after every step, and stops with this as its error. May be null.
    uint32_t (*failure)(const void *state, char *message, size_t message_size);
    // The state of its controller's state machine, empty if it has none; the text is never freed. The engine asks after every
    // step. May be null; a table that ends before this has none.
    paceline_string (*phase)(const void *state);
    // The `index`-th option of its controllers; `PACELINE_NOT_FOUND` past the last. The engine refuses any other. Null if it
    // does not say which it has; a table that ends before this does not.
    uint32_t (*option)(const struct paceline_stack *stack, size_t index, paceline_option_info *out);
} paceline_stack;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Fills `out` with the `index`-th transport, at most `out_size` bytes of it: `PACELINE_NOT_FOUND` past the last.
//
// A library of transports defines this function. `paceline-plugin` looks for it in the libraries
// that it loads; this library defines it for ours, `paceline`: RACK-TLP, PRR, a pacer, delayed
// acknowledgments, accurate ECN. `init` takes the controller from its configuration, and the
// controller's options from `options`. The content of the datagrams is private to the two ends; their
// payload is zeros.
//
// # Safety
// `out` is writable for `out_size` bytes and aligned as a `paceline_stack`.
uint32_t paceline_stack_get(size_t index,
                            struct paceline_stack *out,
                            size_t out_size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PACELINE_ENDPOINT_H */
