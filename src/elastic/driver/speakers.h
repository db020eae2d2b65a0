/* elastic/driver/speakers.h - whose output is still to come: each worker from
 * its SPAWN until it has exited and its streams have ended, which may be long
 * after the core has forgotten it; and which agent alone forwards it.
 *
 * Memory: an array sorted by worker; lookups are binary searches. Threads: the
 * loop. */
#ifndef ELASTIC_DRIVER_SPEAKERS_H
#define ELASTIC_DRIVER_SPEAKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "discovery/hosts.h"
#include "elastic/driver/output.h"

struct speaker {
    uint64_t worker, agent;
    int rank; /* as far as it is known; -1: none yet */
    uint32_t slot;
    unsigned open; /* a bit for each stream that has not ended */
    uint64_t taken[OUTPUT_STREAMS]; /* bytes of each */
    bool exited;
    char host[HOSTS_NAME_MAX];
};

struct speakers {
    struct speaker *items; /* [n] */
    size_t n, max;
    size_t n_gone; /* of them, exited and without a stream */
    size_t n_streams;
};

void speakers_fini(struct speakers *s);

/* One that is there stays as it is: SPAWN may be repeated. A worker's id is
 * never another's. false: out of memory. */
bool speakers_add(struct speakers *s, uint64_t worker, uint64_t agent,
                  uint32_t slot, const char *host);

/* A worker that had exited when this driver took over; `open` as above, of the
 * streams whose end the driver before has not taken. false: out of memory. */
bool speakers_add_exited(struct speakers *s, uint64_t worker, uint64_t agent,
                         uint32_t slot, unsigned open, const char *host);

/* NULL: it is gone, or never was. Valid until the next speakers_add(). */
struct speaker *speakers_find(struct speakers *s, uint64_t worker);

/* stream: 0 or 1. Repeated is fine, for both. */
void speakers_end(struct speakers *s, struct speaker *speaker, unsigned stream);
void speakers_exit(struct speakers *s, struct speaker *speaker);

/* Nothing more will come of it. */
void speakers_remove(struct speakers *s, struct speaker *speaker);

#endif
