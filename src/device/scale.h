/* device/scale.h - elements on a device times a factor: the one thing that is
 * done there with code of ours. (NCCL can scale by itself, but then takes none
 * of its fastest ways.)
 *
 * Threads: the device's. */
#ifndef DEVICE_SCALE_H
#define DEVICE_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#include "device/driver_api.h"

struct device;

struct scaler {
    CUmodule module; /* NULL: not loaded yet */
    CUfunction functions[HVD_FLOAT64 + 1];
};

/* Has it code for these? Floating point alone. */
bool scale_serves(hvd_dtype_t dtype);

/* Compiles the code for this device, once: before anybody waits for it. */
hvd_status_t scaler_load(struct scaler *s,
                         const struct device *d) HVD_MUST_CHECK;

/* dst = src * factor, [count] each, on the stream; both may be one. Loaded. */
hvd_status_t scaler_run(const struct scaler *s, const struct device *d,
                        CUstream stream, hvd_dtype_t dtype, CUdeviceptr dst,
                        CUdeviceptr src, size_t count,
                        double factor) HVD_MUST_CHECK;

void scaler_fini(struct scaler *s, const struct driver_api *cuda);

#endif
