/* collectives/comm_impl.h - the inside of a comm, shared by comm.c (its life),
 * links.c and attempt.c (its connections), operation.c (what a call consists
 * of), engine.c (the operation in flight), stream.c and local_phase.c (its
 * phases) and transfer.c; for this room only.
 *
 * Threads: whoever drives the comm, but for the fields marked otherwise. That
 * is the issuing thread, or the progress thread (progress.h); they exclude each
 * other. */
#ifndef COLLECTIVES_COMM_IMPL_H
#define COLLECTIVES_COMM_IMPL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/verdict.h"
#include "collectives/adasum.h"
#include "collectives/call.h"
#include "collectives/comm.h"
#include "collectives/local/local.h"
#include "collectives/net/connection.h"
#include "collectives/net/endpoint_impl.h"
#include "collectives/net/frame.h"
#include "collectives/on_device.h"
#include "collectives/phase_ops.h"
#include "collectives/schedule/schedule.h"
#include "timeline/timeline.h"

/* bounce: a frame, or the result of an allreduce that has to wait (local/run.c)
 */
enum { COMM_HISTORY = 16, COMM_BOUNCE_NBYTES = LOCAL_BOUNCE_NBYTES };

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

enum { OPERATION_PHASES_MAX = 3 };

/* The call in flight. */
struct operation {
    bool active;
    bool calls; /* as the call's */
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
    uint64_t watch_us; /* when to look next whether a peer is silent */
    uint64_t until_us; /* of await_phase: no longer; 0: as long as it takes */

    /* for the timeline; 0: it is not on, or not yet */
    uint64_t begun_ns, arrived_ns;
    uint64_t ended_ns[OPERATION_PHASES_MAX - 1]; /* the last ends with it */

    /* last, and what a call does not use of them is not cleared */
    struct phase phases[OPERATION_PHASES_MAX];
    struct stream stream; /* of a phase that streams, since it has begun */
};

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
    hvd_status_t (*map)(struct comm *comm, int peer, const int *fds,
                        size_t n_fds);
};

/* OPEN --(abort, leave)--> PARTED --(leave, done)--> FINISHED
 *
 * An abort is heard while the comm is OPEN (the verdict), and acted upon by
 * whoever drives: comm_end(). */
enum comm_life {
    COMM_OPEN,
    COMM_PARTED,  /* goodbye was said, the connections are given away */
    COMM_FINISHED /* ... and this rank calls nothing more */
};

/* Comms of one generation that end with each other: process_set.h, by_name.h.
 */
struct comm_family {
    struct comm *world; /* of which this one is a part; NULL: it is the world */
    int *ranks;         /* [size], those of `world`; NULL: as they are here */
    struct comm *next;  /* of the world's list, under its lock */
    pthread_mutex_t lock; /* of what follows */
    struct comm *first;   /* the communicators of this one */
    bool closed;          /* there will be no more */
    uint64_t moves;       /* of those that are gone */
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
    struct local *local;            /* NULL: no shared memory */
    struct two_level *two_level;    /* NULL: one level serves all */
    enum algorithm large_allreduce; /* if config.algorithms says auto */
    bool in_background;             /* the progress thread drives it */
    /* issuing thread: the last blocking call, and what came of its checks */
    bool has_last;
    struct collective_args last_args;
    struct call last_call;
    struct frame history[COMM_HISTORY]; /* by sequence % COMM_HISTORY */

    int *accused;
    size_t n_accused;
    uint64_t proven; /* comm_accused_proven() */

    /* both constant from before the endpoint knows `user` */
    const struct comm_local_ops *local_ops; /* NULL: no CHANNEL_LOCAL */
    bool uses_local; /* CHANNEL_LOCAL, not CHANNEL_DATA, within the host */

    struct comm_device device;

    struct by_name *by_name;    /* it serves calls by name, and nothing else */
    struct comm *_Atomic names; /* set once: the comm that does so for this
                                   one; NULL: none */
    bool names_closed; /* there will be none any more; by_name.c's lock */

    struct comm_family family;
    struct progress *progress; /* NULL: nothing was ever posted */
    uint8_t *fusion;           /* [FUSION_BUFFER_NBYTES], NULL: none yet */
    struct adasum_memory adasum;

    struct endpoint_user user; /* the endpoint's, unless the rank is alone */

    /* any thread */
    struct verdict verdict; /* wake_fd: also raised with `kick` */
    atomic_uint life;       /* enum comm_life; comm_move() alone changes it */
    atomic_bool kick;       /* the progress thread lets go of the engine */
    atomic_bool refused;    /* since it has ended, a call by name was */
    atomic_uint_least64_t boundary;
    /* one writer each: the issuing thread the number last given, whoever drives
     * the others */
    atomic_uint_least64_t sequence, operations, moves;
};

/* The issuing thread wants to drive: leave the operation where it is. Never
 * true while that thread drives. */
static inline bool comm_kicked(const struct comm *comm)
{
    return atomic_load_explicit(&comm->kick, memory_order_relaxed);
}

/* FINISHED by the issuing thread, the rest by whoever drives. */
static inline enum comm_life comm_life(const struct comm *comm)
{
    return (enum comm_life)atomic_load_explicit(&comm->life,
                                                memory_order_relaxed);
}

/* Of a loop over the elements of a buffer, [count], how many to take from `at`
 * on before it looks again whether the comm has ended; 0: it has. */
static inline size_t comm_piece(const struct comm *comm, size_t at,
                                size_t count)
{
    enum { PIECE = 64 << 10 };
    size_t rest = count - at;

    if (comm_status(comm, NULL) != HVD_OK)
        return 0;
    return rest < PIECE ? rest : PIECE;
}

/* --- comm.c --- */

/* Abort with a sentence; returns the reason that stays, its text set. */
#define comm_fail(comm, ...) verdict_fail(&(comm)->verdict, __VA_ARGS__)

/* HVD_OK, or the reason with its text set. */
static inline hvd_status_t comm_check(const struct comm *comm)
{
    return verdict_check(&comm->verdict);
}

/* This rank lacks what a call needs, and the others wait for that call: it is
 * lost to them. The sentence is set; returns `status`. Any thread. */
hvd_status_t comm_lacks(struct comm *comm, hvd_status_t status);

/* Say goodbye where that is still possible and give all connections away. */
void comm_tear_down(struct comm *comm, struct frame *goodbye, const char *text);
/* After a failed operation: ABORT to all. Returns the reason. */
hvd_status_t comm_end(struct comm *comm);
void comm_accuse(struct comm *comm, int peer, bool proven);
/* Whom the other one has accused, whose rank i is ranks[i] here; NULL: i. */
void comm_accuse_as(struct comm *comm, const struct comm *other,
                    const int *ranks);
/* May a call be issued? HVD_OK, HVD_ERR_STATE, or the comm's reason. */
hvd_status_t comm_admit(struct comm *comm) HVD_MUST_CHECK;
/* Begin a call that has its number. HVD_OK: comm->op is active, and behind
 * engine_continue() comes operation_finish(); or there was nothing to move. */
hvd_status_t comm_begin(struct comm *comm, const struct collective_args *args,
                        const struct call *call) HVD_MUST_CHECK;
/* The same of one that NCCL does. */
hvd_status_t comm_begin_device(struct comm *comm,
                               const struct call *call) HVD_MUST_CHECK;
/* One more collective is complete. */
void comm_count(struct comm *comm);
/* Some of its bytes have gone, come or been copied. */
void comm_move_on(struct comm *comm);
/* The number of a call of n operations, which it takes: the first's. */
uint64_t comm_number(struct comm *comm, size_t n);

/* --- attempt.c: to reach a peer by one of its addresses --- */

/* Start one over TCP, as connection_dial(). */
enum io attempt_dial(struct comm *comm, struct connection *c,
                     const uint8_t *hello, hvd_status_t *status_p);
/* When it has lasted long enough: then another address has its turn, or all had
 * theirs for the whole connect timeout. */
uint64_t attempt_end_us(const struct connection *c);
/* Nothing came of it: back to RETRY. Whom it has reached may be between two
 * generations, that is no time of trying; where nobody was, another address is
 * better. */
void attempt_fail(struct comm *comm, struct connection *c, uint64_t now_us);
/* Has an address not had its turn in this round? false: a pause is due. */
bool attempt_again(const struct comm *comm, struct connection *c);
/* This is no time of trying: the dialer did not run (base/stall.h), or was kept
 * waiting by whom it has reached, who need not know of the generation yet. */
void attempt_put_off(struct connection *c, uint64_t us);
/* Other addresses first, if there are any. */
void attempt_avoid(struct comm *comm, const struct connection *c,
                   uint64_t now_us);

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
/* Dial again, and judge again, where it is time. */
hvd_status_t links_retry_due(struct comm *comm, uint64_t now_us) HVD_MUST_CHECK;
uint64_t links_deadline(const struct comm *comm);

/* On this host? */
bool links_near(const struct comm *comm, int peer);

/* Nothing passes through this connection: the peer is lost, or, where it has
 * not answered yet, dialled again. Another of its addresses is first then, and
 * in generations to come. The sentence says what has not passed. */
hvd_status_t links_silent(struct comm *comm, struct connection *c,
                          const char *what, uint64_t silent_us) HVD_MUST_CHECK;

/* The peer is lost through this connection: the sentence ends in `how`. */
hvd_status_t links_lost(struct comm *comm, struct connection *c,
                        const char *how);

/* --- operation.c --- */

/* Prepare comm->op for a call that call_check() has accepted: phases chosen,
 * own contribution in place (in shared memory that is local/run.c's).
 * HVD_ERR_NOMEM, the comm's reason: nothing was sent. */
hvd_status_t operation_begin(struct comm *comm,
                             const struct collective_args *args,
                             const struct call *call) HVD_MUST_CHECK;
/* The same of a call that NCCL does: comm->device.task says what. */
void operation_prepare_device(struct comm *comm, const struct call *call);
/* copy_in_pieces() under the comm's verdict. */
hvd_status_t operation_copy(const struct comm *comm, void *dst, const void *src,
                            size_t nbytes) HVD_MUST_CHECK;
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

static inline const struct phase_ops *engine_ops(const struct comm *comm)
{
    return engine_phase(&comm->op)->ops;
}

/* Nothing is left to do in the last phase. */
static inline bool engine_done(const struct comm *comm)
{
    const struct operation *op = &comm->op;

    if (op->phase_i + 1 < op->n_phases)
        return false;
    return op->phase_i == op->n_phases || engine_ops(comm)->done(comm);
}

/* Begin comm->op, prepared by the caller. HVD_OK: it is active. */
hvd_status_t engine_start(struct comm *comm) HVD_MUST_CHECK;
/* Drive it to its end. HVD_OK: it is over; or still active, and the thread was
 * kicked out: whoever calls this next goes on where it stands. */
hvd_status_t engine_continue(struct comm *comm) HVD_MUST_CHECK;
/* Both: for the issuing thread. */
hvd_status_t engine_run(struct comm *comm) HVD_MUST_CHECK;
/* Say to the peer what this rank is in, if that can be said without waiting. */
hvd_status_t engine_announce_to(struct comm *comm,
                                struct connection *c) HVD_MUST_CHECK;
hvd_status_t engine_announced(struct comm *comm,
                              struct connection *c) HVD_MUST_CHECK;
/* Boundaries that this rank has passed, as its world counts them. */
uint64_t engine_boundaries_passed(const struct comm *comm);
/* The peer has said LEAVE: does the operation need it? */
hvd_status_t engine_left(struct comm *comm,
                         struct connection *c) HVD_MUST_CHECK;
/* Frames of the call in flight: is its sender's algorithm the same? */
hvd_status_t engine_same_algorithm(struct comm *comm,
                                   const struct connection *c) HVD_MUST_CHECK;
/* A frame of a call that is not the one in flight. */
hvd_status_t engine_other_call(struct comm *comm,
                               const struct connection *c) HVD_MUST_CHECK;
/* The sentence of a mismatch. */
hvd_status_t engine_disagree(struct comm *comm, int peer,
                             const struct frame *theirs,
                             const struct frame *mine) HVD_MUST_CHECK;

/* --- local_phase.c: a phase in memory that ranks of this host share --- */

extern const struct phase_ops local_phase;

/* --- await_phase.c: until the next call is begun somewhere --- */

extern const struct phase_ops await_phase;

/* --- device_phase.c: a phase that NCCL does --- */

extern const struct phase_ops device_phase;

/* Sets comm->local, and comm->local_ops for CHANNEL_LOCAL, if ranks of own host
 * are among config.peers, and can share memory. HVD_ERR_SYSTEM: it cannot be
 * made all the same. */
hvd_status_t comm_share(struct comm *comm) HVD_MUST_CHECK;

/* Are all ranks in the group that shares this host's memory? */
static inline bool comm_shares_all(const struct comm *comm)
{
    return comm->local != NULL && local_size(comm->local) == comm->config.size;
}

/* --- watch.c: peers on other hosts from whom nothing comes --- */

/* When the first look is due that a wait has to take; CLOCK_NEVER: none. */
uint64_t watch_first(const struct comm *comm, uint64_t now_us);
/* Look at whom the operation waits for, and ask them; sets op.watch_us. */
hvd_status_t watch_look(struct comm *comm, uint64_t now_us) HVD_MUST_CHECK;

/* --- stream.c: a phase whose bytes travel on connections --- */

extern const struct phase_ops stream_phase;

/* A connection holds a frame: claim it if it is wanted now, leave it if later.
 */
hvd_status_t stream_held(struct comm *comm,
                         struct connection *c) HVD_MUST_CHECK;
/* The claimed payload is complete. */
hvd_status_t stream_complete(struct comm *comm,
                             struct connection *c) HVD_MUST_CHECK;

#endif
