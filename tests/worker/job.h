/* tests/worker/job.h - a job whose driver is the test: real workers, a scripted
 * membership. The test says when WELCOME, ASSIGN, HOLD, CUT, ABORT and RELEASE
 * are sent, and waits for what the workers answer.
 *
 * Everything is judged by ck_assert; nothing waits longer than JOB_PATIENCE_US.
 * Threads: the test's. */
#ifndef TESTS_WORKER_JOB_H
#define TESTS_WORKER_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elastic/wire/message.h"
#include "elastic/wire/socket.h"

enum {
    JOB_WORKERS = 4,
    JOB_ID = 4711,
    JOB_TERM = 1,
    JOB_QUEUE = 256,
    JOB_TEXT = 4096,
    JOB_PATIENCE_US = 30000000,
    JOB_ARGS = 24
};

struct job_worker {
    uint64_t id;
    pid_t pid;    /* 0: not running */
    int out;      /* its stdout and stderr */
    int lifeline; /* our end; -1: closed */
    uint64_t route;
    bool heard;
    struct msg_hello hello;
    uint8_t abilities;               /* of its newest READY */
    struct message queue[JOB_QUEUE]; /* not yet looked at */
    size_t first, n;
    char text[JOB_TEXT]; /* what it printed, once it has exited */
    int status;          /* of waitpid, likewise */
};

struct job {
    struct wire_context *context;
    struct wire_gate *gate;
    struct wire_router *router;
    char endpoint[64];
    struct wire_secrets secrets;              /* of every worker */
    uint64_t heartbeat_ms, driver_timeout_ms; /* of WELCOME */
    uint64_t connect_timeout_ms;              /* ... */
    bool silent;                              /* PINGs get no answer */
    bool changes;               /* ASSIGN has what changes `before` */
    struct assign_table before; /* of the last ASSIGN */
    struct assign_entry rows[JOB_WORKERS];
    struct job_worker workers[JOB_WORKERS];
};

/* Path of chaos_worker. */
extern char *job_program;

struct job *job_create(void);
void job_destroy(struct job *job); /* kills what still runs */

/* Start worker `index` (its id is index + 1) as `chaos_worker options...`. */
void job_spawn(struct job *job, int index, const char *options);

/* The next message of this type from a worker; others before it are dropped. */
struct message job_expect(struct job *job, int index, enum message_type type);
struct msg_ready job_expect_ready(struct job *job, int index,
                                  enum ready_reason reason);
struct msg_report job_expect_report(struct job *job, int index,
                                    enum report_what what);

/* HELLO is answered with WELCOME; READY(start) is awaited. */
void job_welcome(struct job *job, int index);
void job_start(struct job *job, int n, const char *options);

void job_send(struct job *job, int index, struct message *m);

/* ASSIGN of `generation` to workers[0..n) = indices in rank order; `base` is
 * held by those whose bit is set in `sources`. */
void job_assign(struct job *job, uint64_t generation, const int *indices, int n,
                struct state_id base, unsigned sources,
                enum ready_reason reason);
void job_abort(struct job *job, int index, uint64_t generation);
void job_hold(struct job *job, int index, uint64_t generation,
              uint64_t sequence);
void job_cut(struct job *job, int index, uint64_t generation, uint64_t sequence,
             uint64_t boundary);
void job_release(struct job *job, int index, uint64_t generation);
void job_shutdown(struct job *job, int index, enum shutdown_reason reason,
                  int64_t status, const char *text);

void job_kill(struct job *job, int index, int signo);

/* Its exit code, or -signal; its text is complete then. */
int job_wait(struct job *job, int index);

#endif
