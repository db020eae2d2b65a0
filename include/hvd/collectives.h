/* hvd/collectives.h - collective operations over the ranks of the current
 * generation, or of a communicator (hvd/comm.h).
 *
 * Each collective has two forms (those with a place function have the full form
 * only). The short form, such as hvd_allreduce(),
 * blocks, and runs over all ranks. The full form, such as
 * hvd_allreduce_with(), adds two arguments:
 *
 *   options    NULL means the defaults. The struct is borrowed until the call
 *              returns; its strings are copied.
 *   request_p  NULL: the call blocks until it is complete. Otherwise the call
 *              is queued and returns at once (but the first call of a static
 *              program, and the first with device buffers, wait for all ranks).
 *              *request_p then belongs to the caller until hvd_wait() or a
 *              relative of it takes it. The buffers are borrowed until then;
 *              arrays of counts, displacements and pointers are copied.
 *
 * These rules hold for every call here.
 *
 *   Order      All ranks issue the same calls in the same order, blocking and
 *              queued ones alike, and they run in that order. Calls by name
 *              (hvd_options_t.key) are the exception: each rank issues them in
 *              an order of its own.
 *   Threads    Any thread, one at a time: the program orders its calls, with a
 *              lock or by handing work from one thread to another, so that they
 *              come in the same order on every rank. This holds for waits and
 *              tests of such calls as well, and none is under way when the
 *              training function returns. Calls by name may be issued and
 *              waited for by several threads at once.
 *   Counts     are elements, as in NCCL. 0 is allowed. A call in order whose
 *              counts are 0 on all ranks does not wait for them, unless it is
 *              an alltoallv or has a place function: those ranks cannot know. A
 *              rank that passed another count is told in a later call.
 *   Results    are undefined unless the call returned HVD_OK. All ranks get the
 *              same bits.
 *   Returns    HVD_OK
 *              HVD_PEER_LOST       a peer is gone: return it from the training
 *                                  function
 *              HVD_ERR_MISMATCH    ranks differ in the operation, count, dtype,
 *                                  op, root or another argument that must be
 *                                  equal, or in the number of boundaries before
 *                                  it. hvd_last_error() names both sides. All
 *                                  ranks get it, and the job ends with that
 *                                  sentence
 *              HVD_ERR_INVALID     an argument is bad, or buffers overlap:
 *                                  nothing was sent, and the call may be
 *                                  repeated. Or this is a forked child
 *              HVD_ERR_STATE       there is no world: hvd_init() was not
 *                                  called, or hvd_elastic_run() has returned
 *                                  another status than HVD_OK. (A call before
 *                                  it makes the program a static one.) Or the
 *                                  call comes from a callback that not all
 *                                  ranks run (hvd/state.h)
 *              HVD_ERR_NOMEM, HVD_ERR_SYSTEM
 *                                  this rank lacks memory, descriptors or
 *                                  threads; the other ranks get HVD_PEER_LOST
 *              HVD_ERR_UNSUPPORTED a field of a newer release is set in
 *                                  options; or see hvd/device.h
 *              The first call of a static program joins the world, and returns
 *              what hvd_world_start() returns if that fails.
 *
 * There are no point-to-point calls, and no reduce, gather or scatter to one
 * root: data-parallel training needs none, and every schedule here is one that
 * all ranks can leave when a peer is lost. */
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
    HVD_DTYPE_SAME = 0, /* in hvd_options_t.wire_dtype: that of the buffers */
    HVD_INT8 = 1,
    HVD_UINT8 = 2,
    HVD_INT32 = 3,
    HVD_INT64 = 4,
    HVD_FLOAT16 = 5,  /* IEEE 754 binary16; combined in binary32, and rounded
                         once per hop */
    HVD_BFLOAT16 = 6, /* the upper half of a binary32; likewise */
    HVD_FLOAT32 = 7,
    HVD_FLOAT64 = 8,
    /* For the calls that take no op: these are moved, but not combined
     * (HVD_ERR_INVALID). */
    HVD_INT16 = 9,
    HVD_UINT16 = 10,
    HVD_UINT32 = 11,
    HVD_BOOL = 12, /* a byte */
    HVD_DTYPE_FORCE_INT = 0x7fffffff
} hvd_dtype_t;

typedef enum hvd_op {
    HVD_SUM = 0,     /* integers wrap around */
    HVD_AVERAGE = 1, /* the sum, which wraps around as above, divided by the
                        number of ranks; integers are truncated toward 0. After
                        hvd_data_done() it is divided by the number of ranks
                        that have issued the call */
    HVD_MIN = 2,     /* a NaN in any rank's element makes the result NaN */
    HVD_MAX = 3,     /* likewise */
    HVD_PRODUCT = 4,
    /* Allreduce of floating point only: adaptive summation. Vectors are
     * combined pair by pair,
     *   a' = (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b,
     * each tensor of a group by itself: equal vectors give their mean,
     * orthogonal ones their sum. So the learning rate need not be scaled with
     * the number of ranks, which may be any number. Products are computed in
     * binary64; where one is 0 or overflows, the pair is added. Each pair is
     * rounded once, 16-bit types by way of binary32. Buffers on a device are
     * staged through host memory. Source: Maleki et al., Scaling Distributed
     * Training with Adaptive Summation, 2020. */
    HVD_ADASUM = 5,
    HVD_AVERAGE_OF_ALL = 6, /* as HVD_AVERAGE, but divided by the number of all
                               ranks, also of those that have called
                               hvd_data_done(), as Horovod does */
    HVD_OP_FORCE_INT = 0x7fffffff
} hvd_op_t;

/* Where buffers lie. */
typedef enum hvd_memory {
    HVD_MEMORY_AUTO = 0, /* the library asks the device driver */
    HVD_MEMORY_HOST = 1,
    HVD_MEMORY_DEVICE = 2,
    HVD_MEMORY_FORCE_INT = 0x7fffffff
} hvd_memory_t;

/* A communicator: some ranks of the world (hvd/comm.h). */
typedef struct hvd_comm hvd_comm_t;
#define HVD_WORLD ((hvd_comm_t *)0) /* all ranks of the generation */

/* A call that was queued. */
typedef struct hvd_request hvd_request_t;

/* hvd_options_t.flags */
enum {
    /* The call is complete as soon as it is queued on `stream`: work that comes
     * later on the stream waits for the result. See hvd/device.h. */
    HVD_STREAM_ORDERED = 1
};

/* Options of a call. A field that the call does not take must have its default;
 * HVD_ERR_INVALID names it otherwise. (stream and flags have no effect on calls
 * with host buffers, and memory has none on a barrier.) Fields are only ever
 * appended, and every field after `residual` has the default zero.
 *
 * key    A call by name: it runs when every rank of the communicator has issued
 *        one with this key, or has called hvd_data_done(). Gradients that
 *        become ready in another order on each rank need this.
 *          Order    None, neither among calls by name nor with other calls; the
 *                   library runs them in the same order on all ranks. Several
 *                   allreduces that are ready together may run as one.
 *          Key      1 byte or more. It is unique among the calls that this rank
 *                   has in flight (HVD_ERR_INVALID otherwise), and may be used
 *                   again once hvd_wait() has returned.
 *          Threads  Any, several at once, while the training function runs. In
 *                   a static program the thread that called hvd_init() issues
 *                   the first call. hvd_wait() in another thread does not tell
 *                   the driver that this worker waits.
 *          Returns  Where ranks differ in the kind, dtype, op, root, counts,
 *                   scales, wire dtype or match, hvd_wait() returns
 *                   HVD_ERR_MISMATCH on all of them, with both sides named, and
 *                   the generation goes on: the next call with this key is a
 *                   new one. (Ranks that differ in the counts of an alltoallv
 *                   end the generation.)
 *          Commit   hvd_state_commit() completes calls by name first, so all
 *                   ranks have issued the same keys before it. A thread that
 *                   issues calls at its own pace cannot promise that: when all
 *                   ranks leave at a boundary (HVD_HOSTS_UPDATED), those of its
 *                   calls that not all ranks have issued end with
 *                   HVD_PEER_LOST, and nothing else does.
 *
 * wire_dtype  HVD_FLOAT16 or HVD_BFLOAT16, for an allreduce of float32 or
 *        float64: half or a quarter of the bytes travel. Each contribution,
 *        times prescale, is rounded to this dtype, by way of float32, and
 *        combined in it; the result is widened, and multiplied by postscale. In
 *        float16 what rounds to more than 65504 becomes infinite, also on the
 *        way: a prescale keeps sums below that. Buffers on a device are staged
 *        through host memory. Not for a group, and not for HVD_ADASUM. Ranks
 *        must agree on it, and on the dtype of the buffers.
 *
 * prescale, postscale  For an allreduce of floating point: this rank's
 *        contribution is multiplied by the first, the result by the second. The
 *        product is rounded to dtype, 16-bit types by way of float32. A factor
 *        of 0 is 0; if both are 0, HVD_OPTIONS_INIT was forgotten
 *        (HVD_ERR_INVALID). Both must be equal on all ranks for a call by name.
 *
 * residual  For wire_dtype: error feedback (1-bit SGD, Seide et al.,
 *        Interspeech 2014). [count] of dtype in host memory, of this rank
 *        alone, zeros at first. The call adds it to the contribution times
 *        prescale, and leaves in it the part that rounding took away (0 for an
 *        element that became infinite). Set it to zero when prescale changes.
 *        It is as undefined as the result unless the call returned HVD_OK, so
 *        keep it in the state (hvd_state_add_local).
 *
 * match  For a call by name: a text that must be the same on all ranks, such as
 *        a shape, or a dtype that the library does not have. Where it differs,
 *        the sentence of HVD_ERR_MISMATCH has its digests, and the first 39
 *        bytes of this rank's. Copied. NULL or "": only the arguments are
 *        compared. */
typedef struct hvd_options {
    size_t struct_size;  /* sizeof(hvd_options_t) */
    hvd_comm_t *comm;    /* HVD_WORLD, or a communicator */
    const char *key;     /* not NULL: a call by name */
    const char *label;   /* in the timeline; NULL: the key, if there is one */
    void *stream;        /* CUstream that makes the device buffers; NULL: the
                               legacy default stream. Unused on the host */
    uint64_t flags;      /* HVD_STREAM_ORDERED, or 0 */
    hvd_memory_t memory; /* where all buffers of the call lie */
    hvd_dtype_t wire_dtype; /* between ranks; HVD_DTYPE_SAME: as the buffers */
    double prescale;        /* HVD_OPTIONS_INIT sets 1 */
    double postscale;       /* HVD_OPTIONS_INIT sets 1 */
    void *residual;         /* NULL: none */
    const char *match;      /* NULL: none */
} hvd_options_t;

#define HVD_OPTIONS_INIT                                       \
    {                                                          \
        sizeof(hvd_options_t), HVD_WORLD, NULL, NULL, NULL, 0, \
            HVD_MEMORY_AUTO, HVD_DTYPE_SAME, 1, 1, NULL, NULL  \
    }

/* hvd_dtype_size - bytes of one element; 0 for an unknown dtype. Any thread. */
HVD_API size_t hvd_dtype_size(hvd_dtype_t dtype);

/* --- the full forms --- */

/* hvd_allreduce_with - combine `count` elements over all ranks; every rank gets
 * the result.
 *
 * sendbuf    [count] of dtype, contiguous.
 * recvbuf    [count] of dtype. May equal sendbuf (in place), and may not
 *            overlap it otherwise.
 * Source     ring: Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009;
 *            semantics: MPI 3.1, 5.9.6. */
HVD_API hvd_status_t
hvd_allreduce_with(const void *sendbuf, void *recvbuf, size_t count,
                   hvd_dtype_t dtype, hvd_op_t op, const hvd_options_t *options,
                   hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_grouped_allreduce_with - allreduce of n tensors in one call: small ones
 * travel packed together, large ones as they are, without a copy.
 *
 * sendbufs, recvbufs, counts   [n]; tensor i is counts[i] elements from
 *            sendbufs[i] to recvbufs[i], as in hvd_allreduce_with(). counts are
 *            equal on every rank. Tensors may not overlap each other, which
 *            nothing checks.
 * All ranks get the same bits, as always. A sum of floating point may be taken
 * in another order than an allreduce of one tensor takes it. */
HVD_API hvd_status_t hvd_grouped_allreduce_with(
    size_t n, const void *const *sendbufs, void *const *recvbufs,
    const size_t *counts, hvd_dtype_t dtype, hvd_op_t op,
    const hvd_options_t *options, hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_broadcast_with - copy buf [count] of dtype from rank `root` to all ranks.
 * MPI 3.1, 5.4. */
HVD_API hvd_status_t hvd_broadcast_with(
    void *buf, size_t count, hvd_dtype_t dtype, int root,
    const hvd_options_t *options, hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_allgather_with - concatenate the ranks' blocks in rank order.
 * sendbuf [sendcount]; recvbuf [size * sendcount]; in place: sendbuf == recvbuf
 * + rank * sendcount. */
HVD_API hvd_status_t hvd_allgather_with(
    const void *sendbuf, void *recvbuf, size_t sendcount, hvd_dtype_t dtype,
    const hvd_options_t *options, hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_allgatherv_with - allgather with a count per rank, in elements.
 * recvcounts [size], equal on every rank, recvcounts[rank] == sendcount; displs
 * [size] are this rank's own.
 * Blocks of recvbuf may not overlap. In place: sendbuf == recvbuf +
 * displs[rank]. MPI 3.1, 5.7. */
HVD_API hvd_status_t hvd_allgatherv_with(
    const void *sendbuf, size_t sendcount, void *recvbuf,
    const size_t *recvcounts, const size_t *displs, hvd_dtype_t dtype,
    const hvd_options_t *options, hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_reduce_scatter_with - combine, and leave block `rank` of the result on
 * each rank. sendbuf [size * recvcount]; recvbuf [recvcount]; in place: recvbuf
 * == sendbuf + rank * recvcount. */
HVD_API hvd_status_t hvd_reduce_scatter_with(
    const void *sendbuf, void *recvbuf, size_t recvcount, hvd_dtype_t dtype,
    hvd_op_t op, const hvd_options_t *options,
    hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_alltoall_with - block j of sendbuf goes to rank j, block i of recvbuf
 * comes from rank i. sendbuf, recvbuf [size * count_per_peer]; they may be
 * equal (in place). */
HVD_API hvd_status_t
hvd_alltoall_with(const void *sendbuf, void *recvbuf, size_t count_per_peer,
                  hvd_dtype_t dtype, const hvd_options_t *options,
                  hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_alltoallv_with - alltoall with counts and displacements per peer, [size]
 * each, in elements: sendcounts[j] on rank i equals recvcounts[i] on rank j.
 * Blocks of recvbuf may not overlap. There is no in-place form. MPI 3.1, 5.8.
 * */
HVD_API hvd_status_t hvd_alltoallv_with(
    const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
    void *recvbuf, const size_t *recvcounts, const size_t *rdispls,
    hvd_dtype_t dtype, const hvd_options_t *options,
    hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_barrier_with - complete when every rank has issued it. */
HVD_API hvd_status_t hvd_barrier_with(const hvd_options_t *options,
                                      hvd_request_t **request_p) HVD_MUST_CHECK;

/* --- counts that are not known in advance --- */

/* Where to put what is received. counts [size] are elements of dtype; the
 * blocks are written rank after rank, each behind the one before, so the memory
 * has room for the sum of counts. It is host memory, borrowed as recvbuf is,
 * and may overlap sendbuf as recvbuf may. If it overlaps otherwise, the
 * generation ends with HVD_ERR_INVALID. NULL: there is no memory. Unless the
 * sum is 0, the generation ends with HVD_ERR_NOMEM. In a world of one the call
 * alone fails.
 *
 * The library calls it at most once per call, on one of its threads or on one
 * that waits; in a world of one, on the thread that issues the call. None of
 * these may hold a lock that the function takes. Calls that issue or wait
 * return HVD_ERR_STATE in it. */
typedef void *(*hvd_place_fn)(const size_t *counts, int size, void *arg);

/* hvd_allgatherv_place, hvd_alltoallv_place - as hvd_allgatherv_with() and
 * hvd_alltoallv_with(), but a rank need only know what it sends: the ranks
 * exchange their counts, and place(counts, size, place_arg) says where the
 * result goes. All ranks use this form, or none does. Host buffers only.
 *
 * place      NULL: the library takes memory, as hvd_alloc() does, which
 *            hvd_wait_result() hands over. request_p is not NULL then. Ranks
 *            may differ in this. */
HVD_API hvd_status_t hvd_allgatherv_place(
    const void *sendbuf, size_t sendcount, hvd_dtype_t dtype,
    hvd_place_fn place, void *place_arg, const hvd_options_t *options,
    hvd_request_t **request_p) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_alltoallv_place(
    const void *sendbuf, const size_t *sendcounts, const size_t *sdispls,
    hvd_dtype_t dtype, hvd_place_fn place, void *place_arg,
    const hvd_options_t *options, hvd_request_t **request_p) HVD_MUST_CHECK;

/* --- the short forms: blocking, all ranks, no options --- */

HVD_INLINE hvd_status_t hvd_allreduce(const void *sendbuf, void *recvbuf,
                                      size_t count, hvd_dtype_t dtype,
                                      hvd_op_t op)
{
    return hvd_allreduce_with(sendbuf, recvbuf, count, dtype, op, NULL, NULL);
}

HVD_INLINE hvd_status_t hvd_grouped_allreduce(size_t n,
                                              const void *const *sendbufs,
                                              void *const *recvbufs,
                                              const size_t *counts,
                                              hvd_dtype_t dtype, hvd_op_t op)
{
    return hvd_grouped_allreduce_with(n, sendbufs, recvbufs, counts, dtype, op,
                                      NULL, NULL);
}

HVD_INLINE hvd_status_t hvd_broadcast(void *buf, size_t count,
                                      hvd_dtype_t dtype, int root)
{
    return hvd_broadcast_with(buf, count, dtype, root, NULL, NULL);
}

HVD_INLINE hvd_status_t hvd_allgather(const void *sendbuf, void *recvbuf,
                                      size_t sendcount, hvd_dtype_t dtype)
{
    return hvd_allgather_with(sendbuf, recvbuf, sendcount, dtype, NULL, NULL);
}

HVD_INLINE hvd_status_t hvd_allgatherv(const void *sendbuf, size_t sendcount,
                                       void *recvbuf, const size_t *recvcounts,
                                       const size_t *displs, hvd_dtype_t dtype)
{
    return hvd_allgatherv_with(sendbuf, sendcount, recvbuf, recvcounts, displs,
                               dtype, NULL, NULL);
}

HVD_INLINE hvd_status_t hvd_reduce_scatter(const void *sendbuf, void *recvbuf,
                                           size_t recvcount, hvd_dtype_t dtype,
                                           hvd_op_t op)
{
    return hvd_reduce_scatter_with(sendbuf, recvbuf, recvcount, dtype, op, NULL,
                                   NULL);
}

HVD_INLINE hvd_status_t hvd_alltoall(const void *sendbuf, void *recvbuf,
                                     size_t count_per_peer, hvd_dtype_t dtype)
{
    return hvd_alltoall_with(sendbuf, recvbuf, count_per_peer, dtype, NULL,
                             NULL);
}

HVD_INLINE hvd_status_t hvd_alltoallv(const void *sendbuf,
                                      const size_t *sendcounts,
                                      const size_t *sdispls, void *recvbuf,
                                      const size_t *recvcounts,
                                      const size_t *rdispls, hvd_dtype_t dtype)
{
    return hvd_alltoallv_with(sendbuf, sendcounts, sdispls, recvbuf, recvcounts,
                              rdispls, dtype, NULL, NULL);
}

HVD_INLINE hvd_status_t hvd_barrier(void)
{
    return hvd_barrier_with(NULL, NULL);
}

/* --- requests ---
 *
 * A thread of the library runs queued calls while the program computes. It
 * exists from the first queued call of a generation on; a thread that waits
 * does its work. A call that cannot be queued returns its error at once, with
 * *request_p NULL.
 *
 * A request that is never waited for is memory lost. It outlives its
 * generation: calls in flight then end with HVD_PEER_LOST.
 *
 * hvd_state_commit() and hvd_state_check_host_updates() complete all requests
 * first. If one has failed they return its status, and commit nothing: results
 * may be half there. (A call by name that failed alone, because ranks differ,
 * counts until hvd_wait() has returned it. In a world of one a call that fails
 * in its place function does not count.) */

/* hvd_wait - complete *request_p, free it, and set *request_p to NULL. A
 * request of a call in order completes those that were issued before it in its
 * communicator as well. A NULL request is complete.
 * Returns what the blocking call would have. HVD_ERR_INVALID in a forked child
 * and HVD_ERR_STATE in a place function leave the request as it is. */
HVD_API hvd_status_t hvd_wait(hvd_request_t **request_p) HVD_MUST_CHECK;

/* hvd_wait_all - hvd_wait() for requests [n]. Returns the first status that is
 * not HVD_OK, after all of them are complete. */
HVD_API hvd_status_t hvd_wait_all(size_t n,
                                  hvd_request_t **requests) HVD_MUST_CHECK;

/* hvd_wait_for - hvd_wait() for at most timeout_ms milliseconds.
 * HVD_ERR_TIMEOUT: the request is not complete yet, and stays as it is. */
HVD_API hvd_status_t hvd_wait_for(hvd_request_t **request_p,
                                  unsigned timeout_ms) HVD_MUST_CHECK;

/* hvd_wait_result - hvd_wait_for() for a call whose place was NULL, with its
 * result. (Any other wait frees the result.)
 *
 * result_p   memory of the caller's from now on, for hvd_free(): the blocks of
 *            the ranks, one behind the other. NULL if all counts are 0, and
 *            unless HVD_OK is returned
 * counts     [size of the communicator] elements of each rank; NULL: not wanted
 * Returns    as hvd_wait_for(); HVD_ERR_INVALID also: result_p is NULL, or
 *            there is no such call, and the request stays as it is */
HVD_API hvd_status_t hvd_wait_result(hvd_request_t **request_p,
                                     unsigned timeout_ms, void **result_p,
                                     size_t *counts) HVD_MUST_CHECK;

/* hvd_test - does not wait for the call. (In a static program it tells the
 * driver of the first failure, which may take 2 s.) If the request is complete,
 * well or not: *done_p is true, and the rest is as in hvd_wait(). Otherwise
 * *done_p is false, HVD_OK is returned, and the request stays as it is; the
 * library's thread goes on with it. HVD_ERR_INVALID also: done_p is NULL. */
HVD_API hvd_status_t hvd_test(hvd_request_t **request_p,
                              bool *done_p) HVD_MUST_CHECK;

/* hvd_event_fd - a descriptor for poll(2) and its relatives, so that an event
 * loop can wait for requests: it becomes readable when any request of this
 * process completes, and at times for nothing. Call it before the calls that
 * the loop waits for are issued, and hvd_test() once for each request that the
 * loop begins to wait for: it may be complete by then. Later, read 8 bytes from
 * the descriptor (eventfd(2), nonblocking), and then call hvd_test() for each
 * request; in another order a completion may be missed. The library owns the
 * descriptor, and hvd_shutdown() closes it.
 * Returns HVD_OK; HVD_ERR_INVALID (fd_p is NULL, or this is a forked child);
 * HVD_ERR_STATE (no hvd_init(), or a place function); HVD_ERR_SYSTEM. */
HVD_API hvd_status_t hvd_event_fd(int *fd_p) HVD_MUST_CHECK;

/* hvd_data_done - this rank has no more data for `comm` (HVD_WORLD: all ranks).
 * Until all ranks of comm have called it, this rank takes part in the others'
 * allreduces and barriers by name with what changes nothing: zeros for a sum.
 * HVD_AVERAGE then divides by the number of ranks that have data, so the mean
 * is one over what there is; HVD_AVERAGE_OF_ALL divides by all of them.
 * Horovod calls this join.
 *
 * This rank's own calls by name that others have yet to issue are completed
 * when those have issued them, or have called this as well: the last calls of
 * several ranks may have keys that no other rank uses. The others issue only
 * calls by name meanwhile, and do not commit: a call that waits for all ranks
 * would wait for this one. A call by name of
 * another kind, or HVD_ADASUM of a group, that this rank has not issued returns
 * HVD_ERR_MISMATCH to those that have. No thread of this rank may issue a call
 * by name of comm before this returns (HVD_ERR_STATE).
 *
 * last_rank_p   may be NULL; a rank of comm that has issued the most calls by
 *               name, the same on all ranks.
 * Returns HVD_OK: all ranks have called it, and each may issue calls again;
 * HVD_ERR_STATE; HVD_PEER_LOST, or another status that ends a generation. */
HVD_API hvd_status_t hvd_data_done(hvd_comm_t *comm,
                                   int *last_rank_p) HVD_MUST_CHECK;

/* --- memory --- */

/* hvd_alloc - memory for buffers that the other ranks of this host read where
 * it lies: large collectives between them need no copy. It is page aligned and
 * zeroed, in huge pages where the kernel has them for shared memory, and a
 * forked child does not have it. It comes from a nameless arena of the process,
 * which ends with the process and grows as memory is taken; where shared memory
 * cannot be had, it is private memory. Free it with hvd_free(), never with
 * free(), and not while a collective uses it.
 * Returns NULL if nbytes is 0, if there is no memory, or in a forked child;
 * hvd_last_error() says which. Any thread. */
HVD_API void *hvd_alloc(size_t nbytes) HVD_MUST_CHECK;
/* hvd_free - NULL is fine. Any thread. */
HVD_API void hvd_free(void *ptr);

#ifdef __cplusplus
}
#endif
#endif
