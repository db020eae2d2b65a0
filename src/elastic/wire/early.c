/* elastic/wire/early.c - see early.h. */
#include "elastic/wire/early.h"

#include <string.h>

#include "base/array.h"

enum { EARLY_NBYTES_MAX = 1 << 18 };

void early_fini(struct early *e)
{
    if (e->bytes)
        explicit_bzero(e->bytes, e->max);
    array_free(&e->bytes, &e->max);
    e->n = 0;
}

bool early_add(struct early *e, const uint8_t *data, uint32_t nbytes)
{
    size_t n = e->n + sizeof(nbytes) + nbytes;

    if (n > EARLY_NBYTES_MAX || !array_reserve(&e->bytes, &e->max, n))
        return false;
    memcpy(e->bytes + e->n, &nbytes, sizeof(nbytes));
    memcpy(e->bytes + e->n + sizeof(nbytes), data, nbytes);
    e->n = n;
    return true;
}

bool early_next(const struct early *e, size_t *at_p, const uint8_t **data_p,
                uint32_t *nbytes_p)
{
    if (*at_p == e->n)
        return false;
    memcpy(nbytes_p, e->bytes + *at_p, sizeof(*nbytes_p));
    *data_p = e->bytes + *at_p + sizeof(*nbytes_p);
    *at_p += sizeof(*nbytes_p) + *nbytes_p;
    return true;
}

void early_drop(struct early *e, size_t at)
{
    e->n -= at;
    if (e->n == 0)
        early_fini(e);
    else
        memmove(e->bytes, e->bytes + at, e->n);
}
