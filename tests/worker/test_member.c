/* tests/worker/test_member.c - real workers against a scripted driver: what
 * hvd_elastic_run and static programs say and do at each turn of
 * docs/protocol.md. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <hvd/status.h>

#include "base/clock.h"
#include "job.h"
#include "support.h"

static const struct state_id none = {0, 0};
static const int both[] = {0, 1};
static struct job *job;

static void set_up(void)
{
    job = job_create();
}

static void tear_down(void)
{
    job_destroy(job);
    job = NULL;
}

/* The line "final digest ..." of a worker that has exited. */
static const char *final_line(int index)
{
    const char *line = strstr(job->workers[index].text, "final digest");

    ck_assert_msg(line, "worker %d printed: %s", index,
                  job->workers[index].text);
    return line;
}

/* Each step of the state has been taken once, in that process. */
static void assert_each_step_once(int index)
{
    unsigned long steps, iterations;

    ck_assert_int_eq(sscanf(final_line(index),
                            "final digest %*x steps %lu iterations-here %lu",
                            &steps, &iterations),
                     2);
    ck_assert_uint_eq(steps, iterations);
}

static void assert_says(int index, const char *words)
{
    ck_assert_msg(strstr(job->workers[index].text, words),
                  "worker %d printed: %s", index, job->workers[index].text);
}

/* Released, in hvd_shutdown(): its silence means nothing from then on. */
static void assert_goodbye(int index)
{
    struct message m;

    do
        m = job_expect(job, index, MSG_PING);
    while (!m.u.ping.last);
    ck_assert_int_eq(m.u.ping.phase, WORKER_LEFT);
}

/* Everybody who is DONE is released and exits well, with one digest. */
static void assert_ends(int n, uint64_t generation, bool goodbye)
{
    struct state_id id = none;

    for (int i = 0; i < n; i++) {
        struct message m = job_expect(job, i, MSG_DONE);

        ck_assert_uint_eq(m.u.done.generation, generation);
        ck_assert_uint_eq(m.u.done.id.generation, generation);
        if (i > 0)
            ck_assert(state_id_equal(m.u.done.id, id));
        id = m.u.done.id;
    }
    for (int i = 0; i < n; i++)
        job_release(job, i, generation);
    for (int i = 0; i < n; i++) {
        if (goodbye)
            assert_goodbye(i);
        ck_assert_int_eq(job_wait(job, i), 0);
    }
    for (int i = 1; i < n; i++)
        ck_assert_int_eq(strncmp(final_line(0), final_line(i), 30), 0);
}

static void assert_finish(int n, uint64_t generation)
{
    assert_ends(n, generation, true);
}

/* ---- a generation -------------------------------------------------------- */

START_TEST(ready_before_welcome_waits)
{
    struct job_worker *w = &job->workers[0];

    job_spawn(job, 0, "--steps 1");
    job_expect(job, 0, MSG_HELLO);
    job_expect(job, 0, MSG_HELLO); /* said again: no answer came */
    for (size_t i = 0; i < w->n; i++)
        ck_assert_int_eq(w->queue[(w->first + i) % JOB_QUEUE].type, MSG_HELLO);
    ck_assert_int_eq(w->hello.pid, w->pid);
    ck_assert_str_eq(w->hello.address, "127.0.0.1");
    ck_assert_uint_ne(w->hello.port, 0);
    job_welcome(job, 0);
    ck_assert(state_id_is_none(job_expect_ready(job, 0, READY_START).id));
}
END_TEST

START_TEST(run_two_workers_finishes)
{
    job_start(job, 2, "--steps 20 --step-us 0");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    ck_assert_uint_gt(job_expect_report(job, 1, REPORT_SYNCED).nbytes, 0);
    ck_assert_uint_eq(
        job_expect_report(job, 1, REPORT_FIRST_COLLECTIVE).generation, 1);
    job_expect_report(job, 1, REPORT_FIRST_COMMIT);
    assert_finish(2, 1);
    assert_says(0, "steps 20 iterations-here 20");
}
END_TEST

START_TEST(run_broadcasts_and_bare_boundaries_finishes)
{
    job_start(job, 2,
              "--steps 40 --step-us 0 --broadcast-only --local-between "
              "--commit-every 7");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    assert_finish(2, 1);
}
END_TEST

/* ---- losses -------------------------------------------------------------- */

START_TEST(peer_killed_survivor_goes_on)
{
    struct msg_ready ready;
    const int alone[] = {0};

    job_start(job, 2, "--more-steps 20");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    job_kill(job, 1, SIGKILL);
    ck_assert_uint_eq(job_expect(job, 0, MSG_LOST).u.lost.generation, 1);
    ready = job_expect_ready(job, 0, READY_LOST);
    ck_assert_uint_eq(ready.fence, 1);
    ck_assert_uint_eq(ready.id.generation, 1);
    ck_assert_uint_gt(ready.id.version, 1);
    job_assign(job, 2, alone, 1, ready.id, 1, READY_LOST);
    assert_finish(1, 2);
    ck_assert_int_eq(job_wait(job, 1), -SIGKILL);
}
END_TEST

/* An allreduce that a callback of each commit posts, and nobody waits for, has
 * its result in the snapshot that the survivor goes back to. */
START_TEST(posted_in_on_commit_is_complete_in_the_snapshot)
{
    struct msg_ready ready;
    const int alone[] = {0};

    job_start(job, 2, "--more-steps 20 --commit-posts");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    job_kill(job, 1, SIGKILL);
    ready = job_expect_ready(job, 0, READY_LOST);
    job_assign(job, 2, alone, 1, ready.id, 1, READY_LOST);
    assert_finish(1, 2);
}
END_TEST

START_TEST(slot_stays_when_the_local_rank_changes)
{
    struct msg_ready ready;
    const int alone[] = {1};

    job_start(job, 2, "--more-steps 20 --verbose");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 1, REPORT_FIRST_COMMIT);
    job_kill(job, 0, SIGKILL);
    ready = job_expect_ready(job, 1, READY_LOST);
    job_assign(job, 2, alone, 1, ready.id, 1, READY_LOST);
    job_expect(job, 1, MSG_DONE);
    job_release(job, 1, 2);
    ck_assert_int_eq(job_wait(job, 1), 0);
    assert_says(1, "gen 1 rank 1 of 2 local rank 1 slot 1 at");
    assert_says(1, "gen 2 rank 0 of 1 local rank 0 slot 1 at");
}
END_TEST

/* It is told only how the table differs from the one it has. */
START_TEST(table_may_change_the_one_before)
{
    struct msg_ready ready;
    const int alone[] = {0};

    job_start(job, 2, "--more-steps 20");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    job_kill(job, 1, SIGKILL);
    ready = job_expect_ready(job, 0, READY_LOST);
    job->changes = true;
    job_assign(job, 2, alone, 1, ready.id, 1, READY_LOST);
    assert_finish(1, 2);
    ck_assert_int_eq(job_wait(job, 1), -SIGKILL);
}
END_TEST

/* It has not got the ASSIGN before, and is READY until it is told all. */
START_TEST(change_of_an_unknown_table_is_not_believed)
{
    const int alone[] = {0};

    job_start(job, 1, "--steps 3");
    job->before.generation = 6;
    job->changes = true;
    job_assign(job, 7, alone, 1, none, 1, READY_START);
    ck_assert_uint_eq(job_expect_ready(job, 0, READY_START).fence, 0);
    job->changes = false;
    job_assign(job, 7, alone, 1, none, 1, READY_START);
    assert_finish(1, 7);
}
END_TEST

START_TEST(abort_while_in_collective_returns_lost)
{
    uint64_t before_us;

    job_start(job, 2, "--steps 100000 --step-us 0");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    job_kill(job, 1, SIGSTOP); /* worker 0 waits in a collective now */
    before_us = clock_now_us();
    job_abort(job, 0, 1);
    ck_assert_uint_eq(job_expect_ready(job, 0, READY_LOST).fence, 1);
    ck_assert_uint_lt(clock_now_us() - before_us, 10000000);
}
END_TEST

START_TEST(abort_of_unseen_generation_renews_ready)
{
    job_start(job, 1, "--steps 1");
    job_abort(job, 0, 3);
    ck_assert_uint_eq(job_expect_ready(job, 0, READY_LOST).fence, 3);
    job_assign(job, 2, both, 1, none, 1, READY_START); /* below the fence */
    job_assign(job, 4, both, 1, none, 1, READY_START);
    assert_finish(1, 4);
}
END_TEST

START_TEST(abort_while_done_is_ready_again)
{
    struct state_id id;

    job_start(job, 1, "--steps 5 --step-us 0");
    job_assign(job, 1, both, 1, none, 1, READY_START);
    id = job_expect(job, 0, MSG_DONE).u.done.id;
    job_abort(job, 0, 1);
    ck_assert(state_id_equal(job_expect_ready(job, 0, READY_LOST).id, id));
    job_assign(job, 2, both, 1, id, 1, READY_LOST);
    assert_finish(1, 2);
    assert_says(0, "steps 5 iterations-here 5");
}
END_TEST

/* What a program computes after a call that failed is not committed: rank 0
 * ends at step 20, behind the first state and 20 commits. */
START_TEST(lost_and_ignored_nothing_more_is_committed)
{
    struct msg_ready ready;

    job_start(job, 2, "--steps 40 --step-us 0 --heedless --exit-at 20");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    ready = job_expect_ready(job, 1, READY_LOST);
    ck_assert_uint_eq(ready.id.generation, 1);
    ck_assert_uint_eq(ready.id.version, 21);
}
END_TEST

/* ---- changes of hosts ---------------------------------------------------- */

/* HOLD to both, HELD from both: the greatest boundary said. */
static uint64_t hold_both(uint64_t generation, uint64_t sequence)
{
    uint64_t greatest = 0;

    for (int i = 0; i < 2; i++)
        job_hold(job, i, generation, sequence);
    for (int i = 0; i < 2; i++) {
        struct message m = job_expect(job, i, MSG_HELD);

        ck_assert_uint_eq(m.u.held.sequence, sequence);
        if (m.u.held.boundary > greatest)
            greatest = m.u.held.boundary;
    }
    return greatest;
}

/* CUT to both; both are READY with the state of that boundary. */
static struct msg_ready cut_both(uint64_t generation, uint64_t sequence,
                                 uint64_t boundary)
{
    struct msg_ready ready[2];

    for (int i = 0; i < 2; i++)
        job_cut(job, i, generation, sequence, boundary);
    for (int i = 0; i < 2; i++) {
        ready[i] = job_expect_ready(job, i, READY_UPDATED);
        ck_assert_uint_eq(ready[i].boundary, boundary);
        ck_assert_uint_eq(ready[i].fence, generation);
    }
    ck_assert(state_id_equal(ready[0].id, ready[1].id));
    return ready[0];
}

START_TEST(cut_all_leave_at_the_same_boundary)
{
    struct msg_ready ready;

    job_start(job, 2, "--more-steps 20 --broadcast-only");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    ready = cut_both(1, 1, hold_both(1, 1) + 1);
    job_assign(job, 2, both, 2, ready.id, 3, READY_UPDATED);
    assert_finish(2, 2);
    assert_each_step_once(0);
}
END_TEST

/* A program that goes on behind the cut: its commits there are nobody's, and it
 * goes back to the cut. */
START_TEST(cut_and_ignored_nothing_more_is_committed)
{
    struct msg_ready ready;

    job_start(job, 2, "--more-steps 20 --no-collective --heedless");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    ready = cut_both(1, 1, hold_both(1, 1) + 1);
    ck_assert_uint_eq(ready.id.version, 1 + ready.boundary);
    job_assign(job, 2, both, 2, ready.id, 3, READY_UPDATED);
    assert_finish(2, 2);
}
END_TEST

START_TEST(cut_never_goes_on)
{
    struct msg_ready ready;

    job_start(job, 2, "--more-steps 20");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    hold_both(1, 1);
    for (int i = 0; i < 2; i++)
        job_cut(job, i, 1, 1, CUT_NEVER);
    ready = cut_both(1, 2, hold_both(1, 2) + 1);
    job_assign(job, 2, both, 2, ready.id, 3, READY_UPDATED);
    assert_finish(2, 2);
    assert_each_step_once(0);
}
END_TEST

START_TEST(abort_while_held_returns_lost)
{
    struct msg_ready ready[2];

    job_start(job, 2, "--more-steps 20 --no-collective");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    hold_both(1, 1);
    for (int i = 0; i < 2; i++)
        job_abort(job, i, 1);
    for (int i = 0; i < 2; i++)
        ready[i] = job_expect_ready(job, i, READY_LOST);
    if (state_id_compare(ready[0].id, ready[1].id) < 0)
        ready[0].id = ready[1].id;
    job_assign(job, 2, both, 2, ready[0].id,
               state_id_equal(ready[0].id, ready[1].id) ? 2 : 1, READY_LOST);
    assert_finish(2, 2);
}
END_TEST

START_TEST(newcomer_is_synced_from_the_member)
{
    const int alone[] = {0};
    struct msg_ready ready;
    uint64_t held;

    job_start(job, 1, "--more-steps 20 --state-bytes 3000000");
    job_assign(job, 1, alone, 1, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    job_spawn(job, 1, "--more-steps 20 --state-bytes 3000000");
    job_welcome(job, 1);
    ck_assert(state_id_is_none(job_expect_ready(job, 1, READY_START).id));
    job_hold(job, 0, 1, 1);
    held = job_expect(job, 0, MSG_HELD).u.held.boundary;
    job_cut(job, 0, 1, 1, held + 1);
    ready = job_expect_ready(job, 0, READY_UPDATED);
    job_assign(job, 2, both, 2, ready.id, 1, READY_UPDATED);
    ck_assert_uint_ge(job_expect_report(job, 1, REPORT_SYNCED).nbytes, 3000000);
    assert_finish(2, 2);
    assert_each_step_once(0);
}
END_TEST

/* An ASSIGN that does not say what the READY said: nobody is served what is not
 * the base, and the next READY says it again. */
START_TEST(source_without_the_base_serves_nobody)
{
    const int alone[] = {0};
    struct state_id wrong;
    struct msg_ready ready;
    struct message m;

    job_start(job, 1, "--steps 100 --step-us 0");
    job_assign(job, 1, alone, 1, none, 1, READY_START);
    job_expect(job, 0, MSG_DONE);
    job_spawn(job, 1, "--steps 100 --step-us 0");
    job_welcome(job, 1);
    job_expect_ready(job, 1, READY_START);
    job_abort(job, 0, 1);
    ready = job_expect_ready(job, 0, READY_LOST);
    wrong = (struct state_id){1, ready.id.version + 5};
    job_assign(job, 2, both, 2, wrong, 1, READY_LOST);
    m = job_expect(job, 0, MSG_LOST);
    ck_assert_uint_eq(ready.id.version, 102);
    ck_assert_msg(strstr(m.u.lost.text, "is named a source of state (1, 107), "
                                        "it has (1, 102)"),
                  "%s", m.u.lost.text);
    ck_assert(
        state_id_equal(job_expect_ready(job, 0, READY_LOST).id, ready.id));
    ck_assert(state_id_is_none(job_expect_ready(job, 1, READY_LOST).id));
    job_assign(job, 3, both, 2, ready.id, 1, READY_LOST);
    assert_finish(2, 3);
}
END_TEST

START_TEST(drain_of_any_thread_reaches_the_driver)
{
    const int alone[] = {0};
    uint64_t held;

    job_start(job, 1, "--steps 100000 --step-us 200 --drain-at 3");
    job_assign(job, 1, alone, 1, none, 1, READY_START);
    job_expect(job, 0, MSG_DRAIN_ME);
    job_hold(job, 0, 1, 1);
    held = job_expect(job, 0, MSG_HELD).u.held.boundary;
    job_cut(job, 0, 1, 1, held + 1);
    job_expect_ready(job, 0, READY_UPDATED);
    job_shutdown(job, 0, SHUTDOWN_DRAINED, 0, "drained");
    ck_assert_int_eq(job_wait(job, 0), 0);
    assert_says(0, "removed");
}
END_TEST

START_TEST(drained_says_removed)
{
    job_start(job, 2, "--steps 100000 --step-us 200 --drain-on-term");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    job_kill(job, 1, SIGTERM);
    job_expect(job, 1, MSG_DRAIN_ME);
    cut_both(1, 1, hold_both(1, 1) + 1);
    for (int i = 0; i < 2; i++)
        job_shutdown(job, i, SHUTDOWN_DRAINED, 0, "drained");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(job_wait(job, i), 0);
        assert_says(i, "removed");
    }
}
END_TEST

/* ---- errors -------------------------------------------------------------- */

START_TEST(user_failure_says_leaving)
{
    struct message m;

    job_start(job, 1, "--steps 10 --fail-at 3");
    job_assign(job, 1, both, 1, none, 1, READY_START);
    m = job_expect(job, 0, MSG_LEAVING);
    ck_assert_int_eq(m.u.leaving.status, -1001);
    job_shutdown(job, 0, SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED, "so be it");
    ck_assert_int_eq(job_wait(job, 0), 1);
    assert_says(0, "returned -1001");
}
END_TEST

START_TEST(mismatch_is_told_by_all)
{
    job_start(job, 2, "--steps 10 --step-us 0 --mismatch-at 3");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    for (int i = 0; i < 2; i++) {
        struct message m = job_expect(job, i, MSG_LOST);

        ck_assert(m.u.lost.mismatch);
        ck_assert_ptr_nonnull(strstr(m.u.lost.text, "allreduce"));
        job_expect(job, i, MSG_LEAVING);
        job_shutdown(job, i, SHUTDOWN_FAILED, HVD_ERR_MISMATCH, m.u.lost.text);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(job_wait(job, i), 1);
        assert_says(i, "ranks disagree");
    }
}
END_TEST

START_TEST(job_failed_reaches_user_code_in_a_collective)
{
    job_start(job, 2, "--steps 100000 --step-us 0");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    job_kill(job, 1, SIGSTOP);
    job_shutdown(job, 0, SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED, "reset limit");
    ck_assert_int_eq(job_wait(job, 0), 1);
    assert_says(0, "the job has failed: reset limit");
}
END_TEST

START_TEST(lifeline_closed_ends_the_worker)
{
    job_start(job, 1, "--steps 100000");
    job_assign(job, 1, both, 1, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COMMIT);
    ck_assert_int_eq(close(job->workers[0].lifeline), 0);
    job->workers[0].lifeline = -1;
    ck_assert_int_eq(job_wait(job, 0), 1);
    assert_says(0, "the agent of this host is gone");
}
END_TEST

START_TEST(driver_silent_ends_the_run)
{
    job->heartbeat_ms = 50;
    job->driver_timeout_ms = 500;
    job->silent = true;
    job_start(job, 1, "--steps 100000");
    ck_assert_int_eq(job_wait(job, 0), 1);
    assert_says(0, "the driver is gone");
}
END_TEST

/* ---- odds and ends ------------------------------------------------------- */

START_TEST(shutdown_closes_every_descriptor_and_ends_every_thread)
{
    int before, after, threads_before, threads_after;
    const char *text;

    job_start(job, 2, "--steps 10 --count-fds");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    assert_finish(2, 1);
    text = strstr(job->workers[0].text, "fds ");
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(sscanf(text, "fds %d %d threads %d %d", &before, &after,
                            &threads_before, &threads_after),
                     4);
    ck_assert_int_eq(after, before - 1); /* the lifeline was ours to close */
    ck_assert_int_le(threads_after, threads_before);
}
END_TEST

START_TEST(exit_without_shutdown_does_not_hang)
{
    job_start(job, 2, "--steps 10 --no-shutdown");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    assert_ends(2, 1, false);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("worker member");
    TCase *tcase = tcase_create("member");

    if (argc != 2) {
        fprintf(stderr, "usage: %s CHAOS_WORKER\n", argv[0]);
        return 2;
    }
    job_program = argv[1];

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, ready_before_welcome_waits);
    tcase_add_test(tcase, run_two_workers_finishes);
    tcase_add_test(tcase, run_broadcasts_and_bare_boundaries_finishes);
    tcase_add_test(tcase, peer_killed_survivor_goes_on);
    tcase_add_test(tcase, posted_in_on_commit_is_complete_in_the_snapshot);
    tcase_add_test(tcase, slot_stays_when_the_local_rank_changes);
    tcase_add_test(tcase, table_may_change_the_one_before);
    tcase_add_test(tcase, change_of_an_unknown_table_is_not_believed);
    tcase_add_test(tcase, abort_while_in_collective_returns_lost);
    tcase_add_test(tcase, abort_of_unseen_generation_renews_ready);
    tcase_add_test(tcase, abort_while_done_is_ready_again);
    tcase_add_test(tcase, lost_and_ignored_nothing_more_is_committed);
    tcase_add_test(tcase, cut_all_leave_at_the_same_boundary);
    tcase_add_test(tcase, cut_and_ignored_nothing_more_is_committed);
    tcase_add_test(tcase, cut_never_goes_on);
    tcase_add_test(tcase, abort_while_held_returns_lost);
    tcase_add_test(tcase, newcomer_is_synced_from_the_member);
    tcase_add_test(tcase, source_without_the_base_serves_nobody);
    tcase_add_test(tcase, drain_of_any_thread_reaches_the_driver);
    tcase_add_test(tcase, drained_says_removed);
    tcase_add_test(tcase, user_failure_says_leaving);
    tcase_add_test(tcase, mismatch_is_told_by_all);
    tcase_add_test(tcase, job_failed_reaches_user_code_in_a_collective);
    tcase_add_test(tcase, lifeline_closed_ends_the_worker);
    tcase_add_test(tcase, driver_silent_ends_the_run);
    tcase_add_test(tcase,
                   shutdown_closes_every_descriptor_and_ends_every_thread);
    tcase_add_test(tcase, exit_without_shutdown_does_not_hang);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
