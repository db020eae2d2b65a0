/* tests/worker/test_run.c - hvd_elastic_run where the test says when things
 * happen: control.c and membership.c are the test's own, what a source sends
 * comes from a tape, and each generation has a comm of one rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hvd/hvd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/world.h"
#include "elastic/worker/control.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "made.h"
#include "state/state.h"
#include "support.h"
#include "tape.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

enum { GENERATIONS_MAX = 4 };

/* ---- the driver, and what lies between ----------------------------------- */

static struct {
    struct control_assignment assigned[GENERATIONS_MAX];
    struct assign_entry entries[GENERATIONS_MAX][2];
    size_t n, next;
    bool hurries; /* ASSIGN is there before anybody looks */
    bool leaves;  /* a boundary that is held is the cut */
    bool released;
    int n_lost, n_left;
    char lost_text[WIRE_TEXT_MAX];
    struct state_id ready_id; /* of the READY behind a loss or a cut */
} driver;

static hvd_state_t *state;

/* ASSIGN: this worker is the last rank of `size`. */
static void will_assign(uint32_t size, struct state_id base, bool source)
{
    size_t i = driver.n++;
    struct control_assignment *a = &driver.assigned[i];

    a->generation = i + 1;
    a->entries = driver.entries[i];
    driver.entries[i][0].source = true;
    driver.entries[i][size - 1].source = source;
    a->assign.size = size;
    a->assign.rank = size - 1;
    a->assign.base = base;
    a->assign.source = source;
    a->assign.sync = !source;
}

hvd_status_t membership_await(uint64_t above, struct control_assignment *a_p)
{
    struct comm_peer self = {.worker = 1};
    struct comm_config config = {.size = 1, .peers = &self};

    ck_assert_uint_lt(driver.next, driver.n);
    *a_p = driver.assigned[driver.next++];
    ck_assert_uint_gt(a_p->generation, above);
    config.generation = a_p->generation;
    ok(comm_create(&config, &process_self.comm));
    process_self.left = false;
    process_self.went_on = false;
    atomic_store(&process_self.boundary, 0);
    return HVD_OK;
}

void membership_show(const struct control_assignment *a)
{
    world_set(&(struct world){.generation = a->generation,
                              .rank = (int)a->assign.rank,
                              .size = (int)a->assign.size});
}

hvd_status_t membership_enter(hvd_state_t *s)
{
    return HVD_OK;
}

hvd_status_t membership_verdict(bool *final_p)
{
    *final_p = driver.released;
    return HVD_OK;
}

void membership_lost(uint64_t generation, bool mismatch, const char *text)
{
    driver.n_lost++;
    snprintf(driver.lost_text, sizeof(driver.lost_text), "%s", text);
    driver.ready_id = state_id_of(state);
}

void membership_close(void)
{
    comm_destroy(process_self.comm);
    process_self.comm = NULL;
}

void membership_remain(const struct control_assignment *a)
{
}

void membership_hear(void)
{
}

void membership_fail(hvd_status_t status, const char *text, bool alone)
{
    ck_assert(!alone);
}

void membership_report(enum report_what what, uint64_t generation,
                       uint64_t since_ns, uint64_t nbytes, uint32_t sources)
{
}

void membership_report_collective(void)
{
}

void membership_report_commit(void)
{
}

hvd_status_t control_post(struct worker_event *ev)
{
    if (ev->type == WORKER_EV_LEFT) {
        driver.n_left++;
        driver.ready_id = state_id_of(state);
    }
    driver.released = ev->type == WORKER_EV_DONE;
    return HVD_OK;
}

bool control_assigned(const struct worker_core *core, uint64_t above)
{
    return false;
}

bool control_done_over(const struct worker_core *core, uint64_t generation)
{
    return false;
}

bool control_at_cut(const struct worker_core *core, uint64_t boundary)
{
    return true;
}

bool control_final(const struct worker_core *core, uint64_t ignored)
{
    return false;
}

bool control_is(control_condition condition, uint64_t argument)
{
    return condition == control_assigned && driver.hurries;
}

hvd_status_t control_wait(control_condition condition, uint64_t argument,
                          uint64_t deadline_us)
{
    return HVD_OK;
}

enum worker_boundary control_boundary(uint64_t boundary)
{
    return driver.leaves ? WORKER_BOUNDARY_LEAVE : WORKER_BOUNDARY_PASS;
}

void control_stop(void)
{
    abort();
}

void control_watch_state(hvd_state_t *s)
{
}

void sets_begin(void)
{
}

hvd_status_t sets_enter(void)
{
    return HVD_OK;
}

void sets_leave(void)
{
}

hvd_status_t sets_comm(struct comm *world, hvd_comm_t *set,
                       struct comm **comm_p)
{
    *comm_p = world;
    return HVD_OK;
}

hvd_status_t sets_find(hvd_comm_t *set, struct comm **comm_p)
{
    return sets_comm(process_self.comm, set, comm_p);
}

hvd_status_t
control_with_comm(hvd_status_t (*call)(struct comm *comm, void *arg), void *arg)
{
    return call(process_self.comm, arg);
}

/* ---- the program --------------------------------------------------------- */

static struct {
    uint64_t shared, local;
    char text[8];
    int n_calls;
    hvd_status_t (*step)(void);       /* what it does in its first generation */
    uint64_t seen_shared, seen_local; /* when its second began */
} program;

static void build(hvd_state_t *s, uint64_t *shared, uint64_t *local)
{
    ok(hvd_state_add(s, "shared", shared, sizeof(*shared)));
    ok(hvd_state_add_local(s, "local", local, sizeof(*local)));
}

static void set_up(void)
{
    memset(&driver, 0, sizeof(driver));
    tape_clear();
    memset(&program, 0, sizeof(program));
    process_self.kind = PROGRAM_UNDECIDED;
    atomic_store(&process_self.initialised, true);
    atomic_store(&process_self.hold, 0);
    state = made_state();
    ck_assert_ptr_nonnull(state);
    build(state, &program.shared, &program.local);
    will_assign(1, (struct state_id){0, 0}, true);
}

static void tear_down(void)
{
    hvd_state_destroy(state);
}

/* On the tape: the state of another worker, as `id`. */
static void record(uint64_t value, struct state_id id)
{
    hvd_state_t *other = made_state();
    uint64_t shared = value, local = 0;

    build(other, &shared, &local);
    ok(state_save(other, 1, 2));
    state_stamp(other, id);
    ok(state_sync_send(other, process_self.comm, 1, false));
    hvd_state_destroy(other);
}

static hvd_status_t train(hvd_state_t *s, void *arg)
{
    if (program.n_calls++ == 0)
        return program.step();
    program.seen_shared = program.shared;
    program.seen_local = program.local;
    return HVD_OK;
}

static void run(hvd_status_t (*step)(void))
{
    program.step = step;
    ck_assert_int_eq(hvd_elastic_run(state, train, NULL), HVD_OK);
    ck_assert_int_eq(program.n_calls, 2);
}

/* Version 2, and live memory that is ahead of it. */
static void commit_and_go_on(void)
{
    program.shared = program.local = 5;
    ok(hvd_state_commit(state));
    program.shared = program.local = 6;
}

/* ---- local entries after a loss ------------------------------------------ */

static hvd_status_t lose_a_peer(void)
{
    commit_and_go_on();
    return HVD_PEER_LOST;
}

/* Whichever comes first, ASSIGN or the look at it. */
START_TEST(local_entries_of_who_is_synced_are_those_it_committed)
{
    driver.hurries = _i != 0;
    will_assign(2, (struct state_id){1, 9}, false);
    record(70, (struct state_id){2, 9});
    run(lose_a_peer);
    ck_assert_uint_eq(program.seen_shared, 70);
    ck_assert_uint_eq(program.seen_local, 5);
    program.local = 0;
    ok(hvd_state_restore(state));
    ck_assert_uint_eq(program.local, 5);
}
END_TEST

START_TEST(local_entries_of_a_survivor_are_those_it_committed)
{
    driver.hurries = _i != 0;
    will_assign(1, (struct state_id){1, 2}, true);
    run(lose_a_peer);
    ck_assert_uint_eq(program.seen_shared, 5);
    ck_assert_uint_eq(program.seen_local, 5);
}
END_TEST

START_TEST(local_entries_of_a_newcomer_are_as_they_were)
{
    driver.n = 0;
    program.local = 3;
    will_assign(2, (struct state_id){1, 9}, false);
    driver.assigned[0].generation = 2;
    record(70, (struct state_id){2, 9});
    program.n_calls = 1;
    run(NULL);
    ck_assert_uint_eq(program.seen_shared, 70);
    ck_assert_uint_eq(program.seen_local, 3);
}
END_TEST

static hvd_status_t move_on_and_lose_a_peer(void)
{
    static uint32_t moved;

    commit_and_go_on();
    ok(hvd_state_rebind(state, "shared", &moved, sizeof(moved)));
    return HVD_PEER_LOST;
}

/* An entry is smaller than in the last commit: only a sync can help. */
START_TEST(snapshot_that_does_not_fit_is_replaced_by_the_sync)
{
    hvd_state_t *other = made_state();
    uint32_t smaller = 71;
    uint64_t local = 0;

    driver.hurries = _i != 0;
    will_assign(2, (struct state_id){1, 9}, false);
    ok(hvd_state_add(other, "shared", &smaller, sizeof(smaller)));
    ok(hvd_state_add_local(other, "local", &local, sizeof(local)));
    ok(state_save(other, 1, 2));
    state_stamp(other, (struct state_id){2, 9});
    ok(state_sync_send(other, NULL, 1, false));
    hvd_state_destroy(other);
    run(move_on_and_lose_a_peer);
    ck_assert_int_eq(driver.n_lost, 1);
    ck_assert_uint_eq(program.seen_local, 5); /* of the last commit, still */
}
END_TEST

START_TEST(snapshot_that_does_not_fit_and_is_the_base_is_an_error)
{
    will_assign(1, (struct state_id){1, 2}, true);
    program.step = move_on_and_lose_a_peer;
    ck_assert_int_eq(hvd_elastic_run(state, train, NULL), HVD_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "'shared' has 4 bytes"));
}
END_TEST

/* ---- calls that the moment forbids --------------------------------------- */

static hvd_status_t call_a_collective(void *arg)
{
    *(hvd_status_t *)arg = hvd_barrier();
    return *(hvd_status_t *)arg;
}

/* Ranks differ in it, whichever comes first, ASSIGN or the look at it. */
START_TEST(collective_in_on_restore_is_refused)
{
    hvd_status_t status = HVD_OK;

    driver.hurries = _i != 0;
    will_assign(1, (struct state_id){1, 2}, true);
    ok(hvd_state_on_restore(state, call_a_collective, &status));
    program.step = lose_a_peer;
    ck_assert_int_eq(hvd_elastic_run(state, train, NULL), HVD_ERR_CALLBACK);
    ck_assert_int_eq(status, HVD_ERR_STATE);
    ck_assert_int_eq(program.n_calls, 1);
}
END_TEST

static hvd_status_t start_a_static_world(void)
{
    ck_assert_int_eq(hvd_world_start(), HVD_ERR_STATE);
    ck_assert_str_eq(hvd_last_error(),
                     "hvd_world_start: this is an elastic program");
    return HVD_PEER_LOST;
}

START_TEST(world_start_in_an_elastic_program_is_refused)
{
    will_assign(1, (struct state_id){1, 1}, true);
    run(start_a_static_world);
    ck_assert_int_eq(hvd_elastic_run(state, train, NULL), HVD_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "one run is over"));
}
END_TEST

START_TEST(run_of_a_static_program_is_refused)
{
    process_self.kind = PROGRAM_STATIC;
    ck_assert_int_eq(hvd_elastic_run(state, train, NULL), HVD_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "as a static one"));
    ck_assert_int_eq(program.n_calls, 0);
}
END_TEST

/* ---- who goes on where it should have returned --------------------------- */

static hvd_status_t ignore_a_loss(void)
{
    commit_and_go_on();
    comm_abort(process_self.comm, HVD_PEER_LOST, "rank 1 is gone");
    ck_assert_int_eq(hvd_barrier(), HVD_PEER_LOST);
    return HVD_OK;
}

START_TEST(what_ignored_a_loss_is_not_the_last_commit)
{
    will_assign(1, (struct state_id){1, 2}, true);
    run(ignore_a_loss);
    ck_assert_int_eq(driver.n_lost, 1);
    ck_assert_uint_eq(driver.ready_id.version, 2);
    ck_assert_msg(strstr(driver.lost_text, "rank 1 is gone"), "%s",
                  driver.lost_text);
    ck_assert_uint_eq(program.seen_shared, 5);
}
END_TEST

static hvd_status_t leave(void)
{
    program.shared = 5;
    atomic_store(&process_self.hold, 1);
    driver.leaves = true;
    ck_assert_int_eq(hvd_state_commit(state), HVD_HOSTS_UPDATED);
    atomic_store(&process_self.hold, 0);
    return HVD_HOSTS_UPDATED;
}

static hvd_status_t leave_and_commit(void)
{
    ck_assert_int_eq(leave(), HVD_HOSTS_UPDATED);
    program.shared = 6;
    return hvd_state_commit(state);
}

static hvd_status_t leave_and_call(void)
{
    ck_assert_int_eq(leave(), HVD_HOSTS_UPDATED);
    program.shared = 6;
    ck_assert_int_eq(hvd_barrier(), HVD_PEER_LOST);
    return HVD_HOSTS_UPDATED;
}

static hvd_status_t leave_and_finish(void)
{
    ck_assert_int_eq(leave(), HVD_HOSTS_UPDATED);
    program.shared = 6;
    return HVD_OK;
}

static hvd_status_t (*const leavers[])(void) = {
    leave, leave_and_commit, leave_and_call, leave_and_finish};

START_TEST(whoever_has_left_goes_on_from_the_cut)
{
    will_assign(1, (struct state_id){1, 2}, true);
    run(leavers[_i]);
    ck_assert_int_eq(driver.n_left, 1);
    ck_assert_int_eq(driver.n_lost, 0);
    ck_assert_uint_eq(driver.ready_id.version, 2);
    ck_assert_uint_eq(program.seen_shared, 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker run");
    TCase *tcase = tcase_create("run");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(
        tcase, local_entries_of_who_is_synced_are_those_it_committed, 0, 2);
    tcase_add_loop_test(
        tcase, local_entries_of_a_survivor_are_those_it_committed, 0, 2);
    tcase_add_test(tcase, local_entries_of_a_newcomer_are_as_they_were);
    tcase_add_loop_test(
        tcase, snapshot_that_does_not_fit_is_replaced_by_the_sync, 0, 2);
    tcase_add_test(tcase,
                   snapshot_that_does_not_fit_and_is_the_base_is_an_error);
    tcase_add_loop_test(tcase, collective_in_on_restore_is_refused, 0, 2);
    tcase_add_test(tcase, world_start_in_an_elastic_program_is_refused);
    tcase_add_test(tcase, run_of_a_static_program_is_refused);
    tcase_add_test(tcase, what_ignored_a_loss_is_not_the_last_commit);
    tcase_add_loop_test(tcase, whoever_has_left_goes_on_from_the_cut, 0,
                        (int)ARRAY_SIZE(leavers));
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
