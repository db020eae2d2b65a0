/* elastic/driver/memory.h - what a successor has to know of a job: the fold of
 * all entries (entry.h) that were written down. The driver keeps one as it
 * writes, so that it can write all that still counts anew; a successor makes
 * one of what it reads.
 *
 * Pure. Threads: none of its own. Memory: arrays of rows, and the strings of
 * JOB. */
#ifndef ELASTIC_DRIVER_MEMORY_H
#define ELASTIC_DRIVER_MEMORY_H

#include "elastic/driver/entry.h"

struct memory {
    struct entry_job
        job; /* its strings lie in the next ones; job 0: none yet */
    char *argv, *env, *environment;
    size_t argv_max, env_max, environment_max;
    struct entry_state state;     /* term 0: none yet */
    struct entry_places places;   /* "": all are here */
    struct entry_host *hosts;     /* [n_hosts], by name */
    struct entry_slot *slots;     /* [n_slots], by host and number */
    struct entry_worker *workers; /* [n_workers], by id; nobody who is gone */
    size_t n_hosts, hosts_max, n_slots, slots_max, n_workers, workers_max;
};

/* Zeroed memory knows nothing. */
void memory_fini(struct memory *m);

/* One more entry. False: out of memory, nothing changed. */
bool memory_fold(struct memory *m, const struct entry *entry);

/* The driver that wrote it down was on another machine: its pids are no pids
 * here, and its own machine's agents are as far away as all others. */
void memory_move_away(struct memory *m);

/* All agents on other machines that run workers find a successor by
 * DIR/driver. */
bool memory_all_see_dir(const struct memory *m);

/* NULL: there is none. Valid until the next fold. */
const struct entry_host *memory_host(const struct memory *m, const char *name);
const struct entry_slot *memory_slot(const struct memory *m, const char *host,
                                     uint32_t slot);
const struct entry_worker *memory_worker(const struct memory *m, uint64_t id);

/* Everything, in an order in which it can be folded again: the entry number
 * `at`, counted from 0. False: there are not so many. It borrows from *m. */
bool memory_entry(const struct memory *m, size_t at, struct entry *entry);

#endif
