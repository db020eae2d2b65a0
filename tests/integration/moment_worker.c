/* tests/integration/moment_worker.c - an elastic program that ends itself with
 * SIGKILL at one exact moment (moment.h), once per job, and checks what
 * everybody else goes on with.
 *
 * Its state after N steps does not depend on the world, so that the digest of a
 * run without faults is that of every run. Checked on the way: the results of
 * collectives, that all parts of the state belong to one step, that reset
 * callbacks ran once in every generation but the first, behind the sync, and
 * that all callbacks run on the thread that trains. Each reset prints "reset
 * generation G reason R size S committed C".
 *
 * Threads: two; what they share is atomic. Memory: the state, once. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "moment.h"

enum { STRIPE = 64, VECTOR = 16 };

static struct {
    uint64_t step, sum, tail;
    uint64_t object;   /* serialised by callbacks */
    uint64_t *weights; /* [n_weights] */
    size_t n_weights;
    uint64_t iterations, reset_generation, reset_step;
    unsigned n_resets;
} model;

static pthread_t trainer; /* the main thread */

/* ---- the model ----------------------------------------------------------- */

static void wrong(const char *what, uint64_t got, uint64_t want)
{
    fprintf(stderr,
            "WRONG: %s at step %" PRIu64 ", generation %" PRIu64
            ", rank %d of %d: %" PRIu64 " instead of %" PRIu64 "\n",
            what, model.step, hvd_generation(), hvd_rank(), hvd_size(), got,
            want);
    abort();
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a + b * 0x9e3779b97f4a7c15u + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

/* All parts of the state are of one step. */
static void check_state(void)
{
    uint64_t sum = model.step * (model.step - 1) / 2;

    if (model.sum != sum)
        wrong("sum", model.sum, sum);
    if (model.tail != mix(model.step, 1))
        wrong("tail", model.tail, mix(model.step, 1));
    if (model.weights[0] != mix(model.step, 2))
        wrong("weights", model.weights[0], mix(model.step, 2));
    if (model.object != model.step)
        wrong("object", model.object, model.step);
}

static void check_reset(void)
{
    unsigned want = hvd_generation() > 1 ? 1 : 0;

    if (model.n_resets != want)
        wrong("reset callbacks", model.n_resets, want);
    if (want && model.reset_generation != hvd_generation())
        wrong("generation reset to", model.reset_generation, hvd_generation());
    if (want && model.reset_step != model.step)
        wrong("step at the reset", model.reset_step, model.step);
    model.n_resets = 0;
}

static void set_parts(void)
{
    model.tail = mix(model.step, 1);
    model.weights[0] = mix(model.step, 2);
    model.object = model.step;
}

static void update(void)
{
    size_t first = model.step * STRIPE % model.n_weights;

    for (size_t i = 0; i < STRIPE && i < model.n_weights; i++) {
        size_t at = (first + i) % model.n_weights;

        model.weights[at] = mix(model.weights[at], model.step + i);
    }
    model.sum += model.step++;
    model.iterations++;
    set_parts();
}

static hvd_status_t small_allreduce(void)
{
    int64_t in[VECTOR], out[VECTOR];
    int64_t size = hvd_size(), step = (int64_t)model.step;
    int rank = hvd_rank(); /* a lock: not for each element */

    for (int i = 0; i < VECTOR; i++)
        in[i] = (step + i) * (rank + 1);
    HVD_TRY(hvd_allreduce(in, out, VECTOR, HVD_INT64, HVD_SUM));
    for (int i = 0; i < VECTOR; i++)
        if (out[i] != (step + i) * size * (size + 1) / 2)
            wrong("allreduce", (uint64_t)out[i],
                  (uint64_t)((step + i) * size * (size + 1) / 2));
    return HVD_OK;
}

static hvd_status_t large_allreduce(void)
{
    static float *buf; /* [n], never freed: the other thread looks at it */
    size_t n = (size_t)options.large_bytes / sizeof(float);
    hvd_status_t status;

    if (!buf)
        buf = malloc(n * sizeof(*buf));
    if (!buf)
        return HVD_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        buf[i] = 1;
    if (chosen() && hvd_generation() == 1)
        atomic_store(&seen.moving, buf);
    status = hvd_allreduce(buf, buf, n, HVD_FLOAT32, HVD_SUM);
    atomic_store(&seen.moving, NULL);
    if (status == HVD_OK && buf[n - 1] != (float)hvd_size())
        wrong("large allreduce", (uint64_t)buf[n - 1], (uint64_t)hvd_size());
    return status;
}

static void step_moment(enum moment m)
{
    if ((long)model.step == options.at)
        moment(m);
}

/* On a busy machine the other thread may not run in a whole call: then in the
 * next step's. All ranks say the same. */
static bool moves_much(void)
{
    return options.moment == COLLECTIVE_MOVE &&
           ((long)model.step == options.at ||
            ((long)model.step > options.at && hvd_generation() == 1));
}

static hvd_status_t exchange(void)
{
    bool at = (long)model.step == options.at;

    if (options.no_collective)
        return HVD_OK;
    if (at && options.moment == COLLECTIVE_WAIT)
        go_ahead(&seen.waiting);
    if (moves_much())
        HVD_TRY(large_allreduce());
    return small_allreduce();
}

static hvd_status_t boundary(hvd_state_t *state)
{
    hvd_status_t status;

    if (hvd_rank() == options.stale && (long)model.step == options.at + 1 &&
        hvd_generation() == 1) {
        await("lead"); /* this step is lost here, the others have it */
        return HVD_PEER_LOST;
    }
    atomic_store(&seen.committing_us, now_us());
    status = hvd_state_commit(state);
    atomic_store(&seen.committing_us, 0);
    if (options.careless && status == HVD_HOSTS_UPDATED)
        update(); /* what comes after the cut does not count */
    return status;
}

/* Dies first, so that there is a loss to recover from. */
static void lead(void)
{
    if (hvd_rank() != options.lead || hvd_generation() != 1 ||
        (long)model.step != options.at + (options.stale >= 0))
        return;
    sleep_us(50000); /* the others have come as far as they can */
    die("lead");
}

/* Before the last step: collectives and boundaries go on, the state does not
 * change. Rank 0 decides for all. */
static hvd_status_t stay(hvd_state_t *state)
{
    uint8_t over = 0;

    if (!options.until || (long)model.step != options.steps - 1)
        return HVD_OK;
    while (!over) {
        over = exists(options.until);
        HVD_TRY(hvd_broadcast(&over, 1, HVD_UINT8, 0));
        sleep_us(options.step_us);
        HVD_TRY(boundary(state));
    }
    return HVD_OK;
}

static hvd_status_t steps(hvd_state_t *state)
{
    while ((long)model.step < options.steps) {
        HVD_TRY(stay(state));
        lead();
        step_moment(COMPUTE);
        HVD_TRY(exchange());
        sleep_us(options.step_us);
        update();
        HVD_TRY(boundary(state));
    }
    return HVD_OK;
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    hvd_status_t status;

    check_state();
    check_reset();
    status = steps(state);
    if (options.careless && status == HVD_HOSTS_UPDATED)
        return HVD_OK;
    HVD_TRY(status);
    moment(LAST);
    if (options.moment == DONE) {
        go_ahead(&seen.done);
        if (!chosen())
            await("go"); /* the driver knows of the death */
    }
    return HVD_OK;
}

/* ---- callbacks ----------------------------------------------------------- */

static void check_thread(void)
{
    if (!pthread_equal(pthread_self(), trainer))
        wrong("a callback on the thread that trains", 0, 1);
}

static size_t object_size(void *arg)
{
    check_thread();
    return sizeof(model.object);
}

static hvd_status_t object_serialize(void *buf, size_t nbytes, void *arg)
{
    check_thread();
    memcpy(buf, &model.object, nbytes);
    step_moment(SERIALIZE);
    return HVD_OK;
}

static hvd_status_t object_deserialize(const void *buf, size_t nbytes,
                                       void *arg)
{
    check_thread();
    if (nbytes != sizeof(model.object))
        wrong("size of the object", nbytes, sizeof(model.object));
    memcpy(&model.object, buf, nbytes);
    moment(DESERIALIZE);
    return HVD_OK;
}

static hvd_status_t on_commit(void *arg)
{
    check_thread();
    step_moment(COMMIT);
    return options.commit_barrier ? hvd_barrier() : HVD_OK;
}

static hvd_status_t on_restore(void *arg)
{
    check_thread();
    check_state();
    moment(RESTORE);
    return HVD_OK;
}

static hvd_status_t on_sync(void *arg)
{
    check_thread();
    check_state();
    moment(ON_SYNC);
    return options.sync_barrier ? hvd_barrier() : HVD_OK;
}

static void on_reset(const hvd_reset_info_t *info, void *arg)
{
    static const char *const reasons[] = {"peer-lost", "hosts-updated",
                                          "joined"};

    check_thread();
    check_state();
    if (info->struct_size != sizeof(*info))
        wrong("struct_size", info->struct_size, sizeof(*info));
    printf("reset generation %" PRIu64 " reason %s size %d committed %d\n",
           info->generation, reasons[info->reason], info->size,
           info->committed_size);
    fflush(stdout);
    model.n_resets++;
    model.reset_generation = info->generation;
    model.reset_step = model.step;
    moment(RESET);
}

static hvd_status_t add_entries(hvd_state_t *state)
{
    static const hvd_state_object_ops_t ops = {
        .struct_size = sizeof(ops),
        .size = object_size,
        .serialize = object_serialize,
        .deserialize = object_deserialize};

    HVD_TRY(hvd_state_add(state, "step", &model.step, sizeof(model.step)));
    HVD_TRY(hvd_state_add(state, "sum", &model.sum, sizeof(model.sum)));
    HVD_TRY(hvd_state_add_object(state, "object", &ops, NULL));
    HVD_TRY(hvd_state_add(state, "weights", model.weights,
                          model.n_weights * sizeof(*model.weights)));
    HVD_TRY(hvd_state_add(state, "tail", &model.tail, sizeof(model.tail)));
    HVD_TRY(hvd_state_on_commit(state, on_commit, NULL));
    HVD_TRY(hvd_state_on_restore(state, on_restore, NULL));
    HVD_TRY(hvd_state_on_sync(state, on_sync, NULL));
    return hvd_state_on_reset(state, on_reset, NULL);
}

/* ---- main ---------------------------------------------------------------- */

static uint64_t digest(void)
{
    uint64_t d = mix(model.step, model.sum + model.tail + model.object);

    for (size_t i = 0; i < model.n_weights; i++)
        d = mix(d, model.weights[i]);
    return d;
}

static hvd_status_t join(void)
{
    hvd_status_t status;

    if (options.late_host && on_host(options.late_host))
        await("go");
    moment(INIT_BEFORE);
    atomic_store(&seen.initialising_us, now_us());
    status = hvd_init(NULL);
    if (options.moment == INIT)
        moment(INIT); /* it was quicker than the other thread */
    atomic_store(&seen.initialising_us, 0);
    moment(INIT_AFTER);
    return status;
}

/* A child that nobody ends: it may not use the library, and must neither hide
 * its parent's death nor outlive it. */
static void fork_child(void)
{
    if (fork() != 0)
        return;
    if (hvd_barrier() >= 0 || hvd_init(NULL) >= 0 || hvd_shutdown() >= 0)
        wrong("calls in a forked child", 0, 1);
    for (;;)
        pause();
}

static hvd_status_t run(void)
{
    hvd_state_t *state;
    hvd_status_t status, goodbye;

    HVD_TRY(join());
    if (hvd_init(NULL) != HVD_ERR_STATE)
        wrong("a second hvd_init", 0, 1);
    if (options.with_child)
        fork_child();
    HVD_TRY(hvd_state_create(&state));
    HVD_TRY_GOTO(add_entries(state), destroy);
    status = hvd_elastic_run(state, train, NULL);
    goodbye = hvd_shutdown();
    if (status == HVD_OK)
        status = goodbye;

destroy:
    hvd_state_destroy(state);
    return status;
}

static int finish(hvd_status_t status)
{
    if (status == HVD_OK) {
        printf("final digest %016" PRIx64 " steps %" PRIu64
               " iterations-here %" PRIu64 "\n",
               digest(), model.step, model.iterations);
    } else if (status == HVD_REMOVED) {
        puts("removed");
    } else {
        fprintf(stderr, "moment_worker: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
        return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (!options_parse(argc, argv)) {
        fputs("moment_worker --directory DIR [options]: see the source\n",
              stderr);
        return 2;
    }
    trainer = pthread_self();
    model.n_weights = (size_t)options.state_bytes / sizeof(uint64_t) + 1;
    model.weights = calloc(model.n_weights, sizeof(*model.weights));
    if (!model.weights || !start_watching())
        return finish(HVD_ERR_NOMEM);
    set_parts();
    /* the other thread may look at it until the end: never freed */
    return finish(run());
}
