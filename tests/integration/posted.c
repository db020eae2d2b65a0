/* tests/integration/posted.c - see posted.h. What is in flight when a
 * generation ends stays with the program: it must be complete, whatever became
 * of it. Two of the calls are calls by name, which each rank issues in an order
 * of its own. Memory: static, so that it is there however train is left. */
#include "posted.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TENSORS = 3, LARGE = 50000, POSTED = 4 };

static const size_t counts[TENSORS] = {3, LARGE, 17};

static struct {
    hvd_request_t *requests[POSTED];
    uint64_t generation, step;
    hvd_status_t status; /* of those that were seen to be complete */
    bool is_out;         /* there are some */
    int size;
    int64_t tensors[TENSORS][LARGE], sum[2], sent;
} posted;

static void wrong(const char *what, int64_t got, int64_t want)
{
    fprintf(stderr,
            "WRONG: posted %s at step %" PRIu64 ": %" PRId64
            " instead of %" PRId64 "\n",
            what, posted.step, got, want);
    abort();
}

static void check(const char *what, int64_t got, int64_t want)
{
    if (got != want)
        wrong(what, got, want);
}

static void check_all_done(void)
{
    for (int i = 0; i < POSTED; i++) {
        hvd_status_t status = hvd_wait_for(&posted.requests[i], 0);

        if (status == HVD_ERR_TIMEOUT)
            wrong("call complete", 0, 1);
        if (posted.status == HVD_OK)
            posted.status = status;
    }
}

static void check_results(void)
{
    int64_t all = (int64_t)posted.size * (posted.size + 1) / 2;
    int64_t step = (int64_t)posted.step;

    for (int t = 0; t < TENSORS; t++) {
        check("group", posted.tensors[t][0], (step + t) * all);
        check("group", posted.tensors[t][counts[t] - 1], (step + t) * all);
    }
    check("allreduce", posted.sum[1], step * all);
    check("broadcast", posted.sent, step);
}

/* Those of a generation that has ended are complete, well or not. */
static hvd_status_t collect(void)
{
    bool current = posted.generation == hvd_generation();
    hvd_status_t status;

    if (!posted.is_out)
        return HVD_OK;
    if (!current)
        check_all_done();
    status = hvd_wait_all(POSTED, posted.requests);
    posted.is_out = false;
    if (status == HVD_OK)
        status = posted.status;
    if (status == HVD_OK)
        check_results();
    return current ? status : HVD_OK;
}

static hvd_status_t post_by_name(bool sum)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    options.key = sum ? "sum" : "sent";
    if (sum)
        return hvd_allreduce_with(posted.sum, posted.sum + 1, 1, HVD_INT64,
                                  HVD_SUM, &options, &posted.requests[1]);
    return hvd_broadcast_with(&posted.sent, 1, HVD_INT64, posted.size - 1,
                              &options, &posted.requests[2]);
}

static hvd_status_t post(uint64_t step)
{
    const void *sends[TENSORS];
    void *recvs[TENSORS];
    int mine = hvd_rank() + 1;
    hvd_request_t **requests = posted.requests;
    hvd_options_t options = HVD_OPTIONS_INIT;

    posted.generation = hvd_generation();
    posted.status = HVD_OK;
    posted.step = step;
    posted.size = hvd_size();
    for (int t = 0; t < TENSORS; t++) {
        sends[t] = recvs[t] = posted.tensors[t];
        for (size_t i = 0; i < counts[t]; i++)
            posted.tensors[t][i] = ((int64_t)step + t) * mine;
    }
    posted.sum[0] = (int64_t)step * mine;
    posted.sent = mine == posted.size ? (int64_t)step : -1;
    options.label = "group";
    HVD_TRY(hvd_grouped_allreduce_with(TENSORS, sends, recvs, counts, HVD_INT64,
                                       HVD_SUM, &options, &requests[0]));
    posted.is_out = true;
    for (int i = 0; i < 2; i++)
        HVD_TRY(post_by_name((mine + i) % 2 == 0));
    return hvd_barrier_with(NULL, &requests[3]);
}

hvd_status_t posted_exchange(uint64_t step)
{
    HVD_TRY(collect());
    HVD_TRY(post(step));
    return step % 2 == 0 ? collect() : HVD_OK;
}

void posted_check_drained(void)
{
    check_all_done();
}

hvd_status_t posted_finish(void)
{
    return hvd_wait_all(POSTED, posted.requests);
}

/* ---- in a commit --------------------------------------------------------- */

uint64_t posted_entry;

static struct {
    hvd_request_t *request;
    uint64_t generation, step;
} in_commit;

/* Rank 0 copies its entries long before the others have come, unless the
 * library waits for them. */
static void be_late(void)
{
    struct timespec t = {.tv_nsec = 2000000};

    if (hvd_rank() > 0)
        nanosleep(&t, NULL);
}

hvd_status_t posted_on_commit(void *step)
{
    hvd_status_t status = hvd_wait(&in_commit.request);

    if (in_commit.generation == hvd_generation())
        HVD_TRY(status);
    in_commit.generation = hvd_generation();
    in_commit.step = *(const uint64_t *)step;
    be_late();
    return hvd_allreduce_with(&in_commit.step, &posted_entry, 1, HVD_INT64,
                              HVD_MAX, NULL, &in_commit.request);
}
