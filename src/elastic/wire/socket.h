/* elastic/wire/socket.h - the control sockets: one ROUTER in the driver, a
 * DEALER in each agent and worker, a second ROUTER/DEALER pair for output. Only
 * context.c, curve.c, gate.c, listener.c, shared.c and socket.c see zmq.h.
 *
 * TCP, encrypted and authenticated by CURVE; heartbeats are ours, libzmq's are
 * off; nothing ever blocks in a send; LINGER is 0. Who has no key that the
 * gate knows does not get in. Who connects to a ROUTER is a stranger until the
 * caller has found the right proof in its HELLO or AGENT_HELLO and admits it:
 * of strangers nothing else is let through, and nothing is remembered. A route
 * belongs to the routing id that said the HELLO; while that is connected,
 * nobody else can use it.
 *
 * A receive takes one message at most, so that its caller decides how many make
 * a turn: a peer can send without end. libzmq takes them from its peers in
 * turns, so who sends much does not keep out who sends little.
 *
 * Threads: a socket belongs to the thread that created it; wire_context may be
 * shared. The descriptor is edge-triggered: drain with *_receive until it
 * returns WIRE_NOTHING before sleeping on it, also after every send. */
#ifndef ELASTIC_WIRE_SOCKET_H
#define ELASTIC_WIRE_SOCKET_H

#include <hvd/status.h>

#include "elastic/wire/address.h"
#include "elastic/wire/message.h"

enum wire_receipt {
    WIRE_NOTHING,
    WIRE_REFUSED, /* malformed, or not a stranger's to say: it is gone, and
                     counted; a line tells of it now and then */
    WIRE_MESSAGE
};

struct wire_context;
struct wire_router;
struct wire_dealer;

/* One per process (and one I/O thread of libzmq, signals blocked). */
hvd_status_t
wire_context_create(struct wire_context **context_p) HVD_MUST_CHECK;
void wire_context_destroy(struct wire_context *context); /* after its sockets */

/* ---- driver -------------------------------------------------------------- */

/* Who may connect to the routers of a context: there is one gate of each, and a
 * thread that answers libzmq. Calls from any thread. secret
 * [WIRE_TOKEN_NBYTES], copied: the driver's. */
struct wire_gate;
hvd_status_t wire_gate_create(struct wire_context *context,
                              const uint8_t *secret,
                              struct wire_gate **gate_p) HVD_MUST_CHECK;
void wire_gate_destroy(struct wire_gate *gate); /* after the routers */

/* From now on the agent (worker 0), or this worker of it, who has this token
 * [WIRE_TOKEN_NBYTES], may connect. Some 50 us. false: out of memory. */
bool wire_gate_allow(struct wire_gate *gate, uint64_t agent, uint64_t worker,
                     const uint8_t *token);

/* It may not any more; worker 0: nor may any other of that agent. Whoever is
 * connected stays so. */
void wire_gate_forbid(struct wire_gate *gate, uint64_t agent, uint64_t worker);

/* While it is open, all may who know the driver's public key: a successor does
 * not know everybody. */
void wire_gate_open(struct wire_gate *gate, bool open);

/* Has anybody been refused since this was asked last? address
 * [WIRE_ADDRESS_MAX]: where the last one has come from. */
bool wire_gate_refused(struct wire_gate *gate, char *address);

/* It listens at `address` (numeric), at a free port; endpoint receives
 * "tcp://127.0.0.1:41234", max bytes with NUL. */
hvd_status_t wire_router_create(struct wire_context *context,
                                const struct wire_gate *gate,
                                const char *address, char *endpoint,
                                size_t endpoint_max,
                                struct wire_router **router_p) HVD_MUST_CHECK;

enum {
    WIRE_ROUTER_ENDPOINTS = 20, /* of one router, at most */
    WIRE_ENDPOINTS_MAX = WIRE_ROUTER_ENDPOINTS * ADDRESS_ENDPOINT_MAX
    /* bytes of a list of them, with commas and NUL */
};

/* And at this one; port 0: a free one. *endpoint_p:
 * "tcp://127.0.0.1:41234", as long as the router. HVD_ERR_INVALID, or
 * HVD_ERR_SYSTEM: the sentence names the address. */
hvd_status_t wire_router_listen(struct wire_router *router, const char *address,
                                uint16_t port,
                                const char **endpoint_p) HVD_MUST_CHECK;
/* No longer where wire_router_listen() was last. */
void wire_router_unlisten(struct wire_router *router);
void wire_router_destroy(struct wire_router *router);

/* Becomes readable when there may be something to receive (edge-triggered). */
int wire_router_fd(const struct wire_router *router);

/* *route_p: the sender's route, an opaque handle valid until
 * wire_router_forget() of it; 0: a stranger's HELLO or AGENT_HELLO. *m borrows
 * its bytes from the router until the next receive. */
enum wire_receipt wire_router_receive(struct wire_router *router,
                                      uint64_t *route_p, struct message *m);

/* Has whoever said this proof here the token [WIRE_TOKEN_NBYTES]? */
bool wire_router_proven(const struct wire_router *router, const uint8_t *token,
                        const uint8_t *proof);

/* Whoever sent the message received last has proven that it has the token: its
 * route, on which everything is sealed with it. 0: out of memory. */
uint64_t wire_router_admit(struct wire_router *router, const uint8_t *token);

/* Learn now whose connection has ended, which a send does only now and then. */
void wire_router_look(struct wire_router *router);

/* Never blocks. HVD_PEER_LOST: no such peer any more, or it does not read (its
 * queue is full): the caller repeats the newest state later. */
hvd_status_t wire_router_send(struct wire_router *router, uint64_t route,
                              const struct message *m) HVD_MUST_CHECK;

/* Bytes that messages to many have in common, kept once until the last of these
 * has left. bytes [nbytes] from malloc: taken, with HVD_OK. libzmq's thread may
 * be the one that frees them. HVD_ERR_NOMEM. */
struct wire_shared;
hvd_status_t wire_shared_create(uint8_t *bytes, size_t nbytes,
                                struct wire_shared **shared_p) HVD_MUST_CHECK;
void wire_shared_destroy(struct wire_shared *shared);

/* wire_router_send() of an ASSIGN whose table is empty and comes from `shared`:
 * who receives it sees no difference. */
hvd_status_t wire_router_send_shared(struct wire_router *router, uint64_t route,
                                     const struct message *m,
                                     struct wire_shared *shared) HVD_MUST_CHECK;

/* How many messages were refused so far. */
uint64_t wire_router_refused(const struct wire_router *router);

/* Forget a route: its number is never reused, its peer is a stranger again. */
void wire_router_forget(struct wire_router *router, uint64_t route);

/* ---- agent and worker ---------------------------------------------------- */

/* Connect to the driver's endpoint; the routing id is `name` (say "w17") plus a
 * fresh nonce. secrets, copied: nobody but who has the driver's key is spoken
 * to; each HELLO and AGENT_HELLO gets the token's proof and the connection's
 * number, and what is not sealed with the token is refused. */
struct wire_secrets;
hvd_status_t wire_dealer_create(struct wire_context *context,
                                const char *endpoint, const char *name,
                                const struct wire_secrets *secrets,
                                struct wire_dealer **dealer_p) HVD_MUST_CHECK;
void wire_dealer_destroy(struct wire_dealer *dealer);
int wire_dealer_fd(const struct wire_dealer *dealer);
enum wire_receipt wire_dealer_receive(struct wire_dealer *dealer,
                                      struct message *m);

/* Never blocks. What is said before the connection is up is kept, a bounded
 * amount of it, and sent by wire_dealer_receive() as soon as it is (the fd then
 * becomes readable). HVD_PEER_LOST: the connection is gone or the driver does
 * not read: the caller repeats the newest state later. */
hvd_status_t wire_dealer_send(struct wire_dealer *dealer,
                              const struct message *m) HVD_MUST_CHECK;

/* What was sent and is not out yet gets this long at wire_dealer_destroy(),
 * which does not wait for it: wire_context_destroy() does. Without: it is
 * dropped. */
void wire_dealer_linger(struct wire_dealer *dealer, int timeout_ms);

/* ---- secrets ------------------------------------------------------------- */

enum wire_token_kind {
    WIRE_TOKEN_AGENT = 'a',
    WIRE_TOKEN_WORKER = 'w',
    /* no tokens: */
    WIRE_TOKEN_JOB = 'j',    /* the job's key */
    WIRE_TOKEN_DRIVER = 'd', /* the driver's secret key */
    WIRE_TOKEN_GUEST = 'g',  /* that of who has the token */
    WIRE_TOKEN_PROBE = 'p'   /* by which it answers probes */
};

/* What a child inherits: by which it shows who it is, by which the job's
 * workers know each other, and by which all know the driver; agents hand it on.
 */
struct wire_secrets {
    uint8_t token[WIRE_TOKEN_NBYTES];
    uint8_t job_key[WIRE_KEY_NBYTES];
    uint8_t driver_key[WIRE_KEY_NBYTES]; /* public; yet nobody is told */
};

/* The public key [WIRE_KEY_NBYTES] of the driver with this secret
 * [WIRE_TOKEN_NBYTES], and of its successors. After mac_init(). */
void wire_driver_key(const uint8_t *secret, uint8_t *public_key);

/* By which a child proves that it is this one, token [WIRE_TOKEN_NBYTES], from
 * its parent's secret of as many bytes: the driver's for an agent, an agent's
 * token for its worker. Who has one can make those of its children, and no
 * other. After mac_init(). */
void wire_token_derive(const uint8_t *secret, enum wire_token_kind kind,
                       uint64_t id, uint8_t *token);

/* What the agent with this token answers to a nonce [WIRE_TOKEN_NBYTES], in
 * answer [WIRE_TOKEN_NBYTES]: see PROBE. After mac_init(). */
void wire_probe_answer(const uint8_t *token, const uint8_t *nonce,
                       uint8_t *answer);

/* Hand a secret to a child: a sealed memfd (not CLOEXEC in the child: the
 * caller dups it there) holding data [nbytes]. */
hvd_status_t wire_secret_create(const void *data, size_t nbytes,
                                int *fd_p) HVD_MUST_CHECK;

/* Read exactly nbytes from an inherited fd; leaves it open. */
hvd_status_t wire_secret_read(int fd, void *data, size_t nbytes) HVD_MUST_CHECK;

#endif
