/* tests/collectives/test_ability.c - what a process finds that it can do, under
 * limits of its own: each case in a child. What a filter on system calls takes
 * away is tests/integration/test_limits.py's. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/aead.h"
#include "base/array.h"
#include "collectives/ability.h"
#include "group.h"

static const struct limit {
    int resource; /* -1: none */
    rlim_t value;
    bool undumpable, unshared;
    unsigned want;
} limits[] = {
    {-1, 0, false, false, COMM_CAN_ALL},
    {RLIMIT_FSIZE, 0, false, false, COMM_CAN_ALL & ~COMM_CAN_SHARE},
    {RLIMIT_FSIZE, 32 << 20, false, false, COMM_CAN_ALL & ~COMM_CAN_SHARE},
    {-1, 0, false, true, COMM_CAN_ALL & ~COMM_CAN_SHARE},
    {-1, 0, true, false, COMM_CAN_ALL & ~COMM_CAN_ATTACH},
};

static struct endpoint *make_endpoint(void)
{
    struct endpoint_config config = {"127.0.0.1", GROUP_JOB, 100, 10000000,
                                     GROUP_JOB_KEY};
    struct endpoint *endpoint;

    ck_assert_int_eq(endpoint_create(&config, &endpoint), HVD_OK);
    return endpoint;
}

/* What this processor has of it. */
static unsigned here(unsigned abilities)
{
    return aead_has_aes() ? abilities : abilities & ~(unsigned)COMM_CAN_AES;
}

static int under(const void *arg)
{
    const struct limit *limit = arg;
    struct endpoint *endpoint = make_endpoint();
    struct rlimit r = {limit->value, limit->value};
    void *ptr = NULL;
    unsigned got;
    int null = open("/dev/null", O_WRONLY);

    dup2(null, STDERR_FILENO); /* it may be a file: limited as well */
    if (limit->resource >= 0 &&
        setrlimit((__rlimit_resource_t)limit->resource, &r) != 0)
        return 100;
    if (limit->undumpable)
        prctl(PR_SET_DUMPABLE, 0);
    got = ability_probe(endpoint, !limit->unshared);
    /* there is memory all the same */
    if ((ptr = hvd_alloc(10 << 20)) == NULL)
        return 101;
    memset(ptr, 1, 10 << 20);
    return got == here(limit->want) ? 0 : 1 + (int)got;
}

START_TEST(process_under_limit_finds_what_it_can)
{
    int status = support_in_child(under, &limits[_i]);

    ck_assert_msg(status == 0, "wait status %x", (unsigned)status);
}
END_TEST

/* The program sets a limit, or becomes another, while it trains. */
static int gone_after(const void *arg)
{
    const struct limit *limit = arg;
    struct rlimit r = {limit->value, limit->value};
    struct endpoint *endpoint = make_endpoint();

    if (ability_probe(endpoint, true) != here(COMM_CAN_ALL) ||
        ability_gone() != 0)
        return 1;
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    if (limit->resource >= 0
            ? setrlimit((__rlimit_resource_t)limit->resource, &r) != 0
            : setuid(65534) != 0)
        return 2;
    if (ability_gone() != limit->want)
        return 3;
    return ability_gone() == 0 ? 0 : 4; /* it was said */
}

static const struct limit later[] = {
    {RLIMIT_FSIZE, 0, .want = COMM_CAN_SHARE},
    {RLIMIT_FSIZE, 16 << 10, .want = COMM_CAN_SHARE}, /* less than a mailbox */
    {RLIMIT_NOFILE, 3, .want = 0},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    {RLIMIT_AS, 1 << 20, .want = COMM_CAN_SHARE},
#endif
    {RLIMIT_FSIZE, 1 << 30, .want = 0},
    {-1, 0, .want = COMM_CAN_SHARE},
};

START_TEST(ability_that_goes_later_is_told_once)
{
    int status;

    if (later[_i].resource < 0 && geteuid() != 0)
        return; /* nobody but root becomes another */
    status = support_in_child(gone_after, &later[_i]);
    ck_assert_msg(status == 0, "wait status %x", (unsigned)status);
}
END_TEST

/* It was told that all can, and cannot. */
static int create_under_limit(const void *ignored)
{
    struct comm_peer peers[2] = {
        {.worker = 100, .abilities = COMM_CAN_ALL, .addresses = "127.0.0.1"},
        {.worker = 101, .abilities = COMM_CAN_ALL, .addresses = "127.0.0.1"}};
    struct comm_config config = {.endpoint = make_endpoint(),
                                 .job = GROUP_JOB,
                                 .generation = 1,
                                 .size = 2,
                                 .peers = peers};
    struct rlimit none = {0, 0};
    int before = count_fds();
    struct comm *comm;

    if (setrlimit(RLIMIT_FSIZE, &none) != 0)
        return 2;
    if (comm_create(&config, &comm) != HVD_ERR_SYSTEM)
        return 3;
    if (strstr(error_text(), "shared memory of this rank: ") == NULL)
        return 4;
    return count_fds() == before ? 0 : 5;
}

START_TEST(rank_without_the_memory_it_has_promised_fails)
{
    int status = support_in_child(create_under_limit, NULL);

    ck_assert_msg(status == 0, "wait status %x", (unsigned)status);
}
END_TEST

/* --- ranks of a host that were told that they cannot share --- */

static bool sum(struct group *g, int rank, void *arg)
{
    float x[1000];

    (void)arg;
    for (int i = 0; i < 1000; i++)
        x[i] = (float)(rank + i);
    EXPECT(allreduce(g->comms[rank], x, x, 1000, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    for (int i = 0; i < 1000; i++)
        EXPECT(x[i] == (float)(3 + 3 * i));
    return true;
}

START_TEST(ranks_with_fewer_abilities_right_result)
{
    struct group g;

    group_init_over(&g, 3, (unsigned)_i, COMM_ORDINARY_ATTACHED);
    group_run(&g, sum, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ability");
    TCase *tc = tcase_create("ability");

    tcase_add_loop_test(tc, process_under_limit_finds_what_it_can, 0,
                        (int)ARRAY_SIZE(limits));
    tcase_add_loop_test(tc, ability_that_goes_later_is_told_once, 0,
                        (int)ARRAY_SIZE(later));
    tcase_add_test(tc, rank_without_the_memory_it_has_promised_fails);
    tcase_add_loop_test(tc, ranks_with_fewer_abilities_right_result, 0,
                        COMM_CAN_ALL + 1);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
