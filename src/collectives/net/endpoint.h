/* collectives/net/endpoint.h - a process's data-plane address: listening
 * sockets over TCP (listeners.h), and one with an abstract name for workers of
 * the same host, from hvd_init to hvd_shutdown, over all generations; and the
 * connections that generations have left behind.
 *
 * A connection that arrives is judged by its handshake {magic, version, job,
 * generation, worker, channel, macs}: without the job's key it is refused, at
 * or below the fence too (and told why, if it belongs to the generation left
 * last), of the generation in use it is handed to its comm, of a newer one it
 * is held unanswered (bounded: 8 x size of the last generation, at least 64;
 * 128 bytes each, over the local socket also 4 descriptors) until that comm
 * exists or its deadline passes. Only members of this job get that far.
 *
 * Connections of a comm that ended linger here: writing is shut down once the
 * last words are out, what still arrives is thrown away, closed at the peer's
 * end or when its kernel has all of it and 1 s has passed; ten minutes at most.
 *
 * Threads: any; a comm is handed its connections by the thread that drives it
 * (endpoint_impl.h), and endpoint_serve() is the issuing thread's.
 * endpoint_fds_close() is for pthread_atfork. Nothing here has a thread of its
 * own. */
#ifndef COLLECTIVES_NET_ENDPOINT_H
#define COLLECTIVES_NET_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "base/mac.h"

struct endpoint;

struct endpoint_config {
    const char *addresses; /* addresses.h; read by endpoint_create alone */
    uint64_t job;
    uint64_t worker; /* own id */
    uint64_t connect_timeout_us;
    uint8_t job_key[MAC_KEY_NBYTES]; /* each worker has it, nobody else */
    uint16_t port_low, port_high;    /* of its data ports; 0: any */
};

/* *endpoint_p listens on each of config->addresses, at one port. Errors as
 * listeners_open(). No
 * local one is no failure: there are no local connections then. */
hvd_status_t endpoint_create(const struct endpoint_config *config,
                             struct endpoint **endpoint_p) HVD_MUST_CHECK;

/* Every comm must have been destroyed. Closes lingering connections at once. */
void endpoint_destroy(struct endpoint *endpoint);

uint16_t endpoint_port(const struct endpoint *endpoint);

/* Raise the fence: nothing at or below this generation is accepted any more. */
void endpoint_set_fence(struct endpoint *endpoint, uint64_t fence);

/* Drive accepts, refusals and lingering until wake_fd (an eventfd, level) is
 * readable or deadline_us (clock_now_us; CLOCK_NEVER: none) has passed. The run
 * loop waits here for ASSIGN, CUT and RELEASE, so that late peers get their
 * answer. Does not read wake_fd. HVD_OK: readable; HVD_ERR_TIMEOUT. */
hvd_status_t endpoint_serve(struct endpoint *endpoint, int wake_fd,
                            uint64_t deadline_us) HVD_MUST_CHECK;

/* In a forked child: close every descriptor of the endpoint and its comms,
 * nothing else. Async-signal-safe. */
void endpoint_fds_close(struct endpoint *endpoint);

#endif
