/* base/writer.c - see writer.h. A buffer whose head moves; the thread copies a
 * piece under the lock and writes it without. */
#include "base/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/thread.h"

enum { PIECE_MAX = 16 << 10 };

struct writer {
    int fd, stop_fd;
    size_t keep_max;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    char *bytes; /* [head, n) waits */
    size_t head, n, max;
    bool writing, closing;
    int error;
};

/* --- the thread --- */

/* 0: closed, and nothing is left. */
static size_t await_piece(struct writer *w, char *piece)
{
    size_t n;

    pthread_mutex_lock(&w->lock);
    w->writing = false;
    pthread_cond_broadcast(&w->changed);
    while (w->head == w->n && !w->closing)
        pthread_cond_wait(&w->changed, &w->lock);
    n = w->n - w->head < PIECE_MAX ? w->n - w->head : PIECE_MAX;
    if (n > 0)
        memcpy(piece, w->bytes + w->head, n);
    w->head += n;
    w->writing = n > 0;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* False: nobody waits for it any longer. */
static bool await_room(const struct writer *w)
{
    struct pollfd fds[] = {{.fd = w->fd, .events = POLLOUT},
                           {.fd = w->stop_fd, .events = POLLIN}};

    return poll(fds, 2, -1) < 0 || fds[1].revents == 0;
}

static int write_all(const struct writer *w, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(w->fd, bytes, n);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno != EAGAIN)
            return errno;
        if (written < 0) {
            if (!await_room(w))
                return ETIMEDOUT;
            continue;
        }
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

static void *writer_main(void *arg)
{
    char piece[PIECE_MAX];
    struct writer *w = arg;
    size_t n;

    while ((n = await_piece(w, piece)) > 0) {
        int error = writer_error(w) == 0 ? write_all(w, piece, n) : 0;

        pthread_mutex_lock(&w->lock);
        w->error = w->error != 0 ? w->error : error;
        pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

/* --- who has something to write --- */

static void init_lock(struct writer *w)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static void release(struct writer *w)
{
    close(w->fd);
    fd_close(&w->stop_fd);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w->bytes);
    free(w);
}

hvd_status_t writer_create(int fd, size_t keep_max, struct writer **writer_p)
{
    struct writer *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        close(fd);
        return error_set(HVD_ERR_NOMEM, "out of memory for a writer");
    }
    errno = 0;
    w->fd = fd;
    w->keep_max = keep_max;
    init_lock(w);
    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->stop_fd >= 0 &&
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0)
        errno = thread_start(&w->thread, "hvd-writer", writer_main, w);
    if (errno != 0) {
        hvd_status_t status = error_errno("a thread that writes");

        release(w);
        return status;
    }
    *writer_p = w;
    return HVD_OK;
}

static bool make_room(struct writer *w, size_t n)
{
    if (w->n - w->head + n > w->keep_max)
        return false;
    if (w->head > w->keep_max / 2 || (w->head > 0 && w->head == w->n)) {
        memmove(w->bytes, w->bytes + w->head, w->n - w->head);
        w->n -= w->head;
        w->head = 0;
    }
    return array_reserve(&w->bytes, &w->max, w->n + n);
}

bool writer_put(struct writer *w, const void *bytes, size_t n)
{
    bool fits;

    pthread_mutex_lock(&w->lock);
    fits = make_room(w, n);
    if (fits) {
        memcpy(w->bytes + w->n, bytes, n);
        w->n += n;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return fits;
}

int writer_error(struct writer *w)
{
    int error;

    pthread_mutex_lock(&w->lock);
    error = w->error;
    pthread_mutex_unlock(&w->lock);
    return error;
}

/* False: the time is over. */
static bool await_empty(struct writer *w, int timeout_ms)
{
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->changed);
    while ((w->head < w->n || w->writing) && error == 0)
        error = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
    return error == 0;
}

void writer_destroy(struct writer *w, int timeout_ms, int *error_p)
{
    bool empty = await_empty(w, timeout_ms);

    if (!empty)
        (void)eventfd_write(w->stop_fd, 1);
    pthread_join(w->thread, NULL);
    *error_p = w->error;
    release(w);
}
