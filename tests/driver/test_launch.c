/* tests/driver/test_launch.c - agents of another driver: who is adopted, and
 * who is killed; clients on their way to other machines. The agents and clients
 * here are children that wait. */
#include "elastic/driver/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "elastic/wire/message.h"
#include "support.h"

enum { AGENT = 7, PATIENCE_MS = 30000 };

static struct launch l;

static void setup(void)
{
    signal(SIGTERM, SIG_DFL); /* Check's passes it on to its group */
    ck_assert_int_eq(
        launch_init(
            &l, &(struct launch_config){.job_dir = "/", .ops = &launch_local}),
        HVD_OK);
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
    ck_assert_int_eq(launch_adopt(&l, AGENT, pid, proc_started(pid)), HVD_OK);
    ck_assert_int_ge(launch_find(&l, AGENT)->pidfd, 0);
    return launch_find(&l, AGENT)->pidfd;
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

/* It has no process, pipe or client here: 0 is the driver's stdin. */
START_TEST(agent_adopted_elsewhere_closes_no_descriptor_of_ours)
{
    const struct launched *far;

    ck_assert_int_eq(launch_adopt_far(&l, AGENT, "host2"), HVD_OK);
    far = launch_find(&l, AGENT);
    ck_assert_ptr_nonnull(far);
    ck_assert_int_eq(far->pidfd, -1);
    ck_assert_int_eq(far->lifeline_fd, -1);
    ck_assert_int_eq(far->stderr_fd, -1);
    ck_assert_int_eq(far->report_fd, -1);
    launch_fini(&l);
    ck_assert_int_ne(fcntl(STDIN_FILENO, F_GETFD), -1);
    setup();
}
END_TEST

START_TEST(process_with_the_number_of_an_agent_is_not_adopted)
{
    pid_t pid = start();

    ck_assert_int_eq(launch_adopt(&l, AGENT, pid, proc_started(pid) + 1),
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
    struct launch_end end;

    launch_spawned(&l, AGENT, worker);
    ck_assert_uint_eq(launch_ended(&l, &end, 1), 0);
    launch_kill(&l, AGENT);
    ck_assert(ends(pidfd));
    ck_assert_uint_eq(launch_ended(&l, &end, 1), 1);
    ck_assert_uint_eq(end.agent, AGENT);
    ck_assert_str_eq(end.how, "has ended");
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
    struct launch_end end;

    launch_spawned(&l, AGENT, other);
    l.items[0].adopted = _i;
    l.items[0].groups[0].started++;
    kill(pid, SIGKILL);
    ck_assert(ends(pidfd));
    ck_assert_uint_eq(launch_ended(&l, &end, 1), 1);
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

/* ---- clients ------------------------------------------------------------- */

static char script[64];

/* What is run in the place of ssh. */
static void setup_clients(void)
{
    launch_fini(&l);
    strcpy(script, "/tmp/test_launch_XXXXXX");
}

static void start_clients(const char *text, size_t n, uint64_t start_us)
{
    static uint8_t secret[WIRE_TOKEN_NBYTES];
    struct launch_config config = {.endpoint = "tcp://127.0.0.1:1",
                                   .output_endpoint = "tcp://127.0.0.1:2",
                                   .secret = secret,
                                   .ops = &launch_ssh,
                                   .ssh_command = script,
                                   .start_timeout_us = start_us,
                                   .heartbeat_timeout_us = 2000000};
    int fd = mkstemp(script);
    char host[16];

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(fchmod(fd, 0700), 0);
    close(fd);
    ck_assert_int_eq(launch_init(&l, &config), HVD_OK);
    for (size_t i = 1; i <= n; i++) {
        snprintf(host, sizeof(host), "n%zu", i);
        ck_assert_int_eq(launch_start(&l, i, host, ""), HVD_OK);
    }
}

static void teardown_clients(void)
{
    unlink(script);
    for (size_t i = 0; i < l.n; i++)
        launch_kill(&l, l.items[i].agent);
    launch_fini(&l);
}

static size_t n_running(void)
{
    size_t n = 0;

    for (size_t i = 0; i < l.n; i++)
        n += l.items[i].pidfd >= 0;
    return n;
}

static struct launch_end next_end(void)
{
    struct pollfd fd = {.fd = l.epoll_fd, .events = POLLIN};
    struct launch_end end;

    while (launch_ended(&l, &end, 1) == 0)
        ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
    return end;
}

START_TEST(client_says_why_it_could_not_start)
{
    start_clients("#!/bin/sh\n"
                  "printf 'one\\n\\033[1mtwo\\001  \\r\\n\\n  ' >&2\n"
                  "exit 255\n",
                  1, 300000000);
    launch_tick(&l, clock_now_us());
    ck_assert_str_eq(next_end().how, "could not be started: ?[1mtwo?");
}
END_TEST

START_TEST(client_that_says_nothing_is_told_of)
{
    start_clients("#!/bin/sh\nkill -9 $$\n", 1, 300000000);
    launch_tick(&l, clock_now_us());
    ck_assert_str_eq(
        next_end().how,
        "could not be started: ssh was killed by signal 9 (SIGKILL)");
}
END_TEST

START_TEST(client_that_cannot_be_executed_is_told_of)
{
    start_clients("#!/bin/sh\r\n", 1, 300000000);
    launch_tick(&l, clock_now_us());
    ck_assert_str_eq(next_end().how,
                     "could not be started: cannot execute ssh: its first line "
                     "names \"/bin/sh\\r\", which is not there");
    ck_assert_uint_eq(l.n, 0);
}
END_TEST

/* cat ends when its stdin does. */
START_TEST(client_ends_with_its_lifeline)
{
    start_clients("#!/bin/sh\nexec cat >/dev/null\n", 1, 300000000);
    launch_tick(&l, clock_now_us());
    launch_up(&l, 1);
    launch_stop(&l, 1, clock_now_us());
    launch_tick(&l, clock_now_us());
    ck_assert_str_eq(next_end().how, "exited with status 0");
}
END_TEST

/* Its connection has broken, and the agent is heard by another. */
START_TEST(client_that_its_agent_outlives_is_told_of_as_that)
{
    struct launch_end end;

    start_clients("#!/bin/sh\nread word\necho gone >&2\nexit 255\n", 1,
                  300000000);
    launch_tick(&l, clock_now_us());
    launch_up(&l, 1);
    end = next_end();
    ck_assert(end.client);
    ck_assert_str_eq(end.how, "exited with status 255: gone");
    ck_assert_uint_eq(n_running(), 0);
    ck_assert_ptr_nonnull(launch_find(&l, 1));
    launch_stop(&l, 1, clock_now_us());
    launch_tick(&l, clock_now_us());
    ck_assert_ptr_nonnull(launch_find(&l, 1)); /* until it is silent */
    launch_kill(&l, 1);
    ck_assert_ptr_null(launch_find(&l, 1));
}
END_TEST

START_TEST(client_whose_agent_has_not_called_is_stopped_at_once)
{
    start_clients("#!/bin/sh\nexec sleep 1000\n", 1, 300000000);
    launch_tick(&l, clock_now_us());
    launch_stop(&l, 1, CLOCK_NEVER);
    ck_assert_uint_eq(next_end().agent, 1);
}
END_TEST

START_TEST(clients_wait_for_a_place)
{
    uint64_t now_us = clock_now_us();

    start_clients("#!/bin/sh\nexec sleep 1000\n", 40, 300000000);
    launch_tick(&l, now_us);
    ck_assert_uint_eq(n_running(), 32);
    launch_up(&l, 1); /* one has come up */
    launch_tick(&l, now_us);
    ck_assert_uint_eq(n_running(), 33);
    ck_assert_int_ge(launch_find(&l, 33)->pidfd, 0); /* the first who waits */
    launch_kill(&l, 2);
    ck_assert_uint_eq(next_end().agent, 2);
    launch_tick(&l, now_us);
    ck_assert_int_ge(launch_find(&l, 34)->pidfd, 0);
    ck_assert_int_lt(launch_find(&l, 35)->pidfd, 0);
    launch_tick(&l, now_us + 11000000); /* those that hang have had theirs */
    ck_assert_uint_eq(n_running(), 39);
}
END_TEST

START_TEST(clients_have_their_turn_within_half_of_the_start)
{
    uint64_t now_us = clock_now_us(), start_us = 4000000, end_us;

    start_clients("#!/bin/sh\nexec sleep 1000\n", 100, start_us);
    end_us = now_us + start_us / 2 + 100000;
    while (n_running() < 100 && now_us < end_us) {
        uint64_t due_us = launch_tick(&l, now_us);

        now_us = due_us > now_us ? due_us : now_us + 1000;
    }
    ck_assert_uint_eq(n_running(), 100);
}
END_TEST

START_TEST(client_that_waits_can_be_stopped)
{
    struct launch_end end;

    start_clients("#!/bin/sh\nexec sleep 1000\n", 34, 300000000);
    launch_tick(&l, clock_now_us());
    launch_stop(&l, 34, clock_now_us());
    ck_assert_uint_eq(launch_ended(&l, &end, 1), 1);
    ck_assert_uint_eq(end.agent, 34);
    launch_kill(&l, 33);
    ck_assert_ptr_null(launch_find(&l, 33));
}
END_TEST

/* ---- words --------------------------------------------------------------- */

static size_t n_told;

static void count_line(void *arg, const char *line)
{
    struct words *w = arg;

    n_told++;
    ck_assert_uint_lt(strlen(line), WORDS_LINE_MAX);
    ck_assert_ptr_nonnull(w);
}

START_TEST(words_without_end_are_bounded)
{
    static struct words w;
    static char flood[1 << 16];

    memset(flood, 'x', sizeof(flood));
    words_feed(&w, flood, sizeof(flood), 1, count_line, &w);
    ck_assert_uint_eq(n_told, 0);
    ck_assert_uint_eq(words_wait(&w, 1), 0);
    memset(flood, '\n', sizeof(flood));
    for (size_t i = 0; i < sizeof(flood); i += 2)
        flood[i] = 'y';
    for (int i = 0; i < 3; i++)
        words_feed(&w, flood, sizeof(flood), 2, count_line, &w);
    ck_assert_uint_eq(n_told, WORDS_LINES_MAX);
    ck_assert_uint_eq(words_wait(&w, 2), 1 + WORDS_WINDOW_US);
    words_feed(&w, "z\n", 2, 1 + WORDS_WINDOW_US, count_line, &w);
    ck_assert_uint_eq(n_told, WORDS_LINES_MAX + 2); /* how many, and z */
    ck_assert_str_eq(w.last, "z");
    ck_assert_uint_eq(words_wait(&w, 1 + WORDS_WINDOW_US), 0);
}
END_TEST

START_TEST(words_that_only_follow_leave_the_cause_last)
{
    static const char said[] = "Warning: Permanently added 'x'\n"
                               "x: Permission denied\nstty: no terminal\n";
    static struct words w;
    size_t before = n_told;

    words_feed(&w, said, sizeof(said) - 1, 1, count_line, &w);
    ck_assert_str_eq(w.last, "x: Permission denied");
    ck_assert_uint_eq(n_told - before, 3);
}
END_TEST

START_TEST(words_of_a_login_that_stands_still_name_the_mtu)
{
    ck_assert_ptr_nonnull(
        strstr(words_hint("Connection to 10.77.1.2 port 22 timed out"), "MTU"));
    ck_assert_str_eq(words_hint("ssh: connect to host host2 port 22: "
                                "Connection timed out"),
                     "");
    ck_assert_str_eq(words_hint("Connection to host2 closed."), "");
    ck_assert_str_eq(words_hint("Connection to "), "");
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
    tc = tcase_create("clients");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_checked_fixture(tc, setup_clients, teardown_clients);
    tcase_add_test(tc, client_says_why_it_could_not_start);
    tcase_add_test(tc, client_that_says_nothing_is_told_of);
    tcase_add_test(tc, client_that_cannot_be_executed_is_told_of);
    tcase_add_test(tc, client_ends_with_its_lifeline);
    tcase_add_test(tc, client_that_its_agent_outlives_is_told_of_as_that);
    tcase_add_test(tc, client_whose_agent_has_not_called_is_stopped_at_once);
    tcase_add_test(tc, clients_wait_for_a_place);
    tcase_add_test(tc, clients_have_their_turn_within_half_of_the_start);
    tcase_add_test(tc, client_that_waits_can_be_stopped);
    tcase_add_test(tc, words_without_end_are_bounded);
    tcase_add_test(tc, words_that_only_follow_leave_the_cause_last);
    tcase_add_test(tc, words_of_a_login_that_stands_still_name_the_mtu);
    tcase_add_test(tc, agent_adopted_elsewhere_closes_no_descriptor_of_ours);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
