/* tests/collectives/trap.h - memory at which a rank is held: the first touch of
 * it, by an instruction, calls a function on that thread, and goes on when it
 * has returned. So a rank can be late exactly where it reads its operand or
 * writes its result. (The kernel reads and writes such memory for nobody.)
 *
 * Threads: one trap at a time is set; the function runs in a signal handler:
 * atomic words, sched_yield() and clocks are fine. */
#ifndef TESTS_COLLECTIVES_TRAP_H
#define TESTS_COLLECTIVES_TRAP_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

typedef void trap_fn(void *arg);

struct trap {
    uint8_t *memory; /* [nbytes], whole pages */
    size_t nbytes;
    trap_fn *fn;
    void *arg;
};

static struct trap *trap_set_one;

static void trap_touched(int signo, siginfo_t *info, void *context)
{
    uint8_t *at = info->si_addr;
    struct trap *trap = trap_set_one;

    (void)context;
    if (trap == NULL || at < trap->memory ||
        at >= trap->memory + trap->nbytes) {
        (void)signal(signo, SIG_DFL); /* and once more */
        return;
    }
    trap_set_one = NULL;
    trap->fn(trap->arg);
    (void)mprotect(trap->memory, trap->nbytes, PROT_READ | PROT_WRITE);
}

static inline void trap_init(struct trap *trap, size_t nbytes, trap_fn *fn,
                             void *arg)
{
    struct sigaction action = {.sa_sigaction = trap_touched,
                               .sa_flags = SA_SIGINFO};

    nbytes = (nbytes + 4095) / 4096 * 4096;
    *trap = (struct trap){.nbytes = nbytes, .fn = fn, .arg = arg};
    trap->memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(trap->memory, MAP_FAILED);
    ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
}

/* By the thread that will touch it. */
static inline bool trap_set(struct trap *trap)
{
    trap_set_one = trap;
    return mprotect(trap->memory, trap->nbytes, PROT_NONE) == 0;
}

/* Has it been touched since it was set? */
static inline bool trap_was_touched(void)
{
    return trap_set_one == NULL;
}

static inline void trap_fini(struct trap *trap)
{
    (void)munmap(trap->memory, trap->nbytes);
}

#endif
