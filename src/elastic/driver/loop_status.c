/* elastic/driver/loop_status.c - the numbers of the status line. See
 * loop_internal.h. */
#include "base/clock.h"
#include "elastic/driver/loop_internal.h"

enum { VIEW_US = 250000 /* how often they are made */ };

static uint64_t count_commits(const struct driver *d)
{
    uint64_t greatest = 0;

    for (size_t i = 0; i < d->n_workers; i++)
        if (d->workers[i].ping.id.version > greatest)
            greatest = d->workers[i].ping.id.version;
    return greatest;
}

static void update_rate(struct loop *l, uint64_t now_us)
{
    uint64_t commits = count_commits(&l->driver);
    uint64_t elapsed_us = now_us - l->commits_at_us;

    if (elapsed_us < 1000000)
        return;
    l->commits_per_s = commits >= l->commits_seen
                           ? (double)(commits - l->commits_seen) * 1e6 /
                                 (double)elapsed_us
                           : 0;
    l->commits_seen = commits;
    l->commits_at_us = now_us;
}

void loop_show_status(struct loop *l, uint64_t now_us)
{
    char note[WIRE_TEXT_MAX];
    struct status_view view;

    if (!l->status.terminal || now_us < l->view_us)
        return; /* each number is a walk over all workers */
    l->view_us = now_us + VIEW_US;
    update_rate(l, now_us);
    driver_waiting_for(&l->driver, now_us, note, sizeof(note));
    view = (struct status_view){.generation = l->driver.generation,
                                .size = (uint32_t)l->driver.counts.members,
                                .n_hosts = (uint32_t)driver_n_hosts(&l->driver),
                                .recovery_us = l->events.recovery_us,
                                .commits_per_s = l->commits_per_s,
                                .note = note[0] ? note : NULL};
    status_set(&l->status, &view, now_us);
}
