/* collectives/schedule/slices.h - a vector in nearly equal parts. All who cut
 * it must cut alike. Pure. Threads: any. */
#ifndef COLLECTIVES_SCHEDULE_SLICES_H
#define COLLECTIVES_SCHEDULE_SLICES_H

#include <stddef.h>

/* Where slice `index` of n begins, in elements; index n: where the last one
 * ends. The first count % n are longer by one. */
static inline size_t slice_begin(size_t count, int n, int index)
{
    size_t i = (size_t)index, each = count / (size_t)n;
    size_t more = count % (size_t)n;

    return i * each + (i < more ? i : more);
}

#endif
