/* collectives/call.c - the checks that need no peer. See call.h. */
#include "collectives/call.h"

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/scale.h"

const char *call_kind_name(unsigned kind)
{
    const struct kind *k = kind_of((int)kind);

    if (kind == CALL_TRANSFER)
        return "state transfer";
    return k != NULL ? k->name : "?";
}

/* --- for the timeline --- */

static const char *title_of(unsigned kind)
{
    const struct kind *k = kind_of((int)kind);

    return k != NULL ? k->title : NULL;
}

static const char *dtype_of(unsigned kind, unsigned dtype)
{
    const struct kind *k = kind_of((int)kind);

    return k != NULL && k->recv != KIND_NOTHING ? dtype_name(dtype) : NULL;
}

static const char *op_of(unsigned kind, unsigned op)
{
    const struct kind *k = kind_of((int)kind);

    return k != NULL && k->reduces ? op_name(op) : NULL;
}

const struct timeline_words call_words = {title_of, dtype_of, op_of};

/* --- for people --- */

/* Calls of other kinds that are parts of one (adasum.h). */
static bool is_adasum(const struct kind *kind, const struct frame *head)
{
    return kind != NULL && !kind->reduces && head->op == HVD_ADASUM;
}

static bool is_ragged(const struct frame *head)
{
    return head->op == CALL_OP_COUNTS;
}

const char *call_name(const struct frame *head)
{
    unsigned kind = head->kind;

    if (call_is_commit(head))
        return "hvd_state_commit";
    if (is_adasum(kind_of(head->kind), head))
        kind = COLLECTIVE_ALLREDUCE;
    else if (is_ragged(head) && kind == COLLECTIVE_ALLTOALL)
        kind = COLLECTIVE_ALLTOALLV;
    else if (is_ragged(head) && kind == COLLECTIVE_ALLGATHER)
        kind = COLLECTIVE_ALLGATHERV;
    return call_kind_name(kind);
}

enum { DTYPES_TEXT_MAX = 32 };

/* "float32", "float32 as bfloat16" */
static const char *describe_dtypes(const struct kind *kind,
                                   const struct frame *head, char *text)
{
    bool compressed = kind != NULL && kind->reduces && head->root < 0;

    if (!compressed)
        return dtype_name(head->dtype);
    snprintf(text, DTYPES_TEXT_MAX, "%s as %s",
             dtype_name(0u - (unsigned)head->root), dtype_name(head->dtype));
    return text;
}

/* number: behind the name; more: behind the count. */
static void describe(const struct frame *head, const char *number,
                     const char *more, char *text)
{
    const struct kind *kind = kind_of(head->kind);
    const char *name = call_name(head);
    char dtypes[DTYPES_TEXT_MAX];
    const char *dtype = describe_dtypes(kind, head, dtypes);
    unsigned long long count = head->count;

    if (kind == NULL || kind->recv == KIND_NOTHING || call_is_commit(head))
        snprintf(text, CALL_TEXT_MAX, "%s%s", name, number);
    else if (is_ragged(head))
        snprintf(text, CALL_TEXT_MAX, "%s%s (%s, with place)", name, number,
                 dtype);
    else if (is_adasum(kind, head))
        snprintf(text, CALL_TEXT_MAX, "%s%s (%s, adasum, %llu%s)", name, number,
                 dtype, count, more);
    else if (kind->reduces && head->root > 0) /* packed: see request.c */
        snprintf(text, CALL_TEXT_MAX, "%s%s (%s, %s, %llu of group %x%s)", name,
                 number, dtype, op_name(head->op), count, (unsigned)head->root,
                 more);
    else if (kind->reduces)
        snprintf(text, CALL_TEXT_MAX, "%s%s (%s, %s, %llu%s)", name, number,
                 dtype, op_name(head->op), count, more);
    else if (kind->rooted)
        snprintf(text, CALL_TEXT_MAX, "%s%s (%s, root %d, %llu%s)", name,
                 number, dtype, head->root, count, more);
    else
        snprintf(text, CALL_TEXT_MAX, "%s%s (%s, %llu%s)", name, number, dtype,
                 count, more);
}

void call_describe(const struct frame *head, char *text)
{
    char number[24];

    if (head->kind == CALL_TRANSFER) {
        snprintf(text, CALL_TEXT_MAX, "%s of %llu bytes",
                 call_kind_name(head->kind), (unsigned long long)head->count);
        return;
    }
    snprintf(number, sizeof(number), " #%llu",
             (unsigned long long)head->sequence);
    describe(head, number, "", text);
}

/* out [80] */
static void describe_way(const struct signature *s, char *out)
{
    const char *all = s->way & SIGNATURE_OF_ALL ? ", of all" : "";
    const char *there = s->way & SIGNATURE_ON_DEVICE ? ", on a device" : "";

    snprintf(out, 80, "%s%s", there, all);
}

void call_describe_signature(const struct signature *s, char *text)
{
    struct frame head = {.kind = s->kind,
                         .dtype = s->dtype,
                         .op = s->way & SIGNATURE_RAGGED ? CALL_OP_COUNTS
                                                         : s->op,
                         .root = s->digest != 0 ? (int32_t)s->digest : s->root,
                         .count = s->count};
    char way[80], more[160] = "";

    describe_way(s, way);
    if (s->kind == COLLECTIVE_ALLGATHERV)
        snprintf(more, sizeof(more), ", counts %x", (unsigned)s->digest);
    else if (s->prescale != 1 || s->postscale != 1)
        snprintf(more, sizeof(more), ", scaled by %g and %g", s->prescale,
                 s->postscale);
    memcpy(more + strlen(more), way, strlen(way) + 1);
    describe(&head, "", more, text);
    if (s->match != 0) {
        size_t n = strlen(text);

        snprintf(text + n, CALL_TEXT_MAX - n, " of match %08x",
                 (unsigned)s->match);
    }
}

/* --- checks --- */

static hvd_status_t invalid(const struct collective_args *args,
                            const char *what)
{
    return error_set(HVD_ERR_INVALID, "%s: %s",
                     call_kind_name((unsigned)args->kind), what);
}

/* *product_p = a * b, at most half the address space, so that sums of two never
 * overflow. */
static bool multiply(size_t a, size_t b, size_t *product_p)
{
    return !__builtin_mul_overflow(a, b, product_p) &&
           *product_p <= PTRDIFF_MAX / 2;
}

bool call_overlap(const void *a, size_t a_nbytes, const void *b,
                  size_t b_nbytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return a_nbytes > 0 && b_nbytes > 0 && x < y + b_nbytes && y < x + a_nbytes;
}

static hvd_status_t check_adasum(const struct collective_args *args)
{
    if (args->kind == COLLECTIVE_ALLREDUCE && scale_applies(args->dtype))
        return HVD_OK;
    return invalid(args, "adasum is for allreduce of floating point");
}

static hvd_status_t check_names(const struct collective_args *args, int size)
{
    const struct kind *kind = kind_of((int)args->kind);

    if (kind == NULL)
        return error_set(HVD_ERR_INVALID, "collective: unknown kind %d",
                         (int)args->kind);
    if (kind->recv == KIND_NOTHING)
        return HVD_OK;
    if (hvd_dtype_size(args->dtype) == 0)
        return error_set(HVD_ERR_INVALID, "%s: unknown dtype %d", kind->name,
                         (int)args->dtype);
    if (kind->reduces && (int)args->dtype >= DTYPE_END)
        return error_set(HVD_ERR_INVALID, "%s: %s is moved, but not combined",
                         kind->name, dtype_name(args->dtype));
    if (kind->reduces && args->op == HVD_ADASUM)
        return check_adasum(args);
    if (kind->reduces && (unsigned)args->op >= OP_COUNT)
        return error_set(HVD_ERR_INVALID, "%s: unknown op %d", kind->name,
                         (int)args->op);
    if (kind->rooted && (args->root < 0 || args->root >= size))
        return error_set(HVD_ERR_INVALID, "%s: root %d, ranks are 0..%d",
                         kind->name, args->root, size - 1);
    return HVD_OK;
}

/* Elements that counts and displacements reach. */
static bool extent(const size_t *counts, const size_t *displs, int size,
                   size_t *extent_p, size_t *total_p)
{
    *extent_p = *total_p = 0;
    for (int i = 0; i < size; i++) {
        size_t end;

        if (__builtin_add_overflow(displs[i], counts[i], &end) ||
            __builtin_add_overflow(*total_p, counts[i], total_p))
            return false;
        if (counts[i] > 0 && end > *extent_p)
            *extent_p = end;
    }
    return true;
}

/* Has block i room of its own among those before it, the last of which ends at
 * *end_p? Mostly they stand in order, and it begins there. */
static bool stands_apart(const size_t *counts, const size_t *displs, int i,
                         size_t *end_p)
{
    size_t start = displs[i], end = start + counts[i];

    if (counts[i] == 0)
        return true;
    for (int k = i - 1; k >= 0 && start < *end_p; k--)
        if (counts[k] > 0 && start < displs[k] + counts[k] && displs[k] < end)
            return false;
    *end_p = end > *end_p ? end : *end_p;
    return true;
}

static bool stand_apart(const size_t *counts, const size_t *displs, int size)
{
    size_t end = 0;

    for (int i = 0; i < size; i++)
        if (!stands_apart(counts, displs, i, &end))
            return false;
    return true;
}

static hvd_status_t measure_sent(const struct collective_args *args, int size,
                                 struct call *call)
{
    bool all = kind_of((int)args->kind)->send == KIND_VARIED;
    size_t n = args->count, total;

    if (all && (args->sendcounts == NULL || args->sdispls == NULL))
        return invalid(args, "counts or displacements are NULL");
    if ((all && !extent(args->sendcounts, args->sdispls, size, &n, &total)) ||
        !multiply(n, call->elem_nbytes, &call->send_nbytes))
        return invalid(args, "counts overflow");
    return HVD_OK;
}

static hvd_status_t measure_v(const struct collective_args *args, int rank,
                              int size, struct call *call)
{
    bool all = kind_of((int)args->kind)->send == KIND_VARIED;
    size_t n, received, own;

    HVD_TRY(measure_sent(args, size, call));
    if (args->place != NULL && args->recvcounts == NULL) /* not known yet */
        return HVD_OK;
    if (args->recvcounts == NULL || args->rdispls == NULL)
        return invalid(args, "counts or displacements are NULL");
    if (!extent(args->recvcounts, args->rdispls, size, &n, &received) ||
        !multiply(n, call->elem_nbytes, &call->recv_nbytes))
        return invalid(args, "counts overflow");
    if (!stand_apart(args->recvcounts, args->rdispls, size))
        return invalid(args, "blocks of recvbuf overlap");
    own = all ? args->sendcounts[rank] : args->count;
    if (args->recvcounts[rank] != own)
        return error_set(HVD_ERR_INVALID,
                         "%s: this rank sends itself %zu, but recvcounts[%d] "
                         "is %zu",
                         call_kind_name((unsigned)args->kind), own, rank,
                         args->recvcounts[rank]);
    if (all)
        return HVD_OK;
    call->head.count = received;
    call->own_offset = args->rdispls[rank] * call->elem_nbytes;
    call->nothing = received == 0;
    return HVD_OK;
}

static hvd_status_t measure(const struct collective_args *args, int rank,
                            int size, struct call *call)
{
    const struct kind *kind = kind_of((int)args->kind);
    size_t one, all;

    if (kind_is_varied(kind))
        return measure_v(args, rank, size, call);
    if (!multiply(args->count, call->elem_nbytes, &one) ||
        !multiply(one, (size_t)size, &all))
        return error_set(HVD_ERR_INVALID, "%s: count %zu overflows", kind->name,
                         args->count);
    call->head.count = args->count;
    call->nothing = args->count == 0;
    call->send_nbytes = kind->send == KIND_BLOCKS ? all : one;
    call->recv_nbytes = kind->recv == KIND_BLOCKS ? all : one;
    if (kind->send != kind->recv)
        call->own_offset = (size_t)rank * one;
    return HVD_OK;
}

static bool in_place(const struct collective_args *args,
                     const struct call *call)
{
    const struct kind *kind = kind_of((int)args->kind);
    uintptr_t send = (uintptr_t)args->sendbuf, recv = (uintptr_t)args->recvbuf;

    if (kind->send == KIND_VARIED)
        return false;
    if (kind->send == KIND_BLOCKS && kind->recv == KIND_BLOCK)
        return recv == send + call->own_offset;
    return send == recv + call->own_offset;
}

static hvd_status_t check_buffers(const struct collective_args *args,
                                  const struct call *call)
{
    if (call->recv_nbytes > 0 && args->recvbuf == NULL)
        return invalid(args, "recvbuf is NULL");
    if (kind_of((int)args->kind)->rooted)
        return HVD_OK;
    if (call->send_nbytes > 0 && args->sendbuf == NULL)
        return invalid(args, "sendbuf is NULL");
    if (!in_place(args, call) && call_overlap(args->sendbuf, call->send_nbytes,
                                              args->recvbuf, call->recv_nbytes))
        return invalid(args, "sendbuf and recvbuf overlap");
    return HVD_OK;
}

hvd_status_t call_check(const struct collective_args *args, int rank, int size,
                        struct call *call_p)
{
    const struct kind *kind = kind_of((int)args->kind);
    struct call call = {.elem_nbytes = 1};

    HVD_TRY(check_names(args, size));
    call.head.kind = (uint8_t)args->kind;
    if (kind->recv == KIND_NOTHING) {
        *call_p = call;
        return HVD_OK;
    }
    call.elem_nbytes = hvd_dtype_size(args->dtype);
    call.head.dtype = (uint8_t)args->dtype;
    if (kind->reduces || (int)args->op == COMM_OP_COMMIT)
        call.head.op = (uint8_t)args->op;
    call.head.root = kind->rooted ? args->root : 0;
    HVD_TRY(measure(args, rank, size, &call));
    HVD_TRY(check_buffers(args, &call));
    *call_p = call;
    return HVD_OK;
}
