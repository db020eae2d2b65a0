/* state/verify_text.h - sentences about ranks whose state differs (verify.c).
 *
 * Pure. Threads: any. Memory: the caller's. */
#ifndef STATE_VERIFY_TEXT_H
#define STATE_VERIFY_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* One row of each rank: [size][nbytes], in rank order, not all equal. */
struct verify_rows {
    const uint8_t *bytes;
    size_t nbytes;
    int size;
};

/* The first row that most ranks have. */
int verify_majority(const struct verify_rows *rows);

/* "rank 2 differs from ranks 0, 1": from those that have the majority's row. */
void verify_text_ranks(struct text *t, const struct verify_rows *rows);

/* Rows are images of a sampler (sampler_core.h): "batch is 4 on rank 0 and 2 on
 * rank 1", of the first field in which two of them differ, and the first rank
 * that differs from rank 0 there. */
void verify_text_sampler(struct text *t, const struct verify_rows *rows);

#endif
