/* elastic/driver/change.c - voluntary changes: when members are interrupted
 * (HOLD), and the boundary at which they all stop (CUT). M7 to M9 of
 * docs/protocol.md. See core.h; who is to leave: leaving.c. Pure. */
#include "elastic/driver/core_internal.h"

/* ---- HOLD ---------------------------------------------------------------- */

void send_hold(struct driver *d, struct driver_worker *w)
{
    struct msg_hold *hold = &action_send(d, w, MSG_HOLD)->u.hold;

    hold->sequence = d->hold_sequence;
    hold->flags = d->hold_flags;
}

void send_cut(struct driver *d, struct driver_worker *w)
{
    struct msg_cut *cut = &action_send(d, w, MSG_CUT)->u.cut;

    cut->sequence = d->hold_sequence;
    cut->boundary = d->change == CHANGE_OVER ? CUT_NEVER : d->cut;
}

static bool is_coming(const struct driver *d, const struct driver_worker *w,
                      uint64_t wave)
{
    return w->wave == wave && !w->was_ready && worker_is_live(w) &&
           d->now_us - w->spawned_us < start_limit(d);
}

static bool has_empty_host(const struct driver *d, uint64_t wave)
{
    for (size_t i = 0; i < d->n_hosts; i++) {
        const struct driver_host *h = &d->hosts[i];
        bool empty = h->agent_phase == AGENT_STARTING ||
                     (h->agent_phase == AGENT_UP && h->fresh);

        if (h->wave == wave && empty && host_usable(h) &&
            d->now_us - h->agent_since_us < start_limit(d))
            return true;
    }
    return false;
}

/* Rows from the one that came last before, downwards and round, so that in all
 * each is looked at about once while a wave comes in, in whatever order. */
static bool find_coming(struct driver *d, struct driver_awaited *last,
                        uint64_t wave)
{
    size_t n = d->n_workers, from = n;

    if (last->wave == wave)
        from = worker_bound(d, last->worker);
    for (size_t k = 1; k <= n; k++) {
        const struct driver_worker *w = &d->workers[(from + n - k) % n];

        if (!is_coming(d, w, wave))
            continue;
        *last = (struct driver_awaited){wave, w->id};
        return true;
    }
    return false;
}

/* Asked with each READY of a newcomer: as long as the one that was awaited last
 * is yet to come nobody else is looked at. */
bool wave_pending(struct driver *d, uint64_t wave)
{
    struct driver_awaited *last = &d->awaited[wave % DRIVER_AWAITED_MAX];
    const struct driver_worker *w = NULL;

    if (last->wave == wave)
        w = worker_find(d, last->worker);
    return (w && is_coming(d, w, wave)) || has_empty_host(d, wave) ||
           find_coming(d, last, wave);
}

/* M9: would a draining member really be let go at a close now? */
static bool can_leave(const struct driver *d, const struct driver_worker *w,
                      size_t n_stay)
{
    return n_stay >= d->config.min_np || d->now_us >= w->drain_by.spare_us;
}

static bool removal_due(const struct driver *d)
{
    const struct driver_counts *c = &d->counts;
    size_t n_stay = c->newcomers + c->members - c->draining;

    for (size_t i = 0; c->draining > 0 && i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        /* once at once; again only when it would change something, and when
         * the base has been handed on (M9) */
        if (is_member(w) && w->drain != DRAIN_NONE &&
            (w->drain == DRAIN_WANTED || can_leave(d, w, n_stay)))
            return true;
    }
    return false;
}

/* M7: newcomers interrupt only when they would be taken, when those started
 * with them are up too, and when the members have something to keep. */
static bool addition_due(struct driver *d)
{
    size_t max = d->config.max_np ? d->config.max_np : SIZE_MAX;
    uint64_t pending = 0;

    if (!(d->committed || d->bounded) || d->counts.newcomers == 0 ||
        d->counts.members - d->counts.draining >= max)
        return false;
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_newcomer(w) || w->wave == pending)
            continue;
        if (!wave_pending(d, w->wave))
            return true;
        pending = w->wave;
    }
    return false;
}

static void announce(struct driver *d, unsigned flags)
{
    d->change = CHANGE_HOLDING;
    if (d->hold_sequence < d->hold_floor)
        d->hold_sequence = d->hold_floor;
    d->hold_sequence++;
    d->hold_flags = (uint8_t)flags;
    d->hold_us = d->now_us;
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        w->held = w->held_done = false;
        if (!is_member(w))
            continue;
        if (w->drain == DRAIN_WANTED)
            w->drain = DRAIN_ANNOUNCED;
        send_hold(d, w);
    }
    d->counts.held = 0;
}

void on_held(struct driver *d, struct driver_worker *w,
             const struct msg_held *held)
{
    if (!is_member(w) || d->aborted || held->generation != d->generation ||
        held->sequence != d->hold_sequence || d->change == CHANGE_NONE)
        return;
    if (d->change != CHANGE_HOLDING) {
        send_cut(d, w); /* it has not heard it */
        return;
    }
    if (!w->held)
        d->counts.held++;
    w->held = true;
    w->held_boundary = held->boundary;
    w->held_done = held->done;
    if (d->counts.held == d->counts.members)
        d->recheck = true;
}

/* ---- CUT ----------------------------------------------------------------- */

static void cut(struct driver *d)
{
    struct driver_record *r;
    uint64_t greatest = 0;
    bool over = d->counts.done > 0;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_member(w))
            continue;
        over |= w->held_done;
        greatest = w->held_boundary > greatest ? w->held_boundary : greatest;
    }
    d->change = over ? CHANGE_OVER : CHANGE_CUTTING;
    d->cut = greatest + 1; /* nobody has passed it: everybody stops there */
    for (size_t i = 0; i < d->n_workers; i++)
        if (is_member(&d->workers[i]))
            send_cut(d, &d->workers[i]);
    r = record_add(d, RECORD_HOSTS_UPDATED);
    r->n = d->hold_flags;
    r->cut = over ? CUT_NEVER : d->cut;
    r->duration_us = d->now_us - d->hold_us;
}

static unsigned due(struct driver *d)
{
    unsigned flags = removal_due(d) || d->interrupts > 0 ? HOSTS_REMOVED : 0;

    return flags | (addition_due(d) ? HOSTS_ADDED : 0);
}

void change_announce(struct driver *d)
{
    announce(d, due(d));
}

void change_progress(struct driver *d)
{
    unsigned flags;

    if (d->phase != DRIVER_RUNNING || d->kind == READY_STATIC)
        return;
    if (d->change == CHANGE_HOLDING && d->counts.members > 0 &&
        d->counts.held == d->counts.members)
        cut(d);
    if (d->change != CHANGE_NONE || d->counts.done > 0)
        return;
    flags = due(d);
    if (flags)
        announce(d, flags);
}
