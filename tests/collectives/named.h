/* tests/collectives/named.h - what tests of calls by name share. Threads: as
 * group.h. */
#ifndef TESTS_COLLECTIVES_NAMED_H
#define TESTS_COLLECTIVES_NAMED_H

#include "base/array.h"
#include "base/random.h"
#include "collectives/by_name.h"
#include "collectives/comm_impl.h"
#include "posted.h"

enum {
    NAMES = 40,
    THREADS = 3,
#if defined(__SANITIZE_THREAD__)
    STEPS = 8
#elif defined(__SANITIZE_ADDRESS__)
    STEPS = 15
#else
    STEPS = 40
#endif
};

/* 0 .. n-1 in any order */
static inline void shuffle(struct random_state *random, int *a, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = (int)random_below(random, (uint64_t)i + 1), t = a[i];

        a[i] = a[k];
        a[k] = t;
    }
}

static inline hvd_status_t post_named(struct comm *comm, const char *name,
                                      float *buf, size_t count,
                                      struct hvd_request **request_p)
{
    struct collective_args args = sum_args(buf, buf, count);

    args.name = name;
    return by_name_post(comm, &args, NULL, request_p);
}

static inline size_t count_of(int i)
{
    return i % 7 == 0 ? 30000 + (size_t)i : (size_t)(i * 37 % 500);
}

/* The tensors of one rank. */
struct tensors {
    float *bufs[NAMES];
    struct hvd_request *requests[NAMES];
};

static inline void alloc_tensors(struct tensors *t)
{
    for (int i = 0; i < NAMES; i++)
        t->bufs[i] = calloc(count_of(i) + 1, sizeof(float));
}

static inline void free_tensors(struct tensors *t)
{
    for (int i = 0; i < NAMES; i++)
        free(t->bufs[i]);
}

static inline bool post_tensor(struct comm *comm, struct tensors *t, int i,
                               int rank, int step)
{
    char name[32];

    snprintf(name, sizeof(name), "layer.%d.weight", i);
    fill(t->bufs[i], count_of(i), (float)((rank + 1) * (i + step)));
    EXPECT(post_named(comm, name, t->bufs[i], count_of(i), &t->requests[i]) ==
           HVD_OK);
    return true;
}

static inline bool wait_tensor(const struct group *g, struct tensors *t, int i,
                               int rank, int step)
{
    EXPECT_SAY(request_wait(t->requests[i]) == HVD_OK, "rank %d, tensor %d",
               rank, i);
    EXPECT_SAY(all_are(t->bufs[i], count_of(i), sum_of(g, (float)(i + step))),
               "rank %d, tensor %d of step %d", rank, i, step);
    return true;
}

#endif
