/* elastic/worker/api_async.c - the asynchronous calls of hvd/collectives.h:
 * each fills in a descriptor, and hvd_collective_post() queues it.
 *
 * Threads: app; calls by name any. Memory: requests, see collectives/request.h.
 */
#include <hvd/collectives.h>
#include <hvd/world.h>

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "collectives/by_name.h"
#include "collectives/comm.h"
#include "collectives/request.h"
#include "device/device.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/control.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "elastic/worker/static.h"

/* ---- posting ------------------------------------------------------------- */

static hvd_status_t begin(const char *call, hvd_request_t **request_p)
{
    if (request_p == NULL)
        return error_set(HVD_ERR_INVALID, "%s: request_p is NULL", call);
    *request_p = NULL;
    return static_world(call);
}

/* group NULL: none. */
static hvd_status_t post_group(const char *call, hvd_collective_args_t *args,
                               const struct comm_group *group,
                               hvd_request_t **request_p)
{
    struct comm *comm;

    HVD_TRY(begin(call, request_p));
    HVD_TRY(error_prefix(collective_look(args, group), "%s", call));
    HVD_TRY(error_prefix(sets_find(args, &comm), "%s", call));
    return group == NULL ? comm_post(comm, args, request_p)
                         : comm_post_group(comm, args, group, request_p);
}

static hvd_status_t post(const char *call, hvd_collective_args_t *args,
                         hvd_request_t **request_p)
{
    return post_group(call, args, NULL, request_p);
}

/* ---- by name, on any thread ---------------------------------------------- */

struct named {
    hvd_collective_args_t *args;
    const struct comm_group *group; /* NULL: none */
    hvd_request_t **request_p;
    void *mark;
};

static hvd_status_t post_to(struct comm *world, void *arg)
{
    struct named *n = arg;
    void *mark = n->mark;
    struct comm *comm;

    HVD_TRY(sets_comm(world, n->args, &comm));
    n->mark = NULL;
    return by_name_post_behind(mark, comm, n->args, n->group, n->request_p);
}

static hvd_status_t post_by_name(struct named *n)
{
    static const char call[] = "hvd_collective_post";
    hvd_status_t status;

    if (process_is_app())
        HVD_TRY(static_world(call));
    HVD_TRY(error_prefix(collective_look(n->args, n->group), "%s", call));
    HVD_TRY(error_prefix(by_name_mark(n->args, &n->mark), "%s", call));
    status = control_with_comm(post_to, n);
    device_unmark(n->mark);
    return error_prefix(status, "%s", call);
}

/* ---- the descriptor ------------------------------------------------------ */

/* Who was compiled with an older header has fewer fields, with a newer one
 * more: those we do not know must be zero. */
static hvd_status_t adopt(const hvd_collective_args_t *args,
                          hvd_collective_args_t *own)
{
    const unsigned char *bytes = (const unsigned char *)args;
    size_t n = args->struct_size;

    if (n < offsetof(hvd_collective_args_t, comm))
        return error_set(HVD_ERR_INVALID,
                         "hvd_collective_post: struct_size is %zu", n);
    for (size_t i = sizeof(*own); i < n; i++)
        if (bytes[i] != 0)
            return error_set(HVD_ERR_INVALID,
                             "hvd_collective_post: byte %zu of the struct is "
                             "of a newer version",
                             i);
    memset(own, 0, sizeof(*own));
    memcpy(own, args, n < sizeof(*own) ? n : sizeof(*own));
    own->struct_size = sizeof(*own);
    return HVD_OK;
}

static hvd_status_t check_reserved(const hvd_collective_args_t *args)
{
    const uint64_t known = HVD_COLLECTIVE_ORDERED | SIGNATURE_HALVES |
                           HVD_COLLECTIVE_BY_NAME |
                           HVD_COLLECTIVE_AVERAGE_OF_ALL;
    const char *field = NULL;

    if (args->memory < HVD_MEMORY_LOOK || args->memory > HVD_MEMORY_DEVICE)
        field = "memory";
    else if ((args->flags & ~known) != 0)
        field = "flags";
    if (field == NULL)
        return HVD_OK;
    return error_set(HVD_ERR_INVALID,
                     "hvd_collective_post: %s is of a newer version", field);
}

static hvd_status_t check_group(const hvd_collective_args_t *args)
{
    if (args->kind == HVD_COLLECTIVE_ALLREDUCE &&
        (args->flags & SIGNATURE_HALVES) == 0)
        return HVD_OK;
    return error_set(HVD_ERR_INVALID,
                     "hvd_collective_post: n_tensors is for an allreduce "
                     "without 16 bits");
}

hvd_status_t hvd_collective_post(const hvd_collective_args_t *args,
                                 hvd_request_t **request_p)
{
    hvd_collective_args_t own;
    struct comm_group group;
    struct named named = {&own, NULL, request_p, NULL};

    if (request_p == NULL)
        return error_set(HVD_ERR_INVALID,
                         "hvd_collective_post: request_p is NULL");
    *request_p = NULL;
    HVD_TRY(process_check("hvd_collective_post"));
    if (args == NULL)
        return error_set(HVD_ERR_INVALID, "hvd_collective_post: args is NULL");
    HVD_TRY(adopt(args, &own));
    HVD_TRY(check_reserved(&own));
    if (own.n_tensors > 0) {
        HVD_TRY(check_group(&own));
        group = (struct comm_group){own.n_tensors, own.sendbufs, own.recvbufs,
                                    own.tensor_counts};
        named.group = &group;
        own.sendbuf = own.recvbuf = NULL;
        own.count = 0;
    }
    if (own.flags & HVD_COLLECTIVE_BY_NAME)
        HVD_TRY(post_by_name(&named));
    else
        HVD_TRY(
            post_group("hvd_collective_post", &own, named.group, request_p));
    ragged_run_alone(*request_p);
    return HVD_OK;
}

hvd_status_t hvd_allreduce_async(const void *sendbuf, void *recvbuf,
                                 size_t count, hvd_dtype_t dtype, hvd_op_t op,
                                 const char *name, hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_ALLREDUCE,
                                  .sendbuf = sendbuf,
                                  .recvbuf = recvbuf,
                                  .count = count,
                                  .dtype = dtype,
                                  .op = op,
                                  .name = name};

    return post("hvd_allreduce_async", &args, request_p);
}

hvd_status_t hvd_broadcast_async(void *buf, size_t count, hvd_dtype_t dtype,
                                 int root, const char *name,
                                 hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_BROADCAST,
                                  .sendbuf = buf,
                                  .recvbuf = buf,
                                  .count = count,
                                  .dtype = dtype,
                                  .root = root,
                                  .name = name};

    return post("hvd_broadcast_async", &args, request_p);
}

hvd_status_t hvd_allgather_async(const void *sendbuf, void *recvbuf,
                                 size_t sendcount, hvd_dtype_t dtype,
                                 const char *name, hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_ALLGATHER,
                                  .sendbuf = sendbuf,
                                  .recvbuf = recvbuf,
                                  .count = sendcount,
                                  .dtype = dtype,
                                  .name = name};

    return post("hvd_allgather_async", &args, request_p);
}

hvd_status_t hvd_reduce_scatter_async(const void *sendbuf, void *recvbuf,
                                      size_t recvcount, hvd_dtype_t dtype,
                                      hvd_op_t op, const char *name,
                                      hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_REDUCE_SCATTER,
                                  .sendbuf = sendbuf,
                                  .recvbuf = recvbuf,
                                  .count = recvcount,
                                  .dtype = dtype,
                                  .op = op,
                                  .name = name};

    return post("hvd_reduce_scatter_async", &args, request_p);
}

hvd_status_t hvd_alltoall_async(const void *sendbuf, void *recvbuf,
                                size_t count_per_peer, hvd_dtype_t dtype,
                                const char *name, hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_ALLTOALL,
                                  .sendbuf = sendbuf,
                                  .recvbuf = recvbuf,
                                  .count = count_per_peer,
                                  .dtype = dtype,
                                  .name = name};

    return post("hvd_alltoall_async", &args, request_p);
}

hvd_status_t hvd_allgatherv_async(const void *sendbuf, size_t sendcount,
                                  void *recvbuf, const size_t *recvcounts,
                                  const size_t *displs, hvd_dtype_t dtype,
                                  const char *name, hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_ALLGATHERV,
                                  .sendbuf = sendbuf,
                                  .recvbuf = recvbuf,
                                  .count = sendcount,
                                  .recvcounts = recvcounts,
                                  .rdispls = displs,
                                  .dtype = dtype,
                                  .name = name};

    return post("hvd_allgatherv_async", &args, request_p);
}

hvd_status_t hvd_alltoallv_async(const void *sendbuf, const size_t *sendcounts,
                                 const size_t *sdispls, void *recvbuf,
                                 const size_t *recvcounts,
                                 const size_t *rdispls, hvd_dtype_t dtype,
                                 const char *name, hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_ALLTOALLV,
                                  .sendbuf = sendbuf,
                                  .recvbuf = recvbuf,
                                  .sendcounts = sendcounts,
                                  .sdispls = sdispls,
                                  .recvcounts = recvcounts,
                                  .rdispls = rdispls,
                                  .dtype = dtype,
                                  .name = name};

    return post("hvd_alltoallv_async", &args, request_p);
}

hvd_status_t hvd_barrier_async(const char *name, hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_BARRIER,
                                  .dtype = HVD_UINT8,
                                  .name = name};

    return post("hvd_barrier_async", &args, request_p);
}

hvd_status_t hvd_grouped_allreduce_async(size_t n, const void *const *sendbufs,
                                         void *const *recvbufs,
                                         const size_t *counts,
                                         hvd_dtype_t dtype, hvd_op_t op,
                                         const char *name,
                                         hvd_request_t **request_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args),
                                  .kind = HVD_COLLECTIVE_ALLREDUCE,
                                  .dtype = dtype,
                                  .op = op,
                                  .name = name};
    struct comm_group group = {n, sendbufs, recvbufs, counts};

    return post_group("hvd_grouped_allreduce_async", &args, &group, request_p);
}

/* ---- waiting ------------------------------------------------------------- */

/* A request may outlive its generation, and even hvd_shutdown: then nobody is
 * interested in how it ended but the caller. */
hvd_status_t hvd_wait(hvd_request_t *request)
{
    bool current;
    hvd_status_t status;

    if (request == NULL)
        return HVD_OK;
    if (atomic_load(&process_self.forked))
        return error_set(HVD_ERR_INVALID, "hvd_wait: called in a forked child");
    if (ragged_is_placing())
        return error_set(HVD_ERR_STATE, "hvd_wait: called by a place function");
    if (request->by_name && !process_is_app())
        return request_wait(request);
    current = process_self.comm != NULL &&
              request->generation == comm_generation(process_self.comm);
    if (!current)
        return request_wait(request);
    collective_enter();
    status = request_wait(request);
    return collective_leave(status);
}

hvd_status_t hvd_wait_all(size_t n, hvd_request_t **requests)
{
    hvd_status_t first = HVD_OK;
    char text[ERROR_TEXT_MAX];

    if (n > 0 && requests == NULL)
        return error_set(HVD_ERR_INVALID, "hvd_wait_all: requests is NULL");
    if (atomic_load(&process_self.forked))
        return error_set(HVD_ERR_INVALID,
                         "hvd_wait_all: called in a forked child");
    for (size_t i = 0; i < n; i++) {
        hvd_status_t status = hvd_wait(requests[i]);

        requests[i] = NULL;
        if (first != HVD_OK || status == HVD_OK)
            continue;
        first = status;
        memcpy(text, error_text(), strlen(error_text()) + 1);
    }
    return first == HVD_OK ? HVD_OK : error_set(first, "%s", text);
}

hvd_status_t hvd_test(const hvd_request_t *request, bool *done_p)
{
    if (done_p == NULL)
        return error_set(HVD_ERR_INVALID, "hvd_test: done_p is NULL");
    *done_p = request == NULL || request_test(request);
    return HVD_OK;
}
