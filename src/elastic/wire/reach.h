/* elastic/wire/reach.h - at which addresses somebody can be reached, as text on
 * the wire: one string for each,
 *
 *   "eth0 10.77.0.1/24 4711 10000 1500"    name, address/prefix, port, Mbit/s,
 *                                          MTU; and " bridge" if it is one
 *
 * Pure. Memory: the caller's. */
#ifndef ELASTIC_WIRE_REACH_H
#define ELASTIC_WIRE_REACH_H

#include "base/interfaces.h"
#include "elastic/wire/message.h"

enum {
    REACH_TEXT_MAX = WIRE_REACH_MAX / INTERFACES_MAX /* of one, with its NUL */
};

/* buf [WIRE_REACH_MAX] is borrowed by what is returned. */
struct wire_strings reach_pack(const struct interface *items, size_t n,
                               char *buf);

/* Returns how many were of that form; what is not is left out. */
size_t reach_unpack(struct wire_strings strings,
                    struct interface items[INTERFACES_MAX]);

#endif
