/* collectives/by_name_joined.c - calls by name while ranks have joined: those
 * without data stand in with what changes nothing, and the mean is that of the
 * others. See by_name.h.
 *
 * A rank that has joined knows of a call what all ranks agree on, and so not
 * how a group's elements are spread over its tensors: a group is one tensor for
 * that time, packed. Nothing is fused.
 *
 * Threads: the driver. Memory: a buffer, as large as the largest such call. */
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "collectives/by_name_impl.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "collectives/lending.h"
#include "collectives/reduce/identity.h"
#include "collectives/reduce/reduce.h"

bool by_name_runs_joined(const struct signature *s)
{
    bool adasum = s->op == HVD_ADASUM && s->digest != 0; /* of a group */

    return (s->kind == COLLECTIVE_ALLREDUCE && !adasum) ||
           s->kind == COLLECTIVE_BARRIER;
}

hvd_status_t by_name_refuse_joined(const struct by_name *b,
                                   const struct hvd_request *r)
{
    return error_set(HVD_ERR_MISMATCH,
                     "%s '%s': rank %d has joined, and takes part in allreduce "
                     "(adasum of one tensor) and barrier alone",
                     call_kind_name(r->call.head.kind), r->name,
                     negotiator_first_joined(b->negotiator));
}

static hvd_op_t op_of(const struct signature *s)
{
    return s->op == HVD_AVERAGE ? HVD_SUM : (hvd_op_t)s->op;
}

/* --- before and behind --- */

/* Without scales: who has no data has nothing to scale. */
static struct collective_args stand_in_args(const struct signature *s,
                                            void *buffer)
{
    return (struct collective_args){.kind = (enum collective_kind)s->kind,
                                    .sendbuf = buffer,
                                    .recvbuf = buffer,
                                    .count = s->count,
                                    .dtype = (hvd_dtype_t)s->dtype,
                                    .op = op_of(s),
                                    .name = "joined"};
}

/* A group, where it is packed. */
static hvd_status_t stand_in_packed(struct by_name *b, struct hvd_request *r,
                                    uint8_t **buffer_p)
{
    if (is_on_device(&r->args))
        return on_device_pack(b->comm, r, buffer_p);
    (void)request_pack(r, *buffer_p);
    return HVD_OK;
}

hvd_status_t by_name_stand_in(struct by_name *b, const struct batch_item *item,
                              struct collective_args *args_p)
{
    const struct signature *s = &item->signature;
    size_t nbytes = s->count * hvd_dtype_size((hvd_dtype_t)s->dtype);
    uint8_t *buffer;

    if (!array_reserve(&b->stand_in, &b->stand_in_max, nbytes + 1))
        return by_name_no_memory(b);
    buffer = b->stand_in;
    if (item->call != NULL)
        HVD_TRY(stand_in_packed(b, item->call, &buffer));
    *args_p = stand_in_args(s, buffer);
    if (item->call == NULL) {
        reduce_identity(args_p->dtype, args_p->op, buffer, s->count);
        return HVD_OK;
    }
    args_p->scaled = true;
    args_p->prescale = s->prescale;
    args_p->postscale = s->postscale;
    return HVD_OK;
}

/* By how many the sum is divided; 1: it is none. */
static int divisor_of(const struct by_name *b, const struct batch_item *item)
{
    const struct signature *s = &item->signature;

    if (s->op != HVD_AVERAGE || s->kind != COLLECTIVE_ALLREDUCE)
        return 1;
    if (s->way & SIGNATURE_OF_ALL)
        return b->comm->config.size;
    return (int)item->n_data;
}

/* On a device it has to be done before the result goes there. */
static void scale_down(struct hvd_request *r, int n)
{
    double *factor = r->compression.on ? &r->compression.postscale
                                       : &r->args.postscale;

    *factor /= n;
}

void by_name_begin_joined(const struct by_name *b,
                          const struct batch_item *item)
{
    struct hvd_request *r = item->call;
    int n = divisor_of(b, item);

    r->args.op = op_of(&item->signature);
    r->call.head.op = (uint8_t)r->args.op;
    r->call.head.root = 0; /* ranks that stand in know the wire's dtype alone */
    if (is_on_device(&r->args) && n > 1)
        scale_down(r, n);
}

static void divide(const struct hvd_request *r, int n)
{
    const struct compression *c = &r->compression;

    if (c->on)
        reduce_divide(c->dtype, c->recv, r->args.count, n);
    else
        reduce_divide(r->args.dtype, r->args.recvbuf, r->args.count, n);
}

static hvd_status_t finish_group(const struct by_name *b, struct hvd_request *r,
                                 int n)
{
    bool there = is_on_device(&r->args);
    uint8_t *packed = there ? r->device.staging->memory : b->stand_in;

    if (n > 1)
        reduce_divide(r->args.dtype, packed, request_count(r), n);
    if (there)
        return on_device_unpack(b->comm, r);
    (void)request_unpack(r, packed);
    return HVD_OK;
}

hvd_status_t by_name_finish_joined(const struct by_name *b,
                                   const struct batch_item *item)
{
    struct hvd_request *r = item->call;
    int n = divisor_of(b, item);

    if (r == NULL)
        return HVD_OK;
    if (r->n_tensors > 0)
        return finish_group(b, r, n);
    if (n > 1 && !is_on_device(&r->args))
        divide(r, n);
    return HVD_OK;
}
