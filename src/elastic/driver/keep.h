/* elastic/driver/keep.h - what of a driver's state is written down, and when:
 * its rows are compared with what has been (memory.h), and what differs becomes
 * an entry. The actions of a step say where to look at once; a sweep over all
 * rows, now and then, finds the rest.
 *
 * Pure. Threads: none of its own. Memory: none. */
#ifndef ELASTIC_DRIVER_KEEP_H
#define ELASTIC_DRIVER_KEEP_H

#include "elastic/driver/core.h"
#include "elastic/driver/memory.h"

enum {
    /* Numbers are put up by so many, when half of them are left: of the last
       entries as many may be lost as it takes to use up that half. */
    KEEP_NUMBERS = 1000,
    KEEP_GENERATIONS = 100
};

struct keep {
    const struct memory *memory; /* all that was put so far */
    /* Fold it into `memory`. It says nothing of when a process began, and of an
     * agent no pid: whoever has started it knows. */
    void (*put)(void *arg, struct entry *entry);
    void *arg;
};

/* After a step with these actions. */
void keep_step(const struct keep *k, const struct driver *d,
               const struct driver_action *actions, size_t n);

/* All of it, and nothing else: what the core has forgotten goes. At the start,
 * and now and then. */
void keep_sweep(const struct keep *k, const struct driver *d);

#endif
