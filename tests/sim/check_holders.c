/* check_holders.c - the invariant of the job's state. After the first commit
 * the driver ends the last worker that holds the state (holders.c) only for a
 * limit that the user has set. */
#include <string.h>

#include "world.h"

#define ULL(x) ((unsigned long long)(x))

/* The base of the generation that the worker is in, or was in last. */
static struct state_id base_of(struct sim *s, const struct sim_worker *w)
{
    const struct sim_generation *g = sim_generation(s, w->core.generation);

    return g ? g->base : (struct state_id){0, 0};
}

/* The worker has a snapshot that is no older than this one. */
static bool has(const struct sim_worker *w, struct state_id base)
{
    return !state_id_is_none(w->id_of) && state_id_compare(w->id_of, base) >= 0;
}

/* A worker that the driver counts on has one; dead_too: or had, and the driver
 * cannot know yet that it has died. */
static bool is_held(struct sim *s, struct state_id base, bool dead_too)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct sim_worker *w = sim_worker(s, i);
        const struct driver_worker *dw = driver_worker(&s->driver, i);

        if (w && (w->alive || dead_too) && dw && worker_is_here(dw) &&
            has(w, base))
            return true;
    }
    return false;
}

bool check_state_is_left(struct sim *s)
{
    return is_held(s, (struct state_id){0, 0}, false);
}

static bool is_limit(const char *why)
{
    return strstr(why, "--hang-timeout") || strstr(why, "--elastic-timeout") ||
           strstr(why, "--stall-shutdown-time") ||
           strstr(why, "--start-timeout");
}

/* Silence of workers that are ahead is not waited for: a state that is heard
 * will do. */
static bool is_silence(const char *why)
{
    return starts_with(why, "has stopped") || strstr(why, "took over") ||
           starts_with(why, "died with its agent");
}

static bool is_of_agent(struct sim *s, const struct sim_worker *w,
                        const char *why)
{
    const struct sim_agent *agent = sim_agent(s, w->agent);

    return starts_with(why, "died with its agent") && agent && !agent->runs;
}

void check_holder_ends(struct sim *s, const struct driver_record *r)
{
    const struct driver *d = &s->driver;
    const struct sim_worker *w = sim_worker(s, r->worker);
    struct state_id base = {0, 0};

    if (w && !is_silence(r->text))
        base = base_of(s, w);
    if (!w || !w->alive || !d->ever_committed || !has(w, base))
        return;
    if (d->phase >= DRIVER_STOPPING && !strstr(d->verdict, "the state"))
        return; /* the same step ends the job for another reason */
    if (w->core.phase == WORKER_LEFT || is_limit(r->text) ||
        is_of_agent(s, w, r->text) || check_time_is_over(s, w, r))
        return;
    if (!is_held(s, base, true))
        check_fail(s, "w%llu is ended, which alone holds the state: it %s",
                   ULL(w->id), r->text);
}
