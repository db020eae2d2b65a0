/* examples/charlm/parameters.c - see parameters.h. */
#include "parameters.h"

#include <math.h>

static void parts_init(struct layout *layout)
{
    static const char *const names[N_DENSE] = {"hidden1", "hidden2", "scores"};
    struct part *part = layout->parts;

    *part++ = (struct part){"totals", layout->n_params, 2};
    for (int l = N_DENSE - 1; l >= 0; l--) {
        const struct dense *d = &layout->dense[l];

        *part++ = (struct part){names[l], d->weights, (d->n_in + 1) * d->n_out};
    }
    *part = (struct part){"embedding", 0, layout->dense[0].weights};
}

void layout_init(struct layout *layout, size_t n_chars, size_t n_hidden)
{
    const size_t widths[N_DENSE + 1] = {CONTEXT * EMBEDDING, n_hidden, n_hidden,
                                        n_chars};
    size_t at = n_chars * EMBEDDING;

    layout->n_chars = n_chars;
    for (int l = 0; l < N_DENSE; l++) {
        size_t n_in = widths[l], n_out = widths[l + 1];

        layout->dense[l] = (struct dense){n_in, n_out, at, at + n_in * n_out};
        at += (n_in + 1) * n_out;
    }
    layout->n_params = at;
    parts_init(layout);
}

size_t layout_width(const struct layout *layout, int l)
{
    return l < N_DENSE ? layout->dense[l].n_in : layout->dense[l - 1].n_out;
}

void parameters_init(float *params, size_t n_params)
{
    uint64_t random = 1;

    for (size_t i = 0; i < n_params; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* uniform, of the scale that keeps tanh awake */
        params[i] = ((float)(random >> 40) / (1 << 23) - 1) * 0.15f;
    }
}

uint64_t parameters_digest(const float *params, size_t n_params)
{
    const uint8_t *bytes = (const uint8_t *)params;
    uint64_t digest = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n_params * sizeof(float); i++)
        digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}

struct adam adam_at(uint64_t step, float rate)
{
    struct adam adam = {.rate = rate, .beta1 = 0.9f, .beta2 = 0.99f};

    adam.fix1 = 1 - powf(adam.beta1, (float)step);
    adam.fix2 = 1 - powf(adam.beta2, (float)step);
    return adam;
}
