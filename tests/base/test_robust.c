/* tests/base/test_robust.c - a lock whose holder's end is seen at once: which
 * ends are seen, and which are not. */
#include "base/robust.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "support.h"

enum { PATIENCE_S = 30 };

static struct robust *robust; /* the watcher's */
static int fd;

static enum robust_state state(void)
{
    uint32_t word;
    int thread;

    return robust_look(robust, &word, &thread);
}

/* As the agent waits: for the word to be another one than it was. */
static void await_change(enum robust_state to)
{
    struct timespec patience = {.tv_sec = PATIENCE_S};
    enum robust_state is;
    uint32_t word;
    int thread;

    while ((is = robust_look(robust, &word, &thread)) != to)
        if (syscall(SYS_futex, robust_word(robust), FUTEX_WAIT, word, &patience,
                    NULL, 0) != 0)
            ck_assert_int_ne(errno, ETIMEDOUT);
}

static void *hold(void *arg)
{
    if (!robust_lock(arg))
        _exit(1);
    return NULL; /* without unlocking it */
}

static void *hold_for_ever(void *arg)
{
    hold(arg);
    while (arg)
        pause();
    return NULL;
}

static void *hold_for_a_while(void *arg)
{
    hold(arg);
    robust_unlock(arg);
    return NULL;
}

/* A process with a thread that runs `main`; with_rest: what its first thread
 * does once that thread has begun. */
static pid_t start(void *(*main)(void *), void (*with_rest)(pthread_t))
{
    pthread_t thread;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (pthread_create(&thread, NULL, main, robust_attach(fd)) != 0)
        _exit(1);
    with_rest(thread);
    while (1)
        pause();
}

static void nothing(pthread_t thread)
{
    (void)thread;
}

static void setup(void)
{
    ck_assert_int_eq(robust_create(&robust, &fd), HVD_OK);
}

static void teardown(void)
{
    robust_detach(robust);
    close(fd);
}

static void end(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(kill_is_seen)
{
    pid_t pid;

    ck_assert_int_eq(state(), ROBUST_FREE);
    pid = start(hold_for_ever, nothing);
    await_change(ROBUST_HELD);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    await_change(ROBUST_DIED);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(state(), ROBUST_DIED);
}
END_TEST

START_TEST(end_of_the_thread_alone_is_seen)
{
    pid_t pid = start(hold, nothing);

    await_change(ROBUST_DIED);
    end(pid);
}
END_TEST

static void run_another_program(pthread_t thread)
{
    (void)thread;
    while (state() != ROBUST_HELD)
        usleep(1000);
    execl("/bin/sleep", "sleep", "1000", NULL);
}

START_TEST(another_program_is_seen)
{
    pid_t pid = start(hold_for_ever, run_another_program);

    await_change(ROBUST_DIED);
    end(pid);
}
END_TEST

/* A child has neither the lock nor the memory that it is in. */
static void have_a_child(pthread_t thread)
{
    (void)thread;
    while (state() != ROBUST_HELD)
        usleep(1000);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    kill(getpid(), SIGSTOP);
}

START_TEST(childs_end_is_not_seen)
{
    pid_t pid = start(hold_for_ever, have_a_child);
    int status;

    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    ck_assert_int_eq(state(), ROBUST_HELD);
    end(pid);
    ck_assert_int_eq(state(), ROBUST_DIED);
}
END_TEST

static void join_and_exit(pthread_t thread)
{
    pthread_join(thread, NULL);
    _exit(0);
}

START_TEST(orderly_end_is_none)
{
    pid_t pid = start(hold_for_a_while, join_and_exit);

    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(state(), ROBUST_FREE);
}
END_TEST

START_TEST(second_holder_is_refused)
{
    pid_t pid = start(hold_for_ever, nothing);
    struct robust *own = robust_attach(fd);

    await_change(ROBUST_HELD);
    ck_assert(!robust_lock(own));
    robust_detach(own);
    ck_assert_int_eq(state(), ROBUST_HELD);
    end(pid);
    ck_assert_int_eq(state(), ROBUST_DIED);
}
END_TEST

/* As with vm.memfd_noexec, which seals each file: Linux 6.3. */
START_TEST(lock_is_one_whatever_else_is_sealed)
{
    enum { NOEXEC_SEAL = 8 };
    int sealed = memfd_create("sealed", MFD_ALLOW_SEALING | NOEXEC_SEAL);
    struct robust *other;
    char page[4096];
    ssize_t n = pread(fd, page, sizeof(page), 0);

    if (sealed < 0)
        return;
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(write(sealed, page, (size_t)n), n);
    ck_assert_int_eq(fcntl(sealed, F_ADD_SEALS, fcntl(fd, F_GET_SEALS)), 0);
    other = robust_attach(sealed);
    ck_assert_ptr_nonnull(other);
    robust_detach(other);
    close(sealed);
}
END_TEST

/* A program has closed the descriptor, and its number is another file's. */
START_TEST(another_file_is_left_alone)
{
    char path[] = "/tmp/hvd-robust-XXXXXX", bytes[64] = "", after[64];
    int other = mkstemp(path), memory = memfd_create("x", MFD_ALLOW_SEALING);

    unlink(path);
    ck_assert_int_eq(write(other, bytes, sizeof(bytes)), sizeof(bytes));
    ck_assert_int_eq(write(memory, bytes, sizeof(bytes)), sizeof(bytes));
    ck_assert_ptr_null(robust_attach(other));
    ck_assert_ptr_null(robust_attach(memory));
    ck_assert_int_eq(
        fcntl(memory, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW),
        0);
    ck_assert_ptr_null(robust_attach(memory));
    ck_assert_ptr_null(robust_attach(-1));
    ck_assert_int_eq(pread(memory, after, sizeof(after), 0), sizeof(after));
    ck_assert_mem_eq(after, bytes, sizeof(bytes));
    close(other);
    close(memory);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("robust");
    TCase *tc = tcase_create("robust");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, kill_is_seen);
    tcase_add_test(tc, end_of_the_thread_alone_is_seen);
    tcase_add_test(tc, another_program_is_seen);
    tcase_add_test(tc, childs_end_is_not_seen);
    tcase_add_test(tc, orderly_end_is_none);
    tcase_add_test(tc, second_holder_is_refused);
    tcase_add_test(tc, lock_is_one_whatever_else_is_sealed);
    tcase_add_test(tc, another_file_is_left_alone);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
