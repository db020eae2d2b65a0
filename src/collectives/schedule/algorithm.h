/* collectives/schedule/algorithm.h - which schedule serves a call best.
 *
 * A table of measured rules decides by the kind of the call, the number of
 * ranks and the number of bytes; HVD_ALGORITHM overrides it, for all kinds at
 * once or one by one:
 *
 *   HVD_ALGORITHM=ring
 *   HVD_ALGORITHM=allreduce:halving,broadcast:chain
 *
 * What each is: schedule.h; flat is one level, by shared memory where there is
 * one host, two-level is two_level.h: what goes over the network chooses by the
 * table. Every rank has to come to the same choice: it depends on nothing that
 * a rank has for itself.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_SCHEDULE_ALGORITHM_H
#define COLLECTIVES_SCHEDULE_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/schedule/kinds.h"

enum algorithm {
    ALGORITHM_AUTO, /* by the table */
    ALGORITHM_RING,
    ALGORITHM_DOUBLING,
    ALGORITHM_HALVING,
    ALGORITHM_STAR,
    ALGORITHM_TREE,
    ALGORITHM_CHAIN,
    ALGORITHM_SCATTER,
    ALGORITHM_BRUCK,
    ALGORITHM_PAIRWISE,
    ALGORITHM_DISSEMINATION,
    ALGORITHM_FLAT,
    ALGORITHM_TWO_LEVEL,
    ALGORITHM_COUNT
};

enum { ALGORITHM_ERROR_MAX = 256 };

/* Up to and including both maxima. */
struct algorithm_rule {
    uint8_t kind;      /* enum collective_kind */
    uint8_t algorithm; /* enum algorithm, one of a schedule */
    int size_max;
    size_t nbytes_max;
};

/* The first rule that fits counts. */
struct algorithm_table {
    const struct algorithm_rule *rules;
    size_t n_rules;
};

/* What HVD_ALGORITHM says; zeroed: nothing. */
struct algorithm_override {
    uint8_t by_kind[KINDS_MAX]; /* enum algorithm, [enum collective_kind]
                                       */
};

/* Measured (bench/algorithms); its rules cover everything. */
extern const struct algorithm_table algorithm_default;

/* Can a call of this kind be done so? AUTO: always. */
bool algorithm_fits(int kind, enum algorithm algorithm);

/* The algorithm for `size` ranks and `nbytes`: of the whole vector, that is of
 * the greater of the two buffers; alltoallv: 0. Never AUTO; without a rule that
 * fits, what serves any size. */
enum algorithm algorithm_choose(int kind, int size, size_t nbytes,
                                const struct algorithm_table *table);

/* "ring"; "?" for an unknown one. */
const char *algorithm_name(enum algorithm algorithm);

/* text   a list as above; later entries win. A name without a kind is for all
 *        kinds that have it. "auto" takes back what an earlier entry said.
 * error  [ALGORITHM_ERROR_MAX]; a sentence that names the bad value and lists
 *        the valid ones. *override_p is as before then.
 * Returns false for a bad value. */
bool algorithm_parse(const char *text, struct algorithm_override *override_p,
                     char *error);

#endif
