/* bench/gpu.h - buffers on the GPU of a worker: what programs of bench/ and
 * tests/integration need of CUDA. Its driver is found at run time, so
 * that no headers are needed to build. Whatever fails ends the process with a
 * sentence: nothing here is worth a recovery.
 *
 * Threads: one. Memory: the process's, until it ends. */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include <stddef.h>

#include <hvd/hvd.h>

/* The device of this slot (hvd_device_set), or one that it shares where there
 * are fewer. Once, behind hvd_init; again it does nothing. Returns how long its
 * context took the first time, ms. */
double gpu_open(void);

/* Opened. nbytes > 0; what is there is not known. */
void *gpu_alloc(size_t nbytes);
void gpu_free(void *ptr);

/* To, from or within the device, and back when it is done. */
void gpu_copy(void *dst, const void *src, size_t nbytes);

/* One that waits for no other. NULL, else, is the legacy default stream. */
void *gpu_stream(void);
void gpu_stream_free(void *stream);

/* Is all done that was put on the stream? */
bool gpu_is_idle(void *stream);

/* Of the device, whoever has the rest. */
size_t gpu_free_nbytes(void);

#endif
