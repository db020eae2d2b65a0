/* device/scale.c - see scale.h. */
#include "device/scale.h"

#include "device/impl.h"
#include "device/scale_code.h"

enum { THREADS = 256, BLOCKS_MAX = 1024 };

static const char *const names[] = {
    [HVD_FLOAT16] = "hvd_scale_float16",
    [HVD_BFLOAT16] = "hvd_scale_bfloat16",
    [HVD_FLOAT32] = "hvd_scale_float32",
    [HVD_FLOAT64] = "hvd_scale_float64",
};

bool scale_serves(hvd_dtype_t dtype)
{
    return dtype >= HVD_FLOAT16 && dtype <= HVD_FLOAT64;
}

/* A driver may load a function when it is first asked for, and wait for the
 * device to do it: where a collective waits for its peers it would wait for
 * those. So all are asked for here. */
hvd_status_t scaler_load(struct scaler *s, const struct device *d)
{
    CUresult result;

    if (s->module != NULL)
        return HVD_OK;
    result = d->cuda->cuModuleLoadData(&s->module, scale_code);
    HVD_TRY(device_check(d, result, "the code that scales"));
    for (int i = HVD_FLOAT16; i <= HVD_FLOAT64; i++) {
        result = d->cuda->cuModuleGetFunction(&s->functions[i], s->module,
                                              names[i]);
        HVD_TRY(device_check(d, result, names[i]));
    }
    return HVD_OK;
}

hvd_status_t scaler_run(const struct scaler *s, const struct device *d,
                        CUstream stream, hvd_dtype_t dtype, CUdeviceptr dst,
                        CUdeviceptr src, size_t count, double factor)
{
    size_t blocks = (count + THREADS - 1) / THREADS;
    void *parameters[] = {&dst, &src, &count, &factor};
    CUresult result;

    blocks = blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
    result = d->cuda->cuLaunchKernel(s->functions[dtype], (unsigned)blocks, 1,
                                     1, THREADS, 1, 1, 0, stream, parameters,
                                     NULL);
    return device_check(d, result, "cuLaunchKernel");
}

void scaler_fini(struct scaler *s, const struct driver_api *cuda)
{
    if (s->module != NULL)
        (void)cuda->cuModuleUnload(s->module);
    s->module = NULL;
}
