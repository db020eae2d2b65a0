/* base/machine.h - which machine this is: where processes have numbers that
 * mean something here, and loopback is the same. By its name and
 * /etc/machine-id; so one that has been booted again is the same, and so is a
 * pod that has kept its name.
 *
 * Touches the world. Threads: any. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { MACHINE_NONE = 1 }; /* no machine has it */

/* Never 0. */
uint64_t machine_id(void);

/* 0, which says of none: so may it be. */
bool machine_is_this(uint64_t id);

#endif
