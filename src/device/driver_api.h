/* device/driver_api.h - the functions of the CUDA driver that this room calls,
 * found at run time: nothing is linked, and a machine without a GPU lacks
 * nothing. The only header that includes cuda.h.
 *
 * Names with a version are the ones that the header means: its macros map the
 * plain names to them.
 *
 * Threads: any, after driver_api(). Memory: one table for the process. */
#ifndef DEVICE_DRIVER_API_H
#define DEVICE_DRIVER_API_H

#include <stdbool.h>

#include <cuda.h>
#include <hvd/status.h>

#define DRIVER_FUNCTIONS(X)              \
    X(cuInit)                            \
    X(cuDriverGetVersion)                \
    X(cuGetErrorName)                    \
    X(cuGetErrorString)                  \
    X(cuDeviceGetCount)                  \
    X(cuDeviceGet)                       \
    X(cuDeviceGetName)                   \
    X(cuDeviceGetUuid_v2)                \
    X(cuDevicePrimaryCtxRetain)          \
    X(cuDevicePrimaryCtxRelease_v2)      \
    X(cuCtxPushCurrent_v2)               \
    X(cuCtxPopCurrent_v2)                \
    X(cuMemGetInfo_v2)                   \
    X(cuMemAlloc_v2)                     \
    X(cuMemFree_v2)                      \
    X(cuMemHostRegister_v2)              \
    X(cuMemHostUnregister)               \
    X(cuMemcpyAsync)                     \
    X(cuPointerGetAttribute)             \
    X(cuStreamCreateWithPriority)        \
    X(cuStreamDestroy_v2)                \
    X(cuStreamWaitEvent)                 \
    X(cuStreamIsCapturing)               \
    X(cuThreadExchangeStreamCaptureMode) \
    X(cuEventCreate)                     \
    X(cuEventDestroy_v2)                 \
    X(cuEventRecord)                     \
    X(cuEventQuery)                      \
    X(cuCtxGetStreamPriorityRange)       \
    X(cuModuleLoadData)                  \
    X(cuModuleUnload)                    \
    X(cuModuleGetFunction)               \
    X(cuLaunchKernel)

/* NULL in a driver that is older than CUDA 13. */
#define DRIVER_OPTIONAL_FUNCTIONS(X) X(cuMemcpyBatchAsync_v2)

struct driver_api {
#define DRIVER_FIELD(name) __typeof__(&name) name;
    DRIVER_FUNCTIONS(DRIVER_FIELD)
    DRIVER_OPTIONAL_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
    int version; /* 13000: CUDA 13.0 */
};

/* Load it, and cuInit, once. HVD_ERR_UNSUPPORTED, and the same for ever: no
 * driver, too old a one, or no device; the sentence says which. Also in a child
 * forked since, where CUDA does not work. */
hvd_status_t driver_api(const struct driver_api **api_p) HVD_MUST_CHECK;

/* Is a driver in this process already, the program's? Loads nothing. */
bool driver_api_is_there(void);

/* What another thread captures is none of this one's business from here on:
 * else its calls are refused, and break the capture. The mode before. */
CUstreamCaptureMode driver_relax(const struct driver_api *api);

/* Does no call of this process succeed any more? */
bool driver_error_stays(CUresult result);

/* "CUDA_ERROR_OUT_OF_MEMORY" */
const char *driver_error(const struct driver_api *api, CUresult result);

#endif
