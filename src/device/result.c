/* device/result.c - results that are on their way. See device.h.
 *
 * Memory: one each, until the last holder lets go of it. */
#include <stdlib.h>

#include "base/error.h"
#include "device/impl.h"

struct device_result {
    CUevent event; /* NULL: it was never queued */
    atomic_int n_holders;
};

struct device_result *device_result_create(void)
{
    struct device_result *result = calloc(1, sizeof(*result));

    if (result != NULL)
        atomic_init(&result->n_holders, 1);
    return result;
}

struct device_result *device_result_share(struct device_result *result)
{
    atomic_fetch_add(&result->n_holders, 1);
    return result;
}

void device_result_set(struct device_result *result, CUevent event)
{
    result->event = event;
}

static hvd_status_t follow(struct device *d, const struct device_result *result,
                           CUstream stream)
{
    CUcontext before;
    hvd_status_t status;

    HVD_TRY(device_check(d, d->cuda->cuCtxPushCurrent_v2(d->context),
                         "its context"));
    status = device_follow(d, stream, result->event);
    (void)d->cuda->cuCtxPopCurrent_v2(&before);
    return status;
}

hvd_status_t device_result_follow(const struct device_result *result,
                                  void *stream)
{
    struct device *d = device_of_process();

    if (d == NULL || result->event == NULL)
        return HVD_OK; /* all of it is over */
    return follow(d, result, stream);
}

void device_result_release(struct device_result *result)
{
    if (result == NULL || atomic_fetch_sub(&result->n_holders, 1) > 1)
        return;
    device_unmark(result->event);
    free(result);
}
