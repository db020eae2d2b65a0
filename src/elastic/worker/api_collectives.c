/* elastic/worker/api_collectives.c - the blocking calls of hvd/collectives.h:
 * each fills in a descriptor and runs it on the comm of the current generation;
 * and hvd_state_sync, which is a collective too. The others are in api_async.c.
 *
 * Threads: app. Memory: none. */
#include <hvd/collectives.h>
#include <hvd/state.h>

#include "base/error.h"
#include "base/world.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/commit.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "elastic/worker/static.h"
#include "state/state.h"
#include "timeline/timeline.h"

static void deeper(int levels)
{
    int depth = atomic_load_explicit(&process_self.in_collective,
                                     memory_order_relaxed);

    atomic_store_explicit(&process_self.in_collective, depth + levels,
                          memory_order_relaxed);
}

void collective_enter(void)
{
    deeper(1);
}

void collective_exit(void)
{
    deeper(-1);
}

hvd_status_t collective_leave(hvd_status_t status)
{
    collective_exit();
    if (status == HVD_OK) {
        membership_report_collective();
    } else {
        process_self.went_on |= process_self.left;
        static_failed(status);
    }
    return status;
}

hvd_status_t collective_drain(void)
{
    hvd_status_t status;

    if (!process_self.comm)
        return HVD_OK;
    collective_enter();
    status = comm_drain(process_self.comm);
    if (status != HVD_OK)
        return collective_leave(status);
    collective_exit();
    return HVD_OK;
}

static void show(const struct collective_args *args, uint64_t start_ns)
{
    struct timeline_call call = {.kind = (uint8_t)args->kind,
                                 .dtype = (uint8_t)args->dtype,
                                 .op = (uint8_t)args->op,
                                 .count = args->count,
                                 .nbytes = args->count *
                                           hvd_dtype_size(args->dtype),
                                 .name = args->name};

    timeline_call(TIMELINE_OPERATION, start_ns, timeline_call_clock(), &call);
}

static hvd_status_t run(const char *call, struct collective_args *args)
{
    uint64_t start_ns;
    hvd_status_t status;

    HVD_TRY(static_world(call));
    args->struct_size = sizeof(*args);
    HVD_TRY(error_prefix(collective_look(args, NULL), "%s", call));
    collective_enter();
    start_ns = timeline_call_clock();
    status = comm_run(process_self.comm, args);
    if (timeline_on())
        show(args, start_ns);
    return collective_leave(status);
}

hvd_status_t hvd_allreduce(const void *sendbuf, void *recvbuf, size_t count,
                           hvd_dtype_t dtype, hvd_op_t op)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op};

    return run("hvd_allreduce", &args);
}

hvd_status_t hvd_broadcast(void *buf, size_t count, hvd_dtype_t dtype, int root)
{
    struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                   .sendbuf = buf,
                                   .recvbuf = buf,
                                   .count = count,
                                   .dtype = dtype,
                                   .root = root};

    return run("hvd_broadcast", &args);
}

hvd_status_t hvd_allgather(const void *sendbuf, void *recvbuf, size_t sendcount,
                           hvd_dtype_t dtype)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = sendcount,
                                   .dtype = dtype};

    return run("hvd_allgather", &args);
}

hvd_status_t hvd_reduce_scatter(const void *sendbuf, void *recvbuf,
                                size_t recvcount, hvd_dtype_t dtype,
                                hvd_op_t op)
{
    struct collective_args args = {.kind = COLLECTIVE_REDUCE_SCATTER,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = recvcount,
                                   .dtype = dtype,
                                   .op = op};

    return run("hvd_reduce_scatter", &args);
}

hvd_status_t hvd_alltoall(const void *sendbuf, void *recvbuf,
                          size_t count_per_peer, hvd_dtype_t dtype)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALL,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = count_per_peer,
                                   .dtype = dtype};

    return run("hvd_alltoall", &args);
}

hvd_status_t hvd_allgatherv(const void *sendbuf, size_t sendcount,
                            void *recvbuf, const size_t *recvcounts,
                            const size_t *displs, hvd_dtype_t dtype)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = sendcount,
                                   .recvcounts = recvcounts,
                                   .rdispls = displs,
                                   .dtype = dtype};

    return run("hvd_allgatherv", &args);
}

hvd_status_t hvd_alltoallv(const void *sendbuf, const size_t *sendcounts,
                           const size_t *sdispls, void *recvbuf,
                           const size_t *recvcounts, const size_t *rdispls,
                           hvd_dtype_t dtype)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .sendcounts = sendcounts,
                                   .sdispls = sdispls,
                                   .recvcounts = recvcounts,
                                   .rdispls = rdispls,
                                   .dtype = dtype};

    return run("hvd_alltoallv", &args);
}

hvd_status_t hvd_barrier(void)
{
    struct collective_args args = {.kind = COLLECTIVE_BARRIER,
                                   .dtype = HVD_UINT8};

    return run("hvd_barrier", &args);
}

hvd_status_t hvd_grouped_allreduce(size_t n, const void *const *sendbufs,
                                   void *const *recvbufs, const size_t *counts,
                                   hvd_dtype_t dtype, hvd_op_t op)
{
    struct collective_args args = {.struct_size = sizeof(args),
                                   .kind = COLLECTIVE_ALLREDUCE,
                                   .dtype = dtype,
                                   .op = op};
    struct comm_group group = {n, sendbufs, recvbufs, counts};

    HVD_TRY(static_world("hvd_grouped_allreduce"));
    HVD_TRY(
        error_prefix(collective_look(&args, &group), "hvd_grouped_allreduce"));
    collective_enter();
    return collective_leave(comm_run_group(process_self.comm, &args, &group));
}

/* ---- hvd_state_sync ------------------------------------------------------ */

static hvd_status_t serve_all(hvd_state_t *state, int size)
{
    for (int rank = 1; rank < size; rank++)
        HVD_TRY(state_sync_send(state, process_self.comm, rank, false));
    return HVD_OK;
}

static hvd_status_t receive_from_root(hvd_state_t *state, struct state_id id)
{
    hvd_status_t status;
    uint64_t nbytes;

    process_self.in_sync = true;
    status = state_sync_receive(state, process_self.comm, 0, id, false,
                                &nbytes);
    process_self.in_sync = false;
    return status;
}

/* The root's next version names the snapshot on all ranks: they may have
 * counted differently. */
hvd_status_t hvd_state_sync(hvd_state_t *state)
{
    struct world world;
    struct state_id id;

    if (!state)
        return error_set(HVD_ERR_INVALID, "hvd_state_sync: state is NULL");
    HVD_TRY(static_world("hvd_state_sync"));
    world_get(&world);
    HVD_TRY(world.rank == 0 ? commit_save(state) : commit_prepare(state));
    id.generation = world.generation;
    id.version = hvd_state_version(state);
    HVD_TRY(hvd_broadcast(&id.version, 1, HVD_INT64, 0));
    collective_enter();
    return collective_leave(world.rank == 0 ? serve_all(state, world.size)
                                            : receive_from_root(state, id));
}
