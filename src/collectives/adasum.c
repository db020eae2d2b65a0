/* collectives/adasum.c - see adasum.h. */
#include "collectives/adasum.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "collectives/comm_impl.h"
#include "collectives/request.h"

/* --- preparation --- */

static size_t levels_of(size_t n)
{
    size_t levels = 0;

    for (; n > 1; n = (n + 1) / 2)
        levels++;
    return levels;
}

hvd_status_t adasum_admit(const struct collective_args *args)
{
    if (args->kind != COLLECTIVE_ALLREDUCE || args->op != HVD_ADASUM)
        return HVD_OK;
    if (args->wire_dtype != HVD_DTYPE_SAME)
        return error_set(HVD_ERR_INVALID,
                         "allreduce: HVD_ADASUM takes no wire_dtype");
    return HVD_OK;
}

void adasum_prepare(struct hvd_request *r)
{
    struct adasum *a = &r->adasum;
    size_t size = (size_t)r->comm->config.size, count = request_count(r);

    a->on = r->args.kind == COLLECTIVE_ALLREDUCE && r->args.op == HVD_ADASUM &&
            count > 0 && size > 1;
    if (!a->on)
        return;
    a->piece = (count + size - 1) / size;
    r->n_parts = levels_of(size) + 2;
}

/* Exactly: it may be as large as a model. */
static bool reserve(struct adasum_memory *m, size_t n_products, size_t nbytes)
{
    if (!array_reserve(&m->products, &m->products_max, n_products))
        return false;
    if (nbytes <= m->nbytes)
        return true;
    free(m->whole);
    free(m->pieces);
    m->whole = malloc(nbytes);
    m->pieces = malloc(nbytes);
    m->nbytes = m->whole != NULL && m->pieces != NULL ? nbytes : 0;
    return m->nbytes > 0;
}

void adasum_fini(struct adasum_memory *m)
{
    free(m->whole);
    free(m->pieces);
    array_free(&m->products, &m->products_max);
}

/* --- tensors --- */

static size_t n_tensors_of(const struct hvd_request *r)
{
    return r->n_tensors > 0 ? r->n_tensors : 1;
}

static struct fusion_tensor tensor_of(const struct hvd_request *r, size_t i)
{
    return r->n_tensors > 0
               ? r->tensors[i]
               : (struct fusion_tensor){r->args.sendbuf, r->args.recvbuf,
                                        r->args.count};
}

/* Of this rank's piece, what is of one tensor: [n] from `at` on. What fills up
 * the last piece, zeros, goes with the last tensor. */
struct span {
    size_t tensor, end; /* its end, in the whole */
    size_t at, n;
};

static struct span first_span(const struct hvd_request *r)
{
    return (struct span){.end = tensor_of(r, 0).count};
}

/* false: that was the last. */
static bool next_span(const struct hvd_request *r, struct span *s)
{
    size_t piece = r->adasum.piece;
    size_t start = (size_t)r->comm->config.rank * piece;
    bool last;

    s->at += s->n;
    while (s->tensor + 1 < n_tensors_of(r) && s->end <= start + s->at)
        s->end += tensor_of(r, ++s->tensor).count;
    last = s->tensor + 1 == n_tensors_of(r) || s->end >= start + piece;
    s->n = (last ? start + piece : s->end) - (start + s->at);
    return s->n > 0;
}

/* --- of this rank's memory --- */

/* Between the program's buffer and ours. */
static hvd_status_t copy_one(struct comm *comm, const struct hvd_request *r,
                             void *dst, const void *src, size_t count,
                             double factor)
{
    if (factor != 1)
        return request_scale(comm, r->args.dtype, dst, src, count, factor);
    if (operation_copy(comm, dst, src, count * r->call.elem_nbytes) != HVD_OK)
        return comm_end(comm);
    return HVD_OK;
}

static hvd_status_t copy_in(struct comm *comm, const struct hvd_request *r)
{
    uint8_t *to = comm->adasum.whole;

    for (size_t i = 0; i < n_tensors_of(r); i++) {
        struct fusion_tensor t = tensor_of(r, i);

        HVD_TRY(copy_one(comm, r, to, t.sendbuf, t.count, r->args.prescale));
        to += t.count * r->call.elem_nbytes;
    }
    return HVD_OK;
}

static hvd_status_t copy_out(struct comm *comm, const struct hvd_request *r)
{
    const uint8_t *from = comm->adasum.whole;

    for (size_t i = 0; i < n_tensors_of(r); i++) {
        struct fusion_tensor t = tensor_of(r, i);

        HVD_TRY(copy_one(comm, r, t.recvbuf, from, t.count, r->args.postscale));
        from += t.count * r->call.elem_nbytes;
    }
    return HVD_OK;
}

static hvd_status_t fill(struct comm *comm, struct hvd_request *r)
{
    struct adasum_memory *m = &comm->adasum;
    size_t elem = r->call.elem_nbytes, count = request_count(r);
    size_t size = (size_t)comm->config.size, padded = r->adasum.piece * size;

    if (!reserve(m, size / 2 * n_tensors_of(r), padded * elem)) {
        /* the others have begun: this rank cannot go back */
        (void)comm_fail(comm, HVD_ERR_NOMEM, "adasum of %zu elements", count);
        return comm_end(comm);
    }
    HVD_TRY(copy_in(comm, r));
    memset(m->whole + count * elem, 0, (padded - count) * elem);
    r->adasum.n_left = size;
    return HVD_OK;
}

static uint8_t *piece_of(const struct hvd_request *r, size_t i)
{
    return r->comm->adasum.pieces + i * r->adasum.piece * r->call.elem_nbytes;
}

/* Of pair k, in tensor i. */
static struct adasum_products *products_of(const struct hvd_request *r,
                                           size_t k, size_t i)
{
    return r->comm->adasum.products + k * n_tensors_of(r) + i;
}

/* What is done to a span of pair k, x and y, a part of it [n] at a time. */
typedef void pair_fn(const struct hvd_request *r, size_t k, size_t tensor,
                     size_t at, size_t n);

static void multiply(const struct hvd_request *r, size_t k, size_t tensor,
                     size_t at, size_t n)
{
    size_t offset = at * r->call.elem_nbytes;

    adasum_add_products(r->args.dtype, piece_of(r, 2 * k) + offset,
                        piece_of(r, 2 * k + 1) + offset, n,
                        products_of(r, k, tensor));
}

static void combine(const struct hvd_request *r, size_t k, size_t tensor,
                    size_t at, size_t n)
{
    size_t offset = at * r->call.elem_nbytes;

    adasum_combine(r->args.dtype, piece_of(r, k) + offset,
                   piece_of(r, 2 * k) + offset, piece_of(r, 2 * k + 1) + offset,
                   n, products_of(r, k, tensor));
}

static hvd_status_t do_pair(struct comm *comm, const struct hvd_request *r,
                            size_t k, pair_fn *fn)
{
    struct span s = first_span(r);

    while (next_span(r, &s)) {
        for (size_t i = 0, n; i < s.n; i += n) {
            n = comm_piece(comm, i, s.n);
            if (n == 0)
                return comm_end(comm);
            fn(r, k, s.tensor, s.at + i, n);
        }
    }
    return HVD_OK;
}

static hvd_status_t multiply_all(struct comm *comm, const struct hvd_request *r)
{
    size_t n_pairs = r->adasum.n_left / 2;

    memset(products_of(r, 0, 0), 0,
           n_pairs * n_tensors_of(r) * sizeof(struct adasum_products));
    for (size_t k = 0; k < n_pairs; k++)
        HVD_TRY(do_pair(comm, r, k, multiply));
    return HVD_OK;
}

static hvd_status_t combine_all(struct comm *comm, struct hvd_request *r)
{
    struct adasum *a = &r->adasum;
    size_t n_pairs = a->n_left / 2;

    for (size_t k = 0; k < n_pairs; k++)
        HVD_TRY(do_pair(comm, r, k, combine));
    if (a->n_left % 2 == 1)
        memcpy(piece_of(r, n_pairs), piece_of(r, a->n_left - 1),
               a->piece * r->call.elem_nbytes);
    a->n_left -= n_pairs;
    return HVD_OK;
}

/* --- parts --- */

static bool is_last(const struct hvd_request *r)
{
    return r->part_i + 1 == r->n_parts;
}

static struct collective_args args_of(const struct hvd_request *r)
{
    const struct adasum_memory *m = &r->comm->adasum;
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .sendbuf = m->products,
                                   .recvbuf = m->products,
                                   .count = r->adasum.n_left / 2 * 3 *
                                            n_tensors_of(r),
                                   .dtype = HVD_FLOAT64,
                                   .op = HVD_SUM};

    _Static_assert(sizeof(*m->products) == 3 * sizeof(double), "products");
    if (r->part_i > 0 && !is_last(r))
        return args;
    args.kind = is_last(r) ? COLLECTIVE_ALLGATHER : COLLECTIVE_ALLTOALL;
    args.sendbuf = is_last(r) ? m->pieces : m->whole;
    args.recvbuf = is_last(r) ? m->whole : m->pieces;
    args.count = r->adasum.piece;
    args.dtype = r->args.dtype;
    return args;
}

/* Ranks that call something else, or more of it, find out by the first. */
static hvd_status_t check_part(struct comm *comm, const struct hvd_request *r,
                               const struct collective_args *args,
                               struct call *call_p)
{
    HVD_TRY(request_check_part(comm, r, args, call_p));
    if (args->kind != COLLECTIVE_ALLREDUCE) {
        call_p->head.op = HVD_ADASUM;
        call_p->head.count = request_count(r);
        call_p->head.root = r->n_tensors > 0 ? (int32_t)request_digest(r) : 0;
    }
    return HVD_OK;
}

hvd_status_t adasum_begin(struct comm *comm, struct hvd_request *r,
                          struct collective_args *args_p, struct call *call_p)
{
    if (r->part_i == 0)
        HVD_TRY(fill(comm, r));
    else if (!is_last(r))
        HVD_TRY(multiply_all(comm, r));
    *args_p = args_of(r);
    return check_part(comm, r, args_p, call_p);
}

hvd_status_t adasum_end(struct comm *comm, struct hvd_request *r)
{
    if (is_last(r))
        return copy_out(comm, r);
    return r->part_i > 0 ? combine_all(comm, r) : HVD_OK;
}
