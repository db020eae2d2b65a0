/* collectives/fusion.c - the plan of a group. See fusion.h. Pure. */
#include "collectives/fusion.h"

#include <stdint.h>
#include <string.h>

/* Divides, since the product may not fit. */
static bool is_small(const struct fusion_tensor *tensor, size_t elem_nbytes)
{
    return tensor->count <= (FUSION_SMALL_NBYTES - 1) / elem_nbytes;
}

/* What the buffer holds becomes an operation; one tensor needs no buffer. */
static void close_part(struct fusion_part *open, struct fusion_part *parts,
                       size_t *n_parts)
{
    if (open->count > 0) {
        open->packed = open->first < open->last;
        parts[(*n_parts)++] = *open;
    }
    open->count = 0;
}

static void add_small(struct fusion_part *open, size_t i, size_t count)
{
    if (open->count == 0)
        open->first = i;
    open->last = i;
    open->count += count;
}

size_t fusion_plan(const struct fusion_tensor *tensors, size_t n,
                   size_t elem_nbytes, struct fusion_part *parts)
{
    size_t max = FUSION_BUFFER_NBYTES / elem_nbytes, n_parts = 0;
    struct fusion_part open = {0};

    for (size_t i = 0; i < n; i++) {
        size_t count = tensors[i].count;

        if (count == 0)
            continue;
        if (!is_small(&tensors[i], elem_nbytes)) {
            parts[n_parts++] = (struct fusion_part){i, i, count, false};
            continue;
        }
        if (open.count + count > max)
            close_part(&open, parts, &n_parts);
        add_small(&open, i, count);
    }
    close_part(&open, parts, &n_parts);
    if (n_parts == 0)
        parts[n_parts++] = (struct fusion_part){0};
    return n_parts;
}

void fusion_pack(const struct fusion_tensor *tensors,
                 const struct fusion_part *part, size_t elem_nbytes,
                 void *buffer)
{
    uint8_t *at = buffer;

    for (size_t i = part->first; i <= part->last; i++) {
        size_t nbytes = tensors[i].count * elem_nbytes;

        if (nbytes == 0 || !is_small(&tensors[i], elem_nbytes))
            continue;
        memcpy(at, tensors[i].sendbuf, nbytes);
        at += nbytes;
    }
}

void fusion_unpack(const struct fusion_tensor *tensors,
                   const struct fusion_part *part, size_t elem_nbytes,
                   const void *buffer)
{
    const uint8_t *at = buffer;

    for (size_t i = part->first; i <= part->last; i++) {
        size_t nbytes = tensors[i].count * elem_nbytes;

        if (nbytes == 0 || !is_small(&tensors[i], elem_nbytes))
            continue;
        memcpy(tensors[i].recvbuf, at, nbytes);
        at += nbytes;
    }
}
