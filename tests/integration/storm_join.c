/* tests/integration/storm_join.c - the end of an epoch for storm_worker: ranks
 * have several calls more than others, or none, and then join. Threads: one. */
#include "storm.h"

#include <stdio.h>
#include <stdlib.h>

#include <hvd/comm.h>

enum { MORE_MAX = 5, COUNT_MAX = 20000 };

static struct {
    uint64_t step;
    hvd_comm_t *comm;
    int rank, size;
    int n_more[STORM_RANKS_MAX]; /* calls of each */
    size_t counts[MORE_MAX];
    bool of_all[MORE_MAX]; /* HVD_AVERAGE_OF_ALL */
    float bufs[MORE_MAX][COUNT_MAX];
    hvd_request_t *requests[MORE_MAX];
} tail;

/* The same on all ranks. */
static void draw_tail(struct chance *shared)
{
    tail.comm = sets_draw(shared);
    tail.rank = tail.comm != NULL ? hvd_comm_rank(tail.comm) : hvd_rank();
    tail.size = tail.comm != NULL ? hvd_comm_size(tail.comm) : hvd_size();
    for (int i = 0; i < STORM_RANKS_MAX; i++)
        tail.n_more[i] = (int)draw(shared, MORE_MAX);
    for (int i = 0; i < MORE_MAX; i++) {
        tail.counts[i] = 1 + draw(shared, COUNT_MAX);
        tail.of_all[i] = one_in(shared, 2);
    }
}

static hvd_status_t post(int i)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    hvd_op_t op = tail.of_all[i] ? HVD_AVERAGE_OF_ALL : HVD_AVERAGE;
    char name[32];

    for (size_t k = 0; k < tail.counts[i]; k++)
        tail.bufs[i][k] = (float)(12 * (tail.rank + 1));
    snprintf(name, sizeof(name), "tail %d", i);
    options.comm = tail.comm;
    options.key = name;
    return hvd_allreduce_with(tail.bufs[i], tail.bufs[i], tail.counts[i],
                              HVD_FLOAT32, op, &options, &tail.requests[i]);
}

static float mean_of(int i)
{
    int sum = 0, n = 0;

    for (int r = 0; r < tail.size; r++)
        if (tail.n_more[r] > i) {
            sum += 12 * (r + 1);
            n++;
        }
    return (float)sum / (float)(tail.of_all[i] ? tail.size : n);
}

static void wrong(const char *what, int i, double got, double wanted)
{
    printf("WRONG %s: step %llu, rank %d of %d, call %d: %g, not %g\n", what,
           (unsigned long long)tail.step, tail.rank, tail.size, i, got, wanted);
    fflush(stdout);
    abort();
}

static void check(int i)
{
    for (size_t k = 0; k < tail.counts[i]; k++)
        if (tail.bufs[i][k] != mean_of(i))
            wrong("mean", i, (double)tail.bufs[i][k], (double)mean_of(i));
}

/* To their end, in every case. */
static hvd_status_t complete(hvd_status_t status)
{
    for (int i = 0; i < MORE_MAX; i++) {
        bool posted = tail.requests[i] != NULL;
        hvd_status_t one = hvd_wait(&tail.requests[i]);

        if (posted && one == HVD_OK)
            check(i);
        else if (status == HVD_OK)
            status = one;
    }
    return status;
}

static hvd_status_t join(void)
{
    int last = -1, most = 0;

    HVD_TRY(hvd_data_done(tail.comm, &last));
    for (int r = 0; r < tail.size; r++)
        most = tail.n_more[r] > most ? tail.n_more[r] : most;
    if (last < 0 || last >= tail.size || tail.n_more[last] != most)
        wrong("last", last, 0, most);
    return HVD_OK;
}

hvd_status_t join_run(uint64_t seed, uint64_t step, struct chance *own)
{
    struct chance shared = {mix2(mix2(seed, step), MORE_MAX)};
    hvd_status_t status = HVD_OK;

    tail.step = step;
    draw_tail(&shared);
    if (tail.rank < 0)
        return HVD_OK;
    for (int i = 0; i < tail.n_more[tail.rank] && status == HVD_OK; i++)
        status = post(i);
    if (one_in(own, 2))
        status = complete(status);
    if (status == HVD_OK)
        status = join();
    return complete(status);
}
