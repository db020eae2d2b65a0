/* tests/integration/readers.c - see readers.h. Memory: static. */
#include "readers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hvd/hvd.h>

static const struct reader {
    const char *name;
    int (*read)(void);
    int before; /* the world is joined */
} readers[] = {
    {"hvd_rank", hvd_rank, -1},
    {"hvd_size", hvd_size, 0},
    {"hvd_local_rank", hvd_local_rank, -1},
    {"hvd_local_size", hvd_local_size, 0},
    {"hvd_cross_rank", hvd_cross_rank, -1},
    {"hvd_cross_size", hvd_cross_size, 0},
};

enum { N_READERS = sizeof(readers) / sizeof(readers[0]) };

static struct {
    int values[N_READERS];
    uint64_t generation;
} begun;

static void expect(const char *what, int64_t got, int64_t want)
{
    if (got == want)
        return;
    fprintf(stderr, "WRONG: %s says %" PRId64 " instead of %" PRId64 "\n", what,
            got, want);
    abort();
}

static void check_slot(void)
{
    const char *slot = getenv("HVD_SLOT");

    expect("hvd_slot", hvd_slot(), slot ? atoi(slot) : 0);
}

void readers_check_before(void)
{
    check_slot();
    if (!getenv("HVD_DRIVER"))
        return; /* a world of one at once */
    for (int i = 0; i < N_READERS; i++)
        expect(readers[i].name, readers[i].read(), readers[i].before);
    expect("hvd_generation", (int64_t)hvd_generation(), 0);
}

void readers_begin(void)
{
    check_slot();
    for (int i = 0; i < N_READERS; i++)
        begun.values[i] = readers[i].read();
    begun.generation = hvd_generation();
}

void readers_check(void)
{
    check_slot();
    for (int i = 0; i < N_READERS; i++)
        expect(readers[i].name, readers[i].read(), begun.values[i]);
    expect("hvd_generation", (int64_t)hvd_generation(),
           (int64_t)begun.generation);
}

/* The driver's last word may have come by now, whatever has ended train. */
void readers_check_end(hvd_status_t status)
{
    hvd_status_t why = hvd_generation_status();

    if ((status == HVD_HOSTS_UPDATED || status == HVD_PEER_LOST) &&
        why != HVD_ERR_JOB_FAILED && why != HVD_ERR_DRIVER_LOST &&
        why != HVD_REMOVED)
        expect("hvd_generation_status", why, status);
}

void readers_say_pending(void)
{
    static const char *const words[] = {"unchanged", "expected", "due"};
    static uint64_t said[3];
    hvd_hosts_change_t pending = hvd_hosts_pending();

    if (pending == HVD_HOSTS_UNCHANGED || said[pending] == hvd_generation())
        return;
    said[pending] = hvd_generation();
    printf("gen %" PRIu64 ": hosts %s\n", hvd_generation(), words[pending]);
    fflush(stdout);
}

void readers_say_plan(void)
{
    hvd_plan_t p = {.struct_size = sizeof(p)};

    expect("hvd_plan", hvd_plan(&p), HVD_OK);
    printf("plan %d/%d %d/%d is %d/%d %d/%d\n", p.rank, p.size, p.local_rank,
           p.local_size, hvd_rank(), hvd_size(), hvd_local_rank(),
           hvd_local_size());
    fflush(stdout);
}
