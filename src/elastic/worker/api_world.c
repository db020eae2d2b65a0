/* elastic/worker/api_world.c - hvd/world.h: contact, goodbye; and the calls of
 * hvd/elastic.h and hvd/state.h that are about the process as a whole.
 *
 * Threads: app; hvd_drain and hvd_busy_* any, the former from signal
 * handlers too. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <hvd/elastic.h>
#include <hvd/version.h>
#include <hvd/world.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mac.h"
#include "base/struct_size.h"
#include "base/world.h"
#include "collectives/completion.h"
#include "collectives/descriptors.h"
#include "collectives/local/local.h"
#include "collectives/request.h"
#include "device/device.h"
#include "elastic/wire/env.h"
#include "elastic/worker/control.h"
#include "elastic/worker/knobs.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "elastic/worker/solo.h"
#include "elastic/worker/static.h"
#include "state/state.h"
#include "timeline/timeline.h"

/* ZeroMQ aborts the process where it finds none. */
static const struct descriptors_need own_descriptors = {32, 32};

enum {
    /* the data plane's, until a generation brings the driver's own */
    CONNECT_TIMEOUT_US = 10000000
};

int hvd_version(void)
{
    return HVD_VERSION_CODE;
}

/* ---- init ---------------------------------------------------------------- */

static hvd_status_t open_endpoint(void)
{
    const struct process_identity *self = &process_self.self;
    struct endpoint_config config = {.addresses = self->address,
                                     .port_low = self->port_low,
                                     .port_high = self->port_high,
                                     .job = self->job,
                                     .worker = self->worker,
                                     .connect_timeout_us = CONNECT_TIMEOUT_US};
    struct endpoint *endpoint;
    hvd_status_t status;

    _Static_assert(sizeof(config.job_key) == sizeof(self->secrets.job_key),
                   "a key is a key");
    memcpy(config.job_key, self->secrets.job_key, sizeof(config.job_key));
    status = endpoint_create(&config, &endpoint);
    if (status != HVD_OK)
        return error_prefix(status, ENV_ADDRESS "=%s", self->address);
    atomic_store(&process_self.endpoint, endpoint);
    return HVD_OK;
}

static void close_endpoint(void)
{
    struct endpoint *endpoint = atomic_exchange(&process_self.endpoint, NULL);

    if (endpoint)
        endpoint_destroy(endpoint);
}

static hvd_status_t make_contact(void)
{
    hvd_status_t status;
    size_t room;
    bool final;

    HVD_TRY(mac_init());
    HVD_TRY(descriptors_reserve("contact to the driver", own_descriptors, -1,
                                &room));
    HVD_TRY(open_endpoint());
    HVD_TRY_GOTO(control_start(), no_control);
    HVD_TRY_GOTO(control_wait(control_welcome, 0, CLOCK_NEVER), no_contact);
    HVD_TRY_GOTO(membership_verdict(&final), no_contact);
    return HVD_OK;

no_contact:
    control_stop();
no_control:
    close_endpoint();
    return status;
}

static void begin_process(bool solo)
{
    process_self.solo = solo;
    process_self.kind = PROGRAM_UNDECIDED;
    process_self.left = process_self.remains = false;
    process_self.lost_posted = false;
    atomic_store(&process_self.in_order, 0);
    atomic_store(&process_self.by_name, 0);
    atomic_store(&process_self.busy_until_us, 0);
    world_set(&WORLD_NONE);
}

static hvd_status_t adopt_config(const hvd_config_t *config)
{
    hvd_config_t own = HVD_CONFIG_INIT;

    if (config)
        HVD_TRY(error_prefix(
            struct_adopt(&own, sizeof(own), config, config->struct_size),
            "hvd_init: config"));
    process_log_init(&own);
    process_self.poll_fn = own.poll_fn;
    process_self.poll_arg = own.poll_arg;
    return HVD_OK;
}

static hvd_status_t initialise(void)
{
    bool solo;

    HVD_TRY(process_guard_fork());
    HVD_TRY(knobs_read());
    HVD_TRY(process_identify(&solo));
    begin_process(solo);
    process_stdout_init();
    process_timeline_open();
    if (solo) {
        HVD_TRY(solo_init());
    } else {
        process_self.spent = true; /* the secrets were read and closed */
        process_log_prefix(0, -1);
        world_set_slot(process_self.self.slot);
        HVD_TRY(error_prefix(make_contact(), "hvd_init"));
    }
    device_notice(process_self.solo ? 0 : process_self.self.slot);
    atomic_store(&process_self.initialised, true);
    return HVD_OK;
}

hvd_status_t hvd_init(const hvd_config_t *config)
{
    hvd_status_t status;

    if (atomic_load(&process_self.forked))
        return error_set(HVD_ERR_INVALID, "hvd_init: called in a forked child");
    if (atomic_load(&process_self.initialised) || process_self.spent)
        return error_set(HVD_ERR_STATE, "hvd_init: called twice");
    process_claim();
    HVD_TRY(adopt_config(config));
    status = initialise();
    if (status != HVD_OK)
        process_log_fini();
    return status;
}

/* ---- shutdown ------------------------------------------------------------ */

static void stop_member(void)
{
    if (process_self.comm) {
        membership_part();
        membership_close();
    }
    control_stop();
    close_endpoint();
}

hvd_status_t hvd_shutdown(void)
{
    hvd_status_t status = HVD_OK;

    if (!atomic_load(&process_self.initialised))
        return HVD_OK;
    HVD_TRY(process_check("hvd_shutdown"));
    if (process_self.running)
        return error_set(HVD_ERR_STATE,
                         "hvd_shutdown: called inside hvd_elastic_run");
    if (process_self.kind == PROGRAM_STATIC && !process_self.solo)
        status = static_finish();
    if (process_self.solo)
        solo_fini();
    else
        stop_member();
    if (!process_self.solo)
        local_shutdown();
    requests_release();
    sets_release();
    knobs_release();
    device_close();
    timeline_close();
    completion_close();
    process_log_fini();
    world_set(&WORLD_NONE);
    atomic_store(&process_self.initialised, false);
    return status;
}

/* ---- the plan ------------------------------------------------------------ */

static hvd_plan_t current_plan(void)
{
    struct msg_plan p = {.size = 1, .local_size = 1};

    if (!process_self.solo)
        control_plan(&p);
    return (hvd_plan_t){.elastic = p.elastic,
                        .rank = (int)p.rank,
                        .size = (int)p.size,
                        .local_rank = (int)p.local_rank,
                        .local_size = (int)p.local_size};
}

hvd_status_t hvd_plan(hvd_plan_t *plan)
{
    hvd_plan_t own;

    HVD_TRY(error_prefix(struct_check(plan, "plan"), "hvd_plan"));
    HVD_TRY(process_check("hvd_plan"));
    own = current_plan();
    struct_give(plan, &own, sizeof(own));
    return HVD_OK;
}

/* ---- the generation ------------------------------------------------------ */

/* Under control's lock: the comm stays meanwhile. */
static hvd_status_t ask_comm(struct comm *comm, void *arg)
{
    const char *text;
    hvd_status_t status;

    if (atomic_load(&process_self.left))
        return error_set(HVD_HOSTS_UPDATED, "the ranks left at a boundary");
    status = comm_status(comm, &text);
    return status == HVD_OK ? HVD_OK : error_set(status, "%s", text);
}

hvd_status_t hvd_generation_status(void)
{
    bool final;

    HVD_TRY(process_check("hvd_generation_status"));
    if (!process_self.solo)
        HVD_TRY(membership_verdict(&final));
    return control_with_comm(ask_comm, NULL);
}

/* Likewise. */
static void see_pending(const struct worker_core *core, void *arg)
{
    hvd_hosts_change_t *pending = arg;

    if (!process_self.comm || atomic_load(&process_self.remains))
        *pending = HVD_HOSTS_UNCHANGED;
    else if (atomic_load(&process_self.hold) != 0)
        *pending = HVD_HOSTS_DUE;
    else if (!process_self.solo && core->expects)
        *pending = HVD_HOSTS_EXPECTED;
}

hvd_hosts_change_t hvd_hosts_pending(void)
{
    hvd_hosts_change_t pending = HVD_HOSTS_UNCHANGED;

    if (process_check("hvd_hosts_pending") == HVD_OK)
        control_read(see_pending, &pending);
    return pending;
}

/* ---- the others ---------------------------------------------------------- */

/* It is not closed meanwhile, so its number is no other file's. */
static void kick_control(void)
{
    uint64_t one = 1;
    int fd;

    atomic_fetch_add(&process_self.n_kickers, 1);
    fd = atomic_load(&process_self.kick_fd);
    /* a full eventfd wakes as well */
    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        errno = 0;
    atomic_fetch_sub(&process_self.n_kickers, 1);
}

void hvd_drain(void)
{
    int saved = errno;

    atomic_store(&process_self.drain, true);
    if (process_self.solo)
        atomic_store(&process_self.hold, 1);
    kick_control();
    errno = saved;
}

void hvd_abandon(const char *sentence)
{
    if (process_check("hvd_abandon") != HVD_OK || process_self.solo)
        return;
    if (process_self.kind == PROGRAM_UNDECIDED)
        process_self.kind = PROGRAM_ELASTIC; /* it joins no world any more */
    membership_fail(HVD_ERR_JOB_FAILED,
                    sentence ? sentence : "it has given no reason", true);
    error_set(HVD_ERR_JOB_FAILED, "this process has called hvd_abandon()");
}

void hvd_busy_begin(unsigned timeout_ms)
{
    uint64_t until_us = 0;

    if (timeout_ms > 0)
        until_us = clock_now_us() + (uint64_t)timeout_ms * 1000;
    atomic_store(&process_self.busy_until_us, until_us);
}

void hvd_busy_end(void)
{
    hvd_busy_begin(0);
}
