/* tests/driver/fixture.h - a driver core without a world: what happens goes in
 * as words, what it does comes out as a transcript.
 *
 * Machinery that works is played by the fixture: an agent comes up when it is
 * started, a worker is spawned and says HELLO, an agent that is stopped is
 * gone. Whatever membership is about (READY, deaths, HELD, DONE, exits) is the
 * test's to say. Workers are named w1, w2 ... in the order of their spawns.
 *
 * The transcript has a line per action, the receivers of equal messages in one:
 *   start agent: a b                      stop agent: a
 *   spawn: w1@a:0 w2@a:1                  kill: w1
 *   assign 2: w1 w3 w4+sync               in the order of ranks
 *   abort 1, w2 died: w1 w3               abort 1: w1 (nobody in particular)
 *   abort 1, stale: w1 (over already)     abort 1, mismatch: w1
 *   hold 1, added: w1                     cut 5: w1         cut never: w1
 *   release: w1                           shutdown drained: w1
 *   blacklist a for good                  blacklist a for 30000 ms
 *   close a:0 for good                    close a:0 for 30000 ms
 *   no start: a: why                      leaving a in 5000 ms: why
 *   warn: sentence                        finish 1: sentence
 * PONG, WELCOME and the other records are left out (records are counted).
 *
 * One fixture per process; memory is static but for the driver's own. */
#ifndef TESTS_DRIVER_FIXTURE_H
#define TESTS_DRIVER_FIXTURE_H

#include "elastic/driver/core.h"
#include "elastic/driver/keep.h"
#include "support.h"

enum {
    FIXTURE_JOB = 7,
    FIXTURE_TERM = 3,
    FIXTURE_WORKERS_MAX = 4096,
    FIXTURE_AGENTS_MAX = 4096
};

/* 0 is the default, here in brackets. */
struct fixture_options {
    uint32_t np;            /* [2] */
    uint32_t min_np;        /* [np] */
    uint32_t max_np;        /* [unbounded] */
    uint32_t reset_limit;   /* [none] */
    bool no_resets;         /* the limit is 0 */
    uint32_t slot_restarts; /* [3] */
    bool strict_blacklist;
    uint64_t cooldown_low_ms, cooldown_high_ms;
    bool script;         /* discovery may list others: the list is not fixed */
    uint64_t elastic_ms; /* [600000] */
    uint64_t start_ms;   /* [60000] */
    uint64_t drain_ms;   /* [30000] */
    uint64_t hang_ms;    /* [never] */
    uint64_t exit_ms;    /* [never] */
    uint64_t commit_ms;  /* [never] */
    bool no_journal;     /* nothing is written down */
};

struct fixture_worker {
    struct state_id id; /* of its newest snapshot */
    bool expects;       /* as PONG and ASSIGN have said */
    struct msg_plan plan;
    bool silent; /* no heartbeats in pass() */
};

struct fixture {
    struct driver driver;
    struct fixture_worker workers[FIXTURE_WORKERS_MAX];
    char agent_hosts[FIXTURE_AGENTS_MAX][HOSTS_NAME_MAX];
    uint64_t now_us;
    char silent_host[HOSTS_NAME_MAX]; /* words: their agents are silent */
    char slow_host[HOSTS_NAME_MAX];   /* its agent comes up by agent_up() */
    int n_stops_lost;                 /* so many agents are not told to stop */
    bool no_spawns;                   /* SPAWNED is withheld */
    bool may_refuse;   /* a hosts event may be refused: no memory */
    bool slow_workers; /* they say HELLO by hello() */
    int n_records[RECORD_WARNING + 1];
    bool no_journal;
    struct memory memory; /* what the driver has written down */
    struct keep keep;
    struct entry *entries; /* [n_entries]: the same, one by one */
    size_t n_entries, entries_max;
    char head[WIRE_TEXT_MAX]; /* of the transcript's last line */
    char transcript[1 << 16];
    size_t n_transcript;
};

struct fixture *fixture_new(const struct fixture_options *options);
void fixture_free(struct fixture *f);

#define fixture_create(...) \
    fixture_new(&(const struct fixture_options){__VA_ARGS__})

/* The driver dies, its last `n_lost` entries with it, and a successor of the
 * next term takes over: agents and workers have yet to find it. */
void succeed(struct fixture *f, uint64_t ms, size_t n_lost);

/* ---- what happens -------------------------------------------------------- */

/* `workers` is a list: "w1 w2". */
struct happening {
    enum driver_event_type type;
    const char *workers; /* whom it concerns; NULL: none */
    const char *agent;   /* on this host: it says so; NULL: the worker's own. Of
                            an agent: what has become of it */
    const char *text;
    int number; /* exit code, signal, of an agent's workers; .lasts */
    bool kill;  /* an exit by SIGKILL */
    bool commits, raw_fence;
    struct message message;
};

struct happening hosts(const char *text); /* "a:2 b:2+drain=5" */
struct happening discovery_fails(const char *text);
struct happening discovery_is_wrong(const char *text); /* .lasts */
struct happening agent_up(const char *host);
struct happening agent_gone(const char *host);
struct happening agent_apart(const char *host); /* "nobody reaches it" */
struct happening agent_refused(const char *host);
/* AGENT_PING: so many of its workers live. */
struct happening agent_runs(const char *host, int n);
/* It says hello to a successor, and tells of these workers: "w1@0 w2@1". */
void agent_back(struct fixture *f, uint64_t ms, const char *host,
                uint64_t agent, const char *workers);
/* HELLO to a successor, by workers whose ranks are 0, 1 .. in this order. */
void greets(struct fixture *f, uint64_t ms, const char *workers,
            struct msg_where where);
/* NOTICE: its host goes in so many ms; < 0: it does not know when. */
struct happening notice(const char *host, int ms);
struct happening interrupted(int signal);
struct happening unsayable(uint64_t generation, const char *text);
struct happening spawned_late(const char *workers);
struct happening spawn_fails(const char *workers, const char *text);
struct happening fork_fails(const char *workers); /* EAGAIN */
struct happening killed(const char *workers);     /* exited by SIGKILL */
struct happening exited(const char *workers, int code);
struct happening dying(const char *workers, int code);  /* -1: not known */
struct happening runs_as(const char *workers, int pid); /* SPAWNED */
/* One of these four, as the agent on `host` says it. */
struct happening said_by(const char *host, struct happening h);
struct happening hello(const char *workers);
/* ... of a process that listens elsewhere. */
struct happening hello_from(const char *workers, uint16_t port);
/* READY with the fence of a correct worker and the newest id it has. */
struct happening ready(const char *workers);
struct happening ready_lost(const char *workers);
struct happening ready_updated(const char *workers);
struct happening ready_fence(const char *workers, uint64_t fence);
/* ... of one that can do nothing together with others of its host. */
struct happening ready_alone(const char *workers);
struct happening ready_static(const char *workers);
struct happening ready_layout(const char *workers, const char *layout);
/* LOST; accused: ranks, "0 2", that had answered. */
struct happening lost(const char *workers, uint64_t generation,
                      const char *accused);
/* ... that never had. */
struct happening lost_unproven(const char *workers, uint64_t generation,
                               const char *accused);
struct happening mismatch(const char *workers, const char *text);
struct happening held(const char *workers, uint64_t boundary);
struct happening held_done(const char *workers, uint64_t boundary);
/* A commit: PING with the next id. */
struct happening commits(const char *workers);
/* PING of a member in `phase` of the current generation. */
struct happening ping(const char *workers, enum worker_phase phase,
                      uint64_t fence);
/* Released: its control thread ends. */
struct happening says_goodbye(const char *workers);
struct happening done(const char *workers);
struct happening leaving(const char *workers, const char *text);
struct happening leaving_lacks(const char *workers, const char *text);
struct happening leaving_alone(const char *workers, const char *text);
struct happening leaving_lost(const char *workers, const char *text);
struct happening drain_me(const char *workers);

void at(struct fixture *f, uint64_t ms, struct happening h);

/* What discovery says, when it is long. */
void at_list(struct fixture *f, uint64_t ms, const struct hosts *list);

/* Exactly this message, whatever a correct worker would say. */
void at_raw(struct fixture *f, uint64_t ms, const struct message *m);

/* Time passes: ticks until then, everybody sends heartbeats but the silent. */
void pass(struct fixture *f, uint64_t ms);

/* hosts(text) at 0, then all spawned workers READY: generation 1 runs, its
 * members hold (1, 1). Nothing of it in the transcript. */
void run(struct fixture *f, const char *text);

/* The members leave by the standing HOLD and CUT, at boundary `n`. */
void leave_at(struct fixture *f, uint64_t ms, const char *workers, uint64_t n);

void holds(struct fixture *f, const char *workers, uint64_t generation,
           uint64_t version);

/* ---- transcript.c -------------------------------------------------------- */

/* Add this action. */
void transcribe(struct fixture *f, const struct driver_action *a);
/* The name of the host that this agent was started on. */
char *agent_host(struct fixture *f, uint64_t agent);

void forget(struct fixture *f); /* the transcript */

/* Compare with the transcript since the last call, and forget it. */
void expect(struct fixture *f, const char *transcript);

/* The transcript contains `part`; and forget it. */
void expect_part(struct fixture *f, const char *part);

/* On that host, in that row. */
void nothing_failed(const struct fixture *f, size_t host);

const struct driver_worker *worker(struct fixture *f, const char *name);

#endif
