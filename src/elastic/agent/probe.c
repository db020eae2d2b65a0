/* elastic/agent/probe.c - see probe.h.
 *
 * Few and short-lived: whatever might have moved is simply tried again whenever
 * anything is ready. */
#include "elastic/agent/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mac.h"
#include "base/text.h"
#include "elastic/wire/reach.h"

enum {
    AT_ID = 8,
    AT_WORDS = 16,
    AT_MAC = 48,
    MAGIC_NBYTES = 8,
    PIECE_NBYTES = 4096, /* of the padding, in one call */
    BACKLOG = 64,
    ACCEPTS_MAX = 64, /* in a step: who goes on connecting gets no more */
    DEFER_S = 5       /* who says nothing stays the kernel's as long */
};

_Static_assert((int)AT_MAC + (int)MAC_NBYTES == (int)PROBE_NBYTES &&
                   (int)AT_WORDS + (int)WIRE_TOKEN_NBYTES == (int)AT_MAC,
               "the parts of a probe fill it");

static const char question[] = "HVDPROBE", answer[] = "HVDPROBA";

/* ---- the words ----------------------------------------------------------- */

/* words [WIRE_TOKEN_NBYTES], out [PROBE_NBYTES] */
static void encode(const struct probe *p, const char *magic, uint64_t id,
                   const uint8_t *words, uint8_t *out)
{
    memcpy(out, magic, MAGIC_NBYTES);
    bytes_put(out + AT_ID, id, 8);
    memcpy(out + AT_WORDS, words, WIRE_TOKEN_NBYTES);
    mac_compute(p->secrets.job_key, out, AT_MAC, out + AT_MAC);
}

/* Of this job? */
static bool is_ours(const struct probe *p, const char *magic, const uint8_t *in)
{
    uint8_t mac[MAC_NBYTES];

    mac_compute(p->secrets.job_key, in, AT_MAC, mac);
    return memcmp(in, magic, MAGIC_NBYTES) == 0 && mac_equal(mac, in + AT_MAC);
}

/* ---- sockets ------------------------------------------------------------- */

static socklen_t to_sockaddr(const struct interface *item, uint16_t port,
                             struct sockaddr_storage *sa)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)sa;

    memset(sa, 0, sizeof(*sa));
    if (inet_pton(AF_INET, item->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return sizeof(*v4);
    }
    if (inet_pton(AF_INET6, item->address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        return sizeof(*v6);
    }
    return 0;
}

static int open_socket(const struct sockaddr_storage *sa)
{
    int one = 1;
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    0);

    /* two agents of a machine, of which one listens to v4 alone */
    if (fd >= 0 && sa->ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    return fd;
}

/* -1: none is left now. */
static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool watch(const struct probe *p, int fd, uint32_t events)
{
    struct epoll_event ev = {.events = events};

    return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static bool read_port(int fd, uint16_t *port_p)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);

    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        return false;
    /* at the same place in both */
    *port_p = ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port);
    return true;
}

/* -1: errno. */
static int listen_at(const struct interface *item, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t len = to_sockaddr(item, port, &sa);
    int fd = open_socket(&sa), error, defer_s = DEFER_S;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s,
                     sizeof(defer_s));
    if (fd >= 0 && bind(fd, (struct sockaddr *)&sa, len) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    error = errno;
    fd_close(&fd);
    errno = error;
    return -1;
}

static int listen_in_range(const struct interface *item, uint16_t low,
                           uint16_t high)
{
    int fd = -1;

    for (unsigned port = low; port <= high && fd < 0; port++) {
        fd = listen_at(item, (uint16_t)port);
        if (fd < 0 && errno != EADDRINUSE)
            break;
    }
    return fd;
}

static bool open_one(struct probe *p, struct interface *item, uint16_t low,
                     uint16_t high)
{
    int fd = listen_in_range(item, low, high);

    if (fd >= 0 && read_port(fd, &item->port) && watch(p, fd, EPOLLIN)) {
        p->listen_fds[p->n] = fd;
        p->items[p->n++] = *item;
        return true;
    }
    log_warn("cannot listen at %s of %s: %s -> it is not used", item->address,
             item->name, strerror(errno));
    fd_close(&fd);
    return false;
}

hvd_status_t probe_open(struct probe *p, const char *names, uint16_t low,
                        uint16_t high, uint64_t self,
                        const struct wire_secrets *secrets)
{
    struct interface items[INTERFACES_MAX];
    size_t n;

    *p = (struct probe){
        .secrets = *secrets, .self = self, .epoll_fd = -1, .spare_fd = -1};
    HVD_TRY(interfaces_list(names, items, &n));
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (p->epoll_fd < 0)
        return error_errno("cannot watch for probes");
    p->spare_fd = open_spare();
    for (size_t i = 0; i < n; i++)
        (void)open_one(p, &items[i], low, high);
    if (p->n > 0)
        return HVD_OK;
    probe_close(p);
    return error_set(HVD_ERR_SYSTEM, "this host has no address at which others "
                                     "could reach it");
}

static void forget_probe(struct probe *p)
{
    for (size_t i = 0; i < p->n_attempts; i++)
        fd_close(&p->attempts[i].fd);
    p->n_attempts = 0;
    p->target = 0;
}

void probe_close(struct probe *p)
{
    forget_probe(p);
    for (size_t i = 0; i < p->n_guests; i++)
        fd_close(&p->guests[i].fd);
    for (size_t i = 0; i < p->n; i++)
        fd_close(&p->listen_fds[i]);
    p->n = p->n_guests = 0;
    if (p->epoll_fd >= 0)
        fd_close(&p->spare_fd);
    fd_close(&p->epoll_fd);
    explicit_bzero(&p->secrets, sizeof(p->secrets));
}

/* ---- who asks us --------------------------------------------------------- */

/* false: this asker gets no answer. */
static bool reply(const struct probe *p, struct probe_guest *g)
{
    uint8_t words[WIRE_TOKEN_NBYTES], out[PROBE_NBYTES];

    if (!is_ours(p, question, g->question))
        return false;
    wire_probe_answer(p->secrets.token, g->question + AT_WORDS, words);
    encode(p, answer, p->self, words, out);
    if (send(g->fd, out, sizeof(out), MSG_NOSIGNAL) == (ssize_t)sizeof(out))
        return true;
    log_debug("a probe left before it was answered");
    return false;
}

/* The question; once it is answered, the padding, which is thrown away. The
 * asker learns from the end of this connection that all of it has come.
 * true: the guest is done with, in whichever way. */
static bool serve(const struct probe *p, struct probe_guest *g, uint64_t now_us)
{
    bool answered = g->n == PROBE_NBYTES;
    uint8_t padding[PIECE_NBYTES];
    ssize_t n = answered
                    ? recv(g->fd, padding, sizeof(padding), 0)
                    : recv(g->fd, g->question + g->n, PROBE_NBYTES - g->n, 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return true;
    if (n > 0 && !answered) {
        g->n += (size_t)n;
        if (g->n == PROBE_NBYTES && !reply(p, g))
            return true;
    }
    return now_us >= g->deadline_us;
}

static void drop_guest(struct probe *p, size_t i)
{
    fd_close(&p->guests[i].fd);
    memmove(p->guests + i, p->guests + i + 1,
            (--p->n_guests - i) * sizeof(p->guests[0]));
}

/* Who says nothing must not keep out who does: the oldest goes. */
static void welcome(struct probe *p, int fd, uint64_t now_us)
{
    struct probe_guest guest = {.fd = fd,
                                .deadline_us = now_us + PROBE_TIMEOUT_US};

    if (serve(p, &guest, now_us) || !watch(p, fd, EPOLLIN)) {
        close(fd);
        return;
    }
    if (p->n_guests == PROBE_GUESTS_MAX)
        drop_guest(p, 0);
    p->guests[p->n_guests++] = guest;
}

/* There is no descriptor for who waits: the oldest guest's is taken, or the
 * spare one for as long as it takes to close him, as the loop would be told of
 * him again and again. false: not even that. */
static bool make_do(struct probe *p, int listen_fd)
{
    int fd;

    if (p->n_guests > 0) {
        drop_guest(p, 0);
        return true;
    }
    fd_close(&p->spare_fd);
    fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    p->spare_fd = open_spare();
    return fd >= 0;
}

static void accept_guests(struct probe *p, int listen_fd, uint64_t now_us)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE) &&
            make_do(p, listen_fd))
            continue;
        if (fd < 0)
            return;
        welcome(p, fd, now_us);
    }
}

static void serve_guests(struct probe *p, uint64_t now_us)
{
    for (size_t i = p->n_guests; i-- > 0;)
        if (serve(p, &p->guests[i], now_us))
            drop_guest(p, i);
    for (size_t i = 0; i < p->n; i++)
        accept_guests(p, p->listen_fds[i], now_us);
}

/* ---- whom we ask --------------------------------------------------------- */

static void settle(struct probe_attempt *a, enum probe_outcome outcome,
                   int error)
{
    a->outcome = outcome;
    a->error = error;
    fd_close(&a->fd);
}

static void begin_attempt(struct probe *p, struct probe_attempt *a)
{
    struct sockaddr_storage sa;
    socklen_t len = to_sockaddr(&a->to, a->to.port, &sa);

    a->fd = open_socket(&sa);
    if (a->fd < 0 || !watch(p, a->fd, EPOLLIN | EPOLLOUT | EPOLLET) ||
        (connect(a->fd, (struct sockaddr *)&sa, len) != 0 &&
         errno != EINPROGRESS))
        settle(a, PROBE_REFUSED, errno);
}

/* Before the connection stands nothing is sent: it is tried again. */
static void ask(const struct probe *p, struct probe_attempt *a)
{
    uint8_t out[PROBE_NBYTES];
    ssize_t n;

    encode(p, question, p->target, p->nonce, out);
    n = send(a->fd, out, sizeof(out), MSG_NOSIGNAL);
    a->asked = n == (ssize_t)sizeof(out);
    if (!a->asked && (n >= 0 || (errno != EAGAIN && errno != EINTR)))
        settle(a, PROBE_REFUSED, n >= 0 ? EMSGSIZE : errno);
}

/* The largest packet that both ends say the path takes. */
static uint32_t packet_nbytes(const struct probe_attempt *a)
{
    bool v6 = strchr(a->to.address, ':') != NULL;
    int mtu = 0;
    socklen_t len = sizeof(mtu);
    uint32_t own, other = a->to.mtu;

    if (getsockopt(a->fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                   v6 ? IPV6_MTU : IP_MTU, &mtu, &len) != 0 ||
        mtu <= 0)
        mtu = PROBE_PACKET_MIN;
    own = (uint32_t)mtu;
    if (other > 0 && other < own)
        own = other;
    return own < PROBE_PACKET_MAX ? own : PROBE_PACKET_MAX;
}

static void judge(const struct probe *p, struct probe_attempt *a)
{
    bool right = is_ours(p, answer, a->answer) &&
                 bytes_get(a->answer + AT_ID, 8) == p->target &&
                 mac_equal(a->answer + AT_WORDS, p->answer);

    if (!right)
        settle(a, PROBE_ANOTHER, 0);
    a->packet_nbytes = a->padding = right ? packet_nbytes(a) : 0;
}

static void hear(const struct probe *p, struct probe_attempt *a)
{
    ssize_t n = recv(a->fd, a->answer + a->n, PROBE_NBYTES - a->n, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN))
        return;
    if (n < 0)
        settle(a, PROBE_REFUSED, errno);
    else if (n == 0)
        settle(a, PROBE_ANOTHER, 0);
    else if ((a->n += (size_t)n) == PROBE_NBYTES)
        judge(p, a);
}

/* A packet's worth of bytes and a bit, so that one packet is as large as they
 * get; then the other agent ends the connection, if it has got them. */
static void pad(struct probe_attempt *a)
{
    static const uint8_t zeros[PIECE_NBYTES];
    uint8_t end;
    ssize_t n = 1;

    while (a->padding > 0 && n > 0) {
        size_t piece = a->padding < PIECE_NBYTES ? a->padding : PIECE_NBYTES;

        n = send(a->fd, zeros, piece,
                 MSG_NOSIGNAL | (piece < a->padding ? MSG_MORE : 0));
        a->padding -= n > 0 ? (uint32_t)n : 0;
        if (n > 0 && a->padding == 0)
            (void)shutdown(a->fd, SHUT_WR);
    }
    if (n > 0)
        n = recv(a->fd, &end, sizeof(end), 0);
    if (n == 0)
        settle(a, PROBE_REACHED, 0);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        settle(a, PROBE_REFUSED, errno);
}

/* Were the small ones answered, and are the large ones not even acknowledged
 * by the other machine's kernel? */
static bool loses_large(const struct probe_attempt *a)
{
    int unacknowledged = 0;

    return a->packet_nbytes > 0 &&
           ioctl(a->fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged > 0;
}

static void step_attempt(const struct probe *p, struct probe_attempt *a,
                         uint64_t now_us)
{
    if (a->outcome == PROBE_WAITS && !a->asked)
        ask(p, a);
    if (a->outcome == PROBE_WAITS && a->n < PROBE_NBYTES)
        hear(p, a);
    if (a->outcome == PROBE_WAITS && a->n == PROBE_NBYTES)
        pad(a);
    if (a->outcome == PROBE_WAITS && now_us >= p->deadline_us)
        settle(a, loses_large(a) ? PROBE_LOSES : PROBE_SILENT, 0);
}

/* The driver may want to know sooner. */
static uint64_t limit_of(const struct msg_probe *m)
{
    bool sooner = m->wait_ms > 0 && m->wait_ms < PROBE_TIMEOUT_US / 1000;

    return sooner ? m->wait_ms * 1000 : (uint64_t)PROBE_TIMEOUT_US;
}

void probe_begin(struct probe *p, const struct msg_probe *m, uint64_t now_us)
{
    struct interface to[INTERFACES_MAX];

    p->told = false;
    if (m->target == p->target &&
        memcmp(m->nonce, p->nonce, sizeof(p->nonce)) == 0)
        return;
    forget_probe(p);
    p->target = m->target;
    memcpy(p->nonce, m->nonce, sizeof(p->nonce));
    memcpy(p->answer, m->answer, sizeof(p->answer));
    p->deadline_us = now_us + limit_of(m);
    p->n_attempts = reach_unpack(m->addresses, to);
    for (size_t i = 0; i < p->n_attempts; i++) {
        p->attempts[i] = (struct probe_attempt){.to = to[i], .fd = -1};
        begin_attempt(p, &p->attempts[i]);
    }
    probe_step(p, now_us);
}

/* ---- what has come of it ------------------------------------------------- */

static void describe_loss(const struct probe_attempt *a, struct text *t)
{
    text_add(t, " loses packets of ");
    text_u64(t, a->packet_nbytes);
    text_add(t, " bytes, and small ones arrive: the MTU of ");
    text_add(t, a->to.name);
    text_add(t, " is larger than the path's -> lower it there, or raise it in "
                "between");
}

static void describe(const struct probe_attempt *a, struct text *t)
{
    static const char *const words[] = {[PROBE_ANOTHER] = "is somebody else's",
                                        [PROBE_SILENT] = "does not answer"};

    if (a->outcome == PROBE_REACHED)
        return;
    if (t->n > 0)
        text_add(t, ", ");
    text_add(t, a->to.address);
    text_add(t, ":");
    text_u64(t, a->to.port);
    if (a->outcome == PROBE_LOSES) {
        describe_loss(a, t);
        return;
    }
    text_add(t, " ");
    text_add(t, a->outcome == PROBE_REFUSED ? strerror(a->error)
                                            : words[a->outcome]);
}

static bool is_settled(const struct probe *p)
{
    for (size_t i = 0; i < p->n_attempts; i++)
        if (p->attempts[i].outcome == PROBE_WAITS)
            return false;
    return true;
}

bool probe_result(struct probe *p, struct msg_probed *m)
{
    struct text t;

    if (p->target == 0 || p->told || !is_settled(p))
        return false;
    p->told = true;
    *m = (struct msg_probed){.target = p->target};
    t = text_into(m->text, sizeof(m->text));
    for (size_t i = 0; i < p->n_attempts; i++) {
        m->reached |= (uint64_t)(p->attempts[i].outcome == PROBE_REACHED) << i;
        m->loses |= p->attempts[i].outcome == PROBE_LOSES;
        describe(&p->attempts[i], &t);
    }
    return true;
}

void probe_step(struct probe *p, uint64_t now_us)
{
    serve_guests(p, now_us);
    for (size_t i = 0; i < p->n_attempts; i++)
        step_attempt(p, &p->attempts[i], now_us);
}

uint64_t probe_deadline(const struct probe *p)
{
    uint64_t deadline_us = p->n_guests > 0 ? p->guests[0].deadline_us
                                           : CLOCK_NEVER;

    if (p->target != 0 && !is_settled(p) && p->deadline_us < deadline_us)
        deadline_us = p->deadline_us;
    return deadline_us;
}
