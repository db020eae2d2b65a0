/* examples/charlm_cuda/gpu.h - a device, as this program uses it: memory,
 * copies, and the program's own kernels, all on the legacy default stream. The
 * driver is found at run time: a machine without one can build this.
 *
 * A failure ends the program, with status 1 and a line that names the call:
 * hvd-elastic then starts another worker.
 *
 * Threads: one. Memory: of the device; all of it ends with the process. */
#ifndef CHARLM_CUDA_GPU_H
#define CHARLM_CUDA_GPU_H

#include <stddef.h>

/* device: CUDA's number of it. code: PTX, a string. */
void gpu_open(int device, const char *code);

void *gpu_alloc(size_t nbytes);
/* Waits for the kernels that were launched. NULL is fine. */
void gpu_free(const void *ptr);

/* Copy from or to the device, after the kernels that were launched; complete on
 * return. */
void gpu_copy(void *dst, const void *src, size_t nbytes);

/* Start `kernel` with a thread for each of `count` numbers; parameters point to
 * its arguments, and are read before this returns. */
void gpu_launch(const char *kernel, size_t count, void **parameters);

#endif
