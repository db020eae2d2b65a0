/* elastic/driver/status.h - the live status line on a terminal.
 *
 *     gen 7 | 4 workers on 2 hosts | commit 812, 3 s ago, 0.33/s | recovered in
 *     12.3 ms
 *
 * One line, redrawn in place at most ten times a second, cut to the terminal's
 * width. It is taken away before anything else is written there, and comes back
 * with the next status_tick(). Without a terminal nothing is ever drawn.
 *
 * It goes the way of all our words to stderr (output.h), in order with them,
 * and is not drawn while that takes nothing.
 *
 * Threads: the driver's loop. */
#ifndef ELASTIC_DRIVER_STATUS_H
#define ELASTIC_DRIVER_STATUS_H

#include <stdbool.h>
#include <stdint.h>

enum { STATUS_TEXT_MAX = 512 };

/* What there is to show. */
struct status_view {
    uint64_t generation;
    uint32_t size, n_hosts;
    uint64_t commits; /* 0: none yet */
    uint64_t commit_age_us;
    double commits_per_s; /* < 0: not known */
    uint64_t recovery_us; /* of the last recovery; 0: there was none */
    const char *note;     /* "waiting for rank 3 (host a)"; NULL: nothing */
};

struct output;

struct status {
    struct output *output;
    int fd; /* of the terminal, for its width */
    bool terminal, drawn, dirty;
    uint64_t drawn_us; /* when last */
    char text[STATUS_TEXT_MAX];
};

/* fd: where output's stderr goes; borrowed, as is output. */
void status_init(struct status *s, int fd, struct output *output);
void status_fini(struct status *s); /* takes the line away */

/* Show this from now on; drawn at once, or at status_deadline(). */
void status_set(struct status *s, const struct status_view *view,
                uint64_t now_us);

/* Draw if there is something new and it is time. */
void status_tick(struct status *s, uint64_t now_us);

/* When status_tick() wants to be called; CLOCK_NEVER. */
uint64_t status_deadline(const struct status *s);

/* Take the line away: somebody else is about to write to the terminal. */
void status_hide(struct status *s);

/* The words of the line into text [max]; touches no terminal. */
void status_format(const struct status_view *view, char *text, int max);

#endif
