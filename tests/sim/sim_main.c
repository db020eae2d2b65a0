/* sim_main.c - the program hvd-sim: many seeds, one seed with its transcript, or
 * one death at every event.
 *
 *   hvd-sim [--seeds N] [--first F] [--size small|large] [--bug NAME]
 *   hvd-sim --replay SEED [--size ...] [--bug NAME]
 *   hvd-sim --exhaustive [--seeds N]
 *   hvd-sim --bugs
 *
 * Exit status 0: every invariant held and everything in the coverage table has
 * happened; 1: not; 2: usage. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define ULL(x) ((unsigned long long)(x))

struct tally {
    uint64_t n_runs, n_events, n_workers, end_us;
    uint64_t cover[N_COVER];
};

/* How jobs end, by the first words of their sentence. */
enum { ENDS_MAX = 24, END_MAX = 40 };
static struct {
    char words[END_MAX];
    uint64_t n;
} ends[ENDS_MAX];

struct arguments {
    struct sim_options options;
    uint64_t n_seeds;
    bool exhaustive, replay, bugs, no_coverage;
};

static struct sim_result result; /* large: not on the stack */

static void count_end(const char *verdict)
{
    size_t n = strcspn(verdict, ":0123456789"), i = 0;

    if (n >= END_MAX)
        n = END_MAX - 1;
    while (i < ENDS_MAX - 1 && ends[i].n > 0 &&
           (strncmp(ends[i].words, verdict, n) != 0 || ends[i].words[n]))
        i++;
    memcpy(ends[i].words, verdict, n);
    ends[i].words[n] = '\0';
    ends[i].n++;
}

static void tally_add(struct tally *t)
{
    t->n_runs++;
    count_end(result.ok ? result.verdict : "violation");
    t->n_events += result.n_events;
    t->n_workers += result.n_workers;
    t->end_us += result.end_us;
    for (int i = 0; i < N_COVER; i++)
        t->cover[i] += result.cover[i];
}

static void tally_print(const struct tally *t)
{
    printf("runs %llu  events %llu  workers %llu  virtual time %llu s\n",
           ULL(t->n_runs), ULL(t->n_events), ULL(t->n_workers),
           ULL(t->end_us / 1000000));
    for (int i = 0; i < N_COVER; i++)
        printf("  %-24s %llu\n", sim_counter_names[i], ULL(t->cover[i]));
    for (int i = 0; i < ENDS_MAX && ends[i].n > 0; i++)
        printf("  ended %10llu x \"%s\"\n", ULL(ends[i].n), ends[i].words);
}

static bool covers_all(const struct tally *t, bool large)
{
    bool all = true;

    for (int i = 0; i < N_COVER; i++) {
        if (t->cover[i] > 0 || (large && !sim_counter_in_large[i]))
            continue;
        printf("never happened: %s\n", sim_counter_names[i]);
        all = false;
    }
    return all;
}

static void print_lines(void)
{
    uint64_t first = result.n_lines > SIM_LINES ? result.n_lines - SIM_LINES
                                                : 0;

    for (uint64_t i = first; i < result.n_lines; i++)
        puts(result.lines[i % SIM_LINES]);
}

static void how_to_replay(const struct sim_options *o)
{
    printf("replay: hvd-sim --replay %llu", ULL(o->seed));
    if (o->large)
        printf(" --size large");
    if (o->bug != BUG_none)
        printf(" --bug %s", sim_bug_name(o->bug));
    if (o->base)
        printf(" --base --kill-event %llu --kill %llu", ULL(o->kill_event),
               ULL(o->kill_worker));
    if (o->kill_worker_too)
        printf(" --kill-too %llu", ULL(o->kill_worker_too));
    puts("");
}

/* One run; if it fails, once more for its transcript. */
static bool run(const struct sim_options *options, struct tally *tally)
{
    struct sim_options again = *options;

    sim_run(options, &result);
    tally_add(tally);
    if (result.ok)
        return true;
    again.trace = true;
    sim_run(&again, &result);
    printf("seed %llu violates: %s\n", ULL(options->seed), result.violation);
    print_lines();
    how_to_replay(options);
    return false;
}

static int run_seeds(const struct arguments *a)
{
    struct tally tally = {0};
    struct sim_options options = a->options;
    bool judged = !a->no_coverage && options.bug == BUG_none;

    for (uint64_t i = 0; i < a->n_seeds; i++) {
        if (!run(&options, &tally))
            return 1;
        options.seed++;
    }
    tally_print(&tally);
    return judged && !covers_all(&tally, options.large) ? 1 : 0;
}

static int run_replay(const struct arguments *a)
{
    struct sim_options options = a->options;

    options.print = true;
    sim_run(&options, &result);
    if (result.ok)
        printf("ok: status %d: %s\n", result.status, result.verdict);
    else
        printf("violation: %s\n", result.violation);
    return result.ok ? 0 : 1;
}

/* The base schedule of a seed again and again; each time another worker dies
 * (the last time with the one after it) just before another event. */
static bool exhaust(struct sim_options options, struct tally *tally)
{
    uint64_t n_events, n_workers;

    options.kill_event = 0;
    if (!run(&options, tally))
        return false;
    n_events = result.n_events;
    n_workers = result.n_workers;
    for (uint64_t k = 1; k <= n_events; k++) {
        for (uint64_t w = 1; w <= n_workers; w++) {
            options.kill_event = k;
            options.kill_worker = w;
            options.kill_worker_too = k % 4 == 3 ? 1 + w % n_workers : 0;
            if (!run(&options, tally))
                return false;
        }
    }
    return true;
}

static int run_exhaustive(const struct arguments *a)
{
    struct tally tally = {0};
    struct sim_options options = a->options;

    options.base = true;
    for (uint64_t i = 0; i < a->n_seeds; i++) {
        if (!exhaust(options, &tally))
            return 1;
        options.seed++;
    }
    tally_print(&tally);
    return 0;
}

/* Each broken rule must be found by some seed. */
static int run_bugs(const struct arguments *a)
{
    struct sim_options options = a->options;
    int n_missed = 0;

    for (int bug = BUG_none + 1; bug < N_BUG; bug++) {
        uint64_t seed = 0;

        options.bug = (enum sim_bug)bug;
        do {
            options.seed = a->options.seed + seed;
            sim_run(&options, &result);
        } while (result.ok && ++seed < a->n_seeds);
        n_missed += result.ok;
        printf("%-12s %s", sim_bug_name(options.bug),
               result.ok ? "not found" : "found");
        if (!result.ok)
            printf(" by seed %llu: %s", ULL(options.seed), result.violation);
        puts("");
    }
    return n_missed > 0 ? 1 : 0;
}

/* ---- arguments ----------------------------------------------------------- */

enum {
    OPT_SEEDS = 1,
    OPT_FIRST,
    OPT_SIZE,
    OPT_BUG,
    OPT_REPLAY,
    OPT_EXHAUSTIVE,
    OPT_BUGS,
    OPT_BASE,
    OPT_KILL_EVENT,
    OPT_KILL,
    OPT_KILL_TOO,
    OPT_NO_COVERAGE
};

static const struct option long_options[] = {
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"first", required_argument, NULL, OPT_FIRST},
    {"size", required_argument, NULL, OPT_SIZE},
    {"bug", required_argument, NULL, OPT_BUG},
    {"replay", required_argument, NULL, OPT_REPLAY},
    {"exhaustive", no_argument, NULL, OPT_EXHAUSTIVE},
    {"bugs", no_argument, NULL, OPT_BUGS},
    {"base", no_argument, NULL, OPT_BASE},
    {"kill-event", required_argument, NULL, OPT_KILL_EVENT},
    {"kill", required_argument, NULL, OPT_KILL},
    {"kill-too", required_argument, NULL, OPT_KILL_TOO},
    {"no-coverage", no_argument, NULL, OPT_NO_COVERAGE},
    {NULL, 0, NULL, 0}};

static bool number(const char *text, uint64_t *value_p)
{
    char *end;

    *value_p = strtoull(text, &end, 10);
    if (end != text && *end == '\0')
        return true;
    fprintf(stderr, "hvd-sim: \"%s\" is not a number\n", text);
    return false;
}

static bool set_size(struct arguments *a, const char *size)
{
    a->options.large = strcmp(size, "large") == 0;
    if (a->options.large || strcmp(size, "small") == 0)
        return true;
    fprintf(stderr, "hvd-sim: --size is small or large, not \"%s\"\n", size);
    return false;
}

static bool set_bug(struct arguments *a, const char *name)
{
    a->options.bug = sim_bug_find(name);
    if (a->options.bug != BUG_none)
        return true;
    fprintf(stderr, "hvd-sim: no bug is called \"%s\"\n", name);
    return false;
}

static bool set(struct arguments *a, int option)
{
    switch (option) {
    case OPT_SEEDS:
        return number(optarg, &a->n_seeds);
    case OPT_REPLAY:
        a->replay = true;
        return number(optarg, &a->options.seed);
    case OPT_FIRST:
        return number(optarg, &a->options.seed);
    case OPT_KILL_EVENT:
        return number(optarg, &a->options.kill_event);
    case OPT_KILL:
        return number(optarg, &a->options.kill_worker);
    case OPT_KILL_TOO:
        return number(optarg, &a->options.kill_worker_too);
    case OPT_SIZE:
        return set_size(a, optarg);
    case OPT_BUG:
        return set_bug(a, optarg);
    case OPT_EXHAUSTIVE:
        a->exhaustive = true;
        return true;
    case OPT_BUGS:
        a->bugs = true;
        return true;
    case OPT_BASE:
        a->options.base = true;
        return true;
    case OPT_NO_COVERAGE:
        a->no_coverage = true;
        return true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    struct arguments a = {.n_seeds = 1};
    int option;

    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        if (!set(&a, option))
            return 2;
    if (optind < argc) {
        fprintf(stderr, "hvd-sim: \"%s\" is not an option\n", argv[optind]);
        return 2;
    }
    if (a.replay)
        return run_replay(&a);
    if (a.bugs)
        return run_bugs(&a);
    if (a.exhaustive)
        return run_exhaustive(&a);
    return run_seeds(&a);
}
