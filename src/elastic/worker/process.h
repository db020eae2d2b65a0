/* elastic/worker/process.h - the one worker that this process is: who it is,
 * and what its application thread and its control thread share.
 *
 * A program that was started by hand (no HVD_DRIVER) is *solo*: a world of one,
 * with a comm of size 1 and without endpoint, control thread or descriptors.
 *
 * Threads: "app" = the thread that called hvd_init() or hvd_elastic_run() last:
 * it trains. Calls in order come from any thread of the program, which sees to
 * it that one is in such a call at a time; calls by name come from several at
 * once. "control" = control.c's. A field says who writes it; atomic fields may
 * be read by anybody. */
#ifndef ELASTIC_WORKER_PROCESS_H
#define ELASTIC_WORKER_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <hvd/state.h>
#include <hvd/status.h>
#include <hvd/world.h>

#include "base/robust.h"
#include "collectives/comm.h"
#include "collectives/net/endpoint.h"
#include "elastic/wire/message.h"
#include "elastic/wire/socket.h"

/* One job never mixes kinds. */
enum program_kind {
    PROGRAM_UNDECIDED, /* neither joined nor running */
    PROGRAM_ELASTIC,   /* hvd_elastic_run has begun */
    PROGRAM_STATIC     /* hvd_world_start, or a collective before any run */
};

enum { PROCESS_PATH_MAX = 4096 };

/* What the environment says; constant from hvd_init to hvd_shutdown. */
struct process_identity {
    uint64_t job, worker;
    int slot;
    char driver[WIRE_ENDPOINTS_MAX]; /* endpoints of its control socket */
    char host[WIRE_HOST_MAX];
    char address[WIRE_ADDRESS_MAX]; /* the data plane binds to it: a list */
    uint16_t port_low, port_high;   /* of the data plane; 0: any */
    struct wire_secrets secrets;
    int lifeline_fd;       /* -1: none */
    struct robust *robust; /* for control to hold; NULL: there is none */
    char job_dir[PROCESS_PATH_MAX]; /* "": none, no successor will come */
};

struct process {
    _Atomic bool initialised; /* app */
    _Atomic bool forked;      /* set in a forked child, for ever */
    _Atomic pthread_t app;    /* the thread that trains */
    bool solo;                /* app */
    bool spent; /* app; was a member of a job once: no second hvd_init */
    enum program_kind kind; /* app */
    struct process_identity self;

    /* for the handler of fork, which may run on any thread */
    struct endpoint *_Atomic endpoint; /* app */

    /* Written by app under control's lock, read by app without and by control
     * with it. */
    struct comm *comm;  /* of the current generation; NULL: none */
    hvd_state_t *state; /* of the current run; NULL: none */

    /* The boundary (docs/protocol.md): app counts and then reads `hold`;
     * control sets `hold` and then reads the count; all sequentially
     * consistent. Control zeroes both when it accepts an ASSIGN: app waits
     * then. */
    _Atomic uint64_t boundary;
    _Atomic uint32_t hold;
    _Atomic int in_order; /* how deep the thread in a call in order waits */
    _Atomic int by_name;  /* app; how deep, for a call by name */
    _Atomic uint64_t busy_until_us; /* any; 0: not busy */
    _Atomic bool drain;             /* set by hvd_drain */
    /* control: if nothing is heard of the driver until then it is silent;
     * UINT64_MAX: it does not answer each heartbeat */
    _Atomic uint64_t driver_due_us;
    _Atomic int kick_fd;   /* wakes control; -1: none; for signal handlers */
    _Atomic int n_kickers; /* who may be about to write to it */

    hvd_poll_fn poll_fn; /* app; NULL: none */
    void *poll_arg;

    /* app alone */
    bool running; /* inside hvd_elastic_run */
    bool in_sync; /* callbacks run here that others do not run */
    /* app writes: a boundary of this generation said HVD_HOSTS_UPDATED; the run
     * is over, and the world of its last members is left */
    _Atomic bool left, remains;
    /* any thread in a call: */
    _Atomic bool went_on;     /* `left`, and the program called something */
    _Atomic bool lost_posted; /* static: the loss was told to the driver */
    _Atomic bool first_collective_due, first_commit_due; /* REPORTs */
    uint64_t n_commits; /* hvd_state_commit() in this generation */
};

extern struct process process_self;

/* With a sentence naming `call`. HVD_ERR_STATE: no hvd_init yet, or it comes
 * from a place function; HVD_ERR_INVALID: this is a forked child. */
hvd_status_t process_check(const char *call) HVD_MUST_CHECK;

/* The calling thread is "app" from now on. */
static inline void process_claim(void)
{
    atomic_store_explicit(&process_self.app, pthread_self(),
                          memory_order_relaxed);
}

static inline bool process_is_app(void)
{
    return pthread_equal(
        atomic_load_explicit(&process_self.app, memory_order_relaxed),
        pthread_self());
}

/* Parse the environment into process_self.self. *solo_p: there is no driver.
 * HVD_ERR_INVALID names the variable. Reads the secrets and closes their
 * descriptor. */
hvd_status_t process_identify(bool *solo_p) HVD_MUST_CHECK;

/* Once per process: a forked child shall close our descriptors and get no
 * service. */
hvd_status_t process_guard_fork(void) HVD_MUST_CHECK;

/* The calling thread, control, holds this worker's lock, if there is one, until
 * it ends or lets go: then the lock is forgotten. */
void process_hold(void);
void process_let_go(void);

/* If the environment asks for a timeline; a file that cannot be made is one
 * warning. */
void process_timeline_open(void);

/* In a job: lines of stdout leave when they end, as on a terminal. Not if it is
 * no pipe, if the program has made it unbuffered, or if HVD_STDOUT_BUFFERING
 * says block. */
void process_stdout_init(void);

/* Where log lines go, from which level on, and the words before each:
 * "gen 7 rank 3 host-12:1". After process_log_fini() they go to stderr. */
void process_log_init(const hvd_config_t *config);
void process_log_fini(void);
void process_log_prefix(uint64_t generation, int rank);

#endif
