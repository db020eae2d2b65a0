/* elastic/driver/doubt.c - hosts that others may not reach: the driver asks
 * their agents, and starts no worker there until they do (M5, M7). See core.h.
 * Pure. */
#include "elastic/driver/core_internal.h"

static void ask_doubt(struct driver *d, struct driver_host *host,
                      uint64_t limit_us)
{
    struct driver_action *a = action_add(d, DRIVER_ACT_DOUBT);

    host->doubt_us = 0;
    a->agent = host->agent;
    a->u.doubt.other = host->doubted_by;
    a->u.doubt.limit_us = limit_us;
}

static void doubt(struct driver *d, struct driver_host *host,
                  const struct driver_host *other, uint64_t limit_us)
{
    host->doubted_by = other->agent;
    ask_doubt(d, host, limit_us);
}

void host_doubt(struct driver *d, struct driver_host *host,
                const struct driver_host *other)
{
    if (!d->config.doubts || host->agent_phase != AGENT_UP)
        return;
    host->rest_due = host->n_evicted++ > 0;
    doubt(d, host, other, 0);
}

void doubt_forget(struct driver *d, struct driver_host *host)
{
    d->recheck |= host->awaited;
    host->awaited = false;
    host->doubted_by = host->doubt_us = 0;
}

void doubt_end(struct driver *d, struct driver_host *host)
{
    doubt_forget(d, host);
    host->n_apart = 0;
    d->recheck = d->replace = true;
}

/* ---- before the next generation ------------------------------------------ */

static struct driver_host *host_of_id(struct driver *d, uint64_t worker)
{
    const struct driver_worker *w = worker_find(d, worker);

    return w && !worker_is_dead(w) ? host_of(d, w) : NULL;
}

/* An accusation between living workers of two hosts whose agents run. */
struct quarrel {
    struct driver_host *by, *of;
};

static bool quarrel_of(struct driver *d, size_t i, struct quarrel *q)
{
    if (!accusation_counts(d, &d->accused[i]))
        return false;
    q->by = host_of_id(d, d->accused[i].by);
    q->of = host_of_id(d, d->accused[i].of);
    return q->by && q->of && q->by != q->of && q->by->agent_phase == AGENT_UP &&
           q->of->agent_phase == AGENT_UP;
}

/* The other host of that quarrel, or NULL if this one has no part in it. */
static const struct driver_host *opponent(struct driver *d, size_t i,
                                          const struct driver_host *host)
{
    struct quarrel q;

    if (!quarrel_of(d, i, &q))
        return NULL;
    return q.by == host ? q.of : q.of == host ? q.by : NULL;
}

static bool is_known(struct driver *d, size_t i, const struct driver_host *host,
                     const struct driver_host *other)
{
    for (size_t k = 0; k < i; k++)
        if (opponent(d, k, host) == other)
            return true;
    return false;
}

/* So many other hosts and this one have lost each other: their workers quarrel
 * now, or the other host was removed before and has yet to reach this one. */
static size_t count_losses(struct driver *d, const struct driver_host *host)
{
    const struct driver_host *other;
    size_t n = 0;

    for (size_t i = 0; i < d->n_accused; i++) {
        other = opponent(d, i, host);
        n += other && !is_known(d, i, host, other);
    }
    for (size_t i = 0; i < d->n_hosts; i++)
        n += d->hosts[i].doubted_by == host->agent && !d->hosts[i].awaited;
    return n;
}

static uint64_t oldest_on(struct driver *d, const struct driver_host *host)
{
    uint64_t joined = UINT64_MAX;
    struct driver_worker *w = NULL;

    while ((w = next_on_host(d, host, w)) != NULL)
        if (is_member(w) && w->joined < joined)
            joined = w->joined;
    return joined;
}

/* Without it nobody holds the state. */
static bool is_needed(const struct driver *d, const struct driver_host *host)
{
    return d->ever_committed && !base_is_held(d, host);
}

/* Which of two hosts goes if they do not reach each other? The one without
 * which the state is still held; then the one that has lost more hosts; then
 * the one with fewer workers; then the younger. */
static bool goes_first(struct driver *d, const struct driver_host *a,
                       const struct driver_host *b)
{
    size_t n_a = count_losses(d, a), n_b = count_losses(d, b);
    uint64_t old_a, old_b;

    if (is_needed(d, a) != is_needed(d, b))
        return is_needed(d, b);
    if (n_a != n_b)
        return n_a > n_b;
    if (a->n_workers != b->n_workers)
        return a->n_workers < b->n_workers;
    old_a = oldest_on(d, a);
    old_b = oldest_on(d, b);
    return old_a != old_b ? old_a > old_b : a->order > b->order;
}

/* The agents have as long as a silence may last, two SYNs at least. */
static uint64_t answer_limit(const struct driver *d)
{
    return later_of(d->config.heartbeat_timeout_us, ANSWER_MIN_US);
}

static void ask_about(struct driver *d, const struct quarrel *q)
{
    bool of_goes = goes_first(d, q->of, q->by);
    struct driver_host *goes = of_goes ? q->of : q->by;

    doubt(d, goes, of_goes ? q->by : q->of, answer_limit(d));
    goes->awaited = true;
    goes->doubt_us = d->now_us + answer_limit(d) + ANSWER_SLACK_US;
}

/* The quarrel of the host that has lost most others is asked about first: its
 * other quarrels need no question of their own. */
static bool ask_next(struct driver *d)
{
    struct quarrel q, worst = {NULL, NULL};
    size_t n, most = 0;

    for (size_t i = 0; i < d->n_accused; i++) {
        if (!quarrel_of(d, i, &q) || q.by->awaited || q.of->awaited)
            continue;
        n = later_of(count_losses(d, q.of), count_losses(d, q.by));
        if (n > most) {
            worst = q;
            most = n;
        }
    }
    if (worst.of)
        ask_about(d, &worst);
    return worst.of != NULL;
}

static void ask_all(struct driver *d)
{
    d->asked_generation = d->generation;
    for (size_t i = 0; i < d->n_hosts; i++)
        d->hosts[i].awaited = false;
    while (ask_next(d))
        continue;
}

bool doubts_pending(struct driver *d)
{
    if (!d->config.doubts || !d->aborted)
        return false;
    if (d->asked_generation != d->generation)
        ask_all(d);
    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].awaited)
            return true;
    return false;
}

/* The two do not reach each other: all of its workers go at once, and no
 * failure is counted. */
static void remove_host(struct driver *d, struct driver_host *host,
                        const char *why)
{
    char how[WIRE_TEXT_MAX];
    struct text t = text_into(how, sizeof(how));

    host->awaited = false;
    text_add(&t, "is on a host that is cut off: ");
    text_add(&t, why);
    host_end_workers(d, host, how);
    d->recheck = true;
}

/* ---- when the answer has come -------------------------------------------- */

/* How long a host is left alone at the n-th time: longer each time. */
static uint64_t rest_of(uint32_t n)
{
    return (uint64_t)APART_REST_US
           << (n < APART_DOUBLINGS ? n : APART_DOUBLINGS);
}

static void leave_alone(struct driver *d, struct driver_host *host,
                        uint64_t rest_us)
{
    action_add(d, DRIVER_ACT_KILL_AGENT)->agent = host->agent;
    agent_move(d, host, AGENT_NONE);
    d->recheck = d->replace = true;
    host->start_us = d->now_us + rest_us;
}

static void tell_apart(struct driver *d, const struct driver_host *host,
                       uint64_t rest_us, const char *why)
{
    struct driver_record *r = record_add(d, RECORD_HOST_APART);
    struct text t = text_into(r->text, sizeof(r->text));

    r->host = host->name;
    r->duration_us = rest_us;
    text_add(&t, why);
    t = text_into(d->last_failure, sizeof(d->last_failure));
    text_add(&t, why);
}

/* No failure of its own: nobody ran there, or it is the network's. It is tried
 * again, as networks are mended. */
void on_agent_apart(struct driver *d, uint64_t agent, const char *why)
{
    struct driver_host *host = host_of_agent(d, agent);
    uint64_t rest_us;

    if (!host || (host->agent_phase != AGENT_STARTING && host->doubted_by == 0))
        return;
    rest_us = rest_of(host->n_apart++);
    if (host->agent_phase == AGENT_STARTING)
        leave_alone(d, host, rest_us);
    else
        host->doubt_us = d->now_us + rest_us;
    if (host->awaited)
        remove_host(d, host, why);
    tell_apart(d, host, rest_us, why);
}

static const char *name_of_agent(struct driver *d, uint64_t agent)
{
    const struct driver_host *host = host_of_agent(d, agent);

    return host ? host->name : "another";
}

/* The two agents reach each other. If a second worker in a row was evicted
 * there all the same, and none of its generations has committed meanwhile, a
 * replacement would only end one generation after the other. */
void doubt_answered(struct driver *d, struct driver_host *host)
{
    uint64_t rest_us;
    char why[WIRE_TEXT_MAX];
    struct text t = text_into(why, sizeof(why));

    if (!host->rest_due) {
        doubt_end(d, host);
        return;
    }
    rest_us = rest_of(host->n_evicted - 2u);
    d->recheck |= host->awaited;
    host->awaited = host->rest_due = false;
    host->doubt_us = d->now_us + rest_us;
    text_add(&t, "its workers and those of host ");
    text_add(&t, name_of_agent(d, host->doubted_by));
    text_add(&t, " lose each other, though the agents of the two reach each "
                 "other: does a firewall between them pass all ports "
                 "(--data-ports)?");
    tell_apart(d, host, rest_us, why);
}

static bool is_in_use(const struct driver_host *host)
{
    return host->agent_phase == AGENT_UP && host->doubted_by == 0 &&
           host->n_workers > 0;
}

/* The host that this one must reach to be used again. If that one is in doubt
 * itself, a host in use takes its place. NULL: there is none. */
static struct driver_host *partner_of(struct driver *d,
                                      const struct driver_host *host)
{
    struct driver_host *other = host_of_agent(d, host->doubted_by);

    if (!other || other->doubted_by == 0)
        return other;
    for (size_t i = 0; i < d->n_hosts; i++)
        if (is_in_use(&d->hosts[i]))
            return &d->hosts[i];
    return NULL;
}

void doubt_tick(struct driver *d, struct driver_host *host)
{
    const struct driver_host *other;

    if (host->doubt_us == 0 || d->now_us < host->doubt_us)
        return;
    other = partner_of(d, host);
    if (host->awaited || !other)
        doubt_end(d, host); /* no answer: heartbeats judge the two */
    else
        doubt(d, host, other, 0);
}
