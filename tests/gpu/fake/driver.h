/* driver.h - the inside of the driver: cuda.c, and copies.c beside it. See
 * fake.h. Threads: any. */
#ifndef TESTS_GPU_FAKE_DRIVER_H
#define TESTS_GPU_FAKE_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* The one lock; `changed`: work on a stream is over. */
extern pthread_mutex_t fake_lock;
extern pthread_cond_t fake_changed;

/* Has this thread a context? */
bool fake_in_context(void);
/* Memory of the device, or pinned. */
bool fake_is_reachable(const void *ptr, size_t nbytes);

#endif
