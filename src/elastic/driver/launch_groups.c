/* elastic/driver/launch_groups.c - see launch_groups.h. */
#include "elastic/driver/launch_groups.h"

#include <signal.h>

#include "base/array.h"
#include "base/proc.h"

void launch_groups_add(struct launched *item, pid_t pid)
{
    launch_groups_remove(item, pid);
    if (array_reserve(&item->groups, &item->groups_max, item->n_groups + 1))
        item->groups[item->n_groups++] = (struct launched_group){
            pid, proc_started(pid)};
}

void launch_groups_remove(struct launched *item, pid_t pid)
{
    for (size_t i = item->n_groups; i-- > 0;)
        if (item->groups[i].pid == pid)
            item->groups[i] = item->groups[--item->n_groups];
}

/* The kernel does not reuse a group's number while a process is left in it. But
 * none may be left, and the driver may learn of it late. If the worker had
 * ended before it was added, its start is not known: agents of another driver
 * may report what was long ago. */
static bool is_its_own(const struct launched *item,
                       const struct launched_group *group)
{
    uint64_t now;

    if (group->started == 0)
        return !item->adopted;
    now = proc_started(group->pid);
    return now == 0 || now == group->started;
}

void launch_groups_kill(struct launched *item)
{
    for (size_t i = 0; i < item->n_groups; i++)
        if (is_its_own(item, &item->groups[i]))
            kill(-item->groups[i].pid, SIGKILL);
    array_free(&item->groups, &item->groups_max);
    item->n_groups = 0;
}
