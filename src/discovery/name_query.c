/* discovery/name_query.c - see name_query.h. */
#include "discovery/name_query.h"

#include <netdb.h>
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
