/* collectives/operation.c - what a call consists of: where this rank's own
 * contribution goes, which buffers the phases work on, which phases there are.
 *
 * Threads: whoever drives the comm. Memory: the comm's scratch buffer, which
 * grows with what needs it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/autotune.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "collectives/reduce/copy.h"
#include "collectives/two_level.h"

static bool scratch_reserve(struct comm *comm, size_t nbytes)
{
    if (nbytes <= comm->scratch_nbytes)
        return true;
    free(comm->scratch);
    comm->scratch = malloc(nbytes);
    comm->scratch_nbytes = comm->scratch == NULL ? 0 : nbytes;
    return comm->scratch != NULL;
}

hvd_status_t operation_copy(const struct comm *comm, void *dst, const void *src,
                            size_t nbytes)
{
    return copy_in_pieces(&comm->verdict, dst, src, nbytes, false);
}

/* This rank's own contribution, where the schedule expects it; and the buffers
 * it works on. */
static hvd_status_t contribute(struct comm *comm,
                               const struct collective_args *args,
                               const struct call *call)
{
    struct operation *op = &comm->op;
    struct phase *phase = &op->phases[0];
    uint8_t *recv = args->recvbuf;
    const uint8_t *send = args->sendbuf;
    size_t block = args->count * call->elem_nbytes;
    size_t mine = (size_t)comm->config.rank * block;
    bool replace = args->kind == COLLECTIVE_ALLTOALL && send == recv;

    phase->src = phase->dst = recv;
    if ((args->kind == COLLECTIVE_REDUCE_SCATTER || replace) &&
        !scratch_reserve(comm, call->send_nbytes))
        return error_set(HVD_ERR_NOMEM, "%s: %zu bytes of scratch",
                         call_kind_name(call->head.kind), call->send_nbytes);
    switch (args->kind) {
    case COLLECTIVE_ALLREDUCE:
        return operation_copy(comm, recv, send, call->send_nbytes);
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLGATHERV:
        return operation_copy(comm, recv + call->own_offset, send,
                              call->send_nbytes);
    case COLLECTIVE_REDUCE_SCATTER:
        phase->src = phase->dst = comm->scratch;
        op->final_dst = recv;
        op->final_src = comm->scratch + call->own_offset;
        op->final_nbytes = call->recv_nbytes;
        return operation_copy(comm, comm->scratch, send, call->send_nbytes);
    case COLLECTIVE_ALLTOALL:
        phase->src = replace ? comm->scratch : send;
        return operation_copy(comm, replace ? comm->scratch : recv + mine,
                              replace ? send : send + mine,
                              replace ? call->send_nbytes : block);
    case COLLECTIVE_ALLTOALLV:
        phase->src = send;
        if (args->recvcounts[comm->config.rank] == 0)
            return HVD_OK;
        return operation_copy(
            comm, recv + args->rdispls[comm->config.rank] * call->elem_nbytes,
            send + args->sdispls[comm->config.rank] * call->elem_nbytes,
            args->recvcounts[comm->config.rank] * call->elem_nbytes);
    default: /* broadcast, barrier: nothing to place */
        return HVD_OK;
    }
}

static uint8_t algorithm_of(const struct comm *comm,
                            const struct collective_args *args,
                            const struct call *call)
{
    uint8_t forced = comm->config.algorithms.by_kind[args->kind];
    bool large = args->kind == COLLECTIVE_ALLREDUCE &&
                 call->send_nbytes >= AUTOTUNE_LARGE_NBYTES;

    return forced == ALGORITHM_AUTO && large ? (uint8_t)comm->large_allreduce
                                             : forced;
}

static struct schedule_call shape_of(const struct comm *comm,
                                     const struct collective_args *args,
                                     const struct call *call)
{
    const struct kind *kind = kind_of((int)args->kind);

    return (struct schedule_call){
        .kind = (int)args->kind,
        .algorithm = algorithm_of(comm, args, call),
        .rank = comm->config.rank,
        .size = comm->config.size,
        /* the other kinds have none, whatever the caller has left there */
        .root = kind->rooted ? args->root : 0,
        .count = kind->recv == KIND_NOTHING ? 0 : args->count,
        .elem_nbytes = call->elem_nbytes,
        .sendcounts = args->sendcounts,
        .sdispls = args->sdispls,
        .recvcounts = args->recvcounts,
        .rdispls = args->rdispls,
    };
}

/* All ranks are on this host: the buffers as they are. */
static void share(struct comm *comm, const struct collective_args *args)
{
    struct phase *phase = &comm->op.phases[0];

    phase->ops = &local_phase;
    phase->channel = CHANNEL_LOCAL;
    phase->src = kind_of((int)args->kind)->rooted ? args->recvbuf
                                                  : args->sendbuf;
    phase->dst = args->recvbuf;
    if (args->op == HVD_AVERAGE)
        phase->divisor = comm->config.size;
}

/* What was planned for the call before, in shared memory, stands as it was. */
static bool is_planned(const struct operation *op, const struct call *call)
{
    return op->head.sequence == call->repeats && op->n_phases == 1 &&
           op->phases[0].ops == &local_phase;
}

static void begin_again(struct operation *op, const struct call *call)
{
    op->head.sequence = call->head.sequence;
    op->phases[0].again = true;
    op->phase_i = 0;
    op->begun_ns = op->arrived_ns = 0;
}

hvd_status_t operation_begin(struct comm *comm,
                             const struct collective_args *args,
                             const struct call *call)
{
    struct operation *op = &comm->op;

    if (is_planned(op, call)) {
        begin_again(op, call);
        return HVD_OK;
    }
    memset(op, 0, offsetof(struct operation, phases));
    op->calls = call->calls;
    op->head = call->head;
    op->dtype = args->dtype;
    op->op = args->op;
    op->elem_nbytes = call->elem_nbytes;
    op->n_phases = 1;
    op->phases[0] = (struct phase){.ops = &stream_phase,
                                   .channel = CHANNEL_DATA,
                                   .shape = shape_of(comm, args, call)};
    if (comm_shares_all(comm)) {
        share(comm, args);
        return HVD_OK;
    }
    if (two_level_serves(comm, (int)args->kind))
        return two_level_plan(comm, args);
    op->head.algorithm = (uint8_t)schedule_algorithm(&op->phases[0].shape);
    return contribute(comm, args, call);
}

void operation_prepare_device(struct comm *comm, const struct call *call)
{
    struct operation *op = &comm->op;

    memset(op, 0, offsetof(struct operation, phases));
    op->head = call->head;
    op->head.algorithm = FRAME_ON_DEVICE;
    op->elem_nbytes = call->elem_nbytes;
    op->n_phases = 1;
    op->phases[0] = (struct phase){.ops = &device_phase,
                                   .channel = CHANNEL_DATA};
}

/* Nobody else drives the comm to its end any more. */
static hvd_status_t last_copy(struct comm *comm, void *dst, const void *src,
                              size_t nbytes)
{
    if (operation_copy(comm, dst, src, nbytes) != HVD_OK)
        return comm_end(comm);
    return HVD_OK;
}

hvd_status_t operation_finish(struct comm *comm)
{
    const struct operation *op = &comm->op;

    return last_copy(comm, op->final_dst, op->final_src, op->final_nbytes);
}

struct timeline_call operation_shown(const struct collective_args *args,
                                     size_t elem_nbytes)
{
    return (struct timeline_call){
        .kind = (uint8_t)args->kind,
        .dtype = (uint8_t)args->dtype,
        .op = (uint8_t)args->op,
        .count = args->count,
        .nbytes = args->count * elem_nbytes,
        .name = args->label && args->label[0] ? args->label : args->name,
    };
}

/* Others of the host stream for this rank. */
static bool is_idle(const struct phase *phase)
{
    return phase->steps != NULL && phase->n_steps == 0;
}

void operation_show(const struct comm *comm, const struct timeline_call *call)
{
    const struct operation *op = &comm->op;
    struct timeline_call part = *call;
    uint64_t since_ns = op->begun_ns;

    if (op->begun_ns == 0)
        return;
    for (int i = 0; i < op->n_phases; i++) {
        bool last = i + 1 == op->n_phases;
        uint64_t end_ns = last ? timeline_clock_now() : op->ended_ns[i];

        if (op->arrived_ns > since_ns && op->arrived_ns <= end_ns) {
            timeline_call(TIMELINE_NEGOTIATE, since_ns, op->arrived_ns, call);
            since_ns = op->arrived_ns;
        }
        if (is_idle(&op->phases[i]))
            continue;
        part.algorithm = op->phases[i].ops->algorithm(&op->phases[i]);
        timeline_call(TIMELINE_TRANSPORT, since_ns, end_ns, &part);
        since_ns = end_ns;
    }
}

/* A world of one. */
hvd_status_t operation_alone(struct comm *comm,
                             const struct collective_args *args,
                             const struct call *call)
{
    const struct kind *kind = kind_of((int)args->kind);
    uint8_t *dst = args->recvbuf;
    const uint8_t *src = args->sendbuf;
    size_t nbytes = call->send_nbytes;

    if (kind->rooted || kind->recv == KIND_NOTHING)
        return HVD_OK;
    if (kind->send == KIND_VARIED) {
        nbytes = args->recvcounts[0] * call->elem_nbytes;
        if (nbytes == 0)
            return HVD_OK;
        dst += args->rdispls[0] * call->elem_nbytes;
        src += args->sdispls[0] * call->elem_nbytes;
    } else if (kind->recv == KIND_VARIED) {
        dst += call->own_offset;
    }
    return last_copy(comm, dst, src, nbytes);
}
