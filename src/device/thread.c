/* device/thread.c - the thread that alone gives the device work: it begins what
 * was posted, and looks at it until it is over. See device.h.
 *
 * It never sleeps in a call of CUDA or NCCL: an event is asked, again and
 * again, at first without a pause, then ever less often; a word from anybody
 * ends the pause (device_kick).
 *
 * Memory: tasks are their posters'. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/moves.h"
#include "device/impl.h"

enum {
    SPIN_US = 100,     /* after something has happened: the next call is near */
    LINGER_US = 5,     /* ... and is waited for between two looks */
    PAUSE_MIN_US = 20, /* then pauses of a part of the time since */
    PAUSE_PART = 64,
    PAUSE_MAX_US = 500,
    WAIT_MS = 5 /* of a poster, between looks at a verdict */
};

static void move(struct device_task *task, enum device_task_state to)
{
    static const unsigned moves[] = {
        [DEVICE_TASK_IDLE] = MOVE(DEVICE_TASK_POSTED),
        [DEVICE_TASK_POSTED] = MOVE(DEVICE_TASK_OVER),
        [DEVICE_TASK_OVER] = MOVE(DEVICE_TASK_POSTED),
    };

    HVD_ASSERT(moves_allow(moves, atomic_load(&task->state), to));
    atomic_store(&task->state, to);
}

/* --- the posters --- */

void device_kick(struct device *d)
{
    pthread_mutex_lock(&d->lock);
    atomic_store(&d->awake, true);
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
}

void device_post(struct device_task *task)
{
    struct device *d = device_of_process();

    task->next = NULL;
    task->event = NULL;
    task->queued = false;
    atomic_store(&task->asleep, false);
    move(task, DEVICE_TASK_POSTED);
    pthread_mutex_lock(&d->lock);
    if (d->first == NULL)
        d->first = task;
    else
        d->last->next = task;
    d->last = task;
    atomic_store(&d->awake, true);
    pthread_cond_signal(&d->work);
    pthread_mutex_unlock(&d->lock);
}

bool device_task_free(const struct device_task *task)
{
    struct device *d = device_of_process();

    if (atomic_load(&task->state) == DEVICE_TASK_POSTED)
        return false;
    if (d == NULL) /* its thread has ended, or never comes back */
        return true;
    pthread_mutex_lock(&d->lock);
    pthread_mutex_unlock(&d->lock);
    return true;
}

hvd_status_t device_task_result(const struct device_task *task)
{
    HVD_ASSERT(device_task_over(task));
    HVD_ASSERT(device_task_free(task));
    return task->status == HVD_OK ? HVD_OK
                                  : error_set(task->status, "%s", task->text);
}

/* The thread stores OVER and then reads `asleep`; we store that and then look:
 * one of the two sees the other (both sequentially consistent). */
void device_task_sleep(struct device_task *task)
{
    atomic_store(&task->asleep, true);
}

void device_task_wake(struct device_task *task)
{
    eventfd_t ignored;

    atomic_store(&task->asleep, false);
    (void)eventfd_read(task->doorbell, &ignored);
}

/* true: verdict_fd has something to say. */
static bool wait_once(struct device_task *task, int verdict_fd)
{
    struct pollfd pfds[] = {{task->doorbell, POLLIN, 0},
                            {verdict_fd, POLLIN, 0}};

    device_task_sleep(task);
    if (!device_task_over(task))
        (void)!poll(pfds, ARRAY_SIZE(pfds), WAIT_MS);
    device_task_wake(task);
    return pfds[1].revents != 0;
}

hvd_status_t device_await(struct device_task *task)
{
    while (!device_task_over(task))
        (void)wait_once(task, -1);
    return device_task_result(task);
}

/* Behind a verdict a collective is over when its communicator is cancelled,
 * which is its owner's to do. */
hvd_status_t device_run(struct device_task *task, const struct verdict *verdict)
{
    hvd_status_t reason = HVD_OK;
    int fd = verdict != NULL ? verdict->wake_fd : -1;

    device_post(task);
    while (!device_task_over(task)) {
        if (verdict != NULL && reason == HVD_OK) {
            reason = verdict_status(verdict, NULL);
            if (reason != HVD_OK && task->communicator != NULL)
                communicator_cancel(task->communicator);
        }
        if (wait_once(task, fd))
            fd = -1; /* who wants the engine raises it as well, and is not read
                        before this is over */
    }
    (void)device_task_free(task); /* its poster's, who may go now */
    return reason == HVD_OK ? device_task_result(task) : verdict_tell(verdict);
}

/* --- the thread --- */

static void end_task(struct device *d, struct device_task *task,
                     hvd_status_t status)
{
    task->status = status;
    if (status != HVD_OK)
        snprintf(task->text, sizeof(task->text), "%s", error_text());
    device_event_free(d, task->event);
    device_event_free(d, task->after);
    for (size_t i = 0; i < task->n_further; i++)
        device_event_free(d, task->further[i]);
    task->event = task->after = NULL;
    task->n_further = 0;
    /* behind the lock it is the poster's: device_task_free() */
    pthread_mutex_lock(&d->lock);
    move(task, DEVICE_TASK_OVER);
    if (atomic_load(&task->asleep))
        (void)eventfd_write(task->doorbell, 1);
    pthread_mutex_unlock(&d->lock);
}

hvd_status_t device_follow_marks(struct device *d, CUstream stream,
                                 const struct device_task *task)
{
    if (task->after != NULL)
        HVD_TRY(device_follow(d, stream, task->after));
    for (size_t i = 0; i < task->n_further; i++)
        HVD_TRY(device_follow(d, stream, task->further[i]));
    return HVD_OK;
}

static hvd_status_t begin_copies(struct device *d, struct device_task *task)
{
    CUstream stream = task->background ? d->saving : d->copying;
    CUevent event;

    HVD_TRY(device_follow_marks(d, stream, task));
    HVD_TRY(launch_copies(d, stream, task->copies, task->n_copies));
    HVD_TRY(device_record(d, stream, &event));
    task->event = event;
    task->queued = true;
    return task->ordered ? device_follow(d, task->stream, event) : HVD_OK;
}

/* Is it put on the program's own stream? */
static bool is_direct(const struct device_task *task)
{
    return task->communicator != NULL && task->ordered && task->result == NULL;
}

static bool is_reached(const struct device *d, CUevent mark)
{
    return d->cuda->cuEventQuery(mark) != CUDA_ERROR_NOT_READY;
}

/* Copies of all share a stream, and one that waits there keeps the others: it
 * waits here, unless somebody else waits for it to be queued. */
static bool is_awaited(const struct device *d, const struct device_task *task)
{
    bool awaited = task->after != NULL && !is_reached(d, task->after);

    for (size_t i = 0; i < task->n_further && !awaited; i++)
        awaited = !is_reached(d, task->further[i]);
    return awaited && !task->ordered;
}

/* On one stream they are in the order in which they were posted, on every
 * rank. */
static bool is_behind(const struct device *d, const struct device_task *task)
{
    const struct device_task *other = d->first;

    if (!is_direct(task))
        return false;
    if (communicators_launch_on(d, task->stream))
        return true;
    while (other != task &&
           (!is_direct(other) || other->stream != task->stream))
        other = other->next;
    return other != task;
}

static bool may_begin(const struct device *d, const struct device_task *task)
{
    if (task->communicator == NULL)
        return !is_awaited(d, task);
    return communicator_has_room(task->communicator) && !is_behind(d, task);
}

/* The first that may begin. Ranks post those of several communicators in orders
 * of their own: were one to wait here behind another's, which waits for a rank
 * where it is the other way round, both would for ever. */
static struct device_task *take_posted(struct device *d)
{
    struct device_task *before = NULL, *task;

    pthread_mutex_lock(&d->lock);
    for (task = d->first; task != NULL && !may_begin(d, task);
         task = task->next)
        before = task;
    if (task != NULL && before != NULL)
        before->next = task->next;
    else if (task != NULL)
        d->first = task->next;
    if (task != NULL && task == d->last)
        d->last = before;
    pthread_mutex_unlock(&d->lock);
    return task;
}

static void append_begun(struct device *d, struct device_task *task)
{
    struct device_task **end = &d->begun;

    while (*end != NULL)
        end = &(*end)->next;
    task->next = NULL;
    *end = task;
}

static bool begin_posted(struct device *d)
{
    struct device_task *task = take_posted(d);
    hvd_status_t status = HVD_OK;

    if (task == NULL)
        return false;
    if (task->communicator != NULL)
        communicator_begin(task->communicator, task);
    else
        status = begin_copies(d, task);
    if (status != HVD_OK || (task->queued && task->ordered))
        end_task(d, task, status);
    else
        append_begun(d, task);
    return true;
}

/* HVD_OK: it is over. *pending_p: it is not. An abort lets a stream go on, over
 * results that are half there: an event of a communicator that is not sound any
 * more says nothing, and the task is over when that is quiet. */
static hvd_status_t look_at(struct device *d, const struct device_task *task,
                            bool *pending_p)
{
    struct communicator *c = task->communicator;
    CUresult result = CUDA_ERROR_NOT_READY;

    *pending_p = false;
    if (task->queued && task->ordered)
        return HVD_OK;
    if (task->event != NULL)
        result = d->cuda->cuEventQuery(task->event);
    if (c == NULL) {
        *pending_p = result == CUDA_ERROR_NOT_READY;
        return *pending_p ? HVD_OK : device_check(d, result, "a copy");
    }
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        communicator_broke(c, result);
    if (result == CUDA_SUCCESS && communicator_is_sound(c))
        return HVD_OK;
    if (communicator_is_quiet(c))
        return communicator_reason(c);
    *pending_p = true;
    return HVD_OK;
}

bool device_has_task_of(struct device *d, const struct communicator *c)
{
    const struct device_task *task = d->begun;
    bool posted;

    while (task != NULL && task->communicator != c)
        task = task->next;
    if (task != NULL)
        return true;
    pthread_mutex_lock(&d->lock);
    for (task = d->first; task != NULL && task->communicator != c;)
        task = task->next;
    posted = task != NULL;
    pthread_mutex_unlock(&d->lock);
    return posted;
}

static bool end_begun(struct device *d)
{
    struct device_task **p = &d->begun;
    bool ended = false, saving = false;

    while (*p != NULL) {
        struct device_task *task = *p;
        /* a large state is many copies in a row: behind one that is not over
         * there is none that is */
        bool pending = saving && task->background;
        hvd_status_t status = pending ? HVD_OK : look_at(d, task, &pending);

        if (pending) {
            saving |= task->background;
            p = &task->next;
            continue;
        }
        *p = task->next;
        end_task(d, task, status);
        ended = true;
    }
    return ended;
}

/* Under the lock. */
static bool is_done(const struct device *d)
{
    return d->stopping && d->communicators == NULL && d->first == NULL &&
           d->begun == NULL;
}

/* Until `until_us`, or a kick. false: stop. */
static bool pause_until(struct device *d, uint64_t until_us)
{
    struct timespec ts = {.tv_sec = (time_t)(until_us / 1000000),
                          .tv_nsec = (long)(until_us % 1000000) * 1000};
    int expired = 0;
    bool done;

    pthread_mutex_lock(&d->lock);
    while (!atomic_load(&d->awake) && !is_done(d) && expired == 0)
        expired = until_us == CLOCK_NEVER
                      ? pthread_cond_wait(&d->work, &d->lock)
                      : pthread_cond_timedwait(&d->work, &d->lock, &ts);
    done = is_done(d);
    pthread_mutex_unlock(&d->lock);
    return !done;
}

/* A word is near, and who gives it needs the lock, and perhaps this core. */
static void linger(const struct device *d, uint64_t now_us)
{
    while (!atomic_load(&d->awake) && clock_now_us() < now_us + LINGER_US)
        sched_yield();
}

static uint64_t next_look(uint64_t now_us, uint64_t moved_us)
{
    uint64_t since_us = now_us - moved_us, pause_us = since_us / PAUSE_PART;

    if (since_us < SPIN_US)
        return now_us;
    pause_us = pause_us < PAUSE_MIN_US ? PAUSE_MIN_US : pause_us;
    return now_us + (pause_us > PAUSE_MAX_US ? PAUSE_MAX_US : pause_us);
}

static uint64_t sooner(uint64_t a_us, uint64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

static hvd_status_t prepare(struct device *d)
{
    CUresult result = d->cuda->cuCtxPushCurrent_v2(d->context);
    int least = 0, greatest = 0;

    HVD_TRY(device_check(d, result, "its context"));
    driver_relax(d->cuda);
    (void)d->cuda->cuCtxGetStreamPriorityRange(&least, &greatest);
    result = d->cuda->cuStreamCreateWithPriority(
        &d->copying, CU_STREAM_NON_BLOCKING, greatest);
    HVD_TRY(device_check(d, result, "a stream"));
    result = d->cuda->cuStreamCreateWithPriority(&d->saving,
                                                 CU_STREAM_NON_BLOCKING, least);
    return device_check(d, result, "a stream");
}

static void clean_up(struct device *d)
{
    scaler_fini(&d->scaler, d->cuda);
    while (d->n_packs > 0)
        (void)d->cuda->cuMemFree_v2(d->packs[--d->n_packs]);
    array_free(&d->packs, &d->packs_max);
    if (d->copying != NULL)
        (void)d->cuda->cuStreamDestroy_v2(d->copying);
    if (d->saving != NULL)
        (void)d->cuda->cuStreamDestroy_v2(d->saving);
    while (d->n_spare > 0)
        (void)d->cuda->cuEventDestroy_v2(d->spare[--d->n_spare]);
}

static void fail_posted(struct device *d)
{
    struct device_task *task;

    while ((task = take_posted(d)) != NULL)
        end_task(d, task, HVD_ERR_SYSTEM);
}

static bool has_posted(struct device *d)
{
    bool posted;

    pthread_mutex_lock(&d->lock);
    posted = d->first != NULL;
    pthread_mutex_unlock(&d->lock);
    return posted;
}

void *device_main(void *arg)
{
    struct device *d = arg;
    hvd_status_t ready = prepare(d);
    uint64_t now_us = clock_now_us(), moved_us = now_us, until_us;

    do {
        bool moved = false;

        atomic_store(&d->awake, false);
        if (ready != HVD_OK)
            fail_posted(d);
        /* one, as a copy of memory that is not pinned takes its time here */
        if (ready == HVD_OK)
            moved = begin_posted(d);
        now_us = clock_now_us();
        until_us = moved ? now_us : CLOCK_NEVER;
        until_us = sooner(until_us, communicators_step(d, now_us));
        moved |= end_begun(d);
        moved_us = moved ? now_us : moved_us;
        if (d->begun != NULL || has_posted(d) || now_us - moved_us < SPIN_US)
            until_us = sooner(until_us, next_look(now_us, moved_us));
        if (until_us <= now_us && !moved)
            linger(d, now_us);
    } while (until_us <= now_us || pause_until(d, until_us));
    clean_up(d);
    atomic_store(&d->ended, true);
    return NULL;
}
