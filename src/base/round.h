/* base/round.h - sizes that begin at a multiple of something. Pure. Threads:
 * any. */
#ifndef BASE_ROUND_H
#define BASE_ROUND_H

#include <stddef.h>

/* The least multiple of unit, unit > 0, that is not less than n; the sum fits.
 */
static inline size_t round_up_to(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
