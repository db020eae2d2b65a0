/* libhvd.c - what else the product's run loop, membership and boundary call:
 * process, clock, world, abilities and knobs of a virtual worker. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/world.h"
#include "collectives/ability.h"
#include "device/device.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/knobs.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "elastic/worker/solo.h"
#include "elastic/worker/static.h"
#include "timeline/timeline.h"

struct sim *sim_current;

struct sim_worker *sim_self(void)
{
    return sim_current->running;
}

hvd_status_t process_check(const char *call)
{
    (void)call;
    return HVD_OK;
}

/* ---- base ---------------------------------------------------------------- */

uint64_t clock_now_us(void)
{
    return host_now(sim_current, sim_self()->host);
}

uint64_t clock_now_ns(void)
{
    return clock_now_us() * 1000;
}

void world_set(const struct world *world)
{
    struct sim_worker *w = sim_self();

    w->world = *world;
    run_begins(world->generation);
    check_source(sim_current, w);
    app_trap(sim_current, w, TRAP_ASSIGNED);
}

void world_get(struct world *world_p)
{
    *world_p = sim_self()->world;
}

void log_write(enum log_level level, const char *fmt, ...)
{
    (void)level;
    (void)fmt;
}

void log_seldom(struct log_seldom *seldom, enum log_level level,
                const char *fmt, ...)
{
    (void)seldom;
    (void)level;
    (void)fmt;
}

bool log_enabled(enum log_level level)
{
    (void)level;
    return false;
}

/* ---- the timeline is off ------------------------------------------------- */

_Atomic int timeline_mode = TIMELINE_OFF;

uint64_t timeline_clock_now(void)
{
    abort();
}

void timeline_call_record(enum timeline_phase phase, uint64_t start_ns,
                          uint64_t end_ns, const struct timeline_call *call)
{
    (void)phase;
    (void)start_ns;
    (void)end_ns;
    (void)call;
    abort();
}

void timeline_state_record(enum timeline_phase phase, uint64_t start_ns,
                           const struct timeline_state *state)
{
    (void)phase;
    (void)start_ns;
    (void)state;
    abort();
}

/* ---- collectives --------------------------------------------------------- */

unsigned ability_probe(const struct endpoint *endpoint, bool share)
{
    (void)endpoint;
    (void)share;
    return sim_self()->abilities;
}

unsigned ability_gone(void)
{
    return 0;
}

bool knobs_share(void)
{
    return true;
}

uint64_t knobs_device_sync_nbytes(void)
{
    return UINT64_MAX;
}

const char *knobs_settings(void)
{
    struct sim_worker *w = sim_self();
    static char own[sizeof(w->settings)];

    if (sim_current->options.bug != BUG_forgetful)
        return w->settings;
    snprintf(own, sizeof(own), "w%llu", (unsigned long long)w->id);
    return own;
}

/* The default: the first commits of each generation. */
const struct verify_rule *knobs_verify(void)
{
    static const struct verify_rule rule;

    return &rule;
}

hvd_status_t knobs_take_settings(const char *text)
{
    struct sim_worker *w = sim_self();

    check_settings(sim_current, w, text);
    if (strcmp(text, w->settings) != 0)
        sim_cover(sim_current, COVER_settings_differ);
    snprintf(w->settings, sizeof(w->settings), "%s", text);
    return HVD_OK;
}

void knobs_apply(struct comm_config *config)
{
    (void)config;
}

void endpoint_set_fence(struct endpoint *endpoint, uint64_t fence)
{
    (void)endpoint;
    (void)fence;
}

static hvd_status_t run_call(const struct collective_args *args)
{
    collective_enter();
    return collective_leave(comm_run(process_self.comm, args));
}

hvd_status_t hvd_allreduce_with(const void *sendbuf, void *recvbuf,
                                size_t count, hvd_dtype_t dtype, hvd_op_t op,
                                const hvd_options_t *options,
                                hvd_request_t **request_p)
{
    (void)options;
    (void)request_p;
    return run_call(&(struct collective_args){.kind = COLLECTIVE_ALLREDUCE,
                                              .sendbuf = sendbuf,
                                              .recvbuf = recvbuf,
                                              .count = count,
                                              .dtype = dtype,
                                              .op = op});
}

hvd_status_t hvd_broadcast_with(void *buf, size_t count, hvd_dtype_t dtype,
                                int root, const hvd_options_t *options,
                                hvd_request_t **request_p)
{
    (void)options;
    (void)request_p;
    return run_call(&(struct collective_args){.kind = COLLECTIVE_BROADCAST,
                                              .sendbuf = buf,
                                              .recvbuf = buf,
                                              .count = count,
                                              .dtype = dtype,
                                              .root = root});
}

bool device_is_broken(void)
{
    return false;
}

/* ---- programs that are not elastic --------------------------------------- */

hvd_status_t static_world(const char *call)
{
    (void)call;
    return HVD_OK;
}

void sets_begin(void)
{
}

hvd_status_t sets_enter(void)
{
    return HVD_OK; /* no program here has rules */
}

void sets_leave(void)
{
}

void static_failed(hvd_status_t status)
{
    (void)status;
}

void static_failed_by_name(hvd_status_t status)
{
    (void)status;
}

void static_let_in(void)
{
}

hvd_status_t solo_run(hvd_state_t *state, hvd_train_fn train, void *arg)
{
    (void)state;
    (void)train;
    (void)arg;
    abort();
}
