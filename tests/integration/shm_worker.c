/* tests/integration/shm_worker.c - an elastic program that keeps its ranks at
 * work in shared memory: in each step collectives of all kinds, small and
 * large, on buffers from hvd_alloc and on others, each checked whole. Led like
 * trainer by the file DIR/epoch; prints its lines.
 *
 *   shm_worker [--epochs N] [--count N] DIR    N: int64 of a large allreduce
 *
 * SHM_WORKER_UNDUMPABLE in the environment: it makes itself that.
 * SHM_WORKER_CLOSES: it closes all descriptors but three, as daemons do.
 *
 * A wrong answer says WRONG and aborts.
 *
 * Threads: one. Memory: its buffers, once. */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <hvd/hvd.h>

enum {
    REDUCED_MAX = 1200, /* of counts that change */
    CLOSED_MAX = 1024
};

static const char *directory;
static long n_epochs = 3;
static size_t count = (size_t)1 << 20;

static struct {
    uint64_t epoch, step, rendezvous;
} model;

static int start_rank = -1;

/* [count] each */
static struct {
    int64_t *arena[2], *ordinary[2];
} buffers;

/* How many epochs may have ended; 0 while nobody has said so. */
static int64_t allowed(void)
{
    char path[512];
    long n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/epoch", directory);
    f = fopen(path, "re");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%ld", &n) != 1)
        n = 0;
    fclose(f);
    return n;
}

static int64_t element(int rank, size_t i)
{
    return (int64_t)((model.step * 31 + i * 7 + 1) % 100003) * (rank + 1);
}

static void fill(int64_t *buf, size_t n)
{
    int rank = hvd_rank(); /* a lock: not for each element */

    for (size_t i = 0; i < n; i++)
        buf[i] = element(rank, i);
}

static void must_be(const char *what, int64_t got, int64_t want, size_t i)
{
    if (got == want)
        return;
    fprintf(stderr,
            "WRONG: %s [%zu] at step %" PRIu64 ", rank %d: %" PRId64
            ", not %" PRId64 "\n",
            what, i, model.step, hvd_rank(), got, want);
    abort();
}

static int64_t sum(int64_t size, size_t i)
{
    return element(0, i) * size * (size + 1) / 2;
}

static hvd_status_t reduce(int64_t *send, int64_t *recv, size_t n)
{
    int size = hvd_size();

    fill(send, n);
    HVD_TRY(hvd_allreduce(send, recv, n, HVD_INT64, HVD_SUM));
    for (size_t i = 0; i < n; i++)
        must_be("allreduce", recv[i], sum(size, i), i);
    return HVD_OK;
}

/* Each rank has a share of the buffers in these; what all have together. */
static size_t share(size_t *whole_p)
{
    size_t size = (size_t)hvd_size();

    *whole_p = count / size * size;
    return count / size;
}

static hvd_status_t gather(int64_t *send, int64_t *recv)
{
    size_t whole, n = share(&whole);

    fill(send, n);
    HVD_TRY(hvd_allgather(send, recv, n, HVD_INT64));
    for (size_t i = 0; i < whole; i++)
        must_be("allgather", recv[i], element((int)(i / n), i % n), i);
    return HVD_OK;
}

static hvd_status_t scatter(int64_t *send, int64_t *recv)
{
    size_t whole, n = share(&whole), first = n * (size_t)hvd_rank();
    int size = hvd_size();

    fill(send, whole);
    HVD_TRY(hvd_reduce_scatter(send, recv, n, HVD_INT64, HVD_SUM));
    for (size_t i = 0; i < n; i++)
        must_be("reduce-scatter", recv[i], sum(size, first + i), i);
    return HVD_OK;
}

static hvd_status_t exchange(int64_t *send, int64_t *recv)
{
    size_t whole, n = share(&whole), mine = n * (size_t)hvd_rank();

    fill(send, whole);
    HVD_TRY(hvd_alltoall(send, recv, n, HVD_INT64));
    for (size_t i = 0; i < whole; i++)
        must_be("alltoall", recv[i], element((int)(i / n), mine + i % n), i);
    return HVD_OK;
}

static hvd_status_t spread(int64_t *buf)
{
    int root = (int)(model.step % (uint64_t)hvd_size());

    fill(buf, count);
    HVD_TRY(hvd_broadcast(buf, count, HVD_INT64, root));
    for (size_t i = 0; i < count; i++)
        must_be("broadcast", buf[i], element(root, i), i);
    return HVD_OK;
}

/* Every kind in turn; large allreduces in each step. */
static hvd_status_t collectives(void)
{
    int64_t **a = buffers.arena, **b = buffers.ordinary;

    HVD_TRY(reduce(a[0], a[0], count));
    HVD_TRY(reduce(b[0], b[0], count));
    HVD_TRY(reduce(a[0], a[1], 1 + model.step % REDUCED_MAX));
    HVD_TRY(reduce(hvd_rank() % 2 == 0 ? a[0] : b[0], b[1], 900));
    switch (model.step % 4) {
    case 0:
        return gather(a[0], b[0]);
    case 1:
        return scatter(b[0], a[0]);
    case 2:
        return exchange(a[0], a[1]);
    default:
        return spread(model.step % 8 == 3 ? a[0] : b[0]);
    }
}

static hvd_status_t step(bool *end_p)
{
    int64_t n = hvd_rank() == 0 ? allowed() : 0;

    HVD_TRY(hvd_broadcast(&n, 1, HVD_INT64, 0));
    *end_p = n > (int64_t)model.epoch;
    HVD_TRY(collectives());
    model.step++;
    return HVD_OK;
}

static void tell_epoch(void)
{
    const char *host = getenv("HVD_HOST");

    if (hvd_rank() != 0)
        return;
    printf("epoch %" PRIu64 " size %d start_rank %d host %s slot %d rendezvous "
           "%" PRIu64 "\n",
           model.epoch - 1, hvd_size(), start_rank, host ? host : "-",
           hvd_slot(), model.rendezvous);
    fflush(stdout);
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    if (start_rank < 0)
        start_rank = hvd_rank();
    model.rendezvous++;
    if (getenv("SHM_WORKER_CLOSES") != NULL)
        for (int fd = 3; fd < CLOSED_MAX; fd++)
            close(fd);
    while ((long)model.epoch < n_epochs) {
        hvd_status_t status;
        bool end;

        HVD_TRY(step(&end));
        model.epoch += end;
        status = hvd_state_commit(state);
        if (end && (status == HVD_OK || status == HVD_HOSTS_UPDATED))
            tell_epoch();
        HVD_TRY(status);
    }
    return HVD_OK;
}

static hvd_status_t allocate(void)
{
    size_t nbytes = count * sizeof(int64_t);

    for (int i = 0; i < 2; i++) {
        void *ptr;

        ptr = hvd_alloc(nbytes);
        if (!ptr)
            return HVD_ERR_NOMEM;
        buffers.arena[i] = ptr;
        buffers.ordinary[i] = malloc(nbytes);
        if (buffers.ordinary[i] == NULL)
            return HVD_ERR_NOMEM;
    }
    return HVD_OK;
}

static void release(void)
{
    for (int i = 0; i < 2; i++) {
        hvd_free(buffers.arena[i]);
        free(buffers.ordinary[i]);
    }
}

static hvd_status_t run(void)
{
    hvd_state_t *state;
    hvd_status_t status;

    HVD_TRY(hvd_state_create(&state));
    HVD_TRY_GOTO(allocate(), destroy);
    HVD_TRY_GOTO(hvd_state_add(state, "model", &model, sizeof(model)), destroy);
    status = hvd_elastic_run(state, train, NULL);

destroy:
    release();
    hvd_state_destroy(state);
    return status;
}

static const struct option longs[] = {{"epochs", required_argument, NULL, 'e'},
                                      {"count", required_argument, NULL, 'c'},
                                      {NULL, 0, NULL, 0}};

static bool parse(int argc, char **argv)
{
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (c == 'e')
            n_epochs = strtol(optarg, NULL, 10);
        else if (c == 'c')
            count = strtoul(optarg, NULL, 10);
        else
            return false;
    }
    directory = argv[optind];
    return optind + 1 == argc && count >= REDUCED_MAX;
}

int main(int argc, char **argv)
{
    hvd_status_t status;

    if (!parse(argc, argv)) {
        fputs("shm_worker [--epochs N] [--count N] DIR\n", stderr);
        return 2;
    }
    if (getenv("SHM_WORKER_UNDUMPABLE") != NULL)
        prctl(PR_SET_DUMPABLE, 0); /* an exec would undo it */
    status = hvd_init(NULL);
    if (status == HVD_OK)
        status = run();
    if (status != HVD_OK) {
        fprintf(stderr, "shm_worker: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
        return 1;
    }
    printf("final digest %016" PRIx64 " steps %" PRIu64 "\n",
           model.step * 0x9e3779b97f4a7c15u + model.epoch, model.step);
    return hvd_shutdown() == HVD_OK && fflush(stdout) == 0 ? 0 : 1;
}
