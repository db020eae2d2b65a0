/* device/communicator.c - a communicator of NCCL. See communicator.h and
 * life.h.
 *
 * Memory: one struct, which its owner and the thread of the device share; freed
 * by communicators.c. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/communicator_impl.h"

enum {
    JOIN_US = 30000000, /* a newcomer has NCCL to load yet */
    REVOKE_US = 1000000,
    ABORT_US = 5000000,
    SLACK_US = 2000000,    /* until the thread has looked */
    PROGRAM_US = 60000000, /* for what the program has put in front of it, or
                              the next communicator, whose kernels wait */
    LAUNCH_SPIN_US = 200,  /* NCCL starts a thread for each launch */
    LAUNCH_LOOK_US = 50,   /* between looks at one, from then on */
    LOOK_US = 500,         /* between looks at what is under way */
    LOOK_READY_US = 50000  /* at one that has nothing to do */
};

/* Once it is released its doorbell may be another file. */
static void ring(struct communicator *c)
{
    pthread_mutex_lock(&c->device->lock);
    if (!atomic_load(&c->released))
        (void)eventfd_write(c->config.doorbell, 1);
    pthread_mutex_unlock(&c->device->lock);
}

static enum life_state state_of(const struct communicator *c)
{
    return (enum life_state)atomic_load_explicit(&c->shown,
                                                 memory_order_acquire);
}

/* --- the owner --- */

hvd_status_t communicator_create(const struct communicator_config *config,
                                 struct communicator **c_p)
{
    struct device *d = device_of_process();
    const struct nccl_api *nccl;
    struct communicator *c;

    HVD_TRY(nccl_api(&nccl));
    if (atomic_load(&d->n_abandoned) >= DEVICE_ABANDONED_MAX)
        return device_give_up("communicators of NCCL cannot be aborted");
    c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(HVD_ERR_NOMEM, "a communicator");
    c->device = d;
    c->nccl = nccl;
    c->config = *config;
    c->created_us = clock_now_us();
    c->join_us = config->join_us > 0 ? config->join_us : JOIN_US;
    atomic_init(&c->shown, LIFE_JOINING);
    communicators_append(d, c);
    *c_p = c;
    return HVD_OK;
}

/* Until something about it may have changed. wake_fd: another reason; -1. true:
 * that one. */
static bool wait_once(const struct communicator *c, int wake_fd)
{
    struct pollfd pfds[] = {{c->config.doorbell, POLLIN, 0},
                            {wake_fd, POLLIN, 0}};
    eventfd_t ignored;

    (void)!poll(pfds, ARRAY_SIZE(pfds), LOOK_READY_US / 1000);
    if (pfds[0].revents != 0)
        (void)eventfd_read(c->config.doorbell, &ignored);
    return pfds[1].revents != 0;
}

hvd_status_t communicator_await(struct communicator *c,
                                const struct verdict *verdict)
{
    /* the one before it has to be quiet, and then the thread judges; a call
     * that it does not come back from is judged here */
    uint64_t deadline_us = clock_now_us() + REVOKE_US + ABORT_US + c->join_us +
                           SLACK_US;

    int fd = verdict->wake_fd;

    while (state_of(c) < LIFE_READY) {
        HVD_TRY(verdict_check(verdict));
        if (clock_now_us() >= deadline_us)
            return device_give_up("its thread does not come back from a call");
        if (wait_once(c, fd))
            fd = -1; /* who wants the engine raises it as well */
    }
    if (state_of(c) == LIFE_READY)
        return HVD_OK;
    HVD_TRY(verdict_check(verdict));
    return error_set(HVD_ERR_UNSUPPORTED, "%s", c->text);
}

void communicator_cancel(struct communicator *c)
{
    if (!atomic_exchange(&c->cancelled, true))
        device_kick(c->device);
}

bool communicator_silence(struct communicator *c)
{
    uint64_t limit_us = REVOKE_US + ABORT_US + SLACK_US;
    uint64_t begun_us = clock_now_us();

    HVD_ASSERT(atomic_load(&c->cancelled));
    while (!atomic_load(&c->quiet) && !life_is_over(state_of(c)) &&
           clock_now_us() - begun_us < limit_us) {
        (void)wait_once(c, -1);
        if (atomic_load(&c->aborted))
            limit_us = PROGRAM_US;
    }
    return atomic_load(&c->quiet);
}

hvd_status_t communicator_confirm(struct communicator *c,
                                  const struct verdict *verdict)
{
    while (atomic_load(&c->n_over) < atomic_load(&c->n_queued)) {
        HVD_TRY(verdict_check(verdict));
        if (state_of(c) > LIFE_READY)
            return communicator_reason(c);
        device_kick(c->device);
        (void)wait_once(c, verdict->wake_fd);
    }
    return state_of(c) > LIFE_READY ? communicator_reason(c) : HVD_OK;
}

void communicator_release(struct communicator *c)
{
    struct device *d;

    if (c == NULL)
        return;
    d = c->device;
    atomic_store(&c->cancelled, true);
    pthread_mutex_lock(&d->lock);
    atomic_store(&c->released, true);
    pthread_mutex_unlock(&d->lock); /* it may be freed from here on */
    device_kick(d);
}

/* --- the thread: what its calls have come to --- */

/* Of several failures the first is told. */
void communicator_fail(struct communicator *c, hvd_status_t reason,
                       const char *text)
{
    if (c->broken)
        return;
    c->broken = true;
    c->reason = reason;
    snprintf(c->text, sizeof(c->text), "%s", text);
}

void communicator_broke(struct communicator *c, CUresult result)
{
    communicator_fail(c, device_check(c->device, result, "a collective"),
                      error_text());
}

static void fail_nccl(struct communicator *c, const char *call,
                      ncclResult_t result)
{
    error_set(HVD_PEER_LOST, "%s: %s", call, nccl_error(c->nccl, result));
    communicator_fail(c, HVD_PEER_LOST, error_text());
}

static enum life_said ask_nccl(struct communicator *c)
{
    ncclResult_t said = ncclSuccess, result;

    result = c->nccl->ncclCommGetAsyncError(c->comm, &said);
    if (result == ncclSuccess)
        result = said;
    c->said = result;
    if (result == ncclInProgress)
        return LIFE_PENDING;
    if (result == ncclSuccess)
        return LIFE_OK;
    fail_nccl(c, "NCCL", result);
    return LIFE_FAILED;
}

static bool is_over(struct communicator *c, CUevent event)
{
    CUresult result = c->device->cuda->cuEventQuery(event);

    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        communicator_broke(c, result);
    return result == CUDA_SUCCESS;
}

static enum life_said ask_warm(struct communicator *c)
{
    if (c->warm != NULL && ask_nccl(c) != LIFE_FAILED && is_over(c, c->warm))
        return LIFE_OK;
    return c->broken ? LIFE_FAILED : LIFE_PENDING;
}

static void count_over(struct communicator *c)
{
    uint64_t n = atomic_load(&c->n_over), all = atomic_load(&c->n_queued);
    uint64_t before = n;

    while (n < all && is_over(c, c->queued[n % DEVICE_QUEUED_MAX])) {
        device_event_free(c->device, c->queued[n % DEVICE_QUEUED_MAX]);
        c->queued[n % DEVICE_QUEUED_MAX] = NULL;
        n++;
    }
    if (n == before)
        return;
    atomic_store(&c->n_over, n);
    ring(c);
}

/* All that is there by now, when it is asked first. */
static bool stream_is_idle(struct communicator *c, CUstream stream,
                           CUevent *event_p)
{
    if (*event_p == NULL && device_record(c->device, stream, event_p) != HVD_OK)
        return device_is_broken(); /* nothing runs there */
    return is_over(c, *event_p) || device_is_broken();
}

/* Has all come to its end that it has put on streams, our own kernels behind
 * NCCL's as well? Once NCCL puts nothing there any more. */
static bool is_idle(struct communicator *c)
{
    if (c->stream == NULL || device_is_broken())
        return true;
    count_over(c);
    return atomic_load(&c->n_over) == atomic_load(&c->n_queued) &&
           stream_is_idle(c, c->stream, &c->last) &&
           (!c->cut || c->on == c->stream ||
            stream_is_idle(c, c->on, &c->last_cut));
}

/* Not while it is being made. */
static bool can_be_revoked(const struct communicator *c)
{
    return c->nccl->ncclCommRevoke != NULL && c->comm != NULL &&
           c->life.state != LIFE_JOINING;
}

/* Once what NCCL has taken is on the stream: it would wait for that, on this
 * thread. One whose launch has failed half way may not be revoked (2.28.9 frees
 * the launch twice). */
static enum life_said revoke(struct communicator *c)
{
    enum life_said said = ask_nccl(c);

    if (said == LIFE_PENDING || c->settled)
        return said == LIFE_PENDING ? LIFE_PENDING : LIFE_OK;
    if (said == LIFE_FAILED && c->cut)
        return LIFE_FAILED;
    (void)c->nccl->ncclCommRevoke(c->comm, NCCL_REVOKE_DEFAULT);
    c->settled = true;
    return LIFE_PENDING;
}

static enum life_said look(struct communicator *c)
{
    enum life_said said;

    if (c->broken && c->life.state <= LIFE_READY)
        return LIFE_FAILED;
    switch (c->life.state) {
    case LIFE_JOINING:
        return ask_nccl(c);
    case LIFE_WARMING:
        return ask_warm(c);
    case LIFE_READY:
        return ask_nccl(c) == LIFE_FAILED ? LIFE_FAILED : LIFE_PENDING;
    case LIFE_REVOKING: /* an error of before stays: all but PENDING is over */
        said = revoke(c);
        return said == LIFE_OK && !is_idle(c) ? LIFE_PENDING : said;
    case LIFE_ABORTING:
        return atomic_load(&c->aborted) && is_idle(c) ? LIFE_OK : LIFE_PENDING;
    case LIFE_GONE:
    case LIFE_ABANDONED:
        break;
    }
    return LIFE_PENDING;
}

/* --- the thread: its calls --- */

static hvd_status_t make_stream(struct communicator *c)
{
    const struct driver_api *cuda = c->device->cuda;
    int least = 0, greatest = 0;
    CUresult result;

    (void)cuda->cuCtxGetStreamPriorityRange(&least, &greatest);
    result = cuda->cuStreamCreateWithPriority(&c->stream,
                                              CU_STREAM_NON_BLOCKING, greatest);
    HVD_TRY(device_check(c->device, result, "a stream"));
    c->on = c->stream;
    HVD_TRY(scaler_load(&c->device->scaler, c->device));
    return communicator_take_pack(c);
}

/* A call that fails at once leaves this thread inside a group: the end of a
 * group that was never begun is refused, and nothing else. */
static void join(struct communicator *c)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclResult_t result;

    if (make_stream(c) != HVD_OK) {
        communicator_fail(c, HVD_ERR_SYSTEM, error_text());
        return;
    }
    config.blocking = 0;
    memcpy(&id, c->config.id, sizeof(id));
    result = c->nccl->ncclCommInitRankConfig(&c->comm, c->config.size, id,
                                             c->config.rank, &config);
    if (result == ncclSuccess || result == ncclInProgress)
        return;
    (void)c->nccl->ncclGroupEnd();
    c->comm = NULL;
    fail_nccl(c, "ncclCommInitRankConfig", result);
}

void communicator_start(struct communicator *c, bool alone, uint64_t now_us)
{
    struct life_limits limits = {.join_us = c->join_us,
                                 .revoke_us = REVOKE_US,
                                 .abort_us = ABORT_US,
                                 .quiet_us = PROGRAM_US};

    c->free_nbytes = alone ? communicators_free_nbytes(c->device) : 0;
    c->entered_us[LIFE_JOINING] = now_us;
    life_begin(&c->life, &limits, now_us);
    join(c);
}

/* Abandoned, and come back all the same. */
static void part(struct communicator *c)
{
    if (atomic_fetch_add(&c->parted, 1) == 1 && c->counted)
        atomic_fetch_sub(&c->device->n_abandoned, 1);
}

/* NCCL plans a communicator in some 40 MB, on threads that it starts for that:
 * the allocator would keep as much for each of them. One after the other: where
 * the program has another allocator in its place (jemalloc, a sanitizer) the
 * first one here begins glibc's, and two that do so together crash. */
static void give_back_memory(void)
{
#ifdef __GLIBC__
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&one);
    (void)malloc_trim(0);
    pthread_mutex_unlock(&one);
#endif
}

static void *abort_main(void *arg)
{
    struct communicator *c = arg;

    (void)c->device->cuda->cuCtxPushCurrent_v2(c->device->context);
    driver_relax(c->device->cuda);
    (void)c->nccl->ncclCommAbort(c->comm);
    atomic_store(&c->aborted, true);
    device_kick(c->device);
    give_back_memory();
    part(c);
    return NULL;
}

/* Without a thread it is done here: who waits has a deadline of his own. */
static void begin_abort(struct communicator *c)
{
    c->settled |= c->comm == NULL || ask_nccl(c) != LIFE_PENDING;
    c->aborts = c->comm != NULL &&
                thread_start(&c->aborter, "hvd-abort", abort_main, c) == 0;
    if (c->aborts)
        return;
    if (c->comm != NULL)
        (void)c->nccl->ncclCommAbort(c->comm);
    atomic_store(&c->aborted, true);
}

/* From when it entered one state until it entered another. */
static double took_ms(const struct communicator *c, enum life_state from,
                      enum life_state to)
{
    if (c->entered_us[from] == 0)
        return 0; /* it was never there */
    return (double)(c->entered_us[to] - c->entered_us[from]) / 1000;
}

static void settle_ready(struct communicator *c)
{
    size_t left = communicators_free_nbytes(c->device);

    if (c->free_nbytes > left)
        c->device->joined_nbytes = c->free_nbytes - left;
    log_debug("NCCL: generation %" PRIu64 ", rank %d of %d: joined in %.1f ms, "
              "warm after %.1f ms",
              c->config.generation, c->config.rank, c->config.size,
              took_ms(c, LIFE_JOINING, LIFE_WARMING),
              took_ms(c, LIFE_WARMING, LIFE_READY));
}

static void say_gone(const struct communicator *c)
{
    log_debug("NCCL: generation %" PRIu64 ", rank %d of %d: revoked in %.1f "
              "ms (result %d), aborted in %.1f ms",
              c->config.generation, c->config.rank, c->config.size,
              took_ms(c, LIFE_REVOKING, LIFE_ABORTING), (int)c->said,
              took_ms(c, LIFE_ABORTING, LIFE_GONE));
}

static void forget_events(struct communicator *c)
{
    for (size_t i = 0; i < DEVICE_QUEUED_MAX; i++)
        device_event_free(c->device, c->queued[i]);
    device_event_free(c->device, c->warm);
    device_event_free(c->device, c->last);
    device_event_free(c->device, c->last_cut);
    memset(c->queued, 0, sizeof(c->queued));
    c->warm = c->last = c->last_cut = NULL;
}

static void end(struct communicator *c)
{
    c->comm = NULL;
    forget_events(c);
    if (c->stream != NULL)
        (void)c->device->cuda->cuStreamDestroy_v2(c->stream);
    c->stream = NULL;
    communicator_give_pack(c);
    say_gone(c);
}

bool communicator_has_parted(const struct communicator *c)
{
    return c->life.state == LIFE_ABANDONED || !c->aborts ||
           atomic_load(&c->parted) > 0;
}

void communicator_free(struct communicator *c)
{
    if (c->aborts)
        pthread_join(c->aborter, NULL);
    free(c);
}

static void abandon(struct communicator *c)
{
    int n;

    c->counted = communicators_first_abandoned(c);
    n = atomic_fetch_add(&c->device->n_abandoned, c->counted) + c->counted;
    log_warn("NCCL: the communicator of generation %llu cannot be aborted -> "
             "it is left as it is (%d of %d)",
             (unsigned long long)c->config.generation, n, DEVICE_ABANDONED_MAX);
    pthread_detach(c->aborter);
    part(c);
}

static void enter(struct communicator *c)
{
    c->entered_us[c->life.state] = clock_now_us();
    if (c->life.late)
        communicator_fail(c, HVD_PEER_LOST,
                          "NCCL: not ready before the deadline");
    if (c->life.state > LIFE_READY)
        communicator_drop_launch(c);
    switch (c->life.state) {
    case LIFE_JOINING:
        return;
    case LIFE_WARMING:
        communicator_warm_up(c);
        return;
    case LIFE_READY:
        settle_ready(c);
        return;
    case LIFE_REVOKING:
        if (!c->life.failed)
            communicator_fail(c, HVD_PEER_LOST, "the generation has ended");
        return;
    case LIFE_ABORTING:
        if (!c->life.failed)
            communicator_fail(c, HVD_PEER_LOST, "the generation has ended");
        begin_abort(c);
        return;
    case LIFE_GONE:
        end(c);
        return;
    case LIFE_ABANDONED:
        abandon(c);
        return;
    }
}

static struct life_wish wish_of(struct communicator *c)
{
    return (struct life_wish){.cancelled = atomic_load(&c->cancelled),
                              .revocable = can_be_revoked(c)};
}

/* Before NCCL's call has come back: that waits for its threads as well. */
static void look_for_silence(struct communicator *c)
{
    bool ending = c->life.state == LIFE_REVOKING ||
                  c->life.state == LIFE_ABORTING;

    if (!ending || c->life.quiet || !c->settled || !is_idle(c))
        return;
    life_silenced(&c->life, clock_now_us());
    atomic_store(&c->quiet, true);
    ring(c);
}

/* Until it is to be looked at again. */
static uint64_t pause_of(const struct communicator *c, uint64_t now_us)
{
    if (c->launching != NULL)
        return now_us < c->launching_us + LAUNCH_SPIN_US ? 0 : LAUNCH_LOOK_US;
    if (c->life.state == LIFE_READY &&
        atomic_load(&c->n_over) == atomic_load(&c->n_queued))
        return LOOK_READY_US;
    return LOOK_US;
}

uint64_t communicator_step(struct communicator *c, uint64_t now_us)
{
    if (c->life.state == LIFE_ABORTING && atomic_load(&c->aborted))
        life_aborted(&c->life);
    communicator_launch_on(c);
    while (life_step(&c->life, look(c), wish_of(c), now_us)) {
        enter(c);
        atomic_store(&c->quiet, c->life.quiet);
        atomic_store_explicit(&c->shown, c->life.state, memory_order_release);
        ring(c);
    }
    if (life_is_over(c->life.state))
        return CLOCK_NEVER;
    look_for_silence(c);
    if (c->life.state == LIFE_READY)
        count_over(c);
    return now_us + pause_of(c, now_us);
}

/* --- the thread: doors --- */

bool communicator_is_sound(struct communicator *c)
{
    return c->life.state == LIFE_READY && !c->broken &&
           ask_nccl(c) != LIFE_FAILED;
}

bool communicator_is_quiet(const struct communicator *c)
{
    return c->life.quiet || life_is_over(c->life.state);
}

hvd_status_t communicator_reason(const struct communicator *c)
{
    return error_set(c->reason, "%s", c->text);
}
