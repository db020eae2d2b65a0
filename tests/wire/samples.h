/* tests/wire/samples.h - one valid message of each type with every member set,
 * so that a member the codec forgets is noticed. */
#ifndef TESTS_WIRE_SAMPLES_H
#define TESTS_WIRE_SAMPLES_H

#include "elastic/wire/message.h"

extern const struct message samples[];
extern const size_t n_samples;

/* Five rows on two hosts. */
enum { SAMPLE_GENERATION = 6 };
extern const struct assign_table sample_table;

#endif
