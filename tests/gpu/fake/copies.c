/* copies.c - the driver's copies. See fake.h. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "fake.h"

struct copy {
    void *dst;
    const void *src;
    size_t nbytes;
    bool *done_p; /* its caller waits; NULL: frees it */
};

static void copy(void *arg)
{
    struct copy *c = arg;

    if (!fake_is_broken())
        memmove(fake_memory(c->dst), fake_memory(c->src), c->nbytes);
    if (c->done_p != NULL) {
        pthread_mutex_lock(&fake_lock);
        *c->done_p = true;
        pthread_cond_broadcast(&fake_changed);
        pthread_mutex_unlock(&fake_lock);
    }
    free(c);
}

static void await_copy(const bool *done)
{
    pthread_mutex_lock(&fake_lock);
    while (!*done)
        pthread_cond_wait(&fake_changed, &fake_lock);
    pthread_mutex_unlock(&fake_lock);
}

/* To or from memory that is not pinned it returns when it is over. */
FAKE_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t nbytes,
                                CUstream stream)
{
    struct copy *c;
    bool done = false, waits;

    if (fake_is_broken())
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!fake_in_context())
        return CUDA_ERROR_INVALID_CONTEXT;
    c = malloc(sizeof(*c));
    *c = (struct copy){(void *)(uintptr_t)dst, (void *)(uintptr_t)src, nbytes,
                       NULL};
    waits = !fake_is_reachable(c->dst, nbytes) ||
            !fake_is_reachable(c->src, nbytes);
    c->done_p = waits ? &done : NULL;
    fake_enqueue(stream, copy, c);
    if (waits)
        await_copy(&done);
    return fake_is_broken() ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

FAKE_API CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs,
                                        size_t *nbytes, size_t n,
                                        CUmemcpyAttributes *attributes,
                                        size_t *first, size_t n_attributes,
                                        CUstream stream)
{
    CUresult result = CUDA_SUCCESS;

    if (n == 0 || n_attributes != 1 || first[0] != 0 ||
        attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
        stream == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = n; i-- > 0 && result == CUDA_SUCCESS;)
        result = nbytes[i] == 0
                     ? CUDA_ERROR_INVALID_VALUE
                     : cuMemcpyAsync(dsts[i], srcs[i], nbytes[i], stream);
    return result;
}
