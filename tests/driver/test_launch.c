/* tests/driver/test_launch.c - agents of another driver: who is adopted, and
 * who is killed. The agents here are children that wait. */
#include "elastic/driver/launch.h"

#include <poll.h>
#include <signal.h>

#include "base/clock.h"
#include "base/proc.h"
#include "support.h"

enum { AGENT = 7, PATIENCE_MS = 30000 };

static struct launch l;

static void setup(void)
{
    signal(SIGTERM, SIG_DFL); /* Check's passes it on to its group */
    launch_init(&l, &launch_local, &(struct launch_config){.job_dir = "/"});
}

static void teardown(void)
{
    launch_fini(&l);
}

/* It leads a group, as a worker does. */
static pid_t start(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        setpgid(0, 0);
        for (;;)
            pause();
    }
    ck_assert_int_gt(pid, 0);
    setpgid(pid, pid);
    return pid;
}

static int adopt(pid_t pid)
{
    int pidfd = -1;

    ck_assert_int_eq(launch_adopt(&l, AGENT, pid, proc_started(pid), &pidfd),
                     HVD_OK);
    ck_assert_int_ge(pidfd, 0);
    return pidfd;
}

static bool ends(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};

    return poll(&fd, 1, PATIENCE_MS) == 1;
}

static bool lives(pid_t pid)
{
    return proc_started(pid) != 0;
}

static void bury(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(process_with_the_number_of_an_agent_is_not_adopted)
{
    pid_t pid = start();
    int pidfd;

    ck_assert_int_eq(
        launch_adopt(&l, AGENT, pid, proc_started(pid) + 1, &pidfd),
        HVD_PEER_LOST);
    ck_assert_ptr_null(launch_find(&l, AGENT));
    launch_kill(&l, AGENT);
    ck_assert(lives(pid));
    bury(pid);
}
END_TEST

START_TEST(adopted_agent_is_killed_and_told_of)
{
    pid_t pid = start(), worker = start();
    int pidfd = adopt(pid);
    char how[64];

    launch_spawned(&l, AGENT, worker);
    ck_assert_uint_eq(launch_reap(&l, pidfd, how, sizeof(how)), 0);
    launch_kill(&l, AGENT);
    ck_assert(ends(pidfd));
    ck_assert_uint_eq(launch_reap(&l, pidfd, how, sizeof(how)), AGENT);
    ck_assert_str_eq(how, "has ended");
    ck_assert_int_eq(waitpid(worker, NULL, 0), worker); /* killed as well */
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

/* A driver that was stopped finds the agent dead and its worker's number given
 * to another process. */
START_TEST(process_with_the_number_of_a_worker_is_not_killed)
{
    pid_t pid = start(), other = start();
    int pidfd = adopt(pid), status;
    char how[64];

    launch_spawned(&l, AGENT, other);
    l.items[0].adopted = _i;
    l.items[0].groups[0].started++;
    kill(pid, SIGKILL);
    ck_assert(ends(pidfd));
    ck_assert_uint_eq(launch_reap(&l, pidfd, how, sizeof(how)), AGENT);
    kill(other, SIGUSR1);
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert_int_eq(WTERMSIG(status), SIGUSR1);
}
END_TEST

START_TEST(adopted_agent_is_asked_before_it_is_killed)
{
    pid_t pid = start();
    int pidfd = adopt(pid);
    uint64_t now_us = clock_now_us();
    siginfo_t info;

    launch_stop(&l, AGENT, now_us);
    launch_tick(&l, now_us);
    ck_assert(ends(pidfd));
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(info.si_status, SIGTERM);
    bury(pid);
}
END_TEST

START_TEST(who_gives_way_lets_go_of_agents)
{
    pid_t pid = start(), worker = start();

    adopt(pid);
    launch_spawned(&l, AGENT, worker);
    launch_abandon(&l);
    ck_assert(lives(pid) && lives(worker));
    bury(pid);
    bury(worker);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch");
    TCase *tc = tcase_create("launch");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, process_with_the_number_of_an_agent_is_not_adopted);
    tcase_add_test(tc, adopted_agent_is_killed_and_told_of);
    tcase_add_loop_test(tc, process_with_the_number_of_a_worker_is_not_killed,
                        0, 2);
    tcase_add_test(tc, adopted_agent_is_asked_before_it_is_killed);
    tcase_add_test(tc, who_gives_way_lets_go_of_agents);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
