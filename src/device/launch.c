/* device/launch.c - what a collective consists of, as calls of NCCL and CUDA on
 * one stream. See impl.h.
 *
 * A communicator that does not block takes what it is told on a thread of its
 * own, which may have to wait for the other ranks: until it has (launch_look),
 * nothing else may be put on the stream, and an event would tell too early. */
#include <string.h>

#include "base/array.h"
#include "base/round.h"
#include "device/impl.h"

enum {
    SMALL_NBYTES = 1 << 20, /* tensors of a group from here on travel as they
                               are */
    PACK_ALIGN = 256,
    BATCH_MAX = 256 /* copies in a call */
};

/* --- words of both --- */

static const struct {
    ncclDataType_t type;
    size_t nbytes;
} types[] = {
    [HVD_INT8] = {ncclInt8, 1},
    [HVD_UINT8] = {ncclUint8, 1},
    [HVD_INT32] = {ncclInt32, 4},
    [HVD_INT64] = {ncclInt64, 8},
    [HVD_FLOAT16] = {ncclFloat16, 2},
    [HVD_BFLOAT16] = {ncclBfloat16, 2},
    [HVD_FLOAT32] = {ncclFloat32, 4},
    [HVD_FLOAT64] = {ncclFloat64, 8},
    /* moved only: any type of that size */
    [HVD_INT16] = {ncclFloat16, 2},
    [HVD_UINT16] = {ncclFloat16, 2},
    [HVD_UINT32] = {ncclUint32, 4},
    [HVD_BOOL] = {ncclUint8, 1},
};

static const ncclRedOp_t ops[] = {
    [HVD_SUM] = ncclSum, [HVD_AVERAGE] = ncclSum,  [HVD_MIN] = ncclMin,
    [HVD_MAX] = ncclMax, [HVD_PRODUCT] = ncclProd,
};

static hvd_status_t refused(const struct launch *l, const char *call,
                            ncclResult_t result)
{
    return error_set(HVD_PEER_LOST, "%s: %s", call,
                     nccl_error(l->nccl, result));
}

static bool taken(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

hvd_status_t launch_look(const struct launch *l, bool *pending_p)
{
    ncclResult_t said = ncclSuccess;
    ncclResult_t result = l->nccl->ncclCommGetAsyncError(l->comm, &said);

    *pending_p = said == ncclInProgress;
    if (result == ncclSuccess && taken(said))
        return HVD_OK;
    return refused(l, "NCCL", result != ncclSuccess ? result : said);
}

/* --- copies --- */

/* Of n, a batch: they may run in any order. */
static CUresult copy_batch(const struct device *d, CUstream stream,
                           const struct device_copy *copies, size_t n)
{
    CUdeviceptr dsts[BATCH_MAX], srcs[BATCH_MAX];
    size_t nbytes[BATCH_MAX], first = 0;
    CUmemcpyAttributes attributes = {
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

    for (size_t i = 0; i < n; i++) {
        dsts[i] = (CUdeviceptr)(uintptr_t)copies[i].dst;
        srcs[i] = (CUdeviceptr)(uintptr_t)copies[i].src;
        nbytes[i] = copies[i].nbytes;
    }
    return d->cuda->cuMemcpyBatchAsync_v2(dsts, srcs, nbytes, n, &attributes,
                                          &first, 1, stream);
}

static CUresult copy_each(const struct device *d, CUstream stream,
                          const struct device_copy *copies, size_t n)
{
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++)
        result = d->cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)copies[i].dst,
                                        (CUdeviceptr)(uintptr_t)copies[i].src,
                                        copies[i].nbytes, stream);
    return result;
}

static CUresult copy_some(const struct device *d, CUstream stream,
                          const struct device_copy *copies, size_t n)
{
    bool legacy = stream == NULL || stream == CU_STREAM_LEGACY; /* takes none */

    if (n > 1 && d->cuda->cuMemcpyBatchAsync_v2 != NULL && !legacy)
        return copy_batch(d, stream, copies, n);
    return copy_each(d, stream, copies, n);
}

/* Empty ones are left out: a batch refuses them. */
hvd_status_t launch_copies(struct device *d, CUstream stream,
                           const struct device_copy *copies, size_t n)
{
    struct device_copy some[BATCH_MAX];
    size_t n_some = 0;
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
        if (copies[i].nbytes > 0)
            some[n_some++] = copies[i];
        if (n_some == BATCH_MAX) {
            result = copy_some(d, stream, some, n_some);
            n_some = 0;
        }
    }
    if (result == CUDA_SUCCESS && n_some > 0)
        result = copy_some(d, stream, some, n_some);
    return device_check(d, result, "a copy");
}

/* --- calls of NCCL between the start and the end of a group --- */

static uint8_t *at(const void *buffer, size_t elements,
                   const struct device_call *call)
{
    return (uint8_t *)(uintptr_t)buffer + elements * types[call->dtype].nbytes;
}

/* Block by block: counts and displacements NULL, all have `count`. */
static size_t count_of(const size_t *counts, size_t count, int i)
{
    return counts != NULL ? counts[i] : count;
}

static size_t start_of(const size_t *displs, size_t count, int i)
{
    return displs != NULL ? displs[i] : count * (size_t)i;
}

static ncclResult_t to_each(const struct launch *l,
                            const struct device_call *call)
{
    const struct device_tensor *t = call->tensors;
    ncclDataType_t type = types[call->dtype].type;
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < l->size && taken(result); i++) {
        size_t n_send = count_of(call->sendcounts, t->count, i);
        size_t n_recv = count_of(call->recvcounts, t->count, i);

        if (n_send > 0)
            result = l->nccl->ncclSend(
                at(t->send, start_of(call->sdispls, t->count, i), call), n_send,
                type, i, l->comm, l->stream);
        if (n_recv > 0 && taken(result))
            result = l->nccl->ncclRecv(
                at(t->recv, start_of(call->rdispls, t->count, i), call), n_recv,
                type, i, l->comm, l->stream);
    }
    return result;
}

static ncclResult_t from_each(const struct launch *l,
                              const struct device_call *call)
{
    const struct device_tensor *t = call->tensors;
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < l->size && taken(result); i++) {
        uint8_t *block = at(t->recv, call->rdispls[i], call);

        if (call->recvcounts[i] > 0)
            result = l->nccl->ncclBroadcast(
                i == l->rank ? t->send : block, block, call->recvcounts[i],
                types[call->dtype].type, i, l->comm, l->stream);
    }
    return result;
}

static ncclResult_t call_one(const struct launch *l,
                             const struct device_call *call)
{
    const struct nccl_api *nccl = l->nccl;
    const struct device_tensor *t = call->tensors;
    ncclDataType_t type = types[call->dtype].type;

    switch (call->kind) {
    case COLLECTIVE_BROADCAST:
        return nccl->ncclBroadcast(t->recv, t->recv, t->count, type, call->root,
                                   l->comm, l->stream);
    case COLLECTIVE_ALLGATHER:
        return nccl->ncclAllGather(t->send, t->recv, t->count, type, l->comm,
                                   l->stream);
    case COLLECTIVE_REDUCE_SCATTER:
        return nccl->ncclReduceScatter(t->send, t->recv, t->count, type,
                                       ops[call->op], l->comm, l->stream);
    case COLLECTIVE_ALLGATHERV:
        return from_each(l, call);
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        return to_each(l, call);
    default:
        return ncclInvalidArgument;
    }
}

static ncclResult_t reduce_one(const struct launch *l,
                               const struct device_call *call, const void *send,
                               void *recv, size_t count)
{
    return l->nccl->ncclAllReduce(send, recv, count, types[call->dtype].type,
                                  ops[call->op], l->comm, l->stream);
}

/* --- allreduce of tensors --- */

static bool is_small(const struct device_call *call, size_t i)
{
    return call->n > 1 &&
           call->tensors[i].count < SMALL_NBYTES / types[call->dtype].nbytes;
}

/* Those that fit are packed, one behind the other: of tensor i, *at_p bytes
 * from the start. false: it travels by itself. */
static bool place(const struct device_call *call, size_t i, size_t *used_p,
                  size_t *at_p)
{
    size_t nbytes = call->tensors[i].count * types[call->dtype].nbytes;
    size_t start = round_up_to(*used_p, PACK_ALIGN);

    if (!is_small(call, i) || start + nbytes > DEVICE_PACK_NBYTES)
        return false;
    *at_p = start;
    *used_p = start + nbytes;
    return true;
}

static hvd_status_t move_packed(const struct launch *l,
                                const struct device_call *call, bool out)
{
    uint8_t *pack = (uint8_t *)(uintptr_t)l->pack;
    struct device_copy copies[BATCH_MAX];
    size_t n = 0, used = 0, start;

    for (size_t i = 0; i < call->n; i++) {
        const struct device_tensor *t = &call->tensors[i];

        if (!place(call, i, &used, &start))
            continue;
        copies[n++] = (struct device_copy){.dst = out ? t->recv : pack + start,
                                           .src = out ? pack + start : t->send,
                                           .nbytes = t->count *
                                                     types[call->dtype].nbytes};
        if (n == BATCH_MAX) {
            HVD_TRY(launch_copies(l->device, l->stream, copies, n));
            n = 0;
        }
    }
    return launch_copies(l->device, l->stream, copies, n);
}

static hvd_status_t scale_some(const struct launch *l,
                               const struct device_call *call, const void *src,
                               void *dst, size_t count, double factor)
{
    return scaler_run(&l->device->scaler, l->device, l->stream, call->dtype,
                      (CUdeviceptr)(uintptr_t)dst, (CUdeviceptr)(uintptr_t)src,
                      count, factor);
}

/* Of all tensors, packed ones in the pack (gaps and all). before: from send to
 * recv. */
static hvd_status_t scale_all(const struct launch *l,
                              const struct device_call *call, double factor,
                              bool before)
{
    void *pack = (void *)(uintptr_t)l->pack;
    size_t used = 0, start;

    if (factor == 1)
        return HVD_OK;
    for (size_t i = 0; i < call->n; i++) {
        const struct device_tensor *t = &call->tensors[i];

        if (t->count > 0 && !place(call, i, &used, &start))
            HVD_TRY(scale_some(l, call, before ? t->send : t->recv, t->recv,
                               t->count, factor));
    }
    if (used == 0)
        return HVD_OK;
    return scale_some(l, call, pack, pack, used / types[call->dtype].nbytes,
                      factor);
}

static ncclResult_t reduce_all(const struct launch *l,
                               const struct device_call *call)
{
    void *pack = (void *)(uintptr_t)l->pack;
    bool scaled = call->prescale != 1;
    size_t used = 0, start;
    ncclResult_t result = ncclSuccess;

    for (size_t i = 0; i < call->n && taken(result); i++) {
        const struct device_tensor *t = &call->tensors[i];

        if (t->count > 0 && !place(call, i, &used, &start))
            result = reduce_one(l, call, scaled ? t->recv : t->send, t->recv,
                                t->count);
    }
    if (used > 0 && taken(result))
        result = reduce_one(l, call, pack, pack,
                            used / types[call->dtype].nbytes);
    return result;
}

/* --- the whole of it --- */

static hvd_status_t call_group(const struct launch *l,
                               const struct device_call *call)
{
    ncclResult_t result = l->nccl->ncclGroupStart(), end;

    if (result != ncclSuccess)
        return refused(l, "ncclGroupStart", result);
    result = call->kind == COLLECTIVE_ALLREDUCE ? reduce_all(l, call)
                                                : call_one(l, call);
    end = l->nccl->ncclGroupEnd();
    result = taken(result) ? end : result;
    return taken(result) ? HVD_OK : refused(l, "a collective", result);
}

static double last_factor(const struct launch *l,
                          const struct device_call *call)
{
    return call->op == HVD_AVERAGE ? call->postscale / l->size
                                   : call->postscale;
}

hvd_status_t launch_begin(const struct launch *l,
                          const struct device_call *call)
{
    if (call->kind == COLLECTIVE_ALLREDUCE) {
        HVD_TRY(move_packed(l, call, false));
        HVD_TRY(scale_all(l, call, call->prescale, true));
    }
    return call_group(l, call);
}

hvd_status_t launch_end(const struct launch *l, const struct device_call *call)
{
    if (call->kind == COLLECTIVE_ALLREDUCE) {
        HVD_TRY(scale_all(l, call, last_factor(l, call), false));
        return move_packed(l, call, true);
    }
    if (call->kind != COLLECTIVE_REDUCE_SCATTER || call->op != HVD_AVERAGE)
        return HVD_OK;
    return scale_some(l, call, call->tensors->recv, call->tensors->recv,
                      call->tensors->count, 1.0 / l->size);
}
