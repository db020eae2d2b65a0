/* collectives/attempt.c - one attempt to reach a peer by one of its addresses,
 * and which is next. When to try again, and when to give up, is links.c's.
 *
 * A round is an attempt at each address, one after the other without a pause,
 * those that are avoided last (net/avoided.h). Between two rounds is a pause.
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include "base/clock.h"
#include "base/error.h"
#include "collectives/comm_impl.h"
#include "collectives/net/addresses.h"
#include "collectives/net/avoided.h"

enum { ATTEMPT_FIRST_US = 1000000 };

void attempt_put_off(struct connection *c, uint64_t us)
{
    if (c->dial_deadline_us != CLOCK_NEVER)
        c->dial_deadline_us += us;
    if (c->attempt_deadline_us != CLOCK_NEVER)
        c->attempt_deadline_us += us;
}

static unsigned n_addresses(const struct comm *comm, const struct connection *c)
{
    if (c->channel == CHANNEL_LOCAL)
        return 1;
    return (unsigned)addresses_count(comm->peers[c->peer].addresses);
}

bool attempt_again(const struct comm *comm, struct connection *c)
{
    unsigned n = n_addresses(comm, c);

    c->tried |= (uint8_t)(1u << c->address_i);
    if (avoided_pick(n, c->tried, 0) < n)
        return true;
    c->tried = 0;
    return false;
}

void attempt_avoid(struct comm *comm, const struct connection *c,
                   uint64_t now_us)
{
    if (n_addresses(comm, c) > 1)
        endpoint_avoid(comm->config.endpoint, comm->peers[c->peer].worker,
                       c->address_i, now_us);
}

void attempt_fail(struct comm *comm, struct connection *c, uint64_t now_us)
{
    if (c->state == CONNECTION_GREETED)
        attempt_put_off(c, now_us - c->greeted_us);
    else
        attempt_avoid(comm, c, now_us);
    connection_reset(c);
}

/* One address alone has all the time there is. Of several each gets a second at
 * first, in which a lost SYN is not sent again, and then more and more; but all
 * have their turn, twice if they are refused nothing, before time is up. */
static uint64_t attempt_deadline(const struct comm *comm,
                                 const struct connection *c, unsigned n)
{
    uint64_t first_us = comm->config.connect_timeout_us / (2 * n);
    unsigned doublings = c->n_retries < 6 ? c->n_retries : 6;

    if (n == 1)
        return CLOCK_NEVER;
    if (first_us > ATTEMPT_FIRST_US)
        first_us = ATTEMPT_FIRST_US;
    return clock_now_us() + (first_us << doublings);
}

enum io attempt_dial(struct comm *comm, struct connection *c,
                     const uint8_t *hello, hvd_status_t *status_p)
{
    const struct comm_peer *peer = &comm->peers[c->peer];
    unsigned n = n_addresses(comm, c);
    bool near = links_near(comm, c->peer);
    struct sockaddr_storage to;
    socklen_t len;
    enum io io;

    c->dialled = true;
    c->address_i = avoided_pick(
        n, c->tried,
        endpoint_avoided(comm->config.endpoint, peer->worker, clock_now_us()));
    c->attempt_deadline_us = attempt_deadline(comm, c, n);
    if (!addresses_item(peer->addresses, c->address_i, peer->port, &to, &len)) {
        *status_p = error_set(HVD_ERR_INVALID, "not numeric addresses: '%s'",
                              peer->addresses);
        return IO_END;
    }
    io = connection_dial(c, &to, near, hello, status_p);
    if (c->fd >= 0 && !near)
        connection_far_options(c->fd, comm->config.silence_us, true,
                               comm->config.congestion);
    return io;
}

uint64_t attempt_end_us(const struct connection *c)
{
    return c->attempt_deadline_us < c->dial_deadline_us ? c->attempt_deadline_us
                                                        : c->dial_deadline_us;
}
