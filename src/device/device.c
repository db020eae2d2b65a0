/* device/device.c - which device it is, and what lies in its memory. See
 * device.h.
 *
 * Threads: device_set(), device_notice(), device_close() the issuing one; the
 * rest any. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/impl.h"

atomic_bool device_used;
static atomic_bool broken;

static struct {
    int wanted; /* by the program; -1: the slot's */
    int slot;
    pthread_mutex_t lock; /* to open it */
    struct device *_Atomic open;
} self = {.wanted = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

int device_ordinal(void)
{
    return self.wanted >= 0 ? self.wanted : self.slot;
}

hvd_status_t device_check_call(const struct driver_api *cuda, int ordinal,
                               CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return HVD_OK;
    if (driver_error_stays(result))
        atomic_store(&broken, true);
    return error_set(HVD_ERR_SYSTEM, "CUDA device %d: %s: %s", ordinal, what,
                     driver_error(cuda, result));
}

hvd_status_t device_check(const struct device *d, CUresult result,
                          const char *what)
{
    return device_check_call(d->cuda, d->ordinal, result, what);
}

hvd_status_t device_give_up(const char *why)
{
    atomic_store(&broken, true);
    return error_set(HVD_ERR_SYSTEM, "CUDA device %d: %s", device_ordinal(),
                     why);
}

bool device_is_broken(void)
{
    return atomic_load(&broken);
}

/* --- which --- */

static hvd_status_t check_ordinal(const struct driver_api *cuda, int ordinal)
{
    int n = 0;

    if (cuda->cuDeviceGetCount(&n) != CUDA_SUCCESS || ordinal < 0 ||
        ordinal >= n)
        return error_set(HVD_ERR_INVALID,
                         "there is no device %d: CUDA shows %d to this process",
                         ordinal, n);
    return HVD_OK;
}

hvd_status_t device_set(int ordinal)
{
    const struct driver_api *cuda;
    const struct device *open = self.open;

    HVD_TRY(driver_api(&cuda));
    HVD_TRY(check_ordinal(cuda, ordinal));
    if (open != NULL && open->ordinal != ordinal)
        return error_set(HVD_ERR_STATE, "device %d is in use", open->ordinal);
    self.wanted = ordinal;
    atomic_store(&device_used, true);
    return HVD_OK;
}

void device_notice(int slot)
{
    self.slot = slot;
    if (driver_api_is_there())
        atomic_store(&device_used, true);
}

bool device_is_built(void)
{
    return true;
}

void device_inform(hvd_device_info_t *info)
{
    const struct driver_api *cuda;
    const struct nccl_api *nccl;
    const struct device *open = self.open;
    hvd_status_t status;

    *info = (hvd_device_info_t){.struct_size = sizeof(*info)};
    info->device = open != NULL ? open->ordinal : self.wanted;
    status = nccl_api(&nccl);
    if (status == HVD_OK) {
        info->nccl_version = nccl->version;
        snprintf(info->nccl_library, sizeof(info->nccl_library), "%s",
                 nccl->library);
    } else {
        snprintf(info->reason, sizeof(info->reason), "%s", error_text());
    }
    if (driver_api(&cuda) != HVD_OK) {
        snprintf(info->reason, sizeof(info->reason), "%s", error_text());
        return;
    }
    info->driver_version = cuda->version;
    (void)cuda->cuDeviceGetCount(&info->n_devices);
    info->usable = status == HVD_OK;
}

/* --- its life --- */

static hvd_status_t make_context(struct device *d)
{
    CUresult result = d->cuda->cuDeviceGet(&d->handle, d->ordinal);

    HVD_TRY(device_check(d, result, "cuDeviceGet"));
    result = d->cuda->cuDevicePrimaryCtxRetain(&d->context, d->handle);
    return device_check(d, result, "its context");
}

/* It is held for some instructions, and to sleep meanwhile costs more. */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static hvd_status_t start_thread(struct device *d)
{
    pthread_condattr_t attr;

    init_lock(&d->lock);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->work, &attr);
    pthread_condattr_destroy(&attr);
    errno = thread_start(&d->thread, "hvd-device", device_main, d);
    if (errno == 0)
        return HVD_OK;
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->lock);
    return error_errno("the thread of the device");
}

static hvd_status_t open_device(struct device *d)
{
    hvd_status_t status;

    HVD_TRY(driver_api(&d->cuda));
    HVD_TRY(check_ordinal(d->cuda, d->ordinal));
    HVD_TRY(make_context(d));
    status = start_thread(d);
    if (status != HVD_OK)
        (void)d->cuda->cuDevicePrimaryCtxRelease_v2(d->handle);
    return status;
}

static void say_found(void)
{
    hvd_device_info_t info;

    device_inform(&info);
    if (info.usable)
        log_debug("device %d of %d, CUDA %d, NCCL %d: %s", info.device,
                  info.n_devices, info.driver_version, info.nccl_version,
                  info.nccl_library);
    else
        log_debug("device %d of %d, CUDA %d, no NCCL: %s", info.device,
                  info.n_devices, info.driver_version, info.reason);
}

/* Under the lock. */
static hvd_status_t open_once(void)
{
    struct device *d;
    hvd_status_t status;

    if (self.open != NULL)
        return HVD_OK;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return error_set(HVD_ERR_NOMEM, "a device");
    d->ordinal = device_ordinal();
    status = open_device(d);
    if (status != HVD_OK) {
        free(d);
        return status;
    }
    self.open = d;
    say_found();
    return HVD_OK;
}

hvd_status_t device_open(void)
{
    const struct driver_api *cuda;
    hvd_status_t status;

    HVD_TRY(driver_api(&cuda));
    pthread_mutex_lock(&self.lock);
    status = open_once();
    pthread_mutex_unlock(&self.lock);
    return status;
}

static bool thread_ends(struct device *d)
{
    uint64_t deadline_us = clock_now_us() + DEVICE_CLOSE_US;
    const struct timespec pause = {.tv_nsec = 1000000};

    pthread_mutex_lock(&d->lock);
    d->stopping = true;
    pthread_mutex_unlock(&d->lock);
    device_kick(d);
    while (!atomic_load(&d->ended) && clock_now_us() < deadline_us)
        nanosleep(&pause, NULL);
    return atomic_load(&d->ended);
}

void device_close(void)
{
    struct device *d = atomic_exchange(&self.open, NULL);

    if (d == NULL)
        return;
    if (!thread_ends(d)) {
        log_warn("the thread of device %d does not come back from a call -> it "
                 "is left behind",
                 d->ordinal);
        pthread_detach(d->thread);
        return;
    }
    pthread_join(d->thread, NULL);
    HVD_ASSERT(d->communicators == NULL && d->begun == NULL);
    if (atomic_load(&d->n_abandoned) > 0)
        return; /* who aborts one may come back yet, and look for it */
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->lock);
    (void)d->cuda->cuDevicePrimaryCtxRelease_v2(d->handle);
    free(d);
}

bool device_is_open(void)
{
    const struct driver_api *cuda;

    return self.open != NULL && driver_api(&cuda) == HVD_OK;
}

struct device *device_of_process(void)
{
    return self.open;
}

void device_uuid(uint8_t *uuid)
{
    const struct device *d = self.open;
    CUuuid found = {{0}};

    (void)d->cuda->cuDeviceGetUuid_v2(&found, d->handle);
    _Static_assert(sizeof(found) == 16, "16 bytes");
    memcpy(uuid, &found, sizeof(found));
}

/* --- what lies in its memory --- */

/* -1: the host's, or memory that CUDA has never heard of. */
static int device_of(const struct driver_api *cuda, CUdeviceptr at)
{
    unsigned type = 0;
    int ordinal = -1;

    if (cuda->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    at) != CUDA_SUCCESS ||
        type != CU_MEMORYTYPE_DEVICE ||
        cuda->cuPointerGetAttribute(
            &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) != CUDA_SUCCESS)
        return -1;
    return ordinal;
}

/* Asked each time, which is a fraction of a microsecond: what was the device's
 * may have been freed, and its address be the host's. */
hvd_status_t device_look(const void *ptr, bool *device_p)
{
    const struct driver_api *cuda;
    int ordinal = -1;

    if (driver_api(&cuda) == HVD_OK)
        ordinal = device_of(cuda, (CUdeviceptr)(uintptr_t)ptr);
    if (ordinal >= 0 && ordinal != device_ordinal())
        return error_set(HVD_ERR_INVALID,
                         "%p lies on device %d, this process uses device %d "
                         "(hvd_device_set)",
                         ptr, ordinal, device_ordinal());
    *device_p = ordinal >= 0;
    return HVD_OK;
}

/* --- events and marks --- */

static hvd_status_t take_event(struct device *d, CUevent *event_p)
{
    *event_p = NULL;
    pthread_mutex_lock(&d->lock);
    if (d->n_spare > 0)
        *event_p = d->spare[--d->n_spare];
    pthread_mutex_unlock(&d->lock);
    if (*event_p != NULL)
        return HVD_OK;
    return device_check(
        d, d->cuda->cuEventCreate(event_p, CU_EVENT_DISABLE_TIMING),
        "cuEventCreate");
}

hvd_status_t device_record(struct device *d, CUstream stream, CUevent *event_p)
{
    CUevent event;
    CUresult result;

    HVD_TRY(take_event(d, &event));
    result = d->cuda->cuEventRecord(event, stream);
    if (result != CUDA_SUCCESS)
        device_event_free(d, event);
    HVD_TRY(device_check(d, result, "cuEventRecord"));
    *event_p = event;
    return HVD_OK;
}

hvd_status_t device_follow(struct device *d, CUstream stream, CUevent event)
{
    CUresult result = d->cuda->cuStreamWaitEvent(stream, event, 0);

    return device_check(d, result, "cuStreamWaitEvent");
}

void device_event_free(struct device *d, CUevent event)
{
    if (event == NULL)
        return;
    pthread_mutex_lock(&d->lock);
    if (d->n_spare < DEVICE_EVENTS_KEPT) {
        d->spare[d->n_spare++] = event;
        event = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    if (event != NULL)
        (void)d->cuda->cuEventDestroy_v2(event);
}

static bool is_captured(const struct device *d, CUstream stream)
{
    CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = d->cuda->cuStreamIsCapturing(stream, &captured);

    /* the legacy stream, while one that waits for it is captured */
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           captured != CU_STREAM_CAPTURE_STATUS_NONE;
}

static hvd_status_t set_mark(struct device *d, CUstream stream, void **mark_p)
{
    CUevent event;

    if (is_captured(d, stream))
        return error_set(HVD_ERR_UNSUPPORTED,
                         "the stream is being captured: a graph would keep a "
                         "communicator that ends with its generation");
    if (mark_p == NULL)
        return HVD_OK;
    HVD_TRY(device_record(d, stream, &event));
    *mark_p = event;
    return HVD_OK;
}

static hvd_status_t check_stream(const void *stream, bool ordered)
{
    if (!ordered || stream != CU_STREAM_PER_THREAD)
        return HVD_OK;
    return error_set(
        HVD_ERR_UNSUPPORTED,
        "CU_STREAM_PER_THREAD is another stream to the thread that "
        "would have it wait");
}

hvd_status_t device_mark(void *stream, bool ordered, void **mark_p)
{
    struct device *d = self.open;
    CUcontext before;
    CUstreamCaptureMode mode;
    hvd_status_t status;

    HVD_TRY(check_stream(stream, ordered));
    HVD_TRY(device_check(d, d->cuda->cuCtxPushCurrent_v2(d->context),
                         "its context"));
    mode = driver_relax(d->cuda);
    status = set_mark(d, stream, mark_p);
    (void)d->cuda->cuThreadExchangeStreamCaptureMode(&mode);
    (void)d->cuda->cuCtxPopCurrent_v2(&before);
    return status;
}

void device_unmark(void *mark)
{
    struct device *d = self.open;

    if (d != NULL)
        device_event_free(d, mark);
}
