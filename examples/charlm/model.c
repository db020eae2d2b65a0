/* examples/charlm/model.c - forward, backward, Adam. See model.h. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* x and the outputs of the three dense layers; also room for their
 * gradients. */
struct activations {
    float x[CONTEXT * EMBEDDING];
    float y[N_DENSE][256];
};

struct model *model_create(const struct text *text, size_t batch_max)
{
    struct model *m = calloc(1, sizeof(*m));
    size_t n;

    if (!m)
        return NULL;
    layout_init(&m->layout, text->n_chars);
    n = m->layout.n_params;
    m->text = text->chars;
    m->params = calloc(n, sizeof(float));
    m->moment1 = calloc(n, sizeof(float));
    m->moment2 = calloc(n, sizeof(float));
    m->sums = calloc(n + 2, sizeof(float));
    if (!m->params || !m->moment1 || !m->moment2 || !m->sums) {
        model_destroy(m);
        return NULL;
    }
    parameters_init(m->params, n);
    return m;
}

void model_destroy(struct model *m)
{
    if (!m)
        return;
    free(m->params);
    free(m->moment1);
    free(m->moment2);
    free(m->sums);
    free(m);
}

/* Eight sums side by side, so that the compiler can use vectors without
 * reordering anything by itself. */
static float dot(const float *a, const float *b, size_t n)
{
    float sums[8] = {0}, sum = 0;
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (size_t k = 0; k < 8; k++)
        sum += sums[k];
    return sum;
}

/* y += factor * x */
static void add_scaled(float *restrict y, float factor, const float *restrict x,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static void dense_forward(const struct dense *d, const float *params,
                          const float *x, float *y)
{
    memcpy(y, params + d->bias, d->n_out * sizeof(float));
    for (size_t i = 0; i < d->n_in; i++)
        add_scaled(y, x[i], params + d->weights + i * d->n_out, d->n_out);
}

/* From dy: add to the gradients of W and b, set dx. */
static void dense_backward(const struct dense *d, const float *params,
                           const float *x, const float *dy, float *grads,
                           float *dx)
{
    add_scaled(grads + d->bias, 1, dy, d->n_out);
    for (size_t i = 0; i < d->n_in; i++) {
        size_t row = d->weights + i * d->n_out;

        dx[i] = dot(params + row, dy, d->n_out);
        add_scaled(grads + row, x[i], dy, d->n_out);
    }
}

static void forward(const struct model *m, const uint8_t *text,
                    struct activations *a)
{
    const float *x = a->x;

    for (size_t c = 0; c < CONTEXT; c++)
        memcpy(a->x + c * EMBEDDING, m->params + text[c] * EMBEDDING,
               EMBEDDING * sizeof(float));
    for (int l = 0; l < N_DENSE; l++) {
        dense_forward(&m->layout.dense[l], m->params, x, a->y[l]);
        if (l < N_DENSE - 1)
            for (size_t i = 0; i < HIDDEN; i++)
                a->y[l][i] = tanhf(a->y[l][i]);
        x = a->y[l];
    }
}

/* Scores -> gradient of the loss by them, in place; returns the loss. */
static float softmax_loss(float *scores, size_t n, uint8_t target)
{
    float max = scores[0], sum = 0, loss;

    for (size_t i = 1; i < n; i++)
        max = scores[i] > max ? scores[i] : max;
    loss = max - scores[target];
    for (size_t i = 0; i < n; i++)
        sum += scores[i] = expf(scores[i] - max);
    for (size_t i = 0; i < n; i++)
        scores[i] /= sum;
    scores[target] -= 1;
    return loss + logf(sum);
}

/* Predict text[CONTEXT] from what is before it: add the gradient to grads
 * [n_params], return the loss. */
static float learn_one(const struct model *m, const uint8_t *text, float *grads)
{
    const struct dense *dense = m->layout.dense;
    struct activations a, d; /* values, and gradients by them */
    float loss, *dy;

    forward(m, text, &a);
    dy = a.y[N_DENSE - 1];
    loss = softmax_loss(dy, m->layout.n_chars, text[CONTEXT]);
    for (int l = N_DENSE - 1; l > 0; l--) {
        dense_backward(&dense[l], m->params, a.y[l - 1], dy, grads, d.y[l - 1]);
        dy = d.y[l - 1];
        for (size_t i = 0; i < HIDDEN; i++)
            dy[i] *= 1 - a.y[l - 1][i] * a.y[l - 1][i];
    }
    dense_backward(&dense[0], m->params, a.x, dy, grads, d.x);
    for (size_t c = 0; c < CONTEXT; c++)
        add_scaled(grads + text[c] * EMBEDDING, 1, d.x + c * EMBEDDING,
                   EMBEDDING);
    return loss;
}

void model_learn(struct model *m, const uint64_t *places, size_t n)
{
    float *totals = m->sums + m->layout.n_params;

    memset(m->sums, 0, (m->layout.n_params + 2) * sizeof(float));
    for (size_t i = 0; i < n; i++)
        totals[0] += learn_one(m, m->text + places[i], m->sums);
    totals[1] = (float)n;
}

float model_step(struct model *m, uint64_t step, float rate)
{
    const struct adam a = adam_at(step, rate);
    const float *totals = m->sums + m->layout.n_params;

    for (size_t i = 0; i < m->layout.n_params; i++) {
        float g = m->sums[i] / totals[1];

        m->moment1[i] += (1 - a.beta1) * (g - m->moment1[i]);
        m->moment2[i] += (1 - a.beta2) * (g * g - m->moment2[i]);
        m->params[i] -= a.rate * (m->moment1[i] / a.fix1) /
                        (sqrtf(m->moment2[i] / a.fix2) + 1e-8f);
    }
    return totals[0] / totals[1];
}

uint64_t model_digest(const struct model *m)
{
    return parameters_digest(m->params, m->layout.n_params);
}
