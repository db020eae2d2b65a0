/* elastic/driver/launch.h - how an agent gets started on a host: one table of
 * functions for each way (a child process here, ssh, srun), chosen for each
 * host.
 *
 * A launcher owns the processes it has started: its launch_fini() ends and
 * reaps those that are left. Agents that another driver has started are adopted
 * by pid and start time (base/proc.h): they are watched and ended as well, but
 * nobody's children here.
 *
 * An agent on another machine is at the other end of a client (ssh, srun),
 * which is our child; it lives as long as the client's stdin is open. At most
 * 32 clients at once are on their way: the others wait, in the order in which
 * they were asked for. A place is free again when its agent is up or its
 * client has ended, or after a while, so that hosts that do not answer keep
 * nobody from being started: all have had their turn within half of
 * --start-timeout.
 *
 * Threads: the driver's main thread (PDEATHSIG follows it). */
#ifndef ELASTIC_DRIVER_LAUNCH_H
#define ELASTIC_DRIVER_LAUNCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hvd/status.h>

#include "base/log.h"
#include "base/program.h"
#include "base/words.h"
#include "discovery/hosts.h"
#include "discovery/local.h"

struct launch_ops;

/* Where programs lie, found when the driver starts: later nobody walks through
 * directories that may be slow. */
struct launch_paths {
    char agent[PATH_MAX];     /* here; "": it was not found */
    char elsewhere[PATH_MAX]; /* the same without links, or its name */
    char client[PATH_MAX];    /* of the ops that have one; "": likewise */
};

struct launch_config {
    const char *endpoint;                    /* of the control socket */
    const char *output_endpoint;             /* of the output socket */
    const char *far_endpoints, *far_outputs; /* the same for other machines: as
                                                many, with commas */
    const char *network;    /* names of interfaces, or "*"; NULL: loopback, and
                            nothing for other machines */
    const char *data_ports; /* LOW-HIGH; NULL: any */
    uint64_t job, term;
    const uint8_t *secret; /* [WIRE_TOKEN_NBYTES] of the driver; borrowed */
    const char *job_dir; /* its agents outlive this driver; NULL: they do not */
    const char *notice_script; /* of its agents; or NULL */
    enum log_level log_level;
    const struct launch_ops *ops;  /* for all hosts; NULL: launch_local for this
                                     machine, launch_ssh for others */
    uint32_t ssh_port;             /* 0: as ssh itself is configured */
    const char *ssh_identity_file; /* or NULL */
    const char *ssh_command;       /* in the place of ssh; or NULL */
    uint64_t start_timeout_us, heartbeat_timeout_us;
    const struct launch_paths *paths; /* launch_init() sets it */
};

/* The process group of a worker, which leads it. */
struct launched_group {
    pid_t pid;
    uint64_t started;
};

enum launched_stage {
    LAUNCHED_WAITS,  /* for a place: there is no process yet */
    LAUNCHED_COMES,  /* and has a place, until place_us */
    LAUNCHED_RUNS,   /* has none, or needs none any more */
    LAUNCHED_IS_OVER /* without a process; to be told, with `words->last` */
};

/* An agent. */
struct launched {
    const struct launch_ops *ops;
    enum launched_stage stage;
    uint64_t agent;
    char host[HOSTS_NAME_MAX]; /* "": adopted */
    char user[HOSTS_USER_MAX]; /* to log in as; "": as ssh has it */
    bool up;                   /* it has called */
    uint64_t asked_us, place_us;
    pid_t pid;        /* its own, or its client's */
    uint64_t started; /* base/proc.h */
    bool adopted;     /* no child of ours */
    int pidfd;        /* readable when it has ended; -1: not started, or a
                            client that its agent outlives */
    int lifeline_fd;  /* closing it ends the agent and its workers */
    int stderr_fd;    /* what a client says; -1: it has none of its own */
    int report_fd;    /* why it cannot be executed, else its end; -1: it has
                            been */
    struct program_failure failure; /* why it could not be; error 0: it was, or
                                       may be yet */
    struct words *words; /* heap; NULL with ops that have no clients */
    uint64_t unheard_us; /* nothing is read from it until then; 0: it is */
    uint64_t
        silent_us;    /* not up until then: it is named; 0: it was, or is up */
    uint64_t kill_us; /* the next of the two: the lifeline, SIGKILL; 0: it was
                         not asked to stop */
    bool cut;         /* the first has been done */
    struct launched_group
        *groups; /* [n_groups] process groups of its workers */
    size_t n_groups, groups_max;
};

struct launch_ops {
    const char *name;
    bool same_machine; /* pids that its agents tell are pids here; workers have
                          its environment through them */
    bool client;       /* what it starts is not the agent: it takes its time,
                          and says on stderr what went wrong */
    const char *(*program)(void); /* the client's; NULL: it has none */
    bool shepherd; /* the client's own child ends the agent when the client is
                          killed: that one is let live */
    /* Start the agent item->agent for item->host: sets pid, pidfd,
     * lifeline_fd, report_fd and stderr_fd (both non-blocking) of *item. Does
     * not wait for it to come up, nor for execve(2). May block for the
     * milliseconds of a fork. HVD_ERR_SYSTEM, HVD_ERR_NOMEM with the sentence.
     */
    hvd_status_t (*start)(const struct launch_config *config,
                          struct launched *item);
};

extern const struct launch_ops launch_local, launch_ssh, launch_slurm;

/* Part of --start-timeout, 10 s at most: for a host that does not answer. */
uint64_t launch_connect_time(const struct launch_config *config);

struct launch {
    struct launch_config config;
    struct launch_paths paths;
    int epoll_fd;           /* launch_ended() has something to do */
    struct local local;     /* names of this machine */
    struct launched *items; /* [n] */
    size_t n, max, n_over;  /* LAUNCHED_IS_OVER */
    uint64_t due_us;        /* nothing of launch_tick()'s is due before */
};

/* Zeroed memory, and what launch_fini() leaves: no launch; fini is fine. */
hvd_status_t launch_init(struct launch *l,
                         const struct launch_config *config) HVD_MUST_CHECK;
/* Closes all lifelines, gives agents 3 s, kills and reaps the rest. */
void launch_fini(struct launch *l);
/* Lets go of all of them, as they are: those of this machine are another
 * driver's now. */
void launch_abandon(struct launch *l);

/* An agent of another driver. HVD_PEER_LOST: it has ended; HVD_ERR_NOMEM,
 * HVD_ERR_SYSTEM. */
hvd_status_t launch_adopt(struct launch *l, uint64_t agent, pid_t pid,
                          uint64_t started) HVD_MUST_CHECK;
/* The same of another machine: whether it lives is told by heartbeats alone. */
hvd_status_t launch_adopt_far(struct launch *l, uint64_t agent,
                              const char *host) HVD_MUST_CHECK;
/* NULL: it was neither started nor adopted here, or has been reaped. */
const struct launched *launch_find(const struct launch *l, uint64_t agent);

/* Is there one that has not ended, as far as this machine can see? True as well
 * if there are none. */
bool launch_lives(const struct launch *l);

/* Start it now, or when there is a place: launch_tick(). What goes wrong later
 * is told by launch_ended(). HVD_ERR_SYSTEM, HVD_ERR_NOMEM: nothing is started.
 */
hvd_status_t launch_start(struct launch *l, uint64_t agent, const char *host,
                          const char *user) HVD_MUST_CHECK;
/* It has called: its place is another's. */
void launch_up(struct launch *l, uint64_t agent);

/* A worker of the agent leads process group `pid`, or has ended. What an agent
 * that dies leaves of these groups dies with it: the kernel ends the workers,
 * but not what they have forked. */
void launch_spawned(struct launch *l, uint64_t agent, int64_t pid);
void launch_exited(struct launch *l, uint64_t agent, int64_t pid);

/* The agent is to end: its lifeline is closed at deadline_us, and it is killed
 * 3 s later. It has been asked by message before. A client whose agent has not
 * called ends at once. */
void launch_stop(struct launch *l, uint64_t agent, uint64_t deadline_us);

/* One that is to end has something left to say: not before deadline_us. */
void launch_postpone(struct launch *l, uint64_t agent, uint64_t deadline_us);

/* Nobody believes in the agent any more: SIGKILL, and to the groups of its
 * workers; of another machine its lifeline is closed, its client killed. */
void launch_kill(struct launch *l, uint64_t agent);

/* Carry out what is due: stops, and starts for which there is a place; the next
 * time something is, or CLOCK_NEVER. */
uint64_t launch_tick(struct launch *l, uint64_t now_us);

struct launch_end {
    uint64_t agent;
    bool client; /* only its client has: launch_kill() if it is not heard */
    char how[WORDS_LINE_MAX + 64]; /* in words */
};

/* Hear what clients say, and reap agents that have ended, ends [max] at most.
 * How many; it may be called again. */
size_t launch_ended(struct launch *l, struct launch_end *ends, size_t max);

#endif
