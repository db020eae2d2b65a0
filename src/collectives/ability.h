/* collectives/ability.h - what this process can do together with others of its
 * host, and whether its processor has instructions for AES. It is found out by
 * doing it with itself, before the first generation: a sandbox, a limit or the
 * user may forbid any of it, and all ranks of a host have to know before they
 * choose a way (comm_peer.abilities).
 *
 * Threads: one. */
#ifndef COLLECTIVES_ABILITY_H
#define COLLECTIVES_ABILITY_H

#include <stdbool.h>

#include "collectives/comm.h"

/* enum comm_ability. What is missing is said once each, with the reason. share:
 * false, the user wants none (HVD_TRANSPORT=tcp). Makes the arena. */
unsigned ability_probe(const struct endpoint *endpoint, bool share);

/* What it found and is no more, each time before a generation: the program has
 * given up rights or root directory since, or has set a limit. Each is told
 * once. */
unsigned ability_gone(void);

#endif
