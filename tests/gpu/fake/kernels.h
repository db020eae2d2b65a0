/* kernels.h - what the fake driver knows of a kernel: how its parameters lie,
 * and what it does. FAKE_KERNELS names a library that has such a table of a
 * program's own kernels, `fake_kernels`, made by host.hpp. C and C++.
 *
 * Threads: run() is called by the thread of a stream. Memory: constant. */
#ifndef TESTS_GPU_FAKE_KERNELS_H
#define TESTS_GPU_FAKE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

struct fake_kernel {
    const char *name; /* NULL: the end of the table */
    size_t n_parameters;
    const size_t *nbytes; /* [n_parameters] */
    const bool
        *pointers; /* [n_parameters]: is it one, to the device's memory? */
    /* All threads of all blocks. parameters [n_parameters] point to each; what
     * pointers among them point to can be touched. */
    void (*run)(unsigned n_blocks, unsigned n_threads, void *const *parameters);
};

#endif
