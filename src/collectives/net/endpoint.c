/* collectives/net/endpoint.c - the listening sockets, the connections that have
 * not found their comm yet, and a list of those whose comm has ended. See
 * endpoint.h.
 *
 * Few and short-lived: everything that might have moved is simply tried again
 * whenever anything is ready. Memory: two growing arrays. */
#include "collectives/net/endpoint.h"

#include <errno.h>
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
#include "collectives/net/lingering.h"
#include "collectives/net/listeners.h"
#include "collectives/net/sealed.h"
#include "collectives/net/unix_socket.h"

enum {
    ACCEPT_PAUSE_US = 10000, /* no descriptors left */
    ARRIVALS_MIN = 64,
    BACKLOG = 4096 /* net.core.somaxconn may be less */
};

/* A connection whose hello is not complete, or complete but of a generation
 * that this process has not been assigned to yet. */
struct arrival {
    int fd;
    bool local; /* AF_UNIX */
    bool held;
    size_t n;
    uint64_t deadline_us;
    uint8_t hello[HANDSHAKE_NBYTES];
    int fds[UNIX_FDS_MAX]; /* [n_fds], came with its first byte */
    size_t n_fds;
};

/* As in a LEAVE: frame.h. */
struct greeted {
    uint64_t worker, channels;
};

struct goodbye {
    uint64_t generation; /* 0: none */
    struct greeted *greeted;
    size_t n_greeted, greeted_max;
    bool forgets; /* no memory for all of them: anybody else may be one */
    bool sealed;
    uint8_t key[MAC_KEY_NBYTES];
    uint8_t frame[ENDPOINT_GOODBYE_MAX];
    size_t nbytes;
};

struct endpoint {
    struct endpoint_config config;
    struct listeners listeners; /* over TCP */
    int local_fd;               /* listens over AF_UNIX; -1: cannot */
    uint64_t accept_us;         /* not before */
    bool accept_failed;         /* and said so */
    struct log_seldom strange;
    uint64_t fence;
    struct endpoint_user *users;
    struct goodbye goodbye;
    struct avoided avoided;
    int last_size;
    struct arrival *arrivals;
    size_t n_arrivals, arrivals_max;
    struct lingering *lingers;
    size_t n_lingers, lingers_max;
};

/* Who is closed at the door may come again as often as he likes. */
#define log_closed(ep, ...) \
    log_seldom(&(ep)->strange, LOG_LEVEL_DEBUG, __VA_ARGS__)

enum judgement { JUDGED_CLOSE, JUDGED_HOLD, JUDGED_TAKEN, JUDGED_GOODBYE };

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
    HVD_TRY_GOTO(listen_tcp(ep, config), destroy);
    listen_local(ep);
    *endpoint_p = ep;
    return HVD_OK;

destroy:
    endpoint_destroy(ep);
    return status;
}

static void arrival_close(struct arrival *a)
{
    close(a->fd);
    unix_socket_fds_close(a->fds, &a->n_fds);
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
    for (size_t i = 0; i < ep->n_lingers; i++)
        lingering_fini(&ep->lingers[i]);
    stop_listening(ep);
    free(ep->arrivals);
    free(ep->goodbye.greeted);
    free(ep->lingers);
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

uint8_t endpoint_avoided(const struct endpoint *ep, uint64_t worker,
                         uint64_t now_us)
{
    return avoided_get(&ep->avoided, worker, now_us);
}

void endpoint_avoid(struct endpoint *ep, uint64_t worker, unsigned address_i,
                    uint64_t now_us)
{
    avoided_set(&ep->avoided, worker, address_i, now_us);
}

void endpoint_reached(struct endpoint *ep, uint64_t worker, unsigned address_i)
{
    avoided_clear(&ep->avoided, worker, address_i);
}

void endpoint_set_fence(struct endpoint *ep, uint64_t fence)
{
    if (fence > ep->fence)
        ep->fence = fence;
}

void endpoint_linger(struct endpoint *ep, int fd, uint8_t *rest, size_t nbytes)
{
    uint64_t now_us = clock_now_us();
    struct lingering l;

    lingering_init(&l, fd, rest, nbytes, now_us);
    if (lingering_step(&l, now_us) ||
        !array_reserve(&ep->lingers, &ep->lingers_max, ep->n_lingers + 1)) {
        lingering_fini(&l);
        return;
    }
    ep->lingers[ep->n_lingers++] = l;
}

static uint64_t greeted_on(const struct goodbye *g, uint64_t worker)
{
    for (size_t i = 0; i < g->n_greeted; i++)
        if (g->greeted[i].worker == worker)
            return g->greeted[i].channels;
    return g->forgets ? UINT64_MAX : 0;
}

/* The frame is one for all, and a LEAVE says what concerns the receiver. */
static void name_channels(const struct goodbye *g, uint64_t worker,
                          uint8_t *bytes)
{
    struct frame f;

    if (!frame_decode(bytes, &f) || f.type != FRAME_LEAVE)
        return;
    f.count = greeted_on(g, worker);
    frame_encode(&f, bytes);
}

/* As the dialer can read it, out [ENDPOINT_GOODBYE_MAX + RECORD_EXTRA_NBYTES]:
 * how many bytes. Who does not encrypt as this end did learns that from the
 * reply, and no more. */
static size_t encode_goodbye(const struct goodbye *g,
                             const struct handshake *hello,
                             const struct handshake *reply, uint8_t *out)
{
    bool sealed = reply->flags & HANDSHAKE_SEALED;
    uint8_t frame[ENDPOINT_GOODBYE_MAX], key[MAC_KEY_NBYTES];
    struct records records;

    if (sealed != (bool)(hello->flags & HANDSHAKE_SEALED) ||
        (hello->flags & HANDSHAKE_AES && !aead_has_aes()))
        return 0;
    memcpy(frame, g->frame, g->nbytes);
    name_channels(g, hello->worker, frame);
    if (!sealed) {
        memcpy(out, frame, g->nbytes);
        return g->nbytes;
    }
    handshake_key(g->key, HANDSHAKE_ANSWER, hello, reply, key);
    records_init(&records, sealed_cipher(hello), key);
    records_seal(&records, frame, g->nbytes, out);
    records_fini(&records);
    mac_wipe(key, sizeof(key));
    return g->nbytes + RECORD_EXTRA_NBYTES;
}

static void say_goodbye(struct endpoint *ep, int fd,
                        const struct handshake *hello)
{
    const struct goodbye *g = &ep->goodbye;
    uint8_t *rest = malloc(HANDSHAKE_NBYTES + g->nbytes + RECORD_EXTRA_NBYTES);
    struct handshake reply;
    size_t n = HANDSHAKE_NBYTES;

    if (rest == NULL) {
        close(fd);
        return;
    }
    reply = handshake_reply(hello, g->sealed && hello->channel != CHANNEL_LOCAL,
                            g->key, rest);
    n += encode_goodbye(g, hello, &reply, rest + n);
    endpoint_linger(ep, fd, rest, n);
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

/* What to do with a complete hello. JUDGED_TAKEN: fd is a comm's now. */
static enum judgement judge(struct endpoint *ep, const struct arrival *a,
                            struct handshake *hello)
{
    struct endpoint_user *u = ep->users;

    if (!is_ours(ep, a, hello)) {
        log_closed(ep, "connection with a foreign handshake -> closed");
        return JUDGED_CLOSE;
    }
    if (hello->generation == ep->goodbye.generation)
        return is_authentic(ep, a, hello, ep->goodbye.key) ? JUDGED_GOODBYE
                                                           : JUDGED_CLOSE;
    if (hello->generation <= ep->fence)
        return JUDGED_CLOSE;
    while (u != NULL && (u->generation != hello->generation || !u->open))
        u = u->next;
    if (u == NULL)
        return hello->generation > newest_generation(ep) ? JUDGED_HOLD
                                                         : JUDGED_CLOSE;
    if (!is_authentic(ep, a, hello, u->key))
        return JUDGED_CLOSE;
    return u->take(u->arg, a->fd, hello, a->fds, a->n_fds) ? JUDGED_TAKEN
                                                           : JUDGED_CLOSE;
}

static ssize_t arrival_read(struct arrival *a)
{
    uint8_t *bytes = a->hello + a->n;
    size_t rest = sizeof(a->hello) - a->n;

    /* what comes with later bytes the kernel closes */
    if (a->local && a->n == 0)
        return unix_socket_recv(a->fd, bytes, rest, a->fds, &a->n_fds);
    return recv(a->fd, bytes, rest, 0);
}

/* Returns true once the arrival is no longer ours. */
static bool arrival_step(struct endpoint *ep, struct arrival *a,
                         uint64_t now_us)
{
    struct handshake hello;

    while (a->n < sizeof(a->hello)) {
        ssize_t n = arrival_read(a);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && now_us < a->deadline_us)
            return false;
        if (n < 0 && (errno == EMFILE || errno == EPROTO))
            log_closed(ep,
                       "local connection: descriptors of its hello: %s -> "
                       "closed",
                       errno == EMFILE ? strerror(errno) : "too many");
        if (n <= 0) {
            arrival_close(a);
            return true;
        }
        a->n += (size_t)n;
    }
    switch (judge(ep, a, &hello)) {
    case JUDGED_HOLD:
        a->held = true;
        if (now_us < a->deadline_us)
            return false;
        break;
    case JUDGED_TAKEN:
        return true;
    case JUDGED_GOODBYE:
        unix_socket_fds_close(a->fds, &a->n_fds);
        say_goodbye(ep, a->fd, &hello);
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

void endpoint_drive(struct endpoint *ep)
{
    uint64_t now_us = clock_now_us();

    if (now_us >= ep->accept_us)
        ep->accept_us = 0;
    drive_arrivals(ep, now_us);
    for (size_t i = 0; i < ep->listeners.n; i++)
        accept_all(ep, ep->listeners.fds[i], now_us);
    accept_all(ep, ep->local_fd, now_us);
    for (size_t i = ep->n_lingers; i-- > 0;)
        if (lingering_step(&ep->lingers[i], now_us)) {
            lingering_fini(&ep->lingers[i]);
            ep->lingers[i] = ep->lingers[--ep->n_lingers];
        }
}

void endpoint_add_user(struct endpoint *ep, struct endpoint_user *user)
{
    user->next = ep->users;
    ep->users = user;
    ep->last_size = user->size;
    drive_arrivals(ep, clock_now_us());
}

void endpoint_remove_user(struct endpoint *ep, struct endpoint_user *user)
{
    struct endpoint_user **p = &ep->users;

    while (*p != user)
        p = &(*p)->next;
    *p = user->next;
}

void endpoint_remember(struct endpoint *ep, struct endpoint_user *user,
                       const uint8_t *goodbye, size_t nbytes)
{
    HVD_ASSERT(nbytes <= sizeof(ep->goodbye.frame));
    user->open = false;
    if (user->generation < ep->goodbye.generation)
        return;
    ep->goodbye.generation = user->generation;
    ep->goodbye.nbytes = nbytes;
    ep->goodbye.n_greeted = 0;
    ep->goodbye.forgets = false;
    ep->goodbye.sealed = user->sealed;
    memcpy(ep->goodbye.key, user->key, sizeof(ep->goodbye.key));
    memcpy(ep->goodbye.frame, goodbye, nbytes);
}

void endpoint_remember_greeted(struct endpoint *ep,
                               const struct endpoint_user *user,
                               uint64_t worker, uint64_t channels)
{
    struct goodbye *g = &ep->goodbye;

    if (user->generation != g->generation)
        return;
    if (array_reserve(&g->greeted, &g->greeted_max, g->n_greeted + 1))
        g->greeted[g->n_greeted++] = (struct greeted){worker, channels};
    else
        g->forgets = true;
}

size_t endpoint_fds_count(const struct endpoint *ep)
{
    return ep->listeners.n + 1 + ep->n_arrivals + ep->n_lingers;
}

size_t endpoint_fds_fill(const struct endpoint *ep, struct pollfd *pfds)
{
    size_t n = 0;

    for (size_t i = 0; i < ep->listeners.n && ep->accept_us == 0; i++)
        pfds[n++] = (struct pollfd){ep->listeners.fds[i], POLLIN, 0};
    if (ep->accept_us == 0 && ep->local_fd >= 0)
        pfds[n++] = (struct pollfd){ep->local_fd, POLLIN, 0};
    /* a held one has unread frames: it would be ready for ever */
    for (size_t i = 0; i < ep->n_arrivals; i++)
        if (!ep->arrivals[i].held)
            pfds[n++] = (struct pollfd){ep->arrivals[i].fd, POLLIN, 0};
    for (size_t i = 0; i < ep->n_lingers; i++) {
        const struct lingering *l = &ep->lingers[i];
        short events = l->off < l->n ? POLLIN | POLLOUT : POLLIN;

        pfds[n++] = (struct pollfd){l->fd, events, 0};
    }
    return n;
}

uint64_t endpoint_deadline(const struct endpoint *ep)
{
    uint64_t deadline_us = ep->accept_us > 0 ? ep->accept_us : CLOCK_NEVER;

    for (size_t i = 0; i < ep->n_arrivals; i++)
        if (ep->arrivals[i].deadline_us < deadline_us)
            deadline_us = ep->arrivals[i].deadline_us;
    for (size_t i = 0; i < ep->n_lingers; i++)
        if (ep->lingers[i].deadline_us < deadline_us)
            deadline_us = ep->lingers[i].deadline_us;
    return deadline_us;
}

static hvd_status_t serve_once(struct endpoint *ep, int wake_fd,
                               uint64_t deadline_us, struct pollfd *pfds,
                               bool *woken_p)
{
    uint64_t until_us = endpoint_deadline(ep);
    size_t n = endpoint_fds_fill(ep, pfds + 1) + 1;
    int ready;

    until_us = deadline_us < until_us ? deadline_us : until_us;
    pfds[0] = (struct pollfd){wake_fd, POLLIN, 0};
    ready = poll(pfds, n, clock_poll_ms(clock_now_us(), until_us));
    if (ready < 0 && errno != EINTR)
        return error_errno("poll");
    *woken_p = ready > 0 && pfds[0].revents != 0;
    endpoint_drive(ep);
    return HVD_OK;
}

hvd_status_t endpoint_serve(struct endpoint *ep, int wake_fd,
                            uint64_t deadline_us)
{
    struct pollfd *pfds = NULL;
    size_t pfds_max = 0;
    hvd_status_t status = HVD_OK;
    bool woken = false;

    while (status == HVD_OK && !woken) {
        if (!array_reserve(&pfds, &pfds_max, endpoint_fds_count(ep) + 1)) {
            status = error_set(HVD_ERR_NOMEM, "endpoint");
            break;
        }
        status = serve_once(ep, wake_fd, deadline_us, pfds, &woken);
        if (status == HVD_OK && !woken && clock_now_us() >= deadline_us)
            status = error_set(HVD_ERR_TIMEOUT, "nothing before the deadline");
    }
    free(pfds);
    return status;
}

void endpoint_fds_close(struct endpoint *ep)
{
    for (struct endpoint_user *u = ep->users; u != NULL; u = u->next)
        u->fds_close(u->arg);
    for (size_t i = 0; i < ep->n_arrivals; i++)
        arrival_close(&ep->arrivals[i]);
    for (size_t i = 0; i < ep->n_lingers; i++)
        close(ep->lingers[i].fd);
    stop_listening(ep);
}
