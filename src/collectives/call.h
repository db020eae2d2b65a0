/* collectives/call.h - is a call well formed, and how is it named to a person?
 * Threads: any. Memory: the caller's. */
#ifndef COLLECTIVES_CALL_H
#define COLLECTIVES_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/status.h>

#include "collectives/comm.h"
#include "collectives/negotiate/signature.h"
#include "collectives/net/frame.h"
#include "timeline/timeline.h"

enum { CALL_TEXT_MAX = 160, CALL_TRANSFER = 100 };

/* head.op of the calls that find out the counts of another (ragged.h). */
enum { CALL_OP_COUNTS = 101 };

/* This call is a part of hvd_state_commit (COMM_OP_COMMIT). */
static inline bool call_is_commit(const struct frame *head)
{
    return head->op == COMM_OP_COMMIT;
}

/* head.root: of a broadcast its root; of an allreduce that packs a group, a
 * digest of its tensors, > 0; of one whose buffers have another dtype than the
 * wire, minus that dtype; else 0. */
struct call {
    struct frame head;  /* kind, dtype, op, root, count */
    size_t elem_nbytes; /* 1 for a barrier */
    size_t send_nbytes; /* extent of sendbuf */
    size_t recv_nbytes; /* extent of recvbuf */
    size_t own_offset;  /* of the smaller buffer in the larger, in place */
    bool nothing;       /* no rank has anything to move */
    bool calls;         /* others may wait until it is begun somewhere */
    uint64_t repeats;   /* number of an earlier call that was the same, to the
                            addresses; 0: none */
};

/* HVD_OK, or HVD_ERR_INVALID with the sentence and *call_p as it was. */
hvd_status_t call_check(const struct collective_args *args, int rank, int size,
                        struct call *call_p) HVD_MUST_CHECK;

/* Have two buffers a byte in common? */
bool call_overlap(const void *a, size_t a_nbytes, const void *b,
                  size_t b_nbytes);

const char *call_kind_name(unsigned kind);
/* ... of the call that the one with this header is a part of. */
const char *call_name(const struct frame *head);

/* How the timeline names calls. */
extern const struct timeline_words call_words;

/* "allreduce #5 (float32, sum, 100)" to text [CALL_TEXT_MAX] */
void call_describe(const struct frame *head, char *text);

/* "allreduce (float32 as float16, sum, 100, scaled by 0.5 and 1)", likewise */
void call_describe_signature(const struct signature *signature, char *text);

#endif
