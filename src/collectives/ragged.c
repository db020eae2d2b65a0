/* collectives/ragged.c - see ragged.h. */
#include "collectives/ragged.h"

#include <string.h>

#include "base/error.h"
#include "collectives/comm_impl.h"
#include "collectives/request.h"

_Static_assert(sizeof(size_t) == sizeof(int64_t), "counts are sent as int64");

/* --- preparation --- */

hvd_status_t ragged_admit(const struct collective_args *args)
{
    const struct kind *kind = kind_of((int)args->kind);

    if (args->place == NULL)
        return HVD_OK;
    if (kind == NULL || !kind_is_varied(kind))
        return error_set(HVD_ERR_INVALID,
                         "%s: place is for allgatherv and alltoallv",
                         call_kind_name((unsigned)args->kind));
    if (args->recvbuf != NULL || args->recvcounts != NULL ||
        args->rdispls != NULL)
        return error_set(HVD_ERR_INVALID,
                         "%s: place is instead of recvbuf, recvcounts and "
                         "rdispls",
                         kind->name);
    if (is_on_device(args))
        return error_set(HVD_ERR_UNSUPPORTED, "%s: place, on a device",
                         kind->name);
    return HVD_OK;
}

void ragged_prepare(struct hvd_request *r)
{
    int size = r->comm->config.size;

    r->ragged.on = r->args.place != NULL;
    r->ragged.result = NULL;
    r->ragged.result_p = NULL;
    if (!r->ragged.on)
        return;
    r->ragged.size = size;
    r->ragged.counts = r->counts + 2 * (size_t)size;
    r->ragged.own = r->args.count;
    r->args.recvcounts = r->ragged.counts;
    r->args.rdispls = r->ragged.counts + size;
    r->n_parts = size > 1 ? 2 : 1;
}

/* --- parts --- */

static struct collective_args args_of(const struct hvd_request *r)
{
    bool all = r->args.kind == COLLECTIVE_ALLTOALLV;
    struct collective_args args = {.recvbuf = r->ragged.counts,
                                   .count = 1,
                                   .dtype = HVD_INT64,
                                   .memory = HVD_MEMORY_HOST};

    if (r->part_i > 0)
        return r->args;
    args.kind = all ? COLLECTIVE_ALLTOALL : COLLECTIVE_ALLGATHER;
    args.sendbuf = all ? r->args.sendcounts : &r->ragged.own;
    return args;
}

/* Ranks that call something else find out by the first part, which is no call
 * of its own. */
hvd_status_t ragged_begin(struct comm *comm, const struct hvd_request *r,
                          struct collective_args *args_p, struct call *call_p)
{
    *args_p = args_of(r);
    HVD_TRY(request_check_part(comm, r, args_p, call_p));
    if (r->part_i > 0)
        return HVD_OK;
    call_p->head.dtype = r->call.head.dtype;
    call_p->head.op = CALL_OP_COUNTS;
    return HVD_OK;
}

static __thread bool placing;

bool ragged_is_placing(void)
{
    return placing;
}

static void *take_memory(size_t count, size_t elem_nbytes)
{
    size_t nbytes;

    return __builtin_mul_overflow(count, elem_nbytes, &nbytes)
               ? NULL
               : hvd_alloc(nbytes);
}

static void *ask_for_place(const struct hvd_request *r, const size_t *counts)
{
    void *place;

    placing = true;
    place = r->args.place(counts, r->ragged.size, r->args.place_arg);
    placing = false;
    return place;
}

/* The counts are there. */
static hvd_status_t find_place(struct hvd_request *r)
{
    size_t *counts = r->ragged.counts, *displs = counts + r->ragged.size;
    const char *kind = call_kind_name((unsigned)r->args.kind);
    size_t total = 0;

    for (int i = 0; i < r->ragged.size; i++) {
        displs[i] = total;
        if (__builtin_add_overflow(total, counts[i], &total))
            return error_set(HVD_ERR_INVALID, "%s: counts overflow", kind);
    }
    if (r->args.place != ragged_own_place)
        r->args.recvbuf = ask_for_place(r, counts);
    else if (total > 0)
        r->args.recvbuf = r->ragged.result = take_memory(total,
                                                         r->call.elem_nbytes);
    if (r->args.recvbuf != NULL || total == 0)
        return HVD_OK;
    return error_set(HVD_ERR_NOMEM, "%s: no place for %zu elements", kind,
                     total);
}

hvd_status_t ragged_end(struct comm *comm, struct hvd_request *r)
{
    hvd_status_t status = r->part_i == 0 ? find_place(r) : HVD_OK;

    if (status == HVD_OK)
        return HVD_OK;
    /* the others have begun: this rank cannot go back */
    (void)comm_fail(comm, status, "%s", error_text());
    return comm_end(comm);
}

void *ragged_own_place(const size_t *counts, int size, void *arg)
{
    return NULL;
}

void ragged_hand_over(struct hvd_request *r)
{
    struct ragged *g = &r->ragged;

    if (g->result_p == NULL)
        return;
    *g->result_p = g->result;
    if (g->counts_p != NULL)
        memcpy(g->counts_p, g->counts, (size_t)g->size * sizeof(*g->counts));
    g->result = NULL;
}

void ragged_drop(struct hvd_request *r)
{
    hvd_free(r->ragged.result);
    r->ragged.result = NULL;
}

/* --- alone --- */

static hvd_status_t move_own(struct hvd_request *r)
{
    bool all = r->args.kind == COLLECTIVE_ALLTOALLV;
    size_t n = all ? r->args.sendcounts[0] : r->ragged.own;
    size_t elem = r->call.elem_nbytes, at = all ? r->args.sdispls[0] : 0;
    struct call call;

    r->ragged.counts[0] = n;
    HVD_TRY(find_place(r));
    HVD_TRY(call_check(&r->args, 0, 1, &call));
    if (n > 0)
        memmove(r->args.recvbuf, (const uint8_t *)r->args.sendbuf + at * elem,
                n * elem);
    return HVD_OK;
}

void ragged_run_alone(struct hvd_request *r)
{
    if (!request_done(r) && r->ragged.on && r->ragged.size == 1)
        request_end(r, move_own(r));
}
