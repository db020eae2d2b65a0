/* elastic/driver/succeed.c - see succeed.h. */
#include "elastic/driver/succeed.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/driver/journal.h"
#include "elastic/driver/loop.h"

enum {
    PAUSE_MS = 1000,
    PATIENCE_US = 600000000, /* --driver-timeout, as long as it is not known */
    WAITED_US = 5000000      /* so long an attempt waits for a living driver */
};

/* The attempts to lead so far. */
struct attempts {
    uint64_t since_us; /* when the first of them began that failed */
    uint64_t for_us;   /* how long it is tried again */
    size_t n;          /* that failed */
    bool dressed;      /* the environment is the job's */
    char said[WIRE_TEXT_MAX];
};

/* ---- the job's paths, environment and hosts ------------------------------ */

/* A relative path becomes one below `here`. buf [PATH_MAX]. */
static bool make_absolute(const char **path_p, const char *here, char *buf)
{
    int n;

    if (!*path_p || **path_p == '/')
        return true;
    n = snprintf(buf, PATH_MAX, "%s/%s", here, *path_p);
    *path_p = buf;
    return n > 0 && n < PATH_MAX;
}

/* Paths that are given anew are relative to the current directory, the job's
 * own to that in which the job began. */
static bool take_paths(struct options *given)
{
    static char here[PATH_MAX], bufs[2][PATH_MAX];

    if (!here[0] && !getcwd(here, sizeof(here)))
        return !given->event_log && !given->output_dir;
    return make_absolute(&given->event_log, here, bufs[0]) &&
           make_absolute(&given->output_dir, here, bufs[1]);
}

/* Where the job began may be away, as any other directory. */
static bool root_paths(struct options *o, const char *cwd)
{
    static char bufs[6][PATH_MAX];
    const char **paths[] = {&o->event_log, &o->output_dir,    &o->timeline,
                            &o->script,    &o->notice_script, &o->ssh_command};

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (!make_absolute(paths[i], cwd, bufs[i]))
            return false;
    return true;
}

/* Agents that it starts have the same as those that are there. */
static bool take_environment(const struct wire_strings *all)
{
    size_t at = 0;

    clearenv();
    while (at < all->nbytes) {
        char *word = strdup(all->data + at); /* the environment's from now on */

        if (!word || putenv(word) != 0)
            return false;
        at += strlen(word) + 1;
    }
    return true;
}

static int by_order(const void *a, const void *b)
{
    const struct entry_host *x = a, *y = b;

    return (x->order > y->order) - (x->order < y->order);
}

/* Those that were listed, the oldest first. */
static bool list_hosts(const struct memory *m, struct hosts *hosts)
{
    struct entry_host *rows = calloc(m->n_hosts + 1, sizeof(*rows));

    if (!rows || !array_reserve(&hosts->items, &hosts->max, m->n_hosts + 1)) {
        free(rows);
        return false;
    }
    if (m->n_hosts > 0)
        memcpy(rows, m->hosts, m->n_hosts * sizeof(*rows));
    qsort(rows, m->n_hosts, sizeof(*rows), by_order);
    for (size_t i = 0; i < m->n_hosts; i++) {
        struct host *host = &hosts->items[hosts->n];

        if (!rows[i].listed || rows[i].n_slots == 0)
            continue;
        *host = (struct host){.slots = rows[i].n_slots};
        memcpy(host->name, rows[i].name, sizeof(host->name));
        hosts->n++;
    }
    free(rows);
    return true;
}

/* ---- one attempt --------------------------------------------------------- */

/* quiet: the warnings were printed by an earlier attempt. */
static bool parse(const struct entry_job *job, const struct options *given,
                  const struct hosts *known, struct options *o, bool quiet)
{
    FILE *nowhere = quiet ? fopen("/dev/null", "w") : NULL;
    bool good = options_inherit(job->argv.data, job->argv.nbytes, given, known,
                                o, nowhere ? nowhere : stderr);

    if (nowhere)
        fclose(nowhere);
    return good;
}

static int lead(struct options *o, const char *dir, struct heir *heir,
                struct attempts *a, bool rooted)
{
    int exit_status = 1;

    a->for_us = o->driver_timeout_us;
    o->job_dir = dir;
    log_init("hvd-elastic", a->n == 0 ? o->log_level : LOG_LEVEL_ERROR);
    if (rooted || root_paths(o, heir->memory.job.cwd))
        exit_status = loop_run(o, heir);
    else
        snprintf(heir->why, sizeof(heir->why), "a path is too long");
    options_fini(o);
    return exit_status;
}

/* heir->leads, or heir->why says why not. */
static int go_on(struct options *given, const char *dir, struct heir *heir,
                 struct attempts *a)
{
    const struct entry_job *job = &heir->memory.job;
    struct hosts known = {0};
    struct options options;
    bool rooted = !job->cwd[0] || chdir(job->cwd) == 0; /* it had none */
    int exit_status = 1;

    if (!rooted && a->n == 0)
        options_refuse(stderr,
                       "the directory of the job, \"%s\", cannot be entered -> "
                       "going on without",
                       job->cwd);
    a->dressed = a->dressed || take_environment(&job->environment);
    if (!a->dressed || !list_hosts(&heir->memory, &known))
        snprintf(heir->why, sizeof(heir->why), "out of memory");
    else if (!parse(job, given, &known, &options, a->n > 0))
        snprintf(heir->why, sizeof(heir->why),
                 "the job's command line is refused");
    else
        exit_status = lead(&options, dir, heir, a, rooted);
    hosts_fini(&known);
    return exit_status;
}

static int ended(const struct heir *heir)
{
    const struct entry_state *state = &heir->memory.state;

    fprintf(stderr, "hvd-elastic: the job has ended without this driver: %s\n",
            state->verdict);
    return (int)state->exit_status;
}

/* ---- until one succeeds -------------------------------------------------- */

/* True: once more, a second later. */
static bool try_again(struct attempts *a, const char *dir, const char *why,
                      uint64_t began_us)
{
    uint64_t now_us = clock_now_us();

    if (a->n == 0 || now_us - began_us > WAITED_US)
        a->since_us = now_us;
    a->n++;
    if (now_us - a->since_us >= a->for_us && jobdir_life(dir) != JOBDIR_LIVES) {
        options_refuse(stderr, "%s", why);
        return false;
    }
    if (strcmp(a->said, why) != 0)
        options_refuse(stderr, "%s -> tried again each second", why);
    snprintf(a->said, sizeof(a->said), "%s", why);
    poll(NULL, 0, PAUSE_MS);
    return true;
}

/* Of a directory that holds no job nothing can be expected. */
static bool may_wait(const struct options *given, const char *dir)
{
    struct beacon b;

    return !given->standby || jobdir_find(dir, &b) == HVD_OK;
}

static int succeed_in(struct options *given, const char *dir)
{
    struct attempts a = {.for_us = PATIENCE_US};
    int exit_status = OPTIONS_EXIT_USAGE;
    bool over = !may_wait(given, dir), again = true, has_ended;

    if (over)
        options_refuse(stderr, "%s", error_text());
    else if (given->standby)
        fprintf(stderr, "hvd-elastic: standing by for the driver of \"%s\"\n",
                dir);
    while (!over && again) {
        uint64_t began_us = clock_now_us();
        struct heir heir;
        hvd_status_t status;

        has_ended = false;
        status = given->resume ? jobdir_inherit(dir, given->take_over, &heir)
                               : jobdir_await(dir, &heir, &has_ended);
        if (status != HVD_OK && given->resume) {
            options_refuse(stderr, "%s", error_text());
            return OPTIONS_EXIT_USAGE;
        }
        if (status != HVD_OK) {
            exit_status = OPTIONS_EXIT_USAGE;
            again = try_again(&a, dir, error_text(), began_us);
            continue;
        }
        exit_status = has_ended ? ended(&heir) : go_on(given, dir, &heir, &a);
        over = has_ended || heir.leads;
        heir_fini(&heir);
        if (!over)
            again = try_again(&a, dir, heir.why, began_us);
    }
    return exit_status;
}

int succeed(struct options *given)
{
    const char *name = given->resume ? given->resume : given->standby;
    char dir[PATH_MAX];

    if (!realpath(name, dir)) {
        options_refuse(stderr, "\"%s\": there is no such directory", name);
        return OPTIONS_EXIT_USAGE;
    }
    if (!take_paths(given)) {
        options_refuse(stderr, "a path is too long");
        return OPTIONS_EXIT_USAGE;
    }
    return succeed_in(given, dir);
}

/* ---- begin, or resume ---------------------------------------------------- */

static bool is_same_line(const struct options *o, const struct entry_job *job)
{
    const char *word = job->argv.data, *end = word + job->argv.nbytes;
    char here[PATH_MAX];
    int i = 0;

    if (!getcwd(here, sizeof(here)))
        here[0] = '\0'; /* removed: the job has noted none, either */
    while (i < o->argc && word < end && strcmp(o->argv[i], word) == 0) {
        word += strlen(word) + 1;
        i++;
    }
    return i == o->argc && word == end && strcmp(here, job->cwd) == 0;
}

static bool goes_on(const struct options *o, const char *dir,
                    const struct memory *m, bool driver_lives)
{
    bool lives = !m->state.ended && jobdir_life(dir) != JOBDIR_NOBODY;

    if (driver_lives) /* jobdir_begin() refuses, with its sentence */
        return o->resume_auto && o->take_over && !m->state.ended;
    return lives && (o->resume_auto || is_same_line(o, &m->job));
}

bool succeed_goes_on(struct options *given)
{
    struct memory m = {0};
    char dir[PATH_MAX];
    struct beacon b;
    bool driver_lives, due = false;
    size_t cut;

    if (!given->job_dir || !realpath(given->job_dir, dir))
        return false;
    if (jobdir_find(dir, &b) == HVD_OK &&
        jobdir_driver_lives(dir, &b, &driver_lives) == HVD_OK &&
        journal_read(dir, &m, &cut) == HVD_OK)
        due = goes_on(given, dir, &m, driver_lives);
    error_clear();
    memory_fini(&m);
    if (!due)
        return false;
    log_info("--job-dir: \"%s\" holds a job that lives -> it is resumed", dir);
    given->resume = given->job_dir;
    return true;
}
