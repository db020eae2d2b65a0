/* collectives/reduce/identity.h - elements that change nothing: a op e = a.
 * Pure. Threads: any. */
#ifndef COLLECTIVES_REDUCE_IDENTITY_H
#define COLLECTIVES_REDUCE_IDENTITY_H

#include <stddef.h>

#include <hvd/collectives.h>

/* buf [count] of dtype becomes that of op (AVERAGE: the sum's). A sum of -0
 * alone becomes +0. */
void reduce_identity(hvd_dtype_t dtype, hvd_op_t op, void *buf, size_t count);

#endif
