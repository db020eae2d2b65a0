/* collectives/two_level.c - see two_level.h.
 *
 * Memory: one struct and its array, allocated with the comm. */
#include "collectives/two_level.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "collectives/comm_impl.h"
#include "collectives/local/pull.h"
#include "collectives/schedule/slices.h"

struct two_level {
    int n_hosts;
    int least, most; /* ranks of a host */
    int host, place; /* own */
    int *group;      /* [n_hosts], in here: who streams in the call at hand */
    int *n_ranks;    /* [n_hosts] */
    int *host_of;    /* [size] of the comm: 0 .. n_hosts-1 */
    int *place_of;   /* [size]: among the ranks of its host */
};

/* Whole vectors up to here, slices above. */
enum { SMALL_NBYTES = 8 << 10 };

/* --- creation --- */

/* Hosts by their numbers in config.peers; -1: not seen yet. */
static int find_host(const struct comm *comm, const struct two_level *t,
                     int rank)
{
    const struct comm_peer *peers = comm->peers;

    /* ranks of a host are neighbours, mostly */
    if (rank > 0 && peers[rank - 1].host == peers[rank].host)
        return t->host_of[rank - 1];
    for (int i = 0; i < rank; i++)
        if (peers[i].host == peers[rank].host)
            return t->host_of[i];
    return -1;
}

static void survey(const struct comm *comm, struct two_level *t)
{
    int me = comm->config.rank;

    for (int i = 0; i < comm->config.size; i++) {
        int host = find_host(comm, t, i);

        if (host < 0)
            host = t->n_hosts++;
        t->host_of[i] = host;
        t->place_of[i] = t->n_ranks[host]++;
    }
    t->host = t->host_of[me];
    t->place = t->place_of[me];
    t->least = t->most = t->n_ranks[0];
    for (int i = 1; i < t->n_hosts; i++) {
        int n = t->n_ranks[i];

        t->least = n < t->least ? n : t->least;
        t->most = n > t->most ? n : t->most;
    }
}

/* Every rank has the same peers, and so the same answer. */
static bool hosts_share(const struct comm *comm, const struct two_level *t)
{
    for (int i = 0; i < comm->config.size; i++)
        if (t->n_ranks[t->host_of[i]] > 1 &&
            !(comm->peers[i].abilities & COMM_CAN_SHARE))
            return false;
    return t->most <= LOCAL_SIZE_MAX;
}

hvd_status_t two_level_create(struct comm *comm)
{
    size_t size = (size_t)comm->config.size;
    struct two_level *t;
    int *numbers;

    t = calloc(1, sizeof(*t) + 4 * size * sizeof(int));
    if (t == NULL)
        return error_set(HVD_ERR_NOMEM, "hosts of %zu ranks", size);
    numbers = (int *)(void *)(t + 1);
    t->group = numbers;
    t->n_ranks = numbers + size;
    t->host_of = numbers + 2 * size;
    t->place_of = numbers + 3 * size;
    survey(comm, t);
    if (t->n_hosts > 1 && t->most > 1 && hosts_share(comm, t))
        comm->two_level = t;
    else
        two_level_destroy(t);
    return HVD_OK;
}

void two_level_destroy(struct two_level *levels)
{
    free(levels);
}

/* --- choice --- */

/* No size was faster in one level (bench/README.md). */
bool two_level_serves(const struct comm *comm, int kind)
{
    enum algorithm forced = comm->config.algorithms.by_kind[kind];

    if (comm->two_level == NULL || !kind_of(kind)->two_level)
        return false;
    return forced == ALGORITHM_AUTO || forced == ALGORITHM_TWO_LEVEL;
}

/* --- phases --- */

static struct phase *add(struct operation *op, const struct phase_ops *ops,
                         int channel, const struct schedule_call *shape)
{
    struct phase *phase = &op->phases[op->n_phases++];

    HVD_ASSERT(op->n_phases <= OPERATION_PHASES_MAX);
    *phase = (struct phase){
        .ops = ops,
        .shape = *shape,
        .channel = channel,
    };
    return phase;
}

static struct phase *add_local(struct operation *op,
                               const struct schedule_call *shape, int kind,
                               const void *src, void *dst)
{
    struct phase *phase = add(op, &local_phase, CHANNEL_LOCAL, shape);

    phase->shape.kind = kind;
    phase->src = src;
    phase->dst = dst;
    return phase;
}

/* Between the ranks of t->group; `takes_part`: this rank is one of them.
 * `most`: the greatest count of all such groups, by which they choose alike.
 */
static void add_stream(struct comm *comm, const struct schedule_call *shape,
                       size_t count, size_t most, uint8_t *at, bool takes_part)
{
    const struct two_level *t = comm->two_level;
    struct phase *phase = add(&comm->op, &stream_phase, CHANNEL_DATA, shape);
    struct schedule_call *across = &phase->shape;

    across->group = t->group;
    across->size = t->n_hosts;
    across->rank = t->host;
    across->root = t->host_of[shape->root];
    across->count = most;
    across->algorithm = schedule_algorithm(across);
    across->count = count;
    comm->op.head.algorithm = (uint8_t)(FRAME_TWO_LEVELS | across->algorithm);
    phase->src = phase->dst = at;
    phase->steps = comm->steps;
    if (takes_part)
        phase->n_steps = schedule_build(across, comm->steps);
}

/* The ranks with this place in their hosts, which all have one. */
static void group_of_place(const struct comm *comm, int place)
{
    struct two_level *t = comm->two_level;

    for (int i = 0; i < comm->config.size; i++)
        if (t->place_of[i] == place)
            t->group[t->host_of[i]] = i;
}

/* The root, and from each other host the rank with its place or the last. */
static void group_of_root(const struct comm *comm, int root)
{
    struct two_level *t = comm->two_level;
    int place = t->place_of[root];

    for (int i = 0; i < comm->config.size; i++)
        if (t->place_of[i] <= place)
            t->group[t->host_of[i]] = i;
}

/* Everything at once: an allreduce, or a barrier. */
static void plan_whole(struct comm *comm, const struct schedule_call *shape,
                       const void *src, void *dst)
{
    const struct two_level *t = comm->two_level;
    struct operation *op = &comm->op;
    bool even = t->least == t->most;
    int place = even ? t->place : 0;
    struct phase *spread;

    if (comm->local != NULL)
        add_local(op, shape, shape->kind, src, dst);
    group_of_place(comm, place);
    add_stream(comm, shape, shape->count, shape->count, dst, t->place == place);
    if (even || comm->local == NULL)
        return;
    spread = add_local(op, shape, COLLECTIVE_BROADCAST, dst, dst);
    spread->shape.root = t->group[t->host];
}

/* Cut as pull.c does. */
static void plan_slices(struct comm *comm, const struct schedule_call *shape,
                        const void *src, uint8_t *dst)
{
    const struct two_level *t = comm->two_level;
    struct operation *op = &comm->op;
    bool owns = t->place < t->least;
    int place = owns ? t->place : 0;
    size_t begin = slice_begin(shape->count, t->least, place);
    size_t end = slice_begin(shape->count, t->least, place + 1);
    struct phase *phase;

    if (comm->local != NULL) {
        phase = add_local(op, shape, shape->kind, src, dst);
        phase->pull_kind = PULL_SLICES_REDUCE;
        phase->n_slices = t->least;
    }
    group_of_place(comm, place);
    add_stream(comm, shape, end - begin, slice_begin(shape->count, t->least, 1),
               dst + begin * shape->elem_nbytes, owns);
    if (comm->local == NULL)
        return;
    phase = add_local(op, shape, shape->kind, dst, dst);
    phase->pull_kind = PULL_SLICES_GATHER;
    phase->n_slices = t->least;
}

static void plan_broadcast(struct comm *comm, const struct schedule_call *shape,
                           void *buf)
{
    const struct two_level *t = comm->two_level;
    struct operation *op = &comm->op;
    size_t nbytes = shape->count * shape->elem_nbytes;
    bool at_root = t->host == t->host_of[shape->root];
    /* what is in a card is out of the root's hands; what is read from its
     * memory keeps it until it has been read */
    bool local_first = at_root && nbytes <= SMALL_NBYTES;
    struct schedule_call here = *shape;

    group_of_root(comm, shape->root);
    here.root = t->group[t->host];
    if (comm->local != NULL && local_first)
        add_local(op, &here, COLLECTIVE_BROADCAST, buf, buf);
    add_stream(comm, shape, shape->count, shape->count, buf,
               here.root == comm->config.rank);
    if (comm->local != NULL && !local_first)
        add_local(op, &here, COLLECTIVE_BROADCAST, buf, buf);
}

hvd_status_t two_level_plan(struct comm *comm,
                            const struct collective_args *args)
{
    struct operation *op = &comm->op;
    const struct schedule_call shape = op->phases[0].shape;
    size_t nbytes = shape.count * shape.elem_nbytes;

    op->n_phases = 0;
    if (args->kind == COLLECTIVE_BROADCAST) {
        plan_broadcast(comm, &shape, args->recvbuf);
        return HVD_OK;
    }
    if (comm->local == NULL)
        HVD_TRY(operation_copy(comm, args->recvbuf, args->sendbuf, nbytes));
    if (nbytes <= SMALL_NBYTES)
        plan_whole(comm, &shape, args->sendbuf, args->recvbuf);
    else
        plan_slices(comm, &shape, args->sendbuf, args->recvbuf);
    return HVD_OK;
}
