/* tests/discovery/test_script.c - real scripts: what they may do to us. Time
 * for the deadline is an argument, so nothing here waits for a clock. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "discovery/script.h"
#include "support.h"

static char dir[] = "/tmp/hvd-script-XXXXXX";
static char path[64];
static struct hosts hosts;
static char skipped[HOSTS_ERROR_MAX];

static void write_script(const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void setup(void)
{
    strcpy(dir, "/tmp/hvd-script-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/x.sh", dir);
    ck_assert_int_eq(chdir(dir), 0);
    hosts = (struct hosts){0};
}

static void teardown(void)
{
    hosts_fini(&hosts);
    unlink(path);
    unlink("pid");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}

static void wait_readable(const struct command *s)
{
    struct epoll_event ev;

    while (epoll_wait(s->epoll_fd, &ev, 1, -1) < 0)
        ck_assert_int_eq(errno, EINTR);
}

/* Run it to its end. */
static enum script_result run(struct command *s)
{
    enum script_result result;

    ck_assert_int_eq(command_start(s, 0), HVD_OK);
    do {
        wait_readable(s);
        result = script_step(s, 0, 0, &hosts, skipped);
    } while (result == SCRIPT_RUNNING);
    ck_assert_int_eq(s->epoll_fd, -1);
    ck_assert(!s->running);
    return result;
}

static void keep(enum log_level level, const char *line, void *text)
{
    strcat(text, line);
    strcat(text, "\n");
}

/* A process that a run leaves behind may print later: no SIGPIPE ends it. */
START_TEST(script_stderr_is_told_behind_its_name)
{
    static char logged[1024];
    struct command s;

    log_set_sink(keep, logged);
    write_script("#!/bin/sh\n"
                 "(trap 'exit 9' PIPE; until [ -e go ]; do sleep 0.01; done\n"
                 " echo late >&2; echo done >pid) >/dev/null &\n"
                 "echo a:1; printf 'one\\ntwo\\r\\n\\nthree' >&2\n",
                 0700);
    ck_assert_int_eq(script_init(&s, path, 1000), HVD_OK);
    ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_str_eq(logged, "hvd: warn: --host-discovery-script: one\n"
                             "hvd: warn: --host-discovery-script: two\n"
                             "hvd: warn: --host-discovery-script: three\n");
    logged[0] = '\0';
    close(open("go", O_WRONLY | O_CREAT, 0600));
    while (access("pid", F_OK) != 0)
        usleep(1000);
    write_script("#!/bin/sh\necho a:1\n", 0700);
    ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_str_eq(logged, "hvd: warn: --host-discovery-script: late\n");
    command_fini(&s);
    log_set_sink(NULL, NULL);
    unlink("go");
}
END_TEST

static void expect_result(const char *text, enum script_result result,
                          const char *sentence)
{
    char expected[ERROR_TEXT_MAX];
    struct command s;

    write_script(text, 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    ck_assert_int_eq(run(&s), result);
    snprintf(expected, sizeof(expected), "--host-discovery-script: \"%s\"%s",
             path, sentence);
    ck_assert_str_eq(error_text(), expected);
    command_fini(&s);
}

static void expect_failure(const char *text, const char *sentence)
{
    expect_result(text, SCRIPT_FAILED, sentence);
}

/* No later run of it is likely to do better. */
static void expect_mistake(const char *text, const char *sentence)
{
    expect_result(text, SCRIPT_WRONG, sentence);
}

START_TEST(script_prints_hosts_lists_them)
{
    struct command s;

    write_script("#!/bin/sh\necho a:2\necho b:3\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
        ck_assert_uint_eq(hosts.n, 2);
        ck_assert_str_eq(hosts.items[1].name, "b");
        ck_assert_uint_eq(hosts.items[1].slots, 3);
    }
    command_fini(&s);
}
END_TEST

START_TEST(script_prints_nothing_means_no_hosts)
{
    struct command s;

    write_script("#!/bin/sh\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_uint_eq(hosts.n, 0);
    command_fini(&s);
}
END_TEST

START_TEST(script_without_interpreter_line_runs_in_a_shell)
{
    struct command s;

    write_script("echo a:1\n", 0700);
    ck_assert_int_eq(script_init(&s, "x.sh", 10000000), HVD_OK);
    ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_uint_eq(hosts.n, 1);
    command_fini(&s);
}
END_TEST

START_TEST(script_big_output_is_read_whole)
{
    struct command s;

    write_script("#!/bin/sh\n"
                 "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); "
                 "echo host-with-a-rather-long-name-$i:8; done\n",
                 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_uint_eq(hosts.n, 10000);
    command_fini(&s);
}
END_TEST

START_TEST(script_endless_output_is_killed)
{
    expect_failure("#!/bin/sh\nexec yes\n", " printed more than 4 MiB");
}
END_TEST

START_TEST(script_exits_3_says_so)
{
    expect_failure("#!/bin/sh\necho a:2\nexit 3\n", " exited with status 3");
}
END_TEST

START_TEST(script_that_cannot_run_a_program_is_wrong)
{
    expect_mistake("#!/bin/sh\nhvd-no-such-program 2>&-\n",
                   " exited with status 127");
    expect_mistake("#!/bin/sh\nexit 2\n", " exited with status 2");
}
END_TEST

START_TEST(script_killed_by_signal_says_so)
{
    expect_failure("#!/bin/sh\nkill -9 $$\n",
                   " was killed by signal 9 (SIGKILL)");
}
END_TEST

START_TEST(script_prints_garbage_names_the_line)
{
    expect_mistake("#!/bin/sh\necho\necho b:many\n",
                   ": line 2: \"b:many\": \"many\" is not a number of slots "
                   "(0 to 1024)");
}
END_TEST

START_TEST(script_prints_a_bad_line_beside_a_good_one)
{
    struct command s;

    write_script("#!/bin/sh\necho a:2\necho b:many\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_uint_eq(hosts.n, 1);
    ck_assert_str_eq(skipped, "line 2: \"b:many\": \"many\" is not a number of "
                              "slots (0 to 1024)");
    command_fini(&s);
}
END_TEST

START_TEST(script_with_missing_interpreter_says_so)
{
    expect_mistake("#!/nowhere/sh\n",
                   " cannot be run: its first line names \"/nowhere/sh\", "
                   "which is not there");
    expect_mistake("#!/bin/sh\r\necho a:1\r\n",
                   " cannot be run: its first line names \"/bin/sh\\r\", "
                   "which is not there");
}
END_TEST

START_TEST(script_that_is_a_damaged_binary_is_not_given_to_the_shell)
{
    expect_mistake("\177ELF\necho a:1\n", " cannot be run: Exec format error");
}
END_TEST

/* The pid that the script has put into the file "pid". */
static pid_t read_pid(void)
{
    FILE *file = fopen("pid", "r");
    int pid = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%d", &pid), 1);
    fclose(file);
    return (pid_t)pid;
}

START_TEST(script_hangs_past_its_deadline_group_is_killed)
{
    char expected[ERROR_TEXT_MAX];
    enum script_result result;
    struct command s;
    pid_t grandchild, script;
    int status;

    /* the orphan becomes ours, so that its end can be waited for */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    /* writes only after the pid is there, so reading tells when to go on */
    write_script("#!/bin/sh\nsleep 1000 & echo $! >pid\necho a:1\nwait\n",
                 0700);
    ck_assert_int_eq(script_init(&s, path, 1500000), HVD_OK);
    ck_assert_int_eq(command_start(&s, 100), HVD_OK);
    ck_assert_uint_eq(s.deadline_us, 1500100);
    while (s.n_output == 0) {
        wait_readable(&s);
        ck_assert_int_eq(script_step(&s, 1500099, 0, &hosts, skipped),
                         SCRIPT_RUNNING);
    }
    grandchild = read_pid();
    script = s.pid;
    ck_assert_int_eq(getpgid(grandchild), script);
    ck_assert_int_eq(script_step(&s, 1500100, 0, &hosts, skipped),
                     SCRIPT_RUNNING);
    ck_assert_uint_eq(s.deadline_us, 1500100 + s.death_us);
    do {
        wait_readable(&s);
        result = script_step(&s, 1500100, 0, &hosts, skipped);
    } while (result == SCRIPT_RUNNING);
    ck_assert_int_eq(result, SCRIPT_FAILED);
    snprintf(expected, sizeof(expected),
             "--host-discovery-script: \"%s\" did not finish within 1.5 s",
             path);
    ck_assert_str_eq(error_text(), expected);
    ck_assert_int_eq(waitpid(script, NULL, WNOHANG), -1);
    ck_assert_int_eq(waitpid(grandchild, &status, 0), grandchild);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    command_fini(&s);
}
END_TEST

/* It has ended, and is reaped by the next start. */
static void expect_reaped(struct command *s, pid_t pid)
{
    siginfo_t info;

    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(run(s), SCRIPT_HOSTS);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), -1);
}

/* It stays when it is killed. */
static void expect_left_behind(struct command *s)
{
    char expected[ERROR_TEXT_MAX];
    pid_t pid = s->pid;

    ck_assert_int_eq(script_step(s, 1500000, 0, &hosts, skipped),
                     SCRIPT_RUNNING);
    ck_assert_int_eq(script_step(s, 6499999, 0, &hosts, skipped),
                     SCRIPT_RUNNING);
    ck_assert_int_eq(script_step(s, 6500000, 0, &hosts, skipped),
                     SCRIPT_FAILED);
    snprintf(expected, sizeof(expected),
             "--host-discovery-script: \"%s\" did not finish within 1.5 s and "
             "cannot be killed -> process %d is left behind",
             path, (int)pid);
    ck_assert_str_eq(error_text(), expected);
}

START_TEST(script_that_cannot_be_killed_is_left_behind_for_a_new_run)
{
    enum script_result result = SCRIPT_RUNNING;
    struct command s;
    pid_t pid;

    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    write_script("#!/bin/sh\nexec " UNKILLABLE " a:1 fifo\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 1500000), HVD_OK);
    ck_assert_int_eq(command_start(&s, 0), HVD_OK);
    pid = s.pid;
    while (s.n_output == 0 && result == SCRIPT_RUNNING) {
        wait_readable(&s);
        result = script_step(&s, 0, 0, &hosts, skipped);
    }
    if (result == SCRIPT_RUNNING) { /* else there is no ptrace here */
        expect_left_behind(&s);
        write_script("#!/bin/sh\necho a:1; echo b:1\n", 0700);
        ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
        ck_assert_uint_eq(hosts.n, 2);
        ck_assert_uint_eq(s.n_stuck, 1);
        close(open("fifo", O_WRONLY | O_CLOEXEC));
        expect_reaped(&s, pid);
        ck_assert_uint_eq(s.n_stuck, 0);
    }
    command_fini(&s);
    unlink("fifo");
}
END_TEST

/* Each takes a process: there is an end to it. */
START_TEST(script_is_not_started_beside_many_that_cannot_be_killed)
{
    char expected[ERROR_TEXT_MAX];
    struct command s;

    write_script("#!/bin/sh\necho a:1\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 1500000), HVD_OK);
    for (; s.n_stuck < COMMAND_STUCK_MAX; s.n_stuck++)
        if ((s.stuck[s.n_stuck] = fork()) == 0)
            while (1)
                pause();
    ck_assert_int_eq(command_start(&s, 0), HVD_ERR_SYSTEM);
    snprintf(expected, sizeof(expected),
             "--host-discovery-script: \"%s\": 8 runs of it cannot be killed "
             "-> none is started until one has ended",
             path);
    ck_assert_str_eq(error_text(), expected);
    kill(s.stuck[3], SIGKILL);
    expect_reaped(&s, s.stuck[3]);
    ck_assert_uint_eq(s.n_stuck, COMMAND_STUCK_MAX - 1);
    for (size_t i = 0; i < s.n_stuck; i++)
        kill(s.stuck[i], SIGKILL);
    command_fini(&s);
}
END_TEST

START_TEST(script_leaves_a_child_with_the_pipe_open_is_not_waited_for)
{
    struct command s;

    write_script("#!/bin/sh\nsleep 1000 & echo $! >pid\necho a:1\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_uint_eq(hosts.n, 1);
    kill(read_pid(), SIGKILL);
    command_fini(&s);
}
END_TEST

START_TEST(script_fini_while_running_kills_and_reaps)
{
    struct command s;
    pid_t pid;

    write_script("#!/bin/sh\nexec sleep 1000\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    ck_assert_int_eq(command_start(&s, 0), HVD_OK);
    pid = s.pid;
    command_fini(&s);
    ck_assert_int_eq(s.epoll_fd, -1);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), -1);
    ck_assert_int_eq(kill(pid, 0), -1);
}
END_TEST

START_TEST(script_signals_of_the_caller_do_not_reach_it)
{
    struct command s;
    sigset_t set, old;

    /* SIGTERM blocked and SIGPIPE ignored here, default there */
    write_script("#!/bin/sh\nkill -TERM $$\necho a:1\n", 0700);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &old);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    ck_assert_int_eq(run(&s), SCRIPT_FAILED);
    ck_assert_ptr_nonnull(
        strstr(error_text(), "killed by signal 15 (SIGTERM)"));
    sigprocmask(SIG_SETMASK, &old, NULL);
    command_fini(&s);
}
END_TEST

START_TEST(script_init_bad_file_is_named)
{
    struct command s;

    ck_assert_int_eq(script_init(&s, "x.sh", 1), HVD_ERR_INVALID);
    ck_assert_str_eq(error_text(),
                     "--host-discovery-script: \"x.sh\" does not exist");
    ck_assert_int_eq(script_init(&s, ".", 1), HVD_ERR_INVALID);
    ck_assert_str_eq(error_text(),
                     "--host-discovery-script: \".\" is a directory");
    ck_assert_int_eq(script_init(&s, "/dev/null", 1), HVD_ERR_INVALID);
    ck_assert_str_eq(
        error_text(),
        "--host-discovery-script: \"/dev/null\" is not a regular file");
    write_script("#!/bin/sh\n", 0600);
    ck_assert_int_eq(script_init(&s, "x.sh", 1), HVD_ERR_INVALID);
    ck_assert_str_eq(error_text(),
                     "--host-discovery-script: \"x.sh\" is not executable");
    command_fini(&s);
}
END_TEST

static int count_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

START_TEST(script_many_runs_leave_no_descriptor)
{
    struct command s;
    int before = count_fds();

    write_script("#!/bin/sh\necho a:1\n", 0700);
    ck_assert_int_eq(script_init(&s, path, 10000000), HVD_OK);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(run(&s), SCRIPT_HOSTS);
    ck_assert_int_eq(count_fds(), before + 2); /* the pipe of stderr */
    command_fini(&s);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("script");
    TCase *tcase = tcase_create("script");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, script_stderr_is_told_behind_its_name);
    tcase_add_test(tcase, script_prints_hosts_lists_them);
    tcase_add_test(tcase, script_prints_nothing_means_no_hosts);
    tcase_add_test(tcase, script_without_interpreter_line_runs_in_a_shell);
    tcase_add_test(tcase, script_big_output_is_read_whole);
    tcase_add_test(tcase, script_endless_output_is_killed);
    tcase_add_test(tcase, script_exits_3_says_so);
    tcase_add_test(tcase, script_that_cannot_run_a_program_is_wrong);
    tcase_add_test(tcase, script_killed_by_signal_says_so);
    tcase_add_test(tcase, script_prints_garbage_names_the_line);
    tcase_add_test(tcase, script_prints_a_bad_line_beside_a_good_one);
    tcase_add_test(tcase, script_with_missing_interpreter_says_so);
    tcase_add_test(tcase,
                   script_that_is_a_damaged_binary_is_not_given_to_the_shell);
    tcase_add_test(tcase, script_hangs_past_its_deadline_group_is_killed);
    tcase_add_test(tcase,
                   script_that_cannot_be_killed_is_left_behind_for_a_new_run);
    tcase_add_test(tcase,
                   script_is_not_started_beside_many_that_cannot_be_killed);
    tcase_add_test(tcase,
                   script_leaves_a_child_with_the_pipe_open_is_not_waited_for);
    tcase_add_test(tcase, script_fini_while_running_kills_and_reaps);
    tcase_add_test(tcase, script_signals_of_the_caller_do_not_reach_it);
    tcase_add_test(tcase, script_init_bad_file_is_named);
    tcase_add_test(tcase, script_many_runs_leave_no_descriptor);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
