/* device/nccl_api.h - the functions of NCCL that this room calls, found at run
 * time. The only header that includes nccl.h.
 *
 * The library is, in this order: what HVD_NCCL_LIBRARY names; one that is in
 * the process already, the program's (two of them in one process would not
 * know of each other); libnccl.so.2 as the loader finds it; that of the toolkit
 * which this was built with. It stays for ever: it has threads of its own.
 *
 * Threads: any, after nccl_api(). Memory: one table for the process. */
#ifndef DEVICE_NCCL_API_H
#define DEVICE_NCCL_API_H

#include <nccl.h>

#include <hvd/status.h>

#define NCCL_FUNCTIONS(X)     \
    X(ncclGetVersion)         \
    X(ncclGetUniqueId)        \
    X(ncclGetErrorString)     \
    X(ncclGetLastError)       \
    X(ncclCommInitRankConfig) \
    X(ncclCommGetAsyncError)  \
    X(ncclCommAbort)          \
    X(ncclGroupStart)         \
    X(ncclGroupEnd)           \
    X(ncclAllReduce)          \
    X(ncclBroadcast)          \
    X(ncclAllGather)          \
    X(ncclReduceScatter)      \
    X(ncclSend)               \
    X(ncclRecv)

#define NCCL_OPTIONAL_FUNCTIONS(X) X(ncclCommRevoke)

enum {
    NCCL_OLDEST = 22809, /* 2.28.9: revoke, and what is relied upon */
    NCCL_NEWEST = 23203, /* 2.32.3: what is newer has not been looked at */
    NCCL_LIBRARY_MAX = 512
};

/* For "%d.%d.%d". */
#define NCCL_PARTS(version) \
    (version) / 10000, (version) / 100 % 100, (version) % 100

struct nccl_api {
#define NCCL_FIELD(name) __typeof__(&name) name;
    NCCL_FUNCTIONS(NCCL_FIELD)
    NCCL_OPTIONAL_FUNCTIONS(NCCL_FIELD)
#undef NCCL_FIELD
    int version;                    /* 22809: 2.28.9 */
    char library[NCCL_LIBRARY_MAX]; /* the file */
};

/* Load it, once. HVD_ERR_UNSUPPORTED, and the same for ever: there is none, or
 * none that can be used; the sentence says why. */
hvd_status_t nccl_api(const struct nccl_api **api_p) HVD_MUST_CHECK;

/* What NCCL says of a failure: its own sentence if it has one. */
const char *nccl_error(const struct nccl_api *api, ncclResult_t result);

#endif
