/* tests/driver/test_network.c - who can reach whom, as transcripts: hosts a, b,
 * c ... are agents 1, 2, 3 ...; each has the addresses 10.0.0.X and 10.1.0.X
 * and one of a bridge that all have. What is done is written down as a word
 * each. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "elastic/driver/network.h"
#include "support.h"

static struct network network;
static uint64_t now_us, waited_us;
static size_t n_expected;
static char said[1024], refusal[WIRE_TEXT_MAX];

static void setup(void)
{
    network = (struct network){0};
    now_us = 1000000;
    n_expected = 0;
    refusal[0] = '\0';
}

static void teardown(void)
{
    network_fini(&network);
}

static struct interface item(const char *name, const char *address,
                             uint32_t mbps)
{
    struct interface i = {.prefix = 24, .mbps = mbps, .port = 4711};

    snprintf(i.name, sizeof(i.name), "%s", name);
    snprintf(i.address, sizeof(i.address), "%s", address);
    ck_assert(interface_set_network(&i));
    return i;
}

static size_t items_of(uint64_t agent, struct interface *items)
{
    char slow[32], fast[32];

    snprintf(slow, sizeof(slow), "10.0.0.%u", (unsigned)agent);
    snprintf(fast, sizeof(fast), "10.1.0.%u", (unsigned)agent);
    items[0] = item("eth0", slow, 1000);
    items[1] = item("ib0", fast, 100000);
    items[2] = item("docker0", "172.17.0.1", 0);
    items[2].bridge = true;
    return 3;
}

static void come(uint64_t agent)
{
    struct interface items[INTERFACES_MAX];
    char name[2] = {(char)('a' + agent - 1), '\0'};

    ck_assert(network_add(&network, agent, 100 + (int64_t)agent, name, items,
                          items_of(agent, items), now_us));
}

static void say(const struct network_action *a)
{
    size_t n = strlen(said);

    waited_us = a->wait_us;
    if (a->what == NETWORK_PROBE)
        snprintf(said + n, sizeof(said) - n, "%d->%d ", (int)a->agent,
                 (int)a->target);
    else
        snprintf(said + n, sizeof(said) - n, "%c%d ",
                 a->what == NETWORK_ADMIT ? '+' : '-', (int)a->agent);
    if (a->what == NETWORK_REFUSE)
        memcpy(refusal, a->text, sizeof(refusal));
}

static void expect(const char *what)
{
    struct network_action a;

    said[0] = '\0';
    while (network_next(&network, n_expected, now_us, &a))
        say(&a);
    ck_assert_str_eq(said, what);
    ck_assert_uint_gt(network_deadline(&network, now_us), now_us);
}

/* reached: a bit for each address. */
static void probed(uint64_t agent, uint64_t target, uint64_t reached)
{
    struct msg_probed m = {.target = target, .reached = reached};

    if (reached == 0)
        snprintf(m.text, sizeof(m.text), "10.0.0.%d:4711 Connection refused",
                 (int)target);
    network_probed(&network, agent, &m);
}

static void reach_each_other(uint64_t a, uint64_t b, uint64_t reached)
{
    probed(a, b, reached);
    probed(b, a, reached);
}

static void expect_addresses(uint64_t agent, const char *addresses)
{
    char text[WIRE_ADDRESS_MAX];

    network_addresses(&network, agent, text);
    ck_assert_str_eq(text, addresses);
}

START_TEST(network_two_that_reach_each_other_are_in)
{
    come(1);
    n_expected = 1;
    expect("");
    come(2);
    n_expected = 0;
    expect("1->2 2->1 ");
    ck_assert(network_holds(&network, 1) && network_holds(&network, 2));
    probed(1, 2, 1);
    expect("");
    probed(2, 1, 1);
    expect("+1 +2 ");
    ck_assert(!network_holds(&network, 1) && !network_holds(&network, 2));
    expect("");
}
END_TEST

START_TEST(network_one_that_is_alone_is_in_at_once)
{
    come(1);
    expect("+1 ");
    expect_addresses(1, "10.1.0.1,10.0.0.1,172.17.0.1");
}
END_TEST

START_TEST(network_the_first_waits_for_a_second_that_does_not_come)
{
    come(1);
    n_expected = 1;
    expect("");
    ck_assert_uint_eq(network_deadline(&network, now_us),
                      now_us + NETWORK_ALONE_US);
    now_us += NETWORK_ALONE_US;
    expect("+1 ");
}
END_TEST

START_TEST(network_who_joins_is_probed_before_it_is_used)
{
    come(1);
    expect("+1 ");
    come(2);
    expect("2->1 1->2 ");
    reach_each_other(1, 2, 3);
    expect("+2 ");
}
END_TEST

/* One way is not enough. */
START_TEST(network_who_is_reached_and_reaches_nobody_is_refused)
{
    come(1);
    expect("+1 ");
    come(2);
    expect("2->1 1->2 ");
    probed(1, 2, 1);
    probed(2, 1, 0);
    expect("-2 ");
    ck_assert_str_eq(refusal, "host a cannot be reached from host b: "
                              "10.0.0.1:4711 Connection refused");
    ck_assert(!network_holds(&network, 2));
    come(2); /* after its rest */
    expect("2->1 1->2 ");
}
END_TEST

START_TEST(network_one_that_nobody_reaches_stops_nobody)
{
    come(1); /* the one */
    n_expected = 2;
    come(2);
    expect("1->2 2->1 ");
    come(3);
    expect("");
    reach_each_other(1, 2, 0);
    n_expected = 0;
    expect("1->3 3->1 ");
    reach_each_other(1, 3, 0);
    expect("2->3 3->2 ");
    reach_each_other(2, 3, 1);
    expect("+2 +3 -1 ");
}
END_TEST

START_TEST(network_two_that_do_not_reach_each_other_leave_the_older)
{
    come(1);
    come(2);
    expect("1->2 2->1 ");
    reach_each_other(1, 2, 0);
    expect("+1 -2 ");
}
END_TEST

START_TEST(network_others_are_tried_three_at_most)
{
    for (uint64_t agent = 1; agent <= 5; agent++)
        come(agent);
    expect("1->2 2->1 3->4 4->3 ");
    reach_each_other(1, 2, 1);
    reach_each_other(3, 4, 1);
    expect("+1 +2 +3 +4 5->1 1->5 ");
    probed(1, 5, 0);
    probed(5, 1, 1);
    expect("5->2 2->5 ");
    reach_each_other(2, 5, 0);
    expect("5->3 3->5 ");
    reach_each_other(3, 5, 0);
    expect("-5 ");
}
END_TEST

START_TEST(network_silence_is_asked_again_and_then_given_up)
{
    come(1);
    expect("+1 ");
    come(2);
    expect("2->1 1->2 ");
    probed(2, 1, 1);
    now_us += NETWORK_REPEAT_US;
    expect("1->2 ");
    now_us += NETWORK_TIMEOUT_US - NETWORK_REPEAT_US - 1;
    expect("1->2 ");
    now_us++;
    expect("-2 ");
    ck_assert_str_eq(refusal, "host b cannot be reached from host a: its agent "
                              "has not said anything");
}
END_TEST

/* What is not about the probe at hand says nothing. */
START_TEST(network_late_and_foreign_words_are_not_heard)
{
    come(1);
    expect("+1 ");
    come(2);
    expect("2->1 1->2 ");
    probed(1, 7, 1);
    probed(9, 1, 1);
    probed(2, 2, 1);
    probed(1, 2, ~UINT64_C(7)); /* addresses that it has not */
    probed(1, 2, 7);            /* the first word stands */
    probed(2, 1, 1);
    expect("-2 ");
}
END_TEST

START_TEST(network_end_of_the_other_is_nobodys_fault)
{
    come(1);
    expect("+1 ");
    come(2);
    expect("2->1 1->2 ");
    network_remove(&network, 1);
    expect("+2 ");
    network_remove(&network, 2);
    network_remove(&network, 2);
    come(3);
    expect("+3 ");
}
END_TEST

START_TEST(network_busy_one_is_waited_for)
{
    come(1);
    expect("+1 ");
    come(2);
    come(3);
    expect("2->1 1->2 ");
    reach_each_other(1, 2, 1);
    expect("+2 3->1 1->3 ");
}
END_TEST

START_TEST(network_one_that_runs_already_is_in)
{
    struct interface items[INTERFACES_MAX];

    ck_assert(network_add_running(&network, 1, 101, "a", items,
                                  items_of(1, items), now_us));
    expect("");
    ck_assert(!network_holds(&network, 1));
    come(2);
    expect("2->1 1->2 ");
}
END_TEST

static void three_are_in(void)
{
    come(1);
    come(2);
    expect("1->2 2->1 ");
    reach_each_other(1, 2, 1);
    expect("+1 +2 ");
    come(3);
    expect("3->1 1->3 ");
    reach_each_other(1, 3, 1);
    expect("+3 ");
}

/* They come before two that reach each other, and try them as well. */
START_TEST(network_some_that_nobody_reaches_stop_nobody)
{
    struct network_action a;

    for (uint64_t agent = 1; agent <= 7; agent++)
        come(agent);
    while (network_next(&network, 0, now_us, &a))
        if (a.what == NETWORK_PROBE)
            probed(a.agent, a.target, a.agent > 5 && a.target > 5);
        else
            ck_assert_int_eq(a.what,
                             a.agent > 5 ? NETWORK_ADMIT : NETWORK_REFUSE);
    ck_assert_uint_eq(network.n, 2);
    ck_assert_uint_eq(network.n_in, 2);
}
END_TEST

/* Each asks its question before the first is answered: the processor time of
 * it is the driver's. */
START_TEST(network_thousands_at_once)
{
    enum { N = 4096 };
    static struct {
        uint64_t agent, target;
    } asked[2 * N];
    struct network_action a;
    size_t n_asked = 0, n_in = 0;

    for (uint64_t agent = 1; agent <= N; agent++) {
        struct interface items[INTERFACES_MAX];

        ck_assert(network_add(&network, agent, 1, "h", items,
                              items_of(agent % 250 + 1, items), now_us));
        while (network_next(&network, 0, now_us, &a)) {
            asked[n_asked].agent = a.agent;
            asked[n_asked++].target = a.target;
        }
        if (agent == 1)
            n_in = 1, n_asked = 0; /* alone: ADMIT */
    }
    for (size_t i = 0; i < n_asked; i++) {
        probed(asked[i].agent, asked[i].target, 1);
        while (network_next(&network, 0, now_us, &a))
            if (a.what == NETWORK_ADMIT) {
                n_in++;
            } else {
                asked[n_asked].agent = a.agent;
                asked[n_asked++].target = a.target;
            }
    }
    ck_assert_uint_eq(n_in, N);
}
END_TEST

/* Only the other one is asked: any third would do well. */
START_TEST(network_in_doubt_has_to_reach_the_other)
{
    three_are_in();
    ck_assert(network_doubt(&network, 3, 2, 0, now_us));
    expect("3->2 2->3 ");
    reach_each_other(2, 3, 0);
    expect("-3 ");
    ck_assert_str_eq(refusal, "host b cannot be reached from host c: "
                              "10.0.0.2:4711 Connection refused");
    expect("");
    come(4); /* meanwhile */
    expect("4->1 1->4 ");
    reach_each_other(1, 4, 1);
    expect("+4 ");
    ck_assert(network_doubt(&network, 3, 2, 0, now_us)); /* asked again */
    expect("3->2 2->3 ");
    reach_each_other(2, 3, 1);
    expect("+3 ");
    expect_addresses(3, "10.0.0.3");
}
END_TEST

/* The next generation waits: the agents are asked for an answer within 2 s, and
 * one that is late says nothing of the two. */
START_TEST(network_doubt_under_a_limit)
{
    three_are_in();
    ck_assert(network_doubt(&network, 3, 2, 2000000, now_us));
    expect("3->2 2->3 ");
    reach_each_other(2, 3, 0);
    expect("-3 ");
    ck_assert(network_doubt(&network, 3, 2, 2000000, now_us));
    expect("3->2 2->3 ");
    now_us += 2000000 + NETWORK_SLACK_US;
    expect("+3 ");
}
END_TEST

/* Agent 3 has to reach agent 2. One of them says within the limit that the path
 * to the other loses large packets; the other one says nothing. */
static void expect_of_one_witness(uint64_t witness, uint64_t target,
                                  uint64_t reached, const char *what)
{
    struct msg_probed m = {.target = target,
                           .reached = reached,
                           .text = "10.0.0.9:4711 loses packets",
                           .loses = true};

    ck_assert(network_doubt(&network, 3, 2, 2000000, now_us));
    expect("3->2 2->3 ");
    network_probed(&network, witness, &m);
    now_us += 2000000 + NETWORK_SLACK_US;
    expect(what);
}

START_TEST(network_loss_of_large_packets_needs_one_witness)
{
    three_are_in();
    expect_of_one_witness(3, 2, 0, "-3 ");
    ck_assert_str_eq(refusal, "host b cannot be reached from host c: "
                              "10.0.0.9:4711 loses packets");
    expect_of_one_witness(2, 3, 0, "-3 ");
    ck_assert_str_eq(refusal, "host c cannot be reached from host b: "
                              "10.0.0.9:4711 loses packets");
    /* the witness reaches the other agent by another address */
    expect_of_one_witness(2, 3, 2, "+3 ");
}
END_TEST

/* An agent that hears a repeated PROBE first answers in time all the same. */
START_TEST(network_repeated_probe_ends_with_the_first)
{
    three_are_in();
    ck_assert(network_doubt(&network, 3, 2, 2000000, now_us));
    expect("3->2 2->3 ");
    ck_assert_uint_eq(waited_us, 2000000);
    now_us += NETWORK_REPEAT_US;
    expect("2->3 3->2 ");
    ck_assert_uint_eq(waited_us, 2000000 - NETWORK_REPEAT_US);
    now_us += NETWORK_REPEAT_US;
    expect("2->3 3->2 ");
    ck_assert_uint_eq(waited_us, NETWORK_WAIT_MIN_US);
}
END_TEST

START_TEST(network_doubt_ends_with_the_other)
{
    three_are_in();
    ck_assert(network_doubt(&network, 3, 2, 0, now_us));
    expect("3->2 2->3 ");
    network_remove(&network, 2);
    expect("3->1 1->3 ");
    reach_each_other(1, 3, 1);
    expect("+3 ");
    ck_assert(network_doubt(&network, 3, 2, 0, now_us));
    expect("+3 ");
}
END_TEST

/* It has workers, and its addresses are still known when it is asked again. */
START_TEST(network_in_doubt_is_not_forgotten_when_others_refuse_it)
{
    three_are_in();
    ck_assert(network_doubt(&network, 3, 2, 0, now_us));
    expect("3->2 2->3 ");
    network_remove(&network, 2);
    expect("3->1 1->3 ");
    reach_each_other(1, 3, 0);
    expect("-3 ");
    ck_assert(network_holds(&network, 3));
    expect("");
    ck_assert(network_doubt(&network, 3, 2, 0, now_us));
    expect("+3 ");
    expect_addresses(3, "10.0.0.3");
}
END_TEST

/* A probe that was under way is about another host. */
START_TEST(network_doubt_waits_for_what_is_under_way)
{
    three_are_in();
    come(4);
    expect("4->1 1->4 ");
    ck_assert(network_doubt(&network, 1, 2, 0, now_us));
    expect("");
    reach_each_other(1, 4, 1);
    expect("+4 1->2 2->1 ");
    reach_each_other(1, 2, 1);
    expect("+1 ");
}
END_TEST

START_TEST(network_of_loopback_has_no_doubts)
{
    ck_assert(network_doubt(&network, 3, 2, 0, now_us));
    expect("+3 ");
    expect_addresses(3, "");
}
END_TEST

/* ib0 is faster, but c has not been reached there: eth0 is what all have. */
START_TEST(network_addresses_that_all_have_come_first)
{
    come(1);
    come(2);
    expect("1->2 2->1 ");
    reach_each_other(1, 2, 3);
    expect("+1 +2 ");
    expect_addresses(1, "10.1.0.1,10.0.0.1");
    come(3);
    expect("3->1 1->3 ");
    reach_each_other(1, 3, 1);
    expect("+3 ");
    expect_addresses(1, "10.0.0.1,10.1.0.1");
    expect_addresses(3, "10.0.0.3");
    network_remove(&network, 3);
    expect_addresses(2, "10.1.0.2,10.0.0.2");
    expect_addresses(3, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("network");
    TCase *tcase = tcase_create("network");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, network_two_that_reach_each_other_are_in);
    tcase_add_test(tcase, network_one_that_is_alone_is_in_at_once);
    tcase_add_test(tcase,
                   network_the_first_waits_for_a_second_that_does_not_come);
    tcase_add_test(tcase, network_who_joins_is_probed_before_it_is_used);
    tcase_add_test(tcase, network_who_is_reached_and_reaches_nobody_is_refused);
    tcase_add_test(tcase, network_one_that_nobody_reaches_stops_nobody);
    tcase_add_test(tcase,
                   network_two_that_do_not_reach_each_other_leave_the_older);
    tcase_add_test(tcase, network_others_are_tried_three_at_most);
    tcase_add_test(tcase, network_silence_is_asked_again_and_then_given_up);
    tcase_add_test(tcase, network_late_and_foreign_words_are_not_heard);
    tcase_add_test(tcase, network_end_of_the_other_is_nobodys_fault);
    tcase_add_test(tcase, network_busy_one_is_waited_for);
    tcase_add_test(tcase, network_one_that_runs_already_is_in);
    tcase_add_test(tcase, network_some_that_nobody_reaches_stop_nobody);
    tcase_add_test(tcase, network_thousands_at_once);
    tcase_add_test(tcase, network_in_doubt_has_to_reach_the_other);
    tcase_add_test(tcase, network_doubt_under_a_limit);
    tcase_add_test(tcase, network_loss_of_large_packets_needs_one_witness);
    tcase_add_test(tcase, network_repeated_probe_ends_with_the_first);
    tcase_add_test(tcase, network_doubt_ends_with_the_other);
    tcase_add_test(tcase,
                   network_in_doubt_is_not_forgotten_when_others_refuse_it);
    tcase_add_test(tcase, network_doubt_waits_for_what_is_under_way);
    tcase_add_test(tcase, network_of_loopback_has_no_doubts);
    tcase_add_test(tcase, network_addresses_that_all_have_come_first);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
