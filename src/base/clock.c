/* base/clock.c - CLOCK_MONOTONIC. See clock.h. */
#include "base/clock.h"

#include <limits.h>
#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_us(void)
{
    return clock_now_ns() / 1000;
}

int clock_poll_ms(uint64_t now_us, uint64_t deadline_us)
{
    uint64_t ms;

    if (deadline_us == CLOCK_NEVER)
        return -1;
    if (deadline_us <= now_us)
        return 0;
    ms = (deadline_us - now_us + 999) / 1000;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}
