/* collectives/compression.c - see compression.h. */
#include "collectives/compression.h"

#include "base/error.h"
#include "collectives/comm_impl.h"
#include "collectives/lending.h"
#include "collectives/on_device.h"
#include "collectives/reduce/convert.h"
#include "collectives/request.h"

enum { WIRE_ELEM = 2 };

/* --- at the door --- */

static hvd_status_t invalid(const struct hvd_request *r, const char *why)
{
    return error_set(HVD_ERR_INVALID, "%s: %s",
                     call_kind_name((unsigned)r->args.kind), why);
}

static hvd_status_t check(const struct hvd_request *r)
{
    const struct collective_args *args = &r->args;
    size_t nbytes = r->call.recv_nbytes;

    if (args->kind != COLLECTIVE_ALLREDUCE || !convert_applies(args->dtype))
        return invalid(r, "wire_dtype is for allreduce of float32 and float64");
    if (args->wire_dtype != HVD_FLOAT16 && args->wire_dtype != HVD_BFLOAT16)
        return invalid(r, "wire_dtype is float16 or bfloat16");
    if (args->residual &&
        (call_overlap(args->residual, nbytes, args->sendbuf, nbytes) ||
         call_overlap(args->residual, nbytes, args->recvbuf, nbytes)))
        return invalid(r, "residual overlaps a buffer");
    return HVD_OK;
}

static void take_over(struct compression *c, const struct collective_args *args)
{
    c->dtype = args->dtype;
    c->send = args->sendbuf;
    c->recv = args->recvbuf;
    c->residual = args->residual;
    c->prescale = args->prescale;
    c->postscale = args->postscale;
    c->on = true;
}

hvd_status_t compression_prepare(struct hvd_request *r, bool group)
{
    struct compression *c = &r->compression;
    struct collective_args *args = &r->args;
    hvd_status_t status;

    c->on = false;
    if (args->wire_dtype == HVD_DTYPE_SAME)
        return args->residual ? invalid(r, "residual is for wire_dtype")
                              : HVD_OK;
    if (group)
        return invalid(r, "wire_dtype is not for a group");
    HVD_TRY(check(r));
    HVD_TRY(lending_take(LENDING_HOST, args->count * WIRE_ELEM, &c->wire));
    take_over(c, args);
    args->sendbuf = args->recvbuf = c->wire->memory;
    args->dtype = args->wire_dtype;
    args->prescale = args->postscale = 1;
    status = call_check(args, r->comm->config.rank, r->comm->config.size,
                        &r->call);
    r->call.head.root = -(int32_t)c->dtype; /* for the ranks to compare */
    return status;
}

void compression_drop(struct compression *c)
{
    lending_give(c->wire);
    c->wire = NULL;
}

/* --- on the way --- */

hvd_status_t compression_begin(struct comm *comm, struct hvd_request *r)
{
    const struct compression *c = &r->compression;
    size_t elem = hvd_dtype_size(c->dtype), count = r->args.count;

    for (size_t at = 0, n; at < count; at += n) {
        n = comm_piece(comm, at, count);
        if (n == 0)
            return comm_end(comm);
        convert_narrow(r->args.dtype, c->wire->memory + at * WIRE_ELEM,
                       c->dtype, c->send + at * elem, n, c->prescale,
                       c->residual ? c->residual + at * elem : NULL);
    }
    return HVD_OK;
}

hvd_status_t compression_finish(struct comm *comm, struct hvd_request *r)
{
    const struct compression *c = &r->compression;
    size_t elem = hvd_dtype_size(c->dtype), count = r->args.count;

    for (size_t at = 0, n; at < count; at += n) {
        n = comm_piece(comm, at, count);
        if (n == 0)
            return comm_end(comm);
        convert_widen(c->dtype, c->recv + at * elem, r->args.dtype,
                      c->wire->memory + at * WIRE_ELEM, n, c->postscale);
    }
    return HVD_OK;
}
