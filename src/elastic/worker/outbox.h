/* elastic/worker/outbox.h - messages that wait for the socket: a bounded ring
 * that drops the oldest, as the newest state is what the driver will want.
 *
 * Pure. Threads: the owner's lock. Memory: its own. */
#ifndef ELASTIC_WORKER_OUTBOX_H
#define ELASTIC_WORKER_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/wire/message.h"

enum { OUTBOX_MAX = 64 }; /* power of two */

struct outbox {
    struct message items[OUTBOX_MAX];
    uint64_t first; /* number of the first that waits */
    size_t n;
};

void outbox_clear(struct outbox *box);
void outbox_push(struct outbox *box, const struct message *m);

/* The first: a copy, and its number for outbox_pop(). false: none waits. */
bool outbox_first(const struct outbox *box, struct message *m,
                  uint64_t *number_p);

/* It has been sent; unless it was pushed out meanwhile. */
void outbox_pop(struct outbox *box, uint64_t number);

#endif
