/* collectives/reduce/float_env.h - the floating-point environment that
 * arithmetic on users' data runs in: round to nearest, subnormals kept, no
 * traps. An application may have set another one for its thread (-ffast-math
 * does), while the kernels run on whichever thread waits, of whichever rank:
 * without this, ranks would get different bits.
 *
 * Threads: any; the environment is the calling thread's. Pure. */
#ifndef COLLECTIVES_REDUCE_FLOAT_ENV_H
#define COLLECTIVES_REDUCE_FLOAT_ENV_H

#include <stdint.h>

#if defined(__x86_64__)

enum { FLOAT_ENV_DEFAULT = 0x1f80, FLOAT_ENV_FLAGS = 0x3f };

/* What is to be given to float_env_leave(). */
static inline uint64_t float_env_enter(void)
{
    unsigned found = __builtin_ia32_stmxcsr();

    if (__builtin_expect(
            (found & ~(unsigned)FLOAT_ENV_FLAGS) != FLOAT_ENV_DEFAULT, 0))
        __builtin_ia32_ldmxcsr(FLOAT_ENV_DEFAULT);
    return found;
}

static inline void float_env_leave(uint64_t found)
{
    if (__builtin_expect(
            (found & ~(uint64_t)FLOAT_ENV_FLAGS) != FLOAT_ENV_DEFAULT, 0))
        __builtin_ia32_ldmxcsr((unsigned)found);
}

#elif defined(__aarch64__)

static inline uint64_t float_env_enter(void)
{
    uint64_t found;

    __asm__ volatile("mrs %0, fpcr" : "=r"(found)::"memory");
    if (__builtin_expect(found != 0, 0))
        __asm__ volatile("msr fpcr, xzr" ::: "memory");
    return found;
}

static inline void float_env_leave(uint64_t found)
{
    if (__builtin_expect(found != 0, 0))
        __asm__ volatile("msr fpcr, %0" ::"r"(found) : "memory");
}

#else /* another processor: it stays as the application has set it */

static inline uint64_t float_env_enter(void)
{
    return 0;
}

static inline void float_env_leave(uint64_t found)
{
}

#endif

#endif
