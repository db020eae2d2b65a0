/* collectives/net/silence.h - does anything still come from a peer that is
 * waited for? Judged by what its kernel acknowledges, which it does also while
 * the peer computes or is stopped.
 *
 * Whoever waits looks each silence_interval(). Nothing is on its way: then
 * something has to be sent, so that there is something to acknowledge. Lost is
 * who has answered nothing for the timeout, counted from when it was waited for
 * at the earliest, and with a question under way for half of it. (A peer that
 * does not read is asked by its kernel's window probes only, now and then.)
 *
 * A path that loses large packets lets acknowledgements of small ones pass. So
 * a connection is stuck if nothing more of what was sent is acknowledged for
 * the timeout, while the kernel sends the oldest of it again and again.
 *
 * The network's own delay is granted on top, twice. Who did not look for a
 * while (did not wait, or did not run) begins anew.
 *
 * A network that heals is noticed when the kernel tries again: 0.2 s apart at
 * first, where little is under way each time, else (or under BBR) after twice
 * as long each time, up to a fourth of the timeout. What heals within half of
 * it loses nothing.
 *
 * Pure, but for silence_hear(). Threads: whoever drives the comm. */
#ifndef COLLECTIVES_NET_SILENCE_H
#define COLLECTIVES_NET_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

/* A connection, as its kernel sees it (TCP_INFO). */
struct heard {
    uint64_t
        heard_us;     /* when something came last, if only an acknowledgement */
    uint64_t sent_us; /* when data was sent last, or sent again */
    uint64_t rtt_us;
    bool in_flight;        /* data is not acknowledged */
    uint64_t acknowledged; /* bytes, of all that was sent */
    unsigned resent; /* so often in a row the oldest of the rest was sent again
                        in vain, though the peer has room for it */
    bool unsent;     /* data waits for room at the peer's */
    bool probed;     /* window probes, or keepalives, are not answered */
};

/* All 0: not looked at yet. */
struct silence {
    uint64_t watched_us; /* since then without a gap */
    uint64_t looked_us;
    uint64_t asked_us; /* a question is under way since; 0: none */
    uint64_t acknowledged, advanced_us; /* how much, and since when no more */
    bool excused;                       /* the caller's: see watch.c */
};

enum silence_verdict {
    SILENCE_FINE,
    SILENCE_ASK,
    SILENCE_LOST,
    SILENCE_STUCK /* the peer answers, but what was sent never arrives */
};

static inline uint64_t silence_interval(uint64_t timeout_us)
{
    return timeout_us / 5 > 0 ? timeout_us / 5 : 1;
}

/* *silent_us_p: for how long nothing has come; SILENCE_STUCK: nothing has been
 * acknowledged. */
enum silence_verdict silence_judge(struct silence *s, const struct heard *h,
                                   uint64_t timeout_us, uint64_t now_us,
                                   uint64_t *silent_us_p);

/* false: the kernel does not tell. */
bool silence_hear(int fd, uint64_t now_us, struct heard *h_p);

#endif
