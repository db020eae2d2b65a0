/* hvd/collectives.h - how bytes combine over the ranks of the current
 * generation.
 *
 * Common to every call here:
 *   Order      all ranks issue the same collectives in the same order.
 *   Threads    one issuing thread; the operation runs on it.
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
 *              HVD_ERR_STATE       no world: hvd_init was not called
 *   Counts are elements, as in NCCL; a count of 0 is allowed and returns at
 *   once. */
#ifndef HVD_COLLECTIVES_H
#define HVD_COLLECTIVES_H

#include <stddef.h>

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
                        integers truncate toward 0 */
    HVD_MIN = 2,     /* a NaN in any rank's element makes the result NaN */
    HVD_MAX = 3,     /* likewise */
    HVD_PRODUCT = 4,
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
 * [size], in elements, equal on every rank (recvcounts[rank] == sendcount). In
 * place: sendbuf == recvbuf + displs[rank]. MPI 3.1, 5.7. */
HVD_API hvd_status_t hvd_allgatherv(const void *sendbuf, size_t sendcount,
                                    void *recvbuf, const size_t *recvcounts,
                                    const size_t *displs,
                                    hvd_dtype_t dtype) HVD_MUST_CHECK;

/* hvd_alltoallv - alltoall with counts and displacements per peer, [size] each,
 * in elements: sendcounts[j] here equals recvcounts[i] on rank j. No in-place
 * form. MPI 3.1, 5.8. */
HVD_API hvd_status_t hvd_alltoallv(const void *sendbuf,
                                   const size_t *sendcounts,
                                   const size_t *sdispls, void *recvbuf,
                                   const size_t *recvcounts,
                                   const size_t *rdispls,
                                   hvd_dtype_t dtype) HVD_MUST_CHECK;

/* hvd_barrier - returns once every rank has called it. */
HVD_API hvd_status_t hvd_barrier(void) HVD_MUST_CHECK;

/* hvd_alloc - memory for buffers: page aligned, huge pages where the kernel has
 * them, zeroed, not inherited by fork. Free with hvd_free (NULL is fine), never
 * with free().
 * Returns HVD_OK, HVD_ERR_INVALID (nbytes 0, ptr_p NULL), HVD_ERR_NOMEM. Any
 * thread. */
HVD_API hvd_status_t hvd_alloc(size_t nbytes, void **ptr_p) HVD_MUST_CHECK;
HVD_API void hvd_free(void *ptr);

#ifdef __cplusplus
}
#endif
#endif
