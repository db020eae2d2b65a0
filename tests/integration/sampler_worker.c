/* tests/integration/sampler_worker.c - an elastic program that counts, over all
 * ranks and generations, which samples an epoch has handed out: each exactly
 * once, whoever dies or joins meanwhile.
 *
 * A sum of hashes and a count stand for the set. Commits are rarer than steps,
 * so that a loss rolls several calls of the sampler back.
 *
 * Prints "final digest <hex> steps <epochs> iterations-here <steps>". Threads:
 * one. Memory: one batch. */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

enum { BATCH = 7 };

static long n_samples = 10007, n_epochs = 20, step_us = 500, commit_every = 3;
static const char *until; /* epochs go on until this file is there */

static struct {
    uint64_t epochs, digest; /* finished */
    uint64_t n, sum;         /* handed out in this epoch */
    uint64_t over;
} model;
static hvd_sampler_t *sampler;
static uint64_t iterations;

static uint64_t mix(uint64_t z)
{
    z = (z + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

static void check(const char *what, uint64_t got, uint64_t want)
{
    if (got == want)
        return;
    fprintf(stderr,
            "WRONG: %s of epoch %" PRIu64 " in generation %" PRIu64
            ", rank %d: %" PRIu64 " instead of %" PRIu64 "\n",
            what, model.epochs, hvd_generation(), hvd_rank(), got, want);
    abort();
}

static hvd_status_t end_epoch(void)
{
    uint64_t want = 0;

    for (uint64_t i = 0; i < (uint64_t)n_samples; i++)
        want += mix(i);
    check("samples", model.n, (uint64_t)n_samples);
    check("sum", model.sum, want);
    model.epochs++;
    model.digest = mix(model.digest ^ want);
    model.n = model.sum = 0;
    return hvd_sampler_set_epoch(sampler, model.epochs);
}

/* Rank 0 says whether the last epoch has begun. */
static bool is_last(void)
{
    return (long)model.epochs >= n_epochs - 1 &&
           (!until || access(until, F_OK) == 0);
}

static hvd_status_t take(size_t n, const uint64_t *indices)
{
    uint64_t in[3] = {0, n, hvd_rank() == 0 && is_last()}, out[3];

    for (size_t i = 0; i < n; i++)
        in[0] += mix(indices[i]);
    HVD_TRY(hvd_allreduce(in, out, 3, HVD_INT64, HVD_SUM));
    model.sum += out[0];
    model.n += out[1];
    model.over = out[2];
    iterations++;
    return HVD_OK;
}

static void pause_step(void)
{
    struct timespec t = {.tv_nsec = step_us * 1000};

    nanosleep(&t, NULL);
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    uint64_t indices[BATCH];
    size_t n;
    bool end;

    check("position", hvd_sampler_position(sampler), model.n);
    for (long step = 1; (long)model.epochs < n_epochs || !model.over; step++) {
        HVD_TRY(hvd_sampler_next(sampler, BATCH, indices, &n, &end));
        if (end) {
            HVD_TRY(end_epoch());
            continue;
        }
        HVD_TRY(take(n, indices));
        pause_step();
        HVD_TRY(step % commit_every == 0 ? hvd_state_commit(state)
                                         : hvd_state_check_host_updates(state));
    }
    return HVD_OK;
}

static hvd_status_t run(void)
{
    hvd_state_t *state;
    hvd_status_t status, goodbye;

    HVD_TRY(hvd_init(NULL));
    HVD_TRY(hvd_state_create(&state));
    HVD_TRY(hvd_sampler_create((uint64_t)n_samples, NULL, &sampler));
    HVD_TRY_GOTO(hvd_state_add(state, "model", &model, sizeof(model)), end);
    HVD_TRY_GOTO(hvd_state_add_sampler(state, "sampler", sampler), end);
    status = hvd_elastic_run(state, train, NULL);
    goodbye = hvd_shutdown();
    if (status == HVD_OK)
        status = goodbye;

end:
    hvd_state_destroy(state);
    hvd_sampler_destroy(sampler);
    return status;
}

int main(int argc, char **argv)
{
    hvd_status_t status;
    int c;

    while ((c = getopt(argc, argv, "n:e:u:k:f:")) != -1) {
        if (c == 'n')
            n_samples = strtol(optarg, NULL, 10);
        else if (c == 'e')
            n_epochs = strtol(optarg, NULL, 10);
        else if (c == 'u')
            step_us = strtol(optarg, NULL, 10);
        else if (c == 'k')
            commit_every = strtol(optarg, NULL, 10);
        else if (c == 'f')
            until = optarg;
        else
            return 2;
    }
    status = run();
    if (status == HVD_REMOVED)
        return puts("removed") < 0;
    if (status == HVD_OK)
        return printf("final digest %016" PRIx64 " steps %" PRIu64
                      " iterations-here %" PRIu64 "\n",
                      model.digest, model.epochs, iterations) < 0;
    fprintf(stderr, "sampler_worker: %s: %s\n", hvd_strerror(status),
            hvd_last_error());
    return 1;
}
