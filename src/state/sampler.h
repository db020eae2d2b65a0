/* state/sampler.h - what the registry needs of a sampler: its cursor in and out
 * of snapshots. The public calls are in hvd/sampler.h.
 *
 * Two cursors: `handed` moves with every hvd_sampler_next, `counted` is what a
 * commit stores. They are one unless manual_record is set: then blocks handed
 * out wait in a queue until hvd_sampler_record confirms them.
 *
 * Threads: the training thread. */
#ifndef STATE_SAMPLER_H
#define STATE_SAMPLER_H

#include <stdint.h>

#include <hvd/sampler.h>

#include "state/sampler_core.h"

/* Write the counted cursor to buf [SAMPLER_CURSOR_NBYTES]. */
void sampler_save(const hvd_sampler_t *sampler, uint8_t *buf);

/* HVD_ERR_LAYOUT when buf [SAMPLER_CURSOR_NBYTES] is of a sampler with another
 * n_samples, seed, shuffle or drop_last; changes nothing. */
hvd_status_t sampler_check(const hvd_sampler_t *sampler,
                           const uint8_t *buf) HVD_MUST_CHECK;

/* Go on from buf, which sampler_check() has accepted. */
void sampler_load(hvd_sampler_t *sampler, const uint8_t *buf);

/* A new generation: what was handed out but not counted is handed out again. */
void sampler_rewind(hvd_sampler_t *sampler);

#endif
