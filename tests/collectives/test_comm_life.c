/* tests/collectives/test_comm_life.c - the life of a comm as its owner sees it:
 * what it is refused for and what it needs, the word that ends it, whom it
 * accuses, calls behind its end, and what it leaves behind. */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/array.h"
#include "base/mac.h"
#include "collectives/call.h"
#include "collectives/descriptors.h"
#include "collectives/local/impl.h"
#include "posted.h"
#include "strangers.h"
#include "timeline/timeline.h"

/* Nobody else is needed for one of one. */
static struct comm_config config_of(int rank, int size)
{
    return (struct comm_config){
        .job = GROUP_JOB, .generation = 1, .rank = rank, .size = size};
}

static struct comm *create_alone(void)
{
    struct comm_config config = config_of(0, 1);
    struct comm *comm;

    ck_assert_int_eq(comm_create(&config, &comm), HVD_OK);
    return comm;
}

static bool meet(struct group *g, int rank, void *arg)
{
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    return true;
}

/* --- creation --- */

static const struct {
    int rank, size;
    const char *words;
} bad_configs[] = {
    {0, 0, "rank 0 of 0"}, {-1, 1, "rank -1 of 1"}, {1, 1, "rank 1 of 1"},
    {2, 2, "rank 2 of 2"}, {0, 2, "no endpoint"},
};

START_TEST(create_bad_config_invalid)
{
    struct comm_config config = config_of(bad_configs[_i].rank,
                                          bad_configs[_i].size);
    struct comm *comm;

    ck_assert_int_eq(comm_create(&config, &comm), HVD_ERR_INVALID);
    ck_assert(text_has(bad_configs[_i].words));
}
END_TEST

START_TEST(create_has_what_it_will_need)
{
    static const uint32_t hosts[] = {0, 0, 1};
    const struct comm *comm;
    struct group g;

    group_init_hosts(&g, 3, hosts, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    comm = g.comms[0];
    ck_assert(is_cloexec(comm->verdict.wake_fd));
    ck_assert_int_ne(fcntl(comm->verdict.wake_fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_uint_ge(comm->pfds_max, CHANNEL_COUNT * 3);
    ck_assert_ptr_nonnull(comm->local);
    ck_assert_ptr_nonnull(comm->two_level);
    ck_assert_ptr_null(g.comms[2]->local);
    ck_assert_uint_eq(comm_generation(comm), g.generation);
    group_fini(&g);
}
END_TEST

START_TEST(create_no_slot_own_failure)
{
    struct comm_config config = config_of(0, 1);
    struct rlimit old;
    struct comm *comm;
    hvd_status_t status;

    ck_assert_int_eq(mac_init(), HVD_OK);
    old = limit_fds(0);
    status = comm_create(&config, &comm);
    setrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(status, HVD_ERR_SYSTEM);
    ck_assert(text_has("eventfd: "));
}
END_TEST

/* --- memory that runs out --- */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Nothing more is mapped; what is small has room in the heap. */
static struct rlimit limit_memory(void)
{
    struct rlimit old, limit;

    free(malloc(64 << 10));
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &old), 0);
    limit = old;
    limit.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    return old;
}

START_TEST(create_no_memory_told)
{
    struct comm_config config = config_of(0, 1);
    struct rlimit old;
    struct comm *comm;
    hvd_status_t status;

    ck_assert_int_eq(mac_init(), HVD_OK);
    old = limit_memory();
    status = comm_create(&config, &comm);
    setrlimit(RLIMIT_AS, &old);
    ck_assert_int_eq(status, HVD_ERR_NOMEM);
    ck_assert(text_has("comm of 1 ranks"));
    ck_assert_int_ge(fcntl(0, F_GETFD), 0); /* not taken for its own */
}
END_TEST

/* The others may have begun: it cannot go on without this call. */
START_TEST(run_no_memory_comm_ends)
{
    size_t count = 4 << 20;
    float *send = calloc(2 * count, sizeof(*send));
    float *recv = calloc(count, sizeof(*recv));
    struct collective_args args = sum_args(send, recv, count);
    struct rlimit old;
    hvd_status_t status;
    struct group g;

    ck_assert(send != NULL && recv != NULL);
    args.kind = COLLECTIVE_REDUCE_SCATTER;
    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    old = limit_memory();
    status = comm_run(g.comms[0], &args);
    setrlimit(RLIMIT_AS, &old);
    ck_assert_int_eq(status, HVD_ERR_NOMEM);
    ck_assert(text_has("bytes of scratch"));
    ck_assert_int_eq(comm_status(g.comms[0], NULL), HVD_ERR_NOMEM);
    group_fini(&g);
    free(send);
    free(recv);
}
END_TEST
#endif

/* --- descriptors --- */

static const struct crowd {
    int size, n_here;
    bool can_share;  /* what they say */
    bool shares;     /* what comes of it */
    int connections; /* as configured */
    size_t held;     /* arenas of others, from before */
} crowds[] = {
    {3, 2, true, true, 1, 0},     {3, 2, false, false, 1, 0},
    {3, 2, true, true, 4, 0},     {3, 2, false, false, 0, 3},
    {256, 256, true, true, 1, 0}, {257, 257, true, false, 1, 0},
    {3, 2, false, false, 1, 100}, /* more than a comm needs at least */
};

static struct comm_config config_with(const struct crowd *c)
{
    static struct comm_peer peers[300];
    struct endpoint_config ec = {"127.0.0.1", GROUP_JOB, 100, 1000000,
                                 GROUP_JOB_KEY};
    struct comm_config config = config_of(0, c->size);

    for (int i = 0; i < c->size; i++)
        peers[i] = (struct comm_peer){
            .worker = 100 + (uint64_t)i,
            .host = i < c->n_here ? 0u : 1u,
            .abilities = (uint8_t)(c->can_share ? COMM_CAN_ALL : 0)};
    config.peers = peers;
    config.tcp_connections = c->connections;
    ck_assert_int_eq(endpoint_create(&ec, &config.endpoint), HVD_OK);
    return config;
}

/* As a process has them that has survived others. */
static struct descriptors_need need_of(const struct crowd *c)
{
    struct descriptors_need need = descriptors_needed(
        (size_t)c->size, (size_t)c->n_here, c->shares,
        c->connections > 1 ? (size_t)c->connections : 1);
    size_t known = c->held < need.least ? c->held : need.least;

    for (size_t i = 0; i < c->held; i++) {
        int fd = file_create();

        ck_assert_int_eq(ftruncate(fd, ARENA_HEAD_NBYTES), 0);
        ck_assert_ptr_nonnull(peer_arena_take(fd));
        close(fd);
    }
    return (struct descriptors_need){need.least - known, need.most - known};
}

START_TEST(create_too_few_descriptors_told)
{
    const struct crowd *c = &crowds[_i];
    struct comm_config config = config_with(c);
    struct descriptors_need need = need_of(c);
    int before = count_fds(), next = dup(0);
    struct rlimit limit = {(rlim_t)next + 4, (rlim_t)next + 4};
    struct comm *comm;
    char words[80];

    close(next);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(comm_create(&config, &comm), HVD_ERR_SYSTEM);
    snprintf(words, sizeof(words), "%d ranks, %d of them here: %zu descriptors",
             c->size, c->n_here, need.least);
    ck_assert_msg(text_has(words), "%s", error_text());
    ck_assert_int_eq(count_fds(), before);
    endpoint_destroy(config.endpoint);
}
END_TEST

START_TEST(create_raises_the_soft_limit_to_what_it_may_need)
{
    const struct crowd *c = &crowds[_i];
    struct comm_config config = config_with(c);
    struct descriptors_need need = need_of(c);
    size_t n_open = (size_t)count_fds() - 3; /* ".", "..", its own */
    struct rlimit limit;
    struct comm *comm;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = n_open + 2;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(comm_create(&config, &comm), HVD_OK);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, n_open + 1 + need.most);
    comm_destroy(comm);
    endpoint_destroy(config.endpoint);
}
END_TEST

static int close_all(const void *arg)
{
    const struct group *g = arg;
    const struct comm *comm = g->comms[2];
    int fds[] = {comm->live[0]->fd, comm->live[1]->fd};

    endpoint_fds_close(g->endpoints[2]);
    return fcntl(fds[0], F_GETFD) < 0 && fcntl(fds[1], F_GETFD) < 0 ? 0 : 1;
}

START_TEST(forked_child_closes_connections_to_all)
{
    struct group g;

    group_init_over(&g, 3, 0, COMM_ORDINARY_MEASURED);
    group_run(&g, meet, NULL);
    ck_assert_uint_ge(g.comms[2]->n_live, 2);
    ck_assert_int_eq(support_in_child(close_all, &g), 0);
    group_fini(&g);
}
END_TEST

/* --- the word --- */

START_TEST(abort_wakes_by_its_descriptor)
{
    struct comm *comm = create_alone();
    eventfd_t n;

    ck_assert_int_eq(eventfd_read(comm->verdict.wake_fd, &n), -1);
    comm_abort(comm, HVD_PEER_LOST, "worker 9 died");
    ck_assert_int_eq(eventfd_read(comm->verdict.wake_fd, &n), 0);
    comm_destroy(comm);
}
END_TEST

START_TEST(status_before_the_text_is_there_alive)
{
    struct comm *comm = create_alone();
    const char *text;

    atomic_store(&comm->verdict.word, VERDICT_CLAIMED);
    ck_assert_int_eq(comm_status(comm, &text), HVD_OK);
    ck_assert_str_eq(text, "");
    atomic_store(&comm->verdict.word, 0);
    comm_destroy(comm);
}
END_TEST

struct late {
    struct comm *comm;
    sem_t begun;
    hvd_status_t status;
};

static void *fail_late(void *arg)
{
    struct late *l = arg;

    sem_post(&l->begun);
    l->status = comm_fail(l->comm, HVD_PEER_LOST, "second");
    return NULL;
}

/* Whoever comes between the two halves of another's abort waits for it. */
START_TEST(fail_while_another_aborts_has_its_reason)
{
    struct late l = {.comm = create_alone()};
    pthread_t thread;

    sem_init(&l.begun, 0, 0);
    atomic_store(&l.comm->verdict.word, VERDICT_CLAIMED);
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_late, &l), 0);
    sem_wait(&l.begun);
    for (int i = 0; i < 1000; i++)
        sched_yield();
    strcpy(l.comm->verdict.text, "first");
    atomic_store(&l.comm->verdict.word, (int)HVD_ERR_MISMATCH);
    pthread_join(thread, NULL);
    ck_assert_int_eq(l.status, HVD_ERR_MISMATCH);
    comm_destroy(l.comm);
    sem_destroy(&l.begun);
}
END_TEST

START_TEST(accused_are_counted_once)
{
    const int *accused;
    struct group g;
    size_t n;

    group_init_over(&g, 3, 0, COMM_ORDINARY_MEASURED);
    comm_accuse(g.comms[0], 2, false);
    comm_accuse(g.comms[0], 1, false);
    ck_assert_uint_eq(comm_accused_proven(g.comms[0]), 0);
    comm_accuse(g.comms[0], 1, true); /* by another of its connections */
    comm_accuse(g.comms[0], 2, false);
    comm_accuse(g.comms[0], 1, false);
    ck_assert_uint_eq(comm_accused_proven(g.comms[0]), 2);
    accused = comm_accused(g.comms[0], &n);
    ck_assert_uint_eq(n, 2);
    ck_assert(accused[0] == 2 && accused[1] == 1);
    group_fini(&g);
}
END_TEST

/* What one of the two has damaged, whichever it was. */
START_TEST(distrusted_is_accused_beside_oneself)
{
    const int *accused;
    struct group g;
    size_t n;

    group_init(&g, 3);
    ck_assert_int_eq(comm_distrust(g.comms[0], 2, "it arrived damaged"),
                     HVD_PEER_LOST);
    ck_assert(text_has("it arrived damaged"));
    accused = comm_accused(g.comms[0], &n);
    ck_assert_uint_eq(n, 2);
    ck_assert(accused[0] == 2 && accused[1] == 0);
    ck_assert_int_eq(comm_whole(g.comms[0]), HVD_PEER_LOST);
    group_fini(&g);
}
END_TEST

/* --- whole --- */

START_TEST(whole_until_a_call_meets_the_abort)
{
    struct hvd_request *request;
    struct group g;
    float x = 1;

    group_init(&g, 2);
    ck_assert_int_eq(allreduce(g.comms[0], NULL, &x, 1, HVD_FLOAT32, HVD_SUM),
                     HVD_ERR_INVALID);
    comm_abort(g.comms[0], HVD_PEER_LOST, "so be it");
    ck_assert_int_eq(comm_whole(g.comms[0]), HVD_OK);
    if (_i == 0)
        ck_assert_int_eq(barrier(g.comms[0]), HVD_PEER_LOST);
    else
        ck_assert_int_eq(post_sum(g.comms[0], &x, 1, &request), HVD_PEER_LOST);
    error_clear();
    ck_assert_int_eq(comm_whole(g.comms[0]), HVD_PEER_LOST);
    ck_assert(text_has("so be it"));
    group_fini(&g);
}
END_TEST

/* Nobody has waited for it. */
START_TEST(whole_until_a_posted_call_has_failed)
{
    struct hvd_request *request;
    struct group g;
    float x = 1;

    group_init(&g, 2);
    ck_assert_int_eq(post_sum(g.comms[0], &x, 1, &request), HVD_OK);
    ck_assert_int_eq(comm_whole(g.comms[0]), HVD_OK);
    comm_abort(g.comms[0], HVD_ERR_MISMATCH, "not the same");
    ck_assert_int_eq(comm_drain(g.comms[0]), HVD_ERR_MISMATCH);
    ck_assert_int_eq(comm_whole(g.comms[0]), HVD_ERR_MISMATCH);
    ck_assert_int_eq(request_wait(request), HVD_ERR_MISMATCH);
    group_fini(&g);
}
END_TEST

START_TEST(whole_until_it_has_left)
{
    struct group g;

    group_init(&g, 2);
    comm_leave(g.comms[0], COMM_LEAVE_BOUNDARY, 7);
    ck_assert_int_eq(comm_whole(g.comms[0]), HVD_PEER_LOST);
    ck_assert(text_has("left at boundary 7"));
    group_fini(&g);
}
END_TEST

/* --- calls --- */

START_TEST(run_alone_behind_an_abort_has_its_reason)
{
    struct comm *comm = create_alone();
    float x = 1;

    comm_abort(comm, HVD_ERR_MISMATCH, "not the same");
    ck_assert_int_eq(allreduce(comm, &x, &x, 1, HVD_FLOAT32, HVD_SUM),
                     HVD_ERR_MISMATCH);
    ck_assert(text_has("not the same"));
    comm_destroy(comm);
}
END_TEST

START_TEST(run_behind_the_end_refused)
{
    struct group g;

    group_init(&g, 2);
    comm_leave(g.comms[0], COMM_LEAVE_DONE, 0);
    ck_assert_int_eq(barrier(g.comms[0]), HVD_ERR_STATE);
    ck_assert(text_has("has finished"));
    ck_assert_int_eq(comm_status(g.comms[0], NULL), HVD_OK);
    group_fini(&g);
}
END_TEST

/* A peer that still waits in the call of that number is told which it was. */
START_TEST(call_of_nothing_is_remembered)
{
    struct connection c = {.peer = 1};
    struct comm *comm;
    struct group g;
    float x = 0;

    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    comm = g.comms[0];
    ck_assert_int_eq(allreduce(comm, &x, &x, 0, HVD_FLOAT32, HVD_SUM), HVD_OK);
    comm->op.head.sequence = 2; /* as if it waited in the next one */
    c.frame = (struct frame){.type = FRAME_ANNOUNCE,
                             .kind = COLLECTIVE_ALLREDUCE,
                             .dtype = HVD_FLOAT32,
                             .op = HVD_SUM,
                             .sequence = 1,
                             .count = 100};
    ck_assert_int_eq(engine_other_call(comm, &c), HVD_ERR_MISMATCH);
    ck_assert(text_has("rank 1 calls allreduce #1 (float32, sum, 100), "
                       "rank 0 calls allreduce #1 (float32, sum, 0)"));
    group_fini(&g);
}
END_TEST

START_TEST(leave_abort_completes_what_is_posted)
{
    enum { POSTED = 100 };
    struct hvd_request *requests[POSTED];
    float x[POSTED] = {0};
    struct group g;

    group_init(&g, 2);
    for (int i = 0; i < POSTED; i++)
        ck_assert_int_eq(post_sum(g.comms[0], x + i, 1, &requests[i]), HVD_OK);
    comm_leave(g.comms[0], COMM_LEAVE_ABORT, 0);
    for (int i = POSTED - 1; i >= 0; i--)
        ck_assert(request_done(requests[i]));
    for (int i = 0; i < POSTED; i++)
        ck_assert_int_eq(request_wait(requests[i]), HVD_PEER_LOST);
    group_fini(&g);
}
END_TEST

/* It is in the middle of a call that the abort ends: both would end the comm
 * at once (a matter for the thread sanitizer). */
START_TEST(run_behind_an_abort_while_the_thread_drives)
{
    enum { ROUNDS = 50, COUNT = 100000 };
    float *x = calloc(COUNT, sizeof(*x));

    for (int i = 0; i < ROUNDS; i++) {
        struct hvd_request *request;
        struct group g;

        group_init(&g, 2);
        ck_assert_int_eq(post_sum(g.comms[0], x, COUNT, &request), HVD_OK);
        comm_abort(g.comms[0], HVD_PEER_LOST, "enough");
        ck_assert_int_eq(barrier(g.comms[0]), HVD_PEER_LOST);
        ck_assert_int_eq(request_wait(request), HVD_PEER_LOST);
        group_fini(&g);
    }
    free(x);
}
END_TEST

/* --- what it leaves behind --- */

/* 0: destroyed, 1: lost, 2: over a disagreement */
START_TEST(gone_is_shown_to_who_shares_memory)
{
    static const uint32_t expected[] = {MAILBOX_LEFT, MAILBOX_LEFT,
                                        MAILBOX_LEFT_MISMATCH};
    const struct mailbox *box;
    struct group g;

    group_init_over(&g, 2, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    group_run(&g, meet, NULL);
    box = g.comms[1]->local->peers[0].box;
    ck_assert_uint_eq(atomic_load(&box->left), MAILBOX_HERE);
    if (_i == 0) {
        group_rank_destroy(&g, 0);
    } else {
        comm_abort(g.comms[0], _i == 1 ? HVD_PEER_LOST : HVD_ERR_MISMATCH, "");
        ck_assert_int_ne(barrier(g.comms[0]), HVD_OK);
    }
    ck_assert_uint_eq(atomic_load(&box->left), expected[_i]);
    group_fini(&g);
}
END_TEST

START_TEST(destroyed_connections_linger)
{
    size_t n_live;
    struct group g;

    group_init_over(&g, 2, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    group_run(&g, meet, NULL);
    ck_assert_uint_eq(endpoint_fds_count(g.endpoints[1]), 2);
    n_live = g.comms[1]->n_live;
    comm_destroy(g.comms[1]);
    g.comms[1] = NULL;
    ck_assert_uint_gt(n_live, 0);
    ck_assert_uint_eq(endpoint_fds_count(g.endpoints[1]), 2 + n_live);
    group_fini(&g);
}
END_TEST

/* Who allocates as much next gets the same. */
START_TEST(destroyed_its_fusion_buffer_is_free)
{
    struct comm *comm = create_alone();
    float x[] = {1, 2};
    const size_t counts[] = {1, 1};
    const void *sends[] = {x, x + 1};
    void *recvs[] = {x, x + 1}, *buffer, *again = NULL;
    struct comm_group group = {2, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, 0);

    ck_assert_int_eq(comm_run_group(comm, &args, &group), HVD_OK);
    buffer = comm->fusion;
    ck_assert_ptr_nonnull(buffer);
    comm_destroy(comm);
    ck_assert_ptr_nonnull(again = hvd_alloc(FUSION_BUFFER_NBYTES));
    ck_assert_ptr_eq(again, buffer);
    hvd_free(again);
}
END_TEST

START_TEST(run_shows_its_phases_in_the_timeline)
{
    static char text[1 << 16];
    char directory[] = "/tmp/hvd-comm-XXXXXX", path[64], own[64];
    struct timeline_config config = {.path = path,
                                     .job = GROUP_JOB,
                                     .worker = 7,
                                     .host = "h",
                                     .words = &call_words};
    struct group g;
    FILE *file;

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/t.json", directory);
    snprintf(own, sizeof(own), "%s/t.7.json", directory);
    ck_assert_int_eq(timeline_open(&config), HVD_OK);
    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    group_run(&g, meet, NULL);
    group_fini(&g);
    timeline_close();
    file = fopen(own, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "dissemination"));
    unlink(own);
    rmdir(directory);
}
END_TEST

static void add_creation(TCase *tc)
{
    int n = (int)ARRAY_SIZE(crowds);

    tcase_add_loop_test(tc, create_bad_config_invalid, 0,
                        ARRAY_SIZE(bad_configs));
    tcase_add_test(tc, create_has_what_it_will_need);
    tcase_add_test(tc, create_no_slot_own_failure);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    tcase_add_test(tc, create_no_memory_told);
    tcase_add_test(tc, run_no_memory_comm_ends);
#endif
    /* of the last one nothing is needed that is not there */
    tcase_add_loop_test(tc, create_too_few_descriptors_told, 0, n - 1);
    tcase_add_loop_test(tc, create_raises_the_soft_limit_to_what_it_may_need, 0,
                        n);
    tcase_add_test(tc, forked_child_closes_connections_to_all);
}

int main(void)
{
    Suite *suite = suite_create("comm_life");
    TCase *tc = tcase_create("comm_life");

    tcase_set_timeout(tc, 60);
    add_creation(tc);
    tcase_add_test(tc, abort_wakes_by_its_descriptor);
    tcase_add_test(tc, status_before_the_text_is_there_alive);
    tcase_add_test(tc, fail_while_another_aborts_has_its_reason);
    tcase_add_test(tc, accused_are_counted_once);
    tcase_add_test(tc, distrusted_is_accused_beside_oneself);
    tcase_add_loop_test(tc, whole_until_a_call_meets_the_abort, 0, 2);
    tcase_add_test(tc, whole_until_a_posted_call_has_failed);
    tcase_add_test(tc, whole_until_it_has_left);
    tcase_add_test(tc, run_alone_behind_an_abort_has_its_reason);
    tcase_add_test(tc, run_behind_the_end_refused);
    tcase_add_test(tc, call_of_nothing_is_remembered);
    tcase_add_test(tc, leave_abort_completes_what_is_posted);
    tcase_add_test(tc, run_behind_an_abort_while_the_thread_drives);
    tcase_add_loop_test(tc, gone_is_shown_to_who_shares_memory, 0, 3);
    tcase_add_test(tc, destroyed_connections_linger);
    tcase_add_test(tc, destroyed_its_fusion_buffer_is_free);
    tcase_add_test(tc, run_shows_its_phases_in_the_timeline);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
