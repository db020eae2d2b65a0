/* collectives/phase_ops.h - what a kind of phase has to be able to do. The
 * engine (engine.c) drives phases one after the other through this table and
 * knows nothing else of them; stream.c and local_phase.c are the kinds.
 *
 * Threads: whoever drives the comm. */
#ifndef COLLECTIVES_PHASE_OPS_H
#define COLLECTIVES_PHASE_OPS_H

#include <stdbool.h>

#include <hvd/status.h>

#include "collectives/schedule/phase.h"

struct comm;

/* None may sleep. "It" is the phase in flight, the one begun last; a function
 * that is given a phase is asked about one that has not begun. Other statuses
 * than HVD_OK are the comm's reason. */
struct phase_ops {
    /* First in its life. The phase stays where it is until the next begins. */
    hvd_status_t (*begin)(struct comm *comm, const struct phase *phase);
    /* As far as it gets. *more_p: something was done, and it stopped so that an
     * abort is heard. */
    hvd_status_t (*advance)(struct comm *comm, bool *more_p);
    bool (*done)(const struct comm *comm);
    /* advance() again and again for a short while, in the manner that suits
     * the number of cores; ends at once when *more_p or done. */
    hvd_status_t (*look_again)(struct comm *comm, bool *more_p);

    /* Does it still wait for this peer? */
    bool (*needs)(const struct comm *comm, int peer);
    /* Will this phase, the n-th of its kind from now on (n > 0)? */
    bool (*will_need)(const struct comm *comm, const struct phase *phase,
                      int peer, unsigned n);
    /* Peers that it waits for and cannot see without a connection; -1: none. */
    void (*waits)(const struct comm *comm, int peers[2]);

    /* Peers get through it each at its own pace: one that has gone on, or left,
     * says nothing about it. */
    bool own_pace;

    /* Is it told anything by connections? Else they are looked at before it
     * sleeps, and for nothing but goodbyes. */
    bool uses_links;
    /* Between these, doorbell() is readable once a peer has done anything that
     * it waits for. Behind sleep() comes one more advance(). All NULL: its
     * connections tell. */
    void (*sleep)(struct comm *comm);
    void (*wake)(struct comm *comm);
    int (*doorbell)(const struct comm *comm);

    /* For the timeline; NULL: there is nothing to tell. Static. */
    const char *(*algorithm)(const struct phase *phase);
};

#endif
