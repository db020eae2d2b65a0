/* elastic/wire/socket.c - see socket.h.
 *
 * A message is one frame, after the routing id at the ROUTER; behind it may be
 * a second one, with what it shares with others. Every socket encodes into a
 * buffer of its own that grows to what it has needed, so a send allocates
 * nothing but libzmq's copy.
 *
 * Threads: a socket belongs to its creator. */
#include "elastic/wire/socket.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mac.h"
#include "elastic/wire/address.h"
#include "elastic/wire/codec.h"
#include "elastic/wire/context.h"
#include "elastic/wire/curve.h"
#include "elastic/wire/early.h"
#include "elastic/wire/listener.h"
#include "elastic/wire/routes.h"
#include "elastic/wire/seal.h"
#include "elastic/wire/shared.h"

enum {
    BUFFER_NBYTES = 4096, /* holds every message without a span, and a seal */
    ROUTER_NBYTES_MAX = 2 * WIRE_OUTPUT_MAX, /* what is longer goes the other
                                                way, and ends a connection */
};

/* What both kinds of socket have. */
struct endpoint {
    void *socket;
    int fd;
    zmq_msg_t body; /* of the last message received; initialised always */
    zmq_msg_t rest; /* its second frame, or empty; likewise */
    uint8_t *buf;   /* [buf_max] the message being sent */
    size_t buf_max;
    bool dropping; /* the rest of a message of too many frames is to come */
    uint64_t n_refused;
    struct log_seldom malformed, strange;
};

struct wire_router {
    struct endpoint ep;
    /* [n_endpoints], a proof is made for one of them */
    char endpoints[WIRE_ROUTER_ENDPOINTS][ADDRESS_ENDPOINT_MAX];
    size_t n_endpoints;
    struct routes routes;
    uint8_t sender[ROUTE_ID_MAX]; /* [sender_nbytes] of the newest message */
    size_t sender_nbytes;
};

struct wire_dealer {
    struct endpoint ep;
    uint8_t token[WIRE_TOKEN_NBYTES];
    uint8_t proof[WIRE_TOKEN_NBYTES]; /* of it, at this endpoint */
    uint64_t number; /* of this connection, of all of this process */
    /* The first HELLO would otherwise wait for a heartbeat. */
    struct early early;
    bool connected; /* something has been sent: nothing becomes pending */
};

/* ---- what both kinds share ------------------------------------------------
 */

struct option {
    int name, value;
};

/* Heartbeats of libzmq stay off: they can abort the process and cost O(n^2).
 * Keepalive and MAXRT only collect dead connections; who is dead is decided by
 * our own heartbeats. */
static const struct option common_options[] = {
    {ZMQ_LINGER, 0},
    {ZMQ_HEARTBEAT_IVL, 0},
    {ZMQ_HANDSHAKE_IVL, 10000},
    {ZMQ_TCP_KEEPALIVE, 1},
    {ZMQ_TCP_KEEPALIVE_IDLE, 5},
    {ZMQ_TCP_KEEPALIVE_INTVL, 2},
    {ZMQ_TCP_KEEPALIVE_CNT, 5},
    {ZMQ_TCP_MAXRT, 15000},
    {ZMQ_SNDHWM, 1000},
    {ZMQ_RCVHWM, 1000},
};

/* Handover leaves zombie connections behind: ids are new for each incarnation.
 */
static const struct option router_options[] = {
    {ZMQ_ROUTER_MANDATORY, 1},
    {ZMQ_ROUTER_HANDOVER, 0},
};

/* IMMEDIATE: nothing is queued for a driver that is not there. */
static const struct option dealer_options[] = {
    {ZMQ_IMMEDIATE, 1},
    {ZMQ_RECONNECT_IVL, 100},
    {ZMQ_RECONNECT_IVL_MAX, 5000},
    {ZMQ_CONNECT_TIMEOUT, 10000},
};

static bool set_options(void *socket, const struct option *options, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (zmq_setsockopt(socket, options[i].name, &options[i].value,
                           sizeof(int)) != 0)
            return false;
    return true;
}

/* Not always on: libzmq would then write 127.0.0.1 as [::ffff:127.0.0.1]. Of
 * each bind and connect it is what was said last. */
static bool allow_family(struct endpoint *ep, int family)
{
    struct option ipv6 = {ZMQ_IPV6, family == AF_INET6};

    return set_options(ep->socket, &ipv6, 1);
}

static void endpoint_close(struct endpoint *ep)
{
    if (ep->socket) {
        zmq_msg_close(&ep->body);
        zmq_msg_close(&ep->rest);
        zmq_close(ep->socket);
    }
    if (ep->buf)
        explicit_bzero(ep->buf, ep->buf_max); /* tokens and keys */
    free(ep->buf);
}

static hvd_status_t endpoint_open(struct endpoint *ep,
                                  struct wire_context *context, int type)
{
    size_t nbytes = sizeof(ep->fd);
    bool router = type == ZMQ_ROUTER;
    int64_t max = router ? ROUTER_NBYTES_MAX : WIRE_MESSAGE_MAX;

    ep->buf = malloc(BUFFER_NBYTES);
    if (!ep->buf)
        return error_set(HVD_ERR_NOMEM, "no memory for a control socket");
    ep->buf_max = BUFFER_NBYTES;
    ep->socket = zmq_socket(context->zmq, type);
    if (!ep->socket)
        return error_errno("cannot create a control socket");
    zmq_msg_init(&ep->body);
    zmq_msg_init(&ep->rest);
    if (zmq_setsockopt(ep->socket, ZMQ_MAXMSGSIZE, &max, sizeof(max)) != 0 ||
        !set_options(ep->socket, common_options, ARRAY_SIZE(common_options)) ||
        !set_options(ep->socket, router ? router_options : dealer_options,
                     router ? ARRAY_SIZE(router_options)
                            : ARRAY_SIZE(dealer_options)) ||
        zmq_getsockopt(ep->socket, ZMQ_FD, &ep->fd, &nbytes) != 0)
        return error_errno("cannot set up a control socket");
    return HVD_OK;
}

/* The length of *m in ep->buf, or a codec_error; behind it there is room for a
 * seal. */
static long endpoint_encode(struct endpoint *ep, const struct message *m)
{
    long n = codec_encode(m, ep->buf, ep->buf_max - SEAL_NBYTES);

    while (n == CODEC_SPACE) {
        size_t max = 2 * ep->buf_max;
        uint8_t *buf = realloc(ep->buf, max);

        if (!buf)
            return CODEC_NOMEM;
        ep->buf = buf;
        ep->buf_max = max;
        n = codec_encode(m, ep->buf, ep->buf_max - SEAL_NBYTES);
    }
    return n;
}

static hvd_status_t encode_failed(const struct message *m, long error)
{
    return error_set(error == CODEC_NOMEM ? HVD_ERR_NOMEM : HVD_ERR_INVALID,
                     "cannot encode %s: %s", message_type_name(m->type),
                     codec_strerror((int)error));
}

static int send_frame(void *socket, const void *data, size_t nbytes, int flags)
{
    int rc;

    do
        rc = zmq_send(socket, data, nbytes, flags | ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    return rc;
}

static int receive_frame(void *socket, zmq_msg_t *frame)
{
    int rc;

    do
        rc = zmq_msg_recv(frame, socket, ZMQ_DONTWAIT);
    while (rc < 0 && errno == EINTR);
    return rc;
}

/* The first frame of a message, in ep->body. One that has more frames than ours
 * is dropped frame by frame, as there may be millions of them. */
static enum wire_receipt receive_first(struct endpoint *ep)
{
    bool dropping = ep->dropping;

    if (receive_frame(ep->socket, &ep->body) < 0)
        return WIRE_NOTHING;
    ep->dropping = dropping && zmq_msg_more(&ep->body);
    return dropping ? WIRE_REFUSED : WIRE_MESSAGE;
}

/* frame: the last one that was read. */
static enum wire_receipt refuse_form(struct endpoint *ep,
                                     const zmq_msg_t *frame)
{
    ep->n_refused++;
    ep->dropping = zmq_msg_more(frame);
    log_seldom(&ep->malformed, LOG_LEVEL_WARN,
               "message of a foreign form -> ignored");
    return WIRE_REFUSED;
}

/* The first nbytes of ep->body. */
static enum wire_receipt endpoint_decode(struct endpoint *ep, size_t nbytes,
                                         struct message *m)
{
    const char *field;
    int rc = codec_decode(zmq_msg_data(&ep->body), nbytes, m, &field);

    if (rc == CODEC_OK)
        return WIRE_MESSAGE;
    ep->n_refused++;
    log_seldom(&ep->malformed, LOG_LEVEL_WARN,
               "message of %zu bytes: %s%s%s -> ignored", nbytes,
               codec_strerror(rc), *field ? ": " : "", field);
    return WIRE_REFUSED;
}

/* Asking makes libzmq look at its mailbox, which zmq_send does only now and
 * then. */
static int socket_events(const struct endpoint *ep)
{
    int events;
    size_t nbytes = sizeof(events);

    if (zmq_getsockopt(ep->socket, ZMQ_EVENTS, &events, &nbytes) != 0)
        return 0;
    return events;
}

/* ---- router ---------------------------------------------------------------
 */

static hvd_status_t bind_at(struct wire_router *router, const char *address,
                            uint16_t port, const char *wanted)
{
    char *endpoint = router->endpoints[router->n_endpoints];
    size_t nbytes = sizeof(router->endpoints[0]);

    if (!allow_family(&router->ep, address_family(address)) ||
        !listener_bind(router->ep.socket, address, port, wanted) ||
        zmq_getsockopt(router->ep.socket, ZMQ_LAST_ENDPOINT, endpoint,
                       &nbytes) != 0)
        return error_errno("cannot listen at %s", wanted);
    router->n_endpoints++;
    return HVD_OK;
}

hvd_status_t wire_router_listen(struct wire_router *router, const char *address,
                                uint16_t port, const char **endpoint_p)
{
    int family = address_family(address);
    char wanted[ADDRESS_ENDPOINT_MAX], number[8] = "*";

    if (family < 0)
        return error_set(HVD_ERR_INVALID,
                         "cannot listen at \"%s\": it is no address of one "
                         "machine",
                         address);
    if (router->n_endpoints == WIRE_ROUTER_ENDPOINTS)
        return error_set(HVD_ERR_INVALID,
                         "cannot listen at \"%s\": %d addresses are enough",
                         address, WIRE_ROUTER_ENDPOINTS);
    if (port != 0)
        snprintf(number, sizeof(number), "%u", port);
    snprintf(wanted, sizeof(wanted),
             family == AF_INET6 ? "tcp://[%s]:%s" : "tcp://%s:%s", address,
             number);
    HVD_TRY(bind_at(router, address, port, wanted));
    *endpoint_p = router->endpoints[router->n_endpoints - 1];
    return HVD_OK;
}

void wire_router_unlisten(struct wire_router *router)
{
    HVD_ASSERT(router->n_endpoints > 0);
    zmq_unbind(router->ep.socket, router->endpoints[--router->n_endpoints]);
}

hvd_status_t wire_router_create(struct wire_context *context,
                                const struct wire_gate *gate,
                                const char *address, char *endpoint,
                                size_t endpoint_max,
                                struct wire_router **router_p)
{
    struct wire_router *router = calloc(1, sizeof(*router));
    const char *bound;
    hvd_status_t status;

    if (!router)
        return error_set(HVD_ERR_NOMEM, "no memory for a control socket");
    HVD_TRY_GOTO(endpoint_open(&router->ep, context, ZMQ_ROUTER), destroy);
    if (!curve_serve(router->ep.socket, wire_gate_secret(gate))) {
        status = error_errno("CURVE");
        goto destroy;
    }
    HVD_TRY_GOTO(wire_router_listen(router, address, 0, &bound), destroy);
    snprintf(endpoint, endpoint_max, "%s", bound);
    *router_p = router;
    return HVD_OK;

destroy:
    wire_router_destroy(router);
    return status;
}

void wire_router_destroy(struct wire_router *router)
{
    if (!router)
        return;
    endpoint_close(&router->ep);
    routes_fini(&router->routes);
    free(router);
}

int wire_router_fd(const struct wire_router *router)
{
    return router->ep.fd;
}

uint64_t wire_router_refused(const struct wire_router *router)
{
    return router->ep.n_refused;
}

/* Two frames: the routing id of the sender, and in ep->body what it says. */
static enum wire_receipt router_read(struct wire_router *router)
{
    struct endpoint *ep = &router->ep;
    enum wire_receipt receipt = receive_first(ep);
    size_t nbytes;

    if (receipt != WIRE_MESSAGE)
        return receipt;
    nbytes = zmq_msg_size(&ep->body);
    if (nbytes > ROUTE_ID_MAX || !zmq_msg_more(&ep->body))
        return refuse_form(ep, &ep->body);
    memcpy(router->sender, zmq_msg_data(&ep->body), nbytes);
    router->sender_nbytes = nbytes;
    if (receive_frame(ep->socket, &ep->body) < 0)
        return WIRE_NOTHING;
    return zmq_msg_more(&ep->body) ? refuse_form(ep, &ep->body) : WIRE_MESSAGE;
}

/* Most often it is the last word of one who was forgotten a moment ago. */
static enum wire_receipt refuse_stranger(struct endpoint *ep, const char *what)
{
    ep->n_refused++;
    log_seldom(&ep->strange, LOG_LEVEL_DEBUG, "%s of a stranger -> ignored",
               what);
    return WIRE_REFUSED;
}

enum wire_receipt wire_router_receive(struct wire_router *router,
                                      uint64_t *route_p, struct message *m)
{
    struct endpoint *ep = &router->ep;
    enum wire_receipt receipt = router_read(router);
    bool strange;

    if (receipt != WIRE_MESSAGE)
        return receipt;
    *route_p = routes_number(&router->routes, router->sender,
                             router->sender_nbytes);
    strange = *route_p == 0;
    if (strange && zmq_msg_size(&ep->body) > BUFFER_NBYTES)
        return refuse_stranger(ep, "a long message");
    receipt = endpoint_decode(ep, zmq_msg_size(&ep->body), m);
    if (receipt == WIRE_MESSAGE && strange && m->type != MSG_HELLO &&
        m->type != MSG_AGENT_HELLO)
        return refuse_stranger(ep, message_type_name(m->type));
    return receipt;
}

bool wire_router_proven(const struct wire_router *router, const uint8_t *token,
                        const uint8_t *proof)
{
    uint8_t expected[SEAL_NBYTES];
    bool proven = false;

    for (size_t i = 0; i < router->n_endpoints && !proven; i++) {
        seal_prove(token, router->endpoints[i], expected);
        proven = mac_equal(expected, proof);
    }
    return proven;
}

uint64_t wire_router_admit(struct wire_router *router, const uint8_t *token)
{
    return routes_add(&router->routes, router->sender, router->sender_nbytes,
                      token);
}

hvd_status_t wire_router_send(struct wire_router *router, uint64_t route,
                              const struct message *m)
{
    return wire_router_send_shared(router, route, m, NULL);
}

hvd_status_t wire_router_send_shared(struct wire_router *router, uint64_t route,
                                     const struct message *m,
                                     struct wire_shared *shared)
{
    const struct route *peer = routes_find(&router->routes, route);
    struct endpoint *ep = &router->ep;
    long n;

    if (!peer)
        return error_set(HVD_PEER_LOST, "no peer has route %" PRIu64, route);
    n = endpoint_encode(ep, m);
    if (n < 0)
        return encode_failed(m, n);
    seal_put(peer->token, ep->buf, (size_t)n,
             shared ? shared_digest(shared) : NULL);
    n += SEAL_NBYTES;
    if (send_frame(ep->socket, peer->id, peer->nbytes, ZMQ_SNDMORE) < 0 ||
        send_frame(ep->socket, ep->buf, (size_t)n, shared ? ZMQ_SNDMORE : 0) <
            0 ||
        (shared && shared_send(ep->socket, shared) < 0)) {
        log_debug("%s to %.*s: %s -> not sent", message_type_name(m->type),
                  (int)peer->nbytes, (const char *)peer->id,
                  errno == EAGAIN ? "it does not read" : zmq_strerror(errno));
        return error_set(HVD_PEER_LOST, "%.*s cannot be reached",
                         (int)peer->nbytes, (const char *)peer->id);
    }
    return HVD_OK;
}

void wire_router_look(struct wire_router *router)
{
    (void)socket_events(&router->ep);
}

void wire_router_forget(struct wire_router *router, uint64_t route)
{
    routes_forget(&router->routes, route);
}

/* ---- dealer ---------------------------------------------------------------
 */

static hvd_status_t dealer_connect(struct wire_dealer *dealer,
                                   const char *endpoint, const char *name)
{
    int n, family = address_endpoint_family(endpoint);
    char id[ROUTE_ID_MAX];
    uint64_t nonce;

    if (family < 0)
        return error_set(
            HVD_ERR_INVALID,
            "cannot connect to \"%s\": the control plane needs tcp:// and a "
            "numeric address of one machine",
            endpoint);
    mac_random(&nonce, sizeof(nonce));
    n = snprintf(id, sizeof(id), "%s.%016" PRIx64, name, nonce);
    if (n >= (int)sizeof(id))
        return error_set(HVD_ERR_INVALID, "\"%s\" is too long a name", name);
    if (!allow_family(&dealer->ep, family) ||
        zmq_setsockopt(dealer->ep.socket, ZMQ_ROUTING_ID, id, (size_t)n) != 0 ||
        zmq_connect(dealer->ep.socket, endpoint) != 0)
        return error_errno("cannot connect to %s", endpoint);
    seal_prove(dealer->token, endpoint, dealer->proof);
    return HVD_OK;
}

hvd_status_t wire_dealer_create(struct wire_context *context,
                                const char *endpoint, const char *name,
                                const struct wire_secrets *secrets,
                                struct wire_dealer **dealer_p)
{
    struct wire_dealer *dealer = calloc(1, sizeof(*dealer));
    hvd_status_t status;

    if (!dealer)
        return error_set(HVD_ERR_NOMEM, "no memory for a control socket");
    memcpy(dealer->token, secrets->token, sizeof(dealer->token));
    dealer->number = atomic_fetch_add(&context->n_dialled, 1) + 1;
    HVD_TRY_GOTO(endpoint_open(&dealer->ep, context, ZMQ_DEALER), destroy);
    if (!curve_visit(dealer->ep.socket, secrets)) {
        status = error_errno("CURVE");
        goto destroy;
    }
    HVD_TRY_GOTO(dealer_connect(dealer, endpoint, name), destroy);
    *dealer_p = dealer;
    return HVD_OK;

destroy:
    wire_dealer_destroy(dealer);
    return status;
}

void wire_dealer_destroy(struct wire_dealer *dealer)
{
    if (!dealer)
        return;
    endpoint_close(&dealer->ep);
    early_fini(&dealer->early);
    explicit_bzero(dealer->token, sizeof(dealer->token));
    free(dealer);
}

void wire_dealer_linger(struct wire_dealer *dealer, int timeout_ms)
{
    zmq_setsockopt(dealer->ep.socket, ZMQ_LINGER, &timeout_ms,
                   sizeof(timeout_ms));
}

int wire_dealer_fd(const struct wire_dealer *dealer)
{
    return dealer->ep.fd;
}

/* Send what was said too early, in order; the connection may still be missing.
 * true: the mailbox has been looked into with effect, so there may be something
 * to receive that the descriptor will not tell of. */
static bool flush_early(struct wire_dealer *dealer)
{
    size_t at = 0, next = 0;
    const uint8_t *data;
    uint32_t nbytes;
    int events;

    if (dealer->early.n == 0)
        return false;
    events = socket_events(&dealer->ep);
    while ((events & ZMQ_POLLOUT) &&
           early_next(&dealer->early, &next, &data, &nbytes)) {
        if (send_frame(dealer->ep.socket, data, nbytes, 0) < 0)
            break;
        dealer->connected = true;
        at = next;
    }
    early_drop(&dealer->early, at);
    return at > 0 || (events & ZMQ_POLLIN);
}

/* The second frame is what the message has left empty. */
static bool take_rest(struct endpoint *ep, struct message *m)
{
    size_t nbytes = zmq_msg_size(&ep->rest);

    if (nbytes == 0)
        return true;
    if (m->type != MSG_ASSIGN || m->u.assign.table.nbytes > 0)
        return false;
    m->u.assign.table = (struct wire_span){zmq_msg_data(&ep->rest),
                                           (uint32_t)nbytes};
    return true;
}

/* One frame, in ep->body, or a second one, in ep->rest. */
static enum wire_receipt dealer_read_frames(struct endpoint *ep)
{
    enum wire_receipt receipt = receive_first(ep);

    zmq_msg_close(&ep->rest);
    zmq_msg_init(&ep->rest);
    if (receipt != WIRE_MESSAGE || !zmq_msg_more(&ep->body))
        return receipt;
    if (receive_frame(ep->socket, &ep->rest) < 0)
        return WIRE_NOTHING;
    return zmq_msg_more(&ep->rest) ? refuse_form(ep, &ep->rest) : WIRE_MESSAGE;
}

/* Whoever sits in the driver's place cannot say what the driver says. */
static enum wire_receipt refuse_unsealed(struct endpoint *ep)
{
    ep->n_refused++;
    log_seldom(&ep->strange, LOG_LEVEL_WARN,
               "message that is not the driver's -> ignored");
    return WIRE_REFUSED;
}

static bool is_sealed(struct wire_dealer *dealer, size_t *nbytes_p)
{
    struct endpoint *ep = &dealer->ep;
    uint8_t digest[SEAL_NBYTES];
    size_t n_rest = zmq_msg_size(&ep->rest), n = zmq_msg_size(&ep->body);

    if (n < SEAL_NBYTES)
        return false;
    if (n_rest > 0)
        seal_digest(zmq_msg_data(&ep->rest), n_rest, digest);
    *nbytes_p = n - SEAL_NBYTES;
    return seal_fits(dealer->token, zmq_msg_data(&ep->body), *nbytes_p,
                     n_rest > 0 ? digest : NULL);
}

static enum wire_receipt dealer_read(struct wire_dealer *dealer,
                                     struct message *m)
{
    struct endpoint *ep = &dealer->ep;
    enum wire_receipt receipt = dealer_read_frames(ep);
    size_t nbytes;

    if (receipt != WIRE_MESSAGE)
        return receipt;
    if (!is_sealed(dealer, &nbytes))
        return refuse_unsealed(ep);
    receipt = endpoint_decode(ep, nbytes, m);
    if (receipt == WIRE_MESSAGE && !take_rest(ep, m))
        return refuse_form(ep, &ep->rest);
    return receipt;
}

enum wire_receipt wire_dealer_receive(struct wire_dealer *dealer,
                                      struct message *m)
{
    enum wire_receipt receipt = dealer_read(dealer, m);

    /* the receive that finds nothing is what sees the connection come up, so
     * flush after it: the descriptor stays silent about it from then on */
    while (receipt == WIRE_NOTHING && flush_early(dealer))
        receipt = dealer_read(dealer, m);
    return receipt;
}

static hvd_status_t send_words(struct wire_dealer *dealer,
                               const struct message *m)
{
    struct endpoint *ep = &dealer->ep;
    long n = endpoint_encode(ep, m);

    if (n < 0)
        return encode_failed(m, n);
    flush_early(dealer);
    if (dealer->early.n == 0 &&
        send_frame(ep->socket, ep->buf, (size_t)n, 0) >= 0) {
        dealer->connected = true;
        return HVD_OK;
    }
    if (!dealer->connected && early_add(&dealer->early, ep->buf, (uint32_t)n))
        return HVD_OK;
    log_debug("%s to the driver -> not sent", message_type_name(m->type));
    return error_set(HVD_PEER_LOST, "the driver cannot be reached");
}

hvd_status_t wire_dealer_send(struct wire_dealer *dealer,
                              const struct message *m)
{
    struct message hello;

    if (m->type != MSG_HELLO && m->type != MSG_AGENT_HELLO)
        return send_words(dealer, m);
    hello = *m;
    if (m->type == MSG_HELLO) {
        memcpy(hello.u.hello.proof, dealer->proof, sizeof(dealer->proof));
        hello.u.hello.connection = dealer->number;
    } else {
        memcpy(hello.u.agent_hello.proof, dealer->proof, sizeof(dealer->proof));
        hello.u.agent_hello.connection = dealer->number;
    }
    return send_words(dealer, &hello);
}
