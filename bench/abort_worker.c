/* bench/abort_worker.c - the job whose members bench/abort kills: one large
 * allreduce after the other, and a line for each that is cut off.
 *
 *     abort_worker NBYTES alloc|malloc KILLS SEED
 *
 * In each of the first KILLS generations one rank, by turns, dies by its own
 * hand at a random instant of an allreduce; the others print
 *
 *     abort kill GENERATION RANK NS               by the victim, just before
 *     abort lost GENERATION RANK BEGIN WORD RETURN RAN
 *
 * all CLOCK_MONOTONIC. BEGIN and RETURN are of the allreduce in this program;
 * WORD is when this process decided that the generation is lost: the library
 * writes to the eventfd of its communicator right behind the abort word, by a
 * function that this program puts in front of the C library's. 0: not seen.
 * RAN is for how long between the two the calling thread had a processor.
 *
 * Threads: the application's and, in a victim, the one that kills. Memory: two
 * buffers of NBYTES. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

enum { WARM_UP = 2, FDS_MAX = 1024, SPREAD = 3 };

struct run {
    float *src, *dst; /* [count] */
    size_t count;
    uint64_t n_kills;
    unsigned seed;
    uint64_t step; /* shared state */
};

struct killer {
    uint64_t generation, delay_ns;
    int rank;
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the abort word, seen from outside ----------------------------------- */

static atomic_bool own_eventfd[FDS_MAX]; /* made here, not handed by a peer */
static atomic_bool initialized;
static atomic_uint_least64_t word_ns; /* 0: none since the call began */
static atomic_uint_least64_t ran_ns;  /* by the caller until then */
static clockid_t caller_clock;        /* what its processor time is told by */

__attribute__((visibility("default"))) int eventfd(unsigned count, int flags)
{
    int fd = (int)syscall(SYS_eventfd2, count, flags);

    if (fd >= 0 && fd < FDS_MAX)
        atomic_store(&own_eventfd[fd], atomic_load(&initialized));
    return fd;
}

__attribute__((visibility("default"))) int close(int fd)
{
    if (fd >= 0 && fd < FDS_MAX)
        atomic_store(&own_eventfd[fd], false);
    return (int)syscall(SYS_close, fd);
}

/* Of those made behind hvd_init(NULL) this process itself writes only to the
 * one that wakes its communicator: doorbells are the peers'. */
__attribute__((visibility("default"))) int eventfd_write(int fd,
                                                         eventfd_t value)
{
    uint64_t none = 0;

    if (fd >= 0 && fd < FDS_MAX && atomic_load(&own_eventfd[fd]) &&
        atomic_compare_exchange_strong(&word_ns, &none,
                                       clock_ns(CLOCK_MONOTONIC)))
        atomic_store(&ran_ns, clock_ns(caller_clock));
    return write(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}

/* ---- death --------------------------------------------------------------- */

static void *kill_main(void *arg)
{
    const struct killer *k = arg;
    struct timespec t = {(time_t)(k->delay_ns / 1000000000u),
                         (long)(k->delay_ns % 1000000000u)};

    nanosleep(&t, NULL);
    printf("abort kill %" PRIu64 " %d %" PRIu64 "\n", k->generation, k->rank,
           clock_ns(CLOCK_MONOTONIC));
    fflush(stdout);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Some time in the next few operations. */
static bool start_killer(struct run *run, uint64_t operation_ns)
{
    static struct killer killer;
    double share = (double)rand_r(&run->seed) / RAND_MAX;
    pthread_t thread;

    killer = (struct killer){
        .generation = hvd_generation(),
        .delay_ns = (uint64_t)(share * SPREAD * (double)operation_ns),
        .rank = hvd_rank(),
    };
    return pthread_create(&thread, NULL, kill_main, &killer) == 0;
}

/* ---- training ------------------------------------------------------------ */

static hvd_status_t one_step(struct run *run, uint64_t *operation_ns_p)
{
    uint64_t begin_ns, return_ns;
    hvd_status_t status;

    atomic_store(&word_ns, 0);
    begin_ns = clock_ns(CLOCK_MONOTONIC);
    status = hvd_allreduce(run->src, run->dst, run->count, HVD_FLOAT32,
                           HVD_SUM);
    return_ns = clock_ns(CLOCK_MONOTONIC);
    *operation_ns_p = return_ns - begin_ns;
    if (status == HVD_PEER_LOST) {
        printf("abort lost %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %" PRIu64
               " %" PRIu64 "\n",
               hvd_generation(), hvd_rank(), begin_ns, atomic_load(&word_ns),
               return_ns, clock_ns(caller_clock) - atomic_load(&ran_ns));
        fflush(stdout);
    }
    return status;
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    struct run *run = arg;
    uint64_t generation = hvd_generation(), operation_ns = 0;
    bool last = generation > run->n_kills;
    bool victim = generation % (uint64_t)hvd_size() == (uint64_t)hvd_rank();

    for (int i = 0; !last || i < WARM_UP; i++) {
        HVD_TRY(one_step(run, &operation_ns));
        run->step++;
        if (i == 0)
            HVD_TRY(hvd_state_commit(state));
        if (i == WARM_UP && victim && !start_killer(run, operation_ns))
            return HVD_ERR_SYSTEM;
    }
    return HVD_OK;
}

/* ---- start --------------------------------------------------------------- */

static hvd_status_t allocate(bool shared, size_t nbytes, float **ptr_p)
{
    void *ptr = NULL;

    if (shared)
        ptr = hvd_alloc(nbytes);
    else
        ptr = aligned_alloc(4096, nbytes);
    if (ptr == NULL)
        return HVD_ERR_NOMEM;
    memset(ptr, 0, nbytes);
    *ptr_p = ptr;
    return HVD_OK;
}

static hvd_status_t start(struct run *run, char **argv, hvd_state_t *state)
{
    size_t nbytes = (size_t)strtoull(argv[1], NULL, 10) & ~(size_t)4095;
    bool shared = strcmp(argv[2], "alloc") == 0;

    if (pthread_getcpuclockid(pthread_self(), &caller_clock) != 0)
        return HVD_ERR_SYSTEM;
    run->count = nbytes / sizeof(float);
    run->n_kills = strtoull(argv[3], NULL, 10);
    run->seed = (unsigned)strtoul(argv[4], NULL, 10) ^ (unsigned)getpid();
    HVD_TRY(allocate(shared, nbytes, &run->src));
    HVD_TRY(allocate(shared, nbytes, &run->dst));
    return hvd_state_add(state, "step", &run->step, sizeof(run->step));
}

int main(int argc, char **argv)
{
    static struct run run;
    hvd_state_t *state;
    hvd_status_t status;

    if (argc != 5) {
        fprintf(stderr, "abort_worker is started by bench/abort\n");
        return 2;
    }
    if (hvd_state_create(&state) != HVD_OK || hvd_init(NULL) != HVD_OK)
        return 1;
    atomic_store(&initialized, true);
    status = start(&run, argv, state);
    if (status == HVD_OK)
        status = hvd_elastic_run(state, train, &run);
    if (status != HVD_OK)
        fprintf(stderr, "abort_worker: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
    hvd_state_destroy(state);
    return hvd_shutdown() == HVD_OK && status == HVD_OK ? 0 : 1;
}
