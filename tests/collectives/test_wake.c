/* tests/collectives/test_wake.c - ranks of a host that sleep: each is woken at
 * once by what it waits for, and by nothing else; and nobody overwrites what a
 * slow one has not read.
 *
 * A wake-up that is lost is made up for by a timer, a fifth of a second later:
 * all results are right. So it is looked at how long a hand-over takes, beside
 * one between the same threads by the simplest means. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "collectives/local/impl.h"
#include "group.h"
#include "trap.h"

enum {
    ROUNDS = 21,
    BLOCKS_COUNT = 200000, /* float32: block by block */
    OFFERED_COUNT = 10000, /* too much for a card, read as a whole */
    ASKED_COUNT = 150000,  /* int32: three questions */
    SPLIT_COUNT = 1 << 20, /* int32: what a root would like to split */
    TIMER_US = 100000,     /* half of the first that looks again */
    MANY = 4,              /* medians of a plain hand-over */
    HAND_OVER_US = 50000,
    ASKED_US = 180000, /* of which the work itself is most */
    ALONE_US = 300000,
    ALONE_CPU_US = 20000
};

static void await_sleep(const struct comm *comm)
{
    while (atomic_load(&comm->local->box->sleeping) == 0)
        sched_yield();
}

static int compare_times(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static uint64_t median(uint64_t *times)
{
    qsort(times, ROUNDS, sizeof(*times), compare_times);
    return times[ROUNDS / 2];
}

/* --- hand-overs --- */

/* Rank 0 sleeps in a call when rank 1 makes it. `held`: then rank 1 sleeps, in
 * the middle of its work, until rank 0 ... */
struct relay {
    struct group group;
    struct trap trap; /* result of rank 1 */
    void *arena;      /* buffer of rank 0; NULL: an ordinary one */
    size_t count;
    int plain_fd; /* eventfd */
    atomic_uint_least64_t handed_us;
    atomic_int n_through; /* calls of rank 0 */
    uint64_t plain_us[ROUNDS], call_us[ROUNDS];
};

static void hand_over(struct relay *r)
{
    atomic_store(&r->handed_us, clock_now_us());
}

static uint64_t since_handed(const struct relay *r)
{
    return clock_now_us() - atomic_load(&r->handed_us);
}

/* Rank 1 is in the middle of its work: it goes on when rank 0 sleeps. */
static void hold_until_0_sleeps(void *arg)
{
    struct relay *r = arg;

    await_sleep(r->group.comms[0]);
    hand_over(r);
}

/* As simple as can be: to compare with. */
static bool plain_round(struct relay *r, int rank, int n)
{
    struct timespec a_while = {0, 1000000};
    eventfd_t value;

    if (rank == 1) {
        nanosleep(&a_while, NULL); /* mostly enough */
        hand_over(r);
        return eventfd_write(r->plain_fd, 1) == 0;
    }
    if (poll(&(struct pollfd){r->plain_fd, POLLIN, 0}, 1, -1) != 1 ||
        eventfd_read(r->plain_fd, &value) != 0)
        return false;
    r->plain_us[n] = since_handed(r);
    return true;
}

/* Behind the call. Rank 1 calls nothing before rank 0 is through: that would
 * wake it too. */
static void call_ends(struct relay *r, int rank, int n)
{
    if (rank == 1) {
        while (atomic_load(&r->n_through) <= n)
            sched_yield();
        return;
    }
    r->call_us[n] = since_handed(r);
    atomic_store(&r->n_through, n + 1);
}

static hvd_status_t sum(struct comm *comm, void *buf, size_t count)
{
    return allreduce(comm, buf, buf, count, HVD_FLOAT32, HVD_SUM);
}

static bool check_plain(struct relay *r, int rank)
{
    uint64_t plain, call;

    if (rank != 0)
        return true;
    plain = median(r->plain_us);
    call = median(r->call_us);
    EXPECT_SAY(call < HAND_OVER_US + MANY * plain,
               "%llu us, plain %llu us: wake-ups are lost",
               (unsigned long long)call, (unsigned long long)plain);
    return true;
}

static bool small_calls(struct group *g, int rank, void *arg)
{
    struct relay *r = arg;

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    for (int n = 0; n < ROUNDS; n++) {
        float x = 1;

        EXPECT(plain_round(r, rank, n));
        if (rank == 1) {
            await_sleep(g->comms[0]);
            hand_over(r);
        }
        EXPECT(sum(g->comms[rank], &x, 1) == HVD_OK);
        call_ends(r, rank, n);
        EXPECT(x == 2);
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    }
    return check_plain(r, rank);
}

/* Rank 1 is there first and sleeps; rank 0 wakes it, does what it can, and
 * sleeps when rank 1, held at its result, goes on. */
static bool held_calls(struct group *g, int rank, void *arg)
{
    struct relay *r = arg;
    size_t count = r->count, nbytes = count * sizeof(float);
    float *in = malloc(nbytes), *out = malloc(nbytes);
    float *from = in, *to = rank == 1 ? (float *)(void *)r->trap.memory : out;

    if (rank == 0 && r->arena != NULL)
        from = to = r->arena;
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    for (int n = 0; n < ROUNDS; n++) {
        EXPECT(plain_round(r, rank, n));
        for (size_t i = 0; i < count; i++)
            from[i] = (float)(i % 1000 + (size_t)(n * (rank + 1)));
        if (rank == 0)
            await_sleep(g->comms[1]);
        else
            EXPECT(trap_set(&r->trap));
        EXPECT(allreduce(g->comms[rank], from, to, count, HVD_FLOAT32,
                         HVD_SUM) == HVD_OK);
        call_ends(r, rank, n);
        EXPECT(rank == 1 ||
               g->comms[0]->local->run.send_way ==
                   (r->arena != NULL ? MAILBOX_ARENA : MAILBOX_STAGED));
        EXPECT(rank == 0 || trap_was_touched(&r->trap));
        for (size_t i = 0; i < count; i++)
            EXPECT_SAY(to[i] == (float)(2 * (i % 1000) + (size_t)(n * 3)),
                       "round %d, rank %d, [%zu]", n, rank, i);
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    }
    free(in);
    free(out);
    return check_plain(r, rank);
}

static void run_relay(struct relay *r, rank_fn *fn)
{
    r->plain_fd = eventfd(0, EFD_CLOEXEC);
    group_init_over(&r->group, 2, COMM_CAN_ALL, COMM_ORDINARY_STAGED);
    trap_init(&r->trap, BLOCKS_COUNT * sizeof(float), hold_until_0_sleeps, r);
    group_run(&r->group, fn, r);
    group_fini(&r->group);
    trap_fini(&r->trap);
    close(r->plain_fd);
}

START_TEST(late_card_wakes_at_once)
{
    struct relay r = {.count = 1};

    run_relay(&r, small_calls);
}
END_TEST

START_TEST(late_block_wakes_at_once)
{
    struct relay r = {.count = BLOCKS_COUNT};

    run_relay(&r, held_calls);
}
END_TEST

/* Rank 0 waits until its buffer, which it has offered, has been read. */
START_TEST(late_reader_of_offered_buffer_wakes_at_once)
{
    struct relay r = {.count = OFFERED_COUNT};

    ck_assert_ptr_nonnull(r.arena = hvd_alloc(OFFERED_COUNT * sizeof(float)));
    run_relay(&r, held_calls);
    hvd_free(r.arena);
}
END_TEST

/* --- a root that is late to learn that it has nothing to write --- */

/* Its buffer is in the arena, the reader's is not: it has shown its card, and
 * is held where it sleeps until the reader, which has read everything, sleeps.
 * Then it makes no other call until the reader is through: that would wake it
 * too. */
struct late_root {
    struct group group;
    pthread_t root;
    int reader; /* its thread's state, a file of /proc */
    atomic_int n_held, n_through;
    atomic_uint_least64_t released_us;
    uint64_t took_us[ROUNDS];
};

static struct late_root *late_one;

/* Behind await_sleep() a thread looks once more before the kernel has it. */
static void await_kernel_sleep(int fd)
{
    char line[64], *state;

    do {
        ssize_t n = pread(fd, line, sizeof(line) - 1, 0);

        line[n > 0 ? n : 0] = '\0';
        state = strchr(line, ')'); /* "pid (name) S ..." */
    } while (state == NULL || state[2] != 'S');
}

static void hold_root(int signo)
{
    struct late_root *l = late_one;

    (void)signo;
    atomic_fetch_add(&l->n_held, 1);
    await_sleep(l->group.comms[1]);
    await_kernel_sleep(l->reader);
    atomic_store(&l->released_us, clock_now_us());
}

static void stop_root(struct late_root *l, int n)
{
    uint64_t ticket = l->group.comms[1]->local->ticket + 1;
    const struct mailbox *box = l->group.comms[0]->local->box;

    while (atomic_load(&local_card_of(box, ticket)->ticket) < ticket)
        sched_yield();
    await_sleep(l->group.comms[0]);
    pthread_kill(l->root, SIGUSR1);
    while (atomic_load(&l->n_held) <= n)
        sched_yield();
}

static void late_call_ends(struct late_root *l, int rank, int n)
{
    if (rank == 1) {
        l->took_us[n] = clock_now_us() - atomic_load(&l->released_us);
        atomic_store(&l->n_through, n + 1);
    }
    while (atomic_load(&l->n_through) <= n)
        sched_yield();
}

static bool read_of_late_root(struct group *g, int rank, void *arg)
{
    struct late_root *l = arg;
    void *memory = calloc(SPLIT_COUNT, sizeof(int32_t));
    int32_t *buf;

    if (rank == 0) {
        free(memory);
        EXPECT((memory = hvd_alloc(SPLIT_COUNT * sizeof(*buf))) != NULL);
        l->root = pthread_self();
    } else {
        l->reader = open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC);
        EXPECT(l->reader >= 0);
    }
    buf = memory;
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    for (int n = 0; n < ROUNDS; n++) {
        for (int i = 0; i < SPLIT_COUNT; i++)
            buf[i] = rank == 0 ? n + i : -1;
        if (rank == 1)
            stop_root(l, n);
        EXPECT(broadcast(g->comms[rank], buf, SPLIT_COUNT, HVD_INT32, 0) ==
               HVD_OK);
        late_call_ends(l, rank, n);
        for (int i = 0; i < SPLIT_COUNT; i++)
            EXPECT(buf[i] == n + i);
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    }
    if (rank == 0)
        hvd_free(memory);
    else
        free(memory);
    if (rank == 1)
        close(l->reader);
    return true;
}

START_TEST(late_root_that_splits_with_nobody_wakes_readers)
{
    struct sigaction hold = {.sa_handler = hold_root};
    struct late_root l = {.n_held = 0};

    late_one = &l;
    sigaction(SIGUSR1, &hold, NULL);
    group_init_over(&l.group, 2, COMM_CAN_ALL, COMM_ORDINARY_STAGED);
    group_run(&l.group, read_of_late_root, &l);
    group_fini(&l.group);
    /* else a timer would, later */
    ck_assert_uint_lt(median(l.took_us), TIMER_US);
}
END_TEST

/* --- who is asked for what cannot be read --- */

/* Rank 1 cannot read the buffer of the root and asks for it. It is held where
 * it sleeps until the root, which has nothing else to do, sleeps, and wakes it
 * with its question; the root, held at its buffer until rank 1 sleeps, wakes
 * that with its answer. */
struct asking {
    struct group group;
    struct trap buffer; /* of the root */
    pthread_t asker;
    uint64_t ticket;
    atomic_int held;
    atomic_uint_least64_t asked_us;
    uint64_t took_us; /* from there to the end of the call */
};

static struct asking *asking_one;

static void hold_asker(int signo)
{
    struct asking *a = asking_one;
    const struct mailbox *box = a->group.comms[0]->local->box;

    (void)signo;
    atomic_store(&a->held, 1);
    while (atomic_load(&local_card_of(box, a->ticket)->ticket) < a->ticket)
        sched_yield();
    await_sleep(a->group.comms[0]);
    atomic_store(&a->asked_us, clock_now_us());
}

static void hold_asked(void *arg)
{
    struct asking *a = arg;

    await_sleep(a->group.comms[1]);
}

static void hold_rank_1(struct asking *a)
{
    const struct mailbox *box = a->group.comms[1]->local->box;

    while (atomic_load(&local_card_of(box, a->ticket)->ticket) < a->ticket)
        sched_yield();
    await_sleep(a->group.comms[1]);
    pthread_kill(a->asker, SIGUSR1);
    while (atomic_load(&a->held) == 0)
        sched_yield();
}

static bool asking_call(struct group *g, int rank, void *arg)
{
    struct asking *a = arg;
    int32_t *own = malloc(ASKED_COUNT * sizeof(*own));
    int32_t *buf = rank == 0 ? (int32_t *)(void *)a->buffer.memory : own;

    if (rank == 1)
        a->asker = pthread_self();
    for (int i = 0; i < ASKED_COUNT; i++)
        buf[i] = rank == 0 ? i * 3 : -1;
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank == 0) {
        a->ticket = g->comms[0]->local->ticket + 1;
        hold_rank_1(a);
        EXPECT(trap_set(&a->buffer));
    }
    EXPECT(broadcast(g->comms[rank], buf, ASKED_COUNT, HVD_INT32, 0) == HVD_OK);
    if (rank == 1)
        a->took_us = clock_now_us() - atomic_load(&a->asked_us);
    EXPECT(rank == 1 || trap_was_touched(&a->buffer));
    for (int i = 0; i < ASKED_COUNT; i++)
        EXPECT(buf[i] == i * 3);
    free(own);
    return true;
}

static uint64_t time_asking(void)
{
    struct sigaction action = {.sa_handler = hold_asker};
    struct asking a = {.took_us = 0};

    asking_one = &a;
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    group_init_over(&a.group, 2, COMM_CAN_ALL, COMM_ORDINARY_ATTACHED);
    trap_init(&a.buffer, ASKED_COUNT * sizeof(int32_t), hold_asked, &a);
    group_run(&a.group, asking_call, &a);
    group_fini(&a.group);
    trap_fini(&a.buffer);
    return a.took_us;
}

START_TEST(asked_and_answered_wake_at_once)
{
    uint64_t times[ROUNDS];

    for (int n = 0; n < ROUNDS; n++)
        times[n] = time_asking();
    ck_assert_uint_lt(median(times), ASKED_US);
}
END_TEST

/* --- who waits does nothing --- */

static uint64_t cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Rank 0 is woken a few times, and then waits for long. */
static bool wait_for_long(struct group *g, int rank, void *arg)
{
    uint64_t before_us, spent_us;

    (void)arg;
    for (int n = 0; n < 4; n++) {
        uint64_t until_us;

        before_us = cpu_us();
        if (rank == 1) {
            await_sleep(g->comms[0]);
            until_us = clock_now_us() + (n < 3 ? 0 : ALONE_US);
            while (clock_now_us() < until_us)
                (void)poll(NULL, 0, 10);
        }
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
        spent_us = cpu_us() - before_us;
    }
    EXPECT_SAY(rank == 1 || spent_us < ALONE_CPU_US, "%llu us",
               (unsigned long long)spent_us);
    return true;
}

START_TEST(waiting_for_long_costs_no_cpu)
{
    struct group g;

    group_init_over(&g, 2, COMM_CAN_ALL, COMM_ORDINARY_STAGED);
    group_run(&g, wait_for_long, NULL);
    group_fini(&g);
}
END_TEST

/* --- what is not read yet --- */

enum {
    ROOT_COUNT = 32000,
    ROOT_CALLS = 2 * MAILBOX_CARDS + 15,
    ROOT_ROUNDS = 4
};
/* calls of so many elements until staging memory has been gone through */
enum { STAGE_CALLS = LOCAL_STAGE_NBYTES / (128 << 10) };

/* Rank 1 is late while the root, which needs nobody, calls on: it is held at
 * the result of a broadcast, or has not called yet, until the root waits for it
 * or has shown what uses the same memory. */
struct ahead {
    struct group group;
    struct trap trap;
    size_t sizes[2]; /* elements, by turns */
    unsigned reuse;  /* calls later the memory is used again */
    bool held;       /* else: rank 1 has not called yet */
    uint64_t late_ticket;
};

static void hold_until_root_waits(void *arg)
{
    const struct ahead *a = arg;
    const struct mailbox *box = a->group.comms[0]->local->box;
    uint64_t ticket = a->late_ticket + a->reuse;

    /* behind what came before it has not slept */
    while (atomic_load(&local_card_of(box, a->late_ticket)->ticket) <
           a->late_ticket)
        sched_yield();
    while (atomic_load(&box->sleeping) == 0 &&
           atomic_load(&local_card_of(box, ticket)->ticket) < ticket)
        sched_yield();
}

static bool come_late(struct ahead *a, const struct comm *comm, int call)
{
    a->late_ticket = comm->local->ticket + 1;
    if (a->held)
        return call > 1 || trap_set(&a->trap);
    if (call == 0)
        hold_until_root_waits(a);
    return true;
}

static int32_t root_value(int round, int call, size_t i)
{
    return (int32_t)i * 4096 + round * ROOT_CALLS + call;
}

static bool root_calls(struct group *g, int rank, struct ahead *a, int32_t *buf,
                       int round)
{
    struct comm *comm = g->comms[rank];

    for (int call = 0; call < ROOT_CALLS; call++) {
        size_t n = a->sizes[(call + round) % 2];

        for (size_t i = 0; i < n; i++)
            buf[i] = rank == 0 ? root_value(round, call, i) : -1;
        EXPECT(rank != 1 || come_late(a, comm, call));
        EXPECT(broadcast(comm, buf, n, HVD_INT32, 0) == HVD_OK);
        EXPECT(rank != 1 || trap_was_touched(&a->trap));
        for (size_t i = 0; i < n; i++)
            EXPECT_SAY(buf[i] == root_value(round, call, i),
                       "round %d, call %d, rank %d, [%zu]: %d", round, call,
                       rank, i, buf[i]);
    }
    return true;
}

static bool root_is_ahead(struct group *g, int rank, void *arg)
{
    struct ahead *a = arg;
    int32_t own[ROOT_COUNT], *buf = own;

    if (rank == 1)
        buf = (int32_t *)(void *)a->trap.memory;
    for (int round = 0; round < ROOT_ROUNDS; round++) {
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
        if (!root_calls(g, rank, a, buf, round))
            return false;
    }
    return true;
}

static void run_ahead(struct ahead *a)
{
    group_init_over(&a->group, 3, COMM_CAN_ALL, COMM_ORDINARY_STAGED);
    trap_init(&a->trap, ROOT_COUNT * sizeof(int32_t), hold_until_root_waits, a);
    group_run(&a->group, root_is_ahead, a);
    group_fini(&a->group);
    trap_fini(&a->trap);
}

/* Too much for a card: in halves of staging memory. The one that is read then
 * lies where the half begins, or further on. */
START_TEST(staged_operand_kept_until_slow_reader_has_it)
{
    struct ahead a = {
        .sizes = {ROOT_COUNT, ROOT_COUNT}, .reuse = STAGE_CALLS, .held = true};

    run_ahead(&a);
}
END_TEST

START_TEST(operand_in_card_kept_until_slow_reader_has_it)
{
    struct ahead a = {
        .sizes = {2000, 1000}, .reuse = MAILBOX_LARGE, .held = true};

    run_ahead(&a);
}
END_TEST

START_TEST(card_kept_until_late_rank_has_seen_it)
{
    struct ahead a = {.sizes = {1, 5}, .reuse = MAILBOX_CARDS};

    run_ahead(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wake");
    TCase *tc = tcase_create("wake");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, late_card_wakes_at_once);
    tcase_add_test(tc, late_root_that_splits_with_nobody_wakes_readers);
    tcase_add_test(tc, late_block_wakes_at_once);
    tcase_add_test(tc, late_reader_of_offered_buffer_wakes_at_once);
    tcase_add_test(tc, asked_and_answered_wake_at_once);
    tcase_add_test(tc, waiting_for_long_costs_no_cpu);
    tcase_add_test(tc, staged_operand_kept_until_slow_reader_has_it);
    tcase_add_test(tc, operand_in_card_kept_until_slow_reader_has_it);
    tcase_add_test(tc, card_kept_until_late_rank_has_seen_it);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
