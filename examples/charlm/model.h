/* examples/charlm/model.h - a character-level neural language model, in plain
 * C.
 *
 *     the last 8 characters -> 16 numbers each -> 2 hidden layers (tanh)
 *                           -> softmax over the text's characters
 *
 * Knows nothing of hvd: it adds up gradients in one flat buffer that somebody
 * else averages, and then takes a step of Adam.
 *
 * Memory: all of it allocated by model_create(). Threads: one. */
#ifndef CHARLM_MODEL_H
#define CHARLM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTEXT = 8, EMBEDDING = 16, HIDDEN = 96, N_DENSE = 3 };

/* y = W x + b; W [n_in][n_out], offsets into params. */
struct dense {
    size_t n_in, n_out;
    size_t weights, bias;
};

struct model {
    size_t n_chars; /* distinct characters of the text */
    struct dense dense[N_DENSE];
    size_t n_params;
    float *params;            /* [n_params]: embedding, then the dense layers */
    float *moment1, *moment2; /* [n_params]: Adam's */
};

/* Initial weights depend on nothing but n_chars: equal on all ranks. false: no
 * memory. */
bool model_create(struct model *model, size_t n_chars);
void model_destroy(struct model *model);

/* Predict text[CONTEXT] from text[0..CONTEXT-1], characters numbered from 0:
 * add the gradient to grads [n_params], return the loss in nats. */
float model_learn(const struct model *model, const uint8_t *text, float *grads);

/* Step number `step` (from 1) of Adam along the mean gradient
 * grads [n_params] / n. */
void model_update(struct model *model, const float *grads, float n,
                  uint64_t step, float rate);

/* FNV-1a over the weights. */
uint64_t model_digest(const struct model *model);

#endif
