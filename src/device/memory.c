/* device/memory.c - memory of the device, and host memory that it can reach.
 * See device.h.
 *
 * A program may give its state back behind hvd_shutdown(): each piece of memory
 * holds the context by itself.
 *
 * Threads: one at a time. */
#include "base/array.h"
#include "device/impl.h"

enum { KEPT_FREE = 8 /* of the device's memory: one part in so many */ };

struct place {
    const struct driver_api *cuda;
    CUdevice handle;
    int ordinal;
    CUstreamCaptureMode mode; /* of the thread, outside */
};

static hvd_status_t check(const struct place *p, CUresult result,
                          const char *what)
{
    return device_check_call(p->cuda, p->ordinal, result, what);
}

/* Hold the context, and be in it. */
static hvd_status_t enter(struct place *p)
{
    CUcontext context;
    hvd_status_t status;

    p->ordinal = device_ordinal();
    HVD_TRY(driver_api(&p->cuda));
    HVD_TRY(
        check(p, p->cuda->cuDeviceGet(&p->handle, p->ordinal), "cuDeviceGet"));
    HVD_TRY(check(p, p->cuda->cuDevicePrimaryCtxRetain(&context, p->handle),
                  "its context"));
    status = check(p, p->cuda->cuCtxPushCurrent_v2(context), "its context");
    if (status != HVD_OK)
        (void)p->cuda->cuDevicePrimaryCtxRelease_v2(p->handle);
    else
        p->mode = driver_relax(p->cuda);
    return status;
}

static void leave(struct place *p)
{
    CUcontext before;

    (void)p->cuda->cuThreadExchangeStreamCaptureMode(&p->mode);
    (void)p->cuda->cuCtxPopCurrent_v2(&before);
}

static void let_go(const struct place *p)
{
    (void)p->cuda->cuDevicePrimaryCtxRelease_v2(p->handle);
}

static hvd_status_t check_room(const struct place *p, size_t nbytes)
{
    size_t n_free = 0, total = 0;

    HVD_TRY(
        check(p, p->cuda->cuMemGetInfo_v2(&n_free, &total), "cuMemGetInfo"));
    if (n_free < nbytes || n_free - nbytes < total / KEPT_FREE)
        return error_set(HVD_ERR_NOMEM,
                         "device %d: %zu bytes of %zu are free, %zu are wanted",
                         p->ordinal, n_free, total, nbytes);
    return HVD_OK;
}

static hvd_status_t allocate(const struct place *p, size_t nbytes, void **ptr_p)
{
    CUdeviceptr ptr = 0;
    CUresult result;

    HVD_TRY(check_room(p, nbytes));
    result = p->cuda->cuMemAlloc_v2(&ptr, nbytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return error_set(HVD_ERR_NOMEM, "device %d: cuMemAlloc of %zu bytes",
                         p->ordinal, nbytes);
    HVD_TRY(check(p, result, "cuMemAlloc"));
    *ptr_p = (void *)(uintptr_t)ptr;
    return HVD_OK;
}

hvd_status_t device_alloc(size_t nbytes, void **ptr_p)
{
    struct place p;
    hvd_status_t status;

    HVD_TRY(enter(&p));
    status = allocate(&p, nbytes, ptr_p);
    leave(&p);
    if (status != HVD_OK)
        let_go(&p);
    return status;
}

void device_free(void *ptr)
{
    struct place p;

    if (ptr == NULL || enter(&p) != HVD_OK)
        return;
    (void)p.cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)ptr);
    leave(&p);
    let_go(&p);
    let_go(&p); /* what device_alloc() has held */
}

hvd_status_t device_pin(void *bytes, size_t nbytes)
{
    struct place p;
    CUresult result;

    HVD_TRY(enter(&p));
    result = p.cuda->cuMemHostRegister_v2(bytes, nbytes, 0);
    leave(&p);
    if (result == CUDA_SUCCESS)
        return HVD_OK;
    let_go(&p);
    /* a limit on locked memory, or a kernel that denies it: not the device's
     * fault */
    return error_set(HVD_ERR_NOMEM, "cuMemHostRegister of %zu bytes: %s",
                     nbytes, driver_error(p.cuda, result));
}

void device_unpin(void *bytes)
{
    struct place p;

    if (enter(&p) != HVD_OK)
        return;
    (void)p.cuda->cuMemHostUnregister(bytes);
    leave(&p);
    let_go(&p);
    let_go(&p); /* what device_pin() has held */
}
