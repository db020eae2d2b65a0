/* elastic/worker/boundary.c - hvd_state_commit and
 * hvd_state_check_host_updates: where a worker may leave a generation without
 * losing anything.
 *
 * In the steady state a boundary is one atomic increment and two atomic loads;
 * no message, no system call. Its other half, HOLD, is in control.c; why they
 * cannot miss each other is in docs/protocol.md: both sides write first and
 * read second. What a commit adds to that, besides the copy, is commit.c's.
 *
 * Threads: app. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/world.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/commit.h"
#include "elastic/worker/control.h"
#include "elastic/worker/knobs.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "state/state.h"
#include "timeline/timeline.h"

static hvd_status_t save(hvd_state_t *state)
{
    uint64_t start_ns = timeline_clock();

    HVD_TRY(commit_save(state));
    timeline_elastic(TIMELINE_COMMIT, start_ns, NULL);
    membership_report_commit();
    return HVD_OK;
}

/* A difference ends the job as ranks that disagree do; with ",warn" rank 0 says
 * so. */
static hvd_status_t differs(enum state_difference difference, int rank,
                            const char *what)
{
    static struct log_seldom seldom; /* app alone */
    char text[WIRE_TEXT_MAX];
    struct text t = text_into(text, sizeof(text));

    text_add(&t, "at commit ");
    text_u64(&t, process_self.n_commits);
    text_add(&t, " of generation ");
    text_u64(&t, comm_generation(process_self.comm));
    text_add(&t, " ");
    text_add(&t, what);
    if (difference == STATE_DIFFERS && !knobs_verify()->warns) {
        comm_abort(process_self.comm, HVD_ERR_MISMATCH, text);
        return error_set(HVD_ERR_MISMATCH, "%s", text);
    }
    if (rank == 0)
        log_seldom(&seldom, LOG_LEVEL_WARN, "%s", text);
    return HVD_OK;
}

/* The ranks make this commit together, or a peer is lost, as boundary() finds
 * out then. */
static hvd_status_t compare(hvd_state_t *state, const struct world *world)
{
    enum state_difference difference = STATE_EQUAL;
    char what[WIRE_TEXT_MAX];
    struct text t = text_into(what, sizeof(what));
    hvd_status_t status;

    collective_enter();
    status = state_verify(state, process_self.comm, world->size, &t,
                          &difference);
    collective_exit();
    if (status == HVD_OK && difference != STATE_EQUAL)
        status = differs(difference, world->rank, what);
    return status == HVD_PEER_LOST ? HVD_OK : status;
}

/* Do all ranks have the same? Most commits do not ask. */
static hvd_status_t verify(hvd_state_t *state)
{
    struct process *p = &process_self;
    struct world world;

    if (!p->comm || p->remains ||
        !verify_rule_applies(knobs_verify(), ++p->n_commits))
        return HVD_OK;
    world_get(&world);
    return world.size < 2 ? HVD_OK : compare(state, &world);
}

/* The generation ended from outside or by a loss; a mismatch ends the job. The
 * program hears of it now: from here on nothing is committed. */
static hvd_status_t lost(void)
{
    const char *text;
    hvd_status_t status;

    comm_abort(process_self.comm, HVD_PEER_LOST, "the generation was ended");
    comm_leave(process_self.comm, COMM_LEAVE_ABORT, 0);
    status = comm_status(process_self.comm, &text);
    return error_set(status, "%s", text);
}

/* All ranks leave here. What the peers read from our connections says so. */
static hvd_status_t leave_here(hvd_state_t *state, uint64_t boundary,
                               bool committed)
{
    if (!committed)
        HVD_TRY(save(state));
    if (process_self.comm && !process_self.solo)
        comm_leave(process_self.comm, COMM_LEAVE_BOUNDARY, boundary);
    process_self.left = true;
    timeline_elastic(TIMELINE_HOSTS_UPDATED, 0, NULL);
    return error_set(HVD_HOSTS_UPDATED, "hosts change at boundary %" PRIu64,
                     boundary);
}

/* The others may leave here, and the program goes on: it is out of this
 * generation. */
static hvd_status_t stopped(hvd_status_t status)
{
    char text[WIRE_TEXT_MAX];

    snprintf(text, sizeof(text), "%s", error_text());
    comm_abort(process_self.comm, HVD_PEER_LOST, text);
    comm_leave(process_self.comm, COMM_LEAVE_ABORT, 0);
    return error_set(status, "%s", text);
}

/* HOLD is standing: wait for the boundary at which everybody leaves. */
static hvd_status_t held(hvd_state_t *state, uint64_t boundary, bool committed)
{
    enum worker_boundary where = control_boundary(boundary);

    while (where == WORKER_BOUNDARY_WAIT) {
        hvd_status_t status = control_wait(control_at_cut, boundary,
                                           CLOCK_NEVER);

        if (status != HVD_OK)
            return stopped(status);
        where = control_boundary(boundary);
    }
    if (where == WORKER_BOUNDARY_LEAVE)
        return leave_here(state, boundary, committed);
    return where == WORKER_BOUNDARY_PASS ? HVD_OK : lost();
}

static hvd_status_t boundary(hvd_state_t *state, bool committed)
{
    struct process *p = &process_self;
    struct comm *comm = p->comm;
    uint64_t n;

    if (!comm || p->remains)
        return HVD_OK; /* no world yet, or the last one: nothing to leave */
    if (p->left)
        return commit_check();
    n = atomic_load_explicit(&p->boundary, memory_order_relaxed) + 1;
    atomic_store(&p->boundary, n);
    comm_set_boundary(comm, n);
    if (comm_status(comm, NULL) != HVD_OK)
        return lost();
    if (__builtin_expect(atomic_load(&p->hold) == 0, 1))
        return HVD_OK;
    if (p->solo)
        return leave_here(state, n, committed);
    return held(state, n, committed);
}

hvd_status_t hvd_state_commit(hvd_state_t *state)
{
    HVD_TRY(process_check("hvd_state_commit"));
    if (!state)
        return error_set(HVD_ERR_INVALID, "hvd_state_commit: state is NULL");
    HVD_TRY(collective_drain()); /* the time of it is not the commit's */
    HVD_TRY(save(state));
    HVD_TRY(error_prefix(verify(state), "hvd_state_commit"));
    return boundary(state, true);
}

hvd_status_t hvd_state_check_host_updates(hvd_state_t *state)
{
    HVD_TRY(process_check("hvd_state_check_host_updates"));
    if (!state)
        return error_set(HVD_ERR_INVALID,
                         "hvd_state_check_host_updates: state is NULL");
    /* nobody drives what was posted while control_wait() serves the endpoint */
    HVD_TRY(collective_drain());
    if (process_self.comm && !process_self.left)
        HVD_TRY(comm_unwaited(process_self.comm));
    return boundary(state, false);
}
