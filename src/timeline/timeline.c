/* timeline/timeline.c - the ring of the timeline and the thread that empties
 * it. See timeline.h.
 *
 *   any thread --record--> ring [TIMELINE_RECORDS_MAX] --writer--> tracefile
 *
 * The ring is D. Vyukov's bounded queue: a slot's sequence number says whose
 * turn it is. A recorder takes a position with one compare-and-swap, fills the
 * slot and then publishes it; who stops in between (SIGSTOP) holds up the
 * writer, never another recorder before the ring is full.
 *
 * While the file takes nothing, as its disk is full, records stay in the ring;
 * when that is full as well they are counted.
 *
 * The writer wakes at multiples of 100 ms of CLOCK_MONOTONIC: the workers of a
 * machine pause for it together, not one after the other, and where calls are
 * dropped they are dropped at the same times on all ranks.
 *
 * It alone touches the file, from its open to its close: nobody else can be
 * held up by a disk. One that the disk does not let go is left behind, and with
 * it the file: a timeline cannot be opened again then.
 *
 * Threads: recorders any, `writer` everything that says so. Memory: static. */
#include "timeline/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/tracefile.h"
#include "timeline/text.h"

enum {
    RING_MASK = TIMELINE_RECORDS_MAX - 1,
    RESERVE = TIMELINE_RECORDS_MAX / 16, /* for what is rare */
    TICK_NS = 100000000,
    LANES_MAX = 1024, /* power of two */
    WRITER_NICE = 19,
    OPEN_MS = 2000,
    CLOSE_MS = 5000
};

_Atomic int timeline_mode = TIMELINE_OFF;

static struct {
    _Alignas(64) _Atomic uint64_t head; /* recorders: next position */
    _Alignas(64) uint64_t tail;         /* writer */
    _Atomic uint64_t n_dropped;         /* recorders, since the last tick */
    _Atomic uint64_t dropped_ns;        /* end of the first of them; 0: none */
    _Alignas(64) struct timeline_record slots[TIMELINE_RECORDS_MAX];
} ring;

enum stage { STAGE_OPENING, STAGE_OPEN, STAGE_ENDED };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* CLOCK_MONOTONIC */
    bool stop;           /* under lock, as are the next three */
    bool late;           /* nobody waits for it to be open any more */
    enum stage stage;
    char trouble[ERROR_TEXT_MAX]; /* why it could not be opened */
    bool running;                 /* app, as are the next three */
    bool lost;                    /* the thread is left behind */
    bool at_exit;                 /* registered */
    pthread_t thread;
    /* constant while it runs */
    uint64_t pid;
    const struct timeline_words *words;
    char path[PATH_MAX], header[TRACEFILE_HEADER_MAX];
    /* the thread's; others: tracefile_forget() */
    struct tracefile file;
    bool in_trouble; /* it cannot be written just now, and that was told */
    struct log_seldom told;
} writer = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = {.fd = -1}};

/* Of a name. A part of the file that lacks the lane's name gets it first. */
struct lane {
    char name[TIMELINE_TEXT_MAX];
    unsigned number; /* 0: free */
    unsigned part;   /* the last that has the name; UINT_MAX: none */
};

/* A table of open addresses. */
static struct {
    struct lane items[LANES_MAX];
    unsigned n;
} lanes; /* writer */

/* ---- recording ----------------------------------------------------------- */

uint64_t timeline_clock_now(void)
{
    return clock_now_ns();
}

static bool is_free(uint64_t at)
{
    return atomic_load_explicit(&ring.slots[at & RING_MASK].sequence,
                                memory_order_acquire) == at;
}

/* NULL: the ring is full but for `reserve` slots. */
static struct timeline_record *take(uint64_t reserve, uint64_t *at_p)
{
    uint64_t at = atomic_load_explicit(&ring.head, memory_order_relaxed);

    for (;;) {
        uint64_t seen;

        if (is_free(at) && (reserve == 0 || is_free(at + reserve))) {
            if (atomic_compare_exchange_weak_explicit(&ring.head, &at, at + 1,
                                                      memory_order_relaxed,
                                                      memory_order_relaxed))
                break;
            continue;
        }
        seen = atomic_load_explicit(&ring.head, memory_order_relaxed);
        if (seen == at)
            return NULL;
        at = seen; /* others were faster */
    }
    *at_p = at;
    return &ring.slots[at & RING_MASK];
}

static void publish(struct timeline_record *r, uint64_t at)
{
    atomic_store_explicit(&r->sequence, at + 1, memory_order_release);
}

static void copy_text(char *out, const char *text)
{
    size_t n = text ? strnlen(text, TIMELINE_TEXT_MAX - 1) : 0;

    if (n > 0)
        memcpy(out, text, n);
    out[n] = '\0';
}

static void count_dropped(uint64_t end_ns)
{
    uint64_t none = 0;

    if (end_ns > 0)
        atomic_compare_exchange_strong_explicit(&ring.dropped_ns, &none, end_ns,
                                                memory_order_relaxed,
                                                memory_order_relaxed);
    atomic_fetch_add_explicit(&ring.n_dropped, 1, memory_order_release);
}

static void become_full(void)
{
    int on = TIMELINE_ON;

    atomic_compare_exchange_strong(&timeline_mode, &on, TIMELINE_FULL);
}

void timeline_call_record(enum timeline_phase phase, uint64_t start_ns,
                          uint64_t end_ns, const struct timeline_call *call)
{
    static const struct timeline_call unknown;
    struct timeline_record *r = NULL;
    uint64_t at;

    if (start_ns > 0 && end_ns > 0)
        r = take(RESERVE, &at);
    if (!r) {
        count_dropped(end_ns);
        if (start_ns > 0 && end_ns > 0)
            become_full();
        return;
    }
    if (!call)
        call = &unknown;
    r->phase = (uint8_t)phase;
    r->start_ns = start_ns;
    r->end_ns = end_ns;
    r->kind = call->kind;
    r->dtype = call->dtype;
    r->op = call->op;
    r->count = call->count;
    r->nbytes = call->nbytes;
    r->algorithm = call->algorithm;
    copy_text(r->text, call->name);
    publish(r, at);
}

void timeline_state_record(enum timeline_phase phase, uint64_t start_ns,
                           const struct timeline_state *state)
{
    static const struct timeline_state nothing;
    uint64_t at, now_ns = clock_now_ns();
    struct timeline_record *r = take(0, &at);

    if (!r) {
        count_dropped(now_ns);
        return;
    }
    if (!state)
        state = &nothing;
    r->phase = (uint8_t)phase;
    r->start_ns = start_ns > 0 ? start_ns : now_ns;
    r->end_ns = now_ns;
    r->generation = state->generation;
    r->rank = state->rank;
    r->size = state->size;
    r->nbytes = state->nbytes;
    r->algorithm = NULL;
    copy_text(r->text, state->text);
    publish(r, at);
}

/* ---- writing (writer) ---------------------------------------------------- */

static uint32_t hash(const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

/* NULL: names beyond the table share the lane of calls without one. */
static struct lane *lane_of(const char *name)
{
    uint32_t i = hash(name) & (LANES_MAX - 1);

    while (lanes.items[i].number != 0 && strcmp(lanes.items[i].name, name) != 0)
        i = (i + 1) & (LANES_MAX - 1);
    if (lanes.items[i].number != 0)
        return &lanes.items[i];
    if (lanes.n >= LANES_MAX / 2)
        return NULL;
    memcpy(lanes.items[i].name, name, strlen(name) + 1);
    lanes.items[i].number = LANE_NAMES + lanes.n++;
    lanes.items[i].part = UINT_MAX;
    return &lanes.items[i];
}

/* False: the file does not take it now. */
static bool write_record(const struct timeline_record *r)
{
    char out[TRACEFILE_EVENTS_MAX], *at = out;
    unsigned number = LANE_ELASTIC, part = writer.file.part;
    struct lane *lane = NULL;

    if (r->phase < TIMELINE_RENDEZVOUS) {
        lane = r->text[0] ? lane_of(r->text) : NULL;
        number = lane ? lane->number : (unsigned)LANE_CALLS;
    }
    if (lane && lane->part != part) {
        at += timeline_text_lane(writer.pid, number, lane->name, at);
        at = stpcpy(at, ",\n");
    }
    at += timeline_text(r, writer.words, writer.pid, number, at);
    if (!tracefile_add(&writer.file, out, (size_t)(at - out)))
        return false;
    if (lane)
        lane->part = part;
    return true;
}

static bool next_record(void)
{
    struct timeline_record *r = &ring.slots[ring.tail & RING_MASK];

    if (atomic_load_explicit(&r->sequence, memory_order_acquire) !=
            ring.tail + 1 ||
        !write_record(r))
        return false;
    atomic_store_explicit(&r->sequence, ring.tail + TIMELINE_RECORDS_MAX,
                          memory_order_release);
    ring.tail++;
    return true;
}

/* The span ends before a recorder can see the ring as free again. */
static void write_dropped(void)
{
    uint64_t n = atomic_exchange(&ring.n_dropped, 0), now_ns, since_ns;
    char out[TIMELINE_EVENTS_MAX];

    if (n == 0) /* whoever counts has said before when that was */
        return;
    now_ns = clock_now_ns();
    since_ns = atomic_exchange(&ring.dropped_ns, 0);
    if (since_ns == 0 || since_ns > now_ns)
        since_ns = now_ns;
    if (tracefile_add(
            &writer.file, out,
            timeline_text_dropped(writer.pid, n, since_ns, now_ns, out)))
        return;
    atomic_store(&ring.dropped_ns, since_ns);
    atomic_fetch_add(&ring.n_dropped, n);
}

/* One ring at most: a thread that records as fast as we write must not keep us
 * here.
 * While the file takes nothing, records wait in the ring. */
static void drain(void)
{
    int full = TIMELINE_FULL;

    for (int i = 0; i < TIMELINE_RECORDS_MAX && next_record(); i++)
        ;
    if (writer.file.error == 0)
        write_dropped();
    if (tracefile_flush(&writer.file))
        atomic_compare_exchange_strong(&timeline_mode, &full, TIMELINE_ON);
}

/* Until the next multiple of a tick. True: stop. */
static bool sleep_tick(void)
{
    uint64_t at_ns = (clock_now_ns() / TICK_NS + 1) * TICK_NS;
    bool stop;
    int rc = 0;

    pthread_mutex_lock(&writer.lock);
    while (!writer.stop && rc != ETIMEDOUT)
        rc = thread_cond_wait(&writer.wake, &writer.lock, at_ns);
    stop = writer.stop;
    pthread_mutex_unlock(&writer.lock);
    return stop;
}

static void move_to(enum stage stage)
{
    pthread_mutex_lock(&writer.lock);
    writer.stage = stage;
    pthread_cond_broadcast(&writer.wake);
    pthread_mutex_unlock(&writer.lock);
}

/* error_text() says why. */
static void fail_to_open(void)
{
    bool late;

    atomic_store(&timeline_mode, TIMELINE_OFF);
    pthread_mutex_lock(&writer.lock);
    snprintf(writer.trouble, sizeof(writer.trouble), "%s", error_text());
    late = writer.late;
    pthread_mutex_unlock(&writer.lock);
    if (late)
        log_warn("timeline: %s -> this process has none", error_text());
    move_to(STAGE_ENDED);
}

static void check_trouble(void)
{
    int error = writer.file.error;

    if (error != 0 && !writer.in_trouble)
        log_seldom(&writer.told, LOG_LEVEL_WARN,
                   "timeline \"%s\": %s -> tried again, up to %d records are "
                   "kept meanwhile",
                   writer.path, strerror(error), TIMELINE_RECORDS_MAX);
    writer.in_trouble = error != 0;
}

/* Nobody records any more. */
static void end_file(void)
{
    uint64_t n_lost;

    drain();
    n_lost = tracefile_close(&writer.file) + atomic_load(&ring.n_dropped) +
             atomic_load(&ring.head) - ring.tail;
    if (writer.file.error != 0 && n_lost > 0)
        log_warn("timeline \"%s\": %s -> its last %" PRIu64 " events are lost",
                 writer.path, strerror(writer.file.error), n_lost);
}

static void *writer_main(void *arg)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), WRITER_NICE);
    if (tracefile_open(&writer.file, writer.path, writer.header) != HVD_OK &&
        !fd_error_may_pass(writer.file.error)) {
        fail_to_open();
        return NULL;
    }
    move_to(STAGE_OPEN);
    check_trouble();
    while (!sleep_tick()) {
        drain();
        check_trouble();
    }
    end_file();
    move_to(STAGE_ENDED);
    return NULL;
}

/* ---- open and close (app) ------------------------------------------------ */

static void ring_init(void)
{
    ring.tail = 0;
    atomic_store(&ring.head, 0);
    atomic_store(&ring.n_dropped, 0);
    atomic_store(&ring.dropped_ns, 0);
    for (uint64_t i = 0; i < TIMELINE_RECORDS_MAX; i++)
        atomic_store_explicit(&ring.slots[i].sequence, i, memory_order_relaxed);
    memset(&lanes, 0, sizeof(lanes));
}

static hvd_status_t name_file(const struct timeline_config *config)
{
    char word[24], *at = writer.header;

    snprintf(word, sizeof(word), "%llu", (unsigned long long)config->worker);
    if (!tracefile_name(config->path, word, writer.path)) {
        errno = ENAMETOOLONG;
        return error_errno("\"%s\"", config->path);
    }
    at += timeline_text_process(config->worker, config->host, config->slot,
                                config->job, at);
    at = stpcpy(at, ",\n");
    at += timeline_text_lane(config->worker, LANE_CALLS, "collectives", at);
    at = stpcpy(at, ",\n");
    at += timeline_text_lane(config->worker, LANE_ELASTIC, "elastic", at);
    *at = '\0';
    return HVD_OK;
}

static hvd_status_t start_writer(void)
{
    int error;

    thread_cond_init(&writer.wake);
    writer.stop = writer.late = writer.in_trouble = false;
    writer.stage = STAGE_OPENING;
    error = thread_start(&writer.thread, "hvd-timeline", writer_main, NULL);
    if (error == 0)
        return HVD_OK;
    pthread_cond_destroy(&writer.wake);
    errno = error;
    return error_errno("pthread_create");
}

/* Wait until it is past this stage; the stage it is in. */
static enum stage await_past(enum stage stage, int timeout_ms)
{
    uint64_t at_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    int rc = 0;

    pthread_mutex_lock(&writer.lock);
    while (writer.stage <= stage && rc != ETIMEDOUT)
        rc = thread_cond_wait(&writer.wake, &writer.lock, at_ns);
    stage = writer.stage;
    writer.late = stage == STAGE_OPENING;
    pthread_mutex_unlock(&writer.lock);
    return stage;
}

static void join_writer(void)
{
    pthread_join(writer.thread, NULL);
    pthread_cond_destroy(&writer.wake);
}

hvd_status_t timeline_open(const struct timeline_config *config)
{
    HVD_ASSERT(!writer.running);
    if (writer.lost)
        return error_set(HVD_ERR_SYSTEM, "timeline: \"%s\" still takes nothing",
                         writer.path);
    ring_init();
    writer.pid = config->worker;
    writer.words = config->words;
    HVD_TRY(error_prefix(name_file(config), "timeline"));
    atomic_store(&timeline_mode, TIMELINE_ON); /* before it may say OFF */
    if (start_writer() != HVD_OK) {
        atomic_store(&timeline_mode, TIMELINE_OFF);
        return error_prefix(HVD_ERR_SYSTEM, "timeline");
    }
    if (await_past(STAGE_OPENING, OPEN_MS) == STAGE_ENDED) {
        join_writer();
        return error_set(HVD_ERR_SYSTEM, "timeline: %s", writer.trouble);
    }
    writer.running = true;
    if (!writer.at_exit)
        writer.at_exit = atexit(timeline_close) == 0;
    return HVD_OK;
}

void timeline_close(void)
{
    if (!writer.running)
        return;
    writer.running = false;
    atomic_store(&timeline_mode, TIMELINE_OFF);
    pthread_mutex_lock(&writer.lock);
    writer.stop = true;
    pthread_cond_broadcast(&writer.wake);
    pthread_mutex_unlock(&writer.lock);
    if (await_past(STAGE_OPEN, CLOSE_MS) == STAGE_ENDED) {
        join_writer();
        return;
    }
    writer.lost = true;
    pthread_detach(writer.thread);
    log_warn("timeline \"%s\": takes nothing -> its last events are lost",
             writer.path);
}

void timeline_forked(void)
{
    atomic_store(&timeline_mode, TIMELINE_OFF);
    writer.running = false;
    tracefile_forget(&writer.file);
}
