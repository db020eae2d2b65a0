/* elastic/agent/core.h - what an agent decides, which is little: when to say
 * hello and ping, which child to signal when, what to report, when to end.
 *
 *   agent   CONTACT --WELCOME--> RUNNING --shutdown, driver lost--> ENDING
 *                                                  --all reaped--> ENDED
 *   child   SPAWNED --exec done--> ALIVE --KILL--> KILLED --exit--> REAPED
 *           (SPAWNED may be killed, and each of the three may just end)
 *
 * DYING: a thread that a worker cannot do without has ended, so its process
 * does, or has to. The agent reports it to the driver at once, and its exit,
 * which may come much later, as ever. If the kernel says that the process ends
 * badly, the agent kills its process group. If not, the process may be a script
 * above the worker, or run another program now: the driver decides.
 *
 * SUCCESSOR: another driver of this job was dialled. It gets AGENT_HELLO, and
 * when it has answered, all that is known of children, ended ones too: what was
 * told to the driver before may be lost with it (M15).
 *
 * NOTICE, or the first TERMINATE: the host is about to go. The driver is told,
 * and again with each ping, also a successor; it drains the workers and stops
 * the agent. A second TERMINATE ends it at once.
 *
 * Events in, actions out: the loop (loop.c) performs the actions in order. All
 * handlers are idempotent by worker id: a repeated SPAWN or KILL is answered
 * with what is known of that worker. Reports are sent once; one that the socket
 * did not take is told back with agent_core_unsent() and repeated.
 *
 * Pure. Threads: none of its own. Memory: grows only in agent_core_reserve().
 */
#ifndef ELASTIC_AGENT_CORE_H
#define ELASTIC_AGENT_CORE_H

#include <hvd/status.h>

#include "elastic/wire/message.h"

#define AGENT_NEVER UINT64_MAX

enum agent_phase { AGENT_CONTACT, AGENT_RUNNING, AGENT_ENDING, AGENT_ENDED };

enum agent_child_state {
    CHILD_SPAWNED, /* forked, exec not confirmed */
    CHILD_ALIVE,   /* runs its program */
    CHILD_KILLED,  /* signalled, not gone yet */
    CHILD_REAPED   /* gone, or it never ran */
};

struct agent_config {
    uint64_t job;
    uint64_t term; /* of the driver that has started this agent */
    struct msg_agent_hello hello;
    uint64_t beat_us;           /* between hellos, between pings */
    uint64_t retry_us;          /* until a message is tried again that the
                                   socket did not take */
    uint64_t driver_timeout_us; /* silence that means: the driver is lost.
                                   Both are the driver's to say in WELCOME */
    uint64_t output_hold_us;    /* how long a worker may have to wait until
                                   its output is taken; told in WELCOME, too */
    uint64_t orphan_us;         /* how long workers live on without a driver */
    bool survives;              /* a successor may come: nothing but its silence
                                   says that there is no driver any more */
    bool remote;                /* the lifeline is a network's: it may end
                                   before the driver, who is heard then */
    uint64_t grace_us;          /* SIGTERM to SIGKILL when the agent ends */
    uint64_t reap_us;           /* SIGKILL to giving up on a child */
};

/* The numbers of the design; the caller adds job and hello. */
#define AGENT_CONFIG_DEFAULTS                                               \
    {                                                                       \
        .beat_us = 200000, .retry_us = 5000, .driver_timeout_us = 30000000, \
        .orphan_us = 0, .grace_us = 2000000, .reap_us = 10000000            \
    }

enum { AGENT_REMEMBERED = 1024 }; /* reaped children that are still known */

struct agent_child {
    uint64_t worker;
    uint32_t slot;
    int64_t pid;                  /* 0 until forked */
    enum agent_child_state state; /* move_child() */
    bool failed;                  /* never ran: error and text say why */
    bool term_sent;               /* SIGTERM has been sent */
    bool dying;                   /* it is as good as dead, and not gone yet */
    uint64_t kill_us;             /* SIGKILL is due; AGENT_NEVER */
    uint64_t retry_us; /* a report the socket did not take; AGENT_NEVER */
    int64_t code, signal;
    bool core;
    int64_t error; /* errno */
    char text[WIRE_TEXT_MAX];
};

enum agent_event_type {
    AGENT_EV_MESSAGE,      /* message: from the driver's control socket */
    AGENT_EV_FORKED,       /* worker, pid */
    AGENT_EV_STARTED,      /* worker: its exec succeeded */
    AGENT_EV_START_FAILED, /* worker, error, text */
    AGENT_EV_DYING,        /* worker, direct, gone; code EXIT_UNKNOWN, or
                              code, signal, core */
    AGENT_EV_EXITED,       /* worker, code, signal, core; not yet reaped */
    AGENT_EV_DRIVER_LOST,  /* end of the lifeline; not if it survives that */
    AGENT_EV_SUCCESSOR,    /* term: higher than that of the driver before */
    AGENT_EV_MOVED,        /* the driver has answered by another connection */
    AGENT_EV_NOTICE,       /* the host will go: left_us, text */
    AGENT_EV_TERMINATE,    /* SIGTERM to the agent */
    AGENT_EV_INTERRUPT,    /* SIGINT: it is to end */
    AGENT_EV_TICK
};

struct agent_event {
    enum agent_event_type type;
    uint64_t now_us; /* never goes backwards */
    const struct message *message;
    uint64_t worker;
    int64_t pid;
    int64_t code, signal;
    bool core;
    bool direct; /* the process that dies is that of pid */
    bool gone;   /* ... is not, and is reaped: its script may end as well */
    int64_t error;
    const char *text;
    uint64_t term;
    uint64_t left_us;
};

enum agent_action_type {
    AGENT_DO_SEND,   /* message, worker: see agent_core_message() */
    AGENT_DO_SPAWN,  /* start what the event's message says; answer with FORKED
                        or START_FAILED. At most one per step */
    AGENT_DO_SIGNAL, /* signo to pid and its process group */
    AGENT_DO_EXIT    /* end with status */
};

struct agent_action {
    enum agent_action_type type;
    enum message_type message;
    uint64_t worker;
    int64_t pid;
    int signo;
    int status;
};

struct agent_core {
    struct agent_config config;
    enum agent_phase phase; /* move() */
    bool welcome;           /* the driver has answered */
    bool greeting;          /* a successor was dialled and has not */
    uint32_t n_retells;     /* beats that tell it of all children again */
    bool driver_lost;
    bool sees_dir; /* the loop's: the job's directory is seen from here */
    bool noticed, terminated; /* the host will go; SIGTERM has come */
    uint64_t go_us;           /* ... then; AGENT_NEVER: not known */
    char notice[WIRE_TEXT_MAX];
    bool reported; /* this step says something about a child */
    uint64_t now_us;
    uint64_t heard_us;  /* last word of the driver, later if we were away */
    uint64_t word_us;   /* last word of the driver */
    uint64_t beat_us;   /* next hello or ping */
    uint64_t orphan_us; /* driver lost: the end begins */
    uint64_t cut_us;    /* the lifeline has ended; AGENT_NEVER: not, or the
                           driver has been heard since */
    uint64_t give_up_us;
    uint64_t term;                /* of the one driver that is heard */
    struct agent_child *children; /* [n_children], oldest first */
    size_t n_children, children_max;
    size_t n_live;      /* children not REAPED */
    uint64_t forgotten; /* the newest that is not known any more */
    struct agent_action *actions;
    size_t n_actions, actions_max;
};

/* False: out of memory. */
bool agent_core_init(struct agent_core *core, const struct agent_config *config,
                     uint64_t now_us) HVD_MUST_CHECK;
void agent_core_fini(struct agent_core *core);

/* Make room for one more child, forgetting the oldest reaped ones beyond
 * AGENT_REMEMBERED; before each AGENT_EV_MESSAGE. False: out of memory, and the
 * event must not be fed. */
bool agent_core_reserve(struct agent_core *core) HVD_MUST_CHECK;

/* Feed one event. *actions_p [*n_p] is what the caller must now do, in order;
 * valid until the next step. HVD_OK, or HVD_ERR_PROTOCOL: a message that an
 * agent does not take, of another job or another term; nothing changed. */
hvd_status_t agent_core_step(struct agent_core *core,
                             const struct agent_event *ev,
                             const struct agent_action **actions_p,
                             size_t *n_p) HVD_MUST_CHECK;

/* Absolute time of the next AGENT_EV_TICK, or AGENT_NEVER. */
uint64_t agent_core_deadline(const struct agent_core *core);

/* The message of an AGENT_DO_SEND. */
void agent_core_message(const struct agent_core *core,
                        const struct agent_action *action, struct message *m);

/* That AGENT_DO_SEND was not taken by the socket: it is repeated. */
void agent_core_unsent(struct agent_core *core,
                       const struct agent_action *action);

/* NULL: not known (any more). */
const struct agent_child *agent_core_child(const struct agent_core *core,
                                           uint64_t worker);

#endif
