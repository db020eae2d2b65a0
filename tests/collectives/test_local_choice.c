/* tests/collectives/test_local_choice.c - what ranks of a host choose together
 * for their ordinary buffers, from times that are made up. */
#include <stdlib.h>
#include <string.h>

#include "collectives/choice.h"
#include "collectives/comm.h"
#include "collectives/local_choice.h"
#include "support.h"

enum { RANKS = 3, NBYTES = 1 << 20, FIRST = CHOICE_ROUNDS * CHOICE_ROUND };

struct world {
    struct mailbox boxes[RANKS];
    struct local_peer peers[RANKS];
    struct local locals[RANKS];
    uint64_t now_ns;
};

static struct world world;

/* Behind the calls in which nothing is tried. */
static void create(void)
{
    memset(&world, 0, sizeof(world));
    world.now_ns = 1000000;
    for (int i = 0; i < RANKS; i++) {
        world.peers[i].box = &world.boxes[i];
        atomic_store(&world.boxes[i].attaches, 1);
        world.locals[i] = (struct local){
            .size = RANKS,
            .me = i,
            .peers = world.peers,
            .box = &world.boxes[i],
            .ticket = LOCAL_BLOCKS_AHEAD,
        };
    }
}

static void destroy(void)
{
    for (int i = 0; i < RANKS; i++)
        free(world.locals[i].choice);
}

/* Of an allreduce or a broadcast. */
static struct phase phase_of(int kind, size_t nbytes)
{
    return (struct phase){
        .shape = {.kind = kind, .count = nbytes, .elem_nbytes = 1}};
}

/* choosing: with an ordinary buffer; else -> MAILBOX_ARENA */
static uint8_t begin(int rank, bool choosing)
{
    const struct phase phase = phase_of(COLLECTIVE_ALLREDUCE, NBYTES);
    struct local *local = &world.locals[rank];
    uint8_t way = MAILBOX_ARENA;

    local->ticket++;
    local_choice_collect(local);
    if (choosing)
        way = local_choose(local, &phase);
    local_choice_begins(local);
    return way;
}

static struct mailbox_time *time_of(int rank)
{
    const struct local *local = &world.locals[rank];

    return &local->box->times[local->n_blocks % MAILBOX_TIMES];
}

/* As if it had been there from begun to ended. */
static void end(int rank, uint64_t begun_ns, uint64_t ended_ns)
{
    local_choice_ends(&world.locals[rank]);
    ck_assert_uint_ge(atomic_load(&time_of(rank)->ended_ns),
                      atomic_load(&time_of(rank)->begun_ns));
    atomic_store(&time_of(rank)->begun_ns, begun_ns);
    atomic_store(&time_of(rank)->ended_ns, ended_ns);
}

/* Rank n % RANKS comes last and finds almost everything done, whichever way;
 * from then on it takes cost_ns. -> the way of all */
static uint8_t call(unsigned n, uint64_t staged_ns, uint64_t attached_ns)
{
    unsigned late = n % RANKS;
    uint64_t early_ns = world.now_ns, late_ns = early_ns + 100000;
    uint8_t way = begin(0, true);
    uint64_t cost_ns = way == MAILBOX_STAGED ? staged_ns : attached_ns;

    for (int i = 1; i < RANKS; i++)
        ck_assert_uint_eq(begin(i, true), way);
    for (unsigned i = 0; i < RANKS; i++)
        end((int)i, i == late ? late_ns : early_ns,
            late_ns + (i == late ? cost_ns / 100 * (n % 7) : cost_ns));
    world.now_ns = late_ns + cost_ns;
    return way;
}

START_TEST(all_choose_the_way_that_is_faster_for_all)
{
    unsigned n_faster = 0;
    uint8_t faster = _i == 0 ? MAILBOX_STAGED : MAILBOX_ATTACH;
    uint64_t staged_ns = _i == 0 ? 4000 : 5000, attached_ns = 9000 - staged_ns;

    create();
    for (unsigned n = 0; n < FIRST; n++)
        (void)call(n, staged_ns, attached_ns);
    for (unsigned n = 0; n < CHOICE_REST; n++)
        n_faster += call(FIRST + n, staged_ns, attached_ns) == faster;
    ck_assert_uint_eq(n_faster, CHOICE_REST);
    destroy();
}
END_TEST

/* Who knows sooner that all attach begins with the others. */
START_TEST(all_try_together_whoever_is_ready_first)
{
    create();
    for (int i = 0; i < RANKS; i++)
        world.locals[i].ticket = 0;
    for (unsigned n = 0; n < LOCAL_BLOCKS_AHEAD; n++) {
        for (int i = 0; i < RANKS; i++) {
            atomic_store(&world.boxes[2].attaches, i > 0);
            ck_assert_uint_eq(begin(i, true), MAILBOX_STAGED);
        }
        for (int i = 0; i < RANKS; i++)
            end(i, 1, 2);
    }
    for (unsigned n = 0; n < CHOICE_ROUND; n++)
        ck_assert_uint_eq(call(n, 4000, 5000), n < CHOICE_ROUND / 2
                                                   ? MAILBOX_STAGED
                                                   : MAILBOX_ATTACH);
    destroy();
}
END_TEST

START_TEST(one_who_cannot_attach_has_all_staged)
{
    create();
    atomic_store(&world.boxes[1].attaches, 2);
    for (unsigned n = 0; n < 2 * FIRST; n++)
        ck_assert_uint_eq(call(n, 5000, 4000), MAILBOX_STAGED);
    destroy();
}
END_TEST

/* As of a broadcast: the root alone has something to show, and the others may
 * be as late as they like. */
START_TEST(lateness_of_those_who_do_not_choose_is_no_cost)
{
    unsigned n_attached = 0;

    create();
    for (unsigned n = 0; n < FIRST + CHOICE_REST; n++) {
        uint8_t way = begin(0, true);
        uint64_t last_ns = world.now_ns +
                           (way == MAILBOX_ATTACH ? 900000 : 100000);
        uint64_t end_ns = last_ns + (way == MAILBOX_STAGED ? 5000 : 4000);

        for (int i = 1; i < RANKS; i++)
            ck_assert_uint_eq(begin(i, false), MAILBOX_ARENA);
        for (int i = 0; i < RANKS; i++)
            end(i, i == RANKS - 1 ? last_ns : world.now_ns, end_ns);
        world.now_ns = end_ns;
        n_attached += n >= FIRST && way == MAILBOX_ATTACH;
    }
    ck_assert_uint_eq(n_attached, CHOICE_REST);
    ck_assert_ptr_null(world.locals[1].choice);
    destroy();
}
END_TEST

/* Calls that go with the posts take tickets too. */
START_TEST(tickets_between_change_nothing)
{
    unsigned n_attached = 0;

    create();
    for (unsigned n = 0; n < FIRST + CHOICE_REST; n++) {
        n_attached += call(n, 5000, 4000) == MAILBOX_ATTACH && n >= FIRST;
        for (unsigned k = 0; k < n % 5; k++)
            for (int i = 0; i < RANKS; i++)
                world.locals[i].ticket++;
    }
    ck_assert_uint_eq(n_attached, CHOICE_REST);
    destroy();
}
END_TEST

START_TEST(a_large_allreduce_does_not_try_to_attach)
{
    static const size_t large = 64 << 20;
    struct phase allreduce = phase_of(COLLECTIVE_ALLREDUCE, large),
                 part = allreduce, smaller = allreduce,
                 broadcast = phase_of(COLLECTIVE_BROADCAST, large);
    struct local *local = &world.locals[0];
    unsigned n_smaller = 0, n_broadcast = 0;

    part.pull_kind = PULL_SLICES_REDUCE;
    smaller.shape.count--;
    create();
    for (unsigned n = 0; n < FIRST; n++) {
        (void)begin(0, false);
        ck_assert_uint_eq(local_choose(local, &allreduce), MAILBOX_STAGED);
        ck_assert_uint_eq(local_choose(local, &part), MAILBOX_STAGED);
        n_smaller += local_choose(local, &smaller) == MAILBOX_ATTACH;
        n_broadcast += local_choose(local, &broadcast) == MAILBOX_ATTACH;
    }
    ck_assert_uint_gt(n_smaller, 0);
    ck_assert_uint_gt(n_broadcast, 0);
    local->forced_way = MAILBOX_ATTACH;
    ck_assert_uint_eq(local_choose(local, &allreduce), MAILBOX_ATTACH);
    destroy();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_choice");
    TCase *tc = tcase_create("local_choice");

    tcase_add_loop_test(tc, all_choose_the_way_that_is_faster_for_all, 0, 2);
    tcase_add_test(tc, all_try_together_whoever_is_ready_first);
    tcase_add_test(tc, one_who_cannot_attach_has_all_staged);
    tcase_add_test(tc, lateness_of_those_who_do_not_choose_is_no_cost);
    tcase_add_test(tc, tickets_between_change_nothing);
    tcase_add_test(tc, a_large_allreduce_does_not_try_to_attach);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
