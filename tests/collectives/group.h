/* tests/collectives/group.h - ranks as threads of one process: a group has an
 * endpoint and a comm per rank, over real sockets on loopback.
 *
 * Threads: a comm is used by the thread of its rank alone. */
#ifndef TESTS_COLLECTIVES_GROUP_H
#define TESTS_COLLECTIVES_GROUP_H

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/comm.h"
#include "collectives/local/arena.h"
#include "support.h"

enum { GROUP_MAX = 72, GROUP_JOB = 77 };

#define GROUP_JOB_KEY \
    {                 \
        0x6a          \
    }
static const uint8_t group_job_key[MAC_KEY_NBYTES] = GROUP_JOB_KEY;

struct group {
    int size;
    uint64_t generation;
    struct endpoint *endpoints[GROUP_MAX];
    struct comm *comms[GROUP_MAX];
    struct comm_peer peers[GROUP_MAX];
    uint8_t key[COMM_KEY_NBYTES];
    enum comm_ordinary ordinary; /* of the comms created from now on */
    struct algorithm_override algorithms;
    int tcp_connections;
    uint64_t connect_timeout_us, silence_us;
    bool (*is_cut_off)(uint64_t now_us);
    bool encrypt;
    struct autotune *autotunes[GROUP_MAX];
};

/* What a rank's thread does; false fails the test. */
typedef bool rank_fn(struct group *g, int rank, void *arg);

struct rank_thread {
    pthread_t thread;
    struct group *group;
    int rank;
    rank_fn *fn;
    void *arg;
    bool ok;
};

static inline struct comm *group_comm_of_set(struct group *g, int rank,
                                             uint32_t set)
{
    struct comm_config config = {
        .endpoint = g->endpoints[rank],
        .job = GROUP_JOB,
        .generation = g->generation,
        .set = set,
        .rank = rank,
        .size = g->size,
        .peers = g->peers,
        .connect_timeout_us = g->connect_timeout_us,
        .silence_us = g->silence_us,
        .is_cut_off = g->is_cut_off,
        .ordinary = g->ordinary,
        .algorithms = g->algorithms,
        .tcp_connections = g->tcp_connections,
        .encrypt = g->encrypt,
        .autotune = set == 0 ? g->autotunes[rank] : NULL,
    };
    struct comm *comm;

    memcpy(config.key, g->key, sizeof(config.key));
    return comm_create(&config, &comm) == HVD_OK ? comm : NULL;
}

static inline void group_comm_create(struct group *g, int rank)
{
    g->comms[rank] = group_comm_of_set(g, rank, 0);
    ck_assert_ptr_nonnull(g->comms[rank]);
}

/* What the ranks can do in the comms created from now on. */
static inline void group_set_abilities(struct group *g, unsigned abilities)
{
    for (int i = 0; i < g->size; i++)
        g->peers[i].abilities = (uint8_t)abilities;
}

/* hosts [size]: the host of each rank. */
static inline void group_init_hosts(struct group *g, int size,
                                    const uint32_t *hosts, unsigned abilities,
                                    enum comm_ordinary ordinary)
{
    const char *over = getenv("HVD_TEST_OVER");

    memset(g, 0, sizeof(*g));
    g->size = size;
    g->ordinary = ordinary;
    g->tcp_connections = over != NULL && strstr(over, "striped") ? 4 : 1;
    g->encrypt = over != NULL && strncmp(over, "sealed", 6) == 0;
    g->generation = 3;
    g->connect_timeout_us = 10000000;
    g->silence_us = 2000000;
    memset(g->key, 0x5a, sizeof(g->key));
    for (int i = 0; i < size; i++) {
        struct endpoint_config config = {.addresses = "127.0.0.1",
                                         .job = GROUP_JOB,
                                         .worker = 100 + (uint64_t)i,
                                         .connect_timeout_us = 10000000,
                                         .job_key = GROUP_JOB_KEY};

        ck_assert_int_eq(endpoint_create(&config, &g->endpoints[i]), HVD_OK);
        g->peers[i].worker = config.worker;
        g->peers[i].host = hosts[i];
        g->peers[i].port = endpoint_port(g->endpoints[i]);
        strcpy(g->peers[i].addresses, "127.0.0.1");
    }
    group_set_abilities(g, abilities);
    for (int i = 0; i < size; i++)
        group_comm_create(g, i);
}

static inline void group_init_over(struct group *g, int size,
                                   unsigned abilities,
                                   enum comm_ordinary ordinary)
{
    static const uint32_t one[GROUP_MAX];

    group_init_hosts(g, size, one, abilities, ordinary);
}

/* HVD_TEST_OVER: tcp, striped (the same with four connections), sealed (tcp,
 * encrypted with AES if there is), sealed-striped (with ChaCha20), staged or
 * attached, hosts (two of them, the ranks in turns), sealed-hosts; the suites
 * run over each. */
static inline void group_init(struct group *g, int size)
{
    uint32_t two[GROUP_MAX];
    const char *over = getenv("HVD_TEST_OVER");
    unsigned abilities = COMM_CAN_ALL;
    enum comm_ordinary ordinary = COMM_ORDINARY_MEASURED;

    for (uint32_t i = 0; i < GROUP_MAX; i++)
        two[i] = i % 2;
    if (over != NULL && (strcmp(over, "tcp") == 0 || strstr(over, "striped")))
        abilities = 0;
    if (over != NULL && strcmp(over, "sealed") == 0)
        abilities = COMM_CAN_AES;
    if (over != NULL && strcmp(over, "staged") == 0)
        ordinary = COMM_ORDINARY_STAGED;
    if (over != NULL && strcmp(over, "attached") == 0)
        ordinary = COMM_ORDINARY_ATTACHED;
    if (over != NULL && strstr(over, "hosts"))
        group_init_hosts(g, size, two, abilities, ordinary);
    else
        group_init_over(g, size, abilities, ordinary);
}

static inline void group_rank_destroy(struct group *g, int rank)
{
    comm_destroy(g->comms[rank]);
    endpoint_destroy(g->endpoints[rank]);
    g->comms[rank] = NULL;
    g->endpoints[rank] = NULL;
}

static inline void group_fini(struct group *g)
{
    for (int i = 0; i < g->size; i++)
        group_rank_destroy(g, i);
}

static void *rank_main(void *arg)
{
    struct rank_thread *t = arg;

    t->ok = t->fn(t->group, t->rank, t->arg);
    if (!t->ok && t->group->comms[t->rank] != NULL) /* nobody waits for it */
        comm_leave(t->group->comms[t->rank], COMM_LEAVE_ABORT, 0);
    return NULL;
}

/* Run fn on every rank at once and wait for all. */
static inline void group_run(struct group *g, rank_fn *fn, void *arg)
{
    struct rank_thread threads[GROUP_MAX];
    bool ok = true;

    for (int i = 0; i < g->size; i++) {
        threads[i] = (struct rank_thread){
            .group = g, .rank = i, .fn = fn, .arg = arg};
        pthread_create(&threads[i].thread, NULL, rank_main, &threads[i]);
    }
    for (int i = 0; i < g->size; i++) {
        pthread_join(threads[i].thread, NULL);
        ok &= threads[i].ok;
    }
    ck_assert_msg(ok, "a rank failed, see above");
}

/* In a rank's thread, where Check's own assertions may not be used. */
#define EXPECT_SAY(condition, ...)                                          \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                   \
            fprintf(stderr, " (%s)\n", error_text());                       \
            return false;                                                   \
        }                                                                   \
    } while (0)

#define EXPECT(condition) EXPECT_SAY(condition, "rank %d", rank)

static inline hvd_status_t allreduce(struct comm *comm, const void *send,
                                     void *recv, size_t count,
                                     hvd_dtype_t dtype, hvd_op_t op)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = count,
                                   .dtype = dtype,
                                   .op = op};

    return comm_run(comm, &args);
}

static inline hvd_status_t broadcast(struct comm *comm, void *buf, size_t count,
                                     hvd_dtype_t dtype, int root)
{
    struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                   .recvbuf = buf,
                                   .count = count,
                                   .dtype = dtype,
                                   .root = root};

    return comm_run(comm, &args);
}

static inline hvd_status_t barrier(struct comm *comm)
{
    struct collective_args args = {.kind = COLLECTIVE_BARRIER};

    return comm_run(comm, &args);
}

/* A socket that is connected to the rank's port over TCP, and that is all. */
static inline int group_dial(const struct group *g, int to)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(g->peers[to].port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

static inline int count_fds(void)
{
    DIR *dir;
    int n = 0;

    (void)arena_fd(); /* there from its first use to the end */
    dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

#endif
