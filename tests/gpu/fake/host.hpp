/* host.hpp - kernels in CUDA's C++ compiled for the host: include this, then
 * the kernels, and list them as HOST_KERNEL(name). Threads of a kernel run one
 * after the other, so that none may wait for another.
 *
 * Threads: any; one kernel runs at a time, as all have the same indices. Were
 * these thread_local, the leak sanitizer of gcc 12 would crash: a library with
 * them that is loaded when there are threads already is too much for it. */
#ifndef TESTS_GPU_FAKE_HOST_HPP
#define TESTS_GPU_FAKE_HOST_HPP

#include <mutex>
#include <type_traits>
#include <utility>

#include "kernels.h"

#define __global__
#define __device__

struct host_index {
    unsigned x;
};
static host_index blockDim, blockIdx, threadIdx;
static std::mutex host_mutex;

template <auto kernel> struct host_kernel;

template <typename... P, void (*kernel)(P...)> struct host_kernel<kernel> {
    static constexpr size_t nbytes[] = {sizeof(P)...};
    static constexpr bool pointers[] = {std::is_pointer_v<P>...};

    template <size_t... I>
    static void call(void *const *parameters, std::index_sequence<I...>)
    {
        kernel(*static_cast<P *>(parameters[I])...);
    }

    static void run(unsigned n_blocks, unsigned n_threads,
                    void *const *parameters)
    {
        std::lock_guard<std::mutex> guard(host_mutex);

        blockDim.x = n_threads;
        for (unsigned block = 0; block < n_blocks; block++)
            for (unsigned thread = 0; thread < n_threads; thread++) {
                blockIdx.x = block;
                threadIdx.x = thread;
                call(parameters, std::index_sequence_for<P...>{});
            }
    }

    static constexpr fake_kernel named(const char *name)
    {
        return {name, sizeof...(P), nbytes, pointers, run};
    }
};

#define HOST_KERNEL(name) host_kernel<name>::named(#name)

#endif
