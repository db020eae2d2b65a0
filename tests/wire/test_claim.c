/* tests/wire/test_claim.c - a child asks for descriptors that it lacks. */
#include "elastic/wire/claim.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mac.h"
#include "support.h"

static char name[CLAIM_NAME_MAX];
static int listener;

static void setup(void)
{
    ck_assert_int_eq(mac_init(), HVD_OK);
    ck_assert_int_eq(claim_listen(name, &listener), HVD_OK);
}

static void teardown(void)
{
    close(listener);
}

static bool await_claim(struct claim *c)
{
    struct pollfd fd = {.fd = listener, .events = POLLIN};

    ck_assert_int_eq(poll(&fd, 1, 20000), 1);
    return claim_receive(listener, c);
}

/* In the child: nothing of Check's. */
static _Noreturn void ask_and_exit(enum claim_verdict wanted)
{
    enum claim_verdict verdict;
    int fds[PASSED_MAX], status = 1;
    char got[8] = "";

    if (claim_ask(name, 7, &verdict, fds) == HVD_OK && verdict == wanted)
        status = 0;
    if (wanted == CLAIM_GRANTED &&
        (read(fds[PASSED_SECRET], got, sizeof(got)) != 6 ||
         strcmp(got, "seven") != 0 || fds[PASSED_LIFELINE] >= 0 ||
         fcntl(fds[PASSED_SECRET], F_GETFD) != FD_CLOEXEC))
        status = 2;
    _exit(status);
}

static pid_t ask_in_a_child(enum claim_verdict wanted)
{
    pid_t pid = fork();

    if (pid == 0)
        ask_and_exit(wanted);
    ck_assert_int_gt(pid, 0);
    return pid;
}

START_TEST(claim_is_answered_as_the_agent_says)
{
    enum claim_verdict verdict = (enum claim_verdict)_i;
    pid_t pid = ask_in_a_child(verdict);
    int pipe_fds[2], status;
    struct claim c;

    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    ck_assert_int_eq(write(pipe_fds[1], "seven", 6), 6);
    ck_assert(await_claim(&c));
    ck_assert_uint_eq(c.worker, 7);
    ck_assert_int_eq(c.pid, pid);
    ck_assert_uint_eq(c.uid, getuid());
    ck_assert(!c.tells);
    claim_answer(listener, &c, verdict, (const int[]){pipe_fds[0], -1, -1});
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert(!claim_receive(listener, &c));
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}
END_TEST

START_TEST(claim_that_tells_wants_no_answer)
{
    struct claim c;

    claim_tell(name, 9);
    ck_assert(await_claim(&c));
    ck_assert(c.tells);
    ck_assert_uint_eq(c.worker, 9);
    ck_assert_int_eq(c.pid, getpid());
}
END_TEST

START_TEST(claim_of_nobody_who_listens_is_an_error)
{
    enum claim_verdict verdict;
    int fds[PASSED_MAX];

    ck_assert_int_eq(claim_ask("hvd-agent-nowhere", 1, &verdict, fds),
                     HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(error_text(), "Connection refused"));
    claim_tell("hvd-agent-nowhere", 1);
}
END_TEST

/* From any process of the machine: other lengths and words, descriptors. */
START_TEST(claim_that_is_none_is_dropped)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct claim c;

    memcpy(sa.sun_path + 1, name, strlen(name));
    ck_assert_int_eq(
        connect(fd, (struct sockaddr *)&sa,
                (socklen_t)(sizeof(sa.sun_family) + 1 + strlen(name))),
        0);
    ck_assert_int_eq(send(fd, "", 0, 0), 0);
    ck_assert_int_eq(send(fd, "hvdasks", 8, 0), 8);
    ck_assert_int_eq(send(fd, "hvdnone\0\0\0\0\0\0\0\0", 16, 0), 16);
    for (int i = 0; i < 3; i++) {
        ck_assert(claim_receive(listener, &c));
        ck_assert_int_eq(c.pid, 0);
    }
    ck_assert(!claim_receive(listener, &c));
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("claim");
    TCase *tcase = tcase_create("claim");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, claim_is_answered_as_the_agent_says,
                        CLAIM_GRANTED, CLAIM_STRANGER + 1);
    tcase_add_test(tcase, claim_that_tells_wants_no_answer);
    tcase_add_test(tcase, claim_of_nobody_who_listens_is_an_error);
    tcase_add_test(tcase, claim_that_is_none_is_dropped);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
