/* tests/collectives/test_stopped.c - "shared memory after an abort"
 * (docs/protocol.md), with processes: one is stopped at any instant of its
 * calls, the others abort and leave, take their memory back and fill it with a
 * pattern. Continued, the stopped one must not change a byte of it, must not
 * believe a byte of it, and ends with HVD_PEER_LOST.
 *
 * Who was stopped while it wrote into the others' arenas keeps them from
 * leaving: it is killed, as its agent would, or continued.
 *
 * HVD_TEST_ROUNDS: how often for each way; more than the default finds more. */
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "collectives/local/impl.h"
#include "process_rank.h"

enum {
    RANKS = 3,
    ROUNDS = 6,
    PATTERN = 0xa5,
    WAIT_MS = 250 /* for who waits for the stopped one */
};

/* What is called over and over. */
struct way {
    const char *name;
    enum collective_kind kind;
    enum comm_ordinary ordinary;
    bool from_arena, in_place;
    size_t count;       /* int64 */
    bool last_ordinary; /* the last rank's buffers are not from the arena */
};

static const struct way ways[] = {
    {"allreduce, arena, in place", COLLECTIVE_ALLREDUCE, COMM_ORDINARY_MEASURED,
     true, true, 1 << 20},
    {"allreduce, arena", COLLECTIVE_ALLREDUCE, COMM_ORDINARY_MEASURED, true,
     false, 1 << 20},
    {"small allreduce, arena", COLLECTIVE_ALLREDUCE, COMM_ORDINARY_MEASURED,
     true, true, 800},
    {"allgather, arena", COLLECTIVE_ALLGATHER, COMM_ORDINARY_MEASURED, true,
     false, 1 << 18},
    {"broadcast, split, arena", COLLECTIVE_BROADCAST, COMM_ORDINARY_MEASURED,
     true, true, 1 << 19},
    {"broadcast, split with one, arena", COLLECTIVE_BROADCAST,
     COMM_ORDINARY_MEASURED, true, true, 1 << 19, true},
    {"allreduce, staged", COLLECTIVE_ALLREDUCE, COMM_ORDINARY_STAGED, false,
     true, 1 << 20},
    {"allreduce, attached", COLLECTIVE_ALLREDUCE, COMM_ORDINARY_ATTACHED, false,
     true, 1 << 20},
    {"allreduce, staged with the card", COLLECTIVE_ALLREDUCE,
     COMM_ORDINARY_MEASURED, false, true, 5 << 10},
    {"allgather, staged with the card", COLLECTIVE_ALLGATHER,
     COMM_ORDINARY_MEASURED, false, false, 2 << 10},
};

/* Shared by the processes of a round. */
struct stage {
    uint16_t ports[RANKS];
    sem_t listening, go[RANKS]; /* all ports are known */
    sem_t abort[RANKS];         /* this rank is to abort */
    sem_t patterned;            /* a survivor has left and filled his memory */
    int over_fd; /* eventfd, readable: the stopped one has ended */
    atomic_uint_least64_t n_done; /* of the victim */
};

/* --- a rank --- */

struct actor {
    struct stage *stage;
    const struct way *way;
    int rank, victim;
    struct comm *comm;
    struct endpoint *endpoint;
    int64_t *send, *recv;
    size_t send_nbytes, recv_nbytes;
};

/* A child's EXPECT. */
#define MUST(condition)                                                \
    do {                                                               \
        if (!(condition)) {                                            \
            fprintf(stderr, "%s:%d: %s: rank %d, %s (%s)\n", __FILE__, \
                    __LINE__, #condition, a->rank, a->way->name,       \
                    error_text());                                     \
            _exit(3);                                                  \
        }                                                              \
    } while (0)

static void must_wait(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        continue;
}

static void *take(struct actor *a, size_t nbytes)
{
    void *ptr = NULL;

    if (!a->way->from_arena || (a->way->last_ordinary && a->rank == RANKS - 1))
        ptr = calloc(1, nbytes);
    else
        MUST((ptr = hvd_alloc(nbytes)) != NULL);
    MUST(ptr != NULL);
    return ptr;
}

static void join_group(struct actor *a)
{
    MUST(process_rank_listen(a->rank, &a->endpoint) == HVD_OK);
    a->stage->ports[a->rank] = endpoint_port(a->endpoint);
    sem_post(&a->stage->listening);
    must_wait(&a->stage->go[a->rank]);
    MUST(process_rank_join(a->endpoint, a->rank, RANKS, a->stage->ports,
                           a->way->ordinary, &a->comm) == HVD_OK);
}

static void allocate(struct actor *a)
{
    size_t n = a->way->count * sizeof(int64_t);

    a->send_nbytes = n;
    a->recv_nbytes = a->way->kind == COLLECTIVE_ALLGATHER ? n * RANKS : n;
    a->recv = take(a, a->recv_nbytes);
    a->send = a->way->in_place ? a->recv : take(a, n);
}

/* Of element i of call k, as a rank has it. */
static int64_t element(uint64_t k, size_t i, int rank)
{
    return (int64_t)(k * 1000003 + i * 17) * (rank + 1);
}

/* Whatever was read from memory that somebody had taken back shows here. */
static void check_result(const struct actor *a, uint64_t k)
{
    size_t n = a->way->count;

    if (a->way->kind == COLLECTIVE_ALLREDUCE) {
        for (size_t i = 0; i < n; i++)
            MUST(a->recv[i] == element(k, i, 0) * RANKS * (RANKS + 1) / 2);
        return;
    }
    if (a->way->kind == COLLECTIVE_BROADCAST)
        for (size_t i = 0; i < n; i++)
            MUST(a->recv[i] == element(k, i, 0));
    else
        for (size_t i = 0; i < n * RANKS; i++)
            MUST(a->recv[i] == element(k, i % n, (int)(i / n)));
}

/* Until it fails. */
static void call_on(struct actor *a)
{
    struct collective_args args = {.kind = a->way->kind,
                                   .sendbuf = a->send,
                                   .recvbuf = a->recv,
                                   .count = a->way->count,
                                   .dtype = HVD_INT64};
    hvd_status_t status;

    for (uint64_t k = 0;; k++) {
        for (size_t i = 0; i < a->way->count; i++)
            a->send[i] = element(k, i, a->rank);
        status = comm_run(a->comm, &args);
        if (status != HVD_OK)
            break;
        check_result(a, k);
        if (a->rank == a->victim)
            atomic_fetch_add(&a->stage->n_done, 1);
    }
    MUST(status == HVD_PEER_LOST);
}

static void *abort_when_told(void *arg)
{
    struct actor *a = arg;

    must_wait(&a->stage->abort[a->rank]);
    comm_abort(a->comm, HVD_PEER_LOST, "evicted");
    return NULL;
}

static void check_pattern(const struct actor *a, const void *buf, size_t nbytes)
{
    const uint8_t *bytes = buf;

    for (size_t i = 0; i < nbytes; i++)
        MUST(bytes[i] == PATTERN);
}

/* What a run loop does: leave, and go on with its own memory, staging memory in
 * the next generation. */
static void survive(struct actor *a)
{
    uint8_t *staging;

    memset(a->send, PATTERN, a->send_nbytes);
    memset(a->recv, PATTERN, a->recv_nbytes);
    comm_destroy(a->comm);
    a->comm = NULL;
    staging = stage_take(LOCAL_STAGE_NBYTES, 1);
    MUST(staging != NULL);
    memset(staging, PATTERN, LOCAL_STAGE_NBYTES);
    sem_post(&a->stage->patterned);
    /* as a run loop would: who comes late is answered from here */
    MUST(endpoint_serve(a->endpoint, a->stage->over_fd, CLOCK_NEVER) == HVD_OK);
    check_pattern(a, a->send, a->send_nbytes);
    check_pattern(a, a->recv, a->recv_nbytes);
    check_pattern(a, staging, LOCAL_STAGE_NBYTES);
    stage_give(staging);
}

static _Noreturn void act(struct stage *stage, const struct way *way, int rank,
                          int victim)
{
    struct actor actor = {
        .stage = stage, .way = way, .rank = rank, .victim = victim};
    struct actor *a = &actor;
    pthread_t thread;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    join_group(a);
    allocate(a);
    if (rank != victim)
        pthread_create(&thread, NULL, abort_when_told, a);
    call_on(a);
    if (rank != victim) {
        pthread_join(thread, NULL);
        survive(a);
    }
    comm_destroy(a->comm);
    endpoint_destroy(a->endpoint);
    _exit(0);
}

/* --- a round --- */

static struct stage *stage_create(void)
{
    struct stage *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(s, MAP_FAILED);
    s->over_fd = eventfd(0, EFD_NONBLOCK);
    ck_assert_int_ge(s->over_fd, 0);
    sem_init(&s->listening, 1, 0);
    sem_init(&s->patterned, 1, 0);
    for (int i = 0; i < RANKS; i++) {
        sem_init(&s->go[i], 1, 0);
        sem_init(&s->abort[i], 1, 0);
    }
    return s;
}

/* Any instant. */
static void let_them_run(const struct stage *s, unsigned *seed)
{
    struct timespec t = {0, (long)(rand_r(seed) % 12000) * 1000};
    uint64_t n = (uint64_t)rand_r(seed) % 4;

    while (atomic_load(&s->n_done) < n)
        sched_yield();
    nanosleep(&t, NULL);
}

static bool left_within(struct stage *s, long ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return sem_timedwait(&s->patterned, &until) == 0;
}

/* All survivors are to leave; waits for the stopped one to be let go of.
 * false: it had to be killed. */
static bool others_leave(struct stage *s, pid_t victim, bool kills)
{
    bool lives = true;

    for (int left = 0; left < RANKS - 1; left++) {
        if (left_within(s, WAIT_MS))
            continue;
        /* it had stopped while it wrote, or the machine is slow */
        kill(victim, kills ? SIGKILL : SIGCONT);
        lives = !kills;
        must_wait(&s->patterned);
    }
    return lives;
}

static void check_end(pid_t pid, bool lives, const char *what)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (lives)
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                      "%s: status %x", what, (unsigned)status);
    else
        ck_assert_msg(WIFSIGNALED(status), "%s: status %x", what,
                      (unsigned)status);
}

static void start_all(struct stage *s, const struct way *way, int victim,
                      pid_t *pids)
{
    for (int i = 0; i < RANKS; i++) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0)
            act(s, way, i, victim);
    }
    for (int i = 0; i < RANKS; i++)
        must_wait(&s->listening);
    for (int i = 0; i < RANKS; i++)
        sem_post(&s->go[i]);
}

/* Was the stopped one in the way? */
static bool play_round(const struct way *way, unsigned seed)
{
    struct stage *s = stage_create();
    int victim = (int)(seed % RANKS), status;
    bool kills = seed / RANKS % 2 == 0, lives;
    pid_t pids[RANKS];

    start_all(s, way, victim, pids);
    let_them_run(s, &seed);
    kill(pids[victim], SIGSTOP);
    ck_assert_int_eq(waitpid(pids[victim], &status, WUNTRACED), pids[victim]);
    ck_assert(WIFSTOPPED(status));
    for (int i = 0; i < RANKS; i++)
        if (i != victim)
            sem_post(&s->abort[i]);
    lives = others_leave(s, pids[victim], kills);
    kill(pids[victim], SIGCONT);
    check_end(pids[victim], lives, "the stopped one");
    ck_assert_int_eq(eventfd_write(s->over_fd, 1), 0);
    for (int i = 0; i < RANKS; i++)
        if (i != victim)
            check_end(pids[i], true, "a survivor");
    close(s->over_fd);
    munmap(s, sizeof(*s));
    return lives;
}

START_TEST(stopped_evicted_continued_changes_nothing)
{
    const char *rounds = getenv("HVD_TEST_ROUNDS");
    int n = rounds != NULL ? atoi(rounds) : ROUNDS, n_killed = 0;

    for (int i = 0; i < n; i++)
        n_killed += !play_round(&ways[_i], (unsigned)i * 7 + (unsigned)_i);
    if (rounds != NULL)
        fprintf(stderr, "# %s: %d rounds, killed in %d\n", ways[_i].name, n,
                n_killed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stopped");
    TCase *tc = tcase_create("stopped");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, stopped_evicted_continued_changes_nothing, 0,
                        sizeof(ways) / sizeof(ways[0]));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
