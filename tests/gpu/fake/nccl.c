/* nccl.c - NCCL over TCP on this machine. See fake.h.
 *
 * An id names a root, a thread of who made it, which lives until all ranks have
 * come to it and have learned each other's ports; then each pair has a
 * connection. A collective is work on a stream: transfers over those, until all
 * are done, or an abort. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl.h>

#include "fake.h"
#include "place.h"
#include "reduce.h"
#include "sockets.h"

enum { RANKS_MAX = 64, CALLS_MAX = 1024 };

struct call {
    enum { ALLREDUCE, BROADCAST, ALLGATHER, REDUCE_SCATTER, SEND, RECV } what;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer; /* or the root */
    ncclComm_t comm;
    CUstream stream;
};

struct ncclComm {
    int rank, size, listen_fd;
    uint64_t place;
    ncclUniqueId id;
    int fds[RANKS_MAX], others[RANKS_MAX]; /* of kernels; of what is enqueued */
    pthread_t maker;
    bool made;
    atomic_int state;  /* of what is under way: ncclResult_t */
    atomic_int error;  /* stays */
    atomic_bool leave; /* kernels do */
    atomic_bool revoked;
    atomic_int n_running; /* pieces of work on streams */
    pthread_t enqueuer, revoker;
    bool enqueues, revokes;
    struct call *calls; /* that the enqueuer has */
    int n_calls;
    bool hangs, breaks, blocks;
    bool met[RANKS_MAX]; /* something was sent or received before */
};

static __thread int depth;
static __thread struct call group[CALLS_MAX];
static __thread int n_group;
static atomic_long n_collectives;
static atomic_int n_comms;

/* --- making one --- */

struct greeting {
    uint64_t tag;
    uint64_t place; /* a device of a host */
    int rank, size;
    uint16_t port;
    bool other; /* the second connection of the two */
};

struct root {
    int fd;
    uint64_t tag;
};

static bool read_all(int fd, void *bytes, size_t n)
{
    return recv(fd, bytes, n, MSG_WAITALL) == (ssize_t)n;
}

/* Ports that are 0: somebody is refused, and so all are. */
static void *root_main(void *arg)
{
    struct root root = *(struct root *)arg;
    uint16_t ports[RANKS_MAX] = {0};
    uint64_t places[RANKS_MAX];
    int fds[RANKS_MAX], n = 0, size = 1;

    free(arg);
    while (n < size) {
        struct greeting g;
        int fd = accept(root.fd, NULL, NULL);

        if (fd < 0 || !read_all(fd, &g, sizeof(g)) || g.tag != root.tag) {
            close(fd);
            continue;
        }
        size = g.size;
        ports[g.rank] = g.port;
        places[n] = g.place;
        fds[n++] = fd;
    }
    if (!places_differ(places, n))
        memset(ports, 0, sizeof(ports));
    for (int i = 0; i < n; i++) {
        (void)!send(fds[i], ports, sizeof(ports), MSG_NOSIGNAL);
        close(fds[i]);
    }
    close(root.fd);
    return NULL;
}

FAKE_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    struct root *root = calloc(1, sizeof(*root));
    uint16_t port;
    pthread_t thread;

    memset(id, 0, sizeof(*id));
    root->fd = fake_listen(&port);
    if (getrandom(&root->tag, sizeof(root->tag), 0) != sizeof(root->tag))
        abort();
    memcpy(id->internal, &root->tag, 8);
    memcpy(id->internal + 8, &port, 2);
    if (pthread_create(&thread, NULL, root_main, root) != 0)
        abort();
    pthread_detach(thread);
    return ncclSuccess;
}

static bool meet(ncclComm_t c, uint16_t *ports)
{
    struct greeting g = {.place = c->place, .rank = c->rank, .size = c->size};
    struct transfer t[] = {
        {-1, (uint8_t *)&g, sizeof(g), true},
        {-1, (uint8_t *)ports, RANKS_MAX * sizeof(*ports), false}};
    uint16_t port;

    c->listen_fd = fake_listen(&g.port);
    memcpy(&g.tag, c->id.internal, 8);
    memcpy(&port, c->id.internal + 8, 2);
    t[0].fd = t[1].fd = fake_dial(port);
    if (t[0].fd < 0)
        return false;
    if (fake_move_all(t, 2, &c->leave) != DONE) {
        close(t[0].fd);
        return false;
    }
    close(t[0].fd);
    return ports[c->rank] != 0;
}

static bool take_higher(ncclComm_t c, uint64_t tag)
{
    for (int missing = 2 * (c->size - 1 - c->rank); missing > 0;) {
        struct pollfd pfd = {c->listen_fd, POLLIN, 0};
        struct greeting g;
        int fd;

        if (atomic_load(&c->leave))
            return false;
        if (poll(&pfd, 1, POLL_MS) <= 0)
            continue;
        fd = accept(c->listen_fd, NULL, NULL);
        if (fd < 0 || !read_all(fd, &g, sizeof(g)) || g.tag != tag) {
            close(fd);
            continue;
        }
        *(g.other ? &c->others[g.rank] : &c->fds[g.rank]) = fd;
        missing--;
    }
    return true;
}

static int dial_rank(const struct greeting *g, uint16_t port)
{
    int fd = fake_dial(port);

    if (fd < 0 || send(fd, g, sizeof(*g), MSG_NOSIGNAL) == sizeof(*g))
        return fd;
    close(fd);
    return -1;
}

static bool connect_all(ncclComm_t c)
{
    uint16_t ports[RANKS_MAX];
    struct greeting g = {.rank = c->rank, .size = c->size};

    if (!meet(c, ports))
        return false;
    memcpy(&g.tag, c->id.internal, 8);
    for (int i = 0; i < c->rank; i++) {
        g.other = false;
        c->fds[i] = dial_rank(&g, ports[i]);
        g.other = true;
        c->others[i] = dial_rank(&g, ports[i]);
        if (c->fds[i] < 0 || c->others[i] < 0)
            return false;
    }
    return take_higher(c, g.tag);
}

static void *make_main(void *arg)
{
    ncclComm_t c = arg;
    bool made = false;

    for (long i = 0;
         i < fake_knob(FAKE_INIT_HANG_MS) && !atomic_load(&c->leave); i++)
        fake_pause_us(1000);
    if (fake_knob(FAKE_INIT_FAIL) == 0)
        made = connect_all(c);
    atomic_store(&c->state, made ? ncclSuccess : ncclSystemError);
    return NULL;
}

static ncclResult_t begun(ncclComm_t c)
{
    while (c->blocks && atomic_load(&c->state) == ncclInProgress)
        fake_pause_us(20);
    return c->blocks ? (ncclResult_t)atomic_load(&c->state) : ncclInProgress;
}

FAKE_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size,
                                             ncclUniqueId id, int rank,
                                             ncclConfig_t *config)
{
    ncclComm_t c;

    if (config->magic != 0xcafebeef || size < 1 || size > RANKS_MAX ||
        rank < 0 || rank >= size)
        return ncclInvalidArgument;
    c = calloc(1, sizeof(*c));
    atomic_fetch_add(&n_comms, 1);
    c->blocks = config->blocking != 0;
    c->rank = rank;
    c->size = size;
    c->id = id;
    c->place = place_of_this();
    c->listen_fd = -1;
    for (int i = 0; i < RANKS_MAX; i++)
        c->fds[i] = c->others[i] = -1;
    atomic_store(&c->state, ncclInProgress);
    *comm = c;
    if (pthread_create(&c->maker, NULL, make_main, c) != 0)
        abort();
    return begun(c);
}

FAKE_API ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error)
{
    *error = (ncclResult_t)atomic_load(&c->state);
    if (*error == ncclSuccess)
        *error = (ncclResult_t)atomic_load(&c->error);
    return ncclSuccess;
}

/* --- collectives, on a stream --- */

static enum outcome all_to_all(ncclComm_t c, const uint8_t *mine,
                               size_t mine_step, uint8_t *theirs, size_t nbytes)
{
    struct transfer t[2 * RANKS_MAX];
    int n = 0;

    for (int i = 0; i < c->size; i++) {
        uint8_t *to = theirs + (size_t)i * nbytes;
        uint8_t *from = (uint8_t *)(uintptr_t)mine + (size_t)i * mine_step;

        if (i == c->rank) {
            memmove(to, from, nbytes);
            continue;
        }
        t[n++] = (struct transfer){c->fds[i], from, nbytes, true};
        t[n++] = (struct transfer){c->fds[i], to, nbytes, false};
    }
    return fake_move_all(t, n, &c->leave);
}

/* In the order of ranks, so that all get the same bits. */
static void reduce_ranks(const struct call *call, uint8_t *all, size_t nbytes)
{
    for (int i = 1; i < call->comm->size; i++)
        fake_reduce(all, all + (size_t)i * nbytes, call->count, call->type,
                    call->op);
    memcpy(fake_memory(call->recv), all, nbytes);
}

static enum outcome run_reduction(const struct call *call)
{
    ncclComm_t c = call->comm;
    size_t nbytes = call->count * fake_size_of(call->type);
    uint8_t *all = malloc((size_t)c->size * nbytes + 1);
    size_t step = call->what == REDUCE_SCATTER ? nbytes : 0;
    enum outcome outcome = all_to_all(c, fake_memory(call->send), step, all,
                                      nbytes);

    if (outcome == DONE)
        reduce_ranks(call, all, nbytes);
    free(all);
    return outcome;
}

static enum outcome run_gather(const struct call *call)
{
    size_t nbytes = call->count * fake_size_of(call->type);

    return all_to_all(call->comm, fake_memory(call->send), 0,
                      fake_memory(call->recv), nbytes);
}

static enum outcome run_broadcast(const struct call *call)
{
    ncclComm_t c = call->comm;
    size_t nbytes = call->count * fake_size_of(call->type);
    struct transfer t[RANKS_MAX];
    int n = 0;

    if (c->rank != call->peer) {
        t[0] = (struct transfer){c->fds[call->peer], fake_memory(call->recv),
                                 nbytes, false};
        return fake_move_all(t, 1, &c->leave);
    }
    if (call->send != call->recv)
        memmove(fake_memory(call->recv), fake_memory(call->send), nbytes);
    for (int i = 0; i < c->size; i++)
        if (i != c->rank)
            t[n++] = (struct transfer){c->fds[i], fake_memory(call->recv),
                                       nbytes, true};
    return fake_move_all(t, n, &c->leave);
}

/* Sends and receives of a group at once; to itself by memory. */
static enum outcome run_exchange(const struct call *calls, int n_calls)
{
    struct transfer t[CALLS_MAX];
    const struct call *own = NULL;
    int n = 0;

    for (int i = 0; i < n_calls; i++) {
        const struct call *call = &calls[i];
        ncclComm_t c = call->comm;
        size_t nbytes = call->count * fake_size_of(call->type);
        bool out = call->what == SEND;

        if (call->peer == c->rank && out)
            own = call;
        else if (call->peer == c->rank && own != NULL)
            memmove(fake_memory(call->recv), fake_memory(own->send), nbytes);
        else
            t[n++] = (struct transfer){
                c->fds[call->peer], fake_memory(out ? call->send : call->recv),
                nbytes, out};
    }
    return fake_move_all(t, n, &calls->comm->leave);
}

struct work {
    struct call *calls;
    int n;
    bool breaks;
};

/* As a kernel that waits for who is dead. Only who has a connection to the
 * next rank on the ring is told. */
static void spin(ncclComm_t c, bool neighbour)
{
    if (neighbour && fake_knob(FAKE_SILENT) == 0)
        atomic_store(&c->error, ncclRemoteError);
    while (!atomic_load(&c->leave))
        fake_pause_us(200);
}

static bool beside_a_dead(ncclComm_t c)
{
    for (int k = -1; k <= 1; k += 2) {
        int fd = c->fds[(c->rank + k + c->size) % c->size];
        char byte;

        if (fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            return true;
    }
    return false;
}

static enum outcome run_one(const struct call *calls, int n, int *used)
{
    *used = 1;
    switch (calls->what) {
    case ALLREDUCE:
    case REDUCE_SCATTER:
        return run_reduction(calls);
    case ALLGATHER:
        return run_gather(calls);
    case BROADCAST:
        return run_broadcast(calls);
    case SEND:
    case RECV:
        *used = n; /* NCCL mixes them with no others here */
        return run_exchange(calls, n);
    }
    abort();
}

static void run(void *arg)
{
    struct work *w = arg;
    ncclComm_t c = w->calls->comm;
    enum outcome outcome = DONE;

    if (w->breaks) {
        fake_break();
        outcome = DEAD;
    }
    for (int i = 0, used; i < w->n && outcome == DONE; i += used)
        outcome = run_one(w->calls + i, w->n - i, &used);
    if (outcome == DEAD)
        spin(c, beside_a_dead(c));
    free(w->calls);
    free(w);
    atomic_fetch_sub(&c->n_running, 1);
}

/* --- enqueueing, on a thread --- */

/* The first between two: a connection is made, for which both have to come. */
static void meet_peers(ncclComm_t c)
{
    uint8_t bytes[RANKS_MAX] = {0};
    struct transfer t[2 * RANKS_MAX];
    int n = 0;

    for (int i = 0; i < c->n_calls && c->calls[i].what >= SEND; i++) {
        int peer = c->calls[i].peer;

        if (peer == c->rank || c->met[peer])
            continue;
        c->met[peer] = true;
        t[n++] = (struct transfer){c->others[peer], &bytes[c->rank], 1, true};
        t[n++] = (struct transfer){c->others[peer], &bytes[peer], 1, false};
    }
    (void)fake_move_all(t, n, &c->leave);
}

static void *enqueue_main(void *arg)
{
    ncclComm_t c = arg;
    struct work *w = malloc(sizeof(*w));

    *w = (struct work){c->calls, c->n_calls, c->breaks};
    fake_pause_us(fake_knob(FAKE_ENQUEUE_US));
    meet_peers(c);
    while (c->hangs && !atomic_load(&c->leave))
        fake_pause_us(200);
    fake_enqueue(w->calls->stream, run, w);
    atomic_store(&c->state, ncclSuccess);
    return NULL;
}

static void misbehave(ncclComm_t c)
{
    long n = atomic_fetch_add(&n_collectives, 1) + 1;
    const char *worker = getenv("HVD_WORKER");

    c->hangs = c->breaks = false;
    if (fake_knob(FAKE_WORKER) > 0 &&
        (worker == NULL || atol(worker) != fake_knob(FAKE_WORKER)))
        return;

    if (n == fake_knob(FAKE_ERROR_AT))
        atomic_store(&c->error, ncclInternalError);
    if (n == fake_knob(FAKE_STICKY_AT))
        fake_break();
    c->breaks = n == fake_knob(FAKE_BREAK_AT);
    c->hangs = n == fake_knob(FAKE_ENQUEUE_HANG_AT);
}

static ncclResult_t enqueue(ncclComm_t c, const struct call *calls, int n)
{
    if (c->enqueues)
        pthread_join(c->enqueuer, NULL);
    misbehave(c);
    c->calls = malloc((size_t)n * sizeof(*calls));
    memcpy(c->calls, calls, (size_t)n * sizeof(*calls));
    c->n_calls = n;
    atomic_fetch_add(&c->n_running, 1);
    atomic_store(&c->state, ncclInProgress);
    c->enqueues = true;
    if (pthread_create(&c->enqueuer, NULL, enqueue_main, c) != 0)
        abort();
    return begun(c);
}

FAKE_API ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

FAKE_API ncclResult_t ncclGroupEnd(void)
{
    int n = n_group;

    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth > 0 || n == 0)
        return ncclSuccess;
    n_group = 0;
    return enqueue(group[0].comm, group, n);
}

static ncclResult_t add(const struct call *call)
{
    ncclResult_t state;

    (void)ncclCommGetAsyncError(call->comm, &state);
    if (atomic_load(&call->comm->revoked))
        return ncclInvalidUsage;
    if (state == ncclInProgress || n_group == CALLS_MAX)
        return ncclInvalidArgument;
    if (state != ncclSuccess)
        return state;
    (void)ncclGroupStart();
    group[n_group++] = *call;
    return ncclGroupEnd();
}

FAKE_API ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
    return add(&(struct call){ALLREDUCE, send, recv, count, type, op, 0, comm,
                              stream});
}

FAKE_API ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, int root,
                                    ncclComm_t comm, cudaStream_t stream)
{
    return add(&(struct call){BROADCAST, send, recv, count, type, ncclSum, root,
                              comm, stream});
}

FAKE_API ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclComm_t comm,
                                    cudaStream_t stream)
{
    return add(&(struct call){ALLGATHER, send, recv, count, type, ncclSum, 0,
                              comm, stream});
}

FAKE_API ncclResult_t ncclReduceScatter(const void *send, void *recv,
                                        size_t count, ncclDataType_t type,
                                        ncclRedOp_t op, ncclComm_t comm,
                                        cudaStream_t stream)
{
    return add(&(struct call){REDUCE_SCATTER, send, recv, count, type, op, 0,
                              comm, stream});
}

FAKE_API ncclResult_t ncclSend(const void *send, size_t count,
                               ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream)
{
    return add(&(struct call){SEND, send, NULL, count, type, ncclSum, peer,
                              comm, stream});
}

FAKE_API ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type,
                               int peer, ncclComm_t comm, cudaStream_t stream)
{
    return add(&(struct call){RECV, NULL, recv, count, type, ncclSum, peer,
                              comm, stream});
}

/* --- the end --- */

static void drain(ncclComm_t c)
{
    while (atomic_load(&c->n_running) > 0)
        fake_pause_us(100);
}

static void *revoke_main(void *arg)
{
    ncclComm_t c = arg;

    drain(c);
    fake_pause_us(fake_knob(FAKE_PART_MS) * 1000);
    atomic_store(&c->state, ncclSuccess);
    return NULL;
}

/* Once what was being enqueued is. */
FAKE_API ncclResult_t ncclCommRevoke(ncclComm_t c, int flags)
{
    if (flags != NCCL_REVOKE_DEFAULT || c->revokes)
        return ncclInvalidArgument;
    atomic_store(&c->revoked, true);
    atomic_store(&c->leave, true);
    if (c->enqueues)
        pthread_join(c->enqueuer, NULL);
    c->enqueues = false;
    atomic_store(&c->state, ncclInProgress);
    c->revokes = true;
    if (pthread_create(&c->revoker, NULL, revoke_main, c) != 0)
        abort();
    return ncclInProgress;
}

FAKE_API ncclResult_t ncclCommAbort(ncclComm_t c)
{
    atomic_store(&c->leave, true);
    pthread_join(c->maker, NULL);
    if (c->enqueues)
        pthread_join(c->enqueuer, NULL);
    if (c->revokes)
        pthread_join(c->revoker, NULL);
    drain(c);
    if (!c->revokes)
        fake_pause_us(fake_knob(FAKE_PART_MS) * 1000);
    fake_pause_us(fake_knob(FAKE_ABORT_HANG_MS) * 1000);
    for (int i = 0; i < c->size; i++) {
        if (c->fds[i] >= 0)
            close(c->fds[i]);
        if (c->others[i] >= 0)
            close(c->others[i]);
    }
    if (c->listen_fd >= 0)
        close(c->listen_fd);
    free(c);
    atomic_fetch_sub(&n_comms, 1);
    return ncclSuccess;
}

FAKE_API int fake_communicators(void)
{
    return atomic_load(&n_comms);
}
