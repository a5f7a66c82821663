/* What is kept of a flow, in the storage of its socket. */
#ifndef PACELINE_FLOW_H
#define PACELINE_FLOW_H

/* ACKs that the history holds, a power of two. */
#define HISTORY 2048

/* The connection after an ACK: what every packet carries that is sent before the next one. */
struct moment {
    u32 delivered;
    u32 lost;
    u32 snd_nxt;
    u32 inflight;
};

struct flow {
    struct bbr3 bbr;
    struct bbr3_connection connection;
    struct bbr3_sample sample;
    u32 number;
    u32 lost_end_seq;    /* up to here losses have been reported */
    u32 newest;          /* moments so far, less one; the place in the history is that modulo HISTORY */
    u32 search;
    bool started;
    struct moment history[HISTORY];
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct flow);
} flows SEC(".maps");

u32 flows_started;

/* Places in icsk_ca_priv. */
enum { TLP_HIGH_SEQ };

#endif
