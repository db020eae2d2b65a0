/* collectives/fusion.h - many small tensors in few operations: which of a group
 * travel together, and how they get into one buffer and out of it.
 *
 * A tensor below FUSION_SMALL_NBYTES is copied into the buffer, beside the
 * other small ones, until that is full; from there on an operation of its own
 * costs less than two copies. The plan depends on the counts and the size of an
 * element alone, so every rank makes the same.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_FUSION_H
#define COLLECTIVES_FUSION_H

#include <stdbool.h>
#include <stddef.h>

enum { FUSION_SMALL_NBYTES = 32 << 10, FUSION_BUFFER_NBYTES = 1 << 20 };

struct fusion_tensor {
    const void *sendbuf; /* [count] */
    void *recvbuf;       /* [count]; may equal sendbuf */
    size_t count;
};

/* One operation. Packed: the small tensors of [first, last], in their order.
 * Else: tensor `first` alone. */
struct fusion_part {
    size_t first, last;
    size_t count; /* elements in all; 0: nothing to do */
    bool packed;
};

/* parts [n + 1]; returns how many there are, at least one. */
size_t fusion_plan(const struct fusion_tensor *tensors, size_t n,
                   size_t elem_nbytes, struct fusion_part *parts);

/* The contributions of a packed part to buffer [FUSION_BUFFER_NBYTES], and the
 * results back. */
void fusion_pack(const struct fusion_tensor *tensors,
                 const struct fusion_part *part, size_t elem_nbytes,
                 void *buffer);
void fusion_unpack(const struct fusion_tensor *tensors,
                   const struct fusion_part *part, size_t elem_nbytes,
                   const void *buffer);

#endif
