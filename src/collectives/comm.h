/* collectives/comm.h - the ranks of one generation and what they do together.
 *
 *   CREATING --(first use)--> READY --(abort, loss, mismatch)--> ABORTED
 *
 * never back to READY: an aborted comm returns its reason for ever, and no
 * operation starts on it. Connections are made lazily, one per peer that a
 * schedule needs: the lower rank listens, the higher dials.
 *
 * The engine runs on the thread that waits: a blocking call drives its schedule
 * with poll(2) on {all connections, listening socket, abort eventfd}; every
 * wait loop terminates on abort. A peer that computes, or is stopped, is the
 * driver's business (heartbeats, ABORT): data waits have no deadline of their
 * own, and neither has the answer to a handshake (the peer may be in user
 * code). What has config.connect_timeout_us is a peer that refuses connections
 * on each of its addresses; what has config.silence_us is a peer on another
 * host whose *kernel* answers nothing any more: a network is cut (watch.c).
 *
 * Wire: each connection carries frames, a fixed 48-byte header and a payload
 * (256 KiB at most; 1 MiB in transfers): DATA {sequence, kind, dtype, op, root,
 * count, step, offset}, ABORT {status, accused, text}, LEAVE {boundary or
 * done}, ALIVE {}, ANNOUNCE {the DATA header without payload}: sent after 200
 * ms of waiting, so that ranks that wait for each other in different operations
 * find out; a higher rank that has not dialled by then is dialled for that
 * purpose (channel 2). A header that differs from the receiver's own operation
 * is HVD_ERR_MISMATCH with both sides in the sentence, on all ranks: the finder
 * sends ABORT{MISMATCH} to every peer it is connected to, receivers pass it on.
 *
 * Ranks of one host use shared memory: for everything if there are no others,
 * else for what two_level.h does, if all hosts that have several ranks can.
 *
 * With config.tcp_connections > 1 a large payload goes over several connections
 * at once (stripes.h). Ranks may differ in it: the smaller number counts.
 *
 * A call of count 0 returns at once and takes a number all the same: a peer
 * that called with another count learns of it from the next call's header or
 * ANNOUNCE. HVD_ERR_INVALID takes none. alltoallv always exchanges headers: a
 * rank with nothing to move cannot know whether the others have.
 *
 * Threads: one issuing thread. comm_abort() from any thread. When comm_leave()
 * or comm_destroy() has returned, every posted call is complete, and no thread
 * of ours touches the endpoint. */
#ifndef COLLECTIVES_COMM_H
#define COLLECTIVES_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#include "collectives/net/endpoint.h"
#include "collectives/net/peer.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/kinds.h"

struct autotune;
struct comm;
struct hvd_request;

enum { COMM_KEY_NBYTES = 32 };

/* collective_args.op of an allgather or a broadcast that hvd_state_commit makes
 * on its own: the sentence of a mismatch names it, not a call that the program
 * has not made. */
enum { COMM_OP_COMMIT = 102 };

/* config.fusion_nbytes: nothing is fused. */
enum { COMM_FUSION_NONE = 1 };

/* How buffers that are not from hvd_alloc get to the other ranks of a host. */
enum comm_ordinary {
    COMM_ORDINARY_MEASURED, /* the fastest way: some calls try all */
    COMM_ORDINARY_STAGED,   /* copied through shared memory */
    COMM_ORDINARY_ATTACHED  /* read where they are, process_vm_readv(2), if all
                               ranks may and they are too large for posts */
};

struct comm_config {
    struct endpoint *endpoint; /* borrowed; NULL only when size is 1 */
    uint64_t job;
    uint64_t generation;
    uint32_t set; /* of the comms of this generation, which one: 0 the world, 1
                     its calls by name, 2 and up its communicators and theirs */
    uint8_t key[COMM_KEY_NBYTES];
    int rank, size;
    const struct comm_peer *peers; /* [size], copied */
    uint64_t connect_timeout_us;
    uint64_t silence_us; /* of a peer on another host that is waited for: it is
                            lost then; 0: for ever */
    /* This process may be the one that is cut off: it hears nobody. While that
     * is true no peer is lost for its silence. NULL: never. Any thread. */
    bool (*is_cut_off)(uint64_t now_us);
    bool encrypt; /* what goes over TCP; the same on every rank, or they part */
    enum comm_ordinary ordinary;
    struct algorithm_override algorithms; /* the same on every rank */
    int tcp_connections;     /* with one peer, for large messages; 0 as 1 */
    const char *congestion;  /* congestion control between hosts, borrowed;
                                NULL: each host's own */
    uint64_t device_join_us; /* for NCCL to be ready in; 0: by the last time */
    uint64_t fusion_nbytes;  /* of calls by name that run as one, at most; 0: as
                                by_name.c says */
    uint64_t names_known;    /* ... of which the names are kept; 0: likewise */
    struct autotune *autotune; /* of calls by name, borrowed; NULL: none */
    bool share_device;         /* by NCCL with ranks that have the same one */
};

/* No I/O. *comm_p is valid only on HVD_OK. HVD_ERR_SYSTEM: too few descriptors
 * or no shared memory for what the peers say, among others. May raise the soft
 * RLIMIT_NOFILE. */
hvd_status_t comm_create(const struct comm_config *config,
                         struct comm **comm_p) HVD_MUST_CHECK;

/* Says nothing to the peers (comm_leave does): hands connections to the
 * endpoint. NULL is fine. */
void comm_destroy(struct comm *comm);

/* Run one collective to its end on this thread. Arguments are checked first
 * (HVD_ERR_INVALID: nothing was sent, the comm lives on).
 * Returns HVD_OK, HVD_PEER_LOST, HVD_ERR_MISMATCH, HVD_ERR_INVALID,
 * HVD_ERR_STATE (this rank has finished), HVD_ERR_SYSTEM, HVD_ERR_NOMEM (own
 * resources), with the sentence in error_text(). */
hvd_status_t comm_run(struct comm *comm,
                      const struct collective_args *args) HVD_MUST_CHECK;

/* --- posted calls ---
 *
 * The engine has one lock, and whoever waits drives it: a blocking call, a
 * transfer and request_wait() run on the issuing thread everything that was
 * posted before; the progress thread drives while nobody waits. It exists from
 * the first comm_post() to comm_destroy(), if size > 1; without it there is no
 * lock. In a world of one a posted call is complete when comm_post()
 * returns. */

/* Queue a call: it takes its number now. Arrays of counts and the name are
 * copied; args->prescale and postscale, and 16 bits on the way, count here
 * alone. Refused at once, with nothing queued: HVD_ERR_INVALID, HVD_ERR_STATE,
 * HVD_ERR_NOMEM, HVD_ERR_SYSTEM (no thread), or the comm's reason. The request
 * (request.h) is the caller's. */
hvd_status_t comm_post(struct comm *comm, const struct collective_args *args,
                       struct hvd_request **request_p) HVD_MUST_CHECK;

/* An allreduce of n tensors, planned by fusion.h. args: dtype, op, name. */
struct comm_group {
    size_t n;
    const void *const *sendbufs; /* [n] */
    void *const *recvbufs;       /* [n] */
    const size_t *counts;        /* [n] */
};

hvd_status_t comm_post_group(struct comm *comm,
                             const struct collective_args *args,
                             const struct comm_group *group,
                             struct hvd_request **request_p) HVD_MUST_CHECK;
hvd_status_t comm_run_group(struct comm *comm,
                            const struct collective_args *args,
                            const struct comm_group *group) HVD_MUST_CHECK;

/* What the first call with buffers on devices does ahead of itself, if there
 * has been none: all ranks agree how these travel. *by_nccl_p: by NCCL. */
hvd_status_t comm_meet_on_devices(struct comm *comm,
                                  bool *by_nccl_p) HVD_MUST_CHECK;

/* As comm_run(), by way of a request; buffers on the device and HVD_ADASUM take
 * it. */
hvd_status_t
comm_run_request(struct comm *comm,
                 const struct collective_args *args) HVD_MUST_CHECK;

/* Complete what is queued. Else than HVD_OK: a posted call has failed, now or
 * before; the comm's reason. */
hvd_status_t comm_drain(struct comm *comm) HVD_MUST_CHECK;

/* Complete what is queued, and what devices have been told: none of it has
 * failed on this rank; a barrier then, so on none. */
hvd_status_t comm_confirm(struct comm *comm) HVD_MUST_CHECK;

/* State transfer, on channel 1 (a connection of its own): the peer that sends
 * and the peer that receives call these with equal nbytes. What arrives is not
 * verified: who knows what it is sends digests with it. Same returns as
 * comm_run. */
hvd_status_t comm_transfer_send(struct comm *comm, int peer, const void *buf,
                                size_t nbytes) HVD_MUST_CHECK;
hvd_status_t comm_transfer_recv(struct comm *comm, int peer, void *buf,
                                size_t nbytes) HVD_MUST_CHECK;

/* What `peer` has sent is not what it should be: the comm ends with
 * HVD_PEER_LOST and this sentence. Either of the two may have damaged it, so
 * this rank accuses both. Returns the reason that counts. */
hvd_status_t comm_distrust(struct comm *comm, int peer,
                           const char *text) HVD_MUST_CHECK;

/* Any thread, idempotent, never blocks; the first caller's reason stays:
 * HVD_PEER_LOST or HVD_ERR_MISMATCH. Whoever waits in comm_run returns. */
void comm_abort(struct comm *comm, hvd_status_t reason, const char *text);

/* HVD_OK while it lives, else the reason; *text_p (may be NULL) its sentence.
 * Any thread. */
hvd_status_t comm_status(const struct comm *comm, const char **text_p);

/* The status of a call by name that has failed alone, as ranks differ, and that
 * nobody has waited for; HVD_OK: there is none. */
hvd_status_t comm_unwaited(struct comm *comm) HVD_MUST_CHECK;

/* HVD_OK until a call of this rank has failed, or comm_leave() was called: then
 * the reason, its sentence set. Refused arguments are no failure; nor is an
 * abort, until a call has met it: what was computed up to then is whole. Behind
 * comm_drain() posted calls count as well. */
hvd_status_t comm_whole(struct comm *comm) HVD_MUST_CHECK;

/* Ranks whose connection ended without a goodbye, that could not be reached, or
 * that are distrusted, [*n_p], valid until comm_destroy(). */
const int *comm_accused(const struct comm *comm, size_t *n_p);

/* A bit for each of the first 64 of them: it had answered, or was refusing for
 * all of connect_timeout_us; what it was kept waiting for, and what this
 * process did not run, does not count. Else a third may have kept this rank
 * from it: who sits on a dead rank's port, say. */
uint64_t comm_accused_proven(const struct comm *comm);

/* The boundaries this rank has passed: compared with a peer's LEAVE. Any time;
 * cheap (one relaxed store). */
void comm_set_boundary(struct comm *comm, uint64_t boundary);

enum comm_leave_kind {
    COMM_LEAVE_ABORT,    /* the comm was aborted: ABORT frames */
    COMM_LEAVE_BOUNDARY, /* left at `boundary` by HVD_HOSTS_UPDATED */
    COMM_LEAVE_DONE      /* training has finished */
};

/* Say goodbye on every connection. COMM_LEAVE_DONE keeps the comm alive (peers
 * may still fail); the others leave it ABORTED with HVD_PEER_LOST. Never blocks
 * longer than it takes to hand the frames to the kernel, best effort, but where
 * NCCL is used: at a boundary until all ranks are there, and else until no
 * kernel writes to a buffer any more. The endpoint remembers the goodbye for
 * peers that connect later. After COMM_LEAVE_DONE comm_run returns
 * HVD_ERR_STATE. */
void comm_leave(struct comm *comm, enum comm_leave_kind kind,
                uint64_t boundary);

uint64_t comm_generation(const struct comm *comm);

/* How far it has got. Any thread (relaxed): collectives completed, called or
 * posted (as many, unless one is under way), and a number that grows whenever
 * some bytes of a call or transfer have moved. */
uint64_t comm_operations(const struct comm *comm);
uint64_t comm_called(const struct comm *comm);
uint64_t comm_moves(struct comm *comm);

#endif
