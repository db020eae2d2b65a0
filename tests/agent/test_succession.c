/* tests/agent/test_succession.c - the real hvd-agent looks for a driver, in a
 * directory of its job. argv[1] is the program. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/proc.h"
#include "fake.h"
#include "support.h"

enum {
    UNHEARD = 6, /* HELLOs: more than make the driver silent */
    WAIT_MS = 30000
};

static const char *program;
static struct fake f;
static char dir[64];

static void setup(void)
{
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    strcpy(dir, "/tmp/test_succession_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];

    fake_shutdown(&f);
    fake_stop(&f);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static bool is_welcome(struct fake *fake, void *arg)
{
    return fake->n_unheard < 0 && fake->n_pings > 0;
}

/* The driver is slow; it is no other one for that. */
START_TEST(driver_that_is_named_is_not_dialled_again)
{
    fake_start_in(&f, program, dir, UNHEARD);
    fake_wait(&f, is_welcome, NULL);
    ck_assert_int_eq(f.n_routes, 1);
}
END_TEST

/* Takes connections, and says nothing. */
static int open_dead_end(char *endpoint, size_t max)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, n), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    snprintf(endpoint, max, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* Nothing is heard of the agent meanwhile. */
static void wait_for_visitor(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
}

static void wait_until_gone(int64_t pid)
{
    int ms = 0;

    for (; proc_started((pid_t)pid) != 0 && ms < WAIT_MS; ms += 10)
        poll(NULL, 0, 10);
    ck_assert_int_lt(ms, WAIT_MS);
}

/* What is printed while DIR/driver names one that has died, too, goes to who
 * comes after that. */
START_TEST(output_waits_for_a_driver_that_answers)
{
    char endpoint[64], script[256];
    int dead_end = open_dead_end(endpoint, sizeof(endpoint)), visitor;

    fake_start_in(&f, program, dir, 0);
    snprintf(script, sizeof(script),
             "until [ -e %s/go ]; do sleep 0.02; done; echo told", dir);
    fake_spawn_sh(&f, 1, script);
    fake_wait_spawned(&f, 1);
    f.mute = true;
    fake_show(&f, dir, endpoint, 2);
    wait_for_visitor(dead_end);
    visitor = accept(dead_end, NULL, NULL);
    snprintf(script, sizeof(script), "touch %s/go", dir);
    ck_assert_int_eq(system(script), 0);
    wait_until_gone(f.workers[1].spawned.pid);
    f.mute = false;
    f.term = 3;
    fake_show(&f, dir, NULL, 3);
    fake_wait_exited(&f, 1);
    fake_wait_text(&f, 1, "told\n");
    close(visitor);
    close(dead_end);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("agent: succession");
    TCase *tc = tcase_create("succession");

    program = argc > 1 ? argv[1] : "hvd-agent";
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, driver_that_is_named_is_not_dialled_again);
    tcase_add_test(tc, output_waits_for_a_driver_that_answers);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
