/* elastic/driver/lead.h - leading a job that outlives its driver: what the core
 * does is written down (keep.h, journal.h), where this driver is as well
 * (wire/beacon.h), and now and then it is looked whether another one has taken
 * the job over.
 *
 * Threads: the driver's loop. */
#ifndef ELASTIC_DRIVER_LEAD_H
#define ELASTIC_DRIVER_LEAD_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/status.h>

#include "elastic/driver/jobdir.h"
#include "elastic/driver/journal.h"
#include "elastic/driver/keep.h"
#include "elastic/driver/launch.h"
#include "elastic/wire/scout.h"

struct lead {
    const char *dir; /* borrowed; NULL: nothing here does anything */
    struct beacon own;
    struct journal *journal;
    const struct launch *launch; /* knows the processes of agents */
    struct scout *scout;
    uint64_t look_us, look_every_us; /* for another driver */
    bool stood; /* a look or a tick came late: this driver did not run, and
                   DIR/driver has not named it since */
    uint64_t sweep_us;            /* the next sweep */
    int error;                    /* of the journal; 0: it is written */
    bool replaced;                /* another driver has taken over */
    char sentence[WIRE_TEXT_MAX]; /* ... who */
};

/* Write *m, which is zeroed, and then where this driver is: from now on agents
 * and workers may come. look_every_us: see lead_turn(). */
hvd_status_t lead_open(struct lead *lead, const char *dir, struct memory *m,
                       const struct beacon *own, const struct launch *launch,
                       uint64_t look_every_us) HVD_MUST_CHECK;

/* After a step of the core. first: nobody may be told before it is with the
 * kernel (for a tenth of a second at most). */
void lead_step(struct lead *lead, const struct driver *d,
               const struct driver_action *actions, size_t n, bool first);

/* Where agents and workers of other machines call. */
void lead_put_places(struct lead *lead, const struct entry_places *places);

/* After each wait of the loop, before anything is believed or done. false:
 * `replaced`. */
bool lead_turn(struct lead *lead, const struct driver *d, uint64_t now_us);

/* This driver did not run for a while: it looks now. false: `replaced`. */
bool lead_stood(struct lead *lead, uint64_t now_us);

/* Now. false: `replaced`. */
bool lead_look(struct lead *lead, uint64_t now_us);

/* NEVER if nothing is due. */
uint64_t lead_deadline(const struct lead *lead);

void lead_close(struct lead *lead);

#endif
