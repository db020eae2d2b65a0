/* elastic/worker/run.c - hvd_elastic_run: one training function through all
 * generations (docs/protocol.md).
 *
 *     READY -> ASSIGN -> comm -> sync -> reset callbacks -> train
 *       ^                                                     |
 *       +-- HVD_PEER_LOST: LOST, restore ---------------------+
 *       +-- HVD_HOSTS_UPDATED: LEFT --------------------------+
 *       +-- aborted while DONE -- DONE <-- HVD_OK: commit ----+
 *                                  |                          |
 *                    HVD_OK <-- RELEASE      anything else: LEAVING -> return
 *                (a world remains)
 *
 * READY leaves before anything else is done: the others wait for it. Rules of
 * communicators are asked behind the sync.
 *
 * Threads: app. Memory: none of its own. */
#include <hvd/elastic.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/world.h"
#include "collectives/ability.h"
#include "device/device.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/commit.h"
#include "elastic/worker/control.h"
#include "elastic/worker/knobs.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "elastic/worker/solo.h"
#include "state/state.h"
#include "timeline/timeline.h"

struct run {
    hvd_state_t *state;
    hvd_train_fn train;
    void *arg;
    struct control_assignment a; /* generation 0: none yet */
    bool was_member;             /* of a generation before this one */
    bool live_is_snapshot;
    bool ended;
    hvd_status_t result; /* when ended */
};

static void end(struct run *run, hvd_status_t result)
{
    run->ended = true;
    run->result = result;
}

/* What may be why there is no memory: " (RLIMIT_AS ...)"; "": no limit. */
static const char *limit_of(hvd_status_t status, char *buf, size_t max)
{
    struct rlimit as;

    buf[0] = '\0';
    if (status == HVD_ERR_NOMEM && getrlimit(RLIMIT_AS, &as) == 0 &&
        as.rlim_cur != RLIM_INFINITY)
        snprintf(buf, max, " (RLIMIT_AS is %llu bytes)",
                 (unsigned long long)as.rlim_cur);
    return buf;
}

/* Our own failure: the job ends with this sentence. But for a device that has
 * broken: the others have theirs, and this worker goes as one that dies. */
static void fail(struct run *run, hvd_status_t status)
{
    char text[WIRE_TEXT_MAX], limit[64];
    const char *why = error_text();

    snprintf(text, sizeof(text), "%s%s", *why ? why : hvd_strerror(status),
             limit_of(status, limit, sizeof(limit)));
    if (device_is_broken())
        log_error("%s -> this worker ends", text);
    else
        membership_fail(status, text, false);
    membership_close();
    if (device_is_broken())
        control_stop(); /* it is as good as gone, whatever the program does */
    end(run, error_set(status, "%s", text));
}

/* ---- into a generation --------------------------------------------------- */

static hvd_status_t restore(struct run *run)
{
    uint64_t start_ns = timeline_clock();

    if (run->live_is_snapshot || state_id_is_none(state_id_of(run->state)))
        return HVD_OK;
    HVD_TRY(state_restore(run->state));
    timeline_elastic(TIMELINE_RESTORE, start_ns, NULL);
    run->live_is_snapshot = true;
    return HVD_OK;
}

static struct {
    bool is_source[WIRE_RANKS_MAX]; /* [size] of the current generation */
    uint32_t n;
} sources; /* app alone */

/* Before anybody has committed the root alone is a source. */
static void find_sources(const struct control_assignment *a)
{
    bool fresh = state_id_is_none(a->assign.base);

    HVD_ASSERT(a->assign.size <= WIRE_RANKS_MAX);
    sources.n = 0;
    for (uint32_t r = 0; r < a->assign.size; r++) {
        sources.is_source[r] = fresh ? r == a->assign.root
                                     : a->entries[r].source;
        sources.n += sources.is_source[r];
    }
}

static int source_of(const struct control_assignment *a, int rank)
{
    return sync_plan_source_of(sources.is_source, (int)a->assign.size, rank);
}

static hvd_status_t serve_stale(struct run *run, bool apart)
{
    const struct control_assignment *a = &run->a;
    int size = (int)a->assign.size, self = (int)a->assign.rank;
    int rank = sync_plan_next(sources.is_source, size, self, -1);

    for (; rank >= 0;
         rank = sync_plan_next(sources.is_source, size, self, rank))
        HVD_TRY(state_sync_send(run->state, process_self.comm, rank, apart));
    return HVD_OK;
}

static hvd_status_t receive_state(struct run *run, struct state_id id,
                                  bool apart)
{
    const struct control_assignment *a = &run->a;
    uint64_t nbytes = 0;
    int source = source_of(a, (int)a->assign.rank);

    run->live_is_snapshot = false; /* until all of it was copied */
    HVD_TRY(state_sync_receive(run->state, process_self.comm, source, id, apart,
                               &nbytes));
    run->live_is_snapshot = true;
    membership_report(REPORT_SYNCED, a->generation, a->assigned_ns, nbytes,
                      sources.n);
    return HVD_OK;
}

/* The first snapshot of all, which is the root's. */
static hvd_status_t first_save(struct run *run)
{
    const struct control_assignment *a = &run->a;
    bool saves = sources.is_source[a->assign.rank];

    HVD_TRY(saves ? commit_save(run->state) : commit_prepare(run->state));
    run->live_is_snapshot |= saves;
    return HVD_OK;
}

/* Who is a source has said so in its READY. What it has not it must not serve
 * under the id of the base: its next READY says again what it has. */
static hvd_status_t check_base(const struct run *run)
{
    struct state_id own = state_id_of(run->state), base = run->a.assign.base;

    if (state_id_is_none(base) || state_id_equal(own, base))
        return HVD_OK;
    return error_set(HVD_PEER_LOST,
                     "rank %" PRIu32 " is named a source of state (%" PRIu64
                     ", %" PRIu64 "), it has (%" PRIu64 ", %" PRIu64 ")",
                     run->a.assign.rank, base.generation, base.version,
                     own.generation, own.version);
}

/* Has the state of each something on a device? They all know it of all. */
static bool are_on_devices(const struct control_assignment *a)
{
    for (uint32_t r = 0; r < a->assign.size; r++)
        if (!(a->entries[r].abilities & READY_ON_DEVICE))
            return false;
    return true;
}

static hvd_status_t exchange_devices(struct run *run, bool *apart_p)
{
    const struct control_assignment *a = &run->a;
    struct state_devices devices = {
        .rank = (int)a->assign.rank,
        .size = (int)a->assign.size,
        .root = (int)a->assign.root,
        .is_source = sources.is_source[a->assign.rank],
        .min_nbytes = knobs_device_sync_nbytes()};

    *apart_p = false;
    if (!a->assign.sync || !are_on_devices(a))
        return HVD_OK;
    return state_sync_devices(run->state, process_self.comm, &devices, apart_p);
}

static hvd_status_t exchange(struct run *run, struct state_id id)
{
    const struct control_assignment *a = &run->a;
    bool serves = sources.is_source[a->assign.rank], apart;

    if (serves) {
        HVD_TRY(check_base(run));
        state_stamp(run->state, id);
        HVD_TRY(restore(run));
    }
    HVD_TRY(exchange_devices(run, &apart));
    if (!serves)
        return receive_state(run, id, apart);
    return a->assign.sync ? serve_stale(run, apart) : HVD_OK;
}

/* Everybody holds the base of this generation, as state and as live memory,
 * when it has returned HVD_OK everywhere. */
static hvd_status_t synchronise(struct run *run)
{
    const struct control_assignment *a = &run->a;
    struct state_id id = {a->generation, a->assign.base.version};
    hvd_status_t status;

    if (state_id_is_none(a->assign.base)) {
        id.version = 1;
        HVD_TRY(first_save(run));
    }
    process_self.in_sync = true;
    status = exchange(run, id);
    process_self.in_sync = false;
    return status;
}

static hvd_reset_reason_t reset_reason(const struct run *run)
{
    if (!run->was_member)
        return HVD_RESET_JOINED;
    return run->a.assign.reason == READY_UPDATED ? HVD_RESET_HOSTS_UPDATED
                                                 : HVD_RESET_PEER_LOST;
}

static void reset(struct run *run)
{
    hvd_reset_info_t info = {
        .struct_size = sizeof(info),
        .generation = run->a.generation,
        .reason = reset_reason(run),
        .size = (int)run->a.assign.size,
        .committed_size = state_committed_size(run->state)};

    if (run->a.generation > 1)
        state_reset(run->state, &info);
    run->was_member = true;
}

/* The sentence of what train returned, unless a call of ours has written it. */
static hvd_status_t explain(hvd_status_t status)
{
    bool ours = status > HVD_USER_STATUS_MAX && status < 0;

    if (status == HVD_OK || status == HVD_PEER_LOST)
        return status;
    if (status == HVD_HOSTS_UPDATED && process_self.left)
        return status;
    if (ours && error_text()[0] != '\0')
        return status;
    return error_set(status, "the training function returned %d (%s)",
                     (int)status, hvd_strerror(status));
}

/* A call in it may fail, or one has whose status train has ignored: what it
 * returned counts as if train had returned it. */
static hvd_status_t last_commit(struct run *run)
{
    uint64_t start_ns = timeline_clock();
    hvd_status_t status = commit_save(run->state);

    timeline_elastic(TIMELINE_COMMIT, start_ns, NULL);
    run->live_is_snapshot = status == HVD_OK;
    return error_prefix(status, "the last commit");
}

static hvd_status_t take_part(struct run *run)
{
    uint64_t start_ns;
    hvd_status_t status;

    membership_show(&run->a);
    sets_begin();
    find_sources(&run->a);
    start_ns = timeline_clock();
    collective_enter();
    status = synchronise(run);
    collective_exit();
    timeline_elastic(TIMELINE_SYNC, start_ns, NULL);
    HVD_TRY(status);
    HVD_TRY(sets_enter());
    process_self.first_collective_due = true;
    reset(run);
    run->live_is_snapshot = false;
    error_clear();
    status = explain(run->train(run->state, run->arg));
    return status == HVD_OK && !process_self.left ? last_commit(run) : status;
}

/* ---- out of a generation ------------------------------------------------- */

/* That of this thread, unless a call behind the loss has cleared it. */
static const char *sentence_of_loss(void)
{
    const char *text = error_text();

    if (text[0] == '\0' && process_self.comm != NULL)
        (void)comm_status(process_self.comm, &text);
    return text;
}

/* Everybody goes back to its own last commit, also who will be synced: that
 * brings the shared entries only, and whether it is known by now must not
 * decide what the local ones are. A snapshot that does not fit any more may be
 * replaced by the sync, which keeps the local entries; exchange() finds out. */
static void settle_lost(struct run *run)
{
    hvd_status_t status;

    membership_lost(run->a.generation, false, sentence_of_loss());
    membership_close();
    status = restore(run);
    if (status == HVD_ERR_LAYOUT)
        state_restore_local(run->state);
    else if (status != HVD_OK)
        fail(run, error_prefix(status, "restore after a loss"));
}

/* It may still write to buffers: nothing here is to be believed. */
static void settle_broken(struct run *run)
{
    fail(run, error_set(HVD_ERR_SYSTEM, "the device has failed"));
}

/* The comm knows the sentence, whatever user code has called since. */
static bool has_mismatch(const char **text_p)
{
    return comm_status(process_self.comm, text_p) == HVD_ERR_MISMATCH;
}

static void settle_mismatch(struct run *run, const char *sentence)
{
    char text[WIRE_TEXT_MAX];

    snprintf(text, sizeof(text), "%s", sentence);
    membership_lost(run->a.generation, true, text);
    error_set(HVD_ERR_MISMATCH, "%s", text);
    fail(run, HVD_ERR_MISMATCH);
}

/* At the cut the boundary has committed; whoever went on after it goes back
 * there. */
static void settle_left(struct run *run, hvd_status_t status)
{
    struct worker_event ev = {.type = WORKER_EV_LEFT,
                              .gone = (uint8_t)ability_gone(),
                              .settings = knobs_settings()};

    run->live_is_snapshot = status == HVD_HOSTS_UPDATED &&
                            !process_self.went_on;
    if (control_is(control_done_over, run->a.generation) ||
        control_post(&ev) != HVD_OK) {
        settle_lost(run);
        return;
    }
    membership_close();
    status = restore(run);
    if (status != HVD_OK)
        fail(run, status);
}

static void settle_done(struct run *run)
{
    const struct control_assignment *a = &run->a;
    struct worker_event ev = {.type = WORKER_EV_DONE};
    hvd_status_t status;
    bool final;

    if (control_post(&ev) != HVD_OK) {
        settle_lost(run); /* aborted a moment ago */
        return;
    }
    comm_leave(process_self.comm, COMM_LEAVE_DONE,
               atomic_load(&process_self.boundary));
    status = control_wait(control_done_over, a->generation, CLOCK_NEVER);
    if (status != HVD_OK) {
        fail(run, status);
        return;
    }
    status = membership_verdict(&final);
    if (!final) {
        settle_lost(run); /* a member died before it was DONE: once more */
        return;
    }
    membership_close();
    if (status == HVD_OK)
        membership_remain(a);
    end(run, status);
}

static void settle(struct run *run, hvd_status_t status)
{
    const char *sentence;
    bool final;
    hvd_status_t word = membership_verdict(&final);

    if (final) { /* the driver has spoken: whatever train says */
        membership_close();
        end(run, word);
    } else if (status != HVD_OK && has_mismatch(&sentence)) {
        settle_mismatch(run, sentence);
    } else if (device_is_broken() &&
               (process_self.left || status == HVD_PEER_LOST)) {
        settle_broken(run);
    } else if (process_self.left &&
               (status == HVD_OK || status == HVD_HOSTS_UPDATED ||
                status == HVD_PEER_LOST)) {
        settle_left(run, status);
    } else if (status == HVD_OK) {
        settle_done(run);
    } else if (status == HVD_PEER_LOST) {
        settle_lost(run);
    } else {
        fail(run, status);
    }
}

static void one_generation(struct run *run)
{
    hvd_status_t status = membership_await(run->a.generation, &run->a);
    bool final;

    if (status == HVD_OK) {
        settle(run, take_part(run));
        return;
    }
    (void)membership_verdict(&final);
    if (final)
        end(run, status);
    else
        fail(run, status);
}

/* ---- the door ------------------------------------------------------------ */

static hvd_status_t run_member(struct run *run)
{
    if (process_self.kind != PROGRAM_UNDECIDED)
        return error_set(HVD_ERR_STATE,
                         process_self.kind == PROGRAM_STATIC
                             ? "hvd_elastic_run: this program has joined the "
                               "world as a static one, by a collective or "
                               "hvd_world_start -> call collectives inside the "
                               "training function only"
                             : "hvd_elastic_run: the job's one run is over");
    process_self.kind = PROGRAM_ELASTIC;
    control_watch_state(run->state);
    run->result = membership_enter(run->state);
    run->ended = run->result != HVD_OK;
    while (!run->ended)
        one_generation(run);
    control_watch_state(NULL); /* it may be destroyed when we return */
    return run->result;
}

hvd_status_t hvd_elastic_run(hvd_state_t *state, hvd_train_fn train, void *arg)
{
    struct run run = {.state = state, .train = train, .arg = arg};
    hvd_status_t status;

    HVD_TRY(process_check("hvd_elastic_run"));
    if (!state || !train)
        return error_set(HVD_ERR_INVALID, "hvd_elastic_run: %s is NULL",
                         state ? "train" : "state");
    if (process_self.running)
        return error_set(HVD_ERR_STATE,
                         "hvd_elastic_run: called inside itself");
    process_claim();
    process_self.running = true;
    status = process_self.solo ? solo_run(state, train, arg) : run_member(&run);
    process_self.running = false;
    return status;
}
