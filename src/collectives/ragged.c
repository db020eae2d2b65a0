/* collectives/ragged.c - see ragged.h. */
#include "collectives/ragged.h"

#include "base/error.h"
#include "collectives/comm_impl.h"
#include "collectives/request.h"

_Static_assert(sizeof(size_t) == sizeof(int64_t), "counts are sent as int64");

/* --- preparation --- */

hvd_status_t ragged_check(const struct hvd_collective_args *args)
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
    size_t size = (size_t)r->comm->config.size;

    r->ragged.on = r->args.place != NULL;
    if (!r->ragged.on)
        return;
    r->ragged.own = r->args.count;
    r->args.recvcounts = r->counts + 2 * size;
    r->args.rdispls = r->counts + 3 * size;
    r->n_parts = 2;
}

/* --- parts --- */

static size_t *recvcounts_of(const struct hvd_request *r)
{
    return r->counts + 2 * (size_t)r->comm->config.size;
}

static struct collective_args args_of(const struct hvd_request *r)
{
    bool all = r->args.kind == HVD_COLLECTIVE_ALLTOALLV;
    struct collective_args args = {.struct_size = sizeof(args),
                                   .recvbuf = recvcounts_of(r),
                                   .count = 1,
                                   .dtype = HVD_INT64,
                                   .memory = HVD_MEMORY_HOST};

    if (r->part_i > 0)
        return r->args;
    args.kind = all ? HVD_COLLECTIVE_ALLTOALL : HVD_COLLECTIVE_ALLGATHER;
    args.sendbuf = all ? r->args.sendcounts : &r->ragged.own;
    return args;
}

/* Ranks that call something else find out by the first part, which is no call
 * of its own; counts that cannot be end the comm. */
hvd_status_t ragged_begin(struct comm *comm, const struct hvd_request *r,
                          struct collective_args *args_p, struct call *call_p)
{
    *args_p = args_of(r);
    if (call_check(args_p, comm->config.rank, comm->config.size, call_p) !=
        HVD_OK) {
        (void)comm_fail(comm, HVD_ERR_INVALID, "%s", error_text());
        return comm_end(comm);
    }
    call_p->head.sequence = r->call.head.sequence + r->part_i;
    if (r->part_i == 0) {
        call_p->head.dtype = r->call.head.dtype;
        call_p->head.op = CALL_OP_COUNTS;
    }
    return HVD_OK;
}

static hvd_status_t find_place(struct comm *comm, struct hvd_request *r)
{
    size_t *counts = recvcounts_of(r), *displs = (size_t *)r->args.rdispls;
    int size = comm->config.size;
    size_t total = 0;

    for (int i = 0; i < size; i++) {
        displs[i] = total;
        total += counts[i];
    }
    r->args.recvbuf = r->args.place(r->args.place_arg, counts, size);
    if (r->args.recvbuf != NULL || total == 0)
        return HVD_OK;
    /* the others have begun: this rank cannot go back */
    (void)comm_fail(comm, HVD_ERR_NOMEM, "%s: no place for %zu elements",
                    call_kind_name((unsigned)r->args.kind), total);
    return comm_end(comm);
}

hvd_status_t ragged_end(struct comm *comm, struct hvd_request *r)
{
    return r->part_i == 0 ? find_place(comm, r) : HVD_OK;
}
