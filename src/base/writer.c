/* base/writer.c - see writer.h. A list of records, each of which its putter
 * allocates and the thread frees. What the two share is under the lock; the
 * thread holds none while it takes.
 *
 * Who is last frees the writer: writer_destroy(), or a thread that it has left
 * behind (`abandoned`). */
#include "base/writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"

enum {
    AGAIN_MS = 100, /* from an error that may pass to the next try */
    LOOK_MS = 50,   /* how often a waiter asks whether something moves */
    STOP_MS = 200   /* from the word to stop to the thread's end */
};

struct record {
    struct record *next;
    size_t n;
    char bytes[];
};

struct writer {
    struct writer_config config;
    int stop_fd;
    pthread_t thread;
    _Atomic int trouble;
    bool in_trouble; /* the putter's, as is the next */
    struct log_seldom told;
    /* of writer_create_fd() */
    int fd;
    bool fd_owned, is_device;
    bool has_name; /* of a FIFO: another reader may open it */
    size_t piece_max;
    size_t n_written; /* of the record that is being taken */
    _Atomic uint64_t n_moved;
    _Atomic bool stopped;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct record *first, *last;
    struct record *taken; /* by the thread, and not ended yet */
    size_t pending;
    bool wanted; /* somebody was refused */
    bool closing, done, abandoned;
    int error;
};

static void release(struct writer *w)
{
    if (w->fd_owned)
        fd_close(&w->fd);
    fd_close(&w->stop_fd);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static size_t cost(size_t n)
{
    return n + sizeof(struct record);
}

/* ---- the thread ---------------------------------------------------------- */

/* NULL: closed, and nothing is left. */
static struct record *next_record(struct writer *w)
{
    struct record *r;

    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->closing)
        pthread_cond_wait(&w->changed, &w->lock);
    r = w->first;
    if (r)
        w->first = r->next;
    w->taken = r;
    pthread_mutex_unlock(&w->lock);
    return r;
}

static void note_error(struct writer *w, int error)
{
    pthread_mutex_lock(&w->lock);
    w->error = w->error != 0 ? w->error : error;
    pthread_mutex_unlock(&w->lock);
}

static void end_record(struct writer *w, struct record *r)
{
    pthread_mutex_lock(&w->lock);
    w->pending -= cost(r->n);
    w->taken = NULL;
    /* under the lock: the descriptor may be another's after writer_destroy() */
    if (w->wanted && w->config.wake_fd >= 0 && !w->abandoned)
        (void)eventfd_write(w->config.wake_fd, 1);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    writer_moved(w);
    free(r);
}

static void note_trouble(struct writer *w, int error)
{
    atomic_store_explicit(&w->trouble, error, memory_order_relaxed);
}

int writer_trouble(const struct writer *w)
{
    return atomic_load_explicit(&w->trouble, memory_order_relaxed);
}

/* After a take that failed. 0: take again, else the error that ends it. */
static int recover(struct writer *w, int error)
{
    const struct writer_ops *ops = w->config.ops;
    struct pollfd stop = {.fd = w->stop_fd, .events = POLLIN};

    if (!ops->may_pass || !ops->may_pass(w, w->config.arg, error))
        return error;
    note_trouble(w, error);
    return poll(&stop, 1, AGAIN_MS) > 0 ? error : 0;
}

static void take(struct writer *w, struct record *r)
{
    int error, end = 0;

    do {
        error = w->config.ops->take(w, w->config.arg, r->bytes, r->n);
        if (error != 0)
            end = recover(w, error);
    } while (error != 0 && end == 0);
    if (error == 0)
        note_trouble(w, 0);
    note_error(w, end);
}

static void *writer_main(void *arg)
{
    struct writer *w = arg;
    const struct writer_ops *ops = w->config.ops;
    struct record *r;
    bool abandoned;

    while ((r = next_record(w))) {
        if (writer_error(w) == 0)
            take(w, r);
        end_record(w, r);
    }
    if (ops->end)
        note_error(w, ops->end(w, w->config.arg));
    pthread_mutex_lock(&w->lock);
    w->done = true;
    abandoned = w->abandoned;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (abandoned)
        release(w);
    return NULL;
}

int writer_await(struct writer *w, int fd, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = w->stop_fd, .events = POLLIN},
                           {.fd = fd, .events = POLLOUT}};
    int n = poll(fds, 2, timeout_ms);

    return n == 0 || (n > 0 && fds[0].revents != 0) ? ETIMEDOUT : 0;
}

void writer_moved(struct writer *w)
{
    atomic_fetch_add_explicit(&w->n_moved, 1, memory_order_relaxed);
}

bool writer_stopped(struct writer *w)
{
    return atomic_load_explicit(&w->stopped, memory_order_relaxed);
}

/* ---- bytes for a descriptor ---------------------------------------------- */

/* A pipe that polls writable takes PIPE_BUF bytes at once: whole lines of them,
 * if possible, as others may write there too. */
static size_t piece(const struct writer *w, const char *bytes, size_t n)
{
    size_t whole = w->piece_max;

    if (n <= w->piece_max)
        return n;
    while (whole > 0 && bytes[whole - 1] != '\n' && bytes[whole - 1] != '\r')
        whole--;
    return whole > 0 ? whole : w->piece_max;
}

/* A terminal that was hung up answers EIO for ever, and a pipe without a name
 * EPIPE. */
static bool may_pass(struct writer *w, void *arg, int error)
{
    (void)arg;
    if (error == EPIPE)
        return w->has_name;
    return fd_error_may_pass(error) && (error != EIO || !w->is_device);
}

static int take_bytes(struct writer *w, void *arg, const char *bytes, size_t n)
{
    (void)arg;
    while (w->n_written < n) {
        int error = writer_await(w, w->fd, -1);
        const char *rest = bytes + w->n_written;
        ssize_t written = 0;

        if (error == 0)
            written = write(w->fd, rest, piece(w, rest, n - w->n_written));
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            error = errno;
        if (error != 0)
            return error;
        if (written < 0)
            continue;
        note_trouble(w, 0);
        writer_moved(w);
        w->n_written += (size_t)written;
    }
    w->n_written = 0;
    return 0;
}

static bool has_name(int fd)
{
    char link[32], target[2];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, target, sizeof(target)) > 0 && *target == '/';
}

/* ---- create -------------------------------------------------------------- */

static void init_lock(struct writer *w)
{
    pthread_mutex_init(&w->lock, NULL);
    thread_cond_init(&w->changed);
}

/* NULL: no memory. */
static struct writer *allocate(const struct writer_config *config)
{
    struct writer *w = calloc(1, sizeof(*w));

    if (!w) {
        error_set(HVD_ERR_NOMEM, "out of memory for a writer");
        return NULL;
    }
    w->config = *config;
    w->fd = w->stop_fd = -1;
    init_lock(w);
    return w;
}

static hvd_status_t start(struct writer *w, struct writer **writer_p)
{
    errno = 0;
    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->stop_fd >= 0)
        errno = thread_start(&w->thread, "hvd-writer", writer_main, w);
    if (errno != 0) {
        hvd_status_t status = error_errno("a thread that writes");

        release(w);
        return status;
    }
    *writer_p = w;
    return HVD_OK;
}

hvd_status_t writer_create(const struct writer_config *config,
                           struct writer **writer_p)
{
    struct writer *w = allocate(config);

    return w ? start(w, writer_p) : HVD_ERR_NOMEM;
}

hvd_status_t writer_create_fd(int fd, bool owned, size_t keep_max, int wake_fd,
                              struct writer **writer_p)
{
    static const struct writer_ops ops = {.take = take_bytes,
                                          .may_pass = may_pass};
    struct writer *w = allocate(&(struct writer_config){
        .ops = &ops, .keep_max = keep_max, .wake_fd = wake_fd});
    struct stat st;

    if (!w) {
        if (owned)
            close(fd);
        return HVD_ERR_NOMEM;
    }
    w->fd = fd;
    w->fd_owned = owned;
    if (fstat(fd, &st) != 0)
        st.st_mode = 0;
    w->piece_max = S_ISREG(st.st_mode) ? SIZE_MAX : PIPE_BUF;
    w->is_device = S_ISCHR(st.st_mode);
    w->has_name = S_ISFIFO(st.st_mode) && has_name(fd);
    return start(w, writer_p);
}

/* ---- who has something to write ------------------------------------------ */

static bool fits(struct writer *w, size_t n)
{
    w->wanted = w->pending + cost(n) > w->config.keep_max;
    return !w->wanted;
}

bool writer_has_room(struct writer *w, size_t n)
{
    bool room;

    pthread_mutex_lock(&w->lock);
    room = fits(w, n);
    pthread_mutex_unlock(&w->lock);
    return room;
}

bool writer_put(struct writer *w, const void *bytes, size_t n)
{
    struct record *r = malloc(sizeof(*r) + n);
    bool taken = false;

    if (!r)
        return false;
    r->next = NULL;
    r->n = n;
    memcpy(r->bytes, bytes, n);
    pthread_mutex_lock(&w->lock);
    if (fits(w, n)) {
        if (w->first)
            w->last->next = r;
        else
            w->first = r;
        w->last = r;
        w->pending += cost(n);
        taken = true;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    if (!taken)
        free(r);
    return taken;
}

void writer_tell_trouble(struct writer *w, const char *what, const char *name)
{
    int trouble = writer_trouble(w);

    if (trouble != 0 && !w->in_trouble)
        log_seldom(&w->told, LOG_LEVEL_WARN,
                   "%s \"%s\": %s -> tried again, up to %zu KB are kept "
                   "meanwhile",
                   what, name, strerror(trouble), w->config.keep_max >> 10);
    w->in_trouble = trouble != 0;
}

size_t writer_pending(struct writer *w)
{
    size_t n;

    pthread_mutex_lock(&w->lock);
    n = w->pending;
    pthread_mutex_unlock(&w->lock);
    return n;
}

static size_t count_lines(const struct record *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += r->bytes[i] == '\n' || r->bytes[i] == '\r';
    return n;
}

size_t writer_pending_lines(struct writer *w)
{
    size_t n = 0;

    pthread_mutex_lock(&w->lock);
    if (w->taken)
        n += count_lines(w->taken);
    for (const struct record *r = w->first; r; r = r->next)
        n += count_lines(r);
    pthread_mutex_unlock(&w->lock);
    return n;
}

int writer_error(struct writer *w)
{
    int error;

    pthread_mutex_lock(&w->lock);
    error = w->error;
    pthread_mutex_unlock(&w->lock);
    return error;
}

/* ---- waiting for the thread ---------------------------------------------- */

/* Under the lock. For LOOK_MS, or until `until_us`. */
static void wait_change(struct writer *w, uint64_t now_us, uint64_t until_us)
{
    if (until_us > now_us + LOOK_MS * 1000)
        until_us = now_us + LOOK_MS * 1000;
    (void)thread_cond_wait(&w->changed, &w->lock, until_us * 1000);
}

bool writer_flush(struct writer *w, int timeout_ms)
{
    uint64_t now_us = clock_now_us();
    uint64_t until_us = now_us + (uint64_t)timeout_ms * 1000;
    bool empty;

    pthread_mutex_lock(&w->lock);
    while (w->pending > 0 && now_us < until_us) {
        wait_change(w, now_us, until_us);
        now_us = clock_now_us();
    }
    empty = w->pending == 0;
    pthread_mutex_unlock(&w->lock);
    return empty;
}

static bool await_done(struct writer *w, int stall_ms, int total_ms)
{
    uint64_t now_us = clock_now_us(), moved_us = now_us, n_moved = 0;
    uint64_t until_us = now_us + (uint64_t)total_ms * 1000;
    bool done;

    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    while (!w->done && now_us < until_us &&
           now_us - moved_us < (uint64_t)stall_ms * 1000) {
        wait_change(w, now_us, until_us);
        now_us = clock_now_us();
        if (atomic_load(&w->n_moved) == n_moved)
            continue;
        n_moved = atomic_load(&w->n_moved);
        moved_us = now_us;
    }
    done = w->done;
    pthread_mutex_unlock(&w->lock);
    return done;
}

static bool abandon(struct writer *w)
{
    pthread_t thread = w->thread;
    bool done;

    pthread_mutex_lock(&w->lock);
    done = w->done;
    w->abandoned = !done;
    pthread_mutex_unlock(&w->lock);
    if (!done)
        pthread_detach(thread);
    return !done;
}

bool writer_destroy(struct writer *w, int stall_ms, int total_ms, int *error_p)
{
    bool done = await_done(w, stall_ms, total_ms);

    if (!done) {
        atomic_store(&w->stopped, true);
        (void)eventfd_write(w->stop_fd, 1);
        done = await_done(w, STOP_MS, STOP_MS);
    }
    if (!done && abandon(w)) {
        *error_p = ETIMEDOUT;
        return false;
    }
    pthread_join(w->thread, NULL);
    *error_p = w->error;
    release(w);
    return true;
}
