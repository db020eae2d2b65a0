/* tests/gpu/device_named.h - calls by name on buffers of devices: which, of
 * what values, and what has to come of them: whole numbers that every order of
 * adding gives. Included by one file of a program. */
#ifndef TESTS_GPU_DEVICE_NAMED_H
#define TESTS_GPU_DEVICE_NAMED_H

#include "base/array.h"
#include "collectives/by_name.h"
#include "collectives/on_device.h"
#include "device_rank.h"

enum { NAMES = 24, STEPS = 6, COUNT_MAX = 5000 };

/* --- buffers --- */

static float *there[NAMES]; /* [size * COUNT_MAX] each, of the device */
static float *here;         /* [size * COUNT_MAX] */

static void allocate_buffers(void)
{
    here = malloc((size_t)size * COUNT_MAX * sizeof(*here));
    for (int i = 0; i < NAMES; i++)
        there[i] = allocate((size_t)size * COUNT_MAX * sizeof(float));
}

static void begin(void)
{
    join();
    allocate_buffers();
}

static void end(void)
{
    for (int i = 0; i < NAMES; i++)
        MUST(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)there[i]) ==
             CUDA_SUCCESS);
    free(here);
    part();
}

static size_t count_of(int i)
{
    return i % 5 == 0 ? COUNT_MAX : (size_t)(1 + i * 37 % 300);
}

/* What rank r has in element k of call i. */
static float value(int r, int i, int step, size_t k)
{
    return (float)((r + 1) * (i + step + 1) + (int)(k % 7));
}

static void put(int i, int step, size_t count)
{
    for (size_t k = 0; k < count; k++)
        here[k] = value(me, i, step, k);
    copy(there[i], here, count * sizeof(float));
}

/* --- calls, and what comes of them --- */

static enum collective_kind kind_of_call(int i)
{
    static const enum collective_kind kinds[] = {
        COLLECTIVE_ALLREDUCE, COLLECTIVE_ALLREDUCE,      COLLECTIVE_ALLREDUCE,
        COLLECTIVE_BROADCAST, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALLGATHER,
        COLLECTIVE_ALLTOALL,  COLLECTIVE_ALLREDUCE};

    return kinds[i % 8];
}

static hvd_op_t op_of_call(int i)
{
    return i % 8 == 1 ? HVD_MAX : i % 8 == 2 ? HVD_AVERAGE : HVD_SUM;
}

static struct collective_args args_of(int i, const char *name)
{
    return (struct collective_args){.kind = kind_of_call(i),
                                    .sendbuf = there[i],
                                    .recvbuf = there[i],
                                    .count = count_of(i),
                                    .dtype = HVD_FLOAT32,
                                    .op = op_of_call(i),
                                    .memory = HVD_MEMORY_DEVICE,
                                    .name = name};
}

/* In and out of place: results of blocks lie behind what is sent. */
static struct collective_args place_args(int i, const char *name)
{
    struct collective_args args = args_of(i, name);

    if (args.kind == COLLECTIVE_ALLGATHER)
        args.sendbuf = there[i] + (size_t)me * args.count;
    else if (args.kind == COLLECTIVE_REDUCE_SCATTER)
        args.recvbuf = there[i] + (size_t)me * args.count;
    else if (args.kind == COLLECTIVE_ALLTOALL)
        args.count = count_of(i) % 90 + 1;
    if (args.kind == COLLECTIVE_ALLTOALL)
        args.recvbuf = there[i] + (size_t)size * args.count;
    return args;
}

static size_t sent_of(const struct collective_args *args)
{
    bool blocks = args->kind == COLLECTIVE_REDUCE_SCATTER ||
                  args->kind == COLLECTIVE_ALLTOALL;

    return blocks ? (size_t)size * args->count : args->count;
}

static void fill(int i, int step, const struct collective_args *args)
{
    const void *at = args->kind == COLLECTIVE_BROADCAST ? args->recvbuf
                                                        : args->sendbuf;
    size_t n = sent_of(args);

    for (size_t k = 0; k < n; k++)
        here[k] = value(me, i, step, k);
    copy((void *)(uintptr_t)at, here, n * sizeof(float));
}

static float sum_of(int i, int step, size_t k)
{
    float sum = 0;

    for (int r = 0; r < size; r++)
        sum += value(r, i, step, k);
    return sum;
}

static float expected(int i, int step, const struct collective_args *args,
                      size_t k)
{
    switch (args->kind) {
    case COLLECTIVE_ALLREDUCE:
        if (args->op == HVD_MAX)
            return value(size - 1, i, step, k);
        return args->op == HVD_AVERAGE ? sum_of(i, step, k) / (float)size
                                       : sum_of(i, step, k);
    case COLLECTIVE_BROADCAST:
        return value(0, i, step, k);
    case COLLECTIVE_REDUCE_SCATTER:
        return sum_of(i, step, (size_t)me * args->count + k);
    case COLLECTIVE_ALLGATHER:
        return value((int)(k / args->count), i, step, k % args->count);
    default:
        return value((int)(k / args->count), i, step,
                     (size_t)me * args->count + k % args->count);
    }
}

static bool is_near(float a, float b)
{
    float gap = a > b ? a - b : b - a;

    return gap <= 1e-5F * (b > 0 ? b : -b);
}

static void look(int i, int step, const struct collective_args *args)
{
    bool blocks = args->kind == COLLECTIVE_ALLGATHER ||
                  args->kind == COLLECTIVE_ALLTOALL;
    size_t n = blocks ? (size_t)size * args->count : args->count;

    copy(here, args->recvbuf, n * sizeof(float));
    for (size_t k = 0; k < n; k++) {
        if (is_near(here[k], expected(i, step, args, k)))
            continue;
        fprintf(stderr, "rank %d: call %d, step %d: element %zu is %g\n", me, i,
                step, k, (double)here[k]);
        _exit(1);
    }
}

/* --- in any order, and groups --- */

static void shuffle(int *order, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int k = rand_r(&seed) % (i + 1), kept = order[i];

        order[i] = order[k];
        order[k] = kept;
    }
}

static const char *name_of(int i)
{
    static char names[NAMES][32];

    snprintf(names[i], sizeof(names[i]), "layer.%d.weight", i);
    return names[i];
}

static void post(struct comm *to, int i, int step, struct hvd_request **r)
{
    struct collective_args args = place_args(i, name_of(i));

    fill(i, step, &args);
    MUST(by_name_post(to, &args, NULL, r) == HVD_OK);
}

static inline void run_step(struct comm *to, int step)
{
    struct hvd_request *requests[NAMES];
    int order[NAMES];

    shuffle(order, NAMES, (unsigned)(1000 * me + step));
    for (int i = 0; i < NAMES; i++)
        post(to, order[i], step, &requests[order[i]]);
    for (int i = NAMES - 1; i >= 0; i--)
        MUST(request_wait(requests[i]) == HVD_OK);
    for (int i = 0; i < NAMES; i++) {
        struct collective_args args = place_args(i, NULL);

        look(i, step, &args);
    }
}

static inline void post_group(int first, int n, int step, hvd_op_t op,
                              struct hvd_request **r)
{
    const void *sends[NAMES];
    void *recvs[NAMES];
    size_t counts[NAMES];
    struct comm_group group = {(size_t)n, sends, recvs, counts};
    struct collective_args args = args_of(0, name_of(first));

    for (int i = 0; i < n; i++) {
        sends[i] = recvs[i] = there[first + i];
        counts[i] = count_of(first + i);
        put(first + i, step, counts[i]);
    }
    args.op = op;
    args.scaled = true;
    args.prescale = 2;
    args.postscale = 3;
    MUST(by_name_post(comm, &args, &group, r) == HVD_OK);
}

/* [n] ranks have something: a sum, or their mean, six times. */
static inline void look_at_group(int first, int n, int step, hvd_op_t op,
                                 int n_ranks)
{
    for (int i = first; i < first + n; i++) {
        copy(here, there[i], count_of(i) * sizeof(float));
        for (size_t k = 0; k < count_of(i); k++) {
            float sum = 0;

            for (int r = 0; r < n_ranks; r++)
                sum += 6 * value(r, i, step, k);
            MUST(is_near(here[k],
                         op == HVD_AVERAGE ? sum / (float)n_ranks : sum));
        }
    }
}

/* --- worlds --- */

static const char *const sound[RANKS] = {"", "", ""};
static const char *const slow[RANKS] = {"late_us=1000 enqueue_us=2000",
                                        "revoke=0", "late_us=0 enqueue_us=0"};
static const char *const staged[RANKS] = {"", "uuid=0", ""};
static const char *const *const worlds[] = {sound, slow, staged};

#endif
