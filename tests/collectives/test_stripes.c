/* tests/collectives/test_stripes.c - several connections between two ranks:
 * results, ranks that differ in the number, and how a stripe, a peer and a comm
 * end in the middle. */
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "collectives/comm_impl.h"
#include "collectives/stripes.h"
#include "group.h"

enum {
    BEFORE = 5,
    LARGE = 1500001, /* a share for each connection, of five ranks, too */
    SUMS_LARGE = 500001,
    LATE_US = 1000, /* longer than they spin */
    SIZES = 4,      /* of groups, from 2 */
#if defined(__SANITIZE_THREAD__)
    OTHER_COUNT = SIZES + 1 /* of connections in each size */
#else
    OTHER_COUNT = 1 /* each in each size */
#endif
};

/* connections [size]; 0: all have `all`. */
static void stripes_init(struct group *g, int size, int all, const int *each)
{
    group_init_over(g, size, 0, COMM_ORDINARY_MEASURED);
    for (int i = 0; i < size; i++) {
        g->tcp_connections = each != NULL ? each[i] : all;
        comm_destroy(g->comms[i]);
        group_comm_create(g, i);
    }
}

static struct connection *stripe_of(struct comm *comm, int peer)
{
    return comm_link(comm, CHANNEL_STRIPE, peer);
}

static hvd_status_t reduce_ones(struct comm *comm, int32_t *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (int32_t)(i % 1009);
    return allreduce(comm, x, x, count, HVD_INT32, HVD_SUM);
}

static bool has_all_open(const struct group *g, int rank)
{
    const struct comm *comm = g->comms[rank];

    for (int k = 0; k < comm->config.tcp_connections - 1; k++)
        for (int peer = 0; peer < g->size; peer++) {
            const struct connection *c = comm_link(comm, CHANNEL_STRIPE + k,
                                                   peer);

            if (c != NULL && c->state != CONNECTION_OPEN)
                return false;
        }
    return true;
}

/* n_min operations, and until all ranks are ready. One comes late each time:
 * who waits accepts and hears replies, and ranks in step may never have to, on
 * one core. */
static bool reduce_until(struct group *g, int rank, int n_min,
                         bool (*is_ready)(const struct group *g, int rank))
{
    struct comm *comm = g->comms[rank];
    int32_t *x = malloc(LARGE * sizeof(*x)), all = 0;

    EXPECT(x != NULL);
    for (int i = 0; i < n_min || all == 0; i++) {
        EXPECT(reduce_ones(comm, x, LARGE) == HVD_OK);
        all = is_ready(g, rank);
        if (i % g->size == rank)
            usleep(LATE_US);
        EXPECT(allreduce(comm, &all, &all, 1, HVD_INT32, HVD_MIN) == HVD_OK);
    }
    free(x);
    return true;
}

static bool sums(struct group *g, int rank, void *arg)
{
    static const size_t counts[] = {32768, 65535, 65537, 131073, 1, SUMS_LARGE};
    int32_t *x = malloc(LARGE * sizeof(*x));

    EXPECT(x != NULL);
    if (arg != NULL)
        EXPECT(reduce_until(g, rank, 1, has_all_open));
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        size_t n = counts[c];

        EXPECT(reduce_ones(g->comms[rank], x, n) == HVD_OK);
        for (size_t i = 0; i < n; i++)
            EXPECT_SAY(x[i] == g->size * (int32_t)(i % 1009),
                       "%d ranks, count %zu: [%zu] is %d", g->size, n, i, x[i]);
    }
    free(x);
    return true;
}

START_TEST(stripes_large_odd_counts_right_result)
{
    static const int counts[] = {2, 3, 4, 8};
    int i = _i * OTHER_COUNT, all = counts[i / SIZES];
    struct group g;

    stripes_init(&g, 2 + i % SIZES, all, NULL);
    group_run(&g, sums, &g);
    for (int k = 0; k < FRAME_SHARES_MAX - 1; k++) {
        const struct connection *c = comm_link(g.comms[1], CHANNEL_STRIPE + k,
                                               0);

        ck_assert((c != NULL) == (k < all - 1));
        ck_assert(c == NULL || c->state == CONNECTION_OPEN);
    }
    group_fini(&g);
}
END_TEST

START_TEST(stripes_ranks_differ_right_result)
{
    static const int each[][2] = {{4, 1}, {1, 4}, {2, 8}, {8, 3}};
    struct group g;

    stripes_init(&g, 2, 0, each[_i]);
    group_run(&g, sums, NULL);
    group_fini(&g);
}
END_TEST

/* --- ends --- */

enum how { ABORTS, LEAVES_WITHOUT_GOODBYE, BREAKS_A_STRIPE };

struct end {
    enum how how;
    atomic_int n_begun; /* they have their stripes, nothing is in flight */
    atomic_int n_told;
};

static void *abort_soon(void *arg)
{
    struct comm *comm = arg;

    comm_abort(comm, HVD_PEER_LOST, "enough");
    return NULL;
}

/* Until it is lost. One that breaks between two operations is done without: so
 * not for ever. */
static hvd_status_t go_on(struct comm *comm, enum how how, int32_t *x)
{
    hvd_status_t status = HVD_OK;

    for (int i = 0; status == HVD_OK && (how != BREAKS_A_STRIPE || i < 20); i++)
        status = reduce_ones(comm, x, LARGE);
    return status;
}

/* In the middle of the others' operation, and at times of its own. */
static bool end_it(struct group *g, int rank, enum how how, int32_t *x)
{
    struct comm *comm = g->comms[rank];
    hvd_status_t status;
    pthread_t thread;

    switch (how) {
    case ABORTS:
        pthread_create(&thread, NULL, abort_soon, comm);
        (void)!go_on(comm, how, x);
        pthread_join(thread, NULL);
        return true;
    case LEAVES_WITHOUT_GOODBYE:
        comm_destroy(comm);
        g->comms[rank] = NULL;
        return true;
    case BREAKS_A_STRIPE:
        EXPECT(shutdown(stripe_of(comm, 0)->fd, SHUT_RDWR) == 0);
        status = go_on(comm, how, x);
        EXPECT(status == HVD_OK || status == HVD_PEER_LOST);
        return true;
    }
    return false;
}

/* Last words go out from here. */
static void see_off(struct group *g, int rank, struct end *end)
{
    atomic_fetch_add(&end->n_told, 1);
    while (atomic_load(&end->n_told) < g->size) {
        endpoint_drive(g->endpoints[rank], NULL);
        sched_yield();
    }
}

/* The last rank, the stripe that it may break. */
static bool has_what_it_breaks(const struct group *g, int rank)
{
    const struct connection *c = stripe_of(g->comms[rank], 0);

    return rank < g->size - 1 || (c != NULL && c->state == CONNECTION_OPEN);
}

static bool until_the_end(struct group *g, int rank, void *arg)
{
    struct end *end = arg;
    int32_t *x = malloc(LARGE * sizeof(*x));
    hvd_status_t status;
    const char *text;
    bool ok = true;

    EXPECT(x != NULL);
    EXPECT(reduce_until(g, rank, BEFORE, has_what_it_breaks));
    atomic_fetch_add(&end->n_begun, 1);
    if (rank == g->size - 1) {
        while (atomic_load(&end->n_begun) < g->size)
            sched_yield();
        ok = end_it(g, rank, end->how, x);
        free(x);
        see_off(g, rank, end);
        return ok;
    }
    status = go_on(g->comms[rank], end->how, x);
    see_off(g, rank, end);
    EXPECT(status == HVD_PEER_LOST ||
           (end->how == BREAKS_A_STRIPE && status == HVD_OK));
    (void)!comm_status(g->comms[rank], &text);
    EXPECT_SAY(end->how != ABORTS || strcmp(text, "enough") == 0, "%s", text);
    free(x);
    return true;
}

START_TEST(stripes_end_in_the_middle_all_told)
{
    struct end end = {.how = (enum how)(_i % 3)};
    struct group g;

    stripes_init(&g, 2 + _i / 3, 4, NULL);
    group_run(&g, until_the_end, &end);
    group_fini(&g);
}
END_TEST

/* --- what is left of a frame --- */

/* A frame is queued, and nothing of it sent: what is left is looked at as if
 * one share after the other were out. */
static bool what_is_left(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct connection *data;
    struct frame f = {.type = FRAME_DATA, .nbytes = 3 * STRIPES_FRAME_MIN + 1};
    uint8_t *payload = calloc(1, f.nbytes);

    (void)arg;
    EXPECT(payload != NULL);
    EXPECT(reduce_until(g, rank, 1, has_all_open));
    data = comm_link(comm, CHANNEL_DATA, 1 - rank);
    EXPECT(stripes_idle(comm, data) && stripes_unsent(comm, data) == 0);
    EXPECT(stripes_queue(comm, data, &f, payload) == HVD_OK);
    EXPECT(f.shares == 3 && !stripes_idle(comm, data));
    EXPECT(stripes_unsent(comm, data) == f.nbytes);
    data->payload += data->payload_n - 1;
    data->payload_n = 1; /* the last byte of the first share */
    EXPECT(stripes_unsent(comm, data) == f.nbytes - frame_share(&f, 1) + 1);
    data->payload_n = 0;
    for (unsigned k = 1; k < f.shares; k++) {
        struct connection *c = comm_link(comm, CHANNEL_STRIPE + (int)k - 1,
                                         1 - rank);

        EXPECT(stripes_unsent(comm, data) == f.nbytes - frame_share(&f, k));
        c->payload += c->payload_n - 1;
        c->payload_n = 1;
        EXPECT(stripes_unsent(comm, data) ==
               f.nbytes - frame_share(&f, k + 1) + 1);
        c->payload_n = 0;
    }
    EXPECT(stripes_unsent(comm, data) == 0);
    data->out_off = data->out_n = 0; /* nobody ever hears of it */
    free(payload);
    return true;
}

START_TEST(stripes_unsent_is_what_the_kernel_has_not)
{
    struct group g;

    stripes_init(&g, 2, 3, NULL);
    group_run(&g, what_is_left, NULL);
    group_fini(&g);
}
END_TEST

START_TEST(stripes_silent_while_other_shares_are_on_their_way)
{
    static const struct {
        enum connection_reading reading;
        uint8_t shares;
        size_t dest_n;
        bool broken, silent;
    } cases[] = {
        {READING_PAYLOAD, 2, 0, false, true},
        {READING_PAYLOAD, 2, 1, false, false},
        {READING_PAYLOAD, 2, 0, true, false},
        {READING_PAYLOAD, 1, 0, false, false}, /* no other share */
        {READING_HEADER, 2, 0, false, false},  /* of a frame before */
    };
    struct connection c = {.channel = CHANNEL_DATA};

    c.reading = cases[_i].reading;
    c.frame.shares = cases[_i].shares;
    c.dest_n = cases[_i].dest_n;
    c.stripe_broken = cases[_i].broken;
    ck_assert(stripes_silent(&c) == cases[_i].silent);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stripes");
    TCase *tc = tcase_create("stripes");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, stripes_large_odd_counts_right_result, 0,
                        (SIZES * SIZES + OTHER_COUNT - 1) / OTHER_COUNT);
    tcase_add_loop_test(tc, stripes_ranks_differ_right_result, 0, 4);
    tcase_add_loop_test(tc, stripes_end_in_the_middle_all_told, 0, 9);
    tcase_add_test(tc, stripes_unsent_is_what_the_kernel_has_not);
    tcase_add_loop_test(tc, stripes_silent_while_other_shares_are_on_their_way,
                        0, 5);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
