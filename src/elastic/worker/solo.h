/* elastic/worker/solo.h - a program started by hand, without a driver: a world
 * of one that needs nobody.
 *
 * Threads: app. */
#ifndef ELASTIC_WORKER_SOLO_H
#define ELASTIC_WORKER_SOLO_H

#include <hvd/elastic.h>

/* The world of hvd_init: rank 0 of 1, generation 1. */
hvd_status_t solo_init(void) HVD_MUST_CHECK;
void solo_fini(void);

/* hvd_elastic_run in it. HVD_PEER_LOST from train goes back to the last commit;
 * a drain (hvd_drain) ends in HVD_REMOVED. May run more than once. */
hvd_status_t solo_run(hvd_state_t *state, hvd_train_fn train,
                      void *arg) HVD_MUST_CHECK;

#endif
