/* What the stack tells the algorithm, and what the algorithm knows. Counts are in packets and wrap at 2^32. */
#ifndef BBR3_STATE_H
#define BBR3_STATE_H

/* Recovery of the stack, with Linux's numbers. */
enum bbr3_recovery { CA_OPEN, CA_DISORDER, CA_CWR, CA_RECOVERY, CA_LOSS };

/* The connection's state. */
struct bbr3_connection {
    u64 now_us;
    u64 departure_ns;    /* when the pacer lets the next packet go */
    u64 delivered_us;    /* time of the latest delivery */
    u64 pacing_rate;     /* bytes per second; an output */
    u32 smss;            /* bytes */
    u32 cwnd;            /* an output */
    u32 delivered;
    u32 delivered_ce;
    u32 lost;
    u32 inflight;
    u32 app_limited;     /* 0: not limited; an output in PROBE_RTT */
    u32 srtt_us;         /* 0: none yet */
    u32 min_rtt_us;      /* the stack's own; UNSET: none yet */
    u32 recovery;
    bool is_cwnd_limited;
    bool ecn_low;        /* ECN negotiated, on a route that marks at a shallow threshold */
    bool tlp_app_limited; /* the data that a tail-loss probe repeated was application-limited */
};

/* A rate sample (RS). */
struct bbr3_sample {
    s64 interval_us;     /* -1: no valid sample */
    s64 rtt_us;          /* -1: none */
    s32 delivered;       /* -1: no sample */
    s32 delivered_ce;
    s32 lost;            /* since the newest delivered packet was sent */
    u32 prior_delivered;
    u32 newly_acked;
    u32 newly_lost;
    u32 tx_in_flight;    /* when the newest delivered packet was sent */
    u32 prior_inflight;  /* before this ACK */
    bool is_app_limited;
    bool is_ece;
    bool is_ack_delayed;
    bool is_acking_tlp;
};

/* A packet, or a burst sent as one, that was marked lost. */
struct bbr3_lost_packet {
    u32 count;
    u32 tx_in_flight;
    u32 tx_lost;         /* lost when it was sent */
    bool is_app_limited;
};

enum bbr3_state { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };
enum bbr3_phase { UP, DOWN, CRUISE, REFILL };
enum bbr3_ack_phase { ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING };

struct bbr3 {
    u64 cycle_us;             /* cycle_stamp */
    u64 extra_acked_us;       /* extra_acked_interval_start */
    u32 state;
    u32 phase;                /* of PROBE_BW */
    u32 ack_phase;
    u32 prior_recovery;
    u32 min_rtt_us;
    u32 min_rtt_ms;           /* min_rtt_stamp */
    u32 probe_rtt_min_us;     /* probe_rtt_min_delay */
    u32 probe_rtt_min_ms;     /* probe_rtt_min_stamp */
    u32 probe_rtt_done_ms;    /* probe_rtt_done_stamp, if set */
    u32 next_round_delivered;
    u32 loss_round_delivered;
    u32 prior_cwnd;
    u32 initial_cwnd;
    u32 pacing_gain;
    u32 cwnd_gain;
    u32 sample_bw;
    u32 full_bw;
    u32 full_bw_count;
    u32 bw_latest;
    u32 bw_shortterm;
    u32 max_bw[2];            /* of the last and of this ProbeBW cycle */
    u32 inflight_latest;
    u32 inflight_shortterm;
    u32 inflight_longterm;
    u32 undo_bw_shortterm;
    u32 undo_inflight_shortterm;
    u32 undo_inflight_longterm;
    u32 probe_up_acked_per_inc;
    u32 bw_probe_up_acked;
    u32 bw_probe_up_rounds;
    u32 bw_probe_wait_us;
    u32 rounds_since_probe;
    u32 ecn_alpha;
    u32 alpha_delivered;
    u32 alpha_delivered_ce;
    u32 startup_ecn_rounds;
    u32 loss_events_in_round;
    u32 extra_acked_delivered;
    u32 extra_acked[2];
    u32 extra_acked_rounds;
    u32 extra_acked_slot;
    bool round_start;
    bool loss_round_start;
    bool loss_in_round;
    bool ecn_in_round;
    bool loss_in_cycle;
    bool ecn_in_cycle;
    bool try_fast_path;
    bool idle_restart;
    bool probe_rtt_done_set;
    bool probe_rtt_round_done;
    bool has_seen_rtt;
    bool full_bw_reached;
    bool full_bw_now;
    bool ecn_eligible;
    bool is_bw_probe_sample;
    bool prev_probe_too_high;
    bool prev_probe_precautionary;
};

/* A random number below n. */
static __always_inline u32 random_below(u32 n);

#endif
