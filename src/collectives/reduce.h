/* collectives/reduce.h - how two elements become one.
 *
 * Every combination here is commutative bit for bit, so ranks that combine the
 * same two operands in either order get the same result: a NaN result is always
 * the canonical quiet one, MIN of -0 and +0 is -0, MAX is +0. It is not
 * associative: the order of hops is the schedule's.
 *
 * FLOAT16 and BFLOAT16 are combined in binary32 and rounded once per call.
 *
 * Pure. Threads: any. Buffers are naturally aligned and do not overlap. */
#ifndef COLLECTIVES_REDUCE_H
#define COLLECTIVES_REDUCE_H

#include <hvd/collectives.h>

/* acc[i] = acc[i] op in[i], i < count. AVERAGE adds; see reduce_divide(). */
void reduce_combine(hvd_dtype_t dtype, hvd_op_t op, void *acc, const void *in,
                    size_t count);

/* buf[i] = buf[i] / size, integers toward 0. size > 0. */
void reduce_divide(hvd_dtype_t dtype, void *buf, size_t count, int size);

#endif
