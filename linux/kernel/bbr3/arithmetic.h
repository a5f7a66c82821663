/* Fixed point: bandwidth in packets per microsecond << 24, gains and fractions in 256ths. */
#ifndef BBR3_ARITHMETIC_H
#define BBR3_ARITHMETIC_H

#define BW_SCALE 24
#define BW_UNIT (1ULL << BW_SCALE)
#define BBR_SCALE 8
#define BBR_UNIT (1U << BBR_SCALE)
/* A bound that is not set, or an RTT that is not known. */
#define UNSET 0xffffffffU

#define GSO_BYTES 65536U
/* Headers that a burst leaves room for: that of the kernel whose traces this is held against. */
#define HEADER_BYTES 320U
#define MAX_BURST_BYTES (GSO_BYTES - 1 - HEADER_BYTES)
/* log2 of the bursts in a second of pacing. */
#define PACING_SHIFT 10

static __always_inline u32 least(u32 a, u32 b)
{
    return a < b ? a : b;
}

static __always_inline u32 most(u32 a, u32 b)
{
    return a > b ? a : b;
}

/* value * fraction, rounded down. */
static __always_inline u32 scaled(u32 value, u32 fraction)
{
    return (u64)value * fraction >> BBR_SCALE;
}

/* Whether the count a comes before b, modulo 2^32. */
static __always_inline bool comes_before(u32 a, u32 b)
{
    return (s32)(a - b) < 0;
}

/* Microseconds from earlier to later; 0 if it is in fact later. */
static __always_inline u32 elapsed_us(u64 later, u64 earlier)
{
    return later > earlier ? later - earlier : 0;
}

static __always_inline u32 to_ms(u64 us)
{
    return us / 1000;
}

/* The largest n with 2^n <= value, for a value above 0. */
static __always_inline u32 log2_floor(u32 value)
{
    u32 n = 0;

    if (value >> 16) { n += 16; value >>= 16; }
    if (value >> 8) { n += 8; value >>= 8; }
    if (value >> 4) { n += 4; value >>= 4; }
    if (value >> 2) { n += 2; value >>= 2; }
    return n + (value >> 1);
}

/* Packets that leave in a time at bw, rounded down. */
static __always_inline u32 packets_in(u32 bw, u64 us)
{
    return bw * us >> BW_SCALE;
}

/* The bandwidth of count packets in a time above 0, rounded up. */
static __always_inline u32 bandwidth_of(u32 count, u64 us)
{
    u64 volume = (u64)count * BW_UNIT;

    return (volume + us - 1) / us;
}

#endif
