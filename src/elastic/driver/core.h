/* elastic/driver/core.h - the driver as a pure, deterministic state machine:
 * events in, actions out. It owns membership: hosts, slots, workers,
 * generations.
 *
 *            gate reached             all DONE, or a verdict
 *   WAITING --------------> RUNNING -------------------------> STOPPING
 *                            |   ^         (release, shut down, reap) |
 *       loss: ABORT;         |   | every candidate READY: ASSIGN      v
 *       hosts: HOLD, CUT     v   |                                 STOPPED
 *                         RENDEZVOUS
 *
 * WAITING is a rendezvous without a generation before it. A successor begins in
 * ADOPTING, which leads to all but STOPPED. Code names the rule of
 * docs/protocol.md (M1-M15) that it carries.
 *
 * Files: core.c (events, dispatch), rows.c (the tables), members.c (workers
 * from birth to death), exits.c (reports of agents), holders.c (which workers
 * have a state), patience.c and silence.c (when a worker is given up), hang.c
 * (members without progress), stall.c (calls by name that wait), rendezvous.c
 * (READY to the draw), generation.c (ASSIGN), accusations.c and doubt.c (peers
 * that lose each other), abilities.c (ranks of a host), change.c (HOLD, CUT),
 * placement.c (hosts, agents, spawns), plan.c (ranks to be), failures.c (the
 * cost of a failure, the blacklist), leaving.c (drain), adopt.c and inherit.c
 * (succession), finish.c (the end of a job), report.c (the event log).
 * Pure: no clock, socket, process, log. Time is an argument in microseconds.
 * Memory follows what is used: a hosts event makes rows of hosts, before
 * anything is changed; a host gets its slots when an agent is to be started
 * there, and a worker its row when it is to be spawned. Without memory neither
 * happens, and both are tried again with the next tick. Rows of workers and
 * hosts that are gone are freed at ticks. Action memory belongs to the core
 * until the next driver_step(). Threads: none of its own. */
#ifndef ELASTIC_DRIVER_CORE_H
#define ELASTIC_DRIVER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "base/ids.h"
#include "base/random.h"
#include "discovery/assignment.h"
#include "discovery/blacklist.h"
#include "discovery/hosts.h"
#include "elastic/driver/budgets.h"
#include "elastic/driver/memory.h"
#include "elastic/wire/message.h"

#define DRIVER_NEVER UINT64_MAX

struct driver_config {
    uint64_t job, term;
    uint32_t np, min_np;
    uint32_t max_np;     /* 0: unbounded */
    int64_t reset_limit; /* < 0: none */
    uint32_t slot_restarts;
    bool strict_blacklist;
    struct blacklist_config blacklist; /* of a host, or a slot (M11) */
    bool hosts_fixed;                  /* discovery will never list others */
    uint64_t elastic_timeout_us, start_timeout_us, drain_timeout_us;
    uint64_t exit_timeout_us;      /* from the release to an exit; 0: none */
    uint64_t commit_timeout_us;    /* without a commit; 0: none (M12) */
    uint64_t heartbeat_us;         /* workers send PING this often */
    uint64_t heartbeat_timeout_us; /* silence that means dead */
    uint64_t hang_timeout_us;      /* 0: never evict for lack of progress */
    uint64_t stall_check_us;    /* calls by name that wait are named; 0: no */
    uint64_t stall_shutdown_us; /* ranks that lack such are evicted; 0: no */
    uint64_t driver_timeout_us; /* told to agents and workers */
    bool answers;        /* each PING is: in silence others look for a driver */
    bool answers_agents; /* each of an agent is */
    bool before_may_live; /* the driver before was seen silent, not ended */
    uint64_t connect_timeout_us; /* told to workers */
    bool doubts; /* after an accusation the driver asks whether the two hosts
                    reach each other */
    bool encrypt_data; /* told to workers */
    uint64_t seed;     /* jitter */
};

/* ---- events -------------------------------------------------------------- */

enum driver_event_type {
    DRIVER_EV_HOSTS,         /* u.hosts: discovery's newest answer */
    DRIVER_EV_DISCOVERY_BAD, /* u.discovery: it failed */
    DRIVER_EV_AGENT_UP,      /* u.agent: AGENT_HELLO (first or repeated) */
    DRIVER_EV_AGENT_REFUSED, /* u.agent: none of ours, nor when started again */
    DRIVER_EV_OTHER_BUILD,   /* u.agent: of its host, text says of what */
    DRIVER_EV_AGENT_PING,    /* u.agent */
    DRIVER_EV_NOTICE,        /* u.agent: its host will go */
    DRIVER_EV_AGENT_GONE,    /* its process ended, or it could not be started */
    DRIVER_EV_AGENT_APART,   /* u.agent: other hosts and its cannot reach each
                                other; text: the tries. It is to come up, or in
                                doubt */
    DRIVER_EV_SPAWNED,       /* u.spawned */
    DRIVER_EV_SPAWN_FAILED,  /* u.spawn_failed */
    DRIVER_EV_DYING,         /* u.exited: it ends, and has yet to exit */
    DRIVER_EV_EXITED,        /* u.exited */
    DRIVER_EV_MESSAGE,       /* u.message: from a worker */
    DRIVER_EV_UNFIT,         /* u.unfit: why a worker cannot take part */
    DRIVER_EV_UNSAYABLE,     /* u.unsayable: an ASSIGN cannot be encoded */
    DRIVER_EV_INTERRUPT,     /* u.signal: the first drains, a second that
                                driver_heeds() kills */
    DRIVER_EV_TIMEOUT        /* driver_deadline() has come, no message waits */
};

struct driver_event {
    enum driver_event_type type;
    uint64_t by; /* SPAWNED to EXITED: of this agent; UNFIT: the worker */
    union {
        const struct hosts *hosts;
        struct {
            const char *text;
            bool lasts; /* as long as no answer has come, it ends the job */
        } discovery;
        struct {
            uint64_t agent;
            int64_t pid;
            uint64_t n_alive;  /* PING: workers that it still runs */
            uint64_t stamp_us; /* PING: for the PONG */
            bool sees_dir;     /* PING: struct msg_agent_ping */
            const char *host;  /* UP: its name, as it says */
            const char *text;  /* GONE, REFUSED, OTHER_BUILD: how; APART,
                                  NOTICE: why, or "" */
            uint64_t left_us;  /* NOTICE: until then; DRIVER_NEVER: not known */
            bool here; /* GONE: the driver's own machine could not start it */
        } agent;
        struct msg_spawned spawned;
        struct msg_spawn_failed spawn_failed;
        struct msg_worker_exited exited;
        const struct message *message;
        const char *unfit;
        struct {
            uint64_t generation;
            const char *text; /* why */
        } unsayable;
        int signal;
    } u;
};

/* ---- actions ------------------------------------------------------------- */

enum driver_action_type {
    DRIVER_ACT_START_AGENT, /* agent, host */
    DRIVER_ACT_STOP_AGENT,  /* agent: AGENT_SHUTDOWN; its end is awaited */
    DRIVER_ACT_KILL_AGENT,  /* agent: given up, nothing more of it counts */
    DRIVER_ACT_DOUBT,  /* agent: does it and `other` reach each other? AGENT_UP
                         is the answer, or AGENT_APART */
    DRIVER_ACT_SPAWN,  /* agent, worker, slot */
    DRIVER_ACT_KILL,   /* agent, worker, grace_ms */
    DRIVER_ACT_PONG,   /* agent, stamp_us: AGENT_PONG */
    DRIVER_ACT_SEND,   /* worker: message. In an ASSIGN key and table are left
                               empty. The caller fills them: one key per
                               generation; driver_table(), encoded once, and
                               once as a change for those that know the table
                               before */
    DRIVER_ACT_RECORD, /* a line of the event log and of the console */
    DRIVER_ACT_FINISH  /* everything has ended: exit with status, text */
};

enum driver_record_type {
    RECORD_JOB_STARTED,
    RECORD_JOB_RESUMED,      /* n: term of the driver that has taken over */
    RECORD_HOST_ADDED,       /* host, n: slots */
    RECORD_HOST_REMOVED,     /* host */
    RECORD_HOST_BLACKLISTED, /* host, until_us, text: why */
    RECORD_START_FAILED, /* host, duration_us until it is tried again, text: why
                            nothing could be started there */
    RECORD_SLOT_CLOSED,  /* host, slot, until_us, text: why */
    RECORD_HOST_LEAVING, /* host, duration_us until it goes, text: why */
    RECORD_HOST_APART,   /* host, duration_us until it is tried again, text:
                                the tries */
    RECORD_AGENT_STARTED,  /* host, pid */
    RECORD_AGENT_LOST,     /* host, text: how */
    RECORD_WORKER_SPAWNED, /* worker, host, slot, pid */
    RECORD_WORKER_READY,   /* worker, duration_us since spawned; once */
    RECORD_WORKER_EXITED,  /* worker, pid, code or signal */
    RECORD_WORKER_LOST,    /* worker, text: how */
    RECORD_HOSTS_UPDATED, /* n: flags, cut: boundary, duration_us HOLD -> CUT */
    RECORD_GENERATION_STARTED, /* text: reason */
    RECORD_GENERATION_FORMED,  /* n: size; root; duration_us since
                                 generation_started; rows: driver_table() */
    RECORD_STATE_SYNCED,       /* rank, nbytes, n: sources, duration_us */
    RECORD_FIRST_COLLECTIVE,   /* rank, duration_us since generation_started */
    RECORD_WORKER_DRAINED,     /* worker */
    RECORD_STALL,    /* duration_us that a call has waited, text: the ranks */
    RECORD_RELEASED, /* n: members */
    RECORD_JOB_FINISHED, /* status, text */
    RECORD_NOTE,         /* text: console only */
    RECORD_WARNING       /* the same, and odd */
};

struct driver_record {
    enum driver_record_type type;
    uint64_t generation;
    const char *host; /* name, borrowed until the next step; NULL: none */
    uint64_t worker;
    uint32_t slot;
    int64_t pid, code, signal;
    int rank, root;
    uint64_t n, cut, nbytes, duration_us, until_us;
    int status;
    bool quiet; /* it was told a while ago: not written, nor printed */
    char text[WIRE_TEXT_MAX];
};

struct driver_action {
    enum driver_action_type type;
    uint64_t agent, worker;
    uint32_t slot;
    const char *host;  /* name, borrowed until the next step */
    const char *user;  /* START_AGENT: to log in as, or ""; likewise */
    bool knows_before; /* SEND of ASSIGN: the worker has the table before */
    union {
        uint64_t grace_ms;
        uint64_t stamp_us;
        struct {               /* DOUBT */
            uint64_t other;    /* agent; it may have ended */
            uint64_t limit_us; /* for the agents' answers; 0: as ever */
        } doubt;
        struct message message;
        struct driver_record record;
        struct {
            int status; /* of the process: 0, 1, 128 + n */
            char text[WIRE_TEXT_MAX];
        } finish;
    } u;
};

/* ---- memory of the core ---------------------------------------------------
 */

/*              +--> WAITING ---> RUNNING <---> RENDEZVOUS
 *   ADOPTING --+                    ^              ^
 *              +--------------------+--------------+
 *
 * and from each to STOPPING ---> STOPPED. */
enum driver_phase {
    DRIVER_WAITING,    /* for the first min-np workers */
    DRIVER_RENDEZVOUS, /* a generation has ended, the next is not formed */
    DRIVER_RUNNING,
    DRIVER_ADOPTING, /* a successor finds out which workers live (M15) */
    DRIVER_STOPPING, /* the verdict is spoken; workers and agents still end */
    DRIVER_STOPPED
};

enum change_phase {
    CHANGE_NONE,
    CHANGE_HOLDING, /* HOLD sent, collecting HELD */
    CHANGE_CUTTING, /* CUT sent, members are on their way to the boundary */
    CHANGE_OVER     /* CUT(never), until the generation ends */
};

/* The agent of a host has reported that the host will go:
 *
 *   NONE ---> STANDS ---> PASSES ---> NONE
 *               +---------------------> NONE
 *
 * STANDS until discovery stops listing it (then it passes when its agent has
 * ended, which goes on saying so), or until it should have gone so long ago
 * that it seems to have stayed. */
enum host_notice { NOTICE_NONE, NOTICE_STANDS, NOTICE_PASSES };

/* NONE ---> STARTING ---> UP ---> STOPPING ---> NONE: its end, or it is given
 * up, from each; one that is STARTING may be told to go as well. */
enum host_agent_phase { AGENT_NONE, AGENT_STARTING, AGENT_UP, AGENT_STOPPING };

struct driver_slot {
    uint64_t worker;        /* occupant, until it has exited; 0: free */
    uint64_t next_start_us; /* not before */
    bool closed; /* stays empty: wrong layout, or the worker asked to leave */
    uint32_t n_closed; /* how often its budget was used up: it was closed until
                          next_start_us (M11) */
    uint32_t n_failed; /* failures that still count, and when they were: */
    uint64_t failed_us[]; /* [slot_restarts] */
};

/* A host that is listed, or that something still counts of: somebody who lives
 * there, failures, the blacklist. */
struct driver_host {
    char name[HOSTS_NAME_MAX];
    char user[HOSTS_USER_MAX];   /* to log in as; "": as the launcher has it */
    bool listed;                 /* in discovery's newest answer */
    bool drains;                 /* discovery says that it is to be left */
    uint32_t n_slots;            /* as discovered; 0 when not listed */
    uint32_t n_workers;          /* slots that are not free */
    uint32_t order;              /* age: lower is older */
    enum host_notice notice : 8; /* leaving.c */
    uint16_t rest_ms;            /* see start_us */
    uint64_t notice_until_us;    /* STANDS: no longer than that */
    uint64_t go_us; /* host_leaves(): it has gone by then, the soonest said */
    struct blacklist blacklist;
    /* failed starts (M11): no start before start_us, after a rest of rest_ms;
     * since when they fail, or 0; not reported again before tell_us */
    uint64_t start_us, failing_us, tell_us;
    uint32_t planned_before; /* workers of the hosts before it: plan.c */
    enum host_agent_phase agent_phase; /* agent_move() */
    uint64_t agent;                    /* id of the current incarnation */
    uint64_t agent_since_us, agent_heard_us;
    uint64_t back_us;  /* its agent was heard after a pause (silence.c) */
    uint64_t heard_us; /* one of its workers was heard */
    uint64_t pong_us;  /* when its last PING was answered */
    uint64_t wave;     /* workers of a wave are announced together (M7) */
    bool fresh;        /* its agent has just come up: spawns belong to `wave` */
    bool rest_due, other_build; /* see n_evicted; that was reported */
    bool sees_dir;     /* its agent has said so: struct msg_agent_ping */
    uint32_t promised; /* of its slots, to be filled when its agent is up */
    bool inherited;    /* its agent has yet to tell all it knows */
    bool awaited;      /* see doubt_us */
    bool meddled;      /* its agent has reported on another's worker */
    bool fails_here;   /* the driver's machine could not start its agent */
    uint16_t n_apart;  /* how often in a row it was apart from the others */
    /* accused workers since one of its generations has committed: from the
     * second one on the host is left alone when the doubt ends */
    uint16_t n_evicted;
    /* in doubt, after one of its workers was accused: nobody is started. The
     * agent of the other; when that is asked again, or, if the next generation
     * awaits the answer (doubt.c), by when; 0: it was asked */
    uint64_t doubted_by, doubt_us;
    void *slots; /* [slots_max] slot_at(); none until an agent is started */
    size_t slots_max;
};

/* Which host an agent is of; it may have ended. */
struct driver_agent {
    uint64_t id;
    uint32_t host; /* row in hosts */
};

/* The process of a worker.
 *
 *   STARTING --- HELLO --> UP --- SHUTDOWN, RELEASE --> ENDING
 *      |  |                |                              |  ^
 *      |  +- killed before it called ---------------------|--+
 *      +------ exit, silence, eviction: DEAD <------------+
 *                                        +--- exit is told --> GONE
 */
enum worker_life {
    LIFE_STARTING, /* SPAWN was sent */
    LIFE_UP,       /* HELLO has come */
    LIFE_ENDING,   /* it was told to go (farewell), or is killed */
    LIFE_DEAD,     /* counts for nothing any more; waits for its exit */
    LIFE_GONE      /* has exited, and its row is free */
};

/* The standing of a worker among the others.
 *
 *   OUT --- READY --> WAITING --- ASSIGN --> RUNNING --- DONE --> DONE
 *                        ^                    |  ^                 |
 *                        |                    |  +---- ABORT ------+
 *                        +-- not drawn -- READY <- READY(lost, updated)
 *
 * and to OUT from everywhere. The dead stay RUNNING until a generation without
 * them is formed. */
enum worker_standing {
    STAND_OUT,     /* no member, not READY */
    STAND_WAITING, /* no member, READY: may be drawn */
    STAND_RUNNING, /* member of the current generation; so are the others */
    STAND_DONE,    /* has trained to the end */
    STAND_READY    /* has left it, and is READY for the next */
};

enum worker_drain {
    DRAIN_NONE,
    DRAIN_WANTED,   /* is to leave */
    DRAIN_ANNOUNCED /* and members have been told that somebody will */
};

/* When a worker that is to leave is ended in any case (M9). */
struct drain_times {
    uint64_t spare_us;    /* though --min-np need it */
    uint64_t deadline_us; /* it is killed, if others have waited for it: */
    uint64_t patience_us; /* this long */
};

/* The HELLO of a worker to a successor: struct msg_where. */
struct driver_where {
    uint8_t phase, reason;
    uint64_t generation, fence, joined;
    uint32_t rank, size;
    struct state_id base, id;
    uint64_t boundary, hold_sequence, cut;
    bool held, has_cut;
};

/* How a worker was told to go: RELEASE, SHUTDOWN; MSG_NONE: it was not, as it
 * had not called. */
struct driver_farewell {
    enum message_type type;
    uint8_t reason; /* enum shutdown_reason */
    int64_t status;
    const char *text; /* lives as long as the worker: static, the verdict or
                         `refusal` */
};

/* Of its READY. */
struct driver_offer {
    struct state_id id; /* newest complete snapshot */
    uint64_t boundary;  /* passed in the generation it leaves */
    uint32_t user;
    uint8_t abilities; /* enum ready_ability */
    char settings[WIRE_SETTINGS_MAX];
};

/* A worker from its SPAWN until it has exited. */
struct driver_worker {
    uint64_t id;
    uint32_t host; /* row in hosts */
    uint32_t slot;
    int64_t pid;
    uint64_t wave, spawned_us, heard_us;
    uint64_t told_us; /* SPAWN was last sent; repeated until it is answered */
    uint64_t pong_us; /* when its last PING was answered */
    enum worker_life life; /* worker_move() */
    bool spawned;          /* SPAWNED has come, which HELLO may overtake */
    bool inherited;        /* another driver has started it */
    bool greeted; /* an inherited worker has sent HELLO to this driver: */
    struct driver_where where;
    bool called;        /* HELLO has come: its pid, address and port stand */
    bool contradicted;  /* another HELLO was refused */
    int64_t called_pid; /* `pid` may be a shell's in which it runs */
    enum worker_drain drain;
    struct drain_times drain_by;
    uint64_t kill_us; /* kill it if it has not exited by then; 0: never */
    bool unexplained; /* it is dying: its exit will tell how */
    bool parted;      /* released: its silence means nothing any more */
    bool told_silent; /* its silence was reported */
    struct driver_farewell farewell; /* repeated */
    char *refusal; /* heap: the text of a farewell that is its own; or NULL */
    /* membership */
    enum worker_standing standing; /* worker_stand() */
    bool was_ready;
    uint64_t joined; /* first generation; 0: newcomer */
    uint64_t named;  /* last generation named to it in ASSIGN or ABORT (M3) */
    struct driver_offer offer;
    char address[WIRE_ADDRESS_MAX];
    uint16_t port;
    /* in the generation that it was last a member of */
    uint32_t rank, local_rank, local_size, cross_rank, cross_size;
    uint64_t assigned_us; /* when ASSIGN was last sent, and how often again */
    uint32_t n_assigned;
    uint64_t left;        /* boundary at which it left the one before */
    bool held, held_done; /* has answered HOLD; and was DONE then */
    bool first_collective, synced; /* has reported it */
    bool stays, stay_told; /* at the close at hand: draining, not let go (M9) */
    uint64_t suspected_us; /* when another went, it may be in its stead: M5 */
    bool entered;          /* has completed a collective in some generation */
    struct state_id state; /* greatest that it has reported: holders.c */
    struct state_id done_id;
    uint64_t held_boundary;
    struct msg_ping ping; /* newest */
    uint64_t pinged_us;   /* when it came */
    uint64_t there_us;    /* since then its pings say that it is where it is */
    uint64_t progress_us; /* when a ping last told that it got on */
    bool hang_warned;
    struct msg_waiting *waiting; /* heap: newest; NULL: none */
    uint64_t waiting_us;         /* when it came, */
    uint64_t waiting_since_us;   /* and since when there is one each time */
};

static inline bool worker_is_dead(const struct driver_worker *w)
{
    return w->life >= LIFE_DEAD;
}

/* Alive, and not on its way out. */
static inline bool worker_is_here(const struct driver_worker *w)
{
    return w->life <= LIFE_UP;
}

/* Alive, not on its way out, and not asked to leave. */
static inline bool worker_is_live(const struct driver_worker *w)
{
    return worker_is_here(w) && w->drain == DRAIN_NONE;
}

static inline bool worker_is_ready(const struct driver_worker *w)
{
    return w->standing == STAND_WAITING || w->standing == STAND_READY;
}

/* The worker is of the current generation, dead or alive. */
static inline bool worker_is_enlisted(const struct driver_worker *w)
{
    return w->standing >= STAND_RUNNING;
}

struct driver_accusation {
    uint64_t by, of; /* worker ids */
    bool proven;     /* founded: see accusations.c */
};

/* A worker of a wave that was found to be on its way. While it is, the wave is
 * pending, and the others need not be looked at (M7). */
struct driver_awaited {
    uint64_t wave, worker;
};

enum { DRIVER_ACCUSATIONS_MAX = 64, DRIVER_AWAITED_MAX = 16 };

struct driver {
    struct driver_config config;
    enum driver_phase phase; /* driver_move() */
    enum change_phase change;
    uint64_t now_us;
    struct random_state random;
    bool discovered;     /* a first answer has come */
    uint64_t quiet_us;   /* until then no failure of discovery is told again */
    uint32_t bad, n_bad; /* digest of the one told last; how many were told */
    uint32_t n_empty;    /* answers without a host, in a row */
    uint64_t empty_us;   /* when the first of them came */
    uint64_t empty_quiet_us; /* until then they are not told again */

    struct driver_host
        *hosts; /* in the order in which they were first listed */
    size_t n_hosts, hosts_max;
    size_t n_listed; /* of them */
    uint32_t next_order;
    uint64_t wave;
    struct driver_agent *agents; /* sorted by id */
    size_t n_agents, agents_max;
    size_t n_hosts_in[AGENT_STOPPING + 1]; /* by agent_phase, but for NONE */

    struct driver_worker *workers; /* sorted by id: by age of the process */
    size_t n_workers, workers_max;
    uint32_t n_planned;   /* workers that there will be: plan.c */
    uint64_t complain_us; /* that memory is lacking may be said again then */
    size_t n_gone;        /* rows among them that are free */
    uint64_t next_worker, next_agent;

    uint64_t generation;                   /* of the last ASSIGN */
    uint64_t generation_floor, hold_floor; /* the next are above them */
    uint64_t adopt_us;                     /* ADOPTING ends by then */
    bool knows_nobody; /* it began with no agent: some may come all the same */
    bool review_hosts; /* the next answer is looked at as if it were another */
    struct state_id base;
    uint8_t kind; /* enum ready_kind of the job; 0: not known */
    bool layout_known;
    uint8_t layout[WIRE_DIGEST_NBYTES];
    char layout_text[WIRE_TEXT_MAX];
    bool aborted; /* the last generation ended with ABORT */
    struct msg_abort abort;
    bool committed;      /* the current generation has committed */
    bool bounded;        /* a member of it has passed a boundary */
    bool ever_committed; /* somebody, some time */
    bool death;          /* a member died since the current generation formed */
    bool hang_warned;    /* all its members wait, and none gets on */
    uint64_t stall_warned; /* generation in which a stall was told last, */
    uint64_t stall_us, shut_out_us; /* and when; see hang.c */
    /* generations in a row without a commit, since when; and of those that
     * came last, how many of the same members (M12) */
    uint32_t fruitless, alike;
    uint64_t fruitless_us;
    uint64_t resets;      /* counted by --reset-limit */
    uint8_t reason;       /* enum ready_reason of the open rendezvous */
    uint64_t opened_us;   /* when the open rendezvous began */
    uint64_t patience_us; /* the same for its deadline: a stall moves it */
    uint64_t formed_us;   /* when the current generation was assigned */
    uint64_t below_us; /* first moment below the gate; DRIVER_NEVER: is not */
    /* silence.c: nobody is given up for silence since then, 0: silence is
     * judged; somebody would have been; nor is anybody until then */
    uint64_t withholds_us;
    bool withheld;
    uint64_t spared_us;
    uint32_t world_size;      /* of the current generation */
    struct msg_assign assign; /* without the fields of each member */
    struct assign_table table, table_before;

    uint64_t hold_sequence, hold_us;
    uint8_t hold_flags;
    uint64_t cut;

    struct driver_accusation accused[DRIVER_ACCUSATIONS_MAX];
    struct driver_accusation accused_before[DRIVER_ACCUSATIONS_MAX];
    size_t n_accused, n_accused_before;
    uint64_t asked_generation; /* its accusations were asked about (doubt.c) */
    struct driver_awaited awaited[DRIVER_AWAITED_MAX]; /* by wave, modulo */

    int interrupts;
    uint64_t interrupted_us; /* the first of them */
    int exit_status;
    bool released; /* members were told that they may end */
    bool unsure;   /* the driver before has released them, and a worker that
                      the journal lacks may be one of them */
    uint64_t drained_us;         /* interrupted: all have left by then */
    uint64_t exit_deadline_us;   /* released: all have exited by then */
    uint64_t give_up_us;         /* workers that live then are left behind */
    uint64_t linger_us;          /* workers that live then are named */
    char verdict[WIRE_TEXT_MAX]; /* one sentence */

    /* derived: members_recount() makes them, READY, HELD, DONE keep them */
    struct driver_counts {
        size_t members, ready, held, done; /* members alive, and of those */
        size_t newcomers;                  /* READY, no member, may join */
        size_t live;                       /* neither dead nor on its way out */
        size_t going;    /* members that have completed a collective */
        size_t draining; /* members that are to leave */
        size_t released; /* that have yet to exit */
    } counts;
    bool recheck; /* something that a rendezvous, a change or the end look at
                     has changed */
    bool replace; /* something that placement looks at has; implies recheck */
    uint64_t came_up;  /* this agent, so placement is of one host; 0: none */
    bool spawned_once; /* some worker could be started */
    char last_failure[WIRE_TEXT_MAX]; /* how a worker last failed */
    /* the worker that failed first since the last generation was formed, a
     * member if one did; 0: none has */
    uint64_t first_failed;
    bool first_was_member;
    uint64_t next_tick_us;

    /* work space, reserved */
    struct candidate *candidates;
    size_t candidates_max;
    uint32_t *scratch;
    size_t scratch_max;
    struct driver_action *actions; /* the most that one step may come to: the
                                      system backs what steps have come to */
    size_t n_actions, actions_max;
};

/* false: out of memory. */
bool driver_init(struct driver *d, const struct driver_config *config,
                 uint64_t now_us);
void driver_fini(struct driver *d);

/* Between driver_init() and the first step: go on where the driver that wrote
 * *m ended. Of pids in it the caller finds out whether they still are who they
 * were: DRIVER_EV_AGENT_GONE if not. false: out of memory. */
bool driver_inherit(struct driver *d, const struct memory *m);

/* Agents on other machines call at the address that they know: the others have
 * DIR/driver. */
bool driver_has_far_agents(const struct memory *m);
/* Agents elsewhere cannot call yet: a successor in ADOPTING waits longer. */
void driver_adopt_longer(struct driver *d, uint64_t now_us);

/* Feed one event. The caller performs *actions_p [*n_p] in this order. They are
 * valid until the next driver_step(). now_us never goes backwards. HVD_OK, or
 * HVD_ERR_INVALID, HVD_ERR_NOMEM (hosts events only): rejected, nothing
 * changed. */
hvd_status_t driver_step(struct driver *d, const struct driver_event *ev,
                         uint64_t now_us,
                         const struct driver_action **actions_p,
                         size_t *n_p) HVD_MUST_CHECK;

/* Absolute time of the next DRIVER_EV_TIMEOUT, or DRIVER_NEVER. */
uint64_t driver_deadline(const struct driver *d);

/* Whether this signal asks for more than the signals before it: a SIGHUP only
 * asks for a drain, as the kernel and a shell both send one when a terminal
 * closes; timeout(1) sends SIGTERM to a process and to its group, and service
 * managers send SIGTERM with SIGHUP. SIGINT is a person's, and counts. */
bool driver_heeds(const struct driver *d, int signal, uint64_t now_us);

/* The table of the current generation, in rank order, and that of the one
 * before it, as those who were in it have it. */
const struct assign_table *driver_table(const struct driver *d);
const struct assign_table *driver_table_before(const struct driver *d);

/* The name in the event log; NULL: it is not an event. Static. */
const char *driver_record_name(enum driver_record_type type);

/* M15: unknown agents and workers may be of this job; an agent has yet to tell
 * whom it runs. */
bool driver_adopts(const struct driver *d);
bool driver_hears_out(const struct driver *d);

/* From now on the driver answers PINGs of agents, and with `workers` theirs. */
void driver_answer_all(struct driver *d, bool workers);

/* Is there a host whose agent it is, or may it be one (M15)? */
bool driver_expects_agent(const struct driver *d, uint64_t agent);

/* HELLO of a process that is not the one which has called as this worker. */
bool driver_is_another(const struct driver_worker *w,
                       const struct msg_hello *hello);
/* How many hosts there are; how many agents were started and are not up. */
size_t driver_n_hosts(const struct driver *d);
size_t driver_n_starting(const struct driver *d);

/* NULL: there is none with this id. */
const struct driver_worker *driver_worker(const struct driver *d, uint64_t id);
/* Was this agent told to start that worker, whose exit it has yet to tell? */
bool driver_runs(const struct driver *d, uint64_t agent, uint64_t worker);
const struct driver_host *driver_host_of(const struct driver *d,
                                         const struct driver_worker *w);
/* NULL: it is no host's. */
const struct driver_host *driver_host_of_agent(const struct driver *d,
                                               uint64_t agent);
/* NULL: nothing of this slot counts yet. */
const struct driver_slot *driver_slot(const struct driver *d,
                                      const struct driver_host *host,
                                      uint32_t slot);

/* A line with the workers that have kept the driver waiting for 5 s, or "". */
void driver_waiting_for(const struct driver *d, uint64_t now_us, char *text,
                        size_t text_max);

#endif
