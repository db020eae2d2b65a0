/* examples/charlm/main.c - train a small language model on a text, elastically.
 *
 *     hvd-elastic -np 2 -H localhost:2 -- charlm TEXT
 *
 * Read main() first, then train(): that is all there is to elastic training.
 * Everything that must survive is registered in register_state(); the model
 * itself (model.c) knows nothing of it. Started by hand, without hvd-elastic,
 * it trains alone.
 *
 * Each line that ranks print at the end has a digest of the weights, which must
 * be equal on all of them, and how many iterations this process has run: more
 * than `steps` if some were lost with a peer and repeated. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hvd/hvd.h>

#include "model.h"

struct options { /* whole numbers, but for rate */
    double epochs, steps, batch, report, delay_ms;
    double rate; /* for one rank */
    const char *path;
};

struct run {
    struct options options;
    uint8_t *text; /* [n_text], characters numbered from 0 */
    size_t n_text, n_chars;
    struct model model;
    hvd_sampler_t *sampler;
    uint64_t *indices; /* [batch] */
    float *sums; /* [n_params + 2]: gradients, loss and count: one allreduce */
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

/* Gradients, loss and number of samples, summed over all ranks. Summing the
 * counts too makes the mean right when ranks have different shares. */
static hvd_status_t sum_gradients(struct run *run, size_t n)
{
    size_t n_params = run->model.n_params;

    memset(run->sums, 0, (n_params + 2) * sizeof(float));
    for (size_t i = 0; i < n; i++)
        run->sums[n_params] += model_learn(
            &run->model, run->text + run->indices[i], run->sums);
    run->sums[n_params + 1] = (float)n;
    run->iterations++;
    return hvd_allreduce(run->sums, run->sums, n_params + 2, HVD_FLOAT32,
                         HVD_SUM);
}

static void take_step(struct run *run)
{
    const float *totals = run->sums + run->model.n_params;
    struct counters *counters = &run->counters;
    uint64_t report = (uint64_t)run->options.report;

    counters->step++;
    model_update(&run->model, run->sums, totals[1], counters->step, run->rate);
    counters->loss_sum += (double)(totals[0] / totals[1]);
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

/* Called once per generation: goes on from whatever the state says. */
static hvd_status_t train(hvd_state_t *state, void *arg)
{
    struct run *run = arg;

    follow_size(NULL, run);
    printf("resumed at step %" PRIu64 " size %d iterations-here %" PRIu64 "\n",
           run->counters.step, hvd_size(), run->iterations);
    while (!finished(run)) {
        size_t n;
        hvd_status_t status = hvd_sampler_next(
            run->sampler, (size_t)run->options.batch, run->indices, &n);

        if (status == HVD_END_OF_EPOCH)
            status = hvd_sampler_set_epoch(run->sampler,
                                           hvd_sampler_epoch(run->sampler) + 1);
        else if (status == HVD_OK) {
            HVD_TRY(sum_gradients(run, n));
            take_step(run);
            status = hvd_state_commit(state);
        }
        HVD_TRY(status);
        delay(run->options.delay_ms);
    }
    return HVD_OK;
}

static hvd_status_t register_state(struct run *run, hvd_state_t *state)
{
    size_t nbytes = run->model.n_params * sizeof(float);

    HVD_TRY(hvd_state_add(state, "weights", run->model.params, nbytes));
    HVD_TRY(hvd_state_add(state, "moment1", run->model.moment1, nbytes));
    HVD_TRY(hvd_state_add(state, "moment2", run->model.moment2, nbytes));
    HVD_TRY(hvd_state_add(state, "counters", &run->counters,
                          sizeof(run->counters)));
    HVD_TRY(hvd_state_add_sampler(state, "sampler", run->sampler));
    return hvd_state_on_reset(state, follow_size, run);
}

static hvd_status_t run_elastic(struct run *run)
{
    hvd_state_t *state = hvd_state_create();
    hvd_status_t status = HVD_ERR_NOMEM;

    if (!state)
        return status;
    HVD_TRY_GOTO(hvd_init(), shutdown);
    HVD_TRY_GOTO(register_state(run, state), shutdown);
    status = hvd_elastic_run(state, train, run);

shutdown:
    if (status != HVD_OK && status != HVD_REMOVED)
        fprintf(stderr, "charlm: error: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
    hvd_shutdown();
    hvd_state_destroy(state);
    return status;
}

/* ---- text, options ------------------------------------------------------ */

/* The whole file, with its characters renumbered 0, 1, ... by their order. */
static bool load_text(struct run *run)
{
    FILE *file = fopen(run->options.path, "rb");
    int numbers[256] = {0};
    long size = -1;

    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size > CONTEXT && fseek(file, 0, SEEK_SET) == 0) {
        run->text = malloc((size_t)size);
        if (run->text)
            run->n_text = fread(run->text, 1, (size_t)size, file);
    }
    if (file)
        fclose(file);
    if (size <= CONTEXT || run->n_text != (size_t)size) {
        fprintf(stderr, "charlm: error: %s: %s\n", run->options.path,
                size < 0 ? strerror(errno) : "no text to learn from");
        return false;
    }
    for (size_t i = 0; i < run->n_text; i++)
        numbers[run->text[i]] = 1;
    for (int c = 0; c < 256; c++)
        numbers[c] = numbers[c] ? (int)run->n_chars++ : 0;
    for (size_t i = 0; i < run->n_text; i++)
        run->text[i] = (uint8_t)numbers[run->text[i]];
    return true;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    static const struct option table[] = {
        {"epochs", required_argument, NULL, 0},
        {"steps", required_argument, NULL, 0},
        {"batch", required_argument, NULL, 0},
        {"lr", required_argument, NULL, 0},
        {"report", required_argument, NULL, 0},
        {"step-delay-ms", required_argument, NULL, 0},
        {0}};
    const double least[] = {1, 1, 1, 1e-9, 1, 0};
    double *const values[] = {&o->epochs, &o->steps,  &o->batch,
                              &o->rate,   &o->report, &o->delay_ms};
    int option, i = 0;

    while ((option = getopt_long(argc, argv, "", table, &i)) != -1) {
        char *end;

        if (option == '?')
            return false;
        *values[i] = strtod(optarg, &end);
        if (*end || !(*values[i] >= least[i] && *values[i] <= 1e9)) {
            fprintf(stderr, "charlm: error: --%s %s: not a fitting number\n",
                    table[i].name, optarg);
            return false;
        }
    }
    if (optind != argc - 1) {
        fprintf(stderr, "usage: charlm [--epochs N] [--steps N] [--batch N] "
                        "[--lr X] [--report N] [--step-delay-ms N] TEXT\n");
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
    struct run run = {.options = {.batch = 32, .rate = 0.001, .report = 20}};
    hvd_status_t status = HVD_ERR_NOMEM;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!parse_options(&run.options, argc, argv) || !load_text(&run))
        return 2;
    /* a sample is CONTEXT characters and the one after them */
    run.sampler = hvd_sampler_create(run.n_text - CONTEXT, NULL);
    run.indices = calloc((size_t)run.options.batch, sizeof(*run.indices));
    if (model_create(&run.model, run.n_chars) && run.sampler && run.indices)
        run.sums = calloc(run.model.n_params + 2, sizeof(float));
    if (run.sums)
        status = run_elastic(&run);
    if (status == HVD_OK)
        printf("final digest %016" PRIx64 " steps %" PRIu64
               " iterations-here %" PRIu64 "\n",
               model_digest(&run.model), run.counters.step, run.iterations);
    free(run.sums);
    model_destroy(&run.model);
    free(run.indices);
    hvd_sampler_destroy(run.sampler);
    free(run.text);
    return status == HVD_OK || status == HVD_REMOVED ? 0 : 1;
}
