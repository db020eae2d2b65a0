/* tests/integration/gpu.c - see gpu.h. */
#include "gpu.h"

#include "bench/gpu.h"

enum { BUFFER_NBYTES = 256, KEPT_NBYTES = (1 << 20) + 4096 };

static void *buffer;
static char *kept;

static void begin(void)
{
    (void)gpu_open();
    buffer = gpu_alloc(BUFFER_NBYTES);
    kept = gpu_alloc(KEPT_NBYTES);
}

hvd_status_t gpu_allreduce(void *values, size_t count, hvd_dtype_t dtype,
                           hvd_op_t op)
{
    size_t nbytes = count * hvd_dtype_size(dtype);

    if (buffer == NULL)
        begin();
    gpu_copy(buffer, values, nbytes);
    HVD_TRY(hvd_allreduce(buffer, buffer, count, dtype, op));
    gpu_copy(values, buffer, nbytes);
    return HVD_OK;
}

void gpu_store(uint64_t word)
{
    gpu_copy(kept + KEPT_NBYTES - sizeof(word), &word, sizeof(word));
}

uint64_t gpu_stored(void)
{
    uint64_t word;

    gpu_copy(&word, kept + KEPT_NBYTES - sizeof(word), sizeof(word));
    return word;
}

hvd_status_t gpu_keep(hvd_state_t *state)
{
    begin();
    gpu_store(0);
    return hvd_state_add_device(state, "kept", kept, KEPT_NBYTES, NULL);
}
