/* tests/driver/test_core_nonsense.c - whatever hosts, agents and workers say,
 * in whatever order: the driver's core asserts nothing about them, its counters
 * stay those of its rows (the fixture looks after each event), and it can
 * always be brought to its end. What sense it makes of it: the other files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/random.h"
#include "driver/fixture.h"

enum {
#if defined(__SANITIZE_ADDRESS__)
    SEEDS = 20, /* ten times as slow */
#else
    SEEDS = 60,
#endif
    EVENTS = 600
};

static struct random_state dice;

static uint64_t below(uint64_t n)
{
    return random_below(&dice, n);
}

static const char *some_hosts(void)
{
    static const char *const lists[] = {"a:2 b:2",     "a:2", "b:1 c:3",
                                        "a:1 b:1 c:1", "",    "c:2 a:4"};

    return lists[below(ARRAY_SIZE(lists))];
}

static uint64_t about(uint64_t value)
{
    uint64_t n = value + below(3);

    return below(8) ? value : n > 0 ? n - 1 : 0;
}

static void say_ready(const struct driver *d, const struct driver_worker *w,
                      struct msg_ready *ready)
{
    ready->kind = below(2000) ? READY_ELASTIC : READY_STATIC;
    ready->reason = (uint8_t)below(4);
    ready->fence = about(w ? w->named : 0);
    ready->layout[0] = below(2000) == 0;
    if (w && (w->joined > 0 || below(20) == 0))
        ready->id = (struct state_id){about(d->generation), below(4)};
}

static void say_lost(const struct driver *d, struct msg_lost *lost)
{
    lost->generation = about(d->generation);
    lost->mismatch = below(500) == 0;
    lost->n_accused = (uint32_t)below(4);
    for (uint32_t i = 0; i < lost->n_accused; i++)
        lost->accused[i] = (uint32_t)below(9);
}

static void say_ping(const struct driver *d, struct msg_ping *ping)
{
    ping->phase = (uint8_t)below(7);
    ping->busy_ms = below(9) ? 0 : below(5000);
    ping->generation = about(d->generation);
    ping->fence = about(d->generation);
    if (d->generation > 0)
        ping->id = (struct state_id){about(d->generation), below(4)};
    ping->held = below(2);
    ping->cut = below(2);
    ping->hold_sequence = about(d->hold_sequence);
    ping->boundary = below(5);
}

static struct message some_message(const struct driver *d)
{
    static const enum message_type types[] = {
        MSG_READY, MSG_READY, MSG_READY, MSG_READY, MSG_READY,
        MSG_HELD,  MSG_HELD,  MSG_PING,  MSG_PING,  MSG_DONE,
        MSG_LOST,  MSG_HELLO, MSG_PONG,  MSG_REPORT};
    struct message m = {.type = types[below(ARRAY_SIZE(types))],
                        .job = FIXTURE_JOB,
                        .worker = below(d->next_worker + 1)};
    bool recent = below(3) && d->next_worker > 6;

    if (recent)
        m.worker = d->next_worker - 1 - below(6);
    if (below(400) == 0)
        m.type = below(4) ? MSG_DRAIN_ME : MSG_LEAVING;
    if (m.type == MSG_READY)
        say_ready(d, driver_worker(d, m.worker), &m.u.ready);
    else if (m.type == MSG_LOST)
        say_lost(d, &m.u.lost);
    else if (m.type == MSG_PING)
        say_ping(d, &m.u.ping);
    else if (m.type == MSG_HELD)
        m.u.held = (struct msg_held){about(d->generation),
                                     about(d->hold_sequence), below(9),
                                     below(8) == 0};
    else if (m.type == MSG_DONE)
        m.u.done = (struct msg_done){about(d->generation),
                                     {about(d->generation), below(2)}};
    else if (m.type == MSG_REPORT)
        m.u.report = (struct msg_report){
            .generation = about(d->generation),
            .what = (uint8_t)(1 + below(REPORT_FIRST_COMMIT))};
    return m;
}

static void someone_exits(struct fixture *f, uint64_t ms)
{
    char name[24];

    snprintf(name, sizeof(name), "w%" PRIu64, 1 + below(f->driver.next_worker));
    at(f, ms, below(2) ? killed(name) : exited(name, (int)below(2)));
}

static void something_happens(struct fixture *f, uint64_t ms)
{
    uint64_t what = below(100);
    struct message m;

    if (what < 88) {
        m = some_message(&f->driver);
        at_raw(f, ms, &m);
    } else if (what < 91) {
        someone_exits(f, ms);
    } else if (what < 93) {
        at(f, ms, hosts(some_hosts()));
    } else if (what < 94 && below(3) == 0 && f->driver.n_hosts > 0) {
        at(f, ms, agent_gone(f->driver.hosts[below(f->driver.n_hosts)].name));
    } else {
        pass(f, ms + 100 * below(8));
    }
}

static void everybody_exits(struct fixture *f)
{
    char name[24];

    for (uint64_t id = 1; id < f->driver.next_worker; id++) {
        snprintf(name, sizeof(name), "w%" PRIu64, id);
        if (worker(f, name))
            at(f, f->now_us / 1000, killed(name));
    }
}

START_TEST(core_any_events_no_assertion_and_an_end)
{
    const struct fixture_options options = {
        .np = 2 + (uint32_t)_i % 2,
        .min_np = 1 + (uint32_t)_i % 2,
        .max_np = _i % 3 ? 3 : 0,
        .slot_restarts = 1 + (uint32_t)_i % 30,
        .strict_blacklist = _i % 7 == 0,
        .cooldown_low_ms = 100,
        .cooldown_high_ms = _i % 2 ? 1000 : 0,
        .elastic_ms = 200000,
        .drain_ms = 1000,
    };
    struct fixture *f = fixture_new(&options);

    dice.s = (uint64_t)_i + 1;
    at(f, 0, hosts(some_hosts()));
    for (int i = 0; i < EVENTS && f->driver.phase != DRIVER_STOPPED; i++) {
        something_happens(f, f->now_us / 1000 + below(50));
        forget(f);
    }
    at(f, f->now_us / 1000, interrupted(2));
    at(f, f->now_us / 1000, interrupted(2));
    if (below(2))
        everybody_exits(f);
    pass(f, f->now_us / 1000 + 20000); /* and 15 s, if the next tick is late */
    ck_assert_int_eq(f->driver.phase, DRIVER_STOPPED);
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_nonsense");
    TCase *tcase = tcase_create("core_nonsense");

    tcase_add_loop_test(tcase, core_any_events_no_assertion_and_an_end, 0,
                        SEEDS);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
