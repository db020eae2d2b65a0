/* elastic/driver/budgets.h - how often a slot may fail (M11).
 *
 * A slot may be restarted `restarts` times within a sliding window of 10
 * minutes: at once after the first failure, then after 0.5, 1, 2 .. 10 s. One
 * failure more and its budget is exhausted: the host is blacklisted.
 *
 * Pure: time is an argument, in microseconds. */
#ifndef ELASTIC_DRIVER_BUDGETS_H
#define ELASTIC_DRIVER_BUDGETS_H

#include <stdbool.h>
#include <stdint.h>

enum { BUDGET_RESTARTS_MAX = 32 };

#define BUDGET_WINDOW_US    (600u * UINT64_C(1000000))
#define BUDGET_DELAY_MAX_US (10u * UINT64_C(1000000))

struct budget {
    uint64_t *failed_us; /* [n], oldest first; room for [restarts], borrowed */
    uint32_t n;          /* 0: as new */
};

/* One more failure at now_us. true: restart after *delay_us_p; false:
 * exhausted. restarts <= BUDGET_RESTARTS_MAX. */
bool budget_fail(struct budget *b, uint32_t restarts, uint64_t now_us,
                 uint64_t *delay_us_p);

#endif
