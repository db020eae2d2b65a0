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

bool model_create(struct model *model, size_t n_chars)
{
    const size_t widths[N_DENSE + 1] = {CONTEXT * EMBEDDING, HIDDEN, HIDDEN,
                                        n_chars};
    size_t at = n_chars * EMBEDDING;
    uint64_t random = 1;

    memset(model, 0, sizeof(*model));
    model->n_chars = n_chars;
    for (int l = 0; l < N_DENSE; l++) {
        size_t n_in = widths[l], n_out = widths[l + 1];

        model->dense[l] = (struct dense){n_in, n_out, at, at + n_in * n_out};
        at += (n_in + 1) * n_out;
    }
    model->n_params = at;
    model->params = calloc(at, sizeof(float));
    model->moment1 = calloc(at, sizeof(float));
    model->moment2 = calloc(at, sizeof(float));
    if (!model->params || !model->moment1 || !model->moment2) {
        model_destroy(model);
        return false;
    }
    for (size_t i = 0; i < at; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* uniform, of the scale that keeps tanh awake */
        model->params[i] = ((float)(random >> 40) / (1 << 23) - 1) * 0.15f;
    }
    return true;
}

void model_destroy(struct model *model)
{
    free(model->params);
    free(model->moment1);
    free(model->moment2);
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
        dense_forward(&m->dense[l], m->params, x, a->y[l]);
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

float model_learn(const struct model *m, const uint8_t *text, float *grads)
{
    struct activations a, d; /* values, and gradients by them */
    float loss, *dy;

    forward(m, text, &a);
    dy = a.y[N_DENSE - 1];
    loss = softmax_loss(dy, m->n_chars, text[CONTEXT]);
    for (int l = N_DENSE - 1; l > 0; l--) {
        dense_backward(&m->dense[l], m->params, a.y[l - 1], dy, grads,
                       d.y[l - 1]);
        dy = d.y[l - 1];
        for (size_t i = 0; i < HIDDEN; i++)
            dy[i] *= 1 - a.y[l - 1][i] * a.y[l - 1][i];
    }
    dense_backward(&m->dense[0], m->params, a.x, dy, grads, d.x);
    for (size_t c = 0; c < CONTEXT; c++)
        add_scaled(grads + text[c] * EMBEDDING, 1, d.x + c * EMBEDDING,
                   EMBEDDING);
    return loss;
}

void model_update(struct model *m, const float *grads, float n, uint64_t step,
                  float rate)
{
    const float beta1 = 0.9f, beta2 = 0.99f;
    const float fix1 = 1 - powf(beta1, (float)step);
    const float fix2 = 1 - powf(beta2, (float)step);

    for (size_t i = 0; i < m->n_params; i++) {
        float g = grads[i] / n;

        m->moment1[i] += (1 - beta1) * (g - m->moment1[i]);
        m->moment2[i] += (1 - beta2) * (g * g - m->moment2[i]);
        m->params[i] -= rate * (m->moment1[i] / fix1) /
                        (sqrtf(m->moment2[i] / fix2) + 1e-8f);
    }
}

uint64_t model_digest(const struct model *m)
{
    const uint8_t *bytes = (const uint8_t *)m->params;
    uint64_t digest = 0xcbf29ce484222325u;

    for (size_t i = 0; i < m->n_params * sizeof(float); i++)
        digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}
