/* The real hvd-agent under a driver that the test plays: processes, signals,
 * output, and that nobody is left behind. argv[1] is the program. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/wire/socket.h"
#include "fake.h"
#include "support.h"

#define STRINGS(literal) ((struct wire_strings){literal, sizeof(literal)})
#define NO_STRINGS       ((struct wire_strings){NULL, 0})

static const char *program;
static struct fake f;

static void setup(void)
{
    /* whoever the agent leaves behind becomes a child of this test */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    fake_start(&f, program);
}

static void teardown(void)
{
    fake_stop(&f);
}

/* Wait for all children of this process; a straggler is a failure by the test's
 * time-out. */
static void assert_nobody_left(void)
{
    int status;

    while (waitpid(-1, &status, 0) > 0)
        ;
    ck_assert_int_eq(errno, ECHILD);
}

/* Until this process, not a child of ours, is gone. */
static void wait_gone(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};

    if (pidfd < 0) {
        ck_assert_int_eq(errno, ESRCH);
        return;
    }
    ck_assert_int_eq(poll(&fd, 1, FAKE_TIMEOUT_MS), 1);
    close(pidfd);
}

static const struct msg_worker_exited *exited(uint64_t worker)
{
    ck_assert_int_eq(f.workers[worker].n_exited, 1);
    return &f.workers[worker].exited;
}

static bool has_pings(struct fake *fake, void *arg)
{
    return fake->n_pings >= 2;
}

START_TEST(agent_start_says_who_it_is)
{
    ck_assert_str_eq(f.hello_said.host, "127.0.0.9");
    ck_assert_uint_eq(f.hello_said.agent, 5);
    ck_assert_int_eq(f.hello_said.pid, f.agent);
    ck_assert(
        wire_router_proven(f.control, f.secrets.token, f.hello_said.proof));
    ck_assert_mem_ne(f.hello_said.proof, f.secrets.token,
                     sizeof(f.secrets.token));
    fake_wait(&f, has_pings, NULL);
}
END_TEST

START_TEST(spawn_exit_code_is_reported)
{
    fake_spawn_sh(&f, 1, "exit 7");
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(f.workers[1].n_spawned, 1);
    ck_assert_int_eq(exited(1)->code, 7);
    ck_assert_int_eq(exited(1)->signal, 0);
    ck_assert_int_eq(exited(1)->pid, f.workers[1].spawned.pid);
}
END_TEST

START_TEST(spawn_death_by_signal_is_reported)
{
    fake_spawn_sh(&f, 1, "kill -9 $$");
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(exited(1)->signal, SIGKILL);
}
END_TEST

static bool has_two_spawned(struct fake *fake, void *arg)
{
    return fake->workers[1].n_spawned == 2;
}

static bool has_two_exited(struct fake *fake, void *arg)
{
    return fake->workers[1].n_exited == 2;
}

START_TEST(spawn_repeated_starts_nothing_and_answers_again)
{
    int64_t pid;

    fake_spawn_sh(&f, 1, "sleep 1000");
    fake_wait_spawned(&f, 1);
    pid = f.workers[1].spawned.pid;
    fake_spawn_sh(&f, 1, "sleep 1000");
    fake_wait(&f, has_two_spawned, NULL);
    ck_assert_int_eq(f.workers[1].spawned.pid, pid);
    fake_kill(&f, 1, 0);
    fake_wait_exited(&f, 1);
    fake_spawn_sh(&f, 1, "sleep 1000");
    fake_wait(&f, has_two_exited, NULL);
    ck_assert_int_eq(f.workers[1].exited.signal, SIGKILL);
    ck_assert_int_eq(f.workers[1].n_spawned, 2);
}
END_TEST

START_TEST(spawn_program_missing_fails_with_sentence)
{
    fake_spawn(&f, 1, STRINGS("./train\0--lr"), NO_STRINGS, NULL);
    fake_wait_failed(&f, 1);
    ck_assert_int_eq(f.workers[1].failed.error, ENOENT);
    ck_assert_str_eq(f.workers[1].failed.text,
                     "cannot execute \"./train\": No such file or directory");
    ck_assert_int_eq(f.workers[1].n_spawned, 0);
    fake_wait(&f, has_pings, NULL);
    ck_assert(!f.workers[1].streams[0].eof); /* never spawned, no streams */
}
END_TEST

START_TEST(spawn_program_not_executable_fails)
{
    fake_spawn(&f, 1, STRINGS("/etc/passwd"), NO_STRINGS, NULL);
    fake_wait_failed(&f, 1);
    ck_assert_int_eq(f.workers[1].failed.error, EACCES);
}
END_TEST

START_TEST(spawn_directory_missing_fails_with_sentence)
{
    fake_spawn(&f, 1, STRINGS("true"), NO_STRINGS, "/no/such/place");
    fake_wait_failed(&f, 1);
    ck_assert_str_eq(
        f.workers[1].failed.text,
        "cannot enter \"/no/such/place\": No such file or directory");
}
END_TEST

START_TEST(spawn_program_is_searched_in_workers_path)
{
    char dir[] = "/tmp/hvd-agent-test-XXXXXX", path[64], env[64];
    FILE *file;
    int n;

    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/hvd-script", dir);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("echo no shebang, $1\n", file);
    fclose(file);
    ck_assert_int_eq(chmod(path, 0700), 0);
    n = snprintf(env, sizeof(env), "PATH=/nowhere:%s", dir);
    fake_spawn(&f, 1, STRINGS("hvd-script\0fine"),
               (struct wire_strings){env, (uint32_t)n + 1}, NULL);
    fake_wait_eof(&f, 1);
    ck_assert_str_eq(fake_stdout(&f, 1), "no shebang, fine\n");
    unlink(path);
    rmdir(dir);
}
END_TEST

START_TEST(spawn_environment_is_the_workers_own)
{
    const char *text;

    fake_spawn(&f, 3, STRINGS("sh\0-c\0env; pwd"),
               STRINGS("COLOR=green\0HVD_HOST=liar"), "/usr");
    fake_wait_eof(&f, 3);
    text = fake_stdout(&f, 3);
    ck_assert_ptr_nonnull(strstr(text, "COLOR=green\n"));
    ck_assert_ptr_nonnull(strstr(text, "HVD_HOST=127.0.0.9\n"));
    ck_assert_ptr_nonnull(strstr(text, "HVD_WORKER=3\n"));
    ck_assert_ptr_nonnull(strstr(text, "HVD_SLOT=103\n"));
    ck_assert_ptr_nonnull(strstr(text, "HVD_JOB=77\n"));
    ck_assert_ptr_nonnull(strstr(text, "HVD_ADDRESS=127.0.0.1\n"));
    ck_assert_ptr_nonnull(strstr(text, f.control_endpoint));
    ck_assert_ptr_nonnull(strstr(text, "\n/usr\n"));
    ck_assert_ptr_null(strstr(text, "HVD_STRAY"));
    ck_assert_ptr_null(strstr(text, "HVD_OUTPUT"));
    ck_assert_ptr_null(strstr(text, "HVD_AGENT"));
    ck_assert_ptr_null(strstr(text, "liar"));
}
END_TEST

START_TEST(spawn_descriptors_are_six)
{
    /* printf and test are the shell's own: no other process opens anything */
    fake_spawn_sh(&f, 1,
                  "for i in 0 1 2 3 4 5 6 7 8 9 11 12 13 14 15 16 17 18 19 20"
                  " 30 40 50 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 80;"
                  " do test -e /proc/self/fd/$i && printf '%s ' $i; done;"
                  " grep Sig[BI] /proc/self/status");
    fake_wait_eof(&f, 1);
    ck_assert_str_eq(fake_stdout(&f, 1), "0 1 2 60 61 63 "
                                         "SigBlk:\t0000000000000000\n"
                                         "SigIgn:\t0000000000000000\n");
}
END_TEST

START_TEST(spawn_secret_is_the_workers_own)
{
    struct wire_secrets own = f.secrets;
    const uint8_t *bytes = (const uint8_t *)&own;
    char hex[2 * sizeof(own) + 2];

    for (uint64_t worker = 1; worker <= 2; worker++) {
        wire_token_derive(f.secrets.token, WIRE_TOKEN_WORKER, worker,
                          own.token);
        for (size_t i = 0; i < sizeof(own); i++)
            snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
        strcat(hex, "\n");
        fake_spawn_sh(&f, worker,
                      "od -An -v -tx1 /proc/self/fd/60 | tr -d ' \\n'; echo");
        fake_wait_eof(&f, worker);
        ck_assert_str_eq(fake_stdout(&f, worker), hex);
    }
}
END_TEST

START_TEST(kill_asks_first)
{
    fake_spawn_sh(&f, 1, "trap 'exit 3' TERM; echo ready; sleep 1000 & wait");
    fake_wait_text(&f, 1, "ready");
    fake_kill(&f, 1, FAKE_TIMEOUT_MS);
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(exited(1)->code, 3);
}
END_TEST

START_TEST(kill_ignored_is_forced_after_grace)
{
    fake_spawn_sh(&f, 1, "trap '' TERM; echo ready; read x </proc/self/fd/61");
    fake_wait_text(&f, 1, "ready");
    fake_kill(&f, 1, 50);
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(exited(1)->signal, SIGKILL);
}
END_TEST

START_TEST(kill_reaches_a_stopped_worker)
{
    fake_spawn_sh(&f, 1, "echo ready; kill -STOP $$");
    fake_wait_text(&f, 1, "ready");
    fake_kill(&f, 1, FAKE_TIMEOUT_MS);
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(exited(1)->signal, SIGTERM);
}
END_TEST

START_TEST(kill_of_unknown_worker_answers_exited)
{
    fake_kill(&f, 9, 0);
    fake_wait_exited(&f, 9);
    ck_assert_int_eq(exited(9)->signal, SIGKILL);
    ck_assert_int_eq(exited(9)->pid, 0);
}
END_TEST

START_TEST(exit_takes_the_group_along)
{
    fake_spawn_sh(&f, 1, "sleep 1000 & echo $!");
    fake_wait_exited(&f, 1);
    fake_wait_eof(&f, 1);
    wait_gone(atoi(fake_stdout(&f, 1)));
}
END_TEST

/* And those who have left it: they hold what the next worker of the slot needs.
 */
START_TEST(exit_takes_along_who_left_the_group)
{
    fake_spawn_sh(&f, 1,
                  "setsid -f sh -c 'sleep 1000 & echo $! $$; wait' & "
                  "read x </proc/self/fd/61");
    fake_wait_text(&f, 1, " ");
    fake_wait_text(&f, 1, "\n");
    fake_kill(&f, 1, 0);
    fake_wait_exited(&f, 1);
    fake_wait_eof(&f, 1);
    wait_gone(atoi(fake_stdout(&f, 1)));
    wait_gone(atoi(strchr(fake_stdout(&f, 1), ' ') + 1));
}
END_TEST

START_TEST(orphan_of_who_lives_is_left_alone)
{
    pid_t orphan;

    fake_spawn_sh(&f, 1,
                  "setsid -f sh -c 'echo $$; exec sleep 1000'; "
                  "read x </proc/self/fd/61");
    fake_wait_text(&f, 1, "\n");
    orphan = atoi(fake_stdout(&f, 1));
    fake_spawn_sh(&f, 2, "exit 0");
    fake_wait_exited(&f, 2);
    fake_wait_eof(&f, 2);
    fake_spawn_sh(&f, 3, "exit 0"); /* what it killed for 2 would be gone */
    fake_wait_exited(&f, 3);
    ck_assert_int_eq(kill(orphan, 0), 0);
    fake_kill(&f, 1, 0);
    fake_wait_exited(&f, 1);
    wait_gone(orphan);
}
END_TEST

START_TEST(exit_with_pipes_held_elsewhere_still_ends_output)
{
    fake_spawn_sh(&f, 1,
                  "setsid env -u HVD_WORKER sh -c 'echo hello; exec sleep "
                  "1000'");
    fake_wait_text(&f, 1, "hello");
    fake_kill(&f, 1, 0);
    fake_wait_exited(&f, 1);
    fake_wait_eof(&f, 1);
    ck_assert_str_eq(fake_stdout(&f, 1), "hello\n");
}
END_TEST

START_TEST(output_arrives_in_order_and_apart)
{
    fake_spawn_sh(&f, 1,
                  "i=0; while test $i -lt 2000; do echo line $i;"
                  " i=$((i+1)); done; echo bad >&2; printf 'no end'");
    fake_wait_eof(&f, 1);
    ck_assert_uint_eq(f.workers[1].streams[0].n_text,
                      10 * 7 + 90 * 8 + 900 * 9 + 1000 * 10 + 6);
    ck_assert_int_eq(strncmp(fake_stdout(&f, 1), "line 0\nline 1\n", 14), 0);
    ck_assert_ptr_nonnull(strstr(fake_stdout(&f, 1), "line 1999\nno end"));
    ck_assert_str_eq(fake_stderr(&f, 1), "bad\n");
}
END_TEST

START_TEST(output_beyond_window_is_complete)
{
    fake_spawn_sh(&f, 1, "yes 0123456789abcdef | head -c 3400000");
    fake_wait_eof(&f, 1);
    ck_assert_uint_eq(f.workers[1].streams[0].n_text, 3400000);
    ck_assert_ptr_null(strstr(fake_stdout(&f, 1), "dropped"));
}
END_TEST

START_TEST(output_without_credit_drops_oldest_and_says_so)
{
    f.withhold = true;
    fake_spawn_sh(&f, 1,
                  "yes 0123456789abcdef | head -c 17000000; echo the end");
    fake_wait_exited(&f, 1); /* membership does not wait for output */
    fake_grant(&f);
    fake_wait_eof(&f, 1);
    ck_assert_uint_lt(f.workers[1].streams[0].n_text, 5000000);
    ck_assert_ptr_nonnull(
        strstr(fake_stdout(&f, 1),
               " lines dropped: the driver does not read fast enough]\n"));
    ck_assert_ptr_nonnull(strstr(fake_stdout(&f, 1), "\nthe end\n"));
}
END_TEST

/* The agent has been busy with the rest for a second. */
static bool has_five_more_pings(struct fake *fake, void *arg)
{
    return fake->n_pings >= *(int *)arg + 5;
}

static void wait_five_pings(void)
{
    int n = f.n_pings;

    fake_wait(&f, has_five_more_pings, &n);
}

START_TEST(output_held_back_loses_nothing)
{
    fake_hold(&f, FAKE_TIMEOUT_MS);
    f.withhold = true;
    fake_spawn_sh(&f, 1,
                  "yes 0123456789abcdef | head -c 17000000; echo the end");
    fake_spawn_sh(&f, 2, "echo beside");
    fake_wait_exited(&f, 2); /* nobody else waits */
    wait_five_pings();
    ck_assert_int_eq(f.workers[1].n_exited, 0);
    fake_grant(&f);
    fake_wait_eof(&f, 1);
    ck_assert_uint_eq(f.workers[1].streams[0].n_text, 17000008);
    fake_wait_exited(&f, 1);
    fake_wait_eof(&f, 2);
}
END_TEST

START_TEST(output_is_held_back_for_a_bounded_time)
{
    fake_hold(&f, 300);
    f.withhold = true;
    fake_spawn_sh(&f, 1,
                  "yes 0123456789abcdef | head -c 17000000; echo the end");
    fake_wait_exited(&f, 1);
    fake_grant(&f);
    fake_wait_eof(&f, 1);
    ck_assert_uint_lt(f.workers[1].streams[0].n_text, 5000000);
    ck_assert_ptr_nonnull(
        strstr(fake_stdout(&f, 1),
               " lines dropped: the driver does not read fast enough]\n"));
    ck_assert_ptr_nonnull(strstr(fake_stdout(&f, 1), "\nthe end\n"));
}
END_TEST

static bool is_gone(struct fake *fake, void *path)
{
    return access(path, F_OK) != 0;
}

/* A worker's output is not lost either if the worker is killed, nor when the
 * agent is told to end. */
START_TEST(output_held_back_outlives_its_worker)
{
    char path[] = "/tmp/hvd-test-XXXXXX", script[200];
    int status, fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(script, sizeof(script),
             "yes 0123456789abcde | head -c 4000000; rm %s; exec sleep 1000",
             path);
    fake_hold(&f, FAKE_TIMEOUT_MS);
    f.withhold = true;
    fake_spawn_sh(&f, 1, script);
    fake_wait(&f, is_gone, path);
    fake_kill(&f, 1, 0);
    fake_wait_exited(&f, 1);
    fake_shutdown(&f);
    fake_grant(&f);
    fake_wait_eof(&f, 1);
    ck_assert_uint_eq(f.workers[1].streams[0].n_text, 4000000);
    ck_assert_ptr_null(strstr(fake_stdout(&f, 1), "dropped"));
    status = fake_wait_agent(&f);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

START_TEST(many_workers_are_all_heard)
{
    for (uint64_t w = 1; w < FAKE_WORKERS; w++)
        fake_spawn_sh(&f, w,
                      "i=0; while test $i -lt 500; do echo $HVD_WORKER $i;"
                      " i=$((i+1)); done; exit $HVD_WORKER");
    for (uint64_t w = 1; w < FAKE_WORKERS; w++) {
        char last[32];

        fake_wait_exited(&f, w);
        fake_wait_eof(&f, w);
        ck_assert_int_eq(exited(w)->code, (int64_t)w);
        snprintf(last, sizeof(last), "\n%d 499\n", (int)w);
        ck_assert_ptr_nonnull(strstr(fake_stdout(&f, w), last));
    }
}
END_TEST

static int count_agent_fds(void)
{
    char path[64];
    DIR *dir;
    int n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)f.agent);
    dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

START_TEST(many_workers_leave_no_descriptor)
{
    const uint64_t missing = FAKE_WORKERS - 1;
    int before;

    fake_wait(&f, has_pings, NULL); /* its connections are settled by then */
    before = count_agent_fds();
    for (uint64_t w = 1; w < missing; w++)
        fake_spawn_sh(&f, w, w % 2 ? "exit 1" : "kill -9 $$");
    for (uint64_t w = 1; w < missing; w++) {
        fake_wait_exited(&f, w);
        fake_wait_eof(&f, w);
    }
    fake_spawn(&f, missing, STRINGS("/no/such/program"), NO_STRINGS, NULL);
    fake_wait_failed(&f, missing);
    f.n_pings = 0;
    fake_wait(&f, has_pings, NULL); /* and it has closed all by then */
    ck_assert_int_eq(count_agent_fds(), before);
}
END_TEST

START_TEST(shutdown_last_words_arrive)
{
    int status;

    fake_spawn_sh(&f, 1,
                  "trap 'echo bye; exit 4' TERM; echo hi; sleep 1000 & wait");
    fake_spawn_sh(&f, 2, "sleep 1000 & echo hi; wait");
    fake_wait_text(&f, 1, "hi");
    fake_wait_text(&f, 2, "hi");
    fake_shutdown(&f);
    fake_wait_exited(&f, 1);
    fake_wait_exited(&f, 2);
    fake_wait_eof(&f, 1);
    fake_wait_eof(&f, 2);
    status = fake_wait_agent(&f);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_str_eq(fake_stdout(&f, 1), "hi\nbye\n");
    ck_assert_int_eq(exited(1)->code, 4);
    assert_nobody_left();
}
END_TEST

START_TEST(shutdown_takes_who_left_the_group)
{
    fake_spawn_sh(&f, 1, "setsid sh -c 'trap \"\" TERM; echo hi; sleep 1000'");
    fake_wait_text(&f, 1, "hi");
    fake_shutdown(&f);
    ck_assert_int_eq(fake_wait_agent(&f), 0);
    assert_nobody_left();
}
END_TEST

static bool has_noticed(struct fake *fake, void *arg)
{
    return fake->n_notices >= *(const int *)arg;
}

/* It is told again and again, until the driver has the agent end. */
START_TEST(sigterm_tells_that_the_host_will_go)
{
    int n = 3;

    fake_spawn_sh(&f, 1, "echo hi; read x </proc/self/fd/61");
    fake_wait_text(&f, 1, "hi");
    kill(f.agent, SIGTERM);
    fake_wait(&f, has_noticed, &n);
    ck_assert_uint_eq(f.notice.left_ms, NOTICE_UNKNOWN);
    ck_assert_int_eq(f.workers[1].n_exited, 0);
    fake_shutdown(&f);
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(fake_wait_agent(&f), 0);
    assert_nobody_left();
}
END_TEST

START_TEST(sigterm_twice_ends_all_and_reports)
{
    int n = 1;

    fake_spawn_sh(&f, 1, "echo hi; read x </proc/self/fd/61");
    fake_wait_text(&f, 1, "hi");
    kill(f.agent, SIGTERM);
    fake_wait(&f, has_noticed, &n);
    kill(f.agent, SIGTERM);
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(exited(1)->signal, SIGTERM);
    ck_assert_int_eq(fake_wait_agent(&f), 0);
    assert_nobody_left();
}
END_TEST

START_TEST(sigint_ends_all_and_reports)
{
    fake_spawn_sh(&f, 1, "echo hi; read x </proc/self/fd/61");
    fake_wait_text(&f, 1, "hi");
    kill(f.agent, SIGINT);
    fake_wait_exited(&f, 1);
    ck_assert_int_eq(exited(1)->signal, SIGTERM);
    ck_assert_int_eq(fake_wait_agent(&f), 0);
    assert_nobody_left();
}
END_TEST

START_TEST(lifeline_lost_ends_all_at_once)
{
    fake_spawn_sh(&f, 1, "trap '' TERM; sleep 1000 & echo hi; wait");
    fake_spawn_sh(&f, 2, "setsid sh -c 'echo hi; exec sleep 1000' & wait");
    fake_wait_text(&f, 1, "hi");
    fake_wait_text(&f, 2, "hi");
    close(f.lifeline);
    f.lifeline = -1;
    ck_assert_int_eq(fake_wait_agent(&f), 0);
    assert_nobody_left();
}
END_TEST

/* The third stands for a program with libhvd behind a shell: it holds the
 * lifeline, which ends with the agent. (A grandchild without the lifeline has
 * no rope: nothing can be done for it by an agent that is gone.) */
START_TEST(agent_killed_leaves_nobody)
{
    fake_spawn_sh(&f, 1, "echo hi; exec sleep 1000");
    fake_spawn_sh(&f, 2, "trap '' TERM HUP; echo hi; read x </proc/self/fd/61");
    fake_spawn_sh(&f, 3,
                  "sh -c 'trap \"\" HUP; echo hi; read x </proc/self/fd/61';"
                  " true");
    fake_wait_text(&f, 1, "hi");
    fake_wait_text(&f, 2, "hi");
    fake_wait_text(&f, 3, "hi");
    kill(f.agent, SIGKILL);
    fake_wait_agent(&f);
    assert_nobody_left();
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("agent");
    TCase *tcase = tcase_create("processes");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, agent_start_says_who_it_is);
    tcase_add_test(tcase, spawn_exit_code_is_reported);
    tcase_add_test(tcase, spawn_death_by_signal_is_reported);
    tcase_add_test(tcase, spawn_repeated_starts_nothing_and_answers_again);
    tcase_add_test(tcase, spawn_program_missing_fails_with_sentence);
    tcase_add_test(tcase, spawn_program_not_executable_fails);
    tcase_add_test(tcase, spawn_directory_missing_fails_with_sentence);
    tcase_add_test(tcase, spawn_program_is_searched_in_workers_path);
    tcase_add_test(tcase, spawn_environment_is_the_workers_own);
    tcase_add_test(tcase, spawn_descriptors_are_six);
    tcase_add_test(tcase, spawn_secret_is_the_workers_own);
    tcase_add_test(tcase, kill_asks_first);
    tcase_add_test(tcase, kill_ignored_is_forced_after_grace);
    tcase_add_test(tcase, kill_reaches_a_stopped_worker);
    tcase_add_test(tcase, kill_of_unknown_worker_answers_exited);
    tcase_add_test(tcase, exit_takes_the_group_along);
    tcase_add_test(tcase, exit_takes_along_who_left_the_group);
    tcase_add_test(tcase, orphan_of_who_lives_is_left_alone);
    tcase_add_test(tcase, exit_with_pipes_held_elsewhere_still_ends_output);
    tcase_add_test(tcase, output_arrives_in_order_and_apart);
    tcase_add_test(tcase, output_beyond_window_is_complete);
    tcase_add_test(tcase, output_without_credit_drops_oldest_and_says_so);
    tcase_add_test(tcase, output_held_back_loses_nothing);
    tcase_add_test(tcase, output_is_held_back_for_a_bounded_time);
    tcase_add_test(tcase, output_held_back_outlives_its_worker);
    tcase_add_test(tcase, many_workers_are_all_heard);
    tcase_add_test(tcase, many_workers_leave_no_descriptor);
    tcase_add_test(tcase, shutdown_last_words_arrive);
    tcase_add_test(tcase, shutdown_takes_who_left_the_group);
    tcase_add_test(tcase, sigterm_tells_that_the_host_will_go);
    tcase_add_test(tcase, sigterm_twice_ends_all_and_reports);
    tcase_add_test(tcase, sigint_ends_all_and_reports);
    tcase_add_test(tcase, lifeline_lost_ends_all_at_once);
    tcase_add_test(tcase, agent_killed_leaves_nobody);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    program = argc > 1 ? argv[1] : "hvd-agent";
    return support_run(suite_make());
}
