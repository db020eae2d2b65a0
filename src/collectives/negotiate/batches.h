/* collectives/negotiate/batches.h - which of the calls that all ranks have
 * posted run as one: allreduces of one dtype, op and scale, all on devices or
 * none, as long as they are not sent as 16 bits, up to so many bytes (0: none).
 * In the order in which they were decided, so it is the same on all ranks.
 *
 * Pure. Threads: one at a time. Memory: two growing arrays. */
#ifndef COLLECTIVES_NEGOTIATE_BATCHES_H
#define COLLECTIVES_NEGOTIATE_BATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/negotiate/signature.h"

#define BATCH_END SIZE_MAX

enum { BATCH_KEYS = 16 * 8 }; /* dtypes and ops */

struct batch_item {
    struct signature signature;
    void *call;    /* NULL: others' */
    size_t n_data; /* ranks that have posted it */
    size_t next;   /* of its batch; BATCH_END: it is the last */
};

struct batch {
    size_t first, last; /* items */
    uint64_t nbytes;
    size_t before; /* as in `open`: of the same dtype and op, but to be apart */
};

struct batches {
    struct batch_item *items;
    size_t n_items, items_max;
    struct batch *all; /* [n], up to next_i begun */
    size_t n, next_i, max;
    size_t open[BATCH_KEYS]; /* one more than the batch that takes more; 0 */
    uint64_t threshold;
};

void batches_fini(struct batches *b);

/* From now on: fused up to `threshold` bytes. */
void batches_clear(struct batches *b, uint64_t threshold);

/* item: its signature, call and n_data. false: no memory, nothing changed. */
bool batches_add(struct batches *b, const struct batch_item *item,
                 size_t elem_nbytes);

/* Is there one that has not begun? */
bool batches_any(const struct batches *b);
/* The next one's first call. There is one. Valid until more are added. */
const struct batch_item *batches_peek(const struct batches *b);
/* The next one, which begins. Likewise. */
const struct batch *batches_next(struct batches *b);
/* The one that began last. */
const struct batch *batches_done(const struct batches *b);

#endif
