/* elastic/worker/membership.c - into a generation and out of it. See
 * membership.h.
 *
 * Threads: app. Memory: the peers' list lives for one call, the comm for the
 * generation. */
#include "elastic/worker/membership.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/world.h"
#include "collectives/ability.h"
#include "elastic/worker/knobs.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "state/state.h"
#include "timeline/timeline.h"

static uint64_t assigned_ns; /* of the current generation, for reports */

/* ---- the timeline -------------------------------------------------------- */

static uint64_t shown; /* the generation that it has begun; 0: none */

static void show_phase(enum timeline_phase phase, uint64_t start_ns,
                       const struct control_assignment *a)
{
    struct timeline_state state = {.generation = a->generation,
                                   .rank = (int)a->assign.rank,
                                   .size = (int)a->assign.size};

    timeline_elastic(phase, start_ns, &state);
}

static void show_end(void)
{
    struct timeline_state state = {.generation = shown};

    if (shown > 0)
        timeline_elastic(TIMELINE_GENERATION_END, 0, &state);
    shown = 0;
}

/* ---- into a generation --------------------------------------------------- */

_Static_assert((int)READY_CAN_SHARE == (int)COMM_CAN_SHARE &&
                   (int)READY_CAN_ATTACH == (int)COMM_CAN_ATTACH &&
                   (int)READY_CAN_WATCH == (int)COMM_CAN_WATCH &&
                   (int)READY_CAN_AES == (int)COMM_CAN_AES,
               "an ability is an ability");

hvd_status_t membership_enter(hvd_state_t *state)
{
    struct worker_event ev = {.type = WORKER_EV_ENTER};
    char text[STATE_LAYOUT_TEXT_MAX] = "";

    ev.u.enter.kind = state ? READY_ELASTIC : READY_STATIC;
    ev.u.enter.abilities = (uint8_t)ability_probe(
        atomic_load(&process_self.endpoint), knobs_share());
    ev.u.enter.user = (uint32_t)geteuid();
    ev.u.enter.layout_text = text;
    ev.settings = knobs_settings();
    if (state && state_is_on_device(state))
        ev.u.enter.abilities |= READY_ON_DEVICE;
    if (state)
        state_layout(state, ev.u.enter.layout, text, sizeof(text));
    if (control_post(&ev) != HVD_OK)
        return error_set(HVD_ERR_STATE, "the world was joined before");
    return HVD_OK;
}

hvd_status_t membership_verdict(bool *final_p)
{
    struct control_verdict verdict;

    control_verdict(&verdict);
    *final_p = verdict.verdict != WORKER_GO_ON;
    switch (verdict.verdict) {
    case WORKER_GO_ON:
    case WORKER_RELEASED:
        return HVD_OK;
    case WORKER_DRAINED:
        return error_set(HVD_REMOVED, "this worker was drained");
    case WORKER_JOB_FAILED:
    case WORKER_DRIVER_GONE:
        return error_set(verdict.status, "%s", verdict.text);
    }
    abort();
}

static void describe_peers(const struct control_assignment *a,
                           struct comm_peer *peers)
{
    for (uint32_t i = 0; i < a->assign.size; i++) {
        const struct assign_entry *entry = &a->entries[i];
        struct comm_peer *peer = &peers[i];

        _Static_assert(sizeof(peer->addresses) == sizeof(entry->address),
                       "an address is an address");
        peer->worker = entry->worker;
        peer->host = entry->host;
        peer->port = entry->port;
        peer->abilities = entry->abilities;
        memcpy(peer->addresses, entry->address, sizeof(peer->addresses));
    }
}

/* If peers are silent as well, the network of this host is out, or a switch. */
static bool driver_is_silent(uint64_t now_us)
{
    return now_us >= atomic_load_explicit(&process_self.driver_due_us,
                                          memory_order_relaxed);
}

static hvd_status_t make_comm(const struct control_assignment *a)
{
    struct comm_config config = {
        .endpoint = atomic_load(&process_self.endpoint),
        .job = process_self.self.job,
        .generation = a->generation,
        .rank = (int)a->assign.rank,
        .size = (int)a->assign.size,
        .connect_timeout_us = a->connect_timeout_us,
        .silence_us = a->silence_us,
        .is_cut_off = driver_is_silent,
        .encrypt = a->encrypt_data};
    struct comm_peer *peers = calloc(a->assign.size, sizeof(*peers));
    struct comm *comm;
    hvd_status_t status;

    if (!peers)
        return error_set(HVD_ERR_NOMEM, "%" PRIu32 " peers: out of memory",
                         a->assign.size);
    _Static_assert((int)COMM_KEY_NBYTES == (int)WIRE_KEY_NBYTES, "one key");
    memcpy(config.key, a->assign.key, sizeof(config.key));
    describe_peers(a, peers);
    config.peers = peers;
    knobs_apply(&config);
    status = comm_create(&config, &comm);
    free(peers);
    if (status == HVD_OK)
        control_attach(comm, a->generation);
    return status;
}

hvd_status_t membership_await(uint64_t above, struct control_assignment *a_p)
{
    uint64_t start_ns = timeline_clock();
    hvd_status_t status;
    bool final;

    HVD_TRY(control_wait(control_assigned, above, CLOCK_NEVER));
    status = membership_verdict(&final);
    if (final)
        return status == HVD_OK ? HVD_ERR_JOB_FAILED : status;
    control_assignment(a_p);
    show_phase(TIMELINE_RENDEZVOUS, start_ns, a_p);
    assigned_ns = a_p->assigned_ns;
    process_self.left = false;
    process_self.went_on = false;
    process_self.first_collective_due = false; /* before the sync none counts */
    process_self.first_commit_due = true;
    process_self.n_commits = 0;
    HVD_TRY(knobs_take_settings(a_p->assign.settings));
    return make_comm(a_p);
}

void membership_show(const struct control_assignment *a)
{
    const struct msg_assign *assign = &a->assign;
    struct world world = {.generation = a->generation,
                          .rank = (int)assign->rank,
                          .size = (int)assign->size,
                          .local_rank = (int)assign->local_rank,
                          .local_size = (int)assign->local_size,
                          .cross_rank = (int)assign->cross_rank,
                          .cross_size = (int)assign->cross_size};

    world_set(&world);
    show_phase(TIMELINE_GENERATION_BEGIN, 0, a);
    shown = a->generation;
}

/* ---- out of it ----------------------------------------------------------- */

static void accuse(struct msg_lost *lost)
{
    size_t n;
    const int *accused = comm_accused(process_self.comm, &n);

    if (n > WIRE_ACCUSED_MAX)
        n = WIRE_ACCUSED_MAX;
    for (size_t i = 0; i < n; i++)
        lost->accused[i] = (uint32_t)accused[i];
    lost->n_accused = (uint32_t)n;
    lost->proven = comm_accused_proven(process_self.comm);
}

void membership_lost(uint64_t generation, bool mismatch, const char *text)
{
    struct worker_event ev = {.type = WORKER_EV_LOST};
    struct msg_lost *lost = &ev.u.lost;
    size_t n = text ? strnlen(text, sizeof(lost->text) - 1) : 0;
    struct timeline_state state = {.generation = generation, .text = text};

    timeline_elastic(TIMELINE_PEER_LOST, 0, &state);
    lost->generation = generation;
    lost->mismatch = mismatch;
    if (n > 0)
        memcpy(lost->text, text, n);
    if (process_self.comm) {
        comm_leave(process_self.comm, COMM_LEAVE_ABORT, 0);
        accuse(lost);
    }
    ev.gone = (uint8_t)ability_gone(); /* nobody waits for us any more */
    ev.settings = knobs_settings();
    /* the core refuses what the driver's last word has overtaken */
    (void)control_post(&ev);
}

void membership_close(void)
{
    struct comm *comm = process_self.comm;

    show_end();
    control_attach(NULL, 0);
    sets_leave();
    comm_destroy(comm);
    endpoint_set_fence(atomic_load(&process_self.endpoint), control_fence());
}

void membership_remain(const struct control_assignment *a)
{
    struct control_assignment after = *a;

    after.generation++; /* the driver gives it to nobody */
    process_self.remains = true;
    sets_begin();
    if (make_comm(&after) == HVD_OK)
        return;
    log_warn("%s -> no collectives after the run", error_text());
    error_clear();
}

/* This rank has completed every call. Ranks that are still in one learn that it
 * left for good, and complete the call without an abort. */
void membership_part(void)
{
    if (process_self.remains && comm_status(process_self.comm, NULL) == HVD_OK)
        comm_leave(process_self.comm, COMM_LEAVE_DONE,
                   atomic_load(&process_self.boundary));
}

void membership_hear(void)
{
    /* no answer is as good as one: the exit status tells the agent */
    if (control_wait(control_final, 0, clock_now_us() + GOODBYE_US) != HVD_OK)
        error_clear();
}

void membership_fail(hvd_status_t status, const char *text, bool alone)
{
    struct worker_event ev = {.type = WORKER_EV_FAILED};

    if (process_self.comm && !alone)
        comm_leave(process_self.comm, COMM_LEAVE_ABORT, 0);
    ev.u.failed.status = status;
    ev.u.failed.text = text;
    ev.u.failed.alone = alone;
    (void)control_post(&ev);
    membership_hear();
    if (process_self.comm && alone) /* the driver knows first why it goes */
        comm_leave(process_self.comm, COMM_LEAVE_ABORT, 0);
}

void membership_report(enum report_what what, uint64_t generation,
                       uint64_t since_ns, uint64_t nbytes, uint32_t sources)
{
    struct worker_event ev = {.type = WORKER_EV_REPORT};

    ev.u.report.generation = generation;
    ev.u.report.what = (uint8_t)what;
    ev.u.report.duration_ns = clock_now_ns() - since_ns;
    ev.u.report.nbytes = nbytes;
    ev.u.report.sources = sources;
    (void)control_post(&ev);
}

static void report_first(_Atomic bool *due, enum report_what what)
{
    struct world world;

    if (!atomic_load_explicit(due, memory_order_relaxed) ||
        !atomic_exchange(due, false))
        return;
    world_get(&world);
    membership_report(what, world.generation, assigned_ns, 0, 0);
}

void membership_report_collective(void)
{
    report_first(&process_self.first_collective_due, REPORT_FIRST_COLLECTIVE);
}

void membership_report_commit(void)
{
    report_first(&process_self.first_commit_due, REPORT_FIRST_COMMIT);
}
