/* base/world.c - the position of this process. See world.h. A mutex keeps the
 * seven numbers together for readers on other threads. */
#include "base/world.h"

#include <pthread.h>

#include <hvd/world.h>

static struct {
    pthread_mutex_t lock;
    struct world world; /* guarded by lock */
    int slot;           /* guarded by lock */
} self = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .world = {0, -1, 0, -1, 0, -1, 0},
          .slot = -1};

void world_set(const struct world *world)
{
    pthread_mutex_lock(&self.lock);
    self.world = *world;
    pthread_mutex_unlock(&self.lock);
}

void world_get(struct world *world_p)
{
    pthread_mutex_lock(&self.lock);
    *world_p = self.world;
    pthread_mutex_unlock(&self.lock);
}

void world_set_slot(int slot)
{
    pthread_mutex_lock(&self.lock);
    self.slot = slot;
    pthread_mutex_unlock(&self.lock);
}

#define WORLD_READER(type, function, field) \
    type function(void)                     \
    {                                       \
        struct world world;                 \
                                            \
        world_get(&world);                  \
        return world.field;                 \
    }

WORLD_READER(int, hvd_rank, rank)
WORLD_READER(int, hvd_size, size)
WORLD_READER(int, hvd_local_rank, local_rank)
WORLD_READER(int, hvd_local_size, local_size)
WORLD_READER(int, hvd_cross_rank, cross_rank)
WORLD_READER(int, hvd_cross_size, cross_size)
WORLD_READER(uint64_t, hvd_generation, generation)

int hvd_slot(void)
{
    int slot;

    pthread_mutex_lock(&self.lock);
    slot = self.slot;
    pthread_mutex_unlock(&self.lock);
    return slot;
}
