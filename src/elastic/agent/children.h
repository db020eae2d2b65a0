/* elastic/agent/children.h - the processes of an agent: one struct per worker,
 * from its fork until its last line of output is out, and the strangers that
 * end up with us because their parent died (the agent is a subreaper).
 *
 * Nothing is decided here (core.h). Threads: the main thread only. Memory: one
 * allocation per worker, freed by children_remove(). */
#ifndef ELASTIC_AGENT_CHILDREN_H
#define ELASTIC_AGENT_CHILDREN_H

#include <sys/types.h>

#include "base/command.h"
#include "elastic/agent/output.h"
#include "elastic/agent/spawn.h"

enum { PROGRAM_MAX = 256 };

struct child {
    struct child *next;
    uint64_t worker;
    pid_t pid; /* 0 when reaped */
    int pidfd; /* these four: -1 when closed */
    int report_fd;
    int stream_fds[OUTPUT_STREAMS];
    struct robust *robust; /* as it was spawned: the caller takes it; or NULL */
    int passed_fds[PASSED_MAX]; /* -1 when it is reaped */
    pid_t taken; /* the process that is this worker; 0: none has said so */
    bool failed; /* its exec failed: its exit is of no interest */
    uint64_t linger_us; /* its pipes are closed then; AGENT_NEVER: it lives */
    uint64_t held_us;   /* since when its pipes are not read; AGENT_NEVER: they
                           are */
    bool impatient;     /* it has waited long enough: until half of what is kept
                           has gone, too much is dropped */
    struct output output;
    char program[PROGRAM_MAX]; /* for the sentence when the exec fails */
    char cwd[PROGRAM_MAX];
};

struct children {
    struct child *first; /* in no order */
    size_t n;
    const struct command *helper; /* its runs are no strangers; or NULL */
};

struct child_exit {
    int code;
    int signal; /* 0: exited by itself */
    bool core;
};

/* Fork one. HVD_OK, or an error with *error_p (an errno) and nothing changed.
 */
hvd_status_t children_start(struct children *children,
                            const struct spawn_site *site,
                            const struct msg_spawn *spawn,
                            struct child **child_p,
                            int *error_p) HVD_MUST_CHECK;

/* Close what is open, free. The process must have been reaped. */
void children_remove(struct children *children, struct child *child);

/* NULL: none. */
struct child *children_find(const struct children *children, uint64_t worker);

/* Has it ended? Leaves it a zombie, so that its group's number stays taken. */
bool child_exited(const struct child *child, struct child_exit *exit_p);

/* How does the worker end, this child or a process below it? code EXIT_UNKNOWN:
 * the kernel does not say so yet. */
void child_ends(const struct child *child, struct child_exit *exit_p);

/* The worker was a process below this child, which has reaped it. */
bool child_is_bereft(const struct child *child);

/* Reap an ended child and close its pidfd. */
void child_reap(struct child *child);

void child_close_stream(struct child *child, unsigned stream);

/* To its process group, and to itself if it has left that. Until it is reaped.
 */
void child_signal(pid_t pid, int signo);

/* Reap what has ended of the processes that came to the agent as orphans. To be
 * called when a worker was reaped, and at each SIGCHLD. True: there may be
 * more, after as many as one turn of the loop is good for. */
bool children_reap_strangers(const struct children *children);

/* SIGKILL every descendant and reap those that end within timeout_ms; all pids
 * of *children are 0 afterwards. False: some would not die. */
bool children_kill_all(struct children *children, int timeout_ms);

#endif
