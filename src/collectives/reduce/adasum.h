/* collectives/reduce/adasum.h - two vectors added as far as they point in
 * different directions (Maleki et al., Scaling Distributed Training with
 * Adaptive Summation, 2020):
 *
 *   a' = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
 *
 * The sum of what is orthogonal, the mean of what is equal. In pieces: products
 * of pieces are added up first.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_REDUCE_ADASUM_H
#define COLLECTIVES_REDUCE_ADASUM_H

#include <stddef.h>

#include <hvd/collectives.h>

struct adasum_products {
    double ab, aa, bb;
};

/* Add those of two pieces [count] of a floating dtype, aligned to it. Computed
 * in binary64. */
void adasum_add_products(hvd_dtype_t dtype, const void *a, const void *b,
                         size_t count, struct adasum_products *products);

/* dst [count] may be a or b. products: of all pieces. Rounded once, 16 bits by
 * way of float32. A vector that is zero leaves the other as it is (a NaN in it,
 * too); where a square is 0 or infinite the two are summed. */
void adasum_combine(hvd_dtype_t dtype, void *dst, const void *a, const void *b,
                    size_t count, const struct adasum_products *products);

#endif
