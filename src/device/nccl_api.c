/* device/nccl_api.c - see nccl_api.h. */
#include "device/nccl_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "device/communicator.h"
#include "device/symbols.h"

enum { OPEN = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

static const char soname[] = "libnccl.so.2";

static struct {
    pthread_once_t once;
    hvd_status_t status;
    char text[ERROR_TEXT_MAX];
    struct nccl_api api;
} nccl = {.once = PTHREAD_ONCE_INIT};

#define SYMBOL(name)   {#name, offsetof(struct nccl_api, name), true},
#define OPTIONAL(name) {#name, offsetof(struct nccl_api, name), false},
static const struct symbol symbols[] = {NCCL_FUNCTIONS(SYMBOL)
                                            NCCL_OPTIONAL_FUNCTIONS(OPTIONAL)};
#undef SYMBOL
#undef OPTIONAL

const char *nccl_error(const struct nccl_api *api, ncclResult_t result)
{
    const char *said = api->ncclGetLastError(NULL);

    if (said != NULL && *said != '\0')
        return said;
    return api->ncclGetErrorString(result);
}

static hvd_status_t open_library(void **handle_p)
{
    const char *named = getenv("HVD_NCCL_LIBRARY");
    void *handle = NULL;

    if (named != NULL && *named != '\0') {
        handle = dlopen(named, OPEN);
        if (handle == NULL)
            return error_set(HVD_ERR_UNSUPPORTED, "HVD_NCCL_LIBRARY: %s",
                             dlerror());
        *handle_p = handle;
        return HVD_OK;
    }
    handle = dlopen(soname, OPEN | RTLD_NOLOAD);
    if (handle == NULL)
        handle = dlopen(soname, OPEN);
    if (handle == NULL)
        handle = dlopen(DEVICE_TOOLKIT_LIBRARY_DIR "/libnccl.so.2", OPEN);
    if (handle == NULL)
        return error_set(HVD_ERR_UNSUPPORTED, "no NCCL: %s", dlerror());
    *handle_p = handle;
    return HVD_OK;
}

static void find_file(struct nccl_api *api)
{
    Dl_info info;
    void *function;

    _Static_assert(sizeof(function) == sizeof(api->ncclGetVersion),
                   "functions have addresses");
    memcpy(&function, &api->ncclGetVersion, sizeof(function));
    snprintf(api->library, sizeof(api->library), "%s",
             dladdr(function, &info) != 0 ? info.dli_fname : soname);
}

static hvd_status_t check_version(struct nccl_api *api)
{
    ncclResult_t result = api->ncclGetVersion(&api->version);

    if (result != ncclSuccess)
        return error_set(HVD_ERR_UNSUPPORTED, "%s: %s", api->library,
                         nccl_error(api, result));
    if (api->version < NCCL_OLDEST || api->version / 10000 != NCCL_MAJOR)
        return error_set(HVD_ERR_UNSUPPORTED,
                         "%s is NCCL %d.%d.%d, 2.28.9 is the oldest that can "
                         "be used",
                         api->library, NCCL_PARTS(api->version));
    if (api->version > NCCL_NEWEST)
        log_info("NCCL %d.%d.%d is newer than any that was tried",
                 NCCL_PARTS(api->version));
    return HVD_OK;
}

/* It would override what each communicator asks for. */
static hvd_status_t check_environment(void)
{
    const char *blocking = getenv("NCCL_COMM_BLOCKING");

    if (blocking == NULL || strcmp(blocking, "0") == 0)
        return HVD_OK;
    return error_set(HVD_ERR_UNSUPPORTED,
                     "NCCL_COMM_BLOCKING=%s: a call of NCCL could not be "
                     "cancelled",
                     blocking);
}

static hvd_status_t load(void)
{
    void *handle = NULL;

    HVD_TRY(check_environment());

    HVD_TRY(open_library(&handle));
    HVD_TRY(symbols_find(handle, "this NCCL", symbols, ARRAY_SIZE(symbols),
                         &nccl.api));
    find_file(&nccl.api);
    return check_version(&nccl.api);
}

static void load_once(void)
{
    nccl.status = load();
    snprintf(nccl.text, sizeof(nccl.text), "%s", error_text());
}

hvd_status_t nccl_api(const struct nccl_api **api_p)
{
    pthread_once(&nccl.once, load_once);
    if (nccl.status != HVD_OK)
        return error_set(nccl.status, "%s", nccl.text);
    *api_p = &nccl.api;
    return HVD_OK;
}

hvd_status_t communicator_version(int *version_p)
{
    const struct nccl_api *api;

    HVD_TRY(nccl_api(&api));
    *version_p = api->version;
    return HVD_OK;
}

hvd_status_t communicator_id(uint8_t *id)
{
    const struct nccl_api *api;
    ncclUniqueId unique;
    ncclResult_t result;

    HVD_TRY(nccl_api(&api));
    result = api->ncclGetUniqueId(&unique);
    if (result != ncclSuccess)
        return error_set(HVD_ERR_UNSUPPORTED, "ncclGetUniqueId: %s",
                         nccl_error(api, result));
    _Static_assert(sizeof(unique) == COMMUNICATOR_ID_NBYTES, "128 bytes");
    memcpy(id, &unique, sizeof(unique));
    return HVD_OK;
}
