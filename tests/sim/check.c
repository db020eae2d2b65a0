/* check.c - the invariants. Each violation ends the run with a sentence. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "world.h"

enum { TICK_SLACK_US = 200000 }; /* a rendezvous is looked at that often */

#define ULL(x) ((unsigned long long)(x))

void check_fail(struct sim *s, const char *fmt, ...)
{
    va_list args;

    s->result->ok = false;
    va_start(args, fmt);
    vsnprintf(s->result->violation, sizeof(s->result->violation), fmt, args);
    va_end(args);
    TRACE(s, "VIOLATION: %s", s->result->violation);
    if (s->running)
        thread_die(s); /* and then the loop does the same: */
    longjmp(s->violated, 1);
}

/* ---- equal state ids are equal content ----------------------------------- */

static struct content_row *row_of(struct content_row *rows, size_t max,
                                  struct state_id id)
{
    struct random_state r = {id.generation * 1000003 + id.version};
    size_t i = (size_t)random_below(&r, max);

    while (rows[i].used && !state_id_equal(rows[i].id, id))
        i = (i + 1) % max;
    return &rows[i];
}

static void grow(struct sim *s)
{
    size_t max = s->contents_max ? 2 * s->contents_max : 256;
    struct content_row *rows = calloc(max, sizeof(*rows));

    if (!rows)
        abort();
    for (size_t i = 0; i < s->contents_max; i++)
        if (s->contents[i].used)
            *row_of(rows, max, s->contents[i].id) = s->contents[i];
    free(s->contents);
    s->contents = rows;
    s->contents_max = max;
}

void check_stamp(struct sim *s, struct sim_worker *w)
{
    struct content_row *row;

    if (2 * s->n_contents >= s->contents_max)
        grow(s);
    row = row_of(s->contents, s->contents_max, w->id_of);
    if (!row->used) {
        *row = (struct content_row){w->id_of, w->snap, true};
        s->n_contents++;
    } else if (row->content.hash != w->snap.hash ||
               row->content.steps != w->snap.steps) {
        check_fail(s,
                   "state id (%llu, %llu) names two contents: step %llu, "
                   "and step %llu on w%llu",
                   ULL(w->id_of.generation), ULL(w->id_of.version),
                   ULL(row->content.steps), ULL(w->snap.steps), ULL(w->id));
    }
}

struct content check_content(struct sim *s, struct state_id id)
{
    if (s->contents_max > 0) {
        struct content_row *row = row_of(s->contents, s->contents_max, id);

        if (row->used)
            return row->content;
    }
    check_fail(s, "nobody ever had state (%llu, %llu)", ULL(id.generation),
               ULL(id.version));
}

void check_source(struct sim *s, const struct sim_worker *w)
{
    const struct msg_assign *assign = &w->core.assign;

    if (assign->source && !state_id_is_none(assign->base) &&
        !state_id_equal(assign->base, w->id_of))
        check_fail(s, "w%llu is a source of (%llu, %llu), has (%llu, %llu)",
                   ULL(w->id), ULL(assign->base.generation),
                   ULL(assign->base.version), ULL(w->id_of.generation),
                   ULL(w->id_of.version));
}

void check_settings(struct sim *s, const struct sim_worker *w,
                    const char *settings)
{
    struct sim_generation *g = sim_generation(s, w->core.generation);

    if (w->core.assign.rank == 0 && strcmp(settings, w->settings) != 0)
        check_fail(s,
                   "generation %llu: rank 0 had the settings of %s, all are "
                   "told those of '%s'",
                   ULL(g->generation), w->settings, settings);
    if (g->settings[0] != '\0' && strcmp(settings, g->settings) != 0)
        check_fail(s,
                   "generation %llu: w%llu has the settings of '%s', others "
                   "those of %s",
                   ULL(g->generation), ULL(w->id), settings, g->settings);
    snprintf(g->settings, sizeof(g->settings), "%s", settings);
}

/* ---- a generation is formed ---------------------------------------------- */

static struct sim_generation *make(struct sim *s, uint64_t number,
                                   uint32_t size)
{
    struct sim_generation *g = calloc(1, sizeof(*g));

    if (!g || !array_reserve(&s->generations, &s->generations_max, number + 1))
        abort();
    s->generations[number] = g;
    s->n_generations = number + 1;
    g->generation = number;
    g->size = size;
    g->members = calloc(size, sizeof(*g->members));
    g->sources = calloc(size, sizeof(*g->sources));
    g->entries = calloc(size, sizeof(*g->entries));
    g->formed_us = s->now_us;
    if (!g->members || !g->sources || !g->entries)
        abort();
    return g;
}

struct sim_generation *check_before(struct sim *s, uint64_t number)
{
    struct sim_generation *g = NULL;

    while (!g && number-- > 1)
        g = sim_generation(s, number); /* a successor skips numbers */
    return g;
}

/* On a host that is blacklisted or gone from the list only who was a member
 * before may be, and only where M9 has no choice. */
static void check_place(struct sim *s, const struct sim_generation *g,
                        const struct sim_worker *w)
{
    const struct driver_worker *dw = driver_worker(&s->driver, w->id);
    const struct driver_host *host = dw ? driver_host_of(&s->driver, dw) : NULL;

    if (!host)
        check_fail(s, "w%llu is assigned, the driver does not know it",
                   ULL(w->id));
    /* one that has a state was spared for it, and one that a successor took
     * over may have had one */
    if (host->blacklist.listed && w->joined == g->generation &&
        state_id_is_none(w->id_of) && !dw->inherited)
        check_fail(s, "newcomer w%llu is assigned on blacklisted host %s",
                   ULL(w->id), host->name);
}

static void check_member(struct sim *s, struct sim_generation *g, uint32_t rank)
{
    const struct driver_worker *dw;
    struct sim_worker *w = sim_worker(s, g->members[rank]);

    if (!w)
        check_fail(s, "generation %llu: rank %u is w%llu that never was",
                   ULL(g->generation), rank, ULL(g->members[rank]));
    if (w->joined == 0) {
        w->joined = g->generation;
        if (g->generation > 1)
            sim_cover(s, COVER_joined_later);
    }
    check_place(s, g, w);
    if (w->alive && w->app != APP_JOINING && w->app != APP_GONE)
        check_fail(s,
                   "generation %llu has w%llu as rank %u, which is not READY "
                   "but in state %d of generation %llu",
                   ULL(g->generation), ULL(w->id), rank, (int)w->app,
                   ULL(w->generation));
    if (w->layout != sim_worker(s, g->members[0])->layout)
        check_fail(s,
                   "w%llu has another layout than w%llu, both in "
                   "generation %llu",
                   ULL(w->id), ULL(g->members[0]), ULL(g->generation));
    dw = driver_worker(&s->driver, w->id);
    if (dw && worker_is_dead(dw))
        check_fail(s, "generation %llu has w%llu, which the driver holds dead",
                   ULL(g->generation), ULL(w->id));
}

/* A successor knows of its elders what they have heard of themselves: who was
 * named in a generation, and was not told, has not been in it. */
static bool is_older(const struct sim *s, const struct sim_worker *w,
                     const struct sim_worker *other)
{
    bool told = w->core.joined > 0 && w->core.joined < other->core.joined;

    return w->joined < other->joined && (s->driver_config.term == 1 || told);
}

static void check_root(struct sim *s, const struct sim_generation *g)
{
    const struct sim_worker *root = sim_worker(s, g->members[0]);

    for (uint32_t rank = 1; rank < g->size; rank++) {
        const struct sim_worker *w = sim_worker(s, g->members[rank]);

        if (w->core.generation > 0 && is_older(s, w, root))
            check_fail(s,
                       "generation %llu: rank 0 (w%llu) is younger than w%llu",
                       ULL(g->generation), ULL(root->id), ULL(w->id));
    }
}

/* The ranks of a host are told the same: what all of them can do. */
static void check_abilities(struct sim *s, const struct assign_table *table)
{
    for (size_t i = 0; i < table->n_entries; i++) {
        const struct assign_entry *entry = &table->entries[i];
        uint8_t own = sim_worker(s, entry->worker)->abilities, all = own;

        for (size_t k = 0; k < table->n_entries; k++)
            if (table->entries[k].host == entry->host)
                all &= sim_worker(s, table->entries[k].worker)->abilities;
        if (entry->abilities != all)
            check_fail(s,
                       "generation %llu: rank %zu has abilities %u, all of "
                       "its host %u",
                       ULL(s->driver.generation), i, entry->abilities, all);
        if (all != own)
            sim_cover(s, COVER_abilities_differ);
    }
}

/* Every ASSIGN of the generation says what the others say. */
static void check_assigns(struct sim *s, struct sim_generation *g,
                          const struct driver_action *actions, size_t n)
{
    uint32_t n_seen = 0;
    uint8_t *seen = calloc(g->size, 1);
    const char *wrong = NULL;

    if (!seen)
        abort();
    for (size_t i = 0; i < n && !wrong; i++) {
        const struct message *m = &actions[i].u.message;
        uint32_t rank;

        if (actions[i].type != DRIVER_ACT_SEND || m->type != MSG_ASSIGN)
            continue;
        rank = m->u.assign.rank;
        if (m->generation != g->generation || m->u.assign.size != g->size)
            wrong = "two generations or sizes at once";
        else if (rank >= g->size || seen[rank])
            wrong = "ranks are not 0..size-1";
        else if (g->members[rank] != actions[i].worker)
            wrong = "a rank differs from the table";
        else if (m->u.assign.root >= g->size || !g->sources[m->u.assign.root])
            wrong = "the root holds no base";
        else if (m->u.assign.source != g->sources[rank])
            wrong = "a source differs from the table";
        else if (n_seen > 0 && !state_id_equal(m->u.assign.base, g->base))
            wrong = "two bases";
        else {
            seen[rank] = 1;
            n_seen++;
            g->base = m->u.assign.base;
            g->root = m->u.assign.root;
        }
    }
    free(seen);
    if (!wrong && n_seen != g->size)
        wrong = "not everybody got an ASSIGN";
    if (wrong)
        check_fail(s, "generation %llu: %s", ULL(g->generation), wrong);
}

static bool is_held_by_another(struct sim *s, const struct sim_worker *w)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct sim_worker *other = sim_worker(s, i);
        const struct driver_worker *dw = driver_worker(&s->driver, i);

        if (other && other != w && dw && worker_is_here(dw) &&
            state_id_compare(other->id_of, w->id_of) >= 0)
            return true;
    }
    return false;
}

/* Whoever is drained leaves what it has to others (M9). That is judged here,
 * when it is told to go: it may take long to end, and the others may die
 * meanwhile. A successor may lack the word of who has not spoken yet. */
void check_sent_away(struct sim *s, struct sim_worker *w,
                     const struct msg_shutdown *m)
{
    const struct driver_worker *dw = driver_worker(&s->driver, w->id);

    if (w->sent_away)
        return; /* it is only said again */
    w->sent_away = true;
    if (m->reason != SHUTDOWN_DRAINED || !dw || dw->inherited ||
        s->driver.phase >= DRIVER_STOPPING || state_id_is_none(w->id_of))
        return;
    if (!is_held_by_another(s, w))
        check_fail(s, "w%llu is sent away, which alone has (%llu, %llu)",
                   ULL(w->id), ULL(w->id_of.generation), ULL(w->id_of.version));
}

/* Nor has anybody who could have stayed (M9), sent away in this very step; a
 * successor may lack the word of who has not spoken yet, and waits for it no
 * longer than M15 says. */
static void check_leavers(struct sim *s, const struct sim_generation *g)
{
    const struct sim_generation *old = check_before(s, g->generation);

    for (uint32_t rank = 0; old && rank < old->size; rank++) {
        const struct sim_worker *w = sim_worker(s, old->members[rank]);
        const struct driver_worker *dw = driver_worker(&s->driver, w->id);

        if (dw && dw->inherited && !dw->greeted)
            continue;
        if (dw && !worker_is_here(dw) &&
            (dw->inherited || dw->farewell.reason == SHUTDOWN_FAILED ||
             w->sent_away))
            continue; /* the driver before had let it go, it failed itself, or
                         it was judged when it was told */
        if (w->alive && dw && !worker_is_dead(dw) &&
            state_id_compare(w->id_of, g->base) > 0)
            check_fail(s,
                       "generation %llu is formed without w%llu, which alone "
                       "has (%llu, %llu)",
                       ULL(g->generation), ULL(w->id), ULL(w->id_of.generation),
                       ULL(w->id_of.version));
    }
}

/* Nobody who is there has more than the base, and somebody holds it. */
static void check_base(struct sim *s, const struct sim_generation *g)
{
    uint32_t n_sources = 0;

    for (uint32_t rank = 0; rank < g->size; rank++) {
        const struct sim_worker *w = sim_worker(s, g->members[rank]);

        n_sources += g->sources[rank];
        if (w->alive && state_id_compare(w->id_of, g->base) > 0)
            check_fail(s,
                       "generation %llu starts from (%llu, %llu), w%llu has "
                       "(%llu, %llu)",
                       ULL(g->generation), ULL(g->base.generation),
                       ULL(g->base.version), ULL(w->id),
                       ULL(w->id_of.generation), ULL(w->id_of.version));
        if (w->alive && !state_id_is_none(g->base) &&
            state_id_equal(w->id_of, g->base) != g->sources[rank])
            check_fail(s, "generation %llu: w%llu is wrongly %s source",
                       ULL(g->generation), ULL(w->id),
                       g->sources[rank] ? "a" : "no");
    }
    check_leavers(s, g);
    if (!state_id_is_none(g->base) && check_content(s, g->base).spoilt)
        check_fail(s,
                   "generation %llu starts from what a worker computed where "
                   "it should have returned",
                   ULL(g->generation));
    if (n_sources == 0)
        check_fail(s, "generation %llu has no holder of its base",
                   ULL(g->generation));
}

void check_formed(struct sim *s, const struct driver_action *actions, size_t n)
{
    const struct assign_table *table = driver_table(&s->driver);
    const struct driver_config *c = &s->driver_config;
    struct sim_generation *g;

    if (s->driver.generation < s->n_generations ||
        (s->driver.generation != (s->n_generations ? s->n_generations : 1) &&
         s->driver_config.term == 1))
        check_fail(s, "generation %llu comes after %zu",
                   ULL(s->driver.generation), s->n_generations - 1);
    g = make(s, s->driver.generation, (uint32_t)table->n_entries);
    sim_cover(s, COVER_generations);
    if (g->size < c->min_np || (c->max_np > 0 && g->size > c->max_np))
        check_fail(s, "generation %llu has %u workers (min %u, max %u)",
                   ULL(g->generation), g->size, c->min_np, c->max_np);
    if (g->generation == 1 && g->size < c->np &&
        driver_now(s) - s->driver.config.start_timeout_us <
            s->driver.patience_us)
        check_fail(s, "generation 1 has %u workers of %u", g->size, c->np);
    for (uint32_t rank = 0; rank < g->size; rank++) {
        g->entries[rank] = table->entries[rank];
        g->members[rank] = table->entries[rank].worker;
        g->sources[rank] = table->entries[rank].source;
        check_member(s, g, rank);
    }
    if (s->driver.counts.newcomers > 0)
        sim_cover(s, COVER_spare);
    if (!s->options.large) /* quadratic */
        check_abilities(s, table);
    check_assigns(s, g, actions, n);
    check_root(s, g);
    check_base(s, g);
}

/* ---- a driver has taken over --------------------------------------------- */

static bool is_calm(const struct sim *s)
{
    const uint64_t *cover = s->result->cover;

    return s->plan.loss_in == 0 &&
           cover[COVER_stopped] + cover[COVER_agent_stopped] +
                   cover[COVER_agent_died] + cover[COVER_agent_silent] +
                   cover[COVER_partition] + cover[COVER_partition_one_way] +
                   cover[COVER_driver_cut] + cover[COVER_all_cut] +
                   cover[COVER_connections_died] + cover[COVER_host_paused] +
                   cover[COVER_all_paused] + cover[COVER_clock_stepped] +
                   cover[COVER_message_lost] ==
               0;
}

/* A failure that a successor hears of may have its host blacklisted, and all
 * others there killed (M11). */
static bool is_banned(const struct sim *s, const struct sim_worker *w)
{
    const struct driver_worker *dw = driver_worker(&s->driver, w->id);

    return dw && driver_host_of(&s->driver, dw)->blacklist.listed;
}

/* All its members live, and train in it. */
static bool is_whole(struct sim *s, const struct sim_generation *g)
{
    for (uint32_t rank = 0; rank < g->size; rank++) {
        const struct sim_worker *w = sim_worker(s, g->members[rank]);

        if (!process_runs(w) || w->generation != g->generation || w->out ||
            w->comm.status != HVD_OK || w->app == APP_GONE ||
            w->core.fence >= g->generation || is_banned(s, w))
            return false;
    }
    return true;
}

/* Of what nobody alive has heard, nobody can tell a successor. */
static uint64_t newest_told(struct sim *s)
{
    uint64_t newest = 0;

    for (size_t i = 0; i < s->n_workers; i++) {
        const struct sim_worker *w = sim_worker(s, i);

        if (w && w->alive && w->core.generation > newest)
            newest = w->core.generation;
    }
    return newest;
}

/* A generation that goes on has the members and the ranks that it had. */
static void check_gone_on(struct sim *s)
{
    const struct driver *d = &s->driver;
    const struct sim_generation *g = sim_generation(s, d->generation);

    sim_cover(s, COVER_went_on);
    if (!g || newest_told(s) > d->generation)
        check_fail(s, "generation %llu goes on, which is not the newest",
                   ULL(d->generation));
    for (uint32_t rank = 0; rank < g->size; rank++) {
        const struct driver_worker *dw = driver_worker(d, g->members[rank]);

        if (!dw || worker_is_dead(dw) || !worker_is_enlisted(dw) ||
            dw->rank != rank)
            check_fail(s, "generation %llu goes on without w%llu as rank %u",
                       ULL(d->generation), ULL(g->members[rank]), rank);
    }
}

/* Whoever comes now is a newcomer, whatever he was before. */
static void forget_late(struct sim *s)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, i);
        const struct driver_worker *dw = driver_worker(&s->driver, i);

        if (w && w->alive && (!dw || !dw->greeted))
            w->joined = 0;
    }
}

/* What a step did that began before it was known who is there. */
void check_adopted(struct sim *s, const struct driver_action *actions, size_t n)
{
    const struct driver *d = &s->driver;
    const struct sim_generation *newest = check_before(s, s->n_generations);

    for (size_t i = 0; i < n; i++)
        if (actions[i].type == DRIVER_ACT_SEND &&
            actions[i].u.message.type == MSG_ASSIGN)
            check_fail(s, "a successor forms a generation before all is known");
    if (d->phase == DRIVER_RUNNING)
        check_gone_on(s);
    forget_late(s);
    if (d->phase != DRIVER_RENDEZVOUS)
        return;
    sim_cover(s, COVER_had_ended);
    if (newest && is_calm(s) && is_whole(s, newest))
        check_fail(s, "generation %llu is ended, and all its members live",
                   ULL(newest->generation));
}

static bool stays(const struct driver_worker *w)
{
    return worker_is_ready(w) && worker_is_here(w) && w->drain == DRAIN_NONE;
}

/* M12: the same members have failed before. A driver that was away looks when
 * it is back. */
bool check_may_pause(const struct sim *s, size_t members)
{
    static const uint64_t pauses_us[] = {0, SEC / 2, 5 * SEC / 2, 10 * SEC, 0};
    const struct driver *d = &s->driver;

    if (driver_now(s) >= d->next_tick_us)
        return true; /* it has been away, and looks in a moment */
    return d->alike < ARRAY_SIZE(pauses_us) && !d->committed &&
           members == d->world_size &&
           driver_now(s) - d->opened_us <= pauses_us[d->alike] + TICK_SLACK_US;
}

/* What the driver counts as it goes is what there is; and no rendezvous stays
 * open that may close (M6, M7: nobody waits for a newcomer). */
void check_driver(struct sim *s)
{
    const struct driver *d = &s->driver;
    size_t members = 0, ready = 0, live = 0, stay = 0, done = 0, newcomers = 0;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];
        bool member = worker_is_enlisted(w) && !worker_is_dead(w);

        members += member;
        ready += member && w->standing == STAND_READY;
        done += member && w->standing == STAND_DONE;
        stay += stays(w);
        newcomers += stays(w) && !worker_is_enlisted(w);
        live += worker_is_here(w) && w->drain == DRAIN_NONE;
    }
    if (members != d->counts.members || ready != d->counts.ready ||
        done != d->counts.done || live != d->counts.live ||
        newcomers != d->counts.newcomers)
        check_fail(s, "the driver has counted wrongly");
    if (d->phase == DRIVER_RENDEZVOUS && d->generation > 0 &&
        ready == members && stay >= d->config.min_np &&
        !check_may_pause(s, members))
        check_fail(s, "all are READY, but the rendezvous stays open");
    check_recovery(s);
}

/* M7: newcomers interrupt nobody before the generation has something to keep: a
 * commit, or a boundary, where it would commit. */
void check_hold(struct sim *s, const struct message *m)
{
    const struct sim_generation *g = sim_generation(s, m->generation);

    if (m->u.hold.flags & HOSTS_REMOVED || m->u.hold.flags == 0)
        return; /* 0: for who was held by a driver that has died */
    for (uint32_t rank = 0; rank < g->size; rank++) {
        const struct sim_worker *w = sim_worker(s, g->members[rank]);

        if (w->generation > g->generation || w->committed_here ||
            atomic_load(&w->process.boundary) > 0)
            return;
    }
    check_fail(s,
               "HOLD for newcomers before generation %llu has a boundary "
               "behind it",
               ULL(g->generation));
}

/* It is in user code, and has been for so long; or has been until a moment ago,
 * which its next heartbeat will tell. */
static bool computes_for(const struct sim *s, const struct sim_worker *w,
                         uint64_t us)
{
    uint64_t way_us = s->driver_config.heartbeat_us + plan_slack_us(s);

    if (w->computed_us >= us && s->now_us - w->busy_until_us < way_us)
        return true;
    return w->app == APP_COMPUTING && s->now_us - w->busy_since_us >= us;
}

/* It has yet to reach the boundary, or its READY is on its way. */
static bool computed_lately(const struct sim *s, const struct sim_worker *w)
{
    uint64_t way_us = plan_slack_us(s);

    if (s->plan.loss_in > 0)
        way_us += 3 * s->driver_config.heartbeat_us;
    return w->app == APP_COMPUTING || s->now_us - w->busy_until_us < way_us;
}

/* So many losses in a row are to be had in a few thousand runs. */
enum { LOST_BEATS = 10 };

/* What the options of this job say about a worker that did nothing wrong. */
static bool may_evict(const struct sim *s, const struct sim_worker *w,
                      const char *why)
{
    const struct driver_config *c = &s->driver_config;

    if (starts_with(why, "has stopped"))
        return s->plan.loss_in > 0;
    if (strstr(why, "--elastic-timeout"))
        return computed_lately(s, w) ||
               (s->plan.loss_in > 0 &&
                c->elastic_timeout_us < LOST_BEATS * c->heartbeat_us);
    if (strstr(why, "took over"))
        return s->plan.loss_in > 0;
    if (strstr(why, "--hang-timeout")) /* who ignores a loss computes on */
        return s->plan.loss_in > 0 || w->strays ||
               computes_for(s, w, c->hang_timeout_us);
    return true;
}

/* It was told to go, by a driver that has died, and says nothing any more. Not
 * by a release: that is a verdict, which every successor knows. */
static bool has_left(const struct sim_worker *w)
{
    return w->core.phase == WORKER_LEFT && !w->core.is_leaving &&
           w->core.verdict != WORKER_RELEASED;
}

/* Nobody is evicted who did nothing but train: who was neither stopped nor cut
 * off comes to every rendezvous in time, and is heard where nothing is lost. */
void check_eviction(struct sim *s, const struct driver_record *r)
{
    const struct sim_worker *w = sim_worker(s, r->worker);

    if (w && starts_with(r->text, "was accused") && !w->disputed)
        check_fail(s, "w%llu is evicted by hearsay", ULL(w->id));
    if (!w || !process_runs(w) || w->resume_us > 0 ||
        s->hosts[w->host].cut_up_us > 0 || s->hosts[w->host].cut_down_us > 0)
        return;
    if (w->core.verdict == WORKER_DRIVER_GONE)
        return; /* it has given the driver up, and ends */
    if (strstr(r->text, "took over") && has_left(w))
        return; /* the word of it was lost, and a farewell lasts 5 s only */
    if (starts_with(r->text, "is on a blacklisted host")) {
        if (!s->driver_config.strict_blacklist)
            check_fail(s, "w%llu is ended for another's failure", ULL(w->id));
        return; /* Horovod's rule */
    }
    if (!may_evict(s, w, r->text))
        check_fail(s, "w%llu is evicted for no reason: it %s", ULL(w->id),
                   r->text);
}

void check_slot(struct sim *s, const struct sim_worker *w)
{
    for (size_t i = 0; i < s->n_workers && !s->options.large; i++) {
        const struct sim_worker *other = sim_worker(s, i);

        if (other && other != w &&
            (other->alive || other->gone_us > s->now_us) &&
            other->agent == w->agent && other->slot == w->slot)
            check_fail(s, "w%llu is started in slot %u, where w%llu lives",
                       ULL(w->id), w->slot, ULL(other->id));
    }
}
