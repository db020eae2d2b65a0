/* tests/collectives/test_local.c - memory that ranks of a host share: what
 * others may do with the descriptors they are handed, aborts while
 * somebody is at work in it, how many calls may be under way, and what shows
 * when they were. What happens to it when a process stops or dies:
 * test_stopped.c. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/comm_impl.h"
#include "collectives/local/impl.h"
#include "group.h"

enum { PAGE = 4096 };

/* What a small call needs is in one line: its ticket, its head, its operand. */
_Static_assert(offsetof(struct mailbox_card, ticket) == 0, "first");
_Static_assert(offsetof(struct mailbox_card, tiny) + MAILBOX_TINY_MAX ==
                   MAILBOX_LINE,
               "the first line ends with the operand");
_Static_assert(sizeof(struct mailbox_card) % MAILBOX_LINE == 0, "whole lines");
_Static_assert(offsetof(struct mailbox, staged) / MAILBOX_LINE ==
                   offsetof(struct mailbox, taken) / MAILBOX_LINE,
               "progress is read with one line");
_Static_assert(offsetof(struct mailbox, staged) / MAILBOX_LINE !=
                   offsetof(struct mailbox, sleeping) / MAILBOX_LINE,
               "what changes with every block keeps its line");
_Static_assert(offsetof(struct mailbox, left) / MAILBOX_LINE !=
                   offsetof(struct mailbox, writing) / MAILBOX_LINE,
               "`left` is read by all, `writing` written with every block");

/* --- what is handed over --- */

/* The arena grows with what its owner needs. */
static void cannot_shrink(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    ck_assert_int_eq(seals & (F_SEAL_SHRINK | F_SEAL_SEAL),
                     F_SEAL_SHRINK | F_SEAL_SEAL);
    ck_assert_int_ne(ftruncate(fd, 0), 0);
    ck_assert_int_ne(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
}

START_TEST(handed_descriptors_sealed_and_mailbox_read_only)
{
    struct group g;
    int fds[LOCAL_FDS];
    void *map;

    group_init(&g, 2);
    ck_assert_uint_eq(g.comms[0]->local_ops->fds(g.comms[0], fds), LOCAL_FDS);
    cannot_shrink(fds[0]);
    cannot_shrink(fds[1]);
    ck_assert_int_ne(fcntl(fds[0], F_GET_SEALS) & F_SEAL_GROW, 0);
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    ck_assert_ptr_eq(map, MAP_FAILED);
    ck_assert_int_eq(errno, EACCES);
    ck_assert_int_lt(write(fds[0], "x", 1), 0);
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fds[0], 0);
    ck_assert_ptr_ne(map, MAP_FAILED);
    ck_assert_int_ne(mprotect(map, PAGE, PROT_READ | PROT_WRITE), 0);
    munmap(map, PAGE);
    group_fini(&g);
}
END_TEST

static int names_in_dev_shm(void)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    int n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL)
        n += strstr(entry->d_name, "hvd") != NULL;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static bool call_once(struct group *g, int rank, void *arg)
{
    float *buf = calloc(1 << 20, sizeof(*buf));

    EXPECT(allreduce(g->comms[rank], buf, buf, 1 << 20, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    if (rank == 0)
        *(int *)arg = names_in_dev_shm();
    free(buf);
    return true;
}

START_TEST(memory_has_no_names)
{
    int before = names_in_dev_shm(), during = -1;
    struct group g;

    group_init(&g, 3);
    group_run(&g, call_once, &during);
    ck_assert_int_eq(during, before);
    group_fini(&g);
    ck_assert_int_eq(names_in_dev_shm(), before);
}
END_TEST

/* --- aborts --- */

struct storm {
    atomic_uint calls; /* of rank 0 */
    unsigned at;       /* rank 0's call from which on the abort comes */
    size_t count;
    bool from_arena;
};

/* The last rank aborts everybody at any instant of a call: it spins a while and
 * does not take part any more. */
static bool aborter(struct group *g, struct storm *s)
{
    unsigned spins = s->at * 7919 % 20000;

    while (atomic_load(&s->calls) < s->at)
        sched_yield();
    while (spins-- > 0)
        atomic_load(&s->calls);
    for (int i = 0; i < g->size - 1; i++)
        comm_abort(g->comms[i], HVD_PEER_LOST, "storm");
    return true;
}

static bool storm_rank(struct group *g, int rank, void *arg)
{
    struct storm *s = arg;
    size_t nbytes = s->count * sizeof(float);
    hvd_status_t status = HVD_OK;
    void *buf;

    if (rank == g->size - 1)
        return aborter(g, s);
    EXPECT((buf = hvd_alloc(nbytes)) != NULL);
    while (status == HVD_OK) {
        if (rank == 0)
            atomic_fetch_add(&s->calls, 1);
        status = allreduce(g->comms[rank], buf, buf, s->count, HVD_FLOAT32,
                           HVD_SUM);
    }
    EXPECT_SAY(status == HVD_PEER_LOST, "%d", status);
    EXPECT(barrier(g->comms[rank]) == HVD_PEER_LOST);
    hvd_free(buf);
    return true;
}

/* A group whose last endpoint belongs to nobody: the comm is of the others. */
static void storm(struct storm s, int size)
{
    struct group g;

    group_init(&g, size);
    g.size = size + 1;
    group_run(&g, storm_rank, &s);
    g.size = size;
    group_fini(&g);
}

START_TEST(abort_at_any_instant_all_return)
{
    for (unsigned i = 1; i <= 12; i++) {
        storm((struct storm){.at = i * 3, .count = 4}, 2 + (int)i % 3);
        storm((struct storm){.at = i * 3, .count = 1500}, 2 + (int)i % 3);
        storm((struct storm){.at = i % 4 + 1, .count = 700000}, 3);
    }
}
END_TEST

/* --- a goodbye behind a result --- */

enum { LEAVING_COUNT = MAILBOX_INLINE_MAX / sizeof(float) };

/* Rank 1 is held between its card and its look at rank 0's. */
static struct {
    sem_t held;
    int release[2]; /* a pipe */
    pthread_t thread;
} slow;

static void hold(int signo)
{
    char byte;

    sem_post(&slow.held);
    (void)!read(slow.release[0], &byte, 1);
}

static void hold_rank_1(struct group *g)
{
    const struct local *local = g->comms[1]->local;
    uint64_t next = g->comms[0]->local->ticket + 1;

    while (atomic_load(&local_card_of(local->box, next)->ticket) < next)
        sched_yield();
    pthread_kill(slow.thread, SIGUSR1);
    sem_wait(&slow.held);
}

static bool reduce_and_leave(struct group *g, int rank, void *arg)
{
    float buf[LEAVING_COUNT] = {0};

    if (rank == 1)
        slow.thread = pthread_self();
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank == 0)
        hold_rank_1(g);
    EXPECT(allreduce(g->comms[rank], buf, buf, LEAVING_COUNT, HVD_FLOAT32,
                     HVD_SUM) == HVD_OK);
    if (rank != 0)
        return true;
    comm_leave(g->comms[0], COMM_LEAVE_BOUNDARY, 1);
    comm_destroy(g->comms[0]);
    g->comms[0] = NULL;
    EXPECT(write(slow.release[1], "", 1) == 1);
    return true;
}

/* Who is slower has everything he needs. */
START_TEST(leave_behind_small_allreduce_others_complete)
{
    struct sigaction action = {.sa_handler = hold};
    struct group g;

    sem_init(&slow.held, 0, 0);
    ck_assert_int_eq(pipe(slow.release), 0);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    group_init(&g, 2);
    group_run(&g, reduce_and_leave, NULL);
    group_fini(&g);
    close(slow.release[0]);
    close(slow.release[1]);
    sem_destroy(&slow.held);
}
END_TEST

/* --- how far a root may run ahead --- */

static bool run_ahead(struct group *g, int rank, void *arg)
{
    sem_t *gone = arg;

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    for (int round = 0; round < 100; round++) {
        if (rank != 0)
            sem_wait(gone);
        for (int i = 0; i < MAILBOX_CARDS / 2; i++) {
            int value = rank == 0 ? round * 10 + i : -1;

            EXPECT(broadcast(g->comms[rank], &value, 1, HVD_INT32, 0) ==
                   HVD_OK);
            EXPECT(value == round * 10 + i);
        }
        if (rank == 0)
            for (int i = 1; i < g->size; i++)
                sem_post(gone);
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    }
    return true;
}

START_TEST(broadcast_root_does_not_wait)
{
    struct group g;
    sem_t gone;

    sem_init(&gone, 0, 0);
    group_init(&g, 2 + _i);
    group_run(&g, run_ahead, &gone);
    group_fini(&g);
    sem_destroy(&gone);
}
END_TEST

/* --- what is said on connections while memory serves --- */

/* The peer, which waits for this rank, has said what it calls. */
static bool hear(const struct comm *comm, int peer)
{
    struct pollfd fd = {comm_link(comm, CHANNEL_LOCAL, peer)->fd, POLLIN, 0};

    return poll(&fd, 1, 20000) == 1;
}

/* Rank 1 is always the last one, so it never looks at its connections, until
 * rank 0 is late for once. */
static bool straggle(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    sem_t *there = arg;
    int64_t other = 0;
    int value = 0;

    EXPECT(barrier(comm) == HVD_OK);
    if (rank == 1)
        EXPECT(hear(comm, 0));
    EXPECT(allreduce(comm, &value, &value, 1, HVD_INT32, HVD_SUM) == HVD_OK);
    for (int i = 0; i < 2 * COMM_HISTORY; i++) {
        if (rank == 1)
            sem_wait(there);
        EXPECT(broadcast(comm, &value, 1, HVD_INT32, 0) == HVD_OK);
        if (rank == 0)
            sem_post(there);
    }
    if (rank == 0)
        EXPECT(hear(comm, 1));
    EXPECT_SAY(allreduce(comm, &other, &other, 1, HVD_INT64, HVD_MIN) == HVD_OK,
               "%s", error_text());
    return true;
}

START_TEST(call_announced_long_ago_does_no_harm)
{
    struct group g;
    sem_t there;

    sem_init(&there, 0, 0);
    group_init(&g, 2);
    group_run(&g, straggle, &there);
    group_fini(&g);
    sem_destroy(&there);
}
END_TEST

/* --- disagreement found in cards --- */

struct quarrel {
    enum collective_kind kind;
    size_t count; /* of rank 1: one less */
};

static bool quarrel(struct group *g, int rank, void *arg)
{
    const struct quarrel *q = arg;
    size_t count = rank == 1 ? q->count - 1 : q->count;
    size_t nbytes = 2 * q->count * sizeof(int64_t), zeros[2] = {0, 0};
    size_t counts[2] = {count, count};
    int64_t *send = calloc(1, nbytes), *recv = calloc(1, nbytes);
    struct collective_args args = {.kind = q->kind,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = count,
                                   .dtype = HVD_INT64,
                                   .sendcounts = counts,
                                   .recvcounts = counts,
                                   .sdispls = zeros,
                                   .rdispls = (size_t[]){0, count}};
    hvd_status_t status = comm_run(g->comms[rank], &args);

    /* a root is through before anybody can tell */
    if (status == HVD_OK)
        status = barrier(g->comms[rank]);
    EXPECT_SAY(status == HVD_ERR_MISMATCH, "kind %d: %d", (int)q->kind, status);
    EXPECT_SAY(strstr(error_text(), "rank 0 calls") != NULL &&
                   strstr(error_text(), "rank 1 calls") != NULL,
               "kind %d", (int)q->kind);
    free(send);
    free(recv);
    return true;
}

/* In cards, across their limit, and in blocks. */
START_TEST(counts_differ_both_sides_named)
{
    static const size_t counts[] = {2, 1024, 1025, 300000};

    for (size_t c = 0; c < 4; c++)
        for (int kind = COLLECTIVE_ALLREDUCE; kind < COLLECTIVE_BARRIER;
             kind++) {
            struct quarrel q = {(enum collective_kind)kind, counts[c]};
            struct group g;

            if (kind == COLLECTIVE_ALLGATHERV) /* counts are its own affair */
                continue;
            group_init(&g, 2);
            group_run(&g, quarrel, &q);
            group_fini(&g);
        }
}
END_TEST

/* Each is the root: nobody waits for anybody, so nobody has seen it when the
 * call returns. */
static bool reign(struct group *g, int rank, void *arg)
{
    int n_alike = *(int *)arg, value = 0;

    for (int i = 0; i < n_alike; i++)
        EXPECT(broadcast(g->comms[rank], &value, 1, HVD_INT32, i % g->size) ==
               HVD_OK);
    (void)broadcast(g->comms[rank], &value, 1, HVD_INT32, rank);
    EXPECT(barrier(g->comms[rank]) == HVD_ERR_MISMATCH);
    EXPECT_SAY(strstr(error_text(), "calls broadcast") != NULL, "%s",
               error_text());
    return true;
}

START_TEST(roots_differ_found_by_the_next_barrier)
{
    for (int n_alike = 0; n_alike < 6; n_alike++)
        for (int size = 2; size < 5; size++) {
            struct group g;

            group_init(&g, size);
            group_run(&g, reign, &n_alike);
            group_fini(&g);
        }
}
END_TEST

/* --- many ranks, few cores --- */

static bool many_calls(struct group *g, int rank, void *arg)
{
    int n = *(int *)arg;

    for (int i = 0; i < n; i++) {
        int64_t x = rank + i;

        EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_INT64, HVD_SUM) ==
               HVD_OK);
        EXPECT(x ==
               (int64_t)g->size * i + (int64_t)g->size * (g->size - 1) / 2);
    }
    return true;
}

START_TEST(more_ranks_than_cores_all_complete)
{
    int n = 10000;
    struct group g;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    n = 1000;
#endif
    group_init(&g, _i);
    group_run(&g, many_calls, &n);
    group_fini(&g);
}
END_TEST

/* By which the ranks choose how they show ordinary buffers. */
static bool calls_show_when_they_were(struct group *g, int rank, void *arg)
{
    enum { COUNT = 100000 };
    const struct local *local = g->comms[rank]->local;
    float *buf = calloc(COUNT, sizeof(*buf));

    (void)arg;
    EXPECT(buf != NULL);
    for (int i = 0; i < 2 * MAILBOX_TIMES; i++) {
        const struct mailbox_time *time;
        hvd_status_t status = i % 2 == 0
                                  ? broadcast(g->comms[rank], buf, COUNT,
                                              HVD_FLOAT32, i % g->size)
                                  : allreduce(g->comms[rank], buf, buf, COUNT,
                                              HVD_FLOAT32, HVD_SUM);

        EXPECT(status == HVD_OK);
        time = &local->box->times[local->n_blocks % MAILBOX_TIMES];
        EXPECT(atomic_load(&time->ticket) == local->ticket);
        EXPECT(atomic_load(&time->begun_ns) > 0);
        EXPECT(atomic_load(&time->ended_ns) >= atomic_load(&time->begun_ns));
    }
    free(buf);
    return true;
}

START_TEST(calls_in_blocks_show_when_they_were)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, calls_show_when_they_were, NULL);
    group_fini(&g);
}
END_TEST

/* --- who may write into others' memory --- */

struct unwatched {
    int rank, peer; /* this rank would not notice the death of that one */
};

static bool push_or_not(struct group *g, int rank, void *arg)
{
    enum { COUNT = 100000 };
    const struct unwatched *u = arg;
    struct local *local = g->comms[rank]->local;
    void *memory;
    int64_t *buf;

    EXPECT((memory = hvd_alloc(COUNT * sizeof(*buf))) != NULL);
    buf = memory;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            buf[i] = rank + i;
        EXPECT(allreduce(g->comms[rank], buf, buf, COUNT, HVD_INT64, HVD_SUM) ==
               HVD_OK);
        EXPECT((local->run.method == RUN_PUSHED) == (round == 0));
        for (int i = 0; i < COUNT; i++)
            EXPECT(buf[i] == 3 + 3 * (int64_t)i);
        if (rank == u->rank) {
            close(local->peers[u->peer].pidfd);
            local->peers[u->peer].pidfd = -1;
        }
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    }
    hvd_free(memory);
    return true;
}

START_TEST(death_not_noticed_nobody_pushes)
{
    static const struct unwatched cases[] = {{0, 1}, {0, 2}, {1, 0}, {2, 1}};
    struct group g;

    group_init_over(&g, 3, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    group_run(&g, push_or_not, (void *)(uintptr_t)&cases[_i]);
    group_fini(&g);
}
END_TEST

static bool meet(struct group *g, int rank, void *arg)
{
    (void)arg;
    return barrier(g->comms[rank]) == HVD_OK;
}

/* The root of a broadcast may write to some, and stop there for good: who is
 * not written to, and could not notice its death, does not wait for it. */
START_TEST(leave_waits_for_own_writers_alone)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, meet, NULL);
    atomic_store(&g.comms[0]->local->box->writing, 1 + 1);
    local_leave(g.comms[2]->local);
    atomic_store(&g.comms[0]->local->box->writing, 0);
    group_fini(&g);
}
END_TEST

/* --- staging memory --- */

enum { STAGING_COUNT = 150000 };

static bool staging_fits(struct group *g, int rank, void *arg)
{
    const struct local *local = g->comms[rank]->local;
    float *buf = calloc(STAGING_COUNT, sizeof(*buf));

    (void)arg;
    EXPECT(buf != NULL);
    EXPECT(allreduce(g->comms[rank], buf, buf, STAGING_COUNT, HVD_FLOAT32,
                     HVD_SUM) == HVD_OK);
    EXPECT(local->run.send_way == MAILBOX_STAGED);
    EXPECT(pull_stage_nbytes(&local->run.pull.shape) <= LOCAL_STAGE_NBYTES);
    free(buf);
    return true;
}

/* It was taken for the first call that needs it, of whatever size. */
START_TEST(staging_memory_holds_blocks_of_all_ranks)
{
    static const int sizes[] = {2, 3, 4, 5, 7, 8, 15, 16, 31};
    struct group g;

    group_init_over(&g, sizes[_i], COMM_CAN_ALL, COMM_ORDINARY_STAGED);
    group_run(&g, staging_fits, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local");
    TCase *tc = tcase_create("local");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, handed_descriptors_sealed_and_mailbox_read_only);
    tcase_add_test(tc, memory_has_no_names);
    tcase_add_test(tc, abort_at_any_instant_all_return);
    tcase_add_test(tc, leave_behind_small_allreduce_others_complete);
    tcase_add_loop_test(tc, broadcast_root_does_not_wait, 0, 3);
    tcase_add_test(tc, roots_differ_found_by_the_next_barrier);
    tcase_add_test(tc, call_announced_long_ago_does_no_harm);
    tcase_add_test(tc, counts_differ_both_sides_named);
    tcase_add_loop_test(tc, more_ranks_than_cores_all_complete, 4, 9);
    tcase_add_test(tc, calls_in_blocks_show_when_they_were);
    tcase_add_loop_test(tc, death_not_noticed_nobody_pushes, 0, 4);
    tcase_add_test(tc, leave_waits_for_own_writers_alone);
    tcase_add_loop_test(tc, staging_memory_holds_blocks_of_all_ranks, 0, 9);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
