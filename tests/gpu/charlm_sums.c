/* charlm_sums.c - prints all that a batch of charlm's samples adds up to, a
 * number on each line. Linked with the model of the host, and with that of a
 * device. Threads: one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "place.h"

#ifdef ON_DEVICE
#include "gpu.h"
#else
#define gpu_copy memcpy
#endif

enum { N_TEXT = 400, N_CHARS = 50, N_HIDDEN = 96, N_SAMPLES = 20 };

static hvd_status_t print_sums(void)
{
    static uint8_t chars[N_TEXT];
    const struct text text = {chars, N_TEXT, N_CHARS};
    uint64_t places[N_SAMPLES];
    struct model *model;
    float *sums;
    size_t n;

    for (unsigned i = 0; i < N_TEXT; i++)
        chars[i] = (uint8_t)(i * i / 7 % N_CHARS);
    for (unsigned i = 0; i < N_SAMPLES; i++)
        places[i] = i * 37 % (N_TEXT - CONTEXT);
    HVD_TRY(hvd_init(NULL));
    HVD_TRY(place_open());
    model = model_create(&text, N_HIDDEN, N_SAMPLES);
    n = model->layout.n_params + 2;
    sums = malloc(n * sizeof(*sums));
    model_forward(model, places, N_SAMPLES);
    for (int k = 0; k < N_PARTS; k++)
        model_backward(model, k);
    gpu_copy(sums, model->sums, n * sizeof(*sums));
    for (size_t i = 0; i < n; i++)
        printf("%.9g\n", (double)sums[i]);
    free(sums);
    model_destroy(model);
    return hvd_shutdown();
}

int main(void)
{
    return print_sums() == HVD_OK ? 0 : 1;
}
