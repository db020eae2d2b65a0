/* base/stall.h - a process that did not run for a while (was stopped, frozen,
 * starved) must not take its own absence for the silence of others: its timers
 * fire before it has read what has come meanwhile. Whoever judges silence first
 * moves the moment from which it counts, by as much as its own tick is late.
 *
 * Pure. */
#ifndef BASE_STALL_H
#define BASE_STALL_H

#include <stdint.h>

enum { STALL_US = 500000 }; /* a tick this late: the process did not run */

/* For how long it did not run, as its tick was due at due_us; 0: it did. */
static inline uint64_t stall_of(uint64_t due_us, uint64_t now_us)
{
    return now_us > due_us && now_us - due_us > STALL_US ? now_us - due_us : 0;
}

/* since_us, as if the time had stood still for late_us. */
static inline uint64_t stall_forgive(uint64_t since_us, uint64_t late_us,
                                     uint64_t now_us)
{
    return late_us < now_us - since_us ? since_us + late_us : now_us;
}

#endif
