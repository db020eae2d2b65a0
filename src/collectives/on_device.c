/* collectives/on_device.c - requests whose buffers are on a device: what is
 * refused, where they are staged, and what comes before and behind the call.
 * See on_device.h.
 *
 * Memory: a request's arrays and its staging memory, kept for the next. */
#include "collectives/on_device.h"

#include <inttypes.h>

#include "base/array.h"
#include "base/log.h"
#include "base/round.h"
#include "collectives/comm_impl.h"
#include "collectives/lending.h"
#include "collectives/reduce/scale.h"
#include "collectives/request.h"

enum { STAGING_ALIGN = 256 };

/* --- what NCCL does not have --- */

static hvd_status_t check_nccl(const struct collective_args *args)
{
    const struct kind *kind = kind_of((int)args->kind);

    if (args->kind == COLLECTIVE_ALLTOALL && args->count > 0 &&
        args->sendbuf == args->recvbuf)
        return error_set(HVD_ERR_UNSUPPORTED,
                         "alltoall: NCCL has none in place");
    if (kind->reduces && args->op == HVD_AVERAGE && !scale_applies(args->dtype))
        return error_set(HVD_ERR_UNSUPPORTED,
                         "%s: average of integers on a device", kind->name);
    return HVD_OK;
}

hvd_status_t on_device_admit_by_name(const struct collective_args *args)
{
    return kind_of((int)args->kind) != NULL ? check_nccl(args) : HVD_OK;
}

static bool is_staged_always(const struct hvd_request *r)
{
    return r->adasum.on || r->compression.on;
}

/* --- marks --- */

hvd_status_t on_device_adopt_mark(struct hvd_request *r, void *mark)
{
    struct on_device *d = &r->device;

    if (mark == NULL)
        return HVD_OK;
    if (!array_reserve(&d->marks, &d->marks_max, 1)) {
        device_unmark(mark);
        return error_set(HVD_ERR_NOMEM, "a mark");
    }
    d->marks[d->n_marks++] = mark;
    return HVD_OK;
}

hvd_status_t on_device_mark(struct hvd_request *r)
{
    const struct on_device *d = &r->device;
    void *mark = NULL;

    HVD_TRY(device_mark(d->stream, d->ordered,
                        on_device_is_direct(d) ? NULL : &mark));
    return on_device_adopt_mark(r, mark);
}

bool on_device_take_marks(struct on_device *d, struct on_device *other)
{
    size_t n = d->n_marks + other->n_marks;

    if (!array_reserve(&d->marks, &d->marks_max, n))
        return false;
    for (size_t i = 0; i < other->n_marks; i++)
        d->marks[d->n_marks++] = other->marks[i];
    other->n_marks = 0;
    return true;
}

hvd_status_t on_device_follow(struct hvd_request *r)
{
    const struct device_result *result = r->device.result;

    return result != NULL ? device_result_follow(result, r->args.stream)
                          : HVD_OK;
}

void on_device_drop_marks(struct on_device *d)
{
    while (d->n_marks > 0)
        device_unmark(d->marks[--d->n_marks]);
}

/* --- tensors --- */

static void add_tensor(struct on_device *d, const void *send, void *recv,
                       size_t count)
{
    d->tensors[d->n_tensors++] = (struct device_tensor){send, recv, count};
}

/* A group is one part: NCCL has groups of its own. */
static hvd_status_t list_tensors(struct hvd_request *r)
{
    struct on_device *d = &r->device;
    size_t n = r->n_tensors > 0 ? r->n_tensors : 1;

    d->n_tensors = 0;
    if (!array_reserve(&d->tensors, &d->tensors_max, n))
        return error_set(HVD_ERR_NOMEM, "%zu tensors", n);
    if (r->n_tensors == 0)
        add_tensor(d, r->args.sendbuf, r->args.recvbuf, r->args.count);
    for (size_t i = 0; i < r->n_tensors; i++)
        add_tensor(d, r->tensors[i].sendbuf, r->tensors[i].recvbuf,
                   r->tensors[i].count);
    d->prescale = r->args.prescale;
    d->postscale = r->args.postscale;
    r->args.prescale = r->args.postscale = 1;
    if (r->n_tensors > 0)
        request_make_one_part(r);
    return HVD_OK;
}

/* --- staging --- */

/* A buffer of the device, and where it is staged. */
struct staged {
    const uint8_t *at;
    size_t nbytes, offset;
};

/* Both where they lie to each other, if they overlap. */
static void place(struct staged *a, struct staged *b, size_t *used_p)
{
    size_t start = round_up_to(*used_p, STAGING_ALIGN);
    const uint8_t *low = a->at < b->at ? a->at : b->at;
    bool apart = a->nbytes == 0 || b->nbytes == 0 ||
                 a->at + a->nbytes <= b->at || b->at + b->nbytes <= a->at;
    size_t end;

    a->offset = apart ? start : start + (size_t)(a->at - low);
    b->offset = apart ? round_up_to(start + a->nbytes, STAGING_ALIGN)
                      : start + (size_t)(b->at - low);
    end = a->offset + a->nbytes;
    *used_p = end > b->offset + b->nbytes ? end : b->offset + b->nbytes;
}

static void add_copy(struct on_device *d, void *dst, const void *src,
                     size_t nbytes)
{
    d->copies[d->n_copies++] = (struct device_copy){dst, src, nbytes};
}

static bool is_root(const struct hvd_request *r)
{
    return kind_of((int)r->args.kind)->rooted &&
           r->args.root == r->comm->config.rank;
}

static bool is_varied(const struct hvd_request *r)
{
    return kind_of((int)r->args.kind)->recv == KIND_VARIED;
}

static void copy_in(struct hvd_request *r, const struct staged *send,
                    const struct staged *recv)
{
    struct on_device *d = &r->device;
    bool rooted = kind_of((int)r->args.kind)->rooted;

    if (!rooted)
        add_copy(d, d->staging->memory + send->offset, send->at, send->nbytes);
    else if (is_root(r))
        add_copy(d, d->staging->memory + recv->offset, recv->at, recv->nbytes);
}

/* What lies between the blocks of a result stays as it is. */
static void copy_out(struct hvd_request *r, const struct staged *recv)
{
    struct on_device *d = &r->device;
    uint8_t *to = (uint8_t *)(uintptr_t)recv->at;
    const uint8_t *from = d->staging->memory + recv->offset;
    size_t elem = r->call.elem_nbytes;

    if (is_root(r))
        return;
    if (!is_varied(r)) {
        add_copy(d, to, from, recv->nbytes);
        return;
    }
    for (int i = 0; i < r->comm->config.size; i++)
        add_copy(d, to + r->args.rdispls[i] * elem,
                 from + r->args.rdispls[i] * elem,
                 r->args.recvcounts[i] * elem);
}

void on_device_drop_staging(struct on_device *d)
{
    lending_give(d->staging);
    d->staging = NULL;
}

static bool reserve_staging(struct on_device *d, size_t nbytes)
{
    if (d->staging != NULL && nbytes <= d->staging->nbytes)
        return true;
    on_device_drop_staging(d);
    return lending_take(LENDING_PINNED, nbytes, &d->staging) == HVD_OK;
}

/* [2]: what tensor i, or the call, sends and receives. */
static void buffers_of(const struct hvd_request *r, size_t i, struct staged *b)
{
    const struct compression *c = &r->compression;

    if (c->on) {
        size_t nbytes = r->args.count * hvd_dtype_size(c->dtype);

        b[0] = (struct staged){c->send, nbytes, 0};
        b[1] = (struct staged){c->recv, nbytes, 0};
    } else if (r->n_tensors == 0) {
        b[0] = (struct staged){r->args.sendbuf, r->call.send_nbytes, 0};
        b[1] = (struct staged){r->args.recvbuf, r->call.recv_nbytes, 0};
    } else {
        size_t nbytes = r->tensors[i].count * r->call.elem_nbytes;

        b[0] = (struct staged){r->tensors[i].sendbuf, nbytes, 0};
        b[1] = (struct staged){r->tensors[i].recvbuf, nbytes, 0};
    }
    if (kind_of((int)r->args.kind)->rooted)
        b[0].nbytes = 0;
}

/* From here on the call is one on the host. */
static void move_buffers(struct hvd_request *r, size_t i,
                         const struct staged *b)
{
    uint8_t *staging = r->device.staging->memory;
    uint8_t *send = staging + (b[0].nbytes > 0 ? b[0].offset : b[1].offset);
    uint8_t *recv = staging + b[1].offset;

    if (r->compression.on) {
        r->compression.send = send;
        r->compression.recv = recv;
    } else if (r->n_tensors == 0) {
        r->args.sendbuf = send;
        r->args.recvbuf = recv;
    } else {
        r->tensors[i].sendbuf = send;
        r->tensors[i].recvbuf = recv;
    }
}

static size_t staging_of(const struct hvd_request *r, size_t n)
{
    struct staged b[2];
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        buffers_of(r, i, b);
        place(&b[0], &b[1], &used);
    }
    return used > 0 ? used : 1;
}

static hvd_status_t stage(struct hvd_request *r)
{
    struct on_device *d = &r->device;
    size_t n = r->n_tensors > 0 ? r->n_tensors : 1, used = 0;
    size_t n_copies = 2 * n + (size_t)r->comm->config.size;
    struct staged b[2];

    if (!reserve_staging(d, staging_of(r, n)) ||
        !array_reserve(&d->copies, &d->copies_max, n_copies))
        return error_set(HVD_ERR_NOMEM, "to stage buffers of a device");
    d->n_copies = 0;
    for (size_t i = 0; i < n; i++) {
        buffers_of(r, i, b);
        place(&b[0], &b[1], &used);
        copy_in(r, &b[0], &b[1]);
    }
    d->n_in = d->n_copies;
    used = 0;
    for (size_t i = 0; i < n; i++) {
        buffers_of(r, i, b);
        place(&b[0], &b[1], &used);
        copy_out(r, &b[1]);
        move_buffers(r, i, b);
    }
    return HVD_OK;
}

/* --- a world of one --- */

/* From what each sends to what it receives, if that is elsewhere. */
static hvd_status_t copy_alone(struct hvd_request *r)
{
    struct on_device *d = &r->device;
    size_t n = r->n_tensors > 0 ? r->n_tensors : 1;
    size_t elem = r->call.elem_nbytes;

    d->n_copies = 0;
    if (!array_reserve(&d->copies, &d->copies_max, n))
        return error_set(HVD_ERR_NOMEM, "%zu copies", n);
    for (size_t i = 0; i < n; i++) {
        struct staged b[2];
        size_t from = 0, to = 0;

        buffers_of(r, i, b);
        if (kind_of((int)r->args.kind)->send == KIND_VARIED) {
            b[0].nbytes = r->args.recvcounts[0] * elem;
            from = r->args.sdispls[0] * elem;
        }
        if (is_varied(r))
            to = r->args.rdispls[0] * elem;
        if (b[0].at + from != b[1].at + to)
            add_copy(d, (uint8_t *)(uintptr_t)b[1].at + to, b[0].at + from,
                     b[0].nbytes);
    }
    d->n_in = d->n_copies;
    if (r->n_tensors > 0)
        request_make_one_part(r);
    return HVD_OK;
}

static bool is_scaled(const struct collective_args *args)
{
    return args->prescale != 1 || args->postscale != 1;
}

/* --- the doors --- */

hvd_status_t on_device_prepare(struct hvd_request *r, bool staged)
{
    struct on_device *d = &r->device;

    d->way = staged ? ON_DEVICE_STAGED : r->comm->device.way;
    d->stream = r->args.stream;
    d->ordered = r->args.ordered;
    d->n_copies = d->n_in = 0;
    if (is_staged_always(r) ||
        (d->way == ON_DEVICE_ALONE && is_scaled(&r->args)))
        d->way = ON_DEVICE_STAGED;
    if (d->way == ON_DEVICE_STAGED)
        return stage(r);
    if (d->way == ON_DEVICE_ALONE)
        return copy_alone(r);
    HVD_TRY(check_nccl(&r->args));
    HVD_TRY(list_tensors(r));
    if (!d->ordered || !r->by_name || r->call.nothing)
        return HVD_OK;
    d->result = device_result_create();
    return d->result != NULL ? HVD_OK : error_set(HVD_ERR_NOMEM, "a result");
}

void on_device_fini(struct on_device *d)
{
    array_free(&d->marks, &d->marks_max);
    array_free(&d->tensors, &d->tensors_max);
    array_free(&d->copies, &d->copies_max);
}

/* Behind its marks. */
static hvd_status_t run_copies(struct comm *comm, struct on_device *d,
                               const struct device_copy *list, size_t n)
{
    struct device_task task = {.copies = list,
                               .n_copies = n,
                               .further = d->marks,
                               .n_further = d->n_marks};
    hvd_status_t status = on_device_open(comm);

    if (status == HVD_OK) {
        task.doorbell = comm->device.doorbell;
        d->n_marks = 0; /* the task's */
        status = device_run(&task, &comm->verdict);
    }
    if (status == HVD_OK)
        return HVD_OK;
    if (comm_status(comm, NULL) == HVD_OK)
        (void)comm_fail(comm, status, "%s", error_text());
    return comm_end(comm);
}

static hvd_status_t begin_nccl(struct comm *comm, struct hvd_request *r)
{
    struct on_device *d = &r->device;
    const struct kind *kind = kind_of((int)r->args.kind);
    bool sends_vary = kind->send == KIND_VARIED, varied = kind_is_varied(kind);
    struct device_task *task = comm->device.task;

    *task = (struct device_task){
        .communicator = atomic_load(&comm->device.communicator),
        .call = {.kind = r->args.kind,
                 .dtype = r->args.dtype,
                 .op = r->args.op,
                 .root = r->args.root,
                 .tensors = d->tensors,
                 .n = d->n_tensors,
                 /* the other kinds have none, whatever was left there */
                 .sendcounts = sends_vary ? r->args.sendcounts : NULL,
                 .sdispls = sends_vary ? r->args.sdispls : NULL,
                 .recvcounts = varied ? r->args.recvcounts : NULL,
                 .rdispls = varied ? r->args.rdispls : NULL,
                 .prescale = d->prescale,
                 .postscale = d->postscale},
        .further = d->marks,
        .n_further = d->n_marks,
        .stream = d->stream,
        .ordered = d->ordered,
        .result = d->result,
        .doorbell = comm->device.doorbell};
    d->n_marks = 0; /* the task's */
    return comm_begin_device(comm, &r->call);
}

hvd_status_t on_device_begin(struct comm *comm, struct hvd_request *r)
{
    struct on_device *d = &r->device;

    if (d->way == ON_DEVICE_NCCL)
        return r->call.nothing ? HVD_OK : begin_nccl(comm, r);
    return run_copies(comm, d, d->copies, d->n_in);
}

hvd_status_t on_device_finish(struct comm *comm, struct hvd_request *r)
{
    struct on_device *d = &r->device;

    if (d->way != ON_DEVICE_STAGED)
        return HVD_OK;
    return run_copies(comm, d, d->copies + d->n_in, d->n_copies - d->n_in);
}

/* --- a group in one piece on the host --- */

/* Between its tensors and its staging memory. */
static hvd_status_t copy_tensors(struct comm *comm, struct hvd_request *r,
                                 bool out)
{
    struct on_device *d = &r->device;
    uint8_t *at = d->staging->memory;

    d->n_copies = 0;
    for (size_t i = 0; i < r->n_tensors; i++) {
        const struct fusion_tensor *t = &r->tensors[i];
        size_t nbytes = t->count * r->call.elem_nbytes;

        add_copy(d, out ? t->recvbuf : at, out ? at : t->sendbuf, nbytes);
        at += nbytes;
    }
    return run_copies(comm, d, d->copies, d->n_copies);
}

hvd_status_t on_device_pack(struct comm *comm, struct hvd_request *r,
                            uint8_t **packed_p)
{
    struct on_device *d = &r->device;
    size_t nbytes = request_count(r) * r->call.elem_nbytes;

    if (!reserve_staging(d, nbytes + 1) ||
        !array_reserve(&d->copies, &d->copies_max, r->n_tensors)) {
        (void)comm_fail(comm, HVD_ERR_NOMEM, "to stage buffers of a device");
        return comm_end(comm);
    }
    *packed_p = d->staging->memory;
    return copy_tensors(comm, r, false);
}

hvd_status_t on_device_unpack(struct comm *comm, struct hvd_request *r)
{
    return copy_tensors(comm, r, true);
}
