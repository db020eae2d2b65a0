/* device/scale.c - see scale.h. */
#include "device/scale.h"

#include "base/error.h"
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

static hvd_status_t check(const struct driver_api *cuda, CUresult result,
                          const char *what)
{
    if (result == CUDA_SUCCESS)
        return HVD_OK;
    return error_set(HVD_ERR_SYSTEM, "CUDA: %s of the code that scales: %s",
                     what, driver_error(cuda, result));
}

hvd_status_t scaler_load(struct scaler *s, const struct driver_api *cuda)
{
    if (s->module != NULL)
        return HVD_OK;
    return check(cuda, cuda->cuModuleLoadData(&s->module, scale_code),
                 "cuModuleLoadData");
}

hvd_status_t scaler_run(struct scaler *s, const struct driver_api *cuda,
                        CUstream stream, hvd_dtype_t dtype, CUdeviceptr dst,
                        CUdeviceptr src, size_t count, double factor)
{
    size_t blocks = (count + THREADS - 1) / THREADS;
    void *parameters[] = {&dst, &src, &count, &factor};
    CUfunction function;
    CUresult result;

    result = cuda->cuModuleGetFunction(&function, s->module, names[dtype]);
    HVD_TRY(check(cuda, result, "cuModuleGetFunction"));
    blocks = blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
    result = cuda->cuLaunchKernel(function, (unsigned)blocks, 1, 1, THREADS, 1,
                                  1, 0, stream, parameters, NULL);
    return check(cuda, result, "cuLaunchKernel");
}

void scaler_fini(struct scaler *s, const struct driver_api *cuda)
{
    if (s->module != NULL)
        (void)cuda->cuModuleUnload(s->module);
    s->module = NULL;
}
