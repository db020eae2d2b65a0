/* collectives/negotiate/batches.c - see batches.h. Pure. */
#include "collectives/negotiate/batches.h"

#include <string.h>

#include <hvd/collectives.h>

#include "base/array.h"
#include "base/collective_kind.h"

enum { SCALES_MAX = 8 };

void batches_fini(struct batches *b)
{
    array_free(&b->items, &b->items_max);
    array_free(&b->all, &b->max);
}

void batches_clear(struct batches *b, uint64_t threshold)
{
    b->n_items = b->n = b->next_i = 0;
    memset(b->open, 0, sizeof(b->open));
    b->threshold = threshold;
}

static size_t *open_of(struct batches *b, const struct signature *s)
{
    return &b->open[(s->dtype * 8u + s->op) % BATCH_KEYS];
}

static bool may_fuse(const struct batches *b, const struct signature *s,
                     uint64_t nbytes)
{
    return s->kind == COLLECTIVE_ALLREDUCE && s->op != HVD_ADASUM &&
           (s->way & SIGNATURE_COMPRESSED) == 0 && b->threshold > 0 &&
           nbytes <= b->threshold;
}

static bool may_join(const struct signature *a, const struct signature *b)
{
    return signature_scales_equal(a, b) &&
           ((a->way ^ b->way) & SIGNATURE_ON_DEVICE) == 0;
}

/* The open one of the same scale and place, among the last few; NULL: none. */
static struct batch *find(struct batches *b, const struct signature *s)
{
    size_t n = *open_of(b, s);

    for (int k = 0; k < SCALES_MAX && n > 0; k++) {
        struct batch *batch = &b->all[n - 1];

        if (may_join(&b->items[batch->first].signature, s))
            return batch;
        n = batch->before;
    }
    return NULL;
}

static void begin(struct batches *b, size_t item, uint64_t nbytes)
{
    b->all[b->n++] = (struct batch){item, item, nbytes, 0};
}

bool batches_add(struct batches *b, const struct batch_item *new_item,
                 size_t elem_nbytes)
{
    const struct signature *s = &new_item->signature;
    uint64_t nbytes = s->count * elem_nbytes;
    size_t *open = open_of(b, s), item = b->n_items;
    struct batch *batch;

    if (!array_reserve(&b->items, &b->items_max, b->n_items + 1) ||
        !array_reserve(&b->all, &b->max, b->n + 1))
        return false;
    b->items[b->n_items] = *new_item;
    b->items[b->n_items++].next = BATCH_END;
    if (!may_fuse(b, s, nbytes)) {
        begin(b, item, nbytes);
        return true;
    }
    batch = find(b, s);
    if (batch == NULL || batch->nbytes > b->threshold - nbytes) {
        begin(b, item, nbytes);
        b->all[b->n - 1].before = *open;
        *open = b->n;
        return true;
    }
    b->items[batch->last].next = item;
    batch->last = item;
    batch->nbytes += nbytes;
    return true;
}

bool batches_any(const struct batches *b)
{
    return b->next_i < b->n;
}

const struct batch_item *batches_peek(const struct batches *b)
{
    return &b->items[b->all[b->next_i].first];
}

const struct batch *batches_next(struct batches *b)
{
    return &b->all[b->next_i++];
}

const struct batch *batches_done(const struct batches *b)
{
    return &b->all[b->next_i - 1];
}
