/* collectives/request.h - a call that was posted: what is to be done, how far
 * it is, how it ended.
 *
 *   KEPT --> POSTED --(first part begins)--> RUNNING --(last one over)--> DONE
 *    ^         |  '------- its comm has ended, or is a world of one ------^  |
 *    '---------'--(refused)-----------------------------(waited for)---------'
 *
 * A request is the caller's from comm_post() on, and outlives its comm if need
 * be; the comm refers to it until it is done, which every request is when
 * comm_leave() or comm_destroy() has returned. Finished ones are kept for the
 * next, with the arrays they have grown: a steady state allocates nothing.
 *
 * Threads: request_done() any; request_wait() the comm's issuing thread, of a
 * call by name any; the fields below the line whoever drives the comm, until it
 * is DONE. */
#ifndef COLLECTIVES_REQUEST_H
#define COLLECTIVES_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "collectives/adasum.h"
#include "collectives/call.h"
#include "collectives/comm.h"
#include "collectives/compression.h"
#include "collectives/fusion.h"
#include "collectives/negotiate/signature.h"
#include "collectives/on_device.h"
#include "collectives/ragged.h"

enum { REQUEST_NAME_MAX = 64, REQUEST_MATCH_MAX = 40 };

enum request_state {
    REQUEST_KEPT, /* nobody's: free for the next */
    REQUEST_POSTED,
    REQUEST_RUNNING,
    REQUEST_DONE
};

/* Which arrays it grows. */
enum request_use {
    REQUEST_PLAIN,
    REQUEST_GROUP,
    REQUEST_ON_DEVICE,
    REQUEST_USES
};

struct hvd_request {
    enum request_use use;
    struct hvd_request *next; /* in the comm's queue, or among the free ones */
    struct comm *comm;        /* valid until done */
    uint64_t generation;
    struct collective_args args; /* its arrays are in counts, its name here; the
                                    factors are 1 if there are none */
    struct call call;            /* head.sequence: of the first part */
    char name[REQUEST_NAME_MAX], label[REQUEST_NAME_MAX];
    uint64_t posted_ns; /* timeline_call_clock() */
    size_t *counts;     /* [4 * size] */
    size_t counts_max;
    struct fusion_tensor *tensors; /* [n_tensors] */
    size_t n_tensors, tensors_max; /* 0: no group */
    struct fusion_part *parts;     /* [n_parts]: operations, one number each */
    size_t n_parts, parts_max;
    struct on_device device;
    struct compression compression;
    struct adasum adasum;
    struct ragged ragged;
    bool by_name;
    atomic_bool decided;         /* all ranks have posted it */
    uint64_t waits_us;           /* since when it waits for them */
    int *last_p;                 /* of a join: who was last; NULL: it is none */
    struct by_name *unwaited_in; /* until it is waited for; by_name.c's lock */
    uint64_t match;              /* of a call by name: signature.h */
    char match_text[REQUEST_MATCH_MAX];
    struct name_id id; /* of a call by name, and the next of its bucket */
    struct hvd_request *chain;

    /* --- */
    size_t part_i;
    uint64_t begun_ns;
    hvd_status_t status;
    char text[ERROR_TEXT_MAX];
    atomic_uint state; /* enum request_state; DONE publishes the rest */
};

/* Check and copy; numbers come later, and what it needs besides, on a device
 * (on_device_prepare(), on_device_mark()). HVD_ERR_INVALID, HVD_ERR_NOMEM.
 * group NULL: none. */
hvd_status_t request_create(struct comm *comm,
                            const struct collective_args *args,
                            const struct comm_group *group,
                            struct hvd_request **request_p) HVD_MUST_CHECK;
/* It is done, or was never queued. */
void request_destroy(struct hvd_request *request);

/* Its first part begins: true. It had begun before: false. */
bool request_begin(struct hvd_request *request);

/* Nothing of it is left to do. */
static inline bool request_over(const struct hvd_request *request)
{
    return request->part_i == request->n_parts;
}

/* Go on with it: under_way.c. HVD_OK: it is over; or the thread was kicked out,
 * and whoever calls this next goes on where it stands. */
hvd_status_t request_go_on(struct comm *comm,
                           struct hvd_request *request) HVD_MUST_CHECK;

/* Begin one that is over as it is queued, and no more: what is left is
 * request_go_on()'s. */
hvd_status_t request_start(struct comm *comm,
                           struct hvd_request *request) HVD_MUST_CHECK;

/* dst = factor * src, [count] each; both may be one. Else than HVD_OK: an abort
 * has come meanwhile. */
hvd_status_t request_scale(struct comm *comm, hvd_dtype_t dtype, void *dst,
                           const void *src, size_t count,
                           double factor) HVD_MUST_CHECK;

/* Of a request whose parts are calls of their own: the one that is next, as
 * call_check(), with its number. Else than HVD_OK: the comm has ended, since
 * the others have begun. */
hvd_status_t request_check_part(struct comm *comm,
                                const struct hvd_request *request,
                                const struct collective_args *args,
                                struct call *call_p) HVD_MUST_CHECK;

/* To the timeline. */
void request_show(const struct hvd_request *request, enum timeline_phase phase,
                  uint64_t since_ns, uint64_t until_ns);

/* The last word of whoever drives: nothing of it is touched afterwards. The
 * sentence is this thread's. */
void request_end(struct hvd_request *request, hvd_status_t status);

static inline bool request_done(const struct hvd_request *request)
{
    return atomic_load_explicit(&request->state, memory_order_acquire) ==
           REQUEST_DONE;
}

/* It is done: its status, its sentence in error_text(), and destroy it. */
hvd_status_t request_result(struct hvd_request *request) HVD_MUST_CHECK;

/* Elements of all its tensors; of a group, a digest of how many each has. */
uint64_t request_count(const struct hvd_request *request);
uint32_t request_digest(const struct hvd_request *request);
/* Its tensors [*n_p]: a group's, or the one that it has, which is laid into
 * `one`. Valid as long as both. */
const struct fusion_tensor *request_tensors(const struct hvd_request *request,
                                            struct fusion_tensor *one,
                                            size_t *n_p);
/* What they contribute, one behind the other, to memory of the host, and the
 * results from there: of an allreduce. Returns how many bytes. */
size_t request_pack(const struct hvd_request *request, uint8_t *to);
size_t request_unpack(const struct hvd_request *request, const uint8_t *from);
/* Of a call by name: what all ranks have to agree on. */
struct signature request_signature(const struct hvd_request *request);

/* Is it done? If not, the thread goes on with it. The issuing thread. */
bool request_test(const struct hvd_request *request);

/* Drive its comm until it is done, and destroy it. Its status, its sentence in
 * error_text(). */
hvd_status_t request_wait(struct hvd_request *request) HVD_MUST_CHECK;

/* The call and the buffers of its part under way; `buffer`: where a packed one
 * lies [FUSION_BUFFER_NBYTES]. */
void request_part(const struct hvd_request *request, void *buffer,
                  struct collective_args *args_p, struct call *call_p);
static inline const struct fusion_part *
request_packed(const struct hvd_request *request)
{
    const struct fusion_part *part = request->parts + request->part_i;

    return request->n_tensors > 0 && !request->adasum.on && part->packed ? part
                                                                         : NULL;
}

/* comm->fusion is there, [FUSION_BUFFER_NBYTES]. false: no memory. Whoever
 * drives the comm uses it between two operations, or for one. */
bool request_reserve_fusion(struct comm *comm);

/* A group whose tensors travel in one operation, as they are. */
void request_make_one_part(struct hvd_request *request);

/* Free those kept. Any thread. */
void requests_release(void);

#endif
