/* collectives/local/peer_memory.c - the memory of other processes of this host:
 * their arenas, mapped, and their buffers, read through process_vm_readv(2).
 *
 * The mappings outlive the comm that took them: survivors meet again in the
 * next generation, and an arena of a dead process should not be freed while
 * everybody waits. To unmap the last mapping of one frees it, 12 ms for each
 * 100 MB: a thread that lives only for that does it.
 *
 * Threads: any; one lock around the list. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "collectives/local/arena.h"
#include "collectives/local/impl.h"

/* Survivors of a loss meet again within milliseconds. */
enum { TIDY_AFTER_US = 300000 };

struct peer_arena {
    int fd;
    dev_t device;
    ino_t inode;
    const struct arena_head *head;
    struct arena_views views; /* added to under the lock */
    int n_users;
    uint64_t given_us; /* when the last user gave it back */
    struct peer_arena *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct peer_arena *arenas;

static struct peer_arena *find(const struct stat *st)
{
    struct peer_arena *a = arenas;

    while (a != NULL && (a->device != st->st_dev || a->inode != st->st_ino))
        a = a->next;
    return a;
}

/* Its descriptor is closed. */
static void unmap(struct peer_arena *a)
{
    arena_views_unmap(&a->views);
    if (a->head != NULL)
        (void)munmap((void *)(uintptr_t)a->head, ARENA_HEAD_NBYTES);
    free(a);
}

static bool open_head(struct peer_arena *a, int fd)
{
    void *head;

    a->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (a->fd < 0)
        return false;
    head = mmap(NULL, ARENA_HEAD_NBYTES, PROT_READ, MAP_SHARED, a->fd, 0);
    if (head == MAP_FAILED)
        return false;
    (void)madvise(head, ARENA_HEAD_NBYTES, MADV_DONTFORK);
    a->head = head;
    return true;
}

/* The segment that these bytes are in. */
static bool find_segment(const struct peer_arena *a, uint64_t offset,
                         size_t nbytes, struct arena_segment *segment_p)
{
    uint64_t n = atomic_load(&a->head->n_segments);

    for (uint64_t i = 0; i < n && i < ARENA_SEGMENTS_MAX; i++) {
        struct arena_segment s = a->head->segments[i];

        if (offset < s.offset || offset - s.offset > s.nbytes ||
            nbytes > s.nbytes - (offset - s.offset))
            continue;
        *segment_p = s;
        return true;
    }
    errno = EFAULT;
    return false;
}

static bool map_segment(struct peer_arena *a, uint64_t offset, size_t nbytes)
{
    struct arena_segment s;

    return find_segment(a, offset, nbytes, &s) &&
           arena_views_map(&a->views, a->fd, s);
}

/* A forked child that kept the descriptors would keep the memory of the dead.
 * Async-signal-safe: no lock, the list is whole at every instant. */
static void in_child(void)
{
    for (const struct peer_arena *a = arenas; a != NULL; a = a->next)
        close(a->fd);
}

static void guard_fork(void)
{
    if (pthread_atfork(NULL, NULL, in_child) != 0)
        log_warn("pthread_atfork: no memory -> a forked child keeps the memory "
                 "of other workers");
}

static struct peer_arena *add(int fd, const struct stat *st)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct peer_arena *a = calloc(1, sizeof(*a));
    int error;

    if (a == NULL)
        return NULL;
    pthread_once(&once, guard_fork);
    a->device = st->st_dev;
    a->inode = st->st_ino;
    if (open_head(a, fd)) {
        a->next = arenas;
        arenas = a;
        return a;
    }
    error = errno;
    if (a->fd >= 0)
        close(a->fd);
    unmap(a);
    errno = error;
    return NULL;
}

struct peer_arena *peer_arena_take(int fd)
{
    struct peer_arena *a = NULL;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return NULL;
    if (st.st_size < ARENA_HEAD_NBYTES) {
        errno = EPROTO;
        return NULL;
    }
    pthread_mutex_lock(&lock);
    a = find(&st);
    if (a == NULL)
        a = add(fd, &st);
    if (a != NULL)
        a->n_users++;
    pthread_mutex_unlock(&lock);
    return a;
}

uint8_t *peer_arena_view(struct peer_arena *a, uint64_t offset, size_t nbytes)
{
    uint8_t *at = arena_views_at(&a->views, offset, nbytes);

    if (__builtin_expect(at != NULL, 1))
        return at;
    pthread_mutex_lock(&lock);
    at = arena_views_at(&a->views, offset, nbytes); /* another's, meanwhile */
    if (at == NULL && map_segment(a, offset, nbytes))
        at = arena_views_at(&a->views, offset, nbytes);
    pthread_mutex_unlock(&lock);
    return at;
}

bool peer_arena_read(const struct peer_arena *a, uint64_t offset, void *dst,
                     size_t nbytes)
{
    uint8_t *to = dst;

    while (nbytes > 0) {
        ssize_t n = pread(a->fd, to, nbytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EFAULT : errno;
            return false;
        }
        to += n;
        offset += (uint64_t)n;
        nbytes -= (size_t)n;
    }
    return true;
}

bool peer_arena_write(const struct peer_arena *a, uint64_t offset,
                      const void *src, size_t nbytes)
{
    const uint8_t *from = src;
    struct rlimit limit;

    /* beyond it a write is a signal that ends the program, also in memory */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        offset + nbytes > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    while (nbytes > 0) {
        ssize_t n = pwrite(a->fd, from, nbytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        from += n;
        offset += (uint64_t)n;
        nbytes -= (size_t)n;
    }
    return true;
}

size_t local_arenas_held(void)
{
    size_t n = 0;

    pthread_mutex_lock(&lock);
    for (const struct peer_arena *a = arenas; a != NULL; a = a->next)
        n++;
    pthread_mutex_unlock(&lock);
    return n;
}

void peer_arena_give(struct peer_arena *arena)
{
    pthread_mutex_lock(&lock);
    HVD_ASSERT(arena->n_users > 0);
    if (--arena->n_users == 0)
        arena->given_us = clock_now_us();
    pthread_mutex_unlock(&lock);
}

/* --- arenas that nobody uses --- */

/* The thread that unmaps them, from the first that there is to
 * local_shutdown(): a process that ends without that leaves it waiting. */
static struct {
    pthread_mutex_t lock; /* of all of this; taken before the list's */
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stop;
    struct peer_arena *work;
} tidier = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .changed = PTHREAD_COND_INITIALIZER};

/* Given back until then. Once it is off the list no forked child would close
 * its descriptor, and to unmap takes long. */
static struct peer_arena *take_unused(uint64_t until_us)
{
    struct peer_arena *unused = NULL, **p = &arenas;

    pthread_mutex_lock(&lock);
    while (*p != NULL) {
        struct peer_arena *a = *p;

        if (a->n_users > 0 || a->given_us > until_us) {
            p = &a->next;
            continue;
        }
        *p = a->next;
        close(a->fd);
        a->next = unused;
        unused = a;
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

static void unmap_all(struct peer_arena *unused)
{
    while (unused != NULL) {
        struct peer_arena *a = unused;

        unused = a->next;
        unmap(a);
    }
}

static void *tidier_main(void *ignored)
{
    pthread_mutex_lock(&tidier.lock);
    while (!tidier.stop) {
        struct peer_arena *work = tidier.work;

        if (work == NULL) {
            pthread_cond_wait(&tidier.changed, &tidier.lock);
            continue;
        }
        tidier.work = NULL;
        pthread_mutex_unlock(&tidier.lock);
        unmap_all(work);
        pthread_mutex_lock(&tidier.lock);
    }
    pthread_mutex_unlock(&tidier.lock);
    return ignored;
}

static bool start_tidier(void)
{
    if (!tidier.started)
        tidier.started = thread_start(&tidier.thread, "hvd-tidy", tidier_main,
                                      NULL) == 0;
    return tidier.started;
}

static bool is_unused(uint64_t until_us)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (const struct peer_arena *a = arenas; a != NULL && !found; a = a->next)
        found = a->n_users == 0 && a->given_us <= until_us;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Without a thread nothing is unmapped: the caller has heartbeats to send. */
void local_tidy(void)
{
    uint64_t now_us = clock_now_us();
    uint64_t until_us = now_us > TIDY_AFTER_US ? now_us - TIDY_AFTER_US : 0;

    pthread_mutex_lock(&tidier.lock);
    if (tidier.work == NULL && is_unused(until_us) && start_tidier()) {
        tidier.work = take_unused(until_us);
        pthread_cond_signal(&tidier.changed);
    }
    pthread_mutex_unlock(&tidier.lock);
}

static void stop_tidier(void)
{
    bool started;

    pthread_mutex_lock(&tidier.lock);
    started = tidier.started;
    tidier.stop = true;
    pthread_cond_signal(&tidier.changed);
    pthread_mutex_unlock(&tidier.lock);
    if (started)
        pthread_join(tidier.thread, NULL);
    tidier.started = tidier.stop = false;
}

/* At once. */
static void tidy_all(void)
{
    stop_tidier();
    unmap_all(tidier.work);
    tidier.work = NULL;
    unmap_all(take_unused(CLOCK_NEVER));
}

/* --- mailboxes of this process --- */

struct own_box {
    struct mailbox *box;
    int n_users;
    struct own_box *next;
};

static struct own_box *boxes;

bool own_box_add(struct mailbox *box)
{
    struct own_box *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return false;
    pthread_mutex_lock(&lock);
    *b = (struct own_box){box, 1, boxes};
    boxes = b;
    pthread_mutex_unlock(&lock);
    return true;
}

const struct mailbox *own_box_take(uint64_t nonce)
{
    const struct mailbox *box = NULL;

    pthread_mutex_lock(&lock);
    for (struct own_box *b = boxes; b != NULL && box == NULL; b = b->next)
        if (b->box->nonce == nonce) {
            b->n_users++;
            box = b->box;
        }
    pthread_mutex_unlock(&lock);
    return box;
}

void own_box_give(const struct mailbox *box)
{
    struct own_box **p = &boxes, *b;

    pthread_mutex_lock(&lock);
    while ((*p)->box != box)
        p = &(*p)->next;
    b = *p;
    if (--b->n_users > 0) {
        pthread_mutex_unlock(&lock);
        return;
    }
    *p = b->next;
    pthread_mutex_unlock(&lock);
    (void)munmap(b->box, sizeof(*b->box));
    free(b);
}

/* --- own staging memory --- */

/* In front of it, with a page of its own. */
struct stage_head {
    _Alignas(STAGE_HEAD_NBYTES) atomic_uint_least64_t tenant;
};

struct stage {
    uint8_t *memory;
    size_t nbytes; /* behind the head */
    bool used;
    struct stage *next;
};

static struct stage *stages;

static struct stage *add_stage(size_t nbytes)
{
    struct stage *s = calloc(1, sizeof(*s));
    uint64_t offset;
    void *memory;

    if (s == NULL)
        return NULL;
    memory = hvd_alloc(sizeof(struct stage_head) + nbytes);
    if (memory == NULL) {
        free(s);
        return NULL;
    }
    if (!arena_find(memory, nbytes, &offset)) {
        hvd_free(memory);
        free(s);
        return NULL;
    }
    *s = (struct stage){(uint8_t *)memory + sizeof(struct stage_head), nbytes,
                        true, stages};
    stages = s;
    return s;
}

static struct stage_head *head_of(const uint8_t *stage)
{
    return (struct stage_head *)((uintptr_t)stage - sizeof(struct stage_head));
}

uint64_t stage_tenant(const uint8_t *stage)
{
    return atomic_load(&head_of(stage)->tenant);
}

uint8_t *stage_take(size_t nbytes, uint64_t tenant)
{
    struct stage *s;

    if (nbytes < LOCAL_STAGE_NBYTES)
        nbytes = LOCAL_STAGE_NBYTES;
    pthread_mutex_lock(&lock);
    for (s = stages; s != NULL && (s->used || s->nbytes < nbytes); s = s->next)
        continue;
    if (s == NULL)
        s = add_stage(nbytes);
    if (s != NULL)
        s->used = true;
    pthread_mutex_unlock(&lock);
    if (s == NULL)
        return NULL;
    atomic_store(&head_of(s->memory)->tenant, tenant);
    atomic_thread_fence(memory_order_seq_cst); /* before what is put there */
    return s->memory;
}

void stage_give(uint8_t *stage)
{
    if (stage == NULL)
        return;
    pthread_mutex_lock(&lock);
    for (struct stage *s = stages; s != NULL; s = s->next)
        if (s->memory == stage)
            s->used = false;
    pthread_mutex_unlock(&lock);
}

void local_shutdown(void)
{
    struct stage *s, *next;

    tidy_all();
    pthread_mutex_lock(&lock);
    s = stages;
    stages = NULL;
    pthread_mutex_unlock(&lock);
    for (; s != NULL; s = next) {
        next = s->next;
        HVD_ASSERT(!s->used);
        hvd_free(head_of(s->memory));
        free(s);
    }
    arena_close();
}

/* --- other processes --- */

/* The nonce comes with the data, in one system call, which holds on to one
 * address space: a number may have become another process's since. */
bool peer_read(const struct peer_process *from, uint64_t address, void *dst,
               size_t nbytes)
{
    uint8_t *to = dst;

    while (nbytes > 0) {
        uint64_t nonce = 0;
        struct iovec own[] = {{&nonce, sizeof(nonce)}, {to, nbytes}};
        struct iovec other[] = {
            {(void *)(uintptr_t)from->nonce_at, sizeof(nonce)},
            {(void *)(uintptr_t)address, nbytes}};
        ssize_t n = process_vm_readv(from->pid, own, 2, other, 2, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n <= (ssize_t)sizeof(nonce) || nonce != from->nonce) {
            errno = n < (ssize_t)sizeof(nonce) || nonce == from->nonce ? EFAULT
                                                                       : ESRCH;
            return false;
        }
        n -= (ssize_t)sizeof(nonce);
        to += n;
        address += (uint64_t)n;
        nbytes -= (size_t)n;
    }
    return true;
}
