/* bench/peers/mpi.c - the collectives of any MPI as a contestant; see peer.h.
 *
 * OpenMPI's coll/tuned has several algorithms for each collective and a table
 * that was made on other machines. So each algorithm is a way, besides what the
 * table says. They come and go in one process: coll/tuned reads the control
 * variable that forces one when a communicator is made, hence a communicator
 * for each. That takes --mca coll_tuned_use_dynamic_rules 1; without it, and
 * with another MPI, there is the library's own choice and nothing else.
 *
 * A reduce_scatter has one more kind of way: an allreduce of the whole operand,
 * of which each rank keeps its block. Where that is faster than the library's
 * reduce_scatter, who knows the library will call it. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/mpi_world.h"
#include "bench/peers/peer.h"

enum { WAYS_MAX = 48, NAME_SIZE = 64, MEMORIES_MAX = 4 };
enum { PAGE = 4096, SEGMENT = 64 << 10, SEGMENTED_MIN = 4 * SEGMENT };

struct way {
    char name[NAME_SIZE];
    enum case_kind kind; /* of what is called */
    int algorithm;       /* of coll/tuned; 0: its own choice */
    int segment;         /* bytes; 0: not told */
    MPI_Comm comm;       /* MPI_COMM_NULL: not made yet */
};

static struct way ways[WAYS_MAX];
static int n_ways; /* 0: not listed yet. Of one collective: a process measures
                      no other */

static void *memories[MEMORIES_MAX];
static int n_memories;

/* Of the last peer_prepare. */
static struct bench_case now;
static const struct way *now_way;
static void *now_send, *now_recv;
static float *whole; /* a reduce_scatter's, by allreduce */
static size_t whole_nbytes;

/* ---- control variables --------------------------------------------------- */

static const char *name_of(enum case_kind kind)
{
    switch (kind) {
    case CASE_BROADCAST:
        return "bcast";
    case CASE_REDUCE_SCATTER:
        return "reduce_scatter_block";
    default:
        return case_name(kind);
    }
}

static bool variable_open(const char *name, MPI_T_cvar_handle *handle_p)
{
    int index, count;

    return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
           MPI_T_cvar_handle_alloc(index, NULL, handle_p, &count) ==
               MPI_SUCCESS;
}

static int variable_read(const char *name)
{
    MPI_T_cvar_handle handle;
    int value = 0; /* a truth value fills one byte */

    if (!variable_open(name, &handle))
        return 0;
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
    return value;
}

static void tuned_set(enum case_kind kind, const char *what, int value)
{
    MPI_T_cvar_handle handle;
    char name[NAME_SIZE * 2];

    snprintf(name, sizeof(name), "coll_tuned_%s_%s", name_of(kind), what);
    if (!variable_open(name, &handle) ||
        MPI_T_cvar_write(handle, &value) != MPI_SUCCESS) {
        fprintf(stderr, "peer: %s cannot be set\n", name);
        exit(1);
    }
    MPI_T_cvar_handle_free(&handle);
}

static MPI_T_enum algorithms_of(enum case_kind kind)
{
    char name[NAME_SIZE * 2];
    MPI_T_enum values = MPI_T_ENUM_NULL;
    int index, verbosity, binding, scope, none = 0;
    MPI_Datatype type;

    snprintf(name, sizeof(name), "coll_tuned_%s_algorithm", name_of(kind));
    if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS)
        MPI_T_cvar_get_info(index, NULL, &none, &verbosity, &type, &values,
                            NULL, &none, &binding, &scope);
    return values;
}

/* ---- ways ---------------------------------------------------------------- */

static void add_way(enum case_kind kind, const char *prefix, const char *name,
                    int algorithm, int segment)
{
    struct way *way = &ways[n_ways];

    if (n_ways == WAYS_MAX)
        return;
    n_ways++;
    *way = (struct way){.kind = kind,
                        .algorithm = algorithm,
                        .segment = segment,
                        .comm = algorithm == 0 ? MPI_COMM_WORLD
                                               : MPI_COMM_NULL};
    snprintf(way->name, sizeof(way->name), "%s%s%s", prefix, name,
             segment > 0 ? "@64K" : "");
}

/* Those that can be told to cut what they send, so that it flows. */
static bool has_segments(const char *name)
{
    static const char *const names[] = {
        "chain",    "pipeline", "split_binary_tree", "binary_tree",
        "binomial", "knomial",  "segmented_ring",    "nonoverlapping"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void add_algorithms(enum case_kind kind, const char *prefix)
{
    MPI_T_enum values = algorithms_of(kind);
    int n = 0, length = 0;

    if (values == MPI_T_ENUM_NULL ||
        variable_read("coll_tuned_use_dynamic_rules") == 0)
        return;
    MPI_T_enum_get_info(values, &n, NULL, &length);
    for (int i = 0; i < n; i++) {
        char name[NAME_SIZE / 2];
        int value;

        length = sizeof(name);
        MPI_T_enum_get_item(values, i, &value, name, &length);
        if (value == 0)
            continue;
        add_way(kind, prefix, name, value, 0);
        if (has_segments(name))
            add_way(kind, prefix, name, value, SEGMENT);
    }
}

int peer_ways(enum case_kind kind)
{
    int provided;

    if (n_ways > 0)
        return n_ways;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    add_way(kind, "", "own", 0, 0);
    add_algorithms(kind, "");
    if (kind == CASE_REDUCE_SCATTER) {
        add_way(CASE_ALLREDUCE, "allreduce-", "own", 0, 0);
        add_algorithms(CASE_ALLREDUCE, "allreduce-");
    }
    return n_ways;
}

const char *peer_way_name(enum case_kind kind, int way)
{
    return ways[way].name;
}

bool peer_way_suits(const struct bench_case *c, int way)
{
    if (ways[way].segment > 0 && case_nbytes(c) < SEGMENTED_MIN)
        return false;
    return c->size == 2 || strstr(ways[way].name, "two_proc") == NULL;
}

static void make_comm(struct way *way)
{
    tuned_set(way->kind, "algorithm", way->algorithm);
    if (way->segment > 0)
        tuned_set(way->kind, "algorithm_segmentsize", way->segment);
    MPI_Comm_dup(MPI_COMM_WORLD, &way->comm);
    tuned_set(way->kind, "algorithm", 0);
    if (way->segment > 0)
        tuned_set(way->kind, "algorithm_segmentsize", 0);
}

/* ---- memory -------------------------------------------------------------- */

void *peer_allocate(size_t nbytes)
{
    char *memory;

    if (n_memories == MEMORIES_MAX ||
        MPI_Alloc_mem((MPI_Aint)(nbytes + PAGE), MPI_INFO_NULL, &memory) !=
            MPI_SUCCESS)
        return NULL;
    memories[n_memories++] = memory;
    return memory + (PAGE - (uintptr_t)memory % PAGE) % PAGE;
}

void peer_release(void)
{
    while (n_memories > 0)
        MPI_Free_mem(memories[--n_memories]);
    free(whole);
}

static void grow_whole(size_t nbytes)
{
    if (nbytes <= whole_nbytes)
        return;
    free(whole);
    whole = aligned_alloc(PAGE, (nbytes + PAGE - 1) / PAGE * PAGE);
    if (!whole) {
        fprintf(stderr, "peer: no memory for %zu bytes\n", nbytes);
        exit(1);
    }
    memset(whole, 0, nbytes);
    whole_nbytes = nbytes;
}

/* ---- the calls ----------------------------------------------------------- */

void peer_prepare(const struct bench_case *c, int way, void *send, void *recv)
{
    now = *c;
    now_way = &ways[way];
    now_send = send;
    now_recv = recv;
    if (ways[way].comm == MPI_COMM_NULL)
        make_comm(&ways[way]);
    if (ways[way].kind != c->kind)
        grow_whole(case_send_nbytes(c));
}

static void reduce_scatter(int n, MPI_Comm comm)
{
    if (now_way->kind == CASE_REDUCE_SCATTER) {
        MPI_Reduce_scatter_block(now_send, now_recv, n, MPI_FLOAT, MPI_SUM,
                                 comm);
        return;
    }
    MPI_Allreduce(now_send, whole, n * now.size, MPI_FLOAT, MPI_SUM, comm);
    memcpy(now_recv, whole + (size_t)now.rank * now.count,
           now.count * sizeof(float));
}

void peer_call(void)
{
    int n = (int)now.count;
    MPI_Comm comm = now_way->comm;

    switch (now.kind) {
    case CASE_ALLREDUCE:
        MPI_Allreduce(MPI_IN_PLACE, now_recv, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    case CASE_BROADCAST:
        MPI_Bcast(now_recv, n, MPI_FLOAT, now.root, comm);
        break;
    case CASE_ALLGATHER:
        MPI_Allgather(now_send, n, MPI_FLOAT, now_recv, n, MPI_FLOAT, comm);
        break;
    case CASE_REDUCE_SCATTER:
        reduce_scatter(n, comm);
        break;
    case CASE_ALLTOALL:
        MPI_Alltoall(now_send, n, MPI_FLOAT, now_recv, n, MPI_FLOAT, comm);
        break;
    default:
        MPI_Barrier(comm);
        break;
    }
}

void peer_settle(void)
{
}
