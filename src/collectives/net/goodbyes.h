/* collectives/net/goodbyes.h - the last words of comms that have ended, for
 * peers that connect later: of the newest generation that has said any, one of
 * each of its sets; of communicators those of some hundred, the last ones.
 *
 * Threads: one at a time. Memory: two growing arrays, kept for the next
 * generation. */
#ifndef COLLECTIVES_NET_GOODBYES_H
#define COLLECTIVES_NET_GOODBYES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mac.h"
#include "collectives/net/endpoint_impl.h"

struct goodbye;

struct goodbyes {
    uint64_t generation; /* 0: none */
    struct goodbye *all; /* [max], of which [n] are of this generation */
    size_t n, max;
    size_t turn; /* of those that make room for others */
};

void goodbyes_fini(struct goodbyes *g);

/* frame [nbytes <= ENDPOINT_GOODBYE_MAX]; that of an older generation is not
 * kept. */
void goodbyes_add(struct goodbyes *g, const struct endpoint_user *user,
                  const uint8_t *frame, size_t nbytes);

/* A LEAVE of the user's tells this worker on which channels it was greeted. */
void goodbyes_greeted(struct goodbyes *g, const struct endpoint_user *user,
                      uint64_t worker, uint64_t channels);

/* NULL: none. Valid until the next is added. */
const struct goodbye *goodbyes_of(const struct goodbyes *g, uint64_t generation,
                                  uint32_t set);

const uint8_t *goodbye_key(const struct goodbye *g); /* [MAC_KEY_NBYTES] */

/* What answers `hello`, which may be of another set, *n_p bytes on the heap;
 * NULL: no memory. */
uint8_t *goodbye_answer(const struct goodbye *g, const struct handshake *hello,
                        size_t *n_p);

#endif
