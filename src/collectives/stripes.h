/* collectives/stripes.h - several connections to a peer for what is large.
 *
 *   data      | header, shares 4 | share 1 |  header ...   | share 1 | LEAVE
 *   stripe 1                     | share 2 |               | share 2 |
 *   stripe 2                     | share 3 |               | share 3 |
 *   stripe 3                     | share 4 |               | share 4 |
 *
 * The data connection of a peer says everything: headers, small payloads,
 * goodbyes, and the order of them. A stripe carries shares of payloads, one
 * behind the other, and nothing else. The frame is complete when all its shares
 * are; until then nothing behind it is looked at.
 *
 * The higher rank dials its stripes with the first large frame in either
 * direction, once the data connection is OPEN. A sender uses those that are
 * OPEN, so nobody waits for them, and one that is never accepted is done
 * without.
 *
 * A comm that ends finishes what it has queued on each, as on the data
 * connection, whose last word is the goodbye. A stripe that breaks where a
 * share is missing is therefore a loss, unless a goodbye is on its way on the
 * data connection: that is given 200 ms to come.
 *
 * Functions that take the data connection take any but a stripe: others have
 * no shares. Threads: whoever drives the comm. */
#ifndef COLLECTIVES_STRIPES_H
#define COLLECTIVES_STRIPES_H

#include "collectives/comm_impl.h"

enum { STRIPES_FRAME_MIN = 128 << 10 };

/* --- sending; data: the data connection --- */

/* Queue a frame, cut if that pays. Only while stripes_idle(). */
hvd_status_t stripes_queue(struct comm *comm, struct connection *data,
                           struct frame *frame,
                           const uint8_t *payload) HVD_MUST_CHECK;
hvd_status_t stripes_flush(struct comm *comm,
                           struct connection *data) HVD_MUST_CHECK;
/* Nothing queued, on none of them. */
bool stripes_idle(const struct comm *comm, const struct connection *data);
/* Bytes of the frame queued last from the first unsent one to its end. */
size_t stripes_unsent(const struct comm *comm, const struct connection *data);

/* --- receiving --- */

/* Claim the HELD frame: its payload goes to dest [frame.nbytes]. */
hvd_status_t stripes_claim(struct comm *comm, struct connection *data,
                           void *dest) HVD_MUST_CHECK;
/* Are the shares of the claimed frame, but for the first, in place? */
bool stripes_complete(struct comm *comm, struct connection *data);
/* Read what is missing of it; *moved_p is set when anything came. */
hvd_status_t stripes_read(struct comm *comm, struct connection *data,
                          bool *moved_p) HVD_MUST_CHECK;

/* --- for links.c; c: any connection --- */

/* A stripe: its share may complete a frame. */
hvd_status_t stripes_digest(struct comm *comm,
                            struct connection *c) HVD_MUST_CHECK;
/* Nothing is to be read from it now. */
bool stripes_silent(const struct connection *c);
/* A stripe from which no more can be read. */
void stripes_end(struct comm *comm, struct connection *c);
/* It takes no more; what is queued is still known. */
void stripes_shut(struct comm *comm, struct connection *c);
/* poll(2) reports that it is gone. */
void stripes_hung_up(struct comm *comm, struct connection *c);

#endif
