/* tests/collectives/test_local_choice.c - what ranks of a host choose together
 * for their ordinary buffers, from times that are made up. */
#include <stdlib.h>
#include <string.h>

#include "collectives/comm.h"
#include "collectives/local/choice.h"
#include "collectives/local/ordinary.h"
#include "collectives/local/stores.h"
#include "support.h"

/* ways, as tried */
enum { STAGED, PAST, ATTACHED, NONE };
enum { RANKS = 3, NBYTES = 1 << 20 };
enum { ROUND = CHOICE_WAYS * CHOICE_TRIES, FIRST = CHOICE_ROUNDS * ROUND };

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

static int choice_of(struct local *local, const struct phase *phase)
{
    uint8_t way = local_choose(local, phase);

    ck_assert(way == MAILBOX_ATTACH || way == MAILBOX_STAGED);
    if (way == MAILBOX_ATTACH)
        return ATTACHED;
    return local->run.stage_nontemporal ? PAST : STAGED;
}

/* choosing: with an ordinary buffer; else -> NONE */
static int begin(int rank, bool choosing)
{
    const struct phase phase = phase_of(COLLECTIVE_ALLREDUCE, NBYTES);
    struct local *local = &world.locals[rank];
    int way = NONE;

    local->ticket++;
    local_choice_collect(local);
    if (choosing)
        way = choice_of(local, &phase);
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
 * from then on it takes as long as costs_ns[] of the way. -> the way of all */
static int call(unsigned n, const uint64_t *costs_ns)
{
    unsigned late = n % RANKS;
    uint64_t early_ns = world.now_ns, late_ns = early_ns + 100000;
    int way = begin(0, true);
    uint64_t cost_ns = costs_ns[way];

    for (int i = 1; i < RANKS; i++)
        ck_assert_int_eq(begin(i, true), way);
    for (unsigned i = 0; i < RANKS; i++)
        end((int)i, i == late ? late_ns : early_ns,
            late_ns + (i == late ? cost_ns / 100 * (n % 7) : cost_ns));
    world.now_ns = late_ns + cost_ns;
    return way;
}

START_TEST(all_choose_the_way_that_is_faster_for_all)
{
    uint64_t costs_ns[] = {5000, 5000, 5000};
    unsigned n_faster = 0;

    costs_ns[_i] = 4000;
    create();
    for (unsigned n = 0; n < FIRST; n++)
        (void)call(n, costs_ns);
    for (unsigned n = 0; n < CHOICE_REST; n++)
        n_faster += call(FIRST + n, costs_ns) == _i;
    ck_assert_uint_eq(n_faster, CHOICE_REST);
    destroy();
}
END_TEST

/* Who knows sooner that all attach begins with the others. */
START_TEST(all_try_together_whoever_is_ready_first)
{
    static const uint64_t costs_ns[] = {4000, 5000, 5000};

    create();
    for (int i = 0; i < RANKS; i++)
        world.locals[i].ticket = 0;
    for (unsigned n = 0; n < LOCAL_BLOCKS_AHEAD; n++) {
        for (int i = 0; i < RANKS; i++) {
            atomic_store(&world.boxes[2].attaches, i > 0);
            ck_assert_int_eq(begin(i, true), STAGED);
        }
        for (int i = 0; i < RANKS; i++)
            end(i, 1, 2);
    }
    for (int n = 0; n < ROUND; n++)
        ck_assert_int_eq(call((unsigned)n, costs_ns), n / CHOICE_TRIES);
    destroy();
}
END_TEST

START_TEST(one_who_cannot_attach_has_all_staged)
{
    static const uint64_t costs_ns[] = {5000, 4000, 3000};
    unsigned n_past = 0;

    create();
    atomic_store(&world.boxes[1].attaches, 2);
    for (unsigned n = 0; n < FIRST + CHOICE_REST / 2; n++) {
        int way = call(n, costs_ns);

        ck_assert_int_ne(way, ATTACHED);
        n_past += n >= FIRST && way == PAST;
    }
    ck_assert_uint_eq(n_past, CHOICE_REST / 2);
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
        int way = begin(0, true);
        uint64_t last_ns = world.now_ns + (way == ATTACHED ? 900000 : 100000);
        uint64_t end_ns = last_ns + (way != ATTACHED ? 5000 : 4000);

        for (int i = 1; i < RANKS; i++)
            ck_assert_int_eq(begin(i, false), NONE);
        for (int i = 0; i < RANKS; i++)
            end(i, i == RANKS - 1 ? last_ns : world.now_ns, end_ns);
        world.now_ns = end_ns;
        n_attached += n >= FIRST && way == ATTACHED;
    }
    ck_assert_uint_eq(n_attached, CHOICE_REST);
    ck_assert_ptr_null(world.locals[1].choice);
    destroy();
}
END_TEST

/* Calls that go with the cards take tickets too. */
START_TEST(tickets_between_change_nothing)
{
    static const uint64_t costs_ns[] = {5000, 5000, 4000};
    unsigned n_attached = 0;

    create();
    for (unsigned n = 0; n < FIRST + CHOICE_REST; n++) {
        n_attached += call(n, costs_ns) == ATTACHED && n >= FIRST;
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
        ck_assert_int_ne(choice_of(local, &allreduce), ATTACHED);
        ck_assert_int_ne(choice_of(local, &part), ATTACHED);
        n_smaller += choice_of(local, &smaller) == ATTACHED;
        n_broadcast += choice_of(local, &broadcast) == ATTACHED;
    }
    ck_assert_uint_gt(n_smaller, 0);
    ck_assert_uint_gt(n_broadcast, 0);
    local->forced_way = MAILBOX_ATTACH;
    ck_assert_int_eq(choice_of(local, &allreduce), ATTACHED);
    destroy();
}
END_TEST

/* --- copies into staging memory, of cards --- */

static bool copied(struct local *local, const uint8_t *src, size_t nbytes)
{
    static _Alignas(64) uint8_t to[32 << 10];

    memset(to, 0, sizeof(to));
    local->run.operand_nbytes = nbytes;
    local->run.stores.sample = -1; /* as local_begin() does */
    local_stores_copy(local, to);
    local_stores_read_begins(local);
    local_stores_read_ends(local);
    return memcmp(to, src, nbytes) == 0;
}

START_TEST(copies_are_timed_through_the_caches_and_past_them)
{
    static uint8_t src[32 << 10];
    struct phase phase = phase_of(COLLECTIVE_ALLREDUCE, sizeof(src));
    struct local *local = &world.locals[0];
    const struct choice *choice = &local->stores[COLLECTIVE_ALLREDUCE][2];

    create();
    memset(src, 77, sizeof(src));
    phase.src = src;
    local->run.phase = &phase;
    for (int n = 0; n < 2 * CHOICE_TRIES; n++)
        ck_assert(copied(local, src, sizeof(src)));
    ck_assert_uint_gt(choice->ns[0][0], 0);
    ck_assert_uint_gt(choice->ns[1][0], 0);
    ck_assert_uint_lt(choice->ns[1][0], 1000000000);
    destroy();
}
END_TEST

/* As the others do when they have read the broadcast of a ticket. */
static void read_all(uint64_t ticket, uint64_t ns)
{
    for (int i = 1; i < RANKS; i++) {
        struct mailbox *box = &world.boxes[i];

        atomic_store(&box->reads[0].ns, i == 1 ? ns / 2 : ns);
        atomic_store(&box->reads[0].ticket, ticket);
        atomic_store(&box->cards[(ticket + 1) % MAILBOX_CARDS].ticket,
                     ticket + 1);
    }
}

/* A root goes by the slowest of its readers. */
START_TEST(root_chooses_what_is_read_faster)
{
    static uint8_t src[32 << 10];
    struct phase phase = phase_of(COLLECTIVE_BROADCAST, sizeof(src));
    struct local *local = &world.locals[0];
    int past = 0;

    create();
    memset(src, 77, sizeof(src));
    phase.src = src;
    local->run.phase = &phase;
    for (int n = 0; n < 2 * CHOICE_TRIES * CHOICE_ROUNDS + CHOICE_REST; n++) {
        local->ticket++;
        ck_assert(copied(local, src, sizeof(src)));
        past = local->run.stores.way;
        read_all(local->ticket, past == _i ? 1000000000 : (uint64_t)5000000000);
    }
    ck_assert_int_eq(past, _i);
    destroy();
}
END_TEST

static void read_broadcast_of(int root, uint64_t ticket)
{
    static uint8_t src[32 << 10];
    struct phase phase = phase_of(COLLECTIVE_BROADCAST, sizeof(src));
    struct local *reader = &world.locals[1];

    world.boxes[root].cards[ticket % MAILBOX_CARDS].timed = 1;
    reader->ticket = ticket;
    reader->run.phase = &phase;
    reader->run.first_peer = root;
    reader->run.n_peers = 1;
    reader->run.stores.sample = -1;
    local_stores_read_begins(reader);
    local_stores_read_ends(reader);
}

/* Roots that take turns ask before any of them has heard. */
START_TEST(each_root_hears_how_long_its_own_is_read)
{
    const struct mailbox *box = &world.boxes[1];

    create();
    read_broadcast_of(0, 7);
    read_broadcast_of(2, 8);
    ck_assert_uint_eq(atomic_load(&mailbox_read_of(box, 0)->ticket), 7);
    ck_assert_uint_eq(atomic_load(&mailbox_read_of(box, 2)->ticket), 8);
    destroy();
}
END_TEST

/* It goes on, and does not ask again. */
START_TEST(root_does_not_wait_for_times)
{
    static uint8_t src[32 << 10];
    struct phase phase = phase_of(COLLECTIVE_BROADCAST, sizeof(src));
    struct local *local = &world.locals[0];
    uint64_t asked;

    create();
    memset(src, 77, sizeof(src));
    phase.src = src;
    local->run.phase = &phase;
    for (int n = 0; n < CHOICE_TRIES; n++, local->ticket++)
        ck_assert(copied(local, src, sizeof(src)));
    asked = local->broadcast.ticket;
    ck_assert_uint_eq(asked, local->ticket - 1);
    for (int n = 0; n < 10; n++, local->ticket++)
        ck_assert(copied(local, src, sizeof(src)));
    ck_assert_uint_eq(local->broadcast.ticket, asked);
    read_all(asked, 1000);
    ck_assert(copied(local, src, sizeof(src)));
    ck_assert_uint_eq(local->broadcast.ticket, 0);
    destroy();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_choice");
    TCase *tc = tcase_create("local_choice");

    tcase_add_loop_test(tc, all_choose_the_way_that_is_faster_for_all, 0,
                        CHOICE_WAYS);
    tcase_add_test(tc, all_try_together_whoever_is_ready_first);
    tcase_add_test(tc, one_who_cannot_attach_has_all_staged);
    tcase_add_test(tc, lateness_of_those_who_do_not_choose_is_no_cost);
    tcase_add_test(tc, tickets_between_change_nothing);
    tcase_add_test(tc, a_large_allreduce_does_not_try_to_attach);
    tcase_add_test(tc, copies_are_timed_through_the_caches_and_past_them);
    tcase_add_loop_test(tc, root_chooses_what_is_read_faster, 0, 2);
    tcase_add_test(tc, each_root_hears_how_long_its_own_is_read);
    tcase_add_test(tc, root_does_not_wait_for_times);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
