/* elastic/worker/buffers.c - where the buffers of a call lie: on the host or on
 * the device. See collective.h. */
#include "base/error.h"
#include "collectives/comm.h"
#include "device/device.h"
#include "elastic/worker/collective.h"

/* Where both do; NULL: where the other does. */
static hvd_status_t look_at(const void *sendbuf, const void *recvbuf,
                            bool *device_p)
{
    bool send = false, recv = false;

    if (sendbuf)
        HVD_TRY(device_look(sendbuf, &send));
    if (recvbuf == sendbuf)
        recv = send;
    else if (recvbuf)
        HVD_TRY(device_look(recvbuf, &recv));
    if (sendbuf && recvbuf && send != recv)
        return error_set(HVD_ERR_INVALID, "sendbuf is on %s, recvbuf is on %s",
                         send ? "the device" : "the host",
                         recv ? "the device" : "the host");
    *device_p = send || recv;
    return HVD_OK;
}

static hvd_status_t look_at_group(const struct comm_group *group,
                                  bool *device_p)
{
    bool first = false, device;

    for (size_t i = 0; i < group->n; i++) {
        if (group->counts[i] == 0)
            continue;
        HVD_TRY(error_prefix(
            look_at(group->sendbufs[i], group->recvbufs[i], &device),
            "tensor %zu of the group", i));
        if (i > 0 && *device_p != device && first)
            return error_set(HVD_ERR_INVALID,
                             "tensors of the group are on the host and on the "
                             "device");
        first = true;
        *device_p = device;
    }
    return HVD_OK;
}

static bool is_whole(const struct comm_group *group)
{
    return group->n == 0 ||
           (group->sendbufs && group->recvbufs && group->counts);
}

static hvd_status_t look_at_residual(const void *residual)
{
    bool device = false;

    if (residual && device_is_used())
        HVD_TRY(device_look(residual, &device));
    if (!device)
        return HVD_OK;
    return error_set(HVD_ERR_INVALID, "residual is on the device");
}

hvd_status_t collective_look(struct collective_args *args,
                             const struct comm_group *group)
{
    bool rooted = args->kind == COLLECTIVE_BROADCAST, device = false;

    HVD_TRY(look_at_residual(args->residual));
    if (args->kind == COLLECTIVE_BARRIER) /* it has none */
        args->memory = HVD_MEMORY_HOST;
    if (args->memory != HVD_MEMORY_AUTO)
        return HVD_OK;
    if (device_is_used()) {
        if (!group)
            HVD_TRY(
                look_at(rooted ? NULL : args->sendbuf, args->recvbuf, &device));
        else if (is_whole(group))
            HVD_TRY(look_at_group(group, &device));
    }
    args->memory = device ? HVD_MEMORY_DEVICE : HVD_MEMORY_HOST;
    return HVD_OK;
}
