/* examples/charlm_cuda/model_cuda.c - the model on a device, computed by the
 * kernels of kernels.cu. See model.h, gpu.h. */
#include <stdbool.h>
#include <stdlib.h>

#include "gpu.h"
#include "model.h"

/* All arrays lie in the device's memory. */
struct cuda_model {
    struct model model;
    float *gradients[N_DENSE + 1]; /* of the loss by the model's values */
    float *norms;                  /* [batch_max] */
};

#define LAUNCH(kernel, count, ...) \
    gpu_launch(#kernel, count, (void *[]){__VA_ARGS__})

static struct cuda_model *of(struct model *model)
{
    return (struct cuda_model *)model;
}

static float *alloc_floats(size_t count)
{
    return gpu_alloc(count * sizeof(float));
}

/* Copy memory of the host into new memory of the device. */
static void *copy_of(const void *ptr, size_t nbytes)
{
    void *copy = gpu_alloc(nbytes);

    gpu_copy(copy, ptr, nbytes);
    return copy;
}

static bool init_parameters(struct model *model)
{
    size_t n = model->layout.n_params, nbytes = n * sizeof(float);
    float *params = calloc(n, sizeof(float));

    if (!params)
        return false;
    model->moment1 = copy_of(params, nbytes);
    model->moment2 = copy_of(params, nbytes);
    parameters_init(params, n);
    model->params = copy_of(params, nbytes);
    model->sums = alloc_floats(n + 2);
    free(params);
    return true;
}

static void alloc_rows(struct cuda_model *m, size_t batch_max)
{
    m->model.places = gpu_alloc(batch_max * sizeof(*m->model.places));
    for (int l = 0; l <= N_DENSE; l++) {
        size_t count = batch_max * layout_width(&m->model.layout, l);

        m->model.values[l] = alloc_floats(count);
        m->gradients[l] = alloc_floats(count);
    }
    m->norms = alloc_floats(batch_max);
}

struct model *model_create(const struct text *text, size_t n_hidden,
                           size_t batch_max)
{
    struct cuda_model *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    layout_init(&m->model.layout, text->n_chars, n_hidden);
    if (!init_parameters(&m->model)) {
        free(m);
        return NULL;
    }
    m->model.text = copy_of(text->chars, text->n);
    alloc_rows(m, batch_max);
    return &m->model;
}

void model_destroy(struct model *model)
{
    struct cuda_model *m = of(model);

    if (!m)
        return;
    gpu_free(model->text);
    gpu_free(model->params);
    gpu_free(model->moment1);
    gpu_free(model->moment2);
    gpu_free(model->sums);
    gpu_free(model->places);
    for (int l = 0; l <= N_DENSE; l++) {
        gpu_free(model->values[l]);
        gpu_free(m->gradients[l]);
    }
    gpu_free(m->norms);
    free(m);
}

void model_forward(struct model *m, const uint64_t *places, size_t n)
{
    struct dense *dense = m->layout.dense;

    gpu_copy(m->places, places, n * sizeof(*places));
    m->n = n;
    LAUNCH(embed, n * dense[0].n_in, &m->values[0], &m->params, &m->text,
           &m->places, &n);
    for (int l = 0; l < N_DENSE; l++) {
        bool hidden = l + 1 < N_DENSE;

        LAUNCH(dense_forward, n * dense[l].n_out, &m->values[l + 1],
               &m->values[l], &m->params, &dense[l], &n, &hidden);
    }
}

static void find_loss(struct cuda_model *m)
{
    struct model *model = &m->model;
    size_t *n = &model->n, *n_chars = &model->layout.n_chars;
    float **scores = &model->values[N_DENSE];
    float *totals = model->sums + model->layout.n_params;

    LAUNCH(score_norms, *n, &m->norms, scores, n, n_chars);
    LAUNCH(total_loss, 1, &totals, &m->norms, scores, &model->text,
           &model->places, n, n_chars);
    LAUNCH(score_gradients, *n * *n_chars, &m->gradients[N_DENSE], scores,
           &m->norms, &model->text, &model->places, n, n_chars);
}

static void dense_backward(struct cuda_model *m, int l)
{
    struct model *model = &m->model;
    struct dense *d = &model->layout.dense[l];
    bool hidden = l > 0;

    LAUNCH(weight_gradients, (d->n_in + 1) * d->n_out, &model->sums,
           &model->values[l], &m->gradients[l + 1], d, &model->n);
    LAUNCH(input_gradients, model->n * d->n_in, &m->gradients[l],
           &model->values[l], &m->gradients[l + 1], &model->params, d,
           &model->n, &hidden);
}

static void embedding_backward(struct cuda_model *m)
{
    struct model *model = &m->model;
    size_t *n_chars = &model->layout.n_chars;

    LAUNCH(embedding_gradients, *n_chars * EMBEDDING, &model->sums,
           &m->gradients[0], &model->text, &model->places, &model->n, n_chars);
}

void model_backward(struct model *model, int k)
{
    if (k == 0)
        find_loss(of(model));
    else if (k <= N_DENSE)
        dense_backward(of(model), N_DENSE - k);
    else
        embedding_backward(of(model));
}

float model_step(struct model *model, uint64_t step, float rate)
{
    struct adam adam = adam_at(step, rate);
    size_t n = model->layout.n_params;
    float totals[2];

    LAUNCH(adam_step, n, &model->params, &model->moment1, &model->moment2,
           &model->sums, &n, &adam);
    gpu_copy(totals, model->sums + n, sizeof(totals));
    return totals[0] / totals[1];
}

uint64_t model_digest(const struct model *model)
{
    size_t n = model->layout.n_params;
    float *params = malloc(n * sizeof(*params));
    uint64_t digest = 0;

    if (!params)
        return digest;
    gpu_copy(params, model->params, n * sizeof(*params));
    digest = parameters_digest(params, n);
    free(params);
    return digest;
}
