/* collectives/lending.h - memory that a call needs from its post until it has
 * been waited for: the 16 bits that travel, copies of what lies on a device.
 *
 * It is kept for the next call of about its size, as a steady state allocates
 * nothing. What is kept is bounded by what has been in flight at once lately:
 * with what is in flight it is at most twice as much, and a page for each.
 *
 * Threads: any. Memory: from hvd_alloc, and a struct for each piece. */
#ifndef COLLECTIVES_LENDING_H
#define COLLECTIVES_LENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

enum lending_use {
    LENDING_HOST,
    LENDING_PINNED, /* for copies to and from a device, if that can be had */
    LENDING_USES
};

struct lent {
    uint8_t *memory; /* [nbytes], aligned to a page, with anything in it */
    size_t nbytes;   /* at least what was asked for */

    enum lending_use use;
    bool pinned;
    unsigned size; /* class */
    struct lent *next;
};

/* HVD_ERR_NOMEM. */
hvd_status_t lending_take(enum lending_use use, size_t nbytes,
                          struct lent **lent_p) HVD_MUST_CHECK;
/* NULL is fine. */
void lending_give(struct lent *lent);
/* Free what nobody has. */
void lending_release(void);
/* Taken or kept. */
size_t lending_nbytes(enum lending_use use);

#endif
