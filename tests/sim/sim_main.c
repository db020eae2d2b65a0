/* sim_main.c - the program hvd-sim: many seeds, one seed with its transcript,
 * or one death at every event.
 *
 *   hvd-sim [--seeds N] [--first F] [--size small|large] [--bug NAME]
 *   hvd-sim --replay SEED [--size small|large] [--bug NAME]
 *   hvd-sim --exhaustive [--seeds N] [--pairs N]
 *   hvd-sim --bugs [--seeds N]
 *
 * Exit status 0: every invariant held and everything in the coverage table has
 * happened; 1: not; 2: usage. */
#include <getopt.h>
#include <malloc.h>
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
    uint64_t n_seeds, pairs;
    bool exhaustive, replay, bugs, no_coverage, keep_going;
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

/* where: 0: everything is wanted. */
static bool covers_all(const struct tally *t, unsigned where)
{
    bool all = true;

    for (int i = 0; i < N_COVER; i++) {
        if (t->cover[i] > 0 || (where && !(sim_counter_where[i] & where)))
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
    if (o->succeed_event)
        printf(" --succeed-event %llu --succeed-lost %llu --succeed-us %llu",
               ULL(o->succeed_event), ULL(o->succeed_lost), ULL(o->succeed_us));
    if (o->meddle != MEDDLE_NOT)
        printf(" --meddle %d --meddle-event %llu --meddle-us %llu",
               (int)o->meddle, ULL(o->meddle_event), ULL(o->meddle_us));
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

/* A line for each seed that fails; how many did. */
static uint64_t run_all(const struct arguments *a, struct tally *tally)
{
    struct sim_options options = a->options;
    uint64_t n_failed = 0;

    for (uint64_t i = 0; i < a->n_seeds; i++) {
        sim_run(&options, &result);
        tally_add(tally);
        n_failed += !result.ok;
        if (!result.ok)
            printf("seed %llu violates: %s\n", ULL(options.seed),
                   result.violation);
        options.seed++;
    }
    return n_failed;
}

static bool run_until_one_fails(const struct arguments *a, struct tally *tally)
{
    struct sim_options options = a->options;

    for (uint64_t i = 0; i < a->n_seeds; i++) {
        if (!run(&options, tally))
            return false;
        options.seed++;
    }
    return true;
}

static int run_seeds(const struct arguments *a)
{
    struct tally tally = {0};
    const struct sim_options options = a->options;
    bool judged = !a->no_coverage && options.bug == BUG_none;

    uint64_t n_failed = a->keep_going ? run_all(a, &tally) : 0;

    if (!a->keep_going && !run_until_one_fails(a, &tally))
        return 1;
    tally_print(&tally);
    if (!judged || n_failed > 0)
        return n_failed > 0;
    return covers_all(&tally, options.large ? SIM_IN_LARGE : 0) ? 0 : 1;
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

/* ---- exhaustive ---------------------------------------------------------- */

/* The base schedule of a seed again and again; each time another worker (now
 * and then with the one after it) dies just before another event. */
static bool every_death(struct sim_options o, uint64_t n_events,
                        uint64_t n_workers, struct tally *tally)
{
    for (uint64_t k = 1; k <= n_events; k++) {
        for (uint64_t w = 1; w <= n_workers; w++) {
            o.kill_event = k;
            o.kill_worker = w;
            o.kill_worker_too = k % 4 == 3 ? 1 + w % n_workers : 0;
            if (!run(&o, tally))
                return false;
        }
    }
    return true;
}

/* The driver dies just before each event; its successor comes soon or later,
 * and lacks none or some of what was written down last. Alone, and with a death
 * at `pairs` moments around it. */
static bool every_succession(struct sim_options o, uint64_t n_events,
                             uint64_t n_workers, uint64_t pairs,
                             struct tally *tally)
{
    static const uint64_t lost[] = {0, 1, 4}, delays_us[] = {3000, 1300000};

    for (uint64_t k = 1; k <= n_events; k++) {
        for (size_t i = 0; i < 6; i++) {
            o.succeed_event = k;
            o.succeed_lost = lost[i % 3];
            o.succeed_us = delays_us[i / 3];
            o.kill_event = 0;
            if (!run(&o, tally))
                return false;
            for (uint64_t j = 1; j <= pairs; j++) {
                o.kill_event = k + j * j - 2 < n_events ? k + j * j - 2 : k;
                o.kill_worker = 1 + (k + i + j) % n_workers;
                if (!run(&o, tally))
                    return false;
            }
        }
    }
    return true;
}

static const struct {
    enum sim_meddle meddle;
    uint64_t us;
} meddles[] = {{MEDDLE_DROP, 0},
               {MEDDLE_DOUBLE, 0},
               {MEDDLE_DELAY, 2000},
               {MEDDLE_DELAY, 40000},
               {MEDDLE_DELAY, 1200000}};
enum { N_MEDDLES = sizeof(meddles) / sizeof(meddles[0]) };

/* Each message is lost, doubled or overtaken by others; alone, and with a death
 * at `pairs` later moments. */
static bool every_message(struct sim_options o, uint64_t n_events,
                          uint64_t n_workers, uint64_t pairs,
                          struct tally *tally)
{
    for (uint64_t k = 1; k <= n_events; k++) {
        for (size_t i = 0; i < N_MEDDLES; i++) {
            o.meddle = meddles[i].meddle;
            o.meddle_us = meddles[i].us;
            o.meddle_event = k;
            o.kill_event = 0;
            if (!run(&o, tally))
                return false;
            for (uint64_t j = 1; j <= pairs; j++) {
                o.kill_event = k + j * j;
                o.kill_worker = 1 + (k + i + j) % n_workers;
                if (!run(&o, tally))
                    return false;
            }
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
        uint64_t n_events, n_workers;

        options.kill_event = 0;
        if (!run(&options, &tally))
            return 1;
        n_events = result.n_events;
        n_workers = result.n_workers;
        if (!every_death(options, n_events, n_workers, &tally) ||
            !every_message(options, n_events, n_workers, a->pairs, &tally) ||
            !every_succession(options, n_events, n_workers, a->pairs, &tally))
            return 1;
        options.seed++;
    }
    tally_print(&tally);
    if (a->no_coverage)
        return 0;
    return covers_all(&tally, SIM_IN_EXHAUSTIVE) ? 0 : 1;
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
    OPT_NO_COVERAGE,
    OPT_KEEP_GOING,
    OPT_PAIRS,
    OPT_MEDDLE,
    OPT_MEDDLE_EVENT,
    OPT_MEDDLE_US,
    OPT_SUCCEED_EVENT,
    OPT_SUCCEED_LOST,
    OPT_SUCCEED_US
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
    {"keep-going", no_argument, NULL, OPT_KEEP_GOING},
    {"pairs", required_argument, NULL, OPT_PAIRS},
    {"meddle", required_argument, NULL, OPT_MEDDLE},
    {"meddle-event", required_argument, NULL, OPT_MEDDLE_EVENT},
    {"meddle-us", required_argument, NULL, OPT_MEDDLE_US},
    {"succeed-event", required_argument, NULL, OPT_SUCCEED_EVENT},
    {"succeed-lost", required_argument, NULL, OPT_SUCCEED_LOST},
    {"succeed-us", required_argument, NULL, OPT_SUCCEED_US},
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

static bool set_meddle(struct arguments *a, const char *text)
{
    uint64_t value;

    if (!number(text, &value))
        return false;
    a->options.meddle = (enum sim_meddle)value;
    return value <= MEDDLE_DELAY;
}

/* Where the number that follows an option goes; NULL: none follows. */
static uint64_t *number_of(struct arguments *a, int option)
{
    switch (option) {
    case OPT_SEEDS:
        return &a->n_seeds;
    case OPT_REPLAY:
    case OPT_FIRST:
        return &a->options.seed;
    case OPT_KILL_EVENT:
        return &a->options.kill_event;
    case OPT_KILL:
        return &a->options.kill_worker;
    case OPT_KILL_TOO:
        return &a->options.kill_worker_too;
    case OPT_PAIRS:
        return &a->pairs;
    case OPT_MEDDLE_EVENT:
        return &a->options.meddle_event;
    case OPT_MEDDLE_US:
        return &a->options.meddle_us;
    case OPT_SUCCEED_EVENT:
        return &a->options.succeed_event;
    case OPT_SUCCEED_LOST:
        return &a->options.succeed_lost;
    case OPT_SUCCEED_US:
        return &a->options.succeed_us;
    default:
        return NULL;
    }
}

static bool set(struct arguments *a, int option)
{
    uint64_t *value = number_of(a, option);

    a->replay |= option == OPT_REPLAY;
    a->exhaustive |= option == OPT_EXHAUSTIVE;
    a->bugs |= option == OPT_BUGS;
    a->options.base |= option == OPT_BASE;
    a->no_coverage |= option == OPT_NO_COVERAGE;
    a->keep_going |= option == OPT_KEEP_GOING;
    if (value)
        return number(optarg, value);
    if (option == OPT_SIZE)
        return set_size(a, optarg);
    if (option == OPT_BUG)
        return set_bug(a, optarg);
    if (option == OPT_MEDDLE)
        return set_meddle(a, optarg);
    return option != '?';
}

int main(int argc, char **argv)
{
    struct arguments a = {.n_seeds = 1, .pairs = 2};
    int option;

    /* runs take and free the same 50 MB again and again: keep them */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
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
