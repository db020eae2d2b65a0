/* tests/integration/gpu.h - a device buffer for trainer: what it adds up goes
 * there, is combined there, and comes back. The driver is found at run time, so
 * that no headers are needed. Threads: one. */
#ifndef TESTS_INTEGRATION_GPU_H
#define TESTS_INTEGRATION_GPU_H

#include <hvd/hvd.h>

/* values [count] of at most 64 bytes, in place. Exits with a sentence where
 * there is no driver. */
hvd_status_t gpu_allreduce(void *values, size_t count, hvd_dtype_t dtype,
                           hvd_op_t op);

#endif
