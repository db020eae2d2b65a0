/* tests/integration/storm_worker.c - an elastic program that calls collectives
 * at random, and knows what must come of each.
 *
 *   storm_worker [--steps N] [--calls N] [--seed N] [--max-bytes N]
 *                [--kind NAME] [--named] [--repeat N] [--sets] [--join] [--lie]
 *                [--forget N] [DIR]
 *
 *   --steps      so many at least; with DIR until the file DIR/epoch says 1
 *   --calls      in each step
 *   --seed       of all that the ranks have to draw alike
 *   --max-bytes  of a buffer
 *   --kind       only calls of this kind
 *   --named      half of them are posted by name, each rank in its own order
 *   --repeat     so many steps make the same calls, each rank in one order
 *   --sets       most of them are calls of communicators
 *   --join       some ranks have more calls behind each step, others join
 *   --lie        a rule of one differs from rank to rank
 *   --forget     the process that was rank 1 of the first generation does not
 *                post "forgotten" in that step
 *
 * A seed repeats what is called, and what each rank does about it, not how the
 * ranks meet. A wrong answer says WRONG, with all that the call was, and
 * aborts.
 *
 * Threads: one. Memory: the calls of one step, and the graves. */
#include "storm.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_MAX = 32, PAUSE_US_MAX = 300 };

static struct call_options options = {
    .seed = 1, .repeat = 1, .nbytes_max = 3000000};
static uint64_t n_steps = 100;
static int n_calls = 12;
static bool with_sets, with_joins, with_lie;
static uint64_t forgetful = UINT64_MAX; /* step */
static bool forgets;                    /* this process, as long as it lives */
static const char *directory;           /* NULL: nobody leads */

static struct {
    uint64_t step, digest;
    int64_t is_over;
} model;

static struct call calls[CALLS_MAX];
static struct chance own;
static uint64_t own_seed; /* of this rank, for a generation */

/* ---- one step ------------------------------------------------------------ */

/* To their end, in every case; the first status that is not OK. Those with
 * names only with all others: another rank may wait for one that this rank has
 * yet to post. */
static hvd_status_t complete(bool all, hvd_status_t status)
{
    for (int i = 0; i < n_calls; i++) {
        hvd_status_t one;

        if (calls[i].request == NULL || (calls[i].named && !all))
            continue;
        one = hvd_wait(&calls[i].request);
        calls[i].request = NULL;
        if (one == HVD_OK)
            call_check(&calls[i]);
        else if (status == HVD_OK)
            status = one;
    }
    return status;
}

static hvd_status_t call(int number)
{
    struct call *c = &calls[number];
    bool named = call_is_named(&options, model.step, number);
    bool async = draw(&own, 5) < 2;

    HVD_TRY(call_prepare(c, &options, model.step, number, &own));
    if (c->rank < 0)
        return HVD_OK;
    if (one_in(&own, 8))
        usleep((useconds_t)draw(&own, PAUSE_US_MAX));
    HVD_TRY(call_issue(c, named   ? ISSUE_NAMED
                          : async ? ISSUE_POSTED
                                  : ISSUE_BLOCKING));
    if (!named && !async)
        call_check(c);
    return one_in(&own, 4) ? complete(false, HVD_OK) : HVD_OK;
}

/* Those with names stand anywhere between the others. order [n_calls] */
static void draw_order(int *order)
{
    struct chance chance = {mix2(own_seed, model.step / options.repeat)};
    int n = 0;

    for (int i = 0; i < n_calls; i++)
        if (!call_is_named(&options, model.step, i))
            order[n++] = i;
    for (int i = 0; i < n_calls; i++)
        if (call_is_named(&options, model.step, i)) {
            int at = (int)draw(&chance, (size_t)n + 1);

            memmove(order + at + 1, order + at,
                    (size_t)(n++ - at) * sizeof(*order));
            order[at] = i;
        }
}

/* This rank has no memory for a call, so it posts no more, and others may wait
 * for that before they post what this rank would wait for. */
static bool is_own(hvd_status_t status)
{
    return status == HVD_ERR_NOMEM || status == HVD_ERR_SYSTEM;
}

static hvd_status_t storm(void)
{
    hvd_status_t status = sets_begin_step(options.seed, model.step);
    int order[CALLS_MAX], n = 0;

    draw_order(order);
    while (n < n_calls && status == HVD_OK)
        status = call(order[n++]);
    if (is_own(status))
        return status;
    status = complete(true, status);
    for (int i = 0; i < n; i++)
        call_bury(&calls[order[i]]);
    HVD_TRY(sets_end_step());
    return status;
}

/* ---- training ------------------------------------------------------------ */

static bool may_end(void)
{
    char path[512];
    int n = 0;
    FILE *f;

    if (directory == NULL)
        return true;
    snprintf(path, sizeof(path), "%s/epoch", directory);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fscanf(f, "%d", &n) != 1)
        n = 0;
    fclose(f);
    return n > 0;
}

/* Of others, who wait for it until it is gone: in whichever generation, as a
 * machine that is busy may lose another one first. */
static hvd_status_t forget(void)
{
    hvd_options_t options_named = HVD_OPTIONS_INIT;
    float x = 1;

    forgets |= hvd_generation() == 1 && hvd_rank() == 1;
    if (model.step != forgetful)
        return HVD_OK;
    while (forgets)
        pause();
    options_named.key = "forgotten";
    return hvd_allreduce_with(&x, &x, 1, HVD_FLOAT32, HVD_SUM, &options_named,
                              NULL);
}

static hvd_status_t step(void)
{
    int64_t is_last = model.step + 1 >= n_steps && hvd_rank() == 0 && may_end();

    HVD_TRY(hvd_broadcast(&is_last, 1, HVD_INT64, 0));
    HVD_TRY(forget());
    HVD_TRY(storm());
    if (with_joins)
        HVD_TRY(join_run(options.seed, model.step, &own));
    model.digest = mix2(model.digest, model.step);
    model.step++;
    model.is_over = is_last;
    return HVD_OK;
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    uint64_t place = mix2(hvd_generation(), (uint64_t)hvd_slot());

    if (hvd_size() > STORM_RANKS_MAX)
        return HVD_ERR_STATE;
    own_seed = own.state = mix2(options.seed, place);
    blocks_see_to_graves();
    while (!model.is_over) {
        HVD_TRY(step());
        HVD_TRY(hvd_state_commit(state));
    }
    return HVD_OK;
}

static hvd_status_t run(void)
{
    hvd_state_t *state;
    hvd_status_t status;

    HVD_TRY(hvd_state_create(&state));
    if (with_sets)
        HVD_TRY_GOTO(sets_make(), destroy);
    if (with_lie)
        HVD_TRY_GOTO(sets_lie(), destroy);
    HVD_TRY_GOTO(hvd_state_add(state, "model", &model, sizeof(model)), destroy);
    status = hvd_elastic_run(state, train, NULL);
    blocks_see_to_graves();
    if (with_sets && status == HVD_OK)
        status = sets_unmake();

destroy:
    hvd_state_destroy(state);
    return status;
}

/* ---- the program --------------------------------------------------------- */

static const struct option longs[] = {
    {"steps", required_argument, NULL, 's'},
    {"calls", required_argument, NULL, 'c'},
    {"seed", required_argument, NULL, 'r'},
    {"max-bytes", required_argument, NULL, 'b'},
    {"kind", required_argument, NULL, 'k'},
    {"named", no_argument, NULL, 'n'},
    {"repeat", required_argument, NULL, 'e'},
    {"sets", no_argument, NULL, 'p'},
    {"join", no_argument, NULL, 'j'},
    {"lie", no_argument, NULL, 'l'},
    {"forget", required_argument, NULL, 'f'},
    {NULL, 0, NULL, 0}};

static bool take_option(int c)
{
    switch (c) {
    case 's':
        n_steps = strtoull(optarg, NULL, 10);
        return true;
    case 'c':
        n_calls = atoi(optarg);
        return n_calls > 0 && n_calls <= CALLS_MAX;
    case 'r':
        options.seed = strtoull(optarg, NULL, 10);
        return true;
    case 'b':
        options.nbytes_max = strtoull(optarg, NULL, 10);
        return true;
    case 'n':
        options.named = true;
        return true;
    case 'e':
        options.repeat = strtoull(optarg, NULL, 10);
        return options.repeat > 0;
    case 'p':
        with_sets = true;
        return true;
    case 'j':
        with_joins = true;
        return true;
    case 'l':
        with_lie = true;
        return true;
    case 'f':
        forgetful = strtoull(optarg, NULL, 10);
        return true;
    case 'k':
        options.kind = call_kind(optarg);
        return options.kind != 0;
    default:
        return false;
    }
}

static bool parse(int argc, char **argv)
{
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
        if (!take_option(c))
            return false;
    directory = argv[optind];
    return optind + (directory != NULL) == argc;
}

int main(int argc, char **argv)
{
    hvd_status_t status;

    if (!parse(argc, argv)) {
        fputs("storm_worker [--steps N] [--calls N] [--seed N] "
              "[--max-bytes N] [--kind NAME] [--named] [--repeat N] [--sets] "
              "[--join] [--lie] [--forget N] [DIR]\n",
              stderr);
        return 2;
    }
    status = hvd_init(NULL);
    if (status == HVD_OK)
        status = run();
    if (status != HVD_OK) {
        fprintf(stderr, "storm_worker: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
        return 1;
    }
    printf("final digest %016" PRIx64 " steps %" PRIu64 "\n", model.digest,
           model.step);
    return hvd_shutdown() == HVD_OK && fflush(stdout) == 0 ? 0 : 1;
}
