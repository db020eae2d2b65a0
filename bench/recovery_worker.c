/* bench/recovery_worker.c - the job that bench/recovery disturbs: a short step,
 * an allreduce, a commit, and a stamp of each in a shared file.
 *
 *     recovery_worker STAMPS STATE_BYTES GRADIENT_BYTES STEP_US COMMIT_EVERY
 *                     [device]
 *
 * RECOVERY_MEMORY in the environment: bytes that each worker holds besides, in
 * pages of 4 KB as malloc(3) gives them, all of them touched: what the kernel
 * has to free when it dies.
 *
 * device (bench/device_recovery): the allreduce is of a buffer on a GPU, where
 * the gradient is copied to and from; and in each generation, once it is
 * settled, a line "device GENERATION RANK FREE USED": bytes of the device that
 * are free, and of the host that are allocated.
 *
 * "Computes" by sleeping, as a rank does whose work is on a device: the
 * processors are free for the runtime. Checks every sum and aborts on a wrong
 * one. Not an example of good style for users: examples/charlm is.
 *
 * Threads: one. Memory: state and gradient, once, from hvd_alloc. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "gpu.h"
#include "stamps.h"

/* NCCL's threads look each half second whether they are to end. */
enum { SETTLE_MS = 1200 };

struct run {
    struct stamps *stamps;
    struct stamps_ring *ring;
    float *gradient; /* [n_gradient] */
    float *there;    /* likewise, on the device; NULL: not there */
    size_t n_gradient;
    uint64_t step_us, commit_every;
    uint64_t step; /* shared state; so are the state bytes */
};

static void stamp(struct run *run, enum stamp_kind kind)
{
    uint64_t n = atomic_load_explicit(&run->ring->n, memory_order_relaxed);
    struct stamp *s = &run->ring->items[n % STAMPS_RECORDS];
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    s->kind = (uint32_t)kind;
    s->size = (uint32_t)hvd_size();
    s->generation = hvd_generation();
    s->step = run->step;
    s->ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    atomic_store_explicit(&run->ring->n, n + 1, memory_order_release);
}

/* ---- training ------------------------------------------------------------ */

static void sleep_us(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000),
                         .tv_nsec = (long)(us % 1000000) * 1000};

    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}

/* The victim: the others are in their allreduce and wait for this rank. */
static void stall_if_told(struct run *run)
{
    uint64_t self = (uint64_t)getpid();

    if (atomic_load(&run->stamps->stall_pid) != self)
        return;
    stamp(run, STAMP_STALL);
    while (atomic_load(&run->stamps->stall_pid) == self)
        sleep_us(10000);
}

static void check_sum(const struct run *run)
{
    float want = (float)(hvd_size() * (hvd_size() + 1) / 2);

    for (size_t i = 0; i < run->n_gradient; i += 1 + run->n_gradient / 16) {
        if (run->gradient[i] == want)
            continue;
        fprintf(stderr,
                "WRONG: element %zu of step %" PRIu64 " is %g, not %g\n", i,
                run->step, (double)run->gradient[i], (double)want);
        abort();
    }
}

static hvd_status_t one_step(struct run *run)
{
    size_t nbytes = run->n_gradient * sizeof(float);
    float *buffer = run->there ? run->there : run->gradient;
    float own = (float)(hvd_rank() + 1);
    hvd_status_t status;

    for (size_t i = 0; i < run->n_gradient; i++)
        run->gradient[i] = own;
    if (run->there)
        gpu_copy(run->there, run->gradient, nbytes);
    sleep_us(run->step_us);
    stall_if_told(run);
    stamp(run, STAMP_BEGIN);
    status = hvd_allreduce(buffer, buffer, run->n_gradient, HVD_FLOAT32,
                           HVD_SUM);
    stamp(run, status == HVD_OK ? STAMP_STEP : STAMP_LOST);
    HVD_TRY(status);
    if (run->there)
        gpu_copy(run->gradient, run->there, nbytes);
    check_sum(run);
    run->step++;
    return HVD_OK;
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Once, when NCCL has ended the last communicator's threads. */
static void tell_device(const struct run *run, uint64_t *due_ms_p)
{
    struct mallinfo2 heap;

    if (!run->there || now_ms() < *due_ms_p)
        return;
    *due_ms_p = UINT64_MAX;
    heap = mallinfo2();
    printf("device %" PRIu64 " %d %zu %zu\n", hvd_generation(), hvd_rank(),
           gpu_free_nbytes(), heap.uordblks + heap.hblkhd);
    fflush(stdout);
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    struct run *run = arg;
    uint64_t settled_ms = now_ms() + SETTLE_MS;

    stamp(run, STAMP_ENTER);
    /* the first step commits whatever the rhythm: no newcomer may interrupt a
     * generation that has not (M7) */
    for (bool first = true; run->step < atomic_load(&run->stamps->stop_step);
         first = false) {
        hvd_status_t status = one_step(run);

        if (status == HVD_OK)
            tell_device(run, &settled_ms);
        if (status == HVD_OK)
            status = first || run->step % run->commit_every == 0
                         ? hvd_state_commit(state)
                         : hvd_state_check_host_updates(state);
        if (status == HVD_HOSTS_UPDATED)
            stamp(run, STAMP_LEFT);
        HVD_TRY(status);
    }
    return HVD_OK;
}

/* ---- start --------------------------------------------------------------- */

static hvd_status_t open_stamps(const char *path, struct run *run)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t nbytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    struct stamps_ring *rings;
    uint32_t index;
    void *mapped = MAP_FAILED;

    if (nbytes > STAMPS_HEAD_NBYTES)
        mapped = mmap(NULL, (size_t)nbytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      fd, 0);
    if (fd >= 0)
        close(fd);
    if (mapped == MAP_FAILED) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return HVD_ERR_SYSTEM;
    }
    run->stamps = mapped;
    rings = (void *)((char *)mapped + STAMPS_HEAD_NBYTES);
    index = atomic_fetch_add(&run->stamps->n_rings, 1);
    if (run->stamps->magic != STAMPS_MAGIC ||
        index >= run->stamps->n_rings_max) {
        fprintf(stderr, "%s: no ring is left, or no file of stamps\n", path);
        return HVD_ERR_STATE;
    }
    run->ring = &rings[index];
    run->ring->pid = (uint64_t)getpid();
    return HVD_OK;
}

static hvd_status_t allocate(size_t nbytes, void **ptr_p)
{
    *ptr_p = hvd_alloc(nbytes);
    if (!*ptr_p)
        return HVD_ERR_NOMEM;
    memset(*ptr_p, 1, nbytes);
    return HVD_OK;
}

static hvd_status_t hold_memory(void)
{
    const char *text = getenv("RECOVERY_MEMORY");
    size_t nbytes = text ? strtoull(text, NULL, 10) : 0;
    void *bytes;

    if (nbytes == 0)
        return HVD_OK;
    bytes = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) {
        fprintf(stderr, "recovery_worker: no memory: %s\n", strerror(errno));
        return HVD_ERR_NOMEM;
    }
    madvise(bytes, nbytes, MADV_NOHUGEPAGE);
    memset(bytes, 1, nbytes);
    return HVD_OK;
}

static hvd_status_t start(struct run *run, char **argv, hvd_state_t *state)
{
    size_t state_nbytes = strtoull(argv[2], NULL, 10);
    size_t gradient_nbytes = strtoull(argv[3], NULL, 10);
    void *bytes = NULL, *gradient = NULL;

    run->step_us = strtoull(argv[4], NULL, 10);
    run->commit_every = strtoull(argv[5], NULL, 10);
    run->n_gradient = gradient_nbytes / sizeof(float);
    if (run->commit_every == 0 || run->n_gradient == 0 || state_nbytes == 0) {
        fprintf(stderr, "recovery_worker: sizes and rhythms are above 0\n");
        return HVD_ERR_INVALID;
    }
    HVD_TRY(open_stamps(argv[1], run));
    HVD_TRY(hold_memory());
    HVD_TRY(allocate(state_nbytes, &bytes));
    HVD_TRY(allocate(gradient_nbytes, &gradient));
    run->gradient = gradient;
    if (argv[6]) {
        gpu_open();
        run->there = gpu_alloc(run->n_gradient * sizeof(float));
    }
    HVD_TRY(hvd_state_add(state, "step", &run->step, sizeof(run->step)));
    return hvd_state_add(state, "bytes", bytes, state_nbytes);
}

int main(int argc, char **argv)
{
    static struct run run;
    hvd_state_t *state;
    hvd_status_t status;

    if (argc != 6 && !(argc == 7 && strcmp(argv[6], "device") == 0)) {
        fprintf(stderr, "recovery_worker is started by bench/recovery\n");
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1000ul); /* a step takes what it says */
    if (hvd_state_create(&state) != HVD_OK || hvd_init(NULL) != HVD_OK)
        return 1;
    status = start(&run, argv, state);
    if (status == HVD_OK)
        status = hvd_elastic_run(state, train, &run);
    if (status != HVD_OK && status != HVD_REMOVED)
        fprintf(stderr, "recovery_worker: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
    hvd_state_destroy(state);
    if (hvd_shutdown() != HVD_OK)
        return 1;
    return status == HVD_OK || status == HVD_REMOVED ? 0 : 1;
}
