/* tests/collectives/test_silence.c - when a peer is given up because nothing
 * comes from it: the judgement by tables, and a peer that is merely stopped. */
#include "base/array.h"
#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "group.h"

enum { T = 1000, GAP = 200 }; /* timeout, and between two looks */

/* From `start` on nothing is heard: how long until it is lost, looked at each
 * GAP? 0: not within ten times the timeout. */
static uint64_t lost_after(struct heard h, uint64_t start)
{
    struct silence s = {0};
    uint64_t silent_us;

    for (uint64_t now = start; now < start + 10 * T; now += GAP)
        if (silence_judge(&s, &h, T, now, &silent_us) == SILENCE_LOST)
            return now - start;
    return 0;
}

/* Acknowledgements of small packets come all the time, and `grows` more of what
 * was sent is acknowledged by each look: how long until it is stuck? 0: not
 * within ten times the timeout. */
static uint64_t stuck_after(struct heard h, uint64_t grows, uint64_t start)
{
    struct silence s = {0};
    uint64_t silent_us;

    for (uint64_t now = start; now < start + 10 * T; now += GAP) {
        h.heard_us = h.sent_us = now;
        h.acknowledged += grows;
        if (silence_judge(&s, &h, T, now, &silent_us) == SILENCE_STUCK)
            return silent_us;
    }
    return 0;
}

START_TEST(large_packets_that_are_lost_are_stuck)
{
    struct heard h = {.in_flight = true, .acknowledged = 4711, .resent = 4};

    ck_assert_uint_eq(stuck_after(h, 0, 5000), T);
    ck_assert_uint_eq(stuck_after(h, 1, 5000), 0);
    h.resent = 3; /* a network that loses some */
    ck_assert_uint_eq(stuck_after(h, 0, 5000), 0);
    h.resent = 4;
    h.in_flight = false;
    ck_assert_uint_eq(stuck_after(h, 0, 5000), 0);
}
END_TEST

START_TEST(unanswered_is_lost_after_the_timeout)
{
    struct heard h = {.heard_us = 4900, .sent_us = 5000, .in_flight = true};

    ck_assert_uint_eq(lost_after(h, 5000), T);
    h.heard_us = 100; /* nobody waited then: that was no silence */
    ck_assert_uint_eq(lost_after(h, 5000), T);
    h.rtt_us = GAP; /* and back */
    ck_assert_uint_eq(lost_after(h, 5000), T + 2 * GAP);
}
END_TEST

START_TEST(window_probe_or_keepalive_unanswered_is_lost)
{
    struct heard h = {.heard_us = 4900, .unsent = true, .probed = true};

    ck_assert_uint_eq(lost_after(h, 5000), T);
}
END_TEST

/* It is full, and has answered each probe: it computes, or is stopped. */
START_TEST(full_but_answering_is_waited_for)
{
    struct heard h = {.heard_us = 4900, .unsent = true};

    ck_assert_uint_eq(lost_after(h, 5000), 0);
    h.in_flight = true; /* sent and heard within one tick of the clock */
    h.sent_us = h.heard_us;
    ck_assert_uint_eq(lost_after(h, 5000), 0);
}
END_TEST

START_TEST(question_is_under_way_for_half_of_it)
{
    struct heard h = {.heard_us = 5000, .unsent = true};
    struct silence s = {0};
    uint64_t silent_us, now = 5000;

    for (; now < 5000 + 3 * T; now += GAP)
        ck_assert_int_eq(silence_judge(&s, &h, T, now, &silent_us),
                         SILENCE_FINE);
    h.probed = true;
    ck_assert_int_eq(silence_judge(&s, &h, T, now, &silent_us), SILENCE_FINE);
    ck_assert_int_eq(silence_judge(&s, &h, T, now + GAP, &silent_us),
                     SILENCE_FINE);
    ck_assert_int_eq(silence_judge(&s, &h, T, now + T / 2, &silent_us),
                     SILENCE_LOST);
    ck_assert_uint_eq(silent_us, 3 * T + T / 2);
}
END_TEST

START_TEST(nothing_under_way_asks)
{
    struct heard h = {.heard_us = 1};
    struct silence s = {0};
    uint64_t silent_us;

    for (uint64_t now = 5000; now < 5000 + 3 * T; now += GAP)
        ck_assert_int_eq(silence_judge(&s, &h, T, now, &silent_us),
                         SILENCE_ASK);
}
END_TEST

/* This process did not run, or did not wait. */
START_TEST(gap_between_looks_begins_anew)
{
    struct heard h = {.heard_us = 4900, .sent_us = 5000, .in_flight = true};
    struct silence s = {0};
    uint64_t silent_us, now = 5000;

    for (; now < 5000 + T; now += GAP)
        ck_assert_int_eq(silence_judge(&s, &h, T, now, &silent_us),
                         SILENCE_FINE);
    now += 100 * T;
    for (uint64_t end = now + T; now < end; now += GAP)
        ck_assert_int_eq(silence_judge(&s, &h, T, now, &silent_us),
                         SILENCE_FINE);
    ck_assert_int_eq(silence_judge(&s, &h, T, now, &silent_us), SILENCE_LOST);
}
END_TEST

/* --- a comm --- */

static atomic_bool waited; /* rank 0 has, for long enough */

static bool late(struct group *g, int rank, void *arg)
{
    uint64_t begun_us = clock_now_us();
    size_t count = *(const size_t *)arg;
    int8_t *buf = calloc(count, 1);
    hvd_status_t status;

    EXPECT(buf != NULL);
    if (rank == 1) /* in user code, and its kernel answers */
        while (clock_now_us() - begun_us < 3 * g->silence_us)
            usleep(1000);
    status = allreduce(g->comms[rank], buf, buf, count, HVD_INT8, HVD_SUM);
    free(buf);
    EXPECT(status == HVD_OK);
    if (rank == 0)
        atomic_store(&waited, clock_now_us() - begun_us >= 2 * g->silence_us);
    return true;
}

static const size_t sizes[] = {1, 16 << 20}; /* the larger fills its queue */

START_TEST(peer_that_computes_is_waited_for)
{
    static const uint32_t hosts[] = {0, 1};
    size_t one = 1, count = sizes[_i];
    struct group g;

    group_init_hosts(&g, 2, hosts, 0, COMM_ORDINARY_MEASURED);
    g.silence_us = 1000000; /* an ACK alone may be delayed by 200 ms */
    for (int i = 0; i < 2; i++) {
        comm_destroy(g.comms[i]);
        group_comm_create(&g, i);
    }
    group_run(&g, late, &one); /* not greeted, then connected */
    ck_assert(atomic_load(&waited));
    group_run(&g, late, &count);
    ck_assert(atomic_load(&waited));
    ck_assert_uint_ne(comm_link(g.comms[0], CHANNEL_DATA, 1)->silence.looked_us,
                      0);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("silence");
    TCase *tc = tcase_create("silence");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, large_packets_that_are_lost_are_stuck);
    tcase_add_test(tc, unanswered_is_lost_after_the_timeout);
    tcase_add_test(tc, window_probe_or_keepalive_unanswered_is_lost);
    tcase_add_test(tc, full_but_answering_is_waited_for);
    tcase_add_test(tc, question_is_under_way_for_half_of_it);
    tcase_add_test(tc, nothing_under_way_asks);
    tcase_add_test(tc, gap_between_looks_begins_anew);
    tcase_add_loop_test(tc, peer_that_computes_is_waited_for, 0,
                        ARRAY_SIZE(sizes));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
