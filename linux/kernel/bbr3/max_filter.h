/* max_bw: the highest bandwidth of this ProbeBW cycle and of the previous one. */
#ifndef BBR3_MAX_FILTER_H
#define BBR3_MAX_FILTER_H

static __always_inline u32 max_bw(const struct bbr3 *b)
{
    return most(b->max_bw[0], b->max_bw[1]);
}

static __always_inline u32 bw(const struct bbr3 *b)
{
    return least(max_bw(b), b->bw_shortterm);
}

static __always_inline void update_max_bw(struct bbr3 *b, const struct bbr3_sample *rs)
{
    if (!rs->is_app_limited || b->sample_bw >= max_bw(b))
        b->max_bw[1] = most(b->max_bw[1], b->sample_bw);
}

/* A cycle without measurements does not push the previous one out. */
static __always_inline void advance_max_bw_filter(struct bbr3 *b)
{
    if (b->max_bw[1] == 0)
        return;
    b->max_bw[0] = b->max_bw[1];
    b->max_bw[1] = 0;
}

#endif
