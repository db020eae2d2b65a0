/* elastic/worker/api_calls.c - the collectives of hvd/collectives.h: each fills
 * in its arguments, and issue() runs or queues them.
 *
 * Threads: one at a time; calls by name any. Memory: requests, see
 * collectives/request.h. */
#include <hvd/collectives.h>

#include "base/error.h"
#include "collectives/by_name.h"
#include "collectives/comm.h"
#include "collectives/request.h"
#include "device/device.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/control.h"
#include "elastic/worker/options.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "elastic/worker/static.h"
#include "timeline/timeline.h"

struct issue {
    const char *call; /* "hvd_allreduce" */
    struct collective_args *args;
    const struct comm_group *group; /* NULL: none */
    struct route route;
    hvd_request_t **request_p;
    void *mark;
};

/* ---- by name, on any thread ---------------------------------------------- */

static hvd_status_t post_to(struct comm *world, void *arg)
{
    struct issue *i = arg;
    void *mark = i->mark;
    struct comm *comm;

    HVD_TRY(sets_comm(world, i->route.comm, &comm));
    i->mark = NULL;
    return by_name_post_behind(mark, comm, i->args, i->group, i->request_p);
}

static hvd_status_t post_by_name(struct issue *i)
{
    hvd_status_t status;

    if (process_is_app())
        HVD_TRY(static_world(i->call));
    HVD_TRY(error_prefix(collective_look(i->args, i->group), "%s", i->call));
    HVD_TRY(error_prefix(by_name_mark(i->args, &i->mark), "%s", i->call));
    status = control_with_comm(post_to, i);
    device_unmark(i->mark);
    HVD_TRY(error_prefix(status, "%s", i->call));
    ragged_run_alone(*i->request_p);
    return HVD_OK;
}

/* ---- in order ------------------------------------------------------------ */

static hvd_status_t post(const struct issue *i, struct comm *comm)
{
    HVD_TRY(i->group ? comm_post_group(comm, i->args, i->group, i->request_p)
                     : comm_post(comm, i->args, i->request_p));
    ragged_run_alone(*i->request_p);
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
                                 .name = args->label};

    timeline_call(TIMELINE_OPERATION, start_ns, timeline_call_clock(), &call);
}

/* Does the call need what only a request has? */
static bool needs_request(const struct collective_args *args)
{
    return args->ordered || args->place || args->wire_dtype != HVD_DTYPE_SAME ||
           (args->scaled && (args->prescale != 1 || args->postscale != 1));
}

/* On this thread, to its end. */
static hvd_status_t run(const struct issue *i, struct comm *comm)
{
    uint64_t start_ns = timeline_call_clock();
    hvd_status_t status;

    if (i->group)
        return comm_run_group(comm, i->args, i->group);
    status = comm_run(comm, i->args);
    if (timeline_on())
        show(i->args, start_ns);
    return status;
}

static hvd_status_t issue_in_order(struct issue *i)
{
    struct comm *comm;

    HVD_TRY(static_world(i->call));
    HVD_TRY(error_prefix(collective_look(i->args, i->group), "%s", i->call));
    HVD_TRY(error_prefix(sets_find(i->route.comm, &comm), "%s", i->call));
    if (i->request_p)
        return post(i, comm);
    collective_enter();
    return collective_leave(run(i, comm));
}

/* ---- both ---------------------------------------------------------------- */

static hvd_status_t issue(const char *call, struct collective_args *args,
                          const struct comm_group *group,
                          const hvd_options_t *options,
                          hvd_request_t **request_p)
{
    struct issue i = {call, args, group, {HVD_WORLD, false}, request_p, NULL};
    hvd_request_t *request = NULL;

    if (request_p)
        *request_p = NULL;
    HVD_TRY(process_check(call));
    HVD_TRY(error_prefix(options_adopt(options, group != NULL, args, &i.route),
                         "%s", call));
    if (!request_p && (i.route.by_name || needs_request(args)))
        i.request_p = &request;
    HVD_TRY(i.route.by_name ? post_by_name(&i) : issue_in_order(&i));
    return request ? hvd_wait(&request) : HVD_OK;
}

/* ---- the calls ----------------------------------------------------------- */

hvd_status_t hvd_allreduce_with(const void *sendbuf, void *recvbuf,
                                size_t count, hvd_dtype_t dtype, hvd_op_t op,
                                const hvd_options_t *options,
                                hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op};

    return issue("hvd_allreduce", &args, NULL, options, request_p);
}

hvd_status_t hvd_grouped_allreduce_with(size_t n, const void *const *sendbufs,
                                        void *const *recvbufs,
                                        const size_t *counts, hvd_dtype_t dtype,
                                        hvd_op_t op,
                                        const hvd_options_t *options,
                                        hvd_request_t **request_p)
{
    struct collective_args args = {
        .kind = COLLECTIVE_ALLREDUCE, .dtype = dtype, .op = op};
    struct comm_group group = {n, sendbufs, recvbufs, counts};

    return issue("hvd_grouped_allreduce", &args, &group, options, request_p);
}

hvd_status_t hvd_broadcast_with(void *buf, size_t count, hvd_dtype_t dtype,
                                int root, const hvd_options_t *options,
                                hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                   .sendbuf = buf,
                                   .recvbuf = buf,
                                   .count = count,
                                   .dtype = dtype,
                                   .root = root};

    return issue("hvd_broadcast", &args, NULL, options, request_p);
}

hvd_status_t hvd_allgather_with(const void *sendbuf, void *recvbuf,
                                size_t sendcount, hvd_dtype_t dtype,
                                const hvd_options_t *options,
                                hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = sendcount,
                                   .dtype = dtype};

    return issue("hvd_allgather", &args, NULL, options, request_p);
}

hvd_status_t hvd_allgatherv_with(const void *sendbuf, size_t sendcount,
                                 void *recvbuf, const size_t *recvcounts,
                                 const size_t *displs, hvd_dtype_t dtype,
                                 const hvd_options_t *options,
                                 hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = sendcount,
                                   .recvcounts = recvcounts,
                                   .rdispls = displs,
                                   .dtype = dtype};

    return issue("hvd_allgatherv", &args, NULL, options, request_p);
}

hvd_status_t hvd_reduce_scatter_with(const void *sendbuf, void *recvbuf,
                                     size_t recvcount, hvd_dtype_t dtype,
                                     hvd_op_t op, const hvd_options_t *options,
                                     hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_REDUCE_SCATTER,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = recvcount,
                                   .dtype = dtype,
                                   .op = op};

    return issue("hvd_reduce_scatter", &args, NULL, options, request_p);
}

hvd_status_t hvd_alltoall_with(const void *sendbuf, void *recvbuf,
                               size_t count_per_peer, hvd_dtype_t dtype,
                               const hvd_options_t *options,
                               hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALL,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .count = count_per_peer,
                                   .dtype = dtype};

    return issue("hvd_alltoall", &args, NULL, options, request_p);
}

hvd_status_t hvd_alltoallv_with(const void *sendbuf, const size_t *sendcounts,
                                const size_t *sdispls, void *recvbuf,
                                const size_t *recvcounts, const size_t *rdispls,
                                hvd_dtype_t dtype, const hvd_options_t *options,
                                hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendbuf = sendbuf,
                                   .recvbuf = recvbuf,
                                   .sendcounts = sendcounts,
                                   .sdispls = sdispls,
                                   .recvcounts = recvcounts,
                                   .rdispls = rdispls,
                                   .dtype = dtype};

    return issue("hvd_alltoallv", &args, NULL, options, request_p);
}

hvd_status_t hvd_barrier_with(const hvd_options_t *options,
                              hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_BARRIER,
                                   .dtype = HVD_UINT8};

    return issue("hvd_barrier", &args, NULL, options, request_p);
}

/* ---- counts that are not known ------------------------------------------- */

static hvd_status_t issue_placed(const char *call, struct collective_args *args,
                                 const hvd_options_t *options,
                                 hvd_request_t **request_p)
{
    if (!args->place && !request_p)
        return error_set(HVD_ERR_INVALID,
                         "%s: place is NULL, and there is no request to take "
                         "the result from",
                         call);
    if (!args->place)
        args->place = ragged_own_place;
    return issue(call, args, NULL, options, request_p);
}

hvd_status_t hvd_allgatherv_place(const void *sendbuf, size_t sendcount,
                                  hvd_dtype_t dtype, hvd_place_fn place,
                                  void *place_arg, const hvd_options_t *options,
                                  hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
                                   .sendbuf = sendbuf,
                                   .count = sendcount,
                                   .dtype = dtype,
                                   .place = place,
                                   .place_arg = place_arg};

    return issue_placed("hvd_allgatherv_place", &args, options, request_p);
}

hvd_status_t hvd_alltoallv_place(const void *sendbuf, const size_t *sendcounts,
                                 const size_t *sdispls, hvd_dtype_t dtype,
                                 hvd_place_fn place, void *place_arg,
                                 const hvd_options_t *options,
                                 hvd_request_t **request_p)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendbuf = sendbuf,
                                   .sendcounts = sendcounts,
                                   .sdispls = sdispls,
                                   .dtype = dtype,
                                   .place = place,
                                   .place_arg = place_arg};

    return issue_placed("hvd_alltoallv_place", &args, options, request_p);
}
