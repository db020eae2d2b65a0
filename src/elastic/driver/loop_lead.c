/* elastic/driver/loop_lead.c - the loop of a job that outlives its driver:
 * which job it is, what is written down at its beginning, who leads it, and the
 * processes that a successor finds. See loop_internal.h. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/machine.h"
#include "base/proc.h"
#include "base/stall.h"
#include "elastic/driver/loop.h"
#include "elastic/driver/loop_internal.h"

_Static_assert((int)BEACON_LIST_MAX == (int)WIRE_ENDPOINTS_MAX,
               "all that the network has");

/* ---- which job it is ----------------------------------------------------- */

void loop_identify(struct loop *l, uint64_t now_us)
{
    if (l->heir) {
        l->job = l->heir->memory.job.job;
        if (l->heir->elsewhere) /* by that machine's clock */
            l->heir->memory.job.started_us = now_us;
        l->started_us = l->heir->memory.job.started_us;
    } else {
        mac_random(&l->job, sizeof(l->job));
        l->started_us = now_us;
    }
}

/* Where no agent could be handed one, none need be started. */
hvd_status_t loop_make_secret(struct loop *l)
{
    int fd;

    if (l->heir)
        memcpy(l->secret, l->heir->memory.job.secret, sizeof(l->secret));
    else
        mac_random(l->secret, sizeof(l->secret));
    HVD_TRY(wire_secret_create(l->secret, sizeof(l->secret), &fd));
    close(fd);
    return HVD_OK;
}

bool loop_inherit_env(struct loop *l)
{
    const struct wire_strings *env = &l->heir->memory.job.env;

    l->env = malloc(env->nbytes + 1);
    if (!l->env)
        return false;
    if (env->nbytes > 0)
        memcpy(l->env, env->data, env->nbytes);
    l->env_nbytes = env->nbytes;
    return true;
}

hvd_status_t loop_open_sinks(struct loop *l)
{
    const struct options *o = l->options;
    hvd_status_t status;

    HVD_TRY(eventlog_open(&l->events.log, o->event_log, l->started_us,
                          l->heir != NULL));
    status = trace_open(&l->events.trace, o->timeline, l->job, l->heir != NULL);
    if (status == HVD_OK || !l->heir)
        return status;
    log_warn("%s -> the timeline is not written", error_text());
    error_clear();
    return HVD_OK;
}

/* ---- what is written down ------------------------------------------------ */

/* Those before the NULL, one after the other. False: no memory, or too long. */
static bool pack_strings(char **strings, struct wire_strings *packed)
{
    size_t nbytes = 0;
    char *at;

    for (int i = 0; strings[i]; i++)
        nbytes += strlen(strings[i]) + 1;
    at = malloc(nbytes + 1);
    *packed = (struct wire_strings){at, (uint32_t)nbytes};
    for (int i = 0; at && strings[i]; i++)
        at = stpcpy(at, strings[i]) + 1;
    return packed->data != NULL && nbytes <= WIRE_MESSAGE_MAX;
}

static void free_strings(struct wire_strings *packed)
{
    free((char *)(uintptr_t)packed->data);
}

static hvd_status_t remember_job(const struct loop *l, struct memory *m)
{
    struct entry entry = {.type = ENTRY_JOB};
    struct entry_job *job = &entry.u.job;
    bool good;

    job->job = l->job;
    job->started_us = l->started_us;
    memcpy(job->secret, l->secret, sizeof(job->secret));
    job->env = (struct wire_strings){l->env, l->env_nbytes};
    memcpy(job->cwd, l->cwd, strlen(l->cwd) + 1);
    good = pack_strings(l->options->argv, &job->argv) &&
           pack_strings(environ, &job->environment) && memory_fold(m, &entry);
    free_strings(&job->argv);
    free_strings(&job->environment);
    return good ? HVD_OK
                : error_set(HVD_ERR_NOMEM, "the command line and the "
                                           "environment find no room");
}

/* Often enough that agents, which it could believe dead, are not yet. */
static uint64_t look_every_us(const struct options *o)
{
    uint64_t us = o->heartbeat_timeout_us / 4;

    return us < 1000000 ? us : 1000000;
}

hvd_status_t loop_open_lead(struct loop *l)
{
    struct beacon own = {.job = l->job,
                         .term = l->driver.config.term,
                         .pid = getpid(),
                         .started = proc_started(getpid()),
                         .machine = machine_id()};
    struct memory fresh = {0}, *m = l->heir ? &l->heir->memory : &fresh;
    hvd_status_t status = HVD_OK;

    if (!l->options->job_dir)
        return HVD_OK;
    snprintf(own.endpoint, sizeof(own.endpoint), "%s", l->endpoint);
    snprintf(own.output_endpoint, sizeof(own.output_endpoint), "%s",
             l->output_endpoint);
    memcpy(own.far, l->far_endpoints, sizeof(own.far));
    memcpy(own.far_output, l->far_outputs, sizeof(own.far_output));
    if (!l->heir)
        status = remember_job(l, m);
    if (l->far_endpoints[0])
        loop_list_places(l, &m->places);
    if (status == HVD_OK)
        status = lead_open(&l->lead, l->options->job_dir, m, &own, &l->launch,
                           look_every_us(l->options));
    memory_fini(&fresh);
    if (l->heir)
        l->heir->leads = status == HVD_OK;
    return error_prefix(status, "--job-dir");
}

void loop_say_succession(const struct loop *l)
{
    const struct heir *heir = l->heir;

    log_init("hvd-elastic", l->options->log_level);
    log_info("driver of term %" PRIu64 ", after that of process %" PRId64 "%s",
             heir->term, heir->before.pid,
             heir->elsewhere ? " on another machine" : "");
    if (heir->cut > 0)
        log_warn("%zu bytes of the journal are damaged -> left out", heir->cut);
}

void loop_cannot_begin(struct loop *l, const char *why)
{
    if (l->heir)
        snprintf(l->heir->why, sizeof(l->heir->why), "%s", why);
    else
        snprintf(l->verdict, sizeof(l->verdict), "%s", why);
}

/* ---- who leads ----------------------------------------------------------- */

/* It is another's job now: nobody is told anything, nothing is ended. */
static void give_way(struct loop *l)
{
    l->finished = true;
    l->exit_status = LOOP_REPLACED;
    snprintf(l->verdict, sizeof(l->verdict), "%s", l->lead.sentence);
}

bool loop_leads(struct loop *l)
{
    l->ran_us = clock_now_us();
    if (lead_turn(&l->lead, &l->driver, l->ran_us))
        return true;
    give_way(l);
    return false;
}

bool loop_looks(struct loop *l)
{
    if (l->lead.replaced)
        return false;
    if (lead_look(&l->lead, clock_now_us()))
        return true;
    give_way(l);
    return false;
}

/* It may have been stopped anywhere. */
bool loop_acts(struct loop *l)
{
    uint64_t before_us = l->ran_us;

    if (l->lead.replaced)
        return false;
    l->ran_us = clock_now_us();
    if (stall_of(before_us, l->ran_us) == 0 || lead_stood(&l->lead, l->ran_us))
        return true;
    give_way(l);
    return false;
}

/* ---- who is left of before ----------------------------------------------- */

static void bury(struct loop *l, uint64_t agent)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_GONE};

    ev.u.agent.agent = agent;
    ev.u.agent.text = "has ended while there was no driver";
    loop_feed(l, &ev);
    inbox_agent_ended(l, agent);
}

/* What they have forked and left. */
static void end_groups(const struct memory *m, uint64_t agent)
{
    for (size_t i = 0; i < m->n_workers; i++) {
        const struct entry_worker *w = &m->workers[i];

        if (w->agent == agent && w->pid > 1 && w->pid <= INT32_MAX &&
            w->started != 0 && proc_started((pid_t)w->pid) == w->started)
            kill(-(pid_t)w->pid, SIGKILL);
    }
}

/* Their output may be here before their agents have told of them. */
static void know_speakers(struct loop *l, const struct memory *m)
{
    for (size_t i = 0; i < m->n_workers; i++) {
        const struct entry_worker *w = &m->workers[i];

        (void)speakers_add(&l->speakers, w->worker, w->agent, w->slot, w->host);
    }
}

static bool adopt_agent_of(struct loop *l, const struct entry_host *host)
{
    hvd_status_t status = host->pid < 0
                              ? launch_adopt_far(&l->launch, host->agent,
                                                 host->name)
                              : launch_adopt(&l->launch, host->agent,
                                             (pid_t)host->pid, host->started);

    return status == HVD_OK;
}

/* The memory changes as they are told of: a copy of what is needed. */
void loop_adopt_agents(struct loop *l)
{
    const struct memory *m = journal_memory(l->lead.journal);
    size_t n = m->n_hosts, n_gone = 0;
    uint64_t *gone = calloc(n + 1, sizeof(*gone));

    for (size_t i = 0; gone && i < n; i++) {
        const struct entry_host *host = &m->hosts[i];

        if (host->agent == 0 || host->pid == 0 || adopt_agent_of(l, host))
            continue;
        if (host->pid > 0)
            end_groups(m, host->agent);
        gone[n_gone++] = host->agent;
    }
    know_speakers(l, m);
    guests_expect_known(l, m);
    while (n_gone > 0)
        bury(l, gone[--n_gone]);
    free(gone);
}
