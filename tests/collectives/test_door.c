/* tests/collectives/test_door.c - who is let in to a comm, and who is not:
 * strangers, members that come early, members of a generation that is over. */
#include <poll.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mac.h"
#include "collectives/net/handshake.h"
#include "group.h"

static void hello_for(struct group *g, int from, int to, const uint8_t *key,
                      uint8_t *bytes)
{
    struct handshake h = {.role = HANDSHAKE_HELLO,
                          .job = GROUP_JOB,
                          .generation = g->generation,
                          .worker = 100 + (uint64_t)from,
                          .peer = 100 + (uint64_t)to};

    handshake_encode(&h, group_job_key, key, bytes);
}

/* Serve, then tell whether the stranger was turned away. */
static bool turned_away_in(struct endpoint *ep, int fd, int n_looks)
{
    struct pollfd pfd = {fd, POLLIN, 0};
    int never = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    char byte;
    bool closed = false;

    for (int i = 0; i < n_looks && !closed; i++) {
        (void)!endpoint_serve(ep, never, clock_now_us() + 5000);
        closed = poll(&pfd, 1, 0) == 1 && recv(fd, &byte, 1, 0) <= 0;
    }
    close(never);
    return closed;
}

static bool turned_away(struct endpoint *ep, int fd)
{
    return turned_away_in(ep, fd, 400);
}

START_TEST(door_wrong_key_closed)
{
    uint8_t wrong[COMM_KEY_NBYTES] = {1}, hello[HANDSHAKE_NBYTES];
    struct group g;
    int fd;

    group_init(&g, 2);
    hello_for(&g, 1, 0, wrong, hello);
    fd = group_dial(&g, 0);
    ck_assert_int_eq(send(fd, hello, sizeof(hello), 0), sizeof(hello));
    ck_assert(turned_away(g.endpoints[0], fd));
    close(fd);
    group_fini(&g);
}
END_TEST

START_TEST(door_wrong_job_or_old_generation_closed)
{
    uint8_t hello[HANDSHAKE_NBYTES];
    struct group g;
    int fd;

    group_init(&g, 2);
    hello_for(&g, 1, 0, g.key, hello);
    hello[8] ^= 1;
    fd = group_dial(&g, 0);
    ck_assert_int_eq(send(fd, hello, sizeof(hello), 0), sizeof(hello));
    ck_assert(turned_away(g.endpoints[0], fd));
    close(fd);
    g.generation = 2;
    endpoint_set_fence(g.endpoints[0], 2);
    hello_for(&g, 1, 0, g.key, hello);
    fd = group_dial(&g, 0);
    ck_assert_int_eq(send(fd, hello, sizeof(hello), 0), sizeof(hello));
    ck_assert(turned_away(g.endpoints[0], fd));
    close(fd);
    group_fini(&g);
}
END_TEST

/* More than there are places for those that are ahead: who has no key of the
 * job gets none of them, whatever it claims. */
START_TEST(door_strangers_ahead_keep_nobody_out)
{
    enum { N = 80 };
    uint8_t hello[HANDSHAKE_NBYTES], no_key[COMM_KEY_NBYTES] = {0};
    struct handshake h = {.role = HANDSHAKE_HELLO,
                          .job = GROUP_JOB,
                          .generation = UINT64_MAX,
                          .worker = 101,
                          .peer = 100};
    struct group g;
    int fds[N], ahead;

    group_init(&g, 2);
    handshake_encode(&h, no_key, no_key, hello);
    for (int i = 0; i < N; i++) {
        fds[i] = group_dial(&g, 0);
        ck_assert_int_eq(send(fds[i], hello, sizeof(hello), 0), sizeof(hello));
    }
    for (int i = 0; i < N; i++)
        ck_assert(turned_away(g.endpoints[0], fds[i]));
    g.generation++;
    hello_for(&g, 1, 0, no_key, hello);
    ahead = group_dial(&g, 0);
    ck_assert_int_eq(send(ahead, hello, sizeof(hello), 0), sizeof(hello));
    ck_assert(!turned_away_in(g.endpoints[0], ahead, 10));
    for (int i = 0; i < N; i++)
        close(fds[i]);
    close(ahead);
    group_fini(&g);
}
END_TEST

static bool barriers(struct group *g, int rank, void *arg)
{
    float x = 1;

    for (int i = 0; i < 3; i++)
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    EXPECT(x == (float)g->size);
    return true;
}

START_TEST(door_garbage_others_unharmed)
{
    char noise[500];
    struct group g;
    int fds[8];

    group_init(&g, 3);
    memset(noise, 'x', sizeof(noise));
    for (int i = 0; i < 8; i++) {
        size_t n = i % 2 ? sizeof(noise) : (size_t)i;

        fds[i] = group_dial(&g, i % 3);
        ck_assert_int_eq(send(fds[i], noise, n, 0), (ssize_t)n);
    }
    group_run(&g, barriers, NULL);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    group_fini(&g);
}
END_TEST

/* Rank 1 dials while rank 0 has no comm of the generation yet. */
static bool early_dialer(struct group *g, int rank, void *arg)
{
    int never = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    sem_t *dialling = arg;
    float x = 1;

    if (rank == 0) {
        struct comm_config config = {.endpoint = g->endpoints[0],
                                     .job = GROUP_JOB,
                                     .generation = g->generation,
                                     .size = g->size,
                                     .peers = g->peers,
                                     .connect_timeout_us = 10000000,
                                     .encrypt = g->encrypt,
                                     .ordinary = g->ordinary};

        memcpy(config.key, g->key, sizeof(config.key));
        sem_wait(dialling);
        for (int i = 0; i < 3; i++)
            (void)!endpoint_serve(g->endpoints[0], never,
                                  clock_now_us() + 10000);
        EXPECT(comm_create(&config, &g->comms[0]) == HVD_OK);
    } else {
        sem_post(dialling);
    }
    close(never);
    EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    EXPECT(x == 2);
    return true;
}

START_TEST(door_newer_generation_held_until_assigned)
{
    sem_t dialling;
    struct group g;

    sem_init(&dialling, 0, 0);
    group_init(&g, 2);
    comm_destroy(g.comms[0]);
    g.comms[0] = NULL;
    group_run(&g, early_dialer, &dialling);
    group_fini(&g);
    sem_destroy(&dialling);
}
END_TEST

/* --- generations --- */

START_TEST(generations_follow_each_other_descriptors_back)
{
    int before = count_fds();
    struct group g;

    group_init(&g, 4);
    for (int i = 0; i < 10; i++) {
        group_run(&g, barriers, NULL);
        for (int r = 0; r < g.size; r++) {
            comm_leave(g.comms[r],
                       i % 2 ? COMM_LEAVE_ABORT : COMM_LEAVE_BOUNDARY, 1);
            comm_destroy(g.comms[r]);
            endpoint_set_fence(g.endpoints[r], g.generation);
        }
        g.generation++;
        for (int r = 0; r < g.size; r++)
            group_comm_create(&g, r);
    }
    group_run(&g, barriers, NULL);
    group_fini(&g);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("door");
    TCase *tc = tcase_create("door");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, door_wrong_key_closed);
    tcase_add_test(tc, door_wrong_job_or_old_generation_closed);
    tcase_add_test(tc, door_strangers_ahead_keep_nobody_out);
    tcase_add_test(tc, door_garbage_others_unharmed);
    tcase_add_test(tc, door_newer_generation_held_until_assigned);
    tcase_add_test(tc, generations_follow_each_other_descriptors_back);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
