/* collectives/completion.c - see completion.h. */
#include "collectives/completion.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "collectives/request.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t over;
    atomic_int n_waiters;
    atomic_int fd; /* 1 + the descriptor; 0: none */
} completion = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void)
{
    thread_cond_init(&completion.over);
}

/* A waiter counts itself before it looks at the request; the fence orders DONE
 * before this look at the count. */
void completion_tell(void)
{
    int fd;

    atomic_thread_fence(memory_order_seq_cst);
    fd = atomic_load_explicit(&completion.fd, memory_order_relaxed) - 1;
    if (fd >= 0)
        (void)eventfd_write(fd, 1);
    if (atomic_load_explicit(&completion.n_waiters, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&completion.lock);
    pthread_cond_broadcast(&completion.over);
    pthread_mutex_unlock(&completion.lock);
}

bool completion_await(const struct hvd_request *request, uint64_t until_us)
{
    bool done;

    pthread_once(&once, prepare);
    atomic_fetch_add(&completion.n_waiters, 1);
    atomic_thread_fence(
        memory_order_seq_cst); /* pairs with that of the teller */
    pthread_mutex_lock(&completion.lock);
    while (!(done = request_done(request)) && clock_now_us() < until_us)
        (void)thread_cond_wait(&completion.over, &completion.lock,
                               until_us * 1000);
    pthread_mutex_unlock(&completion.lock);
    atomic_fetch_sub(&completion.n_waiters, 1);
    return done;
}

hvd_status_t completion_fd(int *fd_p)
{
    int fd;

    pthread_mutex_lock(&completion.lock);
    fd = atomic_load(&completion.fd) - 1;
    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        atomic_store(&completion.fd, fd + 1);
    }
    pthread_mutex_unlock(&completion.lock);
    *fd_p = fd;
    return fd >= 0 ? HVD_OK : error_errno("an eventfd");
}

bool completion_is_watched(void)
{
    return atomic_load_explicit(&completion.fd, memory_order_relaxed) > 0;
}

void completion_close(void)
{
    int fd = atomic_exchange(&completion.fd, 0) - 1;

    if (fd >= 0)
        (void)close(fd);
}
