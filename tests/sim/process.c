/* process.c - the processes of the workers: birth, death, signals; SIGSTOP, and
 * the state in which a process cannot be killed. What they do while they run is
 * app.c. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

/* As the control thread has them until WELCOME (worker/control.c). */
enum { CONTACT_BEAT_US = 50000, CONTACT_TIMEOUT_US = 30000000 };

/* ---- birth --------------------------------------------------------------- */

static void core_begin(struct sim *s, struct sim_worker *w)
{
    struct worker_config config = {
        .job = s->driver_config.job,
        .worker = w->id,
        .heartbeat_us = CONTACT_BEAT_US,
        .driver_timeout_us = CONTACT_TIMEOUT_US,
        .term = succession_term(s),
    };

    config.hello.pid = (int64_t)w->pid;
    snprintf(config.hello.version, sizeof(config.hello.version), "sim");
    snprintf(config.hello.address, sizeof(config.hello.address), "127.0.0.1");
    config.hello.port = (uint16_t)(1024 + w->id % 60000);
    worker_core_init(&w->core, &config, host_now(s, w->host));
    w->tick_us = s->now_us;
    queue_push(&s->queue, s->now_us, EV_TICK)->a = w->id;
}

/* Most processes can do everything. Not drawn from the world's numbers: what
 * else happens does not depend on it. */
static uint8_t draw_abilities(struct sim *s, uint64_t id)
{
    struct random_state r = {s->options.seed * 1000003 + id};

    if (random_below(&r, 8) > 0 || !sim_befalls(s, MISHAP_DISABLED))
        return READY_CAN_ALL;
    return (uint8_t)random_below(&r, READY_CAN_ALL);
}

void process_begin(struct sim *s, struct sim_agent *agent, uint64_t id)
{
    struct random_state r = {s->options.seed * 69621 + id};
    struct sim_worker *w = malloc(sizeof(*w));

    if (sim_worker(s, id))
        check_fail(s, "worker id %llu is used twice", (unsigned long long)id);
    if (!w || !array_reserve(&s->workers, &s->workers_max, id + 1))
        abort();
    memset(w, 0, sizeof(*w));
    if (s->n_workers <= id)
        s->n_workers = id + 1;
    s->workers[id] = w;
    w->id = id;
    w->pid = 1000 + id;
    w->agent = agent->id;
    w->host = agent->host;
    w->slot = s->options.bug == BUG_slotagain
                  ? 0
                  : agent_core_child(&agent->core, id)->slot;
    check_slot(s, w);
    w->alive = true;
    w->live.hash = 1;
    w->state.owner = w;
    w->transfer = -1;
    w->abilities = draw_abilities(s, id);
    snprintf(w->settings, sizeof(w->settings), "w%llu", (unsigned long long)id);
    w->term_ignored = !s->options.base && random_below(&r, 10) == 0 &&
                      sim_befalls(s, MISHAP_DEAF);
    s->result->n_workers++;
    core_begin(s, w);
    app_set_timer(s, w, 0);
    trouble_befall(s, w);
}

/* ---- death --------------------------------------------------------------- */

static void cover_death(struct sim *s, const struct sim_worker *w)
{
    static const enum sim_counter by_state[] = {
        [APP_INIT] = COVER_died_before_ready,
        [APP_LOADING] = COVER_died_before_ready,
        [APP_JOINING] = COVER_died_ready,
        [APP_SYNCING] = COVER_died_assigned,
        [APP_COMPUTING] = COVER_died_computing,
        [APP_IN_OP] = COVER_died_in_collective,
        [APP_HELD] = COVER_died_held,
        [APP_DONE] = COVER_died_done,
        [APP_GONE] = COVER_deaths,
    };
    struct sim_generation *g = sim_generation(s, w->generation);

    sim_cover(s, COVER_deaths);
    sim_cover(s, by_state[w->app]);
    if (w->app == APP_SYNCING && !w->core.assign.source)
        sim_cover(s, COVER_receiver_died_in_sync);
    if (g && !w->out && g->sources[w->rank] && w->core.assign.sync &&
        s->now_us - g->formed_us < 100 * MSEC)
        sim_cover(s, COVER_source_died_in_sync);
    if (s->now_us - s->last_death_us < MSEC && s->last_death_us > 0)
        sim_cover(s, COVER_two_at_once);
    s->last_death_us = s->now_us;
}

static void tell_agent(struct sim *s, const struct sim_worker *w,
                       enum agent_news news, uint64_t at, int64_t code,
                       int64_t signal)
{
    struct event *event = queue_push(&s->queue, at, EV_AGENT);

    event->sub = (uint8_t)news;
    event->a = w->agent;
    event->b = w->id;
    event->c = (uint64_t)code;
    event->d = (uint64_t)signal;
}

/* When the kernel has freed its memory; late only of one that has yet to leave,
 * as --exit-timeout is short here. */
static uint64_t draw_gone_us(struct sim *s, const struct sim_worker *w)
{
    uint64_t at = s->now_us + sim_uniform(s, 100, s->plan.kill_us);

    if (s->options.base || s->options.large || w->core.phase == WORKER_LEFT ||
        !sim_one_in(s, 3) || !sim_befalls(s, MISHAP_LARGE))
        return at;
    sim_cover(s, COVER_exited_late);
    return at + sim_uniform(s, 1, 3000) * MSEC;
}

/* Who has left in order has let go of its lock before. */
static bool is_unheld(struct sim *s, const struct sim_worker *w)
{
    if (w->core.phase == WORKER_LEFT && !sim_one_in(s, 4))
        return true;
    if (s->options.base || !sim_one_in(s, 6) || !sim_befalls(s, MISHAP_UNHELD))
        return false;
    sim_cover(s, COVER_died_unheld);
    return true;
}

/* It has ended: nothing of it acts any more, and its agent is told. */
static void has_ended(struct sim *s, struct sim_worker *w, int64_t code,
                      int64_t signal)
{
    struct sim_agent *agent = sim_agent(s, w->agent);
    uint64_t dying_us = s->now_us + sim_uniform(s, 20, 3 * MSEC);

    w->alive = false;
    w->serial++;
    queue_drop(&s->queue, &w->parked);
    TRACE(s, "w%llu ends (%s %lld)", (unsigned long long)w->id,
          signal ? "signal" : "code", (long long)(signal ? signal : code));
    plane_peer_gone(s, w);
    thread_end(s, w);
    if (!agent->runs)
        return;
    w->gone_us = draw_gone_us(s, w);
    w->unheld = is_unheld(s, w);
    tell_agent(s, w, AGENT_CHILD_EXITED, w->gone_us, code, signal);
    if (!w->unheld && dying_us < w->gone_us)
        tell_agent(s, w, AGENT_CHILD_DYING, dying_us,
                   sim_one_in(s, 4) ? EXIT_UNKNOWN : code, signal);
}

static struct event *push_exit(struct sim *s, const struct sim_worker *w,
                               uint64_t at)
{
    struct event *event = queue_push(&s->queue, at, EV_EXIT);

    event->a = w->id;
    return event;
}

void process_end(struct sim *s, struct sim_worker *w, const struct event *event)
{
    if (!w->alive)
        return;
    if (w->stuck_until_us > s->now_us) {
        w->doomed |= event->c == SIGKILL;
        push_exit(s, w, w->stuck_until_us)->c = event->c;
        return;
    }
    has_ended(s, w, (int64_t)event->b, (int64_t)event->c);
}

void process_kill(struct sim *s, struct sim_worker *w)
{
    struct event event = {.type = EV_EXIT, .a = w->id, .c = SIGKILL};

    if (!w->alive)
        return;
    TRACE(s, "w%llu is killed with -9", (unsigned long long)w->id);
    cover_death(s, w);
    process_end(s, w, &event);
}

void process_exit_in(struct sim *s, const struct sim_worker *w, int64_t code,
                     uint64_t delay_us)
{
    push_exit(s, w, s->now_us + delay_us)->b = (uint64_t)code;
}

/* ---- signals ------------------------------------------------------------- */

void process_signal(struct sim *s, struct sim_worker *w, int signo)
{
    uint64_t at = s->now_us + sim_uniform(s, 100, 5 * MSEC);

    if (!w || !w->alive)
        return;
    if (signo == SIGCONT)
        process_resume(s, w);
    else if (signo == SIGKILL || !w->term_ignored)
        push_exit(s, w, at)->c = (uint64_t)signo;
}

void process_stop(struct sim *s, struct sim_worker *w, uint64_t resume_us)
{
    if (!w->alive || w->stopped)
        return;
    TRACE(s, "w%llu is stopped%s", (unsigned long long)w->id,
          resume_us == TIME_NEVER ? "" : " for a while");
    sim_cover(s, COVER_stopped);
    w->stopped = true;
    w->absent_us -= s->now_us; /* until it goes on */
    w->resume_us = resume_us;
    faults_last(s, resume_us);
    if (resume_us != TIME_NEVER)
        queue_push(&s->queue, resume_us, EV_RESUME)->a = w->id;
    else if (s->driver_config.exit_timeout_us == 0) /* a person has to end it */
        push_exit(s, w, s->now_us + 60 * SEC)->c = SIGKILL;
}

void process_stick(struct sim *s, struct sim_worker *w, uint64_t until_us)
{
    TRACE(s, "w%llu cannot be killed for %llu ms", (unsigned long long)w->id,
          (unsigned long long)((until_us - s->now_us) / MSEC));
    sim_cover(s, COVER_unkillable);
    if (w->stuck_until_us < until_us)
        w->stuck_until_us = until_us;
    faults_last(s, until_us);
}

void process_resume(struct sim *s, struct sim_worker *w)
{
    if (!w->stopped)
        return;
    w->stopped = false;
    w->absent_us += s->now_us;
    TRACE(s, "w%llu goes on", (unsigned long long)w->id);
    if (w->alive)
        sim_cover(s, COVER_zombie_continued);
    queue_unpark(&s->queue, &w->parked, s->now_us);
}
