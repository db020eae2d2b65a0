/* examples/charlm_cuda/kernels.cu - forward, backward, Adam on a device.
 *
 * A thread computes each number of the output, and adds its inputs up in a
 * fixed order: equal inputs make equal bits, on every rank and in every run. No
 * two threads share memory, and none waits for another.
 *
 * places [n]: where in `text` the samples of a batch begin, one for each row of
 * an array with n rows. */
#include <math.h>
#include <stdint.h>

#include "parameters.h"

#define KERNEL extern "C" __global__ void

/* Number of this thread; there may be more threads than numbers. */
static __device__ size_t self(void)
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* ---- forward ------------------------------------------------------------ */

/* x [n][CONTEXT][EMBEDDING]: the embedding of each character. */
KERNEL embed(float *x, const float *params, const uint8_t *text,
             const uint64_t *places, size_t n)
{
    size_t i = self(), e = i % EMBEDDING, c = i / EMBEDDING % CONTEXT,
           s = i / EMBEDDING / CONTEXT;

    if (s < n)
        x[i] = params[text[places[s] + c] * EMBEDDING + e];
}

/* y [n][n_out] of x [n][n_in]; tanh of it, if it is hidden. */
KERNEL dense_forward(float *y, const float *x, const float *params,
                     struct dense d, size_t n, bool hidden)
{
    size_t i = self(), o = i % d.n_out, s = i / d.n_out;
    float sum;

    if (s >= n)
        return;
    sum = params[d.bias + o];
    for (size_t k = 0; k < d.n_in; k++)
        sum += x[s * d.n_in + k] * params[d.weights + k * d.n_out + o];
    y[i] = hidden ? tanhf(sum) : sum;
}

/* norms [n]: log of the sum of exp of each row of scores [n][n_chars]. */
KERNEL score_norms(float *norms, const float *scores, size_t n, size_t n_chars)
{
    size_t s = self();
    const float *row = scores + s * n_chars;
    float most = -INFINITY, sum = 0;

    if (s >= n)
        return;
    for (size_t c = 0; c < n_chars; c++)
        most = fmaxf(most, row[c]);
    for (size_t c = 0; c < n_chars; c++)
        sum += expf(row[c] - most);
    norms[s] = most + logf(sum);
}

/* totals [2]: loss, and number, of all samples. */
KERNEL total_loss(float *totals, const float *norms, const float *scores,
                  const uint8_t *text, const uint64_t *places, size_t n,
                  size_t n_chars)
{
    float loss = 0;

    if (self() > 0)
        return;
    for (size_t s = 0; s < n; s++)
        loss += norms[s] - scores[s * n_chars + text[places[s] + CONTEXT]];
    totals[0] = loss;
    totals[1] = (float)n;
}

/* ---- backward: gradients of the loss ------------------------------------- */

KERNEL score_gradients(float *dscores, const float *scores, const float *norms,
                       const uint8_t *text, const uint64_t *places, size_t n,
                       size_t n_chars)
{
    size_t i = self(), c = i % n_chars, s = i / n_chars;

    if (s < n)
        dscores[i] = expf(scores[i] - norms[s]) -
                     (text[places[s] + CONTEXT] == c ? 1.f : 0.f);
}

/* dx [n][n_in] from dy [n][n_out]; x, if it is hidden, came out of tanh. */
KERNEL input_gradients(float *dx, const float *x, const float *dy,
                       const float *params, struct dense d, size_t n,
                       bool hidden)
{
    size_t i = self(), k = i % d.n_in, s = i / d.n_in;
    float sum = 0;

    if (s >= n)
        return;
    for (size_t o = 0; o < d.n_out; o++)
        sum += params[d.weights + k * d.n_out + o] * dy[s * d.n_out + o];
    dx[i] = hidden ? sum * (1 - x[i] * x[i]) : sum;
}

/* The gradients of W, and of b behind it, whose input is 1. */
KERNEL weight_gradients(float *sums, const float *x, const float *dy,
                        struct dense d, size_t n)
{
    size_t i = self(), o = i % d.n_out, k = i / d.n_out;
    float sum = 0;

    if (k > d.n_in)
        return;
    for (size_t s = 0; s < n; s++)
        sum += dy[s * d.n_out + o] * (k < d.n_in ? x[s * d.n_in + k] : 1);
    sums[d.weights + i] = sum;
}

/* The gradients of the embedding: each character's rows are added up. */
KERNEL embedding_gradients(float *sums, const float *dx, const uint8_t *text,
                           const uint64_t *places, size_t n, size_t n_chars)
{
    size_t i = self(), e = i % EMBEDDING, character = i / EMBEDDING;
    float sum = 0;

    if (character >= n_chars)
        return;
    for (size_t at = 0; at < n * CONTEXT; at++)
        if (text[places[at / CONTEXT] + at % CONTEXT] == character)
            sum += dx[at * EMBEDDING + e];
    sums[i] = sum;
}

/* ---- Adam ---------------------------------------------------------------- */

/* sums [n_params + 2]; the last is the number of samples. */
KERNEL adam_step(float *params, float *moment1, float *moment2,
                 const float *sums, size_t n_params, struct adam a)
{
    size_t i = self();
    float g;

    if (i >= n_params)
        return;
    g = sums[i] / sums[n_params + 1];
    moment1[i] += (1 - a.beta1) * (g - moment1[i]);
    moment2[i] += (1 - a.beta2) * (g * g - moment2[i]);
    params[i] -= a.rate * (moment1[i] / a.fix1) /
                 (sqrtf(moment2[i] / a.fix2) + 1e-8f);
}
