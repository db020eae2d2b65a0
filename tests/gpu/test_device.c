/* tests/gpu/test_device.c - the device and its communicators, by processes that
 * have a driver and a NCCL of host memory (fake/fake.h). Each rank is a forked
 * child with knobs of its own; an id travels through memory that they share. */
#include "device/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "device/communicator.h"
#include "device/driver_api.h"
#include "support.h"

enum { RANKS = 3, COUNT = 1000, PATIENCE_US = 20000000 };

/* Between the ranks. */
static struct shared {
    uint8_t id[COMMUNICATOR_ID_NBYTES];
    atomic_int made, n_ready, n_done;
} * shared;

#define MUST(condition)                                                 \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", me, __LINE__, \
                    #condition, error_text());                          \
            _exit(1);                                                   \
        }                                                               \
    } while (0)

static int me;
static const struct driver_api *cuda;
static CUcontext context;

static void await(atomic_int *n, int at_least)
{
    uint64_t until_us = clock_now_us() + PATIENCE_US;

    while (atomic_load(n) < at_least) {
        MUST(clock_now_us() < until_us);
        usleep(500);
    }
}

static void open_device(void)
{
    CUdevice device;

    MUST(device_set(0) == HVD_OK);
    MUST(device_open() == HVD_OK);
    MUST(driver_api(&cuda) == HVD_OK);
    MUST(cuda->cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    MUST(cuda->cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
    MUST(cuda->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS);
}

static int doorbell(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    MUST(fd >= 0);
    return fd;
}

static void *allocate(size_t nbytes)
{
    CUdeviceptr ptr;

    MUST(cuda->cuMemAlloc_v2(&ptr, nbytes) == CUDA_SUCCESS);
    return (void *)(uintptr_t)ptr;
}

static void copy(void *dst, const void *src, size_t nbytes)
{
    struct device_copy one = {dst, src, nbytes};
    struct device_task task = {
        .copies = &one, .n_copies = 1, .doorbell = doorbell()};

    MUST(device_run(&task, NULL) == HVD_OK);
    close(task.doorbell);
}

/* Each is of a generation of its own. */
static struct communicator *join(int size)
{
    static uint64_t generation;
    struct communicator_config config = {.rank = me,
                                         .size = size,
                                         .generation = ++generation,
                                         .doorbell = doorbell()};
    struct verdict verdict;
    struct communicator *c;

    if (me == 0) {
        MUST(communicator_id(shared->id) == HVD_OK);
        atomic_store(&shared->made, 1);
    }
    await(&shared->made, 1);
    memcpy(config.id, shared->id, sizeof(config.id));
    MUST(verdict_init(&verdict) == HVD_OK);
    MUST(communicator_create(&config, &c) == HVD_OK);
    MUST(communicator_await(c, &verdict) == HVD_OK);
    verdict_fini(&verdict);
    return c;
}

static hvd_status_t run(struct communicator *c, const struct device_call *call,
                        const struct verdict *verdict)
{
    struct device_task task = {
        .communicator = c, .call = *call, .doorbell = doorbell()};
    hvd_status_t status = device_run(&task, verdict);

    close(task.doorbell);
    return status;
}

static void leave(struct communicator *c)
{
    communicator_cancel(c);
    MUST(communicator_silence(c));
    communicator_release(c);
    device_close();
}

/* --- what ranks do --- */

static void allreduce(struct communicator *c, hvd_op_t op, float expected)
{
    float values[COUNT];
    void *ptr = allocate(sizeof(values));
    struct device_tensor tensor = {ptr, ptr, COUNT};
    struct device_call call = {.kind = COLLECTIVE_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .op = op,
                               .tensors = &tensor,
                               .n = 1,
                               .prescale = 1,
                               .postscale = 1};

    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(me + 1);
    copy(ptr, values, sizeof(values));
    MUST(run(c, &call, NULL) == HVD_OK);
    copy(values, ptr, sizeof(values));
    for (int i = 0; i < COUNT; i++)
        MUST(values[i] == expected);
}

static int rank_reduces(void)
{
    struct communicator *c;

    open_device();
    c = join(RANKS);
    allreduce(c, HVD_SUM, 6);
    allreduce(c, HVD_AVERAGE, 2);
    allreduce(c, HVD_MAX, 3);
    leave(c);
    return 0;
}

/* Some are packed, one is too large for that, one is empty. */
static int rank_reduces_a_group(void)
{
    static const size_t counts[] = {10, 300000, 0, 7, 1};
    enum { N = 5 };
    struct device_tensor tensors[N];
    struct device_call call = {.kind = COLLECTIVE_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .op = HVD_SUM,
                               .tensors = tensors,
                               .n = N,
                               .prescale = 2,
                               .postscale = 0.5};
    float *values = malloc(300000 * sizeof(float));
    struct communicator *c;

    open_device();
    c = join(RANKS);
    for (int i = 0; i < N; i++) {
        void *ptr = allocate((counts[i] + 1) * sizeof(float));

        for (size_t k = 0; k < counts[i]; k++)
            values[k] = (float)(me + i);
        copy(ptr, values, counts[i] * sizeof(float));
        tensors[i] = (struct device_tensor){ptr, ptr, counts[i]};
    }
    MUST(run(c, &call, NULL) == HVD_OK);
    for (int i = 0; i < N; i++) {
        copy(values, tensors[i].recv, counts[i] * sizeof(float));
        for (size_t k = 0; k < counts[i]; k++)
            MUST(values[k] == (float)(3 + 3 * i));
    }
    free(values);
    leave(c);
    return 0;
}

/* The last rank is gone before the second call. */
static int rank_loses_a_peer(void)
{
    struct device_tensor tensor;
    struct device_call call = {.kind = COLLECTIVE_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .tensors = &tensor,
                               .n = 1,
                               .prescale = 1,
                               .postscale = 1};
    struct communicator *c;
    struct verdict verdict;

    open_device();
    c = join(RANKS);
    allreduce(c, HVD_SUM, 6);
    atomic_fetch_add(&shared->n_ready, 1);
    await(&shared->n_ready, RANKS);
    if (me == RANKS - 1)
        raise(SIGKILL);
    tensor.send = tensor.recv = allocate(COUNT * sizeof(float));
    tensor.count = COUNT;
    MUST(verdict_init(&verdict) == HVD_OK);
    if (me == 0) /* as the driver's word comes */
        verdict_set(&verdict, HVD_PEER_LOST, "rank 2 is lost");
    MUST(run(c, &call, &verdict) == HVD_PEER_LOST);
    verdict_fini(&verdict);
    leave(c);
    return 0;
}

/* What the fake that is loaded has counted. */
static int ask(const char *library, const char *count)
{
    int (*n)(void);

    *(void **)&n = dlsym(dlopen(library, RTLD_NOW | RTLD_NOLOAD), count);
    MUST(n != NULL);
    return n();
}

static int n_communicators(void)
{
    return ask("libnccl.so.2", "fake_communicators");
}

static void part(struct communicator *c)
{
    communicator_cancel(c);
    MUST(communicator_silence(c));
    communicator_release(c);
}

/* So many are there when one behind n_before is ready. */
static int join_behind(int n_before, int n)
{
    struct communicator *c;

    open_device();
    for (int i = 0; i < n_before; i++)
        part(join(1));
    c = join(1);
    MUST(n_communicators() == n);
    allreduce(c, HVD_SUM, 1);
    leave(c);
    MUST(n_communicators() == 0);
    return 0;
}

static int rank_does_not_wait(void)
{
    return join_behind(1, 2);
}

static int rank_has_memory_for_one(void)
{
    return join_behind(3, 1);
}

/* Of a communicator that nobody else joins. */
static int rank_waits_in_vain(void)
{
    struct communicator_config config = {
        .rank = me, .size = RANKS, .join_us = 300000, .doorbell = -1};
    struct verdict verdict;
    struct communicator *c;

    open_device();
    config.doorbell = doorbell();
    MUST(verdict_init(&verdict) == HVD_OK);
    MUST(communicator_id(config.id) == HVD_OK);
    MUST(communicator_create(&config, &c) == HVD_OK);
    MUST(communicator_await(c, &verdict) == HVD_ERR_UNSUPPORTED);
    MUST(strstr(error_text(), "deadline") != NULL);
    communicator_release(c);
    device_close();
    return 0;
}

/* The first collective is never enqueued: warming up has a deadline, too. */
static int rank_never_warms(void)
{
    struct communicator_config config = {.size = 1, .join_us = 300000};
    struct verdict verdict;
    struct communicator *c;

    open_device();
    config.doorbell = doorbell();
    MUST(verdict_init(&verdict) == HVD_OK);
    MUST(communicator_id(config.id) == HVD_OK);
    MUST(communicator_create(&config, &c) == HVD_OK);
    MUST(communicator_await(c, &verdict) == HVD_ERR_UNSUPPORTED);
    MUST(strstr(error_text(), "deadline") != NULL);
    communicator_release(c);
    c = join(1); /* the next is made all the same */
    leave(c);
    return 0;
}

/* The version is the knob's. */
static int rank_is_informed(void)
{
    hvd_device_info_t info;
    bool old = strstr(getenv("FAKE_GPU"), "version=22703") != NULL;

    device_inform(&info);
    MUST(info.n_devices == 2);
    MUST(info.device == -1);
    MUST(info.driver_version == CUDA_VERSION);
    MUST(info.nccl_version == (old ? 0 : 22809));
    MUST(info.usable == !old);
    MUST((strstr(info.reason, "is NCCL 2.27.3, 2.28.9 is the oldest") !=
          NULL) == old);
    MUST((strstr(info.nccl_library, "libnccl.so.2") != NULL) == !old);
    MUST(device_set(2) == HVD_ERR_INVALID);
    MUST(device_set(1) == HVD_OK);
    return 0;
}

static int ordinal(void)
{
    hvd_device_info_t info;

    device_inform(&info);
    return info.device;
}

static int rank_keeps_its_device(void)
{
    MUST(device_set(0) == HVD_OK);
    MUST(device_set(1) == HVD_OK); /* not in use yet */
    MUST(ordinal() == 1);
    MUST(ask("libcuda.so.1", "fake_contexts") == 0);
    MUST(device_open() == HVD_OK);
    MUST(ask("libcuda.so.1", "fake_contexts") == 1);
    MUST(device_set(0) == HVD_ERR_STATE);
    MUST(strstr(error_text(), "device 1 is in use") != NULL);
    MUST(device_set(1) == HVD_OK);
    MUST(ordinal() == 1);
    device_close();
    return 0;
}

/* The program has loaded the driver before hvd_init(), or it is not asked. */
static int rank_takes_its_slot(void)
{
    device_notice(1);
    MUST(!device_is_used());
    MUST(dlopen("libcuda.so.1", RTLD_NOW) != NULL);
    device_notice(1);
    MUST(device_is_used());
    MUST(ordinal() == -1);
    MUST(device_open() == HVD_OK);
    MUST(ordinal() == 1);
    device_close();
    return 0;
}

static void *inform(void *info)
{
    device_inform(info);
    return NULL;
}

/* The first ones load the libraries. */
static int rank_is_informed_by_threads(void)
{
    enum { THREADS = 4 };
    hvd_device_info_t infos[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, inform, &infos[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MUST(infos[i].usable && infos[i].nccl_version == 22809);
        MUST(strcmp(infos[i].nccl_library, infos[0].nccl_library) == 0);
    }
    MUST(ask("libcuda.so.1", "fake_contexts") == 0);
    return 0;
}

/* NCCL by another name, which no search would find. */
static const char *make_other_nccl(void)
{
    static char path[] = "/tmp/hvd-nccl-XXXXXX";
    char file[4096];
    Dl_info info;
    void *handle = dlopen("libnccl.so.2", RTLD_NOW);

    MUST(handle != NULL && dladdr(dlsym(handle, "ncclGetVersion"), &info) != 0);
    snprintf(file, sizeof(file), "%s", info.dli_fname);
    MUST(dlclose(handle) == 0);
    MUST(dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD) == NULL);
    MUST(mkdtemp(path) != NULL && rmdir(path) == 0);
    MUST(symlink(file, path) == 0);
    return path;
}

static int find_other_nccl(bool loaded)
{
    const char *path = make_other_nccl();
    hvd_device_info_t info;

    if (loaded)
        MUST(dlopen(path, RTLD_NOW) != NULL);
    else
        setenv("HVD_NCCL_LIBRARY", path, 1);
    device_inform(&info);
    unlink(path);
    MUST(info.usable);
    MUST(strcmp(info.nccl_library, path) == 0);
    return 0;
}

static int rank_has_loaded_nccl(void)
{
    return find_other_nccl(true);
}

static int rank_names_its_nccl(void)
{
    return find_other_nccl(false);
}

/* Where pointers lie; and that the host cannot touch them. */
static int rank_looks(void)
{
    int local = 1;
    bool on_device;
    void *ptr;

    open_device();
    MUST(device_is_used());
    ptr = allocate(100);
    for (int i = 0; i < 3; i++) {
        MUST(device_look((char *)ptr + 99, &on_device) == HVD_OK && on_device);
        MUST(device_look(&local, &on_device) == HVD_OK && !on_device);
        MUST(device_look(NULL, &on_device) == HVD_OK && !on_device);
    }
    device_close();
    return 0;
}

/* The device breaks at the second collective: a sentence, and no end of it. */
static int rank_breaks(void)
{
    struct device_tensor tensor;
    struct device_call call = {.kind = COLLECTIVE_ALLREDUCE,
                               .dtype = HVD_FLOAT32,
                               .tensors = &tensor,
                               .n = 1,
                               .prescale = 1,
                               .postscale = 1};
    struct communicator *c;

    open_device();
    c = join(1);
    tensor.send = tensor.recv = allocate(COUNT * sizeof(float));
    tensor.count = COUNT;
    MUST(run(c, &call, NULL) == HVD_ERR_SYSTEM);
    MUST(strstr(error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS") != NULL);
    leave(c);
    return 0;
}

/* --- the ranks --- */

static pid_t start(int rank, int (*body)(void), const char *knobs)
{
    char text[256];
    pid_t pid;

    fflush(NULL);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    me = rank;
    snprintf(text, sizeof(text), "uuid=%d %s", 100 * rank, knobs);
    setenv("FAKE_GPU", text, 1);
    snprintf(text, sizeof(text), "rank-%d", rank);
    setenv("NCCL_HOSTID", text, 1);
    _exit(body());
}

/* Each ends well, but for `killed`; -1: none. */
static void play(int n, int (*body)(void), const char *knobs, int killed)
{
    pid_t pids[RANKS];

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    for (int i = 0; i < n; i++)
        pids[i] = start(i, body, knobs);
    for (int i = 0; i < n; i++) {
        int status;

        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        if (i == killed)
            ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                          "rank %d: status %#x", i, (unsigned)status);
    }
    munmap(shared, sizeof(*shared));
}

static const char *const worlds[] = {"", "late_us=2000 enqueue_us=3000",
                                     "revoke=0", "enqueue_us=0 late_us=0"};

START_TEST(tensors_are_reduced)
{
    play(RANKS, rank_reduces, worlds[_i], -1);
}
END_TEST

START_TEST(group_is_reduced)
{
    play(RANKS, rank_reduces_a_group, worlds[_i], -1);
}
END_TEST

START_TEST(dead_peer_ends_the_collective)
{
    play(RANKS, rank_loses_a_peer, worlds[_i], RANKS - 1);
}
END_TEST

START_TEST(communicator_that_nobody_joins_has_a_deadline)
{
    play(1, rank_waits_in_vain, "", -1);
}
END_TEST

/* ... and an abort that hangs as well is abandoned. */
START_TEST(communicator_that_never_warms_has_a_deadline)
{
    play(1, rank_never_warms,
         _i == 0 ? "enqueue_hang_at=1" : "enqueue_hang_at=1 abort_hang_ms=6000",
         -1);
}
END_TEST

START_TEST(abort_that_hangs_keeps_nobody)
{
    play(1, rank_does_not_wait, "abort_hang_ms=3000", -1);
}
END_TEST

/* ... while NCCL ends the threads of the one before. */
START_TEST(next_is_made_at_once)
{
    play(1, rank_does_not_wait,
         _i == 0 ? "part_ms=3000" : "part_ms=3000 revoke=0", -1);
}
END_TEST

START_TEST(next_waits_for_memory)
{
    play(1, rank_has_memory_for_one, "part_ms=300 memory=37748736", -1);
}
END_TEST

START_TEST(device_informs)
{
    play(1, rank_is_informed, _i == 0 ? "devices=2" : "devices=2 version=22703",
         -1);
}
END_TEST

START_TEST(device_in_use_stays)
{
    play(1, rank_keeps_its_device, "devices=2", -1);
}
END_TEST

START_TEST(slot_is_the_default)
{
    play(1, rank_takes_its_slot, "devices=2", -1);
}
END_TEST

START_TEST(device_informs_any_thread)
{
    play(1, rank_is_informed_by_threads, "", -1);
}
END_TEST

START_TEST(nccl_is_the_named_one_or_that_of_the_program)
{
    play(1, _i == 0 ? rank_names_its_nccl : rank_has_loaded_nccl, "", -1);
}
END_TEST

START_TEST(pointers_are_looked_up)
{
    play(1, rank_looks, "", -1);
}
END_TEST

/* Two collectives warm it up. */
START_TEST(broken_device_is_told)
{
    play(1, rank_breaks, "sticky_at=3", -1);
}
END_TEST

/* Its communicators would block whoever makes them. */
static int rank_is_told_to_block(void)
{
    hvd_device_info_t info = {.struct_size = sizeof(info)};

    setenv("NCCL_COMM_BLOCKING", "1", 1);
    device_inform(&info);
    MUST(!info.usable && info.nccl_version == 0);
    MUST(strstr(info.reason, "NCCL_COMM_BLOCKING=1") != NULL);
    return 0;
}

START_TEST(nccl_that_blocks_is_refused)
{
    play(1, rank_is_told_to_block, "", -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tc = tcase_create("sound"); /* scripts/gpu-check plays it for real */
    TCase *faults = tcase_create("faults");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, tensors_are_reduced, 0, 1);
    tcase_add_loop_test(tc, group_is_reduced, 0, 1);
    tcase_add_loop_test(tc, dead_peer_ends_the_collective, 0, 1);
    tcase_add_test(tc, communicator_that_nobody_joins_has_a_deadline);
    tcase_add_test(tc, pointers_are_looked_up);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, tensors_are_reduced, 1, 4);
    tcase_add_loop_test(faults, group_is_reduced, 1, 4);
    tcase_add_loop_test(faults, dead_peer_ends_the_collective, 1, 4);
    tcase_add_loop_test(faults, communicator_that_never_warms_has_a_deadline, 0,
                        2);
    tcase_add_test(faults, abort_that_hangs_keeps_nobody);
    tcase_add_loop_test(faults, next_is_made_at_once, 0, 2);
    tcase_add_test(faults, next_waits_for_memory);
    tcase_add_loop_test(faults, device_informs, 0, 2);
    tcase_add_test(faults, device_in_use_stays);
    tcase_add_test(faults, slot_is_the_default);
    tcase_add_test(faults, device_informs_any_thread);
    tcase_add_loop_test(faults, nccl_is_the_named_one_or_that_of_the_program, 0,
                        2);
    tcase_add_test(faults, broken_device_is_told);
    tcase_add_test(faults, nccl_that_blocks_is_refused);
    suite_add_tcase(suite, faults);
    return support_run(suite);
}
