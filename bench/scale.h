/* bench/scale.h - what the files of driver_scale share: a job of many workers,
 * played in one process.
 *
 *     driver_scale.c    what happens to them, and the figures
 *     scale_driver.c    the driver's side, whose CPU time is counted
 *     scale_crowd.c     the agents and workers
 *     scale_mail.c      messages on their way, alone or as an agent's batch
 *     scale_check.c     what must hold of each generation
 *
 * Threads: one. Memory: each file frees what it makes; where there is none the
 * program ends. */
#ifndef BENCH_SCALE_H
#define BENCH_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "discovery/hosts.h"
#include "elastic/agent/core.h"
#include "elastic/driver/core.h"
#include "elastic/wire/pack.h"
#include "elastic/worker/core.h"

enum {
    SCALE_JOB = 7,
    SCALE_TERM = 1,
    SCALE_HEARTBEAT_US = 1000000,
    SCALE_LATENCY_US = 1000 /* from the bytes of one side to the other's */
};

struct scale;

_Noreturn void scale_fail(const char *what);

/* ---- scale_mail.c -------------------------------------------------------- */

struct scale_bytes {
    uint8_t *data; /* [n] */
    size_t n, max;
};

/* Which encoded table goes with a message, behind it. */
enum scale_table { TABLE_NONE, TABLE_WHOLE, TABLE_CHANGE, N_TABLES };

struct letter {
    uint64_t agent;  /* that sends it, or that it reaches */
    uint64_t worker; /* whose it is; 0: the agent's own */
    size_t at, nbytes;
    enum scale_table table;
    size_t next; /* 1 + that of the same agent; 0: none */
};

/* What a socket sends at once: a letter, or a batch of several. */
struct frame {
    size_t first;      /* its first letter in the mail */
    size_t at, nbytes; /* in the mail's bytes, or in scale.packed */
};

struct mail {
    struct letter *letters; /* [n] */
    size_t n, max;
    struct scale_bytes bytes;
};

void mail_add(struct mail *mail, struct letter head, const struct message *m);
void mail_clear(struct mail *mail);
void mail_fini(struct mail *mail);

/* An agent's batch: what it and its workers say, [message, ...]: the letters
 * [from, to). Added to *out. */
void batch_pack(const struct mail *mail, size_t from, size_t to,
                struct scale_bytes *out);

/* A batch for an agent: [[whom, ...], message, [whom, ...], message, ...]. The
 * letters from `first` on, by `next`; of those that are alike one after another
 * the message is there once. Added to *out. */
void batch_pack_for(const struct mail *mail, size_t first,
                    struct scale_bytes *out);

struct batch {
    struct pack_reader r;
    uint32_t n_left;
};

struct batch_item {
    const uint8_t *bytes;
    size_t nbytes;
    uint32_t n_whom; /* of a batch for an agent: */
    uint64_t whom[HOSTS_SLOTS_MAX];
};

void batch_open(struct batch *b, const uint8_t *bytes, size_t nbytes);
bool batch_next(struct batch *b, struct batch_item *item);
bool batch_next_for(struct batch *b, struct batch_item *item);

/* ---- the world ----------------------------------------------------------- */

struct scale_worker {
    uint64_t id, agent;
    bool called; /* its program is loaded, and calls the driver */
    int signal;  /* that is about to end it; 0: none */
    struct worker_core core;
    struct state_id state; /* its newest commit */
    uint64_t left;         /* the generation that it has left */
    uint64_t table;        /* the generation whose table it has */
};

struct scale_agent {
    uint64_t id;
    bool stopping; /* the driver has told it to go */
    bool over;
    struct agent_core core;
    uint64_t *workers; /* [n] that run */
    size_t n, max;
    size_t first, last; /* 1 + letters that are being sent to it; 0: none */
};

/* Of one direction. */
struct traffic {
    uint64_t frames;   /* what a socket sends at once: a message, a batch */
    uint64_t messages; /* in them, counted for each whom they are for */
    uint64_t nbytes;   /* of the frames, and of the tables behind them */
};

struct figures {
    uint64_t cpu_ns, tick_ns; /* ticks are not in cpu_ns */
    uint64_t n_ticks, n_beats, n_lost;
    struct traffic up, down;
};

struct ids {
    uint64_t *items; /* [n] */
    size_t n, max;
};

void ids_add(struct ids *ids, uint64_t id);

struct scale {
    struct driver driver;
    bool behind_agents;
    uint32_t loss_permille; /* of frames */
    struct random_state random;
    uint64_t now_us;
    bool slow_start; /* programs that are started are still loading */
    bool trained;    /* to the end */
    bool finished;

    struct mail up, inbox, down;
    struct frame *frames; /* [n_frames] of a turn */
    size_t n_frames, frames_max;
    struct scale_bytes packed; /* batches of a turn, one after the other */
    struct ids touched;        /* agents that the mail is for */
    struct scale_bytes tables[N_TABLES]; /* encoded, of this generation: */
    uint64_t encoded[N_TABLES];
    struct assign_table known, spare; /* as workers have decoded it */

    struct scale_agent **agents; /* [agents_max] by id; NULL: none */
    size_t agents_max;
    struct scale_worker **workers; /* [workers_max] by id; NULL: none */
    size_t workers_max;
    struct ids starting, ended; /* agents, for the launcher and from it */

    size_t n_actions_most; /* that a step has come to */
    size_t table_nbytes;   /* of the largest encoded */
    struct figures figures;
};

/* Somebody's frame does not arrive. */
bool scale_loses(struct scale *s);

/* ---- scale_driver.c ------------------------------------------------------ */

uint64_t scale_cpu_ns(void);
/* Feed an event that is no message; what follows is sent. */
void driver_side_feed(struct scale *s, const struct driver_event *ev);
/* One turn of the driver's loop: what has arrived, ticks that are due. false:
 * nothing was there. */
bool driver_side_turn(struct scale *s);
void driver_side_fini(struct scale *s);

/* ---- scale_crowd.c ------------------------------------------------------- */

void crowd_start_agent(struct scale *s, uint64_t agent);
/* Its host is off: nobody there says another word. */
void crowd_host_dies(struct scale *s, uint64_t agent);
void crowd_worker_dies(struct scale *s, uint64_t worker, int signal);
/* A frame for an agent, or a message for one of its workers. */
void crowd_hears(struct scale *s, const struct letter *letter,
                 const uint8_t *bytes);
void crowd_hears_batch(struct scale *s, const struct letter *first,
                       const uint8_t *bytes, size_t nbytes);
/* Programs that were loading call the driver. */
void crowd_loads(struct scale *s);
/* All have trained to the end. */
void crowd_finishes(struct scale *s);
/* A heartbeat of everybody. */
void crowd_beats(struct scale *s);
void crowd_fini(struct scale *s);

/* NULL: it has ended, or is yet to be started. */
struct scale_worker *crowd_worker(const struct scale *s, uint64_t id);
struct scale_agent *crowd_agent(const struct scale *s, uint64_t id);

/* ---- scale_check.c ------------------------------------------------------- */

/* The table that came with an ASSIGN is that of the driver; w is told its own
 * row. false: it lacks what this one changes. */
bool check_table(struct scale *s, struct scale_worker *w,
                 const struct message *m, enum scale_table table);
/* `size` workers are in the newest generation, and train. A REPORT of it may
 * be lost: it is for the log, and is said once. */
bool generation_stands(const struct scale *s, size_t size);
/* ... as it must be. */
void check_generation(const struct scale *s, size_t size);

#endif
