/* elastic/worker/core.h - the worker's half of the membership protocol, as a
 * pure machine: events in, actions out.
 *
 *            ENTER          ASSIGN             BOUNDARY + hold
 *   IDLE ---------> JOINING -------> RUNNING ------------------> HELD
 *    ^ WELCOME         ^  ^             |  |   <-- CUT: go on --  |
 *   CONTACT            |  +--- LOST ----+  |                      |
 *                      |                   | DONE                 |
 *                      +--- LEFT_BOUNDARY  v    CUT: leave here   |
 *                      |                 DONE --> RELEASE --> LEFT|
 *                      +------------------------------------------+
 *
 * SUCCESSOR changes none of this: the worker says HELLO again, with where it
 * is, and repeats what stands when the new driver has answered (M15).
 *
 * A worker that was released sends PING in LEFT, too, as the driver waits for
 * its exit; the other ways into LEFT end its words.
 *
 * SHUTDOWN leads to LEFT from everywhere. The fence is the highest generation
 * that this worker has promised never to act in again (M3): it only grows.
 *
 * What the application's thread sees is `phase`, `assign`, `aborted`, `cut` and
 * `verdict`, read under the lock of whoever owns the core.
 *
 * Pure: no clock, socket, thread or allocation. Time is an argument. Action
 * memory belongs to the core until the next worker_step(). */
#ifndef ELASTIC_WORKER_CORE_H
#define ELASTIC_WORKER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "base/ids.h"
#include "elastic/wire/message.h"

struct worker_config {
    uint64_t job;
    uint64_t worker;
    struct msg_hello hello; /* re-sent until WELCOME */
    uint64_t term;          /* of the driver that is dialled; 0: not known */
    uint64_t heartbeat_us;  /* until WELCOME says otherwise */
    uint64_t driver_timeout_us;
};

enum worker_event_type {
    WORKER_EV_MESSAGE,  /* u.message, from the driver */
    WORKER_EV_TICK,     /* worker_deadline() has come */
    WORKER_EV_ENTER,    /* the program entered hvd_elastic_run or
                           hvd_world_start: u.enter */
    WORKER_EV_LOST,     /* it returned HVD_PEER_LOST (or HVD_ERR_MISMATCH from a
                           collective) in u.lost.generation: u.lost */
    WORKER_EV_BOUNDARY, /* it stands at boundary ev->boundary and saw `hold` */
    WORKER_EV_LEFT, /* it left at the cut, snapshot committed: READY(updated) */
    WORKER_EV_COUNTED, /* answer to WORKER_ACT_HOLD: ev->boundary was read after
                           the hold word was set */
    WORKER_EV_DONE,    /* training finished, ev->id committed */
    WORKER_EV_FAILED,  /* u.failed: the user's own error */
    WORKER_EV_REPORT,  /* u.report */
    WORKER_EV_DRAIN,   /* hvd_drain */
    WORKER_EV_SUCCESSOR /* another driver of this job is dialled: u.term, which
                           is higher */
};

struct worker_event {
    enum worker_event_type type;
    /* sampled by the caller for every event */
    struct state_id id; /* newest complete snapshot */
    uint64_t boundary;  /* boundaries counted in this generation */
    uint64_t operation; /* collectives completed in it */
    uint64_t called;    /* ... and called or posted */
    uint64_t moves;     /* grows when bytes of one move */
    bool in_collective;
    uint64_t busy_ms;
    const struct msg_waiting *waiting; /* TICK; NULL: it is not known */
    uint8_t gone; /* LOST, LEFT: enum ready_ability, had once and no more */
    const char *settings; /* ENTER, LOST, LEFT: settings.h's text, in force */
    union {
        const struct message *message;
        struct {
            uint8_t kind;      /* enum ready_kind */
            uint8_t abilities; /* enum ready_ability */
            uint32_t user;
            uint8_t layout[WIRE_DIGEST_NBYTES];
            const char *layout_text;
        } enter;
        struct msg_lost lost;
        struct {
            int64_t status;
            const char *text;
            bool alone; /* the worker gives up: no failure of the job */
        } failed;
        struct msg_report report;
        uint64_t term;
    } u;
};

enum worker_action_type {
    WORKER_ACT_SEND,   /* u.message to the driver */
    WORKER_ACT_ABORT,  /* abort the communicator of `generation`: u.abort */
    WORKER_ACT_HOLD,   /* set the hold word, then read the boundary counter
                         (both seq_cst), then feed COUNTED */
    WORKER_ACT_BEGIN,  /* ASSIGN was accepted: clear the hold word and zero the
                          boundary counter, before the next event is fed */
    WORKER_ACT_UNHOLD, /* clear the hold word */
    WORKER_ACT_WAKE    /* something that the application waits for changed */
};

struct worker_action {
    enum worker_action_type type;
    union {
        struct message message;
        struct {
            uint64_t generation;
            hvd_status_t status; /* HVD_PEER_LOST or HVD_ERR_MISMATCH */
            char text[WIRE_TEXT_MAX];
        } abort;
    } u;
};

enum worker_verdict {
    WORKER_GO_ON = 0,  /* nothing final yet */
    WORKER_RELEASED,   /* -> HVD_OK */
    WORKER_DRAINED,    /* -> HVD_REMOVED */
    WORKER_JOB_FAILED, /* -> `status`, sentence in `text` */
    WORKER_DRIVER_GONE /* -> HVD_ERR_DRIVER_LOST */
};

enum { WORKER_ACTIONS_MAX = 8 };

struct worker_core {
    struct worker_config config;
    enum worker_phase phase; /* move() */
    uint64_t term;           /* of the one driver that is heard; 0: the first */
    bool greeting;       /* a successor has been dialled, and not answered */
    uint64_t generation; /* of the last ASSIGN accepted; 0: none */
    uint64_t joined;     /* the first of them */
    uint64_t fence;
    struct msg_assign assign; /* of `generation`; its table span is not kept:
                                 the caller decodes it from the message */
    bool aborted;   /* the current generation was ended from outside */
    bool explained; /* ... by a death, the driver says */
    bool hold;      /* a HOLD of this generation is standing */
    bool held;      /* ... and was answered with held_boundary */
    bool cut_known;
    bool expects; /* PONG: the driver prepares a change of hosts */
    uint64_t hold_sequence, held_boundary, cut;
    struct msg_ready ready; /* standing READY while JOINING */
    struct msg_done done;   /* standing DONE */
    struct msg_leaving leaving;
    bool is_leaving; /* LEAVING is re-sent until SHUTDOWN */
    bool drain_wanted;
    struct msg_report first; /* collective of a generation */
    bool first_again;        /* is said with the next heartbeat */
    uint64_t ran_since_us;   /* it has been run without a pause */
    bool said_waiting;       /* the driver was told that calls wait, last */
    enum worker_verdict verdict;
    hvd_status_t status;
    char text[WIRE_TEXT_MAX];
    uint64_t heartbeat_us, driver_timeout_us, connect_timeout_ms;
    uint64_t silence_ms;
    bool encrypt_data;    /* the driver's to say, as these are */
    struct msg_plan plan; /* of the first WELCOME */
    uint64_t next_tick_us, last_heard_us;
    struct worker_action actions[WORKER_ACTIONS_MAX];
    size_t n_actions;
};

/* What a boundary at `boundary` means now. */
enum worker_boundary {
    WORKER_BOUNDARY_PASS,  /* go on */
    WORKER_BOUNDARY_WAIT,  /* CUT is not known yet */
    WORKER_BOUNDARY_LEAVE, /* everybody leaves here: HVD_HOSTS_UPDATED */
    WORKER_BOUNDARY_LOST   /* the generation was aborted: HVD_PEER_LOST */
};
enum worker_boundary worker_at_boundary(const struct worker_core *core,
                                        uint64_t boundary);

void worker_core_init(struct worker_core *core,
                      const struct worker_config *config, uint64_t now_us);

/* DONE in a generation that was aborted meanwhile is HVD_ERR_STATE: the program
 * has to report LOST instead.
 *
 * Feed one event; *actions_p / *n_p name what the caller must now do, in order.
 * now_us never goes backwards. HVD_OK, or HVD_ERR_STATE: the event does not fit
 * the phase (the caller's mistake); nothing changed. */
hvd_status_t worker_step(struct worker_core *core,
                         const struct worker_event *ev, uint64_t now_us,
                         const struct worker_action **actions_p,
                         size_t *n_p) HVD_MUST_CHECK;

/* A successor of the driver has something to learn from it. */
bool worker_has_words(const struct worker_core *core);

/* How long the driver may say nothing before it is silent; what is left then of
 * its own patience with us, for three tries of another way to it. */
uint64_t worker_patience(const struct worker_core *core);
uint64_t worker_slack(const struct worker_core *core);

/* What it says to this driver by another connection, which WELCOME answers. */
void worker_hello(const struct worker_core *core, struct message *m);

/* The last that it says, when it has been released and its control thread ends:
 * its silence means nothing from then on. false: nobody waits for that. */
bool worker_goodbye(const struct worker_core *core,
                    struct message *m) HVD_MUST_CHECK;

/* Absolute time of the next WORKER_EV_TICK. */
uint64_t worker_deadline(const struct worker_core *core);

#endif
