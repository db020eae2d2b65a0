/* collectives/adasum.c - see adasum.h. */
#include "collectives/adasum.h"

#include <stdlib.h>
#include <string.h>

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

hvd_status_t adasum_admit(const struct hvd_collective_args *args, bool group)
{
    if (args->kind != HVD_COLLECTIVE_ALLREDUCE || args->op != HVD_ADASUM)
        return HVD_OK;
    if (group)
        return error_set(HVD_ERR_UNSUPPORTED, "allreduce: adasum of a group");
    if (args->flags & SIGNATURE_HALVES)
        return error_set(HVD_ERR_INVALID,
                         "allreduce: adasum, and 16 bits on the way");
    return HVD_OK;
}

void adasum_prepare(struct hvd_request *r)
{
    struct adasum *a = &r->adasum;
    size_t size = (size_t)r->comm->config.size, count = r->args.count;

    a->on = r->args.kind == HVD_COLLECTIVE_ALLREDUCE &&
            r->args.op == HVD_ADASUM && count > 0 && size > 1;
    if (!a->on)
        return;
    a->piece = (count + size - 1) / size;
    r->n_parts = levels_of(size) + 2;
}

/* Exactly: it may be as large as a model. */
static bool reserve(struct adasum_memory *m, size_t size, size_t nbytes)
{
    if (m->products == NULL)
        m->products = calloc(size, sizeof(*m->products));
    if (m->products == NULL || nbytes <= m->nbytes)
        return m->products != NULL;
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
    free(m->products);
}

/* --- of this rank's memory --- */

/* Between the program's buffer and ours. */
static hvd_status_t copy_all(struct comm *comm, const struct hvd_request *r,
                             void *dst, const void *src, double factor)
{
    size_t count = r->args.count;

    if (factor != 0)
        return request_scale(comm, r->args.dtype, dst, src, count, factor);
    if (operation_copy(comm, dst, src, count * r->call.elem_nbytes) != HVD_OK)
        return comm_end(comm);
    return HVD_OK;
}

static hvd_status_t fill(struct comm *comm, struct hvd_request *r)
{
    struct adasum_memory *m = &comm->adasum;
    size_t elem = r->call.elem_nbytes, count = r->args.count;
    size_t size = (size_t)comm->config.size, padded = r->adasum.piece * size;

    if (!reserve(m, size, padded * elem)) {
        /* the others have begun: this rank cannot go back */
        (void)comm_fail(comm, HVD_ERR_NOMEM, "adasum of %zu elements", count);
        return comm_end(comm);
    }
    HVD_TRY(copy_all(comm, r, m->whole, r->args.sendbuf, r->args.prescale));
    memset(m->whole + count * elem, 0, (padded - count) * elem);
    r->adasum.n_left = size;
    return HVD_OK;
}

static uint8_t *piece_of(const struct hvd_request *r, size_t i)
{
    return r->comm->adasum.pieces + i * r->adasum.piece * r->call.elem_nbytes;
}

static hvd_status_t multiply(struct comm *comm, struct hvd_request *r)
{
    const struct adasum *a = &r->adasum;
    struct adasum_products *products = comm->adasum.products;
    size_t elem = r->call.elem_nbytes;

    for (size_t k = 0; k < a->n_left / 2; k++) {
        const uint8_t *x = piece_of(r, 2 * k), *y = piece_of(r, 2 * k + 1);

        products[k] = (struct adasum_products){0, 0, 0};
        for (size_t i = 0, n; i < a->piece; i += n) {
            n = comm_piece(comm, i, a->piece);
            if (n == 0)
                return comm_end(comm);
            adasum_add_products(r->args.dtype, x + i * elem, y + i * elem, n,
                                &products[k]);
        }
    }
    return HVD_OK;
}

static hvd_status_t combine(struct comm *comm, struct hvd_request *r)
{
    struct adasum *a = &r->adasum;
    size_t elem = r->call.elem_nbytes, n_pairs = a->n_left / 2;

    for (size_t k = 0; k < n_pairs; k++) {
        uint8_t *to = piece_of(r, k);
        const uint8_t *x = piece_of(r, 2 * k), *y = piece_of(r, 2 * k + 1);

        for (size_t i = 0, n; i < a->piece; i += n) {
            n = comm_piece(comm, i, a->piece);
            if (n == 0)
                return comm_end(comm);
            adasum_combine(r->args.dtype, to + i * elem, x + i * elem,
                           y + i * elem, n, &comm->adasum.products[k]);
        }
    }
    if (a->n_left % 2 == 1)
        memcpy(piece_of(r, n_pairs), piece_of(r, a->n_left - 1),
               a->piece * elem);
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
    struct collective_args args = {.struct_size = sizeof(args),
                                   .kind = HVD_COLLECTIVE_ALLREDUCE,
                                   .sendbuf = m->products,
                                   .recvbuf = m->products,
                                   .count = r->adasum.n_left / 2 * 3,
                                   .dtype = HVD_FLOAT64,
                                   .op = HVD_SUM};

    _Static_assert(sizeof(*m->products) == 3 * sizeof(double), "products");
    if (r->part_i > 0 && !is_last(r))
        return args;
    args.kind = is_last(r) ? HVD_COLLECTIVE_ALLGATHER : HVD_COLLECTIVE_ALLTOALL;
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
    if (args->kind != HVD_COLLECTIVE_ALLREDUCE) {
        call_p->head.op = HVD_ADASUM;
        call_p->head.count = r->call.head.count;
    }
    return HVD_OK;
}

hvd_status_t adasum_begin(struct comm *comm, struct hvd_request *r,
                          struct collective_args *args_p, struct call *call_p)
{
    if (r->part_i == 0)
        HVD_TRY(fill(comm, r));
    else if (!is_last(r))
        HVD_TRY(multiply(comm, r));
    *args_p = args_of(r);
    return check_part(comm, r, args_p, call_p);
}

hvd_status_t adasum_end(struct comm *comm, struct hvd_request *r)
{
    if (is_last(r))
        return copy_all(comm, r, r->args.recvbuf, comm->adasum.whole,
                        r->args.postscale);
    return r->part_i > 0 ? combine(comm, r) : HVD_OK;
}
