/* base/array.c - growing arrays. See array.h. */
#include "base/array.h"

#include <stdint.h>
#include <string.h>

bool array_reserve_unset_bytes(void **items_p, size_t *max_p, size_t need,
                               size_t elem_nbytes)
{
    size_t max = *max_p ? *max_p : 8;
    void *items;

    if (need <= *max_p)
        return true;
    while (max < need) {
        if (max > SIZE_MAX / 2)
            return false;
        max *= 2;
    }
    if (max > SIZE_MAX / elem_nbytes)
        return false;
    items = realloc(*items_p, max * elem_nbytes);
    if (!items)
        return false;
    *items_p = items;
    *max_p = max;
    return true;
}

bool array_reserve_bytes(void **items_p, size_t *max_p, size_t need,
                         size_t elem_nbytes)
{
    size_t max = *max_p;

    if (!array_reserve_unset_bytes(items_p, max_p, need, elem_nbytes))
        return false;
    if (*max_p > max)
        memset((char *)*items_p + max * elem_nbytes, 0,
               (*max_p - max) * elem_nbytes);
    return true;
}

void array_free_bytes(void **items_p, size_t *max_p)
{
    free(*items_p);
    *items_p = NULL;
    *max_p = 0;
}
