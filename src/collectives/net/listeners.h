/* collectives/net/listeners.h - the listening sockets of a worker's data plane:
 * one on each of its addresses, all at one port.
 *
 * Threads: as endpoint.h. Memory: the caller's. */
#ifndef COLLECTIVES_NET_LISTENERS_H
#define COLLECTIVES_NET_LISTENERS_H

#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "collectives/net/addresses.h"

struct listeners_config {
    const char *addresses;        /* addresses.h */
    uint16_t port_low, port_high; /* 0: any port that is free */
    uint64_t first; /* whoever has another one begins elsewhere in the range */
    int backlog;
};

struct listeners {
    size_t n;
    int fds[ADDRESSES_MAX]; /* [n] */
    uint16_t port;
};

/* HVD_ERR_INVALID: no such list; HVD_ERR_SYSTEM: an address is not this
 * machine's (the sentence names it), or every port of the range is taken (the
 * sentence names the range). Nothing is open then. */
hvd_status_t listeners_open(const struct listeners_config *config,
                            struct listeners *listeners_p) HVD_MUST_CHECK;

/* Async-signal-safe. Once, or what was zero. */
void listeners_close(struct listeners *listeners);

#endif
