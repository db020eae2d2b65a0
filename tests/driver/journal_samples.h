/* tests/driver/journal_samples.h - entries as a driver writes them, one of each
 * kind at least. For tests and as the corpus of the fuzzer. */
#ifndef TESTS_DRIVER_JOURNAL_SAMPLES_H
#define TESTS_DRIVER_JOURNAL_SAMPLES_H

#include "elastic/driver/entry.h"

extern const struct entry journal_samples[];
extern const size_t n_journal_samples;

#endif
