/* examples/charlm/model.h - a character-level neural language model
 * (parameters.h) that learns from one batch at a time.
 *
 * The model does not use hvd. It adds its gradients up in one flat buffer; the
 * caller sums that buffer over all ranks, at once or part by part, and then
 * lets the model take a step of Adam. model.c computes on the host.
 * charlm_cuda/model_cuda.c computes on a device: the arrays below lie in the
 * device's memory, and a call returns as soon as its work is on the device's
 * default stream.
 *
 * Memory: model_create() allocates all of it. Threads: one. */
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
    /* [batch_max] rows: the input of each dense layer, and the output of the
     * last. On the host, their gradients replace them. */
    float *values[N_DENSE + 1];
};

/* A model of this text, which is borrowed until model_destroy(), with so many
 * numbers in each hidden layer, for batches of up to batch_max samples. NULL:
 * no memory. */
struct model *model_create(const struct text *text, size_t n_hidden,
                           size_t batch_max);
void model_destroy(struct model *model);

/* Predict the character CONTEXT behind each of places [n], from those between.
 * Clears sums. */
void model_forward(struct model *model, const uint64_t *places, size_t n);

/* Call this after model_forward(), for k = 0, 1 .. N_PARTS - 1 in turn. It adds
 * the gradients of these samples to part k of sums. */
void model_backward(struct model *model, int k);

/* Step number `step`, from 1, of Adam along the mean gradient: sums divided by
 * their number of samples. Returns their mean loss, in nats. */
float model_step(struct model *model, uint64_t step, float rate);

uint64_t model_digest(const struct model *model);

#endif
