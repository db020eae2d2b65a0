/* collectives/local/local.c - the life of a local group: mailboxes made, handed
 * over, mapped, left. See local.h.
 *
 * Memory: one struct and the arrays in it; mappings until local_destroy(),
 * those of arenas longer (peer_memory.c). */
#include "collectives/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mac.h"
#include "collectives/local/arena.h"
#include "collectives/local/impl.h"
#include "collectives/net/endpoint_impl.h"

enum { LEAVE_SPIN_US = 500, LEAVE_SAY_US = 1000000 };

/* --- creation --- */

static bool allocate(struct local *local)
{
    size_t n = (size_t)local->size;

    local->peers = calloc(n, sizeof(*local->peers));
    for (size_t i = 0; local->peers != NULL && i < n; i++)
        local->peers[i].doorbell = local->peers[i].pidfd = -1;
    local->place = calloc((size_t)local->n_ranks, sizeof(*local->place));
    local->progress = calloc(n, sizeof(*local->progress));
    local->sources = calloc(n, sizeof(*local->sources));
    local->results = calloc(n, sizeof(*local->results));
    local->views = calloc(n, sizeof(*local->views));
    return local->peers != NULL && local->place != NULL &&
           local->progress != NULL && local->sources != NULL &&
           local->results != NULL && local->views != NULL;
}

static void number(struct local *local)
{
    uint32_t host = local->ranks[local->rank].host;
    int n = 0;

    for (int i = 0; i < local->n_ranks; i++) {
        local->place[i] = -1;
        if (local->ranks[i].host != host)
            continue;
        if (i == local->rank)
            local->me = n;
        local->place[i] = n;
        local->peers[n++].rank = i;
    }
}

/* Sealed before it is handed to anybody; others get a descriptor that cannot
 * be mapped for writing. */
static bool open_box(struct local *local)
{
    size_t nbytes = sizeof(struct mailbox);
    struct mailbox *map;
    char path[64];

    local->box_fd = memfd_create("hvd-mailbox",
                                 MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (local->box_fd < 0 || !arena_extend(local->box_fd, nbytes) ||
        fcntl(local->box_fd, F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return false;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", local->box_fd);
    local->readable_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (local->readable_fd < 0)
        return false;
    map = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, local->box_fd,
               0);
    if (map == MAP_FAILED)
        return false;
    (void)madvise(map, nbytes, MADV_DONTFORK);
    mac_random(&map->nonce, sizeof(map->nonce));
    if (!own_box_add(map)) {
        (void)munmap(map, nbytes);
        return false;
    }
    local->box = map;
    local->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return local->doorbell >= 0;
}

static bool open_memory(struct local *local, const struct endpoint *endpoint)
{
    if (!endpoint_has_local(endpoint)) {
        errno = EOPNOTSUPP;
        return false;
    }
    return open_box(local) && arena_fd() >= 0;
}

static unsigned abilities(const struct local *local)
{
    return local->ranks[local->rank].abilities;
}

static void introduce(struct local *local)
{
    struct mailbox *box = local->box;
    cpu_set_t cpus;

    box->magic = MAILBOX_MAGIC;
    box->nbytes = sizeof(*box);
    box->worker = local->ranks[local->rank].worker;
    box->generation = local->generation;
    box->self = (uint64_t)(uintptr_t)box;
    box->cpu = local->cpu = UINT32_MAX;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
        memcpy(box->cpus, &cpus, sizeof(cpus));
        local->bound = CPU_COUNT(&cpus) == 1;
    }
    local->peers[local->me].box = box;
}

static struct local *create(const struct local_config *config, int n)
{
    struct local *local = calloc(1, sizeof(*local));

    if (local == NULL)
        return NULL;
    local->owner = config->owner;
    local->ranks = config->peers;
    local->rank = config->rank;
    local->n_ranks = config->size;
    local->generation = config->generation;
    local->forced_way = config->forced_way;
    local->size = n;
    local->box_fd = local->readable_fd = local->doorbell = -1;
    if (allocate(local))
        return local;
    local_destroy(local);
    return NULL;
}

hvd_status_t local_create(const struct local_config *config,
                          struct local **local_p)
{
    int n = peers_beside(config->peers, config->size, config->rank);
    struct local *local;

    *local_p = NULL;
    if (n < 2 || !(config->peers[config->rank].abilities & COMM_CAN_SHARE))
        return HVD_OK;
    if (n > LOCAL_SIZE_MAX) {
        log_warn("%d ranks on this host, shared memory serves %d -> they use "
                 "TCP",
                 n, LOCAL_SIZE_MAX);
        return HVD_OK;
    }
    local = create(config, n);
    if (local == NULL)
        return error_set(HVD_ERR_NOMEM, "shared memory of %d ranks", n);
    number(local);
    if (!open_memory(local, config->endpoint)) {
        /* the others count on it */
        hvd_status_t status = error_errno("the shared memory of this rank");

        local_destroy(local);
        return status;
    }
    introduce(local);
    *local_p = local;
    return HVD_OK;
}

static void part_with(struct local_peer *peer)
{
    if (peer->doorbell >= 0)
        close(peer->doorbell);
    if (peer->pidfd >= 0)
        close(peer->pidfd);
    if (peer->box != NULL && peer->own)
        own_box_give(peer->box);
    else if (peer->box != NULL)
        (void)munmap((void *)(uintptr_t)peer->box, sizeof(*peer->box));
    if (peer->arena != NULL)
        peer_arena_give(peer->arena);
}

void local_destroy(struct local *local)
{
    if (local == NULL)
        return;
    for (int i = 0; local->peers != NULL && i < local->size; i++)
        if (i != local->me)
            part_with(&local->peers[i]);
    if (local->box != NULL)
        own_box_give(local->box);
    if (local->box_fd >= 0)
        close(local->box_fd);
    if (local->readable_fd >= 0)
        close(local->readable_fd);
    if (local->doorbell >= 0)
        close(local->doorbell);
    stage_give(local->stage);
    hvd_free(local->lent.piece);
    free(local->fetched);
    free(local->choice);
    free(local->peers);
    free(local->place);
    free(local->progress);
    free(local->sources);
    free(local->results);
    free(local->views);
    free(local);
}

void local_fds_close(const struct local *local)
{
    if (local == NULL)
        return;
    close(local->box_fd);
    close(local->readable_fd);
    close(local->doorbell);
    for (int i = 0; i < local->size; i++) {
        if (local->peers[i].doorbell >= 0)
            close(local->peers[i].doorbell);
        if (local->peers[i].pidfd >= 0)
            close(local->peers[i].pidfd);
    }
}

int local_size(const struct local *local)
{
    return local->size;
}

/* --- peers --- */

size_t local_fds(const struct local *local, int *fds)
{
    fds[0] = local->readable_fd;
    fds[1] = arena_fd();
    fds[2] = local->doorbell;
    return LOCAL_FDS;
}

static const struct mailbox *map_box(int fd)
{
    size_t nbytes = sizeof(struct mailbox);
    struct stat st;
    void *map;

    if (fstat(fd, &st) != 0)
        return NULL;
    if ((size_t)st.st_size != nbytes) {
        errno = EPROTO;
        return NULL;
    }
    map = mmap(NULL, nbytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return NULL;
    (void)madvise(map, nbytes, MADV_DONTFORK);
    return map;
}

static bool is_of(const struct mailbox *box, const struct local *local,
                  int rank)
{
    return box->magic == MAILBOX_MAGIC && box->nbytes == sizeof(*box) &&
           box->worker == local->ranks[rank].worker &&
           box->generation == local->generation;
}

/* Of who is at the other end of the connection: a process's own word for its
 * number does not hold in another namespace of numbers. */
static pid_t pid_of(const struct local *local, int rank)
{
    const struct connection *c = local->owner.links[rank];
    struct ucred who;
    socklen_t len = sizeof(who);

    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0)
        return 0;
    return who.pid;
}

/* A thread of this process, whose box is one of ours: use what it uses. Its
 * number tells nothing: another namespace has the same numbers. */
static bool use_own(struct local_peer *peer)
{
    const struct mailbox *mapped = peer->box;
    const struct mailbox *own = own_box_take(mapped->nonce);

    if (own == NULL)
        return false;
    peer->box = own;
    peer->own = true;
    (void)munmap((void *)(uintptr_t)mapped, sizeof(*mapped));
    return true;
}

static bool attach(const struct local *local, struct local_peer *peer,
                   const int *fds)
{
    peer->doorbell = fds[2];
    peer->box = map_box(fds[0]);
    if (peer->box == NULL)
        return false;
    if (!is_of(peer->box, local, peer->rank)) {
        errno = EPROTO;
        return false;
    }
    peer->process = (struct peer_process){
        .pid = pid_of(local, peer->rank),
        .nonce = peer->box->nonce,
        .nonce_at = peer->box->self + offsetof(struct mailbox, nonce),
    };
    if (use_own(peer))
        return true;
    peer->arena = peer_arena_take(fds[1]);
    return peer->arena != NULL;
}

/* Reading brings the nonce along. */
static bool can_read(const struct local_peer *peer)
{
    uint64_t magic;

    return peer_read(&peer->process, peer->box->self, &magic, sizeof(magic)) &&
           magic == MAILBOX_MAGIC;
}

/* Two hosts may be one machine under two names. */
static int count_at_address(const struct local *local)
{
    const char *address = local->ranks[local->rank].addresses;
    int n = 0;

    for (int i = 0; i < local->n_ranks; i++)
        n += strcmp(local->ranks[i].addresses, address) == 0;
    return n;
}

_Static_assert(sizeof(cpu_set_t) == MAILBOX_CPUS / 8, "a set of processors");

/* What the ranks here may use together: one that is bound has its own. Those of
 * other hosts on this machine count as if they used the same. */
static bool more_ranks_than_cores(const struct local *local)
{
    int n_ranks = count_at_address(local), n = 0;

    for (int k = 0; k < MAILBOX_CPUS / 64; k++) {
        uint64_t cpus = 0;

        for (int i = 0; i < local->size; i++)
            cpus |= local->peers[i].box->cpus[k];
        n += __builtin_popcountll(cpus);
    }
    if (n == 0) /* more than fit the set */
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n < (n_ranks > local->size ? n_ranks : local->size);
}

/* Once all are there: may their memory be read where it is? Have they a core
 * each? */
static void probe(struct local *local)
{
    bool all = abilities(local) & COMM_CAN_ATTACH;

    for (int i = 0; i < local->size; i++)
        if (local->peers[i].box == NULL)
            return;
    for (int i = 0; i < local->size && all; i++)
        all = i == local->me || can_read(&local->peers[i]);
    atomic_store(&local->box->attaches, all ? 1 : 2);
    local->crowded = more_ranks_than_cores(local);
}

hvd_status_t local_map_peer(struct local *local, int rank, const int *fds)
{
    struct local_peer *p = &local->peers[local->place[rank]];
    bool ok = attach(local, p, fds);

    if (ok) {
        if (p->process.pid > 0 && abilities(local) & COMM_CAN_WATCH)
            p->pidfd = (int)syscall(SYS_pidfd_open, p->process.pid, 0);
        local->n_mapped++;
    }
    close(fds[0]);
    close(fds[1]);
    if (!ok)
        return error_set(HVD_ERR_SYSTEM,
                         "the memory of rank %d cannot be mapped: %s "
                         "(HVD_TRANSPORT=tcp does without)",
                         rank,
                         errno == EPROTO ? "its libhvd is of another release"
                                         : strerror(errno));
    probe(local);
    return HVD_OK;
}

/* Is this peer in the middle of writing into own memory? Not if its end of
 * the connection is closed, which may be long before the kernel has reported
 * its death: it was closed by the thread that writes, or behind the last
 * instruction of all threads. */
static bool writes(const struct local *local, const struct local_peer *peer,
                   int wait_ms)
{
    const struct connection *c = local->owner.links[peer->rank];
    struct pollfd ends[] = {{peer->pidfd, POLLIN, 0},
                            {c != NULL ? c->fd : -1, POLLRDHUP, 0}};

    uint32_t to = peer->box != NULL ? atomic_load(&peer->box->writing) : 0;

    return (to == MAILBOX_ALL || to == (uint32_t)local->me + 1) &&
           poll(ends, 2, wait_ms) <= 0; /* a signal is no death */
}

/* A block takes a fraction of a millisecond. What takes longer is stopped, and
 * will go on or be killed. */
static void await_writer(const struct local *local,
                         const struct local_peer *peer)
{
    uint64_t begin_us = clock_now_us();
    bool said = false;

    while (writes(local, peer, 0)) {
        uint64_t waited_us = clock_now_us() - begin_us;

        if (waited_us < LEAVE_SPIN_US) {
            sched_yield();
            continue;
        }
        if (waited_us > LEAVE_SAY_US && !said) {
            said = true;
            log_warn("rank %d has stopped while it wrote into the memory of "
                     "rank %d -> waiting until it is dead",
                     peer->rank, local->rank);
        }
        (void)writes(local, peer, 1);
    }
}

void local_leave(struct local *local)
{
    bool differs;

    if (local == NULL)
        return;
    differs = verdict_status(local->owner.verdict, NULL) == HVD_ERR_MISMATCH;
    atomic_store(&local->box->left,
                 differs ? MAILBOX_LEFT_MISMATCH : MAILBOX_LEFT);
    /* before what the application writes next: ARM64 lets later stores pass a
     * store, also a sequentially consistent one */
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < local->size; i++)
        if (i != local->me)
            await_writer(local, &local->peers[i]);
}

/* --- telling --- */

void local_notify(struct local *local)
{
    for (int i = 0; i < local->size; i++) {
        const struct local_peer *peer = &local->peers[i];

        if (i == local->me || peer->box == NULL ||
            atomic_load(&peer->box->sleeping) == 0)
            continue;
        /* full, it is readable all the same */
        (void)eventfd_write(peer->doorbell, 1);
    }
}
