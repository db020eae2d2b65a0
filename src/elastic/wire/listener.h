/* elastic/wire/listener.h - listening sockets for libzmq, which would make its
 * own without two options. A client that connects and sends nothing stays with
 * the kernel (TCP_DEFER_ACCEPT), and costs no descriptor. Both ends of ZMTP
 * send at once, so no other client waits for it. And segments are small
 * (TCP_MAXSEG): control messages pass where large packets are lost.
 *
 * Threads: any. */
#ifndef ELASTIC_WIRE_LISTENER_H
#define ELASTIC_WIRE_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

/* The socket, libzmq's, listens at `endpoint`, which says the same as a numeric
 * address and a port (0: a free one). false: errno. */
bool listener_bind(void *zmq_socket, const char *address, uint16_t port,
                   const char *endpoint);

#endif
