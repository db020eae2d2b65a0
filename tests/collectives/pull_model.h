/* tests/collectives/pull_model.h - the machine of pull.h in a model of memory:
 * groups of ranks of every size carry out what it says, interleaved at random
 * or as badly as possible, and what they publish is seen late. An element
 * remembers who still has to read it. */
#ifndef TESTS_COLLECTIVES_PULL_MODEL_H
#define TESTS_COLLECTIVES_PULL_MODEL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/local/pull.h"
#include "support.h"

enum {
    RANKS_MAX = 64,
    ELEM = 4 /* bytes */
};

/* Check's own write to a pipe each time. */
#define MUST(condition)                                           \
    do {                                                          \
        if (!(condition))                                         \
            ck_abort_msg("%s: %s", scene_of_failure, #condition); \
    } while (0)

static char scene_of_failure[160];

#define UNTOUCHED 0x5eed5eed5eed5eedu

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Neither commutative nor associative: only one order gives this result. */
static uint64_t combine(uint64_t left, uint64_t right)
{
    return mix(left ^ 0x1234567, right);
}

/* --- the model --- */

struct element {
    uint64_t value;
    uint64_t block; /* in staging memory: what it was written for */
    int readers;    /* other ranks that still have to read it */
};

struct rank {
    struct pull pull;
    struct pull_progress shown;
    struct pull_progress view[RANKS_MAX]; /* of the others, perhaps old */
    struct pull_action action;            /* carried out, not yet published */
    bool acting, done, closed;
    struct element *memory, *operand, *result, *stage;
    size_t n_operand, n_result, n_stage; /* elements */
    size_t sendcounts[RANKS_MAX], sdispls[RANKS_MAX];
    size_t recvcounts[RANKS_MAX], rdispls[RANKS_MAX];
};

/* Who moves next. */
enum order {
    ORDER_RANDOM,
    ORDER_ONE_LAST,  /* only when nobody else can */
    ORDER_ONE_FIRST, /* as far as it can */
    ORDER_BLIND,     /* nothing new is seen before nobody can move */
    ORDERS
};

struct world {
    enum pull_kind kind;
    int size, root, odd; /* odd: the one that is first or last */
    int n_slices;        /* who has one */
    size_t count, block_nbytes;
    unsigned depth;
    enum order order;
    uint64_t seed, n_random;
    struct rank ranks[RANKS_MAX];
};

static uint64_t any(struct world *w)
{
    return mix(w->seed, w->n_random++);
}

static bool reduces(const struct world *w)
{
    return w->kind == PULL_ALLREDUCE || w->kind == PULL_REDUCE_SCATTER ||
           w->kind == PULL_SLICES_REDUCE;
}

static bool is_v(const struct world *w)
{
    return w->kind == PULL_ALLGATHERV || w->kind == PULL_ALLTOALLV;
}

struct span {
    size_t first, n; /* elements */
};

static struct span slice(const struct world *w, int index)
{
    size_t n = (size_t)w->n_slices, i = (size_t)index;
    size_t each = w->count / n, more = w->count % n;

    if (i >= n)
        return (struct span){0, 0};
    return (struct span){i * each + (i < more ? i : more), each + (i < more)};
}

/* What `reader` reads of the operand of `source`. */
static struct span read_of(const struct world *w, int source, int reader)
{
    const struct rank *from = &w->ranks[source];

    switch (w->kind) {
    case PULL_ALLREDUCE:
    case PULL_SLICES_REDUCE:
        return slice(w, reader);
    case PULL_SLICES_GATHER:
        return slice(w, source);
    case PULL_REDUCE_SCATTER:
    case PULL_ALLTOALL:
        return (struct span){(size_t)reader * w->count, w->count};
    case PULL_BROADCAST:
        return (struct span){0, source == w->root ? w->count : 0};
    case PULL_ALLGATHER:
        return (struct span){0, w->count};
    case PULL_ALLGATHERV:
        return (struct span){0, from->recvcounts[source]};
    case PULL_ALLTOALLV:
        break;
    }
    return (struct span){from->sdispls[reader], from->sendcounts[reader]};
}

static uint64_t operand_value(const struct world *w, int rank, size_t i)
{
    return mix(w->seed ^ 99, (uint64_t)rank * 1000003 + i);
}

/* --- making it --- */

/* Every third pair has nothing to say to each other. */
static size_t pair_count(const struct world *w, int from, int to)
{
    uint64_t x = mix(w->seed, 5000 + (uint64_t)(from * RANKS_MAX + to));

    return x % 3 == 0 ? 0 : x / 3 % (w->count + 1);
}

static size_t lay_out(const size_t *counts, size_t *displs, int n)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        at += (size_t)i % 2;
        displs[i] = at;
        at += counts[i];
    }
    return at;
}

static void measure(const struct world *w, int rank)
{
    struct rank *r = (struct rank *)&w->ranks[rank];
    size_t all = w->count * (size_t)w->size;
    bool gathers = w->kind == PULL_ALLGATHERV;

    r->n_operand = r->n_result = w->count;
    if (w->kind == PULL_REDUCE_SCATTER || w->kind == PULL_ALLTOALL)
        r->n_operand = all;
    if (w->kind == PULL_ALLGATHER || w->kind == PULL_ALLTOALL)
        r->n_result = all;
    if (!is_v(w))
        return;
    for (int i = 0; i < w->size; i++) {
        r->sendcounts[i] = pair_count(w, rank, i);
        r->recvcounts[i] = pair_count(w, i, gathers ? 0 : rank);
    }
    r->n_operand = lay_out(r->sendcounts, r->sdispls, w->size);
    r->n_result = lay_out(r->recvcounts, r->rdispls, w->size);
    if (gathers)
        r->n_operand = r->recvcounts[rank];
}

/* Offset of the operand in the result, or of the result in the operand. */
static void place_buffers(const struct world *w, struct rank *r, bool in_place)
{
    size_t me = (size_t)r->pull.shape.rank, n = w->count;

    r->operand = r->memory;
    r->result = r->memory + r->n_operand;
    if (in_place && w->kind == PULL_REDUCE_SCATTER) {
        r->result = r->operand + me * n;
    } else if (in_place) {
        r->result = r->memory;
        r->operand = r->memory;
        if (w->kind == PULL_ALLGATHER)
            r->operand += me * n;
        if (w->kind == PULL_ALLGATHERV)
            r->operand += r->rdispls[me];
    }
}

/* Habits of a group: everybody alike, by turns, or each as he likes. */
static bool habit(const struct world *w, int rank, int what)
{
    uint64_t group = mix(w->seed, 300), own;

    own = mix(w->seed, 400 + (uint64_t)what);
    if (group % 3 == 1)
        own += (uint64_t)rank;
    else if (group % 3 == 2)
        own = mix(w->seed, 500 + (uint64_t)(what * RANKS_MAX + rank));
    return own % 2 != 0;
}

/* What the kind admits. */
static bool is_in_place(const struct world *w, int rank)
{
    if (w->kind == PULL_BROADCAST || w->kind == PULL_SLICES_GATHER)
        return true;
    return w->kind != PULL_ALLTOALLV && habit(w, rank, 2);
}

static bool any_stages_results(const struct world *w)
{
    for (int i = 0; i < w->size; i++)
        if (habit(w, i, 1))
            return true;
    return false;
}

/* What is read where it is may be split with the root, which does so if any
 * reader does. */
static bool does_split(const struct world *w, int rank)
{
    bool any = false;

    if (w->kind != PULL_BROADCAST || habit(w, w->root, 0))
        return false;
    for (int i = 0; i < w->size; i++)
        any = any || (i != w->root && habit(w, i, 3));
    return rank == w->root ? any : habit(w, rank, 3);
}

static struct pull_shape shape_of(const struct world *w, int rank)
{
    const struct rank *r = &w->ranks[rank];
    struct pull_shape s = {
        .kind = w->kind,
        .rank = rank,
        .size = w->size,
        .root = w->root,
        .count = w->count,
        .elem_nbytes = ELEM,
        .block_nbytes = w->block_nbytes,
        .depth = w->depth,
        .n_slices = w->n_slices == w->size ? 0 : w->n_slices,
        .sendcounts = r->sendcounts,
        .sdispls = r->sdispls,
        .recvcounts = r->recvcounts,
        .rdispls = r->rdispls,
        .stage_send = habit(w, rank, 0),
        .stage_recv = w->kind == PULL_ALLREDUCE && habit(w, rank, 1),
        .in_place = is_in_place(w, rank),
        .split = does_split(w, rank),
    };

    if (w->kind == PULL_ALLREDUCE && !any_stages_results(w))
        s.lag = mix(w->seed, 600 + (uint64_t)rank) % 5;
    /* what has not been read is overwritten: nobody reads it where it is */
    if (w->kind == PULL_ALLTOALL && s.in_place)
        s.stage_send = true;
    return s;
}

static void own_part(const struct world *w, int rank)
{
    struct rank *r = (struct rank *)&w->ranks[rank];
    struct span own = read_of(w, rank, rank);
    size_t to = 0;

    if (reduces(w) || w->kind == PULL_BROADCAST ||
        w->kind == PULL_SLICES_GATHER)
        return;
    to = is_v(w) ? r->rdispls[rank] : (size_t)rank * w->count;
    for (size_t i = 0; i < own.n; i++)
        r->result[to + i].value = r->operand[own.first + i].value;
}

static void rank_init(struct world *w, int rank)
{
    struct rank *r = &w->ranks[rank];
    struct pull_shape shape;
    size_t n;

    measure(w, rank);
    shape = shape_of(w, rank);
    r->pull.shape = shape;
    r->n_stage = pull_stage_nbytes(&shape) / ELEM;
    n = r->n_operand + r->n_result + r->n_stage;
    r->memory = calloc(n + 1, sizeof(*r->memory));
    place_buffers(w, r, shape.in_place);
    r->stage = r->memory + r->n_operand + r->n_result;
    for (size_t i = 0; i < n; i++)
        r->memory[i].value = UNTOUCHED;
    if (w->kind != PULL_BROADCAST || rank == w->root)
        for (size_t i = 0; i < r->n_operand; i++)
            r->operand[i].value = operand_value(w, rank, i);
    own_part(w, rank);
    pull_init(&r->pull, &shape);
    r->shown = pull_progress(&r->pull);
}

static struct span rest_of(struct span s, size_t n)
{
    return (struct span){s.first + n, s.n - n};
}

static void world_init(struct world *w)
{
    for (int i = 0; i < w->size; i++)
        rank_init(w, i);
    for (int i = 0; i < w->size; i++)
        for (int j = 0; j < w->size; j++) {
            struct rank *r = &w->ranks[i];
            struct span s = read_of(w, i, j);

            w->ranks[j].view[i] = r->shown;
            if (i == j || r->pull.shape.stage_send)
                continue;
            if (i == w->root && w->ranks[j].pull.shape.split)
                s = rest_of(s, slice(w, 0).n);
            for (size_t k = 0; k < s.n; k++)
                r->operand[s.first + k].readers++;
        }
}

static void world_fini(struct world *w)
{
    for (int i = 0; i < w->size; i++)
        free(w->ranks[i].memory);
}

/* --- carrying out --- */

static size_t index_of(size_t nbytes)
{
    MUST(nbytes % ELEM == 0);
    return nbytes / ELEM;
}

static void put(struct element *e, uint64_t value)
{
    MUST(e->readers == 0); /* or it is overwritten before it was read */
    e->value = value;
}

static uint64_t get(struct element *e, const uint64_t *block)
{
    MUST(e->readers > 0); /* or it is not shown, or read twice */
    if (block != NULL)
        MUST(e->block == *block);
    e->readers--;
    return e->value;
}

static struct element *stage_at(struct rank *r, size_t nbytes, size_t n)
{
    size_t at = index_of(nbytes);

    MUST(at + n <= r->n_stage);
    return r->stage + at;
}

static void show(struct rank *r, size_t nbytes, const struct element *from,
                 size_t n, uint64_t block, int n_readers)
{
    struct element *to = stage_at(r, nbytes, n);

    for (size_t i = 0; i < n; i++) {
        put(&to[i], from[i].value);
        to[i].block = block;
        to[i].readers = n_readers;
    }
}

/* Element i of the operand of `source` that belongs to the action. */
static uint64_t operand_get(struct world *w, int source, int reader,
                            const struct pull_action *a, size_t i)
{
    struct rank *from = &w->ranks[source];
    const struct pull *own = &w->ranks[reader].pull;
    size_t at = index_of(a->region.src) + i;

    if (source == reader)
        return from->operand[at].value;
    if (w->kind == PULL_ALLTOALLV)
        at += from->sdispls[reader];
    if (!from->pull.shape.stage_send) {
        MUST(at < from->n_operand);
        return get(&from->operand[at], NULL);
    }
    return get(stage_at(from, pull_stage_in(own, a->block, reader), i + 1) + i,
               &a->block);
}

static void carry_reduce(struct world *w, int rank, const struct pull_action *a)
{
    struct rank *r = &w->ranks[rank];
    size_t to = index_of(a->region.dst), n = index_of(a->region.nbytes);

    MUST(to + n <= r->n_result);
    for (size_t i = 0; i < n; i++) {
        uint64_t value = 0;

        for (int k = 0; k < w->size; k++)
            value = combine(value, operand_get(w, k, rank, a, i));
        put(&r->result[to + i], value);
        /* from here on the others read it where it is */
        if (w->kind == PULL_ALLREDUCE && !r->pull.shape.stage_recv)
            r->result[to + i].readers = w->size - 1;
    }
    if (w->kind == PULL_ALLREDUCE && r->pull.shape.stage_recv)
        show(r, a->stage, r->result + to, n, a->block, w->size - 1);
}

static uint64_t result_get(struct rank *from, const struct pull_action *a,
                           size_t i)
{
    if (from->pull.shape.stage_recv)
        return get(stage_at(from, a->stage, i + 1) + i, &a->block);
    return get(&from->result[index_of(a->region.src) + i], NULL);
}

/* The root of a broadcast, to a reader that leaves its slice to it. */
static void carry_slice(struct world *w, const struct pull_action *a)
{
    struct rank *to = &w->ranks[a->peer];
    const struct rank *root = &w->ranks[w->root];
    size_t at = index_of(a->region.src), n = index_of(a->region.nbytes);

    MUST(!to->closed);
    MUST(a->region.dst == a->region.src && at + n <= slice(w, 0).n);
    for (size_t i = at; to->pull.shape.split && i < at + n; i++)
        put(&to->result[i], root->operand[i].value);
}

static void carry_take(struct world *w, int rank, const struct pull_action *a)
{
    struct rank *r = &w->ranks[rank];
    size_t to = index_of(a->region.dst), n = index_of(a->region.nbytes);

    MUST(a->peer != rank);
    MUST(n == 0 || to + n <= r->n_result);
    for (size_t i = 0; i < n; i++)
        put(&r->result[to + i], reduces(w)
                                    ? result_get(&w->ranks[a->peer], a, i)
                                    : operand_get(w, a->peer, rank, a, i));
}

static void carry_stage(struct world *w, int rank, const struct pull_action *a)
{
    struct rank *r = &w->ranks[rank];
    size_t from = index_of(a->region.src), n = index_of(a->region.nbytes);

    MUST(n == 0 || from + n <= r->n_operand);
    show(r, a->stage, r->operand + from, n, a->block,
         a->peer < 0 ? w->size - 1 : 1);
}

static void carry_out(struct world *w, int rank, const struct pull_action *a)
{
    if (a->type == PULL_STAGE)
        carry_stage(w, rank, a);
    else if (a->type == PULL_REDUCE)
        carry_reduce(w, rank, a);
    else if (w->kind == PULL_BROADCAST && rank == w->root)
        carry_slice(w, a);
    else
        carry_take(w, rank, a);
}

/* --- time --- */

static void look(struct world *w, int rank, int peer)
{
    w->ranks[rank].view[peer] = w->ranks[peer].shown;
}

/* In a broadcast readers have to do with the root alone. */
static bool concerns(const struct world *w, int rank, int other)
{
    return w->kind != PULL_BROADCAST || rank == w->root || other == w->root;
}

/* Who sees everybody through takes his memory back: nobody may read it, nor
 * write there. */
static void try_to_close(struct world *w, int rank)
{
    struct rank *r = &w->ranks[rank];
    size_t n = r->n_operand + r->n_result + r->n_stage;

    for (int i = 0; i < w->size; i++)
        if (i != rank && concerns(w, rank, i) &&
            (w->ranks[i].shown.reduced != PULL_ALL ||
             w->ranks[i].shown.taken != PULL_ALL))
            return;
    for (size_t i = 0; i < n; i++)
        MUST(r->memory[i].readers == 0);
    r->closed = true;
}

/* Half an action: it is done first, and published with the second half. */
static bool move(struct world *w, int rank)
{
    struct rank *r = &w->ranks[rank];
    struct pull_action a;

    if (r->acting) {
        pull_did(&r->pull, &r->action);
        if (r->action.publish)
            r->shown = pull_progress(&r->pull);
        r->acting = false;
        return true;
    }
    if (r->done) {
        if (!r->closed)
            try_to_close(w, rank);
        return false;
    }
    pull_next(&r->pull, r->view, &a);
    if (a.type == PULL_WAIT)
        return false;
    r->done = a.type == PULL_DONE;
    if (!r->done) {
        carry_out(w, rank, &a);
        r->action = a;
        r->acting = true;
    }
    return true;
}

static bool move_anybody(struct world *w)
{
    int first = (int)(any(w) % (uint64_t)w->size);
    int last = w->order == ORDER_ONE_LAST ? w->odd : -1;

    if (w->order == ORDER_ONE_FIRST && move(w, w->odd))
        return true;
    for (int i = 0; i < w->size; i++) {
        int rank = (first + i) % w->size;

        if (rank != last && move(w, rank))
            return true;
    }
    return last >= 0 && move(w, last);
}

static bool is_over(const struct world *w)
{
    for (int i = 0; i < w->size; i++)
        if (!w->ranks[i].closed)
            return false;
    return true;
}

/* A little of what has been published becomes visible; everything, when nobody
 * can move without. */
static void see(struct world *w, bool everything)
{
    uint64_t x = any(w);
    size_t n = (size_t)w->size;

    if (everything)
        for (int i = 0; i < w->size; i++)
            for (int j = 0; j < w->size; j++)
                look(w, i, j);
    else if (w->order != ORDER_BLIND)
        look(w, (int)(x % n), (int)(x / n % n));
}

static void run(struct world *w)
{
    bool saw_all = false;

    while (!is_over(w)) {
        bool moved = move_anybody(w);

        MUST(moved || !saw_all || is_over(w)); /* or a deadlock */
        see(w, !moved);
        saw_all = !moved;
    }
}

#endif
