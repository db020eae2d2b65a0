/* elastic/worker/contact.h - the worker's connection to the driver: at one of
 * the driver's addresses, at another when it has become silent there, or to who
 * comes after it (M15).
 *
 * A worker that hears nothing keeps its connection and opens a spare one, at
 * the next address, or at the same one if there is no other. The first answer
 * there makes the spare one take the other's place: so a network that is only
 * slow costs nothing.
 *
 * Threads: control's. Memory: the sockets. */
#ifndef ELASTIC_WORKER_CONTACT_H
#define ELASTIC_WORKER_CONTACT_H

#include "elastic/wire/address.h"
#include "elastic/wire/scout.h"
#include "elastic/wire/socket.h"

struct contact {
    struct wire_context *context;
    struct wire_dealer *dealer;
    struct wire_dealer *spare; /* NULL: none */
    struct scout *scout;       /* NULL: without --job-dir */
    char endpoints[WIRE_ROUTER_ENDPOINTS][ADDRESS_ENDPOINT_MAX];
    size_t n_endpoints, at, spare_at; /* of each connection */
    size_t n_tried;                   /* since the driver was heard */
    uint64_t look_us, follow_us; /* at the next address; for a successor; not
                                    before */
};

/* Dial the driver that process_self.self names, or its successor: *term_p is
 * that one's then, else 0. On an error contact_close() is due as well. */
hvd_status_t contact_open(struct contact *c, uint64_t *term_p) HVD_MUST_CHECK;

/* Its sockets are closed, by the thread that has used them. */
void contact_hang_up(struct contact *c);

/* And all the rest. Zeroed memory, and what it leaves, is fine. */
void contact_close(struct contact *c);

/* As wire_dealer_receive(), of both. */
enum wire_receipt contact_receive(struct contact *c, struct message *m);

/* Can it be found elsewhere, it or a successor? */
bool contact_has_ways(const struct contact *c);

/* The driver is heard: what else was tried in vain is given up. */
void contact_is_fine(struct contact *c, uint64_t now_us);

/* The driver of this term, 0: not known, is silent. Looks for its successor;
 * true: there is one, *b, and it is dialled. */
bool contact_follow(struct contact *c, uint64_t now_us, uint64_t term,
                    struct beacon *b);

/* ... and has no successor: tries its next address, if it has any, by saying
 * `hello` there; it has pause_us to answer, later more. Returns when to look
 * again. */
uint64_t contact_try_next(struct contact *c, uint64_t now_us, uint64_t pause_us,
                          const struct message *hello);

/* -1: no spare connection. */
int contact_spare_fd(const struct contact *c);

#endif
