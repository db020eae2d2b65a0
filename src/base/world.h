/* base/world.h - where this process stands in its generation: what hvd_rank()
 * and its siblings answer, and what the sampler deals by. Written by the run
 * loop between generations, constant while a training function runs.
 *
 * Threads: world_set from the application's thread; readers from any. */
#ifndef BASE_WORLD_H
#define BASE_WORLD_H

#include <stdint.h>

struct world {
    uint64_t generation;
    int rank, size; /* -1 and 0: no world yet */
    int local_rank, local_size;
    int cross_rank, cross_size;
};

#define WORLD_NONE ((struct world){0, -1, 0, -1, 0, -1, 0})

void world_set(const struct world *world);
void world_get(struct world *world_p);
void world_set_slot(int slot);

#endif
