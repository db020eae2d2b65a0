/* base/number.c - see number.h. Pure. */
#include "base/number.h"

static unsigned shift_of(char unit)
{
    switch (unit) {
    case 'K':
        return 10;
    case 'M':
        return 20;
    case 'G':
        return 30;
    default:
        return 0;
    }
}

bool number_parse_size(const char *text, uint64_t max, uint64_t *size_p)
{
    uint64_t n = 0;
    const char *at = text;
    unsigned shift;

    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n))
            return false;
    shift = shift_of(*at);
    if (at == text || at[shift > 0] != '\0' || n > max >> shift)
        return false;
    *size_p = n << shift;
    return true;
}
