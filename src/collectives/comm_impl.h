/* collectives/comm_impl.h - the inside of a comm, shared by comm.c (its life),
 * links.c (its connections), operation.c (what a call consists of), engine.c
 * (the operation in flight), stream.c and local.h (a phase of it) and
 * transfer.c; for this room only.
 *
 * Threads: whoever drives the comm, but for the fields marked otherwise. That
 * is the issuing thread, or the progress thread (progress.h); they exclude each
 * other. */
#ifndef COLLECTIVES_COMM_IMPL_H
#define COLLECTIVES_COMM_IMPL_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collectives/comm.h"
#include "collectives/connection.h"
#include "collectives/endpoint_impl.h"
#include "collectives/frame.h"
#include "collectives/local.h"
#include "collectives/schedule.h"
#include "collectives/timeline.h"

/* bounce: a frame, or the result of an allreduce that has to wait (local_run.c)
 */
enum { COMM_HISTORY = 16, COMM_BOUNCE_NBYTES = 2 * SCHEDULE_FRAME_NBYTES };

/* The steps of a schedule under way: two cursors over them. */
struct stream {
    int channel; /* enum comm_channel */
    size_t frame_nbytes;
    const size_t *sendcounts, *recvcounts; /* alltoallv, else NULL */
    const uint8_t *src;
    uint8_t *dst;
    const struct schedule_step *steps;
    size_t n_steps;

    size_t send_i, send_off; /* step, bytes of it queued */
    bool send_begun;
    size_t recv_i, recv_off; /* step, bytes of it in place */
    bool apply_pending; /* the bounce buffer is full, the send is not gone */
};

static inline bool stream_done(const struct stream *st)
{
    return st->send_i == st->n_steps && st->recv_i == st->n_steps;
}

enum phase_type { PHASE_STREAM, PHASE_LOCAL };

/* One of the parts that an operation does in order. */
struct phase {
    enum phase_type type;
    struct schedule_call shape;
    const uint8_t *src;
    uint8_t *dst;
    int channel;   /* enum comm_channel */
    int divisor;   /* LOCAL: AVERAGE divides by it, 0: not yet */
    int pull_kind; /* LOCAL: enum pull_kind; 0: as shape.kind says */
    int n_slices;  /* LOCAL: as in struct pull_shape */
    /* STREAM; NULL: built from shape, if it is the first phase */
    const struct schedule_step *steps;
    size_t n_steps;
};

enum { OPERATION_PHASES_MAX = 3 };

/* The call in flight. */
struct operation {
    bool active;
    struct frame head;
    hvd_dtype_t dtype;
    hvd_op_t op;
    size_t elem_nbytes;
    int n_phases, phase_i; /* phase_i == n_phases: done */

    /* what is left to do behind the last phase: a copy */
    void *final_dst;
    const void *final_src;
    size_t final_nbytes;

    uint64_t announce_us;

    /* for the timeline; 0: it is not on, or not yet */
    uint64_t begun_ns, arrived_ns;
    uint64_t ended_ns[OPERATION_PHASES_MAX - 1]; /* the last ends with it */

    /* last, and what a call does not use of them is not cleared */
    struct phase phases[OPERATION_PHASES_MAX];
    struct stream stream; /* of a phase that streams, since it has begun */
};

struct call;
struct progress;

/* What CHANNEL_LOCAL is about: the memory that workers of a host share. All by
 * whoever drives the comm; none may wait. */
struct comm_local_ops {
    /* fds [UNIX_FDS_MAX]: what every peer of this host is handed, borrowed
     * until the next call of anything here. Returns how many: the same number
     * on all ranks, or the handshake is refused. */
    size_t (*fds)(struct comm *comm, int *fds);
    /* The peer's descriptors, fds [n_fds], are taken, also on failure, which
     * ends the comm. Once per peer, when the connection becomes OPEN. */
    hvd_status_t (*attach)(struct comm *comm, int peer, const int *fds,
                           size_t n_fds);
};

struct comm {
    struct comm_config config;
    struct comm_peer *peers;   /* [size] */
    struct connection **links; /* [CHANNEL_COUNT][size], NULL: none yet */
    struct connection **live;  /* [n_live], those that exist */
    size_t n_live;

    struct schedule_step *steps; /* [schedule_steps_max(size)] */
    uint8_t *bounce;             /* [COMM_BOUNCE_NBYTES] */
    uint8_t *scratch;
    size_t scratch_nbytes;
    struct pollfd *pfds;
    size_t pfds_max;

    struct operation op;
    struct local *local;         /* NULL: no shared memory */
    struct two_level *two_level; /* NULL: one level serves all */
    bool in_background;          /* the progress thread drives it */
    uint64_t sequence;           /* issuing thread: the last number given */
    struct frame history[COMM_HISTORY]; /* by sequence % COMM_HISTORY */

    int *accused;
    size_t n_accused;

    /* both constant from before `user` is attached */
    const struct comm_local_ops *local_ops; /* NULL: no CHANNEL_LOCAL */
    bool uses_local; /* CHANNEL_LOCAL, not CHANNEL_DATA, within the host */

    struct progress *progress; /* NULL: nothing was ever posted */
    uint8_t *fusion;           /* [FUSION_BUFFER_NBYTES], NULL: none yet */

    struct endpoint_user user;
    bool attached, torn, done;

    /* any thread */
    int wake_fd;               /* eventfd: readable once aborted, or kicked */
    atomic_bool kick;          /* the progress thread lets go of the engine */
    atomic_int word;           /* 0: alive; COMM_CLAIMED; else the reason */
    char text[ERROR_TEXT_MAX]; /* constant once word is a reason */
    atomic_uint_least64_t boundary, operations;
};

enum { COMM_CLAIMED = 0x7ffffffe };

/* The issuing thread wants to drive: leave the operation where it is. Never
 * true while that thread drives. */
static inline bool comm_kicked(const struct comm *comm)
{
    return atomic_load_explicit(&comm->kick, memory_order_relaxed);
}

/* --- comm.c --- */

/* Abort with a sentence; returns the reason that stays, its text set. */
hvd_status_t comm_fail(struct comm *comm, hvd_status_t reason, const char *fmt,
                       ...) __attribute__((format(printf, 3, 4)));
/* HVD_OK, or the reason with its text set. */
hvd_status_t comm_check(const struct comm *comm) HVD_MUST_CHECK;
/* Say goodbye where that is still possible and give all connections away. */
void comm_tear_down(struct comm *comm, const struct frame *goodbye,
                    const char *text);
/* After a failed operation: ABORT to all. Returns the reason. */
hvd_status_t comm_end(struct comm *comm);
void comm_accuse(struct comm *comm, int peer);
/* May a call be issued? HVD_OK, HVD_ERR_STATE, or the comm's reason. */
hvd_status_t comm_admit(struct comm *comm) HVD_MUST_CHECK;
/* Begin a call that has its number. HVD_OK: comm->op is active, and behind
 * engine_continue() comes operation_finish(); or there was nothing to move. */
hvd_status_t comm_begin(struct comm *comm, const struct collective_args *args,
                        const struct call *call) HVD_MUST_CHECK;
/* One more collective is complete. */
void comm_count(struct comm *comm);

/* --- links.c --- */

static inline struct connection *comm_link(const struct comm *comm, int channel,
                                           int peer)
{
    return comm->links[channel * comm->config.size + peer];
}

/* The endpoint's door. */
bool links_take(void *arg, int fd, const struct handshake *hello,
                const int *fds, size_t n_fds);
/* Dial unless the connection exists. CHANNEL_LOCAL: with local_ops only. */
hvd_status_t links_dial(struct comm *comm, int peer,
                        int channel) HVD_MUST_CHECK;
/* Take in what is buffered, up to the end of the operation: an ABORT behind it
 * belongs to the next one. */
hvd_status_t links_digest(struct comm *comm,
                          struct connection *c) HVD_MUST_CHECK;
/* Read once and digest; *moved_p is set when anything came. */
hvd_status_t links_read(struct comm *comm, struct connection *c,
                        bool *moved_p) HVD_MUST_CHECK;
hvd_status_t links_flush(struct comm *comm,
                         struct connection *c) HVD_MUST_CHECK;
/* What poll(2) found. */
hvd_status_t links_ready(struct comm *comm, struct connection *c,
                         short revents) HVD_MUST_CHECK;
short links_events(const struct connection *c);
/* Dial again where it is time. */
hvd_status_t links_retry_due(struct comm *comm, uint64_t now_us) HVD_MUST_CHECK;
uint64_t links_deadline(const struct comm *comm);

/* The peer is lost through this connection: the sentence ends in `how`. */
hvd_status_t links_lost(struct comm *comm, struct connection *c,
                        const char *how);

/* --- operation.c --- */

/* Prepare comm->op for a call that call_check() has accepted: phases chosen,
 * own contribution in place (in shared memory that is local_run.c's).
 * HVD_ERR_NOMEM, the comm's reason: nothing was sent. */
hvd_status_t operation_begin(struct comm *comm,
                             const struct collective_args *args,
                             const struct call *call) HVD_MUST_CHECK;
/* copy_memory(), which may be of the same or no memory, in pieces between which
 * an abort is heard: the comm's reason, and the copy is not complete. */
hvd_status_t operation_copy(const struct comm *comm, void *dst, const void *src,
                            size_t nbytes, bool stream) HVD_MUST_CHECK;
/* Behind the last phase. Else than HVD_OK: the comm's reason. */
hvd_status_t operation_finish(struct comm *comm) HVD_MUST_CHECK;
/* Its phases, behind the last of them, as `call` in the timeline. */
void operation_show(const struct comm *comm, const struct timeline_call *call);
/* What the timeline tells of a call without a name of its own. */
struct timeline_call operation_shown(const struct collective_args *args,
                                     size_t elem_nbytes);
/* Whom it begins with has come: all of them (shared memory), or the first. */
static inline void operation_arrived(struct operation *op)
{
    if (__builtin_expect(op->begun_ns != 0 && op->arrived_ns == 0, 0))
        op->arrived_ns = timeline_clock_now();
}
/* The whole call in a world of one. */
hvd_status_t operation_alone(struct comm *comm,
                             const struct collective_args *args,
                             const struct call *call) HVD_MUST_CHECK;

/* --- engine.c --- */

static inline const struct phase *engine_phase(const struct operation *op)
{
    return &op->phases[op->phase_i];
}

/* Nothing is left to do in the last phase. */
static inline bool engine_done(const struct comm *comm)
{
    const struct operation *op = &comm->op;

    if (op->phase_i + 1 < op->n_phases)
        return false;
    return op->phase_i == op->n_phases ||
           (engine_phase(op)->type == PHASE_LOCAL ? local_done(comm)
                                                  : stream_done(&op->stream));
}

/* Begin comm->op, prepared by the caller. HVD_OK: it is active. */
hvd_status_t engine_start(struct comm *comm) HVD_MUST_CHECK;
/* Drive it to its end. HVD_OK: it is over; or still active, and the thread was
 * kicked out: whoever calls this next goes on where it stands. */
hvd_status_t engine_continue(struct comm *comm) HVD_MUST_CHECK;
/* Both: for the issuing thread. */
hvd_status_t engine_run(struct comm *comm) HVD_MUST_CHECK;
hvd_status_t engine_announced(struct comm *comm,
                              struct connection *c) HVD_MUST_CHECK;
/* The peer has said LEAVE: does the operation need it? */
hvd_status_t engine_left(struct comm *comm,
                         struct connection *c) HVD_MUST_CHECK;
/* Frames of the call in flight: is its sender's way the same? */
hvd_status_t engine_same_way(struct comm *comm,
                             const struct connection *c) HVD_MUST_CHECK;
/* A frame of a call that is not the one in flight. */
hvd_status_t engine_other_call(struct comm *comm,
                               const struct connection *c) HVD_MUST_CHECK;
/* The sentence of a mismatch. */
hvd_status_t engine_disagree(struct comm *comm, int peer,
                             const struct frame *theirs,
                             const struct frame *mine) HVD_MUST_CHECK;

/* --- stream.c: a phase whose bytes travel on connections --- */

/* Build its steps and connect at once to all peers below that they name. */
hvd_status_t stream_begin(struct comm *comm,
                          const struct phase *phase) HVD_MUST_CHECK;
/* What needs no waiting; *more_p: something was done, and it was stopped
 * so that an abort is heard. */
hvd_status_t stream_advance(struct comm *comm, bool *more_p) HVD_MUST_CHECK;
/* Does it still wait for this peer? */
bool stream_needs(const struct comm *comm, int peer);
/* Will this phase, whose steps are built? */
bool stream_names(const struct phase *phase, int peer);
/* The peers that the next receive and the next send wait for; -1: none. */
void stream_waits(const struct stream *st, int peers[2]);
/* A connection holds a frame: claim it if it is wanted now, leave it if later.
 */
hvd_status_t stream_held(struct comm *comm,
                         struct connection *c) HVD_MUST_CHECK;
/* The claimed payload is complete. */
hvd_status_t stream_complete(struct comm *comm,
                             struct connection *c) HVD_MUST_CHECK;

#endif
