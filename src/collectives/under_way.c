/* collectives/under_way.c - a request under way: its parts packed, scaled, run
 * and unpacked one after the other. See request.h.
 *
 * Threads: whoever drives the comm. Memory: the comm's fusion buffer, from the
 * first packed part on. */
#include "base/error.h"
#include "collectives/comm_impl.h"
#include "collectives/reduce/scale.h"
#include "collectives/request.h"
#include "timeline/timeline.h"

bool request_reserve_fusion(struct comm *comm)
{
    if (comm->fusion == NULL)
        comm->fusion = hvd_alloc(FUSION_BUFFER_NBYTES);
    return comm->fusion != NULL;
}

static struct timeline_call shown(const struct hvd_request *r)
{
    struct timeline_call call = operation_shown(&r->args, r->call.elem_nbytes);

    call.name = r->label[0] != '\0' ? r->label : "asynchronous";
    return call;
}

void request_show(const struct hvd_request *r, enum timeline_phase phase,
                  uint64_t since_ns, uint64_t until_ns)
{
    struct timeline_call call;

    if (!timeline_on())
        return;
    call = shown(r);
    if (phase == TIMELINE_QUEUE && r->label[0] == '\0')
        call.name = NULL; /* these overlap */
    timeline_call(phase, since_ns, until_ns, &call);
}

static void show_phases(const struct comm *comm, const struct hvd_request *r)
{
    struct timeline_call call = shown(r);

    operation_show(comm, &call);
}

hvd_status_t request_scale(struct comm *comm, hvd_dtype_t dtype, void *dst,
                           const void *src, size_t count, double factor)
{
    size_t elem = hvd_dtype_size(dtype);

    for (size_t i = 0, n; i < count; i += n) {
        n = comm_piece(comm, i, count);
        if (n == 0)
            return comm_end(comm);
        scale(dtype, (uint8_t *)dst + i * elem, (const uint8_t *)src + i * elem,
              n, factor);
    }
    return HVD_OK;
}

/* Small tensors of a group, one behind the other. */
static hvd_status_t pack(struct comm *comm, const struct hvd_request *r)
{
    const struct fusion_part *packed = request_packed(r);
    uint64_t since_ns;

    if (packed == NULL)
        return HVD_OK;
    if (!request_reserve_fusion(comm)) {
        /* the others have begun: this rank cannot go back */
        (void)comm_fail(comm, HVD_ERR_NOMEM, "a fusion buffer");
        return comm_end(comm);
    }
    since_ns = timeline_call_clock();
    fusion_pack(r->tensors, packed, r->call.elem_nbytes, comm->fusion);
    request_show(r, TIMELINE_MEMCPY_IN, since_ns, timeline_call_clock());
    return HVD_OK;
}

/* The call that the part is, its buffers filled. */
static hvd_status_t make_call(struct comm *comm, struct hvd_request *r,
                              struct collective_args *args_p,
                              struct call *call_p)
{
    if (r->adasum.on)
        return adasum_begin(comm, r, args_p, call_p);
    if (r->ragged.on)
        return ragged_begin(comm, r, args_p, call_p);
    HVD_TRY(pack(comm, r));
    request_part(r, comm->fusion, args_p, call_p);
    if (args_p->prescale == 1)
        return HVD_OK;
    HVD_TRY(request_scale(comm, args_p->dtype, args_p->recvbuf, args_p->sendbuf,
                          args_p->count, args_p->prescale));
    args_p->sendbuf = args_p->recvbuf;
    return HVD_OK;
}

/* Is its device's work done by others than the engine? */
static bool is_given_away(const struct hvd_request *r)
{
    return r->device.way == ON_DEVICE_NCCL || r->device.way == ON_DEVICE_ALONE;
}

/* HVD_OK, and comm->op is active; or the part is over at once. */
static hvd_status_t begin_part(struct comm *comm, struct hvd_request *r)
{
    struct collective_args args;
    struct call call;

    if (comm_status(comm, NULL) != HVD_OK)
        return comm_end(comm);
    if (comm_life(comm) == COMM_FINISHED)
        return error_set(HVD_ERR_STATE, "this rank has finished");
    if (request_begin(r)) {
        r->begun_ns = timeline_call_clock();
        request_show(r, TIMELINE_QUEUE, r->posted_ns, r->begun_ns);
    }
    if (r->device.way != ON_DEVICE_NOT && r->part_i == 0)
        HVD_TRY(on_device_begin(comm, r));
    if (r->compression.on)
        HVD_TRY(compression_begin(comm, r));
    if (is_given_away(r))
        return HVD_OK;
    HVD_TRY(make_call(comm, r, &args, &call));
    return comm_begin(comm, &args, &call);
}

/* Where the part lies, packed or not. */
static hvd_status_t scale_result(struct comm *comm, const struct hvd_request *r)
{
    struct collective_args args;
    struct call call;

    if (r->args.postscale == 1)
        return HVD_OK;
    request_part(r, comm->fusion, &args, &call);
    return request_scale(comm, args.dtype, args.recvbuf, args.recvbuf,
                         args.count, args.postscale);
}

static hvd_status_t end_part(struct comm *comm, struct hvd_request *r)
{
    const struct fusion_part *packed = request_packed(r);
    uint64_t since_ns;

    if (r->adasum.on)
        HVD_TRY(adasum_end(comm, r));
    else if (r->ragged.on)
        HVD_TRY(ragged_end(comm, r));
    else
        HVD_TRY(scale_result(comm, r));
    since_ns = timeline_call_clock();
    if (packed != NULL && r->device.way != ON_DEVICE_ALONE) {
        fusion_unpack(r->tensors, packed, r->call.elem_nbytes, comm->fusion);
        request_show(r, TIMELINE_MEMCPY_OUT, since_ns, timeline_call_clock());
    }
    if (r->compression.on)
        HVD_TRY(compression_finish(comm, r));
    r->part_i++;
    return r->part_i == r->n_parts ? on_device_finish(comm, r) : HVD_OK;
}

/* A rank counts as waiting in a call until that is over, but who posts one that
 * is over as it is queued may be long in coming back for it. */
hvd_status_t request_start(struct comm *comm, struct hvd_request *r)
{
    comm_count(comm);
    r->device.counted = true;
    return begin_part(comm, r);
}

hvd_status_t request_go_on(struct comm *comm, struct hvd_request *r)
{
    while (r->part_i < r->n_parts) {
        if (!comm->op.active)
            HVD_TRY(begin_part(comm, r));
        if (comm->op.active) {
            HVD_TRY(engine_continue(comm));
            if (comm->op.active)
                return HVD_OK;
            HVD_TRY(operation_finish(comm));
            if (comm->op.begun_ns != 0)
                show_phases(comm, r);
        }
        HVD_TRY(end_part(comm, r));
        if (!r->device.counted)
            comm_count(comm);
        if (comm_kicked(comm))
            return HVD_OK;
    }
    return HVD_OK;
}
