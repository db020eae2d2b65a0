/* examples/charlm/model.c - forward, backward, Adam. See model.h. */
#include "model.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool alloc_rows(struct model *m, size_t batch_max)
{
    for (int l = 0; l <= N_DENSE; l++) {
        size_t width = layout_width(&m->layout, l);

        m->values[l] = calloc(batch_max, width * sizeof(float));
        if (!m->values[l])
            return false;
    }
    return true;
}

struct model *model_create(const struct text *text, size_t n_hidden,
                           size_t batch_max)
{
    struct model *m = calloc(1, sizeof(*m));
    size_t n;

    if (!m)
        return NULL;
    layout_init(&m->layout, text->n_chars, n_hidden);
    n = m->layout.n_params;
    m->text = text->chars;
    m->params = calloc(n, sizeof(float));
    m->moment1 = calloc(n, sizeof(float));
    m->moment2 = calloc(n, sizeof(float));
    m->sums = calloc(n + 2, sizeof(float));
    m->places = calloc(batch_max, sizeof(*m->places));
    if (!m->params || !m->moment1 || !m->moment2 || !m->sums || !m->places ||
        !alloc_rows(m, batch_max)) {
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
    free(m->places);
    for (int l = 0; l <= N_DENSE; l++)
        free(m->values[l]);
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

static void embed(const struct model *m)
{
    float *x = m->values[0];

    for (size_t s = 0; s < m->n; s++)
        for (size_t c = 0; c < CONTEXT; c++, x += EMBEDDING)
            memcpy(x, m->params + m->text[m->places[s] + c] * EMBEDDING,
                   EMBEDDING * sizeof(*x));
}

/* Each weight for all samples while it is at hand, here and in
 * dense_backward(). */
static void dense_forward(const struct model *m, int l)
{
    const struct dense *d = &m->layout.dense[l];
    const float *x = m->values[l];
    float *y = m->values[l + 1];

    for (size_t s = 0; s < m->n; s++)
        memcpy(y + s * d->n_out, m->params + d->bias, d->n_out * sizeof(*y));
    for (size_t i = 0; i < d->n_in; i++)
        for (size_t s = 0; s < m->n; s++)
            add_scaled(y + s * d->n_out, x[s * d->n_in + i],
                       m->params + d->weights + i * d->n_out, d->n_out);
    for (size_t i = 0; l < N_DENSE - 1 && i < m->n * d->n_out; i++)
        y[i] = tanhf(y[i]);
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

/* Add up the loss of all samples. Their gradients by the last layer's output
 * replace that output. */
static void find_loss(struct model *m)
{
    float *totals = m->sums + m->layout.n_params;
    size_t n_chars = m->layout.n_chars;

    for (size_t s = 0; s < m->n; s++)
        totals[0] += softmax_loss(m->values[N_DENSE] + s * n_chars, n_chars,
                                  m->text[m->places[s] + CONTEXT]);
    totals[1] = (float)m->n;
}

/* From the gradients by the layer's output: add those of W and b to sums, and
 * replace the layer's input by its gradients. The input came out of tanh,
 * except that of the first layer. */
static void dense_backward(struct model *m, int l)
{
    const struct dense *d = &m->layout.dense[l];
    const float *dy = m->values[l + 1];

    for (size_t s = 0; s < m->n; s++)
        add_scaled(m->sums + d->bias, 1, dy + s * d->n_out, d->n_out);
    for (size_t i = 0; i < d->n_in; i++)
        for (size_t s = 0; s < m->n; s++) {
            float *x = m->values[l] + s * d->n_in + i;
            float slope = l > 0 ? 1 - *x * *x : 1;
            size_t row = d->weights + i * d->n_out;

            add_scaled(m->sums + row, *x, dy + s * d->n_out, d->n_out);
            *x = slope * dot(m->params + row, dy + s * d->n_out, d->n_out);
        }
}

static void embedding_backward(struct model *m)
{
    const float *dx = m->values[0];

    for (size_t s = 0; s < m->n; s++)
        for (size_t c = 0; c < CONTEXT; c++, dx += EMBEDDING)
            add_scaled(m->sums + m->text[m->places[s] + c] * EMBEDDING, 1, dx,
                       EMBEDDING);
}

void model_forward(struct model *m, const uint64_t *places, size_t n)
{
    memcpy(m->places, places, n * sizeof(*places));
    m->n = n;
    memset(m->sums, 0, (m->layout.n_params + 2) * sizeof(float));
    embed(m);
    for (int l = 0; l < N_DENSE; l++)
        dense_forward(m, l);
}

void model_backward(struct model *m, int k)
{
    if (k == 0)
        find_loss(m);
    else if (k <= N_DENSE)
        dense_backward(m, N_DENSE - k);
    else
        embedding_backward(m);
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
