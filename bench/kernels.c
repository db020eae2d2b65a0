/* hvd-kernels - how fast elements of several buffers become one: GB/s, bytes
 * read and written, of each reduce kernel and of copy_memory() against memcpy.
 *
 * Each thread has a processor and buffers of its own and all start together; a
 * round is as many calls as move ROUND_BYTES, a figure is of the median round
 * by its slowest thread. Buffers are on huge pages where the system has them.
 *
 *   hvd-kernels [-t THREADS] [-d DTYPE] [-o OP] [-k KERNEL] [-s KILOBYTES] [-i]
 *
 * -i: the result goes into the first source. AVERAGE divides by 3. */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/clock.h"
#include "collectives/reduce/copy.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/reduce.h"

enum {
    ROUNDS = 7,
    ROUND_BYTES = 100 << 20,
    ALL = -1,
};

static const int sources[] = {2, 4};
enum { N_BUFS = 5 }; /* the result and its sources */

/* n_srcs 0: memcpy(); 1: copy_memory(). */
struct cell {
    struct reduce_shape shape;
    int n_srcs;
    size_t nbytes;
};

static struct {
    int n_threads, dtype, op, isa;
    bool in_place;
    size_t sizes[3];
    size_t n_sizes;
} options = {
    .n_threads = 1,
    .dtype = ALL,
    .op = ALL,
    .isa = ALL,
    .sizes = {16 << 10, 1 << 20, 100 << 20},
    .n_sizes = 3,
};

/* Written between two barriers by the main thread, read by all after them. */
static struct {
    struct cell cell;
    size_t n_calls; /* 0: end */
    pthread_barrier_t barrier;
    uint64_t *taken_us; /* [n_threads], each by its thread before the second */
} run;

static void *buffer(size_t nbytes)
{
    void *p = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        fprintf(stderr, "hvd-kernels: %zu bytes: %s\n", nbytes,
                strerror(errno));
        exit(1);
    }
    madvise(p, nbytes, MADV_HUGEPAGE);
    memset(p, 1, nbytes);
    return p;
}

static void call(const struct cell *cell, void *const *bufs)
{
    size_t elem = hvd_dtype_size(cell->shape.dtype);

    if (cell->n_srcs == 0)
        memcpy(bufs[0], bufs[1], cell->nbytes);
    else if (cell->n_srcs == 1)
        copy_memory(bufs[0], bufs[1], cell->nbytes, cell->shape.nontemporal);
    else
        reduce_many(&cell->shape, bufs[options.in_place ? 1 : 0],
                    (const void *const *)bufs + 1, cell->n_srcs,
                    cell->nbytes / elem);
}

/* Two threads on one processor would measure half of one. */
static void pin(size_t thread)
{
    cpu_set_t all, one;
    size_t n = 0;

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    thread %= (size_t)CPU_COUNT(&all);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && n++ == thread)
            CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static void *worker(void *arg)
{
    size_t thread = (size_t)(uintptr_t)arg;
    void *bufs[N_BUFS];
    uint64_t start_us;

    pin(thread);

    for (int i = 0; i < N_BUFS; i++)
        bufs[i] = buffer(options.sizes[options.n_sizes - 1]);
    for (;;) {
        pthread_barrier_wait(&run.barrier);
        if (run.n_calls == 0)
            return NULL;
        start_us = clock_now_us();
        for (size_t i = 0; i < run.n_calls; i++)
            call(&run.cell, bufs);
        run.taken_us[thread] = clock_now_us() - start_us;
        pthread_barrier_wait(&run.barrier);
    }
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double measure(const struct cell *cell)
{
    int n_bufs = cell->n_srcs == 0 ? 2 : cell->n_srcs + 1;
    double moved = (double)cell->nbytes * n_bufs, rates[ROUNDS];

    run.cell = *cell;
    run.n_calls = (size_t)(ROUND_BYTES / moved) + 1;
    moved *= (double)run.n_calls * options.n_threads;
    for (int round = -1; round < ROUNDS; round++) {
        uint64_t slowest_us = 1;

        pthread_barrier_wait(&run.barrier);
        pthread_barrier_wait(&run.barrier);
        for (int i = 0; i < options.n_threads; i++)
            if (run.taken_us[i] > slowest_us)
                slowest_us = run.taken_us[i];
        if (round >= 0) /* the first one warms */
            rates[round] = moved / (double)slowest_us / 1e3;
    }
    qsort(rates, ROUNDS, sizeof(rates[0]), by_value);
    return rates[ROUNDS / 2];
}

static void size_text(size_t nbytes, char *text)
{
    if (nbytes >= 1 << 20)
        sprintf(text, "%zuM", nbytes >> 20);
    else
        sprintf(text, "%zuK", nbytes >> 10);
}

/* A column for each size, number of sources and way to store. */
static void print_heads(void)
{
    printf("# GB/s read and written, %d thread%s%s; n: nontemporal\n%-26s",
           options.n_threads, options.n_threads == 1 ? "" : "s",
           options.in_place ? ", in place" : "", "#");
    for (size_t i = 0; i < options.n_sizes; i++)
        for (size_t j = 0; j < ARRAY_SIZE(sources); j++)
            for (int nontemporal = 0; nontemporal < 2; nontemporal++) {
                char text[32];

                size_text(options.sizes[i], text);
                sprintf(text + strlen(text), "/%d%s", sources[j],
                        nontemporal ? "n" : "");
                printf(" %8s", text);
            }
    printf("\n");
}

static void print_reduce(enum reduce_isa isa, int dtype, int op)
{
    struct cell cell = {
        .shape = {.dtype = (hvd_dtype_t)dtype, .op = (hvd_op_t)op}};

    reduce_isa_use(isa);
    cell.shape.divisor = op == HVD_AVERAGE ? 3 : 0;
    printf("%-8s %-8s %-8s", dtype_name((unsigned)dtype), op_name((unsigned)op),
           reduce_isa_name(isa));
    for (size_t i = 0; i < options.n_sizes; i++)
        for (size_t j = 0; j < ARRAY_SIZE(sources); j++)
            for (int nontemporal = 0; nontemporal < 2; nontemporal++) {
                cell.nbytes = options.sizes[i];
                cell.n_srcs = sources[j];
                cell.shape.nontemporal = nontemporal == 1;
                printf(" %8.1f", measure(&cell));
                fflush(stdout);
            }
    printf("\n");
}

static void print_copy(const char *name, int n_srcs)
{
    struct cell cell = {.n_srcs = n_srcs, .shape.nontemporal = true};

    printf("copy     %-17s", name);
    for (size_t i = 0; i < options.n_sizes; i++) {
        char text[32];

        cell.nbytes = options.sizes[i];
        size_text(cell.nbytes, text);
        printf(" %8s %8.1f", text, measure(&cell));
    }
    printf("\n");
}

static void measure_all(void)
{
    print_copy("memcpy", 0);
    for (int isa = 0; isa < REDUCE_ISA_COUNT; isa++)
        if (reduce_isa_supported((enum reduce_isa)isa) &&
            (options.isa == ALL || options.isa == isa)) {
            reduce_isa_use((enum reduce_isa)isa);
            print_copy(reduce_isa_name((enum reduce_isa)isa), 1);
        }
    print_heads();
    for (int dtype = DTYPE_FIRST; dtype < DTYPE_END; dtype++)
        for (int op = 0; op < OP_COUNT; op++)
            for (int isa = 0; isa < REDUCE_ISA_COUNT; isa++)
                if (reduce_isa_supported((enum reduce_isa)isa) &&
                    (options.isa == ALL || options.isa == isa) &&
                    (options.dtype == ALL || options.dtype == dtype) &&
                    (options.op == ALL || options.op == op))
                    print_reduce((enum reduce_isa)isa, dtype, op);
}

static int index_of(const char *name, const char *(*name_of)(unsigned), int end)
{
    for (int i = 0; i < end; i++)
        if (strcmp(name_of((unsigned)i), name) == 0)
            return i;
    fprintf(stderr, "hvd-kernels: %s is not known\n", name);
    exit(2);
}

static const char *isa_name(unsigned isa)
{
    return reduce_isa_name((enum reduce_isa)isa);
}

static void parse(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "t:d:o:k:s:i")) != -1) {
        switch (option) {
        case 't':
            options.n_threads = atoi(optarg);
            break;
        case 'd':
            options.dtype = index_of(optarg, dtype_name, DTYPE_END);
            break;
        case 'o':
            options.op = index_of(optarg, op_name, OP_COUNT);
            break;
        case 'k':
            options.isa = index_of(optarg, isa_name, REDUCE_ISA_COUNT);
            break;
        case 's':
            options.sizes[0] = (size_t)atol(optarg) << 10;
            options.n_sizes = 1;
            break;
        case 'i':
            options.in_place = true;
            break;
        default:
            fprintf(stderr, "usage: hvd-kernels [-t THREADS] [-d DTYPE] "
                            "[-o OP] [-k KERNEL] [-s KILOBYTES] [-i]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    pthread_t *threads;

    parse(argc, argv);
    if (options.n_threads < 1 || options.sizes[0] == 0)
        return 2;
    threads = calloc((size_t)options.n_threads, sizeof(*threads));
    run.taken_us = calloc((size_t)options.n_threads, sizeof(*run.taken_us));
    if (threads == NULL || run.taken_us == NULL)
        return 1;
    pthread_barrier_init(&run.barrier, NULL, (unsigned)options.n_threads + 1);
    for (int i = 0; i < options.n_threads; i++)
        if (pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i) !=
            0)
            return 1;
    measure_all();
    run.n_calls = 0;
    pthread_barrier_wait(&run.barrier);
    for (int i = 0; i < options.n_threads; i++)
        pthread_join(threads[i], NULL);
    free(run.taken_us);
    free(threads);
    return 0;
}
