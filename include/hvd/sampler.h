/* hvd/sampler.h - which samples each rank takes, through resets, without losing
 * or repeating one.
 *
 * An epoch is a keyed permutation of 0..n_samples-1: seed and epoch are the
 * key, and memory is O(1) (with manual_record: 24 bytes for each call that
 * waits to be recorded). A cursor walks it for the whole world: each call of
 * hvd_sampler_next() takes the next size * batch indices, and splits them
 * evenly over the ranks. The cursor is shared state: register the sampler with
 * hvd_state_add_sampler(), and a rollback repeats exactly what was lost,
 * whatever the new size.
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
    /* for loaders that read ahead: a commit counts what hvd_sampler_record()
     * has confirmed, not what hvd_sampler_next() has handed out */
    bool manual_record;
} hvd_sampler_options_t;

#define HVD_SAMPLER_OPTIONS_INIT                             \
    {                                                        \
        sizeof(hvd_sampler_options_t), 0, true, false, false \
    }

/* hvd_sampler_create - options NULL: the defaults above. *sampler_p belongs to
 * the caller until hvd_sampler_destroy(), for which NULL is fine. Returns
 * HVD_OK; HVD_ERR_INVALID: n_samples is 0, struct_size is wrong, or sampler_p
 * is NULL; HVD_ERR_UNSUPPORTED: a field of a newer release is set;
 * HVD_ERR_NOMEM. *sampler_p is NULL then. */
HVD_API hvd_status_t
hvd_sampler_create(uint64_t n_samples, const hvd_sampler_options_t *options,
                   hvd_sampler_t **sampler_p) HVD_MUST_CHECK;
HVD_API void hvd_sampler_destroy(hvd_sampler_t *sampler);

/* hvd_sampler_next - this rank's share of the next size * batch samples of the
 * epoch.
 *
 * batch      samples per rank, > 0, equal on all ranks: a commit that compares
 *            states finds a rank that has another (hvd_state_commit).
 * indices    [batch]; *n_p of them are written. At the end of an epoch shares
 *            are smaller, and differ by at most one; with 0 samples a rank
 *            takes part in the step with a zero gradient.
 * end_p      *end_p is true, on all ranks in the same call, if the epoch is
 *            over: *n_p is 0, and there is no step to take. Call
 *            hvd_sampler_set_epoch() to go on.
 * Returns    HVD_OK; HVD_ERR_INVALID; HVD_ERR_STATE: there is no world yet;
 *            HVD_ERR_NOMEM, with manual_record. */
HVD_API hvd_status_t hvd_sampler_next(hvd_sampler_t *sampler, size_t batch,
                                      uint64_t *indices, size_t *n_p,
                                      bool *end_p) HVD_MUST_CHECK;

/* hvd_sampler_record - with manual_record: `n_calls` more calls of
 * hvd_sampler_next(), in the order in which they were made, have been used for
 * training on every rank. (A call that set *end_p does not count.) Returns
 * HVD_OK; HVD_ERR_INVALID: there were not so many calls, or the sampler has no
 * manual_record. */
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
