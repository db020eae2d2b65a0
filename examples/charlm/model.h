/* examples/charlm/model.h - a character-level neural language model
 * (parameters.h), that learns from one batch at a time.
 *
 * Knows nothing of hvd: it adds up gradients in one flat buffer that somebody
 * else sums over all ranks, at once or part by part while it goes back through
 * its layers, and then takes a step of Adam. model.c computes on the host,
 * charlm_cuda/model_cuda.c on a device, and there the arrays below lie in its
 * memory; what was asked of a device goes on after the call, behind what is on
 * its default stream.
 *
 * Memory: all of it allocated by model_create(). Threads: one. */
#ifndef CHARLM_MODEL_H
#define CHARLM_MODEL_H

#include "parameters.h"

struct text {
    uint8_t *chars; /* [n], numbered from 0 */
    size_t n, n_chars;
};

struct model {
    struct layout layout;
    const uint8_t *text;               /* [n] */
    float *params, *moment1, *moment2; /* [n_params]; Adam's moments */
    float *sums; /* [n_params + 2]: gradients, loss and number of samples */
    uint64_t *places; /* [batch_max]; where the n samples of a batch begin */
    size_t n;
    /* [batch_max] rows: what goes into each dense layer, and what comes out of
     * the last. On the host gradients by these take their places. */
    float *values[N_DENSE + 1];
};

/* A model of this text, which is borrowed until model_destroy(), with so many
 * numbers in each hidden layer, for batches of up to batch_max samples. NULL:
 * no memory. */
struct model *model_create(const struct text *text, size_t n_hidden,
                           size_t batch_max);
void model_destroy(struct model *model);

/* Predict the character CONTEXT behind each of places [n], from those between.
 * What was in sums is gone. */
void model_forward(struct model *model, const uint64_t *places, size_t n);

/* Behind it, for k = 0, 1 .. N_PARTS - 1 in turn: part k of the layout in sums
 * becomes what these samples add up to there. */
void model_backward(struct model *model, int k);

/* Step number `step`, from 1, of Adam along the mean gradient of what is in
 * sums. Returns the mean loss there, in nats. */
float model_step(struct model *model, uint64_t step, float rate);

uint64_t model_digest(const struct model *model);

#endif
