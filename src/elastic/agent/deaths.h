/* elastic/agent/deaths.h - notices at once that a worker dies, while the kernel
 * has yet to free its memory: base/robust.h, one lock for each worker, held by
 * its control thread.
 *
 * One thread waits for all of them (futex_waitv(2), Linux 5.16); where the
 * kernel has no such call, one for each. This tells that the end of a process
 * has begun; its pidfd tells of the end, as ever.
 *
 * Threads: the functions from the main thread. Memory: the heap; a lock is
 * given to deaths_watch() and unmapped by deaths_forget(). */
#ifndef ELASTIC_AGENT_DEATHS_H
#define ELASTIC_AGENT_DEATHS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/robust.h"

struct deaths;

struct death {
    uint64_t worker;
    bool direct; /* the lock was seen held by a thread of the worker's own pid,
                    not by a process below it */
};

/* NULL: no memory, no descriptor. Each of the functions takes NULL, too.
 * one_each: as where there is no futex_waitv(2). */
struct deaths *deaths_create(bool one_each);
/* All are forgotten. */
void deaths_destroy(struct deaths *d);

/* Readable: deaths_next() has something to say. -1: never. */
int deaths_fd(const struct deaths *d);

/* The worker, whose process is `pid`, may come to hold this lock, which is
 * d's from now on, in every outcome. False: no memory, or no thread. */
bool deaths_watch(struct deaths *d, uint64_t worker, pid_t pid,
                  struct robust *robust);
void deaths_forget(struct deaths *d, uint64_t worker);

/* The next death that was not told before; false: there is none. */
bool deaths_next(struct deaths *d, struct death *death_p);

#endif
