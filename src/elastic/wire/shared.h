/* elastic/wire/shared.h - what socket.c needs of bytes that messages to many
 * have in common: see socket.h. Threads: the router's. */
#ifndef ELASTIC_WIRE_SHARED_H
#define ELASTIC_WIRE_SHARED_H

#include <stdint.h>

struct wire_shared;

/* The last frame of a message to this socket of libzmq, without waiting. < 0:
 * errno. */
int shared_send(void *socket, struct wire_shared *shared);

/* [SEAL_NBYTES] for the seal of the frame before it. */
const uint8_t *shared_digest(const struct wire_shared *shared);

#endif
