/* tests/collectives/test_by_name_ends.c - how calls by name end: with a loss,
 * an abort, a rank that leaves, their comm. */
#include <sched.h>
#include <stdatomic.h>

#include "collectives/by_name_impl.h"
#include "collectives/progress.h"
#include "named.h"

/* As many as the comm takes: others may have left. */
static bool post_numbers(struct comm *comm, struct tensors *t, int first,
                         int rank, int *n_p)
{
    hvd_status_t status = HVD_OK;
    char name[16];
    int n = 0;

    for (; n < NAMES && status == HVD_OK; n++) {
        snprintf(name, sizeof(name), "%d", n + first);
        status = post_named(comm, name, t->bufs[n], 1, &t->requests[n]);
    }
    EXPECT(status == HVD_OK || status == HVD_PEER_LOST);
    *n_p = n - (status != HVD_OK);
    return true;
}

static bool wait_numbers(struct tensors *t, int rank, int n)
{
    for (int i = 0; i < n; i++) {
        hvd_status_t status = request_wait(t->requests[i]);

        EXPECT(status == HVD_OK || status == HVD_PEER_LOST);
    }
    return true;
}

/* One rank leaves while the others wait for what it has not posted; or in the
 * middle of it. */
static bool lose_one(struct group *g, int rank, void *arg)
{
    bool posts = *(int *)arg != 0 || rank != 0;
    struct comm *comm = g->comms[rank];
    struct hvd_request *late;
    hvd_status_t status;
    struct tensors t;
    int n = 0;

    alloc_tensors(&t);
    for (int i = 0; i < NAMES; i++)
        EXPECT(post_tensor(comm, &t, i, rank, 0));
    for (int i = 0; i < NAMES; i++)
        EXPECT(wait_tensor(g, &t, i, rank, 0));
    status = barrier(comm); /* who is through may have left already */
    EXPECT(status == HVD_OK || (status == HVD_PEER_LOST && rank != 0));
    if (posts)
        EXPECT(post_numbers(comm, &t, 0, rank, &n));
    if (rank == 0)
        comm_leave(comm, COMM_LEAVE_ABORT, 0);
    EXPECT(wait_numbers(&t, rank, n));
    EXPECT(post_named(comm, "late", t.bufs[0], 1, &late) != HVD_OK ||
           request_wait(late) == HVD_PEER_LOST);
    EXPECT(comm_status(comm, NULL) == HVD_PEER_LOST);
    comm_leave(comm, COMM_LEAVE_ABORT, 0);
    free_tensors(&t);
    return true;
}

START_TEST(a_loss_ends_what_is_in_flight)
{
    struct group g;

    for (int size = 2; size <= 4; size++) {
        group_init(&g, size);
        group_run(&g, lose_one, &_i);
        group_fini(&g);
    }
}
END_TEST

/* The word of another thread, the control thread's. */
static bool abort_at_any_time(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct tensors t;
    int n;

    alloc_tensors(&t);
    EXPECT(post_numbers(comm, &t, rank == 0, rank, &n));
    for (int k = 0; k < 50 * rank; k++)
        sched_yield();
    comm_abort(comm, HVD_PEER_LOST, "somebody died");
    EXPECT(wait_numbers(&t, rank, n));
    EXPECT(comm_status(comm, NULL) == HVD_PEER_LOST);
    free_tensors(&t);
    return true;
}

START_TEST(an_abort_ends_what_is_in_flight)
{
    struct group g;

    for (int i = 0; i < 20; i++) {
        group_init(&g, 2 + i % 3);
        group_run(&g, abort_at_any_time, NULL);
        group_fini(&g);
    }
}
END_TEST

/* They are complete when the comm is gone; and a thread that waits is out. */
static bool destroy_with_posts(struct group *g, int rank, void *arg)
{
    struct tensors t;
    int n;

    alloc_tensors(&t);
    EXPECT(post_numbers(g->comms[rank], &t, rank == 0, rank, &n));
    comm_leave(g->comms[rank], COMM_LEAVE_ABORT, 0);
    comm_destroy(g->comms[rank]);
    g->comms[rank] = NULL;
    for (int i = 0; i < n; i++)
        EXPECT(request_done(t.requests[i]));
    EXPECT(wait_numbers(&t, rank, n));
    free_tensors(&t);
    return true;
}

START_TEST(posts_end_with_their_comm)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, destroy_with_posts, NULL);
    group_fini(&g);
}
END_TEST

/* Rank 1 has finished, rank 0 waits for what it will never post. */
static bool finish_early(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *request;
    float x = 1;

    EXPECT(post_named(comm, "x", &x, 1, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    if (rank == 1) {
        comm_leave(comm, COMM_LEAVE_DONE, 0);
        return true;
    }
    EXPECT(post_named(comm, "y", &x, 1, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_ERR_MISMATCH);
    EXPECT(text_has("rank 1 has finished"));
    EXPECT(comm_status(comm, NULL) == HVD_ERR_MISMATCH);
    return true;
}

START_TEST(who_has_finished_is_not_waited_for)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, finish_early, NULL);
    group_fini(&g);
}
END_TEST

/* Rank 1 finishes, or leaves, and has never posted anything by name. It serves
 * its endpoint, as the run loop does, until rank 0 knows. */
struct silent {
    bool leaves;
    atomic_bool known;
};

static bool never_post(struct group *g, int rank, void *arg)
{
    struct silent *s = arg;
    struct comm *comm = g->comms[rank];
    struct hvd_request *request;
    float x = 1;

    EXPECT(barrier(comm) == HVD_OK);
    if (rank == 1) {
        comm_leave(comm, s->leaves ? COMM_LEAVE_BOUNDARY : COMM_LEAVE_DONE, 7);
        for (; !atomic_load(&s->known); sched_yield())
            endpoint_drive(g->endpoints[1], NULL);
        return true;
    }
    EXPECT(post_named(comm, "y", &x, 1, &request) == HVD_OK);
    EXPECT(request_wait(request) ==
           (s->leaves ? HVD_PEER_LOST : HVD_ERR_MISMATCH));
    EXPECT_SAY(text_has(s->leaves ? "rank 1 left at boundary 7"
                                  : "rank 1 has finished"),
               "rank %d", rank);
    atomic_store(&s->known, true);
    /* the world has ended where they differ */
    EXPECT((comm_status(comm, NULL) == HVD_OK) == s->leaves);
    return true;
}

START_TEST(who_never_posts_says_goodbye_all_the_same)
{
    struct silent s = {.leaves = _i != 0};
    struct group g;

    group_init(&g, 2);
    group_run(&g, never_post, &s);
    group_fini(&g);
}
END_TEST

/* An abort that no call by name has met is no failure of one: nobody is in one
 * any more. */
static bool abort_between(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    atomic_int *n_through = arg;
    struct hvd_request *request;
    float x = 1;

    EXPECT(post_named(comm, "x", &x, 1, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    atomic_fetch_add(n_through, 1);
    while (atomic_load(n_through) < g->size)
        sched_yield();
    comm_abort(comm, HVD_PEER_LOST, "somebody died");
    EXPECT(comm_drain(comm) == HVD_OK);
    EXPECT(comm_whole(comm) == HVD_OK);
    EXPECT(post_named(comm, "x", &x, 1, &request) == HVD_PEER_LOST);
    comm_leave(comm, COMM_LEAVE_ABORT, 0);
    EXPECT(post_named(comm, "x", &x, 1, &request) == HVD_PEER_LOST);
    return true;
}

START_TEST(an_abort_between_calls_is_no_failure)
{
    atomic_int n_through = 0;
    struct group g;

    group_init(&g, 2);
    group_run(&g, abort_between, &n_through);
    group_fini(&g);
}
END_TEST

/* A rank that has left makes no comm for names any more. */
static bool post_late(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *request;
    float x = 1;

    comm_leave(comm, COMM_LEAVE_BOUNDARY, 1);
    EXPECT(post_named(comm, "x", &x, 1, &request) == HVD_PEER_LOST);
    return true;
}

START_TEST(who_has_left_posts_nothing)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, post_late, NULL);
    group_fini(&g);
}
END_TEST

/* A drain completes them; it is no failure that ranks have differed, but known
 * until somebody has waited for it. */
static bool drain(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *bad;
    float x[2] = {1, 1};
    struct tensors t;

    alloc_tensors(&t);
    for (int i = 0; i < NAMES; i++)
        EXPECT(post_tensor(comm, &t, rank == 0 ? i : NAMES - 1 - i, rank, 0));
    EXPECT(post_named(comm, "x", x, rank == 0 ? 1 : 2, &bad) == HVD_OK);
    EXPECT(comm_drain(comm) == HVD_OK);
    EXPECT(request_done(bad));
    EXPECT(comm_unwaited(comm) == HVD_ERR_MISMATCH && text_has("'x'"));
    EXPECT(request_wait(bad) == HVD_ERR_MISMATCH);
    EXPECT(comm_unwaited(comm) == HVD_OK);
    for (int i = 0; i < NAMES; i++) {
        EXPECT(request_done(t.requests[i]));
        EXPECT(wait_tensor(g, &t, i, rank, 0));
    }
    free_tensors(&t);
    return true;
}

START_TEST(a_drain_completes_them)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, drain, NULL);
    group_fini(&g);
}
END_TEST

/* All leave at a boundary. Rank 1 is the first, and has not posted what threads
 * of the others have: all the same each of them drains and leaves in good
 * order. */
static bool leave_apart(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *all, *one, *late;
    float x = 1, y = 1;

    EXPECT(post_named(comm, "x", &x, 1, &all) == HVD_OK);
    if (rank != 1)
        EXPECT(post_named(comm, rank == 0 ? "y" : "z", &y, 1, &one) == HVD_OK);
    EXPECT(request_wait(all) == HVD_OK);
    EXPECT(x == (float)g->size);
    if (rank != 1 && arg != NULL)
        EXPECT(comm_drain(comm) == HVD_OK);
    EXPECT(comm_whole(comm) == HVD_OK);
    comm_leave(comm, COMM_LEAVE_BOUNDARY, 3);
    EXPECT(post_named(comm, "x", &x, 1, &late) == HVD_PEER_LOST);
    if (rank != 1)
        EXPECT(request_wait(one) == HVD_PEER_LOST);
    EXPECT(comm_status(comm, NULL) == HVD_PEER_LOST);
    return true;
}

START_TEST(at_a_boundary_calls_of_a_thread_end_and_nothing_else)
{
    struct group g;

    for (int size = 2; size <= 4; size++) {
        group_init(&g, size);
        group_run(&g, leave_apart, _i ? &g : NULL);
        group_fini(&g);
    }
}
END_TEST

/* All ranks leave, each with a call that the others have not posted. */
static bool leave_crossed(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *request;
    float x = 1;

    EXPECT(post_named(comm, rank == 0 ? "x" : "y", &x, 1, &request) == HVD_OK);
    comm_leave(comm, COMM_LEAVE_BOUNDARY, 3);
    EXPECT(request_wait(request) == HVD_PEER_LOST);
    return true;
}

START_TEST(all_leave_with_calls_of_their_own)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, leave_crossed, NULL);
    group_fini(&g);
}
END_TEST

/* Each rank is through, but for a name that the others have not posted. */
static bool finish_apart(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *request;
    float x = 1;

    EXPECT(post_named(comm, rank == 0 ? "x" : "y", &x, 1, &request) == HVD_OK);
    comm_leave(comm, COMM_LEAVE_DONE, 0);
    EXPECT(request_wait(request) == HVD_ERR_MISMATCH);
    EXPECT_SAY(text_has("every rank waits for its own calls"), "rank %d", rank);
    EXPECT(comm_status(comm, NULL) == HVD_ERR_MISMATCH);
    return true;
}

START_TEST(ranks_that_wait_for_each_other_learn_of_it)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, finish_apart, NULL);
    group_fini(&g);
}
END_TEST

enum { TAKERS = 6 };

struct takers {
    struct comm *names;
    pthread_barrier_t barrier;
};

/* Threads of rank 0 take the engine at once, each time when its progress thread
 * sleeps in it until rank 1 has posted: none erases another's wish. */
static void *take_turns(void *arg)
{
    struct takers *all = arg;

    for (int i = 0; i < 3 * STEPS; i++) {
        pthread_barrier_wait(&all->barrier);
        progress_take(all->names);
        sched_yield();
        progress_give(all->names);
        if (pthread_barrier_wait(&all->barrier) != 0)
            while (!atomic_load(&all->names->by_name->sleeping))
                sched_yield();
    }
    return NULL;
}

static void take_at_once(struct comm *comm)
{
    struct takers all = {.names = atomic_load(&comm->names)};
    pthread_t threads[TAKERS];

    pthread_barrier_init(&all.barrier, NULL, TAKERS);
    for (int i = 0; i < TAKERS; i++)
        pthread_create(&threads[i], NULL, take_turns, &all);
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all.barrier);
}

static bool take_while_posted(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *own, *other;
    float x = 1, y = 1;

    EXPECT(post_named(comm, rank == 0 ? "x" : "y", &x, 1, &own) == HVD_OK);
    if (rank == 0)
        take_at_once(comm);
    EXPECT(barrier(comm) == HVD_OK);
    EXPECT(post_named(comm, rank == 0 ? "y" : "x", &y, 1, &other) == HVD_OK);
    EXPECT(request_wait(own) == HVD_OK && request_wait(other) == HVD_OK);
    return true;
}

START_TEST(threads_that_take_the_engine_at_once_get_it)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, take_while_posted, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("by_name_ends");
    TCase *tc = tcase_create("by_name_ends");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_loss_ends_what_is_in_flight, 0, 2);
    tcase_add_test(tc, an_abort_ends_what_is_in_flight);
    tcase_add_test(tc, posts_end_with_their_comm);
    tcase_add_test(tc, who_has_finished_is_not_waited_for);
    tcase_add_loop_test(tc, who_never_posts_says_goodbye_all_the_same, 0, 2);
    tcase_add_test(tc, an_abort_between_calls_is_no_failure);
    tcase_add_test(tc, who_has_left_posts_nothing);
    tcase_add_test(tc, a_drain_completes_them);
    tcase_add_loop_test(
        tc, at_a_boundary_calls_of_a_thread_end_and_nothing_else, 0, 2);
    tcase_add_test(tc, all_leave_with_calls_of_their_own);
    tcase_add_test(tc, ranks_that_wait_for_each_other_learn_of_it);
    tcase_add_test(tc, threads_that_take_the_engine_at_once_get_it);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
