/* elastic/worker/views.c - what the application reads of the core of its worker
 * (control.h).
 *
 * Threads: any. Memory: none. */
#include <string.h>

#include "elastic/worker/control.h"

struct question {
    control_condition condition;
    uint64_t argument;
    bool yes;
};

static void answer(const struct worker_core *core, void *arg)
{
    struct question *q = arg;

    q->yes = q->condition(core, q->argument);
}

bool control_is(control_condition condition, uint64_t argument)
{
    struct question q = {condition, argument, false};

    control_read(answer, &q);
    return q.yes;
}

static void see_verdict(const struct worker_core *core, void *arg)
{
    struct control_verdict *verdict = arg;

    verdict->verdict = core->verdict;
    verdict->status = core->status;
    memcpy(verdict->text, core->text, sizeof(verdict->text));
}

void control_verdict(struct control_verdict *verdict_p)
{
    control_read(see_verdict, verdict_p);
}

static void see_plan(const struct worker_core *core, void *arg)
{
    *(struct msg_plan *)arg = core->plan;
}

void control_plan(struct msg_plan *plan_p)
{
    control_read(see_plan, plan_p);
}

static void see_fence(const struct worker_core *core, void *arg)
{
    *(uint64_t *)arg = core->fence;
}

uint64_t control_fence(void)
{
    uint64_t fence;

    control_read(see_fence, &fence);
    return fence;
}
