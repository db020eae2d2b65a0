/* bench/gpu.c - see gpu.h. */
#include "gpu.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NOT_READY = 600, NON_BLOCKING = 1 };

/* As cuda.h has them; results are 0 or an error. */
static struct {
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuCtxPushCurrent_v2)(void *context);
    int (*cuMemAlloc_v2)(uint64_t *ptr, size_t nbytes);
    int (*cuMemFree_v2)(uint64_t ptr);
    int (*cuMemGetInfo_v2)(size_t *n_free, size_t *total);
    int (*cuMemcpyAsync)(uint64_t dst, uint64_t src, size_t nbytes,
                         void *stream);
    int (*cuStreamCreateWithPriority)(void **stream, unsigned flags,
                                      int priority);
    int (*cuStreamDestroy_v2)(void *stream);
    int (*cuStreamQuery)(void *stream);
} cuda;

static bool opened;

static void must(int result, const char *call)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s: error %d\n", call, result);
    exit(1);
}

static void find(void *driver, void *function_p, const char *name)
{
    void *function = dlsym(driver, name);

    must(function == NULL, name);
    memcpy(function_p, &function, sizeof(function));
}

static void find_all(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    must(driver == NULL, "libcuda.so.1");
#define FIND(name) find(driver, &cuda.name, #name)
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxPushCurrent_v2);
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemGetInfo_v2);
    FIND(cuMemcpyAsync);
    FIND(cuStreamCreateWithPriority);
    FIND(cuStreamDestroy_v2);
    FIND(cuStreamQuery);
#undef FIND
}

/* Also initializes the driver. */
static int choose(void)
{
    hvd_device_info_t info = {.struct_size = sizeof(info)};
    int device;

    must(hvd_device_info(&info), "hvd_device_info");
    if (info.n_devices == 0) {
        fprintf(stderr, "no device: %s\n", info.reason);
        exit(1);
    }
    device = hvd_slot() % info.n_devices;
    must(hvd_device_set(device), "hvd_device_set");
    return device;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

double gpu_open(void)
{
    void *context;
    double start_ms;
    int device;

    if (opened)
        return 0;
    opened = true;
    find_all();
    device = choose();
    start_ms = now_ms();
    must(cuda.cuDevicePrimaryCtxRetain(&context, device), "its context");
    must(cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
    return now_ms() - start_ms;
}

void *gpu_alloc(size_t nbytes)
{
    uint64_t ptr = 0;

    must(cuda.cuMemAlloc_v2(&ptr, nbytes), "cuMemAlloc");
    return (void *)(uintptr_t)ptr;
}

void gpu_free(void *ptr)
{
    must(cuda.cuMemFree_v2((uintptr_t)ptr), "cuMemFree");
}

void *gpu_stream(void)
{
    void *stream;

    must(cuda.cuStreamCreateWithPriority(&stream, NON_BLOCKING, 0),
         "cuStreamCreate");
    return stream;
}

void gpu_stream_free(void *stream)
{
    must(cuda.cuStreamDestroy_v2(stream), "cuStreamDestroy");
}

bool gpu_is_idle(void *stream)
{
    int result = cuda.cuStreamQuery(stream);

    if (result != NOT_READY)
        must(result, "cuStreamQuery");
    return result == 0;
}

void gpu_copy(void *dst, const void *src, size_t nbytes)
{
    must(cuda.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, nbytes, NULL),
         "cuMemcpyAsync");
    while (!gpu_is_idle(NULL))
        sched_yield();
}

size_t gpu_free_nbytes(void)
{
    size_t n_free = 0, total;

    must(cuda.cuMemGetInfo_v2(&n_free, &total), "cuMemGetInfo");
    return n_free;
}
