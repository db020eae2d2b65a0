/* tests/integration/storm_call.c - one collective call of a storm: what it is,
 * its operands, and what must have come of it. See storm.h.
 *
 * Every rank draws the same from `shared`, in the same order, whatever its rank
 * is; what it draws from `own` may not change what the others expect. */
#include "storm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank sends to another begins this many elements further on for each
 * rank: blocks are told from each other. */
enum { STRIDE = 37 };

static const char *const kind_names[] = {
    NULL,         "allreduce",      "broadcast", "allgather",
    "allgatherv", "reduce_scatter", "alltoall",  "alltoallv",
    "barrier",    "grouped",
};
static const char *const dtype_names[] = {"same",     "int8",    "uint8",
                                          "int32",    "int64",   "float16",
                                          "bfloat16", "float32", "float64"};
static const char *const op_names[] = {"sum", "average", "min", "max",
                                       "product"};

int call_kind(const char *name)
{
    for (int kind = 1; kind <= STORM_GROUPED; kind++)
        if (strcmp(name, kind_names[kind]) == 0)
            return kind;
    return 0;
}

/* ---- what it is ---------------------------------------------------------- */

static int draw_kind(struct chance *shared)
{
    /* Those with several ways of their own come more often. */
    static const int kinds[] = {
        STORM_ALLREDUCE,      STORM_ALLREDUCE,  STORM_ALLREDUCE,
        STORM_BROADCAST,      STORM_BROADCAST,  STORM_BROADCAST,
        STORM_ALLGATHER,      STORM_ALLGATHERV, STORM_ALLTOALL,
        STORM_REDUCE_SCATTER, STORM_ALLTOALLV,  STORM_BARRIER,
        STORM_GROUPED,
    };

    return kinds[draw(shared, sizeof(kinds) / sizeof(kinds[0]))];
}

/* Where the library changes its way, and one element to both sides. */
static size_t draw_edge(struct chance *shared, size_t width)
{
    static const size_t edges[] = {24,        1 << 10,  2 << 10,   8 << 10,
                                   32 << 10,  64 << 10, 128 << 10, 256 << 10,
                                   512 << 10, 1 << 20,  1 << 20};
    size_t n = sizeof(edges) / sizeof(edges[0]);

    return edges[draw(shared, n)] + (draw(shared, 3) - 1) * width;
}

static size_t draw_count(struct chance *shared, size_t width, size_t nbytes_max)
{
    size_t way = draw(shared, 100), nbytes;

    if (way < 3)
        return 0;
    if (way < 50)
        nbytes = draw_edge(shared, width);
    else if (way < 90)
        nbytes = draw(shared, 4096);
    else
        nbytes = draw(shared, nbytes_max + 1);
    return (nbytes < nbytes_max ? nbytes : nbytes_max) / width;
}

/* Up to twice as many as the mean, and often none. */
static size_t draw_part(struct chance *shared, size_t mean)
{
    size_t n = draw(shared, 2 * mean + 1);

    return one_in(shared, 4) ? 0 : n;
}

static bool varies(const struct call *c)
{
    return c->kind == STORM_ALLGATHERV || c->kind == STORM_ALLTOALLV;
}

static bool gathers(const struct call *c)
{
    return c->kind == STORM_ALLGATHER || c->kind == STORM_ALLGATHERV;
}

static bool exchanges(const struct call *c)
{
    return c->kind == STORM_ALLTOALL || c->kind == STORM_ALLTOALLV;
}

static bool reduces(const struct call *c)
{
    return c->kind == STORM_ALLREDUCE || c->kind == STORM_REDUCE_SCATTER ||
           c->kind == STORM_GROUPED;
}

/* Who sends how much to whom, as this rank sees it. */
static void draw_exchange(struct call *c, struct chance *shared, size_t count)
{
    for (int from = 0; from < c->size; from++) {
        for (int to = 0; to < c->size; to++) {
            size_t n = varies(c) ? draw_part(shared, count) : count;

            if (from == c->rank)
                c->sendcounts[to] = n;
            if (to == c->rank)
                c->recvcounts[from] = n;
        }
    }
}

static size_t displace(const struct call *c, const size_t *counts,
                       size_t *displs)
{
    size_t total = 0;

    for (int i = 0; i < c->size; i++) {
        displs[i] = total;
        total += counts[i];
    }
    return total;
}

/* t->count is the whole; it becomes a rank's share where there are shares. */
static void draw_shares(struct call *c, struct chance *shared, struct tensor *t)
{
    size_t share = t->count / (size_t)c->size;

    if (exchanges(c)) {
        draw_exchange(c, shared, share);
        t->n_send = displace(c, c->sendcounts, c->sdispls);
        t->n_recv = displace(c, c->recvcounts, c->rdispls);
        t->count = share;
        return;
    }
    for (int i = 0; i < c->size; i++)
        c->recvcounts[i] = varies(c) ? draw_part(shared, share) : share;
    t->n_recv = displace(c, c->recvcounts, c->rdispls);
    t->count = t->n_send = c->recvcounts[c->rank];
}

static void draw_tensor(struct call *c, struct chance *shared, struct tensor *t,
                        size_t nbytes_max)
{
    t->count = draw_count(shared, hvd_dtype_size(c->dtype), nbytes_max);
    t->n_send = t->n_recv = t->count;
    if (gathers(c) || exchanges(c)) {
        draw_shares(c, shared, t);
    } else if (c->kind == STORM_REDUCE_SCATTER) {
        t->count = t->n_recv = t->count / (size_t)c->size;
        t->n_send = t->count * (size_t)c->size;
    } else if (c->kind == STORM_BROADCAST) {
        t->n_send = 0;
    }
}

static void draw_call(struct call *c, const struct call_options *options,
                      struct chance *shared)
{
    c->kind = draw_kind(shared);
    if (options->kind != 0)
        c->kind = options->kind;
    c->dtype = (hvd_dtype_t)(HVD_INT8 + draw(shared, HVD_FLOAT64));
    c->op = (hvd_op_t)draw(shared, HVD_PRODUCT + 1);
    if (!reduces(c))
        c->op = HVD_SUM;
    c->root = (int)draw(shared, (size_t)c->size);
    c->counts_open = varies(c) && one_in(shared, 2);
    c->n_tensors = c->kind != STORM_BARRIER;
    if (c->kind == STORM_GROUPED)
        c->n_tensors = 1 + draw(shared, STORM_TENSORS_MAX);
    for (size_t i = 0; i < c->n_tensors; i++) {
        c->tensors[i].key = mix2(mix2(shared->state, c->step), i);
        draw_tensor(c, shared, &c->tensors[i],
                    options->nbytes_max / c->n_tensors);
    }
}

/* ---- its operands -------------------------------------------------------- */

/* Where in memory that is both the two begin, in elements. */
static size_t send_at(const struct call *c)
{
    return gathers(c) ? c->rdispls[c->rank] : 0;
}

static size_t recv_at(const struct call *c, const struct tensor *t)
{
    return c->kind == STORM_REDUCE_SCATTER ? t->count * (size_t)c->rank : 0;
}

static hvd_status_t take(struct call *c, struct tensor *t, struct chance *own)
{
    size_t width = hvd_dtype_size(c->dtype);
    size_t both = t->n_send > t->n_recv ? t->n_send : t->n_recv;

    t->in_place = c->kind == STORM_BROADCAST ||
                  (c->kind != STORM_ALLTOALLV && one_in(own, 2));
    if (t->in_place) {
        HVD_TRY(block_take(&t->recv, both * width, c->step, own));
        t->sendbuf = t->recv.ptr + send_at(c) * width;
        t->recvbuf = t->recv.ptr + recv_at(c, t) * width;
        return HVD_OK;
    }
    HVD_TRY(block_take(&t->send, t->n_send * width, c->step, own));
    HVD_TRY(block_take(&t->recv, t->n_recv * width, c->step, own));
    t->sendbuf = t->send.ptr;
    t->recvbuf = t->recv.ptr;
    return HVD_OK;
}

static struct values scratch;

static unsigned char *byte_at(const struct call *c, void *buf, size_t element)
{
    return (unsigned char *)buf + element * hvd_dtype_size(c->dtype);
}

static void fill(const struct call *c, const struct tensor *t)
{
    bool is_root = c->kind == STORM_BROADCAST && c->rank == c->root;

    values_of_rank(&scratch, t->key, c->rank, c->dtype, c->op);
    if (exchanges(c)) {
        for (size_t j = 0; j < (size_t)c->size; j++)
            values_fill(&scratch, STRIDE * j,
                        byte_at(c, t->sendbuf, c->sdispls[j]),
                        c->sendcounts[j]);
        return;
    }
    values_fill(&scratch, 0, t->sendbuf, is_root ? t->count : t->n_send);
    if (is_root)
        block_freeze(&t->recv);
}

hvd_status_t call_prepare(struct call *c, const struct call_options *options,
                          uint64_t step, int number, struct chance *own)
{
    struct chance shared = {
        mix2(mix2(options->seed, step / options->repeat), (uint64_t)number)};
    struct chance where = {mix(shared.state)};

    memset(c, 0, sizeof(*c));
    c->step = step;
    c->number = number;
    c->comm = sets_draw(&where);
    c->rank = c->comm == NULL ? hvd_rank() : hvd_comm_rank(c->comm);
    c->size = c->comm == NULL ? hvd_size() : hvd_comm_size(c->comm);
    if (c->rank < 0)
        return HVD_OK;
    draw_call(c, options, &shared);
    for (size_t i = 0; i < c->n_tensors; i++) {
        HVD_TRY(take(c, &c->tensors[i], own));
        fill(c, &c->tensors[i]);
        if (!c->tensors[i].in_place)
            block_freeze(&c->tensors[i].send);
    }
    return HVD_OK;
}

/* ---- the call ------------------------------------------------------------ */

bool call_is_named(const struct call_options *options, uint64_t step,
                   int number)
{
    struct chance shared = {
        mix2(mix2(step / options->repeat, options->seed), (uint64_t)number)};

    return options->named && one_in(&shared, 2);
}

static hvd_status_t issue_group(struct call *c, const hvd_options_t *options,
                                hvd_request_t **request_p)
{
    const void *sendbufs[STORM_TENSORS_MAX];
    void *recvbufs[STORM_TENSORS_MAX];
    size_t counts[STORM_TENSORS_MAX];

    for (size_t i = 0; i < c->n_tensors; i++) {
        sendbufs[i] = c->tensors[i].sendbuf;
        recvbufs[i] = c->tensors[i].recvbuf;
        counts[i] = c->tensors[i].count;
    }
    return hvd_grouped_allreduce_with(c->n_tensors, sendbufs, recvbufs, counts,
                                      c->dtype, c->op, options, request_p);
}

/* As the ranks have told each other: what they drew alike. */
static void *place(const size_t *counts, int size, void *arg)
{
    struct call *c = arg;

    if (size == c->size &&
        memcmp(counts, c->recvcounts, (size_t)size * sizeof(*counts)) == 0)
        return c->tensors[0].recvbuf;
    fprintf(stderr, "WRONG: counts of call %d of step %" PRIu64 "\n", c->number,
            c->step);
    abort();
}

static hvd_status_t issue_varied(struct call *c, const hvd_options_t *options,
                                 hvd_request_t **request_p)
{
    const struct tensor *t = &c->tensors[0];
    bool all = c->kind == STORM_ALLTOALLV;

    if (c->counts_open && all)
        return hvd_alltoallv_place(t->sendbuf, c->sendcounts, c->sdispls,
                                   c->dtype, place, c, options, request_p);
    if (c->counts_open)
        return hvd_allgatherv_place(t->sendbuf, t->count, c->dtype, place, c,
                                    options, request_p);
    if (all)
        return hvd_alltoallv_with(t->sendbuf, c->sendcounts, c->sdispls,
                                  t->recvbuf, c->recvcounts, c->rdispls,
                                  c->dtype, options, request_p);
    return hvd_allgatherv_with(t->sendbuf, t->count, t->recvbuf, c->recvcounts,
                               c->rdispls, c->dtype, options, request_p);
}

static hvd_status_t issue_one(struct call *c, const hvd_options_t *options,
                              hvd_request_t **request_p)
{
    const struct tensor *t = &c->tensors[0];

    switch (c->kind) {
    case STORM_ALLREDUCE:
        return hvd_allreduce_with(t->sendbuf, t->recvbuf, t->count, c->dtype,
                                  c->op, options, request_p);
    case STORM_BROADCAST:
        return hvd_broadcast_with(t->recvbuf, t->count, c->dtype, c->root,
                                  options, request_p);
    case STORM_ALLGATHER:
        return hvd_allgather_with(t->sendbuf, t->recvbuf, t->count, c->dtype,
                                  options, request_p);
    case STORM_REDUCE_SCATTER:
        return hvd_reduce_scatter_with(t->sendbuf, t->recvbuf, t->count,
                                       c->dtype, c->op, options, request_p);
    case STORM_ALLTOALL:
        return hvd_alltoall_with(t->sendbuf, t->recvbuf, t->count, c->dtype,
                                 options, request_p);
    case STORM_GROUPED:
        return issue_group(c, options, request_p);
    case STORM_BARRIER:
        return hvd_barrier_with(options, request_p);
    default:
        return issue_varied(c, options, request_p);
    }
}

/* The same keys again, whatever they meant before. */
hvd_status_t call_issue(struct call *c, enum issue how)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    char name[32];

    snprintf(name, sizeof(name), "call %d", c->number);
    c->named = how == ISSUE_NAMED;
    options.comm = c->comm;
    options.label = name;
    options.key = c->named ? name : NULL;
    return issue_one(c, &options, how == ISSUE_BLOCKING ? NULL : &c->request);
}

/* ---- what came of it ----------------------------------------------------- */

static void wrong(const struct call *c, const struct tensor *t,
                  const char *what, const struct difference *d)
{
    fprintf(stderr,
            "WRONG: %s: %s %s %s, count %zu, root %d, step %" PRIu64 " call %d "
            "tensor %d, rank %d of %d, %s%s -> %s, [%zu]: got %s, "
            "expected %s\n",
            what, kind_names[c->kind], dtype_names[c->dtype], op_names[c->op],
            t->count, c->root, c->step, c->number, (int)(t - c->tensors),
            c->rank, c->size, t->in_place ? "in place " : "",
            place_name(t->in_place ? t->recv.place : t->send.place),
            place_name(t->recv.place), d->index, d->got, d->wanted);
    abort();
}

/* buf [count] is the elements of `scratch` from `first` on. */
static void must_be(const struct call *c, const struct tensor *t,
                    const char *what, size_t first, const void *buf,
                    size_t count)
{
    struct difference d;

    if (values_differ(&scratch, first, buf, count, &d))
        wrong(c, t, what, &d);
}

/* What others sent, each for itself. */
static void check_moved(const struct call *c, const struct tensor *t)
{
    size_t first = exchanges(c) ? STRIDE * (size_t)c->rank : 0;

    for (int rank = 0; rank < c->size; rank++) {
        values_of_rank(&scratch, t->key, rank, c->dtype, c->op);
        must_be(c, t, "block of a rank", first,
                byte_at(c, t->recvbuf, c->rdispls[rank]), c->recvcounts[rank]);
    }
}

static void check_result(const struct call *c, const struct tensor *t)
{
    if (gathers(c) || exchanges(c)) {
        check_moved(c, t);
    } else if (c->kind == STORM_BROADCAST) {
        values_of_rank(&scratch, t->key, c->root, c->dtype, c->op);
        must_be(c, t, "broadcast", 0, t->recvbuf, t->count);
    } else {
        values_reduced(&scratch, t->key, c->size, c->dtype, c->op);
        must_be(c, t, "reduced", recv_at(c, t), t->recvbuf, t->n_recv);
    }
}

/* What was only to be read is what it was. */
static void check_operand(const struct call *c, const struct tensor *t)
{
    values_of_rank(&scratch, t->key, c->rank, c->dtype, c->op);
    if (!exchanges(c)) {
        must_be(c, t, "operand", 0, t->sendbuf, t->n_send);
        return;
    }
    for (size_t j = 0; j < (size_t)c->size; j++)
        must_be(c, t, "operand", STRIDE * j,
                byte_at(c, t->sendbuf, c->sdispls[j]), c->sendcounts[j]);
}

void call_check(const struct call *c)
{
    for (size_t i = 0; i < c->n_tensors; i++) {
        check_result(c, &c->tensors[i]);
        if (!c->tensors[i].in_place)
            check_operand(c, &c->tensors[i]);
    }
}

void call_bury(struct call *c)
{
    static const struct difference none = {0, "another byte", "the guard"};

    for (size_t i = 0; i < c->n_tensors; i++) {
        struct tensor *t = &c->tensors[i];

        if (!block_guards_stand(&t->send))
            wrong(c, t, "beside the operand", &none);
        if (!block_guards_stand(&t->recv))
            wrong(c, t, "beside the result", &none);
        block_bury(&t->send);
        block_bury(&t->recv);
    }
}
