/* discovery/blacklist.c - one host's time out. See blacklist.h. */
#include "discovery/blacklist.h"

#include "base/array.h"

/* low * 2^(count - 1), and high at most. */
static uint64_t base_delay(const struct blacklist_config *config,
                           uint32_t count)
{
    uint64_t delay = config->low_us;

    while (--count > 0 && delay < config->high_us)
        delay = delay > UINT64_MAX / 2 ? config->high_us : delay * 2;
    return delay < config->high_us ? delay : config->high_us;
}

uint64_t blacklist_until(const struct blacklist_config *config, uint32_t count,
                         uint64_t now_us, struct random_state *random)
{
    uint64_t delay, jitter = 0;

    if (!config->cooldown)
        return UINT64_MAX;
    HVD_ASSERT(config->low_us <= config->high_us);
    delay = base_delay(config, count);
    if (config->low_us > 0)
        jitter = random_below(random, config->low_us);
    if (jitter > config->high_us - delay)
        jitter = config->high_us - delay;
    return now_us + delay + jitter;
}

void blacklist_add(struct blacklist *b, const struct blacklist_config *config,
                   uint64_t now_us, struct random_state *random)
{
    if (b->listed)
        return;
    b->listed = true;
    if (b->count < UINT32_MAX)
        b->count++;
    b->until_us = blacklist_until(config, b->count, now_us, random);
}

bool blacklist_expire(struct blacklist *b, uint64_t now_us)
{
    if (!b->listed || b->until_us == UINT64_MAX || now_us < b->until_us)
        return false;
    b->listed = false;
    return true;
}
