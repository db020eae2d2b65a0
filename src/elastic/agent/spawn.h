/* elastic/agent/spawn.h - start one worker: its environment, its descriptors,
 * its process group, and the two ropes that pull it down with the agent.
 *
 * In the worker: stdin is /dev/null, stdout and stderr are pipes to the agent;
 * descriptors 60, 61 and 63 are passed to it (wire/passed.h): its own token, a
 * pipe that ends when the agent does, and the lock whose end tells of its
 * death; no other descriptor is open. Signals, umask and the limit on
 * descriptors are those of the driver's caller (base/inherited.h). It leads a
 * process group of its own and gets SIGKILL when the agent's main thread dies;
 * that signal does not reach the children of a shell between agent and worker:
 * these have the lifeline, which libhvd watches.
 *
 * fork and exec: all that allocates happens before the fork. Threads: call it
 * from the main thread only (PR_SET_PDEATHSIG means the thread that forked). */
#ifndef ELASTIC_AGENT_SPAWN_H
#define ELASTIC_AGENT_SPAWN_H

#include <sys/types.h>

#include <hvd/status.h>

#include "base/program.h"
#include "base/robust.h"
#include "elastic/wire/message.h"
#include "elastic/wire/passed.h"
#include "elastic/wire/socket.h"

enum { SPAWN_REPORT_FD = 62 }; /* closed by the exec */

/* What is the same for all workers of an agent; borrowed. */
struct spawn_site {
    const char *driver; /* endpoints */
    const char *host;
    const char *job_dir; /* NULL: none */
    uint64_t job;
    const struct wire_secrets *secrets; /* the agent's own */
    int lifeline_fd;                    /* read end */
    const char
        *socket; /* for workers that have lost descriptors (wire/claim.h);
                           "": none */
};

struct spawned {
    pid_t pid;
    int pidfd;
    int report_fd; /* see spawn_result(); non-blocking, like the next two */
    int stdout_fd;
    int stderr_fd;
    int passed_fds[PASSED_MAX]; /* what it was passed, to pass it once more */
    struct robust *robust;      /* NULL: the system has no such thing */
};

enum spawn_outcome { SPAWN_PENDING, SPAWN_RUNS, SPAWN_FAILED };

/* Fork; returns before the exec is done. HVD_OK, or an error with *error_p (an
 * errno) and nothing left behind. Descriptors in *spawned_p belong to the
 * caller and are CLOEXEC. */
hvd_status_t spawn_worker(const struct spawn_site *site,
                          const struct msg_spawn *spawn,
                          struct spawned *spawned_p,
                          int *error_p) HVD_MUST_CHECK;

/* What became of the exec, once report_fd is readable. SPAWN_FAILED:
 * *failure_p, and *chdir_p whether it was the working directory that could not
 * be entered. */
enum spawn_outcome
spawn_result(int report_fd, struct program_failure *failure_p, bool *chdir_p);

#endif
