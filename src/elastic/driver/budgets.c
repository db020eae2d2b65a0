/* elastic/driver/budgets.c - failures of a slot in a sliding window. See
 * budgets.h. Pure. */
#include "elastic/driver/budgets.h"

#include <string.h>

enum { FIRST_DELAY_US = 500000 };

static void forget_old(struct budget *b, uint64_t now_us)
{
    uint32_t n_old = 0;

    while (n_old < b->n && now_us - b->failed_us[n_old] > BUDGET_WINDOW_US)
        n_old++;
    if (n_old == 0)
        return;
    b->n -= n_old;
    memmove(b->failed_us, b->failed_us + n_old, b->n * sizeof(uint64_t));
}

static uint64_t delay_of(uint32_t n_before)
{
    uint64_t delay_us = FIRST_DELAY_US;

    if (n_before == 0)
        return 0;
    for (uint32_t i = 1; i < n_before && delay_us < BUDGET_DELAY_MAX_US; i++)
        delay_us *= 2;
    return delay_us < BUDGET_DELAY_MAX_US ? delay_us : BUDGET_DELAY_MAX_US;
}

bool budget_fail(struct budget *b, uint32_t restarts, uint64_t now_us,
                 uint64_t *delay_us_p)
{
    forget_old(b, now_us);
    if (b->n >= restarts || b->n >= BUDGET_RESTARTS_MAX)
        return false;
    *delay_us_p = delay_of(b->n);
    b->failed_us[b->n++] = now_us;
    return true;
}
