/* elastic/worker/conditions.c - what the application waits for in the core of
 * its worker (control.h). Pure: called under control's lock. */
#include "elastic/worker/control.h"

bool control_welcome(const struct worker_core *core, uint64_t ignored)
{
    return core->phase != WORKER_CONTACT;
}

bool control_final(const struct worker_core *core, uint64_t ignored)
{
    return core->phase == WORKER_LEFT && !core->is_leaving;
}

bool control_assigned(const struct worker_core *core, uint64_t above)
{
    return core->phase == WORKER_RUNNING && core->generation > above;
}

bool control_done_over(const struct worker_core *core, uint64_t generation)
{
    return core->fence >= generation;
}

bool control_at_cut(const struct worker_core *core, uint64_t boundary)
{
    return worker_at_boundary(core, boundary) != WORKER_BOUNDARY_WAIT;
}
