/* collectives/local/stores.h - whether operands of cards are copied into
 * staging memory through the caches or past them. What has just been written is
 * in the caches of who wrote it. Those who share one with it read it from there
 * sooner than from memory; those who do not, on another die or socket, take
 * four times as long. So it is measured, by some calls of each kind and size
 * (choice.h): how long this rank copies, and then reads what the others have
 * copied in the same way, as ranks with operands of like sizes try a way in the
 * same calls. Each goes by its own times: either way gives the same bits. The
 * root of a broadcast reads nothing: it asks the others in its card how long
 * they have read, and finds that in their mailboxes later.
 *
 * Threads: whoever drives the comm. No memory of its own. */
#ifndef COLLECTIVES_LOCAL_STORES_H
#define COLLECTIVES_LOCAL_STORES_H

#include <stdint.h>

#include "collectives/local/impl.h"

/* Own operand, of more than MAILBOX_INLINE_MAX. true: it is a broadcast, and
 * its readers are to be asked how long they take. */
bool local_stores_copy(struct local *local, uint8_t *to);
/* Around reading the others'; whether there was an own one or not. */
void local_stores_read_begins(struct local *local);
void local_stores_read_ends(struct local *local);

#endif
