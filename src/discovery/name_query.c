/* discovery/name_query.c - see name_query.h. */
#include "discovery/name_query.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"
#include "discovery/local.h"

enum { ASKING, HERE, ELSEWHERE };

struct name_query {
    char *name;
    int fd;
    _Atomic int state;  /* the thread stores it, then writes to fd */
    _Atomic int n_refs; /* caller and thread */
};

static void drop(struct name_query *q)
{
    if (atomic_fetch_sub(&q->n_refs, 1) > 1)
        return;
    if (q->fd >= 0)
        close(q->fd);
    free(q->name);
    free(q);
}

static bool is_here(const char *name)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    bool here = false;

    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return false;
    for (const struct addrinfo *i = list; i && !here; i = i->ai_next)
        here = local_has_address(i->ai_addr);
    freeaddrinfo(list);
    return here;
}

static void *ask(void *arg)
{
    struct name_query *q = arg;

    atomic_store(&q->state, is_here(q->name) ? HERE : ELSEWHERE);
    (void)eventfd_write(q->fd, 1);
    drop(q);
    return NULL;
}

struct name_query *name_query_start(const char *name)
{
    struct name_query *q = calloc(1, sizeof(*q));
    pthread_t thread;

    if (!q)
        return NULL;
    q->n_refs = 2;
    q->name = strdup(name);
    q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->name && q->fd >= 0 &&
        thread_start(&thread, "hvd-names", ask, q) == 0) {
        pthread_detach(thread);
        return q;
    }
    q->n_refs = 1;
    drop(q);
    return NULL;
}

int name_query_fd(const struct name_query *q)
{
    return q->fd;
}

bool name_query_answer(struct name_query *q, bool *here_p)
{
    int state = atomic_load(&q->state);

    *here_p = state == HERE;
    return state != ASKING;
}

void name_query_end(struct name_query *q)
{
    if (q)
        drop(q);
}

static bool wait_answer(const char *name, int timeout_ms)
{
    struct name_query *q = name_query_start(name);
    struct pollfd fd = {.fd = q ? q->fd : -1, .events = POLLIN};
    bool here = false;

    if (q && poll(&fd, 1, timeout_ms) == 1)
        (void)name_query_answer(q, &here);
    name_query_end(q);
    return here;
}

bool name_query_is_here(const char *name, int timeout_ms)
{
    struct local local;
    bool here;

    local_init(&local, LOCAL_HOSTS_FILE);
    here = local_has(&local, name) ||
           (local_doubts(&local, name) && wait_answer(name, timeout_ms));
    local_fini(&local);
    return here;
}
