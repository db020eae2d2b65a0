/* tests/collectives/test_apart.c - ranks of a host that are less together than
 * they seem: in namespaces of their own with equal process numbers, unreadable
 * for each other, short of address space. They get the right results all the
 * same, none is lost, and nobody reads another process for them.
 *
 * Each rank is a process. What a machine does not allow is said and not tried.
 */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "collectives/local/impl.h"
#include "process_rank.h"
#include "strangers.h"
#include "trap.h"

enum {
    RANKS = 3,
    ROUNDS = 3,
    COUNT_MAX = 300000,
    CANNOT = 77,
    DEADLINE_S = 60
};

/* [count] of int64 in each call: cards, one block, several. */
static const size_t counts[] = {1, 100, 1000, 9000, 100000, COUNT_MAX / RANKS};

/* Shared by the processes of a scene. */
struct stage {
    uint16_t ports[RANKS];
    atomic_int n_here, n_over;
};

struct actor;

struct scene {
    const char *name;
    int namespaces;                    /* for unshare(2) */
    void (*before)(struct actor *);    /* the first thing a rank does */
    void (*meanwhile)(struct actor *); /* after the first round */
    enum comm_ordinary ordinary;
    int from_arena; /* the last so many ranks have buffers from hvd_alloc */
    bool secret;    /* the last rank's are readable for itself alone */
    bool lifts;     /* rank 0's limit, while it writes a result */
};

struct actor {
    struct stage *stage;
    const struct scene *scene;
    int rank;
    struct comm *comm;
    struct endpoint *endpoint;
    int64_t *send, *recv; /* [COUNT_MAX] */
    struct trap trap;
    bool may_lift;
};

#define MUST(condition)                                                \
    do {                                                               \
        if (!(condition)) {                                            \
            fprintf(stderr, "%s:%d: %s: rank %d, %s (%s)\n", __FILE__, \
                    __LINE__, #condition, a->rank, a->scene->name,     \
                    error_text());                                     \
            _exit(3);                                                  \
        }                                                              \
    } while (0)

static void meet(struct actor *a, atomic_int *n)
{
    atomic_fetch_add(n, 1);
    while (atomic_load(n) < RANKS)
        MUST(sched_yield() == 0);
}

static void join_group(struct actor *a)
{
    MUST(process_rank_listen(a->rank, &a->endpoint) == HVD_OK);
    a->stage->ports[a->rank] = endpoint_port(a->endpoint);
    meet(a, &a->stage->n_here);
    MUST(process_rank_join(a->endpoint, a->rank, RANKS, a->stage->ports,
                           a->scene->ordinary, &a->comm) == HVD_OK);
}

/* Its owner sees it, process_vm_readv(2) does not: as memory of a device. */
static void *take_secret(size_t nbytes)
{
#ifdef SYS_memfd_secret
    int fd = (int)syscall(SYS_memfd_secret, 0);
    void *ptr;

    if (fd < 0 || ftruncate(fd, (off_t)nbytes) != 0)
        return NULL;
    ptr = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return ptr == MAP_FAILED ? NULL : ptr;
#else
    return NULL;
#endif
}

static void *take(struct actor *a)
{
    size_t nbytes = COUNT_MAX * sizeof(int64_t);
    void *ptr = NULL;

    if (a->scene->secret && a->rank == RANKS - 1) {
        ptr = take_secret(nbytes);
        if (ptr == NULL)
            _exit(CANNOT);
        return ptr;
    }
    if (a->rank >= RANKS - a->scene->from_arena)
        MUST((ptr = hvd_alloc(nbytes)) != NULL);
    else
        ptr = calloc(1, nbytes);
    MUST(ptr != NULL);
    return ptr;
}

static int64_t element(size_t i, int rank)
{
    return (int64_t)(i * 17 + 5) * (rank * 1000 + 1);
}

static int64_t sum(size_t i)
{
    int64_t all = 0;

    for (int rank = 0; rank < RANKS; rank++)
        all += element(i, rank);
    return all;
}

static void run(struct actor *a, enum collective_kind kind, void *send,
                size_t count)
{
    struct collective_args args = {.kind = kind,
                                   .sendbuf = send,
                                   .recvbuf = a->recv,
                                   .count = count,
                                   .dtype = HVD_INT64};

    MUST(comm_run(a->comm, &args) == HVD_OK);
}

static void fill(struct actor *a, int64_t *buf, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf[i] = element(i, a->rank);
}

static void lift_limit(void *arg)
{
    struct rlimit limit;

    (void)arg;
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_AS, &limit);
}

/* What could not be mapped before a block of several can be behind it. */
static void lift_half_way(struct actor *a, size_t n)
{
    uintptr_t page = ((uintptr_t)a->recv + 4095) / 4096 * 4096;

    if (!a->may_lift || n < COUNT_MAX / RANKS)
        return;
    a->may_lift = false;
    trap_init_at(&a->trap, (uint8_t *)page, 4096, lift_limit, NULL);
    MUST(trap_set(&a->trap));
}

static void reduce(struct actor *a, size_t n)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        int64_t *send = in_place ? a->recv : a->send;

        fill(a, send, n);
        lift_half_way(a, n);
        run(a, COLLECTIVE_ALLREDUCE, send, n);
        for (size_t i = 0; i < n; i++)
            MUST(a->recv[i] == sum(i));
    }
    fill(a, a->send, n * RANKS);
    run(a, COLLECTIVE_REDUCE_SCATTER, a->send, n);
    for (size_t i = 0; i < n; i++)
        MUST(a->recv[i] == sum((size_t)a->rank * n + i));
}

static void move(struct actor *a, size_t n)
{
    fill(a, a->send, n * RANKS);
    run(a, COLLECTIVE_ALLGATHER, a->send, n);
    for (size_t i = 0; i < n * RANKS; i++)
        MUST(a->recv[i] == element(i % n, (int)(i / n)));
    run(a, COLLECTIVE_ALLTOALL, a->send, n);
    for (size_t i = 0; i < n * RANKS; i++)
        MUST(a->recv[i] == element((size_t)a->rank * n + i % n, (int)(i / n)));
    for (int root = 0; root < RANKS; root++) {
        struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                       .recvbuf = a->recv,
                                       .count = n,
                                       .dtype = HVD_INT64,
                                       .root = root};

        fill(a, a->recv, n);
        MUST(comm_run(a->comm, &args) == HVD_OK);
        for (size_t i = 0; i < n; i++)
            MUST(a->recv[i] == element(i, root));
    }
}

static _Noreturn void act(struct stage *stage, const struct scene *scene,
                          int rank)
{
    struct actor actor = {.stage = stage, .scene = scene, .rank = rank};
    struct actor *a = &actor;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(DEADLINE_S);
    if (scene->before != NULL)
        scene->before(a);
    join_group(a);
    a->send = take(a);
    a->recv = take(a);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
            reduce(a, counts[i]);
            move(a, counts[i]);
        }
        if (round == 0 && scene->meanwhile != NULL)
            scene->meanwhile(a);
    }
    MUST(barrier(a->comm) == HVD_OK);
    MUST(a->comm->n_accused == 0);
    meet(a, &a->stage->n_over);
    comm_destroy(a->comm);
    endpoint_destroy(a->endpoint);
    local_shutdown();
    _exit(0);
}

/* The first process of namespaces of its own: its number is 1, as the others'.
 */
static _Noreturn void act_apart(struct stage *stage, const struct scene *scene,
                                int rank)
{
    int status = 0;
    pid_t pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (scene->namespaces == 0)
        act(stage, scene, rank);
    if (unshare(scene->namespaces) != 0)
        _exit(CANNOT);
    pid = fork();
    if (pid == 0)
        act(stage, scene, rank);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        _exit(4);
    _exit(WEXITSTATUS(status));
}

/* --- the scenes --- */

static void become_readable_nobody(struct actor *a)
{
    if (!become_nobody())
        _exit(CANNOT);
    MUST(prctl(PR_SET_DUMPABLE, 1) == 0);
}

/* Now no process without privileges may read it. */
static void become_unreadable(struct actor *a)
{
    if (a->rank == 1)
        MUST(prctl(PR_SET_DUMPABLE, 0) == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Room for what everybody needs, not for the buffers of the others. */
static void limit_address_space(struct actor *a)
{
    struct rlimit limit;
    size_t mapped;
    FILE *f = fopen("/proc/self/statm", "r");

    MUST(fscanf(f, "%zu", &mapped) == 1);
    fclose(f);
    MUST(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = mapped * 4096 + ((size_t)300 << 20);
    if (a->rank == 0)
        MUST(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* The others' buffers are from large segments now. */
static void grow(struct actor *a)
{
    void *rest;

    a->may_lift = a->scene->lifts && a->rank == 0;
    if (a->rank == 0)
        return;
    MUST((rest = hvd_alloc((size_t)800 << 20)) != NULL);
    a->send = a->recv = NULL;
    MUST((a->send = hvd_alloc((size_t)1 << 30)) != NULL);
    a->recv = a->send + COUNT_MAX;
}
#endif

static const struct scene scenes[] = {
    {.name = "namespaces of numbers", .namespaces = CLONE_NEWPID},
    {.name = "namespaces of numbers, from hvd_alloc",
     .namespaces = CLONE_NEWPID,
     .from_arena = RANKS},
    {.name = "namespaces of users and numbers",
     .namespaces = CLONE_NEWUSER | CLONE_NEWPID},
    {.name = "becomes unreadable",
     .before = become_readable_nobody,
     .meanwhile = become_unreadable,
     .ordinary = COMM_ORDINARY_ATTACHED},
    {.name = "becomes unreadable, measured",
     .before = become_readable_nobody,
     .meanwhile = become_unreadable},
    {.name = "becomes unreadable, others from hvd_alloc",
     .before = become_readable_nobody,
     .meanwhile = become_unreadable,
     .ordinary = COMM_ORDINARY_ATTACHED,
     .from_arena = 1},
    {.name = "memory for its owner alone",
     .ordinary = COMM_ORDINARY_ATTACHED,
     .secret = true},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    {.name = "address space limited",
     .before = limit_address_space,
     .meanwhile = grow,
     .from_arena = 2},
    {.name = "address space limited for a while",
     .before = limit_address_space,
     .meanwhile = grow,
     .from_arena = RANKS,
     .lifts = true},
#endif
};

START_TEST(ranks_apart_get_right_results)
{
    const struct scene *scene = &scenes[_i];
    struct stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool cannot = false;
    pid_t pids[RANKS];

    ck_assert_ptr_ne(stage, MAP_FAILED);
    for (int i = 0; i < RANKS; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0)
            act_apart(stage, scene, i);
    }
    for (int i = 0; i < RANKS; i++) {
        int status = -1;

        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
            cannot = true;
        for (int k = i + 1; cannot && k < RANKS; k++)
            kill(pids[k], SIGKILL);
        ck_assert_msg(cannot || status == 0, "%s: rank %d: status %x",
                      scene->name, i, (unsigned)status);
    }
    if (cannot)
        fprintf(stderr, "%s: not on this machine\n", scene->name);
    munmap(stage, sizeof(*stage));
}
END_TEST

/* --- one number, two processes --- */

/* What is at an address of the other process says which it is. */
START_TEST(read_of_another_process_under_the_number_is_refused)
{
    static uint64_t nonce = 1, data = 2, got = 9;
    struct peer_process who = {.nonce = 1,
                               .nonce_at = (uint64_t)(uintptr_t)&nonce};
    int go[2], ready[2];
    char c = 0;

    ck_assert_int_eq(pipe(go) | pipe(ready), 0);
    who.pid = fork();
    if (who.pid == 0) {
        (void)!read(go[0], &c, 1);
        nonce = 7; /* as another program would have */
        data = 8;
        (void)!write(ready[1], &c, 1);
        (void)!read(go[0], &c, 1);
        _exit(0);
    }
    ck_assert(peer_read(&who, (uint64_t)(uintptr_t)&data, &got, sizeof(got)));
    ck_assert_uint_eq(got, 2);
    ck_assert_int_eq(write(go[1], &c, 1), 1);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    ck_assert(!peer_read(&who, (uint64_t)(uintptr_t)&data, &got, sizeof(got)));
    ck_assert_int_eq(errno, ESRCH);
    ck_assert_int_eq(write(go[1], &c, 1), 1);
    ck_assert_int_eq(waitpid(who.pid, NULL, 0), who.pid);
    ck_assert(!peer_read(&who, (uint64_t)(uintptr_t)&data, &got, sizeof(got)));
}
END_TEST

/* --- memory of those who are gone --- */

static int count_mapped(const char *name)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, name) != NULL;
    fclose(f);
    return n;
}

/* An arena as another process has it: the file of one that has ended. */
static int arena_of_another(void)
{
    int pair[2], fds[UNIX_FDS_MAX], fd;
    size_t n = 0;
    void *ptr;
    char c;
    pid_t pid;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid = fork();
    if (pid == 0) {
        if ((ptr = hvd_alloc(1000)) == NULL)
            _exit(1);
        memset(ptr, 7, 1000);
        fd = arena_fd();
        _exit(unix_socket_send(pair[1], "x", 1, &fd, 1) ? 0 : 1);
    }
    ck_assert_int_eq(unix_socket_recv(pair[0], &c, 1, fds, &n), 1);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    close(pair[0]);
    close(pair[1]);
    return fds[0];
}

/* Descriptors of arenas. */
static int count_held(const void *ignored)
{
    int n = 0;

    for (int fd = 0; fd < 100; fd++) {
        char path[64], target[64] = "";

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n += readlink(path, target, sizeof(target) - 1) > 0 &&
             strstr(target, "hvd-arena") != NULL;
    }
    return n;
}

static int n_joined; /* by this thread, as pthread_join comes through here */

int __real_pthread_join(pthread_t thread, void **value_p);
int __wrap_pthread_join(pthread_t thread, void **value_p);

int __wrap_pthread_join(pthread_t thread, void **value_p)
{
    n_joined++;
    return __real_pthread_join(thread, value_p);
}

/* Threads of the name of the one that unmaps. */
static int count_tidiers(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "re");
        if (file == NULL)
            continue;
        n += fgets(name, sizeof(name), file) != NULL &&
             strcmp(name, "hvd-tidy\n") == 0;
        fclose(file);
    }
    closedir(dir);
    return n;
}

static void unmap_after_a_while(void)
{
    uint64_t until_us = clock_now_us() + 20000000;
    int fd = arena_of_another(), before = count_mapped("hvd-arena");
    struct peer_arena *arena = peer_arena_take(fd);

    close(fd);
    ck_assert_ptr_nonnull(arena);
    ck_assert_int_gt(count_mapped("hvd-arena"), before);
    ck_assert_uint_eq(local_arenas_held(), 1);
    ck_assert_int_eq(count_held(NULL), 1);
    ck_assert_int_eq(support_in_child(count_held, NULL), 0);
    local_tidy();
    ck_assert_int_gt(count_mapped("hvd-arena"), before);
    peer_arena_give(arena);
    local_tidy(); /* who survived a loss may need it again at once */
    ck_assert_int_gt(count_mapped("hvd-arena"), before);
    while (count_mapped("hvd-arena") > before) {
        ck_assert_uint_lt(clock_now_us(), until_us);
        local_tidy();
        sched_yield();
    }
    ck_assert_uint_eq(local_arenas_held(), 0);
    ck_assert_int_eq(count_tidiers(), 1);
    n_joined = 0;
    local_shutdown();
    ck_assert_int_eq(n_joined, 1);
    while (count_tidiers() > 0) { /* the kernel may yet have it */
        ck_assert_uint_lt(clock_now_us(), until_us);
        sched_yield();
    }
    local_shutdown(); /* there is no other */
    ck_assert_int_eq(n_joined, 1);
}

/* Of four the second is in use, and the last was, a moment ago. */
START_TEST(memory_in_use_stays_mapped)
{
    uint64_t until_us = clock_now_us() + 20000000;
    int fds[4], before = count_mapped("hvd-arena"), each;
    struct peer_arena *arenas[4];
    uint8_t byte;

    for (int i = 0; i < 4; i++) {
        fds[i] = arena_of_another();
        arenas[i] = peer_arena_take(fds[i]);
        ck_assert_ptr_nonnull(arenas[i]);
        if (i < 3)
            close(fds[i]);
        if (i != 1)
            peer_arena_give(arenas[i]);
    }
    each = (count_mapped("hvd-arena") - before) / 4;
    ck_assert_int_gt(each, 0);
    while (count_mapped("hvd-arena") > before + 2 * each) {
        ck_assert_uint_lt(clock_now_us(), until_us);
        ck_assert_ptr_eq(peer_arena_take(fds[3]), arenas[3]);
        peer_arena_give(arenas[3]);
        local_tidy();
        sched_yield();
    }
    close(fds[3]);
    ck_assert_uint_eq(local_arenas_held(), 2);
    ck_assert_int_eq(count_held(NULL), 2);
    ck_assert(peer_arena_read(arenas[1], 0, &byte, 1));
    peer_arena_give(arenas[1]);
    local_shutdown(); /* at once */
    ck_assert_int_eq(count_mapped("hvd-arena"), before);
    ck_assert_uint_eq(local_arenas_held(), 0);
    ck_assert_int_eq(count_held(NULL), 0);
}
END_TEST

/* Who joins another world later begins with another thread. */
START_TEST(memory_of_the_dead_is_unmapped_after_a_while)
{
    unmap_after_a_while();
    unmap_after_a_while();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("apart");
    TCase *tc = tcase_create("apart");

    tcase_set_timeout(tc, 2 * DEADLINE_S);
    tcase_add_test(tc, memory_in_use_stays_mapped);
    tcase_add_test(tc, memory_of_the_dead_is_unmapped_after_a_while);
    tcase_add_test(tc, read_of_another_process_under_the_number_is_refused);
    tcase_add_loop_test(tc, ranks_apart_get_right_results, 0,
                        (int)(sizeof(scenes) / sizeof(*scenes)));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
