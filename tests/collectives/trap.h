/* tests/collectives/trap.h - memory at which a rank is held: the first touch of
 * it, by an instruction, calls a function on that thread, and goes on when it
 * has returned. So a rank can be late exactly where it reads its operand or
 * writes its result. (The kernel reads and writes such memory for nobody.)
 *
 * Threads: a trap is set by the thread that will touch it, created and
 * destroyed while no other runs; the function runs in a signal handler: atomic
 * words, sched_yield() and clocks are fine. */
#ifndef TESTS_COLLECTIVES_TRAP_H
#define TESTS_COLLECTIVES_TRAP_H

#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

typedef void trap_fn(void *arg);

struct trap {
    uint8_t *memory; /* [nbytes], whole pages */
    size_t nbytes;
    bool borrowed;
    trap_fn *fn;
    void *arg;
    atomic_bool set;
};

enum { TRAPS_MAX = 2 };

static struct trap *traps[TRAPS_MAX];

static struct trap *trap_at(const uint8_t *at)
{
    for (int i = 0; i < TRAPS_MAX; i++)
        if (traps[i] != NULL && at >= traps[i]->memory &&
            at < traps[i]->memory + traps[i]->nbytes)
            return traps[i];
    return NULL;
}

static void trap_touched(int signo, siginfo_t *info, void *context)
{
    struct trap *trap = trap_at(info->si_addr);

    (void)context;
    if (trap == NULL || !atomic_exchange(&trap->set, false)) {
        (void)signal(signo, SIG_DFL); /* and once more */
        return;
    }
    trap->fn(trap->arg);
    (void)mprotect(trap->memory, trap->nbytes, PROT_READ | PROT_WRITE);
}

/* In memory that is there: whole pages of it. */
static inline void trap_init_at(struct trap *trap, uint8_t *memory,
                                size_t nbytes, trap_fn *fn, void *arg)
{
    struct sigaction action = {.sa_sigaction = trap_touched,
                               .sa_flags = SA_SIGINFO};
    int i = 0;

    *trap = (struct trap){.memory = memory,
                          .nbytes = nbytes,
                          .borrowed = true,
                          .fn = fn,
                          .arg = arg};
    while (traps[i] != NULL)
        ck_assert_int_lt(++i, TRAPS_MAX);
    traps[i] = trap;
    ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
}

static inline void trap_init(struct trap *trap, size_t nbytes, trap_fn *fn,
                             void *arg)
{
    void *memory;

    nbytes = (nbytes + 4095) / 4096 * 4096;
    memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    trap_init_at(trap, memory, nbytes, fn, arg);
    trap->borrowed = false;
}

static inline bool trap_set(struct trap *trap)
{
    atomic_store(&trap->set, true);
    return mprotect(trap->memory, trap->nbytes, PROT_NONE) == 0;
}

/* Has it been touched since it was set? */
static inline bool trap_was_touched(const struct trap *trap)
{
    return !atomic_load(&trap->set);
}

static inline void trap_fini(struct trap *trap)
{
    for (int i = 0; i < TRAPS_MAX; i++)
        if (traps[i] == trap)
            traps[i] = NULL;
    if (!trap->borrowed)
        (void)munmap(trap->memory, trap->nbytes);
}

#endif
