/* elastic/driver/rendezvous.c - how a generation ends, and who is drawn for the
 * next one: READY, LOST, ABORT. M3 to M9, M12, M13. See core.h. Pure. */
#include <string.h>

#include "base/text.h"
#include "elastic/driver/core_internal.h"

uint32_t rendezvous_gate(const struct driver *d)
{
    bool waits = d->generation == 0 &&
                 (d->kind == READY_STATIC ||
                  d->now_us - d->patience_us <= d->config.start_timeout_us);

    return waits ? d->config.np : d->config.min_np;
}

/* ---- a generation ends --------------------------------------------------- */

void send_abort(struct driver *d, struct driver_worker *w, uint64_t generation)
{
    struct message *m = action_send(d, w, MSG_ABORT);

    m->generation = generation;
    if (generation == d->generation && d->aborted)
        m->u.abort = d->abort;
    else
        m->u.abort.reason = ABORT_STALE;
    if (w->named < generation)
        w->named = generation;
}

void rendezvous_open(struct driver *d, enum ready_reason reason,
                     const char *why)
{
    struct driver_record *r;
    struct text t;

    driver_move(d, DRIVER_RENDEZVOUS);
    d->reason = (uint8_t)reason;
    d->opened_us = d->patience_us = d->now_us;
    r = record_add(d, RECORD_GENERATION_STARTED);
    t = text_into(r->text, sizeof(r->text));
    text_add(&t, why);
}

void end_by_loss(struct driver *d, enum abort_reason reason, uint64_t worker,
                 const char *text)
{
    struct text t;

    if (d->aborted || (d->phase != DRIVER_RUNNING &&
                       (d->phase != DRIVER_RENDEZVOUS || d->generation == 0)))
        return; /* it has ended already */
    d->aborted = true;
    d->change = CHANGE_NONE;
    d->abort.reason = (uint8_t)reason;
    d->abort.worker = worker;
    t = text_into(d->abort.text, sizeof(d->abort.text));
    text_add(&t, text);
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (w->standing == STAND_DONE)
            worker_stand(w, STAND_RUNNING);
        w->held = w->held_done = false;
        if (!is_member(w))
            continue;
        if (worker_waits(w)) /* from here on it is expected to come */
            w->progress_us = d->now_us;
        send_abort(d, w, d->generation);
    }
    if (d->phase == DRIVER_RUNNING)
        rendezvous_open(d, READY_LOST, text);
    members_recount(d);
}

void on_lost(struct driver *d, struct driver_worker *w,
             const struct msg_lost *lost)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (!is_member(w) || lost->generation != d->generation)
        return; /* M4: of an older one: dropped */
    for (uint32_t i = 0; i < lost->n_accused; i++)
        if (lost->accused[i] < d->table.n_entries)
            accuse(d, w->id, d->table.entries[lost->accused[i]].worker,
                   (lost->proven >> i & 1) != 0);
    text_worker(&t, d, w);
    text_add(&t, ": ");
    text_add(&t, lost->text);
    if (lost->mismatch) {
        end_by_loss(d, ABORT_MISMATCH, 0, lost->text);
        job_stop(d, 1, HVD_ERR_MISMATCH, lost->text);
    } else {
        end_by_loss(d, ABORT_LOST, 0, buf);
    }
}

/* ---- READY --------------------------------------------------------------- */

static void describe_layouts(struct text *t, const struct driver *d,
                             const struct driver_worker *w,
                             const struct msg_ready *ready)
{
    text_add(t, "state layouts differ: ");
    text_worker(t, d, w);
    text_add(t, " has {");
    text_add(t, ready->layout_text);
    text_add(t, "}, the job has {");
    text_add(t, d->layout_text);
    text_add(t, "}");
}

/* Another one there would most likely fare the same. */
static void leave_empty(struct driver *d, struct driver_worker *w,
                        hvd_status_t status, const char *text)
{
    worker_refuse(d, w, status, text);
    slot_close(d, host_of(d, w), w->slot, text);
}

/* A member is kept: it has been through this. */
void on_unfit(struct driver *d, uint64_t worker, const char *why)
{
    struct driver_worker *w = worker_find(d, worker);
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (!w || !worker_is_here(w) || is_member(w) || d->phase == DRIVER_ADOPTING)
        return;
    text_worker(&t, d, w);
    text_add(&t, " ");
    text_add(&t, why);
    t = text_into(d->last_failure, sizeof(d->last_failure));
    text_add(&t, buf);
    leave_empty(d, w, HVD_ERR_UNSUPPORTED, buf);
}

/* Kind and layout must be those of the job. false: w was turned away. */
static bool fits(struct driver *d, struct driver_worker *w,
                 const struct msg_ready *ready)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));
    hvd_status_t status = HVD_ERR_LAYOUT;

    if (!d->layout_known) {
        d->layout_known = true;
        d->kind = ready->kind;
        memcpy(d->layout, ready->layout, sizeof(d->layout));
        memcpy(d->layout_text, ready->layout_text, sizeof(d->layout_text));
        return true;
    }
    if (ready->kind != d->kind) {
        status = HVD_ERR_STATE;
        text_worker(&t, d, w);
        text_add(&t, ready->kind == READY_STATIC
                         ? " is static (hvd_world_start), the job is elastic"
                         : " is elastic (hvd_elastic_run), the job is static");
    } else if (memcmp(ready->layout, d->layout, sizeof(d->layout)) != 0) {
        describe_layouts(&t, d, w, ready);
    } else {
        return true;
    }
    /* Of a generation that the driver before has formed its successor may not
     * know. */
    if (d->generation == 0 && d->generation_floor == 0)
        job_stop(d, 1, status, buf); /* M11: not restarted */
    else
        leave_empty(d, w, status, buf);
    return false;
}

/* A newcomer that others of its wave are yet to follow (M7) is nobody's
 * business until they have come. Thousands are READY one by one: to look at all
 * workers each time would cost more than all else that is done for them. */
static bool is_premature(struct driver *d, const struct driver_worker *w)
{
    bool starts = d->phase == DRIVER_WAITING && d->generation == 0;

    return (starts || d->phase == DRIVER_RUNNING) && d->counts.draining == 0 &&
           wave_pending(d, w->wave);
}

static void accept_ready(struct driver *d, struct driver_worker *w,
                         const struct msg_ready *ready)
{
    bool repeated = worker_is_ready(w);

    w->offer = (struct driver_offer){.id = ready->id,
                                     .boundary = ready->boundary,
                                     .user = ready->user,
                                     .abilities = ready->abilities};
    memcpy(w->offer.settings, ready->settings, sizeof(w->offer.settings));
    if (repeated)
        return;
    if (!w->was_ready) {
        w->was_ready = true;
        record_add_worker(d, RECORD_WORKER_READY, w)->duration_us =
            d->now_us - w->spawned_us;
    }
    if (worker_is_enlisted(w)) {
        d->counts.done -= w->standing == STAND_DONE;
        d->counts.ready++;
        worker_stand(w, STAND_READY);
        d->recheck = true;
    } else {
        worker_stand(w, STAND_WAITING);
        d->counts.newcomers += is_newcomer(w);
        d->recheck |= !is_premature(d, w);
    }
}

void on_ready(struct driver *d, struct driver_worker *w,
              const struct msg_ready *ready)
{
    if (d->phase >= DRIVER_STOPPING)
        return;
    if (ready->fence != w->named) {
        /* M3: a READY of before the last thing it was told. If that was the
         * ASSIGN of a generation that lives, the ASSIGN may have been lost:
         * repeat it. ABORT here would let a late duplicate end a generation. */
        if (w->named == d->generation && is_member(w) && !d->aborted)
            repeat_assign(d, w);
        else if (w->named != 0)
            send_abort(d, w, w->named);
        return;
    }
    if (!is_member(w)) {
        if (w->was_ready || fits(d, w, ready))
            accept_ready(d, w, ready);
        return;
    }
    if (!d->aborted) {
        if (ready->reason != READY_UPDATED) {
            end_by_loss(d, ABORT_LOST, 0, "a member has lost a peer"); /* M4 */
        } else if (d->change != CHANGE_CUTTING) {
            return; /* cannot be: nobody told it to leave */
        } else if (d->phase == DRIVER_RUNNING) {
            rendezvous_open(d, READY_UPDATED, "hosts updated");
        }
    }
    accept_ready(d, w, ready);
}

/* ---- who goes, who stays (M9) -------------------------------------------- */

static bool is_candidate(const struct driver_worker *w)
{
    return worker_is_ready(w) && worker_is_here(w) &&
           (worker_is_enlisted(w) || w->drain == DRAIN_NONE);
}

static struct state_id greatest_id(const struct driver *d)
{
    struct state_id base = {0, 0};

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (is_candidate(w) && state_id_compare(w->offer.id, base) > 0)
            base = w->offer.id;
    }
    return base;
}

/* Mark which draining members must stay; returns how many candidates stay in
 * all. */
static size_t choose_stayers(struct driver *d, struct state_id base)
{
    size_t n_stay = 0;
    bool base_stays = state_id_is_none(base);

    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        w->stays = false;
        if (is_candidate(w) && w->drain == DRAIN_NONE) {
            n_stay++;
            base_stays |= state_id_equal(w->offer.id, base);
        }
    }
    for (size_t i = 0; i < d->n_workers; i++) { /* oldest first */
        struct driver_worker *w = &d->workers[i];
        bool late, holds;

        if (!is_candidate(w) || w->drain == DRAIN_NONE)
            continue;
        late = d->now_us >= w->drain_by.spare_us;
        holds = state_id_equal(w->offer.id, base);
        if ((n_stay < d->config.min_np && !late) || (holds && !base_stays)) {
            w->stays = true;
            n_stay++;
            base_stays |= holds;
        }
    }
    return n_stay;
}

/* The same of those who were drawn. A spare may claim more than they have; it
 * will serve nobody, so it has no say. */
static struct state_id base_of(const struct candidate *chosen, size_t n)
{
    struct state_id base = {0, 0};

    for (size_t i = 0; i < n; i++) {
        const struct driver_worker *w = chosen[i].owner;

        if (state_id_compare(w->offer.id, base) > 0)
            base = w->offer.id;
    }
    return base;
}

static size_t list_candidates(struct driver *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!is_candidate(w) || (w->drain != DRAIN_NONE && !w->stays))
            continue;
        d->candidates[n++] = (struct candidate){.worker = w->id,
                                                .joined = w->joined,
                                                .host = d->hosts[w->host].order,
                                                .slot = w->slot,
                                                .owner = w};
    }
    return n;
}

static bool is_short(const struct driver *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_workers; i++)
        n += is_candidate(&d->workers[i]) && d->workers[i].drain == DRAIN_NONE;
    return n < d->config.min_np;
}

/* Once for each worker. */
static void report_stay(struct driver *d, struct driver_worker *w)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (w->stay_told)
        return;
    w->stay_told = true;
    text_worker(&t, d, w);
    text_add(&t, " is to leave, but ");
    if (is_short(d)) {
        text_add(&t, "without it there are fewer workers than --min-np ");
        text_u64(&t, d->config.min_np);
    } else {
        text_add(&t, "nobody else holds the state");
    }
    text_add(&t, " -> it stays until another takes its place, or "
                 "--drain-timeout is over");
    record_warning(d, buf);
}

static void dismiss_leavers(struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!is_candidate(w) || w->drain == DRAIN_NONE)
            continue;
        if (w->stays) {
            report_stay(d, w);
            continue;
        }
        record_add_worker(d, RECORD_WORKER_DRAINED, w);
        say_farewell(d, w, MSG_SHUTDOWN, SHUTDOWN_DRAINED, 0,
                     drain_reason(d, w));
        w->kill_us = d->now_us + d->config.drain_timeout_us;
        worker_stand(w, STAND_OUT);
    }
}

/* ---- may another one be formed? ------------------------------------------ */

/* M8: the same members again are no reset. */
static bool membership_changes(const struct driver *d, size_t n_chosen)
{
    if (n_chosen != d->world_size)
        return true;
    for (size_t i = 0; i < n_chosen; i++) {
        const struct driver_worker *w = d->candidates[i].owner;

        if (!worker_is_enlisted(w))
            return true;
    }
    return false;
}

/* M12: who has failed together will try again, each time a little later: what
 * lies between them may mend. Who is others than before tries at once. */
static bool is_too_soon(const struct driver *d, size_t n_chosen)
{
    static const uint64_t pauses_us[FRUITLESS_MAX] = {0, 500000, 2500000,
                                                      10000000, 0};

    return d->generation > 0 && !d->committed && d->alike < FRUITLESS_MAX &&
           d->now_us - d->opened_us < pauses_us[d->alike] &&
           !membership_changes(d, n_chosen);
}

static void count_fruitless(struct driver *d, bool changes)
{
    if (d->committed) {
        d->fruitless = d->alike = 0;
        return;
    }
    if (d->fruitless++ == 0)
        d->fruitless_us = d->formed_us;
    d->alike = changes ? 0 : d->alike + 1;
}

/* M12. Deaths are not counted here: slots have their own budgets (M11). */
static bool gets_nowhere(struct driver *d)
{
    uint64_t limit_us = d->config.commit_timeout_us;
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (d->alike >= FRUITLESS_MAX)
        text_add(&t, "no progress: 5 generations in a row of the same workers "
                     "ended without a commit; last: ");
    else if (limit_us > 0 && d->fruitless >= FRUITLESS_MAX &&
             d->now_us - d->fruitless_us > limit_us)
        text_add(&t, "no progress: no generation has committed within "
                     "--commit-timeout; last: ");
    else
        return false;
    text_add(&t, d->aborted ? d->abort.text : "hosts updated");
    job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
    return true;
}

/* May another generation be formed? Stops the job if not. */
static bool may_go_on(struct driver *d, size_t n_chosen)
{
    bool changes = membership_changes(d, n_chosen);
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (d->generation == 0)
        return true;
    count_fruitless(d, changes);
    if (gets_nowhere(d))
        return false;
    if (!changes)
        return true;
    if (d->config.reset_limit >= 0 &&
        d->resets >= (uint64_t)d->config.reset_limit) {
        text_add(&t, "the number of resets has reached --reset-limit ");
        text_u64(&t, (uint64_t)d->config.reset_limit);
        job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
        return false;
    }
    d->resets++;
    return true;
}

/* Generation 1 waits for those that were started together (M7). */
static bool start_is_pending(struct driver *d)
{
    uint64_t last = 0;

    if (d->generation > 0)
        return false;
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_newcomer(w) || w->wave == last)
            continue;
        last = w->wave;
        if (wave_pending(d, w->wave))
            return true;
    }
    return false;
}

void rendezvous_progress(struct driver *d)
{
    struct state_id base;
    size_t n;

    if (d->phase != DRIVER_WAITING && d->phase != DRIVER_RENDEZVOUS)
        return;
    if (d->counts.ready < d->counts.members) /* M6 */
        return;
    if (d->interrupts > 0) { /* whatever their number */
        job_stop(d, d->exit_status, HVD_REMOVED, "interrupted");
        return;
    }
    if (d->kind == READY_STATIC && d->generation > 0)
        return; /* it has one generation, and has lost it: finish_tick() */
    if (d->counts.members + d->counts.newcomers < rendezvous_gate(d) ||
        start_is_pending(d) || accusations_judge(d) || doubts_pending(d))
        return;
    base = greatest_id(d);
    if (state_id_is_none(base) && d->ever_committed) {
        job_stop_failed(d, "nobody is left who holds the state");
        return;
    }
    if (choose_stayers(d, base) < rendezvous_gate(d)) {
        dismiss_leavers(d); /* whose time is over: M9 lets them go */
        members_recount(d);
        return;
    }
    n = list_candidates(d);
    n = assignment_compute(d->candidates, n,
                           d->config.max_np ? d->config.max_np : n, d->scratch);
    if (!is_too_soon(d, n) && may_go_on(d, n)) {
        dismiss_leavers(d);
        generation_form(d, n, base_of(d->candidates, n));
    }
}

/* ---- time ---------------------------------------------------------------- */

static void evict_laggards(struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!is_member(w) || worker_is_ready(w))
            continue;
        action_kill(d, w, 0);
        worker_dies(d, w,
                    "did not come to the rendezvous within --elastic-timeout",
                    true);
    }
}

static void add_count(struct text *t, uint64_t n, const char *what)
{
    text_u64(t, n);
    text_add(t, " ");
    text_add(t, what);
    text_add(t, n == 1 ? "" : "s");
}

/* Discovery is the reason, not a host or a worker. */
static void add_shortage(const struct driver *d, struct text *t)
{
    uint64_t n = slots_listed(d);

    if (n >= rendezvous_gate(d))
        return;
    if (d->n_listed == 0) {
        text_add(t, d->discovered ? ": discovery lists no host"
                                  : ": discovery has never succeeded");
        return;
    }
    text_add(t, ": discovery lists ");
    add_count(t, n, "slot");
    text_add(t, " on ");
    add_count(t, d->n_listed, "host");
}

static void give_up_below(struct driver *d)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_add(&t, "only ");
    text_u64(&t, d->counts.members + d->counts.newcomers);
    text_add(&t, " of ");
    text_u64(&t, rendezvous_gate(d));
    text_add(&t, " workers for longer than --elastic-timeout (");
    text_seconds(&t, d->config.elastic_timeout_us);
    text_add(&t, ")");
    add_shortage(d, &t);
    job_stop_failed(d, buf);
}

void rendezvous_tick(struct driver *d)
{
    if (d->phase != DRIVER_WAITING && d->phase != DRIVER_RENDEZVOUS)
        return;
    if (d->counts.members + d->counts.newcomers >= rendezvous_gate(d)) {
        if (d->counts.ready < d->counts.members && d->withholds_us == 0 &&
            d->now_us - d->patience_us > d->config.elastic_timeout_us)
            evict_laggards(d); /* M10 */
    } else if (d->below_us == DRIVER_NEVER) {
        d->below_us = d->now_us;
    } else if (d->now_us - d->below_us > d->config.elastic_timeout_us) {
        give_up_below(d);
    }
}
