/* elastic/driver/launch.h - how an agent gets started on a host: one table of
 * functions per way (local exec now; ssh, srun and agents that dial in later).
 *
 * A launcher owns the processes it has started: its launch_fini() ends and
 * reaps those that are left. Agents that another driver has started are adopted
 * by pid and start time (base/proc.h): they are watched and ended as well, but
 * nobody's children here. Threads: the driver's main thread (PDEATHSIG
 * follows it). */
#ifndef ELASTIC_DRIVER_LAUNCH_H
#define ELASTIC_DRIVER_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hvd/status.h>

#include "base/log.h"

struct launch_config {
    const char *endpoint;        /* of the control socket */
    const char *output_endpoint; /* of the output socket */
    uint64_t job;
    const uint8_t *secret; /* [WIRE_TOKEN_NBYTES] of the driver; borrowed */
    const char *job_dir; /* its agents outlive this driver; NULL: they do not */
    const char *notice_script; /* of its agents; or NULL */
    enum log_level log_level;
};

/* The process group of a worker, which leads it. */
struct launched_group {
    pid_t pid;
    uint64_t started;
};

/* A started agent. */
struct launched {
    uint64_t agent;
    pid_t pid;
    uint64_t started; /* base/proc.h */
    bool adopted;     /* no child of ours */
    int pidfd;        /* readable when it has ended */
    int lifeline_fd;  /* closing it ends the agent and its workers */
    uint64_t kill_us; /* the next of the two: the lifeline, SIGKILL; 0: it was
                         not asked to stop */
    bool cut;         /* the first has been done */
    struct launched_group
        *groups; /* [n_groups] process groups of its workers */
    size_t n_groups, groups_max;
};

struct launch_ops {
    const char *name;
    bool same_machine; /* pids that its agents tell are pids here */
    /* Start the agent `agent` for `host`. Does not wait for it to come up. May
     * block for the milliseconds of a fork. HVD_ERR_SYSTEM with the sentence.
     */
    hvd_status_t (*start)(const struct launch_config *config, uint64_t agent,
                          const char *host, struct launched *launched_p);
};

extern const struct launch_ops launch_local;

struct launch {
    const struct launch_ops *ops;
    struct launch_config config;
    struct launched *items; /* [n] */
    size_t n, max;
    uint64_t due_us; /* nothing of launch_tick()'s is due before */
};

void launch_init(struct launch *l, const struct launch_ops *ops,
                 const struct launch_config *config);
/* Closes all lifelines, gives agents 3 s, kills and reaps the rest. */
void launch_fini(struct launch *l);
/* Lets go of all of them, as they are: they are another driver's now. */
void launch_abandon(struct launch *l);

/* An agent of another driver. *pidfd_p: as of launch_start(). HVD_PEER_LOST: it
 * has ended; HVD_ERR_NOMEM. */
hvd_status_t launch_adopt(struct launch *l, uint64_t agent, pid_t pid,
                          uint64_t started, int *pidfd_p) HVD_MUST_CHECK;
/* NULL: it was neither started nor adopted here, or has been reaped. */
const struct launched *launch_find(const struct launch *l, uint64_t agent);

/* *pidfd_p: watch it; launch_reap() when it is readable. */
hvd_status_t launch_start(struct launch *l, uint64_t agent, const char *host,
                          int *pidfd_p) HVD_MUST_CHECK;

/* A worker of the agent leads process group `pid`, or has ended. What an agent
 * that dies leaves of these groups dies with it: the kernel ends the workers,
 * but not what they have forked. */
void launch_spawned(struct launch *l, uint64_t agent, int64_t pid);
void launch_exited(struct launch *l, uint64_t agent, int64_t pid);

/* The agent is to end: its lifeline is closed at deadline_us, and it is killed
 * 3 s later. It has been asked by message before. */
void launch_stop(struct launch *l, uint64_t agent, uint64_t deadline_us);

/* One that is to end has something left to say: not before deadline_us. */
void launch_postpone(struct launch *l, uint64_t agent, uint64_t deadline_us);

/* Nobody believes in the agent any more: SIGKILL, and to the groups of its
 * workers. */
void launch_kill(struct launch *l, uint64_t agent);

/* Carry out due stops; the next time something is due, or CLOCK_NEVER. */
uint64_t launch_tick(struct launch *l, uint64_t now_us);

/* Reap the agent whose pidfd is readable: its id; how it ended in words. 0:
 * none has this fd, or it has not ended. */
uint64_t launch_reap(struct launch *l, int pidfd, char *how, size_t how_max);

#endif
