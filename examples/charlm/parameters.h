/* examples/charlm/parameters.h - the model's parameters in one flat array:
 * their places, their initial values, and the factors of a step of Adam. Host
 * and device use the same, so that both train one model.
 *
 *     the last 8 characters -> 16 numbers each -> 2 hidden layers (tanh)
 *                           -> softmax over the text's characters
 *
 * The array `sums` has the gradients in the same order, and the loss and the
 * number of samples behind them. The backward pass completes it from the back
 * to the front, part by part.
 *
 * Threads: any. Memory: the caller's. */
#ifndef CHARLM_PARAMETERS_H
#define CHARLM_PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

enum { CONTEXT = 8, EMBEDDING = 16, N_DENSE = 3, N_PARTS = N_DENSE + 2 };

/* y = W x + b; W [n_in][n_out], b [n_out]. */
struct dense {
    size_t n_in, n_out;
    size_t weights, bias; /* where they begin; b is right behind W */
};

/* A part of sums. */
struct part {
    const char *name;
    size_t at, count;
};

struct layout {
    size_t n_chars; /* distinct characters of the text */
    struct dense dense[N_DENSE];
    size_t
        n_params; /* the embedding's [n_chars][EMBEDDING], then the layers' */
    /* in the order in which the backward pass completes them: loss and number
     * of samples, the dense layers from the last to the first, the embedding */
    struct part parts[N_PARTS];
};

/* n_hidden: the width of each hidden layer. */
void layout_init(struct layout *layout, size_t n_chars, size_t n_hidden);

/* Width of the input of dense layer `l`; for N_DENSE: of the last output. */
size_t layout_width(const struct layout *layout, int l);

/* Initial values depend on nothing but their number: equal on all ranks. */
void parameters_init(float *params, size_t n_params);

/* FNV-1a. */
uint64_t parameters_digest(const float *params, size_t n_params);

struct adam {
    float rate, beta1, beta2;
    float fix1, fix2; /* correct the bias of moments that began at 0 */
};

/* Step number `step`, from 1. */
struct adam adam_at(uint64_t step, float rate);

#endif
