/* collectives/local/pull.c - see pull.h. Pure. */
#include "collectives/local/pull.h"

#include "base/array.h"
#include "collectives/schedule/slices.h"

static struct pull_region slice(const struct pull_shape *s, int index)
{
    int n = s->n_slices > 0 ? s->n_slices : s->size;
    size_t begin, end;

    if (index >= n)
        return (struct pull_region){0, 0, 0};
    begin = slice_begin(s->count, n, index) * s->elem_nbytes;
    end = slice_begin(s->count, n, index + 1) * s->elem_nbytes;
    return (struct pull_region){begin, begin, end - begin};
}

/* What is left to the root of a broadcast. */
static struct pull_region root_slice(const struct pull_shape *s)
{
    return s->split ? slice(s, 0) : (struct pull_region){0, 0, 0};
}

/* What `reader` reads of the operand of `source`; one of them is this rank. */
static struct pull_region operand(const struct pull_shape *s, int source,
                                  int reader)
{
    size_t e = s->elem_nbytes, n = s->count * e;
    size_t i = (size_t)source, j = (size_t)reader;

    switch (s->kind) {
    case PULL_ALLREDUCE:
    case PULL_SLICES_REDUCE:
        return slice(s, reader);
    case PULL_REDUCE_SCATTER:
        return (struct pull_region){j * n, 0, n};
    case PULL_SLICES_GATHER:
        return slice(s, source);
    case PULL_BROADCAST:
        if (source != s->root)
            return (struct pull_region){0, 0, 0};
        i = root_slice(s).nbytes;
        return (struct pull_region){i, i, n - i};
    case PULL_ALLGATHER:
        return (struct pull_region){0, i * n, n};
    case PULL_ALLGATHERV:
        return (struct pull_region){0, s->rdispls[i] * e, s->recvcounts[i] * e};
    case PULL_ALLTOALL:
        return (struct pull_region){j * n, i * n, n};
    case PULL_ALLTOALLV:
        break;
    }
    /* the source's displacement is known to the source alone: a reader learns
     * the start from it */
    if (source == s->rank)
        return (struct pull_region){s->sdispls[j] * e, 0, s->sendcounts[j] * e};
    return (struct pull_region){0, s->rdispls[i] * e, s->recvcounts[i] * e};
}

/* What is taken from `source`: of its result or of its operand. The root of a
 * broadcast: to it. */
static struct pull_region taken_from(const struct pull *p, int source)
{
    if (p->shape.kind == PULL_BROADCAST && p->shape.rank == p->shape.root)
        return root_slice(&p->shape);
    if (p->reduces)
        return slice(&p->shape, source);
    return operand(&p->shape, source, p->shape.rank);
}

/* All read the same. */
static bool common(const struct pull_shape *s)
{
    return s->kind == PULL_BROADCAST || s->kind == PULL_ALLGATHER ||
           s->kind == PULL_ALLGATHERV || s->kind == PULL_SLICES_GATHER;
}

static uint64_t blocks(const struct pull_shape *s, size_t nbytes)
{
    return (nbytes + s->block_nbytes - 1) / s->block_nbytes;
}

static struct pull_region piece_of(const struct pull_shape *s,
                                   struct pull_region r, uint64_t block)
{
    size_t off = block * s->block_nbytes;

    if (off > r.nbytes)
        off = r.nbytes;
    r.src += off;
    r.dst += off;
    r.nbytes -= off;
    if (r.nbytes > s->block_nbytes)
        r.nbytes = s->block_nbytes;
    return r;
}

/* Peers in the order in which a rank turns to them: from its right neighbour
 * on, so that not all turn to the same one. */
static int peer_at(const struct pull_shape *s, int place)
{
    return (s->rank + 1 + place) % s->size;
}

static size_t set_offset(const struct pull_shape *s, uint64_t block)
{
    return (size_t)(block % s->depth) * (size_t)(s->size + 1) * s->block_nbytes;
}

size_t pull_stage_nbytes(const struct pull_shape *s)
{
    return s->depth * (size_t)(s->size + 1) * s->block_nbytes;
}

size_t pull_stage_in(const struct pull *p, uint64_t block, int reader)
{
    size_t column = common(&p->shape) ? 0 : (size_t)reader;

    return set_offset(&p->shape, block) + column * p->shape.block_nbytes;
}

static size_t stage_out(const struct pull *p, uint64_t block)
{
    return set_offset(&p->shape, block) +
           (size_t)p->shape.size * p->shape.block_nbytes;
}

void pull_init(struct pull *p, const struct pull_shape *shape)
{
    enum pull_kind kind = shape->kind;

    HVD_ASSERT(shape->size > 1 && shape->depth > 0 && shape->block_nbytes > 0);
    HVD_ASSERT(shape->n_slices <= shape->size);
    HVD_ASSERT(shape->lag == 0 ||
               (kind == PULL_ALLREDUCE && !shape->stage_recv));
    *p = (struct pull){.shape = *shape};
    p->reduces = kind == PULL_ALLREDUCE || kind == PULL_REDUCE_SCATTER ||
                 kind == PULL_SLICES_REDUCE;
    p->takes = kind != PULL_REDUCE_SCATTER && kind != PULL_SLICES_REDUCE;
    for (int i = 0; i < shape->size; i++) {
        uint64_t out, in;

        if (i == shape->rank)
            continue;
        out = blocks(shape, operand(shape, shape->rank, i).nbytes);
        in = blocks(shape, taken_from(p, i).nbytes);
        if (out > p->n_stage)
            p->n_stage = out;
        if (p->takes && in > p->n_take)
            p->n_take = in;
    }
    /* slices differ by an element: all ranks count the blocks of the longest */
    if (p->reduces)
        p->n_reduce = blocks(shape, operand(shape, 0, 0).nbytes);
    if (p->reduces && p->n_stage > 0)
        p->n_stage = p->n_reduce;
    if (p->reduces && p->takes)
        p->n_take = p->n_reduce;
    if (!shape->stage_send)
        p->n_stage = 0;
}

bool pull_suit(const struct pull *p, const struct pull_ways *ways,
               struct pull_shape *shape_p)
{
    struct pull_shape shape = p->shape;

    if (ways->all_push)
        shape.kind = PULL_SLICES_REDUCE;
    else if (shape.kind == PULL_ALLREDUCE && !ways->stages_result)
        shape.lag = PULL_LAG_NBYTES / shape.block_nbytes;
    else if (!p->reduces && ways->attaches && !ways->stages)
        shape.block_nbytes = PULL_ATTACHED_BLOCK;
    else
        return false;
    *shape_p = shape;
    return true;
}

/* --- what can be done --- */

/* Has everybody who reads it read own block `block` of staging? */
static bool consumed(const struct pull *p, const struct pull_progress *peers,
                     uint64_t block)
{
    const struct pull_shape *s = &p->shape;

    for (int i = 0; i < s->size; i++) {
        uint64_t have, theirs = p->reduces ? peers[i].reduced : peers[i].taken;

        if (i == s->rank)
            continue;
        /* who reads fewer blocks is through sooner */
        have = p->reduces ? block + 1
                          : blocks(s, operand(s, s->rank, i).nbytes);
        if (theirs < (have < block + 1 ? have : block + 1))
            return false;
    }
    return true;
}

static bool may_stage(const struct pull *p, const struct pull_progress *peers)
{
    uint64_t depth = p->shape.depth;

    return p->stage_i < p->n_stage &&
           (p->stage_i < depth || consumed(p, peers, p->stage_i - depth));
}

static bool may_reduce(const struct pull *p, const struct pull_progress *peers)
{
    const struct pull_shape *s = &p->shape;
    uint64_t block = p->reduce_i;
    bool waits = p->takes && s->stage_recv && block >= s->depth;

    if (block >= p->n_reduce)
        return false;
    for (int i = 0; i < s->size; i++) {
        if (i == s->rank)
            continue;
        if (peers[i].staged <= block)
            return false;
        if (waits && peers[i].taken <= block - s->depth)
            return false;
    }
    return true;
}

static bool may_take(const struct pull *p, const struct pull_progress *peers)
{
    const struct pull_shape *s = &p->shape;
    int peer = peer_at(s, p->take_peer);
    uint64_t ready = p->reduces ? peers[peer].reduced : peers[peer].staged;

    if (p->take_i >= p->n_take)
        return false;
    if (s->lag > 0 && p->reduce_i < p->n_reduce &&
        p->reduce_i < p->take_i + s->lag)
        return false;
    /* what is overwritten has to be staged before */
    if (!p->reduces && s->in_place && s->stage_send && p->take_i < p->n_stage &&
        p->stage_i <= p->take_i)
        return false;
    return ready > p->take_i ||
           p->take_i >= blocks(s, taken_from(p, peer).nbytes);
}

static void stage(const struct pull *p, struct pull_action *a)
{
    const struct pull_shape *s = &p->shape;
    int reader = peer_at(s, p->stage_peer);

    a->type = PULL_STAGE;
    a->block = p->stage_i;
    a->peer = common(s) ? -1 : reader;
    a->region = piece_of(s, operand(s, s->rank, reader), a->block);
    a->stage = pull_stage_in(p, a->block, reader);
    a->publish = common(s) || p->stage_peer == s->size - 2;
}

static void reduce(const struct pull *p, struct pull_action *a)
{
    const struct pull_shape *s = &p->shape;

    a->type = PULL_REDUCE;
    a->block = p->reduce_i;
    a->region = piece_of(s, operand(s, s->rank, s->rank), a->block);
    a->stage = stage_out(p, a->block);
    a->publish = true;
}

static void take(const struct pull *p, struct pull_action *a)
{
    const struct pull_shape *s = &p->shape;

    a->type = PULL_TAKE;
    a->block = p->take_i;
    a->peer = peer_at(s, p->take_peer);
    a->region = piece_of(s, taken_from(p, a->peer), a->block);
    a->stage = p->reduces ? stage_out(p, a->block)
                          : pull_stage_in(p, a->block, s->rank);
    a->publish = p->take_peer == s->size - 2;
}

void pull_next(const struct pull *p, const struct pull_progress *peers,
               struct pull_action *a)
{
    *a = (struct pull_action){.type = PULL_WAIT, .peer = -1};
    /* last things first: they free what others wait for */
    if (may_take(p, peers))
        take(p, a);
    else if (may_reduce(p, peers))
        reduce(p, a);
    else if (may_stage(p, peers))
        stage(p, a);
    else if (p->stage_i == p->n_stage && p->reduce_i == p->n_reduce &&
             p->take_i == p->n_take)
        a->type = PULL_DONE;
}

void pull_did(struct pull *p, const struct pull_action *a)
{
    switch (a->type) {
    case PULL_STAGE:
        p->stage_peer++;
        if (a->publish) {
            p->stage_peer = 0;
            p->stage_i++;
        }
        break;
    case PULL_REDUCE:
        p->reduce_i++;
        break;
    case PULL_TAKE:
        p->take_peer++;
        if (a->publish) {
            p->take_peer = 0;
            p->take_i++;
        }
        break;
    case PULL_WAIT:
    case PULL_DONE:
        break;
    }
}

struct pull_progress pull_progress(const struct pull *p)
{
    return (struct pull_progress){
        .staged = p->stage_i == p->n_stage ? PULL_ALL : p->stage_i,
        .reduced = p->reduce_i == p->n_reduce ? PULL_ALL : p->reduce_i,
        .taken = p->take_i == p->n_take ? PULL_ALL : p->take_i,
    };
}
