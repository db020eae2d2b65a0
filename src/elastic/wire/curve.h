/* elastic/wire/curve.h - the keys of CURVE (rfc.zeromq.org/spec/26), by which
 * what the control sockets carry is encrypted and authenticated. Each end's key
 * pair is made of what it has anyway: the driver's of the job's secret, so that
 * a successor has the same one, that of an agent or a worker of its token.
 *
 * Threads: any. Memory: the caller's. After mac_init(). */
#ifndef ELASTIC_WIRE_CURVE_H
#define ELASTIC_WIRE_CURVE_H

#include <stdbool.h>
#include <stdint.h>

#include "elastic/wire/socket.h"

/* The public key [WIRE_KEY_NBYTES] of whoever has this token. */
void curve_guest_key(const uint8_t *token, uint8_t *public_key);

/* Of the driver this gate was made for: [WIRE_TOKEN_NBYTES]. */
const uint8_t *wire_gate_secret(const struct wire_gate *gate);

/* Options of a socket of libzmq that is not bound, or connected, yet. secret:
 * the driver's. Where no gate answers libzmq lets everybody in, ZAP domain or
 * not: who serves has one, and closes it last. false: errno says why. */
bool curve_serve(void *socket, const uint8_t *secret);
bool curve_visit(void *socket, const struct wire_secrets *secrets);

#endif
