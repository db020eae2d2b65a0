/* world.h - what one run of the simulator is made of; private to tests/sim.
 *
 *   sim.c      the run: clock, event loop, the driver's actions
 *   queue.c    events in the order of their time
 *   network.c  messages between driver and workers: delay, loss, duplication
 *   agents.c   virtual agents and processes: birth, death, SIGSTOP
 *   app.c      the training program in each worker, and its data plane
 *   entry.c    how it enters a generation
 *   faults.c   what goes wrong, by seed
 *   check.c    the invariants
 *   trace.c    the transcript
 *
 * Times are microseconds of the virtual clock. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <setjmp.h>

#include "base/array.h"
#include "base/random.h"
#include "discovery/hosts.h"
#include "elastic/driver/core.h"
#include "elastic/worker/core.h"
#include "sim.h"

#define SEC        UINT64_C(1000000)
#define MSEC       UINT64_C(1000)
#define TIME_NEVER UINT64_MAX

/* ---- events -------------------------------------------------------------- */

enum event_type {
    EV_TO_DRIVER,  /* message from worker a */
    EV_TO_WORKER,  /* message to worker a */
    EV_TICK,       /* worker a: its core's deadline */
    EV_APP,        /* worker a: the application goes on; b: serial */
    EV_COUNTED,    /* worker a: the boundary counter was read: b */
    EV_EXIT,       /* worker a: its process ends; b: code; c: signal */
    EV_AGENT_CMD,  /* to agent a: sub = enum agent_cmd; b: worker; c */
    EV_AGENT_SAYS, /* from agent a: sub = enum driver_event_type; b, c, d */
    EV_AGENT_PING, /* agent a: time for its heartbeat */
    EV_DISCOVERY,
    EV_FAULT, /* sub = enum fault */
    EV_RESUME /* worker a: SIGCONT */
};

enum agent_cmd { CMD_SPAWN, CMD_KILL, CMD_STOP };

struct event {
    enum event_type type;
    uint8_t sub;
    uint64_t a, b, c, d;
    struct message *message; /* owned; only its used prefix is allocated */
    struct event *next_free;
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

void queue_fini(struct queue *q);
struct event *queue_push(struct queue *q, uint64_t at, enum event_type type);
/* Put an event that was popped back in. */
void queue_again(struct queue *q, uint64_t at, struct event *event);
struct event *queue_pop(struct queue *q, uint64_t *at_p);
void queue_release(struct queue *q, struct event *event);

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

enum op_kind { OP_NONE, OP_ALLREDUCE, OP_BROADCAST };

/* The shared state of the program: which generations made its steps. */
struct content {
    uint64_t hash, steps;
};

struct sim_worker {
    uint64_t id, agent, pid;
    uint32_t host, slot;
    bool alive;   /* the process exists and has not ended */
    bool stopped; /* SIGSTOP; goes on at resume_us */
    uint64_t resume_us;
    uint8_t layout;    /* digest of its state's layout */
    uint8_t abilities; /* enum ready_ability */
    bool loss_pending; /* its next library call returns HVD_PEER_LOST */
    struct worker_core core;
    uint64_t tick_us; /* earliest EV_TICK on its way; TIME_NEVER: none */

    enum app_state app;
    uint64_t serial;     /* of the one application event that counts */
    uint64_t generation; /* acts in it; 0: in none */
    uint64_t joined;     /* first generation */
    uint32_t rank;
    bool out;        /* left `generation` */
    bool completing; /* IN_OP: the operation will complete */
    bool comm_aborted;
    bool hold; /* the hold word */
    bool counting;
    bool committed_here, reported_op;
    bool reset_once;
    uint64_t boundary, operation, entered;
    uint64_t sync_since_us;
    struct content live, snap;
    struct state_id id_of; /* of snap */
    bool released;
};

struct sim_agent {
    uint64_t id;
    uint32_t host;
    bool up, gone, stopping;
    bool silent; /* nobody tells the driver when it dies */
    uint64_t last_out_us, last_in_us;
    uint64_t *workers; /* ids it has spawned */
    size_t n_workers, workers_max;
};

struct sim_host {
    char name[HOSTS_NAME_MAX];
    uint32_t slots, slots_now; /* as it should be; as discovery says: 0: gone */
    bool home;                 /* of the beginning */
    uint64_t cut_until_us;     /* partitioned from the driver until then */
};

struct sim_generation {
    uint64_t generation;
    uint32_t size, root;
    uint64_t *members; /* [size] worker ids by rank */
    bool *sources;     /* [size] */
    struct state_id base;
    uint64_t formed_us;
    uint32_t *entered; /* [entered_max]: who entered operation k */
    size_t entered_max;
    uint64_t entered_most, root_entered;
    bool broken; /* a member died or left it as lost */
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
    uint64_t codec_in;
    uint64_t agent_ping_us, discovery_us;
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

    struct driver_config driver_config;
    struct driver driver;
    bool driver_alive;
    bool finished, released;
    bool all_blacklisted, state_left; /* when the verdict fell */

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

    bool in_heartbeat;  /* what is sent now repeats something */
    uint64_t armed[16]; /* enum trap: kills waiting for their moment */
    uint64_t last_death_us;
    uint64_t to_driver_last_us;
    uint64_t hosts_bad_until_us;
    uint64_t stalled_until_us; /* the driver does not run */
    uint32_t odd_layouts;      /* so many newcomers bring another layout */
};

/* sim.c */
uint64_t sim_uniform(struct sim *s, uint64_t low, uint64_t high);
bool sim_one_in(struct sim *s, uint64_t n); /* n == 0: never */
struct sim_worker *sim_worker(struct sim *s, uint64_t id);
struct sim_generation *sim_generation(struct sim *s, uint64_t generation);
void sim_driver_step(struct sim *s, const struct driver_event *event);
static inline void sim_cover(struct sim *s, enum sim_counter counter)
{
    s->result->cover[counter]++;
}

/* network.c */
void network_to_worker(struct sim *s, const struct message *m);
void network_to_driver(struct sim *s, struct sim_worker *w,
                       const struct message *m);
/* It arrives after some delay. m is copied. */
void network_deliver(struct sim *s, enum event_type type, uint64_t worker,
                     const struct message *m);
void network_send_to(struct sim *s, struct sim_worker *w,
                     const struct message *m);
/* m as it comes out of the codec on the other side, now and then */
void network_through_codec(struct sim *s, struct message *m);
size_t network_nbytes(enum message_type type);

/* agents.c */
void agents_start(struct sim *s, uint64_t agent, const char *host);
void agents_command(struct sim *s, uint64_t agent, enum agent_cmd cmd,
                    uint64_t worker, uint64_t arg);
void agents_obey(struct sim *s, const struct event *event);
void agents_says(struct sim *s, const struct event *event);
void agents_ping(struct sim *s, uint64_t agent);
void agents_die(struct sim *s, struct sim_agent *agent, bool silent);
void process_exit(struct sim *s, struct sim_worker *w, int64_t code,
                  int64_t signal);
void process_kill(struct sim *s, struct sim_worker *w); /* SIGKILL */
/* A person kills it, a minute from now. */
void process_end_later(struct sim *s, const struct sim_worker *w);
void process_stop(struct sim *s, struct sim_worker *w, uint64_t resume_us);

/* app.c */
struct worker_event app_event(const struct sim_worker *w,
                              enum worker_event_type type);
void app_feed(struct sim *s, struct sim_worker *w,
              const struct worker_event *event);
void app_timer(struct sim *s, struct sim_worker *w);
void app_counted(struct sim *s, struct sim_worker *w, uint64_t boundary);
void app_peer_gone(struct sim *s, struct sim_worker *w);
void app_lose(struct sim *s, struct sim_worker *w, bool accuse_wrongly);
void app_fail(struct sim *s, struct sim_worker *w);

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
void faults_plan(struct sim *s);
void faults_strike(struct sim *s, const struct event *event);
void faults_discovery(struct sim *s);
/* true: the worker is in a state somebody waited for, and was killed */
bool faults_trap(struct sim *s, struct sim_worker *w, enum trap trap);

/* check.c */
void check_fail(struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
void check_stamp(struct sim *s, struct sim_worker *w);
struct content check_content(struct sim *s, struct state_id id);
/* A new generation: all its ASSIGNs are in actions [n]. */
void check_formed(struct sim *s, const struct driver_action *actions, size_t n);
/* After every step of the driver in a small world. */
void check_driver(struct sim *s);
void check_hold(struct sim *s, const struct message *m);
void check_eviction(struct sim *s, const struct driver_record *r);
void check_release(struct sim *s);
void check_finish(struct sim *s, int status, const char *text);
void check_end(struct sim *s);

/* trace.c */
void trace(struct sim *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void trace_message(struct sim *s, const char *how, const struct message *m,
                   bool to_worker, uint64_t worker);
void trace_action(struct sim *s, const struct driver_action *action);
#define TRACE(s, ...)              \
    do {                           \
        if ((s)->options.trace)    \
            trace(s, __VA_ARGS__); \
    } while (0)

#endif
