/* hvd/sampler.h - which samples each rank takes, over resets, without losing or
 * repeating one.
 *
 * An epoch is a keyed permutation of 0..n_samples-1 (seed and epoch are the
 * key; O(1) memory). A cursor walks it for the whole world: each call of
 * hvd_sampler_next takes the next size * batch indices, split evenly over the
 * ranks. The cursor is shared state: register the sampler with
 * hvd_state_add_sampler, and a rollback repeats exactly what was lost, whatever
 * the new size.
 *
 * Threads    the training thread.
 * Source     Horovod's ElasticSampler (behaviour S2); permutation: Black &
 *            Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002
 *            (cycle walking). */
#ifndef HVD_SAMPLER_H
#define HVD_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hvd_sampler hvd_sampler_t;

typedef struct hvd_sampler_options {
    size_t struct_size; /* sizeof(hvd_sampler_options_t) */
    uint64_t seed;      /* equal on all ranks */
    bool shuffle;       /* false: 0, 1, 2, ... */
    /* leave out the samples that do not fill a whole size * batch */
    bool drop_last;
    /* a commit counts what hvd_sampler_record confirmed, not what was handed
     * out: for loaders that read ahead */
    bool manual_record;
} hvd_sampler_options_t;

#define HVD_SAMPLER_OPTIONS_INIT                             \
    {                                                        \
        sizeof(hvd_sampler_options_t), 0, true, false, false \
    }

/* hvd_sampler_create - NULL options: defaults above. Returns NULL when
 * n_samples is 0 or memory is exhausted (hvd_last_error tells). destroy(NULL)
 * is fine. */
HVD_API hvd_sampler_t *hvd_sampler_create(uint64_t n_samples,
                                          const hvd_sampler_options_t *options);
HVD_API void hvd_sampler_destroy(hvd_sampler_t *sampler);

/* hvd_sampler_next - this rank's share of the next size * batch samples of the
 * epoch.
 *
 * batch      samples per rank, > 0, equal on all ranks: another one on one rank
 *            is found at a commit that compares states (hvd_state_commit).
 * indices    [batch]; *n_p of them are written. At the end of an epoch shares
 *            are smaller and differ by at most one; *n_p == 0 means "take part
 *            with a zero gradient".
 * Returns    HVD_OK; HVD_END_OF_EPOCH on all ranks in the same call (nothing is
 *            written; call hvd_sampler_set_epoch to go on); HVD_ERR_INVALID;
 *            HVD_ERR_STATE (no world yet) */
HVD_API hvd_status_t hvd_sampler_next(hvd_sampler_t *sampler, size_t batch,
                                      uint64_t *indices,
                                      size_t *n_p) HVD_MUST_CHECK;

/* hvd_sampler_record - with manual_record: `n_calls` more calls of
 * hvd_sampler_next, in the order they were made, have been used for training on
 * every rank. */
HVD_API hvd_status_t hvd_sampler_record(hvd_sampler_t *sampler,
                                        uint64_t n_calls) HVD_MUST_CHECK;

/* hvd_sampler_set_epoch - start epoch `epoch` from its first sample. Call it
 * when an epoch has ended, not on entry to the training function: that would
 * begin the epoch anew after every reset. */
HVD_API hvd_status_t hvd_sampler_set_epoch(hvd_sampler_t *sampler,
                                           uint64_t epoch) HVD_MUST_CHECK;

/* Where the cursor is: the epoch, and how many of its samples the whole world
 * has been handed. */
HVD_API uint64_t hvd_sampler_epoch(const hvd_sampler_t *sampler);
HVD_API uint64_t hvd_sampler_position(const hvd_sampler_t *sampler);

#ifdef __cplusplus
}
#endif
#endif
