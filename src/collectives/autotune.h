/* collectives/autotune.h - settings of calls by name, tried out on the job
 * itself: which values there are, how one rank tells the others, what is
 * written about it. Which one is next, and which is best: negotiate/tuner.h.
 *
 * Rank 0 of the world decides. What it says is part of every round, so all
 * follow it from the same call on:
 *
 *   byte 0   the setting in force; UINT8_MAX: the default
 *   byte 1   the best so far, and whether it is final: whoever is rank 0 in the
 *            next generation goes on from there
 *
 * Lasts as long as the process, over all generations; in one of another size,
 * or with a network, the search begins anew from the best. Communicators are
 * not tuned.
 *
 * Threads: the one that drives the calls by name of the world; on the rank that
 * decides a writer (base/writer.h) as well. It opens the log, a regular file,
 * at the first line, and tries again what fails. Memory: one struct, and 64 KB
 * of lines that wait. */
#ifndef COLLECTIVES_AUTOTUNE_H
#define COLLECTIVES_AUTOTUNE_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/negotiate/negotiator.h"
#include "collectives/negotiate/tuner.h"
#include "collectives/schedule/algorithm.h"

enum {
    AUTOTUNE_NBYTES = NEGOTIATOR_CALLERS_NBYTES,
    AUTOTUNE_LARGE_NBYTES = 64 << 10 /* .algorithm counts from here on */
};

/* What is tuned: */
struct autotune_setting {
    uint64_t fusion_nbytes;
    /* wait for more to be posted: as long as posts follow each other so fast,
     * up to so long in all */
    uint32_t follow_us, gather_us;
    enum algorithm algorithm; /* of large allreduces over a network */
};

struct autotune;

struct autotune_config {
    const char *log;    /* a path, copied; NULL: none */
    uint64_t window_us; /* as tuner_init(); 0: TUNER_WINDOW_US */
};

/* NULL: no memory. */
struct autotune *autotune_create(const struct autotune_config *config);
/* NULL is fine. */
void autotune_destroy(struct autotune *a);

/* What the user has said how it should be, and is not tried out: neither, until
 * this says so; from the next generation on. NULL is fine. */
void autotune_fix(struct autotune *a, bool fusion, bool algorithm);

/* A generation begins. over_network: some of what is sent. */
void autotune_begin(struct autotune *a, uint64_t generation, int size,
                    bool decides, bool over_network);

/* Has there been a call by name? Without any nothing is tuned. NULL: true. */
bool autotune_was_used(const struct autotune *a);

/* Ranks have joined: what is being measured is void, and the best in force. */
void autotune_pause(struct autotune *a);
/* A call of that many bytes will run. */
void autotune_decided(struct autotune *a, uint64_t now_us,
                      const struct name_id *name, uint64_t nbytes);

/* out [AUTOTUNE_NBYTES]: of this rank, for the next round, whose combined bytes
 * are the least of all ranks'. a: NULL is fine. */
void autotune_tell(const struct autotune *a, uint8_t *out);
/* in [AUTOTUNE_NBYTES]: of a round that is over. What is in force from here on,
 * on a rank that does not tune as well. fusion_nbytes: the default. */
struct autotune_setting autotune_hear(struct autotune *a, const uint8_t *in,
                                      uint64_t fusion_nbytes);

/* As well: may the next round say something else? */
bool autotune_searches(const uint8_t *in);

#endif
