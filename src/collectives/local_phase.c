/* collectives/local_phase.c - a comm and the group of its ranks that share this
 * host (local/local.h): what the engine, the links and the group need of each
 * other.
 *
 * Threads: whoever drives the comm. Memory: the group, as long as the comm. */
#include "base/array.h"
#include "collectives/comm_impl.h"
#include "collectives/local/mailbox.h"

/* --- what the group asks of its comm --- */

static hvd_status_t dial(struct comm *comm, int rank)
{
    return links_dial(comm, rank, CHANNEL_LOCAL);
}

static hvd_status_t read_link(struct comm *comm, struct connection *c)
{
    bool moved;

    return links_read(comm, c, &moved);
}

static void arrived(struct comm *comm)
{
    operation_arrived(&comm->op);
}

/* --- what its connections are about --- */

static size_t fds_to_show(struct comm *comm, int *fds)
{
    return local_fds(comm->local, fds);
}

static hvd_status_t map_peer(struct comm *comm, int peer, const int *fds,
                             size_t n_fds)
{
    HVD_ASSERT(n_fds == LOCAL_FDS);
    return local_map_peer(comm->local, peer, fds);
}

static const struct comm_local_ops local_ops = {fds_to_show, map_peer};

/* --- its life --- */

static const uint8_t forced_ways[] = {
    [COMM_ORDINARY_MEASURED] = MAILBOX_NONE,
    [COMM_ORDINARY_STAGED] = MAILBOX_STAGED,
    [COMM_ORDINARY_ATTACHED] = MAILBOX_ATTACH,
};

hvd_status_t comm_share(struct comm *comm)
{
    size_t size = (size_t)comm->config.size;
    const struct local_config config = {
        .owner = {.comm = comm,
                  .verdict = &comm->verdict,
                  .kick = &comm->kick,
                  .in_background = &comm->in_background,
                  .bounce = comm->bounce,
                  .links = comm->links + CHANNEL_LOCAL * size,
                  .dial = dial,
                  .read = read_link,
                  .disagree = engine_disagree,
                  .arrived = arrived},
        .endpoint = comm->config.endpoint,
        .generation = comm->config.generation,
        .rank = comm->config.rank,
        .size = comm->config.size,
        .peers = comm->peers,
        .forced_way = forced_ways[comm->config.ordinary],
    };

    HVD_TRY(local_create(&config, &comm->local));
    comm->uses_local = comm->local != NULL;
    comm->local_ops = comm->local != NULL ? &local_ops : NULL;
    return HVD_OK;
}

/* --- its phases --- */

static hvd_status_t begin(struct comm *comm, const struct phase *phase)
{
    return local_begin(comm->local, phase, &comm->op.head);
}

static hvd_status_t advance(struct comm *comm, bool *more_p)
{
    return local_advance(comm->local, more_p);
}

static bool done(const struct comm *comm)
{
    return local_done(comm->local);
}

static hvd_status_t look_again(struct comm *comm, bool *more_p)
{
    return local_look_again(comm->local, more_p);
}

static bool needs(const struct comm *comm, int peer)
{
    return local_needs(comm->local, peer);
}

static bool will_need(const struct comm *comm, const struct phase *phase,
                      int peer, unsigned n)
{
    (void)phase; /* all of the host take part in each */
    return local_will_need(comm->local, peer, n);
}

static void waits(const struct comm *comm, int peers[2])
{
    peers[0] = local_missing(comm->local);
    peers[1] = -1;
}

static void fall_asleep(struct comm *comm)
{
    local_sleep(comm->local);
}

static void wake_up(struct comm *comm)
{
    local_wake(comm->local);
}

static int doorbell(const struct comm *comm)
{
    return local_doorbell(comm->local);
}

static const char *algorithm(const struct phase *phase)
{
    (void)phase;
    return "shared_memory";
}

const struct phase_ops local_phase = {
    .begin = begin,
    .advance = advance,
    .done = done,
    .look_again = look_again,
    .needs = needs,
    .will_need = will_need,
    .waits = waits,
    .uses_links = false,
    .sleep = fall_asleep,
    .wake = wake_up,
    .doorbell = doorbell,
    .algorithm = algorithm,
};
