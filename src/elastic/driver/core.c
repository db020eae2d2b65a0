/* elastic/driver/core.c - the door of the driver's core: one event in, actions
 * out. The rules live in the files that core.h lists. Pure. */
#include <string.h>

#include "base/stall.h"
#include "elastic/driver/core_internal.h"

bool driver_init(struct driver *d, const struct driver_config *config,
                 uint64_t now_us)
{
    memset(d, 0, sizeof(*d));
    d->config = *config;
    d->random.s = config->seed;
    d->now_us = d->opened_us = d->patience_us = d->below_us = now_us;
    d->next_tick_us = now_us + TICK_US;
    d->next_worker = d->next_agent = 1;
    d->wave = 1;
    d->reason = READY_START;
    d->drained_us = d->exit_deadline_us = d->give_up_us = d->linger_us =
        DRIVER_NEVER;
    return rows_init(d);
}

void driver_fini(struct driver *d)
{
    rows_fini(d);
    memset(d, 0, sizeof(*d));
}

/* ---- events -------------------------------------------------------------- */

static uint32_t digest(const char *text)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 16777619u;
    return h;
}

/* It may fail every time: one line in a while, and at once after a success. So
 * is another error than the last, some times. */
static void tell_discovery_bad(struct driver *d, const char *text)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (d->now_us >= d->quiet_us) {
        d->quiet_us = d->now_us + DISCOVERY_QUIET_US;
        d->n_bad = 0;
    } else if (digest(text) == d->bad || d->n_bad == DISCOVERY_BAD_MAX) {
        return;
    }
    d->bad = digest(text);
    d->n_bad++;
    text_add(&t, d->discovered
                     ? "discovery failed, the last hosts are kept: "
                     : "discovery failed, and no hosts are known -> "
                       "it is tried until --elastic-timeout is over: ");
    text_add(&t, text);
    record_warning(d, buf);
}

static hvd_status_t on_discovery_bad(struct driver *d, const char *text,
                                     bool lasts)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (d->discovered || !lasts) {
        tell_discovery_bad(d, text);
        if (!d->discovered) {
            t = text_into(d->last_failure, sizeof(d->last_failure));
            text_add(&t, text);
        }
        return HVD_OK;
    }
    text_add(&t, "the first discovery failed: ");
    text_add(&t, text);
    job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
    return HVD_OK;
}

static hvd_status_t on_message(struct driver *d, const struct message *m)
{
    if (m->job != d->config.job)
        return HVD_ERR_INVALID;
    if (m->term != 0 && m->term != d->config.term)
        return HVD_OK; /* M1: meant for another driver of this job */
    on_worker_message(d, m);
    return HVD_OK;
}

/* Its members would wait for ever. */
static void on_unsayable(struct driver *d, uint64_t generation,
                         const char *text)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (generation != d->generation)
        return;
    text_add(&t, "generation ");
    text_u64(&t, generation);
    text_add(&t, " cannot be formed: ");
    text_add(&t, text);
    job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
}

static void forgive(const struct driver *d, uint64_t *since_us_p,
                    uint64_t late_us)
{
    if (*since_us_p < d->now_us) /* else it is to come, or never was */
        *since_us_p = stall_forgive(*since_us_p, late_us, d->now_us);
}

static void put_off(uint64_t *deadline_us_p, uint64_t late_us)
{
    if (*deadline_us_p != DRIVER_NEVER)
        *deadline_us_p += late_us;
}

static void forgive_worker(const struct driver *d, struct driver_worker *w,
                           uint64_t late_us)
{
    forgive(d, &w->heard_us, late_us);
    forgive(d, &w->spawned_us, late_us);
    forgive(d, &w->progress_us, late_us);
    put_off(&w->drain_by.spare_us, late_us);
    put_off(&w->drain_by.deadline_us, late_us);
    if (w->kill_us != 0)
        put_off(&w->kill_us, late_us);
}

static void forgive_stall(struct driver *d, uint64_t late_us)
{
    forgive(d, &d->below_us, late_us);
    forgive(d, &d->patience_us, late_us);
    forgive(d, &d->fruitless_us, late_us);
    put_off(&d->drained_us, late_us);
    put_off(&d->exit_deadline_us, late_us);
    put_off(&d->give_up_us, late_us);
    d->adopt_us += late_us;
    for (size_t i = 0; i < d->n_workers; i++)
        forgive_worker(d, &d->workers[i], late_us);
    for (size_t i = 0; i < d->n_hosts; i++) {
        forgive(d, &d->hosts[i].agent_heard_us, late_us);
        forgive(d, &d->hosts[i].back_us, late_us);
        forgive(d, &d->hosts[i].heard_us, late_us);
    }
}

/* With the first event behind it: what that one sets is not put off. */
static void notice_stall(struct driver *d)
{
    uint64_t late_us = stall_of(d->next_tick_us, d->now_us);

    if (late_us == 0)
        return;
    forgive_stall(d, late_us);
    d->next_tick_us = d->now_us; /* still due, once all has been read */
}

static void on_timeout(struct driver *d)
{
    if (d->now_us < d->next_tick_us)
        return;
    d->next_tick_us = d->now_us + TICK_US;
    if (d->n_gone > 0)
        workers_compact(d);
    if (d->n_listed < d->n_hosts)
        hosts_compact(d);
    adopt_tick(d);
    if (d->phase != DRIVER_ADOPTING) {
        silence_tick(d);
        members_tick(d);
        placement_tick(d);
        rendezvous_tick(d);
        finish_tick(d);
    }
    d->recheck = d->replace = true;
}

static hvd_status_t dispatch(struct driver *d, const struct driver_event *ev)
{
    switch (ev->type) {
    case DRIVER_EV_HOSTS:
        return on_hosts(d, ev->u.hosts);
    case DRIVER_EV_DISCOVERY_BAD:
        return on_discovery_bad(d, ev->u.discovery.text, ev->u.discovery.lasts);
    case DRIVER_EV_AGENT_UP:
        on_agent_up(d, ev->u.agent.agent, ev->u.agent.pid, ev->u.agent.host);
        return HVD_OK;
    case DRIVER_EV_AGENT_REFUSED:
        on_agent_refused(d, ev->u.agent.agent, ev->u.agent.text);
        return HVD_OK;
    case DRIVER_EV_OTHER_BUILD:
        on_other_build(d, ev->u.agent.agent, ev->u.agent.text);
        return HVD_OK;
    case DRIVER_EV_AGENT_PING:
        on_agent_ping(d, ev);
        return HVD_OK;
    case DRIVER_EV_NOTICE:
        on_notice(d, ev->u.agent.agent, ev->u.agent.left_us, ev->u.agent.text);
        return HVD_OK;
    case DRIVER_EV_AGENT_GONE:
        on_agent_gone(d, ev->u.agent.agent, ev->u.agent.text, ev->u.agent.here);
        return HVD_OK;
    case DRIVER_EV_AGENT_APART:
        on_agent_apart(d, ev->u.agent.agent, ev->u.agent.text);
        return HVD_OK;
    case DRIVER_EV_SPAWNED:
        on_spawned(d, ev->by, &ev->u.spawned);
        return HVD_OK;
    case DRIVER_EV_SPAWN_FAILED:
        on_spawn_failed(d, ev->by, &ev->u.spawn_failed);
        return HVD_OK;
    case DRIVER_EV_DYING:
        on_dying(d, ev->by, &ev->u.exited);
        return HVD_OK;
    case DRIVER_EV_EXITED:
        on_exited(d, ev->by, &ev->u.exited);
        return HVD_OK;
    case DRIVER_EV_MESSAGE:
        return on_message(d, ev->u.message);
    case DRIVER_EV_UNFIT:
        on_unfit(d, ev->by, ev->u.unfit);
        return HVD_OK;
    case DRIVER_EV_UNSAYABLE:
        on_unsayable(d, ev->u.unsayable.generation, ev->u.unsayable.text);
        return HVD_OK;
    case DRIVER_EV_INTERRUPT:
        on_interrupt(d, ev->u.signal);
        return HVD_OK;
    case DRIVER_EV_TIMEOUT:
        on_timeout(d);
        return HVD_OK;
    }
    return HVD_ERR_INVALID;
}

void driver_move(struct driver *d, enum driver_phase to)
{
    static const unsigned moves[] = {
        [DRIVER_WAITING] = MOVE(DRIVER_RUNNING) | MOVE(DRIVER_STOPPING) |
                           MOVE(DRIVER_ADOPTING),
        [DRIVER_RENDEZVOUS] = MOVE(DRIVER_RUNNING) | MOVE(DRIVER_STOPPING),
        [DRIVER_RUNNING] = MOVE(DRIVER_RENDEZVOUS) | MOVE(DRIVER_STOPPING),
        [DRIVER_ADOPTING] = MOVE(DRIVER_WAITING) | MOVE(DRIVER_RUNNING) |
                            MOVE(DRIVER_RENDEZVOUS) | MOVE(DRIVER_STOPPING),
        [DRIVER_STOPPING] = MOVE(DRIVER_STOPPED),
        [DRIVER_STOPPED] = 0,
    };

    HVD_ASSERT(moves_allow(moves, d->phase, to));
    d->phase = to;
}

/* What follows from what has changed; each rule may make the next one due. Ends
 * because every turn that sets `recheck` again has moved a phase or a worker.
 */
static void progress(struct driver *d)
{
    bool replace;

    while (d->recheck && d->phase != DRIVER_STOPPED) {
        d->recheck = false;
        adopt_progress(d);
        finish_progress(d);
        rendezvous_progress(d);
        change_progress(d);
        replace = d->replace;
        d->replace = false;
        if (replace)
            placement_progress(d);
        else if (d->came_up != 0)
            placement_came_up(d, d->came_up);
        d->came_up = 0;
    }
}

hvd_status_t driver_step(struct driver *d, const struct driver_event *ev,
                         uint64_t now_us,
                         const struct driver_action **actions_p, size_t *n_p)
{
    hvd_status_t status = HVD_OK;

    HVD_ASSERT(now_us >= d->now_us);
    d->now_us = now_us;
    d->n_actions = 0;
    notice_stall(d);
    if (d->phase != DRIVER_STOPPED)
        status = dispatch(d, ev);
    progress(d);
    *actions_p = d->actions;
    *n_p = d->n_actions;
    return status;
}

/* ---- readers ------------------------------------------------------------- */

uint64_t driver_deadline(const struct driver *d)
{
    return d->phase == DRIVER_STOPPED ? DRIVER_NEVER : d->next_tick_us;
}

bool driver_adopts(const struct driver *d)
{
    return d->phase == DRIVER_ADOPTING ||
           (d->phase == DRIVER_STOPPING && d->unsure);
}

void driver_answer_all(struct driver *d, bool workers)
{
    d->config.answers_agents = true;
    d->config.answers |= workers;
}

const struct assign_table *driver_table_before(const struct driver *d)
{
    return &d->table_before;
}

const struct assign_table *driver_table(const struct driver *d)
{
    return &d->table;
}

size_t driver_n_hosts(const struct driver *d)
{
    const struct assign_entry *e = d->table.entries;
    size_t n = 0;

    for (size_t i = 0; i < d->table.n_entries; i++) /* ranks are host-major */
        n += i == 0 || e[i].host != e[i - 1].host;
    return n;
}

size_t driver_n_starting(const struct driver *d)
{
    return d->n_hosts_in[AGENT_STARTING];
}

const struct driver_worker *driver_worker(const struct driver *d, uint64_t id)
{
    return worker_find((struct driver *)(uintptr_t)d, id);
}

bool driver_runs(const struct driver *d, uint64_t agent, uint64_t worker)
{
    const struct driver_worker *w = driver_worker(d, worker);

    return w && d->hosts[w->host].agent == agent;
}

const struct driver_host *driver_host_of(const struct driver *d,
                                         const struct driver_worker *w)
{
    return &d->hosts[w->host];
}

const struct driver_slot *driver_slot(const struct driver *d,
                                      const struct driver_host *host,
                                      uint32_t slot)
{
    return slot < host->slots_max ? slot_at(d, host, slot) : NULL;
}

/* ... or what: M12 makes a pause. */
static void name_laggard(const struct driver *d, struct text *t)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_member(w) || worker_is_ready(w))
            continue;
        text_add(t, "waiting for rank ");
        text_u64(t, w->rank);
        text_add(t, ", ");
        text_worker(t, d, w);
        return;
    }
    if (d->alike > 0)
        text_add(t, "a pause, as the same workers have failed again");
}

void driver_waiting_for(const struct driver *d, uint64_t now_us, char *text,
                        size_t text_max)
{
    struct text t = text_into(text, text_max);
    size_t n = d->counts.members + d->counts.newcomers;

    if ((d->phase != DRIVER_WAITING && d->phase != DRIVER_RENDEZVOUS) ||
        now_us - d->opened_us < 5000000)
        return;
    if (n >= rendezvous_gate(d)) {
        name_laggard(d, &t);
        return;
    }
    text_add(&t, "waiting for workers: ");
    text_u64(&t, n);
    text_add(&t, " of ");
    text_u64(&t, rendezvous_gate(d));
}
