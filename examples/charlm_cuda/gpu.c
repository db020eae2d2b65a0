/* examples/charlm_cuda/gpu.c - see gpu.h. */
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

enum { THREADS = 128 }; /* of a block */

/* Names with a version are what the header's macros make of the plain ones. */
#define FUNCTIONS(X)            \
    X(cuInit)                   \
    X(cuGetErrorName)           \
    X(cuDeviceGet)              \
    X(cuDevicePrimaryCtxRetain) \
    X(cuCtxPushCurrent_v2)      \
    X(cuMemAlloc_v2)            \
    X(cuMemFree_v2)             \
    X(cuMemcpyAsync)            \
    X(cuStreamSynchronize)      \
    X(cuModuleLoadData)         \
    X(cuModuleGetFunction)      \
    X(cuLaunchKernel)

static struct {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
#undef FIELD
    CUmodule module;
} cuda;

static void fail(const char *call, const char *why)
{
    fprintf(stderr, "%s: error: %s: %s\n", program_invocation_short_name, call,
            why);
    exit(1);
}

static void must(CUresult result, const char *call)
{
    const char *name = NULL;

    if (result == CUDA_SUCCESS)
        return;
    cuda.cuGetErrorName(result, &name);
    fail(call, name ? name : "an unknown error");
}

#define MUST(function, ...) must(cuda.function(__VA_ARGS__), #function)

static void find(void *driver, const char *name, void *function_p)
{
    void *function = driver ? dlsym(driver, name) : NULL;

    if (!function)
        fail("CUDA driver", dlerror());
    memcpy(function_p, &function, sizeof(function));
}

void gpu_open(int device, const char *code)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;
    CUdevice number;

#define FIND(name) find(driver, #name, &cuda.name);
    FUNCTIONS(FIND)
#undef FIND
    MUST(cuInit, 0);
    MUST(cuDeviceGet, &number, device);
    MUST(cuDevicePrimaryCtxRetain, &context, number);
    MUST(cuCtxPushCurrent_v2, context);
    MUST(cuModuleLoadData, &cuda.module, code);
}

static CUdeviceptr at(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

void *gpu_alloc(size_t nbytes)
{
    CUdeviceptr ptr;

    MUST(cuMemAlloc_v2, &ptr, nbytes);
    return (void *)(uintptr_t)ptr;
}

void gpu_free(const void *ptr)
{
    if (!ptr)
        return;
    /* an earlier failure has ended the program already */
    (void)cuda.cuStreamSynchronize(NULL);
    (void)cuda.cuMemFree_v2(at(ptr));
}

void gpu_copy(void *dst, const void *src, size_t nbytes)
{
    MUST(cuMemcpyAsync, at(dst), at(src), nbytes, NULL);
    MUST(cuStreamSynchronize, NULL);
}

void gpu_launch(const char *kernel, size_t count, void **parameters)
{
    unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
    CUfunction function;

    if (count == 0)
        return;
    MUST(cuModuleGetFunction, &function, cuda.module, kernel);
    MUST(cuLaunchKernel, function, blocks, 1, 1, THREADS, 1, 1, 0, NULL,
         parameters, NULL);
}
