/* collectives/by_name_run.c - what the driver of calls by name does: rounds,
 * exchanges, batches, one after the other. See by_name.h.
 *
 * Threads: the driver, but for what `lock` guards. Memory: arrays that grow
 * with what is in flight. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "collectives/by_name_impl.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "timeline/timeline.h"

/* A rank that has posted something for so long, and not what is next, says so:
 * the others may wait for what it has. Sooner where it has posted what comes
 * later in the order, which does not suit it then. */
enum { PATIENCE_US = 5000, PATIENCE_OVERTAKEN_US = 1000 };

static hvd_status_t differ(const struct hvd_request *r,
                           const struct negotiated *d)
{
    char first[CALL_TEXT_MAX], other[CALL_TEXT_MAX];
    char own[REQUEST_MATCH_MAX + 20] = "";

    call_describe_signature(&d->signature, first);
    call_describe_signature(&d->other, other);
    if (r->match != 0)
        snprintf(own, sizeof(own), "; this rank: \"%s\"", r->match_text);
    return error_set(HVD_ERR_MISMATCH,
                     "'%s': rank %d calls %s, rank %d calls %s%s", r->name,
                     d->first_rank, first, d->other_rank, other, own);
}

/* --- completion --- */

/* Its buffers are the caller's from here on. */
static void complete(struct by_name *b, struct hvd_request *r,
                     hvd_status_t status)
{
    request_show(r, TIMELINE_OPERATION, r->begun_ns, timeline_call_clock());
    pthread_mutex_lock(&b->lock);
    flying_remove(&b->flying, r);
    if (status != HVD_OK) {
        r->unwaited_in = b;
        r->next = b->refused;
        b->refused = r;
    }
    b->joined &= r->last_p == NULL;
    request_end(r, status);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

/* What is under way and ours alone. */
static void drop_own(struct by_name *b, hvd_status_t status)
{
    if (b->own != NULL) {
        request_end(b->own, status);
        request_destroy(b->own);
    }
    b->own = b->step = NULL;
    b->stage = STAGE_BETWEEN;
}

/* Nothing of what is in flight is touched any more. */
static void fail_all(struct by_name *b, hvd_status_t status, bool parted)
{
    struct hvd_request *r;

    drop_own(b, status);
    pthread_mutex_lock(&b->lock);
    b->over = true;
    atomic_store(&b->failed, !parted && flying_count(&b->flying) > 0);
    b->posted = NULL;
    atomic_store(&b->has_posts, false);
    while ((r = flying_any(&b->flying)) != NULL) {
        flying_remove(&b->flying, r);
        request_end(r, status);
    }
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

/* Their comm has ended, and so the world has, unless ranks have parted. */
static void end(struct by_name *b, hvd_status_t status)
{
    bool parted = by_name_has_parted(b->comm);
    char text[ERROR_TEXT_MAX];

    memcpy(text, error_text(), strlen(error_text()) + 1);
    if (!parted)
        comm_abort(b->comm, status, text);
    error_set(status, "%s", text);
    fail_all(b, status, parted);
}

/* --- driving --- */

hvd_status_t by_name_no_memory(struct by_name *b)
{
    (void)comm_fail(b->comm, HVD_ERR_NOMEM, "calls by name");
    return comm_end(b->comm);
}

/* *last_p: no more will come. */
static struct hvd_request *take_posted(struct by_name *b, bool *last_p)
{
    struct hvd_request *first;

    pthread_mutex_lock(&b->lock);
    first = b->posted;
    b->posted = NULL;
    *last_p = b->over;
    atomic_store(&b->has_posts, false);
    pthread_mutex_unlock(&b->lock);
    return first;
}

static hvd_status_t tell_negotiator(struct by_name *b, struct hvd_request *r)
{
    struct signature signature = request_signature(r);

    if (r->last_p != NULL) {
        b->join = r;
        negotiator_join(b->negotiator);
        return HVD_OK;
    }
    return negotiator_post(b->negotiator, &r->id, &signature, r)
               ? HVD_OK
               : by_name_no_memory(b);
}

static hvd_status_t absorb(struct by_name *b)
{
    struct hvd_request *r, *next;
    bool last;

    if (!atomic_load_explicit(&b->has_posts, memory_order_relaxed))
        return HVD_OK;
    for (r = take_posted(b, &last); r != NULL; r = next) {
        next = r->next;
        HVD_TRY(tell_negotiator(b, r));
    }
    if (last)
        negotiator_drain(b->negotiator);
    return HVD_OK;
}

/* What is not ready for its device ends the comm: the others have begun. */
static hvd_status_t prepare_on_device(struct by_name *b, struct hvd_request *r)
{
    hvd_status_t status = on_device_prepare(r, b->n_joined > 0);

    if (status == HVD_OK)
        return HVD_OK;
    (void)comm_fail(b->comm, status, "%s", error_text());
    return comm_end(b->comm);
}

/* A call of our own: the same on all ranks, as all that follows from one. */
static hvd_status_t begin_own(struct by_name *b,
                              const struct collective_args *args,
                              const struct comm_group *group, enum stage stage)
{
    if (request_create(b->comm, args, group, &b->own) != HVD_OK)
        return by_name_no_memory(b);
    if (is_on_device(args))
        HVD_TRY(prepare_on_device(b, b->own));
    b->own->call.head.sequence = comm_number(b->comm, b->own->n_parts);
    b->step = b->own;
    b->stage = stage;
    return HVD_OK;
}

static hvd_status_t begin_round(struct by_name *b)
{
    size_t nbytes = negotiator_round_nbytes(b->negotiator);
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .count = nbytes,
                                   .dtype = HVD_UINT8,
                                   .op = HVD_MIN,
                                   .name = "negotiation"};

    HVD_TRY(absorb(b));
    if (!array_reserve(&b->round, &b->round_max, nbytes))
        return by_name_no_memory(b);
    negotiator_round_begin(b->negotiator, b->round);
    autotune_tell(b->autotune, b->round + NEGOTIATOR_CALLERS);
    args.sendbuf = args.recvbuf = b->round;
    HVD_TRY(begin_own(b, &args, NULL, STAGE_ROUND));
    b->own->call.calls = true;
    return HVD_OK;
}

static hvd_status_t begin_exchange(struct by_name *b)
{
    size_t nbytes = negotiator_exchange_nbytes(b->negotiator);
    size_t rank = (size_t)b->comm->config.rank;
    size_t size = (size_t)b->comm->config.size;
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .count = nbytes,
                                   .dtype = HVD_UINT8,
                                   .name = "names"};

    if (!array_reserve(&b->records, &b->records_max, size * nbytes))
        return by_name_no_memory(b);
    negotiator_exchange_begin(b->negotiator, b->records + rank * nbytes);
    args.sendbuf = b->records + rank * nbytes;
    args.recvbuf = b->records;
    return begin_own(b, &args, NULL, STAGE_EXCHANGE);
}

/* until_us: not for others; 0: for them as well, and as long as it takes. */
static hvd_status_t begin_await(struct by_name *b, uint64_t until_us)
{
    struct operation *op = &b->comm->op;

    memset(op, 0, offsetof(struct operation, phases));
    op->head.sequence = comm_called(b->comm);
    op->until_us = until_us;
    op->n_phases = 1;
    op->phases[0] = (struct phase){.ops = &await_phase,
                                   .channel = CHANNEL_DATA};
    b->stage = STAGE_AWAIT;
    return engine_start(b->comm);
}

static hvd_status_t begin_carrier(struct by_name *b, bool ready)
{
    struct collective_args args;

    HVD_TRY(by_name_load_carrier(b, ready, &args));
    HVD_TRY(begin_own(b, &args, NULL, STAGE_CARRIER));
    b->own->call.calls = true;
    return HVD_OK;
}

/* An order is followed: a rank asks the others once it has what is first. */
static hvd_status_t begin_question(struct by_name *b)
{
    enum negotiator_look look = negotiator_look(b->negotiator);
    uint64_t now_us = clock_now_us(), until_us;

    if (look == LOOK_READY || look == LOOK_DEVIATES)
        return begin_carrier(b, look == LOOK_READY);
    if (b->waits_us == 0 || negotiator_n_posted(b->negotiator) == 0)
        b->waits_us = now_us;
    until_us = b->waits_us +
               (look == LOOK_OVERTAKEN ? PATIENCE_OVERTAKEN_US : PATIENCE_US);
    return now_us < until_us ? begin_await(b, until_us)
                             : begin_carrier(b, false);
}

/* --- batches --- */

static bool reserve_tensors(struct by_name *b, size_t n)
{
    return array_reserve(&b->sendbufs, &b->sendbufs_max, n) &&
           array_reserve(&b->recvbufs, &b->recvbufs_max, n) &&
           array_reserve(&b->counts, &b->counts_max, n);
}

static size_t gather_tensors(struct by_name *b, const struct hvd_request *r,
                             size_t n)
{
    struct fusion_tensor one;
    size_t n_tensors;
    const struct fusion_tensor *tensors = request_tensors(r, &one, &n_tensors);

    for (size_t i = 0; i < n_tensors; i++, n++) {
        b->sendbufs[n] = tensors[i].sendbuf;
        b->recvbufs[n] = tensors[i].recvbuf;
        b->counts[n] = tensors[i].count;
    }
    return n;
}

static size_t count_tensors(const struct batches *batches,
                            const struct batch *batch)
{
    size_t n = 0;

    for (size_t i = batch->first; i != BATCH_END; i = batches->items[i].next) {
        const struct hvd_request *r = batches->items[i].call;

        n += r->n_tensors > 0 ? r->n_tensors : 1;
    }
    return n;
}

/* What runs as one comes behind what makes the buffers of each. */
static hvd_status_t wait_for_all(struct by_name *b, const struct batch *batch)
{
    const struct batch_item *items = b->batches.items;

    for (size_t i = batch->first; i != BATCH_END; i = items[i].next) {
        struct hvd_request *r = items[i].call;

        if (!on_device_take_marks(&b->own->device, &r->device))
            return by_name_no_memory(b);
    }
    return HVD_OK;
}

/* Over as it is queued, if that is enough for each. */
static bool are_ordered(const struct by_name *b, const struct batch *batch)
{
    const struct batch_item *items = b->batches.items;
    bool ordered = true;

    for (size_t i = batch->first; i != BATCH_END; i = items[i].next) {
        const struct hvd_request *r = items[i].call;

        ordered &= r->args.ordered;
    }
    return ordered;
}

/* Each waits for what is under way. */
static void share_result(const struct by_name *b, const struct batch *batch)
{
    const struct batch_item *items = b->batches.items;
    struct device_result *result = b->own != NULL ? b->own->device.result
                                                  : NULL;

    for (size_t i = batch->first; i != BATCH_END && result != NULL;
         i = items[i].next) {
        struct hvd_request *r = items[i].call;

        r->device.result = device_result_share(result);
    }
}

static hvd_status_t begin_fused(struct by_name *b, const struct batch *batch)
{
    const struct batch_item *items = b->batches.items;
    const struct hvd_request *first = items[batch->first].call;
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .dtype = first->args.dtype,
                                   .op = first->args.op,
                                   .memory = first->args.memory,
                                   .ordered = are_ordered(b, batch),
                                   .scaled = true,
                                   .prescale = first->args.prescale,
                                   .postscale = first->args.postscale,
                                   .name = "fused"};
    struct comm_group group = {.n = count_tensors(&b->batches, batch)};
    size_t n = 0;

    if (!reserve_tensors(b, group.n))
        return by_name_no_memory(b);
    for (size_t i = batch->first; i != BATCH_END; i = items[i].next)
        n = gather_tensors(b, items[i].call, n);
    group.sendbufs = b->sendbufs;
    group.recvbufs = b->recvbufs;
    group.counts = b->counts;
    HVD_TRY(begin_own(b, &args, &group, STAGE_BATCH));
    return is_on_device(&args) ? wait_for_all(b, batch) : HVD_OK;
}

static bool some_stand_in(const struct by_name *b,
                          const struct batch_item *item)
{
    return item->n_data < (size_t)b->comm->config.size;
}

/* Of one call. */
static hvd_status_t begin_joined(struct by_name *b,
                                 const struct batch_item *item)
{
    struct collective_args args;

    HVD_TRY(by_name_stand_in(b, item, &args));
    return begin_own(b, &args, NULL, STAGE_BATCH);
}

static void begin_times(const struct by_name *b, const struct batch *batch)
{
    const struct batch_item *items = b->batches.items;

    for (size_t i = batch->first; i != BATCH_END; i = items[i].next) {
        struct hvd_request *r = items[i].call;

        if (r != NULL)
            r->begun_ns = timeline_call_clock();
    }
}

static hvd_status_t begin_batch(struct by_name *b)
{
    const struct batch *batch = batches_next(&b->batches);
    const struct batch_item *item = &b->batches.items[batch->first];
    struct hvd_request *r = item->call;

    begin_times(b, batch);
    if (batch->first != batch->last)
        return begin_fused(b, batch);
    if (some_stand_in(b, item) && (r == NULL || r->n_tensors > 0))
        return begin_joined(b, item);
    if (some_stand_in(b, item))
        by_name_begin_joined(b, item);
    if (is_on_device(&r->args))
        HVD_TRY(prepare_on_device(b, r));
    r->call.head.sequence = comm_number(b->comm, r->n_parts);
    b->step = r;
    b->stage = STAGE_BATCH;
    return HVD_OK;
}

static hvd_status_t finish_batch(struct by_name *b)
{
    const struct batch *batch = batches_done(&b->batches);
    size_t next;

    share_result(b, batch);
    drop_own(b, HVD_OK);
    for (size_t i = batch->first; i != BATCH_END; i = next) {
        const struct batch_item *item = &b->batches.items[i];

        next = item->next;
        if (some_stand_in(b, item))
            HVD_TRY(by_name_finish_joined(b, item));
        if (item->call != NULL)
            complete(b, item->call, HVD_OK);
    }
    return HVD_OK;
}

/* Buffers on devices, for the first time here: unless some have joined, who
 * need not have a device, and then all stage. */
static bool has_to_meet(const struct by_name *b)
{
    const struct signature *next = &batches_peek(&b->batches)->signature;

    return b->comm->device.way == ON_DEVICE_NOT && b->n_joined == 0 &&
           (next->way & SIGNATURE_ON_DEVICE) != 0;
}

static hvd_status_t meet(struct by_name *b)
{
    struct collective_args args;

    HVD_TRY(on_device_meet_next(b->comm, &args));
    if (b->comm->device.way == ON_DEVICE_NOT)
        return begin_own(b, &args, NULL, STAGE_MEETING);
    return HVD_OK;
}

/* Ordered calls of which each rank waits for another are found out, too. */
static hvd_status_t stuck(struct by_name *b)
{
    const struct hvd_request *r;

    if (atomic_load(&b->leaves)) {
        (void)by_name_part(b->comm, NULL);
        return comm_end(b->comm);
    }
    pthread_mutex_lock(&b->lock);
    r = flying_any(&b->flying);
    (void)comm_fail(b->comm, HVD_ERR_MISMATCH,
                    "rank %d has posted '%s', others have not, and every rank "
                    "waits for its own calls",
                    b->comm->config.rank, r != NULL ? r->name : "");
    pthread_mutex_unlock(&b->lock);
    return comm_end(b->comm);
}

static void show_decided(struct hvd_request *r)
{
    uint64_t now_ns = timeline_call_clock();

    request_show(r, TIMELINE_NEGOTIATE, r->posted_ns, now_ns);
    r->posted_ns = now_ns;
}

/* Does it run? */
static bool decide(struct by_name *b, const struct negotiated *d)
{
    struct hvd_request *r = d->call;
    bool refused = d->n_data < (size_t)b->comm->config.size &&
                   !by_name_runs_joined(&d->signature);

    if (r == NULL)
        return !d->disputed && !refused;
    atomic_store_explicit(&r->decided, true, memory_order_relaxed);
    if (d->disputed)
        complete(b, r, differ(r, d));
    else if (refused)
        complete(b, r, by_name_refuse_joined(b, r));
    return !d->disputed && !refused;
}

/* All have: so has this rank. */
static void end_join(struct by_name *b)
{
    struct hvd_request *r = b->join;
    int last;

    if (!negotiator_all_joined(b->negotiator, &last))
        return;
    b->join = NULL;
    *r->last_p = last;
    complete(b, r, HVD_OK);
}

/* For what is tuned by it. */
static void count(struct by_name *b, const struct hvd_request *r,
                  uint64_t now_us)
{
    size_t nbytes = r->n_tensors > 0 ? request_count(r) * r->call.elem_nbytes
                                     : r->call.send_nbytes;

    autotune_decided(b->autotune, now_us, &r->id, nbytes);
}

/* It runs: or has, with the carrier. */
static hvd_status_t run_decided(struct by_name *b, const struct negotiated *d,
                                bool carried)
{
    size_t elem = hvd_dtype_size((hvd_dtype_t)d->signature.dtype);
    struct hvd_request *r = d->call;
    struct batch_item item;

    if (carried) {
        request_show(r, TIMELINE_NEGOTIATE, r->posted_ns,
                     b->carrier.decided_ns);
        r->begun_ns = b->carrier.decided_ns;
        by_name_deliver(b, r);
        complete(b, r, HVD_OK);
        return HVD_OK;
    }
    if (r != NULL)
        show_decided(r);
    item = (struct batch_item){
        .signature = d->signature, .call = r, .n_data = d->n_data};
    return batches_add(&b->batches, &item, elem) ? HVD_OK
                                                 : by_name_no_memory(b);
}

static hvd_status_t take_decisions(struct by_name *b)
{
    bool tunes = b->autotune != NULL;
    uint64_t now_us = tunes ? clock_now_us() : 0;
    struct negotiated d;

    if (negotiator_is_stuck(b->negotiator))
        return stuck(b);
    end_join(b);
    b->n_joined = negotiator_n_joined(b->negotiator);
    if (tunes && b->n_joined > 0) {
        tunes = false; /* nothing is fused */
        autotune_pause(b->autotune);
    }
    batches_clear(&b->batches, b->n_joined > 0 ? 0 : b->setting.fusion_nbytes);
    for (size_t k = 0; negotiator_next(b->negotiator, &d); k++) {
        if (!decide(b, &d))
            continue;
        if (tunes)
            count(b, d.call, now_us);
        HVD_TRY(run_decided(b, &d, by_name_is_carried(b, k)));
    }
    b->carrier.n = 0;
    b->waits_us = 0;
    return HVD_OK;
}

/* --- one thing after the other --- */

/* Are there posts to wait for? */
static bool gathers(const struct by_name *b)
{
    if (!b->comm->in_background || comm_kicked(b->comm))
        return false;
    return negotiator_follows(b->negotiator)
               ? !negotiator_has_stretch(b->negotiator)
               : negotiator_has_news(b->negotiator);
}

/* What is being posted just now is told in one round, or is the answer to one
 * question: as long as posts follow each other, and nobody waits. */
static hvd_status_t gather(struct by_name *b)
{
    uint64_t now_us = clock_now_us(), end_us = now_us + b->setting.gather_us;
    uint64_t last_us = now_us;

    HVD_TRY(absorb(b));
    while (gathers(b) && now_us < end_us &&
           now_us < last_us + b->setting.follow_us) {
        sched_yield();
        now_us = clock_now_us();
        last_us = by_name_has_posts(b->comm) ? now_us : last_us;
        HVD_TRY(absorb(b));
    }
    return HVD_OK;
}

static hvd_status_t begin_next(struct by_name *b)
{
    if (batches_any(&b->batches))
        return has_to_meet(b) ? meet(b) : begin_batch(b);
    /* not while it is awaited: what is posted then ends that */
    HVD_TRY(gather(b));
    if (negotiator_follows(b->negotiator))
        return begin_question(b);
    return negotiator_has_news(b->negotiator) ? begin_round(b)
                                              : begin_await(b, 0);
}

/* What was told with the round counts from here on, on all ranks. */
static void hear_setting(struct by_name *b, const uint8_t *told)
{
    b->setting = autotune_hear(b->autotune, told, b->fusion_nbytes);
    negotiator_learn(b->negotiator, !autotune_searches(told));
    b->comm->large_allreduce = b->setting.algorithm;
}

/* In place of the decisions of a round, or a round is next. */
static hvd_status_t finish_carrier(struct by_name *b)
{
    size_t n = by_name_answer(b);
    uint64_t arrived_ns = b->comm->op.arrived_ns; /* 0: it is not known */

    if (arrived_ns > b->carrier.begun_ns)
        b->carrier.decided_ns = arrived_ns;
    drop_own(b, HVD_OK);
    negotiator_answered(b->negotiator, n);
    if (n > 0)
        return take_decisions(b);
    b->carrier.n = 0;
    return begin_round(b);
}

/* The step is over. */
static hvd_status_t finish(struct by_name *b)
{
    switch (b->stage) {
    case STAGE_ROUND:
        hear_setting(b, b->round + NEGOTIATOR_CALLERS);
        drop_own(b, HVD_OK);
        negotiator_round_end(b->negotiator, b->round);
        if (negotiator_exchange_nbytes(b->negotiator) > 0)
            return begin_exchange(b);
        return take_decisions(b);
    case STAGE_EXCHANGE:
        drop_own(b, HVD_OK);
        if (!negotiator_exchange_end(b->negotiator, b->records))
            return by_name_no_memory(b);
        return take_decisions(b);
    case STAGE_CARRIER:
        return finish_carrier(b);
    case STAGE_MEETING:
        drop_own(b, HVD_OK);
        return meet(b);
    default:
        return finish_batch(b);
    }
}

static hvd_status_t go_on(struct by_name *b)
{
    HVD_TRY(comm_check(b->comm));
    if (b->stage == STAGE_BETWEEN)
        return begin_next(b);
    if (b->stage == STAGE_AWAIT) {
        HVD_TRY(engine_continue(b->comm));
        if (b->comm->op.active)
            return HVD_OK;
        if (negotiator_follows(b->negotiator))
            return begin_next(b);
        HVD_TRY(gather(b));
        return begin_round(b);
    }
    HVD_TRY(request_go_on(b->comm, b->step));
    return request_over(b->step) ? finish(b) : HVD_OK;
}

void by_name_run_until(struct by_name *b, const struct hvd_request *r)
{
    hvd_status_t status = HVD_OK;

    while (!comm_kicked(b->comm) && !by_name_is_over(b, r) &&
           status == HVD_OK) {
        status = go_on(b);
        if (status != HVD_OK)
            end(b, comm_end(b->comm));
    }
}

void by_name_run(struct comm *names)
{
    by_name_run_until(names->by_name, NULL);
}
