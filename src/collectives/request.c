/* collectives/request.c - requests: checked, copied, kept. See request.h.
 *
 * Threads: as there; the list of free requests has a lock. Memory: heap. */
#include "collectives/request.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/array.h"
#include "base/moves.h"
#include "collectives/comm_impl.h"
#include "collectives/completion.h"
#include "collectives/lending.h"
#include "collectives/reduce/scale.h"
#include "timeline/timeline.h"

/* --- those kept --- */

static struct {
    pthread_mutex_t lock;
    struct hvd_request *first[REQUEST_USES];
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Each use by itself: what one needs besides would in time be grown by all. */
static enum request_use use_of(const struct collective_args *args, bool group)
{
    if (is_on_device(args))
        return REQUEST_ON_DEVICE;
    return group ? REQUEST_GROUP : REQUEST_PLAIN;
}

static struct hvd_request *take_kept(enum request_use use)
{
    struct hvd_request *request;

    pthread_mutex_lock(&kept.lock);
    request = kept.first[use];
    if (request != NULL)
        kept.first[use] = request->next;
    pthread_mutex_unlock(&kept.lock);
    if (request == NULL)
        request = calloc(1, sizeof(*request));
    if (request != NULL)
        request->use = use;
    return request;
}

static unsigned state_of(const struct hvd_request *request)
{
    return atomic_load_explicit(&request->state, memory_order_relaxed);
}

static void move(struct hvd_request *request, enum request_state to)
{
    static const unsigned moves[] = {
        [REQUEST_KEPT] = MOVE(REQUEST_POSTED),
        [REQUEST_POSTED] = MOVE(REQUEST_RUNNING) | MOVE(REQUEST_DONE) |
                           MOVE(REQUEST_KEPT),
        [REQUEST_RUNNING] = MOVE(REQUEST_DONE),
        [REQUEST_DONE] = MOVE(REQUEST_KEPT),
    };

    HVD_ASSERT(moves_allow(moves, state_of(request), to));
    atomic_store_explicit(&request->state, to, memory_order_release);
}

void request_destroy(struct hvd_request *request)
{
    on_device_drop_marks(&request->device);
    device_result_release(request->device.result);
    request->device.result = NULL;
    on_device_drop_staging(&request->device);
    compression_drop(&request->compression);
    ragged_drop(request);
    move(request, REQUEST_KEPT);
    pthread_mutex_lock(&kept.lock);
    request->next = kept.first[request->use];
    kept.first[request->use] = request;
    pthread_mutex_unlock(&kept.lock);
}

static void release_all(enum request_use use)
{
    struct hvd_request *request, *next;

    pthread_mutex_lock(&kept.lock);
    request = kept.first[use];
    kept.first[use] = NULL;
    pthread_mutex_unlock(&kept.lock);
    for (; request != NULL; request = next) {
        next = request->next;
        array_free(&request->counts, &request->counts_max);
        array_free(&request->tensors, &request->tensors_max);
        array_free(&request->parts, &request->parts_max);
        on_device_fini(&request->device);
        free(request);
    }
}

void requests_release(void)
{
    for (int use = 0; use < REQUEST_USES; use++)
        release_all((enum request_use)use);
    lending_release();
}

/* --- creation --- */

static hvd_status_t check_scale(const struct collective_args *args)
{
    const char *field = args->prescale != 1 ? "prescale" : "postscale";

    if (args->prescale == 1 && args->postscale == 1)
        return HVD_OK;
    if (args->kind == COLLECTIVE_ALLREDUCE && scale_applies(args->dtype))
        return HVD_OK;
    return error_set(HVD_ERR_INVALID,
                     "%s: %s is for allreduce of floating point",
                     call_kind_name((unsigned)args->kind), field);
}

static const size_t *keep(size_t **at_p, const size_t *counts, size_t n)
{
    size_t *copy = *at_p;

    if (counts == NULL)
        return NULL;
    memcpy(copy, counts, n * sizeof(*counts));
    *at_p += n;
    return copy;
}

static bool keep_counts(struct hvd_request *request, size_t size)
{
    struct collective_args *args = &request->args;
    const struct kind *kind = kind_of((int)args->kind);
    size_t *at;

    if (!kind_is_varied(kind))
        return true;
    if (!array_reserve(&request->counts, &request->counts_max, 4 * size))
        return false;
    if (kind->send != KIND_VARIED) /* another call may have left them there */
        args->sendcounts = args->sdispls = NULL;
    at = request->counts;
    args->sendcounts = keep(&at, args->sendcounts, size);
    args->sdispls = keep(&at, args->sdispls, size);
    args->recvcounts = keep(&at, args->recvcounts, size);
    args->rdispls = keep(&at, args->rdispls, size);
    return true;
}

static hvd_status_t fill_one(struct hvd_request *request)
{
    const struct comm *comm = request->comm;

    HVD_TRY(check_scale(&request->args));
    HVD_TRY(call_check(&request->args, comm->config.rank, comm->config.size,
                       &request->call));
    request->n_tensors = 0;
    request->n_parts = 1;
    if (!array_reserve(&request->parts, &request->parts_max, 1) ||
        !keep_counts(request, (size_t)comm->config.size))
        return error_set(HVD_ERR_NOMEM, "a request");
    return HVD_OK;
}

static hvd_status_t check_tensor(const struct hvd_request *request, size_t i)
{
    const struct fusion_tensor *tensor = &request->tensors[i];
    struct collective_args args = request->args;
    struct call call;

    args.sendbuf = tensor->sendbuf;
    args.recvbuf = tensor->recvbuf;
    args.count = tensor->count;
    return error_prefix(call_check(&args, request->comm->config.rank,
                                   request->comm->config.size, &call),
                        "tensor %zu of the group", i);
}

static hvd_status_t fill_group(struct hvd_request *request,
                               const struct comm_group *group)
{
    size_t n = group->n, n_parts_max = n > 0 ? n : 1;

    if (n > 0 && (group->sendbufs == NULL || group->recvbufs == NULL ||
                  group->counts == NULL))
        return error_set(HVD_ERR_INVALID,
                         "grouped allreduce: an array is NULL");
    HVD_TRY(check_scale(&request->args));
    if (!array_reserve(&request->tensors, &request->tensors_max, n) ||
        !array_reserve(&request->parts, &request->parts_max, n_parts_max))
        return error_set(HVD_ERR_NOMEM, "a group of %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        request->tensors[i] = (struct fusion_tensor){
            group->sendbufs[i], group->recvbufs[i], group->counts[i]};
        HVD_TRY(check_tensor(request, i));
    }
    HVD_TRY(call_check(&request->args, request->comm->config.rank,
                       request->comm->config.size, &request->call));
    request->n_tensors = n;
    request->n_parts = fusion_plan(request->tensors, n,
                                   request->call.elem_nbytes, request->parts);
    return HVD_OK;
}

/* As much as fits. The rest of a long one is not read, as snprintf() does.
 * to [max] */
static void keep_text(char *to, const char *name, size_t max)
{
    size_t n = name != NULL ? strnlen(name, max - 1) : 0;

    if (n > 0)
        memcpy(to, name, n);
    to[n] = '\0';
}

static hvd_status_t fill(struct hvd_request *request,
                         const struct comm_group *group)
{
    HVD_TRY(group == NULL ? fill_one(request) : fill_group(request, group));
    HVD_TRY(compression_prepare(request, group != NULL));
    adasum_prepare(request);
    ragged_prepare(request);
    return HVD_OK;
}

hvd_status_t request_create(struct comm *comm,
                            const struct collective_args *args,
                            const struct comm_group *group,
                            struct hvd_request **request_p)
{
    struct hvd_request *request = take_kept(use_of(args, group != NULL));
    hvd_status_t status;

    if (request == NULL)
        return error_set(HVD_ERR_NOMEM, "a request");
    request->next = NULL;
    request->comm = comm;
    request->generation = comm->config.generation;
    request->by_name = comm->by_name != NULL;
    request->last_p = NULL;
    request->unwaited_in = NULL;
    request->args = *args;
    if (!args->scaled)
        request->args.prescale = request->args.postscale = 1;
    keep_text(request->name, args->name, REQUEST_NAME_MAX);
    keep_text(request->label, args->label ? args->label : args->name,
              REQUEST_NAME_MAX);
    keep_text(request->match_text, args->match, REQUEST_MATCH_MAX);
    request->args.name = request->name;
    request->args.label = request->label;
    request->match = signature_match_of(args->match);
    request->args.match = NULL;
    request->posted_ns = timeline_call_clock();
    request->part_i = 0;
    request->begun_ns = 0;
    move(request, REQUEST_POSTED);
    request->device.way = ON_DEVICE_NOT;
    request->device.counted = false;
    status = fill(request, group);
    if (status != HVD_OK) {
        request_destroy(request);
        return status;
    }
    *request_p = request;
    return HVD_OK;
}

void request_end(struct hvd_request *request, hvd_status_t status)
{
    on_device_drop_marks(&request->device);
    request->status = status;
    if (status != HVD_OK)
        snprintf(request->text, sizeof(request->text), "%s", error_text());
    move(request, REQUEST_DONE);
    completion_tell();
}

hvd_status_t request_result(struct hvd_request *request)
{
    hvd_status_t status = request->status;

    HVD_ASSERT(request_done(request));
    if (status == HVD_OK)
        status = on_device_follow(request);
    else
        error_set(status, "%s", request->text);
    if (status == HVD_OK)
        ragged_hand_over(request);
    request_destroy(request);
    return status;
}

bool request_begin(struct hvd_request *request)
{
    if (state_of(request) == REQUEST_RUNNING)
        return false;
    move(request, REQUEST_RUNNING);
    return true;
}

/* --- parts --- */

/* Ranks whose groups differ, but not in their sums, must find out: what the
 * header of an allreduce has no other use for says which tensors are in it. */
static int32_t digest_of(const struct hvd_request *request,
                         const struct fusion_part *part)
{
    XXH32_hash_t digest = (XXH32_hash_t)(part->last - part->first);

    for (size_t i = part->first; i <= part->last; i++) {
        uint64_t count = request->tensors[i].count;

        digest = XXH32(&count, sizeof(count), digest);
    }
    return (int32_t)(digest & INT32_MAX);
}

uint64_t request_count(const struct hvd_request *request)
{
    uint64_t count = 0;

    if (request->n_tensors == 0)
        return request->call.head.count;
    for (size_t i = 0; i < request->n_tensors; i++)
        count += request->tensors[i].count;
    return count;
}

uint32_t request_digest(const struct hvd_request *request)
{
    struct fusion_part all = {.last = request->n_tensors - 1};

    return (uint32_t)digest_of(request, &all);
}

const struct fusion_tensor *request_tensors(const struct hvd_request *request,
                                            struct fusion_tensor *one,
                                            size_t *n_p)
{
    *n_p = request->n_tensors;
    if (request->n_tensors > 0)
        return request->tensors;
    *one = (struct fusion_tensor){request->args.sendbuf, request->args.recvbuf,
                                  request->args.count};
    *n_p = 1;
    return one;
}

size_t request_pack(const struct hvd_request *request, uint8_t *to)
{
    struct fusion_tensor one;
    size_t n, at = 0;
    const struct fusion_tensor *tensors = request_tensors(request, &one, &n);

    for (size_t i = 0; i < n; i++) {
        size_t nbytes = tensors[i].count * request->call.elem_nbytes;

        if (nbytes > 0)
            memcpy(to + at, tensors[i].sendbuf, nbytes);
        at += nbytes;
    }
    return at;
}

size_t request_unpack(const struct hvd_request *request, const uint8_t *from)
{
    struct fusion_tensor one;
    size_t n, at = 0;
    const struct fusion_tensor *tensors = request_tensors(request, &one, &n);

    for (size_t i = 0; i < n; i++) {
        size_t nbytes = tensors[i].count * request->call.elem_nbytes;

        if (nbytes > 0)
            memcpy(tensors[i].recvbuf, from + at, nbytes);
        at += nbytes;
    }
    return at;
}

/* What an equal number of elements does not say. */
static uint32_t digest_of_counts(const struct hvd_request *r)
{
    size_t size = (size_t)r->comm->config.size;

    if (r->n_tensors > 0)
        return request_digest(r);
    if (r->args.kind != COLLECTIVE_ALLGATHERV || r->ragged.on)
        return 0;
    return XXH32(r->args.recvcounts, size * sizeof(*r->args.recvcounts), 0);
}

struct signature request_signature(const struct hvd_request *r)
{
    const struct frame *head = &r->call.head;

    return (struct signature){
        .kind = head->kind,
        .dtype = head->dtype,
        .op = head->op,
        .way = (uint8_t)((r->args.of_all ? SIGNATURE_OF_ALL : 0) |
                         (r->compression.on ? SIGNATURE_COMPRESSED : 0) |
                         (r->ragged.on ? SIGNATURE_RAGGED : 0) |
                         (is_on_device(&r->args) ? SIGNATURE_ON_DEVICE : 0)),
        .root = head->root,
        .digest = digest_of_counts(r),
        .count = request_count(r),
        .prescale = r->compression.on ? r->compression.prescale
                                      : r->args.prescale,
        .postscale = r->compression.on ? r->compression.postscale
                                       : r->args.postscale,
        .match = r->match,
    };
}

void request_make_one_part(struct hvd_request *request)
{
    struct fusion_part all = {.last = request->n_tensors - 1};

    all.count = request_count(request);
    request->parts[0] = all;
    request->n_parts = 1;
    request->call.head.count = all.count;
    request->call.nothing = all.count == 0;
    request->call.head.root = digest_of(request, &all);
}

hvd_status_t request_check_part(struct comm *comm,
                                const struct hvd_request *request,
                                const struct collective_args *args,
                                struct call *call_p)
{
    if (call_check(args, comm->config.rank, comm->config.size, call_p) !=
        HVD_OK) {
        (void)comm_fail(comm, HVD_ERR_INVALID, "%s", error_text());
        return comm_end(comm);
    }
    call_p->head.sequence = request->call.head.sequence + request->part_i;
    return HVD_OK;
}

void request_part(const struct hvd_request *request, void *buffer,
                  struct collective_args *args_p, struct call *call_p)
{
    const struct fusion_part *part = &request->parts[request->part_i];
    const struct fusion_tensor *tensor;

    *args_p = request->args;
    *call_p = request->call;
    call_p->head.sequence += request->part_i;
    if (request->n_tensors == 0)
        return;
    tensor = &request->tensors[part->first];
    args_p->sendbuf = part->packed ? buffer : tensor->sendbuf;
    args_p->recvbuf = part->packed ? buffer : tensor->recvbuf;
    args_p->count = part->count;
    call_p->head.count = part->count;
    call_p->head.root = part->packed ? digest_of(request, part) : 0;
    call_p->send_nbytes = part->count * call_p->elem_nbytes;
    call_p->recv_nbytes = call_p->send_nbytes;
    call_p->nothing = part->count == 0;
}
