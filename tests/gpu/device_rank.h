/* tests/gpu/device_rank.h - ranks that are processes, each with a device and a
 * comm of its own: a driver and a NCCL of host memory (fake/fake.h), or real
 * ones (scripts/gpu-check). Included by one file of a program. */
#ifndef TESTS_GPU_DEVICE_RANK_H
#define TESTS_GPU_DEVICE_RANK_H

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "collectives/process_rank.h"
#include "collectives/request.h"
#include "device/driver_api.h"
#include "support.h"

enum { RANKS = 3, PATIENCE_US = 20000000 };

static struct shared {
    _Atomic uint16_t ports[RANKS];
    atomic_int n_there;
} * shared;

#define MUST(condition)                                                 \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", me, __LINE__, \
                    #condition, error_text());                          \
            _exit(1);                                                   \
        }                                                               \
    } while (0)

static int me, size;
static bool one_host;  /* NCCL is told so */
static int apart = -1; /* this rank does not share its device */
static struct endpoint *endpoint;
static struct comm *comm;
static const struct driver_api *cuda;
static CUcontext context;

/* --- a rank --- */

static void await(atomic_int *n, int at_least)
{
    uint64_t until_us = clock_now_us() + PATIENCE_US;

    while (atomic_load(n) < at_least) {
        MUST(clock_now_us() < until_us);
        usleep(500);
    }
}

static void join_ranks(void)
{
    uint16_t ports[RANKS];

    MUST(process_rank_listen(me, &endpoint) == HVD_OK);
    atomic_store(&shared->ports[me], endpoint_port(endpoint));
    atomic_fetch_add(&shared->n_there, 1);
    await(&shared->n_there, size);
    for (int i = 0; i < size; i++)
        ports[i] = atomic_load(&shared->ports[i]);
    MUST(process_rank_join(endpoint, me, size, ports, COMM_ORDINARY_MEASURED,
                           &comm) == HVD_OK);
    comm->config.share_device = getenv("HVD_DEVICE_SHARED") != NULL &&
                                me != apart;
}

static void open_device(void)
{
    CUdevice device;

    MUST(device_set(0) == HVD_OK);
    MUST(driver_api(&cuda) == HVD_OK);
    MUST(cuda->cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    MUST(cuda->cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    MUST(cuda->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS);
}

static inline void join(void)
{
    join_ranks();
    open_device();
}

static void part_as(enum comm_leave_kind kind)
{
    comm_leave(comm, kind, 0);
    comm_destroy(comm);
    requests_release();
    device_close();
    endpoint_destroy(endpoint);
}

static inline void part(void)
{
    part_as(COMM_LEAVE_DONE);
}

static void *allocate(size_t nbytes)
{
    CUdeviceptr ptr;

    MUST(cuda->cuMemAlloc_v2(&ptr, nbytes) == CUDA_SUCCESS);
    return (void *)(uintptr_t)ptr;
}

/* By the driver, as a program would: on the legacy default stream. */
static void copy(void *dst, const void *src, size_t nbytes)
{
    CUevent event;
    CUresult result;

    MUST(cuda->cuEventCreate(&event, 0) == CUDA_SUCCESS);
    MUST(cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)dst,
                             (CUdeviceptr)(uintptr_t)src, nbytes,
                             NULL) == CUDA_SUCCESS);
    MUST(cuda->cuEventRecord(event, NULL) == CUDA_SUCCESS);
    while ((result = cuda->cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        usleep(100);
    MUST(result == CUDA_SUCCESS);
    MUST(cuda->cuEventDestroy_v2(event) == CUDA_SUCCESS);
}

/* libhvd captures nothing, so its table of the driver lacks these. */
static inline void capture(CUstream stream, bool begin)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    __typeof__(&cuStreamBeginCapture_v2) start;
    __typeof__(&cuStreamEndCapture) stop;
    CUgraph graph;

    *(void **)&start = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)&stop = dlsym(library, "cuStreamEndCapture");
    if (begin)
        MUST(start(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    else
        MUST(stop(stream, &graph) == CUDA_SUCCESS);
    dlclose(library);
}

/* --- the ranks --- */

static pid_t start(int rank, int n, int (*body)(void), const char *knobs)
{
    char text[256];
    pid_t pid;

    fflush(NULL);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    me = rank;
    size = n;
    snprintf(text, sizeof(text), "uuid=%d %s", 100 * rank, knobs);
    setenv("FAKE_GPU", text, 1);
    snprintf(text, sizeof(text), "rank-%d", one_host ? 0 : rank);
    setenv("NCCL_HOSTID", text, 1);
    _exit(body());
}

/* Rank `killed` (-1: none) ends by this signal. */
static inline void play_killed(int n, int (*body)(void),
                               const char *const *knobs, int killed, int signo)
{
    pid_t pids[RANKS];

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    for (int i = 0; i < n; i++)
        pids[i] = start(i, n, body, knobs[i]);
    for (int i = 0; i < n; i++) {
        int status;

        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        if (i == killed)
            ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == signo);
        else
            ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                          "rank %d: status %#x", i, (unsigned)status);
    }
    munmap(shared, sizeof(*shared));
}

static inline void play(int n, int (*body)(void), const char *const *knobs,
                        int killed)
{
    play_killed(n, body, knobs, killed, SIGKILL);
}

#endif
