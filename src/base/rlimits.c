/* base/rlimits.c - see rlimits.h. */
#include "base/rlimits.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "base/calls.h"
#include "base/error.h"

enum { FILES_MIN = 256, STACK_MIN = 1 << 20, STACK_LEAST = 192 << 10 };

static struct rlimit files_before, stack_before;
static bool raised, stack_raised;

static hvd_status_t raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return HVD_OK; /* a sandbox hides it: as if it were enough */
    if (files.rlim_max < FILES_MIN)
        return error_set(HVD_ERR_SYSTEM,
                         "RLIMIT_NOFILE allows %llu descriptors, %d are "
                         "needed (ulimit -n)",
                         (unsigned long long)files.rlim_max, FILES_MIN);
    if (raised) /* a driver that stands by may try several times */
        return HVD_OK;
    files_before = files;
    files.rlim_cur = files.rlim_max;
    raised = setrlimit(RLIMIT_NOFILE, &files) == 0;
    return HVD_OK;
}

/* Ours has buffers; it grows up to what the limit is by then. */
static hvd_status_t raise_stack(void)
{
    struct rlimit stack;

    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_MIN)
        return HVD_OK;
    if (stack.rlim_max < STACK_LEAST)
        return error_set(HVD_ERR_SYSTEM,
                         "RLIMIT_STACK allows %llu KB of stack, %d are needed "
                         "(ulimit -s)",
                         (unsigned long long)stack.rlim_max >> 10,
                         STACK_LEAST >> 10);
    stack_before = stack;
    stack.rlim_cur = stack.rlim_max < STACK_MIN ? stack.rlim_max : STACK_MIN;
    stack_raised = setrlimit(RLIMIT_STACK, &stack) == 0;
    return HVD_OK;
}

hvd_status_t rlimits_prepare(void)
{
    HVD_TRY(raise_stack());
    HVD_TRY(raise_files());
    return calls_check_processes();
}

void rlimits_restore(void)
{
    if (raised)
        (void)!setrlimit(RLIMIT_NOFILE, &files_before);
    if (stack_raised)
        (void)!setrlimit(RLIMIT_STACK, &stack_before);
}
