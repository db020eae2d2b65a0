/* collectives/stripes.c - see stripes.h.
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include "collectives/stripes.h"

#include "base/array.h"
#include "base/clock.h"

enum { GOODBYE_US = 200000 };

_Static_assert(CHANNEL_COUNT - CHANNEL_STRIPE == FRAME_SHARES_MAX - 1,
               "a stripe for each share but the first");

/* The connection of share k, from 1. */
static struct connection *stripe(const struct comm *comm,
                                 const struct connection *data, unsigned k)
{
    return comm_link(comm, CHANNEL_STRIPE + (int)k - 1, data->peer);
}

static unsigned connections(const struct comm *comm,
                            const struct connection *data)
{
    int n = comm->config.tcp_connections;

    HVD_ASSERT(n <= FRAME_SHARES_MAX);
    return data->channel == CHANNEL_DATA && n > 1 ? (unsigned)n : 1;
}

static bool is_cut(const struct connection *data)
{
    return data->reading == READING_PAYLOAD && data->frame.shares > 1;
}

/* A share is missing, and this is where it would have gone. */
static void broken(struct comm *comm, struct connection *c)
{
    if (c->broken_us != 0)
        return;
    c->broken_us = clock_now_us() + GOODBYE_US;
    comm_link(comm, CHANNEL_DATA, c->peer)->stripe_broken = true;
}

static hvd_status_t dial(struct comm *comm, const struct connection *data,
                         size_t nbytes)
{
    if (nbytes < STRIPES_FRAME_MIN || data->peer > comm->config.rank ||
        data->state != CONNECTION_OPEN)
        return HVD_OK;
    for (unsigned k = 1; k < connections(comm, data); k++)
        HVD_TRY(links_dial(comm, data->peer, CHANNEL_STRIPE + (int)k - 1));
    return HVD_OK;
}

/* --- sending --- */

static unsigned usable(const struct comm *comm, const struct connection *data,
                       size_t nbytes)
{
    unsigned n = nbytes < STRIPES_FRAME_MIN ? 1 : connections(comm, data);

    for (unsigned k = 1; k < n; k++) {
        const struct connection *c = stripe(comm, data, k);

        if (c == NULL || c->state != CONNECTION_OPEN || c->shut || c->ended ||
            !connection_idle(c))
            return k;
    }
    return n;
}

hvd_status_t stripes_queue(struct comm *comm, struct connection *data,
                           struct frame *frame, const uint8_t *payload)
{
    unsigned n = usable(comm, data, frame->nbytes);
    bool queued;

    frame->shares = (uint8_t)n;
    queued = connection_queue(data, frame, payload);
    HVD_ASSERT(queued);
    data->sent_end = payload + frame->nbytes;
    for (unsigned k = 1; k < n; k++)
        connection_queue_share(
            stripe(comm, data, k), payload + frame_share(frame, k),
            frame_share(frame, k + 1) - frame_share(frame, k));
    return dial(comm, data, frame->nbytes);
}

hvd_status_t stripes_flush(struct comm *comm, struct connection *data)
{
    HVD_TRY(links_flush(comm, data));
    for (unsigned k = 1; k < connections(comm, data); k++) {
        struct connection *c = stripe(comm, data, k);

        if (c != NULL && connection_owes(c))
            HVD_TRY(links_flush(comm, c));
    }
    return HVD_OK;
}

bool stripes_idle(const struct comm *comm, const struct connection *data)
{
    if (!connection_idle(data))
        return false;
    for (unsigned k = 1; k < connections(comm, data); k++) {
        const struct connection *c = stripe(comm, data, k);

        if (c != NULL && (connection_owes(c) || c->broken_us != 0))
            return false;
    }
    return true;
}

size_t stripes_unsent(const struct comm *comm, const struct connection *data)
{
    if (data->payload_n > 0)
        return (size_t)(data->sent_end - data->payload);
    for (unsigned k = 1; k < connections(comm, data); k++) {
        const struct connection *c = stripe(comm, data, k);

        if (c != NULL && c->payload_n > 0)
            return (size_t)(data->sent_end - c->payload);
    }
    return 0;
}

/* --- receiving --- */

/* Part k has its connection at last, or never will. */
static bool take_up(struct comm *comm, struct connection *data, unsigned k)
{
    struct connection *c = stripe(comm, data, k);
    size_t from = frame_share(&data->frame, k);

    if (c != NULL && c->ended && c->reading != READING_SHARE)
        broken(comm, c);
    if (c == NULL || c->reading != READING_SHARE)
        return false;
    connection_claim_share(c, data->shares_dest + from,
                           frame_share(&data->frame, k + 1) - from);
    if (c->dest_n > 0 && c->ended)
        broken(comm, c);
    return true;
}

bool stripes_complete(struct comm *comm, struct connection *data)
{
    if (data->frame.shares <= 1)
        return true;
    while (data->shares_claimed < data->frame.shares) {
        if (!take_up(comm, data, data->shares_claimed))
            return false;
        data->shares_claimed++;
    }
    for (unsigned k = 1; k < data->frame.shares; k++)
        if (stripe(comm, data, k)->dest_n > 0)
            return false;
    return true;
}

hvd_status_t stripes_claim(struct comm *comm, struct connection *data,
                           void *dest)
{
    /* a sender cuts for connections that both have */
    for (unsigned k = 1; k < data->frame.shares; k++)
        if (stripe(comm, data, k) == NULL)
            return links_lost(comm, data, "it sent a malformed frame");
    connection_claim(data, dest);
    data->shares_dest = dest;
    data->shares_claimed = 1;
    (void)stripes_complete(comm, data); /* take up what there is */
    return dial(comm, data, data->frame.nbytes);
}

hvd_status_t stripes_read(struct comm *comm, struct connection *data,
                          bool *moved_p)
{
    for (unsigned k = 1; is_cut(data) && k < data->frame.shares; k++) {
        struct connection *c = stripe(comm, data, k);

        if (c != NULL)
            HVD_TRY(links_read(comm, c, moved_p));
    }
    return HVD_OK;
}

hvd_status_t stripes_digest(struct comm *comm, struct connection *c)
{
    struct connection *data = comm_link(comm, CHANNEL_DATA, c->peer);

    if (c->dest_n > 0 || !is_cut(data) || data->dest_n > 0)
        return HVD_OK;
    return stripes_complete(comm, data) ? links_digest(comm, data) : HVD_OK;
}

/* --- of any connection --- */

bool stripes_silent(const struct connection *c)
{
    if (c->reading == READING_SHARE)
        return c->dest_n == 0;
    return is_cut(c) && c->dest_n == 0 && !c->stripe_broken;
}

void stripes_end(struct comm *comm, struct connection *c)
{
    HVD_ASSERT(connection_is_stripe(c));
    if (c->dest_n > 0)
        broken(comm, c);
    stripes_shut(comm, c);
    c->ended = c->shut = true;
    connection_drop(c);
}

void stripes_shut(struct comm *comm, struct connection *c)
{
    if (connection_is_stripe(c) && connection_owes(c))
        broken(comm, c);
}

void stripes_hung_up(struct comm *comm, struct connection *c)
{
    if (!stripes_silent(c))
        return;
    if (connection_is_stripe(c))
        stripes_end(comm, c);
    else
        c->stripe_broken = true; /* so that its goodbye is read */
}
