/* collectives/net/endpoint.c - the listening sockets, the connections that have
 * not found their comm yet, and a list of those whose comm has ended. See
 * endpoint.h.
 *
 * Few and short-lived: everything that might have moved is simply tried again
 * whenever anything is ready. Memory: two growing arrays. */
#include "collectives/net/endpoint.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mac.h"
#include "collectives/net/avoided.h"
#include "collectives/net/connection.h"
#include "collectives/net/endpoint_impl.h"
#include "collectives/net/goodbyes.h"
#include "collectives/net/lingering.h"
#include "collectives/net/listeners.h"

enum {
    ACCEPT_PAUSE_US = 10000, /* no descriptors left */
    ARRIVALS_MIN = 64,
    BACKLOG = 4096 /* net.core.somaxconn may be less */
};

struct endpoint {
    struct endpoint_config config; /* constant */
    pthread_mutex_t lock; /* of all below; held in every function but those
                             that say otherwise */
    struct listeners listeners; /* over TCP */
    int local_fd;               /* listens over AF_UNIX; -1: cannot */
    uint64_t accept_us;         /* not before */
    bool accept_failed;         /* and said so */
    struct log_seldom strange;
    uint64_t fence;
    struct endpoint_user *users;
    const struct endpoint_user *driver; /* of endpoint_drive() under way */
    struct goodbyes goodbyes;
    struct avoided avoided;
    int last_size;
    struct arrival *arrivals;
    size_t n_arrivals, arrivals_max;
    struct lingerings lingerings;
};

/* Who is closed at the door may come again as often as he likes. */
#define log_closed(ep, ...) \
    log_seldom(&(ep)->strange, LOG_LEVEL_DEBUG, __VA_ARGS__)

enum judgement {
    JUDGED_CLOSE,
    JUDGED_HOLD, /* a generation that is to come: until its deadline */
    JUDGED_KEEP, /* a set of this generation that is to come: until it ends */
    JUDGED_TAKEN,
    JUDGED_GOODBYE
};

static hvd_status_t listen_tcp(struct endpoint *ep,
                               const struct endpoint_config *config)
{
    return listeners_open(
        &(struct listeners_config){.addresses = config->addresses,
                                   .port_low = config->port_low,
                                   .port_high = config->port_high,
                                   .first = config->worker,
                                   .backlog = BACKLOG},
        &ep->listeners);
}

static void listen_local(struct endpoint *ep)
{
    struct unix_name name = {ep->config.job, ep->config.worker,
                             ep->listeners.port};
    int fd = unix_socket_open();

    if (fd >= 0 && unix_socket_listen(fd, &name, BACKLOG)) {
        ep->local_fd = fd;
        return;
    }
    log_debug("no socket for workers of this host (%s) -> none can connect "
              "locally",
              strerror(errno));
    if (fd >= 0)
        close(fd);
}

hvd_status_t endpoint_create(const struct endpoint_config *config,
                             struct endpoint **endpoint_p)
{
    struct endpoint *ep;
    hvd_status_t status;

    HVD_TRY(mac_init());
    ep = calloc(1, sizeof(*ep));
    if (ep == NULL)
        return error_set(HVD_ERR_NOMEM, "endpoint");
    ep->config = *config;
    ep->config.addresses = NULL;
    ep->local_fd = -1;
    pthread_mutex_init(&ep->lock, NULL);
    HVD_TRY_GOTO(listen_tcp(ep, config), destroy);
    listen_local(ep);
    *endpoint_p = ep;
    return HVD_OK;

destroy:
    endpoint_destroy(ep);
    return status;
}

static void stop_listening(struct endpoint *ep)
{
    listeners_close(&ep->listeners);
    if (ep->local_fd >= 0)
        close(ep->local_fd);
}

void endpoint_destroy(struct endpoint *ep)
{
    if (ep == NULL)
        return;
    HVD_ASSERT(ep->users == NULL);
    for (size_t i = 0; i < ep->n_arrivals; i++)
        arrival_close(&ep->arrivals[i]);
    lingerings_fini(&ep->lingerings);
    stop_listening(ep);
    goodbyes_fini(&ep->goodbyes);
    pthread_mutex_destroy(&ep->lock);
    free(ep->arrivals);
    free(ep);
}

uint16_t endpoint_port(const struct endpoint *ep)
{
    return ep->listeners.port;
}

bool endpoint_has_local(const struct endpoint *ep)
{
    return ep->local_fd >= 0;
}

uint64_t endpoint_worker(const struct endpoint *ep)
{
    return ep->config.worker;
}

const uint8_t *endpoint_job_key(const struct endpoint *ep)
{
    return ep->config.job_key;
}

uint8_t endpoint_avoided(struct endpoint *ep, uint64_t worker, uint64_t now_us)
{
    uint8_t avoided;

    pthread_mutex_lock(&ep->lock);
    avoided = avoided_get(&ep->avoided, worker, now_us);
    pthread_mutex_unlock(&ep->lock);
    return avoided;
}

void endpoint_avoid(struct endpoint *ep, uint64_t worker, unsigned address_i,
                    uint64_t now_us)
{
    pthread_mutex_lock(&ep->lock);
    avoided_set(&ep->avoided, worker, address_i, now_us);
    pthread_mutex_unlock(&ep->lock);
}

void endpoint_reached(struct endpoint *ep, uint64_t worker, unsigned address_i)
{
    pthread_mutex_lock(&ep->lock);
    avoided_clear(&ep->avoided, worker, address_i);
    pthread_mutex_unlock(&ep->lock);
}

void endpoint_set_fence(struct endpoint *ep, uint64_t fence)
{
    pthread_mutex_lock(&ep->lock);
    if (fence > ep->fence)
        ep->fence = fence;
    pthread_mutex_unlock(&ep->lock);
}

void endpoint_linger(struct endpoint *ep, int fd, uint8_t *rest, size_t nbytes)
{
    pthread_mutex_lock(&ep->lock);
    lingerings_add(&ep->lingerings, fd, rest, nbytes, clock_now_us());
    pthread_mutex_unlock(&ep->lock);
}

static void say_goodbye(struct endpoint *ep, int fd,
                        const struct goodbye *goodbye,
                        const struct handshake *hello)
{
    size_t n;
    uint8_t *answer = goodbye_answer(goodbye, hello, &n);

    if (answer == NULL)
        close(fd);
    else
        lingerings_add(&ep->lingerings, fd, answer, n, clock_now_us());
}

static uint64_t newest_generation(const struct endpoint *ep)
{
    uint64_t newest = ep->fence;

    for (const struct endpoint_user *u = ep->users; u != NULL; u = u->next)
        newest = u->generation > newest ? u->generation : newest;
    return newest;
}

static bool is_authentic(struct endpoint *ep, const struct arrival *a,
                         const struct handshake *hello, const uint8_t *key)
{
    if (handshake_verify(a->hello, key))
        return true;
    log_closed(ep,
               "connection of generation %llu by worker %llu: wrong key -> "
               "closed",
               (unsigned long long)hello->generation,
               (unsigned long long)hello->worker);
    return false;
}

/* To a worker of this job, and by one: no stranger gets any further, however
 * far ahead it claims to be. */
static bool is_ours(struct endpoint *ep, const struct arrival *a,
                    struct handshake *hello)
{
    return handshake_decode(a->hello, hello) &&
           hello->role == HANDSHAKE_HELLO &&
           (hello->channel == CHANNEL_LOCAL) == a->local &&
           (hello->flags == 0 || !a->local) && hello->job == ep->config.job &&
           hello->peer == ep->config.worker &&
           handshake_is_member(a->hello, ep->config.job_key);
}

/* --- handing over --- */

/* On the thread that drives the user, without the lock. */
static void hand_over(struct endpoint *ep, struct endpoint_user *user)
{
    struct delivery *d, *next;

    pthread_mutex_lock(&ep->lock);
    d = user->inbox;
    user->inbox = NULL;
    pthread_mutex_unlock(&ep->lock);
    for (; d != NULL; d = next) {
        next = d->next;
        if (!user->take(user->arg, d->fd, &d->hello, d->fds, d->n_fds))
            delivery_close(d);
        free(d);
    }
}

/* The user takes nothing any more. */
static void empty_inbox(struct endpoint *ep, struct endpoint_user *user)
{
    const struct goodbye *goodbye = goodbyes_of(&ep->goodbyes, user->generation,
                                                user->set);
    struct delivery *d, *next;

    for (d = user->inbox; d != NULL; d = next) {
        next = d->next;
        if (goodbye != NULL) {
            unix_socket_fds_close(d->fds, &d->n_fds);
            say_goodbye(ep, d->fd, goodbye, &d->hello);
        } else {
            delivery_close(d);
        }
        free(d);
    }
    user->inbox = NULL;
}

/* --- judging --- */

static struct endpoint_user *user_of(const struct endpoint *ep,
                                     uint64_t generation, uint32_t set)
{
    struct endpoint_user *u = ep->users;

    while (u != NULL &&
           (u->generation != generation || u->set != set || !u->open))
        u = u->next;
    return u;
}

/* What to do with a complete hello that no user is there for. */
static enum judgement judge_unknown(const struct endpoint *ep,
                                    const struct handshake *hello)
{
    if (hello->generation > newest_generation(ep))
        return JUDGED_HOLD;
    if (hello->set != 0 && user_of(ep, hello->generation, 0) != NULL)
        return JUDGED_KEEP;
    return JUDGED_CLOSE;
}

static enum judgement judge(struct endpoint *ep, const struct arrival *a,
                            struct handshake *hello,
                            const struct goodbye **goodbye_p)
{
    struct endpoint_user *u;

    if (!is_ours(ep, a, hello)) {
        log_closed(ep, "connection with a foreign handshake -> closed");
        return JUDGED_CLOSE;
    }
    *goodbye_p = goodbyes_of(&ep->goodbyes, hello->generation, hello->set);
    if (*goodbye_p == NULL) /* it never had a comm of this set, and will not */
        *goodbye_p = goodbyes_of(&ep->goodbyes, hello->generation, 0);
    if (*goodbye_p != NULL)
        return is_authentic(ep, a, hello, goodbye_key(*goodbye_p))
                   ? JUDGED_GOODBYE
                   : JUDGED_CLOSE;
    if (hello->generation <= ep->fence)
        return JUDGED_CLOSE;
    u = user_of(ep, hello->generation, hello->set);
    if (u == NULL)
        return judge_unknown(ep, hello);
    if (!is_authentic(ep, a, hello, u->key) ||
        !delivery_add(&u->inbox, a, hello))
        return JUDGED_CLOSE;
    if (ep->driver != NULL ? u != ep->driver : u->set != 0)
        u->wake(u->arg); /* another thread drives it */
    return JUDGED_TAKEN;
}

/* Returns true once the arrival is no longer ours. */
static bool arrival_step(struct endpoint *ep, struct arrival *a,
                         uint64_t now_us)
{
    const struct goodbye *goodbye;
    struct handshake hello;
    const char *why;

    switch (arrival_read(a, now_us, &why)) {
    case ARRIVAL_LATER:
        return false;
    case ARRIVAL_OVER:
        if (why != NULL)
            log_closed(ep,
                       "local connection: descriptors of its hello: %s -> "
                       "closed",
                       why);
        arrival_close(a);
        return true;
    case ARRIVAL_COMPLETE:
        break;
    }
    switch (judge(ep, a, &hello, &goodbye)) {
    case JUDGED_KEEP:
        a->held = true;
        a->deadline_us = CLOCK_NEVER;
        return false;
    case JUDGED_HOLD:
        a->held = true;
        if (now_us < a->deadline_us)
            return false;
        break;
    case JUDGED_TAKEN:
        return true;
    case JUDGED_GOODBYE:
        unix_socket_fds_close(a->fds, &a->n_fds);
        say_goodbye(ep, a->fd, goodbye, &hello);
        return true;
    case JUDGED_CLOSE:
        break;
    }
    arrival_close(a);
    return true;
}

static size_t arrivals_limit(const struct endpoint *ep)
{
    /* data and transfers, or all of data */
    size_t n = FRAME_SHARES_MAX * (size_t)ep->last_size;

    return n > ARRIVALS_MIN ? n : ARRIVALS_MIN;
}

/* The one that has been silent for longest; NULL: all have said who they are.
 */
static struct arrival *most_silent(struct endpoint *ep)
{
    struct arrival *oldest = NULL;

    for (size_t i = 0; i < ep->n_arrivals; i++) {
        struct arrival *a = &ep->arrivals[i];

        if (!a->held &&
            (oldest == NULL || a->deadline_us < oldest->deadline_us))
            oldest = a;
    }
    return oldest;
}

/* Who connects and says nothing must not keep out those that speak. false:
 * nobody has a deadline until then. */
static bool close_silent(struct endpoint *ep, uint64_t deadline_us)
{
    struct arrival *silent = most_silent(ep);

    if (silent == NULL || silent->deadline_us > deadline_us)
        return false;
    arrival_close(silent);
    *silent = ep->arrivals[--ep->n_arrivals];
    return true;
}

/* Room for one that has to wait. */
static bool make_room(struct endpoint *ep)
{
    if (ep->n_arrivals >= arrivals_limit(ep))
        return close_silent(ep, CLOCK_NEVER);
    return array_reserve(&ep->arrivals, &ep->arrivals_max, ep->n_arrivals + 1);
}

static void arrive(struct endpoint *ep, int fd, bool local, uint64_t now_us)
{
    struct arrival a = {
        .fd = fd,
        .local = local,
        .deadline_us = now_us + ep->config.connect_timeout_us,
    };

    if (local && !unix_socket_trusted(fd)) {
        log_closed(ep, "local connection of another user -> closed");
        close(fd);
        return;
    }
    if (!local)
        connection_socket_options(fd);
    /* most hellos are already there: no reason to poll for them, or to wait */
    if (arrival_step(ep, &a, now_us))
        return;
    if (!make_room(ep)) {
        log_closed(ep, "too many connections wait for a generation -> closed");
        arrival_close(&a);
        return;
    }
    ep->arrivals[ep->n_arrivals++] = a;
}

/* No descriptor or no memory is left: perhaps some will be, before who dials
 * gives up. */
static void pause_accepting(struct endpoint *ep, uint64_t now_us)
{
    if (!ep->accept_failed)
        log_warn("a connection of another worker cannot be accepted: %s -> "
                 "trying again",
                 strerror(errno));
    ep->accept_failed = true;
    ep->accept_us = now_us + ACCEPT_PAUSE_US;
}

/* All that waited when it began; who goes on connecting gets no more turns. */
static void accept_all(struct endpoint *ep, int listen_fd, uint64_t now_us)
{
    if (listen_fd < 0 || now_us < ep->accept_us)
        return;
    for (int i = 0; i <= BACKLOG; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        /* not who came a moment ago: the hello may be on its way */
        if (fd < 0 && errno == EMFILE &&
            close_silent(ep, now_us + ep->config.connect_timeout_us -
                                 ACCEPT_PAUSE_US))
            continue;
        if (fd < 0) {
            if (errno != EAGAIN)
                pause_accepting(ep, now_us);
            return;
        }
        arrive(ep, fd, listen_fd == ep->local_fd, now_us);
    }
}

static void drive_arrivals(struct endpoint *ep, uint64_t now_us)
{
    for (size_t i = ep->n_arrivals; i-- > 0;)
        if (arrival_step(ep, &ep->arrivals[i], now_us))
            ep->arrivals[i] = ep->arrivals[--ep->n_arrivals];
}

static void drive(struct endpoint *ep)
{
    uint64_t now_us = clock_now_us();

    if (now_us >= ep->accept_us)
        ep->accept_us = 0;
    drive_arrivals(ep, now_us);
    for (size_t i = 0; i < ep->listeners.n; i++)
        accept_all(ep, ep->listeners.fds[i], now_us);
    accept_all(ep, ep->local_fd, now_us);
    lingerings_drive(&ep->lingerings, now_us);
}

static struct endpoint_user *first_with_mail(struct endpoint *ep)
{
    struct endpoint_user *u;

    pthread_mutex_lock(&ep->lock);
    u = ep->users;
    while (u != NULL && (u->set != 0 || u->inbox == NULL))
        u = u->next;
    pthread_mutex_unlock(&ep->lock);
    return u;
}

void endpoint_drive(struct endpoint *ep, struct endpoint_user *user)
{
    pthread_mutex_lock(&ep->lock);
    ep->driver = user;
    drive(ep);
    pthread_mutex_unlock(&ep->lock);
    if (user != NULL) {
        hand_over(ep, user);
        return;
    }
    while ((user = first_with_mail(ep)) != NULL)
        hand_over(ep, user);
}

bool endpoint_has_mail(struct endpoint *ep, const struct endpoint_user *user)
{
    const struct delivery *first;

    pthread_mutex_lock(&ep->lock);
    first = user->inbox;
    pthread_mutex_unlock(&ep->lock);
    return first != NULL;
}

void endpoint_add_user(struct endpoint *ep, struct endpoint_user *user)
{
    pthread_mutex_lock(&ep->lock);
    user->inbox = NULL;
    user->next = ep->users;
    ep->users = user;
    if (user->set == 0)
        ep->last_size = user->size;
    ep->driver = user;
    drive_arrivals(ep, clock_now_us());
    pthread_mutex_unlock(&ep->lock);
    hand_over(ep, user);
}

void endpoint_remove_user(struct endpoint *ep, struct endpoint_user *user)
{
    struct endpoint_user **p = &ep->users;

    pthread_mutex_lock(&ep->lock);
    while (*p != user)
        p = &(*p)->next;
    *p = user->next;
    empty_inbox(ep, user);
    pthread_mutex_unlock(&ep->lock);
}

void endpoint_remember(struct endpoint *ep, struct endpoint_user *user,
                       const uint8_t *goodbye, size_t nbytes)
{
    pthread_mutex_lock(&ep->lock);
    user->open = false;
    goodbyes_add(&ep->goodbyes, user, goodbye, nbytes);
    empty_inbox(ep, user);
    pthread_mutex_unlock(&ep->lock);
}

void endpoint_shut(struct endpoint *ep, struct endpoint_user *user)
{
    pthread_mutex_lock(&ep->lock);
    user->open = false;
    pthread_mutex_unlock(&ep->lock);
}

void endpoint_remember_greeted(struct endpoint *ep,
                               const struct endpoint_user *user,
                               uint64_t worker, uint64_t channels)
{
    pthread_mutex_lock(&ep->lock);
    goodbyes_greeted(&ep->goodbyes, user, worker, channels);
    pthread_mutex_unlock(&ep->lock);
}

static size_t count_fds(const struct endpoint *ep)
{
    return ep->listeners.n + 1 + ep->n_arrivals + ep->lingerings.n;
}

size_t endpoint_fds_count(struct endpoint *ep)
{
    size_t n;

    pthread_mutex_lock(&ep->lock);
    n = count_fds(ep);
    pthread_mutex_unlock(&ep->lock);
    return n;
}

static size_t fill_listeners(const struct endpoint *ep, struct pollfd *pfds)
{
    size_t n = 0;

    for (size_t i = 0; i < ep->listeners.n && ep->accept_us == 0; i++)
        pfds[n++] = (struct pollfd){ep->listeners.fds[i], POLLIN, 0};
    if (ep->accept_us == 0 && ep->local_fd >= 0)
        pfds[n++] = (struct pollfd){ep->local_fd, POLLIN, 0};
    return n;
}

static size_t fill_others(const struct endpoint *ep, struct pollfd *pfds)
{
    size_t n = 0;

    /* a held one has unread frames: it would be ready for ever */
    for (size_t i = 0; i < ep->n_arrivals; i++)
        if (!ep->arrivals[i].held)
            pfds[n++] = (struct pollfd){ep->arrivals[i].fd, POLLIN, 0};
    lingerings_fill(&ep->lingerings, pfds + n);
    return n + ep->lingerings.n;
}

/* Where another thread has accepted more than there is room for, it has to do
 * without them; they have deadlines. */
size_t endpoint_fds_fill(struct endpoint *ep, struct pollfd *pfds, size_t max)
{
    size_t n;

    pthread_mutex_lock(&ep->lock);
    n = fill_listeners(ep, pfds);
    if (count_fds(ep) <= max)
        n += fill_others(ep, pfds + n);
    pthread_mutex_unlock(&ep->lock);
    return n;
}

uint64_t endpoint_deadline(struct endpoint *ep)
{
    uint64_t deadline_us;

    pthread_mutex_lock(&ep->lock);
    deadline_us = lingerings_deadline(&ep->lingerings);
    if (ep->accept_us > 0 && ep->accept_us < deadline_us)
        deadline_us = ep->accept_us;
    for (size_t i = 0; i < ep->n_arrivals; i++)
        if (ep->arrivals[i].deadline_us < deadline_us)
            deadline_us = ep->arrivals[i].deadline_us;
    pthread_mutex_unlock(&ep->lock);
    return deadline_us;
}

void endpoint_fds_close(struct endpoint *ep)
{
    for (struct endpoint_user *u = ep->users; u != NULL; u = u->next) {
        u->fds_close(u->arg);
        for (struct delivery *d = u->inbox; d != NULL; d = d->next)
            delivery_close(d);
    }
    for (size_t i = 0; i < ep->n_arrivals; i++)
        arrival_close(&ep->arrivals[i]);
    lingerings_fds_close(&ep->lingerings);
    stop_listening(ep);
}
