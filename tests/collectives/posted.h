/* tests/collectives/posted.h - what tests of posted calls share. Threads: as
 * group.h. */
#ifndef TESTS_COLLECTIVES_POSTED_H
#define TESTS_COLLECTIVES_POSTED_H

#include "collectives/request.h"
#include "group.h"

static inline bool text_has(const char *words)
{
    return strstr(error_text(), words) != NULL;
}

static inline struct collective_args sum_args(const void *send, void *recv,
                                              size_t count)
{
    return (struct collective_args){.kind = COLLECTIVE_ALLREDUCE,
                                    .sendbuf = send,
                                    .recvbuf = recv,
                                    .count = count,
                                    .dtype = HVD_FLOAT32,
                                    .op = HVD_SUM};
}

/* 0: no such factor */
static inline void scale_args(struct collective_args *args, double prescale,
                              double postscale)
{
    args->scaled = true;
    args->prescale = prescale != 0 ? prescale : 1;
    args->postscale = postscale != 0 ? postscale : 1;
}

static inline hvd_status_t post_sum(struct comm *comm, float *buf, size_t count,
                                    struct hvd_request **request_p)
{
    struct collective_args args = sum_args(buf, buf, count);

    return comm_post(comm, &args, request_p);
}

/* sum over ranks of (rank + 1) * k */
static inline float sum_of(const struct group *g, float k)
{
    return k * (float)(g->size * (g->size + 1)) / 2;
}

static inline void fill(float *buf, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        buf[i] = value;
}

static inline bool all_are(const float *buf, size_t count, float value)
{
    for (size_t i = 0; i < count; i++)
        if (buf[i] != value)
            return false;
    return true;
}

#endif
