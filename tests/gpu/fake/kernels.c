/* kernels.c - modules, and launches of the kernels in them: those of the house,
 * and those of the program that FAKE_KERNELS brings. See fake.h, kernels.h. */
#include "kernels.h"

#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/reduce/dtype.h"
#include "fake.h"

/* --- the house's: dst [count] = src [count] * factor --- */

struct scaling {
    void *dst;
    const void *src;
    size_t count;
    double factor;
};

static const size_t scaling_nbytes[] = {sizeof(void *), sizeof(void *),
                                        sizeof(size_t), sizeof(double)};
static const bool scaling_pointers[] = {true, true, false, false};

static struct scaling scaling_of(void *const *parameters)
{
    return (struct scaling){*(void **)parameters[0],
                            *(const void **)parameters[1],
                            *(size_t *)parameters[2], *(double *)parameters[3]};
}

static void scale_float64(unsigned n_blocks, unsigned n_threads,
                          void *const *parameters)
{
    struct scaling s = scaling_of(parameters);

    for (size_t i = 0; i < s.count; i++)
        ((double *)s.dst)[i] = ((const double *)s.src)[i] * s.factor;
}

static void scale_float32(unsigned n_blocks, unsigned n_threads,
                          void *const *parameters)
{
    struct scaling s = scaling_of(parameters);

    for (size_t i = 0; i < s.count; i++)
        ((float *)s.dst)[i] = (float)(((const float *)s.src)[i] * s.factor);
}

static void scale_float16(unsigned n_blocks, unsigned n_threads,
                          void *const *parameters)
{
    struct scaling s = scaling_of(parameters);

    for (size_t i = 0; i < s.count; i++)
        ((uint16_t *)s.dst)[i] = half_of_float(
            half_to_float(((const uint16_t *)s.src)[i]) * (float)s.factor);
}

static void scale_bfloat16(unsigned n_blocks, unsigned n_threads,
                           void *const *parameters)
{
    struct scaling s = scaling_of(parameters);

    for (size_t i = 0; i < s.count; i++)
        ((uint16_t *)s.dst)[i] = bfloat_of_float(
            bfloat_to_float(((const uint16_t *)s.src)[i]) * (float)s.factor);
}

#define SCALING(type)                                                         \
    {                                                                         \
        "hvd_scale_" #type, 4, scaling_nbytes, scaling_pointers, scale_##type \
    }
static const struct fake_kernel house[] = {SCALING(float64),
                                           SCALING(float32),
                                           SCALING(float16),
                                           SCALING(bfloat16),
                                           {0}};

/* --- the program's --- */

static const struct fake_kernel none = {0}, *program = &none;

static void load_program(void)
{
    const char *path = getenv("FAKE_KERNELS");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct fake_kernel *kernels = library != NULL
                                            ? dlsym(library, "fake_kernels")
                                            : NULL;

    if (path != NULL && kernels == NULL) {
        fprintf(stderr, "FAKE_KERNELS: %s\n", dlerror());
        abort();
    }
    if (kernels != NULL)
        program = kernels;
}

static const struct fake_kernel *find(const struct fake_kernel *kernels,
                                      const char *name)
{
    while (kernels->name != NULL && strcmp(kernels->name, name) != 0)
        kernels++;
    return kernels->name != NULL ? kernels : NULL;
}

/* --- modules: the text that they were loaded from --- */

FAKE_API CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    if (fake_is_broken())
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    *module = (CUmodule)(uintptr_t)image;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                                      const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct fake_kernel *kernel;

    pthread_once(&once, load_program);
    kernel = find(house, name);
    if (kernel == NULL)
        kernel = find(program, name);
    if (kernel == NULL || strstr((const char *)module, name) == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *function = (CUfunction)(uintptr_t)kernel;
    return CUDA_SUCCESS;
}

/* --- launches --- */

enum { PARAMETERS_MAX = 16 };

struct launch {
    const struct fake_kernel *kernel;
    unsigned n_blocks, n_threads;
    struct parameter {
        _Alignas(16) uint8_t bytes[64];
    } parameters[PARAMETERS_MAX];
};

static struct launch *launch_of(const struct fake_kernel *kernel,
                                unsigned n_blocks, unsigned n_threads,
                                void **parameters)
{
    struct launch *l = malloc(sizeof(*l));

    assert(kernel->n_parameters <= PARAMETERS_MAX);
    l->kernel = kernel;
    l->n_blocks = n_blocks;
    l->n_threads = n_threads;
    for (size_t i = 0; i < kernel->n_parameters; i++) {
        assert(kernel->nbytes[i] <= sizeof(l->parameters[i].bytes));
        memcpy(l->parameters[i].bytes, parameters[i], kernel->nbytes[i]);
    }
    return l;
}

/* From the hold_at-th on, none begins before the file is there. */
static void await_release(void)
{
    static atomic_long n_launches;
    const char *path = getenv("FAKE_RELEASE");
    long at = fake_knob(FAKE_HOLD_AT);

    if (path == NULL || at == 0 || atomic_fetch_add(&n_launches, 1) + 1 < at)
        return;
    while (access(path, F_OK) != 0)
        fake_pause_us(1000);
}

static void run_kernel(void *arg)
{
    struct launch *l = arg;
    void *parameters[PARAMETERS_MAX];

    for (size_t i = 0; i < l->kernel->n_parameters; i++) {
        parameters[i] = l->parameters[i].bytes;
        if (l->kernel->pointers[i])
            *(void **)parameters[i] = fake_memory(*(void **)parameters[i]);
    }
    await_release();
    l->kernel->run(l->n_blocks, l->n_threads, parameters);
    free(l);
}

FAKE_API CUresult cuLaunchKernel(CUfunction function, unsigned blocks_x,
                                 unsigned blocks_y, unsigned blocks_z,
                                 unsigned threads_x, unsigned threads_y,
                                 unsigned threads_z, unsigned shared,
                                 CUstream stream, void **parameters,
                                 void **extra)
{
    const void *kernel = function;

    if (fake_is_broken())
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (blocks_x == 0 || blocks_y != 1 || blocks_z != 1 || threads_x == 0 ||
        threads_y != 1 || threads_z != 1 || shared != 0 || extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    fake_enqueue(stream, run_kernel,
                 launch_of(kernel, blocks_x, threads_x, parameters));
    return CUDA_SUCCESS;
}
