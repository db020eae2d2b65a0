/* tests/integration/gpu.c - see gpu.h. */
#include "gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_NBYTES = 256, KEPT_NBYTES = 4 << 20, NOT_READY = 600 };

/* As cuda.h has them; results are 0 or an error. */
static struct {
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuCtxPushCurrent_v2)(void *context);
    int (*cuMemAlloc_v2)(uint64_t *ptr, size_t nbytes);
    int (*cuMemcpyAsync)(uint64_t dst, uint64_t src, size_t nbytes,
                         void *stream);
    int (*cuStreamQuery)(void *stream);
} cuda;

static uint64_t buffer, kept;

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

static void begin(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;

    must(driver == NULL, "libcuda.so.1");
    must(hvd_device_set(hvd_slot()), "hvd_device_set");
#define FIND(name) find(driver, &cuda.name, #name)
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxPushCurrent_v2);
    FIND(cuMemAlloc_v2);
    FIND(cuMemcpyAsync);
    FIND(cuStreamQuery);
#undef FIND
    must(cuda.cuDevicePrimaryCtxRetain(&context, hvd_slot()), "its context");
    must(cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
    must(cuda.cuMemAlloc_v2(&buffer, BUFFER_NBYTES), "cuMemAlloc");
    must(cuda.cuMemAlloc_v2(&kept, KEPT_NBYTES), "cuMemAlloc");
}

static void copy(uint64_t dst, uint64_t src, size_t nbytes)
{
    int result;

    must(cuda.cuMemcpyAsync(dst, src, nbytes, NULL), "cuMemcpyAsync");
    do
        result = cuda.cuStreamQuery(NULL);
    while (result == NOT_READY);
    must(result, "cuStreamQuery");
}

hvd_status_t gpu_allreduce(void *values, size_t count, hvd_dtype_t dtype,
                           hvd_op_t op)
{
    size_t nbytes = count * hvd_dtype_size(dtype);
    void *there;

    if (buffer == 0)
        begin();
    there = (void *)(uintptr_t)buffer;
    copy(buffer, (uintptr_t)values, nbytes);
    HVD_TRY(hvd_allreduce(there, there, count, dtype, op));
    copy((uintptr_t)values, buffer, nbytes);
    return HVD_OK;
}

void gpu_store(uint64_t word)
{
    copy(kept + KEPT_NBYTES - sizeof(word), (uintptr_t)&word, sizeof(word));
}

uint64_t gpu_stored(void)
{
    uint64_t word;

    copy((uintptr_t)&word, kept + KEPT_NBYTES - sizeof(word), sizeof(word));
    return word;
}

hvd_status_t gpu_keep(hvd_state_t *state)
{
    begin();
    gpu_store(0);
    return hvd_state_add_device(state, "kept", (void *)(uintptr_t)kept,
                                KEPT_NBYTES, NULL);
}
