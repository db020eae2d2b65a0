/* collectives/schedule/phase.h - one of the parts that an operation does in
 * order. Threads: constant while it is in flight. */
#ifndef COLLECTIVES_SCHEDULE_PHASE_H
#define COLLECTIVES_SCHEDULE_PHASE_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/schedule/schedule.h"

struct phase_ops;

struct phase {
    const struct phase_ops *ops; /* phase_ops.h: how it is done */
    struct schedule_call shape;
    const uint8_t *src;
    uint8_t *dst;
    int channel; /* enum comm_channel, where peers' goodbyes count */

    /* in shared memory */
    int divisor;   /* AVERAGE divides by it, 0: not yet */
    int pull_kind; /* enum pull_kind; 0: as shape.kind says */
    int n_slices;  /* as in struct pull_shape */
    bool again;    /* all of it is as in the phase before */

    /* over connections. NULL: built from shape, if it is the first phase */
    const struct schedule_step *steps;
    size_t n_steps;
};

#endif
