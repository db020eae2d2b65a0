/* world.h - what one run of the simulator is made of; private to tests/sim.
 *
 *   sim.c      the run: clock, event loop
 *   queue.c    events in the order of their time
 *   driver.c   the driver's loop: actions, routes, the launcher
 *   succession.c  its death, and who comes after it
 *   network.c  messages: delay, loss, duplication, partitions
 *   agents.c   the agents: their real core, their processes
 *   process.c  the workers' processes: birth, death, signals
 *   thread.c   the application's thread of each worker: the product's run loop,
 *              membership and boundary run on it as they are
 *   train.c    the program: what it computes, how it begins and ends
 *   control.c  the control thread, around the real core
 *   plane.c    the data plane; state.c: snapshots and their transfer; libhvd.c,
 *              run.c: what else the product's code calls
 *   accuse.c   whom a worker accuses
 *   plan.c     what world a seed makes, and which faults come when
 *   faults.c   what each fault does; notice.c: hosts that say that they will go
 *   check.c    the invariants; check_end.c: those of the end;
 *              check_recovery.c: that of time; check_silence.c: of silence
 *   trace.c    the transcript
 *
 * Times are microseconds of the virtual clock. No process reads that one: each
 * host has a clock of its own, and so has the driver, which only runs forward
 * but may jump. What a core is told, and what it answers, is its own time. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <setjmp.h>
#include <string.h>

#include "base/array.h"
#include "base/random.h"
#include "base/world.h"
#include "discovery/hosts.h"
#include "elastic/agent/core.h"
#include "elastic/driver/core.h"
#include "elastic/driver/keep.h"
#include "elastic/worker/control.h"
#include "elastic/worker/process.h"
#include "sim.h"

#define SEC        UINT64_C(1000000)
#define MSEC       UINT64_C(1000)
#define TIME_NEVER UINT64_MAX

/* ---- events -------------------------------------------------------------- */

enum event_type {
    EV_TO_DRIVER,  /* message from worker a */
    EV_FROM_AGENT, /* message from agent a */
    EV_TO_WORKER,  /* message to worker a */
    EV_TO_AGENT,   /* message to agent a */
    EV_TICK,       /* worker a: its core's deadline */
    EV_APP,        /* worker a: the application goes on; b: serial */
    EV_COUNTED,    /* worker a: the boundary counter was read: b */
    EV_EXIT,       /* worker a: its process ends; b: code; c: signal */
    EV_RESUME,     /* worker a: SIGCONT */
    EV_AGENT,      /* agent a: sub = enum agent_news; b: worker; c, d */
    EV_LAUNCHER,   /* the driver, about agent a: sub = enum launch_news */
    EV_DISCOVERY,
    EV_SUCCESSION, /* another driver takes over; a: entries that are lost */
    EV_FAULT       /* sub = enum fault; a: number */
};

enum agent_news {
    AGENT_BORN,
    AGENT_TICK,         /* its core's deadline */
    AGENT_CHILD_RUNS,   /* exec of b has succeeded */
    AGENT_CHILD_DYING,  /* lock of b: c: code; d: signal */
    AGENT_CHILD_EXITED, /* pidfd of b: c: code; d: signal */
    AGENT_LIFELINE,     /* the driver's end is closed */
    AGENT_HOST_GOES,    /* as it was said */
    AGENT_RESUME        /* SIGCONT */
};

enum launch_news {
    LAUNCH_ENDED, /* its process, or the connection to it, has ended */
    LAUNCH_STOP,  /* it was told to go and has not: cut its lifeline */
    LAUNCH_KILL   /* nor then */
};

struct event {
    enum event_type type;
    uint8_t sub;
    uint64_t a, b, c, d;
    struct message *message; /* owned; only its used prefix is allocated */
    struct event *next;      /* free, or parked */
};

struct heap_item {
    uint64_t at, seq;
    struct event *event;
};

struct queue {
    struct heap_item *items;
    size_t n, max;
    uint64_t seq;
    struct event *popped; /* neither put back nor released yet */
    struct event *free_list;
};

/* Events of a process that does not run, in their order. */
struct parked {
    struct event *first, *last;
};

void queue_fini(struct queue *q);
struct event *queue_push(struct queue *q, uint64_t at, enum event_type type);
/* Put an event that was popped back in. */
void queue_again(struct queue *q, uint64_t at, struct event *event);
struct event *queue_pop(struct queue *q, uint64_t *at_p);
void queue_release(struct queue *q, struct event *event);
/* Keep an event that was popped; and put all that were kept back in. */
void queue_park(struct queue *q, struct parked *parked, struct event *event);
void queue_unpark(struct queue *q, struct parked *parked, uint64_t at);
void queue_drop(struct queue *q, struct parked *parked);

/* ---- the world ----------------------------------------------------------- */

enum app_state {
    APP_INIT,      /* hvd_init: waits for WELCOME */
    APP_LOADING,   /* before hvd_elastic_run */
    APP_JOINING,   /* READY */
    APP_SYNCING,   /* connects; gets the state if it has not got it */
    APP_COMPUTING, /* in user code */
    APP_IN_OP,     /* inside a collective */
    APP_HELD,      /* at a boundary, waits for CUT */
    APP_DONE,
    APP_GONE /* returned; the process is about to end */
};

/* Why its thread sleeps. */
enum app_sleep {
    SLEEP_NOT,
    SLEEP_TIME, /* in user code */
    SLEEP_CORE, /* control_wait() */
    SLEEP_PEERS /* in a collective or a transfer */
};

enum { COMM_ACCUSED_MAX = 10 };

/* The connections of a worker in one generation. */
struct comm {
    struct sim_worker *owner;
    uint64_t generation;
    hvd_status_t status; /* HVD_OK: it lives */
    bool torn;           /* a call has found that it does not, or it was left */
    char text[64];
    int accused[COMM_ACCUSED_MAX];
    size_t n_accused;
    uint64_t proven;  /* a bit for each of them */
    bool has_accused; /* they are complete */
};

struct hvd_state {
    struct sim_worker *owner;
};

/* The shared state of the program: which generations made its steps. */
struct content {
    uint64_t hash, steps;
    bool spoilt; /* by steps of one worker alone, which nobody may have */
};

struct sim_worker {
    uint64_t id, agent, pid;
    uint32_t host, slot;
    bool alive;   /* the process exists and has not ended */
    bool stopped; /* SIGSTOP; goes on at resume_us */
    uint64_t resume_us;
    uint64_t absent_us; /* for how long it was stopped, in all */
    struct parked parked;
    uint64_t stuck_until_us; /* cannot be killed until then (state D) */
    uint64_t gone_us;        /* dead: its memory is freed then */
    bool unheld;             /* ... and its agent does not know before */
    bool doomed;             /* killed, does nothing any more, but is stuck */
    bool term_ignored;       /* SIGTERM does not end it */
    uint8_t layout;          /* digest of its state's layout */
    uint8_t abilities;       /* enum ready_ability */
    char settings[24];       /* in force: at first its own, "w7" */
    bool met;                /* the driver has heard its HELLO */
    uint64_t heard_us;       /* or it could have been: check_recovery.c */
    uint64_t came_us;        /* a message of it came to the driver */
    uint64_t spoke_us;       /* it was heard: check_silence.c; */
    uint64_t mute_us;        /* it could not be */
    bool sent_away;          /* a driver has said SHUTDOWN to it */
    uint64_t slanders; /* so many generations it ends by a wrong accusation */
    uint64_t grudge;   /* id of whom it accuses then; 0: not chosen yet */
    bool disputed;     /* it, or of it, somebody has said what counts */
    struct worker_core core;
    uint64_t tick_us; /* earliest EV_TICK on its way; TIME_NEVER: none */
    bool counting;    /* the boundaries: HOLD has come */

    struct process process; /* what libhvd keeps for the process */
    struct world world;
    struct comm comm;
    struct hvd_state state;
    struct sim_thread *thread; /* NULL: none yet, or no more */
    enum app_sleep sleep;
    control_condition waits_for; /* SLEEP_CORE */
    uint64_t waits_arg;

    enum app_state app;
    uint64_t serial;     /* of the one application event that counts */
    uint64_t generation; /* acts in it; 0: in none */
    uint64_t joined;     /* first generation */
    uint32_t rank;
    bool out;        /* left `generation` */
    bool completing; /* SLEEP_PEERS: what it waits for will complete */
    int transfer;    /* the other end of its transfer; -1: it is in none */
    bool committed_here;
    bool fails;  /* its training function returns an error */
    bool strays; /* ... or goes on where it should return */
    uint64_t operation, entered, moves;
    uint64_t busy_since_us, busy_until_us; /* COMPUTING */
    uint64_t computed_us;                  /* for so long, the last time */
    struct content live, snap;
    struct state_id id_of; /* of snap */
};

struct sim_agent {
    uint64_t id;
    uint32_t host;
    struct agent_core core;
    bool runs;                  /* its process exists */
    bool silent;                /* nobody tells the driver when it dies */
    bool met;                   /* the driver has heard its hello */
    uint64_t launched, dialled; /* terms: who has started it, whom it hears */
    bool stopping, lifeline_cut;
    bool stopped;       /* SIGSTOP */
    uint64_t absent_us; /* for how long, in all */
    bool forgotten;     /* its connection is dead: it dials again */
    uint64_t came_us, spoke_us, mute_us; /* as of a worker */
    struct parked parked;
    uint64_t tick_us;  /* earliest AGENT_TICK on its way; TIME_NEVER: none */
    uint64_t *workers; /* ids it has spawned */
    size_t n_workers, workers_max;
};

struct sim_host {
    char name[HOSTS_NAME_MAX];
    uint32_t slots, slots_now; /* as it should be; as discovery says: 0: gone */
    bool home;                 /* of the beginning */
    uint64_t clock_us;         /* its clock is ahead of the virtual one */
    /* Partitioned from the driver until then, by direction; what was sent
     * meanwhile arrives afterwards, or is lost. */
    uint64_t cut_up_us, cut_down_us;
    bool cut_keeps;
    bool leaves; /* the driver knows that it will go; and counted before: */
    size_t n_failed;
    uint64_t boots_until_us;  /* no agent can be started there */
    uint64_t barren_until_us; /* no worker can: start_error */
    int start_error;
    uint64_t slot_bad_until_us; /* who is started in bad_slot fails */
    uint32_t bad_slot;
};

struct sim_generation {
    uint64_t generation;
    uint32_t size, root;
    uint64_t *members;            /* [size] worker ids by rank */
    struct assign_entry *entries; /* [size] */
    bool *sources;                /* [size] */
    struct state_id base;
    uint64_t formed_us;
    uint32_t *entered; /* [entered_max]: who entered operation k */
    size_t entered_max;
    uint64_t entered_most, root_entered;
    bool broken;       /* a member died or left it as lost */
    char settings[24]; /* of all; "": nobody has taken any */
    bool left_any;
    uint64_t left_boundary, left_entered;
    uint32_t dead[8];
    uint32_t n_dead;
};

struct content_row {
    struct state_id id;
    struct content content;
    bool used;
};

struct sim_plan {
    uint64_t horizon_us; /* no fault after it */
    uint64_t limit_us;   /* the job must have ended */
    uint64_t steps;
    uint64_t step_us, long_step_in; /* one step in so many is long */
    uint64_t load_us, spawn_us, kill_us;
    uint64_t delay_us, tail_us, tail_in;
    uint64_t loss_in, duplicate_in; /* one message in so many; 0: none */
    uint64_t move_in;               /* one tick in so many */
    uint64_t codec_in;
    uint64_t agent_beat_us, discovery_us;
    bool survives; /* there is a job directory: a driver may have a successor */
    bool remote;   /* agents are on other machines: not ours to kill */
    uint32_t op_mix; /* percent of steps with an allreduce, the rest mixed */
    uint32_t commit_in;
};

struct sim {
    struct sim_options options;
    struct sim_result *result;
    struct sim_plan plan;
    struct random_state random;
    struct queue queue;
    uint64_t now_us;
    uint64_t spins; /* timeouts of the driver without time passing */
    jmp_buf violated;
    struct sim_worker *running; /* whose thread runs; NULL: none */
    const void *loop_stack;     /* of whoever lets them run */
    size_t loop_stack_nbytes;

    struct driver_config driver_config;
    struct driver driver;
    bool driver_dead; /* ... until another takes over */
    uint64_t driver_died_us;
    struct memory memory; /* what was written down for that one */
    struct sim_entry {
        uint64_t at_us;
        struct entry entry;
    } * entries; /* [n_entries]: the same, one by one */
    size_t n_entries, entries_max;
    size_t n_written; /* those that a driver has waited for: never lost */
    uint64_t driver_clock_us; /* ahead of the virtual clock */
    bool finished, released;
    uint64_t in_the_way_us, enough_us; /* see check_recovery.c */
    uint64_t together_us;       /* most hosts were heard; see check_silence.c */
    uint64_t in_context_us;     /* silence was not to be judged */
    uint64_t withheld_until_us; /* ... nor did the driver */
    uint64_t heeded_us;         /* the driver gave up whoever is silent */
    uint64_t state_heard_us;    /* somebody who holds it could be heard */
    bool cuts_overlap;     /* what the first kept has arrived in the second */
    bool agent_is_silent;  /* the one that was lost last was given up for it */
    uint64_t plane_cut_us; /* workers do not reach each other until then */
    uint64_t short_since_us;     /* below the gate; TIME_NEVER: it is not */
    bool all_closed, state_left; /* when the verdict fell */

    struct sim_host *hosts;
    size_t n_hosts, hosts_max;
    struct hosts listed;         /* discovery's answer */
    struct sim_worker **workers; /* by id */
    size_t n_workers, workers_max;
    struct sim_agent **agents; /* by id */
    size_t n_agents, agents_max;
    struct sim_generation **generations; /* by number */
    size_t n_generations, generations_max;
    struct content_row *contents; /* hash table */
    size_t n_contents, contents_max;

    uint32_t n_planned; /* faults */
    uint64_t calm_us;   /* the end of what lasts of all faults so far */
    bool in_heartbeat;  /* what is sent now repeats something */
    uint64_t armed[16]; /* enum trap: kills waiting for their moment */
    uint64_t last_death_us;
    uint64_t to_driver_last_us;
    uint64_t hosts_bad_until_us;
    uint64_t stalled_until_us; /* the driver does not run */
    uint64_t slow_until_us;    /* it runs, but each event takes it slow_us */
    uint64_t slow_us;
    uint32_t odd_layouts; /* so many newcomers bring another layout */
};

/* sim.c */
uint64_t sim_uniform(struct sim *s, uint64_t low, uint64_t high);
bool sim_one_in(struct sim *s, uint64_t n); /* n == 0: never */
/* It has been drawn: does it happen? */
bool sim_befalls(struct sim *s, enum sim_mishap what);
struct sim_worker *sim_worker(struct sim *s, uint64_t id);
struct sim_generation *sim_generation(struct sim *s, uint64_t generation);
void sim_driver_step(struct sim *s, const struct driver_event *event);
static inline void sim_cover(struct sim *s, enum sim_counter counter)
{
    s->result->cover[counter]++;
}

/* driver.c */
bool sim_driver_init(struct sim *s);
static inline uint64_t driver_now(const struct sim *s)
{
    return s->now_us + s->driver_clock_us;
}
/* The virtual time of its deadline. */
uint64_t driver_due_us(const struct sim *s);
/* It answers this worker: it has not given it up. */
bool driver_hears(const struct sim *s, const struct sim_worker *w);
void driver_hear(struct sim *s, struct event *event);
void driver_hear_agent(struct sim *s, struct event *event);
void driver_launcher(struct sim *s, const struct event *event);

/* The launcher hears that its process has ended. */
void driver_agent_ended(struct sim *s, uint64_t agent);

/* succession.c */
void succession_write(struct sim *s, const struct driver_action *actions,
                      size_t n, bool verdict);
/* The driver dies; another takes over in delay_us, without the last n_lost
 * entries. */
void succession_begin(struct sim *s, uint64_t delay_us, uint64_t n_lost);
/* The driver's process has ended: so have its ends of all lifelines. */
void succession_cut_lifelines(struct sim *s);
void succession_strike(struct sim *s);
void succession_end(struct sim *s, const struct event *event);
/* What it does now and then when it hears nothing. */
void succession_look_worker(struct sim *s, struct sim_worker *w);
bool succession_look_agent(struct sim *s, const struct sim_agent *agent);
/* Of the driver that DIR/driver names; 0: there is no such file. */
uint64_t succession_term(const struct sim *s);

/* network.c */
void network_to_worker(struct sim *s, const struct message *m);
void network_to_driver(struct sim *s, struct sim_worker *w,
                       const struct message *m);
void network_from_agent(struct sim *s, const struct sim_agent *agent,
                        const struct message *m);
/* Does one of both move to another connection now? */
bool network_moves(struct sim *s);
void network_to_agent(struct sim *s, const struct sim_agent *agent,
                      const struct message *m);
void network_send_to(struct sim *s, struct sim_worker *w,
                     const struct message *m);
/* It arrives after some delay. m is copied. */
void network_deliver(struct sim *s, enum event_type type, uint64_t peer,
                     const struct message *m, uint64_t not_before_us);
bool network_is_cut(const struct sim *s, uint32_t host);
/* m as it comes out of the codec on the other side, now and then */
void network_through_codec(struct sim *s, struct message *m);
size_t network_nbytes(enum message_type type);

/* agents.c */
struct sim_agent *sim_agent(struct sim *s, uint64_t id);
void agents_start(struct sim *s, uint64_t agent, const char *host);
void agents_event(struct sim *s, const struct event *event);
void agents_hear(struct sim *s, struct event *event);
/* Its process ends now, and its workers with it. */
void agents_die(struct sim *s, struct sim_agent *agent, bool silent);
void agents_cut_lifeline(struct sim *s, struct sim_agent *agent);
void agents_stop(struct sim *s, struct sim_agent *agent, uint64_t resume_us);
/* Something happens to it; its clock gives the time. */
void agents_feed(struct sim *s, struct sim_agent *agent,
                 struct agent_event *ev);
/* Its host goes then. */
void agents_go_in(struct sim *s, const struct sim_agent *agent,
                  uint64_t delay_us);
/* Its clock has jumped: what it waits for may be due. */
void agents_look(struct sim *s, struct sim_agent *agent);
/* The driver's launcher hears of it after delay_us. */
void agents_end_is_told(struct sim *s, const struct sim_agent *agent,
                        uint64_t delay_us);
/* Whatever can fail by itself does so only while faults are allowed. */
bool agents_fail_now(struct sim *s, uint64_t one_in);

/* faults.c: something lasts until then. */
static inline void faults_last(struct sim *s, uint64_t until_us)
{
    if (until_us != TIME_NEVER && s->calm_us < until_us)
        s->calm_us = until_us;
}

/* process.c */
static inline uint64_t host_now(const struct sim *s, uint32_t host)
{
    return s->now_us + s->hosts[host].clock_us;
}
/* Does it act? */
static inline bool process_runs(const struct sim_worker *w)
{
    return w->alive && !w->stopped && !w->doomed;
}
void process_begin(struct sim *s, struct sim_agent *agent, uint64_t id);
void process_end(struct sim *s, struct sim_worker *w,
                 const struct event *event);
void process_kill(struct sim *s, struct sim_worker *w); /* SIGKILL, at once */
void process_signal(struct sim *s, struct sim_worker *w, int signo);
/* It ends by itself in delay_us. */
void process_exit_in(struct sim *s, const struct sim_worker *w, int64_t code,
                     uint64_t delay_us);
void process_stop(struct sim *s, struct sim_worker *w, uint64_t resume_us);
void process_resume(struct sim *s, struct sim_worker *w);
void process_stick(struct sim *s, struct sim_worker *w, uint64_t until_us);

/* control.c */
struct worker_event control_event(const struct sim_worker *w,
                                  enum worker_event_type type);
void control_feed(struct sim *s, struct sim_worker *w,
                  const struct worker_event *event);
void control_counted(struct sim *s, struct sim_worker *w, uint64_t boundary);
/* Its clock has jumped: what its core waits for may be due. */
void control_look(struct sim *s, struct sim_worker *w);
/* The virtual time of its core's deadline. */
uint64_t control_due_us(const struct sim *s, const struct sim_worker *w);

/* train.c */
void app_timer(struct sim *s, struct sim_worker *w);
/* The one application event that counts; an earlier one does not any more. */
void app_set_timer(struct sim *s, struct sim_worker *w, uint64_t delay_us);
void app_fail(struct sim *s, struct sim_worker *w);
/* thread.c: its process has ended. */
void thread_end(struct sim *s, struct sim_worker *w);
/* On the thread that runs: never again. */
void thread_die(struct sim *s) __attribute__((noreturn));

/* plane.c */
void plane_peer_gone(struct sim *s, struct sim_worker *w);
/* Its connections break, or so it thinks. */
void plane_lose(struct sim *s, struct sim_worker *w);

/* plan.c */
enum fault {
    FAULT_KILL,
    FAULT_KILL_TWO,
    FAULT_TRAP,
    FAULT_STOP,
    FAULT_PAUSE,
    FAULT_AGENT,
    FAULT_AGENT_SILENT,
    FAULT_AGENT_STOP,
    FAULT_HOST_PAUSE,
    FAULT_ALL_PAUSE,
    FAULT_HOST_ADDED,
    FAULT_HOST_REMOVED,
    FAULT_SLOTS,
    FAULT_FLAP,
    FAULT_DISCOVERY_BAD,
    FAULT_ACCUSE,
    FAULT_PARTITION,
    FAULT_CUT_DRIVER,
    FAULT_CUT_ALL,
    FAULT_FLOWS,
    FAULT_DRAIN,
    FAULT_STALL,
    FAULT_SLOW,
    FAULT_CLOCK,
    FAULT_DRIVER,
    FAULT_STUCK,
    FAULT_STORM,
    FAULT_NOTICE,
    FAULT_BOOT,
    FAULT_NO_PROGRAM,
    FAULT_BAD_SLOT,
    /* from here on they end most jobs: rare */
    FAULT_LAYOUT,
    FAULT_INTERRUPT,
    FAULT_USER_ERROR,
    N_FAULTS,
    FAULT_SETTLE
};
void plan_make(struct sim *s);
/* What a message may take in this world, and a little. */
uint64_t plan_slack_us(const struct sim *s);
void plan_fault(struct sim *s, uint64_t at, enum fault fault);
void plan_host(struct sim *s, uint32_t slots, bool home);
struct sim_host *plan_host_of(struct sim *s, const char *name); /* or NULL */

/* trouble.c: what keeps hosts from starting anybody, or a slot from working */
void trouble_strike(struct sim *s, enum fault fault);
/* It fails, if it was started in a bad slot. */
void trouble_befall(struct sim *s, const struct sim_worker *w);
/* A start that failed has cost nothing else, and no host rests too long. */
void trouble_check(struct sim *s, const struct driver_event *event,
                   const struct driver_action *actions, size_t n);

/* faults.c */
enum trap {
    TRAP_NONE,
    TRAP_HELD,
    TRAP_READY,
    TRAP_ASSIGNED,
    TRAP_SOURCE,
    TRAP_RECEIVER,
    TRAP_DONE,
    TRAP_LOADING,
    TRAP_IN_OP,
    TRAP_COMMIT
};
void faults_strike(struct sim *s, const struct event *event);
void faults_discovery(struct sim *s);
/* true: the worker is in a state somebody waited for, and was killed */
bool faults_trap(struct sim *s, struct sim_worker *w, enum trap trap);

/* notice.c */
void notice_strike(struct sim *s);
void notice_host_goes(struct sim *s, struct sim_agent *agent);
/* After every step of the driver. */
void notice_check(struct sim *s);
/* A generation was formed in this one. */
void notice_check_drained(struct sim *s, const struct driver_action *actions,
                          size_t n);

/* check_silence.c */
/* After every step of the driver. */
void check_context(struct sim *s);
/* A worker was given up. */
void check_silence(struct sim *s, const struct driver_record *r);
/* A released worker is said to stand still. */
void check_standstill(struct sim *s, const struct driver_record *r);
/* It is waited for although it is silent for so long. */
bool check_may_wait(const struct sim *s, uint64_t silent_us);

/* check.c, check_end.c, check_recovery.c */
enum { CHECK_COME_UP_US = 8000000 }; /* those who are missing, at the end */
static inline bool starts_with(const char *text, const char *words)
{
    return strncmp(text, words, strlen(words)) == 0;
}
void check_fail(struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
void check_stamp(struct sim *s, struct sim_worker *w);
/* It was told whether it holds the base. */
void check_source(struct sim *s, const struct sim_worker *w);
/* ... and which settings count. */
void check_settings(struct sim *s, const struct sim_worker *w,
                    const char *settings);
struct content check_content(struct sim *s, struct state_id id);
/* The last generation that was formed before this number; NULL: none. */
struct sim_generation *check_before(struct sim *s, uint64_t number);
/* A step that began while it was ADOPTING. */
void check_adopted(struct sim *s, const struct driver_action *actions,
                   size_t n);
/* A new generation: all its ASSIGNs are in actions [n]. */
void check_formed(struct sim *s, const struct driver_action *actions, size_t n);
/* After every step of the driver in a small world. */
void check_driver(struct sim *s);
void check_recovery(struct sim *s);
/* The open rendezvous may wait, with so many members (M12). */
bool check_may_pause(const struct sim *s, size_t members);
/* Its process begins: it has its slot for itself. */
void check_slot(struct sim *s, const struct sim_worker *w);
void check_hold(struct sim *s, const struct message *m);
void check_sent_away(struct sim *s, struct sim_worker *w,
                     const struct msg_shutdown *m);
void check_eviction(struct sim *s, const struct driver_record *r);
void check_release(struct sim *s);
void check_finish(struct sim *s, int status, const char *text);
void check_end(struct sim *s);
/* A worker that lives, and that the driver counts on, has a snapshot. */
bool check_state_is_left(struct sim *s);
/* The driver gives up a worker: it is not the last that holds the state. */
void check_holder_ends(struct sim *s, const struct driver_record *r);
/* Its silence has lasted for --driver-timeout. */
bool check_time_is_over(struct sim *s, const struct sim_worker *w,
                        const struct driver_record *r);
/* Somebody is still there, and not because he was stopped for ever. */
bool check_is_left(const struct sim *s);
/* Long after the end of the driver: nobody is. */
void check_aftermath(struct sim *s);
/* Somebody on this host gives the driver up. */
void check_driver_is_lost(struct sim *s, uint32_t host, uint64_t absent_us,
                          const char *who);

/* trace.c */
void trace(struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void trace_message(struct sim *s, const char *how, const struct message *m,
                   bool to_worker, uint64_t worker);
void trace_agent(struct sim *s, const char *how, const struct message *m,
                 bool to_agent, uint64_t agent);
void trace_action(struct sim *s, const struct driver_action *action);
#define TRACE(s, ...)              \
    do {                           \
        if ((s)->options.trace)    \
            trace(s, __VA_ARGS__); \
    } while (0)

#endif
