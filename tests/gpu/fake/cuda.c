/* cuda.c - the driver: devices, contexts, memory, streams, events. See
 * fake.h. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver.h"
#include "fake.h"

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
static atomic_bool broken;

#define CHECK_DEVICE()                         \
    do {                                       \
        if (atomic_load(&broken))              \
            return CUDA_ERROR_ILLEGAL_ADDRESS; \
    } while (0)

void fake_break(void)
{
    atomic_store(&broken, true);
}

bool fake_is_broken(void)
{
    return atomic_load(&broken);
}

/* --- devices --- */

struct CUctx_st {
    CUdevice device;
};

enum { DEVICES_MAX = 16 };
static struct CUctx_st contexts[DEVICES_MAX];
static atomic_int n_contexts;
static __thread CUcontext current[8];
static __thread int depth;
static __thread CUstreamCaptureMode capture_mode =
    CU_STREAM_CAPTURE_MODE_GLOBAL;
static int n_captured, n_blocking_captured; /* streams, in global mode */

#define CHECK_CONTEXT()                        \
    do {                                       \
        CHECK_DEVICE();                        \
        if (depth == 0)                        \
            return CUDA_ERROR_INVALID_CONTEXT; \
    } while (0)

/* Not while somebody captures, but for who has relaxed. */
#define CHECK_CAPTURE()                                       \
    do {                                                      \
        CHECK_DEVICE();                                       \
        if (capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED && \
            is_captured_somewhere())                          \
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;     \
    } while (0)

static bool is_captured_somewhere(void)
{
    bool is;

    pthread_mutex_lock(&fake_lock);
    is = n_captured > 0;
    pthread_mutex_unlock(&fake_lock);
    return is;
}

FAKE_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = capture_mode;

    capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

bool fake_in_context(void)
{
    return depth > 0;
}

FAKE_API CUresult cuInit(unsigned flags)
{
    (void)flags;
    return fake_knob(FAKE_DEVICES) > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

FAKE_API CUresult cuDriverGetVersion(int *version)
{
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuGetErrorName(CUresult error, const char **name)
{
    switch (error) {
    case CUDA_SUCCESS:
        *name = "CUDA_SUCCESS";
        return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
        *name = "CUDA_ERROR_OUT_OF_MEMORY";
        return CUDA_SUCCESS;
    case CUDA_ERROR_NO_DEVICE:
        *name = "CUDA_ERROR_NO_DEVICE";
        return CUDA_SUCCESS;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
        *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

FAKE_API CUresult cuGetErrorString(CUresult error, const char **text)
{
    return cuGetErrorName(error, text);
}

FAKE_API CUresult cuDeviceGetCount(int *n)
{
    *n = (int)fake_knob(FAKE_DEVICES);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CHECK_DEVICE();
    if (ordinal < 0 || ordinal >= fake_knob(FAKE_DEVICES))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetName(char *name, int n, CUdevice device)
{
    snprintf(name, (size_t)n, "fake %d", device);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    long first = fake_knob(FAKE_UUID) + device;
    const char *host = getenv("HVD_HOST");

    memset(uuid, 0, sizeof(*uuid));
    memcpy(uuid, &first, sizeof(first));
    if (fake_knob(FAKE_BY_HOST) && host != NULL)
        memcpy(uuid->bytes + sizeof(first), host, strnlen(host, 8));
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CHECK_DEVICE();
    contexts[device].device = device;
    *context = &contexts[device];
    atomic_fetch_add(&n_contexts, 1);
    return CUDA_SUCCESS;
}

int fake_contexts(void)
{
    return atomic_load(&n_contexts);
}

FAKE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    (void)device;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CHECK_DEVICE();
    if (depth == 8)
        return CUDA_ERROR_INVALID_VALUE;
    current[depth++] = context;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = current[--depth];
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxGetDevice(CUdevice *device)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = current[depth - 1]->device;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

/* --- memory --- */

struct area {
    struct area *next;
    uint8_t *shown; /* the device's address: no rights */
    uint8_t *real;
    size_t nbytes, mapped;
    CUdevice device;
};

static struct area *areas;
static size_t allocated;

static struct area *find(const void *ptr)
{
    uintptr_t at = (uintptr_t)ptr;
    struct area *a = areas;

    while (a != NULL && at - (uintptr_t)a->shown >= a->nbytes)
        a = a->next;
    return a;
}

void *fake_memory(const void *ptr)
{
    struct area *a;
    void *real = (void *)(uintptr_t)ptr;

    pthread_mutex_lock(&fake_lock);
    a = find(ptr);
    if (a != NULL)
        real = a->real + ((const uint8_t *)ptr - a->shown);
    pthread_mutex_unlock(&fake_lock);
    return real;
}

FAKE_API CUresult cuMemGetInfo_v2(size_t *n_free, size_t *total)
{
    CHECK_DEVICE();
    *total = (size_t)fake_knob(FAKE_MEMORY);
    pthread_mutex_lock(&fake_lock);
    *n_free = *total - allocated;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

static struct area *map(size_t nbytes)
{
    struct area *a = calloc(1, sizeof(*a));

    a->nbytes = nbytes;
    a->mapped = (nbytes + 4095) / 4096 * 4096;
    a->shown = mmap(NULL, a->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0);
    a->real = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->shown == MAP_FAILED || a->real == MAP_FAILED)
        abort();
    return a;
}

FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t nbytes)
{
    struct area *a;

    CHECK_CONTEXT();
    CHECK_CAPTURE();
    if (nbytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    if (allocated + nbytes > (size_t)fake_knob(FAKE_MEMORY)) {
        pthread_mutex_unlock(&fake_lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocated += nbytes;
    a = map(nbytes);
    a->device = current[depth - 1]->device;
    a->next = areas;
    areas = a;
    pthread_mutex_unlock(&fake_lock);
    *ptr = (CUdeviceptr)(uintptr_t)a->shown;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMemFree_v2(CUdeviceptr ptr)
{
    struct area **p = &areas, *a;

    pthread_mutex_lock(&fake_lock);
    while (*p != NULL && (uintptr_t)(*p)->shown != (uintptr_t)ptr)
        p = &(*p)->next;
    a = *p;
    if (a != NULL) {
        *p = a->next;
        allocated -= a->nbytes;
        munmap(a->shown, a->mapped);
        munmap(a->real, a->mapped);
        free(a);
    }
    pthread_mutex_unlock(&fake_lock);
    return a != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct pinned {
    struct pinned *next;
    const uint8_t *bytes;
    size_t nbytes;
} * all_pinned;

/* Under the lock: the one that has a byte of these. */
static struct pinned **find_pinned(const void *ptr, size_t nbytes)
{
    const uint8_t *bytes = ptr;
    struct pinned **p = &all_pinned;

    while (*p != NULL && ((*p)->bytes >= bytes + nbytes ||
                          bytes >= (*p)->bytes + (*p)->nbytes))
        p = &(*p)->next;
    return p;
}

FAKE_API CUresult cuMemHostRegister_v2(void *ptr, size_t nbytes, unsigned flags)
{
    struct pinned *fresh;
    CUresult result = CUDA_SUCCESS;

    (void)flags;
    CHECK_CONTEXT();
    fresh = calloc(1, sizeof(*fresh));
    pthread_mutex_lock(&fake_lock);
    if (*find_pinned(ptr, nbytes) != NULL) {
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        free(fresh);
    } else {
        *fresh = (struct pinned){all_pinned, ptr, nbytes};
        all_pinned = fresh;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

FAKE_API CUresult cuMemHostUnregister(void *ptr)
{
    struct pinned **p, *found;

    CHECK_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    p = find_pinned(ptr, 1);
    found = *p;
    if (found != NULL && found->bytes == ptr)
        *p = found->next;
    pthread_mutex_unlock(&fake_lock);
    if (found == NULL || found->bytes != ptr)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    free(found);
    return CUDA_SUCCESS;
}

bool fake_is_reachable(const void *ptr, size_t nbytes)
{
    bool is;

    pthread_mutex_lock(&fake_lock);
    is = find(ptr) != NULL || *find_pinned(ptr, nbytes) != NULL;
    pthread_mutex_unlock(&fake_lock);
    return is;
}

static bool attribute(const struct area *a, CUpointer_attribute which,
                      void *value)
{
    switch ((int)which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = a->device;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = (CUdeviceptr)(uintptr_t)a->shown;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = a->nbytes;
        return true;
    default:
        return false;
    }
}

FAKE_API CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which,
                                        CUdeviceptr ptr)
{
    const struct area *a;
    bool known;

    pthread_mutex_lock(&fake_lock);
    a = find((void *)(uintptr_t)ptr);
    known = a != NULL && attribute(a, which, value);
    pthread_mutex_unlock(&fake_lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- streams: a thread each --- */

struct work {
    struct work *next;
    void (*fn)(void *arg);
    void *arg;
};

struct CUstream_st {
    pthread_t thread;
    struct work *first, **last;
    bool busy, stop, captured, blocking;
};

static struct CUstream_st *legacy;

static void *stream_main(void *arg)
{
    CUstream s = arg;

    pthread_mutex_lock(&fake_lock);
    for (;;) {
        struct work *w = s->first;

        if (w == NULL && s->stop)
            break;
        if (w == NULL) {
            pthread_cond_wait(&fake_changed, &fake_lock);
            continue;
        }
        s->first = w->next;
        if (s->first == NULL)
            s->last = &s->first;
        s->busy = true;
        pthread_mutex_unlock(&fake_lock);
        fake_pause_us(fake_knob(FAKE_LATE_US));
        w->fn(w->arg);
        free(w);
        pthread_mutex_lock(&fake_lock);
        s->busy = false;
        pthread_cond_broadcast(&fake_changed);
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

static CUstream make_stream(void)
{
    CUstream s = calloc(1, sizeof(*s));

    s->last = &s->first;
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0)
        abort();
    return s;
}

/* Under the lock. */
static CUstream of(CUstream s)
{
    if (s != NULL)
        return s;
    if (legacy == NULL)
        legacy = make_stream();
    return legacy;
}

void fake_enqueue(CUstream stream, void (*fn)(void *arg), void *arg)
{
    struct work *w = calloc(1, sizeof(*w));

    w->fn = fn;
    w->arg = arg;
    pthread_mutex_lock(&fake_lock);
    stream = of(stream);
    *stream->last = w;
    stream->last = &w->next;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
}

FAKE_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                             int priority)
{
    (void)priority;
    CHECK_CONTEXT();
    *stream = make_stream();
    (*stream)->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    return CUDA_SUCCESS;
}

/* What is on it is done first, as it is there. */
FAKE_API CUresult cuStreamDestroy_v2(CUstream s)
{
    pthread_mutex_lock(&fake_lock);
    s->stop = true;
    pthread_cond_broadcast(&fake_changed);
    pthread_mutex_unlock(&fake_lock);
    pthread_join(s->thread, NULL);
    free(s);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamQuery(CUstream s)
{
    bool idle;

    CHECK_DEVICE();
    pthread_mutex_lock(&fake_lock);
    s = of(s);
    idle = !s->busy && s->first == NULL;
    pthread_mutex_unlock(&fake_lock);
    return idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE_API CUresult cuStreamSynchronize(CUstream s)
{
    CUresult result;

    while ((result = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY)
        fake_pause_us(20);
    return result;
}

FAKE_API CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
    bool implicit;

    CHECK_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    implicit = s == NULL && n_blocking_captured > 0;
    *status = s != NULL && s->captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                       : CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_unlock(&fake_lock);
    return implicit ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

static void set_captured(CUstream s, bool captured)
{
    int by = captured ? 1 : -1;

    pthread_mutex_lock(&fake_lock);
    s->captured = captured;
    n_captured += by;
    n_blocking_captured += s->blocking ? by : 0;
    pthread_mutex_unlock(&fake_lock);
}

FAKE_API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode)
{
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
        return CUDA_ERROR_NOT_SUPPORTED;
    set_captured(s, true);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuStreamEndCapture(CUstream s, CUgraph *graph)
{
    set_captured(s, false);
    *graph = NULL;
    return CUDA_SUCCESS;
}

/* --- events: who waits for one waits for what it was recorded as last --- */

struct moment {
    int refs;
    bool passed;
};

struct CUevent_st {
    struct moment *last; /* NULL: never recorded */
};

/* Under the lock. */
static void drop(struct moment *m)
{
    if (m != NULL && --m->refs == 0)
        free(m);
}

FAKE_API CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    CHECK_CONTEXT();
    *event = calloc(1, sizeof(**event));
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuEventDestroy_v2(CUevent event)
{
    pthread_mutex_lock(&fake_lock);
    drop(event->last);
    pthread_mutex_unlock(&fake_lock);
    free(event);
    return CUDA_SUCCESS;
}

static void pass(void *arg)
{
    struct moment *m = arg;

    pthread_mutex_lock(&fake_lock);
    m->passed = true;
    pthread_cond_broadcast(&fake_changed);
    drop(m);
    pthread_mutex_unlock(&fake_lock);
}

static void await(void *arg)
{
    struct moment *m = arg;

    pthread_mutex_lock(&fake_lock);
    while (!m->passed)
        pthread_cond_wait(&fake_changed, &fake_lock);
    drop(m);
    pthread_mutex_unlock(&fake_lock);
}

FAKE_API CUresult cuEventRecord(CUevent event, CUstream stream)
{
    struct moment *m;

    CHECK_CONTEXT();
    m = calloc(1, sizeof(*m));
    m->refs = 2; /* the event's, and the stream's */
    pthread_mutex_lock(&fake_lock);
    drop(event->last);
    event->last = m;
    pthread_mutex_unlock(&fake_lock);
    fake_enqueue(stream, pass, m);
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuEventQuery(CUevent event)
{
    bool passed;

    CHECK_CAPTURE();
    pthread_mutex_lock(&fake_lock);
    passed = event->last == NULL || event->last->passed;
    pthread_mutex_unlock(&fake_lock);
    return passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event,
                                    unsigned flags)
{
    struct moment *m;

    (void)flags;
    CHECK_CONTEXT();
    pthread_mutex_lock(&fake_lock);
    m = event->last;
    if (m != NULL)
        m->refs++;
    pthread_mutex_unlock(&fake_lock);
    if (m != NULL)
        fake_enqueue(stream, await, m);
    return CUDA_SUCCESS;
}
