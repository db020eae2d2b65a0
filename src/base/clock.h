/* base/clock.h - the monotonic clock, in the two units this code uses.
 * Pure code never calls it: time is an argument there. Threads: any. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_NEVER UINT64_MAX

uint64_t clock_now_ns(void);
uint64_t clock_now_us(void);

/* Milliseconds from `now_us` to `deadline_us` for poll(2): rounded up, 0 when
 * past, -1 for CLOCK_NEVER. */
int clock_poll_ms(uint64_t now_us, uint64_t deadline_us);

#endif
