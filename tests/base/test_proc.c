/* tests/base/test_proc.c - which process a pid is. */
#include "base/proc.h"

#include <poll.h>
#include <signal.h>

#include "support.h"

static pid_t start_child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(process_has_begun_at_one_moment)
{
    pid_t pid = start_child();
    uint64_t started = proc_started(pid);

    ck_assert_uint_gt(started, 0);
    ck_assert_uint_eq(proc_started(pid), started);
    ck_assert_uint_ge(started, proc_started(getpid()));
    end_child(pid);
    ck_assert_uint_eq(proc_started(pid), 0);
}
END_TEST

START_TEST(process_has_a_line_of_ancestors)
{
    pid_t pid = start_child(), line[PROC_LINE_MAX];

    ck_assert_int_eq(proc_parent(pid), getpid());
    ck_assert_uint_ge(proc_line(pid, line), 3);
    ck_assert_int_eq(line[0], pid);
    ck_assert_int_eq(line[1], getpid());
    ck_assert_int_eq(line[2], getppid());
    ck_assert(proc_is_of(pid, getuid()));
    ck_assert(!proc_is_of(pid, getuid() + 1));
    end_child(pid);
    ck_assert_uint_eq(proc_line(pid, line), 1);
    ck_assert(!proc_is_of(pid, getuid()));
}
END_TEST

START_TEST(pid_of_another_time_is_not_opened)
{
    pid_t pid = start_child();
    uint64_t started = proc_started(pid);

    ck_assert_int_lt(proc_open(pid, started + 1), 0);
    ck_assert_int_lt(proc_open(pid, 0), 0);
    ck_assert_int_lt(proc_open(0, started), 0);
    end_child(pid);
    ck_assert_int_lt(proc_open(pid, started), 0);
}
END_TEST

START_TEST(opened_process_is_watched_and_signalled)
{
    pid_t pid = start_child();
    struct pollfd fd = {.fd = proc_open(pid, proc_started(pid)),
                        .events = POLLIN};

    ck_assert_int_ge(fd.fd, 0);
    ck_assert_int_eq(poll(&fd, 1, 0), 0);
    proc_signal(fd.fd, SIGKILL);
    ck_assert_int_eq(poll(&fd, 1, 30000), 1);
    proc_signal(fd.fd, SIGKILL); /* it has ended: nothing happens */
    close(fd.fd);
    end_child(pid);
}
END_TEST

START_TEST(zombie_has_ended)
{
    pid_t pid = fork();
    siginfo_t info;

    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_uint_eq(proc_started(pid), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

/* Of a process that lives nothing is known, of one that ends what wait(2) says.
 */
START_TEST(exit_status_is_that_of_wait)
{
    static const int codes[] = {0, 7};
    siginfo_t info;
    int status;

    ck_assert_int_eq(proc_exit_status(getpid()), -1);
    for (size_t i = 0; i < 2; i++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(codes[i]);
        ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        status = proc_exit_status(pid);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), codes[i]);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        ck_assert_int_eq(proc_exit_status(pid), -1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proc");
    TCase *tc = tcase_create("proc");

    tcase_add_test(tc, process_has_begun_at_one_moment);
    tcase_add_test(tc, pid_of_another_time_is_not_opened);
    tcase_add_test(tc, opened_process_is_watched_and_signalled);
    tcase_add_test(tc, zombie_has_ended);
    tcase_add_test(tc, process_has_a_line_of_ancestors);
    tcase_add_test(tc, exit_status_is_that_of_wait);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
