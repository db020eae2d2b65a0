/* made.h - states and samplers for tests: NULL if there is no memory, or if the
 * arguments are refused. */
#ifndef TESTS_MADE_H
#define TESTS_MADE_H

#include <hvd/sampler.h>
#include <hvd/state.h>

static inline hvd_state_t *made_state(void)
{
    hvd_state_t *state;

    return hvd_state_create(&state) == HVD_OK ? state : NULL;
}

static inline hvd_sampler_t *made_sampler(uint64_t n_samples,
                                          const hvd_sampler_options_t *options)
{
    hvd_sampler_t *sampler;

    return hvd_sampler_create(n_samples, options, &sampler) == HVD_OK ? sampler
                                                                      : NULL;
}

#endif
