/* The state of a flow, in the storage of its socket. */
#ifndef PACELINE_FLOW_H
#define PACELINE_FLOW_H

struct flow {
    struct bbr3 bbr;
    struct bbr3_connection connection;
    struct bbr3_sample sample;
    u32 number;
    u32 lost_reported;   /* packets */
    u32 lost_end_seq;    /* up to here losses have been reported */
    bool started;
    bool is_open;        /* init was called; before that the stack has processed the ACK of its SYN */
    u32 restored_cwnd;   /* what undo_cwnd has returned, until the next call; 0 for none */
    struct history history;
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct flow);
} flows SEC(".maps");

u32 flows_started;

/* Indices in icsk_ca_priv. */
enum { TLP_HIGH_SEQ };

#endif
