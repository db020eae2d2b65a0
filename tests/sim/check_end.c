/* check_end.c - the invariants of how a job ends: who may be released, which
 * failures are legal, and that nothing is left behind. */
#include <stdio.h>
#include <string.h>

#include "world.h"

#define ULL(x) ((unsigned long long)(x))

/* ---- the end ------------------------------------------------------------- */

void check_release(struct sim *s)
{
    struct sim_generation *g = sim_generation(s, s->driver.generation);
    const struct sim_worker *first = NULL;

    for (uint32_t rank = 0; g && rank < g->size; rank++) {
        const struct sim_worker *w = sim_worker(s, g->members[rank]);
        const struct driver_worker *dw = driver_worker(&s->driver, w->id);

        if (!w->alive || !dw || worker_is_dead(dw) ||
            w->core.verdict == WORKER_DRIVER_GONE || /* it was DONE, and ends */
            w->core.verdict == WORKER_RELEASED)      /* by the driver before */
            continue;
        if (w->app != APP_DONE || w->generation != g->generation)
            check_fail(s, "RELEASE before w%llu is DONE", ULL(w->id));
        if (w->snap.steps != s->plan.steps)
            check_fail(s, "w%llu is released after %llu steps of %llu",
                       ULL(w->id), ULL(w->snap.steps), ULL(s->plan.steps));
        if (first && (first->snap.hash != w->snap.hash ||
                      !state_id_equal(first->id_of, w->id_of)))
            check_fail(s, "w%llu and w%llu are released with different states",
                       ULL(first->id), ULL(w->id));
        first = w;
    }
}

static bool has(const char *text, const char *words)
{
    return strstr(text, words) != NULL;
}

static bool was_cut(const uint64_t *cover)
{
    return cover[COVER_partition] + cover[COVER_partition_one_way] +
               cover[COVER_driver_cut] + cover[COVER_all_cut] +
               cover[COVER_connections_died] >
           0;
}

/* Somebody has died or was absent. */
static bool was_disturbed(const uint64_t *cover)
{
    return cover[COVER_deaths] + cover[COVER_stopped] +
                   cover[COVER_driver_stalled] + cover[COVER_driver_died] +
                   cover[COVER_driver_given_up] + cover[COVER_hung_epilogue] +
                   cover[COVER_agent_died] + cover[COVER_agent_silent] +
                   cover[COVER_agent_stopped] + cover[COVER_host_went] +
                   cover[COVER_slot_bad] + cover[COVER_booted] +
                   cover[COVER_told_twice] >
               0 ||
           was_cut(cover);
}

/* Too few were there while faults were allowed, or lasted; afterwards there is
 * room for all and nothing fails: once who is gone has been noticed, they need
 * no longer than this to come up. */
static bool was_short(const struct sim *s)
{
    return s->short_since_us < s->calm_us +
                                   s->driver_config.heartbeat_timeout_us +
                                   CHECK_COME_UP_US;
}

/* As far as this driver knows: a journal may have lost what the one before
 * did. */
static bool has_not_begun(const struct sim *s)
{
    return s->n_generations == 0 || (s->result->cover[COVER_driver_died] > 0 &&
                                     s->driver.generation == 0);
}

/* A failure that the world of this run explains. */
static bool is_legal(struct sim *s, const char *text)
{
    const uint64_t *cover = s->result->cover;

    if (cover[COVER_user_failed] > 0)
        return true;
    if (has(text, "--exit-timeout") && (s->plan.loss_in > 0 || was_cut(cover)))
        return true; /* the word of its end was lost for so long */
    if (has(text, "had finished, but then"))
        return cover[COVER_hung_epilogue] + cover[COVER_unkillable] > 0 ||
               (s->released && was_disturbed(cover));
    if (has(text, "interrupted"))
        return cover[COVER_interrupted] > 0;
    if (has(text, "layouts differ"))
        return s->n_generations == 0;
    if (starts_with(text, "only ")) /* or slots that stay closed */
        return was_short(s) || cover[COVER_layout_differs] > 0 ||
               cover[COVER_cannot_enter] + cover[COVER_damaged_sync] +
                       cover[COVER_size_differs] >
                   0;
    if (has(text, "entry 'w'"))
        return cover[COVER_size_differs] > 0;
    if (has(text, "cannot enter")) /* no elder was left */
        return cover[COVER_cannot_enter] > 0;
    if (has(text, "reset"))
        return s->driver_config.reset_limit >= 0;
    if (starts_with(text, "no worker has made progress")) /* they compute on */
        return cover[COVER_ignored_loss] + cover[COVER_ignored_cut] +
                   cover[COVER_computed_long] >
               0;
    if (starts_with(text, "no progress"))
        return cover[COVER_generations] >= 5;
    if (has(text, "state"))
        return !s->state_left;
    if (starts_with(text, "too few slots"))
        return s->driver_config.hosts_fixed && s->n_generations == 0 &&
               cover[COVER_slot_closed] + cover[COVER_start_failed] > 0;
    if (has(text, "every host is blacklisted") ||
        has(text, "every slot is closed"))
        return s->all_closed;
    if (has(text, "cannot start")) /* none of a fixed list has the program */
        return s->driver_config.hosts_fixed && cover[COVER_barren] > 0 &&
               s->n_generations == 0;
    return has(text, "no worker became ready") && s->all_closed &&
           has_not_begun(s);
}

void check_finish(struct sim *s, int status, const char *text)
{
    snprintf(s->result->verdict, sizeof(s->result->verdict), "%s", text);
    s->result->status = status;
    s->finished = true;
    if (status == 0) {
        sim_cover(s, COVER_succeeded);
        if (!s->released)
            check_fail(s, "success without a RELEASE: %s", text);
        return;
    }
    sim_cover(s, COVER_failed);
    if (text[0] == '\0')
        check_fail(s, "the job fails without a sentence");
    if (!is_legal(s, text))
        check_fail(s, "the job fails without a reason: %s", text);
}

/* Its agents outlive a driver that gives up waiting only until they find their
 * lifeline cut. */
void check_end(struct sim *s)
{
    if (driver_now(s) >= s->driver.give_up_us)
        return;
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct sim_worker *w = sim_worker(s, i);
        const struct sim_agent *agent = w ? sim_agent(s, w->agent) : NULL;

        if (agent && !agent->met && s->plan.survives)
            continue; /* whom nobody knows any more ends by --driver-timeout */
        if (agent && w->alive && agent->runs && !agent->stopping)
            check_fail(s, "w%llu outlives the job", ULL(w->id));
    }
}

static bool waits(const struct sim_worker *w)
{
    return w && w->alive && !w->stopped;
}

bool check_is_left(const struct sim *s)
{
    bool any = false;

    for (size_t i = 0; i < s->n_workers; i++)
        any |= waits(s->workers[i]);
    for (size_t i = 0; i < s->n_agents; i++)
        any |= s->agents[i] && s->agents[i]->runs && !s->agents[i]->stopped;
    return any;
}

void check_aftermath(struct sim *s)
{
    for (size_t i = 0; i < s->n_workers; i++)
        if (waits(s->workers[i]))
            check_fail(s, "w%zu waits for ever: no driver is there", i);
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i] && s->agents[i]->runs && !s->agents[i]->stopped)
            check_fail(s, "agent %zu waits for ever: no driver is there", i);
}

/* A process that gives the driver up has not heard of it for --driver-timeout,
 * besides the time for which the process was stopped: the driver was absent,
 * the network cut, or it lost messages. */
void check_driver_is_lost(struct sim *s, uint32_t host, uint64_t absent_us,
                          const char *who)
{
    const struct sim_host *h = &s->hosts[host];
    uint64_t limit_us = s->driver_config.driver_timeout_us + absent_us;
    uint64_t since_us = s->now_us > limit_us ? s->now_us - limit_us : 0;

    if (s->finished)
        return;
    sim_cover(s, COVER_driver_given_up);
    if ((s->driver_died_us > 0 && s->driver_died_us >= since_us) ||
        s->stalled_until_us >= since_us || s->slow_until_us >= since_us ||
        h->cut_up_us >= since_us || h->cut_down_us >= since_us ||
        s->plan.loss_in > 0)
        return;
    /* a successor that has lost its record answers when its agent, which may
     * have been stopped, has spoken for it */
    if (s->driver_config.term > 1 && s->result->cover[COVER_agent_stopped] > 0)
        return;
    check_fail(s, "%s on %s gives up a driver that was there", who, h->name);
}
