/* hvd/collectives.h - how bytes combine over the ranks of the current
 * generation.
 *
 * Common to every call here:
 *   Order      all ranks issue the same collectives in the same order, blocking
 *              and asynchronous ones alike; but for calls by name
 *              (HVD_COLLECTIVE_BY_NAME).
 *   Threads    one issuing thread; a blocking operation runs on it.
 *   Buffers    borrowed until return; nothing writes them afterwards. Results
 *              are undefined unless the call returned HVD_OK. Every rank gets
 *              the same bits.
 *   Returns    HVD_OK
 *              HVD_PEER_LOST       a peer is gone; return it from the training
 *                                  function
 *              HVD_ERR_MISMATCH    ranks disagree on operation, count, dtype,
 *                                  op or root, or on the number of boundaries
 *                                  before it (hvd_last_error names both sides);
 *                                  all ranks get it and the job ends with that
 *                                  sentence
 *              HVD_ERR_INVALID     bad argument or overlap, nothing was sent;
 *                                  or called in a forked child
 *              HVD_ERR_STATE       no world: hvd_init was not called, or it is
 *                                  outside of the training function; or it is
 *                                  in a callback that not all ranks run
 *                                  (hvd/state.h)
 *              HVD_ERR_NOMEM, HVD_ERR_SYSTEM
 *                                  this rank's own resources; to the others
 *                                  it is lost
 *              The first collective of a static program joins the world, and
 *              returns what hvd_join_world does if that fails.
 *   Counts are elements, as in NCCL. 0 is allowed: what all ranks know to move
 *   nothing returns at once. */
#ifndef HVD_COLLECTIVES_H
#define HVD_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hvd_dtype {
    HVD_INT8 = 0,
    HVD_UINT8 = 1,
    HVD_INT32 = 2,
    HVD_INT64 = 3,
    HVD_FLOAT16 = 4,  /* IEEE 754 binary16; combined in fp32, one rounding
                         per hop */
    HVD_BFLOAT16 = 5, /* upper half of a binary32; likewise */
    HVD_FLOAT32 = 6,
    HVD_FLOAT64 = 7,
    HVD_DTYPE_FORCE_INT = 0x7fffffff
} hvd_dtype_t;

typedef enum hvd_op {
    HVD_SUM = 0,     /* integers wrap around */
    HVD_AVERAGE = 1, /* the sum divided by the size of the generation;
                        integers truncate toward 0; in a process set, by its
                        size; behind hvd_join, by the ranks that have data */
    HVD_MIN = 2,     /* a NaN in any rank's element makes the result NaN */
    HVD_MAX = 3,     /* likewise */
    HVD_PRODUCT = 4,
    /* Allreduce of floating point: adaptive summation, pair by pair,
     * a' = (1 - a.b / 2 a.a) a + (1 - a.b / 2 b.b) b, of each tensor of a group
     * by itself. The mean of what is equal, the sum of what is orthogonal, so
     * that a learning rate need not be scaled with the number of ranks, of
     * which there may be any. Products are computed in binary64, where they are
     * 0 or overflow it is a sum; each pair is rounded once, 16 bits by way of
     * float32. Source: Maleki et al., Scaling Distributed Training with
     * Adaptive Summation, 2020. Buffers of a device are staged through memory
     * of the host for it. */
    HVD_ADASUM = 5,
    HVD_OP_FORCE_INT = 0x7fffffff
} hvd_op_t;

/* hvd_dtype_size - bytes of one element; 0 for an unknown dtype. */
HVD_API size_t hvd_dtype_size(hvd_dtype_t dtype);

/* hvd_allreduce - combine `count` elements over all ranks; every rank gets the
 * result.
 *
 * sendbuf    [count] of dtype, contiguous.
 * recvbuf    [count] of dtype. May equal sendbuf (in place), may not otherwise
 *            overlap it.
 * op         HVD_AVERAGE divides by the size of the current generation.
 * Source     ring: Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009;
 *            semantics: MPI 3.1, 5.9.6. */
HVD_API hvd_status_t hvd_allreduce(const void *sendbuf, void *recvbuf,
                                   size_t count, hvd_dtype_t dtype,
                                   hvd_op_t op) HVD_MUST_CHECK;

/* hvd_broadcast - copy buf [count] of dtype from rank `root` to all ranks. MPI
 * 3.1, 5.4. */
HVD_API hvd_status_t hvd_broadcast(void *buf, size_t count, hvd_dtype_t dtype,
                                   int root) HVD_MUST_CHECK;

/* hvd_allgather - concatenate in rank order.
 * sendbuf [sendcount]; recvbuf [size * sendcount]; in place: sendbuf == recvbuf
 * + rank * sendcount. */
HVD_API hvd_status_t hvd_allgather(const void *sendbuf, void *recvbuf,
                                   size_t sendcount,
                                   hvd_dtype_t dtype) HVD_MUST_CHECK;

/* hvd_reduce_scatter - combine, and leave block `rank` of the result on each
 * rank.
 * sendbuf [size * recvcount]; recvbuf [recvcount]; in place: recvbuf == sendbuf
 * + rank * recvcount. */
HVD_API hvd_status_t hvd_reduce_scatter(const void *sendbuf, void *recvbuf,
                                        size_t recvcount, hvd_dtype_t dtype,
                                        hvd_op_t op) HVD_MUST_CHECK;

/* hvd_alltoall - block j of sendbuf goes to rank j, block i of recvbuf comes
 * from rank i.
 * sendbuf, recvbuf [size * count_per_peer] each; may be equal (in place). */
HVD_API hvd_status_t hvd_alltoall(const void *sendbuf, void *recvbuf,
                                  size_t count_per_peer,
                                  hvd_dtype_t dtype) HVD_MUST_CHECK;

/* hvd_allgatherv - allgather with a count per rank. recvcounts and displs
 * [size], in elements, equal on every rank (recvcounts[rank] == sendcount);
 * blocks of recvbuf may not overlap. In place: sendbuf == recvbuf +
 * displs[rank]. MPI 3.1, 5.7. */
HVD_API hvd_status_t hvd_allgatherv(const void *sendbuf, size_t sendcount,
                                    void *recvbuf, const size_t *recvcounts,
                                    const size_t *displs,
                                    hvd_dtype_t dtype) HVD_MUST_CHECK;

/* hvd_alltoallv - alltoall with counts and displacements per peer, [size] each,
 * in elements: sendcounts[j] here equals recvcounts[i] on rank j; blocks of
 * recvbuf may not overlap. No in-place form. MPI 3.1, 5.8. */
HVD_API hvd_status_t hvd_alltoallv(const void *sendbuf,
                                   const size_t *sendcounts,
                                   const size_t *sdispls, void *recvbuf,
                                   const size_t *recvcounts,
                                   const size_t *rdispls,
                                   hvd_dtype_t dtype) HVD_MUST_CHECK;

/* hvd_barrier - returns once every rank has called it. */
HVD_API hvd_status_t hvd_barrier(void) HVD_MUST_CHECK;

/* --- asynchronous calls ---
 *
 * Each returns as soon as the operation is queued; the operation runs while the
 * program computes, on a thread of the library's that exists from the first
 * asynchronous call of a generation on. Operations run in the order of issue,
 * and a blocking call behind asynchronous ones waits for them.
 *
 *   Threads    the issuing thread posts, waits and tests.
 *   Buffers    borrowed until the request is complete: hvd_wait has returned,
 *              or hvd_test has said so. Arrays of counts, displacements and
 *              pointers are copied, and so is the name.
 *   name       a label for the timeline; NULL: none.
 *   Requests   belong to the caller until hvd_wait takes them, even when their
 *              generation has ended: it completes those in flight with
 *              HVD_PEER_LOST. A request that is never waited for is memory
 *              lost.
 *   Returns    HVD_OK, and the request in *request_p. Else what the blocking
 *              call returns at once: HVD_ERR_INVALID, HVD_ERR_STATE,
 *              HVD_ERR_NOMEM, HVD_ERR_SYSTEM (no thread can be had), or why the
 *              generation has ended; nothing is queued, *request_p is NULL.
 *
 * hvd_state_commit and hvd_state_check_host_updates complete all requests
 * first. If one fails, so do they, with its status, and nothing is committed:
 * results may be half there. (A call by name that failed alone, as ranks
 * differed, counts until hvd_wait has returned it.) */

typedef struct hvd_request hvd_request_t;

/* hvd_wait - run this request, and those issued before it, to their end; free
 * it in every outcome but one. NULL is complete.
 * Returns what the blocking call would have: HVD_OK, HVD_PEER_LOST,
 * HVD_ERR_MISMATCH, HVD_ERR_SYSTEM, HVD_ERR_NOMEM. In a forked child
 * HVD_ERR_INVALID, and the request is left alone. */
HVD_API hvd_status_t hvd_wait(hvd_request_t *request) HVD_MUST_CHECK;

/* hvd_wait_all - hvd_wait for requests [n], which become NULL. The first status
 * that is not HVD_OK. */
HVD_API hvd_status_t hvd_wait_all(size_t n,
                                  hvd_request_t **requests) HVD_MUST_CHECK;

/* hvd_test - is it complete, well or not? Never waits, frees nothing; hvd_wait
 * is what makes it go faster. HVD_OK, HVD_ERR_INVALID (done_p NULL). */
HVD_API hvd_status_t hvd_test(const hvd_request_t *request,
                              bool *done_p) HVD_MUST_CHECK;

HVD_API hvd_status_t hvd_allreduce_async(
    const void *sendbuf, void *recvbuf, size_t count, hvd_dtype_t dtype,
    hvd_op_t op, const char *name, hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t
hvd_broadcast_async(void *buf, size_t count, hvd_dtype_t dtype, int root,
                    const char *name, hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_allgather_async(
    const void *sendbuf, void *recvbuf, size_t sendcount, hvd_dtype_t dtype,
    const char *name, hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_reduce_scatter_async(
    const void *sendbuf, void *recvbuf, size_t recvcount, hvd_dtype_t dtype,
    hvd_op_t op, const char *name, hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t
hvd_alltoall_async(const void *sendbuf, void *recvbuf, size_t count_per_peer,
                   hvd_dtype_t dtype, const char *name,
                   hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_allgatherv_async(
    const void *sendbuf, size_t sendcount, void *recvbuf,
    const size_t *recvcounts, const size_t *displs, hvd_dtype_t dtype,
    const char *name, hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_alltoallv_async(
    const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
    void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
    hvd_dtype_t dtype, const char *name,
    hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t
hvd_barrier_async(const char *name, hvd_request_t **request_p) HVD_MUST_CHECK;

/* --- the descriptor: what all of them fill in --- */

typedef enum hvd_collective_kind {
    HVD_COLLECTIVE_ALLREDUCE = 1,
    HVD_COLLECTIVE_BROADCAST = 2,
    HVD_COLLECTIVE_ALLGATHER = 3,
    HVD_COLLECTIVE_ALLGATHERV = 4,
    HVD_COLLECTIVE_REDUCE_SCATTER = 5,
    HVD_COLLECTIVE_ALLTOALL = 6,
    HVD_COLLECTIVE_ALLTOALLV = 7,
    HVD_COLLECTIVE_BARRIER = 8,
    HVD_COLLECTIVE_KIND_FORCE_INT = 0x7fffffff
} hvd_collective_kind_t;

typedef struct hvd_comm hvd_comm_t;

/* Where buffers are. */
typedef enum hvd_memory {
    HVD_MEMORY_LOOK = 0, /* it is looked up (hvd/device.h) */
    HVD_MEMORY_HOST = 1,
    HVD_MEMORY_DEVICE = 2,
    HVD_MEMORY_FORCE_INT = 0x7fffffff
} hvd_memory_t;

/* hvd_collective_args_t.flags */
enum {
    /* On a device: complete as soon as it is queued on `stream`, which is left
     * alone between hvd_collective_post and hvd_wait. What comes there later
     * waits for it; if it was done well, hvd_step_confirm says. By name it is
     * queued elsewhere: `stream` may be used meanwhile, and waits from hvd_wait
     * on, which the thread that uses it calls. */
    HVD_COLLECTIVE_ORDERED = 1,
    /* Allreduce of float32 or float64: half or a quarter of the bytes travel
     * (buffers of a device are staged through memory of the host for it). Each
     * contribution, times `prescale`, is rounded to this dtype, by way of
     * float32, and combined in it; the result is widened, times `postscale`.
     * What rounds to more than 65504 is infinite in FLOAT16, on the way, too: a
     * prescale keeps sums below that. Equal on all ranks, as the dtype; one
     * that has float64 where others have float32 is not found out. */
    HVD_COLLECTIVE_FLOAT16 = 2,
    HVD_COLLECTIVE_BFLOAT16 = 4,
    /* In whatever order: the call runs when every rank has posted one by this
     * name, or has joined (hvd_join). For gradients, say, which become ready in
     * another order on each rank.
     *
     *   Threads    any thread posts and waits, while the training function
     *              runs. Before a static program has joined its world: the
     *              issuing one. hvd_wait in the others does not tell the driver
     *              that this worker waits.
     *   Order      none, neither among them nor with calls without this flag:
     *              what runs next is the same on all ranks. Calls that all have
     *              posted may run as one; a group always does.
     *   Name       not NULL or empty, of any length; unique among the calls in
     *              flight (HVD_ERR_INVALID, nothing was posted). It may be used
     *              again once hvd_wait has returned.
     *   Equal      on all ranks: kind, dtype, op, root, counts, scales, 16
     *              bits, AVERAGE_OF_ALL. Where they differ hvd_wait returns
     *              HVD_ERR_MISMATCH on all, with both sides named, and the
     *              generation lives on: the next call by this name is a new
     *              one. (But not where ranks differ in the counts of an
     *              alltoallv.) What one rank alone knows may differ: `place`.
     *   Devices    buffers of all ranks lie there, or of none. A call begins
     *              behind what is on `stream` when it is posted, and is
     *              complete when the result is there, or ordered.
     *              HVD_ERR_UNSUPPORTED also where NCCL has not the call, and is
     *              not used (hvd/device.h).
     *
     * hvd_state_commit completes them first: ranks must have posted the same
     * names before it. A thread that posts at its own pace cannot promise that:
     * when all ranks leave at a boundary (HVD_HOSTS_UPDATED), its calls that
     * not all ranks have posted end with HVD_PEER_LOST, and nothing else
     * does. */
    HVD_COLLECTIVE_BY_NAME = 8,
    /* Of a call by name: HVD_AVERAGE divides by all ranks, also by those that
     * have joined (hvd_join), as Horovod's does. */
    HVD_COLLECTIVE_AVERAGE_OF_ALL = 16
};

/* Where what is received goes: memory of the host for the sum of counts [size],
 * elements of dtype; rank after rank, one behind the other. NULL: there is
 * none, and unless the sum is 0 the generation ends with HVD_ERR_NOMEM, in a
 * world of one the call. It may overlap sendbuf as recvbuf may, else the
 * generation ends with HVD_ERR_INVALID.
 *
 * Called once, or not at all, by a thread of the library's, one that waits, or
 * in a world of one the one that posts: none of these may hold a lock that it
 * takes. What waits, or posts, returns HVD_ERR_STATE there. The memory is
 * borrowed as recvbuf is. */
typedef void *hvd_place_fn(void *arg, const size_t *counts, int size);

typedef struct hvd_collective_args {
    size_t struct_size; /* sizeof(hvd_collective_args_t) */
    hvd_collective_kind_t kind;
    const void *sendbuf; /* broadcast: not looked at */
    void *recvbuf;
    size_t count; /* as the call's count argument; alltoallv: not looked at */
    /* alltoallv: all four; allgatherv: the last two; [size] each, copied */
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
    hvd_dtype_t dtype; /* barrier: not looked at */
    hvd_op_t op;
    int root;
    hvd_comm_t *comm; /* NULL: the world; else a process set (hvd/comm.h) */
    void *stream;     /* CUstream that makes device buffers; NULL: the legacy
                         default stream. On the host not looked at */
    int memory;       /* enum hvd_memory, of all buffers */
    const char
        *name; /* copied; a label for the timeline, or BY_NAME; NULL: none */
    /* Allreduce of floating point: multiply own contribution by the one before,
     * the result by the other behind; 0: as it is. The product is rounded to
     * dtype. Others: 0. */
    double prescale, postscale;
    uint64_t flags; /* HVD_COLLECTIVE_..., or 0 */
    /* FLOAT16, BFLOAT16: error feedback (1-bit SGD, Seide et al., Interspeech
     * 2014): [count] of dtype in memory of the host, zeros at first, of this
     * rank alone. It is added to the contribution times prescale (zero it when
     * that changes), and what rounding has taken away is in it, 0 for what is
     * infinite, when the call returns HVD_OK; else it is as undefined as the
     * result, so keep it in the state (hvd_state_add_local). NULL: none. */
    void *residual;
    /* Allreduce: a group of so many tensors, as hvd_grouped_allreduce takes
     * them, in place of sendbuf, recvbuf and count, which are not looked at;
     * without 16 bits. 0: no group. */
    size_t n_tensors;
    const void *const *sendbufs; /* [n_tensors] */
    void *const *recvbufs;       /* [n_tensors] */
    const size_t *tensor_counts; /* [n_tensors] */
    /* Allgatherv, alltoallv: ranks tell each other first how much they send
     * (count; sendcounts), and place says where it goes; recvbuf, recvcounts
     * and rdispls are NULL. On all ranks or on none. NULL: not so. */
    hvd_place_fn *place;
    void *place_arg;
} hvd_collective_args_t;

#define HVD_COLLECTIVE_ARGS_INIT                                               \
    {                                                                          \
        sizeof(hvd_collective_args_t), HVD_COLLECTIVE_ALLREDUCE, NULL, NULL,   \
            0, NULL, NULL, NULL, NULL, HVD_FLOAT32, HVD_SUM, 0, NULL, NULL, 0, \
            NULL, 0, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL               \
    }

/* hvd_collective_post - any of the asynchronous calls, by its descriptor; which
 * is borrowed until return. Field names in a sentence of HVD_ERR_INVALID are
 * those of the struct. */
HVD_API hvd_status_t hvd_collective_post(const hvd_collective_args_t *args,
                                         hvd_request_t **request_p)
    HVD_MUST_CHECK;

/* hvd_join - this rank has no more data. Until all ranks have joined it takes
 * part in the others' allreduces and barriers by name (HVD_COLLECTIVE_BY_NAME)
 * with what changes nothing: zeros for a sum. HVD_AVERAGE divides by the ranks
 * that have data: a mean over what there is, where Horovod's becomes smaller
 * the more ranks are through (HVD_COLLECTIVE_AVERAGE_OF_ALL).
 *
 * Its own calls by name that others have yet to post are completed when they
 * have posted them, or have joined as well: the last calls of several ranks may
 * have names that no other rank uses. Others post calls by name alone
 * meanwhile, and do not commit: what waits for all ranks waits for this one.
 * Other kinds that a rank that has joined has not posted return
 * HVD_ERR_MISMATCH to those that have. Called by the issuing thread; no other
 * may post by name until it returns (HVD_ERR_STATE).
 *
 * last_rank_p   may be NULL; the rank that joined last, the same on all ranks:
 *               it has made the most calls by name. Of several, any.
 * Returns HVD_OK, all have joined, and each may post again; HVD_ERR_STATE (also
 * on another thread); HVD_PEER_LOST, and what else ends a generation. */
HVD_API hvd_status_t hvd_join(int *last_rank_p) HVD_MUST_CHECK;

/* hvd_grouped_allreduce - allreduce of n tensors in one go: small ones travel
 * packed together, large ones as they are, without a copy.
 *
 * sendbufs, recvbufs, counts   [n]; tensor i is counts[i] elements from
 *            sendbufs[i] to recvbufs[i], as in hvd_allreduce; counts equal on
 *            every rank. Tensors may not overlap each other.
 * Equal on every rank bit for bit, as always; sums of floating point may be
 * taken in another order than by an allreduce of their own. */
HVD_API hvd_status_t hvd_grouped_allreduce(
    size_t n, const void *const *sendbufs, void *const *recvbufs,
    const size_t *counts, hvd_dtype_t dtype, hvd_op_t op) HVD_MUST_CHECK;

/* The request is complete when all tensors are. */
HVD_API hvd_status_t hvd_grouped_allreduce_async(
    size_t n, const void *const *sendbufs, void *const *recvbufs,
    const size_t *counts, hvd_dtype_t dtype, hvd_op_t op, const char *name,
    hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_alloc - memory for buffers that the other ranks of this host use where it
 * is: collectives between them need no copy. Page aligned, zeroed, not
 * inherited by fork, huge pages where the kernel has them for shared memory.
 * Taken from an arena of the process without a name, which ends with it and
 * grows with what is taken; where that cannot be had, private memory. Free with
 * hvd_free (NULL is fine), never with free(), and not while a collective uses
 * it.
 * Returns HVD_OK, HVD_ERR_INVALID (nbytes 0, ptr_p NULL, in a forked child,
 * which does not have the memory either), HVD_ERR_NOMEM. Any thread. */
HVD_API hvd_status_t hvd_alloc(size_t nbytes, void **ptr_p) HVD_MUST_CHECK;
HVD_API void hvd_free(void *ptr);

#ifdef __cplusplus
}
#endif
#endif
