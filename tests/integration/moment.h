/* tests/integration/moment.h - the moments at which moment_worker ends itself,
 * and the options that choose them.
 *
 * A moment comes for the ranks and the host that the options choose, and only
 * for the first of them that comes there: it leaves a file in --directory, for
 * which others can wait. Moments inside a call are watched by a second thread.
 *
 * Threads: the main thread and that one; what they share is `seen`. */
#ifndef TESTS_INTEGRATION_MOMENT_H
#define TESTS_INTEGRATION_MOMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum moment {
    NO_MOMENT,
    COMPUTE,         /* in step --at, before its collective */
    COLLECTIVE_WAIT, /* in the collective of step --at; no peer is in it yet */
    COLLECTIVE_MOVE, /* in a large one, when the first bytes have arrived */
    COMMIT,          /* in the on_commit callback of step --at */
    SERIALIZE,       /* in the commit of step --at, half of it copied */
    HELD,            /* at a boundary, when it takes longer than usual */
    RESTORE,         /* after a loss, in the on_restore callback */
    SYNC_SOURCE,     /* --delay-us after the generation began */
    DESERIALIZE,     /* copying the snapshot to live memory */
    ON_SYNC,         /* in the on_sync callback */
    RESET,           /* in the reset callback */
    LAST,            /* after the last commit, before train returns */
    DONE,            /* after train has returned HVD_OK */
    INIT_BEFORE,     /* before hvd_init */
    INIT,            /* inside it, --delay-us after it was called */
    INIT_AFTER,      /* after it, before hvd_elastic_run */
    N_MOMENTS
};

struct options {
    enum moment moment;
    uint32_t ranks; /* bits: whose moment it is; 0: anybody's */
    const char *host, *late_host, *until, *directory;
    long generation; /* 0: any */
    long steps, step_us, state_bytes, large_bytes, at, delay_us;
    long lead, stale; /* ranks; -1: none */
    bool no_collective, careless, commit_barrier, sync_barrier, with_child;
};

extern struct options options;

/* What the main thread is in, for the second one. */
struct seen {
    const float *_Atomic moving; /* recvbuf of the large allreduce, or NULL */
    _Atomic uint64_t committing_us, initialising_us;
    atomic_bool waiting, done, started;
};

extern struct seen seen;

bool options_parse(int argc, char **argv);

uint64_t now_us(void);
void sleep_us(long us);

/* Files in --directory. await() has an end. */
bool exists(const char *name);
void await(const char *name);

/* SIGKILL, unless somebody died under this name before. */
void die(const char *name);

bool on_host(const char *name);

/* Is it this worker that the options mean? */
bool chosen(void);

/* m has come: die if it is the one, and ours. */
void moment(enum moment m);

/* In the first generation the chosen rank goes ahead, the others wait until it
 * is dead. */
void go_ahead(atomic_bool *here);

bool start_watching(void);

#endif
