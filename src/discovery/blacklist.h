/* discovery/blacklist.h - the time out of a host, or of a slot.
 *
 * It lasts for good, or, with a cooldown range (low, high), for min(high, low *
 * 2^(count - 1)) plus jitter in [0, low) (never above high), where count is how
 * often there was one; count is kept, so that the time grows. (Horovod's
 * formula doubles once more at the first time; its documentation says what we
 * do: docs/conformance.md.)
 *
 * Pure: time is an argument, in microseconds. Source: Horovod D13, E8. */
#ifndef DISCOVERY_BLACKLIST_H
#define DISCOVERY_BLACKLIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

struct blacklist_config {
    bool cooldown; /* false: for good */
    uint64_t low_us, high_us;
};

struct blacklist {
    bool listed;
    uint32_t count;
    uint64_t until_us; /* UINT64_MAX: for good */
};

/* Until when the count-th time out that begins now lasts; count > 0. */
uint64_t blacklist_until(const struct blacklist_config *config, uint32_t count,
                         uint64_t now_us, struct random_state *random);

/* Put it on the list; no effect while it is on it. */
void blacklist_add(struct blacklist *b, const struct blacklist_config *config,
                   uint64_t now_us, struct random_state *random);

/* Its time is over: take it off. true exactly when that happened now. */
bool blacklist_expire(struct blacklist *b, uint64_t now_us);

#endif
