/* tests/agent/fake.h - a driver that a test plays: it starts the real
 * hvd-agent, answers its hellos and pings, and writes down all that the agent
 * says.
 *
 * Every wait is on descriptors and fails the test after FAKE_TIMEOUT_MS. */
#ifndef TESTS_AGENT_FAKE_H
#define TESTS_AGENT_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "elastic/wire/message.h"
#include "elastic/wire/socket.h"

enum { FAKE_WORKERS = 16, FAKE_TIMEOUT_MS = 30000 };

struct fake_stream {
    char *text; /* [n_text] and a NUL */
    size_t n_text, text_max;
    bool eof;
    bool owed; /* CREDIT withheld, of so many bytes: */
    uint64_t n_owed;
};

struct fake_worker {
    int n_spawned, n_failed, n_exited; /* messages about it */
    struct msg_spawned spawned;
    struct msg_spawn_failed failed;
    struct msg_worker_exited exited;
    struct fake_stream streams[2];
};

struct fake {
    struct wire_context *context;
    struct wire_gate *gate;
    struct wire_router *control, *output;
    char control_endpoint[64], output_endpoint[64];
    uint8_t secret[WIRE_TOKEN_NBYTES]; /* the driver's */
    struct wire_secrets secrets;       /* of the agent */
    pid_t agent;
    int agent_pidfd;
    int lifeline; /* write end */
    uint64_t route, output_route;
    bool hello, output_hello;
    struct msg_agent_hello hello_said;
    int n_notices; /* and the newest: */
    struct msg_notice notice;
    int n_pings, n_routes; /* connections from which it has said HELLO */
    uint64_t term;         /* of what is said */
    bool mute;             /* answer no ping */
    int n_unheard;         /* HELLOs that are yet to be ignored */
    bool withhold;         /* grant no credit */
    struct fake_worker workers[FAKE_WORKERS]; /* [worker id] */
};

/* Start the agent and wait for its hellos. */
void fake_start(struct fake *fake, const char *program);

/* The same with a directory of the job, which names this driver; so many HELLOs
 * are not answered. */
void fake_start_in(struct fake *fake, const char *program, const char *job_dir,
                   int n_unheard);

/* The directory names a driver of this term, here (NULL) or elsewhere. */
void fake_show(struct fake *fake, const char *job_dir, const char *endpoint,
               uint64_t term);

/* Close everything; the agent ends all it started by the lifeline's end. */
void fake_stop(struct fake *fake);

/* SPAWN `sh -c script` as this worker; `env` and `cwd` may be NULL. */
void fake_spawn_sh(struct fake *fake, uint64_t worker, const char *script);

/* SPAWN argv [n]: strings packed with their NULs. */
void fake_spawn(struct fake *fake, uint64_t worker, struct wire_strings argv,
                struct wire_strings env, const char *cwd);

void fake_kill(struct fake *fake, uint64_t worker, uint64_t grace_ms);
void fake_shutdown(struct fake *fake);
void fake_hold(struct fake *fake, uint64_t hold_ms); /* say so in a WELCOME */
void fake_grant(struct fake *fake); /* what was withheld, from now on all */

/* Take what comes until `done` says so. */
void fake_wait(struct fake *fake, bool (*done)(struct fake *fake, void *arg),
               void *arg);

/* Ready-made waits. */
void fake_wait_spawned(struct fake *fake, uint64_t worker);
void fake_wait_exited(struct fake *fake, uint64_t worker);
void fake_wait_failed(struct fake *fake, uint64_t worker);
void fake_wait_eof(struct fake *fake, uint64_t worker);
void fake_wait_text(struct fake *fake, uint64_t worker, const char *text);

/* Until the agent has ended; its wait status. */
int fake_wait_agent(struct fake *fake);

const char *fake_stdout(const struct fake *fake, uint64_t worker);
const char *fake_stderr(const struct fake *fake, uint64_t worker);

#endif
