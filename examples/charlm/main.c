/* examples/charlm/main.c - train a small language model on a text, elastically.
 *
 *     hvd-elastic -np 2 -H localhost:2 -- charlm TEXT
 *
 * With --by-name, the ranks sum the gradients of one layer while they compute
 * those of the layer before it: sum_by_name().
 *
 * Read run_elastic() first, then train(): elastic training is no more than
 * these two. register_state() registers all data that must survive a lost
 * worker. A program that is started by hand, without hvd-elastic, trains alone.
 * charlm_cuda trains the same model on a GPU; place.h has the difference.
 *
 * At the end each rank prints a digest of the weights, which must be equal on
 * all ranks, and the number of iterations that its process has run: more than
 * `steps` if some were lost with a peer and repeated. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hvd/hvd.h>

#include "model.h"
#include "place.h"

struct options { /* whole numbers, but for rate */
    double epochs, steps, batch, hidden, report, delay_ms;
    double rate; /* for one rank */
    bool by_name;
    const char *path;
};

struct run {
    struct options options;
    struct text text;
    struct model *model;
    hvd_sampler_t *sampler;
    uint64_t *indices; /* [batch] */
    float rate;

    /* Shared state besides the weights: equal on all ranks. */
    struct counters {
        uint64_t step;
        double loss_sum; /* since the last report */
    } counters;

    uint64_t iterations; /* of this process; never rolled back */
};

/* ---- the elastic part --------------------------------------------------- */

/* More ranks take a larger batch together, so they may take a larger step. A
 * function of the world alone: it can run as often as it likes. */
static void follow_size(const hvd_reset_info_t *info, void *arg)
{
    struct run *run = arg;

    (void)info;
    run->rate = (float)(run->options.rate * hvd_size());
}

static hvd_status_t sum_at_once(struct model *model)
{
    for (int k = 0; k < N_PARTS; k++)
        model_backward(model, k);
    return hvd_allreduce(model->sums, model->sums, model->layout.n_params + 2,
                         HVD_FLOAT32, HVD_SUM);
}

static hvd_status_t post_part(struct model *model, int k,
                              hvd_request_t **request_p)
{
    const struct part *part = &model->layout.parts[k];
    hvd_options_t options = HVD_OPTIONS_INIT;
    float *sums = model->sums + part->at;

    options.key = part->name;
    return hvd_allreduce_with(sums, sums, part->count, HVD_FLOAT32, HVD_SUM,
                              &options, request_p);
}

/* Each part travels as soon as it is there, and the next one is computed
 * meanwhile. However it ends, nothing is in flight any more. */
static hvd_status_t sum_by_name(struct model *model)
{
    hvd_request_t *requests[N_PARTS] = {NULL};
    hvd_status_t posted = HVD_OK, summed;

    for (int k = 0; k < N_PARTS && posted == HVD_OK; k++) {
        model_backward(model, k);
        posted = post_part(model, k, &requests[k]);
    }
    summed = hvd_wait_all(N_PARTS, requests);
    return posted != HVD_OK ? posted : summed;
}

/* Gradients, loss and number of samples, summed over all ranks. Summing the
 * counts too makes the mean right when ranks have different shares. */
static hvd_status_t sum_gradients(struct run *run, size_t n)
{
    model_forward(run->model, run->indices, n);
    run->iterations++;
    return run->options.by_name ? sum_by_name(run->model)
                                : sum_at_once(run->model);
}

static void take_step(struct run *run)
{
    struct counters *counters = &run->counters;
    uint64_t report = (uint64_t)run->options.report;

    counters->step++;
    counters->loss_sum += (double)model_step(run->model, counters->step,
                                             run->rate);
    if (counters->step % report != 0)
        return;
    if (hvd_rank() == 0)
        printf("step %" PRIu64 " epoch %" PRIu64 " loss %.3f size %d\n",
               counters->step, hvd_sampler_epoch(run->sampler),
               counters->loss_sum / (double)report, hvd_size());
    counters->loss_sum = 0;
}

static void delay(double ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(fmod(ms, 1000) * 1e6)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static bool finished(const struct run *run)
{
    return (double)run->counters.step >= run->options.steps ||
           (double)hvd_sampler_epoch(run->sampler) >= run->options.epochs;
}

/* Called once per generation: training goes on from the state. */
static hvd_status_t train(hvd_state_t *state, void *arg)
{
    struct run *run = arg;

    follow_size(NULL, run);
    printf("resumed at step %" PRIu64 " size %d iterations-here %" PRIu64 "\n",
           run->counters.step, hvd_size(), run->iterations);
    while (!finished(run)) {
        size_t n;
        bool end;

        HVD_TRY(hvd_sampler_next(run->sampler, (size_t)run->options.batch,
                                 run->indices, &n, &end));
        if (end) {
            HVD_TRY(hvd_sampler_set_epoch(run->sampler,
                                          hvd_sampler_epoch(run->sampler) + 1));
            continue;
        }
        HVD_TRY(sum_gradients(run, n));
        take_step(run);
        HVD_TRY(hvd_state_commit(state));
        delay(run->options.delay_ms);
    }
    return HVD_OK;
}

static hvd_status_t make_model(struct run *run)
{
    run->model = model_create(&run->text, (size_t)run->options.hidden,
                              (size_t)run->options.batch);
    return run->model ? HVD_OK : HVD_ERR_NOMEM;
}

static hvd_status_t register_state(struct run *run, hvd_state_t *state)
{
    struct model *model = run->model;
    size_t n = model->layout.n_params;

    HVD_TRY(place_register(state, "weights", model->params, n));
    HVD_TRY(place_register(state, "moment1", model->moment1, n));
    HVD_TRY(place_register(state, "moment2", model->moment2, n));
    HVD_TRY(hvd_state_add(state, "counters", &run->counters,
                          sizeof(run->counters)));
    HVD_TRY(hvd_state_add_sampler(state, "sampler", run->sampler));
    return hvd_state_on_reset(state, follow_size, run);
}

static hvd_status_t run_elastic(struct run *run)
{
    hvd_state_t *state;
    hvd_status_t status, goodbye;

    HVD_TRY(hvd_state_create(&state));
    HVD_TRY_GOTO(hvd_init(NULL), shutdown);
    HVD_TRY_GOTO(place_open(), shutdown);
    HVD_TRY_GOTO(make_model(run), shutdown);
    HVD_TRY_GOTO(register_state(run, state), shutdown);
    status = hvd_elastic_run(state, train, run);

shutdown:
    if (status != HVD_OK && status != HVD_REMOVED)
        fprintf(stderr, "%s: error: %s: %s\n", program_invocation_short_name,
                hvd_strerror(status), hvd_last_error());
    goodbye = hvd_shutdown();
    hvd_state_destroy(state);
    return status == HVD_OK ? goodbye : status;
}

/* ---- text, options ------------------------------------------------------ */

/* The whole file, with its characters renumbered 0, 1, ... by their order. */
static bool load_text(struct text *text, const char *path)
{
    FILE *file = fopen(path, "rb");
    int numbers[256] = {0};
    long size = -1;

    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size > CONTEXT && fseek(file, 0, SEEK_SET) == 0) {
        text->chars = malloc((size_t)size);
        if (text->chars)
            text->n = fread(text->chars, 1, (size_t)size, file);
    }
    if (file)
        fclose(file);
    if (size <= CONTEXT || text->n != (size_t)size) {
        fprintf(stderr, "%s: error: %s: %s\n", program_invocation_short_name,
                path, size < 0 ? strerror(errno) : "no text to learn from");
        return false;
    }
    for (size_t i = 0; i < text->n; i++)
        numbers[text->chars[i]] = 1;
    for (int c = 0; c < 256; c++)
        numbers[c] = numbers[c] ? (int)text->n_chars++ : 0;
    for (size_t i = 0; i < text->n; i++)
        text->chars[i] = (uint8_t)numbers[text->chars[i]];
    return true;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    static const struct option table[] = {
        {"epochs", required_argument, NULL, 0},
        {"steps", required_argument, NULL, 0},
        {"batch", required_argument, NULL, 0},
        {"hidden", required_argument, NULL, 0},
        {"lr", required_argument, NULL, 0},
        {"report", required_argument, NULL, 0},
        {"step-delay-ms", required_argument, NULL, 0},
        {"by-name", no_argument, NULL, 'n'},
        {0}};
    const double least[] = {1, 1, 1, 1, 1e-9, 1, 0};
    double *const values[] = {&o->epochs, &o->steps,  &o->batch,   &o->hidden,
                              &o->rate,   &o->report, &o->delay_ms};
    int option, i = 0;

    while ((option = getopt_long(argc, argv, "", table, &i)) != -1) {
        char *end;

        if (option == '?')
            return false;
        if (option == 'n') {
            o->by_name = true;
            continue;
        }
        *values[i] = strtod(optarg, &end);
        if (*end || !(*values[i] >= least[i] && *values[i] <= 1e9)) {
            fprintf(stderr, "%s: error: --%s %s: not a fitting number\n",
                    program_invocation_short_name, table[i].name, optarg);
            return false;
        }
    }
    if (optind != argc - 1) {
        fprintf(stderr,
                "usage: %s [--epochs N] [--steps N] [--batch N] [--hidden N] "
                "[--lr X] [--report N] [--step-delay-ms N] [--by-name] TEXT\n",
                program_invocation_short_name);
        return false;
    }
    if (o->epochs == 0) /* as many as the steps need; neither given: 5 */
        o->epochs = o->steps > 0 ? HUGE_VAL : 5;
    if (o->steps == 0)
        o->steps = HUGE_VAL;
    o->path = argv[optind];
    return true;
}

int main(int argc, char **argv)
{
    struct run run = {
        .options = {.batch = 32, .hidden = 96, .rate = 0.001, .report = 20}};
    hvd_status_t status = HVD_ERR_NOMEM;

    if (!parse_options(&run.options, argc, argv) ||
        !load_text(&run.text, run.options.path))
        return 2;
    /* a sample is CONTEXT characters and the one after them */
    if (hvd_sampler_create(run.text.n - CONTEXT, NULL, &run.sampler) != HVD_OK)
        return 1;
    run.indices = calloc((size_t)run.options.batch, sizeof(*run.indices));
    if (run.indices)
        status = run_elastic(&run);
    if (status == HVD_OK)
        printf("final digest %016" PRIx64 " steps %" PRIu64
               " iterations-here %" PRIu64 "\n",
               model_digest(run.model), run.counters.step, run.iterations);
    model_destroy(run.model);
    free(run.indices);
    hvd_sampler_destroy(run.sampler);
    free(run.text.chars);
    return status == HVD_OK || status == HVD_REMOVED ? 0 : 1;
}
