/* tests/driver/test_jobdir.c - who takes a job over, where another successor
 * comes in between: it does all that one does behind one look of ours. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/machine.h"
#include "elastic/driver/jobdir.h"
#include "elastic/driver/journal.h"
#include "journal_samples.h"
#include "support.h"

static char dir[64];
static uint64_t machine; /* the driver's; 0: this one */

static void setup(void)
{
    machine = 0;
    strcpy(dir, "/tmp/test_jobdir_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* As lead_open() does, and dies. */
static void drive(uint64_t term)
{
    struct beacon b = {.job = journal_samples[0].u.job.job,
                       .term = term,
                       .pid = 1,
                       .started = 1, /* that of another */
                       .machine = machine,
                       .endpoint = "tcp://127.0.0.1:1",
                       .output_endpoint = "tcp://127.0.0.1:2"};
    struct memory m = {0};
    struct journal *j;

    ck_assert(memory_fold(&m, &journal_samples[0]));
    m.state.term = term;
    m.state.machine = machine;
    ck_assert_int_eq(journal_create(dir, &m, &j), HVD_OK);
    journal_close(j);
    ck_assert_int_eq(beacon_write(dir, &b), HVD_OK);
    journal_remove_others(dir, term);
}

/* ---- behind a look ------------------------------------------------------- */

enum look {
    LOOK_NONE,
    LOOK_WHO_LEADS,   /* DIR/driver was read for the first time */
    LOOK_WHOSE_IT_IS, /* ... and for the second, to find the journal */
    LOOK_WHETHER_THERE,
    LOOK_COUNT
};

static enum look moment;
static int n_beacons;

static void at(enum look look)
{
    if (moment != look)
        return;
    moment = LOOK_NONE;
    drive(2);
}

hvd_status_t __real_beacon_read(const char *directory, struct beacon *b);
hvd_status_t __wrap_beacon_read(const char *directory, struct beacon *b);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

hvd_status_t __wrap_beacon_read(const char *directory, struct beacon *b)
{
    hvd_status_t status = __real_beacon_read(directory, b);

    n_beacons++;
    at(n_beacons == 1   ? LOOK_WHO_LEADS
       : n_beacons == 2 ? LOOK_WHOSE_IT_IS
                        : LOOK_COUNT);
    return status;
}

int __wrap_access(const char *path, int mode)
{
    int result = __real_access(path, mode);

    if (strstr(path, "/journal.1"))
        at(LOOK_WHETHER_THERE);
    return result;
}

/* ---- cases --------------------------------------------------------------- */

START_TEST(standby_takes_the_next_term)
{
    struct heir heir;
    bool ended;

    drive(1);
    ck_assert_int_eq(jobdir_await(dir, &heir, &ended), HVD_OK);
    ck_assert(!ended);
    ck_assert_uint_eq(heir.term, 2);
    heir_fini(&heir);
}
END_TEST

START_TEST(standby_that_was_overtaken_stands_by_again)
{
    struct heir heir;
    bool ended;

    drive(1);
    moment = (enum look)_i;
    ck_assert_msg(jobdir_await(dir, &heir, &ended) == HVD_OK, "%s",
                  error_text());
    ck_assert_int_eq(moment, LOOK_NONE);
    ck_assert(!ended);
    ck_assert_uint_eq(heir.before.term, 2);
    ck_assert_uint_eq(heir.term, 3);
    heir_fini(&heir);
}
END_TEST

START_TEST(resume_that_was_overtaken_is_refused_with_that_sentence)
{
    struct heir heir;

    drive(1);
    moment = (enum look)_i;
    ck_assert_int_eq(jobdir_inherit(dir, false, &heir), HVD_ERR_STATE);
    ck_assert_ptr_nonnull(
        strstr(error_text(), "another driver takes this job over"));
}
END_TEST

/* Nobody else has led it: that is no reason to wait. */
START_TEST(standby_without_a_journal_is_refused)
{
    struct heir heir;
    char path[128];
    bool ended;

    drive(1);
    snprintf(path, sizeof(path), "%s/journal.1", dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(jobdir_await(dir, &heir, &ended), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "holds no journal of a job"));
}
END_TEST

/* ---- a driver on another machine ----------------------------------------- */

enum { PAUSES_MAX = 100 };

static void (*meanwhile)(int pause); /* NULL: polls are polls */
static int n_pauses;

int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    if (!meanwhile || (n > 0 && fds[0].fd >= 0))
        return __real_poll(fds, n, timeout_ms);
    ck_assert_int_lt(n_pauses, PAUSES_MAX);
    meanwhile(n_pauses++);
    return 0;
}

static struct heir drive_elsewhere(void (*does)(int pause))
{
    n_pauses = 0;
    meanwhile = does;
    machine = MACHINE_NONE;
    drive(1);
    return (struct heir){.lock_fd = -1};
}

/* A driver that runs does this. Clocks of two machines may differ by years. */
static void touch(int pause)
{
    char path[128];
    struct timespec times[2] = {{.tv_sec = 1000 - pause},
                                {.tv_sec = 1000 - pause}};

    snprintf(path, sizeof(path), "%s/driver", dir);
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void do_nothing(int pause)
{
    (void)pause;
}

static void touch_for_a_while(int pause)
{
    if (pause < 30)
        touch(pause);
}

START_TEST(driver_elsewhere_is_waited_for_until_it_is_silent)
{
    struct heir heir = drive_elsewhere(touch_for_a_while);
    bool ended;

    ck_assert_int_eq(jobdir_await(dir, &heir, &ended), HVD_OK);
    ck_assert_int_ge(n_pauses, 30 + 19);
    ck_assert(heir.elsewhere);
    ck_assert(heir.may_live);
    ck_assert_uint_eq(heir.term, 2);
    heir_fini(&heir);
}
END_TEST

/* A process of this machine has its lock: it is the kernel that says so. */
static pid_t locker;

static void unlock(int pause)
{
    touch(pause);
    if (pause != 3)
        return;
    kill(locker, SIGKILL);
    ck_assert_int_eq(waitpid(locker, NULL, 0), locker);
}

static void lock_elsewhere(void)
{
    int ready[2];
    char byte;

    ck_assert_int_eq(pipe(ready), 0);
    locker = fork();
    if (locker == 0) {
        int fd = -1;

        jobdir_keep_lock(dir, 1, &fd);
        if (fd >= 0 && write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
}

START_TEST(driver_elsewhere_whose_lock_is_free_has_ended)
{
    struct heir heir = drive_elsewhere(unlock);
    bool ended;

    lock_elsewhere();
    ck_assert_int_eq(jobdir_await(dir, &heir, &ended), HVD_OK);
    ck_assert_int_eq(n_pauses, 4);
    ck_assert(!heir.may_live);
    heir_fini(&heir);
}
END_TEST

static void remove_lock(int pause)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/lock.1", dir);
    if (pause == 3)
        ck_assert_int_eq(unlink(path), 0);
    touch_for_a_while(pause);
}

START_TEST(driver_elsewhere_whose_lock_was_removed_has_not_ended)
{
    struct heir heir = drive_elsewhere(remove_lock);
    bool ended;

    lock_elsewhere();
    ck_assert_int_eq(jobdir_await(dir, &heir, &ended), HVD_OK);
    ck_assert_int_ge(n_pauses, 30 + 19);
    kill(locker, SIGKILL);
    ck_assert_int_eq(waitpid(locker, NULL, 0), locker);
    heir_fini(&heir);
}
END_TEST

START_TEST(driver_elsewhere_that_lives_is_not_replaced_by_resume)
{
    struct heir heir = drive_elsewhere(touch);

    ck_assert_int_eq(jobdir_inherit(dir, false, &heir), HVD_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(error_text(), "lives, process 1 on another"));
    ck_assert_int_eq(jobdir_inherit(dir, true, &heir), HVD_OK);
    heir_fini(&heir);
}
END_TEST

START_TEST(driver_elsewhere_that_is_silent_is_replaced_by_resume)
{
    struct heir heir = drive_elsewhere(do_nothing);

    ck_assert_int_eq(jobdir_inherit(dir, false, &heir), HVD_OK);
    ck_assert(heir.may_live);
    heir_fini(&heir);
}
END_TEST

/* This machine may have another process with the number. */
START_TEST(nobody_elsewhere_is_known_by_a_number)
{
    struct memory m = {0};
    struct entry host = {.type = ENTRY_HOST};
    struct entry worker = {.type = ENTRY_WORKER};

    strcpy(host.u.host.name, "a");
    host.u.host.agent = 7;
    host.u.host.pid = getpid();
    host.u.host.started = 1;
    worker.u.worker = (struct entry_worker){
        .worker = 1, .host = "a", .agent = 7, .pid = getpid(), .started = 1};
    ck_assert(memory_fold(&m, &host) && memory_fold(&m, &worker));
    ck_assert(memory_all_see_dir(&m)); /* it is not far */
    memory_move_away(&m);
    ck_assert_int_eq(m.hosts[0].pid, ENTRY_FAR);
    ck_assert_uint_eq(m.hosts[0].started, 0);
    ck_assert_uint_eq(m.workers[0].started, 0);
    ck_assert(memory_all_see_dir(&m)); /* it was started with it */
    m.hosts[0].sees_dir = false;
    ck_assert(!memory_all_see_dir(&m));
    memory_fini(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jobdir");
    TCase *tc = tcase_create("jobdir");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, standby_takes_the_next_term);
    tcase_add_loop_test(tc, standby_that_was_overtaken_stands_by_again,
                        LOOK_WHO_LEADS, LOOK_COUNT);
    tcase_add_loop_test(tc,
                        resume_that_was_overtaken_is_refused_with_that_sentence,
                        LOOK_WHO_LEADS, LOOK_COUNT);
    tcase_add_test(tc, standby_without_a_journal_is_refused);
    tcase_add_test(tc, driver_elsewhere_is_waited_for_until_it_is_silent);
    tcase_add_test(tc, driver_elsewhere_whose_lock_is_free_has_ended);
    tcase_add_test(tc, driver_elsewhere_whose_lock_was_removed_has_not_ended);
    tcase_add_test(tc, driver_elsewhere_that_lives_is_not_replaced_by_resume);
    tcase_add_test(tc, driver_elsewhere_that_is_silent_is_replaced_by_resume);
    tcase_add_test(tc, nobody_elsewhere_is_known_by_a_number);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
