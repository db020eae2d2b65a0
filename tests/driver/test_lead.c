/* tests/driver/test_lead.c - whether a driver leads its job still, when its
 * directory is gone. */
#include "elastic/driver/lead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stall.h"
#include "journal_samples.h"
#include "support.h"

enum {
    EVERY_US = 100000,
    LOOKS = 50 /* on a busy machine a look may be without an answer */
};

static char dir[64];
static struct lead lead;
static struct launch launch;
static struct launched agent;
static uint64_t now_us;

static void remove_dir(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void setup(void)
{
    struct beacon own = {.job = journal_samples[0].u.job.job,
                         .term = 1,
                         .pid = getpid(),
                         .endpoint = "tcp://127.0.0.1:1",
                         .output_endpoint = "tcp://127.0.0.1:2"};
    struct memory m = {0};

    strcpy(dir, "/tmp/test_lead_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    agent = (struct launched){.pidfd = eventfd(0, EFD_CLOEXEC)};
    launch = (struct launch){.items = &agent, .n = 1};
    ck_assert(memory_fold(&m, &journal_samples[0]));
    ck_assert_int_eq(lead_open(&lead, dir, &m, &own, &launch, EVERY_US),
                     HVD_OK);
    now_us = clock_now_us();
}

static void teardown(void)
{
    lead_close(&lead);
    close(agent.pidfd);
    remove_dir();
}

static void end_agent(void)
{
    ck_assert_int_eq(eventfd_write(agent.pidfd, 1), 0);
}

static bool look_after(uint64_t us)
{
    now_us += us;
    return lead_look(&lead, now_us);
}

START_TEST(lead_of_a_dir_that_was_removed_ends_its_own_job)
{
    ck_assert(look_after(EVERY_US));
    remove_dir();
    ck_assert(look_after(EVERY_US));
    end_agent();
    for (int i = 0; i < 3; i++)
        ck_assert(look_after(EVERY_US));
    ck_assert(!lead.replaced);
}
END_TEST

START_TEST(lead_that_stood_still_while_all_ended_is_replaced)
{
    ck_assert(look_after(EVERY_US));
    remove_dir();
    end_agent();
    now_us += STALL_US + 1;
    for (int i = 0; i < LOOKS && !lead.replaced; i++)
        look_after(EVERY_US);
    ck_assert(lead.replaced);
    ck_assert_ptr_nonnull(strstr(lead.sentence, "has ended without it"));
}
END_TEST

/* For less than the time between two looks. */
START_TEST(lead_whose_tick_was_late_is_replaced)
{
    ck_assert(look_after(EVERY_US));
    remove_dir();
    end_agent();
    for (int i = 0; i < LOOKS && !lead.replaced; i++)
        (void)lead_stood(&lead, ++now_us);
    ck_assert(lead.replaced);
}
END_TEST

START_TEST(lead_that_stood_still_with_agents_alive_goes_on)
{
    ck_assert(look_after(EVERY_US));
    remove_dir();
    ck_assert(look_after(10 * STALL_US));
    ck_assert(!lead.replaced);
}
END_TEST

START_TEST(lead_that_is_named_again_has_not_stood_still)
{
    ck_assert(look_after(10 * STALL_US));
    for (int i = 0; i < LOOKS && lead.stood; i++)
        ck_assert(look_after(EVERY_US));
    remove_dir();
    end_agent();
    ck_assert(look_after(EVERY_US));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lead");
    TCase *tcase = tcase_create("lead");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, lead_of_a_dir_that_was_removed_ends_its_own_job);
    tcase_add_test(tcase, lead_that_stood_still_while_all_ended_is_replaced);
    tcase_add_test(tcase, lead_whose_tick_was_late_is_replaced);
    tcase_add_test(tcase, lead_that_stood_still_with_agents_alive_goes_on);
    tcase_add_test(tcase, lead_that_is_named_again_has_not_stood_still);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
