/* elastic/driver/generation.c - a generation is formed out of those who were
 * drawn: the table that all its members share, ASSIGN to each, again to who has
 * not got it. See core.h. Pure. */
#include <string.h>

#include "elastic/driver/core_internal.h"

enum { LARGE_WORLD = 256 };

static void keep_table(struct driver *d)
{
    struct assign_table before = d->table_before;

    d->table_before = d->table;
    d->table = before;
}

static void fill_table(struct driver *d, size_t n_chosen, struct state_id base)
{
    d->table.n_entries = n_chosen;
    d->table.generation = d->generation;
    for (size_t i = 0; i < n_chosen; i++) {
        const struct driver_worker *w = d->candidates[i].owner;
        struct assign_entry *e = &d->table.entries[i];

        e->worker = w->id;
        e->host = host_of(d, w)->order; /* rows move: it stays */
        e->slot = w->slot;
        e->port = w->port;
        memcpy(e->address, w->address, sizeof(e->address));
        e->source = state_id_is_none(base) ? i == 0
                                           : state_id_equal(w->offer.id, base);
    }
}

static uint32_t root_of(const struct assign_table *table)
{
    size_t i = 0;

    while (i < table->n_entries && !table->entries[i].source)
        i++;
    HVD_ASSERT(i < table->n_entries); /* the base has a holder */
    return (uint32_t)i;
}

/* It was told of the generation before: of its table the difference will do.
 * What its row says of a rank is still of then. */
static bool knows_before(const struct driver *d, const struct driver_worker *w)
{
    const struct assign_table *before = &d->table_before;

    return before->generation != 0 && w->rank < before->n_entries &&
           before->entries[w->rank].worker == w->id;
}

/* Who has got nothing of it, or not that, is told all the next time. */
static void send_assign(struct driver *d, struct driver_worker *w,
                        bool knows_before)
{
    struct msg_assign *a = &action_send(d, w, MSG_ASSIGN)->u.assign;

    d->actions[d->n_actions - 1].knows_before = knows_before;
    *a = d->assign;
    a->rank = w->rank;
    a->local_rank = w->local_rank;
    a->local_size = w->local_size;
    a->cross_rank = w->cross_rank;
    a->cross_size = w->cross_size;
    a->source = d->table.entries[w->rank].source;
    w->named = d->generation;
    w->assigned_us = d->now_us;
}

/* At most once in a heartbeat; and the table of hundreds takes its time: to say
 * it again and again until it has arrived would keep it from arriving. */
void repeat_assign(struct driver *d, struct driver_worker *w)
{
    uint32_t most = d->world_size < LARGE_WORLD ? 2 : 5;
    uint64_t wait_us = d->config.heartbeat_us / 4 << w->n_assigned;

    if (d->now_us - w->assigned_us < wait_us)
        return;
    w->n_assigned += w->n_assigned < most;
    send_assign(d, w, false);
}

static void enlist(struct driver *d, const struct candidate *c)
{
    struct driver_worker *w = c->owner;
    bool knows = knows_before(d, w);

    worker_stand(w, STAND_RUNNING);
    w->joined = w->joined ? w->joined : d->generation;
    w->left = w->offer.boundary;
    w->held = w->held_done = false;
    w->first_collective = w->synced = w->hang_warned = false;
    w->progress_us = d->now_us;
    w->rank = c->rank;
    w->local_rank = c->local_rank;
    w->local_size = c->local_size;
    w->cross_rank = c->cross_rank;
    w->cross_size = c->cross_size;
    w->n_assigned = 0;
    send_assign(d, w, knows);
}

/* The table is filled. */
static void prepare_assign(struct driver *d)
{
    const struct driver_worker *oldest = d->candidates[0].owner;
    struct msg_assign *a = &d->assign;

    *a = (struct msg_assign){.size = (uint32_t)d->table.n_entries,
                             .root = root_of(&d->table),
                             .base = d->base,
                             .reason = d->reason,
                             .committed_size = d->world_size};
    memcpy(a->settings, oldest->offer.settings, sizeof(a->settings));
    for (size_t i = 0; i < d->table.n_entries; i++)
        a->sync |= !d->table.entries[i].source;
}

/* Who is not drawn waits for another generation; the dead do not. */
static void discharge_all(struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (worker_is_enlisted(w))
            worker_stand(w, w->standing == STAND_READY ? STAND_WAITING
                                                       : STAND_OUT);
    }
}

void generation_form(struct driver *d, size_t n_chosen, struct state_id base)
{
    struct driver_record *r;

    if (d->generation < d->generation_floor)
        d->generation = d->generation_floor;
    d->generation++;
    d->base = base;
    keep_table(d);
    fill_table(d, n_chosen, base);
    abilities_pool(d);
    prepare_assign(d);
    accusations_turn(d);
    discharge_all(d);
    for (size_t i = 0; i < n_chosen; i++)
        enlist(d, &d->candidates[i]);
    d->world_size = (uint32_t)n_chosen;
    driver_move(d, DRIVER_RUNNING);
    d->change = CHANGE_NONE;
    d->aborted = d->committed = d->bounded = false;
    d->death = d->hang_warned = false;
    d->below_us = DRIVER_NEVER;
    d->formed_us = d->now_us;
    d->first_failed = 0;
    members_recount(d);
    r = record_add(d, RECORD_GENERATION_FORMED);
    r->n = n_chosen;
    r->root = (int)d->assign.root;
    r->duration_us = d->now_us - d->opened_us;
    abilities_note(d);
}
