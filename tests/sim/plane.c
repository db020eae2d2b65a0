/* plane.c - the data plane between virtual workers: what comm.h promises, with
 * nothing in it but who waits for whom.
 *
 * A collective completes when all members (a broadcast: its root) have entered
 * it. Who dies or leaves as lost breaks the generation: who waits for him
 * returns HVD_PEER_LOST; an operation that all had entered may still complete
 * on some ranks. A transfer of state takes both its ends. */
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "base/error.h"

#define ULL(x) ((unsigned long long)(x))

static struct sim_worker *member(struct sim *s, const struct sim_generation *g,
                                 uint32_t rank)
{
    struct sim_worker *w = sim_worker(s, g->members[rank]);

    return w && w->alive && !w->out && w->generation == g->generation ? w
                                                                      : NULL;
}

/* A network that is away for a while holds up what TCP sends again. */
static uint64_t held_up_us(const struct sim *s)
{
    return s->plane_cut_us > s->now_us ? s->plane_cut_us - s->now_us : 0;
}

/* ---- a comm's end -------------------------------------------------------- */

static void fail(struct comm *comm, hvd_status_t status, const char *text)
{
    if (comm->status != HVD_OK)
        return; /* the first reason stays */
    comm->status = status;
    snprintf(comm->text, sizeof(comm->text), "%s", text);
}

static void wake_failed(struct sim *s, struct sim_worker *w, uint64_t low_us,
                        uint64_t high_us)
{
    w->completing = false;
    if (w->sleep == SLEEP_PEERS && s->running != w)
        app_set_timer(s, w, sim_uniform(s, low_us, high_us));
}

/* Whoever is in a collective that will never be complete hears of it. */
static void break_generation(struct sim *s, struct sim_generation *g)
{
    if (g->broken)
        return;
    g->broken = true;
    for (uint32_t rank = 0; rank < g->size; rank++) {
        struct sim_worker *w = member(s, g, rank);

        if (!w || w->sleep != SLEEP_PEERS)
            continue;
        if (w->completing && held_up_us(s) == 0 && sim_one_in(s, 2))
            continue;
        fail(&w->comm, HVD_PEER_LOST, "a peer is gone");
        wake_failed(s, w, 100, 10 * MSEC);
    }
}

void plane_peer_gone(struct sim *s, struct sim_worker *w)
{
    struct sim_generation *g = sim_generation(s, w->generation);

    if (!g || w->out)
        return;
    if (g->n_dead < ARRAY_SIZE(g->dead))
        g->dead[g->n_dead++] = w->rank;
    w->out = true;
    if (w->core.verdict != WORKER_RELEASED)
        break_generation(s, g);
}

void plane_lose(struct sim *s, struct sim_worker *w)
{
    struct comm *comm = &w->comm;

    if (!process_runs(w) || w->out || !w->process.comm ||
        comm->status != HVD_OK || (w->sleep == SLEEP_PEERS && w->completing))
        return;
    fail(comm, HVD_PEER_LOST, "a connection has ended");
    wake_failed(s, w, 10, 2 * MSEC);
}

void comm_abort(struct comm *comm, hvd_status_t reason, const char *text)
{
    struct sim *s = sim_current;
    struct sim_worker *w = comm->owner;

    fail(comm, reason, text);
    if (w->completing && held_up_us(s) == 0 && sim_one_in(s, 2))
        return; /* the abort crosses completion */
    wake_failed(s, w, 10, 2 * MSEC);
}

/* A call ends with it: from here on the comm is torn down. */
static hvd_status_t failed(struct comm *comm)
{
    comm->torn = true;
    return error_set(comm->status, "%s", comm->text);
}

/* ---- collectives --------------------------------------------------------- */

static void will_complete(struct sim *s, struct sim_worker *w)
{
    w->completing = true;
    app_set_timer(s, w, held_up_us(s) + sim_uniform(s, 5, 300));
}

/* Everybody who waits in operation k may go on. */
static void wake_op(struct sim *s, struct sim_generation *g, uint64_t k)
{
    for (uint32_t rank = 0; rank < g->size; rank++) {
        struct sim_worker *w = member(s, g, rank);

        if (w && w->app == APP_IN_OP && w->entered == k && !w->completing &&
            w->comm.status == HVD_OK)
            will_complete(s, w);
    }
}

static void count_entry(struct sim *s, struct sim_worker *w,
                        struct sim_generation *g)
{
    if (!array_reserve(&g->entered, &g->entered_max, w->entered + 1))
        abort();
    g->entered[w->entered]++;
    if (g->entered_most < w->entered)
        g->entered_most = w->entered;
    if (g->left_any && w->entered > g->left_entered && !g->broken)
        check_fail(s,
                   "w%llu is in operation %llu of generation %llu; a peer has "
                   "left it at boundary %llu",
                   ULL(w->id), ULL(w->entered), ULL(g->generation),
                   ULL(g->left_boundary));
}

static void enter(struct sim *s, struct sim_worker *w, bool by_root)
{
    struct sim_generation *g = sim_generation(s, w->generation);

    w->entered++;
    w->app = APP_IN_OP;
    w->serial++;
    count_entry(s, w, g);
    app_trap(s, w, TRAP_IN_OP);
    if (g->broken) {
        fail(&w->comm, HVD_PEER_LOST, "a peer is gone");
        app_set_timer(s, w, sim_uniform(s, 100, 5 * MSEC));
    } else if (by_root && w->rank == g->root) {
        g->root_entered = w->entered;
        wake_op(s, g, w->entered);
    } else if (by_root && g->root_entered >= w->entered) {
        will_complete(s, w);
    } else if (!by_root && g->entered[w->entered] == g->size) {
        wake_op(s, g, w->entered);
    }
}

hvd_status_t comm_run(struct comm *comm, const struct collective_args *args)
{
    struct sim *s = sim_current;
    struct sim_worker *w = comm->owner;

    if (comm->status != HVD_OK)
        return failed(comm);
    enter(s, w, args->kind == COLLECTIVE_BROADCAST);
    do {
        w->sleep = SLEEP_PEERS;
        thread_sleep(s);
    } while (!w->completing && comm->status == HVD_OK);
    w->app = APP_COMPUTING;
    if (!w->completing)
        return failed(comm);
    w->completing = false;
    w->operation++;
    return HVD_OK;
}

hvd_status_t comm_run_group(struct comm *comm,
                            const struct collective_args *args,
                            const struct comm_group *group)
{
    (void)group;
    return comm_run(comm, args);
}

/* Nothing is ever posted here. */
hvd_status_t comm_drain(struct comm *comm)
{
    (void)comm;
    return HVD_OK;
}

/* ---- transfers of state -------------------------------------------------- */

/* Both ends are there: it takes its time. */
static void meet(struct sim *s, struct sim_worker *a, struct sim_worker *b)
{
    /* one after the other from the first root to all */
    uint64_t us = s->options.large ? sim_uniform(s, 1, 20)
                                   : sim_uniform(s, MSEC, 20 * MSEC);

    us += held_up_us(s);
    a->completing = b->completing = true;
    if (s->running != a)
        app_set_timer(s, a, us);
    if (s->running != b)
        app_set_timer(s, b, us);
    app_set_timer(s, s->running, us);
}

static struct sim_worker *other_end(struct sim *s, const struct sim_worker *w,
                                    int peer)
{
    struct sim_generation *g = sim_generation(s, w->generation);
    struct sim_worker *other = member(s, g, (uint32_t)peer);

    return other && other->sleep == SLEEP_PEERS &&
                   other->transfer == (int)w->rank && !other->completing &&
                   other->comm.status == HVD_OK
               ? other
               : NULL;
}

/* One end of a transfer. */
hvd_status_t plane_transfer(struct comm *comm, int peer)
{
    struct sim *s = sim_current;
    struct sim_worker *w = comm->owner, *other;
    struct sim_generation *g = sim_generation(s, w->generation);

    if (comm->status != HVD_OK)
        return failed(comm);
    if (g->broken) {
        fail(comm, HVD_PEER_LOST, "a peer is gone");
        return failed(comm);
    }
    w->transfer = peer;
    w->completing = false;
    w->serial++;
    other = other_end(s, w, peer);
    if (other)
        meet(s, w, other);
    do {
        w->sleep = SLEEP_PEERS;
        thread_sleep(s);
    } while (!w->completing && comm->status == HVD_OK);
    w->transfer = -1;
    if (!w->completing)
        return failed(comm);
    w->completing = false;
    w->moves++;
    return HVD_OK;
}

/* ---- a comm's life ------------------------------------------------------- */

/* A newcomer now and then cannot enter: too few descriptors. Not drawn from the
 * world's numbers. */
static bool cannot_enter(struct sim *s, struct sim_worker *w)
{
    struct random_state r = {s->options.seed * 7919 + w->id};

    if (s->options.base || s->options.large || w->generation == 1 ||
        w->joined != w->generation || random_below(&r, 40) > 0)
        return false;
    if (!sim_befalls(s, MISHAP_NO_ENTRY))
        return false;
    sim_cover(s, COVER_cannot_enter);
    return true;
}

hvd_status_t comm_create(const struct comm_config *config, struct comm **comm_p)
{
    struct sim *s = sim_current;
    struct sim_worker *w = sim_self();

    w->generation = config->generation;
    w->rank = (uint32_t)config->rank;
    w->out = w->completing = w->committed_here = false;
    w->operation = w->entered = 0;
    w->transfer = -1;
    w->app = APP_SYNCING;
    w->comm = (struct comm){.owner = w, .generation = config->generation};
    if (w->slanders > 0)
        fail(&w->comm, HVD_PEER_LOST, "a connection has ended");
    if (cannot_enter(s, w))
        return error_set(HVD_ERR_SYSTEM, "cannot enter");
    *comm_p = &w->comm;
    return HVD_OK;
}

void comm_destroy(struct comm *comm)
{
    if (comm) /* without a goodbye it is a loss for the others */
        plane_peer_gone(sim_current, comm->owner);
}

hvd_status_t comm_status(const struct comm *comm, const char **text_p)
{
    if (text_p)
        *text_p = comm->text;
    return comm->status;
}

hvd_status_t comm_whole(struct comm *comm)
{
    return comm->torn ? error_set(comm->status, "%s", comm->text) : HVD_OK;
}

hvd_status_t comm_unwaited(struct comm *comm)
{
    (void)comm;
    return HVD_OK;
}

uint64_t comm_generation(const struct comm *comm)
{
    return comm->generation;
}

/* Either of the two may be at fault. */
hvd_status_t comm_distrust(struct comm *comm, int peer, const char *text)
{
    fail(comm, HVD_PEER_LOST, text);
    accuse_rank(comm, (uint32_t)peer, true);
    accuse_rank(comm, comm->owner->rank, true);
    break_generation(sim_current,
                     sim_generation(sim_current, comm->generation));
    return failed(comm);
}

const int *comm_accused(const struct comm *comm, size_t *n_p)
{
    struct comm *own = &comm->owner->comm;

    if (!own->has_accused)
        accuse_all(sim_current, own);
    own->has_accused = true;
    *n_p = own->n_accused;
    return own->accused;
}

uint64_t comm_accused_proven(const struct comm *comm)
{
    return comm->proven;
}

void comm_set_boundary(struct comm *comm, uint64_t boundary)
{
    (void)comm;
    (void)boundary;
}

static void leave_at(struct sim *s, struct sim_worker *w, uint64_t boundary)
{
    struct sim_generation *g = sim_generation(s, w->generation);

    if (g->left_any && g->left_boundary != boundary)
        check_fail(s,
                   "generation %llu is left at two boundaries: %llu, and "
                   "%llu by w%llu",
                   ULL(g->generation), ULL(g->left_boundary), ULL(boundary),
                   ULL(w->id));
    if (g->entered_most > w->entered && !g->broken)
        check_fail(s, "w%llu leaves at boundary %llu, a peer waits for it",
                   ULL(w->id), ULL(boundary));
    g->left_any = true;
    g->left_boundary = boundary;
    g->left_entered = w->entered;
    TRACE(s, "w%llu leaves generation %llu at boundary %llu", ULL(w->id),
          ULL(w->generation), ULL(boundary));
}

void comm_leave(struct comm *comm, enum comm_leave_kind kind, uint64_t boundary)
{
    struct sim *s = sim_current;
    struct sim_worker *w = comm->owner;

    if (w->out || kind == COMM_LEAVE_DONE)
        return;
    w->out = comm->torn = true;
    w->completing = false;
    fail(comm, HVD_PEER_LOST, "left");
    if (kind == COMM_LEAVE_BOUNDARY) {
        leave_at(s, w, boundary);
        return;
    }
    TRACE(s, "w%llu leaves generation %llu: %s", ULL(w->id), ULL(w->generation),
          comm->text);
    break_generation(s, sim_generation(s, w->generation));
}

uint64_t comm_operations(const struct comm *comm)
{
    return comm->owner->operation;
}

uint64_t comm_called(const struct comm *comm)
{
    return comm->owner->entered;
}

uint64_t comm_moves(struct comm *comm)
{
    return comm->owner->moves;
}
