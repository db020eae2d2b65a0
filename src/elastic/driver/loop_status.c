/* elastic/driver/loop_status.c - the numbers of the status line, and what a log
 * that is no terminal has of them: a line while the job waits, on SIGUSR2, and
 * at the end. See loop_internal.h. */
#include <inttypes.h>

#include "base/clock.h"
#include "elastic/driver/loop_internal.h"

enum {
    VIEW_US = 250000, /* how often they are made */
    LOG_VIEW_US = 1000000,
    WINDOW_US = 5000000, /* at least, of the rate of commits */
    WAIT_FIRST_US = 5000000,
    WAIT_AGAIN_US = 60000000
};

static uint64_t count_commits(const struct driver *d)
{
    uint64_t greatest = 0;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (w->ping.id.version > greatest)
            greatest = w->ping.id.version;
        if (w->done_id.version > greatest)
            greatest = w->done_id.version;
    }
    return greatest;
}

void loop_count_commits(struct loop *l, uint64_t now_us)
{
    struct loop_commits *c = &l->commits;
    struct loop_sample now = {count_commits(&l->driver), now_us};

    if (now.n <= c->last.n)
        return; /* nothing new; or who has made them has exited */
    c->last = now;
    if (c->oldest.at_us == 0)
        c->oldest = c->middle = now;
    if (now_us - c->middle.at_us < WINDOW_US)
        return;
    c->oldest = c->middle;
    c->middle = now;
}

/* From one commit to another: a step may take longer than any interval of
 * ours. < 0: not known. */
static double rate(const struct loop_commits *c)
{
    return c->last.at_us > c->oldest.at_us
               ? (double)(c->last.n - c->oldest.n) * 1e6 /
                     (double)(c->last.at_us - c->oldest.at_us)
               : -1;
}

/* note [WIRE_TEXT_MAX] */
static struct status_view make_view(const struct loop *l, uint64_t now_us,
                                    char *note)
{
    const struct loop_commits *c = &l->commits;

    driver_waiting_for(&l->driver, now_us, note, WIRE_TEXT_MAX);
    return (struct status_view){.generation = l->driver.generation,
                                .size = (uint32_t)l->driver.counts.members,
                                .n_hosts = (uint32_t)driver_n_hosts(&l->driver),
                                .recovery_us = l->events.recovery_us,
                                .commits = c->last.n,
                                .commit_age_us = now_us - c->last.at_us,
                                .commits_per_s = rate(c),
                                .note = note[0] ? note : NULL};
}

void loop_tell_status(struct loop *l)
{
    char text[STATUS_TEXT_MAX], note[WIRE_TEXT_MAX];
    uint64_t now_us = clock_now_us();
    struct status_view view;

    loop_count_commits(l, now_us);
    view = make_view(l, now_us, note);
    status_format(&view, text, sizeof(text));
    log_info("status: %s", text);
}

/* A log shows that the job waits, and what for. */
static void tell_waiting(struct loop *l, const struct status_view *view,
                         uint64_t now_us)
{
    if (!view->note) {
        l->wait_line_us = 0;
    } else if (l->wait_line_us == 0) {
        l->wait_line_us = now_us + WAIT_FIRST_US;
    } else if (now_us >= l->wait_line_us) {
        l->wait_line_us = now_us + WAIT_AGAIN_US;
        log_info("%s", view->note);
    }
}

void loop_show_status(struct loop *l, uint64_t now_us)
{
    char note[WIRE_TEXT_MAX];
    struct status_view view;

    if (now_us < l->view_us)
        return; /* each number is a walk over all workers */
    l->view_us = now_us + (l->status.terminal ? VIEW_US : LOG_VIEW_US);
    loop_count_commits(l, now_us);
    view = make_view(l, now_us, note);
    if (l->status.terminal)
        status_set(&l->status, &view, now_us);
    else
        tell_waiting(l, &view, now_us);
}

uint64_t loop_status_deadline(const struct loop *l)
{
    return l->wait_line_us > 0 ? l->wait_line_us : CLOCK_NEVER;
}

void loop_tell_finished(const struct loop *l, uint64_t generations)
{
    uint64_t n = l->commits.last.n, lost = l->events.n_lost;

    log_info("finished: %" PRIu64 " commit%s in %.1f s, %" PRIu64
             " generation%s, %" PRIu64 " loss%s",
             n, n == 1 ? "" : "s",
             (double)(clock_now_us() - l->started_us) / 1e6, generations,
             generations == 1 ? "" : "s", lost, lost == 1 ? "" : "es");
}
