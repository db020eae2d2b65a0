/* collectives/net/silence.c - see silence.h. Pure. */
#include "collectives/net/silence.h"

enum { RESENT_MIN = 4 }; /* a network that loses one in ten does not do that */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The times of acknowledgements have a grain of some milliseconds: who sent in
 * the same as he heard has a question under way when it is sent again. */
static bool is_unanswered(const struct heard *h)
{
    return h->probed || (h->in_flight && h->sent_us > h->heard_us);
}

static void follow(struct silence *s, const struct heard *h,
                   uint64_t timeout_us, uint64_t now_us)
{
    if (s->looked_us == 0 ||
        now_us - s->looked_us > 3 * silence_interval(timeout_us))
        *s = (struct silence){.watched_us = now_us, .advanced_us = now_us};
    s->looked_us = now_us;
    if (!h->in_flight || h->acknowledged != s->acknowledged)
        s->advanced_us = now_us;
    s->acknowledged = h->acknowledged;
    if (!is_unanswered(h))
        s->asked_us = 0;
    else if (s->asked_us == 0 || h->heard_us > s->asked_us)
        s->asked_us = now_us;
}

static bool is_stuck(const struct silence *s, const struct heard *h,
                     uint64_t timeout_us, uint64_t now_us)
{
    return h->resent >= RESENT_MIN &&
           now_us - s->advanced_us >= timeout_us + 2 * h->rtt_us;
}

enum silence_verdict silence_judge(struct silence *s, const struct heard *h,
                                   uint64_t timeout_us, uint64_t now_us,
                                   uint64_t *silent_us_p)
{
    uint64_t since_us;

    follow(s, h, timeout_us, now_us);
    since_us = later(s->watched_us, h->heard_us);
    *silent_us_p = now_us > since_us ? now_us - since_us : 0;
    if (s->asked_us != 0 && now_us - s->asked_us >= timeout_us / 2 &&
        *silent_us_p >= timeout_us + 2 * h->rtt_us)
        return SILENCE_LOST;
    if (is_stuck(s, h, timeout_us, now_us)) {
        *silent_us_p = now_us - s->advanced_us;
        return SILENCE_STUCK;
    }
    return h->in_flight || h->unsent || h->probed ? SILENCE_FINE : SILENCE_ASK;
}
