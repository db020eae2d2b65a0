/* device/driver_api.c - see driver_api.h. */
#include "device/driver_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "device/symbols.h"

static const char library[] = "libcuda.so.1";

/* The first call fills it in; the sentence is kept for those that follow. */
static struct {
    pthread_once_t once;
    pid_t pid; /* that it was loaded in */
    hvd_status_t status;
    char text[ERROR_TEXT_MAX];
    struct driver_api api;
} driver = {.once = PTHREAD_ONCE_INIT};

#define SYMBOL(name)   {#name, offsetof(struct driver_api, name), true},
#define OPTIONAL(name) {#name, offsetof(struct driver_api, name), false},
static const struct symbol symbols[] = {
    DRIVER_FUNCTIONS(SYMBOL) DRIVER_OPTIONAL_FUNCTIONS(OPTIONAL)};
#undef SYMBOL
#undef OPTIONAL

const char *driver_error(const struct driver_api *api, CUresult result)
{
    const char *name = NULL;

    if (api->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
        return "an unknown error";
    return name;
}

CUstreamCaptureMode driver_relax(const struct driver_api *api)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    (void)api->cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

bool driver_error_stays(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

static hvd_status_t begin(struct driver_api *api)
{
    CUresult result = api->cuInit(0);
    int n = 0;

    if (result == CUDA_SUCCESS)
        result = api->cuDriverGetVersion(&api->version);
    if (result == CUDA_SUCCESS)
        result = api->cuDeviceGetCount(&n);
    if (result == CUDA_SUCCESS && n == 0)
        result = CUDA_ERROR_NO_DEVICE;
    if (result == CUDA_SUCCESS)
        return HVD_OK;
    return error_set(HVD_ERR_UNSUPPORTED, "CUDA: %s",
                     driver_error(api, result));
}

static hvd_status_t load(void)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (handle == NULL)
        return error_set(HVD_ERR_UNSUPPORTED, "no CUDA driver: %s", dlerror());
    HVD_TRY(symbols_find(handle, library, symbols, ARRAY_SIZE(symbols),
                         &driver.api));
    return begin(&driver.api);
}

static void load_once(void)
{
    driver.pid = getpid();
    driver.status = load();
    snprintf(driver.text, sizeof(driver.text), "%s", error_text());
}

hvd_status_t driver_api(const struct driver_api **api_p)
{
    pthread_once(&driver.once, load_once);
    if (driver.status != HVD_OK)
        return error_set(driver.status, "%s", driver.text);
    if (driver.pid != getpid())
        return error_set(HVD_ERR_UNSUPPORTED,
                         "CUDA does not work in a forked child");
    *api_p = &driver.api;
    return HVD_OK;
}

bool driver_api_is_there(void)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);

    if (handle != NULL)
        dlclose(handle);
    return handle != NULL;
}
